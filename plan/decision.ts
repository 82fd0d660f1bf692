import type { WaitingFor } from '../api/engine/waiting-for.ts';

/** A wait in a plan. Its start time is added by the operation, which plans repeatedly. */
export type Wait = Omit<WaitingFor, 'since'>;

/**
 * Something that can hold an operation back. Its name is the reason that users see; undefined means that it does not.
 */
export type Rule<World> = (world: World) => Wait | undefined;

/** The first rule that holds the operation back. */
export function firstWait<World>(rules: readonly Rule<World>[], world: World): Wait | undefined {
  for (const rule of rules) {
    const wait = rule(world);
    if (wait) return wait;
  }
  return undefined;
}

/** A wait with at most the first ten blockers. */
export function waitFor(reason: string, blockedBy: readonly string[], unblock: string): Wait {
  return { reason, blockedBy: blockedBy.slice(0, 10), blockedCount: blockedBy.length, unblock };
}
