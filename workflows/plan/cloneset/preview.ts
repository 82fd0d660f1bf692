/**
 * What would become of each pod of a CloneSet, were it rolled out as it stands now: told before it is begun, by the same
 * code that does it.
 */
import type { ControllerRevision } from '../../../api/revision.ts';
import { batchesOf, type RecreateCause } from '../in-place-update.ts';
import { countedPods, type FleetPod } from './fleet.ts';
import { type Scene, sceneOf, updateNumbers } from './goal.ts';
import { chooseRevisions, type Revisions } from './revisions.ts';
import { decideUpdate, updateLine } from './update.ts';
import type { CloneSetWorld } from './world.ts';

/** The way of one pod. */
export type PodRoad =
  /** It is where it should be, or the partition keeps it. */
  | { readonly kind: 'kept' }
  /** Its containers change, in these batches; none when only metadata changes. */
  | { readonly kind: 'inPlace'; readonly containers: readonly (readonly string[])[] }
  | { readonly kind: 'recreate'; readonly because: RecreateCause }
  /** It would have to be recreated, and may not be. */
  | { readonly kind: 'impossible'; readonly because: RecreateCause };

export interface PodPreview {
  readonly pod: string;
  readonly road: PodRoad;
  /** With which pods it goes, from 1, if no other pod fails. Absent: it does not go. */
  readonly turn?: number;
}

/** The pods in the order of their turn, those that are kept last; undefined when nobody can say which pods they are. */
export function previewUpdate(world: CloneSetWorld): readonly PodPreview[] | undefined {
  const looked = countedPods(world);
  if (looked === undefined) return undefined;
  const scene = sceneOf(world, looked.counted, revisionsToBe(world));
  const numbers = updateNumbers(scene);
  const { marked, line: waiting } = updateLine(scene, numbers);
  const line = scene.isOnDelete || numbers.updateNum === 0 ? [] : [...marked, ...waiting];
  const target = numbers.updateNum < 0 ? scene.other : scene.target;
  const atOnce = Math.max(scene.limits.maxUnavailable + scene.limits.maxSurge, 1);
  return [
    ...line.map((pod, index) => ({
      pod: pod.name,
      road: roadOf(scene, pod, target),
      turn: Math.floor(index / atOnce) + 1,
    })),
    ...looked.counted
      .filter((pod) => !line.includes(pod))
      .map(({ name }): PodPreview => ({ pod: name, road: { kind: 'kept' } })),
  ];
}

function roadOf(scene: Scene, pod: FleetPod, target: ControllerRevision): PodRoad {
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
function revisionsToBe(world: CloneSetWorld): Revisions {
  const found = chooseRevisions(world);
  if (found.kind === 'found') return found;
  const { revision, known } = found;
  const update: ControllerRevision = {
    ...revision,
    metadata: { ...revision.metadata, uid: '', resourceVersion: '', creationTimestamp: '' },
  };
  const current = known.find(({ metadata }) => metadata.name === world.set.status?.currentRevision) ?? update;
  return { all: [...known, update], update, current, steps: [] };
}
