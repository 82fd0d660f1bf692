import { setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import { searchAttributes } from '../../api/engine/operations.ts';

/** How an operation appears in Temporal. */
export interface Displayed {
  readonly details: string;
  /** Absent: the operation has no phases. */
  readonly phase?: string;
  /** What it waits for; empty when it waits for nothing. */
  readonly reason: string;
}

/**
 * Shows an operation in Temporal. Search attributes are written only when they change, since each write is an event in
 * the history.
 */
export function newDisplay(): (displayed: Displayed) => void {
  let shown: { readonly phase?: string; readonly reason: string } = { reason: '' };
  return ({ details, ...next }) => {
    setCurrentDetails(details);
    if (next.phase === shown.phase && next.reason === shown.reason) return;
    shown = next;
    upsertSearchAttributes({
      ...(next.phase !== undefined && { [searchAttributes.phase]: [next.phase] }),
      [searchAttributes.reason]: [next.reason],
    });
  };
}
