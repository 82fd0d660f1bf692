import { readFileSync } from 'node:fs';
import { describe, expect, it, test } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { ObjectMeta } from '../../api/core/meta.ts';
import { type Container, type ContainerStatus, isActive, type Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import {
  budgetStamp,
  type PodUnavailableBudget,
  type PodUnavailableBudgetSpec,
  type PodUnavailableBudgetStatus,
  type ProtectedOperation,
} from '../../api/pod-unavailable-budget/types.ts';
import {
  budgetInForce,
  budgetOf,
  missingStamp,
  type OwnedPod,
  type Owner,
} from '../../plan/pod-unavailable-budget/association.ts';
import { availabilityChange } from '../../plan/pod-unavailable-budget/availability-change.ts';
import { askedOf, type BudgetGates, decide, type PodRequest } from '../../plan/pod-unavailable-budget/decide.ts';
import { isAvailable, isConsistent, isReady } from '../../plan/pod-unavailable-budget/readiness.ts';
import { type BudgetInput, budgetStatus } from '../../plan/pod-unavailable-budget/status.ts';
import { metadataOf } from '../support/objects/metadata.ts';
import { aPod } from '../support/objects/pod.ts';
import { recorded } from '../support/recorded.ts';

const nowMs = Date.parse('2026-03-01T12:00:00Z');
const ago = (seconds: number) => timestamp(nowMs - seconds * 1000);
const gates = (text = ''): BudgetGates => parseFeatureGates(`PodUnavailableBudgetUpdateGate=true,${text}`);
const app = { app: 'web' };
const unavailableLabel = { 'unavailable-pod.kruise.io/drain': 'true' };

interface PodTraits {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly metadata?: Partial<ObjectMeta>;
  readonly spec?: object;
  readonly containers?: readonly Container[];
  readonly statuses?: Readonly<Record<string, Partial<ContainerStatus>>>;
  readonly phase?: string;
  readonly ready?: string;
}

/** A ready pod that is stamped with the budget `web`. */
function pod(name: string, traits: PodTraits = {}): Pod {
  const { phase = 'Running', ready = 'True', containers = [{ name: 'main', image: 'app:1' }], statuses = {} } = traits;
  return aPod({
    metadata: {
      ...{ name, uid: name, labels: { ...app, ...traits.labels } },
      annotations: { ...budgetStamp('web'), ...traits.annotations },
      ...traits.metadata,
    },
    spec: { containers, ...traits.spec },
    status: {
      ...{ phase, conditions: [{ type: 'Ready', status: ready }] },
      containerStatuses: containers.map(({ name: of, image = '' }) => ({
        ...{ name: of, ready: true, restartCount: 0, image, imageID: `docker.io/library/app@sha256:${'0'.repeat(64)}` },
        ...statuses[of],
      })),
    },
  });
}

const notReady = { ready: 'False' };
const leaving = { metadata: { deletionTimestamp: ago(1) } };

function budget(
  spec: Partial<PodUnavailableBudgetSpec> = {},
  status?: Partial<PodUnavailableBudgetStatus>,
): PodUnavailableBudget {
  const counts = { unavailableAllowed: 1, currentAvailable: 3, desiredAvailable: 2, totalReplicas: 3 };
  const isWhole = 'maxUnavailable' in spec || 'minAvailable' in spec;
  return {
    ...{ apiVersion: 'policy.kruise.io/v1beta1', kind: 'PodUnavailableBudget' },
    metadata: metadataOf({ namespace: 'shop', name: 'web', uid: 'pub-1' }, { generation: 2 }),
    spec: {
      ...('targetRef' in spec ? {} : { selector: { matchLabels: app } }),
      ...(isWhole ? {} : { maxUnavailable: 1 }),
      ...spec,
    },
    ...(status && { status: { ...counts, ...status } }),
  };
}

const owner = (kind: string, name: string, more: Partial<Owner> = {}): Owner => ({
  ...{ apiVersion: 'apps/v1', kind, name, uid: `${kind}/${name}`, isGone: false },
  ...more,
});
const cloneSet = (replicas: number, more: Partial<Owner> = {}) =>
  owner('CloneSet', 'web', { apiVersion: 'apps.kruise.io/v1beta1', replicas, ...more });
const deployment = (replicas: number, more: Partial<Owner> = {}) => owner('Deployment', 'web', { replicas, ...more });
const replicaSet = (name: string, more: Partial<Owner> = {}) => owner('ReplicaSet', name, { replicas: 9, ...more });
const targetRef = ({ apiVersion, kind, name }: Owner) => ({ apiVersion, kind, name });
const owned = (pods: readonly Pod[], ...owners: readonly Owner[]): readonly OwnedPod[] =>
  pods.map((each) => ({ pod: each, owners }));
const five = ['a', 'b', 'c', 'd', 'e'].map((name) => pod(name));

const count = (of: PodUnavailableBudget, pods: readonly OwnedPod[], more: Partial<BudgetInput> = {}) =>
  budgetStatus({ budget: of, pods, gates: gates(), nowMs, ...more });
/** total, desired, current, allowed */
const numbers = (...args: Parameters<typeof count>) => {
  const { totalReplicas, desiredAvailable, currentAvailable, unavailableAllowed } = count(...args).status ?? {};
  return [totalReplicas, desiredAvailable, currentAvailable, unavailableAllowed];
};
const eventsOf = (...args: Parameters<typeof count>) =>
  count(...args).events.map(({ about, text }) => `${about.kind}/${about.metadata.name} ${text.reason}`);

/** What becomes of a request: the reason, the refusal, or the map that the pod is recorded in. */
function outcome(request: PodRequest, of: PodUnavailableBudget | undefined, gateText = '', isDryRun = false): string {
  const asked = askedOf(request, gates(gateText));
  if (asked.kind === 'allow') return asked.why;
  const { operation } = asked;
  const decision = decide({ ...{ operation, pod: request.pod, budget: of, gates: gates(gateText), nowMs, isDryRun } });
  if (decision.kind === 'allow') return decision.why;
  if (decision.kind === 'refuse') return decision.message;
  return decision.status.disruptedPods?.[request.pod.metadata.name] ? 'disruptedPods' : 'unavailablePods';
}

const remove = (target: Pod): PodRequest => ({ kind: 'DELETE', pod: target });
const evict = (target: Pod): PodRequest => ({ kind: 'EVICT', pod: target });
const withSpec = (target: Pod, spec: object): Pod => ({ ...target, spec: { ...target.spec, ...spec } });
const update = (target: Pod, after: Pod = withSpec(target, { nodeName: 'n2' })): PodRequest => ({
  kind: 'UPDATE',
  pod: target,
  after,
});
const spent = 'podunavailablebudget.policy.kruise.io "web" is forbidden: pub unavailable allowed is negative';

describe('association', () => {
  const [rs, web] = [replicaSet('web-1'), deployment(3)];
  const bySelector = budget();
  const of = (name: string, owners: readonly Owner[], ...spec: readonly Partial<PodUnavailableBudgetSpec>[]) => {
    const budgets = spec.map((each, index) => ({
      ...budget(each),
      metadata: metadataOf({ name: `${name}${index}`, uid: `${index}` }),
    }));
    return budgetOf({ labels: app, owners }, budgets)?.metadata.name;
  };

  test.each<readonly [string, readonly Owner[], Owner, boolean]>([
    ['the Deployment of its ReplicaSet', [rs, web], web, true],
    ['another version of it', [rs, web], { ...web, apiVersion: 'apps/v1beta2' }, true],
    ['its ReplicaSet', [rs], rs, true],
    ['another group', [cloneSet(3)], owner('CloneSet', 'web'), false],
    ['another name', [rs, web], deployment(3, { name: 'shop' }), false],
    ['the Rollout of its ReplicaSet', [rs, owner('Rollout', 'web')], owner('Rollout', 'web'), true],
    ['no owner', [], web, false],
  ])('PUB-1: the budget of a pod is one whose target is %s', (_, owners, target, isFound) => {
    expect(of('pub', owners, { targetRef: targetRef(target) })).toBe(isFound ? 'pub0' : undefined);
  });

  it('PUB-1: the first one in the list is taken, and an empty or malformed selector selects nothing', () => {
    const other = { selector: { matchLabels: { app: 'other' } } };
    expect(of('pub', [cloneSet(3)], other, { targetRef: targetRef(cloneSet(3)) }, {})).toBe('pub1');
    expect(of('pub', [], other, {}, { targetRef: targetRef(cloneSet(3)) })).toBe('pub1');
    expect(
      of('pub', [], { selector: {} }, { selector: { matchExpressions: [{ key: 'app', operator: 'Is' }] } }),
    ).toBeUndefined();
  });

  it('PUB-3: pods without a stamp get both annotations, and no stamp is rewritten', () => {
    const stamp = { 'pub.kruise.io/related-pub': 'web', 'kruise.io/related-pub': 'web' };
    expect(missingStamp(bySelector, aPod())).toEqual(stamp);
    expect(missingStamp(bySelector, pod('a', { annotations: budgetStamp('gone') }))).toBeUndefined();
    expect(
      missingStamp(bySelector, aPod({ metadata: { annotations: { 'kruise.io/related-pub': 'old' } } })),
    ).toBeUndefined();
    expect(missingStamp(bySelector, aPod({ metadata: { deletionTimestamp: ago(1) } }))).toBeUndefined();
  });

  it('PUB-3, PUB-4: a stamp of a budget that is gone leads to the one that concerns the pod now, no stamp to none', () => {
    const other = { ...budget(), metadata: metadataOf({ name: 'other', uid: 'o' }) };
    const inForce = (stamp: string | undefined, labels = app) =>
      budgetInForce(stamp, { labels, owners: [] }, [other, bySelector])?.metadata.name;
    expect([inForce('web'), inForce('gone'), inForce(undefined)]).toEqual(['web', 'other', undefined]);
    expect(inForce('gone', { app: 'none' })).toBeUndefined();
  });
});

describe('readiness', () => {
  test.each<readonly [string, PodTraits, boolean]>([
    ['runs and is ready', {}, true],
    ['is not ready', notReady, false],
    ['is pending', { phase: 'Pending' }, false],
    ['is being deleted', leaving, false],
    ['has a label that says so', { labels: unavailableLabel }, false],
    ['has a label of another domain', { labels: { 'unavailable-pod.kruise.io.example/a': '' } }, true],
  ])('PUB-17: a pod that %s', (_, traits, expected) => expect(isReady(pod('a', traits))).toBe(expected));

  const digest = (digit: string) => `sha256:${digit.repeat(64)}`;
  const pinned = (imageID: string, more: PodTraits = {}) =>
    pod('a', {
      containers: [{ name: 'main', image: `app:1@${digest('1')}` }],
      statuses: { main: { imageID } },
      ...more,
    });

  test.each<readonly [string, string, boolean]>([
    ['the same', `docker.io/library/app@${digest('1')}`, true],
    ['the same, by Docker', `docker-pullable://app@${digest('1')}`, true],
    ['another digest', `docker.io/library/app@${digest('2')}`, false],
    ['another repository', `docker.io/library/other@${digest('1')}`, false],
    ['the ID of a configuration', digest('2'), true],
    ['the same, by Docker as ID', `docker://${digest('2')}`, true],
    ['an ID without anything', '2'.repeat(64), true],
    ['none', '', true],
  ])('PUB-18: a container with a digest whose image ID is %s', (_, imageID, expected) => {
    expect(isConsistent(pinned(imageID), gates())).toBe(expected);
  });

  const state = (more: object) => ({
    'apps.kruise.io/inplace-update-state': JSON.stringify({ revision: 'web-2', updateTimestamp: ago(5), ...more }),
  });
  const grace = { 'apps.kruise.io/inplace-update-grace': '{"revision":"web-2","graceSeconds":9}' };
  const ofSidecarSet = (imageID: string) => ({
    'kruise.io/sidecarset-injected-list': 'log',
    'kruise.io/sidecarset-inplace-update-state': JSON.stringify({
      log: { revision: 'x', updateTimestamp: ago(5), lastContainerStatuses: { main: { imageID } } },
    }),
  });
  const running = `docker.io/library/app@${digest('0')}`;
  const old = { main: { image: 'docker.io/library/app:0' } };
  test.each<readonly [string, PodTraits, boolean]>([
    ['was never updated', {}, true],
    ['waits for the end of its grace period', { annotations: grace }, false],
    ['has work of a later batch', { annotations: state({ nextContainerImages: { log: 'log:2' } }) }, false],
    [
      'still runs what it did',
      { annotations: state({ lastContainerStatuses: { main: { imageID: running } } }), statuses: old },
      false,
    ],
    [
      'runs something else',
      { annotations: state({ lastContainerStatuses: { main: { imageID: 'x' } } }), statuses: old },
      true,
    ],
    ['has a record that cannot be read', { annotations: { 'apps.kruise.io/inplace-update-state': '{' } }, false],
    ['runs the old image of a SidecarSet', { annotations: ofSidecarSet(running), statuses: old }, false],
    ['runs another image of a SidecarSet', { annotations: ofSidecarSet('x'), statuses: old }, true],
    ['runs the image that it should', { annotations: ofSidecarSet(running) }, true],
  ])('PUB-18: a pod that %s', (_, traits, expected) => expect(isConsistent(pod('a', traits), gates())).toBe(expected));

  it('PUB-18: the other checks are made of pods with digests only, too', () => {
    const same = `docker.io/library/app@${digest('1')}`;
    expect(isConsistent(pinned(same, { annotations: grace }), gates())).toBe(false);
    expect(isConsistent(pinned(same, { annotations: state({ nextContainerImages: { log: 'b' } }) }), gates())).toBe(
      false,
    );
    const unlike = { main: { imageID: digest('2'), image: 'docker.io/library/app:0' } };
    expect(isConsistent(pinned('', { annotations: ofSidecarSet(digest('2')), statuses: unlike }), gates())).toBe(false);
  });

  it.each([['1-injected'], ['5-done']])(
    'PUB-18: recorded pods of a hot-upgrade SidecarSet are available: %s',
    (stage) => {
      const pods = recorded<readonly Pod[]>(`sidecarset-hot-${stage}-pods`);
      expect(pods.map((each) => isAvailable(each, gates()))).toEqual([true, true]);
    },
  );
});

describe('the status', () => {
  const counted = { matchLabels: app };

  it.each([
    ['1-running', [true, true]],
    ['2-spent', [true, false]],
    ['3-later', [true, true]],
  ])('is the recorded one of OpenKruise: %s', (stage, ready) => {
    const of = recorded<PodUnavailableBudget>(`pub-${stage}`);
    const pods = recorded<readonly Pod[]>('sidecarset-hot-1-injected-pods').map((each, index) =>
      ready[index] ? each : { ...each, status: { phase: 'Pending' } },
    );
    const { status: _, ...unseen } = of;
    expect(count(unseen, owned(pods, cloneSet(2)))).toEqual({ status: of.status, events: [] });
  });

  const [rs1, rs2, web] = [replicaSet('web-1'), replicaSet('web-2'), deployment(4)];
  const byRevision = [...owned(five.slice(0, 2), rs1, web), ...owned(five.slice(2), rs2, web)];
  const ofTarget = (target: Owner, more: Partial<PodUnavailableBudgetSpec> = {}) =>
    budget({ targetRef: targetRef(target), ...more });

  it('PUB-10: pods of a target are those that are active and that it owns, through owners that exist', () => {
    expect(numbers(ofTarget(web), byRevision, { target: web })).toEqual([4, 3, 5, 2]);
    const dying = [...owned(five.slice(0, 2), { ...rs1, isGone: true }, web), ...owned(five.slice(2), rs2, web)];
    expect(numbers(ofTarget(web), dying, { target: web })).toEqual([4, 3, 3, 0]);
    expect(numbers(ofTarget(rs1), byRevision, { target: rs1 })).toEqual([9, 8, 2, 0]);
    const again = { ...web, uid: 'created again' };
    expect(numbers(ofTarget(web), byRevision, { target: again })).toEqual([4, 3, 0, 0]);
    const ended = owned([pod('x', { phase: 'Succeeded' }), pod('y', leaving), ...five], cloneSet(5));
    expect(numbers(ofTarget(cloneSet(5)), ended, { target: cloneSet(5) })).toEqual([5, 4, 5, 1]);
  });

  it('PUB-10: of a kind that is not built in the scale subresource selects the pods that it does not own', () => {
    const game = owner('Game', 'web', { apiVersion: 'example.com/v1', replicas: 2 });
    const others = owned(five, owner('Room', 'r'));
    expect(numbers(ofTarget(game), others, { target: { ...game, selector: counted } })).toEqual([2, 1, 5, 4]);
    expect(numbers(ofTarget(game), others, { target: game })).toEqual([2, 1, 0, 0]);
    const both = [...owned(five.slice(0, 1), game), ...others.slice(1)];
    expect(numbers(ofTarget(game), both, { target: { ...game, selector: counted } })).toEqual([2, 1, 1, 0]);
  });

  test.each<readonly [string, Owner | undefined, number, number]>([
    ['with replicas', cloneSet(4), 4, 5],
    ['missing', undefined, 0, 0],
    ['being deleted', cloneSet(4, { isGone: true }), 0, 0],
    ['scaled to 0', cloneSet(0), 0, 0],
  ])('PUB-11: a target that is %s', (_, target, total, current) => {
    const of = ofTarget(cloneSet(4));
    const more = target ? { target } : {};
    expect(numbers(of, owned(five, cloneSet(4)), more)).toEqual([total, Math.max(total - 1, 0), current, current && 2]);
  });

  it('PUB-11: protectTotalReplicas replaces the expected count, of targets and of selectors', () => {
    expect(numbers(ofTarget(web, { protectTotalReplicas: 6 }), byRevision, { target: web })).toEqual([6, 5, 5, 0]);
    expect(numbers(budget({ protectTotalReplicas: 6 }), owned(five, cloneSet(2)))).toEqual([6, 5, 5, 0]);
    const inert = { 'pub.kruise.io/protect-total-replicas': '6' };
    const marked = { ...budget(), metadata: metadataOf({ name: 'web', uid: 'p' }, { annotations: inert }) };
    expect(numbers(marked, owned(five, cloneSet(2)))[0]).toBe(2);
  });

  it('PUB-12: without replicas only protectTotalReplicas protects, and what cannot be read leaves the status as it is', () => {
    const game = owner('Game', 'web', { apiVersion: 'example.com/v1' });
    expect(numbers(ofTarget(game), owned(five, game), { target: game })).toEqual([-1, 0, 5, 5]);
    expect(numbers(ofTarget(game, { minAvailable: '100%' }), owned(five, game), { target: game })[1]).toBe(0);
    expect(numbers(ofTarget(game, { protectTotalReplicas: 5 }), owned(five, game), { target: game })).toEqual([
      5, 4, 5, 1,
    ]);
    const report = count(ofTarget(game), owned(five, game), { failure: 'no matches for kind "Game"' });
    expect(report).toMatchObject({
      events: [{ text: { message: expect.stringMatching(/pods: no matches for kind "Game"$/) } }],
    });
    expect(report.status).toBeUndefined();
  });

  it('PUB-12: an amount that is neither number nor percentage leaves the status as it is', () => {
    expect(count(budget({ maxUnavailable: 'many' }), owned(five, cloneSet(5)))).toMatchObject({
      events: [{ text: { reason: 'CalculateExpectedPodCountFailed' } }],
    });
  });

  test.each<readonly [string, readonly OwnedPod[], number]>([
    ['one workload', owned(five, cloneSet(4)), 4],
    ['two', [...owned(five.slice(0, 3), cloneSet(4)), ...owned(five.slice(3), cloneSet(2, { uid: 'u2' }))], 6],
    ['a Deployment with two ReplicaSets', byRevision, 4],
    ['ReplicaSets by themselves', [...owned(five.slice(0, 3), rs1), ...owned(five.slice(3), rs2)], 18],
    ['none', owned(five), 0],
    ['one that is gone', owned(five, cloneSet(4, { isGone: true })), 0],
    ['a kind without replicas', owned(five, owner('Game', 'g')), 0],
  ])('PUB-13: pods that are selected, of %s', (_, pods, total) => {
    expect(numbers(budget(), pods)).toEqual([
      total,
      Math.max(total - 1, 0),
      5,
      Math.max(5 - Math.max(total - 1, 0), 0),
    ]);
  });

  it('PUB-13: pods with other labels and those that are not active do not count, nor do their workloads', () => {
    const others = owned([pod('x', { labels: { app: 'other' } }), pod('y', leaving)], cloneSet(9, { uid: 'u9' }));
    expect(numbers(budget(), [...owned(five, cloneSet(5)), ...others])).toEqual([5, 4, 5, 1]);
  });

  it('PUB-13a: a ReplicaSet of a Deployment that is gone adds nothing, although it and its pods are still there', () => {
    const gone = owned(five, rs1, deployment(4, { isGone: true }));
    expect(numbers(budget({ maxUnavailable: 0 }), gone)).toEqual([0, 0, 5, 5]);
    expect(numbers(budget({ maxUnavailable: 0 }), owned(five, { ...rs1, isGone: true }, web))[0]).toBe(4);
  });

  test.each<readonly [Partial<PodUnavailableBudgetSpec>, number]>([
    [{ maxUnavailable: 2 }, 5],
    [{ maxUnavailable: '25%' }, 5], // 1.75
    [{ maxUnavailable: 9 }, 0],
    [{ maxUnavailable: '0%' }, 7],
    [{ minAvailable: 3 }, 3],
    [{ minAvailable: 12 }, 12],
    [{ minAvailable: '50%' }, 4], // 3.5
    [{ minAvailable: '0%' }, 0],
  ])('PUB-15: of 7 pods %j desires %i', (spec, desired) => {
    expect(numbers(budget(spec), owned(five, cloneSet(7)))[1]).toBe(desired);
  });

  it('PUB-16: pods count that are ready, consistent and not about to be disrupted', () => {
    const grace = { annotations: { 'apps.kruise.io/inplace-update-grace': '{}' } };
    const pods = owned(
      [...five, pod('f', notReady), pod('g', grace), pod('h', { labels: unavailableLabel })],
      cloneSet(8),
    );
    expect(numbers(budget(), pods)).toEqual([8, 7, 5, 0]);
    const entries = { disruptedPods: { a: ago(1) }, unavailablePods: { b: ago(1) } };
    expect(numbers(budget({}, entries), pods)).toEqual([8, 7, 3, 0]);
  });

  it('PUB-19: entries last 20 and 10 seconds, and the next look is at the first end', () => {
    const pods = owned(five, cloneSet(5));
    const entries = { disruptedPods: { a: ago(19), b: ago(21) }, unavailablePods: { c: ago(9), d: ago(11) } };
    const report = count(budget({}, entries), pods);
    expect(report.status).toMatchObject({
      disruptedPods: { a: ago(19) },
      unavailablePods: { c: ago(9) },
      currentAvailable: 3,
    });
    expect(report.againInMs).toBe(1_999); // times have whole seconds
    expect(eventsOf(budget({}, entries), pods)).toEqual(['Pod/b NotDeleted']);
    const later = count(budget({}, entries), pods, { nowMs: nowMs + 2_000 });
    expect(later.status).toEqual({
      ...{ observedGeneration: 2, totalReplicas: 5, desiredAvailable: 4 },
      currentAvailable: 5,
      unavailableAllowed: 1,
    });
    expect(later.againInMs).toBeUndefined();
  });

  it('PUB-19: only a pod that is not active any more ends its entry early', () => {
    const pods = owned([pod('a', leaving), pod('b', { phase: 'Failed' }), pod('c', notReady), pod('d')], cloneSet(4));
    const taken = Object.fromEntries(['a', 'b', 'c', 'd', 'gone'].map((name) => [name, ago(1)]));
    const { status } = count(budget({}, { disruptedPods: taken, unavailablePods: taken }), pods);
    expect([status?.disruptedPods, status?.unavailablePods].map((map) => Object.keys(map ?? {}))).toEqual([
      ['c', 'd'],
      ['c', 'd'],
    ]);
    expect(count(budget({}, { disruptedPods: { d: 'soon' } }), pods).status?.disruptedPods).toBeUndefined();
  });

  it('without pods has all counts at 0, and says so', () => {
    expect(numbers(budget(), [])).toEqual([0, 0, 0, 0]);
    expect(eventsOf(budget(), owned([pod('x', leaving)], cloneSet(3)))).toEqual(['PodUnavailableBudget/web NoPods']);
  });

  it.each([[undefined], [cloneSet(0)]])(
    'PUB-50: without its workload only an integer minAvailable still desires pods',
    (target) => {
      const desired = (spec: Partial<PodUnavailableBudgetSpec>) =>
        numbers(ofTarget(cloneSet(5), spec), owned(five, cloneSet(5)), target ? { target } : {})[1];
      expect([{ maxUnavailable: 0 }, { minAvailable: '100%' }, { minAvailable: 2 }].map(desired)).toEqual([0, 0, 2]);
    },
  );

  it('PUB-54: pods above the expected count raise what is allowed, until they are gone', () => {
    const ten = Array.from({ length: 10 }, (_, index) => pod(`p${index}`));
    const [shrunk, other] = [cloneSet(0), cloneSet(5, { uid: 'u2' })];
    const of = budget({ maxUnavailable: '25%' });
    expect(numbers(of, [...owned(ten.slice(0, 5), shrunk), ...owned(ten.slice(5), other)])).toEqual([5, 3, 10, 7]);
    expect(numbers(of, owned(ten.slice(5), other))).toEqual([5, 3, 5, 2]);
  });
});

describe('an availability change', () => {
  const amounts = (cpu: string, memory = '64Mi') => ({
    resources: { limits: { cpu, memory }, requests: { cpu, memory } },
  });
  const container = (more: object = {}): Container => ({ name: 'main', image: 'app:1', ...amounts('1'), ...more });
  const change = (before: PodTraits, after: PodTraits) => availabilityChange(pod('a', before), pod('a', after));
  const restarting = (resourceName: string) => ({
    resizePolicy: [{ resourceName, restartPolicy: 'RestartContainer' }],
  });

  it('PUB-31: is any difference of the spec, or the first label that says unavailable; not other metadata', () => {
    expect(change({}, { labels: { a: 'b' }, annotations: { a: 'b' } })).toBeUndefined();
    expect(change({}, { labels: unavailableLabel })).toBe('UPDATE');
    const both = { ...unavailableLabel, 'unavailable-pod.kruise.io/other': '' };
    expect(change({ labels: unavailableLabel }, { labels: both })).toBeUndefined();
    expect(change({ labels: unavailableLabel }, {})).toBeUndefined();
    expect(change({}, { spec: { activeDeadlineSeconds: 5 } })).toBe('UPDATE');
  });

  test.each<readonly [string, PodTraits, PodTraits, 'UPDATE' | 'RESIZE']>([
    ['cpu', { containers: [container()] }, { containers: [container(amounts('2'))] }, 'RESIZE'],
    ['memory', { containers: [container()] }, { containers: [container(amounts('1', '1Gi'))] }, 'RESIZE'],
    [
      'other resources',
      { containers: [container()] },
      { containers: [container({ resources: { limits: { gpu: '1' } } })] },
      'UPDATE',
    ],
    [
      'an image',
      { containers: [container()] },
      { containers: [container({ ...amounts('2'), image: 'app:2' })] },
      'UPDATE',
    ],
    [
      'another container',
      { containers: [container()] },
      { containers: [container(), container({ name: 'log' })] },
      'UPDATE',
    ],
    ['claims', { containers: [container()] }, { containers: [container({ resources: { claims: [] } })] }, 'UPDATE'],
    [
      'cpu with a restart',
      { containers: [container(restarting('cpu'))] },
      { containers: [container({ ...amounts('2'), ...restarting('cpu') })] },
      'UPDATE',
    ],
    [
      'cpu where memory restarts',
      { containers: [container(restarting('memory'))] },
      { containers: [container({ ...amounts('2'), ...restarting('memory') })] },
      'RESIZE',
    ],
    ['its QoS class', { containers: [container()] }, { containers: [container({ resources: {} })] }, 'UPDATE'],
    [
      'cpu of a static pod',
      { containers: [container()], annotations: { 'kubernetes.io/config.mirror': 'x' } },
      { containers: [container(amounts('2'))], annotations: { 'kubernetes.io/config.mirror': 'x' } },
      'UPDATE',
    ],
    [
      'cpu with a label',
      { containers: [container()] },
      { containers: [container(amounts('2'))], labels: unavailableLabel },
      'UPDATE',
    ],
    [
      'cpu and a field',
      { containers: [container()] },
      { containers: [container(amounts('2'))], spec: { nodeName: 'n' } },
      'UPDATE',
    ],
  ])('PUB-34: of %s', (_, before, after, expected) => expect(change(before, after)).toBe(expected));

  it('compares neither too deep values nor more than both specs once', () => {
    let nested: JsonObject = {};
    for (let level = 0; level < 20_000; level++) nested = { nested };
    expect(change({ spec: { nested } }, { spec: { nested } })).toBe('UPDATE');
    const many = (cpu: string) =>
      Array.from({ length: 5_000 }, (_, index) => container({ name: `c${index}`, ...amounts(cpu) }));
    let reads = 0;
    const watched = (traits: PodTraits) => {
      const made = pod('a', traits);
      const containers = made.spec.containers.map((each) =>
        Object.defineProperty({ ...each }, 'resources', {
          enumerable: true,
          get() {
            reads++;
            return each.resources;
          },
        }),
      );
      return { ...made, spec: { ...made.spec, containers } };
    };
    expect(availabilityChange(watched({ containers: many('1') }), watched({ containers: many('2') }))).toBe('RESIZE');
    expect(reads).toBeLessThan(10 * 5_000);
  });
});

describe('an operation', () => {
  const [web, full] = [pod('web-1'), budget({}, { unavailableAllowed: 0 })];
  const resized = withSpec(web, { containers: [{ ...web.spec.containers[0], resources: { requests: { cpu: '1' } } }] });

  it('PUB-31: without a stamp on the pod, before or after, is admitted', () => {
    const bare = pod('web-1', { metadata: { annotations: {} } });
    expect(
      [remove(bare), evict(bare), update(bare), update(bare, withSpec(web, { nodeName: 'n' }))].map((each) =>
        outcome(each, full),
      ),
    ).toEqual(Array(4).fill('NotStamped'));
    expect(outcome(update(web, withSpec(bare, { nodeName: 'n' })), full)).toBe('NotStamped');
    expect(outcome(update(web, pod('web-1', { labels: { a: 'b' } })), full)).toBe('StaysAvailable');
    const labelled = pod('web-1', { labels: unavailableLabel });
    expect(outcome(update(web, labelled), full)).toBe(spent);
  });

  it.each([
    ['PodUnavailableBudgetDeleteGate=false', 'GateOff', 'GateOff', spent],
    ['PodUnavailableBudgetUpdateGate=false', spent, spent, 'GateOff'],
  ])('is not looked at while its gate is off: %s (PUB §1)', (text, ...expected) => {
    expect([remove(web), evict(web), update(web)].map((each) => outcome(each, full, text))).toEqual(expected);
  });

  it.each([
    ['no-protect', { annotations: { 'pub.kruise.io/no-protect': 'T' } }, full, 'NotProtected'],
    ['no-protect that is false', { annotations: { 'pub.kruise.io/no-protect': 'false' } }, full, spent],
    ['no-protect that is no boolean', { annotations: { 'pub.kruise.io/no-protect': 'yes' } }, full, spent],
    ['not ready', notReady, full, 'NotAvailable'],
    ['not consistent', { annotations: { 'apps.kruise.io/inplace-update-grace': '{}' } }, full, 'NotAvailable'],
    ['no budget', {}, undefined, 'NoBudget'],
    ['left out', {}, budget({ ignoredPodSelector: { matchLabels: app } }, full.status), 'Ignored'],
    ['others left out', {}, budget({ ignoredPodSelector: { matchLabels: { app: 'x' } } }, full.status), spent],
    ['not counted yet', {}, budget(), 'NothingDesired'],
    ['nothing desired', {}, budget({}, { desiredAvailable: 0, unavailableAllowed: 0 }), 'NothingDesired'],
    ['not protected from it', {}, budget({ protectOperations: ['EVICT'] }, full.status), 'OperationNotProtected'],
    ['disrupted before', {}, budget({}, { unavailableAllowed: 0, disruptedPods: { 'web-1': ago(9) } }), 'AlreadyTaken'],
    ['updated before', {}, budget({}, { unavailableAllowed: 0, unavailablePods: { 'web-1': ago(9) } }), 'AlreadyTaken'],
    [
      'another pod disrupted before',
      {},
      budget({}, { unavailableAllowed: 0, disruptedPods: { 'web-2': ago(9) } }),
      spent,
    ],
  ] as const)('PUB-32: on a pod with %s', (_, traits, of, expected) => {
    expect(outcome(remove(pod('web-1', traits)), of)).toBe(expected);
  });

  it.each<readonly [Partial<PodUnavailableBudgetSpec>, string | undefined, readonly boolean[]]>([
    [{}, undefined, [true, true, true]],
    [{ protectOperations: [] }, undefined, [true, true, true]],
    [{ protectOperations: ['UPDATE'] }, 'DELETE', [false, false, true]],
    [{}, 'DELETE,EVICT', [true, true, false]],
    [{}, 'DELETE, EVICT', [true, false, false]],
    [{}, '', [true, true, true]],
  ])('PUB-33: with %j and annotation %j protects DELETE, EVICT and UPDATE: %j', (spec, text, expected) => {
    const annotations = text === undefined ? {} : { 'kruise.io/pub-protect-operations': text };
    const of = { ...budget(spec, full.status), metadata: metadataOf({ name: 'web', uid: 'p' }, { annotations }) };
    expect([remove(web), evict(web), update(web)].map((each) => outcome(each, of) === spent)).toEqual(expected);
  });

  it.each<readonly [string, readonly ProtectedOperation[], string]>([
    ['false', [], spent],
    ['false', ['UPDATE'], spent],
    ['false', ['DELETE'], 'OperationNotProtected'],
    ['true', [], 'OperationNotProtected'],
    ['true', ['UPDATE'], 'OperationNotProtected'],
    ['true', ['RESIZE'], spent],
  ])('PUB-34: with InPlacePodVerticalScaling=%s and %j a resize is: %s', (on, protectOperations, expected) => {
    const plain = pod('web-1', {
      containers: [{ name: 'main', image: 'app:1', resources: { requests: { cpu: '2' } } }],
    });
    const request = update(plain, withSpec(plain, { containers: resized.spec.containers }));
    expect(outcome(request, budget({ protectOperations }, full.status), `InPlacePodVerticalScaling=${on}`)).toBe(
      expected,
    );
  });

  it.each<readonly [ProtectedOperation, 'disruptedPods' | 'unavailablePods']>([
    ['DELETE', 'disruptedPods'],
    ['EVICT', 'disruptedPods'],
    ['RESIZE', 'disruptedPods'],
    ['UPDATE', 'unavailablePods'],
  ])('PUB-35: %s takes one, and records the pod in %s', (operation, map) => {
    const of = budget({ protectOperations: [operation] }, { unavailableAllowed: 2, [map]: { 'web-0': ago(3) } });
    const decision = decide({ operation, pod: web, budget: of, gates: gates(), nowMs });
    const entries = { 'web-0': ago(3), 'web-1': timestamp(nowMs) };
    expect(decision).toEqual({ kind: 'take', status: { ...of.status, unavailableAllowed: 1, [map]: entries } });
  });

  it('PUB-35: is refused while nothing is left, or above 2000 entries', () => {
    expect([0, -1].map((unavailableAllowed) => outcome(evict(web), budget({}, { unavailableAllowed })))).toEqual([
      spent,
      spent,
    ]);
    const many = (length: number) => Object.fromEntries(Array.from({ length }, (_, index) => [`p${index}`, ago(1)]));
    const filled = (more: number) => budget({}, { disruptedPods: many(1_000), unavailablePods: many(1_000 + more) });
    expect(outcome(remove(web), filled(0))).toBe('disruptedPods');
    expect(outcome(remove(web), filled(1))).toMatch(
      /map too big - too many unavailable not confirmed by PUB controller$/,
    );
  });

  it('PUB-36: of a dry run is checked and not recorded; a budget that has vanished refuses nothing', () => {
    expect(outcome(remove(web), full, '', true)).toBe(spent);
    expect(outcome(remove(web), budget({}, {}), '', true)).toBe('DryRun');
    expect(outcome(remove(web), undefined)).toBe('NoBudget');
  });

  it('PUB-37: is refused with the recorded text of OpenKruise', () => {
    const text = readFileSync(new URL('../recorded/pub-refusal.txt', import.meta.url), 'utf8').trim();
    const of = { ...full, metadata: metadataOf({ name: 'hot', uid: 'p' }) };
    expect(text.endsWith(`admission webhook "vpod.kb.io" denied the request: ${outcome(remove(web), of)}`)).toBe(true);
  });

  it('PUB-39: of a controller that asks before an update takes one, and its write and delete then pass', () => {
    const before = budget({}, { unavailableAllowed: 1 });
    const asked = askedOf({ kind: 'UPDATE', pod: web }, gates());
    expect(asked).toEqual({ kind: 'ask', operation: 'UPDATE', stamp: 'web' });
    const decision = decide({ operation: 'UPDATE', pod: web, budget: before, gates: gates(), nowMs });
    const after = { ...before, ...(decision.kind === 'take' && { status: decision.status }) };
    expect([update(web), remove(web), remove(pod('web-2'))].map((each) => outcome(each, after))).toEqual([
      'AlreadyTaken',
      'AlreadyTaken',
      spent,
    ]);
  });

  it('PUB-40: on a pod that is being deleted always passes', () => {
    expect(outcome(remove(pod('web-1', leaving)), full)).toBe('NotAvailable');
  });

  it('PUB-51: on a ready pod is refused with maxUnavailable 0 and minAvailable 100%', () => {
    for (const spec of [{ maxUnavailable: 0 }, { minAvailable: '100%' }]) {
      const { status } = count(budget(spec), owned(five, cloneSet(5)));
      expect([remove, evict, update].map((make) => outcome(make(pod('a')), budget(spec, status)))).toEqual(
        Array(3).fill(spent),
      );
    }
  });

  it('PUB-52: is not recorded with maxUnavailable 100%', () => {
    const of = budget({ maxUnavailable: '100%' });
    const { status } = count(of, owned(five, cloneSet(5)));
    expect(outcome(remove(pod('a')), { ...of, ...(status && { status }) })).toBe('NothingDesired');
  });

  it('PUB-53: on a pod that is not ready passes and costs nothing, though the budget is exhausted', () => {
    const stuck = pod('web-1', notReady);
    expect([remove(stuck), evict(stuck), update(stuck)].map((each) => outcome(each, full))).toEqual(
      Array(3).fill('NotAvailable'),
    );
  });

  it('never takes more pods than the budget allows, until they are counted again', () => {
    let of = budget({ maxUnavailable: 2 });
    let pods = five;
    const recount = (at: number) => {
      const { status } = count(of, owned(pods, cloneSet(5)), { nowMs: at });
      of = { ...of, ...(status && { status }) };
    };
    recount(nowMs);
    const admitted = pods.filter((each) => {
      const decision = decide({ operation: 'DELETE', pod: each, budget: of, gates: gates(), nowMs });
      if (decision.kind === 'take') of = { ...of, status: decision.status };
      recount(nowMs + 1_000); // cannot give back what was taken
      return decision.kind === 'take';
    });
    expect(admitted.map(({ metadata }) => metadata.name)).toEqual(['a', 'b']);
    pods = pods.map((each) => (admitted.includes(each) ? pod(each.metadata.name, leaving) : each));
    recount(nowMs + 2_000);
    expect(of.status).toMatchObject({ currentAvailable: 3, unavailableAllowed: 0 });
    expect(of.status?.disruptedPods).toBeUndefined();
    expect(pods.filter(isActive)).toHaveLength(3);
    expect(objectOr(of.status)).not.toHaveProperty('unavailablePods');
  });
});
