import { describe, expect, it } from '@jest/globals';
import { lockOf } from '../../api/engine/operation-id.ts';
import { SwapOperations } from '../../watcher/kinds/sidecar-set/swap-operations.ts';
import type { WantedOperation } from '../../watcher/starter.ts';
import { aSidecarSet, injectedPod } from '../support/sidecar-pods.ts';

function played() {
  const wanted = new Map<string, WantedOperation>();
  const wakes: string[] = [];
  const operations = new SwapOperations({
    starter: {
      want: (operation) => void wanted.set(lockOf(operation.workflowId), operation),
      forget: (workflowId) => void wanted.delete(lockOf(workflowId)),
    },
    wake: (uid) => wakes.push(uid),
  });
  return { operations, wanted, wakes };
}

const [mesh, logs] = [aSidecarSet({ name: 'mesh' }), aSidecarSet({ name: 'logs' })];
const pod = injectedPod([mesh, logs], { name: 'web-0' });

describe('the operations that swap sidecars', () => {
  it('are started for the pod, and told when they lead to another content', () => {
    const { operations, wanted } = played();
    operations.want(mesh, [pod], 'one');
    const before = wanted.get('swap-sidecar/uid-web-0');
    expect(before).toMatchObject({
      workflowId: 'swap-sidecar/shop/web-0/uid-web-0',
      workflowType: 'swapSidecar',
      argument: { pod: { namespace: 'shop', name: 'web-0' }, set: { name: 'mesh' }, cause: 'roll-out/mesh/uid-mesh' },
    });
    expect(before?.change).toEqual({ operation: before?.argument });
    operations.want(mesh, [pod], 'other');
    expect(wanted.get('swap-sidecar/uid-web-0')?.inputs).not.toBe(before?.inputs);
  });

  it('are forgotten when the SidecarSet does not want them any more, or is gone', () => {
    const { operations, wanted } = played();
    operations.want(mesh, [pod], 'one');
    operations.want(mesh, [], 'one');
    expect(wanted.size).toBe(0);
    operations.want(mesh, [pod], 'one');
    operations.forget('uid-mesh');
    expect(wanted.size).toBe(0);
  });

  it('of two SidecarSets go one after the other in a pod', () => {
    const { operations, wanted, wakes } = played();
    operations.want(mesh, [pod], 'one');
    operations.want(logs, [pod], 'two');
    expect([...wanted.values()].map(({ argument }) => argument)).toMatchObject([{ set: { name: 'mesh' } }]);
    expect([...operations.inFrontOf('uid-logs')]).toEqual([['uid-web-0', 'mesh']]);
    expect(operations.inFrontOf('uid-mesh').size).toBe(0);
    operations.want(mesh, [], 'one');
    expect(operations.inFrontOf('uid-logs').size).toBe(0);
    expect(wakes).toEqual(['uid-logs']);
    operations.want(logs, [pod], 'two');
    expect([...wanted.values()].map(({ argument }) => argument)).toMatchObject([{ set: { name: 'logs' } }]);
  });

  it('a SidecarSet that does not want its turn any more is not woken', () => {
    const { operations, wakes } = played();
    operations.want(mesh, [pod], 'one');
    operations.want(logs, [pod], 'two');
    operations.want(logs, [], 'two');
    operations.forget('uid-mesh');
    expect(wakes).toEqual([]);
  });
});
