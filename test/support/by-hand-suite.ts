// Tests of what people do to an operation with `temporal`, the same for each type. They are judged by the object of the
// operation and by what was done to containers and nodes; how the runs end is not.
import { expect, it } from '@jest/globals';
import { type ActivityByHand, failedTasks, type Operator, operatorOn, resetPoints } from './by-hand.ts';
import type { HeldOperation, Hold } from './held-operations.ts';
import { waitFor } from './wait.ts';
import type { Windlass } from './windlass.ts';

/** What has become of an operation. */
export interface End {
  /** How its object has ended. */
  readonly end: string;
  /** What was done to containers or nodes, in any order: nothing twice, and nothing else. */
  readonly done: readonly string[];
}

/** One moment of an operation. */
export interface Moment {
  readonly hold: Hold;
  /** The type of an activity that is pending then. Absent: there may be none. */
  readonly pending?: string;
  /** What becomes of it when it is cancelled then. Absent: that is not tested. */
  readonly cancelled?: End;
  /** Its object has ended then before the operation is let go. */
  readonly endsAtOnce?: boolean;
}

export interface ByHandSuite {
  /** By what it does then. The first one is also the operation that is reset after its end. */
  readonly moments: Readonly<Record<string, Moment>>;
  /** What becomes of it, however it is treated. */
  readonly usual: End;
}

/** What is done to each pending activity before and after the operation is let go. */
interface Treatment {
  readonly before: (operator: Operator, id: string) => Promise<void>;
  readonly after?: (operator: Operator, id: string) => Promise<void>;
}

const treatments: Readonly<Record<string, Treatment>> = {
  'reset, failed once, and paused for a while': {
    async before({ resetActivity, fail, pause }, id) {
      await resetActivity(id);
      await fail(id, false);
      await pause(id);
    },
    after: ({ unpause }, id) => unpause(id),
  },
  'failed for good': { before: ({ fail }, id) => fail(id, true) },
  'completed with null': { before: ({ complete }, id) => complete(id, null) },
};

/** An operation at one of its moments, with the activities that are pending then, and what people can do to it. */
async function held(windlass: Windlass, { hold, pending }: Moment) {
  const operation = await hold(windlass);
  const operator = operatorOn(windlass.client, operation.workflowId);
  return { operation, operator, activities: await pendingOf(operator, pending) };
}

/** Lets the operation go, and judges how it ends after so many runs or more. */
async function endsAs(expected: End, operation: HeldOperation, operator: Operator, runs = 1): Promise<void> {
  await operation.letGo();
  await operator.ended(operation.over());
  await expectEnd(expected, operation);
  const histories = await operator.histories(runs);
  expect(histories.flatMap(failedTasks)).toEqual([]);
}

async function expectEnd({ end, done }: End, operation: HeldOperation): Promise<void> {
  const inOrder = (all: readonly string[]) => all.toSorted((a, b) => a.localeCompare(b));
  expect([await operation.end(), inOrder(operation.done())]).toEqual([end, inOrder(done)]);
}

/** Treats an activity. Temporal refuses that for one that has ended by itself meanwhile, which needs no treatment. */
async function unlessEnded(operator: Operator, id: string, treat: Treatment['after']): Promise<void> {
  try {
    await treat?.(operator, id);
  } catch (error) {
    if (await operator.isPending(id)) throw error;
  }
}

/** The pending activities of this type, once one has begun, or of any: others may end at any time. */
async function pendingOf(operator: Operator, type: string | undefined): Promise<readonly ActivityByHand[]> {
  return await waitFor(`activity ${type ?? 'of any type'}`, async (see) => {
    const all = see(await operator.activities());
    if (type === undefined) return all;
    const found = all.filter((activity) => activity.type === type);
    return found.some(({ isBegun }) => isBegun) && found;
  });
}

/** Treats an operation of one type at each of its moments. */
export function testByHand(windlass: () => Windlass, { moments, usual }: ByHandSuite): void {
  it.concurrent('ends again, from each of its workflow tasks after its end', async () => {
    const [moment] = Object.values(moments);
    if (!moment) throw new Error('there is no moment');
    const { operation, operator } = await held(windlass(), moment);
    await endsAs(usual, operation, operator);
    const runId = await operator.runId();
    const points = resetPoints(await operator.handle.fetchHistory());
    for (const point of points) {
      await operator.reset(runId, point);
      await operator.ended(Promise.resolve());
    }
    await expectEnd(usual, operation);
  });

  for (const [what, moment] of Object.entries(moments)) {
    it.concurrent(`goes on from each of its workflow tasks when ${what}`, async () => {
      const { operation, operator } = await held(windlass(), moment);
      const runId = await operator.runId();
      const points = resetPoints(await operator.handle.fetchHistory());
      for (const point of points) await operator.reset(runId, point);
      await endsAs(usual, operation, operator, 1 + points.length);
    });

    it.concurrent(`begins anew when it is terminated when ${what}`, async () => {
      const { operation, operator } = await held(windlass(), moment);
      const runId = await operator.runId();
      await operator.handle.terminate('by hand');
      await waitFor('the next run', async () => (await operator.runId()) !== runId);
      await endsAs(usual, operation, operator, 2);
    });

    const { cancelled, endsAtOnce } = moment;
    if (cancelled) {
      it.concurrent(`is aborted by a cancellation when ${what}`, async () => {
        const { operation, operator } = await held(windlass(), moment);
        await operator.handle.cancel();
        if (endsAtOnce) await operation.over();
        await operation.letGo();
        await waitFor('the end', async () => {
          await expectEnd(cancelled, operation);
          return (await operator.handle.describe()).status.name !== 'RUNNING';
        });
      });
    }

    for (const [treated, { before, after }] of Object.entries(treatments)) {
      it.concurrent(`goes on when its activities are ${treated} when ${what}`, async () => {
        const { operation, operator, activities } = await held(windlass(), moment);
        const ids = activities.map(({ id }) => id);
        for (const id of ids) await unlessEnded(operator, id, before);
        await operation.letGo();
        for (const id of ids) await unlessEnded(operator, id, after);
        await endsAs(usual, { ...operation, letGo: () => undefined }, operator);
      });
    }
  }
}
