import { Agent, request as httpsRequest } from 'node:https';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { applyPatch, type Operation } from 'rfc6902';
import { kubeResource } from '../../api/core/well-known.ts';
import { deletionOnlyKinds, protectedKinds } from '../../api/deletion-protection.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { podWebhook, webhooks } from '../../api/webhooks.ts';
import { cloneSetRules } from '../../webhook/cloneset.ts';
import { reviewRecreateRequest } from '../../webhook/container-recreate-request.ts';
import { conversions } from '../../webhook/conversions.ts';
import { conversionRoute } from '../../webhook/convert.ts';
import { reviewDeletion } from '../../webhook/deletion-protection.ts';
import { reviewPod } from '../../webhook/pod.ts';
import { dependantsIn } from '../../webhook/review/dependants.ts';
import { lookUpsIn } from '../../webhook/review/look-ups.ts';
import { admissionRoute } from '../../webhook/review/review.ts';
import { carryOut, certificatePolicy } from '../../webhook/server/certificates.ts';
import { type AdmissionServer, createAdmissionServer } from '../../webhook/server/server.ts';
import { bundleOf } from '../../webhook/server/x509.ts';
import { reviewWorkload, reviewWorkloadDefaults } from '../../webhook/workload.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';

// Valid reviews, then mutated: a field or a whole branch is replaced or removed. Each is rejected with a reason, or
// allowed and then harmless. Nothing makes the server crash or answer 5xx.

const recreateRequestPath = webhooks.ContainerRecreateRequest.mutating.path;
const cloneSetDefaultsPath = webhooks.CloneSet.mutating.path;
const cloneSetPath = webhooks.CloneSet.validating.path;
const podPath = podWebhook.path;

const status = (name: string) => ({ name, ready: true, restartCount: 1, containerID: `containerd://${name}` });
const pod = {
  metadata: { name: 'web-7', namespace: 'shop', uid: 'pod-uid-7' },
  spec: { nodeName: 'node-1', terminationGracePeriodSeconds: 7, containers: [{ name: 'app' }, { name: 'side' }] },
  status: { phase: 'Running', containerStatuses: [status('app'), status('side')] },
};
const recreateRequest = {
  apiVersion: 'apps.kruise.io/v1beta1',
  kind: 'ContainerRecreateRequest',
  metadata: { name: 'again', namespace: 'shop', labels: { mine: 'stays' }, annotations: { a: 'b' } },
  spec: {
    podName: 'web-7',
    containers: [{ name: 'app' }, { name: 'side' }],
    strategy: { failurePolicy: 'Ignore', orderedRecreate: true, unreadyGracePeriodSeconds: 3, minStartedSeconds: 1 },
    activeDeadlineSeconds: 600,
    ttlSecondsAfterFinished: 60,
  },
  status: { phase: '', conditions: [] },
};
const newPod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    generateName: 'web-',
    ownerReferences: [
      { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'u', controller: true },
    ],
  },
  spec: { containers: [{ name: 'app' }], readinessGates: [{ conditionType: 'Mine' }] },
};

const cloneSet = {
  apiVersion: 'apps.kruise.io/v1beta1',
  kind: 'CloneSet',
  metadata: { name: 'web', namespace: 'shop', uid: 'set-uid', labels: { mine: 'stays' } },
  spec: {
    replicas: 3,
    selector: { matchLabels: { app: 'web' }, matchExpressions: [{ key: 'app', operator: 'In', values: ['web'] }] },
    template: {
      metadata: { labels: { app: 'web' } },
      spec: { containers: [{ name: 'app', image: 'app:1', resources: { limits: { cpu: '0.1' } } }] },
    },
    volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: { resources: { requests: { storage: '1Gi' } } } }],
    scaleStrategy: { podsToDelete: ['web-7'] },
    updateStrategy: {
      type: 'RollingUpdate',
      rollingUpdate: {
        podUpdatePolicy: 'InPlaceIfPossible',
        partition: '20%',
        priorityStrategy: { weightPriority: [{ weight: 1, matchSelector: { matchLabels: { a: 'b' } } }] },
        scatterStrategy: [{ key: 'a', value: 'b' }],
        inPlaceUpdateStrategy: { gracePeriodSeconds: 3 },
      },
    },
    lifecycle: { preDelete: { finalizersHandler: ['shop/drain'] } },
  },
};
const cloneSetAlpha = {
  ...cloneSet,
  apiVersion: 'apps.kruise.io/v1alpha1',
  spec: { ...cloneSet.spec, updateStrategy: { type: 'InPlaceOnly', maxSurge: 0 } },
};

function reviewOf(object: object, operation: string): object {
  const request = {
    uid: 'review-1',
    kind: { group: 'apps.kruise.io', version: 'v1beta1', kind: 'ContainerRecreateRequest' },
    operation,
    namespace: 'shop',
    name: 'again',
    dryRun: false,
    object,
    oldObject: operation === 'UPDATE' ? object : null,
  };
  return { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request };
}

const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget', listKind: 'WidgetList' },
    versions: [{ name: 'v1', served: true, storage: true }],
  },
};

/** The deletion of a protected object that the API server has. */
function deletionOf(
  { apiVersion, kind }: { readonly apiVersion: string; readonly kind: string },
  rest: object,
): object {
  const labels = { 'policy.kruise.io/delete-protection': 'Cascading' };
  const oldObject = { apiVersion, kind, metadata: { name: 'web', uid: 'uid-web', labels }, ...rest };
  const review = reviewOf(oldObject, 'CREATE') as { readonly request: object };
  return { ...review, request: { ...review.request, operation: 'DELETE', object: null, oldObject } };
}

const conversion = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'ConversionReview',
  request: {
    uid: 'review-1',
    desiredAPIVersion: 'apps.kruise.io/v1alpha1',
    objects: [recreateRequest, recreateRequest],
  },
};

const alpha = { ...recreateRequest, apiVersion: 'apps.kruise.io/v1alpha1' };
const originals: readonly (readonly [path: string, body: object])[] = [
  [recreateRequestPath, reviewOf(recreateRequest, 'CREATE')],
  [recreateRequestPath, reviewOf(alpha, 'CREATE')],
  [recreateRequestPath, reviewOf(recreateRequest, 'UPDATE')],
  [recreateRequestPath, { ...reviewOf(alpha, 'CREATE'), apiVersion: 'admission.k8s.io/v1beta1' }],
  [podPath, reviewOf(newPod, 'CREATE')],
  [cloneSetDefaultsPath, reviewOf(cloneSet, 'CREATE')],
  [cloneSetDefaultsPath, reviewOf(cloneSetAlpha, 'UPDATE')],
  [cloneSetPath, reviewOf(cloneSet, 'CREATE')],
  [cloneSetPath, reviewOf(cloneSetAlpha, 'UPDATE')],
  [protectedKinds.Namespace.path, deletionOf({ apiVersion: 'v1', kind: 'Namespace' }, {})],
  [protectedKinds.CustomResourceDefinition.path, deletionOf(definition, { spec: definition.spec })],
  [
    protectedKinds.Deployment.path,
    deletionOf({ apiVersion: 'apps/v1', kind: 'Deployment' }, { spec: { replicas: 3 } }),
  ],
  ['/convert', conversion],
  ['/convert', { ...conversion, request: { ...conversion.request, objects: [cloneSet, cloneSetAlpha] } }],
];

type Path = readonly (string | number)[];

function pathsIn(value: unknown, path: Path = []): readonly Path[] {
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, inner]) => pathsIn(inner, [...path, key]))];
}

/** A copy with another value at this path; undefined removes the path. */
function bent(value: unknown, [key, ...rest]: Path, other: unknown): unknown {
  if (key === undefined || typeof value !== 'object' || value === null) return other;
  if (Array.isArray(value))
    return value.map((item, index) => (String(index) === String(key) ? bent(item, rest, other) : item));
  const inner = bent((value as Record<string, unknown>)[key], rest, other);
  return Object.fromEntries(Object.entries({ ...value, [key]: inner }));
}

const oddValues = fc.oneof(
  fc.constant(undefined),
  fc.constant(null),
  fc.constantFrom(
    0,
    -1,
    2,
    3,
    1.5,
    1e300,
    2 ** 53,
    true,
    false,
    '',
    'app',
    'web-7',
    'x'.repeat(5_000),
    '\u0000',
    '__proto__',
  ),
  fc.constantFrom(
    [],
    {},
    [null],
    [[]],
    { name: {} },
    [{ name: 'app' }, { name: 'app' }],
    { labels: 7 },
    { deletionTimestamp: 1 },
  ),
  fc.constant(JSON.parse('{"__proto__": {"polluted": true}, "constructor": {"prototype": 1}}')),
  fc.jsonValue({ maxDepth: 4 }),
);

const bentReview = fc.constantFrom(...originals).chain(([path, body]) =>
  fc.array(fc.tuple(fc.constantFrom(...pathsIn(body)), oddValues), { minLength: 0, maxLength: 3 }).map((bends) => ({
    path,
    text: JSON.stringify(bends.reduce((value, [where, other]) => bent(value, where, other), body as unknown)) ?? '',
  })),
);

const anyBody = fc.record({
  path: fc.constantFrom(recreateRequestPath, podPath, cloneSetDefaultsPath, cloneSetPath, '/convert', '/elsewhere'),
  text: fc.oneof(
    fc.json(),
    fc.string(),
    fc.constantFrom('[', '{"a":', '['.repeat(200_000), `${'{"a":'.repeat(50_000)}1`),
  ),
});

let server: AdmissionServer;
let agent: Agent;
let port: number;

beforeAll(async () => {
  const cluster = new MemoryCluster();
  cluster.put(kubeResource.pods, pod);
  cluster.put(kubeResource.nodes, { metadata: { name: 'node-1' } });
  const labels = { 'policy.kruise.io/delete-protection': 'Cascading' };
  cluster.put(kubeResource.namespaces, { metadata: { name: 'web', uid: 'uid-web', labels } });
  cluster.put(kubeResource.customResourceDefinitions, {
    ...definition,
    metadata: { name: 'web', uid: 'uid-web', labels },
  });
  const gates = parseFeatureGates('ResourcesDeletionProtection=true,DeletionProtectionForCRDCascadingGate=true');
  const protection = { gates, dependants: dependantsIn(cluster.client()) };
  const policy = certificatePolicy({ hosts: ['localhost'], lifetimeSeconds: 3600, renewBeforeSeconds: 60 });
  const kept = await carryOut({ kind: 'startAnew', because: 'test' }, undefined, policy, Date.now());
  const certificate = { certificate: bundleOf([kept.certificate]), key: kept.key };
  const routes = {
    [recreateRequestPath]: admissionRoute(
      reviewRecreateRequest(gates, lookUpsIn(cluster.client()), {
        knowsCaller: true,
        suiteNamespace: 'kruise-system',
      }),
      {
        whenFailed: 'refuse',
      },
    ),
    [podPath]: admissionRoute(reviewPod(gates), { whenFailed: 'leaveToFailurePolicy' }),
    [cloneSetDefaultsPath]: admissionRoute(reviewWorkloadDefaults(cloneSetRules, gates), { whenFailed: 'refuse' }),
    [cloneSetPath]: admissionRoute(
      reviewWorkload(cloneSetRules, {
        gates,
        lookUps: lookUpsIn(cluster.client()),
        trials: { tryPod: () => Promise.resolve({ kind: 'accepted' }) },
        deletion: reviewDeletion(protectedKinds.CloneSet, protection),
      }),
      { whenFailed: 'refuse' },
    ),
    ...Object.fromEntries(
      deletionOnlyKinds.map((kind) => [
        kind.path,
        admissionRoute(reviewDeletion(kind, protection), { whenFailed: 'refuse' }),
      ]),
    ),
    '/convert': conversionRoute(conversions),
  };
  const log = { debug: () => undefined, warn: () => undefined, error: () => undefined };
  server = createAdmissionServer(certificate, { routes, log });
  ({ port } = await server.listen({ host: '127.0.0.1', port: 0 }));
  agent = new Agent({ keepAlive: true, maxSockets: 8, ca: bundleOf(kept.authorities), servername: 'localhost' });
});

afterAll(async () => {
  agent.destroy();
  await server.close(AbortSignal.abort());
});

function post(path: string, text: string): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json' };
    const request = httpsRequest({ host: '127.0.0.1', port, path, method: 'POST', agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => void chunks.push(chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
    });
    request.on('error', reject);
    request.end(text);
  });
}

interface Response {
  readonly uid: string;
  readonly allowed?: boolean;
  readonly patch?: string;
  readonly status?: { readonly code: number; readonly message: string };
  readonly result?: { readonly status: string; readonly message?: string };
}

async function check(path: string, text: string): Promise<void> {
  const reply = await post(path, text);
  const body = JSON.parse(reply.text) as { readonly response?: Response; readonly message?: string };
  if (reply.status !== 200) {
    expect([400, 404]).toContain(reply.status);
    expect(body.message).not.toBe('');
    return;
  }
  const { request } = JSON.parse(text) as { request: { uid: string; operation?: string; object?: object } };
  expect(body.response?.uid).toBe(request.uid);
  if (path === '/convert') {
    expect(['Success', 'Failure']).toContain(body.response?.result?.status);
    return;
  }
  if (body.response?.allowed === false) {
    expect([400, 403, 422]).toContain(body.response.status?.code);
    expect(body.response.status?.message).not.toBe('');
    return;
  }
  expect(body.response?.allowed).toBe(true);
  const patch = JSON.parse(Buffer.from(body.response?.patch ?? 'W10=', 'base64').toString()) as Operation[];
  const after = structuredClone(request.object) as unknown as typeof recreateRequest;
  expect(applyPatch(after, patch).filter((failure) => failure !== null)).toEqual([]);
  if (path !== recreateRequestPath || request.operation !== 'CREATE') return;
  // An accepted request can be carried out: it knows its pod, its node and each container at its creation.
  expect(after.spec.podName).toBe('web-7');
  expect(['Fail', 'Ignore']).toContain(after.spec.strategy.failurePolicy);
  expect(after.metadata.labels).toMatchObject({
    'crr.apps.kruise.io/active': 'true',
    'crr.apps.kruise.io/pod-uid': 'pod-uid-7',
    'crr.apps.kruise.io/node-name': 'node-1',
  });
  for (const { name, ...rest } of after.spec.containers) {
    expect(rest).toMatchObject({ statusContext: { containerID: `containerd://${name}`, restartCount: 1 } });
  }
}

describe('admission under malformed input', () => {
  it('rejects 2,000 mutated reviews with a reason, or admits them complete', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(bentReview, { minLength: 40, maxLength: 40 }), async (reviews) => {
        await Promise.all(reviews.map(({ path, text }) => check(path, text)));
      }),
      { numRuns: 50 },
    );
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it('answers bodies of any kind, however deep, and goes on', async () => {
    await fc.assert(
      fc.asyncProperty(anyBody, ({ path, text }) => check(path, text)),
      { numRuns: 200 },
    );
    const deep = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`;
    const review = JSON.stringify(reviewOf(recreateRequest, 'CREATE')).replace('"mine":"stays"', `"mine":${deep}`);
    expect([200, 400]).toContain((await post(recreateRequestPath, review)).status);
    await check(recreateRequestPath, JSON.stringify(reviewOf(recreateRequest, 'CREATE')));
  });
});
