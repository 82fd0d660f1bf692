import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import type { LaunchBarrier } from '../../api/container-launch-priority.ts';
import { launchBarrierEnv } from '../../api/container-launch-priority.ts';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { Event } from '../../api/core/event.ts';
import type { Pod } from '../../api/core/pod.ts';
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

/** When the present instance of a container started, in milliseconds since 1970; the kubelet reports whole seconds. */
function startedAt(pod: Pod, name: string): number {
  const status = pod.status?.containerStatuses?.find((container) => container.name === name);
  return Date.parse(status?.state?.running?.startedAt ?? '');
}

/**
 * The only pod of a namespace, created from this manifest or by a controller, with its containers held. If admission
 * was too late to see the pod, it is deleted and created again.
 */
async function admittedPod(namespace: string, manifest?: string): Promise<Pod> {
  return await waitFor('a pod that admission has seen', async (see) => {
    if (manifest !== undefined) await cluster.ok(['apply', '-n', namespace, '-f', '-'], manifest);
    const text = await cluster.ok(['get', 'pods', '-n', namespace, '-o', 'json']);
    const { items } = see(JSON.parse(text) as { readonly items: readonly Pod[] });
    const pod = items.find(({ metadata }) => metadata.deletionTimestamp === undefined);
    const isHeld = pod?.spec.containers.some(({ env }) => env?.some(({ name }) => name === launchBarrierEnv));
    if (pod && !isHeld) await cluster.ok(['delete', 'pod', pod.metadata.name, '-n', namespace, '--wait=true']);
    return isHeld && pod;
  });
}

async function barrierOf(pod: Pod): Promise<LaunchBarrier> {
  return await cluster.get<LaunchBarrier>('configmap', pod.metadata.namespace ?? '', `${pod.metadata.name}-barrier`);
}

async function eventsOf(pod: Pod): Promise<readonly Event[]> {
  const { namespace = '', uid } = pod.metadata;
  const selector = `involvedObject.uid=${uid}`;
  const text = await cluster.ok(['get', 'events', '-n', namespace, '--field-selector', selector, '-o', 'json']);
  return (JSON.parse(text) as { items: Event[] }).items;
}

async function isCompleted(pod: Pod): Promise<Pod> {
  return await waitFor('the launch to be marked as completed', async (see) => {
    const now = see(await cluster.get<Pod>('pod', pod.metadata.namespace ?? '', pod.metadata.name));
    return now.metadata.annotations?.['apps.kruise.io/container-launch-priority-completed'] === 'true' && now;
  });
}

/** The ordered sample, whose first container becomes ready only when the test opens its gate. */
async function gatedSample(): Promise<object> {
  const { spec, ...pod } = parse(await sample('launch-ordered.yaml')) as Pod & { readonly spec: object };
  const [first, ...others] = spec.containers;
  const wait = 'until test -e /gate/open; do sleep 1; done; touch /tmp/ready';
  const gated = {
    ...first,
    command: ['sh', '-c', `trap 'exit 0' TERM; ${wait}; sleep 99999 & wait`],
    volumeMounts: [{ name: 'gate', mountPath: '/gate' }],
  };
  return { ...pod, spec: { ...spec, volumes: [{ name: 'gate', emptyDir: {} }], containers: [gated, ...others] } };
}

describeTogether('the order in which containers start', () => {
  it.concurrent('CLP-5, CLP-6, CLP-13, CLP-18: follows the variable, in a pod with a generated name', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.applySample('launch-priority.yaml', namespace);
    const { metadata } = await admittedPod(namespace);
    await cluster.ok(['rollout', 'status', 'deployment/shop', '-n', namespace, '--timeout=300s']);
    const pod = await isCompleted(await cluster.readyPod(namespace, metadata.name));

    expect(pod.metadata.name).toMatch(/^shop-[a-z0-9]+-[a-z0-9]{5}$/);
    const [proxy, app, logger] = ['proxy', 'app', 'logger'].map((container) => startedAt(pod, container)) as [
      number,
      number,
      number,
    ];
    // the proxy needs two seconds to be ready
    expect(app - proxy).toBeGreaterThanOrEqual(2000);
    expect(logger).toBeGreaterThanOrEqual(app);
    // by itself, the kubelet retries a held container every 10 to 15 s
    console.log(`proxy ready → app: at most ${app - proxy - 2000} ms; app → logger: ${logger - app} ms`);

    const barrier = await barrierOf(pod);
    expect(barrier.data).toEqual({ p_10: 'true', p_0: 'true', 'p_-1': 'true' });
    const { apiVersion, kind, uid } = { apiVersion: 'v1', kind: 'Pod', uid: pod.metadata.uid };
    expect(barrier.metadata.ownerReferences).toEqual([{ apiVersion, kind, name: pod.metadata.name, uid }]);
    expect(pod.metadata.annotations).not.toHaveProperty(['windlass.io/container-launch']);

    const events = await waitFor('three Events of ours', async (see) => {
      const ours = see(await eventsOf(pod)).filter(({ reason }) => reason.startsWith('Launch'));
      return ours.length === 3 && ours;
    });
    expect(events.map(({ type, reason }) => `${type} ${reason}`).sort()).toEqual([
      'Normal LaunchOrdered',
      'Normal LaunchReleased',
      'Normal LaunchReleased',
    ]);
  });

  it.concurrent('CLP-3, CLP-20, CLP-22, CLP-25: follows the list with the annotation; restarts need the barrier, and it goes with the pod', async () => {
    const namespace = await cluster.newNamespace();
    await admittedPod(namespace, JSON.stringify(await gatedSample()));
    await waitFor('the wait to be told', async (see) => {
      const now = see(await cluster.get<Pod>('pod', namespace, 'ordered'));
      const status = JSON.parse(now.metadata.annotations?.['windlass.io/container-launch'] ?? '{}');
      expect([startedAt(now, 'second'), startedAt(now, 'third')]).toEqual([Number.NaN, Number.NaN]);
      return status.waitingFor?.blockedBy.join() === 'container/first';
    });
    await waitFor('the first to become ready', async () => {
      await cluster.ok(['exec', 'ordered', '-c', 'first', '-n', namespace, '--', 'touch', '/gate/open']);
      return true;
    });
    const pod = await isCompleted(await cluster.readyPod(namespace, 'ordered'));
    const [first, second, third] = ['first', 'second', 'third'].map((name) => startedAt(pod, name)) as [
      number,
      number,
      number,
    ];
    expect(second).toBeGreaterThanOrEqual(first);
    expect(third).toBeGreaterThanOrEqual(second);

    await cluster.ok(['delete', 'configmap', 'ordered-barrier', '-n', namespace]);
    const again = await waitFor('the barrier to come back', async () => await barrierOf(pod));
    expect(again.data).toEqual({ p_0: 'true', 'p_-1': 'true', 'p_-2': 'true' });

    const request = {
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'ContainerRecreateRequest',
      metadata: { name: 'restart', namespace },
      spec: { podName: 'ordered', containers: [{ name: 'first' }, { name: 'third' }] },
    };
    await cluster.ok(['create', '-f', '-'], JSON.stringify(request));
    await waitFor('both to be restarted', async (see) => {
      const { status } = see(await cluster.get<ContainerRecreateRequest>('crr', namespace, 'restart'));
      return (
        status?.containerRecreateStates?.every(({ phase }) => phase === 'Succeeded') && status?.phase === 'Completed'
      );
    });

    await cluster.ok(['delete', 'pod', 'ordered', '-n', namespace, '--wait=true']);
    await waitFor('the barrier to be gone', async (see) => {
      const { stdout } = await cluster.kubectl(['get', 'configmap', '-n', namespace, '-o', 'name']);
      return !see(stdout).includes('ordered-barrier');
    });
  });

  it.concurrent('CLP-7, CLP-15: native sidecars start before it, and what has ended well holds nobody', async () => {
    const namespace = await cluster.newNamespace();
    const long = { image: 'busybox:1.36', command: ['sh', '-c', "trap 'exit 0' TERM; sleep 99999 & wait"] };
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'mixed', namespace, annotations: { 'apps.kruise.io/container-launch-priority': 'Ordered' } },
      spec: {
        restartPolicy: 'OnFailure',
        terminationGracePeriodSeconds: 2,
        initContainers: [{ ...long, name: 'native', restartPolicy: 'Always' }],
        containers: [
          { name: 'migrate', image: 'busybox:1.36', command: ['sh', '-c', 'sleep 1'] },
          { ...long, name: 'app' },
        ],
      },
    };
    await admittedPod(namespace, JSON.stringify(pod));
    await waitFor('the app to run after the migration', async (see) => {
      const now = see((await cluster.get<Pod>('pod', namespace, 'mixed')).status);
      const [migrate, app] = ['migrate', 'app'].map((name) =>
        now?.containerStatuses?.find((container) => container.name === name),
      );
      return migrate?.state?.terminated?.exitCode === 0 && app?.state?.running !== undefined;
    });
  });

  it.concurrent('CLP-4: refuses a priority that is no number, and names the field', async () => {
    const namespace = await cluster.newNamespace();
    const container = (name: string, value: string) => ({
      name,
      image: 'busybox:1.36',
      env: [{ name: 'KRUISE_CONTAINER_PRIORITY', value }],
    });
    const spec = { containers: [container('a', 'high'), container('b', '1')] };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'bad', namespace }, spec };
    const { code, stderr } = await cluster.kubectl(['create', '-f', '-'], JSON.stringify(pod));
    expect(code).not.toBe(0);
    expect(stderr).toContain('spec.containers[0].env[0].value');
    expect(stderr).toContain('must be an integer, not "high"');
  });
});

describeAlone('the order in which containers start', () => {
  it('is lost without the webhook, which the pod says; pods are made nevertheless', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.part.kill('webhook');
    try {
      await cluster.applySample('launch-ordered.yaml', namespace);
      const pod = await cluster.readyPod(namespace, 'ordered');
      await waitFor('an Event that says so', async (see) =>
        see(await eventsOf(pod)).some(({ reason, type }) => reason === 'LaunchOrderMissed' && type === 'Warning'),
      );
    } finally {
      await cluster.part.start('webhook');
    }
  });
});
