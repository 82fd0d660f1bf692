/**
 * Pods that are being created, changed or replaced: they become ready by themselves, as a rule, so a wait for them asks
 * nobody to act. One that takes longer, or of which scheduler or kubelet say what is wrong, is worth a look.
 */
import type { Pod } from '../api/core/pod.ts';
import { podTrouble } from './pod-trouble.ts';

/** How long a pod is given after the last thing that was done to it. */
export const startingMs = 30_000;

/** What a person can do about a wait for such pods. */
export const nothingYet = 'Nothing to do unless this lasts: these pods are being started or replaced';

/**
 * Until when the pod counts as starting. Absent: it does not count so. `begunAt`: when something was begun with it; anybody may
 * write some of these times, so one that is ahead counts for nothing, except for what clocks differ. `dueAtMs`: when
 * something is to be done with it.
 */
export function startingUntil(
  pod: Pod,
  { begunAt, dueAtMs = [] }: { readonly begunAt: readonly string[]; readonly dueAtMs?: readonly number[] },
  nowMs: number,
): { readonly startingUntilMs?: number } {
  const begunAtMs = begunAt.map((time) => Date.parse(time)).filter((ms) => ms <= nowMs + startingMs);
  const startingUntilMs = Math.max(...begunAtMs, ...dueAtMs.filter(Number.isFinite)) + startingMs;
  return startingUntilMs > nowMs && podTrouble(pod) === undefined ? { startingUntilMs } : {};
}

/** When a wait that asks for nothing has to be decided on again. */
export function dueByStarting(
  wait: { readonly unblock: string } | undefined,
  pods: readonly { readonly startingUntilMs?: number }[],
): readonly number[] {
  return wait?.unblock.startsWith(nothingYet) ? pods.flatMap(({ startingUntilMs }) => startingUntilMs ?? []) : [];
}

/** These, the ones that are starting last: the first ones are named. */
export function startingLast<Of extends { readonly startingUntilMs?: number }>(pods: readonly Of[]): readonly Of[] {
  const isStarting = ({ startingUntilMs }: Of) => startingUntilMs !== undefined;
  return [...pods.filter((pod) => !isStarting(pod)), ...pods.filter(isStarting)];
}
