import { entryOf, isJsonList, isJsonObject, type Json, type JsonObject, objectOr } from '../api/base/json.ts';
import { diffJson, formatPath } from '../api/base/json-diff.ts';
import type { DeletedReason, KeptReason, Play, PlayedPod } from '../plan/fleet/play.ts';
import type { UpdateStrategy } from '../plan/fleet/scene.ts';
import { describeCause } from '../plan/fleet/waits.ts';
import type { Workload } from '../plan/fleet/workload.ts';
import { asksForNothing, waitLine } from './output/wait-line.ts';

/** A field that would change. */
export interface FieldChange {
  readonly path: string;
  /** Absent: the field is new. */
  readonly from?: Json;
  /** Absent: the field is removed. */
  readonly to?: Json;
}

export type PodAction = 'create' | 'delete' | 'inPlace' | 'recreate' | 'impossible' | 'kept';

/** What would happen to a pod, or to several pods that have no name yet. */
export interface PodPlan {
  /** Absent: pods to be created. */
  readonly pod?: string;
  /** How many; absent: one. */
  readonly count?: number;
  readonly action: PodAction;
  /** Its batch, from 1; absent for pods that are in no batch. */
  readonly batch?: number;
  /** For an update in place: the containers that change, batch by batch of launch priorities. */
  readonly containers?: readonly (readonly string[])[];
  /** The field that forces the action, where one does. */
  readonly field?: string;
  /** From a closed list: why this action was chosen. */
  readonly reason: string;
  /** The reason for people. */
  readonly why: string;
}

/** What applying a manifest would do to pods. */
export interface SetPlan {
  readonly kind: string;
  /** Empty: the object has none, and names of pods have theirs. */
  readonly namespace: string;
  readonly name: string;
  readonly exists: boolean;
  /** Changes of the spec in v1beta1, with defaults. Empty for a new object. */
  readonly changes: readonly FieldChange[];
  readonly revision: { readonly from: string; readonly to: string };
  readonly paused: boolean;
  /** How many pods may be updated at the same time. */
  readonly batchSize: number;
  readonly summary: Readonly<Record<PodAction, number>>;
  /** Names of pods, first batch first. */
  readonly batches: readonly (readonly string[])[];
  readonly pods: readonly PodPlan[];
  readonly notes: readonly string[];
}

/** Combines the parts of a plan. */
export function setPlan(given: {
  readonly kind: string;
  readonly owner: Workload;
  /** In v1beta1; absent: it does not exist yet. */
  readonly before: JsonObject | undefined;
  readonly play: Play;
  readonly strategy: UpdateStrategy;
  readonly notes: readonly string[];
}): SetPlan {
  const { kind, owner, before, play, strategy } = given;
  const pods = [...scaled(play), ...play.updated.map((pod) => updated(pod, play))];
  const { namespace = '', name } = owner.metadata;
  return {
    kind,
    namespace,
    name,
    exists: before !== undefined,
    changes: before === undefined ? [] : specChanges(before, owner),
    revision: { from: play.currentRevision, to: play.revision },
    paused: strategy.isPaused,
    batchSize: play.atOnce,
    summary: summaryOf(pods),
    batches: batchesOf(pods),
    pods,
    notes: [...pace(given, pods), ...given.notes],
  };
}

/** How many pods each action is about. */
export function summaryOf(pods: readonly PodPlan[]): SetPlan['summary'] {
  const count = (action: PodAction) =>
    pods.filter((pod) => pod.action === action).reduce((sum, pod) => sum + (pod.count ?? 1), 0);
  return {
    create: count('create'),
    delete: count('delete'),
    inPlace: count('inPlace'),
    recreate: count('recreate'),
    impossible: count('impossible'),
    kept: count('kept'),
  };
}

function scaled({ created, deleted }: Play): readonly PodPlan[] {
  return [
    ...created.map(
      ({ revision, count }): PodPlan => ({
        count,
        action: 'create',
        reason: 'Missing',
        why: `of revision ${revision}`,
      }),
    ),
    ...deleted.map(
      ({ pod, because }): PodPlan => ({ pod, action: 'delete', reason: because, why: deletedTexts[because] }),
    ),
  ];
}

/** Why a pod is deleted, for people. */
export const deletedTexts = {
  Named: 'marked to be deleted, in the spec or by its label',
  Surplus: 'more pods than replicas',
  Leaving: 'already held by the hook preDelete',
  Finished: 'it has ended, and another one is created',
} as const satisfies Record<DeletedReason, string>;

function updated({ pod, path, batch: number }: PlayedPod, { revision }: Play): PodPlan {
  const batch = number === undefined ? {} : { batch: number };
  switch (path.kind) {
    case 'kept':
      return { pod, action: 'kept', reason: path.because, why: keptText(path.because, revision) };
    case 'expand': {
      const why = `the pod goes on running; expanded: ${path.claims.join(', ')}`;
      return { pod, action: 'inPlace', ...batch, containers: [], reason: 'VolumesExpand', why };
    }
    case 'inPlace':
      return { pod, action: 'inPlace', ...batch, containers: path.containers, ...inPlaceReason(path.containers) };
    case 'recreate':
    case 'impossible': {
      const { path: field, reason } = path.because;
      const named = field === '' ? {} : { field };
      return { pod, action: path.kind, ...batch, ...named, reason, why: describeCause(path.because) };
    }
  }
}

function inPlaceReason(containers: readonly (readonly string[])[]): { readonly reason: string; readonly why: string } {
  if (containers.length === 0) return { reason: 'MetadataChanges', why: 'labels and annotations only' };
  return {
    reason: 'ContainersChange',
    why: `containers ${containers.map((batch) => batch.join(', ')).join(', then ')}`,
  };
}

function keptText(because: KeptReason, revision: string): string {
  switch (because) {
    case 'Arrived':
      return `already of revision ${revision}`;
    case 'Partition':
      return 'kept by the partition';
    case 'NotSelected':
      return 'updateStrategy.rollingUpdate.selector does not select its node';
    case 'OnDelete':
      return 'type OnDelete: updated when you delete it';
    case 'Skipped':
      return 'an operator leaves it out';
    case 'UnderWay':
      return 'an earlier change is finished first';
  }
}

/** Names of pods by batch, first batch first. */
export function batchesOf(pods: readonly PodPlan[]): readonly (readonly string[])[] {
  const byBatch = Map.groupBy(
    pods.filter(({ pod, batch }) => pod !== undefined && batch !== undefined),
    ({ batch = 0 }) => batch,
  );
  const last = [...byBatch.keys()].reduce((most, batch) => Math.max(most, batch), 0);
  return Array.from({ length: last }, (_, index) => (byBatch.get(index + 1) ?? []).flatMap(({ pod }) => pod ?? []));
}

/** Specs should contain no secrets; values of the environment may be secrets nevertheless, and are not shown. */
export function specChanges(before: JsonObject, { spec }: { readonly spec: object }): readonly FieldChange[] {
  const old = before.spec;
  return diffJson(old, spec as unknown as Json, ['spec']).map((change) => {
    const path = formatPath(change.path);
    if (isEnvironment(change.path)) return { path };
    const from = valueAt(old, change.path.slice(1));
    return {
      path,
      ...(from !== undefined && { from: withoutEnvironment(from) }),
      ...('value' in change && { to: withoutEnvironment(change.value) }),
    };
  });
}

function isEnvironment(path: readonly string[]): boolean {
  return path.includes('env') && path.some((key) => containerLists.includes(key));
}

const containerLists: readonly string[] = ['containers', 'initContainers', 'ephemeralContainers'];

/** The value with no more than the names of the environment variables of containers in it. A label may be called `env`, too. */
function withoutEnvironment(value: Json): Json {
  if (isJsonList(value)) return value.map(withoutEnvironment);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const isEnv = key === 'env' && isJsonList(inner);
      return [
        key,
        isEnv ? inner.map((one) => ({ name: objectOr(one).name ?? '' })) : inner && withoutEnvironment(inner),
      ];
    }),
  );
}

function valueAt(value: Json | undefined, path: readonly string[]): Json | undefined {
  return path.reduce<Json | undefined>((inner, key) => {
    if (Array.isArray(inner)) return (inner as readonly Json[])[Number(key)];
    return isJsonObject(inner) ? entryOf(inner, key) : undefined;
  }, value);
}

/** What somebody has to do before anything starts; of a pod that cannot change there is a note already. */
function waitNotes({ wait }: Play): readonly string[] {
  if (wait === undefined || wait.reason === 'InPlaceImpossible' || asksForNothing(wait)) return [];
  return [`nothing starts before this ends: ${waitLine(wait)}`];
}

/** Other settings that decide when pods are updated. */
function pace(
  { owner, strategy, play }: Pick<Parameters<typeof setPlan>[0], 'owner' | 'strategy' | 'play'>,
  pods: readonly PodPlan[],
): readonly string[] {
  const { isPaused, graceSeconds: grace, lifecycle } = strategy;
  const { maxSurge: surge = 0 } = objectOr(objectOr(owner.spec.updateStrategy).rollingUpdate);
  const isUpdate = pods.some(({ batch }) => batch !== undefined);
  const impossible = pods.find(({ action }) => action === 'impossible');
  const isInPlace = pods.some(({ action }) => action === 'inPlace');
  return [
    ...(isUpdate && isPaused ? ['paused is true: nothing starts until it is false'] : []),
    ...(impossible
      ? [`no pod is updated from ${impossible.pod} on: the podUpdatePolicy does not allow it to be recreated`]
      : []),
    ...waitNotes(play),
    ...(isUpdate && surge !== 0 && surge !== '0%' ? [`maxSurge ${surge}: new pods are created first`] : []),
    ...(isInPlace && grace > 0 ? [`each pod is out of service for ${grace} s before its containers change`] : []),
    ...(isInPlace && lifecycle?.inPlaceUpdate ? ['each pod is held for the hook inPlaceUpdate first'] : []),
    ...(pods.some(({ action }) => action === 'delete' || action === 'recreate') && lifecycle?.preDelete
      ? ['each pod is held for the hook preDelete before it is deleted']
      : []),
    ...(play.isPlayedOut ? [] : ['too many pods to plan each step: the last batches may turn out otherwise']),
  ];
}
