import { describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { podUnavailableBudgets } from '../../api/pod-unavailable-budget/types.ts';
import { KubeError } from '../../kube/failures.ts';
import { reviewPodUnavailableBudget } from '../../webhook/pod-unavailable-budget.ts';
import { budgetLookUpsIn } from '../../webhook/review/budget-look-ups.ts';
import { type AdmissionRequest, admissionRoute } from '../../webhook/review/review.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';

const signal = new AbortController().signal;
const [alpha, beta] = ['policy.kruise.io/v1alpha1', 'policy.kruise.io/v1beta1'];
const selects = (app: string): JsonObject => ({ selector: { matchLabels: { app } } });
const target = (name: string): JsonObject => ({ targetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name } });

function pub(name: string, spec: JsonObject, { apiVersion = beta, ...metadata }: JsonObject = {}): JsonObject {
  return {
    ...{ apiVersion, kind: podUnavailableBudgets.kind },
    metadata: { namespace: 'shop', name, ...metadata },
    spec: { maxUnavailable: 1, ...spec },
  };
}

function request(
  operation: AdmissionRequest['operation'],
  object?: JsonObject,
  oldObject?: JsonObject,
): AdmissionRequest {
  return {
    ...{ uid: 'r', operation, kind: { group: 'policy.kruise.io', kind: 'PodUnavailableBudget' }, subResource: '' },
    ...{ namespace: 'shop', name: 'web', dryRun: false, fieldValidation: 'Warn', user: 'somebody' },
    ...(object && { object }),
    ...(oldObject && { oldObject }),
  };
}

function judgeIn(cluster: MemoryCluster, gates = '', client = cluster.client()) {
  const review = reviewPodUnavailableBudget({ gates: parseFeatureGates(gates), lookUps: budgetLookUpsIn(client) });
  return async (...given: Parameters<typeof request>) => await review(request(...given), signal);
}

function clusterWith(...budgets: readonly JsonObject[]): MemoryCluster {
  const cluster = new MemoryCluster();
  for (const budget of budgets)
    cluster.put(podUnavailableBudgets, budget as JsonObject & { metadata: { name: string } });
  return cluster;
}

describe('admission of a budget (PUB §6)', () => {
  const judge = judgeIn(clusterWith());
  const allowed = { kind: 'allowed' };

  it.each([alpha, beta])(
    'lets good ones in %s through as they are, and looks at neither deletions nor their end',
    async (apiVersion) => {
      const good = pub('web', selects('web'), { apiVersion });
      const leaving = pub('web', {}, { apiVersion, deletionTimestamp: '2026-01-01T00:00:00Z' });
      expect(await judge('CREATE', good)).toEqual(allowed);
      expect(await judge('UPDATE', good, good)).toEqual(allowed);
      expect(await judge('UPDATE', leaving, leaving)).toEqual(allowed);
      expect(await judge('DELETE', undefined, good)).toEqual(allowed);
    },
  );

  it.each([alpha, beta])('answers 400 with every problem of others in %s', async (apiVersion) => {
    const bad = pub('web', { ...target('web'), ...selects('web'), maxUnavailable: -1 }, { apiVersion });
    const fields = ['spec.selector, targetRef', 'spec.maxUnavailable'];
    const refused = { kind: 'refused', code: 400 };
    expect(await judge('CREATE', bad)).toMatchObject({ ...refused, errors: fields.map((field) => ({ field })) });
    const moved = pub('web', { ...selects('db'), maxUnavailable: -1 }, { apiVersion });
    const before = pub('web', selects('web'), { apiVersion });
    expect(await judge('UPDATE', moved, before)).toMatchObject({
      ...refused,
      errors: [{ detail: expect.stringContaining('selector and targetRef cannot be modified') }, { field: fields[1] }],
    });
  });

  it('refuses annotations of v1alpha1 that cannot be converted', async () => {
    const annotations = { 'kruise.io/pub-protect-operations': 'DELETE,RENAME' };
    const verdict = await judge('CREATE', pub('web', selects('web'), { apiVersion: alpha, annotations }));
    expect(verdict).toMatchObject({
      code: 400,
      errors: [{ detail: expect.stringContaining('failed to convert v1alpha1 PUB to v1beta1: ') }],
    });
  });

  it('answers 400 for every budget while both gates are off, but not on its way out', async () => {
    const off = judgeIn(clusterWith(), 'PodUnavailableBudgetDeleteGate=false');
    const good = pub('web', selects('web'));
    const refused = {
      kind: 'refused',
      code: 400,
      message: expect.stringMatching(/^feature PodUnavailableBudget is inv/),
    };
    expect(await off('CREATE', good)).toMatchObject(refused);
    expect(await off('UPDATE', good, good)).toMatchObject(refused);
    const leaving = pub('web', selects('web'), { deletionTimestamp: '2026-01-01T00:00:00Z' });
    expect(await off('UPDATE', leaving, leaving)).toEqual(allowed);
    const one = 'PodUnavailableBudgetDeleteGate=false,PodUnavailableBudgetUpdateGate=true';
    expect(await judgeIn(clusterWith(), one)('CREATE', good)).toEqual(allowed);
  });

  it('does not read other objects, nor an update without its object', async () => {
    await expect(judge('CREATE', { ...pub('web', selects('web')), apiVersion: 'policy/v1' })).rejects.toThrow(
      'is not a',
    );
    await expect(judge('CREATE', { apiVersion: beta, spec: selects('web') })).rejects.toThrow('is not a');
    await expect(judge('UPDATE', pub('web', selects('web')))).rejects.toThrow('oldObject');
  });
});

describe('a new budget beside the others', () => {
  const elsewhere = pub('other', selects('web'), { namespace: 'bar' });

  it.each([alpha, beta])(
    'is refused in %s when it has the target of another one, or overlaps with its selector',
    async (apiVersion) => {
      const judge = judgeIn(clusterWith(pub('a', selects('web')), pub('b', target('web'))));
      const errors = async (spec: JsonObject) => await judge('CREATE', pub('c', spec, { apiVersion }));
      expect(await errors(selects('web'))).toMatchObject({ code: 400, errors: [{ field: 'spec.selector' }] });
      expect(await errors(target('web'))).toMatchObject({ code: 400, errors: [{ field: 'spec.targetReference' }] });
      expect(await errors(selects('db'))).toEqual({ kind: 'allowed' });
    },
  );

  it('has nothing to do with those of other namespaces, with itself, or when it changes', async () => {
    const cluster = clusterWith(elsewhere, pub('web', selects('web')));
    const same = pub('web', selects('web'));
    expect(await judgeIn(cluster)('CREATE', same)).toEqual({ kind: 'allowed' });
    expect(cluster.calls).toHaveLength(1);
    cluster.put(podUnavailableBudgets, pub('second', selects('web')) as JsonObject & { metadata: { name: string } });
    expect(await judgeIn(cluster)('UPDATE', same, same)).toEqual({ kind: 'allowed' });
    expect(await judgeIn(cluster)('CREATE', { ...same, spec: {} })).toMatchObject({ code: 400 });
    expect(cluster.calls).toHaveLength(1);
  });

  it('is compared page by page, up to the first conflict', async () => {
    const many = Array.from({ length: 250 }, (_, index) =>
      pub(`b${String(index).padStart(3, '0')}`, selects(`app-${index}`)),
    );
    const cluster = clusterWith(elsewhere, ...many);
    expect(await judgeIn(cluster)('CREATE', pub('web', selects('app-249')))).toMatchObject({ code: 400 });
    expect(cluster.calls).toHaveLength(3);
    expect(await judgeIn(cluster)('CREATE', pub('web', selects('app-1')))).toMatchObject({ code: 400 });
    expect(cluster.calls).toHaveLength(4);
  });

  it('is answered by 500 when they cannot be read', async () => {
    const client = clusterWith().client(() => {
      throw new KubeError({ status: 403, message: 'no right' });
    });
    const review = reviewPodUnavailableBudget({ gates: parseFeatureGates(''), lookUps: budgetLookUpsIn(client) });
    const body = {
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      request: request('CREATE', pub('web', selects('web'))),
    };
    const answer = await admissionRoute(review, { whenFailed: 'refuse' })(JSON.parse(JSON.stringify(body)), signal);
    expect(objectOr(objectOr(answer.body as JsonObject).response)).toMatchObject({
      allowed: false,
      status: { code: 500, message: 'Cannot look up the PodUnavailableBudgets of namespace "shop": no right' },
    });
  });
});
