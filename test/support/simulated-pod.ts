import { isJsonObject, type JsonObject } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { Container, ContainerStatus, Pod, PodCondition, ResourceRequirements } from '../../api/core/pod.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import { type ContainerMeta, formatContainersMeta, plainHash } from '../../api/in-place/containers-meta.ts';
import { expectedEnvHash } from '../../api/in-place/env-hash.ts';
import { staleContainers } from '../../plan/fleet/in-place/completion.ts';
import type { PodWrite } from '../../plan/fleet/in-place/update.ts';
import { strategicMerge } from './fake-api/strategic-merge.ts';

/** One running instance of a container: what it was started with, even if the pod has changed. */
export interface Instance {
  readonly containerID: string;
  readonly restartCount: number;
  readonly image: string;
  readonly envHash: number;
  readonly plainHash: number;
  readonly ready: boolean;
  readonly resources: ResourceRequirements;
}

/** Thrown when a write comes with a version that is not the newest. */
export class ConflictError extends Error {}

/**
 * One pod between an API server, a kubelet and a daemon that all lag behind: the running containers, the kubelet's
 * status and the daemon's report are three states, each updated by a step of its own.
 */
export class SimulatedPod {
  pod: Pod;
  nowMs: number;
  readonly instances = new Map<string, Instance>();
  #version = 1;
  #instanceCount = 0;

  constructor(pod: Pod, nowMs: number) {
    this.pod = { ...pod, metadata: { generation: 1, ...pod.metadata } };
    this.nowMs = nowMs;
    for (const container of pod.spec.containers) this.#start(container, 0);
    for (const { name } of pod.spec.containers) this.becomeReady(name);
    this.postStatus();
  }

  /** The pod as read now; later writes do not change it. */
  get snapshot(): Pod {
    return structuredClone(this.pod);
  }

  /** Applies one write to the version that it was computed from. */
  write(write: PodWrite, resourceVersion: string): Pod {
    if (resourceVersion !== this.pod.metadata.resourceVersion) throw new ConflictError(resourceVersion);
    const allowed = { pod: ['metadata', 'spec'], status: ['status'], resize: ['spec'] }[write.kind];
    const strange = Object.keys(write.patch).filter((key) => !allowed.includes(key));
    if (strange.length > 0) throw new Error(`a write of ${write.kind} cannot change ${strange.join()}`);
    this.#store(strategicMerge(asJson(this.pod), write.patch));
    return this.pod;
  }

  /** The kubelet replaces the instance whose image differs from the spec; the status is not updated yet. */
  swapImage(name: string): boolean {
    const container = this.#container(name);
    const before = this.#instance(name);
    if (before.image === container.image) return false;
    this.#start(container, before.restartCount + 1);
    return true;
  }

  /** The instance crashes, and the kubelet starts the next one. */
  crash(name: string): void {
    this.#start(this.#container(name), this.#instance(name).restartCount + 1);
  }

  becomeReady(name: string): boolean {
    const instance = this.#instance(name);
    this.instances.set(name, { ...instance, ready: true });
    return !instance.ready;
  }

  /** The kubelet resizes the instance to the spec. */
  resize(name: string): boolean {
    const { resources = {} } = this.#container(name);
    const instance = this.#instance(name);
    this.instances.set(name, { ...instance, resources });
    return JSON.stringify(instance.resources) !== JSON.stringify(resources);
  }

  /** The kubelet writes the status, and derives the readiness of the pod from it and the gates. */
  postStatus(): boolean {
    const containerStatuses = this.pod.spec.containers.map(({ name }): ContainerStatus => {
      const { containerID, restartCount, image, ready, resources } = this.#instance(name);
      const state = { running: {} };
      return { name, containerID, restartCount, ready, image, imageID: `id-of-${image}`, resources, state };
    });
    const isReady = containerStatuses.every(({ ready }) => ready);
    const gates = this.pod.spec.readinessGates ?? [];
    const open = gates.every(({ conditionType }) => this.condition(conditionType)?.status === 'True');
    let conditions = this.pod.status?.conditions ?? [];
    conditions = this.#withStatus(conditions, 'ContainersReady', isReady);
    conditions = this.#withStatus(conditions, 'Ready', isReady && open);
    const observedGeneration = this.pod.metadata.generation;
    return this.#store({
      ...asJson(this.pod),
      status: asJson({ phase: 'Running', observedGeneration, conditions, containerStatuses }),
    });
  }

  /** The daemon writes its report. */
  report(): boolean {
    const meta = this.pod.spec.containers.map(({ name }): ContainerMeta => {
      const { containerID, restartCount, plainHash, envHash } = this.#instance(name);
      return { name, containerID, restartCount, plainHash, envHash };
    });
    const annotations = { [inPlaceAnnotation.containersMeta]: formatContainersMeta(meta) };
    return this.#store(strategicMerge(asJson(this.pod), { metadata: { annotations } }));
  }

  /** An instance that was started with other metadata is stopped, if the pod still reports it. */
  refreshEnvironment(name: string): boolean {
    const stale = staleContainers(this.pod).find((candidate) => candidate.name === name);
    const isDue = stale?.containerID === this.#instance(name).containerID;
    if (isDue) this.crash(name);
    return isDue;
  }

  condition(type: string): PodCondition | undefined {
    return this.pod.status?.conditions?.find((condition) => condition.type === type);
  }

  #container(name: string): Container {
    const container = this.pod.spec.containers.find((candidate) => candidate.name === name);
    if (container === undefined) throw new Error(`the pod has no container "${name}"`);
    return container;
  }

  #instance(name: string): Instance {
    const instance = this.instances.get(name);
    if (instance === undefined) throw new Error(`container "${name}" does not run`);
    return instance;
  }

  #start(container: Container, restartCount: number): void {
    const { name, image = '', resources = {} } = container;
    this.#instanceCount++;
    this.instances.set(name, {
      containerID: `containerd://${name}-${this.#instanceCount}`,
      restartCount,
      image,
      envHash: expectedEnvHash(container, this.pod.metadata),
      plainHash: plainHash(container),
      ready: false,
      resources,
    });
  }

  #withStatus(conditions: readonly PodCondition[], type: string, isTrue: boolean): readonly PodCondition[] {
    const status = isTrue ? 'True' : 'False';
    const before = conditions.find((condition) => condition.type === type);
    // what the controller has written of Ready has no time (IPU-21)
    if (before?.status === status && before.lastTransitionTime) return conditions;
    const others = conditions.filter((condition) => condition !== before);
    return [...others, { type, status, lastTransitionTime: timestamp(this.nowMs) }];
  }

  /** Returns whether anything has changed; only then, as in an API server, there is a new version. */
  #store(next: JsonObject): boolean {
    if (JSON.stringify(next) === JSON.stringify(this.pod)) return false;
    this.#version++;
    const stored = asPod(next);
    const { generation = 1 } = this.pod.metadata;
    const isChanged = JSON.stringify(stored.spec) !== JSON.stringify(this.pod.spec);
    const versions = { generation: isChanged ? generation + 1 : generation, resourceVersion: String(this.#version) };
    this.pod = { ...stored, metadata: { ...stored.metadata, ...versions } };
    return true;
  }
}

function asJson(value: object): JsonObject {
  const json: unknown = JSON.parse(JSON.stringify(value));
  return isJsonObject(json) ? json : {};
}

function asPod(json: JsonObject): Pod {
  return json as unknown as Pod;
}
