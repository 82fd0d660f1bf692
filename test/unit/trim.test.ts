import { describe, expect, it } from '@jest/globals';
import { barrierEnv } from '../../api/container-launch-priority.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource, podReadinessGate } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import { terminationMark } from '../../api/job-sidecar-termination.ts';
import { budgetStamp } from '../../api/pod-unavailable-budget/types.ts';
import { createCache } from '../../kube/cache.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import { membersOf } from '../../plan/fleet/pods.ts';
import { isAvailable } from '../../plan/pod-unavailable-budget/readiness.ts';
import { hasLongMark, listedSets } from '../../plan/sidecar-set/pods.ts';
import { secretKeysOf } from '../../watcher/kinds/node-image/pull-secrets.ts';
import { trimOf, trimPod } from '../../watcher/trim.ts';
import { createdAt } from '../support/objects/metadata.ts';
import { aPod } from '../support/objects/pod.ts';
import { pullJob } from '../support/pull-objects.ts';
import { gatedPod } from '../support/recreate-requests.ts';

const ready = { type: 'Ready', status: 'False' };

describe('a ConfigMap with the label of barriers', () => {
  const owner = (name: string) => ({ apiVersion: 'v1', kind: 'Pod', name, uid: `uid-${name}`, controller: false });
  const trimmed = (owners: readonly object[], data: Record<string, string>) => {
    const metadata = {
      namespace: 'shop',
      name: 'web-barrier',
      uid: 'u',
      resourceVersion: '1',
      creationTimestamp: createdAt,
    };
    const annotations = { long: 'x'.repeat(1_000) };
    return trimOf(kubeResource.configMaps)?.({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { ...metadata, annotations, ownerReferences: owners },
      data,
      binaryData: { p_1: 'eA==' },
      immutable: true,
    } as never);
  };

  it('H7: keeps the priorities that it publishes, and nothing else of what it holds', () => {
    const data = {
      p_10: 'true',
      'p_-1': 'true',
      p_007: 'true',
      p_1: 'yes',
      p_1e21: 'true',
      'p_-': 'true',
      other: 'x'.repeat(1_000_000),
    };
    expect(trimmed([owner('web')], data)).toEqual({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        namespace: 'shop',
        name: 'web-barrier',
        uid: 'u',
        resourceVersion: '1',
        creationTimestamp: createdAt,
        ownerReferences: [owner('web')],
      },
      data: { p_10: 'true', 'p_-1': 'true', p_007: 'true' },
    });
  });

  it('H7: keeps no key of one that is no barrier, and no more of any than a pod can have', () => {
    const many = Object.fromEntries(Array.from({ length: 80_000 }, (_, at) => [`p_${at}`, 'true']));
    expect(trimmed([owner('other')], many)).toMatchObject({ data: {}, metadata: { ownerReferences: [] } });
    expect(JSON.stringify(trimmed([owner('web')], many)).length).toBeLessThan(20_000);
    expect(
      JSON.stringify(
        trimmed(
          Array.from({ length: 1_000 }, () => owner('x'.repeat(200))),
          {},
        ),
      ).length,
    ).toBeLessThan(1_000);
  });
});

describe('the index of Secrets that jobs name', () => {
  it('passes over a job with more of them than it may have', () => {
    const job = (count: number) => pullJob({ pullSecrets: Array.from({ length: count }, (_, at) => `s${at}`) });
    expect(secretKeysOf(job(64))).toHaveLength(64);
    expect(secretKeysOf(job(65))).toEqual([]);
  });
});

describe('trimPod', () => {
  it('keeps what the passes read, and nothing else', () => {
    const pod = gatedPod({
      metadata: { labels: { app: 'web' }, annotations: { long: 'text' } },
      spec: {
        containers: [{ name: 'app' }],
        nodeName: 'node-1',
        readinessGates: [{ conditionType: 'else' }, { conditionType: podReadinessGate }],
      },
    });
    expect(trimPod(pod)).toEqual({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        namespace: 'shop',
        name: 'web',
        uid: 'pod-1',
        resourceVersion: '1',
        creationTimestamp: createdAt,
        labels: { app: 'web' },
      },
      spec: { containers: [], nodeName: 'node-1', readinessGates: [{ conditionType: podReadinessGate }] },
      status: { conditions: [{ type: podReadinessGate, status: 'True' }] },
    });
  });

  it("keeps of a pod that a marker may select what that is decided on, and conditions that are not the kubelet's own", () => {
    const conditions = ['PodScheduled', 'Initialized', 'game.io/idle', 'Ready', 'ContainersReady'].map((type) => ({
      type,
      status: 'True',
    }));
    const pod = gatedPod({
      metadata: { labels: { app: 'web' } },
      spec: { containers: [], nodeName: 'node-1' },
      status: { phase: 'Running', podIP: '10.0.0.1', conditions },
    });
    expect(trimPod(pod)).toMatchObject({
      metadata: { labels: { app: 'web' } },
      spec: { nodeName: 'node-1' },
      status: { phase: 'Running', podIP: '10.0.0.1', conditions: [{ type: 'Initialized' }, { type: 'game.io/idle' }] },
    });
    const ended = trimPod({ ...pod, status: { ...pod.status, phase: 'Succeeded' } });
    expect(ended.metadata).not.toHaveProperty('labels');
    expect(ended.spec).not.toHaveProperty('nodeName');
  });

  it('AS-11, AS-30: keeps of a pod that has ended what a StatefulSet adopts it by, where it may have its name', () => {
    const ended = (metadata: object) =>
      trimPod(
        gatedPod({
          metadata: { name: 'web-0', labels: { app: 'web' }, ...metadata },
          spec: { containers: [], readinessGates: [] },
          status: { phase: 'Failed' },
        }),
      );
    expect(ended({})).toMatchObject({ metadata: { labels: { app: 'web' } }, status: { phase: 'Failed' } });
    const controller = { apiVersion: 'batch/v1', kind: 'Job', name: 'web', uid: 'u', controller: true };
    for (const other of [{ name: 'web' }, { deletionTimestamp: createdAt }, { ownerReferences: [controller] }]) {
      expect(ended(other).metadata).not.toHaveProperty('labels');
      expect(ended(other).status).not.toHaveProperty('phase');
    }
  });

  it('keeps only the identity and the deletion of a pod without the gate', () => {
    const plain = trimPod(
      gatedPod({
        metadata: { deletionTimestamp: createdAt },
        spec: { containers: [], readinessGates: [] },
        status: { conditions: [ready] },
      }),
    );
    expect(plain).not.toHaveProperty('status');
    expect(plain.spec).toEqual({ containers: [] });
    expect(plain.metadata.deletionTimestamp).toBe(createdAt);
  });

  it('keeps of a pod that is marked its marks and how its containers are, and no other variables', () => {
    const hold = barrierEnv('web', 5);
    const priority = { name: 'KRUISE_CONTAINER_PRIORITY', value: '5' };
    const terminated = { exitCode: 1, reason: 'Error', message: 'long' };
    const trimmed = trimPod(
      gatedPod({
        metadata: { annotations: { 'apps.kruise.io/container-launch-priority': 'Ordered', long: 'text' } },
        spec: {
          nodeName: 'node-1',
          restartPolicy: 'Never',
          containers: [
            { name: 'app', image: 'nginx:1', env: [{ name: 'TOKEN', value: 'hidden' }, priority, hold] },
            { name: 'log' },
          ],
        },
        status: {
          phase: 'Pending',
          podIP: '10.0.0.1',
          containerStatuses: [
            {
              name: 'app',
              ready: false,
              restartCount: 1,
              containerID: 'containerd://1',
              image: 'x',
              state: { terminated },
            },
          ],
        },
      }),
    );
    expect(trimmed.metadata.annotations).toEqual({ 'apps.kruise.io/container-launch-priority': 'Ordered' });
    expect(trimmed.spec).toEqual({
      nodeName: 'node-1',
      restartPolicy: 'Never',
      containers: [{ name: 'app', image: 'nginx:1', env: [priority, hold] }, { name: 'log' }],
      readinessGates: [{ conditionType: podReadinessGate }],
    });
    expect(trimmed.status).toEqual({
      phase: 'Pending',
      podIP: '10.0.0.1',
      containerStatuses: [
        {
          name: 'app',
          ready: false,
          restartCount: 1,
          containerID: 'containerd://1',
          state: { terminated: { exitCode: 1, reason: 'Error' } },
        },
      ],
      conditions: trimPod(gatedPod()).status?.conditions,
    });
  });

  it('keeps of a pod with sidecars the command that somebody has left, and who has', () => {
    const mark = { name: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT', value: 'true' };
    const annotations = { 'windlass.io/command': 'pause', note: 'x' };
    const owner = {
      manager: 'kubectl-annotate',
      fieldsV1: { 'f:metadata': { 'f:annotations': { 'f:windlass.io/command': {} } } },
    };
    const managedFields = [{ manager: 'kubelet', fieldsV1: { 'f:status': {} } }, owner];
    const spec = { restartPolicy: 'Never', containers: [{ name: 'proxy', env: [mark] }] };
    const { metadata } = trimPod(gatedPod({ metadata: { annotations, managedFields }, spec }));
    expect(metadata).toMatchObject({ annotations: { 'windlass.io/command': 'pause' }, managedFields: [owner] });
    expect(metadata.managedFields).toHaveLength(1);
    expect(trimPod(gatedPod({ metadata: { managedFields }, spec })).metadata).not.toHaveProperty('managedFields');
  });

  it('keeps of a pod that a kind of ours controls what its planner reads, and no plain values of variables', () => {
    const owner = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'set', controller: true };
    const fromLabel = { name: 'TIER', valueFrom: { fieldRef: { fieldPath: "metadata.labels['tier']" } } };
    const secret = { name: 'TOKEN', value: 'hidden' };
    const status = { phase: 'Running', podIP: '10.0.0.1', conditions: [ready], containerStatuses: [] };
    const trimmed = trimPod(
      gatedPod({
        metadata: { labels: { tier: 'gold' }, annotations: { note: 'x' }, ownerReferences: [owner] },
        spec: { nodeName: 'node-1', containers: [{ name: 'app', image: 'nginx:1', env: [secret, fromLabel] }] },
        status,
      }),
    );
    expect(trimmed).toMatchObject({
      metadata: { labels: { tier: 'gold' }, annotations: { note: 'x' }, ownerReferences: [owner] },
      spec: { nodeName: 'node-1', containers: [{ name: 'app', image: 'nginx:1', env: [fromLabel] }] },
      status: { phase: 'Running', conditions: [ready], containerStatuses: [] },
    });
    expect(JSON.stringify(trimmed)).not.toContain('hidden');
    expect(trimmed.status).toHaveProperty('podIP');
  });
});

describe('a pod with the stamp of a budget', () => {
  const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web-1', uid: 'rs', controller: true };
  const [landed, another] = [`app@sha256:${'1'.repeat(64)}`, `app@sha256:${'2'.repeat(64)}`];
  const stampedPod = (
    annotations: Record<string, string>,
    { ready = 'True', imageID = landed, labels = {} } = {},
  ): Pod =>
    aPod({
      metadata: {
        ...{ labels: { app: 'web', ...labels }, generation: 2, ownerReferences: [owner] },
        annotations: { ...budgetStamp('web'), ...annotations, else: 'x'.repeat(100) },
      },
      spec: { containers: [{ name: 'app', image: landed, env: [{ name: 'TOKEN', value: 'secret' }] }] },
      status: {
        ...{ phase: 'Running', observedGeneration: 2, conditions: [{ type: 'Ready', status: ready, message: 'long' }] },
        containerStatuses: [
          { name: 'app', ready: true, restartCount: 0, image: landed, imageID, containerID: 'containerd://1' },
        ],
      },
    });

  it('PUB-17, PUB-18: is as available in the cache as it is', () => {
    const state = (id: string) => ({
      [inPlaceAnnotation.state]: JSON.stringify({
        ...{ revision: 'r', updateTimestamp: createdAt, lastContainerStatuses: { app: { imageID: id } } },
        containerBatchesRecord: [{ timestamp: createdAt, containers: ['app'] }],
      }),
    });
    const gates = parseFeatureGates('');
    const pods = [
      stampedPod({}),
      stampedPod({}, { ready: 'False' }),
      stampedPod({}, { imageID: another }),
      stampedPod({}, { labels: { 'unavailable-pod.kruise.io/drain': '' } }),
      stampedPod(state(another)),
      stampedPod({ [inPlaceAnnotation.state]: '{' }),
      stampedPod({ [inPlaceAnnotation.grace]: '{"revision":"r","containerImages":{"app":"x"},"graceSeconds":60}' }),
    ];
    expect(pods.map((pod) => isAvailable(pod, gates))).toEqual([true, false, false, false, true, false, false]);
    for (const pod of pods) expect(isAvailable(trimPod(pod), gates)).toBe(isAvailable(pod, gates));
  });

  it('PUB-10: keeps its controller and the stamp, and nothing that budgets do not read', () => {
    const trimmed = trimPod(stampedPod({}));
    expect(trimmed.metadata.ownerReferences).toEqual([owner]);
    expect(trimmed.metadata.annotations).toEqual(budgetStamp('web'));
    expect(trimmed.spec.containers).toEqual([{ name: 'app', image: landed }]);
    expect(trimmed.status).toEqual({
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'True' }],
      containerStatuses: [{ name: 'app', ready: true, restartCount: 0, image: landed, imageID: landed }],
    });
    const leaving = stampedPod({});
    const metadata = { ...leaving.metadata, deletionTimestamp: createdAt };
    expect(trimPod({ ...leaving, metadata }).spec.containers).toEqual([]);
  });

  it('keeps of a Deployment whose it is, its replicas, and a selector that is not long', () => {
    const deployment = (value: string) =>
      ({
        ...{ apiVersion: 'apps/v1', kind: 'Deployment' },
        metadata: { ...aPod().metadata, ownerReferences: [owner], annotations: { long: 'text' }, labels: { a: 'b' } },
        spec: { replicas: 3, selector: { matchLabels: { app: value } }, template: { spec: {} } },
        status: { replicas: 3 },
      }) as KubeObject;
    expect(trimOf(kubeResource.deployments)?.(deployment('web'))).toEqual({
      ...{ apiVersion: 'apps/v1', kind: 'Deployment' },
      metadata: { ...aPod().metadata, ownerReferences: [owner] },
      spec: { replicas: 3, selector: { matchLabels: { app: 'web' } } },
    });
    expect(trimOf(kubeResource.statefulSets)?.(deployment('x'.repeat(20_000)))).toMatchObject({
      spec: { replicas: 3 },
    });
    expect(JSON.stringify(trimOf(kubeResource.statefulSets)?.(deployment('x'.repeat(20_000)))).length).toBeLessThan(
      500,
    );
  });
});

describe('a pod whose texts are as long as the API server lets them be', () => {
  const list = 'kruise.io/sidecarset-injected-list';
  const mark = (key: string) => `kruise.io/sidecarset-${key}`;
  const most = 256 * 1024;
  const names = Array.from({ length: most / 4 }, (_, at) => at.toString(36)).join(',');
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, '']));
  const ofCloneSet = {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    name: 'web',
    uid: 'set',
    controller: true,
  };
  const sizeOf = (pod: Pod) => {
    const cache = createCache<Pod>({
      onError: (error) => {
        throw error;
      },
    });
    cache.addIndex('sidecarSet', listedSets);
    cache.apply('ADDED', trimPod(pod));
    return { bytes: JSON.stringify([...cache.all()]).length, indexed: cache.sizes.indexed };
  };

  it.each([
    ['the list of its SidecarSets', { [list]: names.slice(0, most) }],
    ['its hashes', { [list]: 'logs', [mark('hash')]: 'x'.repeat(most) }],
    ['the record of its updates', { [list]: 'logs', [mark('inplace-update-state')]: 'x'.repeat(most) }],
    [
      'the versions of a sidecar that it does not have',
      {
        [list]: 'logs',
        [mark('working-hotupgrade-container')]: '{}',
        'version.sidecarset.kruise.io/log': 'x'.repeat(most),
      },
    ],
    ['a command', { 'windlass.io/command': 'x'.repeat(most) }],
    ['what has become of its sidecars', { [terminationMark.status]: 'x'.repeat(most) }],
    ['its notes', { note: 'x'.repeat(most) }],
    ['how many notes it has', many(20_000)],
  ])('takes less than 50 KB, where that is %s', (_, annotations) => {
    const term = { name: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT', value: 'true' };
    const spec = { restartPolicy: 'Never', containers: [{ name: 'app' }, { name: 'proxy', env: [term] }] };
    for (const ownerReferences of [[], [ofCloneSet]]) {
      const { bytes, indexed } = sizeOf(gatedPod({ metadata: { annotations, ownerReferences }, spec }));
      expect(bytes).toBeLessThan(50_000);
      expect(indexed).toBeLessThan(200);
    }
  });

  const marked = (mostBytes: number, value: string) => {
    const keys = ['hash', 'hash-without-image', 'inplace-update-state', 'working-hotupgrade-container'].map(mark);
    const entries = (key: string) => {
      const count = Math.floor(mostBytes / JSON.stringify({ [`${key.length}-0000`]: value }).length);
      return Array.from({ length: count }, (_, at) => [`${key.length}-${String(at).padStart(4, '0')}`, value]);
    };
    const texts = keys.map((key) => [key, JSON.stringify(Object.fromEntries(entries(key)))]);
    return { [list]: 'logs', ...Object.fromEntries(texts) };
  };

  it.each([
    ['many', ''],
    ['few and long', 'x'.repeat(10_000)],
  ])('keeps nothing of entries of SidecarSets that it does not list, where they are %s', (_, value) => {
    const annotations = marked(63 * 1024, value);
    for (const ownerReferences of [[], [ofCloneSet]]) {
      expect(sizeOf(gatedPod({ metadata: { annotations, ownerReferences } })).bytes).toBeLessThan(5_000);
    }
  });

  it('is trimmed in little processor time, whatever is in its marks', () => {
    const nested = '['.repeat(30_000) + ']'.repeat(30_000);
    const pods = Array.from({ length: 50 }, (_, at) => [
      { metadata: { annotations: marked(63 * 1024, '') } },
      { metadata: { annotations: marked(15 * 1024, `${at}`) } },
      { metadata: { annotations: { [list]: 'logs', [mark('hash')]: `{"logs":${nested}}` } } },
    ]).flat();
    const before = process.cpuUsage();
    for (const pod of pods) trimPod(gatedPod(pod));
    expect(process.cpuUsage(before).user / 1_000 / pods.length).toBeLessThan(8);
  });

  it('is selected by nothing where it has too many labels or containers, and is not forgotten by the CloneSet that owns it', () => {
    const annotations = { [list]: 'logs' };
    const labels = { ...many(20_000), app: 'web', 'controller-revision-hash': 'web-1' };
    const foreign = trimPod(gatedPod({ metadata: { labels, annotations } }));
    expect(foreign.metadata).not.toHaveProperty('labels');
    expect(foreign.spec).not.toHaveProperty('nodeName');
    expect(listedSets(foreign)).toEqual([]);

    const containers = Array.from({ length: 5_000 }, (_, at) => ({ name: `c${at}` }));
    expect(trimPod(gatedPod({ metadata: { annotations }, spec: { containers } })).spec.containers).toEqual([]);

    const own = trimPod(gatedPod({ metadata: { labels, annotations, ownerReferences: [ofCloneSet] } }));
    expect(Object.keys(own.metadata.labels ?? {}).length).toBeLessThan(1_000);
    expect(listedSets(own)).toEqual([]);
    const seen = { pods: [own], orphans: [], nowMs: 0 };
    const owner = { ...own, metadata: { ...own.metadata, uid: 'set' } };
    const members = membersOf(owner, { selector: { matchLabels: { app: 'web' } }, minReadySeconds: 0 }, seen);
    expect(members).toMatchObject({ counted: [{ revision: 'web-1' }], strays: [] });
    const orphan = { ...own, metadata: { ...own.metadata, ownerReferences: [] } };
    const ofAll = { selector: { matchExpressions: [{ key: 'x', operator: 'DoesNotExist' }] }, minReadySeconds: 0 };
    const around = membersOf(owner, { ...ofAll, adopts: () => true }, { pods: [], orphans: [orphan], nowMs: 0 });
    expect(around?.adoptable).toEqual([]);
  });

  it('keeps every mark of a pod with 64 SidecarSets and 64 containers', () => {
    const sets = Array.from({ length: 64 }, (_, at) => `${'s'.repeat(60)}-${at}`);
    const containers = sets.map((set) => ({ name: `${set}-1`, image: `registry.example.com/team/${set}:1` }));
    const hash = 'h'.repeat(64);
    const entry = (set: string) => ({
      ...{ updateTimestamp: createdAt, hash, sidecarSetName: set, sidecarList: [set] },
      controllerRevision: `${set}-${'r'.repeat(10)}`,
    });
    const imageID = `registry.example.com/team/${'i'.repeat(60)}@sha256:${'0'.repeat(64)}`;
    const map = (value: (set: string) => unknown) =>
      JSON.stringify(Object.fromEntries(sets.map((set) => [set, value(set)])));
    const annotations = {
      [list]: sets.join(','),
      [mark('hash')]: map(entry),
      [mark('hash-without-image')]: map(entry),
      [mark('inplace-update-state')]: map((set) => ({
        ...{ revision: hash, updateTimestamp: createdAt, lastContainerStatuses: { [`${set}-1`]: { imageID } } },
      })),
      [mark('working-hotupgrade-container')]: map((set) => `${set}-1`),
      ...Object.fromEntries(sets.map((set) => [`version.sidecarset.kruise.io/${set}-1`, '1'])),
    };
    const pod = gatedPod({ metadata: { annotations }, spec: { containers } });
    const trimmed = trimPod(pod);
    expect(new Set(Object.keys(trimmed.metadata.annotations ?? {}))).toEqual(new Set(Object.keys(annotations)));
    for (const [key, text] of Object.entries(annotations)) {
      const unread = { sidecarSetName: undefined, sidecarList: undefined, revision: undefined };
      const read =
        key.includes('hash') || key.includes('state') ? map((set) => ({ ...JSON.parse(text)[set], ...unread })) : text;
      expect([key, trimmed.metadata.annotations?.[key]]).toEqual([key, read]);
    }
    expect(listedSets(trimmed)).toHaveLength(64);
    expect(hasLongMark(trimmed)).toBe(false);
  });

  it('keeps of a pod of a CloneSet what its containers refer to, and the record of its update, however long', () => {
    const annotations = {
      'apps.kruise.io/inplace-update-state': 's'.repeat(100_000),
      config: 'c'.repeat(100_000),
      note: 'n'.repeat(100_000),
    };
    const env = [{ name: 'CONFIG', valueFrom: { fieldRef: { fieldPath: "metadata.annotations['config']" } } }];
    const spec = { containers: [{ name: 'app', env }] };
    const trimmed = trimPod(gatedPod({ metadata: { annotations, ownerReferences: [ofCloneSet] }, spec }));
    expect(Object.keys(trimmed.metadata.annotations ?? {})).toEqual(['apps.kruise.io/inplace-update-state', 'config']);
  });

  it('does not end a sidecar because what an operator has said of it is too long to be read', () => {
    const term = { name: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT', value: 'true' };
    const spec = { restartPolicy: 'Never', containers: [{ name: 'proxy', env: [term] }] };
    const said = JSON.stringify({ skipped: ['proxy'], filler: 'x'.repeat(100_000) });
    const annotations = { [terminationMark.status]: said };
    expect(trimPod(gatedPod({ metadata: { annotations }, spec })).spec.containers).toEqual([]);
    const ofOurs = trimPod(gatedPod({ metadata: { annotations, ownerReferences: [ofCloneSet] }, spec }));
    expect(ofOurs.spec.containers).toEqual([{ name: 'proxy' }]);
  });
});

describe('trimOf', () => {
  it('keeps of a PVC its mark and its controller, however many labels and owners it has', () => {
    const labels = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k${at}`, '']));
    const owner = { apiVersion: 'v1', kind: 'Pod', name: 'web', uid: 'u', controller: false };
    const ownerReferences = [...Array.from({ length: 1_000 }, () => owner), { ...owner, controller: true }];
    const metadata = {
      ...gatedPod().metadata,
      ...{ labels: { ...labels, 'apps.kruise.io/cloneset-instance-id': 'abc' }, ownerReferences },
    };
    const trimmed = trimOf(kubeResource.persistentVolumeClaims)?.({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata,
    });
    expect(trimmed?.metadata).toMatchObject({
      labels: { 'apps.kruise.io/cloneset-instance-id': 'abc' },
      ownerReferences: [{ controller: true }],
    });
    expect(JSON.stringify(trimmed).length).toBeLessThan(50_000);
  });

  describe('a PVC that belongs by its name to a StatefulSet', () => {
    const trimClaim = (claim: { readonly metadata?: object; readonly spec?: object; readonly status?: object }) =>
      trimOf(kubeResource.persistentVolumeClaims)?.({
        ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...claim },
        metadata: { ...gatedPod().metadata, name: 'data-web-1', ...claim.metadata },
      } as KubeObject) as VolumeClaim;
    const read = {
      spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'fast', resources: { requests: { storage: '1Gi' } } },
      status: { capacity: { storage: '1Gi' } },
    };

    it('AS §3: keeps what its pod is compared with, and those of other kinds do not', () => {
      const whole = {
        spec: { ...read.spec, volumeName: 'pv-1', resources: { ...read.spec.resources, limits: { storage: '2Gi' } } },
        status: { ...read.status, phase: 'Bound', conditions: Array.from({ length: 9 }, () => ({ type: 'x' })) },
      };
      expect(trimClaim(whole)).toMatchObject(read);
      expect(JSON.stringify(trimClaim(whole))).not.toMatch(/volumeName|limits|phase|conditions/);
      expect(trimClaim({})).not.toHaveProperty('spec.resources');
      const accessModes = Array.from({ length: 1_000 }, () => 'ReadWriteOnce');
      expect(trimClaim({ ...whole, spec: { accessModes } }).spec).toEqual({ accessModes: ['ReadWriteOnce'] });
      const controller = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'u' };
      for (const metadata of [{ name: 'data-web' }, { ownerReferences: [{ ...controller, controller: true }] }]) {
        expect(trimClaim({ ...whole, metadata })).not.toHaveProperty('spec');
        expect(trimClaim({ ...whole, metadata })).not.toHaveProperty('status');
      }
    });

    it('AS-80: keeps its StatefulSet and its pod as owners, however many others there are', () => {
      const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'x' };
      const others = Array.from({ length: 1_000 }, (_, at) => ({ ...other, uid: `${at}` }));
      const ours = [
        { apiVersion: 'apps.kruise.io/v1beta1', kind: 'StatefulSet', name: 'web', uid: 'set' },
        { apiVersion: 'v1', kind: 'Pod', name: 'web-1', uid: 'pod' },
      ];
      const { metadata } = trimClaim({ metadata: { ownerReferences: [...others, ...ours] } });
      expect(metadata.ownerReferences).toEqual(ours);
      const namesakes = Array.from({ length: 1_000 }, () => ({ apiVersion: 'v1', kind: 'Pod', name: '1', uid: 'x' }));
      expect(trimClaim({ metadata: { ownerReferences: namesakes } }).metadata.ownerReferences).toHaveLength(64);
    });
  });

  it('keeps of nodes that they are there, their labels, taints and whether they are ready, and leaves other kinds as they are', () => {
    const node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { ...gatedPod().metadata, labels: { zone: 'a' } },
      spec: {
        podCIDR: '10.0.0.0/24',
        taints: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule', timeAdded: createdAt }],
      },
      status: {
        conditions: [
          { type: 'Ready', status: 'True', message: 'x' },
          { type: 'Other', status: 'True' },
        ],
      },
    };
    const trimmed = trimOf(kubeResource.nodes)?.(node);
    expect(trimmed).toHaveProperty('spec', { taints: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule' }] });
    expect(trimmed?.metadata.labels).toEqual({ zone: 'a' });
    expect(trimmed).toMatchObject({ status: { conditions: [{ type: 'Ready', status: 'True' }] } });
    expect(trimOf(kubeResource.pods)?.(gatedPod() as Pod)).toEqual(trimPod(gatedPod()));
    expect(trimOf(kubeResource.secrets)).toBeUndefined();
  });
});
