import { Clock } from './clock.ts';
import { Cluster, type Fleet, standing } from './cluster.ts';
import { type Delays, Leader } from './leader.ts';
import { type HandedOver, Operation } from './operation.ts';
import { type Command, type CommandName, type Rules, rules } from './protocol.ts';
import { calm, type Fate, Temporal } from './temporal.ts';

export interface Setting {
  readonly fleet: Fleet;
  readonly delays: Delays;
  readonly fates: {
    readonly signals: readonly Fate[];
    readonly results: readonly Fate[];
    readonly tasks: readonly Fate[];
  };
}

export const quick: Delays = { drainMs: [1], writeMs: [4], cacheMs: [3] };

export const plain: Setting = {
  fleet: { size: 6, maxUnavailable: 2, readyAfterMs: 1_000 },
  delays: quick,
  fates: calm,
};

/** How the term of a watcher ends: it knows, its clock tells it, it goes on answering, it hangs, it is gone. */
export type Ends = 'clean' | 'fenced' | 'unaware' | 'frozen' | 'crashed';

/** What may happen to a play. */
export type Act =
  | { readonly act: 'elapse'; readonly ms: number }
  | { readonly act: 'newLeader'; readonly old: Ends; readonly gapMs: number }
  | { readonly act: 'reset' | 'pauseActivity' | 'cancelActivity' | 'breakDown'; readonly at: number }
  | { readonly act: 'command' | 'annotate'; readonly name: CommandName }
  | {
      readonly act:
        | 'edit'
        | 'delete'
        | 'terminate'
        | 'handOver'
        | 'unpauseActivities'
        | 'loseTemporal'
        | 'temporalIsBack'
        | 'refuseItems'
        | 'refuseOrders'
        | 'acceptAll';
    };

/** Longer than the slowest write takes: the leases of two terms lie so far apart. */
const betweenTermsMs = 1_000;
/** By then a watcher knows that its term is over. */
const unawareMs = 8_000;

/** One object, its operation, and watchers that lead one after the other. */
export class Play {
  readonly clock = new Clock();
  readonly cluster: Cluster;
  readonly temporal: Temporal;
  readonly leaders: Leader[] = [];
  readonly #rules: Rules;
  readonly #delays: Delays;
  #term = 0;
  #commands = 0;

  constructor({ fleet, delays, fates }: Setting = plain, changed: Partial<Rules> = {}) {
    this.#rules = { ...rules, ...changed };
    this.#delays = delays;
    this.cluster = new Cluster(this.clock, fleet);
    this.temporal = new Temporal(
      this.clock,
      (ports, before) => new Operation(ports, this.#rules, before as HandedOver | undefined),
    );
    this.temporal.fates = fates;
    this.cluster.onChange = () => this.leader?.changed();
    this.temporal.onBack = () => this.leader?.temporalIsBack();
    this.#lead();
    this.clock.elapse(100);
  }

  get leader(): Leader | undefined {
    return this.leaders.findLast(({ mode }) => mode === 'leads');
  }

  do(one: Act): void {
    switch (one.act) {
      case 'elapse':
        this.clock.elapse(one.ms);
        break;
      case 'newLeader':
        this.newLeader(one.old, one.gapMs);
        break;
      case 'reset':
        this.temporal.reset(one.at);
        break;
      case 'pauseActivity':
        this.temporal.pauseActivity(one.at);
        break;
      case 'cancelActivity':
        this.temporal.cancelActivity(one.at);
        break;
      case 'breakDown':
        this.cluster.breakDown(`i${one.at % this.cluster.fleet.size}`);
        break;
      case 'command':
        this.command(one.name);
        break;
      case 'annotate':
        this.leader?.annotated({ ...this.#command(one.name) });
        break;
      case 'edit':
        this.cluster.edit();
        break;
      case 'delete':
        this.cluster.remove();
        break;
      case 'terminate':
        this.temporal.terminate();
        break;
      case 'handOver':
        this.temporal.handOver();
        break;
      case 'unpauseActivities':
        this.temporal.unpauseActivities();
        break;
      case 'loseTemporal':
        this.temporal.setAway(true);
        break;
      case 'temporalIsBack':
        this.temporal.setAway(false);
        break;
      case 'refuseItems':
        this.cluster.refuses = { ...this.cluster.refuses, items: true };
        break;
      case 'refuseOrders':
        this.cluster.refuses = { ...this.cluster.refuses, orders: true };
        break;
      case 'acceptAll':
        this.cluster.refuses = { items: false, orders: false };
    }
  }

  /** The new one begins after the gap. */
  newLeader(old: Ends, gapMs = 0): void {
    const before = this.leader;
    if (before === undefined) return;
    switch (old) {
      case 'clean':
        before.end();
        break;
      case 'crashed':
        before.mode = 'dead';
        this.temporal.died(before);
        break;
      case 'fenced':
      case 'unaware':
      case 'frozen':
        before.mode = old;
        this.clock.after(unawareMs + gapMs, () => before.end());
    }
    this.clock.after(betweenTermsMs + gapMs, () => this.#lead());
  }

  /** An operator sees the orders as they are, and takes back a hold before an undo. */
  command(name: CommandName): Command {
    const startsRun = name !== 'pause' && name !== 'abort';
    const command = this.#command(name);
    this.temporal.command(command, startsRun);
    return command;
  }

  #command(name: CommandName): Command {
    const { orders } = this.cluster;
    const holds = standing(orders, 'pause', 'abort');
    const forResume = holds.length > 0 ? holds : standing(orders, 'undo');
    const takesBack = name === 'resume' ? forResume : name === 'undo' ? standing(orders, 'abort') : [];
    return { key: `${name} ${++this.#commands}`, name, takesBack };
  }

  /** All faults are over. */
  calm(): void {
    this.temporal.fates = calm;
    this.cluster.refuses = { items: false, orders: false };
    this.temporal.setAway(false);
    this.temporal.unpauseActivities();
  }

  get wrongs(): readonly string[] {
    return [...this.cluster.wrongs, ...this.temporal.wrongs];
  }

  get isHeld(): boolean {
    return standing(this.cluster.orders, 'pause', 'abort').length > 0;
  }

  /** Whether nothing is left that has not got what it is to get. */
  get isRolledOut(): boolean {
    const { isDeleted, orders, revision, previous, items } = this.cluster;
    const target = standing(orders, 'undo').length === 0 ? revision : previous;
    return isDeleted || [...items.values()].every((item) => item.revision === target && this.cluster.isAvailable(item));
  }

  #lead(): void {
    const { clock, cluster, temporal } = this;
    const delays = this.#delays;
    for (const { mode } of this.leaders) if (mode === 'leads') return;
    const leader = new Leader(++this.#term, { clock, cluster, temporal, rules: this.#rules, delays });
    this.leaders.push(leader);
    temporal.pollers.push(leader);
  }
}
