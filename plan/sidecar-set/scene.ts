/** What the running pods of a SidecarSet are to become, and where each of them stands: what all decisions of a pass share. */
import { timestamp } from '../../api/base/time.ts';
import type { Pod } from '../../api/core/pod.ts';
import { qualifiedName } from '../../api/core/refs.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { revisionContent } from '../../api/sidecar-set/injection/choose.ts';
import { isNotUpdate, type SidecarContent, type SidecarSet } from '../../api/sidecar-set/types.ts';
import { isHeld, ordersFor, undoOf } from '../fleet/roll-out-orders.ts';
import { startingUntil } from '../starting.ts';
import { type ClassifiedPod, classifyPods } from './classify.ts';
import type { SidecarSetInput } from './input.ts';
import { recordedAt } from './pods.ts';
import { planRevisions, type RevisionPlan } from './revisions.ts';
import { type SidecarTarget, targetOfSpec, targetOfUndo } from './target.ts';

export interface SidecarSetScene {
  readonly input: SidecarSetInput;
  readonly owner: SidecarSet;
  readonly revisions: RevisionPlan;
  readonly target: SidecarTarget;
  readonly pods: readonly ClassifiedPod[];
  readonly isUndo: boolean;
  /** An undo is ordered, and the revision that it goes back to is not kept any more: nothing may be updated. */
  readonly isUndoLost: boolean;
  /** What operators have ordered for the present content. */
  readonly orders: RollOutOrders | undefined;
  /** An operator holds the roll-out, or an undo is lost: no further pod is updated, permit or not. */
  readonly isHeldByOperator: boolean;
  /** Names of pods that operators leave out, with their namespaces. */
  readonly skipped: ReadonlySet<string>;
  /** Of an undo: pods that were created later are not changed. RFC 3339. */
  readonly undoneAt?: string;
  /** RFC 3339 in whole seconds. */
  readonly now: string;
}

export function sidecarSetScene(input: SidecarSetInput): SidecarSetScene {
  const { owner } = input;
  const given = input.held?.orders ?? ordersOf(owner);
  const revisions = planRevisions(input, given?.undo ? [given.undo.to] : []);
  const orders = ordersFor(given, revisions.latest);
  const { target, isUndo } = targetIn(input, revisions, orders);
  const isUndoLost = orders?.undo !== undefined && !isUndo;
  const isHeldByOperator = isHeld(orders) || isUndoLost;
  const skipped = new Set(orders?.skip);
  const undoneAt = isUndo ? orders?.undo?.at : undefined;
  const base = { revisions, target, skipped, ...(undoneAt !== undefined && { undoneAt }) };
  const pods = classifiedPods({ ...base, input }, input.pods);
  return { ...base, input, owner, pods, isUndo, isUndoLost, isHeldByOperator, orders, now: timestamp(input.nowMs) };
}

/** Where these pods stand. Those that are left out are as if they were not selected. */
export function classifiedPods(
  scene: Pick<SidecarSetScene, 'revisions' | 'target' | 'skipped' | 'undoneAt' | 'input'>,
  pods: readonly Pod[],
): readonly ClassifiedPod[] {
  const { history } = scene.revisions;
  return classifyPods(scene.target, pods, (name) => contentOf(history, name))
    .map((found): ClassifiedPod => (isLeftOut(found, scene) ? { ...found, place: { kind: 'notSelected' } } : found))
    .map((found) => ({ ...found, ...startingIn(found, scene) }));
}

function startingIn(
  { pod, isConsistent, isSidecarReady }: ClassifiedPod,
  { input, target }: Pick<SidecarSetScene, 'input' | 'target'>,
): Pick<ClassifiedPod, 'startingUntilMs'> {
  if (isConsistent && isSidecarReady) return {};
  const begunAt = [pod.metadata.creationTimestamp, recordedAt(pod, target.setName) ?? ''];
  return startingUntil(pod, { begunAt }, input.nowMs);
}

function targetIn({ owner }: SidecarSetInput, revisions: RevisionPlan, orders: RollOutOrders | undefined) {
  const undo = undoOf(orders);
  const stored = undo?.from === revisions.latest ? named(revisions.history, undo.to) : undefined;
  const content = stored && revisionContent(stored);
  return content === undefined
    ? { target: targetOfSpec(owner, revisions.latest), isUndo: false }
    : { target: targetOfUndo(owner, content), isUndo: true };
}

/** Left out by an operator; or created since an undo, which is about the pods of its time. */
function isLeftOut(
  { pod, place }: ClassifiedPod,
  { skipped, undoneAt }: Pick<SidecarSetScene, 'skipped' | 'undoneAt'>,
): boolean {
  if (place.kind === 'updated') return false;
  if (isSkipped({ pod }, { skipped })) return true;
  return undoneAt !== undefined && Date.parse(pod.metadata.creationTimestamp) > Date.parse(undoneAt);
}

/** Whether an operator leaves the pod out: it is not updated, nor waited for. */
export function isSkipped({ pod }: Pick<ClassifiedPod, 'pod'>, { skipped }: Pick<SidecarSetScene, 'skipped'>): boolean {
  return skipped.has(nameOf(pod));
}

/** P-7: whether an update of the pod got no answer, so that it may still be made. */
export function isInDoubt({ pod }: Pick<ClassifiedPod, 'pod'>, { input }: Pick<SidecarSetScene, 'input'>): boolean {
  return input.inDoubt?.has(pod.metadata.uid) === true;
}

export function named(history: readonly ControllerRevision[], name: string): ControllerRevision | undefined {
  return history.find(({ metadata }) => metadata.name === name);
}

/** The content of a stored revision; undefined when it is not stored any more. */
export function contentOf(history: readonly ControllerRevision[], name: string): SidecarContent | undefined {
  const revision = named(history, name);
  return revision && revisionContent(revision)?.content;
}

/** Whether running pods are updated at all. */
export function isUpdating({ owner }: Pick<SidecarSetScene, 'owner'>): boolean {
  return !isNotUpdate(owner.spec.updateStrategy) && owner.metadata.deletionTimestamp === undefined;
}

/** `shop/web-1`: pods of all namespaces are updated. */
export function nameOf({ metadata }: Pod): string {
  return qualifiedName(metadata);
}

/** How blockers are named. */
export function podRef({ pod }: Pick<ClassifiedPod, 'pod'>): string {
  return `pod/${nameOf(pod)}`;
}

/** The pods that need no write. */
export function updatedPods({ pods }: Pick<SidecarSetScene, 'pods'>): readonly ClassifiedPod[] {
  return pods.filter(({ place }) => place.kind === 'updated');
}

/** How many pods are where they are to go, for people. */
export function progressOf(scene: Pick<SidecarSetScene, 'pods' | 'target'>): string {
  const notUpgradable = scene.pods.filter(({ place }) => place.kind === 'notUpgradable').length;
  const rest = notUpgradable === 0 ? '' : `, ${notUpgradable} cannot be updated in place`;
  return `${updatedPods(scene).length} of ${scene.pods.length} pods are of revision ${scene.target.revision}${rest}`;
}
