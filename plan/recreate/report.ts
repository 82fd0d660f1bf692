/** Changes of a request's status: only differences are sent, so that histories stay small for any pod. */

import { jsonBytes } from '../../api/base/json-bytes.ts';
import type {
  ContainerRecreateRequestStatus,
  ContainerRecreateState,
} from '../../api/container-recreate-request/types.ts';
import { withCondition } from '../../api/core/conditions.ts';
import { engineReasons } from '../../api/engine/engine-trouble.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { fitting } from '../text-size.ts';
import type { RecreateStatus } from './status.ts';

/** A status with its times. */
export interface ReportedStatus extends Omit<RecreateStatus, 'waitingFor'> {
  readonly waitingFor?: WaitingFor;
  readonly completionTime?: string;
}

/**
 * The difference between two statuses. An absent field is unchanged; `waitingFor: null` means that the wait is over.
 */
export interface StatusDelta {
  readonly states: RecreateStatus['states'];
  readonly snapshot: RecreateStatus['snapshot'];
  readonly waitingFor?: WaitingFor | null;
  readonly phase?: RecreateStatus['phase'];
  readonly message?: string;
  readonly completionTime?: string;
  readonly condition?: NonNullable<RecreateStatus['condition']>;
}

/**
 * The maximum size of one report as JSON, so that it fits into a history event together with the name of the request.
 */
export const reportBytes = 3_300;

/** Waits that the watcher writes while no run of the workflow does. */
const watcherWaits: readonly string[] = ['Queued', ...engineReasons];

/** The part of the status that an earlier run has written. Containers are compared by the writer. */
export function reportedBefore(request: {
  readonly phase: ReportedStatus['phase'];
  readonly waitingFor?: WaitingFor;
}): ReportedStatus {
  return {
    phase: request.phase,
    message: '',
    states: [],
    snapshot: [],
    ...(request.waitingFor ? { waitingFor: request.waitingFor } : {}),
  };
}

/** The written status, corrected after somebody else has overwritten its wait. */
export function overwritten(written: ReportedStatus, waitingFor: WaitingFor | undefined): ReportedStatus {
  return waitingFor && watcherWaits.includes(waitingFor.reason) ? { ...written, waitingFor } : written;
}

/** Whether nothing is left to write. */
export function sameStatus(written: ReportedStatus, wanted: ReportedStatus): boolean {
  const { states, snapshot, ...fields } = statusDelta(written, wanted);
  return states.length === 0 && snapshot.length === 0 && Object.keys(fields).length === 0;
}

/** The writes from one status to the other; containers first, so that the end is written last. */
export function statusDelta(before: ReportedStatus, after: ReportedStatus): StatusDelta {
  const allStates = differing(before.states, after.states);
  const allSnapshots = differing(before.snapshot, after.snapshot);
  const states = fitting(allStates, reportBytes);
  const snapshot = fitting(allSnapshots, reportBytes - jsonBytes(states));
  const containers = { states, snapshot };

  const whole = { ...containers, ...changedFields(before, after) };
  const isWhole = states.length === allStates.length && snapshot.length === allSnapshots.length;
  const isAlone = states.length === 0 && snapshot.length === 0;
  return isWhole && (isAlone || jsonBytes(whole) <= reportBytes) ? whole : containers;
}

function changedFields(before: ReportedStatus, after: ReportedStatus): Omit<StatusDelta, 'states' | 'snapshot'> {
  return {
    ...(same(before.waitingFor, after.waitingFor) ? {} : { waitingFor: after.waitingFor ?? null }),
    ...(after.phase === before.phase ? {} : { phase: after.phase }),
    ...(after.message === before.message ? {} : { message: after.message }),
    ...(after.completionTime === undefined || after.completionTime === before.completionTime
      ? {}
      : { completionTime: after.completionTime }),
    ...(after.condition === undefined || same(before.condition, after.condition) ? {} : { condition: after.condition }),
  };
}

/** The status after the differences are written. */
export function withDelta(before: ReportedStatus, delta: StatusDelta): ReportedStatus {
  const { states, snapshot, waitingFor, ...rest } = delta;
  const { waitingFor: waitedFor, ...kept } = before;
  const waiting = waitingFor === undefined ? waitedFor : waitingFor;
  return {
    ...kept,
    ...rest,
    states: replaced(before.states, states),
    snapshot: replaced(before.snapshot, snapshot),
    ...(waiting ? { waitingFor: waiting } : {}),
  };
}

/**
 * Merges the differences into the live status. A completed request stays completed: of a late report only the states of
 * containers count (CRR-13). A delayed report reverts nothing: not a success, not a stop, and not the record of which
 * instance a forced stop is about.
 */
export function mergedStatus(
  live: ContainerRecreateRequestStatus | undefined,
  delta: StatusDelta,
  request: { readonly containers: readonly string[]; readonly generation: number; readonly at: string },
): ContainerRecreateRequestStatus {
  const order = (name: string): number => request.containers.indexOf(name);
  const inOrder = <T extends { readonly name: string }>(entries: readonly T[]): readonly T[] =>
    entries.toSorted((a, b) => order(a.name) - order(b.name));

  const states = inOrder(mergedStates(live?.containerRecreateStates ?? [], delta.states));
  const snapshot = inOrder(replaced(live?.containerStatusSnapshot ?? [], delta.snapshot));
  const { waitingFor: waitedFor, ...kept } = live ?? { phase: '' as const };
  const containers = {
    ...(states.length > 0 ? { containerRecreateStates: states } : {}),
    ...(snapshot.length > 0 ? { containerStatusSnapshot: snapshot } : {}),
  };
  if (kept.phase === 'Completed') return { ...kept, ...containers };

  const stillWaits = waitedFor && !watcherWaits.includes(waitedFor.reason) ? waitedFor : undefined;
  const waiting = delta.waitingFor === undefined ? stillWaits : delta.waitingFor;
  return {
    ...kept,
    ...containers,
    ...(waiting && delta.phase !== 'Completed' ? { waitingFor: waiting } : {}),
    ...(delta.phase === undefined ? {} : { phase: delta.phase }),
    ...(delta.message ? { message: delta.message } : {}),
    ...(delta.completionTime === undefined ? {} : { completionTime: delta.completionTime }),
    ...(delta.condition
      ? { conditions: withCondition(kept.conditions, { ...delta.condition, status: 'True' }, request.at) }
      : {}),
    observedGeneration: request.generation,
  };
}

function mergedStates(
  live: readonly ContainerRecreateState[],
  changes: readonly ContainerRecreateState[],
): readonly ContainerRecreateState[] {
  const known = new Map(live.map((state) => [state.name, state]));
  return replaced(
    live,
    changes.map((change) => {
      const before = known.get(change.name);
      if (before === undefined) return change;
      if (before.phase === 'Succeeded' || (before.isKilled && !change.isKilled)) return before;
      const { targetContainerID } = before;
      return targetContainerID === undefined ? change : { ...change, targetContainerID };
    }),
  );
}

function differing<T extends { readonly name: string }>(before: readonly T[], after: readonly T[]): readonly T[] {
  const known = new Map(before.map((entry) => [entry.name, entry]));
  return after.filter((entry) => !same(known.get(entry.name), entry));
}

function replaced<T extends { readonly name: string }>(before: readonly T[], changes: readonly T[]): readonly T[] {
  const names = new Set(changes.map(({ name }) => name));
  return [...before.filter(({ name }) => !names.has(name)), ...changes];
}

function same(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
