/** What a ContainerRecreateRequest waits for. */
import { type RecreateWaitReason, recreateWaits } from '../../api/container-recreate-request/texts.ts';
import { refusalWait } from '../../api/core/failure.ts';
import { firstWait, type Rule, type Wait, waitFor } from '../decision.ts';
import { joinedDetails } from '../pod-trouble.ts';
import { shortened } from '../text-size.ts';
import { type ContainerProgress, isAnswered, isSettled, type Progress, positionIn } from './model.ts';

/** As JSON; texts come from runtimes and people, and are stored in histories. */
const waitBytes = 900;

/** Evaluated before a stop, in this order; the first wait holds it back. */
export const stopRules: readonly Rule<Progress>[] = [paused, draining];

function paused(progress: Progress): Wait | undefined {
  if (!progress.paused) return undefined;
  const by = progress.commands.findLast((command) => command.name === 'pause')?.by;
  return wait('Paused', [], by === undefined ? progress.pauseNote : `${recreateWaits.Paused}; paused by ${by}`);
}

function draining(progress: Progress): Wait | undefined {
  if (progress.drain !== 'due' && progress.drain !== 'running') return undefined;
  return wait('Draining', [`pod/${progress.order.pod}`]);
}

/** What the request waits for, by precedence. A pause comes first, because the next run reads it from the status. */
export function recreateWait(progress: Progress): Wait | undefined {
  const { parked, inFlight, order, runtimeAway } = progress;
  const pause = paused(progress);
  if (pause) return pause;
  if (parked) {
    const reason = refusalWait(parked.reason);
    return wait(reason, [`pod/${order.pod}`], `${recreateWaits[reason]}; ${parked.message}`);
  }
  if (progress.nodeSilent) return wait('NodeSilent', [`pod/${order.pod}`]);
  if (runtimeAway !== undefined) {
    return wait('RuntimeUnreachable', [`pod/${order.pod}`], `${recreateWaits.RuntimeUnreachable}; ${runtimeAway}`);
  }
  // reported once the node has answered: a first stop may begin earlier
  if (inFlight.stopping !== undefined && isAnswered(progress)) {
    return wait('Stopping', [`container/${inFlight.stopping}`]);
  }

  const at = positionIn(progress);
  if (at.kind === 'stop') return firstWait(stopRules, progress);
  if (at.kind === 'missing') return waitForContainers('ContainerNotFound', [at.container]);

  const starting = progress.containers.filter((container) => container.phase === 'Recreating' && !isSettled(container));
  if (starting.length === 0) return undefined;
  const unready = starting.filter(({ isYoung }) => !isYoung);
  if (unready.length === 0) return wait('MinStartedSeconds', starting.map(containerBlocker));
  return waitForContainers(order.neverRestarts ? 'PodFinished' : 'ContainerNotReady', unready);
}

/** With why the kubelet does not start the first of them of which it says that. */
function waitForContainers(reason: RecreateWaitReason, containers: readonly ContainerProgress[]): Wait {
  const troubled = containers.find(({ trouble }) => trouble);
  const trouble = troubled && `${troubled.name}: ${troubled.trouble}`;
  return wait(reason, containers.map(containerBlocker), joinedDetails(recreateWaits[reason], trouble));
}

function containerBlocker({ name }: ContainerProgress): string {
  return `container/${name}`;
}

function wait(reason: RecreateWaitReason, blockedBy: readonly string[], unblock: string = recreateWaits[reason]): Wait {
  return waitFor(reason, blockedBy, shortened(unblock, waitBytes));
}
