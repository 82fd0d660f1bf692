import { CancellationScope, condition, defineSignal, setHandler, workflowInfo } from '@temporalio/workflow';
import { changedSignal, commandNames } from '../api/engine/operations.ts';
import { type PullJobOperation, pullOnNodesId } from '../api/image-pull-job/operation.ts';
import { imagePullJobs } from '../api/image-pull-job/types.ts';
import { shortened, summaryBytes } from './plan/text-size.ts';
import { images, look } from './shared/activities.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { listenToOperator, type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { checkOwnId } from './shared/own-id.ts';
import type { Fields } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** What a run leaves to the next one; all else stands on the job. */
export interface PullJobHandOver {
  readonly operator: OperatorHandOver;
}

const pullJobHandOver: Fields<PullJobHandOver> = { operator: operatorHandOver };

/**
 * Steers one job that pulls an image on many nodes. The watcher chooses the nodes and counts them; this hears pause,
 * resume, retry and abort and writes them down on the job, where the watcher obeys them, and ends when the job has.
 */
export async function pullOnNodes(operation: PullJobOperation, handOver?: unknown): Promise<void> {
  const { job } = operation;
  checkOwnId(pullOnNodesId(job.uid));
  const before = handedOver(handOver, pullJobHandOver);
  const commands: { readonly command: OperatorCommand; readonly by: string }[] = [];
  let wantsLook = true;

  setHandler(defineSignal<[unknown]>(changedSignal), () => {
    wantsLook = true;
  });
  const operator = listenToOperator(
    commandNames,
    { command: () => undefined, identified: (command, by) => void commands.push({ command, by }) },
    { before: before.operator },
  );
  CancellationScope.current().cancelRequested.catch(() =>
    commands.push({ command: { id: 0, name: 'abort' }, by: 'a cancellation of its workflow' }),
  );

  await CancellationScope.nonCancellable(async () => {
    for (;;) {
      for (const { command, by } of commands.splice(0)) await carryOut(command, by);
      if (wantsLook) {
        wantsLook = false;
        const summary = shortened(`look at ${job.name}`, summaryBytes);
        const seen = await untilAllowed(() => look.lookAtPullJob.executeWithOptions({ summary }, [job]), operator);
        if (seen !== 'open') return;
      }
      const hasNews = () => wantsLook || commands.length > 0;
      const isDue = () => operator.isHandOverDue() && operator.unidentified() === 0;
      await condition(() => hasNews() || isDue());
      // all that counts is written down on the job
      if (!hasNews()) await handOverTo<typeof pullOnNodes>([operation, { operator: operator.handOver() }]);
    }
  });

  async function carryOut(command: OperatorCommand, by: string): Promise<void> {
    const { name } = command;
    await untilAllowed(
      () => images.steerPullJob.executeWithOptions({ summary: name }, [{ job, command: name, by }]),
      operator,
      { superseded: () => undefined },
    );
    const key = `${workflowInfo().runId.slice(0, 8)}-${command.id}`;
    const about = { kind: imagePullJobs.kind, ...job };
    const options = { summary: `emit an Event: ${name}`, scheduleToCloseTimeout: '30s', retry: { maximumAttempts: 3 } };
    await images.announceSteering
      .executeWithOptions(options, [{ about, command: name, by, key }])
      .catch(() => undefined);
  }
}
