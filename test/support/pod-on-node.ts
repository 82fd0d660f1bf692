import { containerHashAnnotation, criLabel, type RuntimeContainer } from '../../activities/cri/runtime.ts';
import type { JsonObject } from '../../api/base/json.ts';
import type { Pod, PodCondition } from '../../api/core/pod.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { plainHash } from '../../api/in-place/containers-meta.ts';
import { hasSwapped, isOpeningDue, openingPatch } from '../../daemon/in-place-gate/opening.ts';
import { trimPod } from '../../daemon/pod-view.ts';

/** A possible step of a node for a pod: what it writes, given the pod at that time. */
export interface NodeStep {
  readonly what: string;
  readonly take: (live: Pod, nowMs: number) => JsonObject | undefined;
}

interface Instance {
  readonly id: string;
  readonly image: string;
  readonly restartCount: number;
}

/** A container was stopped in a pod to which Services still send requests. */
export class StoppedInService extends Error {}

/**
 * The state of a node for a pod with one container: the runtime, the syncs of the kubelet, and the daemon.
 *
 * A sync of the kubelet reports the runtime's state before the sync, and then replaces the container if the spec that
 * the kubelet knows has another image. The next sync reports the replacement.
 */
export class PodOnNode {
  isCrashed = false;
  #instance: Instance | undefined;
  /** The pod of the last sync. */
  #seen: Pod | undefined;
  /** The pod that the daemon is about to put into service. */
  #opening: Pod | undefined;

  steps(pod: Pod, hasDaemon: boolean): readonly NodeStep[] {
    const steps: NodeStep[] = [];
    if (this.#isPassDue(pod)) {
      steps.push({ what: 'is looked at by its kubelet', take: (live, nowMs) => this.#pass(live, nowMs) });
    }
    const seen = this.#seen;
    if (seen && seen.metadata.generation !== pod.metadata.generation && this.#isSwapDue(seen)) {
      steps.push({ what: 'is looked at by a kubelet that is behind', take: () => this.#swap(seen) });
    }
    if (!hasDaemon) return steps;

    const looked = trimPod(pod, { DaemonWatchingPod: true });
    if (isOpeningDue(looked) && hasSwapped(looked, this.#containers())) {
      const take = () => {
        this.#opening = looked;
        return undefined;
      };
      steps.push({ what: 'is looked at by its daemon', take });
    }
    const opening = this.#opening;
    if (opening) {
      const take = ({ metadata: { resourceVersion } }: Pod, nowMs: number) => {
        this.#opening = undefined;
        if (resourceVersion !== opening.metadata.resourceVersion) return undefined;
        const { metadata: _, ...patch } = openingPatch(opening, nowMs);
        return patch;
      };
      steps.push({ what: 'is put into service by its daemon', take });
    }
    return steps;
  }

  #isPassDue(pod: Pod): boolean {
    return this.#isSwapDue(pod) || this.#news(pod, '') !== undefined;
  }

  #isSwapDue({ spec }: Pod): boolean {
    return this.#instance?.image !== spec.containers[0]?.image;
  }

  #pass(pod: Pod, nowMs: number): JsonObject | undefined {
    const news = this.#news(pod, new Date(nowMs).toISOString().replace(/\.\d+Z$/, 'Z'));
    this.#swap(pod);
    return news;
  }

  #swap(pod: Pod): undefined {
    this.#seen = pod;
    if (!this.#isSwapDue(pod)) return undefined;
    const before = this.#instance;
    if (before && conditionOf(pod, inPlaceReadinessGate)?.status === 'True') {
      throw new StoppedInService(`${pod.metadata.name} is in service when its container is stopped`);
    }
    const restartCount = before === undefined ? 0 : before.restartCount + 1;
    const image = pod.spec.containers[0]?.image ?? '';
    this.#instance = { id: `${pod.metadata.name}-${restartCount}`, image, restartCount };
    return undefined;
  }

  /** The status that a sync for this pod would write; undefined if it is up to date. */
  #news(pod: Pod, now: string): JsonObject | undefined {
    const { metadata, spec, status } = pod;
    const ready = this.#instance !== undefined && !this.isCrashed;
    const gates = (spec.readinessGates ?? []).every(
      ({ conditionType }) => conditionOf(pod, conditionType)?.status === 'True',
    );
    const wanted = { ContainersReady: ready, Ready: ready && gates };
    const conditions = Object.entries(wanted).flatMap(([type, isTrue]) => {
      const is = isTrue ? 'True' : 'False';
      const before = conditionOf(pod, type);
      // what the controller has written of Ready has no time (IPU-21)
      const isReported = before?.status === is && before.lastTransitionTime;
      return isReported ? [] : [{ type, status: is, lastTransitionTime: now }];
    });
    const told = status?.containerStatuses?.[0];
    const isTold = told?.containerID === this.#statusOfInstance()?.containerID && told?.ready === ready;
    const containers = this.#instance === undefined || isTold ? [] : [{ ...this.#statusOfInstance(), ready }];
    const isObserved = status?.observedGeneration === metadata.generation;
    if (conditions.length + containers.length === 0 && isObserved) return undefined;
    return {
      status: {
        phase: this.#instance === undefined ? 'Pending' : 'Running',
        ...(metadata.generation !== undefined && { observedGeneration: metadata.generation }),
        ...(conditions.length > 0 && { conditions }),
        ...(containers.length > 0 && { containerStatuses: containers }),
      },
    };
  }

  #statusOfInstance() {
    if (this.#instance === undefined) return undefined;
    const { id, image, restartCount } = this.#instance;
    return { name: 'main', image, imageID: `id-of-${image}`, containerID: `containerd://${id}`, restartCount };
  }

  #containers(): readonly RuntimeContainer[] {
    if (this.#instance === undefined) return [];
    const { id, image, restartCount } = this.#instance;
    return [
      {
        id,
        sandboxId: 'sandbox',
        state: this.isCrashed ? 'exited' : 'running',
        createdAtNs: BigInt(restartCount),
        labels: { [criLabel.containerName]: 'main' },
        annotations: { [containerHashAnnotation]: plainHash({ name: 'main', image }).toString(16) },
      },
    ];
  }
}

function conditionOf({ status }: Pod, wanted: string): PodCondition | undefined {
  return status?.conditions?.find(({ type }) => type === wanted);
}
