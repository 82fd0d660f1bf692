import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource, podReadinessGate } from '../../api/core/well-known.ts';
import {
  answerReadinessGate,
  changePodConditions,
} from '../../watcher/kinds/container-recreate-request/pod-readiness.ts';
import { readinessGates } from '../../watcher/kinds/pod/readiness-gates.ts';
import { runController } from '../support/controller-context.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { createdAt } from '../support/objects/metadata.ts';
import type { PodOverrides } from '../support/objects/pod.ts';
import { conflict, gatedPod, unavailable } from '../support/recreate-requests.ts';
import { waitFor } from '../support/wait.ts';

const ready = { type: 'Ready', status: 'False' };

/** A new pod with the gate and without its condition. */
function newPod(overrides: PodOverrides = {}): Pod {
  return gatedPod({ status: { conditions: [ready] }, ...overrides });
}

function serverWith(live: Pod | undefined, meet?: (call: SeenCall) => void) {
  const cluster = new MemoryCluster();
  if (live) cluster.put(kubeResource.pods, live);
  const writes: SeenCall[] = [];
  const kube = cluster.client((call) => {
    meet?.(call);
    if (call.verb !== 'get') writes.push(call);
  });
  const conditions = () => cluster.look<Pod>(kubeResource.pods, gatedPod().metadata)?.status?.conditions;
  const answer = (pod: Pod) => answerReadinessGate(pod, { kube, now: () => Date.parse(createdAt) });
  return { kube, writes, conditions, answer };
}

describe('answerReadinessGate', () => {
  it('PRG-6, LC-51: says True for a gate that nobody has answered for, and leaves other conditions alone', async () => {
    const { answer, conditions } = serverWith(newPod());
    await answer(newPod());
    expect(conditions()).toEqual([ready, { type: podReadinessGate, status: 'True', lastTransitionTime: createdAt }]);
  });

  it('PRG-6: asks nothing of pods without the gate, and of pods that are being deleted', async () => {
    const asked: SeenCall[] = [];
    const { answer } = serverWith(newPod(), (call) => void asked.push(call));
    await answer(newPod({ spec: { containers: [], readinessGates: [] } }));
    await answer(newPod({ metadata: { deletionTimestamp: createdAt } }));
    expect(asked).toEqual([]);
  });

  it('PRG-8: leaves an answer alone, whatever it says, also one that the cache does not show yet', async () => {
    const closed = newPod({ status: { conditions: [{ type: podReadinessGate, status: 'False', message: '[]' }] } });
    const { answer, writes } = serverWith(closed);
    await answer(closed);
    await answer(newPod());
    expect(writes).toEqual([]);
  });

  it('writes on the version that it has read, and reads again when the kubelet was faster', async () => {
    let conflicts = 0;
    const { answer, conditions, writes } = serverWith(newPod(), ({ verb }) => {
      if (verb === 'patch' && ++conflicts <= 3) throw conflict();
    });
    await answer(newPod());
    expect(conditions()).toHaveLength(2);
    expect(writes).toMatchObject([{ body: { metadata: { uid: 'pod-1', resourceVersion: expect.any(String) } } }]);
  });

  it('takes a pod that is gone, or another of its name, for one that needs nothing', async () => {
    await serverWith(undefined).answer(newPod());
    const { answer, writes } = serverWith(newPod({ metadata: { uid: 'pod-2' } }));
    await answer(newPod());
    expect(writes).toEqual([]);
  });

  it('fails when it cannot write, so that the pass is repeated', async () => {
    const failing = (error: Error) => {
      const { answer } = serverWith(newPod(), ({ verb }) => {
        if (verb === 'patch') throw error;
      });
      return answer(newPod());
    };
    await expect(failing(unavailable())).rejects.toThrow('etcd is away');
    await expect(failing(conflict())).rejects.toThrow('modified');
  });
});

describe('the controller of readiness gates', () => {
  it('PRG-6: answers for new pods, and leaves those of a fleet to it, which does so in a write of its own', async () => {
    const owner = {
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'CloneSet',
      name: 'web',
      uid: 'set-1',
      controller: true,
    };
    const named = (name: string, more: object = {}) => newPod({ metadata: { name, uid: name, ...more } });
    const { cluster, writes, stop } = await runController(readinessGates);
    cluster.put(kubeResource.pods, named('of-fleet', { ownerReferences: [owner] }));
    cluster.put(kubeResource.pods, named('not-controlled', { ownerReferences: [{ ...owner, controller: false }] }));
    cluster.put(kubeResource.pods, named('free'));
    await waitFor('both answers', () => writes.length === 2);
    await new Promise((resolve) => setImmediate(resolve));
    expect(writes.map(({ name }) => name)).toEqual(['not-controlled', 'free']);
    await stop();
  });
});

describe('changePodConditions', () => {
  it('PRG-15: writes nothing when there is nothing to change', async () => {
    const { kube, writes } = serverWith(newPod());
    await changePodConditions(kube, gatedPod().metadata, () => undefined);
    expect(writes).toEqual([]);
  });

  it('PRG-17: does not ask about a pod that is going', async () => {
    const { kube } = serverWith(newPod({ metadata: { deletionTimestamp: createdAt } }));
    const change = () => {
      throw new Error('must not be asked');
    };
    await changePodConditions(kube, gatedPod().metadata, change);
  });
});
