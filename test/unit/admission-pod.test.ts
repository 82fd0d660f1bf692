import { describe, expect, it } from '@jest/globals';
import { applyPatch, type Operation } from 'rfc6902';
import type { JsonObject } from '../../api/base/json.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type PodSurroundings, podChain, reviewPod } from '../../webhook/pod.ts';
import { type ChainStep, runChain } from '../../webhook/review/chain.ts';
import { admissionRoute } from '../../webhook/review/review.ts';
import type { Answer } from '../../webhook/server/server.ts';
import { podDraft } from '../support/objects/pod.ts';

const signal = new AbortController().signal;
const ours = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'u', controller: true };

function newPod(owners: readonly object[] = [], spec: object = {}): JsonObject {
  const ownerReferences = owners as JsonObject[];
  const metadata = { generateName: 'web-', ownerReferences, newerThanUs: 'stays' };
  return podDraft({ metadata, spec: { containers: [{ name: 'app', image: 'busybox' }], ...spec } });
}

interface Given {
  readonly gates?: string;
  readonly operation?: string;
  readonly steps?: readonly ChainStep<PodSurroundings>[];
}

async function review(
  object: unknown,
  { gates = '', operation = 'CREATE', steps = podChain }: Given = {},
): Promise<Answer> {
  const route = admissionRoute(reviewPod(parseFeatureGates(gates), steps), { whenFailed: 'leaveToFailurePolicy' });
  const request = { uid: 'r', operation, namespace: 'shop', kind: { group: '', kind: 'Pod' }, object };
  return await route({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request }, signal);
}

async function created(pod: JsonObject, given: Given = {}): Promise<JsonObject> {
  const { body } = (await review(pod, given)) as unknown as {
    body: { response: { allowed: boolean; patch?: string } };
  };
  expect(body.response.allowed).toBe(true);
  const result = structuredClone(pod);
  if (body.response.patch === undefined) return result;
  applyPatch(result, JSON.parse(Buffer.from(body.response.patch, 'base64').toString()) as Operation[]);
  return result;
}

function gatesOf(pod: JsonObject): unknown {
  return (pod.spec as { readonly readinessGates?: unknown }).readinessGates;
}

describe('admission of a pod', () => {
  it('PRG-1: appends the readiness gate to a pod that a workload of the suite controls', async () => {
    const pod = newPod([{ apiVersion: 'v1', kind: 'X', name: 'x', uid: 'x' }, ours], {
      readinessGates: [{ conditionType: 'Mine' }],
    });
    const after = await created(pod);
    expect(gatesOf(after)).toEqual([{ conditionType: 'Mine' }, { conditionType: 'KruisePodReady' }]);
    expect({ ...after, spec: null }).toEqual({ ...pod, spec: null });
  });

  it.each([
    ['has no owner', newPod()],
    ['has an owner of the suite that does not control it', newPod([{ ...ours, controller: false }])],
    ['is controlled by somebody else', newPod([{ ...ours, apiVersion: 'apps/v1' }])],
    [
      'is controlled by a group that only begins alike',
      newPod([{ ...ours, apiVersion: 'apps.kruise.io.example.com/v1' }]),
    ],
    ['has the gate already', newPod([ours], { readinessGates: [{ conditionType: 'KruisePodReady' }] })],
  ])('PRG-1: leaves a pod alone that %s', async (_what, pod) => {
    expect(await created(pod)).toEqual(pod);
  });

  it('PRG-1: with gate KruisePodReadinessGate every new pod gets it', async () => {
    expect(gatesOf(await created(newPod(), { gates: 'KruisePodReadinessGate=true' }))).toEqual([
      { conditionType: 'KruisePodReady' },
    ]);
  });

  it('FG-11: with gate PodWebhook off pods pass as they are', async () => {
    expect(await created(newPod([ours]), { gates: 'PodWebhook=false,KruisePodReadinessGate=true' })).toEqual(
      newPod([ours]),
    );
  });

  it('looks at new pods only', async () => {
    expect(await created(newPod([ours]), { operation: 'UPDATE' })).toEqual(newPod([ours]));
  });

  it('FG-12, CLP-1, SCS-34: the readiness gate comes first, then sidecars, then the order of containers, and what is said of probes last', () => {
    const names = ['readiness gate', 'sidecars', 'container launch priority', 'enhanced liveness', 'serverless probes'];
    expect(podChain.map(({ name }) => name)).toEqual(names);
  });

  it('FG-12: each step sees what the one before has made', async () => {
    const add = (name: string): ChainStep<undefined> => ({
      name,
      change: (object) => ({ ...object, seen: [...((object.seen as string[] | undefined) ?? []), name] }),
    });
    expect(await runChain([add('a'), add('b'), add('c')], {}, undefined)).toEqual({ seen: ['a', 'b', 'c'] });
  });

  it('FG-12: a step that fails ends the chain with status 500, which failurePolicy then judges', async () => {
    const steps: readonly ChainStep<PodSurroundings>[] = [
      ...podChain,
      {
        name: 'sidecars',
        change: () => {
          throw new Error('no such template');
        },
      },
    ];
    const { status, outcome, body } = await review(newPod([ours]), { steps });
    expect([status, outcome]).toEqual([500, 'failed']);
    expect(body).toMatchObject({ kind: 'Status', message: 'Cannot apply sidecars: no such template' });
  });

  it('leaves static pods alone, which run what is in a file of their node', async () => {
    const pod = {
      metadata: { name: 'dns-node-1', annotations: { 'kubernetes.io/config.mirror': 'ab12' } },
      spec: { containers: [] },
    };
    expect(await created(pod, { gates: 'KruisePodReadinessGate=true' })).toEqual(pod);
  });

  it('refuses annotations of more than 256 KiB, as the API server does, before any step copies them', async () => {
    const steps = [{ name: 'never', change: () => Promise.reject(new Error('must not run')) }];
    const annotated = (bytes: number) => ({
      metadata: { annotations: { 'example.org/é': 'x'.repeat(bytes - 14) } },
      spec: {},
    });
    const { body, outcome } = await review(annotated(262_145), { steps });
    expect(outcome).toBe('refused');
    expect(body).toMatchObject({
      response: { allowed: false, status: { code: 422, details: { causes: [{ field: 'metadata.annotations' }] } } },
    });
    expect((await review(annotated(262_144))).outcome).toBe('allowed');
  });

  it('FG-12: what is no pod is refused as undecodable, with the path', async () => {
    await expect(review({ kind: 'Pod' })).rejects.toThrow('request.object is not a pod: it has no spec');
    await expect(review(newPod([], { readinessGates: 7 }))).rejects.toThrow('spec.readinessGates is not a list');
    await expect(review(newPod([7 as unknown as object]))).rejects.toThrow(
      'metadata.ownerReferences[0] is not an object',
    );
    await expect(review(newPod([{ ...ours, apiVersion: {} }]))).rejects.toThrow('ownerReferences[0].apiVersion');
  });
});

describe('admission of a pod that asks for an order', () => {
  const ordered = { 'apps.kruise.io/container-launch-priority': 'Ordered' };
  const priority = (value: string) => ({ name: 'KRUISE_CONTAINER_PRIORITY', value });

  function pod(containers: readonly object[], metadata: object = { name: 'web' }): JsonObject {
    return podDraft({ metadata, spec: { containers } });
  }

  function barriersOf(made: JsonObject): readonly unknown[] {
    const { containers } = made.spec as { containers: { env?: { name: string; valueFrom?: object }[] }[] };
    return containers.map(({ env = [] }) => env.filter(({ name }) => name === 'KRUISE_CONTAINER_BARRIER'));
  }

  const barrier = (key: string, name = 'web-barrier') => [
    { name: 'KRUISE_CONTAINER_BARRIER', valueFrom: { configMapKeyRef: { name, key } } },
  ];

  it('CLP-5: holds every container, also those without a priority, by a variable at the end of its list', async () => {
    const mine = { name: 'MINE', value: 'x' };
    const before = pod([
      { name: 'app' },
      { name: 'db', image: 'i', env: [priority('5'), mine] },
      { name: 'log', env: [priority('-1')] },
    ]);
    const after = await created(before);
    expect(barriersOf(after)).toEqual([barrier('p_0'), barrier('p_5'), barrier('p_-1')]);
    const { containers } = after.spec as { containers: readonly object[] };
    expect(containers[1]).toEqual({ name: 'db', image: 'i', env: [priority('5'), mine, ...barrier('p_5')] });
    expect(after.metadata).toEqual({ name: 'web' });
  });

  it('CLP-3: Ordered holds them in the order of the list', async () => {
    const after = await created(
      pod([{ name: 'a' }, { name: 'b' }, { name: 'c' }], { name: 'web', annotations: ordered }),
    );
    expect(barriersOf(after)).toEqual([barrier('p_0'), barrier('p_-1'), barrier('p_-2')]);
  });

  it.each([
    ['has one container', pod([{ name: 'a', env: [priority('5')] }], { name: 'web', annotations: ordered })],
    [
      'has equal priorities',
      pod([
        { name: 'a', env: [priority('5')] },
        { name: 'b', env: [priority('5')] },
      ]),
    ],
    ['asks for nothing', pod([{ name: 'a' }, { name: 'b' }])],
    ['has neither a name nor the beginning of one', pod([{ name: 'a' }, { name: 'b' }], { annotations: ordered })],
  ])('CLP-2, CLP-4: leaves a pod alone that %s', async (_what, alone) => {
    expect(await created(alone)).toEqual(alone);
  });

  it('CLP-6: gives a pod with a generated name its name, with room for five characters', async () => {
    const generateName = `${'x'.repeat(60)}-`;
    const after = await created(pod([{ name: 'a' }, { name: 'b' }], { generateName, annotations: ordered }));
    const { name } = after.metadata as { name: string };
    expect(name).toMatch(/^x{58}[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    expect(barriersOf(after)[0]).toEqual(barrier('p_0', `${name}-barrier`));
    const another = await created(pod([{ name: 'a' }, { name: 'b' }], { generateName, annotations: ordered }));
    expect((another.metadata as { name: string }).name).not.toBe(name);
  });

  it('CLP-7: leaves init containers alone, native sidecars among them', async () => {
    const initContainers = [{ name: 'first' }, { name: 'proxy', restartPolicy: 'Always', env: [priority('9')] }];
    const before = pod([{ name: 'a' }, { name: 'b' }], { name: 'web', annotations: ordered });
    const after = await created({ ...before, spec: { ...(before.spec as object), initContainers } });
    expect((after.spec as JsonObject).initContainers).toEqual(initContainers);
  });

  it('replaces holds that came along, which nobody would ever lift', async () => {
    const copied = {
      name: 'a',
      env: [...barrier('p_7', 'other-barrier'), { name: 'KRUISE_CONTAINER_BARRIER', value: '1' }],
    };
    const after = await created(pod([copied, { name: 'b' }], { name: 'web', annotations: ordered }));
    expect(barriersOf(after)).toEqual([barrier('p_0'), barrier('p_-1')]);
    expect(await created(after)).toEqual(after);
  });

  it('refuses what cannot be read as invalid, and names each field', async () => {
    const bad = pod([
      { name: 'a', env: [priority('high')] },
      { name: 'b', env: [{ ...priority(''), valueFrom: {} }] },
    ]);
    const { body, outcome } = await review(bad);
    expect(outcome).toBe('refused');
    expect(body).toMatchObject({
      response: {
        allowed: false,
        status: {
          code: 422,
          message: expect.stringContaining('KRUISE_CONTAINER_PRIORITY must be an integer, not "high"'),
          details: {
            causes: [{ field: 'spec.containers[0].env[0].value' }, { field: 'spec.containers[1].env[0].value' }],
          },
        },
      },
    });
  });

  it('refuses more containers in an order than a barrier has keys', async () => {
    const many = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `c${index}` }));
    const metadata = { name: 'web', annotations: ordered };
    expect(barriersOf(await created(pod(many(1_000), metadata)))).toHaveLength(1_000);
    const { body } = await review(pod(many(1_001), metadata));
    expect(body).toMatchObject({
      response: { allowed: false, status: { code: 422, details: { causes: [{ field: 'spec.containers' }] } } },
    });
    expect(await created(pod(many(1_001), { name: 'web' }))).toMatchObject({ metadata: { name: 'web' } });
  });

  it('refuses a name that leaves no room for that of the ConfigMap', async () => {
    const { body } = await review(pod([{ name: 'a' }, { name: 'b' }], { name: 'x'.repeat(246), annotations: ordered }));
    expect(body).toMatchObject({
      response: { allowed: false, status: { details: { causes: [{ field: 'metadata.name' }] } } },
    });
  });
});
