import { describe, expect, it } from '@jest/globals';
import { applyPatch, type Operation } from 'rfc6902';
import { kubeResource } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { KubeError } from '../../kube/failures.ts';
import { reviewRecreateRequest } from '../../webhook/container-recreate-request.ts';
import { type LookUps, lookUpsIn } from '../../webhook/review/look-ups.ts';
import { admissionRoute } from '../../webhook/review/review.ts';
import { type Answer, MalformedBody } from '../../webhook/server/server.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { recreateRequestDraft } from '../support/objects/recreate-request.ts';

const noSignal = new AbortController().signal;

const pod = {
  metadata: { name: 'web-7', namespace: 'shop', uid: 'pod-uid-7' },
  spec: {
    nodeName: 'node-1',
    terminationGracePeriodSeconds: 7,
    containers: [
      {
        name: 'app',
        ports: [{ name: 'http', containerPort: 80 }],
        lifecycle: { preStop: { httpGet: { port: 'http', path: '/bye' } } },
      },
      { name: 'side' },
    ],
    initContainers: [{ name: 'init' }],
  },
  status: {
    phase: 'Running',
    containerStatuses: [
      { name: 'app', ready: true, restartCount: 3, containerID: 'containerd://a' },
      { name: 'side', ready: true, restartCount: 0, containerID: 'containerd://b' },
    ],
  },
};

function cluster(): MemoryCluster {
  const made = new MemoryCluster();
  made.put(kubeResource.pods, pod);
  made.put(kubeResource.nodes, { metadata: { name: 'node-1' } });
  return made;
}

function draft(version: string, spec: object = {}, metadata: object = {}): object {
  const containers = [{ name: 'app' }, { name: 'side' }];
  return recreateRequestDraft({ version, metadata, spec: { podName: 'web-7', containers, ...spec } });
}

interface Reviewed {
  readonly apiVersion: string;
  readonly response: {
    readonly uid: string;
    readonly allowed: boolean;
    readonly patch?: string;
    readonly patchType?: string;
    readonly status?: {
      readonly code: number;
      readonly reason: string;
      readonly message: string;
      readonly details: { readonly causes: readonly { readonly field: string; readonly message: string }[] };
    };
  };
}

interface Given {
  readonly operation?: string;
  readonly object?: unknown;
  readonly oldObject?: unknown;
  readonly gates?: string;
  readonly lookUps?: LookUps;
  readonly apiVersion?: string;
  readonly signal?: AbortSignal;
  readonly dryRun?: boolean;
  /** Absent: with --client-ca. */
  readonly knowsCaller?: boolean;
  readonly user?: string;
}

async function review(given: Given): Promise<Answer & { readonly body: Reviewed }> {
  const lookUps = given.lookUps ?? lookUpsIn(cluster().client());
  const gates = parseFeatureGates(given.gates);
  const trust = { knowsCaller: given.knowsCaller ?? true, suiteNamespace: 'kruise-system' };
  const route = admissionRoute(reviewRecreateRequest(gates, lookUps, trust), { whenFailed: 'refuse' });
  const body = {
    apiVersion: given.apiVersion ?? 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: 'review-1',
      kind: { group: 'apps.kruise.io', version: 'v1beta1', kind: 'ContainerRecreateRequest' },
      operation: given.operation ?? 'CREATE',
      namespace: 'shop',
      name: 'again',
      dryRun: given.dryRun ?? false,
      userInfo: { username: given.user ?? 'somebody' },
      object: given.object ?? null,
      oldObject: given.oldObject ?? null,
    },
  };
  return (await route(body, given.signal ?? noSignal)) as Answer & { readonly body: Reviewed };
}

async function created(object: object): Promise<Record<string, never>> {
  const { body } = await review({ object });
  expect(body.response).toMatchObject({ uid: 'review-1', allowed: true, patchType: 'JSONPatch' });
  const patch = JSON.parse(Buffer.from(body.response.patch ?? '', 'base64').toString()) as Operation[];
  const result = structuredClone(object);
  expect(applyPatch(result, patch).every((failure) => failure === null)).toBe(true);
  return result as Record<string, never>;
}

describe('admission of a ContainerRecreateRequest', () => {
  it.each(['v1alpha1', 'v1beta1'])('CRR-1, CRR-4, CRR-5, CRR-7: fills in a new request of %s', async (version) => {
    const filled = await created(
      draft(version, { strategy: { orderedRecreate: true } }, { labels: { mine: 'stays' } }),
    );
    expect(filled).toEqual({
      apiVersion: `apps.kruise.io/${version}`,
      kind: 'ContainerRecreateRequest',
      metadata: {
        name: 'again',
        namespace: 'shop',
        labels: {
          mine: 'stays',
          'crr.apps.kruise.io/active': 'true',
          'crr.apps.kruise.io/pod-uid': 'pod-uid-7',
          'crr.apps.kruise.io/node-name': 'node-1',
        },
      },
      spec: {
        podName: 'web-7',
        containers: [
          {
            name: 'app',
            preStop: { httpGet: { port: 'http', path: '/bye' } },
            ports: [{ name: 'http', containerPort: 80 }],
            statusContext: { containerID: 'containerd://a', restartCount: 3 },
          },
          { name: 'side', statusContext: { containerID: 'containerd://b', restartCount: 0 } },
        ],
        strategy: { orderedRecreate: true, failurePolicy: 'Fail', terminationGracePeriodSeconds: 7 },
      },
    });
  });

  it('H3: tells callers that it does not know nothing of a pod but its UID and its node', async () => {
    const object = draft('v1beta1', { strategy: {} });
    const { body } = await review({ object, knowsCaller: false });
    const patch = Buffer.from(body.response.patch ?? '', 'base64').toString();
    const result = structuredClone(object);
    applyPatch(result, JSON.parse(patch) as Operation[]);
    expect(result).toMatchObject({
      metadata: {
        labels: {
          'crr.apps.kruise.io/active': 'true',
          'crr.apps.kruise.io/pod-uid': 'pod-uid-7',
          'crr.apps.kruise.io/node-name': 'node-1',
        },
      },
      spec: { containers: [{ name: 'app' }, { name: 'side' }], strategy: { failurePolicy: 'Fail' } },
    });
    expect(patch).not.toMatch(/preStop|statusContext|ports|terminationGracePeriodSeconds|containerd/);

    const wrong = draft('v1beta1', { containers: [{ name: 'nobody' }] });
    expect((await review({ object: wrong, knowsCaller: false })).body.response.allowed).toBe(true);
    const gone = await review({ object: draft('v1beta1', { podName: 'none' }), knowsCaller: false });
    expect(gone.body.response.status).toMatchObject({ code: 400, message: 'spec.podName: pod "none" is not found' });
  });

  it('H3: lets the suite alone fill in a request that admission has not, once and nothing else', async () => {
    const given = draft('v1beta1', { strategy: { failurePolicy: 'Fail' } });
    const object = await created(given);
    const { metadata } = object as unknown as { metadata: object };
    const oldObject = { ...given, metadata };
    const user = 'system:serviceaccount:kruise-system:windlass-watcher';
    const update = async (given: Given) =>
      (await review({ operation: 'UPDATE', oldObject, object, user, ...given })).body;
    expect((await update({})).response).toEqual({ uid: 'review-1', allowed: true });
    const { spec } = object as unknown as { spec: { containers: { statusContext?: object }[] } };
    const [first = {}, ...others] = spec.containers;
    const restarted = { ...first, statusContext: { containerID: 'containerd://z', restartCount: 9 } };
    const again = { ...(object as object), spec: { ...spec, containers: [restarted, ...others] } };
    for (const given of [
      { user: 'somebody', object },
      { user: 'system:serviceaccount:shop:windlass-watcher', object },
      { object: { ...(object as object), spec: { ...spec, podName: 'other' } } },
      { object: { ...(object as object), spec: { ...spec, activeDeadlineSeconds: 9 } } },
      { oldObject: object, object: again },
    ]) {
      expect((await update(given)).response.status?.code).toBe(403);
    }
  });

  it('answers v1beta1 reviews in v1beta1', async () => {
    const { body } = await review({ object: draft('v1beta1'), apiVersion: 'admission.k8s.io/v1beta1' });
    expect(body).toMatchObject({ apiVersion: 'admission.k8s.io/v1beta1', response: { allowed: true } });
  });

  it('says the same to a dry run', async () => {
    const [dry, real] = [
      await review({ object: draft('v1beta1'), dryRun: true }),
      await review({ object: draft('v1beta1') }),
    ];
    expect(dry).toEqual(real);
  });

  it.each([
    ['an unknown pod', { podName: 'none' }, 'spec.podName'],
    ['no pod', { podName: '' }, 'spec.podName'],
    ['an unknown container', { containers: [{ name: 'app' }, { name: 'none' }] }, 'spec.containers[1].name'],
    ['an init container', { containers: [{ name: 'init' }] }, 'spec.containers[0].name'],
    ['a container listed twice', { containers: [{ name: 'app' }, { name: 'app' }] }, 'spec.containers[1].name'],
    ['no containers', { containers: [] }, 'spec.containers'],
    ['fields of admission', { containers: [{ name: 'app', ports: [] }] }, 'spec.containers[0].ports'],
    ['a short deadline', { activeDeadlineSeconds: 2 }, 'spec.activeDeadlineSeconds'],
    [
      'a negative grace',
      { strategy: { terminationGracePeriodSeconds: -1 } },
      'spec.strategy.terminationGracePeriodSeconds',
    ],
    ['an unknown policy', { strategy: { failurePolicy: 'Maybe' } }, 'spec.strategy.failurePolicy'],
    ['a spec of another shape', { containers: 'app' }, 'spec.containers'],
  ])('CRR-6: refuses %s with 400 and the field', async (_what, spec, field) => {
    const { body, outcome } = await review({ object: draft('v1alpha1', spec) });
    expect(outcome).toBe('refused');
    expect(body.response.allowed).toBe(false);
    expect(body.response.status).toMatchObject({ code: 400, reason: 'BadRequest' });
    expect(body.response.status?.message).toContain(`${field}: `);
    expect(body.response.status?.details.causes.map((cause) => cause.field)).toContain(field);
  });

  it('names every problem at once', async () => {
    const spec = { podName: '', containers: [], activeDeadlineSeconds: 1 };
    const { body } = await review({ object: draft('v1alpha1', spec) });
    expect(body.response.status?.details.causes.map(({ field }) => field)).toEqual([
      'spec.podName',
      'spec.containers',
      'spec.activeDeadlineSeconds',
    ]);
  });

  it('CRR-3: refuses a pod whose node is gone', async () => {
    const without = cluster();
    without.remove(kubeResource.nodes, { name: 'node-1' });
    const { body } = await review({ object: draft('v1beta1'), lookUps: lookUpsIn(without.client()) });
    expect(body.response.status).toMatchObject({ code: 400 });
    expect(body.response.status?.message).toContain('node "node-1"');
  });

  it.each(['CREATE', 'UPDATE'])('FG-4: refuses every %s while gate KruiseDaemon is off', async (operation) => {
    const object = draft('v1beta1');
    const { body } = await review({ operation, object, oldObject: object, gates: 'KruiseDaemon=false' });
    expect(body.response.status).toMatchObject({
      code: 403,
      reason: 'Forbidden',
      message: 'feature-gate KruiseDaemon is not enabled',
    });
  });

  it('lets an object go that is being deleted, whatever gates and spec say', async () => {
    const oldObject = draft('v1beta1', {}, { deletionTimestamp: '2026-11-21T06:13:44Z', finalizers: ['a'] });
    const object = draft('v1beta1', { podName: 'other' }, { deletionTimestamp: '2026-11-21T06:13:44Z' });
    const { body } = await review({ operation: 'UPDATE', object, oldObject, gates: 'KruiseDaemon=false' });
    expect(body.response).toEqual({ uid: 'review-1', allowed: true });
  });

  it('allows updates of anything but spec and its own labels without looking anything up', async () => {
    const nobody: LookUps = {
      pod: () => Promise.reject(new Error('was asked')),
      node: () => Promise.reject(new Error('was asked')),
      revision: () => Promise.reject(new Error('was asked')),
      storageClass: () => Promise.reject(new Error('was asked')),
    };
    const oldObject = draft('v1beta1', {}, { labels: { 'crr.apps.kruise.io/active': 'true' }, finalizers: ['f'] });
    const object = { ...draft('v1beta1', {}, { annotations: { a: 'b' } }), status: { phase: 'Completed' } };
    const { body } = await review({ operation: 'UPDATE', object, oldObject, lookUps: nobody });
    expect(body.response).toEqual({ uid: 'review-1', allowed: true });
  });

  it('lets the same manifest be applied again, by a client that leaves out what admission has filled in', async () => {
    const oldObject = await created(draft('v1beta1'));
    const { spec } = oldObject as unknown as { spec: { containers: readonly object[] } };
    const object = { ...oldObject, spec: { ...spec, containers: [{ name: 'app' }, { name: 'side' }] } };
    const same = await review({ operation: 'UPDATE', object, oldObject });
    expect(same.body.response.allowed).toBe(true);
    const patch = JSON.parse(Buffer.from(same.body.response.patch ?? '', 'base64').toString()) as Operation[];
    const stored = structuredClone(object);
    applyPatch(stored, patch);
    expect(stored).toEqual(oldObject);

    const changed = { ...object, spec: { ...object.spec, activeDeadlineSeconds: 60 } };
    const { body } = await review({ operation: 'UPDATE', object: changed, oldObject });
    expect(body.response.status).toMatchObject({
      code: 403,
      message: 'spec.activeDeadlineSeconds: is immutable, as all of spec',
    });
    const others = { ...object, spec: { ...object.spec, containers: [{ name: 'side' }, { name: 'app' }] } };
    const order = await review({ operation: 'UPDATE', object: others, oldObject });
    expect(order.body.response.status?.message).toMatch(/^spec\.containers\[0\]/);
  });

  it.each([
    ['spec', draft('v1beta1', { podName: 'other' }), 'spec.podName'],
    ['pod-uid', draft('v1beta1', {}, { labels: { 'crr.apps.kruise.io/pod-uid': 'x' } }), 'crr.apps.kruise.io/pod-uid'],
    [
      'node-name',
      draft('v1beta1', {}, { labels: { 'crr.apps.kruise.io/node-name': 'x' } }),
      'crr.apps.kruise.io/node-name',
    ],
  ])('refuses an update of %s with 403 and the field', async (_what, object, field) => {
    const { body } = await review({ operation: 'UPDATE', object, oldObject: draft('v1beta1') });
    expect(body.response.status).toMatchObject({ code: 403, reason: 'Forbidden' });
    expect(body.response.status?.message).toContain(field);
  });

  it('answers 500 and says why when the API server cannot be asked', async () => {
    const client = {
      get: () => Promise.reject(new KubeError({ status: 503, message: 'etcd is away' })),
    } as unknown as Parameters<typeof lookUpsIn>[0];
    const { body, outcome } = await review({ object: draft('v1beta1'), lookUps: lookUpsIn(client) });
    expect(outcome).toBe('failed');
    expect(body.response.status).toMatchObject({
      code: 500,
      reason: 'InternalError',
      message: 'Cannot look up Pod "shop/web-7": etcd is away',
    });
  });

  it('does not take a missing kind or path for a missing pod', async () => {
    const client = {
      get: () => Promise.reject(new KubeError({ status: 404, message: '404 page not found' })),
    } as unknown as Parameters<typeof lookUpsIn>[0];
    const { body } = await review({ object: draft('v1beta1'), lookUps: lookUpsIn(client) });
    expect(body.response.status?.code).toBe(500);
  });

  it('asks once more when a connection turns out to be closed', async () => {
    const source = cluster().client();
    let calls = 0;
    const client = {
      get: (...args: Parameters<typeof source.get>) => {
        calls += 1;
        if (calls === 1) return Promise.reject(new KubeError({ status: 0, message: 'other side closed' }));
        return source.get(...args);
      },
    } as unknown as Parameters<typeof lookUpsIn>[0];
    const { body } = await review({ object: draft('v1beta1'), lookUps: lookUpsIn(client) });
    expect(body.response.allowed).toBe(true);
  });

  it('stops looking at the deadline, and says what it was looking for', async () => {
    const abort = new AbortController();
    const client = {
      get: (_resource: unknown, _ref: unknown, { signal }: { signal: AbortSignal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          abort.abort(new Error('no answer within 9500 ms'));
        }),
    } as unknown as Parameters<typeof lookUpsIn>[0];
    const { body } = await review({ object: draft('v1beta1'), lookUps: lookUpsIn(client), signal: abort.signal });
    expect(body.response.status).toMatchObject({
      code: 500,
      message: 'Cannot look up Pod "shop/web-7": no answer within 9500 ms',
    });
  });

  it('answers malformed reviews by saying what is missing', async () => {
    await expect(review({ operation: 'UPDATE', object: draft('v1beta1') })).rejects.toThrow(MalformedBody);
    await expect(review({ object: 'text' })).rejects.toThrow('request.object is not an object');
    await expect(review({ object: { apiVersion: 'v1', kind: 'Pod' } })).rejects.toThrow(MalformedBody);
    await expect(review({ operation: 'WATCH', object: draft('v1beta1') })).rejects.toThrow('request.operation');
  });
});
