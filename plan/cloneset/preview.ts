/**
 * What would happen to each pod of a CloneSet if it were rolled out now: computed in advance, by the same code that
 * does it.
 */

import { objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { isInGrace } from '../../api/in-place/grace.ts';
import { batchesOf, type RecreateCause } from '../fleet/in-place/update.ts';
import { baseScene } from '../fleet/plan.ts';
import { type AlikePods, type FleetPod, membersOf } from '../fleet/pods.ts';
import { chooseRevisions, type Revisions } from '../fleet/revisions.ts';
import { isAtGoal } from '../fleet/scene.ts';
import { decideUpdate } from '../fleet/update.ts';
import type { Numbers } from './counts.ts';
import type { CloneSetInput } from './input.ts';
import { cloneSetPlanner } from './planner.ts';
import { newPod } from './pods.ts';
import { cloneSetRevisions } from './revisions.ts';
import { surplusPods } from './scale.ts';
import { type CloneSetScene, cloneSetScene, scaleNumbers } from './scene.ts';
import { podsToUpdate, updateDemand } from './update.ts';

/** What happens to one pod. */
export type PodPath =
  | { readonly kind: 'kept'; readonly because: KeptReason }
  /** Its containers change, in these batches; empty when only metadata changes. */
  | { readonly kind: 'inPlace'; readonly containers: readonly (readonly string[])[] }
  | { readonly kind: 'recreate'; readonly because: RecreateCause }
  /** It would have to be recreated, and may not be. */
  | { readonly kind: 'impossible'; readonly because: RecreateCause };

export type KeptReason =
  /** It is already of the wanted revision. */
  | 'Arrived'
  /** The partition keeps it, or it is not among the pods that are taken back. */
  | 'Partition'
  /** The user updates pods by deleting them. */
  | 'OnDelete'
  /** It is about to be deleted, or being updated. */
  | 'UnderWay';

export interface PodPreview {
  readonly pod: string;
  readonly path: PodPath;
  /** Its batch, from 1, if no other pod fails. Absent: it is not updated. */
  readonly batch?: number;
}

/** The pods in update order, those that are kept last; undefined when the selector is malformed. */
export function previewUpdate(input: CloneSetInput): readonly PodPreview[] | undefined {
  return previewWith([], input);
}

/** The same, after these pods have been created. They already have the right revision, so they are in no batch. */
function previewWith(coming: readonly AlikePods[], input: CloneSetInput): readonly PodPreview[] | undefined {
  const before = sceneToBe(input);
  if (before === undefined) return undefined;
  const scene: CloneSetScene = { ...before, coming };
  const demand = updateDemand(scene);
  const { marked, line: waiting } = podsToUpdate(scene, demand);
  const line = scene.strategy.isOnDelete || demand.left === 0 ? [] : [...marked, ...waiting];
  const target = demand.left < 0 ? scene.other : scene.target;
  const atOnce = atOnceOf(scene);
  const inLine = new Set(line);
  return [
    ...line.map((pod, index) => ({
      pod: pod.name,
      path: pathOf(scene, pod, target),
      batch: Math.floor(index / atOnce) + 1,
    })),
    ...scene.counted
      .filter((pod) => !inLine.has(pod))
      .map((pod): PodPreview => ({ pod: pod.name, path: { kind: 'kept', because: keptBecause(scene, pod) } })),
  ];
}

/** The scene as it will be once the template is recorded. */
function sceneToBe(input: CloneSetInput): CloneSetScene | undefined {
  const members = membersOf(input.owner, cloneSetPlanner.membership(input), input);
  if (members === undefined) return undefined;
  return cloneSetScene(baseScene(cloneSetPlanner, input, members.counted, revisionsToBe(input)));
}

function keptBecause(scene: CloneSetScene, pod: FleetPod): KeptReason {
  if (isAtGoal(scene, pod)) return 'Arrived';
  if (pod.state === 'PreparingDelete' || isInGrace(pod.pod)) return 'UnderWay';
  return scene.strategy.isOnDelete ? 'OnDelete' : 'Partition';
}

/** What would happen to a whole CloneSet. */
export interface SetPreview {
  /** The revision that its pods are to have. */
  readonly revision: string;
  /** The revision that they have; the same as `revision` when nothing is rolled out. */
  readonly currentRevision: string;
  /** How many pods may be updated at the same time. */
  readonly atOnce: number;
  /** How many pods are created of which revision, without surge pods. */
  readonly created: readonly { readonly revision: string; readonly count: number }[];
  readonly deleted: readonly { readonly pod: string; readonly because: 'Named' | 'Surplus' | 'Leaving' }[];
  /** Like `previewUpdate`, for the pods that stay. */
  readonly updated: readonly PodPreview[];
}

/**
 * First scaling, then the update of the remaining pods: the order of a pass. Undefined when the selector is malformed.
 */
export function previewSet(input: CloneSetInput): SetPreview | undefined {
  const scene = sceneToBe(input);
  if (scene === undefined) return undefined;
  const leaving = scene.counted.filter(({ isSpecified, state }) => isSpecified || state === 'PreparingDelete');
  const rest: CloneSetScene = { ...scene, counted: scene.counted.filter((pod) => !leaving.includes(pod)) };
  const numbers = scaleNumbers(rest);
  const victims = numbers.down > 0 ? surplusPods(rest, numbers) : [];
  const gone = new Set([...leaving, ...victims].map(({ name }) => name));
  const creations = creationsOf(rest, numbers);
  const after = { ...input, pods: input.pods.filter(({ metadata }) => !gone.has(metadata.name)) };
  return {
    revision: scene.target.metadata.name,
    currentRevision: scene.revisions.current.metadata.name,
    atOnce: atOnceOf(scene),
    created: creations.map(({ revision, count }) => ({ revision: revision.metadata.name, count })),
    deleted: [
      ...leaving.map(({ name, isSpecified }) => ({ pod: name, because: isSpecified ? 'Named' : 'Leaving' }) as const),
      ...victims.map(({ name }) => ({ pod: name, because: 'Surplus' }) as const),
    ],
    updated:
      previewWith(
        creations.flatMap((creation) => comingPods(rest, creation)),
        after,
      ) ?? [],
  };
}

interface Creation {
  readonly revision: ControllerRevision;
  readonly count: number;
}

/** CS-59: the pods that are missing, by revision. */
function creationsOf({ target, other }: CloneSetScene, { up, upOld }: Numbers): readonly Creation[] {
  if (target.metadata.name === other.metadata.name) return up > 0 ? [{ revision: target, count: up }] : [];
  const ofOld = Math.min(upOld, up);
  return [
    { revision: other, count: ofOld },
    { revision: target, count: up - ofOld },
  ].filter(({ count }) => count > 0);
}

/** The pods that would be created, in service. A CloneSet may want millions, so only one object is built. */
function comingPods({ owner, input, now }: CloneSetScene, { revision, count }: Creation): readonly AlikePods[] {
  const { pod } = newPod({ owner, revision, instanceId: '', claims: input.claims, gates: input.gates, now });
  const metadata = { ...objectOr(pod.metadata), uid: '', creationTimestamp: now, resourceVersion: '' };
  const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: now }] };
  const made = { ...pod, metadata, status } as unknown as Pod;
  const members = membersOf(owner, cloneSetPlanner.membership(input), { pods: [made], nowMs: input.nowMs });
  return (members?.counted ?? []).map((one) => ({ pod: one, count }));
}

function atOnceOf({ limits }: CloneSetScene): number {
  return Math.max(limits.maxUnavailable + limits.maxSurge, 1);
}

function pathOf(scene: CloneSetScene, pod: FleetPod, target: ControllerRevision): PodPath {
  const decision = decideUpdate(scene, pod, target);
  switch (decision.kind) {
    case 'inPlace':
      return { kind: 'inPlace', containers: batchesOf(pod.pod, decision.change) };
    case 'recreate':
      return decision;
    case 'refused':
      return { kind: 'impossible', because: decision.because };
  }
}

/** The revisions as they will be once the template is recorded. */
function revisionsToBe(input: CloneSetInput): Revisions {
  const found = chooseRevisions(cloneSetRevisions, input);
  if (found.kind === 'found') return found;
  const { revision, known } = found;
  const update: ControllerRevision = {
    ...revision,
    metadata: { ...revision.metadata, uid: '', resourceVersion: '', creationTimestamp: '' },
  };
  const current = known.find(({ metadata }) => metadata.name === input.owner.status?.currentRevision) ?? update;
  return { all: [...known, update], update, current, steps: [] };
}
