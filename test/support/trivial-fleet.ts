import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { KubeError } from '../../kube/failures.ts';
import { NotLeading } from '../../kube/fence.ts';
import { waitFor } from '../../plan/decision.ts';
import type { FleetPlan, NamedPod, NamedPods, Permit, RollOutWanted, Standing } from '../../plan/fleet/permit.ts';
import { isHeld, ordersFor, toldOrders } from '../../plan/fleet/roll-out-orders.ts';
import type { FleetKind, Seen } from '../../watcher/fleet/kind.ts';

/** The least that can be rolled out: so many pods, all of one revision, some of which may be down. */
export interface TrivialFleet {
  readonly uid: string;
  readonly replicas: number;
  readonly revision: string;
  readonly maxUnavailable: number;
  /** How long a pod has to be ready before it counts. */
  readonly minReadyMs: number;
  /** Absent until it is put into a cluster. */
  readonly generation?: number;
  /** What operators have decided; absent: nothing. */
  readonly orders?: RollOutOrders;
}

export interface TrivialPod {
  readonly name: string;
  readonly revision: string;
  readonly readyAtMs?: number;
}

export interface TrivialWorld {
  readonly fleet: TrivialFleet;
  readonly pods: readonly TrivialPod[];
}

export type TrivialStep =
  | { readonly kind: 'create'; readonly name: string }
  | { readonly kind: 'delete'; readonly name: string }
  | { readonly kind: 'restart'; readonly name: string };

/** What has been written to a pod. */
export interface TrivialWrite {
  /** Of the fleet. */
  readonly uid: string;
  readonly kind: TrivialStep['kind'];
  readonly name: string;
  /** What the pod is to become. */
  readonly revision: string;
  /** How many pods of the fleet are not ready after this write. */
  readonly unready: number;
}

/** Makes and removes pods without a permit; under one restarts pods of another revision, within the budget. */
export function planTrivialFleet(
  { fleet, pods }: TrivialWorld,
  permit: Permit | undefined,
  nowMs: number,
): FleetPlan<TrivialStep> {
  const target = targetOf(fleet);
  const orders = ordersNow(fleet);
  const { skip = [] } = orders ?? {};
  const unavailable = pods.filter((pod) => !isAvailable(pod, fleet, nowMs));
  const nextReady = unavailable.flatMap(({ readyAtMs }) =>
    readyAtMs === undefined ? [] : [readyAtMs + fleet.minReadyMs],
  );
  const again = nextReady.length === 0 ? {} : { againInMs: Math.min(...nextReady) - nowMs };
  const rolled = pods.filter(({ revision }) => revision === target);
  const upkeep = replicaSteps(fleet, pods);
  const rollOut = wantedOf({ fleet, pods });
  const rest = (standing: Standing): FleetPlan<TrivialStep> => ({
    ...{ upkeep, disruption: [], standing, rollOut },
    ...again,
  });

  if (!permit) return rest({ kind: 'working' });
  const done = rolled.filter((pod) => isAvailable(pod, fleet, nowMs)).length;
  const summary = `${done} of ${fleet.replicas} pods are of revision ${target}`;
  const allDone = { kind: 'allDone', summary } as const;
  const namedNow = (begun: readonly TrivialPod[]) => namedIn({ fleet, pods }, { permit, begun, done, nowMs });
  if (done === fleet.replicas) return { ...rest(allDone), named: namedNow([]) };
  if (orders?.aborted) return { ...rest({ kind: 'aborted', summary }), named: namedNow([]) };
  if (isHeld(orders)) {
    const waits = rest({ kind: 'waiting', wait: waitFor('PausedByOperator', [], 'Resume the roll-out') });
    return { ...waits, named: namedNow([]) };
  }

  // A pod that is down already costs the budget nothing more when it is restarted.
  const room = fleet.maxUnavailable - unavailable.length;
  const left = pods.filter(({ name, revision }) => revision !== target && !skip.includes(name));
  const promised = left.filter(({ name }) => permit.pods.get(name) === target);
  const inTurn = [...promised, ...left.filter((pod) => !promised.includes(pod))];
  const broken = inTurn.filter((pod) => unavailable.includes(pod));
  const sound = inTurn.filter((pod) => !unavailable.includes(pod)).slice(0, Math.max(0, room));
  const may = [...broken, ...sound];
  const begun = may.filter((pod) => promised.includes(pod));
  const disruption = begun.map(({ name }): TrivialStep => ({ kind: 'restart', name }));
  const plan = (standing: Standing) => ({ upkeep, disruption, standing, rollOut, named: namedNow(begun), ...again });
  const [next, ...others] = permit.chooses
    ? may.filter((pod) => !promised.includes(pod)).map(({ name }) => chosen(name))
    : [];
  if (next) return plan({ kind: 'pods', revision: target, pods: [next, ...others], more: false });
  if (disruption.length > 0) return plan({ kind: 'working' });
  if (left.length === 0 && done + skip.length >= fleet.replicas) return plan(allDone);
  const names = unavailable.map(({ name }) => `Pod/${name}`);
  return plan({ kind: 'waiting', wait: waitFor('BudgetSpent', names, 'Raise maxUnavailable, or fix these pods') });
}

function chosen(name: string) {
  return { namespace: 'shop', name, uid: name, how: 'inPlace', containers: [['app']] } as const;
}

function namedIn(
  { fleet, pods }: TrivialWorld,
  at: {
    readonly permit: Permit;
    readonly begun: readonly TrivialPod[];
    readonly done: number;
    readonly nowMs: number;
  },
): NamedPods {
  const stand = (pod: TrivialPod): NamedPod => {
    if (pod.revision === at.permit.pods.get(pod.name)) {
      return isAvailable(pod, fleet, at.nowMs) ? { state: 'done' } : { state: 'underWay', doing: 'not ready' };
    }
    if (ordersNow(fleet)?.skip?.includes(pod.name)) return { state: 'skipped' };
    return at.begun.includes(pod) ? { state: 'next' } : { state: 'notNow', why: 'the budget has no room for it' };
  };
  const known = pods.filter(({ name }) => at.permit.pods.has(name));
  const updated = pods.filter(({ revision }) => revision === targetOf(fleet)).length;
  return {
    to: targetOf(fleet),
    pods: new Map(known.map((pod) => [pod.name, stand(pod)])),
    awaited: 0,
    progress: { of: fleet.replicas, updated, ready: at.done },
  };
}

function wantedOf({ fleet, pods }: TrivialWorld): RollOutWanted {
  const { generation = 1, revision, replicas } = fleet;
  const orders = toldOrders(ordersNow(fleet));
  const skip = ordersNow(fleet)?.skip ?? [];
  const isLeft = pods.some((pod) => pod.revision !== targetOf(fleet) && !skip.includes(pod.name));
  return {
    facts: { generation, revision, previous: 'old', replicas, ...(orders && { orders }) },
    isWanted: isLeft && !orders?.aborted,
    isRolledOut: !isLeft,
  };
}

/** An operator may have taken the revision back. */
function targetOf(fleet: TrivialFleet): string {
  return ordersNow(fleet)?.undo?.to ?? fleet.revision;
}

function ordersNow({ revision, orders }: TrivialFleet): RollOutOrders | undefined {
  return ordersFor(orders, revision);
}

function isAvailable({ readyAtMs }: TrivialPod, { minReadyMs }: TrivialFleet, nowMs: number): boolean {
  return readyAtMs !== undefined && readyAtMs + minReadyMs <= nowMs;
}

function replicaSteps({ replicas }: TrivialFleet, pods: readonly TrivialPod[]): readonly TrivialStep[] {
  const names = new Set(pods.map(({ name }) => name));
  const wanted = Array.from({ length: replicas }, (_, index) => `pod-${index}`);
  return [
    ...wanted.filter((name) => !names.has(name)).map((name): TrivialStep => ({ kind: 'create', name })),
    ...[...names].filter((name) => !wanted.includes(name)).map((name): TrivialStep => ({ kind: 'delete', name })),
  ];
}

/**
 * A cluster of trivial fleets in memory: what has been written, and a cache that shows it later. Tests play the kubelet by
 * `makeReady` and the network by `failNext`.
 */
export class TrivialCluster {
  readonly #written = new Map<string, TrivialWorld>();
  readonly #shown = new Map<string, TrivialWorld>();
  readonly #waiting = new Set<() => void>();
  /** Every write that was asked for, in order. */
  readonly steps: TrivialStep[] = [];
  /** Every write that was made, in order. */
  readonly writes: TrivialWrite[] = [];
  /** Called after the cache has shown something new about a fleet, as a reflector calls its listeners. */
  onShown: (uid: string) => void = () => undefined;
  /** False: writes stay unseen until `show` is called. */
  showsAtOnce = true;
  /** Asked before each write; throws in place of it. */
  beforeWrite: (step: TrivialStep, uid: string) => void | Promise<void> = () => undefined;
  /** Called when the roll-out of a fleet has to ask. */
  onWake: (uid: string) => void = () => undefined;
  /** True: a write that was decided for an earlier state of its pod is refused as a conflict. */
  refusesStale = false;

  put(fleet: TrivialFleet): void {
    const before = this.#written.get(fleet.uid);
    const generation = (before?.fleet.generation ?? 0) + 1;
    this.#write(fleet.uid, { fleet: { ...fleet, generation }, pods: before?.pods ?? [] });
  }

  /** Writes what operators have ordered, as the status of a real fleet. */
  order(uid: string, orders: RollOutOrders | undefined): void {
    const world = this.#written.get(uid);
    if (!world) return;
    const { orders: _, ...fleet } = world.fleet;
    this.#write(uid, { ...world, fleet: { ...fleet, ...(orders && { orders }) } });
  }

  /** The fleets that the cache shows. */
  shown(): readonly string[] {
    return [...this.#shown.keys()];
  }

  fleetOf(uid: string): TrivialFleet | undefined {
    return this.#written.get(uid)?.fleet;
  }

  remove(uid: string): void {
    this.#written.delete(uid);
    this.#wrote(uid);
  }

  makeReady(uid: string, name: string, readyAtMs: number): void {
    this.#writePods(uid, (pods) => pods.map((pod) => (pod.name === name ? { ...pod, readyAtMs } : pod)));
  }

  breakDown(uid: string, name: string): void {
    const broken = ({ name: own, revision }: TrivialPod): TrivialPod => ({ name: own, revision });
    this.#writePods(uid, (pods) => pods.map((pod) => (pod.name === name ? broken(pod) : pod)));
  }

  /** What is true, whatever the cache shows. */
  pods(uid: string): readonly TrivialPod[] {
    return this.#written.get(uid)?.pods ?? [];
  }

  /** Lets the cache show all that has been written. */
  show(): void {
    const changed = new Set([...this.#written.keys(), ...this.#shown.keys()]);
    for (const uid of changed) {
      const world = this.#written.get(uid);
      if (world === this.#shown.get(uid)) continue;
      if (world) this.#shown.set(uid, world);
      else this.#shown.delete(uid);
      this.onShown(uid);
    }
    for (const resume of [...this.#waiting]) resume();
    this.#waiting.clear();
  }

  /** The fleet kind that works on this cluster, for one leader. */
  fleet(
    isLeading: () => boolean = () => true,
    /** The orders of a fleet with what operators hold besides. */
    ordersOf: (uid: string) => RollOutOrders | undefined = (uid) => this.#shown.get(uid)?.fleet.orders,
  ): FleetKind<TrivialWorld, TrivialStep> {
    return {
      kind: 'TrivialFleet',
      look: (uid) => {
        const world = this.#shown.get(uid);
        const orders = ordersOf(uid);
        return world && orders ? { ...world, fleet: { ...world.fleet, orders } } : world;
      },
      plan: planTrivialFleet,
      podOf: ({ name }) => ({ namespace: 'shop', name, uid: name }),
      isForbidden: (uid, { name }) => {
        const { fleet } = this.#shown.get(uid) ?? {};
        const orders = fleet && ordersFor(ordersOf(uid), fleet.revision);
        return isHeld(orders) || orders?.skip?.includes(name) === true;
      },
      wake: (uid) => this.onWake(uid),
      act: async (step, { fleet, pods: seen }) => {
        const { uid } = fleet;
        await this.beforeWrite(step, uid);
        if (!isLeading()) throw new NotLeading('this watcher is not the leader');
        if (this.refusesStale && podOf(seen, step) !== podOf(this.pods(uid), step)) {
          throw new KubeError({ status: 409, reason: 'Conflict', message: `${step.name} has been modified` });
        }
        this.steps.push(step);
        const revision = targetOf(fleet);
        const after = podsAfter(this.pods(uid), step, revision);
        const unready = after.filter(({ readyAtMs }) => readyAtMs === undefined).length;
        this.writes.push({ uid, kind: step.kind, name: step.name, revision, unready });
        this.#writePods(uid, () => after);
        return this.#seen(uid);
      },
      catchUp: (uid, signal) => this.#seen(uid)(signal),
    };
  }

  #seen(uid: string): Seen {
    const world = this.#written.get(uid);
    if (world === this.#shown.get(uid)) return () => Promise.resolve();
    return (signal) =>
      new Promise((resolve, reject) => {
        if (world === this.#shown.get(uid)) return resolve();
        this.#waiting.add(resolve);
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
  }

  #writePods(uid: string, change: (pods: readonly TrivialPod[]) => readonly TrivialPod[]): void {
    const world = this.#written.get(uid);
    if (world) this.#write(uid, { ...world, pods: change(world.pods) });
  }

  #write(uid: string, world: TrivialWorld): void {
    this.#written.set(uid, world);
    this.#wrote(uid);
  }

  #wrote(_uid: string): void {
    if (this.showsAtOnce) this.show();
  }
}

function podOf(pods: readonly TrivialPod[], step: TrivialStep): TrivialPod | undefined {
  return pods.find(({ name }) => name === step.name);
}

function podsAfter(pods: readonly TrivialPod[], step: TrivialStep, revision: string): readonly TrivialPod[] {
  const others = pods.filter(({ name }) => name !== step.name);
  return step.kind === 'delete' ? others : [...others, { name: step.name, revision }];
}
