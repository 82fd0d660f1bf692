/**
 * Our workflows as a release might have them whose workflow code decides otherwise: each gives one command more at its begin, so
 * that no history of the one replays on the other, and does the same work.
 */
import { CancellationScope, sleep } from '@temporalio/workflow';
import * as present from '../../workflows/index.ts';

export const pullImages = afterATimer(present.pullImages);
export const pullOnNodes = afterATimer(present.pullOnNodes);
export const restartContainers = afterATimer(present.restartContainers);
export const rollOut = afterATimer(present.rollOut);
export const swapSidecar = afterATimer(present.swapSidecar);
export const terminateSidecars = afterATimer(present.terminateSidecars);

function afterATimer<Args extends unknown[], Result>(workflow: (...args: Args) => Promise<Result>) {
  return async (...args: Args): Promise<Result> => {
    await CancellationScope.nonCancellable(() => sleep(1));
    return await workflow(...args);
  };
}
