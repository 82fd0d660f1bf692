import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject, OwnerReference } from '../../api/core/meta.ts';
import { isActive, type Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { KubeError } from '../../kube/failures.ts';
import { type Meet, MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { kubectlKruise } from '../support/kruise-command.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';

function owner(kind: string, name: string): OwnerReference {
  return { apiVersion: 'apps/v1', kind, name, uid: `${kind}-${name}`, controller: true };
}

interface PodDraft {
  readonly name: string;
  readonly namespace?: string;
  readonly of?: OwnerReference;
  readonly has?: boolean;
  readonly ready?: boolean;
  readonly restartPolicy?: string;
  readonly created?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

function pod(draft: PodDraft): Pod {
  const { name, namespace = 'shop', of, has = false, ready = true, restartPolicy = 'Always' } = draft;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...{ name, namespace, uid: `uid-${name}`, resourceVersion: '', labels: { app: 'web' } },
      creationTimestamp: draft.created ?? '2025-01-01T00:00:00Z',
      annotations: { ...(has && { 'kruise.io/sidecarset-injected-list': 'logs' }), ...draft.annotations },
      ...(of && { ownerReferences: [of] }),
    },
    spec: { nodeName: 'n1', restartPolicy, containers: [{ name: 'app' }, ...(has ? [{ name: 'log' }] : [])] },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
  };
}

function sidecarSet(spec: JsonObject = {}): KubeObject {
  const metadata = { uid: 'logs', creationTimestamp: '2026-01-01T00:00:00Z', generation: 1 };
  return defaultSidecarSet(sidecarSetDraft({ metadata, spec })) as unknown as KubeObject;
}

interface Setting {
  readonly pods: readonly Pod[];
  readonly spec?: JsonObject;
  readonly meet?: Meet;
  /** Whether new pods get the sidecar. */
  readonly injects?: boolean;
  /** Whether new pods become ready. */
  readonly heals?: boolean;
}

/** A cluster whose controllers replace pods of theirs that are gone, and whose clock moves while the command waits. */
function setting({ pods, spec = {}, meet = () => undefined, injects = true, heals = true }: Setting) {
  const cluster = new MemoryCluster();
  cluster.put(sidecarSets, sidecarSet(spec));
  for (const name of ['shop', 'kube-system']) cluster.put(kubeResource.namespaces, { metadata: { name } });
  for (const one of pods) cluster.put(kubeResource.pods, one);
  let [count, nowMs] = [0, 0];
  const evicted: string[] = [];
  /** The largest number of pods that were not ready at once. */
  let down = 0;
  const all = () => cluster.all<Pod>(kubeResource.pods);

  function step(): void {
    for (const one of all()) {
      const { name, namespace = '', deletionTimestamp, ownerReferences } = one.metadata;
      const isReady = one.status?.conditions?.[0]?.status === 'True';
      if (!isReady && heals && isActive(one) && name.startsWith('new')) {
        const of = ownerReferences?.[0];
        cluster.put(kubeResource.pods, pod({ name, namespace, has: injects, ...(of && { of }) }));
      }
      if (deletionTimestamp === undefined) continue;
      cluster.remove(kubeResource.pods, { namespace, name });
      const of = ownerReferences?.[0];
      if (of) {
        count++;
        cluster.put(kubeResource.pods, pod({ name: `new-${count}`, namespace, of, has: injects, ready: false }));
      }
    }
    down = Math.max(down, all().filter((one) => one.status?.conditions?.[0]?.status !== 'True').length);
  }

  const kube = cluster.client(async (call, about) => {
    await meet(call, about);
    if (call.verb === 'evict' && !about.isDryRun) evicted.push(call.name);
  });
  return {
    cluster,
    evicted,
    down: () => down,
    run: (...args: readonly string[]) =>
      kubectlKruise(['sidecar', 'missing', 'logs', ...args], {
        cluster: { kube, namespace: 'default' },
        now: () => nowMs,
        pause: async (ms) => {
          nowMs += ms;
          step();
        },
      }),
  };
}

const web = owner('ReplicaSet', 'web');
const several = [
  pod({ name: 'web-1', of: web }),
  pod({ name: 'web-2', of: web }),
  pod({ name: 'has', of: web, has: true }),
  pod({ name: 'alone' }),
  pod({ name: 'job', of: owner('Job', 'job'), restartPolicy: 'Never' }),
  pod({ name: 'static', of: owner('Node', 'n1') }),
  pod({ name: 'dns', namespace: 'kube-system', of: owner('ReplicaSet', 'dns') }),
];

const held = (message: string) =>
  new KubeError({
    status: 429,
    reason: 'TooManyRequests',
    message: "Cannot evict pod as it would violate the pod's disruption budget.",
    causes: [{ reason: 'DisruptionBudget', message }],
  });

describe('kubectl kruise sidecar missing', () => {
  it('lists the pods that lack the containers, with controllers and reasons, and changes nothing', async () => {
    const { run, evicted } = setting({ pods: several });
    const { code, out, err } = await run();
    expect([code, err, evicted]).toEqual([0, '', []]);
    expect(out).toContain('SidecarSet logs: 6 pods lack it');
    expect(out).toMatch(/^NAMESPACE +POD +CONTROLLER +WHY$/m);
    expect(out).toMatch(/^shop +web-1 +ReplicaSet\/web +it is older than the SidecarSet$/m);
    expect(out).toMatch(/^shop +alone +- +it is older/m);
    expect(out).toMatch(/^kube-system +dns +ReplicaSet\/dns +pods of this namespace are not sent to the webhook$/m);
    expect(out).not.toContain(' has ');
  });

  it('lists one namespace, as JSON for programs', async () => {
    const { out } = await setting({ pods: several }).run('-n', 'kube-system', '-o', 'json');
    expect(JSON.parse(out)).toEqual({
      kind: 'MissingSidecarList',
      sidecarSet: 'logs',
      items: [
        {
          namespace: 'kube-system',
          name: 'dns',
          controller: 'ReplicaSet/dns',
          reason: 'NamespaceExempt',
          why: 'pods of this namespace are not sent to the webhook',
        },
      ],
    });
  });

  it('says that no pod lacks it', async () => {
    const { code, out } = await setting({ pods: [pod({ name: 'has', has: true })] }).run();
    expect([code, out]).toEqual([0, 'SidecarSet logs: no pod lacks it\n']);
  });

  it('SCS-192: lists pods with older containers that updates do not reach, on request', async () => {
    const old = JSON.stringify({ logs: { hash: 'old' } });
    const annotations = { 'kruise.io/sidecarset-hash': old, 'kruise.io/sidecarset-hash-without-image': old };
    const { run } = setting({ pods: [pod({ name: 'old', of: web, has: true, annotations })] });
    expect((await run()).out).toContain('no pod lacks it');
    expect((await run('--outdated')).out).toMatch(/shop +old +ReplicaSet\/web +its containers are older/);
  });

  it.each([
    [['--yes'], '--dry-run and --yes require --recreate'],
    [['--recreate', '--dry-run', '--yes'], '--dry-run and --yes cannot be combined'],
    [['--timeout', 'soon'], '--timeout="soon": expects a time such as 30s or 10m'],
  ])('refuses %j', async (args, why) => {
    expect(await setting({ pods: several }).run(...args)).toEqual({ code: 1, out: '', err: `error: ${why}\n` });
  });
});

describe('kubectl kruise sidecar missing --recreate', () => {
  it('evicts nothing without --yes, and shows what it would do', async () => {
    const { run, evicted } = setting({ pods: several });
    const { code, out, err } = await run('--recreate');
    expect([code, evicted]).toEqual([1, []]);
    expect(err).toBe('error: 2 pods would be evicted: repeat the command with --yes, or try it with --dry-run\n');
    expect(out).toMatch(/web-1 +ReplicaSet\/web +would be evicted/);
    expect(out).toMatch(/alone +- +left alone: it has no controller/);
    expect(out).toMatch(/job +Job\/job +left alone: it runs to its end/);
    expect(out).toMatch(/static +Node\/n1 +left alone: it is a static pod/);
    expect(out).toMatch(/dns +ReplicaSet\/dns +left alone: a new pod would lack them, too/);
  });

  it('asks the API server with --dry-run, which knows the budgets', async () => {
    const meet: Meet = ({ verb, name }, { isDryRun }) => {
      if (verb === 'evict' && !isDryRun) throw new Error('a real eviction');
      if (verb === 'evict' && name === 'web-2') throw held('The disruption budget web needs 2 healthy pods');
    };
    const { code, out, err } = await setting({ pods: several, meet }).run('--recreate', '--dry-run');
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/web-1 +ReplicaSet\/web +would be evicted/);
    expect(out).toMatch(/web-2 +ReplicaSet\/web +would wait: The disruption budget web needs 2 healthy pods/);
  });

  it('evicts one pod at a time, the next when the replacement is ready', async () => {
    const { run, evicted, down } = setting({ pods: several });
    const { code, out, err } = await run('--recreate', '--yes');
    expect(code).toBe(0);
    expect(evicted).toEqual(['web-2', 'web-1']);
    expect(down()).toBe(1);
    expect(out).toMatch(/web-2 +ReplicaSet\/web +recreated: new-1/);
    expect(out).toMatch(/web-1 +ReplicaSet\/web +recreated: new-2/);
    expect(err).toBe(
      [
        ...['shop/web-2: evicted', 'shop/web-2: waits: its replacement is not ready', 'shop/web-2: replaced by new-1'],
        ...['shop/web-1: evicted', 'shop/web-1: waits: its replacement is not ready', 'shop/web-1: replaced by new-2'],
        '',
      ].join('\n'),
    );
    expect((await run()).out).toContain('4 pods lack it');
  });

  it('evicts the pod that it has listed, and no later one of its name', async () => {
    const { run, cluster } = setting({
      pods: [pod({ name: 'web-1', of: web })],
      meet: ({ verb, body }) => {
        if (verb !== 'evict') return;
        expect(body).toMatchObject({ deleteOptions: { preconditions: { uid: 'uid-web-1' } } });
        cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'web-1' });
      },
    });
    expect((await run('--recreate', '--yes')).out).toMatch(/web-1 +ReplicaSet\/web +was gone/);
  });

  it('waits for a disruption budget, and says so once', async () => {
    let refusals = 3;
    const meet: Meet = ({ verb }) => {
      if (verb === 'evict' && refusals-- > 0) throw held('The disruption budget web needs 2 healthy pods');
    };
    const { run, evicted } = setting({ pods: [pod({ name: 'web-1', of: web })], meet });
    const { code, err } = await run('--recreate', '--yes');
    expect([code, evicted]).toEqual([0, ['web-1']]);
    expect(err.match(/waits: The disruption budget web needs 2 healthy pods/g)).toHaveLength(1);
  });

  it('waits for the other pods of the controller, and gives up in the end without an eviction', async () => {
    const pods = [pod({ name: 'web-1', of: web }), pod({ name: 'sick', of: web, has: true, ready: false })];
    const { run, evicted } = setting({ pods });
    const { code, out, err } = await run('--recreate', '--yes', '--timeout', '1m');
    expect([code, evicted]).toEqual([1, []]);
    expect(err).toContain('error: Cannot recreate pod "shop/web-1": given up: pod shop/sick is not ready');
    expect(out).toMatch(/web-1 +ReplicaSet\/web +failed: given up/);
  });

  it('begins with pods that are not ready, whoever else is not', async () => {
    const pods = [pod({ name: 'web-2', of: web }), pod({ name: 'web-1', of: web, ready: false })];
    const { run, evicted } = setting({ pods });
    expect((await run('--recreate', '--yes')).code).toBe(0);
    expect(evicted).toEqual(['web-1', 'web-2']);
  });

  it('stops at a replacement that lacks the containers, too', async () => {
    const { run, evicted } = setting({ pods: several, injects: false });
    const { code, out, err } = await run('--recreate', '--yes');
    expect([code, evicted]).toEqual([1, ['web-2']]);
    expect(err).toContain('Cannot recreate pod "shop/web-2": its replacement shop/new-1 lacks the containers, too');
    expect(out).toMatch(/web-1 +ReplicaSet\/web +not tried/);
  });

  it('stops at a replacement that does not become ready', async () => {
    const { run, evicted } = setting({ pods: several, heals: false });
    const { code, err } = await run('--recreate', '--yes');
    expect([code, evicted]).toEqual([1, ['web-2']]);
    expect(err).toContain('given up: its replacement is not ready');
  });

  it('reports a missing permission', async () => {
    const meet: Meet = ({ verb }) => {
      if (verb === 'evict')
        throw new KubeError({ status: 403, reason: 'Forbidden', message: 'pods "web-2" is forbidden' });
    };
    const { code, err } = await setting({ pods: several, meet }).run('--recreate', '--yes');
    expect(code).toBe(1);
    expect(err).toContain('error: Cannot recreate pod "shop/web-2": pods "web-2" is forbidden');
  });

  it('recreates nothing while injection is paused', async () => {
    const spec = { injectionStrategy: { paused: true } };
    const { code, out } = await setting({ pods: several, spec }).run('--recreate', '--yes');
    expect(code).toBe(0);
    expect(out).toMatch(/web-1 +ReplicaSet\/web +left alone: a new pod would lack them, too: the injection/);
  });
});
