import { afterEach, describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import { applyPatch, type Operation } from 'rfc6902';
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { podChain, reviewPod } from '../../webhook/pod.ts';
import { type FollowedSidecarSets, followSidecarSets } from '../../webhook/review/followed-sidecar-sets.ts';
import { admissionRoute } from '../../webhook/review/review.ts';
import { sidecarSetLookUpsIn } from '../../webhook/review/sidecar-set-look-ups.ts';
import { reviewSidecarSet, reviewSidecarSetDefaults } from '../../webhook/sidecar-set.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { podDraft } from '../support/objects/pod.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { waitFor } from '../support/wait.ts';

const signal = new AbortController().signal;
const system = 'kruise-system';

function stored(given: Parameters<typeof sidecarSetDraft>[0] = {}): { metadata: { name: string } } & JsonObject {
  return defaultSidecarSet(sidecarSetDraft(given)) as { metadata: { name: string } } & JsonObject;
}

function clusterWith(...sets: readonly ReturnType<typeof stored>[]): MemoryCluster {
  const cluster = new MemoryCluster();
  cluster.put(kubeResource.namespaces, { metadata: { name: 'shop', labels: { team: 'a' } } });
  for (const set of sets) cluster.put(sidecarSets, set);
  return cluster;
}

interface Response {
  readonly allowed: boolean;
  readonly patch?: string;
  readonly warnings?: readonly string[];
  readonly status?: { readonly code: number; readonly message: string };
}

describe('sidecars of new pods', () => {
  let followed: FollowedSidecarSets | undefined;

  afterEach(async () => {
    await followed?.stop();
    followed = undefined;
  });

  async function follow(cluster: MemoryCluster): Promise<FollowedSidecarSets> {
    followed = followSidecarSets({ client: cluster.client(), log: pino({ level: 'silent' }) }, system);
    await followed.synced();
    return followed;
  }

  async function review(
    cluster: MemoryCluster,
    {
      metadata = {},
      spec = {},
      status,
      gates = '',
      operation = 'CREATE',
      namespace = 'shop',
      dryRun = false,
    }: {
      metadata?: JsonObject;
      spec?: JsonObject;
      status?: JsonObject;
      gates?: string;
      operation?: string;
      namespace?: string;
      dryRun?: boolean;
    } = {},
  ): Promise<Response> {
    const source = followed ?? (await follow(cluster));
    const route = admissionRoute(reviewPod(parseFeatureGates(gates), podChain, undefined, source), {
      whenFailed: 'leaveToFailurePolicy',
    });
    const object = {
      ...podDraft({ metadata: { name: 'web', labels: { app: 'web' }, ...metadata }, spec }),
      ...(status && { status }),
    };
    const request = { uid: 'r', operation, namespace, kind: { group: '', kind: 'Pod' }, object, dryRun };
    const { body } = await route({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request }, signal);
    return objectOr(body).response as unknown as Response;
  }

  /** The names of the containers of the pod that comes out. */
  async function containersOf(cluster: MemoryCluster, given: Parameters<typeof review>[1] = {}) {
    const { allowed, patch } = await review(cluster, given);
    expect(allowed).toBe(true);
    const pod = podDraft({
      metadata: { name: 'web', labels: { app: 'web' }, ...given.metadata },
      spec: given.spec ?? {},
    });
    const after = structuredClone(pod) as { spec: JsonObject };
    if (patch !== undefined) applyPatch(after, JSON.parse(Buffer.from(patch, 'base64').toString()) as Operation[]);
    return listOr(after.spec.containers).map((container) => objectOr(container).name);
  }

  it('SCS-2: are those of the namespace of the request, or of the pod', async () => {
    const pinned = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } } };
    const cluster = clusterWith(stored({ spec: pinned }));
    cluster.put(kubeResource.namespaces, {
      metadata: { name: 'shop', labels: { 'kubernetes.io/metadata.name': 'shop' } },
    });
    expect(await containersOf(cluster)).toEqual(['log', 'app']);
    expect(await containersOf(cluster, { namespace: '', metadata: { namespace: 'shop' } })).toEqual(['log', 'app']);
    expect(await containersOf(cluster, { namespace: 'other' })).toEqual(['app']);
    expect(await containersOf(cluster, { namespace: '' })).toEqual(['app']);
  });

  it('SCS-4: are not for pods that have completed or are being deleted', async () => {
    const cluster = clusterWith(stored());
    for (const given of [
      { status: { phase: 'Succeeded' } },
      { status: { phase: 'Failed' } },
      { metadata: { deletionTimestamp: 'x' } },
    ]) {
      expect(await containersOf(cluster, given)).toEqual(['app']);
      expect((await review(cluster, given)).warnings).toEqual([expect.stringContaining('no SidecarSet is injected')]);
    }
  });

  it('SCS-5: are for new pods only', async () => {
    expect(await containersOf(clusterWith(stored()), { operation: 'UPDATE' })).toEqual(['app']);
  });

  it('are not added with gate PodWebhook off', async () => {
    expect(await containersOf(clusterWith(stored()), { gates: 'PodWebhook=false' })).toEqual(['app']);
  });

  it('are the same for a dry run', async () => {
    expect(await containersOf(clusterWith(stored()), { dryRun: true })).toEqual(['log', 'app']);
  });

  it('leave a pod as it is that no SidecarSet selects', async () => {
    const cluster = clusterWith(
      stored(),
      stored({ name: 'other', spec: { namespaceSelector: { matchLabels: { team: 'b' } } } }),
    );
    expect((await review(cluster, { metadata: { labels: { app: 'shop' } } })).patch).toBeUndefined();
  });

  it('SCS-35: follow SidecarSets and labels of namespaces', async () => {
    const cluster = clusterWith(stored({ spec: { namespaceSelector: { matchLabels: { team: 'b' } } } }));
    const source = await follow(cluster);
    expect(await containersOf(cluster)).toEqual(['app']);
    cluster.put(kubeResource.namespaces, { metadata: { name: 'shop', labels: { team: 'b' } } });
    await waitFor('the namespace', () => (source.namespaceLabels('shop', {}) as { team?: string }).team === 'b');
    expect(await containersOf(cluster)).toEqual(['log', 'app']);
    cluster.put(sidecarSets, stored({ name: 'more', spec: { containers: [{ name: 'more', image: 'more:1' }] } }));
    await waitFor('the SidecarSet', () => source.inNamespace('shop').length === 2);
    expect(await containersOf(cluster)).toEqual(['log', 'more', 'app']);
  });

  it('SCS-35: are added to the first pods of a namespace that the watch does not show yet', async () => {
    const cluster = clusterWith(stored({ spec: { namespaceSelector: { matchLabels: { team: 'b' } } } }));
    await follow(cluster);
    const first = containersOf(cluster, { namespace: 'fresh' });
    await new Promise((resolve) => setImmediate(resolve));
    cluster.put(kubeResource.namespaces, { metadata: { name: 'fresh', labels: { team: 'b' } } });
    expect(await first).toEqual(['log', 'app']);
  });

  it('SCS-35: are waited for by few pods at one time, and by no large one', async () => {
    const cluster = clusterWith(stored({ spec: { namespaceSelector: { matchLabels: { team: 'b' } } } }));
    const source = await follow(cluster);
    const large = { spec: 'a'.repeat(101 * 1024) };
    await expect(source.namespaceLabels('fresh', large)).rejects.toThrow('"fresh" has not been seen yet');
    const first = Array.from({ length: 20 }, () => source.namespaceLabels('fresh', {}));
    await expect(source.namespaceLabels('fresh', {})).rejects.toThrow('"fresh" has not been seen yet');
    cluster.put(kubeResource.namespaces, { metadata: { name: 'fresh', labels: { team: 'b' } } });
    expect(await Promise.all(first)).toHaveLength(20);
    const late = source.namespaceLabels('later', {});
    cluster.put(kubeResource.namespaces, { metadata: { name: 'later', labels: { team: 'b' } } });
    expect(await late).toEqual({ team: 'b' });
  });

  it('SCS-35: leave no pod without them because nothing has been read yet', async () => {
    const cluster = clusterWith(stored());
    const client = cluster.client();
    for (const unread of ['sidecarsets', 'controllerrevisions', 'namespaces']) {
      const read = Promise.withResolvers<void>();
      const source = followSidecarSets(
        {
          client: {
            list: async (resource, options) => {
              if (resource.plural === unread) await read.promise;
              return await client.list(resource, options);
            },
            watch: (resource, options) => client.watch(resource, options),
          },
          log: pino({ level: 'silent' }),
        },
        system,
      );
      const review = reviewPod(parseFeatureGates(), podChain, undefined, source);
      const route = admissionRoute(review, { whenFailed: 'leaveToFailurePolicy' });
      const object = podDraft({ metadata: { name: 'web', labels: { app: 'web' } } });
      const request = { uid: 'r', operation: 'CREATE', namespace: 'shop', kind: { group: '', kind: 'Pod' }, object };
      const ask = () => route({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request }, signal);
      expect(await ask()).toMatchObject({
        status: 500,
        body: { message: expect.stringContaining('not been read yet') },
      });
      read.resolve();
      await source.synced();
      expect(await ask()).toMatchObject({ status: 200, body: { response: { patchType: 'JSONPatch' } } });
      await source.stop();
    }
  });

  it('SCS-25: are sorted by name with the gate', async () => {
    const spec = {
      containers: [
        { name: 'b', image: 'b' },
        { name: 'a', image: 'a' },
      ],
    };
    const cluster = clusterWith(stored({ spec }));
    expect(await containersOf(cluster)).toEqual(['b', 'a', 'app']);
    expect(await containersOf(cluster, { gates: 'EnableSortSidecarContainerByName=true' })).toEqual(['a', 'b', 'app']);
  });

  it('SCS-34: are there before the launch order of containers is set', async () => {
    const annotations = { 'apps.kruise.io/container-launch-priority': 'Ordered' };
    const cluster = clusterWith(stored({ spec: { patchPodMetadata: [{ annotations }] } }));
    const { patch = '' } = await review(cluster);
    const operations = Buffer.from(patch, 'base64').toString();
    expect(operations.split('KRUISE_CONTAINER_BARRIER')).toHaveLength(3);
  });

  it('SCS-91: reject a pod whose stored revision is missing, with status 500 and the name', async () => {
    const injectionStrategy = { revision: { revisionName: 'logs-gone' } };
    const { allowed, status } = await review(clusterWith(stored({ spec: { injectionStrategy } })));
    expect(allowed).toBe(false);
    expect(status).toMatchObject({
      code: 500,
      message: 'Cannot inject SidecarSet "logs": there is no ControllerRevision "logs-gone"',
    });
  });

  it('SCS-91: are those of the stored revision of the name or of the custom version', async () => {
    const revision = (name: string, number: number, version: string) => ({
      metadata: {
        namespace: system,
        name,
        labels: { 'kruise.io/sidecarset-name': 'logs', 'apps.kruise.io/sidecarset-custom-version': version },
      },
      data: { spec: { $patch: 'replace', containers: [{ name, image: 'x' }], initContainers: null, volumes: null } },
      revision: number,
    });
    const withRevision = (of: JsonObject) => {
      const cluster = clusterWith(stored({ spec: { injectionStrategy: { revision: of } } }));
      for (const one of [revision('one', 1, '1'), revision('two', 2, '1'), revision('three', 3, '2')]) {
        cluster.put(kubeResource.controllerRevisions, one);
      }
      return cluster;
    };
    expect(await containersOf(withRevision({ revisionName: 'one' }))).toEqual(['one', 'app']);
    await followed?.stop();
    followed = undefined;
    expect(await containersOf(withRevision({ customVersion: '1' }))).toEqual(['two', 'app']);
  });

  it('let a pod pass with a warning where the SidecarSet ignores its failure, and stop no other pod', async () => {
    const injectionStrategy = { revision: { revisionName: 'logs-gone' } };
    const annotations = { 'windlass.io/injection-failure': 'Ignore' };
    const fine = stored({ name: 'fine', spec: { containers: [{ name: 'fine', image: 'fine' }] } });
    const cluster = clusterWith(stored({ metadata: { annotations }, spec: { injectionStrategy } }), fine);
    expect(await containersOf(cluster)).toEqual(['fine', 'app']);
    expect((await review(cluster)).warnings).toEqual([expect.stringContaining('SidecarSet "logs" is not injected')]);
    expect(await containersOf(cluster, { metadata: { labels: { app: 'other' } } })).toEqual(['app']);
  });
});

describe('the review of SidecarSets', () => {
  const typo = 'spec.containers[0].enviroment';

  async function judge(
    cluster: MemoryCluster,
    object: JsonObject,
    oldObject?: JsonObject,
    gates = '',
  ): Promise<Response> {
    const review = reviewSidecarSet({
      gates: parseFeatureGates(gates),
      lookUps: sidecarSetLookUpsIn(cluster.client(), system),
      trials: {
        tryPod: (pod) =>
          Promise.resolve(
            JSON.stringify(pod).includes('refused')
              ? { kind: 'refused', causes: [{ field: 'spec.containers[0].image', message: 'no' }] }
              : { kind: 'accepted', ...(JSON.stringify(pod).includes('enviroment') && { unknown: [typo] }) },
          ),
      },
    });
    const operation = oldObject === undefined ? 'CREATE' : 'UPDATE';
    const request = {
      uid: 'r',
      operation,
      kind: { group: 'apps.kruise.io', kind: 'SidecarSet' },
      object,
      ...(oldObject && { oldObject }),
    };
    const body = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request };
    const answer = await admissionRoute(review, { whenFailed: 'refuse' })(body, signal);
    return objectOr(answer.body).response as unknown as Response;
  }

  it('fills in defaults in the version of the request', async () => {
    const object = sidecarSetDraft({ version: 'v1alpha1' });
    const verdict = await reviewSidecarSetDefaults()(
      {
        uid: 'r',
        operation: 'CREATE',
        kind: { group: '', kind: '' },
        subResource: '',
        namespace: '',
        name: '',
        dryRun: false,
        fieldValidation: 'Warn',
        user: '',
        object,
      },
      signal,
    );
    expect(verdict).toEqual({ kind: 'allowed', object: defaultSidecarSet(object) });
  });

  it('SCS-246: looks for the stored revision', async () => {
    const cluster = clusterWith();
    const named = (revision: JsonObject) => judge(cluster, stored({ spec: { injectionStrategy: { revision } } }));
    const missing = {
      allowed: false,
      status: { message: expect.stringContaining('Cannot find specific ControllerRevision, err: ') },
    };
    expect(await named({ revisionName: 'logs-1' })).toMatchObject(missing);
    expect(await named({ customVersion: '1' })).toMatchObject(missing);
    expect(await named({ customVersion: 'not a label' })).toMatchObject(missing);
    const labels = { 'kruise.io/sidecarset-name': 'logs', 'apps.kruise.io/sidecarset-custom-version': '1' };
    cluster.put(kubeResource.controllerRevisions, { metadata: { namespace: system, name: 'logs-1', labels } });
    expect(await named({ revisionName: 'logs-1' })).toMatchObject({ allowed: true });
    expect(await named({ customVersion: '1' })).toMatchObject({ allowed: true });
  });

  it('SCS-252: reports what the API server refuses, at the path of the SidecarSet', async () => {
    const spec = { containers: [{ name: 'log', image: 'refused' }] };
    expect(await judge(clusterWith(), stored({ spec }))).toMatchObject({
      allowed: false,
      status: { code: 422, message: expect.stringContaining('spec.containers[0].image') },
    });
    expect(await judge(clusterWith(), stored({ spec }), stored({ spec }))).toMatchObject({ allowed: true });
  });

  it('SCS-252: warns of fields that no container has', async () => {
    const spec = { containers: [{ name: 'log', image: 'log:1', enviroment: [] }] };
    expect(await judge(clusterWith(), stored({ spec }))).toMatchObject({
      allowed: true,
      warnings: [`unknown field "${typo}"`],
    });
  });

  it('SCS-83, SCS-84: reads the whitelist at each write', async () => {
    const cluster = clusterWith();
    const patched = stored({ spec: { patchPodMetadata: [{ annotations: { team: 'a' } }] } });
    expect((await judge(cluster, patched)).status?.message).toContain('SidecarSet patch metadata whitelist not found');
    expect((await judge(cluster, patched, undefined, 'SidecarSetPatchPodMetadataDefaultsAllowed=true')).allowed).toBe(
      true,
    );
    const whitelist = (pattern: string) =>
      cluster.put(kubeResource.configMaps, {
        metadata: { namespace: system, name: 'kruise-configuration' },
        data: {
          SidecarSet_PatchPodMetadata_WhiteList: JSON.stringify({ rules: [{ allowedAnnotationKeyExprs: [pattern] }] }),
        },
      });
    whitelist('^team$');
    expect((await judge(cluster, patched)).allowed).toBe(true);
    whitelist('^other$');
    expect((await judge(cluster, patched, patched)).allowed).toBe(false);
  });

  it('SCS-256: compares with the others that are stored, once nothing else is wrong', async () => {
    const cluster = clusterWith(stored(), stored({ name: 'apart', spec: { selector: { matchLabels: { app: 'x' } } } }));
    expect(await judge(cluster, stored(), stored())).toMatchObject({ allowed: true });
    expect((await judge(cluster, stored({ name: 'next' }))).status?.message).toContain(
      'container log already exist in logs',
    );
    const { status } = await judge(cluster, stored({ name: 'next', spec: { namespaceSelector: {} } }));
    expect(status?.message).not.toContain('already exist');
  });
});
