import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { Wait } from './decision.ts';

/** A wait with the time at which it began: while the reason stays the same it is one wait, whoever is in the way. */
export function waitingSince(before: WaitingFor | undefined, wait: Wait, now: string): WaitingFor {
  return { ...wait, since: before?.reason === wait.reason ? before.since : now };
}
