import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it, test } from '@jest/globals';
import fc from 'fast-check';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import {
  budgetStamp,
  type PodUnavailableBudget,
  type PodUnavailableBudgetSpec,
  type PodUnavailableBudgetStatus,
  podUnavailableBudgets,
} from '../../api/pod-unavailable-budget/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError, noAnswer } from '../../kube/failures.ts';
import { budgetStatus } from '../../plan/pod-unavailable-budget/status.ts';
import { type PodBudgetJudge, type RefusedPodOperation, reviewPodBudget } from '../../webhook/pod-budget.ts';
import { Ledger } from '../../webhook/review/ledger.ts';
import { lookUpsIn } from '../../webhook/review/look-ups.ts';
import { type AdmissionRequest, admissionRoute, type Review } from '../../webhook/review/review.ts';
import { type Meet, MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { aPod } from '../support/objects/pod.ts';

// The rules about single pods and budgets have a table of their own (pod-unavailable-budget-plan.test.ts). Here is what becomes of
// the requests of an API server.

const nowMs = Date.parse('2026-03-01T12:00:00Z');
const now = '2026-03-01T12:00:00Z';
const signal = new AbortController().signal;
const spent = 'podunavailablebudget.policy.kruise.io "web" is forbidden: pub unavailable allowed is negative';
const forbidden = { kind: 'refused', code: 403, message: spent, errors: [] };
const allowed = { kind: 'allowed' };
const ref = { namespace: 'shop', name: 'web' };

interface PodTraits {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly metadata?: object;
  readonly ready?: boolean;
  readonly image?: string;
}

/** A ready pod that is stamped with the budget `web`. */
function pod(name: string, { annotations, labels, metadata, ready = true, image = 'app:1' }: PodTraits = {}): Pod {
  return aPod({
    metadata: {
      ...{ name, uid: name, labels: { app: 'web', ...labels }, annotations: { ...budgetStamp('web'), ...annotations } },
      ...metadata,
    },
    spec: { containers: [{ name: 'main', image }] },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
  });
}

interface World {
  readonly cluster: MemoryCluster;
  readonly refused: RefusedPodOperation[];
  readonly review: Review;
  readonly status: () => PodUnavailableBudgetStatus | undefined;
}

interface WorldTraits extends Partial<PodBudgetJudge> {
  readonly spec?: Partial<PodUnavailableBudgetSpec>;
  /** Absent: the budget does not exist. */
  readonly status?: Partial<PodUnavailableBudgetStatus>;
  readonly pods?: readonly Pod[];
  readonly client?: (cluster: MemoryCluster) => KubeClient;
}

function world({ spec, status, pods = [], client, ...judge }: WorldTraits = {}): World {
  const cluster = new MemoryCluster();
  const counts = { currentAvailable: 3, desiredAvailable: 2, totalReplicas: 3 };
  if (status) {
    const selector = { matchLabels: { app: 'web' } };
    cluster.put(podUnavailableBudgets, {
      metadata: ref,
      spec: { selector, maxUnavailable: 1, ...spec },
      status: { unavailableAllowed: 1, ...counts, ...status },
    });
  }
  for (const each of pods) cluster.put(kubeResource.pods, each);
  const refused: RefusedPodOperation[] = [];
  const calls = client?.(cluster) ?? cluster.client();
  const review = reviewPodBudget({
    gates: parseFeatureGates('PodUnavailableBudgetUpdateGate=true'),
    ledger: new Ledger({ client: calls, resource: podUnavailableBudgets, pausesMs: { first: 1, most: 2 } }),
    lookUps: lookUpsIn(calls),
    onRefused: (one) => refused.push(one),
    now: () => nowMs,
    ...judge,
  });
  const stored = () => cluster.look<PodUnavailableBudget>(podUnavailableBudgets, ref)?.status;
  return { cluster, refused, review, status: stored };
}

const asJson = (object: object) => JSON.parse(JSON.stringify(object)) as JsonObject;

function request(given: Partial<AdmissionRequest>): AdmissionRequest {
  return {
    ...{ uid: 'r', operation: 'DELETE', kind: { group: '', kind: 'Pod' }, subResource: '', namespace: 'shop' },
    ...{ name: 'a', dryRun: false, fieldValidation: 'Warn', user: 'somebody' },
    ...given,
  };
}

const remove = (target: Pod, more: Partial<AdmissionRequest> = {}) =>
  request({ operation: 'DELETE', oldObject: asJson(target), ...more });
const update = (target: Pod, after: Pod = pod(target.metadata.name, { image: 'app:2' })) =>
  request({ operation: 'UPDATE', oldObject: asJson(target), object: asJson(after) });
const evict = (name: string, apiVersion = 'policy/v1', deleteOptions?: JsonObject) =>
  request({
    ...{ operation: 'CREATE', subResource: 'eviction', kind: { group: 'policy', kind: 'Eviction' }, name },
    object: {
      apiVersion,
      kind: 'Eviction',
      metadata: { name, namespace: 'shop' },
      ...(deleteOptions && { deleteOptions }),
    },
  });
const ask = async ({ review }: World, given: AdmissionRequest) => await review(given, signal);

/** The status of the answer that the API server gets. */
async function answered({ review }: World, given: AdmissionRequest): Promise<JsonObject> {
  const body = asJson({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: { ...given, userInfo: { username: given.user } },
  });
  const answer = await admissionRoute(review, { whenFailed: 'refuse' })(body, signal);
  return objectOr(objectOr(objectOr(asJson(answer).body).response).status);
}

const [a, b] = [pod('a'), pod('b')];
const resized = { ...a, spec: { containers: [{ name: 'main', image: 'app:1', resources: { limits: { cpu: '1' } } }] } };
const sized = { ...a, spec: { containers: [{ name: 'main', image: 'app:1', resources: { limits: { cpu: '2' } } }] } };

describe('an operation on a pod', () => {
  test.each<readonly [string, AdmissionRequest, 'disruptedPods' | 'unavailablePods']>([
    ['PUB-30: DELETE', remove(a), 'disruptedPods'],
    ['PUB-30: UPDATE', update(a), 'unavailablePods'],
    ['PUB-30a: an eviction of policy/v1', evict('a'), 'disruptedPods'],
    ['PUB-30a: an eviction of policy/v1beta1', evict('a', 'policy/v1beta1'), 'disruptedPods'],
    ['PUB-34: RESIZE', update(resized, sized), 'disruptedPods'],
    ['PUB-38: DELETE of a collection', remove(a, { name: '' }), 'disruptedPods'],
    [
      'PUB-38: DELETE by the garbage collector',
      remove(a, { user: 'system:serviceaccount:kube-system:generic-garbage-collector' }),
      'disruptedPods',
    ],
  ])('PUB-35: takes one and is recorded before it is admitted: %s', async (_, given, map) => {
    const here = world({ status: {}, pods: [a] });
    expect(await ask(here, given)).toEqual(allowed);
    expect(here.status()).toMatchObject({ unavailableAllowed: 0, [map]: { a: now } });
    expect(await ask(here, given)).toEqual(allowed); // recorded already
    expect(here.status()?.unavailableAllowed).toBe(0);
    expect(await ask(here, remove(b))).toEqual(forbidden);
    expect(here.refused).toHaveLength(1);
  });

  test.each<readonly [string, AdmissionRequest, WorldTraits]>([
    ['PUB-30: pods/resize is not looked at', { ...update(resized, sized), subResource: 'resize' }, {}],
    ['PUB-30: pods/status is not looked at', { ...update(a), subResource: 'status' }, {}],
    ['PUB-30: pods/ephemeralcontainers is not looked at', { ...update(a), subResource: 'ephemeralcontainers' }, {}],
    ['PUB-30: pods/binding is not looked at', { ...evict('a'), subResource: 'binding' }, {}],
    ['PUB-30: CREATE is not looked at', request({ operation: 'CREATE', object: asJson(a) }), {}],
    ['PUB-30: an eviction of a pod that does not exist', evict('c'), {}],
    ['PUB-31: without a stamp', remove(pod('a', { annotations: budgetStamp('') })), {}],
    ['PUB-31: an update that removes the stamp', update(a, pod('a', { annotations: budgetStamp(''), image: 'x' })), {}],
    ['PUB-31: other metadata', update(a, pod('a', { labels: { tier: 'front' } })), {}],
    ['PUB-32: opted out', remove(pod('a', { annotations: { 'pub.kruise.io/no-protect': 'true' } })), {}],
    ['PUB-32: no budget of that name', remove(pod('a', { annotations: budgetStamp('other') })), {}],
    ['PUB-32: ignored', remove(a), { spec: { ignoredPodSelector: { matchLabels: { app: 'web' } } } }],
    ['PUB-32, PUB-50: nothing is desired', remove(a), { status: { desiredAvailable: 0, unavailableAllowed: 0 } }],
    ['PUB-32: recorded as disrupted', update(a), { status: { unavailableAllowed: 0, disruptedPods: { a: now } } }],
    ['PUB-32: recorded as unavailable', evict('a'), { status: { unavailableAllowed: 0, unavailablePods: { a: now } } }],
    ['PUB-33: not a protected operation', remove(a), { spec: { protectOperations: ['UPDATE'] } }],
    ['PUB-33: eviction is another operation', evict('a'), { spec: { protectOperations: ['DELETE'] } }],
    [
      'PUB-34: a resize by default, with the gate',
      update(resized, sized),
      { gates: parseFeatureGates('PodUnavailableBudgetUpdateGate=true,InPlacePodVerticalScaling=true') },
    ],
    ['the gate of updates is off', update(a), { gates: parseFeatureGates('') }],
    ['the gate of deletions is off', remove(a), { gates: parseFeatureGates('PodUnavailableBudgetDeleteGate=false') }],
    [
      'the gate of deletions is off for evictions',
      evict('a'),
      { gates: parseFeatureGates('PodUnavailableBudgetDeleteGate=false') },
    ],
    ['PUB-40: the end of a pod', remove(pod('a', { metadata: { deletionTimestamp: now } })), {}],
    ['PUB-53: not ready', remove(pod('a', { ready: false })), {}],
    ['PUB-53: marked unavailable', remove(pod('a', { labels: { 'unavailable-pod.kruise.io/x': '' } })), {}],
  ])('passes and costs nothing: %s', async (_, given, traits) => {
    const here = world({ status: { unavailableAllowed: 0 }, pods: [a], ...traits });
    const before = here.status();
    expect(await ask(here, given)).toEqual(allowed);
    expect(here.status()).toEqual(before);
    expect(here.refused).toEqual([]);
  });

  test.each<readonly [string, AdmissionRequest, WorldTraits]>([
    [
      'PUB-31: the first label that says unavailable',
      update(a, pod('a', { labels: { 'unavailable-pod.kruise.io/x': '' } })),
      {},
    ],
    ['PUB-34: a resize, without its gate', update(resized, sized), {}],
    ['PUB-38: with grace 0, by anybody', remove(a, { user: 'system:admin' }), {}],
    [
      'PUB-50: a number of minAvailable, with its workload gone',
      remove(a),
      { spec: { minAvailable: 1 }, status: { totalReplicas: 0, desiredAvailable: 1, unavailableAllowed: 0 } },
    ],
    ['PUB-51: maxUnavailable 0', remove(a), { status: { desiredAvailable: 3, unavailableAllowed: 0 } }],
  ])('PUB-37: is refused while nothing is left: %s', async (_, given, traits) => {
    const here = world({ status: { unavailableAllowed: 0 }, ...traits });
    expect(await ask(here, given)).toEqual(forbidden);
  });

  it('PUB-36: in a dry run is checked and not recorded', async () => {
    const here = world({ status: { unavailableAllowed: 1 }, pods: [a] });
    const given = [
      { ...remove(a), dryRun: true },
      { ...update(a), dryRun: true },
      { ...evict('a'), dryRun: true },
      evict('a', 'policy/v1', { dryRun: ['All'] }),
    ];
    for (const each of given) expect(await ask(here, each)).toEqual(allowed);
    expect(here.status()).toMatchObject({ unavailableAllowed: 1 });
    expect(here.cluster.calls.filter((call) => call.startsWith('patch'))).toEqual([]);
    await ask(here, remove(b));
    for (const each of given) expect(await ask(here, each)).toEqual(forbidden);
    expect(here.refused.map(({ dryRun }) => dryRun)).toEqual([true, true, true, true]);
  });

  it('PUB-36: is admitted where the budget vanishes meanwhile', async () => {
    const vanishing: Meet = ({ verb }) => {
      if (verb === 'patch') here.cluster.remove(podUnavailableBudgets, ref);
    };
    const here = world({ status: {}, client: (cluster) => cluster.client(vanishing) });
    expect(await ask(here, remove(a))).toEqual(allowed);
    expect(here.status()).toBeUndefined();
  });

  it('PUB-3: asks the budget that concerns the pod now, where its own is gone', async () => {
    const orphan = pod('a', { annotations: budgetStamp('renamed') });
    const asked: string[] = [];
    const budgetNow = ({ metadata }: Pod) => {
      asked.push(metadata.name);
      return Promise.resolve('web');
    };
    const here = world({ status: { unavailableAllowed: 1 }, budgetNow });
    expect(await ask(here, remove(orphan))).toEqual(allowed);
    expect(here.status()).toMatchObject({ unavailableAllowed: 0, disruptedPods: { a: now } });
    expect(await ask(here, remove(pod('b', { annotations: budgetStamp('renamed') })))).toEqual(forbidden);
    expect(here.refused).toMatchObject([{ budget: 'web' }]);
    expect(await ask(here, remove(a))).toEqual(allowed);
    expect(asked).toEqual(['a', 'b']);
    const without = world({ status: { unavailableAllowed: 0 }, budgetNow: () => Promise.resolve(undefined) });
    expect(await ask(without, remove(orphan))).toEqual(allowed);
  });

  it('PUB-39: of a controller that was recorded beforehand passes with its write', async () => {
    const here = world({ status: { unavailableAllowed: 0, unavailablePods: { a: now } } });
    expect(await ask(here, update(a))).toEqual(allowed);
    expect(await ask(here, remove(a))).toEqual(allowed);
    expect(here.status()?.unavailableAllowed).toBe(0);
  });

  it.each([
    ['PUB-52: maxUnavailable 100%', { maxUnavailable: '100%' }, 5, 5],
    ['PUB-51: minAvailable 100%', { minAvailable: '100%' }, 5, 0],
    ['PUB-54: pods above the expected count', { maxUnavailable: '25%', protectTotalReplicas: 4 }, 5, 2],
  ])('is admitted as often as has been counted: %s', async (_, spec, count, admitted) => {
    const pods = Array.from({ length: count }, (__, index) => pod(`pod-${index}`));
    const total = { protectTotalReplicas: count, ...spec };
    const here = world({ spec: total, status: {} });
    const { metadata, spec: _spec } = here.cluster.look<PodUnavailableBudget>(
      podUnavailableBudgets,
      ref,
    ) as PodUnavailableBudget;
    const { maxUnavailable: __, ...other } = _spec;
    const budget = {
      metadata,
      ...{ apiVersion: '', kind: '' },
      spec: { ...('minAvailable' in spec ? other : _spec), ...total },
    };
    const { status } = budgetStatus({
      budget,
      pods: pods.map((each) => ({ pod: each, owners: [] })),
      gates: parseFeatureGates(''),
      nowMs,
    });
    here.cluster.put(podUnavailableBudgets, { ...budget, status });
    const verdicts = await Promise.all(pods.map(async (each) => await ask(here, remove(each))));
    expect(verdicts.filter(({ kind }) => kind === 'allowed')).toHaveLength(admitted);
    const isUnprotected = status?.desiredAvailable === 0;
    expect(Object.keys(here.status()?.disruptedPods ?? {})).toHaveLength(isUnprotected ? 0 : admitted);
  });

  it('PUB-55: costs budget though something else refuses it later', async () => {
    const here = world({ status: { unavailableAllowed: 1 }, pods: [a] });
    expect(await ask(here, evict('a'))).toEqual(allowed);
    expect(here.status()).toMatchObject({ unavailableAllowed: 0, disruptedPods: { a: now } });
  });
});

describe('a refusal', () => {
  it('PUB-37, PUB-37b, PUB-37c: has the status 403, or 429 for evictions where wanted, and asks for no retry', async () => {
    const given = { status: { unavailableAllowed: 0 }, pods: [a] };
    const [old, wanted] = [world(given), world({ ...given, evictionRefusal: 429 })];
    const [no, later] = [
      { status: 'Failure', code: 403, reason: 'Forbidden', message: spent },
      { status: 'Failure', code: 429, reason: 'TooManyRequests', message: spent },
    ];
    expect(await answered(old, remove(a))).toMatchObject(no);
    expect(await answered(old, evict('a'))).toMatchObject(no);
    expect(await answered(wanted, remove(a))).toMatchObject(no);
    expect(await answered(wanted, update(a))).toMatchObject(no);
    for (const version of ['policy/v1', 'policy/v1beta1']) {
      const status = await answered(wanted, evict('a', version));
      expect(status).toMatchObject(later);
      expect(status.details).not.toHaveProperty('retryAfterSeconds');
    }
  });

  it('PUB-35, PUB-37a: names too many entries', async () => {
    const disruptedPods = Object.fromEntries(Array.from({ length: 2_001 }, (_, index) => [`p-${index}`, now]));
    const full = world({ status: { unavailableAllowed: 5, disruptedPods } });
    expect(await ask(full, remove(a))).toMatchObject({ code: 403, message: expect.stringContaining('map too big') });
  });

  it('PUB-37a: names conflicts, once all attempts have met one', async () => {
    const touching: Meet = ({ verb }) => {
      if (verb !== 'patch') return;
      const budget = here.cluster.look<PodUnavailableBudget>(podUnavailableBudgets, ref) as PodUnavailableBudget;
      const labels = { touched: budget.metadata.resourceVersion };
      here.cluster.put(podUnavailableBudgets, { ...budget, metadata: { ...budget.metadata, labels } });
    };
    const here = world({ status: {}, client: (cluster) => cluster.client(touching) });
    const message = "couldn't update PodUnavailableBudget web due to conflicts";
    expect(await ask(here, remove(a))).toEqual({ kind: 'refused', code: 403, message, errors: [] });
    expect(here.refused).toHaveLength(1);
  });

  it('is reported with its Event, the labels of its counter and the line of the protection log (PUB §4)', async () => {
    const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web-1', uid: 'rs', controller: true };
    const owned = pod('a', { metadata: { ownerReferences: [{ ...owner, kind: 'Other', controller: false }, owner] } });
    const here = world({ status: { unavailableAllowed: 0 }, pods: [a] });
    await ask(here, { ...update(owned), user: 'x'.repeat(300) });
    await ask(here, evict('a'));
    const event = { type: 'Warning', reason: 'PubPreventPodDeletion', message: 'openkruise pub prevents pod deletion' };
    const username = 'x'.repeat(253);
    expect(here.refused).toMatchObject([
      {
        ...{ operation: 'UPDATE', budget: 'web', dryRun: false, pod: { metadata: { uid: 'a' } }, event },
        labels: { kind_namespace_name: 'ReplicaSet_shop_web-1', username },
        audit: {
          Event: 'PodUnavailableBudget',
          Kind: 'ReplicaSet',
          Namespace: 'shop',
          Name: 'web-1',
          UserAgent: username,
        },
      },
      {
        ...{
          operation: 'EVICT',
          budget: 'web',
          labels: { kind_namespace_name: 'unknown_shop_a', username: 'somebody' },
        },
        audit: { Kind: 'unknown', Name: 'a', UserAgent: 'somebody' },
      },
    ]);
  });
});

describe('a request that cannot be reviewed', () => {
  it('PUB-37: is malformed where it has no pod, or names none', async () => {
    const here = world({ status: {} });
    const { oldObject: _, ...without } = remove(a);
    const { object: __, ...half } = update(a);
    const nameless = { ...evict(''), object: {} };
    for (const given of [without, half, remove({ ...a, spec: {} as Pod['spec'] }), nameless, evict('x'.repeat(254))]) {
      await expect(ask(here, given)).rejects.toThrow(/is not a pod|names no pod/);
    }
  });

  it.each<readonly [string, AdmissionRequest, string]>([
    ['a pod', evict('a'), 'Cannot look up Pod "shop/a": no right'],
    ['a budget', remove(a), 'Cannot take from PodUnavailableBudget "shop/web": no right'],
  ])('is answered by 500 where %s cannot be read', async (_, given, message) => {
    const failing: Meet = () => {
      throw new KubeError({ status: 403, message: 'no right' });
    };
    const here = world({ status: {}, client: (cluster) => cluster.client(failing) });
    expect(await answered(here, given)).toMatchObject({ code: 500, message });
    expect(here.refused).toEqual([]);
  });

  it('is answered in linear time, whatever the pod says', async () => {
    const here = world({ status: {} });
    const seconds = async (size: number) => {
      const text = (count: number) => '{[('.repeat(count);
      const containers = Array.from({ length: size }, (_, index) => ({
        name: `c-${index}`,
        image: `app@sha256:${index}`,
      }));
      const marks = [
        'kruise.io/sidecarset-inplace-update-state',
        'apps.kruise.io/inplace-update-state',
        'pub.kruise.io/no-protect',
      ];
      const long: Pod = {
        ...pod('a', {
          annotations: Object.fromEntries(marks.map((mark) => [mark, text(size * 20)])),
          labels: Object.fromEntries(Array.from({ length: size }, (_, index) => [`label-${index}`, 'x'])),
        }),
        spec: { containers },
      };
      const stamped = pod('a', { annotations: budgetStamp(text(size * 20)) });
      const given = [
        remove(long),
        update(long, { ...long, spec: { containers: [...containers, { name: 'new' }] } }),
        remove(stamped),
      ];
      const startedAtMs = performance.now();
      for (const each of given) await ask(here, each);
      return (performance.now() - startedAtMs) / 1000;
    };
    await seconds(10);
    expect(await seconds(4_000)).toBeLessThan(2);
  });
});

describe('two webhook processes', () => {
  type Fault = 'none' | 'conflict' | 'lostBefore' | 'lostAfter';
  const play = fc.record({
    first: fc.integer({ min: 0, max: 6 }),
    requests: fc.array(
      fc.record({
        podNumber: fc.integer({ min: 0, max: 9 }),
        process: fc.constantFrom(0, 1),
        kind: fc.constantFrom('DELETE', 'UPDATE', 'EVICT'),
        afterTurns: fc.integer({ min: 0, max: 20 }),
      }),
      { minLength: 1, maxLength: 24 },
    ),
    faults: fc.array(fc.constantFrom<Fault>('none', 'none', 'conflict', 'lostBefore', 'lostAfter'), { maxLength: 40 }),
    /** How long each call takes, and how many changes a cache is behind at each look; both over and over. */
    turns: fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 20 }),
    behind: fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 1, maxLength: 20 }),
    recounts: fc.array(
      fc.record({ afterTurns: fc.integer({ min: 0, max: 30 }), what: fc.constantFrom('one more', 'all back') }),
      { maxLength: 4 },
    ),
  });
  type Play = Parameters<Parameters<typeof play.map>[0]>[0];
  const pause = async (turns: number) => {
    for (let index = 0; index < turns; index += 1) await turn();
  };
  const around = <Value>(list: readonly Value[], otherwise: Value) => {
    let at = 0;
    return () => list[at++ % list.length] ?? otherwise;
  };

  /** A status as it was stored, and how many there were to take until then. */
  interface Moment {
    readonly budget: PodUnavailableBudget;
    readonly inAll: number;
  }
  const left = ({ budget }: Moment) => budget.status?.unavailableAllowed ?? 0;
  const entries = ({ budget: { status } }: Pick<Moment, 'budget'>): readonly string[] => {
    const { disruptedPods = {}, unavailablePods = {} } = status ?? ({} as PodUnavailableBudgetStatus);
    return [...Object.keys(disruptedPods), ...Object.keys(unavailablePods)];
  };

  it('PUB-35: together take no more than there is, whatever conflicts, gets lost or is stale', async () => {
    const seen = { admitted: 0, refused: 0, failed: 0 };
    const once = async ({ first, requests, turns, behind, recounts, ...given }: Play) => {
      const faults = [...given.faults];
      const pods = Array.from({ length: 10 }, (_, index) => pod(`pod-${index}`));
      const { cluster } = world({ status: { unavailableAllowed: first }, pods });
      const stored = () => cluster.look<PodUnavailableBudget>(podUnavailableBudgets, ref) as PodUnavailableBudget;
      const history: Moment[] = [{ budget: stored(), inAll: first }];
      const note = (more = 0) => {
        const inAll = (history.at(-1)?.inAll ?? 0) + more;
        if (stored() !== history.at(-1)?.budget) history.push({ budget: stored(), inAll });
      };
      const [turnsOf, behindOf] = [around(turns, 0), around(behind, 0)];

      const client = (): KubeClient => {
        const calls = cluster.client(async () => await pause(turnsOf()));
        return {
          ...calls,
          async patch(...args) {
            const fault = faults.shift();
            if (fault === 'lostBefore') throw noAnswer('PATCH', 'no answer');
            if (fault === 'conflict') {
              const labels = { touched: cluster.store.version };
              cluster.put(podUnavailableBudgets, { ...stored(), metadata: { ...stored().metadata, labels } });
              note();
            }
            const answer = await calls.patch<never>(...args);
            note();
            await pause(turnsOf());
            if (fault === 'lostAfter') throw noAnswer('PATCH', 'no answer');
            return answer;
          },
        };
      };
      const known = () => history.at(-1 - Math.min(behindOf(), history.length - 1))?.budget;
      const reviews = [0, 1].map(() => {
        const calls = client();
        const pausesMs = { first: 1, most: 2 };
        const ledger = new Ledger({ client: calls, resource: podUnavailableBudgets, known, pausesMs });
        const gates = parseFeatureGates('PodUnavailableBudgetUpdateGate=true');
        return reviewPodBudget({ gates, ledger, lookUps: lookUpsIn(calls), now: () => nowMs });
      });

      const counting = recounts.map(async ({ afterTurns, what }) => {
        await pause(afterTurns);
        const more = what === 'one more' ? 1 : 0;
        const { disruptedPods: _, unavailablePods: __, ...counted } = stored().status as PodUnavailableBudgetStatus;
        const back = {
          ...counted,
          unavailableAllowed: counted.unavailableAllowed + entries({ budget: stored() }).length,
        };
        const grown = { ...stored().status, unavailableAllowed: counted.unavailableAllowed + 1 };
        cluster.put(podUnavailableBudgets, { ...stored(), status: more > 0 ? grown : back });
        note(more);
      });
      const asking = requests.map(async ({ podNumber, process, kind, afterTurns }) => {
        await pause(afterTurns);
        const name = `pod-${podNumber}`;
        const target = pods[podNumber] as Pod;
        const made = kind === 'DELETE' ? remove(target) : kind === 'UPDATE' ? update(target) : evict(name);
        const since = history.length - 1;
        const verdict = await Promise.resolve(reviews[process]?.(made, signal)).catch(() => undefined);
        const meanwhile = history.slice(since);
        if (verdict?.kind === 'allowed') {
          seen.admitted += 1;
          expect(meanwhile.some((moment) => entries(moment).includes(name))).toBe(true);
        } else if (verdict?.message === spent) {
          seen.refused += 1;
          expect(meanwhile.some((moment) => left(moment) === 0 && !entries(moment).includes(name))).toBe(true);
        } else seen.failed += 1;
      });
      await Promise.all([...asking, ...counting]);
      // What has been taken is recorded, each pod once, and nothing else is.
      for (const moment of history) {
        expect(left(moment)).toBeGreaterThanOrEqual(0);
        expect(new Set(entries(moment)).size).toBe(entries(moment).length);
        expect(left(moment) + entries(moment).length).toBe(moment.inAll);
      }
    };
    await fc.assert(fc.asyncProperty(play, once), { numRuns: 200 });
    expect(Math.min(seen.admitted, seen.refused)).toBeGreaterThan(300);
    expect(seen.failed).toBeLessThan(seen.admitted / 5);
  });
});
