import { describe, expect, it } from '@jest/globals';
import { applyPatch, type Operation } from 'rfc6902';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import type { JsonObject } from '../../api/json.ts';
import { type ChainStep, runChain } from '../../watcher/admission/chain.ts';
import { type PodSurroundings, podChain, reviewPod } from '../../watcher/admission/mutate/pod.ts';
import { admissionRoute } from '../../watcher/admission/review.ts';
import type { Answer } from '../../watcher/admission/server.ts';

const signal = new AbortController().signal;
const ours = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'u', controller: true };

function newPod(owners: readonly object[] = [], spec: object = {}): JsonObject {
  const ownerReferences = owners as JsonObject[];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { generateName: 'web-', ownerReferences, newerThanUs: 'stays' },
    spec: { containers: [{ name: 'app', image: 'busybox' }], ...spec },
  };
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

  it('FG-12: the readiness gate comes first, and what is said of probes last', () => {
    expect(podChain.map(({ name }) => name)).toEqual(['readiness gate', 'enhanced liveness', 'serverless probes']);
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

  it('FG-12: what is no pod is refused as undecodable, with the path', async () => {
    await expect(review({ kind: 'Pod' })).rejects.toThrow('request.object is no pod: it has no spec');
    await expect(review(newPod([], { readinessGates: 7 }))).rejects.toThrow('spec.readinessGates is not a list');
    await expect(review(newPod([7 as unknown as object]))).rejects.toThrow(
      'metadata.ownerReferences[0] is not an object',
    );
    await expect(review(newPod([{ ...ours, apiVersion: {} }]))).rejects.toThrow('ownerReferences[0].apiVersion');
  });
});
