import { blockedByLimit, type WaitingFor } from '../engine/waiting-for.ts';

/** What is known of a wait beside its reason. */
export interface WaitFacts {
  /** All things in the way, as `kind/name`. */
  readonly blockedBy: readonly string[];
  readonly since: string;
  /** A better remedy than the one of the reason. */
  readonly unblock?: string;
}

/** A wait with the remedy that belongs to its reason. */
export function waitOf<Reason extends string>(
  remedies: Readonly<Record<Reason, string>>,
  reason: Reason,
  { blockedBy, since, unblock = remedies[reason] }: WaitFacts,
): WaitingFor & { readonly reason: Reason } {
  return { reason, blockedBy: blockedBy.slice(0, blockedByLimit), blockedCount: blockedBy.length, since, unblock };
}
