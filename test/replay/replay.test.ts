import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import {
  bundleWorkflowCode,
  DefaultLogger,
  Runtime,
  Worker,
  type WorkflowBundleWithSourceMap,
} from '@temporalio/worker';
import { workflowSources } from '../../workers/write-workflow-bundle.ts';
import { root } from '../check/all.ts';

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

describe('histories of real runs', () => {
  let workflowBundle: WorkflowBundleWithSourceMap;

  beforeAll(async () => {
    const logger = new DefaultLogger('ERROR');
    Runtime.install({ logger, telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' } } } });
    workflowBundle = await bundleWorkflowCode({ ...workflowSources, logger });
  });

  function read({ workflow, branch }: { readonly workflow: string; readonly branch: string }): string {
    return readFileSync(join(histories, workflow, `${branch}.json`), 'utf8');
  }

  async function replay(history: string): Promise<void> {
    const { events } = JSON.parse(history) as { events: readonly Started[] };
    const { workflowId } = events[0]?.workflowExecutionStartedEventAttributes ?? {};
    await Worker.runReplayHistory({ workflowBundle }, JSON.parse(history), workflowId);
  }

  it('exist', () => {
    expect(recorded).not.toEqual([]);
  });

  for (const one of recorded) {
    it(`replay on the code of today: ${one.workflow}, ${one.branch}`, async () => {
      await replay(read(one));
    });
  }

  it('would not replay on code that does something else', async () => {
    const history = read({ workflow: 'restartContainers', branch: 'ordered' });
    const other = history.replaceAll('"node.v1.stopContainer"', '"node.v1.awaitContainer"');
    expect(other).not.toBe(history);
    await expect(replay(other)).rejects.toThrow('Nondeterminism');
  });
});
