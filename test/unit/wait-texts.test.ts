import { describe, expect, it } from '@jest/globals';
import { launchWaits } from '../../api/container-launch-priority.ts';
import { recreateWaits } from '../../api/container-recreate-request/texts.ts';
import { pullJobWaits } from '../../api/image-pull-job/texts.ts';
import { terminationWaits } from '../../api/job-sidecar-termination.ts';
import { pullWaits } from '../../api/node-image/texts.ts';
import { swapWaits } from '../../api/sidecar-set/swap.ts';

const waits = { recreateWaits, launchWaits, terminationWaits, swapWaits, pullWaits, pullJobWaits };

// Operations on one pod have no clock of their own, so their texts name both cases.
describe('the remedy of a wait that ends by itself as a rule', () => {
  it.each([
    ['recreateWaits', ['Draining', 'Stopping', 'ContainerNotFound', 'ContainerNotReady', 'MinStartedSeconds']],
    ['launchWaits', ['ContainerNotReady']],
    ['terminationWaits', ['QuickExitPending', 'ContainerNotStarted', 'Stopping', 'StopFailed']],
    ['swapWaits', ['ContainerNotReported', 'ContainerNotReady', 'PodNotReady', 'IdleNotReported']],
    ['pullWaits', ['Pulling', 'BackingOff']],
    ['pullJobWaits', ['Pulling', 'NodesFull', 'NoNodeImages', 'NoNodes']],
  ] as const)('says first when there is nothing to do: %s', (kind, reasons) => {
    const texts = new Map<string, string>(Object.entries(waits[kind]));
    expect(reasons.filter((reason) => !texts.get(reason)?.startsWith('Nothing to do'))).toEqual([]);
  });
});
