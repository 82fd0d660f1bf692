import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { sameJson } from '../../api/base/json.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { batchOf, type PodOutcome } from '../../plan/fleet/batch.ts';
import type { ChoiceVerdict, Leave } from '../../plan/fleet/permit.ts';
import {
  type Asked,
  begun,
  heard,
  type InFlight,
  isOver,
  meantBy,
  type RollOutNews,
  type RollOutProgress,
  wantedChoice,
} from '../../plan/fleet/roll-out.ts';
import {
  heldBy,
  isHeld,
  keptOrders,
  type OrderCommand,
  ordersAfter,
  ordersFor,
  toldOrders,
  undoOf,
} from '../../plan/fleet/roll-out-orders.ts';
import { permitForAll } from '../support/permits.ts';

const replicas = 6;

interface Fleet {
  readonly generation: number;
  readonly revision: string;
  readonly pods: readonly string[];
  readonly orders: RollOutOrders | undefined;
}

interface Run {
  readonly progress: RollOutProgress;
  /** What it has heard and not yet read. */
  readonly inbox: readonly RollOutNews[];
}

/**
 * One fleet between a user, an operator, a watcher whose cache is behind, and runs of the roll-out that may be terminated
 * or forgotten by Temporal at any time.
 */
class Play {
  fleet: Fleet = { generation: 1, revision: 'r1', pods: Array(replicas).fill('r1'), orders: undefined };
  cached: Fleet = this.fleet;
  run: Run | undefined;
  /** What the run asks. */
  held: Asked | undefined;
  /** The batches that it has handed in. */
  batches: readonly InFlight[] = [];
  /** What the last question allowed. */
  leave: Leave | undefined;
  readonly story: string[] = [];
  #revisions = 1;
  #ms = 0;

  #say(what: string): void {
    this.story.push(what);
  }

  changeSpec(): void {
    const revision = `r${++this.#revisions}`;
    this.#say(`the user wants ${revision}`);
    this.fleet = { ...this.fleet, generation: this.fleet.generation + 1, revision };
  }

  /** By signal to the run, or by an annotation that starts one. */
  command(name: OrderCommand['name']): void {
    this.#say(`${name}${this.run ? '' : ', which starts a run'}`);
    this.run ??= { progress: begun(this.#facts()), inbox: [] };
    const at = new Date(++this.#ms).toISOString();
    const target = name === 'skip' ? 'pod-9' : undefined;
    const meant = meantBy(this.run.inbox.reduce(heard, this.run.progress), { name, target });
    if ('refused' in meant) return;
    this.#put({ kind: 'command', command: { key: `run/${this.#ms}`, name, by: 'ann', at, ...meant } });
  }

  /** The workflow reads its news, writes what has to be written, and hands in what is to be handed in. */
  workflow(): void {
    if (!this.run) return;
    const progress = this.run.inbox.reduce(heard, this.run.progress);
    this.run = { progress, inbox: [] };
    const wanted = wantedChoice(progress);
    const { facts, round } = progress;
    const of = wanted && { leave: wanted.leave, generation: facts.generation, round };
    if (JSON.stringify(of) !== JSON.stringify(this.held)) this.held = of;
    if (of) this.leave = of.leave;
    this.batches = progress.inFlight;
    if (isOver(progress)) {
      this.#say(`the run ends: ${progress.end}`);
      this.#forgetRun();
    }
  }

  /** The activity that applies the first command. Its answer may be lost: then it is called again. */
  apply({ losesAnswer = false } = {}): void {
    const [command] = this.run?.progress.commands ?? [];
    if (command === undefined) return;
    const { revision } = this.fleet;
    const previous = revision === 'r1' ? {} : { previous: 'r1' };
    const { orders } = ordersAfter({ by: '', ...command }, { orders: this.fleet.orders, revision, ...previous });
    if (orders) this.#say(`${command.name} is applied: ${JSON.stringify(orders)}`);
    this.fleet = { ...this.fleet, orders: orders ?? this.fleet.orders };
    // the activity answers once the cache shows what it has written
    this.watch();
    if (losesAnswer) return;
    const told = toldOrders(this.fleet.orders);
    this.#put({ kind: 'applied', key: command.key, orders: told });
  }

  watch(): void {
    this.cached = this.fleet;
  }

  /** A pass of the watcher: it disrupts at most one pod, and judges the permit. */
  watcher(): void {
    const { revision, pods } = this.cached;
    const orders = ordersFor(this.cached.orders, revision);
    const leave = (this.held || this.batches.length > 0) && this.leave ? this.leave : undefined;
    const permit = leave && heldBy(orders, permitForAll(leave.revision, leave), false);
    const undo = undoOf(orders);
    const target = undo?.from === revision ? undo.to : revision;
    const isAtGoal = (pod: string) => (undo?.from === revision ? pod !== revision : pod === revision);
    const old = this.fleet.pods.findIndex((pod) => !isAtGoal(pod));

    const isRolledOut = undo === undefined && pods.every((pod) => pod === revision);
    const { orders: rollOut } = this.cached;
    const kept = keptOrders({ metadata: {}, status: rollOut ? { rollOut } : {} }, { revision, isRolledOut });
    // a write on an old copy is refused
    if (!sameJson(kept, rollOut) && this.cached === this.fleet) {
      this.#say(`the watcher leaves of the orders ${JSON.stringify(kept)}`);
      this.fleet = { ...this.fleet, orders: kept };
    }
    if (permit) for (const batch of this.batches) this.#carryOut(permit, batch, target);
    if (permit && this.held) this.#judge(permit, this.held, { target, old });
    const isLeft = pods.some((pod) => !isAtGoal(pod));
    if (isLeft && !this.run) this.run = { progress: begun(this.#facts()), inbox: [] };
    if (this.run) this.#put({ kind: 'changed', change: this.#facts() });
  }

  #carryOut(permit: Leave, { number, revision, batch }: InFlight, target: string): void {
    const [{ name = '' } = {}] = batch.pods;
    const pod = Number(name.split('-')[1]);
    const may = permit.revision === target && revision === target && !permit.paused;
    const outcome: PodOutcome = { pod: name, how: 'inPlace', ...(!may && { why: 'not now' }) };
    if (may) {
      this.#say(`pod ${pod} becomes ${target}`);
      this.fleet = { ...this.fleet, pods: this.fleet.pods.with(pod, target) };
    }
    this.batches = this.batches.filter((other) => other.number !== number);
    this.#put({ kind: 'carriedOut', number, verdict: { summary: '', pods: [outcome] }, atMs: 0 });
  }

  #judge(permit: Leave, of: Asked, { target, old }: { readonly target: string; readonly old: number }): void {
    const name = `pod-${old}`;
    const isChosen = this.batches.some(({ batch }) => batch.pods.some((pod) => pod.name === name));
    if (permit.revision !== target) {
      this.#told(of, { kind: 'superseded' });
    } else if (old < 0) {
      this.#told(of, { kind: 'allDone', summary: '', arrived: replicas });
    } else if (!permit.paused) {
      const batch = batchOf(target, [{ namespace: 'shop', name, uid: name, how: 'inPlace', containers: [['app']] }]);
      if (!isChosen) this.#told(of, { kind: 'batch', batch, of: replicas, updated: 0 });
    } else if (of.leave.paused) {
      const waitingFor = { reason: 'Held', blockedBy: [], blockedCount: 0, since: '', unblock: '' };
      this.#told(of, { kind: 'blocked', waitingFor });
    }
  }

  #told(of: Asked, verdict: ChoiceVerdict): void {
    this.held = undefined;
    const { orders } = this.#facts();
    this.#put({ kind: 'verdict', verdict: { ...verdict, ...(orders && { orders }) }, of, atMs: 0 });
  }

  #forgetRun(): void {
    this.run = undefined;
    this.held = undefined;
    this.batches = [];
  }

  timer(): void {
    if (this.run?.progress.awaitsFacts) this.#put({ kind: 'noFacts' });
  }

  /** Terminated by hand, or forgotten with the database of Temporal. */
  loseRun(): void {
    if (!this.run) return;
    this.#say('the run is lost');
    this.#forgetRun();
  }

  settle(): void {
    for (let round = 0; round < 60; round++) {
      this.workflow();
      this.apply();
      this.workflow();
      this.watch();
      this.watcher();
      this.timer();
    }
  }

  #facts(): RollOutFacts {
    const { generation, revision } = this.cached;
    const orders = toldOrders(this.cached.orders);
    return { generation, revision, replicas, ...(revision !== 'r1' && { previous: 'r1' }), ...(orders && { orders }) };
  }

  #put(news: RollOutNews): void {
    if (this.run) this.run = { ...this.run, inbox: [...this.run.inbox, news] };
  }
}

type Step = (play: Play) => void;
const commands = ['pause', 'resume', 'retry', 'skip', 'abort', 'undo'] as const;
const steps: readonly Step[] = [
  ...commands.map(
    (name): Step =>
      (play) =>
        play.command(name),
  ),
  ...Array<Step>(8).fill((play) => play.workflow()),
  ...Array<Step>(6).fill((play) => play.apply()),
  (play) => play.apply({ losesAnswer: true }),
  ...Array<Step>(8).fill((play) => play.watcher()),
  ...Array<Step>(5).fill((play) => play.watch()),
  (play) => play.timer(),
  (play) => play.loseRun(),
  (play) => play.changeSpec(),
];
const anySteps = fc.array(fc.constantFrom(...steps), { maxLength: 120 });
const runs = { numRuns: Number(process.env.PLAYS ?? 400) };

/** A roll-out under way, after these steps. */
function played(taken: readonly Step[]): Play {
  const play = new Play();
  play.changeSpec();
  for (const step of taken) step(play);
  return play;
}

describe('a roll-out that is played', () => {
  it('comes to rest, and when nobody holds it all pods are where they are wanted', () => {
    fc.assert(
      fc.property(anySteps, (taken) => {
        const play = played(taken);
        play.settle();
        const { revision, pods, orders } = play.fleet;
        const story = play.story.join('\n');
        const now = ordersFor(orders, revision);
        const undo = undoOf(now);
        const isThere = (pod: string) => (undo ? pod !== revision : pod === revision);
        const isDone = pods.every(isThere);
        expect([story, isDone || isHeld(now)]).toEqual([story, true]);
        // a run waits for whoever frees it, and else ends
        expect([story, play.run === undefined]).toEqual([story, isDone]);
      }),
      runs,
    );
  });

  it('holds what an operator has ordered, whatever is lost afterwards, until somebody frees it', () => {
    fc.assert(
      fc.property(anySteps, fc.constantFrom('pause', 'abort'), anySteps, (earlier, order, later) => {
        const play = played(earlier);
        play.settle();
        play.changeSpec();
        play.watch();
        play.watcher();
        play.command(order);
        play.workflow();
        play.apply();
        play.workflow();
        const { pods } = play.fleet;
        const isHarmless = (step: Step) => !steps.slice(0, 6).includes(step) && step !== steps.at(-1);
        for (const step of later.filter(isHarmless)) step(play);
        play.settle();
        const story = play.story.join('\n');
        expect([story, play.fleet.pods]).toEqual([story, pods]);
        expect([story, isHeld(play.fleet.orders)]).toEqual([story, true]);
        play.command('resume');
        play.settle();
        expect([story, play.fleet.pods.every((pod) => pod === play.fleet.revision)]).toEqual([story, true]);
      }),
      runs,
    );
  });
});
