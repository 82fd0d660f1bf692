import { blockedByLimit, type WaitingFor } from '../engine/waiting-for.ts';

/** The data of a wait besides its reason. */
export interface WaitFacts {
  /** Everything that blocks it, as `kind/name`. */
  readonly blockedBy: readonly string[];
  readonly since: string;
  /** A better remedy than the usual one for the reason. */
  readonly unblock?: string;
}

/** A wait with the remedy for its reason. */
export function waitOf<Reason extends string>(
  remedies: Readonly<Record<Reason, string>>,
  reason: Reason,
  { blockedBy, since, unblock = remedies[reason] }: WaitFacts,
): WaitingFor & { readonly reason: Reason } {
  return { reason, blockedBy: blockedBy.slice(0, blockedByLimit), blockedCount: blockedBy.length, since, unblock };
}
