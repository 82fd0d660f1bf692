import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { changedSignal } from '../../api/engine/operations.ts';
import { failedTasks } from '../support/by-hand.ts';
import { closedAs } from '../support/closed.ts';
import {
  type OperationType,
  operationTypes,
  type PlayedOperations,
  startPlayedOperations,
} from '../support/played-operations.ts';
import { waitFor } from '../support/wait.ts';

let played: PlayedOperations;

beforeAll(async () => {
  played = await startPlayedOperations({ cachedRuns: 0 });
});

afterAll(async () => {
  await played?.stop();
});

/** So many operations of each type, as what is tested depends on what arrives together. */
const tries = 3;

/** Queries the operation without a pause, as the UI does when it shows a run, and tells it of changes until it has ended. */
async function watched(type: OperationType, attempt: number): Promise<string> {
  const handle = await played.begin(type, `${type}-${attempt}`);
  let isOver = false;
  const closed = closedAs(handle).finally(() => {
    isOver = true;
  });
  let toldAtMs = Date.now();
  await waitFor(`${handle.workflowId} to end`, async (see) => {
    if (isOver) return true;
    see(await played.detailsOf(handle));
    if (Date.now() - toldAtMs > 1_000) {
      toldAtMs = Date.now();
      await handle.signal(changedSignal, null);
    }
    return false;
  });
  expect(failedTasks(await handle.fetchHistory())).toEqual([]);
  return await closed;
}

describe('a run that is replayed from its history at each task, and queried meanwhile', () => {
  for (const type of Object.keys(operationTypes) as OperationType[]) {
    it.concurrent(`${type}: continues`, async () => {
      const ends = await Promise.all(Array.from({ length: tries }, (_, attempt) => watched(type, attempt)));
      expect(ends).toEqual(ends.map(() => 'COMPLETED'));
    });
  }
});
