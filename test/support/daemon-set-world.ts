/** A DaemonSet `agent` of namespace `shop` that goes from its first to its second revision, with its nodes and pods. */
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { Node, Taint } from '../../api/core/node.ts';
import { nodeOf, type Pod } from '../../api/core/pod.ts';
import type { DaemonSet, DaemonSetRollingUpdate, DaemonSetSpec } from '../../api/daemon-set/types.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type ControllerRevision, newRevision, shortHash } from '../../api/fleet/revision.ts';
import type { DaemonSetInput } from '../../plan/daemon-set/input.ts';
import { daemonSetWorkloads } from '../../plan/daemon-set/planner.ts';
import { daemonSetRevisions } from '../../plan/daemon-set/revisions.ts';
import { strategicMerge } from './fake-api/strategic-merge.ts';
import { aNode } from './objects/node.ts';
import { aPod } from './objects/pod.ts';
import { permitForAll } from './permits.ts';

const selector = { matchLabels: { app: 'agent' } };
export const template = (image: string, spec: JsonObject = {}) => ({
  metadata: { labels: selector.matchLabels },
  spec: { containers: [{ name: 'main', image }], ...spec },
});
export const [uid, now, earlier] = ['set-uid', '2026-01-01T00:10:00Z', '2026-01-01T00:00:00Z'];
const counts = { desiredNumberScheduled: 0, currentNumberScheduled: 0, numberMisscheduled: 0 };
export const noStatus = { ...counts, numberReady: 0, updatedNumberScheduled: 0 };

export function set(
  rollingUpdate: DaemonSetRollingUpdate = {},
  spec: Partial<DaemonSetSpec> = {},
  annotations: Readonly<Record<string, string>> = {},
): DaemonSet {
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'DaemonSet',
    metadata: {
      ...{ namespace: 'shop', name: 'agent', uid, resourceVersion: '1', creationTimestamp: '', generation: 2 },
      annotations,
    },
    spec: { selector, template: template('app:2'), updateStrategy: { type: 'RollingUpdate', rollingUpdate }, ...spec },
    status: noStatus,
  };
}

export function revision(image: string, number: number): ControllerRevision {
  return revisionOf(set({}, { template: template(image) }), number);
}

/** The revision of its template. */
export function revisionOf(owner: DaemonSet, number: number): ControllerRevision {
  const made = newRevision(daemonSetRevisions.ownerOf(owner), number);
  const { name } = made.metadata;
  return { ...made, metadata: { ...made.metadata, uid: name, resourceVersion: '1', creationTimestamp: '' } };
}

export const [old, fresh] = [revision('app:1', 1), revision('app:2', 2)];

export function node(
  name: string,
  {
    labels = {},
    taints = [],
  }: { readonly labels?: Readonly<Record<string, string>>; readonly taints?: readonly Taint[] } = {},
): Node {
  return { ...aNode({ metadata: { name, labels } }), spec: { taints } };
}

/** Nodes `n1`, `n2`, … */
export const nodes = (count: number) => Array.from({ length: count }, (_, index) => node(`n${index + 1}`));

export interface PodState {
  readonly of?: ControllerRevision;
  readonly going?: boolean;
  /** False, or since when. */
  readonly ready?: boolean | string;
  readonly phase?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly created?: string;
  readonly finalizers?: readonly string[];
  /** Only its affinity says where it is to be. */
  readonly isUnscheduled?: boolean;
  readonly gates?: readonly string[];
  readonly apiVersion?: string;
  /** The end of its name. */
  readonly suffix?: string;
}

/** A pod of this node. */
export function pod(nodeName: string, state: PodState = {}): Pod {
  const { of = old, ready = true, phase = 'Running', suffix = 'a', created = earlier } = state;
  const { gates = ['InPlaceUpdateReady', 'KruisePodReady'], apiVersion = 'apps.kruise.io/v1beta1' } = state;
  const name = `agent-${nodeName}-${suffix}`;
  const since = typeof ready === 'string' ? ready : earlier;
  const image = of === old ? 'app:1' : 'app:2';
  const types = [...gates, 'ContainersReady', 'Ready'];
  return aPod({
    metadata: {
      name,
      uid: `${name}-uid`,
      creationTimestamp: created,
      labels: { app: 'agent', 'controller-revision-hash': shortHash(of.metadata.name), ...state.labels },
      ownerReferences: [{ apiVersion, kind: 'DaemonSet', name: 'agent', uid, controller: true }],
      ...(state.finalizers && { finalizers: state.finalizers }),
      ...(state.going && { deletionTimestamp: now }),
    },
    spec: {
      ...(state.isUnscheduled ? { affinity: onNode(nodeName) } : { nodeName }),
      readinessGates: gates.map((conditionType) => ({ conditionType })),
      containers: [{ name: 'main', image }],
    },
    status: {
      phase,
      conditions: types.map((type) => ({
        ...{ type, lastTransitionTime: since },
        status: ready === false && type === 'Ready' ? 'False' : 'True',
      })),
      containerStatuses: [running(image)],
    },
  });
}

const running = (image: string) => ({
  ...{ name: 'main', ready: true, restartCount: 0, containerID: `containerd://${image}` },
  ...{ image, imageID: `${image}@sha256:0`, state: { running: { startedAt: earlier } } },
});

function onNode(name: string): NonNullable<Pod['spec']['affinity']> {
  const matchFields = [{ key: 'metadata.name', operator: 'In', values: [name] }];
  return {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] } },
  };
}

/** One on each of the first nodes. */
export const pods = (count: number, state?: PodState) =>
  Array.from({ length: count }, (_, index) => pod(`n${index + 1}`, state));

export const permit = permitForAll(fresh.metadata.name);

/** Its newest revision is that of its template. */
export function input(owner: DaemonSet, more: Partial<DaemonSetInput> = {}): DaemonSetInput {
  const revisions = [old, revisionOf(owner, 2)];
  return {
    ...{ owner, pods: [], nodes: [], claims: [], revisions, gates: parseFeatureGates() },
    ...{ hasResizeSubresource: true, nowMs: Date.parse(now), isSpent: () => false },
    ...more,
  };
}

/** Nodes with kubelets, and the planner that is asked again after each second. Pods start, stop and change within one. */
export class PlayedNodes {
  owner: DaemonSet;
  nodes: readonly Node[];
  /** Images with which pods do not become ready. */
  readonly broken = new Set<string>();
  /** How many pods each pass has begun to disrupt. */
  readonly begun: number[] = [];
  revisions: readonly ControllerRevision[] = [old, fresh];
  nowMs = Date.parse(now);
  more: Partial<DaemonSetInput> = {};
  readonly #pods = new Map<string, Pod>();

  constructor(owner: DaemonSet, given: { readonly nodes: readonly Node[]; readonly pods?: readonly Pod[] }) {
    this.owner = owner;
    this.nodes = given.nodes;
    for (const one of given.pods ?? []) this.put(one);
  }

  get pods(): readonly Pod[] {
    return [...this.#pods.values()];
  }

  put(one: Pod): void {
    this.#pods.set(one.metadata.name, one);
  }

  at(nodeName: string): readonly Pod[] {
    return this.pods.filter((one) => nodeOf(one) === nodeName);
  }

  isReady(one: Pod): boolean {
    return one.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
  }

  /** Ready for minReadySeconds, and not being deleted. */
  isAvailable(one: Pod): boolean {
    const ready = one.status?.conditions?.find(({ type }) => type === 'Ready');
    const leastMs = (this.owner.spec.minReadySeconds ?? 0) * 1000;
    const isOld = this.nowMs > Date.parse(ready?.lastTransitionTime ?? '') + leastMs || leastMs === 0;
    return ready?.status === 'True' && isOld && one.metadata.deletionTimestamp === undefined;
  }

  /** Passes until nothing changes any more, at most so many. Each ends with what is to hold then. */
  play(most: number, check: () => void = () => undefined): this {
    for (let quiet = 0, pass = 0; pass < most && quiet < 3 + (this.owner.spec.minReadySeconds ?? 0); pass++) {
      const hasActed = this.pass();
      check();
      const hasMoved = this.tick();
      check();
      quiet = hasActed || hasMoved ? 0 : quiet + 1;
    }
    return this;
  }

  /** One look, and what follows from it at once. */
  pass(): boolean {
    const { owner, nodes: all, pods: there, revisions, nowMs } = this;
    const isSpent = () => false;
    const facts = {
      pods: there,
      nodes: all,
      revisions,
      nowMs,
      isSpent,
      permit,
      ...this.more,
    };
    const plan = daemonSetWorkloads.plan(input(owner, facts));
    if (plan.status) this.owner = { ...owner, status: plan.status };
    this.begun.push(plan.disruption.length);
    const steps = [...plan.upkeep, ...plan.disruption];
    return steps.filter((step) => this.#take(step)).length > 0;
  }

  #take(step: ReturnType<typeof daemonSetWorkloads.plan>['upkeep'][number]): boolean {
    switch (step.kind) {
      case 'createPod': {
        const body = step.pod as unknown as Pod;
        if (this.#pods.has(step.name)) return false;
        const metadata = { ...body.metadata, uid: `${step.name}-${this.nowMs}`, resourceVersion: '1' };
        this.put({
          ...body,
          metadata: { ...metadata, creationTimestamp: timestamp(this.nowMs) },
          status: { phase: 'Pending' },
        });
        return true;
      }
      case 'deletePod':
        return this.#change(step.pod.name, deletedAt(this.nowMs));
      case 'recreatePod':
        return this.#change(step.pod.name, step.mark?.write.patch ?? deletedAt(this.nowMs));
      case 'writePod':
      case 'updatePod':
        if ('drain' in step && step.drain) this.#change(step.pod.name, step.drain.patch);
        for (const { patch } of step.writes) this.#change(step.pod.name, patch);
        return true;
      default:
        return false;
    }
  }

  #change(name: string, patch: JsonObject): boolean {
    const before = this.#pods.get(name);
    if (before) this.put(strategicMerge(before as unknown as JsonObject, patch) as unknown as Pod);
    return before !== undefined;
  }

  /** A second on every node. Returns whether a pod has changed. */
  tick(): boolean {
    this.nowMs += 1000;
    return this.pods.filter((one) => this.#move(one)).length > 0;
  }

  #move(one: Pod): boolean {
    const { name, deletionTimestamp, finalizers = [] } = one.metadata;
    if (deletionTimestamp !== undefined) {
      return finalizers.length === 0 && this.#pods.delete(name);
    }
    if (one.status?.phase === 'Failed') return false;
    const [container] = one.spec.containers;
    const image = container?.image ?? '';
    const conditions = one.status?.conditions ?? [];
    const isTrue = (wanted: string) => conditions.some(({ type, status }) => type === wanted && status === 'True');
    const areGatesOpen = (one.spec.readinessGates ?? []).every(({ conditionType }) => isTrue(conditionType));
    const isUp = !this.broken.has(image);
    const wanted = isUp && areGatesOpen ? 'True' : 'False';
    const isSame =
      one.spec.nodeName !== undefined &&
      conditions.some(({ type, status }) => type === 'Ready' && status === wanted) &&
      one.status?.containerStatuses?.[0]?.image === image;
    if (isSame) return false;
    const at = timestamp(this.nowMs);
    const of = (type: string, status: string) => {
      const before = conditions.find((condition) => condition.type === type);
      return { type, status, lastTransitionTime: before?.status === status ? (before.lastTransitionTime ?? at) : at };
    };
    this.put({
      ...one,
      spec: { ...one.spec, nodeName: nodeOf(one) ?? '' },
      status: {
        phase: 'Running',
        conditions: [
          ...conditions.filter(({ type }) => type !== 'Ready' && type !== 'ContainersReady'),
          ...[of('ContainersReady', isUp ? 'True' : 'False'), of('Ready', wanted)],
        ],
        containerStatuses: [{ ...running(image), ready: isUp }],
      },
    });
    return true;
  }
}

const deletedAt = (atMs: number) => ({ metadata: { deletionTimestamp: timestamp(atMs) } });

/** The names of the volumes, tolerations and so on of a pod that is to be created. */
export const listIn = (podBody: JsonObject, field: string) => listOr(objectOr(podBody.spec)[field]).map(objectOr);
