import { condition, workflowInfo } from '@temporalio/workflow';
import type { NextWork } from '../../activities/temporal/next-run.ts';
import { shortened, summaryBytes } from '../../plan/text-size.ts';
import { temporal } from './activities.ts';
import type { OperationRun } from './operation.ts';
import type { KeptCommand } from './operator.ts';

/**
 * Has the next work on the same thing started once this run has closed. If that fails, the watcher starts it. What the run
 * receives until then is read first: a run that has closed receives nothing.
 */
export async function startNextRun<Work extends NextWork>(
  { operator, isAnnounced }: Pick<OperationRun, 'operator' | 'isAnnounced'>,
  next: () => Work | undefined,
  nameOf: (work: Work) => string,
): Promise<void> {
  let told: Work | undefined;
  while (next() !== undefined) {
    await condition(() => operator.unidentified() === 0 && isAnnounced());
    const work = next();
    if (work === undefined || (work === told && !operator.keepsCommands())) return;
    told = work;
    await start(work, nameOf(work), operator.takeKept());
  }
}

async function start(work: NextWork, name: string, commands: readonly KeptCommand[]): Promise<void> {
  const { workflowId, runId, memo } = workflowInfo();
  const summary = shortened(`start the next run: ${name}`, summaryBytes);
  const build = typeof memo?.build === 'string' ? memo.build : undefined;
  const input = { workflowId, runId, work, commands, ...(build !== undefined && { build }) };
  await temporal.startNextRun.executeWithOptions({ summary }, [input]).catch(() => undefined);
}
