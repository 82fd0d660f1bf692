import { compareGoStrings } from '../../api/base/json-go.ts';
import type { Wait } from '../../plan/decision.ts';
import { blockersText } from './table.ts';

/** A wait in one line, with what is in the way in a stable order, and what a person can do. */
export function waitLine(wait: Wait): string {
  const { reason, unblock } = wait;
  const blockers = blockersText({ ...wait, blockedBy: wait.blockedBy.toSorted(compareGoStrings) });
  const what = blockers === '' ? '' : ` (${blockers})`;
  return `${reason}${what}: ${unblock}`;
}

/** Whether the wait ends by itself, as far as known. */
export function asksForNothing({ unblock }: Pick<Wait, 'unblock'>): boolean {
  return unblock.startsWith('Nothing to do');
}
