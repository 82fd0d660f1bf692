import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { deletionOnlyKinds, type ProtectedKind, protectedKinds } from '../../api/deletion-protection.ts';
import { type FeatureGate, parseFeatureGates } from '../../api/feature-gates.ts';
import { gateManifests } from '../../deploy/local/manifests.ts';
import type { ListOptions } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import { type RefusedDeletion, reviewDeletion } from '../../webhook/deletion-protection.ts';
import { dependantsIn } from '../../webhook/review/dependants.ts';
import { admissionRoute } from '../../webhook/review/review.ts';

const label = 'policy.kruise.io/delete-protection';
const words = `forbidden by ResourcesProtectionDeletion for`;
const on = 'ResourcesDeletionProtection=true';
const both = `${on},DeletionProtectionForCRDCascadingGate=true`;
const { Namespace, CustomResourceDefinition, Deployment, StatefulSet, ReplicaSet, CloneSet, Service, Ingress } =
  protectedKinds;
const workloads: readonly ProtectedKind[] = [Deployment, StatefulSet, ReplicaSet, CloneSet];
const allKinds: readonly ProtectedKind[] = Object.values(protectedKinds);

// ------------------------------------------------------------------------------------------------------------ builders

function object(kind: ProtectedKind, value: unknown, more: JsonObject = {}, metadata: JsonObject = {}): JsonObject {
  const labels = value === undefined ? { app: 'web' } : { app: 'web', [label]: value as string };
  const namespace = kind.scope === 'Namespaced' ? { namespace: 'shop' } : {};
  return {
    apiVersion: `${kind.group === '' ? '' : `${kind.group}/`}${kind.versions[0]}`,
    kind: kind.kind,
    metadata: { name: 'web', uid: 'uid-web', labels, ...namespace, ...metadata },
    ...more,
  };
}

const widgets = {
  group: 'example.com',
  scope: 'Namespaced',
  names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
  versions: [
    { name: 'v1', served: true, storage: false },
    { name: 'v2', served: true, storage: true },
  ],
};

interface Listed {
  readonly deletionTimestamp?: string;
  readonly phase?: string;
}

interface Page {
  readonly items: readonly object[];
  readonly resourceVersion: string;
  readonly continue: string;
}

/** A list call, as the API server received it. */
interface Call extends ListOptions {
  readonly path: string;
}

/** An API server with these cluster-scoped objects, and lists by `plural`; other lists are an error. */
function apiServer(
  stored: readonly JsonObject[],
  lists: Readonly<Record<string, readonly Listed[] | KubeError>> = {},
  mostAPage = Number.POSITIVE_INFINITY,
) {
  const calls: Call[] = [];
  const client = {
    get: (resource: Resource) => {
      const found = stored.find(({ kind }) => kind === resource.kind);
      if (found) return Promise.resolve(found as unknown as KubeObject);
      return Promise.reject(new KubeError({ status: 404, reason: 'NotFound', message: 'not found' }));
    },
    list: (resource: Resource, options: ListOptions = {}) => {
      calls.push({ ...options, path: `${resource.group}/${resource.version}/${resource.plural}` });
      const all = lists[resource.plural];
      if (all === undefined) throw new Error(`nobody should list ${resource.plural}`);
      if (all instanceof KubeError) return Promise.reject(all);
      const limit = options.limit ?? Number.POSITIVE_INFINITY;
      if (limit > mostAPage) {
        return Promise.reject(new KubeError({ status: 0, reason: 'AnswerTooLarge', message: 'too large' }));
      }
      // The API server evaluates the field selector of pods.
      const kept = options.fieldSelector
        ? all.filter(({ phase = '' }) => !options.fieldSelector?.includes(`status.phase!=${phase}`))
        : all;
      const from = Number(options.continue ?? 0);
      const items = kept.slice(from, from + limit).map(({ deletionTimestamp, phase }, index) => ({
        metadata: { name: `x-${from + index}`, ...(deletionTimestamp && { deletionTimestamp }) },
        ...(!options.metadataOnly && phase && { status: { phase } }),
      }));
      const next = from + items.length < kept.length ? { continue: String(from + items.length) } : {};
      return Promise.resolve({ items, resourceVersion: '1', ...next });
    },
  };
  return { calls, client: client as unknown as Parameters<typeof dependantsIn>[0] };
}

interface Answer {
  readonly allowed: boolean;
  readonly warnings?: readonly string[];
  readonly status?: {
    readonly status: string;
    readonly code: number;
    readonly reason: string;
    readonly message: string;
  };
}

/** Reviews the deletion of an object that the API server has. */
async function remove(
  kind: ProtectedKind,
  oldObject: JsonObject,
  {
    gates = both,
    server = apiServer([oldObject]),
    request = {},
    readMs,
  }: { gates?: string; server?: ReturnType<typeof apiServer>; request?: object; readMs?: number } = {},
): Promise<Answer & { readonly refusals: readonly RefusedDeletion[] }> {
  const refusals: RefusedDeletion[] = [];
  const review = reviewDeletion(kind, {
    gates: parseFeatureGates(gates),
    dependants: dependantsIn(server.client),
    onRefused: (refused) => refusals.push(refused),
    ...(readMs !== undefined && { readMs }),
  });
  const body = {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: 'review-1',
      kind: { group: kind.group, version: kind.versions[0], kind: kind.kind },
      operation: 'DELETE',
      name: 'web',
      namespace: 'shop',
      userInfo: { username: 'jane' },
      object: null,
      oldObject,
      ...request,
    },
  };
  const answer = await admissionRoute(review, { whenFailed: 'refuse' })(body, new AbortController().signal);
  expect(answer.status).toBe(200);
  return { ...(answer.body as { readonly response: Answer }).response, refusals };
}

const refusal = (message: string) => ({ allowed: false, status: expect.objectContaining({ code: 403, message }) });
const always = refusal(`${words} ${label}=Always`);

// --------------------------------------------------------------------------------------------------------------- tests

describe('protection from deletion', () => {
  it.each(allKinds)('DP-13: $webhook refuses Always with 403, without a reason', async (kind) => {
    const { status } = await remove(kind, object(kind, 'Always'));
    expect(status).toMatchObject({ status: 'Failure', code: 403, reason: '' });
    expect(status?.message).toBe(
      'forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Always',
    );
  });

  it.each(allKinds)('DP-1: $webhook looks at deletions of the object itself alone', async (kind) => {
    const old = object(kind, 'Always');
    for (const operation of ['CREATE', 'UPDATE', 'CONNECT']) {
      expect(await remove(kind, old, { request: { operation, object: old } })).toMatchObject({ allowed: true });
    }
    expect(await remove(kind, old, { request: { subResource: 'scale' } })).toMatchObject({ allowed: true });
  });

  it('DP-2: the stored object says it, and without one the deletion passes', async () => {
    const old = object(Deployment, 'Always');
    expect(await remove(Deployment, old, { request: { oldObject: null } })).toMatchObject({ allowed: true });
    const object_ = object(Deployment, undefined);
    expect(await remove(Deployment, old, { request: { object: object_ } })).toMatchObject(always);
  });

  it('DP-2: a label counts, an annotation does not', async () => {
    const annotated = object(Deployment, undefined, {}, { annotations: { [label]: 'Always' } });
    expect(await remove(Deployment, annotated)).toMatchObject({ allowed: true });
  });

  it.each(allKinds)('DP-3: $webhook lets an object pass that is being deleted already', async (kind) => {
    for (const value of ['Always', 'Cascading']) {
      const going = object(kind, value, { spec: { replicas: 3 } }, { deletionTimestamp: '2026-01-01T00:00:00Z' });
      expect(await remove(kind, going)).toMatchObject({ allowed: true, refusals: [] });
    }
  });

  it.each(['system:serviceaccount:kube-system:generic-garbage-collector', 'system:admin', ''])(
    'DP-4: "%s" is treated as everybody is',
    async (username) => {
      const request = { userInfo: { username, groups: ['system:masters'] } };
      expect(await remove(ReplicaSet, object(ReplicaSet, 'Always'), { request })).toMatchObject(always);
    },
  );

  it('DP-5: an object of a deletecollection is judged by itself, and named though the review names none', async () => {
    const request = { name: '' };
    const { refusals, ...answer } = await remove(Deployment, object(Deployment, 'Always'), { request });
    expect(answer).toMatchObject(always);
    expect(refusals).toMatchObject([{ namespace: 'shop', name: 'web' }]);
    expect(await remove(Deployment, object(Deployment, undefined), { request })).toMatchObject({ allowed: true });
  });

  it('DP-6: a dry run is judged and counted as any other', async () => {
    const { refusals, ...answer } = await remove(Service, object(Service, 'Always'), { request: { dryRun: true } });
    expect(answer).toMatchObject(always);
    expect(refusals).toMatchObject([{ dryRun: true }]);
  });

  it.each(workloads)('DP-7: $webhook counts the replicas of the stored spec, and asks nobody', async (kind) => {
    const ofReplicas = (spec: JsonObject) => remove(kind, object(kind, 'Cascading', { spec, status: { replicas: 9 } }));
    expect(await ofReplicas({ replicas: 3 })).toMatchObject(refusal(`${words} ${label}=Cascading and replicas 3>0`));
    expect(await ofReplicas({ replicas: 0 })).toMatchObject({ allowed: true });
    expect(await ofReplicas({ replicas: null })).toMatchObject({ allowed: true });
    expect(await ofReplicas({})).toMatchObject({ allowed: true });
  });

  it('DP-8: --cascade=orphan makes no difference', async () => {
    const request = { options: { apiVersion: 'meta.k8s.io/v1', kind: 'DeleteOptions', propagationPolicy: 'Orphan' } };
    expect(await remove(CloneSet, object(CloneSet, 'Always'), { request })).toMatchObject(always);
  });

  it.each([
    ['without metadata', { metadata: 7 }],
    ['with labels that are none', { metadata: { name: 'web', labels: 'a=b' } }],
    ['with replicas that are no number', { spec: { replicas: '3' } }],
    ['with a spec that is none', { spec: 'x' }],
  ])('DP-13: an object %s is answered with 400', async (_, broken) => {
    const { status } = await remove(Deployment, { ...object(Deployment, 'Cascading'), ...broken } as JsonObject);
    expect(status).toMatchObject({ code: 400, message: expect.stringContaining('Cannot review the deletion') });
  });

  it('lets objects go whose namespace is being deleted, which they would keep for ever', async () => {
    for (const kind of allKinds.filter(({ scope }) => scope === 'Namespaced')) {
      const kept = object(kind, 'Always');
      const going = object(Namespace, undefined, {}, { name: 'shop', deletionTimestamp: '2026-01-01T00:00:00Z' });
      const gone = await remove(kind, kept, { server: apiServer([going]) });
      expect(gone).toMatchObject({ allowed: true, refusals: [] });
      const staying = object(Namespace, undefined, {}, { name: 'shop' });
      expect(await remove(kind, kept, { server: apiServer([staying]) })).toMatchObject({ allowed: false });
      // the namespace cannot be read
      expect(await remove(kind, kept, { server: apiServer([]) })).toMatchObject({ allowed: false });
    }
    const going = object(Namespace, undefined, {}, { name: 'shop', deletionTimestamp: '2026-01-01T00:00:00Z' });
    const scaled = object(Deployment, 'Cascading', { spec: { replicas: 3 } });
    expect(await remove(Deployment, scaled, { server: apiServer([going]) })).toMatchObject({ allowed: true });
  });

  it('tells who was refused what, and keeps it short', async () => {
    const name = 'w'.repeat(4_000);
    const old = object(Namespace, 'Always', {}, { name });
    const { refusals } = await remove(Namespace, old, { request: { userInfo: { username: 'u'.repeat(100_000) } } });
    expect(refusals).toEqual([
      {
        kind: Namespace,
        reason: 'Always',
        namespace: '',
        name: 'w'.repeat(253),
        username: 'u'.repeat(253),
        dryRun: false,
      },
    ]);
  });
});

describe('deletion of a Namespace', () => {
  const namespace = object(Namespace, 'Cascading');
  const gone = '2026-01-01T00:00:00Z';
  const pods: readonly Listed[] = [
    { phase: 'Running' },
    { phase: 'Pending' },
    { phase: 'Succeeded' },
    { phase: 'Failed' },
    { phase: 'Running', deletionTimestamp: gone },
  ];
  const claims: readonly Listed[] = [
    { phase: 'Bound' },
    { phase: 'Pending' },
    { phase: 'Lost' },
    { phase: 'Bound', deletionTimestamp: gone },
  ];
  const lists = (ofPods: readonly Listed[] | KubeError, ofClaims: readonly Listed[] | KubeError, page?: number) =>
    apiServer([namespace], { pods: ofPods, persistentvolumeclaims: ofClaims }, page);

  it('DP-9: counts active Pods first, then Bound claims', async () => {
    expect(await remove(Namespace, namespace, { server: lists(pods, claims) })).toMatchObject(
      refusal(`${words} ${label}=Cascading and active pods 2>0`),
    );
    expect(await remove(Namespace, namespace, { server: lists(pods.slice(2), claims) })).toMatchObject(
      refusal(`${words} ${label}=Cascading and "Bound" status pvc 1>0`),
    );
    expect(await remove(Namespace, namespace, { server: lists(pods.slice(2), claims.slice(1)) })).toMatchObject({
      allowed: true,
    });
  });

  it('DP-9: a list that fails refuses, and says why', async () => {
    const error = new KubeError({ status: 403, reason: 'Forbidden', message: 'may not list' });
    const failed = await remove(Namespace, namespace, { server: lists(error, claims) });
    expect(failed).toMatchObject(refusal(`${words} list pods error: may not list`));
    expect(failed.refusals).toMatchObject([{ reason: 'ListFailed' }]);
    expect(await remove(Namespace, namespace, { server: lists([], error) })).toMatchObject(
      refusal(`${words} list pvc error: may not list`),
    );
  });

  it('DP-9: reads live, in pages, of Pods only the metadata', async () => {
    const server = lists(
      Array.from({ length: 1_200 }, () => ({ phase: 'Running' })),
      [],
    );
    expect(await remove(Namespace, namespace, { server })).toMatchObject(
      refusal(`${words} ${label}=Cascading and active pods 1200>0`),
    );
    expect(server.calls.map(({ limit, continue: next }) => [limit, next])).toEqual([
      [500, undefined],
      [500, '500'],
      [500, '1000'],
    ]);
    for (const call of server.calls) {
      expect(call).toMatchObject({ path: '/v1/pods', namespace: 'web', metadataOnly: true });
      // Any resourceVersion, also "0", would let a cache answer.
      expect(call.resourceVersion).toBeUndefined();
    }
  });

  it('DP-9: stops counting where there are very many, and never before it knows', async () => {
    const many = lists(
      Array.from({ length: 50_000 }, () => ({ phase: 'Running' })),
      [],
    );
    expect(await remove(Namespace, namespace, { server: many })).toMatchObject(
      refusal(`${words} ${label}=Cascading and active pods 10000>0`),
    );
    const going = Array.from({ length: 12_000 }, () => ({ phase: 'Running', deletionTimestamp: gone }));
    expect(await remove(Namespace, namespace, { server: lists([...going, { phase: 'Running' }], []) })).toMatchObject(
      refusal(`${words} ${label}=Cascading and active pods 1>0`),
    );
    expect(await remove(Namespace, namespace, { server: lists(going, []) })).toMatchObject({ allowed: true });
  });

  it('DP-9: takes smaller pages where objects are large', async () => {
    const server = lists(
      Array.from({ length: 20 }, () => ({ phase: 'Running' })),
      [],
      8,
    );
    expect(await remove(Namespace, namespace, { server })).toMatchObject(
      refusal(`${words} ${label}=Cascading and active pods 20>0`),
    );
    expect(server.calls.map(({ limit }) => limit)).toEqual([500, 63, 8, 8, 8]);
  });

  it('DP-9: a list that does not end refuses in time, by what has been found', async () => {
    const silent = (page: Page) => {
      const server = lists([], []);
      const list = (_: Resource, { continue: next, signal }: ListOptions = {}) =>
        next === undefined && page.items.length > 0
          ? Promise.resolve(page)
          : new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
      return { ...server, client: { ...server.client, list } as typeof server.client };
    };
    const item = { metadata: { name: 'x' } };
    const cut = { items: [item, item], resourceVersion: '1', continue: '2' };
    const ofNone = await remove(Namespace, namespace, { server: silent({ ...cut, items: [] }), readMs: 20 });
    expect(ofNone).toMatchObject(refusal(`${words} list pods error: no answer within 0.02 s`));
    const ofSome = await remove(Namespace, namespace, { server: silent(cut), readMs: 20 });
    expect(ofSome).toMatchObject(refusal(`${words} ${label}=Cascading and active pods 2>0`));
  });

  it('does nothing for a review that somebody has made up', async () => {
    const elsewhere = object(Namespace, 'Cascading', {}, { uid: 'another' });
    const unlabelled = object(Namespace, undefined);
    for (const stored of [[], [elsewhere], [unlabelled]]) {
      const server = apiServer(stored);
      const { allowed, status } = await remove(Namespace, namespace, { server });
      expect([allowed, status?.message]).toEqual([
        false,
        `${words} list pods error: the API server has no Namespace "web" with the UID and the label of the review`,
      ]);
      expect(server.calls).toEqual([]);
    }
  });
});

describe('deletion of a CustomResourceDefinition', () => {
  const definition = object(CustomResourceDefinition, 'Cascading', { spec: widgets });
  const gone = { deletionTimestamp: '2026-01-01T00:00:00Z' };

  it('DP-11: lists the storage version in all namespaces, live', async () => {
    const server = apiServer([definition], { widgets: [{}, {}, gone] });
    expect(await remove(CustomResourceDefinition, definition, { server })).toMatchObject(
      refusal(`${words} ${label}=Cascading and active CRs 2>0`),
    );
    expect(server.calls).toMatchObject([{ path: 'example.com/v2/widgets', metadataOnly: true, limit: 500 }]);
    expect(server.calls[0]).not.toHaveProperty('namespace');
    expect(server.calls[0]?.resourceVersion).toBeUndefined();
  });

  it('DP-11: lets it go when no object stays', async () => {
    for (const left of [[], [gone]]) {
      const server = apiServer([definition], { widgets: left });
      expect(await remove(CustomResourceDefinition, definition, { server })).toMatchObject({ allowed: true });
    }
  });

  it('DP-11: lists a version that is served where the one that is stored is not', async () => {
    const versions = [
      { name: 'v1', served: true, storage: false },
      { name: 'v2', served: false, storage: true },
    ];
    const old = object(CustomResourceDefinition, 'Cascading', { spec: { ...widgets, versions } });
    const server = apiServer([old], { widgets: [{}] });
    expect((await remove(CustomResourceDefinition, old, { server })).allowed).toBe(false);
    expect(server.calls).toMatchObject([{ path: 'example.com/v1/widgets' }]);
  });

  it('DP-11a: without the right to list, the refusal says so', async () => {
    const message = 'widgets.example.com is forbidden: User "windlass" cannot list resource "widgets"';
    const server = apiServer([definition], { widgets: new KubeError({ status: 403, reason: 'Forbidden', message }) });
    expect(await remove(CustomResourceDefinition, definition, { server })).toMatchObject(
      refusal(`failed to list CRs of example.com/v2, Kind=WidgetList: ${message}`),
    );
  });

  it('DP-11a: rights to list what others own are in manifests that are applied with their gates alone', () => {
    const granted = (gates: string) =>
      gateManifests(gates)
        .applied.filter(({ kind }) => String(kind).startsWith('ClusterRole'))
        .map(({ kind, metadata }) => `${String(kind)} ${String((metadata as JsonObject).name)}`);
    const right = (name: string) => [`ClusterRole ${name}`, `ClusterRoleBinding ${name}`];
    const contents = right('windlass-webhook-deletion-protection');
    expect(granted('')).toEqual([]);
    expect(granted(on)).toEqual(contents);
    expect(granted(both)).toEqual([...contents, ...right('windlass-webhook-crd-protection')]);
    const resize = [...right('windlass-watcher-resize'), ...right('windlass-webhook-storage-classes')];
    expect(granted('StatefulSetAutoResizePVCGate=true')).toEqual(resize);
    expect(granted('AllAlpha=true')).toEqual([...resize, ...right('windlass-webhook-serverless-probes')]);
    const byDefault = readFileSync('deploy/rbac/webhook.yaml', 'utf8');
    for (const listed of ['"*"', 'persistentvolumeclaims', 'podprobemarkers']) expect(byDefault).not.toContain(listed);
  });

  it('DP-12: with Cascading and without its gate it is always refused', async () => {
    expect(await remove(CustomResourceDefinition, definition, { gates: on })).toMatchObject(
      refusal('feature-gate DeletionProtectionForCRDCascadingGate is not enabled'),
    );
  });

  it('lists what the stored definition names, never what a review says', async () => {
    const forged = object(CustomResourceDefinition, 'Cascading', {
      spec: { ...widgets, group: '', names: { plural: 'secrets', kind: 'Secret' } },
    });
    const server = apiServer([definition], { widgets: [{}] });
    await remove(CustomResourceDefinition, forged, { server });
    expect(server.calls.map(({ path }) => path)).toEqual(['example.com/v2/widgets']);
  });
});

describe('the label where it does nothing', () => {
  const gate: FeatureGate = 'ResourcesDeletionProtection';

  it.each(allKinds)('lets $kind go with a warning while the gate is off', async (kind) => {
    for (const value of ['Always', 'Cascading']) {
      const { allowed, warnings } = await remove(kind, object(kind, value, { spec: { replicas: 3 } }), { gates: '' });
      const text = `metadata.labels[${label}]: "${value}" gives no protection from deletion: feature gate ${gate} is off`;
      expect([allowed, warnings]).toEqual([true, [text]]);
    }
    expect((await remove(kind, object(kind, undefined), { gates: '' })).warnings).toBeUndefined();
  });

  it('PodWebhook=false does not turn protection off', async () => {
    const gates = `${on},PodWebhook=false`;
    expect(await remove(Deployment, object(Deployment, 'Always'), { gates })).toMatchObject(always);
  });

  it.each(['always', 'cascading', 'true', ''])('warns that "%s" is no value', async (value) => {
    const { allowed, warnings } = await remove(Deployment, object(Deployment, value, { spec: { replicas: 3 } }));
    expect(allowed).toBe(true);
    expect(warnings).toEqual([
      `metadata.labels[${label}]: "${value}" gives no protection from deletion: only Always and Cascading do`,
    ]);
  });

  it.each([Service, Ingress])('warns that Cascading means nothing to $kind', async (kind) => {
    const { allowed, warnings } = await remove(kind, object(kind, 'Cascading'));
    expect(allowed).toBe(true);
    expect(warnings).toEqual([
      `metadata.labels[${label}]: "Cascading" gives no protection from deletion to kind ${kind.kind}: only Always does`,
    ]);
  });
});

describe('the kinds that can be protected', () => {
  it('have the names and paths that clients know', () => {
    expect(deletionOnlyKinds.map(({ webhook, path }) => [webhook, path])).toEqual([
      ['vnamespace.kb.io', '/validate-namespace'],
      ['vcustomresourcedefinition.kb.io', '/validate-customresourcedefinition'],
      ['vbuiltindeployment.kb.io', '/validate-apps-deployment'],
      ['vbuiltinstatefulset.kb.io', '/validate-apps-statefulset'],
      ['vbuiltinreplicaset.kb.io', '/validate-apps-replicaset'],
      ['vservice.kb.io', '/validate-service'],
      ['vingress.kb.io', '/validate-ingress'],
    ]);
  });
});
