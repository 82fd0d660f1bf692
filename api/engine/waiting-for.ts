/** What an operation waits for. Every wait of every operation has one, in `.status.waitingFor`. */
export interface WaitingFor {
  /** CamelCase, from the closed list of the kind. */
  readonly reason: string;
  /** The first ten things in the way, as `kind/name`. */
  readonly blockedBy: readonly string[];
  /** How many are in the way altogether. */
  readonly blockedCount: number;
  /** RFC 3339 in UTC, when this wait began. */
  readonly since: string;
  /** What a person can do about it, one sentence without a full stop. */
  readonly unblock: string;
}

export const blockedByLimit = 10;
