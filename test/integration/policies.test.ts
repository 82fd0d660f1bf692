import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { type CloneSet, cloneSets, cloneSetsV1alpha1 } from '../../api/cloneset/types.ts';
import { crr } from '../../api/container-recreate-request/types.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type SidecarSet, sidecarSets, sidecarSetsV1alpha1 } from '../../api/sidecar-set/types.ts';
import { type StatefulSet, statefulSets } from '../../api/stateful-set/types.ts';
import { repository } from '../../deploy/local/instance.ts';
import { type Role, roles } from '../../deploy/local/roles.ts';
import { toolPath } from '../../deploy/local/tools.ts';
import { createKubeClient, type KubeClient, type NameRef, type PatchType } from '../../kube/client.ts';
import { describeAlone } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

// Limits of the rights of watcher and worker on objects that admission reviews, or that pods are made from: the policies of
// deploy/rbac, with admission.
const windlass = useWindlass({ watcher: false, worker: false });
const dryRun = { dryRun: true } as const;
const refused = {
  type: 'Invalid',
  message: expect.stringMatching(/denied request: .*the (watcher|worker) may (only|not) /),
};
const refusedAs = (text: string) => ({ ...refused, message: expect.stringContaining(text) });

let watcher: KubeClient;
let worker: KubeClient;
let namespace: string;
let cloneSet: CloneSet;
let sidecarSet: SidecarSet;
let statefulSet: StatefulSet;

const annotations = { 'windlass.io/command': 'pause', 'windlass.io/roll-out': '{}', note: 'x' };
const finalizers = ['test.io/keep'];
const labels = { app: 'web' };
const template = {
  metadata: { labels },
  spec: { automountServiceAccountToken: false, containers: [{ name: 'app', image: 'busybox:1.36' }] },
};

const ofDatabase = { ...template, metadata: { labels: { app: 'db' } } };
const ofShop = { ...template, metadata: { labels: { app: 'shop' } } };
const kubernetesSets: Resource = {
  ...{ group: 'apps', version: 'v1', plural: 'statefulsets', kind: 'StatefulSet', namespaced: true },
};

beforeAll(async () => {
  const { platform, cluster } = windlass();
  namespace = await cluster.newNamespace();
  const as = async (role: Role) =>
    createKubeClient({ kubeconfig: await platform.accessOf(role), userAgent: 'windlass-test', qps: 100, burst: 100 });
  [watcher, worker] = await Promise.all([as(roles.watcher), as(roles.worker)]);
  cloneSet = await cluster.kube.create<CloneSet>(cloneSets, {
    metadata: { namespace, name: 'web', annotations, labels },
    spec: { replicas: 1, selector: { matchLabels: labels }, template },
  });
  sidecarSet = await cluster.kube.create<SidecarSet>(sidecarSets, {
    metadata: { name: `set-${randomUUID().slice(0, 8)}`, annotations, labels },
    spec: {
      selector: { matchLabels: labels },
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
      containers: [{ name: 'log', image: 'busybox:1.36' }],
    },
  });
  const holder = await cluster.kube.create<Pod>(kubeResource.pods, {
    metadata: { namespace, name: 'web-z' },
    spec: template.spec,
  });
  const database = await cluster.kube.create<KubeObject>(kubernetesSets, {
    metadata: { namespace, name: 'db' },
    spec: { replicas: 0, serviceName: 'db', selector: { matchLabels: { app: 'db' } }, template: ofDatabase },
  });
  ownedBy('CloneSet', 'apps.kruise.io/v1beta1', cloneSet);
  ownedBy('SidecarSet', 'apps.kruise.io/v1beta1', sidecarSet);
  ownedBy('Pod', 'v1', holder);
  ownedBy('StatefulSet', 'apps/v1', database);
  statefulSet = await cluster.kube.create<StatefulSet>(statefulSets, {
    metadata: { namespace, name: 'shop', annotations, labels },
    spec: { replicas: 0, selector: { matchLabels: { app: 'shop' } }, template: ofShop },
  });
  // policies take effect some time after they were written
  await waitFor('the policies to hold', async () => {
    const tries = [
      write(cloneSets, cloneSet, { spec: { replicas: 2 } }),
      watcher.create(kubeResource.persistentVolumeClaims, claim('else', []), dryRun),
      watcher.create(kubeResource.controllerRevisions, revision('else', []), dryRun),
    ];
    const results = await Promise.allSettled(tries);
    return results.every((result) => result.status === 'rejected' && result.reason.type === 'Invalid');
  });
});

afterAll(async () => {
  await Promise.all([watcher.close(), worker.close()]);
});

function refOf({ metadata }: KubeObject): NameRef {
  return { namespace: metadata.namespace ?? '', name: metadata.name };
}

/** A dry run of a write by the watcher. */
function write(
  resource: Resource,
  object: KubeObject,
  body: unknown,
  { type = 'merge', ...options }: { readonly type?: PatchType; readonly subresource?: string } = {},
): Promise<KubeObject> {
  return watcher.patch<KubeObject>(resource, refOf(object), type, body as JsonObject, { ...dryRun, ...options });
}

type Owner = 'CloneSet' | 'SidecarSet' | 'StatefulSet' | 'Pod';

/** Owners that exist: what belongs to others is garbage. */
const owners = new Map<Owner, object>();
function owner(kind: Owner, version = ''): readonly object[] {
  return [{ ...owners.get(kind), ...(version && { apiVersion: `apps.kruise.io/${version}` }) }];
}

function ownedBy(kind: Owner, apiVersion: string, { metadata: { name, uid } }: KubeObject): void {
  owners.set(kind, { apiVersion, kind, name, uid, controller: true });
}

function revision(name: string, ownerReferences: readonly object[], more: object = {}, at = namespace) {
  return {
    metadata: { namespace: at, name, ownerReferences, labels, ...more },
    data: { spec: {} },
    revision: 1,
  };
}

function claim(name: string, ownerReferences: readonly object[], more: object = {}) {
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } };
  return { metadata: { namespace, name, ownerReferences, ...more }, spec };
}

describeAlone('what the watcher may write of CloneSets and SidecarSets', () => {
  it.each([
    ['the orders of operators', { 'windlass.io/roll-out': '{"version":1}' }],
    ['orders that are over, which it removes', { 'windlass.io/roll-out': null }],
    ['a command that it has passed on, which it removes', { 'windlass.io/command': null }],
  ])('is %s', async (_, written) => {
    const body = { metadata: { annotations: written } };
    await expect(write(cloneSets, cloneSet, body)).resolves.toBeDefined();
    await expect(write(sidecarSets, sidecarSet, body)).resolves.toBeDefined();
  });

  it('CS-36: is podsToDelete', async () => {
    const { cluster } = windlass();
    const pods = await Promise.all(
      ['web-a', 'web-b'].map((name) =>
        cluster.kube.create<Pod>(kubeResource.pods, {
          metadata: {
            ...{ namespace, name, labels },
            ownerReferences: owner('CloneSet'),
          },
          spec: template.spec,
        }),
      ),
    );
    const podsToDelete = pods.map(({ metadata }) => metadata.name);
    const named = { spec: { scaleStrategy: { podsToDelete } } };
    await cluster.kube.patch(cloneSets, refOf(cloneSet), 'merge', named);
    const prune = (left: readonly string[] | null) =>
      write(cloneSets, cloneSet, { spec: { scaleStrategy: { podsToDelete: left } } });
    await expect(prune(['web-b'])).resolves.toMatchObject({ spec: { scaleStrategy: { podsToDelete: ['web-b'] } } });
    await expect(prune(null)).resolves.toBeDefined();
  });

  it.each<[string, JsonObject]>([
    ['the template', { spec: { template: { spec: { hostNetwork: true } } } }],
    ['the number of pods', { spec: { replicas: 0 } }],
    ['how it is scaled', { spec: { scaleStrategy: { maxUnavailable: 1 } } }],
    ['a field that it has not', { spec: { minReadySeconds: 9 } }],
    ['a field less', { spec: { revisionHistoryLimit: null } }],
  ])('is not %s of a CloneSet', async (_, body) => {
    await expect(write(cloneSets, cloneSet, body)).rejects.toMatchObject(
      refusedAs('of a spec the watcher may only write'),
    );
    await expect(write(cloneSetsV1alpha1, cloneSet, body)).rejects.toMatchObject(refused);
  });

  it.each<[string, JsonObject]>([
    ['containers', { containers: [{ name: 'log', image: 'mine:1', securityContext: { privileged: true } }] }],
    ['volumes', { volumes: [{ name: 'host', hostPath: { path: '/' } }] }],
    [
      'which pods it selects',
      { selector: { matchLabels: null, matchExpressions: [{ key: 'x', operator: 'DoesNotExist' }] } },
    ],
    ['the namespaces', { namespaceSelector: null }],
    ['the revision that pods get', { injectionStrategy: { revision: { revisionName: 'mine' } } }],
    ['a pause', { injectionStrategy: { paused: true } }],
  ])('is not %s of a SidecarSet', async (_, spec) => {
    await expect(write(sidecarSets, sidecarSet, { spec })).rejects.toMatchObject(refused);
    await expect(write(sidecarSetsV1alpha1, sidecarSet, { spec })).rejects.toMatchObject(refused);
  });

  it.each<[string, JsonObject]>([
    ['a command', { annotations: { 'windlass.io/command': 'abort' } }],
    ['another annotation', { annotations: { note: 'y' } }],
    ['an annotation more', { annotations: { 'windlass.io/injection-failure': 'Ignore' } }],
    ['an annotation less', { annotations: { note: null } }],
    ['labels', { labels: { app: 'else' } }],
    ['finalizers', { finalizers }],
    ['owners', { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'x', uid: 'x' }] }],
  ])('is not %s', async (_, metadata) => {
    await expect(write(cloneSets, cloneSet, { metadata })).rejects.toMatchObject(refused);
    await expect(write(sidecarSets, sidecarSet, { metadata })).rejects.toMatchObject(refused);
  });
});

describeAlone('what the watcher may write of PVCs', () => {
  const pvcs = kubeResource.persistentVolumeClaims;
  const make = (name: string, ownerReferences: readonly object[], more: object = {}) =>
    windlass().cluster.kube.create<KubeObject>(pvcs, claim(name, ownerReferences, more));
  const remove = (object: KubeObject) => watcher.delete(pvcs, refOf(object), dryRun);

  it('is those that a CloneSet controls, and of these the owners', async () => {
    await expect(watcher.create(pvcs, claim('data-web-a', owner('CloneSet')), dryRun)).resolves.toBeDefined();
    const ours = await make('data-web-b', owner('CloneSet'));
    await expect(write(pvcs, ours, { metadata: { ownerReferences: owner('Pod') } })).resolves.toBeDefined();
    await expect(remove(ours)).resolves.toBeUndefined();
    await expect(write(pvcs, ours, { metadata: { annotations } })).rejects.toMatchObject(refused);
    await expect(write(pvcs, ours, { metadata: { labels } })).rejects.toMatchObject(refused);
    await expect(write(pvcs, ours, { metadata: { finalizers: null } })).rejects.toMatchObject(refused);
  });

  it('CS-74: is the deletion of one that went to a pod of a CloneSet', async () => {
    const id = { labels: { 'apps.kruise.io/cloneset-instance-id': 'b' } };
    await expect(remove(await make('data-web-c', owner('Pod'), id))).resolves.toBeUndefined();
  });

  it('is no other', async () => {
    const others = [
      await make('data-of-nobody', []),
      await make('data-of-a-pod', owner('Pod')),
      await make('data-of-a-db', owner('StatefulSet'), {
        labels: { 'apps.kruise.io/cloneset-instance-id': 'b' },
      }),
    ];
    for (const other of others) {
      await expect(remove(other)).rejects.toMatchObject(refused);
      const owned = { metadata: { ownerReferences: owner('CloneSet') } };
      await expect(write(pvcs, other, owned)).rejects.toMatchObject(refused);
    }
    await expect(watcher.create(pvcs, claim('data-web-d', []), dryRun)).rejects.toMatchObject(refused);
  });
});

const persistentVolumes: Resource = {
  ...{ group: '', version: 'v1', plural: 'persistentvolumes', kind: 'PersistentVolume', namespaced: false },
};

/** Gives, or takes away, what the roles may do with the feature gate StatefulSetAutoResizePVCGate alone. */
async function gateRights(verb: 'apply' | 'delete'): Promise<void> {
  const file = join(repository, 'deploy/rbac-gates/StatefulSetAutoResizePVCGate.yaml');
  const { kubeconfig } = windlass().platform;
  await promisify(execFile)(toolPath('kubectl'), ['--kubeconfig', kubeconfig, verb, '-f', file]);
}

describeAlone('what the watcher may write for StatefulSets and DaemonSets', () => {
  const pvcs = kubeResource.persistentVolumeClaims;
  const ofSet = (more: object = {}) => {
    const { name, uid } = statefulSet.metadata;
    return { apiVersion: 'apps.kruise.io/v1beta1', kind: 'StatefulSet', name, uid, ...more };
  };
  let pod: Pod;

  const makePod = (name: string, ownerReferences: readonly object[] = []) =>
    windlass().cluster.kube.create<Pod>(kubeResource.pods, {
      metadata: { namespace, name, labels: { app: 'shop' }, annotations: { note: 'x' }, ownerReferences },
      spec: template.spec,
    });
  const ofPod = () => ({ apiVersion: 'v1', kind: 'Pod', name: pod.metadata.name, uid: pod.metadata.uid });
  const makeClaim = (name: string, ownerReferences: readonly object[]) =>
    windlass().cluster.kube.create<KubeObject>(pvcs, claim(name, ownerReferences));
  const owned = (...ownerReferences: readonly object[]) => ({ metadata: { ownerReferences } });

  beforeAll(async () => {
    pod = await makePod('shop-0');
  });

  it('is nothing of their spec', async () => {
    for (const spec of [{ replicas: 1 }, { template: { spec: { hostNetwork: true } } }, { reserveOrdinals: [1] }]) {
      await expect(write(statefulSets, statefulSet, { spec })).rejects.toMatchObject(refused);
    }
    const body = { metadata: { annotations: { 'windlass.io/command': null } } };
    await expect(write(statefulSets, statefulSet, body)).resolves.toBeDefined();
  });

  it('AS-10, AS-32: is a PVC of an ordinal that nobody controls', async () => {
    await expect(watcher.create(pvcs, claim('data-shop-7', []), dryRun)).resolves.toBeDefined();
    await expect(watcher.create(pvcs, claim('data-shop', []), dryRun)).rejects.toMatchObject(refused);
    const controlled = [ofSet({ controller: true, name: 'db', apiVersion: 'apps/v1' })];
    await expect(watcher.create(pvcs, claim('data-shop-8', controlled), dryRun)).rejects.toMatchObject(refused);
  });

  it('AS-80: is the StatefulSet and the pod of a PVC as its owners', async () => {
    const [other] = owner('CloneSet');
    const ours = await makeClaim('data-shop-0', [{ ...other, controller: false }]);
    const [kept] = ours.metadata.ownerReferences ?? [];
    await expect(write(pvcs, ours, owned(kept as object, ofSet()))).resolves.toBeDefined();
    await expect(write(pvcs, ours, owned(kept as object, ofPod()))).resolves.toBeDefined();
    const given = await makeClaim('logs-shop-0', [ofSet()]);
    await expect(write(pvcs, given, owned(ofPod()))).resolves.toBeDefined();
    await expect(write(pvcs, given, { metadata: { ownerReferences: null } })).resolves.toBeDefined();
    await expect(write(pvcs, given, { metadata: { annotations } })).rejects.toMatchObject(refused);
    const [controller] = owner('CloneSet');
    const another = await makeClaim('made-shop-0', [{ ...controller, apiVersion: 'apps/v1', kind: 'Deployment' }]);
    const [theirs] = another.metadata.ownerReferences ?? [];
    await expect(write(pvcs, another, owned(theirs as object, ofSet()))).resolves.toBeDefined();
    await expect(write(pvcs, another, owned(ofSet()))).rejects.toMatchObject(refused);
    // those of others stay, and none of another name comes
    await expect(write(pvcs, ours, owned(ofSet()))).rejects.toMatchObject(refused);
    await expect(write(pvcs, given, owned(ofSet({ name: 'sho' })))).rejects.toMatchObject(refused);
    await expect(write(pvcs, given, owned({ ...ofPod(), name: 'shop-1' }))).rejects.toMatchObject(refused);
    await expect(write(pvcs, given, owned(ofSet({ controller: true })))).rejects.toMatchObject(refused);
    await expect(watcher.delete(pvcs, refOf(given), dryRun)).rejects.toMatchObject(refused);
  });

  it('AS-92: is the size of a PVC, where the feature gate gives the right', async () => {
    const { kube } = windlass().cluster;
    const name = `volumes-${namespace}`;
    const named = { storageClassName: name, resources: { requests: { storage: '1Mi' } } };
    const spec = { accessModes: ['ReadWriteOnce'], ...named };
    await kube.create(kubeResource.storageClasses, {
      ...{ metadata: { name }, provisioner: 'test.windlass.io/none', allowVolumeExpansion: true },
    });
    await kube.create(persistentVolumes, {
      metadata: { name },
      spec: {
        ...{ accessModes: spec.accessModes, storageClassName: name, capacity: { storage: '1Mi' } },
        ...{ claimRef: { namespace, name: 'grown-shop-0' }, hostPath: { path: '/tmp/none' } },
      },
    } as never);
    try {
      const made = { metadata: { namespace, name: 'grown-shop-0', annotations: { note: 'x' } }, spec };
      await kube.create(pvcs, { ...made, spec: { ...spec, volumeName: name } });
      const bound = await waitFor('the PVC to be bound', async () => {
        const found = await kube.get<KubeObject & { readonly status?: { readonly phase?: string } }>(
          pvcs,
          made.metadata,
        );
        return found.status?.phase === 'Bound' && found;
      });
      const mark = { metadata: { annotations: { 'apps.kruise.io/owned-by-asts': 'shop' } } };
      const grown = { ...mark, spec: { resources: { requests: { storage: '2Mi' } } } };
      await expect(write(pvcs, bound, grown)).rejects.toMatchObject(refused);
      await gateRights('apply');
      await waitFor('the right', () => write(pvcs, bound, grown).catch(() => false));
      await expect(write(pvcs, bound, { metadata: { annotations: { note: 'y' } } })).rejects.toMatchObject(refused);
      await expect(write(pvcs, bound, { metadata: { labels } })).rejects.toMatchObject(refused);
    } finally {
      await gateRights('delete');
      await kube.delete(persistentVolumes, { name });
      await kube.delete(kubeResource.storageClasses, { name });
    }
  });

  it('AS-11: is the controller of a pod that has none, and of no other', async () => {
    const controller = ofSet({ controller: true, blockOwnerDeletion: true });
    await expect(write(kubeResource.pods, pod, owned(controller))).resolves.toBeDefined();
    const labelled = { metadata: { ownerReferences: [controller], labels: { app: 'else' } } };
    await expect(write(kubeResource.pods, pod, labelled)).rejects.toMatchObject(refused);
    await expect(write(kubeResource.pods, pod, owned(ofSet({ controller: true, name: 'db' })))).rejects.toMatchObject(
      refused,
    );
    await expect(write(kubeResource.pods, pod, owned(ofSet()))).rejects.toMatchObject(refused);
    // a workload of Kubernetes would release it, as it does not select it
    const taken = await makePod('shop-1', [...owner('Pod')]);
    await expect(write(kubeResource.pods, taken, owned(controller))).rejects.toMatchObject(refused);
    const unlike = await makePod('shop-x');
    await expect(write(kubeResource.pods, unlike, owned(controller))).rejects.toMatchObject(refused);
  });

  it('AD-12: is a DaemonSet as the controller of a pod that has none, whatever its name', async () => {
    const controller = { ...ofSet({ controller: true, blockOwnerDeletion: true }), kind: 'DaemonSet', name: 'agent' };
    const stray = await makePod('stray');
    await expect(write(kubeResource.pods, stray, owned(controller))).resolves.toBeDefined();
    const labelled = { metadata: { ownerReferences: [controller], labels: { app: 'else' } } };
    await expect(write(kubeResource.pods, stray, labelled)).rejects.toMatchObject(refused);
    const theirs = { ...controller, apiVersion: 'apps/v1' };
    await expect(write(kubeResource.pods, stray, owned(theirs))).rejects.toMatchObject(refused);
    const taken = await makePod('strayed', [...owner('Pod')]);
    await expect(write(kubeResource.pods, taken, owned(controller))).rejects.toMatchObject(refused);
  });

  it('AS-11: is the release of a pod that it controls', async () => {
    const ours = await makePod('shop-2', [ofSet({ controller: true })]);
    await expect(write(kubeResource.pods, ours, { metadata: { ownerReferences: null } })).resolves.toBeDefined();
  });
});

describeAlone('what the watcher may write of ControllerRevisions', () => {
  const { controllerRevisions } = kubeResource;
  const system = 'kruise-system';
  const make = (...given: Parameters<typeof revision>) =>
    windlass().cluster.kube.create<KubeObject>(controllerRevisions, revision(...given));
  const create = (...given: Parameters<typeof revision>) =>
    watcher.create<KubeObject>(controllerRevisions, revision(...given), dryRun);
  const remove = (object: KubeObject) => watcher.delete(controllerRevisions, refOf(object), dryRun);
  const ofSet = (name: string) => ({ labels: { 'kruise.io/sidecarset-name': name } });

  it('is those of CloneSets: number, marks, and deletion', async () => {
    await expect(create('web-a', owner('CloneSet'))).resolves.toBeDefined();
    const ours = await make('web-b', owner('CloneSet', 'v1alpha1'));
    const marked = { revision: 2, metadata: { labels: { 'apps.kruise.io/pre-predownload-created': 'true' } } };
    await expect(write(controllerRevisions, ours, marked)).resolves.toBeDefined();
    await expect(remove(ours)).resolves.toBeUndefined();
    const owned = { metadata: { ownerReferences: owner('Pod') } };
    await expect(write(controllerRevisions, ours, owned)).rejects.toMatchObject(refused);
  });

  it('CS-84: is those that nobody controls, which it does not create', async () => {
    const orphan = await make('web-c', []);
    await expect(write(controllerRevisions, orphan, { revision: 2 })).resolves.toBeDefined();
    await expect(remove(orphan)).resolves.toBeUndefined();
    await expect(create('web-d', [])).rejects.toMatchObject(refused);
  });

  it('SCS-207: is those of the SidecarSet that controls them and that their label names', async () => {
    const name = `r-${randomUUID().slice(0, 8)}`;
    const { name: set } = sidecarSet.metadata;
    const log = owner('SidecarSet', 'v1alpha1');
    await expect(create(name, log, ofSet(set), system)).resolves.toBeDefined();
    const ours = await make(name, log, ofSet(set), system);
    try {
      const custom = { revision: 2, metadata: { labels: { 'apps.kruise.io/sidecarset-custom-version': '2' } } };
      await expect(write(controllerRevisions, ours, custom)).resolves.toBeDefined();
      await expect(write(controllerRevisions, ours, { metadata: ofSet('other') })).rejects.toMatchObject(refused);
      await expect(remove(ours)).resolves.toBeUndefined();
    } finally {
      await windlass().cluster.kube.delete(controllerRevisions, refOf(ours));
    }
    await expect(create('log-b', log, ofSet('other'), system)).rejects.toMatchObject(refused);
    await expect(create('log-b', owner('CloneSet'), ofSet(set), system)).rejects.toMatchObject(refused);
    await expect(create('log-b', [], ofSet(set), system)).rejects.toMatchObject(refused);
  });

  it('is no other', async () => {
    await expect(create('db-a', owner('StatefulSet'))).rejects.toMatchObject(refused);
    await expect(create('log-a', owner('SidecarSet'))).rejects.toMatchObject(refused);
    const other = await make('db-b', owner('StatefulSet'));
    await expect(write(controllerRevisions, other, { revision: 2 })).rejects.toMatchObject(refused);
    await expect(remove(other)).rejects.toMatchObject(refused);
  });
});

describeAlone('what the watcher may write of the status of pods', () => {
  const asStatus = { subresource: 'status' } as const;
  let pod: Pod;

  beforeAll(async () => {
    const { cluster, node } = windlass();
    pod = await cluster.kube.create<Pod>(kubeResource.pods, {
      metadata: { namespace, name: 'other', labels },
      spec: { ...template.spec, nodeName: node.ref.name },
    });
    const running = { status: { phase: 'Running', podIP: '10.9.9.9', podIPs: [{ ip: '10.9.9.9' }] } };
    await cluster.kube.patch(kubeResource.pods, refOf(pod), 'merge', running, asStatus);
  });

  it('is conditions, labels and annotations', async () => {
    const conditions = [{ type: 'KruisePodReady', status: 'False', lastTransitionTime: '2026-01-01T00:00:00Z' }];
    const body = { metadata: { labels: { room: 'empty' }, annotations: { note: 'y' } }, status: { conditions } };
    await expect(write(kubeResource.pods, pod, body, asStatus)).resolves.toMatchObject({
      metadata: { labels: { app: 'web', room: 'empty' } },
      status: { conditions: expect.arrayContaining([expect.objectContaining({ type: 'KruisePodReady' })]) },
    });
  });

  it.each<[string, JsonObject]>([
    ['the phase', { status: { phase: 'Failed' } }],
    ['a reason', { status: { reason: 'Evicted' } }],
    ['an address', { status: { podIP: '10.0.0.7', podIPs: [{ ip: '10.0.0.7' }] } }],
    [
      'the state of containers',
      { status: { containerStatuses: [{ name: 'app', image: 'x', imageID: 'x', ready: true, restartCount: 0 }] } },
    ],
    ['a finalizer', { metadata: { finalizers } }],
  ])('is not %s', async (_, body) => {
    await expect(write(kubeResource.pods, pod, body, asStatus)).rejects.toMatchObject(refused);
  });
});

describeAlone('what the worker may write of ContainerRecreateRequests', () => {
  it('JST-12: is the one that ends the sidecars of a pod, and none of a user', async () => {
    const { cluster, runPod } = windlass();
    const { ref } = await runPod(['main', 'proxy']);
    const request = (name: string) => ({
      metadata: {
        ...{ namespace: ref.namespace, name },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: ref.name, uid: ref.uid, controller: true }],
      },
      spec: { podName: ref.name, containers: [{ name: 'proxy' }] },
    });
    const termination = request(`sidecar-termination-${ref.uid}`);
    await expect(worker.create(crr, termination, dryRun)).resolves.toBeDefined();
    await expect(worker.create(crr, request('mine'), dryRun)).rejects.toMatchObject(refused);
    for (const body of [termination, request('of-a-user')]) await cluster.kube.create(crr, body);
    const remove = (name: string) => worker.delete(crr, { namespace: ref.namespace, name }, dryRun);
    await expect(remove(termination.metadata.name)).resolves.toBeUndefined();
    await expect(remove('of-a-user')).rejects.toMatchObject(refused);
  });
});

describeAlone('deploy/samples/sidecar-set-policy.yaml', () => {
  const sample = join(repository, 'deploy/samples/sidecar-set-policy.yaml');
  const right = `sidecar-team-${randomUUID().slice(0, 8)}`;
  const allowed = { matchLabels: { 'sidecars.example.com/allowed': 'true' } };

  function kubectl(args: readonly string[], input?: JsonObject): Promise<string> {
    return new Promise((resolve, reject) => {
      const options = {
        env: { ...process.env, KUBECONFIG: windlass().platform.kubeconfig },
        timeout: 20_000,
      };
      const child = execFile(toolPath('kubectl'), [...args], options, (error, stdout, stderr) =>
        error ? reject(new Error(stderr || error.message)) : resolve(stdout),
      );
      child.stdin?.end(input && JSON.stringify(input));
    });
  }
  const asTeam = (verb: string, input: JsonObject) => kubectl([verb, '--as=ann', '--dry-run=server', '-f', '-'], input);
  const setOf = (spec: JsonObject, version = 'v1beta1'): JsonObject => ({
    apiVersion: `apps.kruise.io/${version}`,
    kind: 'SidecarSet',
    metadata: { name: right },
    spec: { selector: { matchLabels: labels }, containers: [{ name: 'reader', image: 'busybox:1.36' }], ...spec },
  });

  beforeAll(async () => {
    await kubectl(['create', 'clusterrole', right, '--verb=*', '--resource=sidecarsets.apps.kruise.io']);
    await kubectl(['create', 'clusterrolebinding', right, `--clusterrole=${right}`, '--user=ann']);
    await kubectl(['apply', '-f', sample]);
    await waitFor('the policy to hold', () =>
      asTeam('create', setOf({})).then(
        () => false,
        (error: Error) => error.message.includes('sidecar-set-namespaces'),
      ),
    );
  });
  afterAll(async () => {
    await kubectl(['delete', '-f', sample]);
    await kubectl(['delete', `clusterrole/${right}`, `clusterrolebinding/${right}`]);
    await kubectl(['delete', 'sidecarset', right, '--ignore-not-found']);
  });

  it('lets a team write SidecarSets for the namespaces that are meant for it', async () => {
    await expect(asTeam('create', setOf({ namespaceSelector: allowed }))).resolves.toContain('created');
    await expect(asTeam('create', setOf({ namespaceSelector: allowed }, 'v1alpha1'))).resolves.toContain('created');
  });

  it.each<[string, JsonObject, string]>([
    ['for all namespaces', {}, 'v1beta1'],
    ['for another one', { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'bank' } } }, 'v1beta1'],
    ['for another one in v1alpha1', { namespace: 'bank' }, 'v1alpha1'],
    [
      'of a stored content',
      { namespaceSelector: allowed, injectionStrategy: { revision: { customVersion: '1' } } },
      'v1beta1',
    ],
  ])('refuses one %s', async (_, spec, version) => {
    await expect(asTeam('create', setOf(spec, version))).rejects.toThrow(/a SidecarSet must/);
  });

  it('refuses to take over or delete one of an administrator, who may write any', async () => {
    await kubectl(['create', '-f', '-'], setOf({ namespaceSelector: { matchLabels: { a: 'b' } } }));
    await expect(asTeam('apply', setOf({ namespaceSelector: allowed }))).rejects.toThrow(/a SidecarSet must have/);
    await expect(asTeam('delete', setOf({}))).rejects.toThrow(/a SidecarSet must have/);
  });
});
