/**
 * How many pods to create, to delete and to update: the arithmetic of partition, maxUnavailable and maxSurge
 * (CS-20…28).
 *
 * Pods are counted by two questions: is the pod of the new revision, and is it available. The CloneSet wants `replicas`
 * pods, of which `partition` stay old; surge raises both for a while. The difference to the existing pods is what to
 * do. Pods that are unavailable or missing limit what may happen to available ones, and that alone (CS-55b).
 */

import { countOf, type IntOrPercent, parsePercent } from '../../api/base/int-or-percent.ts';
import { cloneSetDefault, type RollingUpdate } from '../../api/cloneset/types.ts';

/** The spec of a CloneSet as numbers of pods. */
export interface Limits {
  readonly replicas: number;
  /** Pods that stay at older revisions. */
  readonly partition: number;
  readonly maxUnavailable: number;
  readonly maxSurge: number;
  /** How many pods may be unavailable for new ones to be created; Infinity without a limit. */
  readonly scaleMaxUnavailable: number;
}

/** The parts of a pod that matter for counting. */
export interface CountedPod {
  readonly isNew: boolean;
  readonly isPreparingDelete: boolean;
  /** Named to be deleted. */
  readonly isSpecified: boolean;
  readonly isAvailable: boolean;
}

export interface Question {
  readonly limits: Limits;
  readonly pods: readonly CountedPod[];
  /**
   * Whether pods may also go from the new revision back to the old one, which requires two of them and a feature gate
   * (CS-26, CS-64).
   */
  readonly canRollBack: boolean;
  /** Pods held before their deletion are replaced at once (CS-38). */
  readonly excludePreparingDelete: boolean;
  /**
   * How many pods there are in addition to the replicas for the update, which stay until it is complete and become no more.
   * Absent: as many as maxSurge says.
   */
  readonly keptSurge?: number;
}

/** The result. Numbers of old pods are parts of the numbers before them, and may be larger than these. */
export interface Numbers {
  readonly useSurge: number;
  readonly useSurgeOld: number;
  /** Missing pods. */
  readonly up: number;
  readonly upOld: number;
  /** How many may be created now. */
  readonly upLimit: number;
  /** Surplus pods, without those named for deletion. */
  readonly down: number;
  readonly downOld: number;
  /** How many available pods may be deleted now, for others to replace them. */
  readonly deleteAvailableLimit: number;
  /** Whether no surplus pod can be replaced by one that is not available yet, so that no budget limits scaling in. */
  readonly isScaleIn: boolean;
  /** Pods to be updated; negative: to be taken back. */
  readonly updateNum: number;
  /** How many pods may be unavailable for an available one to be updated; 0 when nothing is to be updated. */
  readonly updateMax: number;
  /** Pods that use up the budget now. */
  readonly unavailable: number;
}

/** CS-25 to CS-28. */
export function numbersOf(question: Question): Numbers {
  const { limits, pods, excludePreparingDelete } = question;
  const { replicas, partition, maxUnavailable } = limits;
  const old = tally(pods.filter(({ isNew }) => !isNew));
  const fresh = tally(pods.filter(({ isNew }) => isNew));
  const all = old.all + fresh.all;
  const toDelete = old.toDelete + fresh.toDelete;
  const unavailable = old.preDeleting + fresh.preDeleting + old.unavailable + fresh.unavailable;

  const both = { old: old.active - partition, fresh: fresh.active - (replicas - partition) };
  const diff = question.canRollBack ? both : { old: Math.max(both.old, 0), fresh: Math.min(both.fresh, 0) };
  const surge = surgeOf(question, { diff, unavailable, toDelete, toDeleteNew: fresh.toDelete });

  const left = excludePreparingDelete ? old.preDeleting + fresh.preDeleting : 0;
  const total = all - left;
  const totalOld = old.all - (excludePreparingDelete ? old.preDeleting : 0);
  const wanted = replicas + surge.use;
  const wantedOld = partition + surge.useOld;
  const surplus = all - replicas;

  const up = Math.max(wanted - total, 0);
  const down = Math.max(total - toDelete - wanted, 0);
  // If pods of both kinds are missing, or both are surplus, scaling is enough, and no pod has to be disrupted.
  const smaller = Math.abs(diff.old) <= Math.abs(diff.fresh) ? diff.old : -diff.fresh;
  const updateNum = isOpposite(diff) ? smaller : 0;
  return {
    useSurge: surge.use,
    useSurgeOld: surge.useOld,
    up,
    upOld: up > 0 ? Math.max(wantedOld - totalOld, 0) : 0,
    upLimit: Math.min(up, Math.max(limits.scaleMaxUnavailable - unavailable, 0)),
    down,
    downOld: down > 0 ? Math.max(totalOld - old.toDelete - wantedOld, 0) : 0,
    deleteAvailableLimit: toDelete > 0 || down > 0 ? Math.max(maxUnavailable + surplus - unavailable, 0) : 0,
    isScaleIn: old.all === 0 || fresh.all === 0,
    updateNum,
    updateMax: updateNum === 0 ? 0 : maxUnavailable + surplus,
    unavailable,
  };
}

interface Tally {
  readonly all: number;
  readonly active: number;
  readonly preDeleting: number;
  readonly toDelete: number;
  readonly unavailable: number;
}

function tally(pods: readonly CountedPod[]): Tally {
  const count = (is: (pod: CountedPod) => boolean) => pods.filter(is).length;
  const all = count(() => true);
  const preDeleting = count(({ isPreparingDelete }) => isPreparingDelete);
  return {
    all,
    active: all - preDeleting,
    preDeleting,
    toDelete: count(({ isPreparingDelete, isSpecified }) => !isPreparingDelete && isSpecified),
    unavailable: count(
      ({ isPreparingDelete, isSpecified, isAvailable }) => !isPreparingDelete && !isSpecified && !isAvailable,
    ),
  };
}

/** Existing minus wanted pods, by revision. */
interface Difference {
  readonly old: number;
  readonly fresh: number;
}

function isOpposite({ old, fresh }: Difference): boolean {
  return old * fresh < 0;
}

/** CS-27: how many pods beyond the replicas there should be now, and how many of them old. */
function surgeOf(
  { limits, keptSurge }: Question,
  now: {
    readonly diff: Difference;
    readonly unavailable: number;
    readonly toDelete: number;
    readonly toDeleteNew: number;
  },
): { readonly use: number; readonly useOld: number } {
  const { maxSurge, maxUnavailable } = limits;
  if (maxSurge <= 0) return { use: 0, useOld: 0 };

  const { toDelete, toDeleteNew, unavailable, diff } = now;
  const forDeletes = Math.min(Math.max(unavailable + toDelete - maxUnavailable, 0), toDelete);
  const forDeletesOld = Math.max(forDeletes - toDeleteNew, 0);

  const difference = isOpposite(diff) ? Math.min(Math.abs(diff.old), Math.abs(diff.fresh)) : 0;
  const forUpdate = keptSurge !== undefined && difference > 0 ? keptSurge : difference;
  const isBack = Math.abs(diff.old) <= Math.abs(diff.fresh) ? diff.old < 0 : diff.fresh > 0;

  if (forDeletes >= forUpdate) {
    const use = Math.min(maxSurge, forDeletes);
    return { use, useOld: Math.min(use, forDeletesOld) };
  }
  const use = Math.min(maxSurge, forUpdate);
  return { use, useOld: isBack ? use : 0 };
}

/**
 * The spec of a CloneSet as numbers of pods (CS-20 to CS-24). Without `rollingUpdate` the pods are left to the user.
 */
export function limitsOf(spec: {
  readonly replicas: number;
  readonly rollingUpdate: RollingUpdate | undefined;
  readonly scaleMaxUnavailable: IntOrPercent | undefined;
}): Limits {
  const { replicas, rollingUpdate, scaleMaxUnavailable } = spec;
  const isPaused = rollingUpdate?.paused ?? false;
  const surge = isPaused ? 0 : (countOf(rollingUpdate?.maxSurge ?? cloneSetDefault.maxSurge, replicas, 'up') ?? 0);
  const unavailable = rollingUpdate?.maxUnavailable ?? cloneSetDefault.maxUnavailable;
  const rounding = rollingUpdate !== undefined && surge === 0 ? 'up' : 'down'; // CS-22
  return {
    replicas,
    partition: partitionOf(rollingUpdate?.partition, replicas),
    maxUnavailable: countOf(unavailable, replicas, rounding) ?? 0,
    maxSurge: surge,
    scaleMaxUnavailable: scaleLimit(scaleMaxUnavailable, replicas),
  };
}

/** CS-24: here a bare number in quotes is a percentage, too. */
function scaleLimit(limit: IntOrPercent | undefined, replicas: number): number {
  if (limit === undefined) return Number.POSITIVE_INFINITY;
  const isBare = typeof limit === 'string' && /^\d+$/.test(limit);
  return countOf(isBare ? `${limit}%` : limit, replicas, 'up') ?? 0;
}

/** CS-20, CS-21: how many pods stay at older revisions. Anything but all of them leaves one to be updated. */
export function partitionOf(partition: IntOrPercent | undefined, replicas: number): number {
  const pods = countOf(partition ?? cloneSetDefault.partition, replicas, 'up') ?? 0;
  const isAll = typeof partition !== 'string' || partition === '100%';
  const kept = pods === replicas && replicas > 1 && !isAll ? replicas - 1 : pods;
  return Math.min(Math.max(kept, 0), replicas);
}

/** Whether a percentage above 0 is rounded to no pod at all. */
export function roundsToZero(value: IntOrPercent, pods: number): boolean {
  const percent = typeof value === 'string' ? parsePercent(value) : undefined;
  return pods === 0 && percent !== undefined && percent.numerator > 0n;
}
