// When the results of a probe count, and when they are reported: no I/O, and time is a number.

import type { ProbePace } from '../../api/core/probe.ts';
import { longestProbeMessage, notRunningMessage, type ProbeVerdict } from '../../api/node-pod-probe/types.ts';

/** The result of one run of a probe. */
export type Outcome =
  | {
      readonly kind: 'success' | 'failure';
      readonly message: string;
      /** The output was longer than what is kept of it. */
      readonly printsMuch?: true;
    }
  /** It could not be carried out, which says nothing about the container. `why` is for people, where it is useful. */
  | { readonly kind: 'none'; readonly why?: string };

/** The state of one probe of one container. */
export interface Standing {
  /** The ID of the container instance that this is about. */
  readonly instance: string;
  readonly verdict: ProbeVerdict;
  readonly message: string;
  /** How many times in a row the runs have ended like the last one. */
  readonly streak: { readonly kind: 'success' | 'failure'; readonly length: number } | undefined;
}

/** The state of an instance that has not been probed yet. */
export function newInstance(instance: string): Standing {
  return { instance, verdict: 'Unknown', message: '', streak: undefined };
}

/** An instance that does not run has failed, regardless of thresholds. */
export function notRunning(before: Standing, container: string): Standing {
  return { ...before, verdict: 'Failed', message: notRunningMessage(container), streak: undefined };
}

/** The state after a run: the result counts when enough equal ones came in a row (NPP-26). */
export function afterRun(before: Standing, outcome: Outcome, pace: ProbePace): Standing {
  if (outcome.kind === 'none') {
    // Without a result yet, at least report why there is none.
    const isNews = before.verdict === 'Unknown' && outcome.why !== undefined;
    return isNews ? { ...before, message: cut(outcome.why ?? '') } : before;
  }
  const { kind } = outcome;
  const length = before.streak?.kind === kind ? before.streak.length + 1 : 1;
  const needed = kind === 'success' ? pace.successThreshold : pace.failureThreshold;
  const streak = { kind, length: Math.min(length, needed) };
  if (length < needed) return { ...before, streak };
  const verdict = kind === 'success' ? 'Succeeded' : 'Failed';
  return { ...before, verdict, message: cut(outcome.message), streak };
}

/** The text, cut between characters to at most 1024 bytes (NPP-27). */
function cut(message: string): string {
  const bytes = Buffer.from(message);
  if (bytes.byteLength <= longestProbeMessage) return message;
  let end = longestProbeMessage;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end).toString();
}

/** Unchanged results are reported again after this time, which shows that the probe still runs. */
const tellAgainMs = 600_000;

/** The last reported result. */
export interface Told {
  readonly verdict: ProbeVerdict;
  readonly message: string;
  readonly instance: string;
  /** Milliseconds since 1970. */
  readonly atMs: number;
}

/** Whether there is something to report (NPP-26, NPP-28: each probe by itself). */
export function isWorthTelling(standing: Standing, told: Told | undefined, nowMs: number): boolean {
  if (told === undefined) return true;
  const isSame =
    told.verdict === standing.verdict && told.message === standing.message && told.instance === standing.instance;
  return !isSame || nowMs - told.atMs >= tellAgainMs;
}

/**
 * Whether an Event is written: only when the state has changed, and for an instance without a result only when the
 * previous instance had succeeded.
 */
export function isEvent(verdict: ProbeVerdict, before: ProbeVerdict | undefined): boolean {
  if (verdict === before) return false;
  return verdict !== 'Unknown' || before === 'Succeeded';
}
