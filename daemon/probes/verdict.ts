// When results of a probe count, and when they are worth telling: no I/O here, and time comes as a number.

import type { ProbePace } from '../../api/core/probe.ts';
import { longestProbeMessage, notRunningMessage, type ProbeVerdict } from '../../api/node-pod-probe/types.ts';

/** How one run of a probe ended. */
export type Outcome =
  | {
      readonly kind: 'success' | 'failure';
      readonly message: string;
      /** The command printed more than is kept of it. */
      readonly printsMuch?: true;
    }
  /** It could not be carried out, which says nothing about the container. `why` is for people, where it is of use. */
  | { readonly kind: 'none'; readonly why?: string };

/** What is known of one probe of one container. */
export interface Standing {
  /** The instance of the container that this is about. */
  readonly instance: string;
  readonly verdict: ProbeVerdict;
  readonly message: string;
  /** How often in a row the last run ended as it did. */
  readonly streak: { readonly kind: 'success' | 'failure'; readonly length: number } | undefined;
}

/** What an instance begins with that nobody has probed yet. */
export function newInstance(instance: string): Standing {
  return { instance, verdict: 'Unknown', message: '', streak: undefined };
}

/** An instance that does not run has failed, whatever the thresholds are. */
export function notRunning(before: Standing, container: string): Standing {
  return { ...before, verdict: 'Failed', message: notRunningMessage(container), streak: undefined };
}

/** What is known after a run: it counts when enough of its kind came in a row (NPP-26). */
export function afterRun(before: Standing, outcome: Outcome, pace: ProbePace): Standing {
  if (outcome.kind === 'none') {
    // Without a result yet, at least say why there is none.
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

/** Text of at most 1024 bytes, cut between characters (NPP-27). */
function cut(message: string): string {
  const bytes = Buffer.from(message);
  if (bytes.byteLength <= longestProbeMessage) return message;
  let end = longestProbeMessage;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end).toString();
}

/** Equal results are told again after so long, so that somebody who reads them sees that they are still probed. */
const tellAgainMs = 600_000;

/** What was told last. */
export interface Told {
  readonly verdict: ProbeVerdict;
  readonly message: string;
  readonly instance: string;
  /** Milliseconds since 1970. */
  readonly atMs: number;
}

/** Whether there is something to tell (NPP-26, NPP-28: each probe on its own). */
export function isWorthTelling(standing: Standing, told: Told | undefined, nowMs: number): boolean {
  if (told === undefined) return true;
  const isSame =
    told.verdict === standing.verdict && told.message === standing.message && told.instance === standing.instance;
  return !isSame || nowMs - told.atMs >= tellAgainMs;
}

/**
 * Whether people hear of it as an Event: only when the state has changed, and of an instance without a result only when
 * the one before it had succeeded.
 */
export function isEvent(verdict: ProbeVerdict, before: ProbeVerdict | undefined): boolean {
  if (verdict === before) return false;
  return verdict !== 'Unknown' || before === 'Succeeded';
}
