import { describe, expect, it } from '@jest/globals';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request.ts';
import type { Pod } from '../../api/pod.ts';
import { passOverSidecars } from '../../watcher/kinds/job-sidecar-termination.ts';
import type { WantedOperation } from '../../watcher/starter.ts';
import { trimPod } from '../../watcher/trim.ts';
import { jobPod, stoppedStatus, stopRequest } from '../support/job-pod.ts';
import { cacheOf } from '../support/recreate-requests.ts';

const workflowId = 'terminate-sidecars/pod-1';
const due = { marks: { main: 'main', proxy: 'sidecar' }, now: { main: { exitCode: 0 } } } as const;

function watcher() {
  const operations: WantedOperation[] = [];
  const forgotten: string[] = [];
  const told: string[] = [];
  const wanted = new Set<string>();
  return {
    operations,
    forgotten,
    told,
    async pass(pod?: Pod, request?: ContainerRecreateRequest) {
      await passOverSidecars('pod-1', {
        pods: cacheOf(pod ? [trimPod(pod)] : []),
        requests: cacheOf(request ? [request] : []),
        nodes: cacheOf([]),
        wanted,
        starter: {
          want: (operation) => void operations.push(operation),
          forget: (id) => void forgotten.push(id),
          tell: async (id) => void told.push(id),
        },
      });
    },
  };
}

describe('a pass over the sidecars of a pod', () => {
  it('JST-1: wants an operation once the main containers are done', async () => {
    const house = watcher();
    await house.pass(jobPod({ ...due, now: {} }));
    expect([house.operations, house.told]).toEqual([[], []]);
    await house.pass(jobPod(due));
    expect(house.operations).toMatchObject([
      {
        workflowId,
        workflowType: 'terminateSidecars',
        argument: { pod: { namespace: 'shop', name: 'job-1', uid: 'pod-1' } },
        summary: 'end sidecars of pod shop/job-1',
        about: { kind: 'Pod', namespace: 'shop', name: 'job-1', node: 'node-1' },
      },
    ]);
  });

  it('tells it of everything that decides, and of nothing else', async () => {
    const house = watcher();
    await house.pass(jobPod(due));
    await house.pass(jobPod({ ...due, metadata: { resourceVersion: '2', labels: { new: 'x' } } }));
    await house.pass(jobPod(due), stopRequest(['proxy']));
    await house.pass(jobPod(due), stopRequest(['proxy'], { status: { phase: 'Recreating' } }));
    await house.pass(jobPod(due), stopRequest(['proxy'], { status: stoppedStatus('proxy') }));
    await house.pass(
      jobPod({ ...due, instances: { proxy: 1 } }),
      stopRequest(['proxy'], { status: stoppedStatus('proxy') }),
    );
    const inputs = house.operations.map((operation) => operation.inputs);
    expect(inputs[1]).toBe(inputs[0]);
    expect(inputs[3]).toBe(inputs[2]);
    expect(new Set(inputs).size).toBe(4);
  });

  it('JST-33, JST-34: lets it look once more when nothing is left to end, or the pod is gone', async () => {
    for (const ended of [jobPod({ ...due, now: { main: { exitCode: 0 }, proxy: { exitCode: 0 } } }), undefined]) {
      const house = watcher();
      await house.pass(jobPod(due));
      await house.pass(ended);
      await house.pass(ended);
      expect(house.told).toEqual([workflowId]);
      expect(house.forgotten).toContain(workflowId);
    }
  });
});
