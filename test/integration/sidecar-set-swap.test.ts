import { expect, it } from '@jest/globals';
import { kubeResource } from '../../api/core/well-known.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import { swapAnnotation } from '../../api/sidecar-set/swap.ts';
import { closedAs } from '../support/closed.ts';
import { describeAlone } from '../support/groups.ts';
import { summariesOf } from '../support/history.ts';
import { HotSidecars, withImage } from '../support/hot-sidecars.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

const windlass = useWindlass();

describeAlone('swaps of sidecars in a real API server with a real Temporal', () => {
  it('SHU-32, SHU-41: the roll-out starts the swap, whose history says what it does, and which leaves an idle container', async () => {
    const sidecars = await HotSidecars.create(windlass());
    await sidecars.patch(withImage('busybox:1.36'));
    await sidecars.until('the swap', async () => (await sidecars.images())['mesh-1'] === 'busybox:empty');
    await sidecars.until('the end', async () => (await sidecars.handle.describe()).status.name === 'COMPLETED');
    expect(await sidecars.images()).toMatchObject({ 'mesh-1': 'busybox:empty', 'mesh-2': 'busybox:1.36' });
    const { annotations = {} } = (await sidecars.pod()).metadata;
    expect(annotations[hotMark.working]).toBe('{"mesh":"mesh-2"}');
    expect(annotations[`${hotMark.version}mesh-1`]).toBe('0');
    expect(summariesOf(await sidecars.handle.fetchHistory()).filter((text) => !text.startsWith('look'))).toEqual([
      'write busybox:1.36 into web-0 mesh-2',
      'wait until mesh-2 of web-0 is ready',
      'reset mesh-1 of web-0',
      'wait until mesh-1 of web-0 is idle',
    ]);
    await sidecars.until('the counts', async () => (await sidecars.set()).status?.updatedReadyPods === 1);
    await sidecars.delete();
  });

  it('SHU-63: a swap that is not over in time is undone, and the old version has served all the time', async () => {
    const sidecars = await HotSidecars.create(windlass(), { [swapAnnotation.deadline]: '3s' });
    await sidecars.patch(withImage('busybox:broken'));
    await sidecars.until('the write', async () => (await sidecars.images())['mesh-2'] === 'busybox:broken');
    await sidecars.until('the undo', async () => (await sidecars.images())['mesh-2'] === 'busybox:empty');
    await sidecars.until('the end', async () => (await sidecars.handle.describe()).status.name !== 'RUNNING');
    expect(await closedAs(sidecars.handle)).toBe('FAILED');
    expect(await sidecars.images()).toMatchObject({ 'mesh-1': 'busybox:1.35', 'mesh-2': 'busybox:empty' });
    expect((await sidecars.pod()).metadata.annotations?.[hotMark.working]).toBe('{"mesh":"mesh-1"}');
    await sidecars.delete();
  });

  it('SHU-43: a paused SidecarSet holds the reset back until it is unpaused', async () => {
    const sidecars = await HotSidecars.create(windlass());
    await sidecars.patch(withImage('busybox:broken'));
    await sidecars.until('the write', async () => (await sidecars.images())['mesh-2'] === 'busybox:broken');
    await sidecars.patch({ spec: { updateStrategy: { paused: true } } });
    await sidecars.handle.signal('abort', { by: 'ann' });
    await sidecars.until('the wait', async () => {
      const { searchAttributes } = await sidecars.handle.describe();
      return searchAttributes.WindlassReason?.[0] === 'Paused';
    });
    expect((await sidecars.images())['mesh-2']).toBe('busybox:broken');
    await sidecars.patch({ spec: { updateStrategy: { paused: false } } });
    await sidecars.until('the undo', async () => (await sidecars.images())['mesh-2'] === 'busybox:empty');
    await sidecars.until('the end', async () => (await sidecars.handle.describe()).status.name === 'FAILED');
    await sidecars.delete();
  });

  it('SHU-45: on a node that goes away nothing more is written; the swap and the roll-out end with the deletion of the pod', async () => {
    const sidecars = await HotSidecars.create(windlass());
    await sidecars.patch(withImage('busybox:1.36'));
    // The kubelet is not played from here on.
    await waitFor('the write', async () => (await sidecars.images())['mesh-2'] === 'busybox:1.36');
    const reasonOf = async () => (await sidecars.handle.describe()).searchAttributes.WindlassReason?.[0];
    await waitFor('the wait', async (see) => see(await reasonOf()) === 'ContainerNotReported');

    // What the node controller does: the pod is not ready, and then deleted, but its kubelet does not end it.
    const { kube } = windlass().cluster;
    const { metadata } = await sidecars.pod();
    const ref = { namespace: sidecars.namespace, name: metadata.name };
    const ready = { type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown' };
    await kube.patch(
      kubeResource.pods,
      ref,
      'strategic',
      { status: { conditions: [ready] } },
      { subresource: 'status' },
    );
    await kube.patch(kubeResource.pods, ref, 'merge', { metadata: { finalizers: ['example.com/kubelet'] } });
    await kube.delete(kubeResource.pods, ref);
    await waitFor('the end', async () => (await sidecars.handle.describe()).status.name !== 'RUNNING');
    expect(await sidecars.images()).toMatchObject({ 'mesh-1': 'busybox:1.35', 'mesh-2': 'busybox:1.36' });
    const rollOut = windlass().client.workflow.getHandle(rollOutId((await sidecars.set()).metadata));
    await waitFor('the end of the roll-out', async () => (await rollOut.describe()).status.name !== 'RUNNING');
    await kube.patch(kubeResource.pods, ref, 'merge', { metadata: { finalizers: [] } });
    await sidecars.delete();
  });
});
