import { condition } from '@temporalio/workflow';
import { commandNames } from '../api/engine/operations.ts';
import { type PullJobOperation, pullOnNodesId } from '../api/image-pull-job/operation.ts';
import { imagePullJobs } from '../api/image-pull-job/types.ts';
import { shortened, summaryBytes } from './plan/text-size.ts';
import { images, look } from './shared/activities.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { announce, beginOperation } from './shared/operation.ts';
import { type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import type { Fields } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** What a run hands over to the next one; everything else is on the job. */
export interface PullJobHandOver {
  readonly operator: OperatorHandOver;
}

const pullJobHandOver: Fields<PullJobHandOver> = { operator: operatorHandOver };

/**
 * Receives the commands for one job that pulls an image on many nodes. The watcher selects the nodes and counts the
 * results; this operation receives pause, resume, retry and abort, writes them to the job, where the watcher carries
 * them out, and completes when the job has.
 */
export async function pullOnNodes(operation: PullJobOperation, handOver?: unknown): Promise<void> {
  const { job } = operation;
  const before = handedOver(handOver, pullJobHandOver);
  const commands: { readonly command: OperatorCommand; readonly by: string }[] = [];
  let wantsLook = true;

  const run = beginOperation(
    { id: pullOnNodesId(job.uid), commands: commandNames, before: before.operator },
    {
      changed: () => {
        wantsLook = true;
      },
      command: () => undefined,
      identified: (command, by) => void commands.push({ command, by }),
      cancelled: (abort) => void commands.push({ command: abort, by: abort.by }),
    },
  );
  const { operator } = run;

  await run.carryOut(async () => {
    for (;;) {
      for (const { command, by } of commands.splice(0)) await steer(command, by);
      if (wantsLook) {
        wantsLook = false;
        const summary = shortened(`look at ${job.name}`, summaryBytes);
        const seen = await untilAllowed(() => look.lookAtPullJob.executeWithOptions({ summary }, [job]), operator);
        if (seen !== 'open') return;
      }
      const hasWork = () => wantsLook || commands.length > 0;
      const isDue = () => operator.isHandOverDue() && operator.unidentified() === 0;
      await condition(() => hasWork() || isDue());
      // everything that matters is written on the job
      if (!hasWork()) await handOverTo<typeof pullOnNodes>([operation, { operator: operator.handOver() }]);
    }
  });

  /** Writes a command to the job. */
  async function steer(command: OperatorCommand, by: string): Promise<void> {
    const { name } = command;
    await untilAllowed(
      () => images.steerPullJob.executeWithOptions({ summary: name }, [{ job, command: name, by }]),
      operator,
      { superseded: () => undefined },
    );
    const about = { kind: imagePullJobs.kind, ...job };
    await announce(command, by, ({ options, event: { target: _, ...event } }) =>
      images.announceSteering.executeWithOptions(options, [{ about, ...event }]),
    );
  }
}
