import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { Event } from '../../api/core/event.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { terminateSidecarsId } from '../../api/job-sidecar-termination.ts';
import { describeAlone, describeTogether } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster, sample } from './local-cluster.ts';

let cluster: LocalCluster;

beforeAll(async () => {
  cluster = await localCluster();
});

afterAll(async () => {
  await cluster.close();
});

const image = 'busybox:1.36';
const stops = { name: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT', value: 'true' };
const ignores = { name: 'KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE', value: 'true' };

function container(name: string, script: string, rest: object = {}): object {
  return { name, image, command: ['sh', '-c', script], ...rest };
}

/** A container that exits with this code when it is stopped, and not before. */
function sidecar(name: string, exitCode: number, rest: object = {}): object {
  return container(name, `trap 'exit ${exitCode}' TERM; sleep 99999 & wait`, { env: [stops], ...rest });
}

async function createPod(namespace: string, name: string, spec: object): Promise<Pod> {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    // long enough for containers that react to SIGTERM, on any machine
    spec: { restartPolicy: 'Never', terminationGracePeriodSeconds: 600, ...spec },
  };
  await cluster.ok(['create', '-f', '-'], JSON.stringify(pod));
  return await cluster.get<Pod>('pod', namespace, name);
}

async function finished(namespace: string, name: string): Promise<Pod> {
  return await waitFor(`pod ${name} to finish`, async (see) => {
    const pod = await cluster.get<Pod>('pod', namespace, name);
    see(pod.status);
    return ['Succeeded', 'Failed'].includes(pod.status?.phase ?? '') && pod;
  });
}

/** The only pod of a Job, when it exists. */
async function podOf(namespace: string): Promise<Pod> {
  return await waitFor('the pod of the job', async () => {
    const text = await cluster.ok(['get', 'pods', '-n', namespace, '-o', 'json']);
    return (JSON.parse(text) as { items: Pod[] }).items[0];
  });
}

async function completeJob(namespace: string): Promise<void> {
  await cluster.ok(['wait', '--for=condition=Complete', 'job/report', '-n', namespace, '--timeout=300s']);
}

function endOf(pod: Pod, name: string): { readonly exitCode: number; readonly at: number } {
  const ended = pod.status?.containerStatuses?.find((status) => status.name === name)?.state?.terminated;
  return { exitCode: ended?.exitCode ?? Number.NaN, at: Date.parse(ended?.finishedAt ?? '') };
}

async function eventsOf({ metadata: { namespace = '', uid } }: KubeObject): Promise<readonly Event[]> {
  const selector = `involvedObject.uid=${uid}`;
  const text = await cluster.ok(['get', 'events', '-n', namespace, '--field-selector', selector, '-o', 'json']);
  return (JSON.parse(text) as { items: Event[] }).items;
}

/** Waits for an Event about the pod: Events are written asynchronously. */
async function says(pod: Pod, message: string): Promise<Event> {
  return await waitFor(`an Event "${message}"`, async (see) =>
    see(await eventsOf(pod)).find((event) => event.message.startsWith(message)),
  );
}

async function requestOf({ metadata: { namespace = '', uid } }: Pod): Promise<ContainerRecreateRequest> {
  return await cluster.get<ContainerRecreateRequest>('crr', namespace, `sidecar-termination-${uid}`);
}

describeTogether('the end of sidecars', () => {
  it.concurrent('JST-12, JST-25, JST-26: the Job of the sample becomes Complete, and it is told who stopped what', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.applySample('job-with-sidecar.yaml', namespace);
    await completeJob(namespace);
    const pod = await podOf(namespace);
    expect(pod.status?.phase).toBe('Succeeded');
    const [main, proxy] = [endOf(pod, 'report'), endOf(pod, 'proxy')];
    expect([main.exitCode, proxy.exitCode]).toEqual([0, 0]);
    expect(proxy.at).toBeGreaterThanOrEqual(main.at);

    const request = await waitFor('the request to complete', async (see) => {
      const now = see(await requestOf(pod));
      return now.status?.phase === 'Completed' && now;
    });
    expect(request.status).toMatchObject({
      containerRecreateStates: [{ name: 'proxy', phase: 'Recreating', isKilled: true }],
      conditions: [{ type: 'Complete', reason: 'ContainersStopped' }],
    });
    await says(pod, 'Kruise SidecarTerminator is trying to terminate sidecar [proxy] using crr');
    await says(pod, `Stopping container proxy by ContainerRecreateRequest ${request.metadata.name}`);
    await waitFor('the operation to end', async (see) => {
      const handle = cluster.temporal.workflow.getHandle(terminateSidecarsId(pod.metadata));
      return see((await handle.describe()).status.name) === 'COMPLETED';
    });
  });

  it.concurrent('JST-4, JST-22, JST-24, JST-27: a main container that fails once keeps its sidecars; one that fails when it is stopped is stopped again', async () => {
    const namespace = await cluster.newNamespace();
    const script = 'test -e /data/tried && exit 0; touch /data/tried; sleep 2; exit 1';
    const data = { volumeMounts: [{ name: 'data', mountPath: '/data' }] };
    const pod = await createPod(namespace, 'retried', {
      restartPolicy: 'OnFailure',
      volumes: [{ name: 'data', emptyDir: {} }],
      containers: [container('main', script, data), sidecar('proxy', 143)],
    });
    const after = await waitFor('the sidecar to be stopped for the second time', async (see) => {
      const live = see(await cluster.get<Pod>('pod', namespace, 'retried'));
      const proxy = live.status?.containerStatuses?.find(({ name }) => name === 'proxy');
      return (proxy?.restartCount ?? 0) >= 2 && live;
    });
    // its exit code is ignored only with the variable, so the pod keeps running
    expect(after.status?.phase).toBe('Running');
    expect(after.status?.conditions?.map(({ type }) => type)).not.toContain('SidecarTerminated');
    const main = after.status?.containerStatuses?.find(({ name }) => name === 'main');
    expect(main).toMatchObject({ state: { terminated: { exitCode: 0 } } });
    expect(main?.restartCount).toBeGreaterThanOrEqual(1);
    // the first stop comes after the last, successful run
    await says(pod, 'Stopping container proxy by');
    const stopped = (await eventsOf(pod)).filter(({ message }) => message.startsWith('Stopping container proxy by'));
    const stoppedAt = Math.min(...stopped.map(({ firstTimestamp }) => Date.parse(firstTimestamp)));
    expect(stoppedAt).toBeGreaterThanOrEqual(endOf(after, 'main').at);
  });

  it.concurrent('JST-20, JST-22: the exit code of a sidecar fails the pod, unless it is ignored', async () => {
    const namespace = await cluster.newNamespace();
    const main = container('main', 'sleep 1');
    await Promise.all([
      createPod(namespace, 'counts', { containers: [main, sidecar('proxy', 3)] }),
      createPod(namespace, 'ignored', { containers: [main, sidecar('proxy', 3, { env: [stops, ignores] })] }),
    ]);
    const [counts, ignored] = await Promise.all([finished(namespace, 'counts'), finished(namespace, 'ignored')]);
    expect(counts.status?.phase).toBe('Failed');
    expect(ignored.status?.phase).toBe('Succeeded');
    const condition = ignored.status?.conditions?.find(({ type }) => type === 'SidecarTerminated');
    expect(condition).toMatchObject({ status: 'True', message: 'Terminated by Sidecar Terminator' });
    // JST-21: the kubelet stops what still runs
    await waitFor('the ignored sidecar to end', async (see) => {
      const now = see((await cluster.get<Pod>('pod', namespace, 'ignored')).status);
      return now?.phase === 'Succeeded' && now.containerStatuses?.every(({ state }) => state?.terminated !== undefined);
    });
  });

  it.concurrent('JST-13, JST-21, JST-25: several sidecars, with a preStop hook', async () => {
    const namespace = await cluster.newNamespace();
    const hook = { preStop: { exec: { command: ['touch', '/tmp/asked'] } } };
    const polite = "trap 'test -e /tmp/asked && exit 0; exit 9' TERM; sleep 99999 & wait";
    await createPod(namespace, 'several', {
      containers: [
        container('main', 'sleep 1'),
        container('polite', polite, { env: [stops], lifecycle: hook }),
        sidecar('logger', 0),
        sidecar('tracer', 7, { env: [stops, ignores] }),
      ],
    });
    const after = await finished(namespace, 'several');
    expect(after.status?.phase).toBe('Succeeded');
    expect([endOf(after, 'polite').exitCode, endOf(after, 'logger').exitCode]).toEqual([0, 0]);
  });

  it.concurrent('JST-13, JST-21: a sidecar that ignores SIGTERM keeps no pod, and is killed', async () => {
    const namespace = await cluster.newNamespace();
    const deaf = "trap '' TERM; while true; do sleep 1; done";
    await createPod(namespace, 'deaf', {
      terminationGracePeriodSeconds: 3,
      containers: [container('main', 'sleep 1'), container('deaf', deaf, { env: [stops, ignores] })],
    });
    expect((await finished(namespace, 'deaf')).status?.phase).toBe('Succeeded');
    await waitFor('the deaf one to be killed', async (see) => {
      const now = see(await cluster.get<Pod>('pod', namespace, 'deaf'));
      return endOf(now, 'deaf').exitCode === 137;
    });
  });

  it.concurrent('JST-12: takes commands by annotation of the pod, where the Job waits until they are given', async () => {
    const namespace = await cluster.newNamespace();
    // it is paused before its main container completes, however slow the machine is
    const untilAllowed = 'until test -e /tmp/go; do sleep 1; done;';
    const text = (await sample('job-with-sidecar.yaml')).replace('sleep 3;', untilAllowed);
    expect(text).toContain(untilAllowed);
    await cluster.ok(['apply', '-n', namespace, '-f', '-'], text);
    const { metadata } = await waitFor('the pod to run', async (see) => {
      const pod = see(await podOf(namespace));
      return pod.status?.phase === 'Running' && pod;
    });
    const annotate = (command: string) =>
      cluster.ok(['annotate', 'pod', '-l', 'job-name=report', '-n', namespace, `windlass.io/command=${command}`]);
    await annotate('pause');
    await waitFor('the work to be allowed to end', async (see) => {
      const go = ['exec', metadata.name, '-n', namespace, '-c', 'report', '--', 'touch', '/tmp/go'];
      return see(await cluster.kubectl(go)).code === 0;
    });
    const paused = await waitFor('the pause to be told', async (see) => {
      const { annotations } = see((await podOf(namespace)).metadata);
      return annotations?.['windlass.io/sidecar-termination']?.includes('Paused') && annotations;
    });
    expect(paused['windlass.io/sidecar-termination']).toContain('paused by annotation of kubectl-annotate');
    expect((await cluster.kubectl(['get', 'crr', '-n', namespace, '-o', 'name'])).stdout).toBe('');
    await waitFor('the annotation to be taken off', async () => {
      const { annotations } = (await podOf(namespace)).metadata;
      return annotations?.['windlass.io/command'] === undefined;
    });
    await annotate('resume');
    await completeJob(namespace);
    const messages = (await eventsOf({ metadata } as Pod)).map(({ message }) => message);
    expect(messages).toContain('Paused by annotation of kubectl-annotate');
    expect(messages).toContain('Resumed by annotation of kubectl-annotate');
  });

  it.concurrent('JST-34: the operation of a pod that is deleted meanwhile ends with it', async () => {
    const namespace = await cluster.newNamespace();
    const deaf = "trap '' TERM; while true; do sleep 1; done";
    const pod = await createPod(namespace, 'deleted', {
      terminationGracePeriodSeconds: 600,
      containers: [container('main', 'true'), container('deaf', deaf, { env: [stops] })],
    });
    await waitFor('the stop to be requested', async () => await requestOf(pod));
    await cluster.ok(['delete', 'pod', 'deleted', '-n', namespace, '--grace-period=1', '--wait=true']);
    await waitFor('the operation to end', async (see) => {
      const handle = cluster.temporal.workflow.getHandle(terminateSidecarsId(pod.metadata));
      return see((await handle.describe()).status.name) === 'COMPLETED';
    });
  });
});

describeAlone('the end of sidecars on a virtual node', () => {
  it('JST-11: on a virtual node the image is swapped for one that exits at once, and nothing is stopped', async () => {
    const namespace = await cluster.newNamespace();
    const script = "grep -q 1.35 /etc/busybox-version && exit 0; trap '' TERM; while true; do sleep 1; done";
    const quick = { name: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE', value: 'busybox:1.35' };
    await cluster.ok(['label', 'node', 'node-2', 'type=virtual-kubelet']);
    try {
      const pod = await createPod(namespace, 'virtual', {
        nodeName: 'node-2',
        terminationGracePeriodSeconds: 1,
        containers: [container('main', 'true'), container('proxy', script, { env: [quick] })],
      });
      const after = await finished(namespace, 'virtual');
      expect(after.status?.phase).toBe('Succeeded');
      expect(after.spec.containers[1]?.image).toBe('busybox:1.35');
      expect((await cluster.kubectl(['get', 'crr', '-n', namespace, '-o', 'name'])).stdout).toBe('');
      await says(pod, 'Kruise SidecarTerminator is trying to terminate sidecar [proxy] using in-place update');
    } finally {
      await cluster.ok(['label', 'node', 'node-2', 'type-']);
    }
  });
});
