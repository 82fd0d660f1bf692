import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DefaultLogger, ReplayError, Runtime, Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { workflowBundle } from '../../workers/workflow-bundle.ts';
import { root } from '../check/all.ts';
import {
  corpusTable,
  type HistoryClass,
  misplaced,
  type ReleasedHistory,
  readCorpus,
} from '../support/release-corpus.ts';

/** `histories/<workflow>/<branch>.json`, as `npm run record` writes them. */
const histories = join(root, 'test/replay/histories');

interface Started {
  readonly workflowExecutionStartedEventAttributes?: { readonly workflowId: string };
}

const recorded = existsSync(histories)
  ? readdirSync(histories).flatMap((workflow) =>
      readdirSync(join(histories, workflow)).map((file) => ({ workflow, branch: file.replace(/\.json$/, '') })),
    )
  : [];

type ReplayResults = ReturnType<typeof Worker.runReplayHistories>;

let replayed: ReplayResults;
let next: { readonly workflowId: string; readonly history: unknown };

beforeAll(async () => {
  const logger = new DefaultLogger('ERROR');
  Runtime.install({ logger, telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' } } } });
  replayed = Worker.runReplayHistories({ workflowBundle: { codePath: await workflowBundle() } }, given());
});

afterAll(async () => {
  await replayed?.return?.();
});

/** One worker takes each history when its test asks for the result: a worker of its own for each would take ten times as long. */
async function* given() {
  for (;;) yield next;
}

async function replay(text: string): Promise<void> {
  const history = JSON.parse(text) as { readonly events: readonly Started[] };
  const { workflowId = '' } = history.events[0]?.workflowExecutionStartedEventAttributes ?? {};
  next = { workflowId, history };
  const { done, value } = await replayed.next();
  if (done) throw new Error(`The worker has ended before it has replayed ${workflowId}`);
  if (value.error) throw value.error;
}

describe('histories of real runs', () => {
  function read({ workflow, branch }: { readonly workflow: string; readonly branch: string }): string {
    return readFileSync(join(histories, workflow, `${branch}.json`), 'utf8');
  }

  it('exist', () => {
    expect(recorded).not.toEqual([]);
  });

  for (const one of recorded) {
    it(`replay on the code of today: ${one.workflow}, ${one.branch}`, async () => {
      await replay(read(one));
    });
  }

  it('contain no local activity: its result may come in another order when it is replayed', () => {
    const withLocal = recorded.filter((one) => read(one).includes('core_local_activity'));
    expect(withLocal).toEqual([]);
  });

  it('would not replay on code that does something else', async () => {
    const history = read({ workflow: 'restartContainers', branch: 'ordered' });
    const other = history.replaceAll('"node.v1.stopContainer"', '"node.v1.awaitContainer"');
    expect(other).not.toBe(history);
    await expect(replay(other)).rejects.toThrow('Nondeterminism');
  });
});

describe('histories of releases', () => {
  const corpus = readCorpus();
  const outcomes: (ReleasedHistory & { readonly now: HistoryClass })[] = [];

  afterAll(() => {
    process.stdout.write(`\n${corpusTable(outcomes)}\n`);
  });

  it('are there as they were frozen, and those that drain say since when and why', () => {
    expect(corpus.histories).not.toEqual([]);
    expect(corpus.problems).toEqual([]);
  });

  for (const one of corpus.histories) {
    const { release, workflow, branch, kind } = one;
    it(`${kind === 'replays' ? 'replay' : 'drain'} on the code of today: ${release}, ${workflow}, ${branch}`, async () => {
      const why = await failedReplay(readFileSync(one.file, 'utf8'));
      const now = why === undefined ? 'replays' : 'drains';
      outcomes.push({ ...one, now });
      const problem = misplaced(one, now);
      if (problem !== undefined) throw new Error(problem, { cause: why });
    });
  }
});

/** Why a history does not replay; undefined when it does. */
async function failedReplay(history: string): Promise<Error | undefined> {
  try {
    await replay(history);
    return undefined;
  } catch (error) {
    if (error instanceof DeterminismViolationError || error instanceof ReplayError) return error;
    throw error;
  }
}
