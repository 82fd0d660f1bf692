import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster, type RuntimeContainer, sample } from './local-cluster.ts';

let cluster: LocalCluster;

beforeAll(async () => {
  cluster = await localCluster();
});

afterAll(async () => {
  await cluster.close();
});

/** The pod of the samples in a namespace of its own, ready. */
async function samplePod(): Promise<{ namespace: string; pod: Pod }> {
  const namespace = await cluster.newNamespace();
  await cluster.applySample('pod-three-containers.yaml', namespace);
  return { namespace, pod: await cluster.readyPod(namespace, 'web') };
}

async function completed(namespace: string, name: string): Promise<ContainerRecreateRequest> {
  return await waitFor(`request ${name} to complete`, async (see) => {
    const request = see(await cluster.get<ContainerRecreateRequest>('crr', namespace, name));
    return request.status?.phase === 'Completed' && request;
  });
}

/** How often a container was restarted: a loaded kubelet may restart it before the request. */
function restartsOf({ status }: Pod, name: string): number {
  return status?.containerStatuses?.find((container) => container.name === name)?.restartCount ?? 0;
}

/**
 * How often each container was started since the pod was ready, that start included, from the runtime's own list, once
 * the newest instance of each runs and the kubelet reports it. All older ones have to be dead at any time.
 */
async function startsOf(pod: Pod): Promise<Record<string, number>> {
  const besideEachOther: string[] = [];
  const counted = await waitFor('the newest instance of each container to run, and to be told of', async (see) => {
    const starts: Record<string, number> = {};
    const newest = new Map<string, RuntimeContainer>();
    for (const instance of see(await cluster.containersOf(pod))) {
      const { name } = instance;
      starts[name] = (starts[name] ?? 0) + 1;
      if (newest.get(name)?.running) besideEachOther.push(name);
      newest.set(name, instance);
    }
    const after = await cluster.get<Pod>('pod', pod.metadata.namespace ?? '', pod.metadata.name);
    const told = new Set(after.status?.containerStatuses?.map(({ containerID }) => containerID?.split('://')[1]));
    if (![...newest.values()].every(({ id, running }) => running && told.has(id))) return undefined;
    // the kubelet may have removed exited containers; its own count says how many there were
    return Object.fromEntries(
      Object.entries(starts).map(([name, count]) => {
        return [name, Math.max(count, restartsOf(after, name) + 1) - restartsOf(pod, name)];
      }),
    );
  });
  expect(besideEachOther).toEqual([]);
  return counted;
}

describe('the sample', () => {
  it.concurrent('recreates three containers in order, and tells so everywhere that people look', async () => {
    const { namespace, pod } = await samplePod();
    await cluster.applySample('container-recreate-request.yaml', namespace);
    await cluster.ok(['wait', '--for=condition=Complete', 'crr/restart-web', '-n', namespace, '--timeout=300s']);

    const request = await completed(namespace, 'restart-web');
    expect(request.status?.containerRecreateStates).toEqual([
      { name: 'app', phase: 'Succeeded', isKilled: true },
      { name: 'proxy', phase: 'Succeeded', isKilled: true },
      { name: 'logger', phase: 'Succeeded', isKilled: true },
    ]);
    expect(await startsOf(pod)).toEqual({ app: 2, proxy: 2, logger: 2 });

    const after = await cluster.get<Pod>('pod', namespace, 'web');
    const startedAt = (name: string): number => {
      const found = after.status?.containerStatuses?.find((container) => container.name === name);
      expect(found).toMatchObject({ restartCount: restartsOf(pod, name) + 1, ready: true });
      return Date.parse(found?.state?.running?.startedAt ?? '');
    };
    expect(after.metadata.uid).toBe(pod.metadata.uid);
    expect(after.status?.podIP).toBe(pod.status?.podIP);
    // CRR-33: each ran for longer than minStartedSeconds before the next was stopped
    expect(startedAt('proxy') - startedAt('app')).toBeGreaterThanOrEqual(1000);
    expect(startedAt('logger') - startedAt('proxy')).toBeGreaterThanOrEqual(1000);

    const table = await cluster.ok(['get', 'crr', '-n', namespace]);
    expect(table).toMatch(/NAME\s+PHASE\s+POD\s+NODE\s+AGE/);
    expect(table).toMatch(/restart-web\s+Completed\s+web\s+node-\d/);

    await waitFor('three Events about stops', async (see) => {
      const described = see(await cluster.ok(['get', 'events', '-n', namespace, '-o', 'json']));
      const events = (JSON.parse(described) as { items: { reason: string; message: string; source: object }[] }).items;
      const kills = events.filter(({ reason, message }) => reason === 'Killing' && message.includes('restart-web'));
      const expected = ['app', 'proxy', 'logger'].map(
        (name) => `Stopping container ${name} by ContainerRecreateRequest restart-web`,
      );
      expect(new Set(kills.map(({ message }) => message))).toEqual(new Set(expected));
      expect(kills).toHaveLength(3);
      expect(kills[0]?.source).toMatchObject({ component: 'kruise-daemon-crr', host: pod.spec.nodeName });
      return true;
    });
  });

  it.concurrent('is an operation in Temporal that can be found by name and read step by step', async () => {
    const { namespace, pod } = await samplePod();
    await cluster.applySample('container-recreate-request.yaml', namespace);
    await completed(namespace, 'restart-web');

    const workflowId = restartContainersId(pod.metadata);
    const found = await waitFor('the operation in the list', async () => {
      const query = `WindlassKind='ContainerRecreateRequest' AND WindlassNamespace='${namespace}' AND WindlassName='restart-web'`;
      for await (const workflow of cluster.temporal.workflow.list({ query })) {
        if (workflow.status.name === 'COMPLETED') return workflow;
      }
      return undefined;
    });
    expect(found).toMatchObject({ workflowId, type: 'restartContainers' });

    const history = await cluster.temporal.workflow.getHandle(workflowId).fetchHistory();
    const summaries = (history.events ?? []).flatMap(({ userMetadata }) =>
      userMetadata?.summary?.data ? [String(JSON.parse(Buffer.from(userMetadata.summary.data).toString()))] : [],
    );
    expect(summaries.filter((summary) => summary.startsWith('restart '))).toEqual([
      `restart containers of pod ${namespace}/web`,
      'restart app@web',
      'restart proxy@web',
      'restart logger@web',
    ]);
  });

  it.concurrent('works in the older version of the API, too', async () => {
    const { namespace, pod } = await samplePod();
    await cluster.applySample('container-recreate-request-v1alpha1.yaml', namespace);
    await completed(namespace, 'restart-web-logger');

    expect(await startsOf(pod)).toEqual({ app: 1, proxy: 1, logger: 2 });
    const kind = 'containerrecreaterequests.v1alpha1.apps.kruise.io';
    const old = await cluster.get<ContainerRecreateRequest>(kind, namespace, 'restart-web-logger');
    expect(old.apiVersion).toBe('apps.kruise.io/v1alpha1');
    const snapshot = old.metadata.annotations?.['crr.apps.kruise.io/sync-container-statuses'] ?? '';
    expect(JSON.parse(snapshot)).toMatchObject([
      { name: 'logger', ready: true, restartCount: restartsOf(pod, 'logger') + 1 },
    ]);
  });
});

describe('bad input', () => {
  let namespace: string;

  beforeAll(async () => {
    namespace = (await samplePod()).namespace;
  });

  const good = {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'ContainerRecreateRequest',
    metadata: { name: 'bad' },
    spec: { podName: 'web', containers: [{ name: 'app' }] },
  };

  const cases: readonly (readonly [string, object, RegExp])[] = [
    ['an unknown pod', { podName: 'nobody', containers: [{ name: 'app' }] }, /spec\.podName.*nobody/s],
    ['no pod', { podName: '', containers: [{ name: 'app' }] }, /spec\.podName/],
    ['an unknown container', { podName: 'web', containers: [{ name: 'nope' }] }, /spec\.containers\[0\]\.name.*nope/s],
    ['no container', { podName: 'web', containers: [] }, /spec\.containers/],
    ['a container twice', { podName: 'web', containers: [{ name: 'app' }, { name: 'app' }] }, /spec\.containers\[1\]/],
    [
      'a field that only admission may fill',
      {
        podName: 'web',
        containers: [{ name: 'app', statusContext: { containerID: 'containerd://1', restartCount: 0 } }],
      },
      /spec\.containers\[0\]\.statusContext/,
    ],
    [
      'a negative grace period',
      { podName: 'web', containers: [{ name: 'app' }], strategy: { terminationGracePeriodSeconds: -1 } },
      /spec\.strategy\.terminationGracePeriodSeconds/,
    ],
    [
      'a negative start time',
      { podName: 'web', containers: [{ name: 'app' }], strategy: { minStartedSeconds: -1 } },
      /spec\.strategy\.minStartedSeconds/,
    ],
    [
      'a deadline too short',
      { podName: 'web', containers: [{ name: 'app' }], activeDeadlineSeconds: 1 },
      /activeDeadlineSeconds/,
    ],
    [
      'an unknown policy',
      { podName: 'web', containers: [{ name: 'app' }], strategy: { failurePolicy: 'Hope' } },
      /spec\.strategy\.failurePolicy/,
    ],
  ];

  it.each(cases)('refuses %s, and names the field', async (_, spec, message) => {
    const { code, stderr } = await cluster.kubectl(
      ['apply', '-n', namespace, '-f', '-'],
      JSON.stringify({ ...good, spec }),
    );
    expect(code).not.toBe(0);
    expect(stderr).toMatch(message);
  });

  it('refuses an init container', async () => {
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'with-init', namespace },
      spec: {
        terminationGracePeriodSeconds: 1,
        initContainers: [{ name: 'first', image: 'busybox:1.36', command: ['true'] }],
        containers: [
          { name: 'app', image: 'busybox:1.36', command: ['sh', '-c', 'trap exit TERM; sleep 99999 & wait'] },
        ],
      },
    };
    await cluster.ok(['apply', '-f', '-'], JSON.stringify(pod));
    await cluster.readyPod(namespace, 'with-init');
    const spec = { podName: 'with-init', containers: [{ name: 'first' }] };
    const { code, stderr } = await cluster.kubectl(
      ['apply', '-n', namespace, '-f', '-'],
      JSON.stringify({ ...good, spec }),
    );
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/spec\.containers\[0\]\.name.*first/s);
  });

  it('refuses a changed spec', async () => {
    const manifest = (await sample('container-recreate-request.yaml')).replace('name: restart-web', 'name: fixed');
    await cluster.ok(['apply', '-n', namespace, '-f', '-'], manifest);
    const changed = manifest.replace('orderedRecreate: true', 'orderedRecreate: false');
    const { code, stderr } = await cluster.kubectl(['apply', '-n', namespace, '-f', '-'], changed);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/spec/);
    expect(stderr).toMatch(/immutable/);
    await completed(namespace, 'fixed');
  });
});

describe('steering', () => {
  /** A request whose first container never counts as recreated during a test, and has been stopped. */
  async function openRequest(): Promise<{ namespace: string; pod: Pod }> {
    const { namespace, pod } = await samplePod();
    const manifest = (await sample('container-recreate-request.yaml')).replace(
      /minStartedSeconds: .*/,
      'minStartedSeconds: 900',
    );
    await cluster.ok(['apply', '-n', namespace, '-f', '-'], manifest);
    await waitFor('the first container to be stopped', async (see) => {
      const request = see(await cluster.get<ContainerRecreateRequest>('crr', namespace, 'restart-web'));
      return request.status?.containerRecreateStates?.some(({ isKilled }) => isKilled === true);
    });
    return { namespace, pod };
  }

  async function eventSays(namespace: string, reason: string, message: RegExp): Promise<void> {
    await waitFor(`an Event ${reason}`, async (see) => {
      const selector = `reason=${reason},involvedObject.name=restart-web`;
      return message.test(see(await cluster.ok(['get', 'events', '-n', namespace, '--field-selector', selector])));
    });
  }

  it.concurrent('by annotation: abort leaves the other containers untouched, and says who wanted it', async () => {
    const { namespace, pod } = await openRequest();
    await cluster.ok(['annotate', 'crr', 'restart-web', '-n', namespace, 'windlass.io/command=abort']);

    const request = await completed(namespace, 'restart-web');
    expect(request.status?.message).toBe('aborted by annotation of kubectl-annotate');
    expect(request.status?.conditions).toMatchObject([{ type: 'Failed', status: 'True', reason: 'Aborted' }]);
    await eventSays(namespace, 'Aborted', /Aborted by annotation of kubectl-annotate/);
    expect(await startsOf(pod)).toEqual({ app: 2, proxy: 1, logger: 1 });
    await waitFor('the annotation to be taken off', async () => {
      const { metadata } = await cluster.get<ContainerRecreateRequest>('crr', namespace, 'restart-web');
      return metadata.annotations?.['windlass.io/command'] === undefined;
    });
  });

  it.concurrent('by signal: pause, skip and resume', async () => {
    const { namespace, pod } = await openRequest();
    const operation = cluster.temporal.workflow.getHandle(restartContainersId(pod.metadata));
    await operation.signal('pause', { by: 'alice' });
    await waitFor('the wait to be told', async (see) => {
      const { status } = await cluster.get<ContainerRecreateRequest>('crr', namespace, 'restart-web');
      return see(status?.waitingFor)?.reason === 'Paused' && status?.waitingFor?.unblock.includes('alice');
    });
    await operation.signal('skip', { by: 'alice', target: 'app' });
    await operation.signal('skip', { by: 'alice', target: 'logger' });
    await eventSays(namespace, 'Skipped', /Skipped logger by alice/);
    expect(await startsOf(pod)).toEqual({ app: 2, proxy: 1, logger: 1 });

    await operation.signal('skip', { by: 'bob', target: 'prxy' });
    const names = 'app, proxy and logger';
    const noSuch = `Command skip by bob has no effect: container "prxy" is not one of the request, which has ${names}`;
    await eventSays(namespace, 'CommandRefused', new RegExp(noSuch));
    await operation.signal('skip', { by: 'bob', target: 'logger' });
    await eventSays(namespace, 'CommandRefused', /skip by bob has no effect: container "logger" is skipped already/);

    await operation.signal('resume', { by: 'alice' });
    await waitFor('the second container to be stopped', async (see) => {
      const request = see(await cluster.get<ContainerRecreateRequest>('crr', namespace, 'restart-web'));
      return request.status?.containerRecreateStates?.some(({ name, isKilled }) => name === 'proxy' && isKilled);
    });
    await operation.signal('skip', { by: 'alice', target: 'proxy' });
    const request = await completed(namespace, 'restart-web');
    expect(request.status?.containerRecreateStates?.map(({ message }) => message)).toEqual([
      'skipped by alice',
      'skipped by alice',
      'skipped by alice',
    ]);
    expect((await startsOf(pod)).logger).toBe(1);
  });
});

describe('a container that does not come back', () => {
  it.concurrent('is waited for with its exit code, as the kubelet says it, and can be skipped', async () => {
    const namespace = await cluster.newNamespace();
    const command = 'if [ -e /state/ran ]; then exit 7; fi; touch /state/ran; trap exit TERM; sleep 99999 & wait';
    const app = { name: 'app', image: 'busybox:1.36', command: ['sh', '-c', command] };
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', namespace },
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [{ ...app, volumeMounts: [{ name: 'state', mountPath: '/state' }] }],
        volumes: [{ name: 'state', emptyDir: {} }],
      },
    };
    await cluster.ok(['apply', '-f', '-'], JSON.stringify(pod));
    await cluster.readyPod(namespace, 'web');
    const request = {
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'ContainerRecreateRequest',
      metadata: { name: 'restart-web', namespace },
      spec: { podName: 'web', containers: [{ name: 'app' }] },
    };
    await cluster.ok(['apply', '-f', '-'], JSON.stringify(request));
    const waitingFor = await waitFor('the exit code', async (see) => {
      const { status } = await cluster.get<ContainerRecreateRequest>('crr', namespace, 'restart-web');
      return see(status?.waitingFor)?.unblock.includes('CrashLoopBackOff') && status?.waitingFor;
    });
    expect(waitingFor).toMatchObject({
      reason: 'ContainerNotReady',
      blockedBy: ['container/app'],
      unblock: expect.stringMatching(/; app: CrashLoopBackOff: exit code 7 \(Error\)$/),
    });
    await cluster.ok(['annotate', 'crr', 'restart-web', '-n', namespace, 'windlass.io/command=skip app']);
    const { status } = await completed(namespace, 'restart-web');
    expect(status?.waitingFor).toBeUndefined();
    await cluster.ok(['delete', 'pod', 'web', '-n', namespace, '--wait=false']);
  });
});

describe('least privilege', () => {
  it('shows in the audit log: Windlass comes as its own ServiceAccounts and never as an administrator', async () => {
    const users = new Map<string, Set<string>>();
    for await (const { user, userAgent = '' } of cluster.auditLog()) {
      if (!/^(windlass-(watcher|webhook|worker)|kruise-daemon)/.test(userAgent)) continue;
      const agent = userAgent.split('/')[0] ?? '';
      users.set(agent, (users.get(agent) ?? new Set()).add(user.username));
    }
    const account = (name: string): Set<string> => new Set([`system:serviceaccount:kruise-system:${name}`]);
    expect(Object.fromEntries(users)).toEqual({
      'windlass-watcher': account('windlass-watcher'),
      'windlass-webhook': account('windlass-webhook'),
      'windlass-worker': account('windlass-worker'),
      'kruise-daemon': account('kruise-daemon'),
    });
  });
});
