import type { CloneSet, CloneSetSpec, CloneSetStatus, RollingUpdate } from '../../api/cloneset/types.ts';
import type { ObjectMeta } from '../../api/core/meta.ts';
import type { Pod, PodCondition } from '../../api/core/pod.ts';
import type { PodTemplate } from '../../api/core/pod-template.ts';
import { type FeatureGate, parseFeatureGates } from '../../api/feature-gates.ts';
import type { LifecycleState } from '../../api/fleet/lifecycle.ts';
import { type ControllerRevision, newRevision, revisionLabels } from '../../api/fleet/revision.ts';
import type { InPlaceState } from '../../api/in-place/state.ts';
import { noWork } from '../../api/in-place/work.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { cloneSetPlanner } from '../../plan/cloneset/planner.ts';
import { cloneSetRevisions } from '../../plan/cloneset/revisions.ts';
import type { CloneSetScene } from '../../plan/cloneset/scene.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import type { Permit } from '../../plan/fleet/permit.ts';
import { sceneIn } from '../../plan/fleet/plan.ts';
import { type FleetPod, type Members, membersOf } from '../../plan/fleet/pods.ts';
import { chooseRevisions } from '../../plan/fleet/revisions.ts';
import { aPod } from './objects/pod.ts';
import { permitForAll } from './permits.ts';

export const now = '2026-11-21T06:13:44Z';
export const nowMs = Date.parse(now);
/** An hour ago. */
export const earlier = '2026-11-21T05:13:44Z';

export const setUid = 'set-uid';

/** A template with one image, and the given fields. */
export function template(image: string, spec: object = {}, metadata: object = {}): PodTemplate {
  return {
    metadata: { labels: { app: 'web' }, ...metadata },
    spec: { containers: [{ name: 'main', image }], ...spec },
  } as PodTemplate;
}

export const oldImage = 'nginx:1.0';
export const newImage = 'nginx:1.1';

export type SpecChange = Partial<Omit<CloneSetSpec, 'updateStrategy'>> & { readonly rollingUpdate?: RollingUpdate };

/** A set of 5 replicas at the new image, updated in place. */
export function cloneSet(
  { rollingUpdate, ...spec }: SpecChange = {},
  more: { readonly status?: Partial<CloneSetStatus>; readonly metadata?: Partial<ObjectMeta> } = {},
): CloneSet {
  const empty: CloneSetStatus = {
    replicas: 0,
    readyReplicas: 0,
    availableReplicas: 0,
    updatedReplicas: 0,
    updatedReadyReplicas: 0,
  };
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    metadata: {
      namespace: 'shop',
      name: 'web',
      uid: setUid,
      resourceVersion: '100',
      generation: 2,
      creationTimestamp: earlier,
      ...more.metadata,
    },
    spec: {
      replicas: 5,
      selector: { matchLabels: { app: 'web' } },
      template: template(newImage),
      scaleStrategy: { enablePVCReuse: true },
      ...spec,
      updateStrategy: {
        type: 'RollingUpdate',
        rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable: 1, ...rollingUpdate },
      },
    },
    ...(more.status && { status: { ...empty, ...more.status } }),
  };
}

/** The CloneSet with update type OnDelete. */
export function onDelete(set: CloneSet): CloneSet {
  return { ...set, spec: { ...set.spec, updateStrategy: { type: 'OnDelete' } } };
}

/** The revision of a template of this set, as the API server holds it. */
export function revisionOf(set: CloneSet, number: number, of: PodTemplate = set.spec.template): ControllerRevision {
  const revision = newRevision({ ...cloneSetRevisions.ownerOf(set), template: of }, number);
  const uid = `${revision.metadata.name}-uid`;
  return { ...revision, metadata: { ...revision.metadata, uid, resourceVersion: '1', creationTimestamp: earlier } };
}

export const oldRevision: ControllerRevision = revisionOf(cloneSet(), 1, template(oldImage));
export const newRevisionOfSet: ControllerRevision = revisionOf(cloneSet(), 2);
export const oldName: string = oldRevision.metadata.name;
export const newName: string = newRevisionOfSet.metadata.name;

export interface PodFacts {
  /** Name of the revision; the old one if absent. */
  readonly revision?: string;
  readonly image?: string;
  /** No label if absent. */
  readonly state?: LifecycleState;
  /** Ready for an hour if absent. */
  readonly ready?: boolean | string;
  readonly node?: string | null;
  readonly phase?: string;
  readonly specified?: boolean;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly restarts?: number;
  readonly created?: string;
  readonly deleting?: boolean;
  readonly owner?: string | null;
  readonly conditions?: readonly PodCondition[];
  readonly gates?: readonly string[];
}

/** A complete pod of the CloneSet, at the old revision. */
export function pod(name: string, facts: PodFacts = {}): Pod {
  const {
    revision = oldName,
    image = revision === newName ? newImage : oldImage,
    ready = true,
    node = 'node-1',
    owner = setUid,
    gates = ['InPlaceUpdateReady', 'KruisePodReady'],
  } = facts;
  const isReady = ready !== false;
  const readySince = typeof ready === 'string' ? ready : earlier;
  const status = (isTrue: boolean) => (isTrue ? 'True' : 'False');
  return aPod({
    metadata: {
      name,
      uid: `${name}-uid`,
      creationTimestamp: facts.created ?? earlier,
      ...(facts.deleting && { deletionTimestamp: now }),
      labels: {
        app: 'web',
        ...revisionLabels(revision, { CloneSetShortHash: false }),
        'apps.kruise.io/cloneset-instance-id': name.slice(-5),
        ...(facts.state && { 'lifecycle.apps.kruise.io/state': facts.state }),
        ...(facts.specified && { 'apps.kruise.io/specified-delete': 'true' }),
        ...facts.labels,
      },
      ...(facts.annotations && { annotations: facts.annotations }),
      ...(facts.finalizers && { finalizers: facts.finalizers }),
      ...(owner !== null && {
        ownerReferences: [
          { apiVersion: 'apps.kruise.io/v1alpha1', kind: 'CloneSet', name: 'web', uid: owner, controller: true },
        ],
      }),
    },
    spec: {
      ...(node !== null && { nodeName: node }),
      readinessGates: gates.map((conditionType) => ({ conditionType })),
      containers: [{ name: 'main', image }],
    },
    status: {
      phase: facts.phase ?? 'Running',
      conditions: facts.conditions ?? [
        ...gates.map((type) => ({ type, status: 'True', lastTransitionTime: earlier })),
        { type: 'ContainersReady', status: status(isReady), lastTransitionTime: readySince },
        { type: 'Ready', status: status(isReady), lastTransitionTime: readySince },
      ],
      containerStatuses: [
        {
          name: 'main',
          ready: isReady,
          restartCount: facts.restarts ?? 0,
          containerID: `containerd://${name}-main`,
          image: `docker.io/library/${image}`,
          imageID: `docker.io/library/${image}@sha256:0`,
        },
      ],
    },
  });
}

/** A pod of the new revision. */
export function newPodOf(name: string, facts: PodFacts = {}): Pod {
  return pod(name, { revision: newName, ...facts });
}

/** Pods `a1`, `a2`, … */
export function pods(prefix: string, count: number, facts: PodFacts = {}): readonly Pod[] {
  return Array.from({ length: count }, (_, index) => pod(`web-${prefix}${index + 1}`, facts));
}

export interface WorldFacts {
  readonly set?: CloneSet;
  readonly pods?: readonly Pod[];
  readonly claims?: readonly VolumeClaim[];
  readonly revisions?: readonly ControllerRevision[];
  readonly gates?: readonly FeatureGate[];
  readonly permit?: Partial<Permit>;
  readonly more?: Partial<CloneSetInput>;
}

/** A planner input in which the old revision is the current one. */
export function world(facts: WorldFacts = {}): CloneSetInput {
  const set = facts.set ?? cloneSet();
  const gates = { ...parseFeatureGates() };
  for (const gate of facts.gates ?? []) gates[gate] = true;
  const revisions = facts.revisions ?? [oldRevision, revisionOf(set, 2)];
  const status = set.status ?? cloneSet({}, { status: { currentRevision: oldName } }).status;
  return {
    owner: status === undefined ? set : { ...set, status },
    pods: facts.pods ?? [],
    claims: facts.claims ?? [],
    revisions,
    nodes: new Map(),
    gates,
    hasResizeSubresource: true,
    excludePreparingDelete: false,
    nowMs,
    ...(facts.permit && { permit: permit(facts.permit) }),
    isSpent: () => false,
    ...facts.more,
  };
}

/** A permit that names every pod, for the new revision. */
export function permit(change: Partial<Permit> = {}): Permit {
  return { ...permitForAll(newName), ...change };
}

/** An operator has paused the roll-out to the new revision, which is not written into the set yet. */
export const heldByOperator: Pick<CloneSetInput, 'held'> = {
  held: { orders: { version: 1, revision: newName, paused: { by: 'ann', at: now } } },
};

/** The scene of this input. */
export function scene(given: CloneSetInput): CloneSetScene {
  const found = sceneIn(cloneSetPlanner, given);
  if (found === undefined) throw new Error('nothing to look at');
  return found;
}

/** The revisions of a CloneSet. */
export function revisionsFor(given: Pick<CloneSetInput, 'owner' | 'revisions'>) {
  return chooseRevisions(cloneSetRevisions, given);
}

/** The pods around a CloneSet; undefined when its selector is malformed. */
export function membersFor(given: Pick<CloneSetInput, 'owner' | 'pods' | 'nowMs'>): Members | undefined {
  return membersOf(given.owner, cloneSetPlanner.membership(given), given);
}

/** These pods as the planner sees them. */
export function fleet(...given: readonly Pod[]): readonly FleetPod[] {
  return membersFor(world({ pods: given }))?.counted ?? [];
}

/** A PVC of the CloneSet. */
export function claim(template: string, instanceId: string, change: Partial<ObjectMeta> = {}): VolumeClaim {
  const name = `${template}-web-${instanceId}`;
  return {
    metadata: {
      namespace: 'shop',
      name,
      uid: `${name}-uid`,
      resourceVersion: '1',
      creationTimestamp: earlier,
      labels: { app: 'web', 'apps.kruise.io/cloneset-instance-id': instanceId },
      ownerReferences: [
        { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: setUid, controller: true },
      ],
      ...change,
    },
  };
}

/** The in-place record of a pod whose image is being updated to the new revision. */
export function imageUpdate(change: Partial<InPlaceState> = {}): InPlaceState {
  return {
    revision: newName,
    updateTimestamp: earlier,
    updateEnvFromMetadata: false,
    updateResources: false,
    updateImages: true,
    next: noWork,
    requiredReady: [],
    batches: [],
    ...change,
  };
}
