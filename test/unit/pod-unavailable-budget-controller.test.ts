import { afterEach, describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import { timestamp } from '../../api/base/time.ts';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { Event } from '../../api/core/event.ts';
import {
  apiVersionOf,
  type KubeObject,
  type ObjectMeta,
  type OwnerReference,
  type Resource,
} from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import {
  budgetStamp,
  type PodUnavailableBudget,
  type PodUnavailableBudgetSpec,
  type PodUnavailableBudgetStatus,
  podBudgetMark,
  podUnavailableBudgets,
} from '../../api/pod-unavailable-budget/types.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import { EventBudget } from '../../kube/events.ts';
import { KubeError } from '../../kube/failures.ts';
import { ownersKeptMs } from '../../kube/owners.ts';
import { RecentlySeen } from '../../kube/recently-seen.ts';
import { CandidatePods } from '../../watcher/kinds/pod-unavailable-budget/candidate-pods.ts';
import { podUnavailableBudgetController } from '../../watcher/kinds/pod-unavailable-budget/controller.ts';
import { passOverBudget } from '../../watcher/kinds/pod-unavailable-budget/pass.ts';
import { type ControllerContextOptions, type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { aPod } from '../support/objects/pod.ts';
import { unavailable } from '../support/recreate-requests.ts';
import { waitFor } from '../support/wait.ts';

const { deployments, replicaSets, pods, events } = kubeResource;
const app = { app: 'web' };
const selector = { matchLabels: app };
const startMs = Date.parse('2026-01-01T00:01:00Z');
const started: RunningController[] = [];

afterEach(async () => {
  for (const controller of started.splice(0)) await controller.stop();
});

function by(resource: Resource, name = 'web', uid = `${resource.kind}/${name}`): OwnerReference {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, name, uid, controller: true };
}

interface PodTraits extends Partial<ObjectMeta> {
  readonly owner?: OwnerReference;
  readonly ready?: 'True' | 'False';
  readonly isStamped?: boolean;
}

/** A ready pod of ReplicaSet `web`, with the stamp of budget `web`. */
function aMember(name: string, traits: PodTraits = {}): Pod {
  const { owner = by(replicaSets), ready = 'True', isStamped = true, ...metadata } = traits;
  return aPod({
    metadata: {
      ...{ name, uid: `uid-${name}`, labels: app, ownerReferences: [owner] },
      ...(isStamped && { annotations: budgetStamp('web') }),
      ...metadata,
    },
    spec: { containers: [{ name: 'main', image: 'app:1' }], nodeName: 'node-1' },
    status: {
      ...{ phase: 'Running', conditions: [{ type: 'Ready', status: ready }] },
      containerStatuses: [{ name: 'main', ready: true, restartCount: 0, image: 'app:1', imageID: 'app@sha256:1' }],
    },
  });
}

function workload(
  cluster: MemoryCluster,
  resource: Resource,
  replicas: number,
  above?: OwnerReference,
  more: object = {},
) {
  cluster.put(resource, {
    metadata: {
      ...{ namespace: 'shop', name: 'web', uid: `${resource.kind}/web`, ...more },
      ...(above && { ownerReferences: [above] }),
    },
    spec: { replicas, selector },
  });
}

type Spec = Partial<PodUnavailableBudgetSpec>;

function putBudget(
  cluster: MemoryCluster,
  spec: Spec = {},
  status?: Partial<PodUnavailableBudgetStatus>,
  name = 'web',
) {
  const counts = { unavailableAllowed: 0, currentAvailable: 0, desiredAvailable: 0, totalReplicas: 0 };
  cluster.put(podUnavailableBudgets, {
    metadata: { namespace: 'shop', name, uid: `pub-${name}`, generation: 1 },
    spec: { ...(!spec.targetRef && { selector }), maxUnavailable: 1, ...spec },
    ...(status && { status: { ...counts, ...status } }),
  });
}

const targetOf = (resource: Resource, name = 'web') => ({
  targetRef: { apiVersion: apiVersionOf(resource), kind: resource.kind, name },
});

interface World extends ControllerContextOptions {
  readonly spec?: Spec;
  readonly status?: Partial<PodUnavailableBudgetStatus>;
  readonly members?: readonly Pod[];
  readonly replicas?: number;
  readonly prepare?: (cluster: MemoryCluster) => void;
}

/** A Deployment with its ReplicaSet, its pods and a budget of them. */
async function run({ spec, status, members = ['a', 'b', 'c'].map((name) => aMember(name)), ...more }: World = {}) {
  const { replicas = 3, prepare = () => undefined, ...options } = more;
  const cluster = new MemoryCluster();
  workload(cluster, deployments, replicas);
  workload(cluster, replicaSets, 9, by(deployments));
  for (const pod of members) cluster.put(pods, pod);
  putBudget(cluster, spec, status);
  prepare(cluster);
  const running = await runController(podUnavailableBudgetController, { cluster, ...options });
  started.push(running);
  const budget = (name = 'web') =>
    cluster.look<PodUnavailableBudget>(podUnavailableBudgets, { namespace: 'shop', name });
  /** total, desired, current, allowed */
  const numbers = (name = 'web') => {
    const { totalReplicas, desiredAvailable, currentAvailable, unavailableAllowed } = budget(name)?.status ?? {};
    return [totalReplicas, desiredAvailable, currentAvailable, unavailableAllowed];
  };
  const shows = async (wanted: readonly number[], name = 'web') => {
    await waitFor(`the numbers ${wanted.join(', ')}`, (see) => see(numbers(name)).join() === wanted.join());
  };
  const pod = (name: string) => cluster.look<Pod>(pods, { namespace: 'shop', name });
  const told = () =>
    cluster.all<KubeObject>(events).map((one) => {
      const { involvedObject, reason } = one as unknown as Event;
      return `${involvedObject.kind}/${involvedObject.name} ${reason}`;
    });
  return { ...running, budget, numbers, shows, pod, told };
}

const to = (writes: readonly SeenCall[], plural: string) => writes.filter((call) => call.plural === plural);
const stamps = (pod: Pod | undefined) => [
  pod?.metadata.annotations?.[podBudgetMark.related],
  pod?.metadata.annotations?.[podBudgetMark.oldRelated],
];
/** Long enough for a pass that must not write anything. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 60));
const conflict = () => new KubeError({ status: 409, reason: 'Conflict', message: 'the object has been modified' });
const notReady = { ready: 'False' } as const;
const leaving = { deletionTimestamp: '2026-01-01T00:01:30Z' };

describe('the stamps of pods', () => {
  it('PUB-3, PUB-1a: are given to selected pods that have none, and these are counted in the same write', async () => {
    const members = ['a', 'b', 'c'].map((name) => aMember(name, { isStamped: false }));
    const { shows, pod, writes, cluster } = await run({ members });
    await shows([3, 2, 3, 1]);
    for (const name of ['a', 'b', 'c']) expect(stamps(pod(name))).toEqual(['web', 'web']);
    cluster.put(pods, aMember('d', { isStamped: false }));
    await shows([3, 2, 4, 2]);
    await settled();
    expect(to(writes, 'pods').map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
    expect(to(writes, 'podunavailablebudgets')).toHaveLength(2);
  });

  it('PUB-3: are never rewritten, nor given to pods that are not active', async () => {
    const other = { annotations: { [podBudgetMark.oldRelated]: 'gone' } };
    const members = [aMember('a', other), aMember('b', { isStamped: false, ...leaving })];
    const { shows, writes } = await run({ members });
    await shows([3, 2, 1, 0]);
    await settled();
    expect(to(writes, 'pods')).toEqual([]);
  });

  it('PUB-3: are given to pods of the target, however far above them, and to no others', async () => {
    const members = [
      aMember('a', { isStamped: false }),
      aMember('b', { isStamped: false, owner: by(statefulSets, 'else') }),
      aMember('c', { isStamped: false, ownerReferences: [] }),
    ];
    const { shows, pod } = await run({ members, spec: targetOf(deployments) });
    await shows([3, 2, 1, 0]);
    expect([stamps(pod('a'))[0], stamps(pod('b'))[0], stamps(pod('c'))[0]]).toEqual(['web', undefined, undefined]);
  });

  it('are tried again after a conflict, and one that is refused keeps no other pod from its own', async () => {
    let conflicts = 2;
    const meet = ({ verb, plural, name }: SeenCall) => {
      if (verb !== 'patch' || plural !== 'pods') return;
      if (name === 'a') throw new KubeError({ status: 422, reason: 'Invalid', message: 'not this one' });
      if (name === 'b' && conflicts-- > 0) throw conflict();
    };
    const members = ['a', 'b', 'c'].map((name) => aMember(name, { isStamped: false }));
    const { pod, shows, warnings, cluster, failures } = await run({ members, meet });
    await waitFor('the others to be stamped', () => stamps(pod('b'))[0] && stamps(pod('c'))[0]);
    cluster.put(pods, aMember('d'));
    await shows([3, 2, 3, 1]);
    expect(warnings).toEqual([expect.stringContaining('Cannot stamp a pod: not this one')]);
    expect([stamps(pod('a'))[0], failures]).toEqual([undefined, []]);
  });

  it('are given to all pods, also to more of them than one pass looks at', async () => {
    const members = Array.from({ length: 230 }, (_, at) => aMember(`p-${at}`, { isStamped: false }));
    const { shows, cluster } = await run({ members, replicas: 230 });
    await shows([230, 229, 230, 1]);
    expect(cluster.all<Pod>(pods).every((pod) => stamps(pod)[0] === 'web')).toBe(true);
  });
});

describe('the numbers of a budget', () => {
  it('PUB-10, PUB-11: of a target are those of its pods and replicas, of whatever kind it is', async () => {
    for (const resource of [deployments, replicaSets, kubeResource.statefulSets, cloneSets, statefulSets]) {
      const owner = resource === deployments ? by(replicaSets) : by(resource);
      const members = [aMember('a', { owner }), aMember('b', { owner }), aMember('c', { owner: by(deployments, 'x') })];
      const prepare = (cluster: MemoryCluster) => {
        if (resource !== deployments) workload(cluster, resource, 3);
      };
      const { shows } = await run({ members, prepare, spec: targetOf(resource) });
      await shows([3, 2, 2, 0]);
    }
  });

  it('PUB-11, PUB-20a: are 0 at once when the target is scaled to 0, is being deleted, or does not exist', async () => {
    const { cluster, shows } = await run({ spec: targetOf(deployments) });
    await shows([3, 2, 3, 1]);
    workload(cluster, deployments, 0);
    await shows([0, 0, 0, 0]);
    workload(cluster, deployments, 2);
    await shows([2, 1, 3, 2]);
    workload(cluster, deployments, 2, undefined, { deletionTimestamp: '2026-01-01T00:01:00Z' });
    await shows([0, 0, 0, 0]);
    cluster.remove(deployments, { namespace: 'shop', name: 'web' });
    workload(cluster, deployments, 3, undefined, { uid: 'Deployment/web' });
    await shows([3, 2, 3, 1]);
    cluster.remove(deployments, { namespace: 'shop', name: 'web' });
    await shows([0, 0, 0, 0]);
  });

  it('PUB-10, PUB-11: of a custom kind are those of its scale subresource, and of pods by its selector', async () => {
    const games = { group: 'test.io', version: 'v1', plural: 'games', kind: 'Game', namespaced: true };
    const prepare = (cluster: MemoryCluster) => {
      cluster.serve(games, { hasScale: true });
      const metadata = { namespace: 'shop', name: 'web', uid: 'Game/web' };
      cluster.put(games, { metadata, spec: { replicas: 5 }, status: { selector: 'app=web' } });
    };
    const members = [aMember('a'), aMember('b', { isStamped: false })];
    const { shows, pod } = await run({ members, prepare, spec: targetOf(games) });
    await shows([5, 4, 2, 0]);
    expect(stamps(pod('b'))[0]).toBe('web');
  });

  it('PUB-12: stay as they are where the kind is unknown, which an Event says', async () => {
    const status = { currentAvailable: 7, desiredAvailable: 6, totalReplicas: 7, unavailableAllowed: 1 };
    const unknown = { group: 'test.io', version: 'v1', plural: 'games', kind: 'Game', namespaced: true };
    const { told, numbers, failures, writes } = await run({ spec: targetOf(unknown), status });
    await waitFor('the Event', () => told().length > 0);
    await waitFor('the failure', () => failures.length > 0);
    expect(told()).toEqual(['PodUnavailableBudget/web CalculateExpectedPodCountFailed']);
    expect(failures[0]).toContain('Cannot read Game of test.io/v1: the API server does not know this kind');
    expect([numbers(), to(writes, 'podunavailablebudgets')]).toEqual([[7, 6, 7, 1], []]);
  });

  it('PUB-12: of a kind without a scale subresource are unknown, unless the budget says how many are expected', async () => {
    const games = { group: 'test.io', version: 'v1', plural: 'games', kind: 'Game', namespaced: true };
    const prepare = (cluster: MemoryCluster) => {
      cluster.serve(games);
      cluster.put(games, { metadata: { namespace: 'shop', name: 'web', uid: 'Game/web' }, spec: { replicas: 5 } });
    };
    const members = ['a', 'b'].map((name) => aMember(name, { owner: by(games) }));
    const { shows, cluster } = await run({ members, prepare, spec: targetOf(games) });
    await shows([-1, 0, 2, 2]);
    putBudget(cluster, { ...targetOf(games), protectTotalReplicas: 3 });
    await shows([3, 2, 2, 0]);
  });

  it('PUB-13: of a selector are the replicas of all workloads of its pods, each once', async () => {
    const prepare = (cluster: MemoryCluster) => workload(cluster, cloneSets, 2);
    const owner = by(cloneSets);
    const members = [aMember('a'), aMember('b'), aMember('c', { owner }), aMember('d', { ownerReferences: [] })];
    const { shows, cluster } = await run({ members, prepare });
    await shows([5, 4, 4, 0]);
    workload(cluster, cloneSets, 1);
    await shows([4, 3, 4, 1]);
    cluster.remove(cloneSets, { namespace: 'shop', name: 'web' });
    await shows([3, 2, 4, 2]);
  });

  it('PUB-13: need no owner where the budget says how many pods are expected', async () => {
    const { shows, cluster } = await run({ spec: { protectTotalReplicas: 10 } });
    await shows([10, 9, 3, 0]);
    expect(cluster.calls.filter((call) => call.startsWith('get'))).toEqual([]);
  });

  it('PUB-13a: are 0 once the Deployment is gone, although its ReplicaSet is still there', async () => {
    const { shows, cluster } = await run({ spec: { maxUnavailable: 0 } });
    await shows([3, 3, 3, 0]);
    cluster.remove(deployments, { namespace: 'shop', name: 'web' });
    await shows([0, 0, 3, 3]);
  });

  it('PUB-16: leave out pods that are not ready, being deleted or recorded', async () => {
    const members = [aMember('a'), aMember('b', notReady), aMember('c', leaving), aMember('d')];
    const status = { disruptedPods: { d: timestamp(startMs - 5_000) } };
    const { shows, budget } = await run({ members, status });
    await shows([3, 2, 1, 0]);
    expect(budget()?.status?.disruptedPods).toEqual({ d: timestamp(startMs - 5_000) });
  });

  it('PUB-13: fail of pods with more controllers than are read, and other budgets are counted', async () => {
    const members = Array.from({ length: 1_001 }, (_, at) => aMember(`p-${at}`, { owner: by(replicaSets, `r-${at}`) }));
    const labels = { app: 'else' };
    const prepare = (cluster: MemoryCluster) => {
      putBudget(cluster, { selector: { matchLabels: labels } }, undefined, 'else');
      cluster.put(pods, aMember('else', { labels }));
    };
    const { shows, failures, numbers } = await run({ members, prepare });
    await shows([3, 2, 1, 0], 'else');
    await waitFor('the failure', () => failures.length > 0);
    expect(failures[0]).toContain('there are 1001 of them: set spec.protectTotalReplicas');
    expect(numbers()).toEqual([undefined, undefined, undefined, undefined]);
  });
});

describe('entries in the status', () => {
  it('PUB-19: end after their time without any other reason, and an Event names a pod that is still there', async () => {
    const entered = (seconds: number) => timestamp(startMs - seconds * 1000);
    const status = {
      disruptedPods: { a: entered(19.9), gone: entered(1) },
      unavailablePods: { b: entered(9.9) },
      totalReplicas: 3,
    };
    const beganAtMs = performance.now();
    const now = () => startMs + performance.now() - beganAtMs;
    const { shows, budget, told } = await run({ status, now });
    await shows([3, 2, 3, 1]);
    expect(budget()?.status).not.toHaveProperty('disruptedPods');
    expect(budget()?.status).not.toHaveProperty('unavailablePods');
    await waitFor('the Event', () => told().length > 0);
    expect(told()).toEqual(['Pod/a NotDeleted']);
  });
});

describe('wake-ups of a budget', () => {
  it('PUB-20: are new pods, pods that turn ready or not, and pods that are being deleted, but not their removal', async () => {
    const { shows, cluster, writes } = await run();
    await shows([3, 2, 3, 1]);
    cluster.put(pods, aMember('a', notReady));
    await shows([3, 2, 2, 0]);
    cluster.put(pods, aMember('a'));
    await shows([3, 2, 3, 1]);
    cluster.put(pods, aMember('b', { labels: { ...app, 'unavailable-pod.kruise.io/drain': 'true' } }));
    await shows([3, 2, 2, 0]);
    cluster.put(pods, aMember('c', leaving));
    await shows([3, 2, 1, 0]);
    cluster.put(pods, aMember('d', { owner: by(cloneSets) }));
    await shows([3, 2, 2, 0]);
    cluster.put(pods, aMember('d', { owner: by(cloneSets), ...leaving }));
    await shows([3, 2, 1, 0]);
    const before = writes.length;
    for (const name of ['c', 'd']) cluster.remove(pods, { namespace: 'shop', name });
    cluster.put(pods, aMember('else', { labels: { app: 'else' } }));
    await settled();
    expect(writes).toHaveLength(before);
    cluster.remove(pods, { namespace: 'shop', name: 'a' });
    await shows([3, 2, 0, 0]);
  });

  it('PUB-20, PUB-20a: are the replicas of workloads that are built in or ours', async () => {
    for (const resource of [deployments, kubeResource.statefulSets, cloneSets, statefulSets]) {
      const owner = resource === deployments ? by(replicaSets) : by(resource);
      const members = ['a', 'b', 'c'].map((name) => aMember(name, { owner }));
      const prepare = (cluster: MemoryCluster) => workload(cluster, resource, 3);
      const { shows, cluster, writes } = await run({ members, prepare });
      await shows([3, 2, 3, 1]);
      workload(cluster, resource, 4);
      await shows([4, 3, 3, 0]);
      const before = writes.length;
      workload(cluster, resource, 4, undefined, { labels: { touched: 'yes' } });
      await settled();
      expect(writes).toHaveLength(before);
    }
  });

  it('PUB-20: is a change of the budget itself', async () => {
    const { shows, cluster } = await run();
    await shows([3, 2, 3, 1]);
    putBudget(cluster, { maxUnavailable: '100%' });
    await shows([3, 0, 3, 3]);
  });

  it('PUB-20, report 1857: are the first pods of a budget that was there before them, stamped or not', async () => {
    const { shows, cluster, told } = await run({ members: [] });
    await shows([0, 0, 0, 0]);
    await waitFor('the Event', () => told().length > 0);
    expect(told()).toEqual(['PodUnavailableBudget/web NoPods']);
    cluster.put(pods, aMember('a', { isStamped: false }));
    await shows([3, 2, 1, 0]);
  });

  it('watches Deployments and StatefulSets from the first budget on', async () => {
    const cluster = new MemoryCluster();
    const running = await runController(podUnavailableBudgetController, { cluster });
    started.push(running);
    const lists = () => cluster.calls.filter((call) => call === 'list deployments/');
    await settled();
    expect(lists()).toEqual([]);
    putBudget(cluster);
    await waitFor('the list', () => lists().length === 1);
    putBudget(cluster, {}, undefined, 'second');
    await settled();
    expect(lists()).toHaveLength(1);
  });

  it('does nothing while both gates are off', async () => {
    const gates = 'PodUnavailableBudgetDeleteGate=false';
    const { cluster, numbers } = await run({ gates });
    await settled();
    expect([cluster.calls, numbers()[0]]).toEqual([[], undefined]);
  });
});

describe('the candidates of a budget', () => {
  const budget = { metadata: { namespace: 'shop', uid: 'pub-web' } } as PodUnavailableBudget;
  const candidates = (...all: readonly Pod[]) =>
    new CandidatePods({
      byIndex: () => all,
      byUid: (uid) => all.find(({ metadata }) => metadata.uid === uid),
    });

  it('PUB-20: have changed with pods that come, differ, leave the selection or end, and not with what follows', () => {
    const pod = aMember('a');
    const [other, gone] = [aMember('b', { labels: { app: 'else' } }), aMember('a', leaving)];
    const found = candidates(pod, other);
    expect(found.saw(budget, { before: pod, after: pod }, true)).toBe(false);
    expect(found.saw(budget, { before: pod, after: pod }, false)).toBe(true); // nothing is known of it yet
    expect(found.of(budget, selector)).toEqual([pod]);
    expect(found.saw(budget, { before: pod, after: pod }, true)).toBe(false);
    expect(found.saw(budget, { before: pod, after: pod }, false)).toBe(true);
    expect(found.saw(budget, { after: other }, false)).toBe(false);
    expect(
      found.saw(budget, { before: other, after: { ...other, metadata: { ...other.metadata, labels: app } } }, true),
    ).toBe(true);
    expect(found.of(budget, selector)).toHaveLength(2);
    expect(found.saw(budget, { before: pod, after: gone }, false)).toBe(true);
    expect(found.saw(budget, { before: gone }, true)).toBe(false);
    expect(found.of(budget, selector)).toEqual([other]);
    expect(found.of(budget, undefined)).toEqual([pod, other]);
  });
});

describe('a pass over a budget', () => {
  it.each([
    ['is repeated after the time that owners are kept, if one of them was read before it began', 9, ownersKeptMs],
    ['needs no other one, if all of them were read in it', 10, undefined],
  ])('%s', async (_, readAtMs, againInMs) => {
    const cluster = new MemoryCluster();
    putBudget(cluster, targetOf(replicaSets));
    const budget = cluster.look<PodUnavailableBudget>(podUnavailableBudgets, { namespace: 'shop', name: 'web' });
    const target = { ...by(replicaSets), isGone: false, replicas: 3, isKnownKind: true, readAtMs };
    const cache = { byUid: () => undefined, byIndex: () => [], seen: async () => undefined };
    const result = await passOverBudget('pub-web', {
      ...{ kube: cluster.client(), log: pino({ level: 'silent' }), now: () => startMs, gates: parseFeatureGates('') },
      budgets: { ...cache, byUid: () => budget },
      pods: cache,
      candidates: new CandidatePods(cache),
      owners: { named: async () => target, from: async () => [], now: () => 10 },
      counted: new Map(),
      events: new EventBudget(() => startMs),
      passedOver: new RecentlySeen(1),
    });
    expect(result?.againInMs).toBe(againInMs);
  });
});

describe('writes of the status', () => {
  const isStatus = ({ verb, plural }: SeenCall) => verb === 'patch' && plural === 'podunavailablebudgets';

  it('PUB-21: take back nothing that admission has taken meanwhile', async () => {
    const taken = { c: timestamp(startMs) };
    let isTaken = false;
    let cluster = new MemoryCluster();
    const { shows, budget, writes, failures } = await run({
      meet: (call) => {
        if (!isStatus(call) || isTaken) return;
        isTaken = true;
        putBudget(cluster, {}, { unavailablePods: taken });
      },
      prepare: (made) => {
        cluster = made;
      },
    });
    await shows([3, 2, 2, 0]);
    expect(budget()?.status?.unavailablePods).toEqual(taken);
    expect(to(writes, 'podunavailablebudgets')).toHaveLength(2);
    expect(failures).toEqual([]);
  });

  it('PUB-21: are tried again after conflicts', async () => {
    let conflicts = 3;
    const { shows, failures } = await run({
      meet: (call) => {
        if (isStatus(call) && conflicts-- > 0) throw conflict();
      },
    });
    await shows([3, 2, 3, 1]);
    expect(failures).toEqual([]);
  });

  it('are made once although the answer is lost', async () => {
    let isLost = false;
    let cluster = new MemoryCluster();
    const { shows, writes, controller, failures } = await run({
      meet: (call) => {
        if (!isStatus(call) || isLost) return;
        isLost = true;
        const { status } = call.body as { readonly status: PodUnavailableBudgetStatus };
        putBudget(cluster, {}, status);
        throw unavailable();
      },
      prepare: (made) => {
        cluster = made;
      },
    });
    await shows([3, 2, 3, 1]);
    await waitFor('the failure', () => failures.length === 1);
    controller.wantAll();
    await settled();
    expect(to(writes, 'podunavailablebudgets')).toEqual([]);
  });

  it('are not repeated while nothing has changed', async () => {
    const { shows, writes, controller, cluster: world } = await run();
    await shows([3, 2, 3, 1]);
    for (let times = 0; times < 3; times++) {
      controller.wantAll();
      world.put(pods, aMember('a', { labels: { ...app, touched: String(times) } }));
      await settled();
    }
    expect(writes.map(({ plural }) => plural)).toEqual(['podunavailablebudgets']);
  });

  it('are not made by a watcher that does not lead', async () => {
    const { writes, controller } = await run({ isLeading: () => false });
    controller.wantAll();
    await settled();
    expect(writes).toEqual([]);
  });
});
