import { describe, expect, it } from '@jest/globals';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type EngineTrouble, engineSilent, engineStuck } from '../../api/engine/engine-trouble.ts';
import { EventBudget } from '../../kube/events.ts';
import { passOverSidecars } from '../../watcher/kinds/pod/job-sidecar-termination/pass.ts';
import type { WantedOperation } from '../../watcher/starter.ts';
import { trimPod } from '../../watcher/trim.ts';
import { jobPod, stoppedStatus, stopRequest } from '../support/job-pod.ts';
import { createdAt } from '../support/objects/metadata.ts';
import { cacheOf } from '../support/recreate-requests.ts';

const workflowId = 'terminate-sidecars/shop/job-1/pod-1';
const lock = 'terminate-sidecars/pod-1';
const due = { marks: { main: 'main', proxy: 'sidecar' }, now: { main: { exitCode: 0 } } } as const;

function watcher(trouble?: EngineTrouble) {
  const operations: WantedOperation[] = [];
  const forgotten: string[] = [];
  const told: string[] = [];
  /** Commands, starts and patches, in their order. */
  const acts: unknown[] = [];
  const events: unknown[] = [];
  const wanted = new Set<string>();
  return {
    operations,
    forgotten,
    told,
    acts,
    events,
    async pass(pod?: Pod, request?: ContainerRecreateRequest) {
      await passOverSidecars('pod-1', {
        pods: cacheOf(pod ? [trimPod(pod)] : []),
        requests: cacheOf(request ? [request] : []),
        nodes: cacheOf([]),
        wanted,
        commandEvents: new EventBudget(() => 0),
        kube: {
          patch: async (_resource, _name, _kind, body) => {
            acts.push(body);
            return {} as never;
          },
          create: async (_resource, event) => {
            events.push(event);
            return event as never;
          },
        },
        starter: {
          want(operation) {
            operations.push(operation);
            acts.push('want');
          },
          isSent: () => false,
          command: async (id, name, payload, start) => void acts.push([id, name, payload, start?.argument]),
          forget: (id) => void forgotten.push(id),
          tell: async (id) => told.push(id) > 0,
          trouble: () => trouble,
        },
        now: () => Date.parse(createdAt),
      });
    },
  };
}

describe('a pass over the sidecars of a pod', () => {
  it('JST-1: wants an operation once the main containers are done', async () => {
    const context = watcher();
    await context.pass(jobPod({ ...due, now: {} }));
    expect([context.operations, context.told]).toEqual([[], []]);
    await context.pass(jobPod(due));
    expect(context.operations).toMatchObject([
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
    const context = watcher();
    await context.pass(jobPod(due));
    await context.pass(jobPod({ ...due, metadata: { resourceVersion: '2', labels: { new: 'x' } } }));
    await context.pass(jobPod(due), stopRequest(['proxy']));
    await context.pass(jobPod(due), stopRequest(['proxy'], { status: { phase: 'Recreating' } }));
    await context.pass(jobPod(due), stopRequest(['proxy'], { status: stoppedStatus('proxy') }));
    await context.pass(
      jobPod({ ...due, instances: { proxy: 1 } }),
      stopRequest(['proxy'], { status: stoppedStatus('proxy') }),
    );
    const inputs = context.operations.map((operation) => operation.inputs);
    expect(inputs[1]).toBe(inputs[0]);
    expect(inputs[3]).toBe(inputs[2]);
    expect(new Set(inputs).size).toBe(4);
  });

  it('JST-33, JST-34: lets it look once more when nothing is left to end, or the pod is gone', async () => {
    for (const ended of [jobPod({ ...due, now: { main: { exitCode: 0 }, proxy: { exitCode: 0 } } }), undefined]) {
      const context = watcher();
      await context.pass(jobPod(due));
      await context.pass(ended);
      await context.pass(ended);
      expect(context.told).toEqual([lock]);
      expect(context.forgotten).toContain(lock);
    }
  });
});

describe('an operation that does not go on', () => {
  const stuck = engineStuck({ workflowId, temporalNamespace: 'default', wasBegunAnew: false });
  const saying = (status: object) => ({
    metadata: { annotations: { 'windlass.io/sidecar-termination': JSON.stringify(status) } },
  });
  const said = {
    reason: 'EngineStuck',
    blockedBy: [`workflow/${workflowId}`],
    blockedCount: 1,
    unblock: stuck.unblock,
    since: createdAt,
  };
  const written = (acts: readonly unknown[]) =>
    acts.flatMap((act) => {
      const { metadata } = act as { readonly metadata?: { readonly annotations: Record<string, string | null> } };
      const text = metadata?.annotations['windlass.io/sidecar-termination'];
      return text === undefined ? [] : [text === null ? null : JSON.parse(text)];
    });

  it('EngineStuck: is reported on the pod, once, beside what people have decided', async () => {
    const context = watcher(stuck);
    await context.pass(jobPod({ ...due, ...saying({ skipped: ['other'] }) }));
    expect(written(context.acts)).toEqual([{ skipped: ['other'], waitingFor: said }]);
    await context.pass(jobPod({ ...due, ...saying({ waitingFor: said }) }));
    expect(written(context.acts)).toHaveLength(1);
    const [before, after] = context.operations.map(({ inputs }) => inputs);
    expect(after).not.toBe(before);
  });

  it('EngineSilent: is reported in the same way', async () => {
    const context = watcher(engineSilent);
    await context.pass(jobPod(due));
    expect(written(context.acts)).toMatchObject([{ waitingFor: { reason: 'EngineSilent', blockedBy: ['temporal'] } }]);
  });

  it('does not write over a pause, which must stay should the operation begin anew', async () => {
    const context = watcher(stuck);
    await context.pass(jobPod({ ...due, ...saying({ waitingFor: { ...said, reason: 'Paused' } }) }));
    expect(written(context.acts)).toEqual([]);
  });

  it('is taken off where nothing is left to end, and left to the operation where something is', async () => {
    const status = saying({ waitingFor: said });
    const context = watcher();
    await context.pass(jobPod({ ...due, ...status }));
    expect(written(context.acts)).toEqual([]);
    await context.pass(jobPod({ ...due, ...status, now: { main: { exitCode: 0 }, proxy: { exitCode: 0 } } }));
    expect(written(context.acts)).toEqual([null]);
  });
});

describe('a command in the annotation of the pod', () => {
  const managedFields = [
    { manager: 'kubelet', time: 't0', fieldsV1: { 'f:status': {} } },
    {
      manager: 'kubectl-annotate',
      time: 't1',
      fieldsV1: { 'f:metadata': { 'f:annotations': { 'f:windlass.io/command': {} } } },
    },
  ];
  const commanded = (command: string, given: object = due, annotations: object = {}) =>
    jobPod({
      ...due,
      ...given,
      metadata: { annotations: { 'windlass.io/command': command, ...annotations }, managedFields },
    });
  const removal = (command: string) => [
    { op: 'test', path: '/metadata/uid', value: 'pod-1' },
    { op: 'test', path: '/metadata/annotations/windlass.io~1command', value: command },
    { op: 'remove', path: '/metadata/annotations/windlass.io~1command' },
  ];

  it('reaches the operation before it is told to look, with who wrote it, and is taken off', async () => {
    const context = watcher();
    await context.pass(commanded('skip proxy'));
    const payload = { by: 'annotation of kubectl-annotate', target: 'proxy', id: 'pod-1/t1/skip proxy' };
    const argument = { pod: { namespace: 'shop', name: 'job-1', uid: 'pod-1' } };
    expect(context.acts).toEqual([[workflowId, 'skip', payload, argument], removal('skip proxy'), 'want']);
  });

  it('stays while the main containers run, unless it is none', async () => {
    const context = watcher();
    await context.pass(commanded('pause', { now: {} }));
    await context.pass(commanded('pause', { now: {}, phase: 'Pending' }));
    expect(context.acts).toEqual([]);
    await context.pass(commanded('undo', { now: {} }));
    expect(context.acts).toEqual([removal('undo')]);
  });

  it.each([
    ['whose sidecars have ended', commanded('retry', { now: { main: { exitCode: 0 }, proxy: { exitCode: 0 } } })],
    ['that has failed before its sidecars had a status', commanded('retry', { phase: 'Failed', now: {} })],
    [
      'of which somebody aborted it',
      commanded('retry', due, { 'windlass.io/sidecar-termination': '{"abortedBy":"ann"}' }),
    ],
  ])('is refused for a pod %s', async (_, pod) => {
    const context = watcher();
    await context.pass(pod);
    expect(context.acts).toEqual([removal('retry')]);
    expect(context.events).toMatchObject([
      { type: 'Warning', reason: 'CommandRefused', involvedObject: { kind: 'Pod' } },
    ]);
    expect(JSON.stringify(context.events)).toContain('the termination of the sidecars of this pod has ended');
  });

  it('is left alone where no sidecars are ended', async () => {
    const context = watcher();
    await context.pass(commanded('pause', { marks: { main: 'main', proxy: 'main' } }));
    await context.pass(commanded('pause', { restartPolicy: 'Always' }));
    expect(context.acts).toEqual([]);
  });
});
