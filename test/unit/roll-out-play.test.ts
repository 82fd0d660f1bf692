import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { sameJson } from '../../api/base/json.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { batchesOf, type PodBatch, type PodOutcome } from '../../plan/fleet/batch.ts';
import type { Answer, AnswerKind } from '../../plan/fleet/permit.ts';
import {
  asked,
  asks,
  begun,
  type GivenCommand,
  handedInAgain,
  heard,
  isEnding,
  isHold,
  mayBegin,
  meantBy,
  type RollOutNews,
  type RollOutProgress,
} from '../../plan/fleet/roll-out.ts';
import {
  isHeld,
  keptOrders,
  type OrderCommand,
  ordersAfter,
  ordersFor,
  toldOrders,
  undoOf,
} from '../../plan/fleet/roll-out-orders.ts';
import { mostInFlight } from '../../plan/permits/in-flight.ts';
import '../support/property-seed.ts';

const replicas = 4;
const maxUnavailable = 2;
/** So many questions follow one another at most when nothing else happens. */
const mostInARow = 4;
/** An answer names so many pods at most. */
const mostNamed = 1;

interface Pod {
  readonly revision: string;
  readonly isReady: boolean;
}

interface Fleet {
  readonly generation: number;
  readonly revision: string;
  readonly pods: readonly Pod[];
  readonly orders: RollOutOrders | undefined;
}

interface Run {
  readonly progress: RollOutProgress;
  /** What it has heard and not yet read. */
  readonly inbox: readonly RollOutNews[];
  /** Its question is open. */
  readonly isAsking: boolean;
}

/** A batch that the watcher has received. */
interface Permit {
  readonly batch: PodBatch;
  /** Pods of which the update has begun. */
  readonly begun: ReadonlySet<string>;
}

/**
 * One fleet between a user, an operator, watchers one after the other whose caches are behind, and runs of the roll-out that may be terminated
 * or forgotten by Temporal at any time. What activities answer may be lost, and come in any order.
 */
class Play {
  fleet: Fleet = {
    ...{ generation: 1, revision: 'r1', orders: undefined },
    pods: Array(replicas).fill({ revision: 'r1', isReady: true }),
  };
  cached: Fleet = this.fleet;
  run: Run | undefined;
  readonly story: string[] = [];
  #permits = new Map<number, Permit>();
  /** The numbers of the batches of the run that have got to the watcher. */
  readonly #received = new Set<number>();
  /** Results that the run has not heard yet. */
  #onTheWay: readonly RollOutNews[] = [];
  /** What the watcher has answered last. */
  #told: string | undefined;
  /** A run is to ask again after a pause. */
  #pauses = 0;
  /** The watcher that leads, and how often one has answered. */
  #term = 1;
  #answers = 0;
  #revisions = 1;
  /** How much has happened. */
  #events = 0;
  #ms = 0;

  #say(what: string): void {
    this.story.push(what);
  }

  changeSpec(): void {
    const revision = `r${++this.#revisions}`;
    this.#say(`the user wants ${revision}`);
    this.fleet = { ...this.fleet, generation: this.fleet.generation + 1, revision };
  }

  /** By signal to the run, or by one that starts it. */
  command(name: OrderCommand['name']): void {
    this.#say(`${name}${this.run ? '' : ', which starts a run'}`);
    this.#start();
    const target = name === 'skip' ? 'pod-9' : undefined;
    const meant = meantBy(this.#progress(), { name, target });
    if ('refused' in meant) return;
    const at = new Date(this.#now()).toISOString();
    this.#put({ kind: 'command', command: { key: `run/${this.#ms}`, name, by: 'ann', at, ...meant } });
  }

  /** The workflow reads its news, hands in what is to be handed in, asks, and ends. */
  workflow(): void {
    if (!this.run) return;
    const before = this.run.progress;
    let progress = this.#progress();
    this.#check(before, progress);
    let { isAsking } = this.run;
    progress = handedInAgain(progress, this.#now());
    const isLast = isEnding(progress) && !isAsking;
    if (asks(progress) && !isAsking && !isLast) {
      isAsking = true;
      progress = asked(progress);
      this.#events += 1;
    }
    this.run = { progress, inbox: [], isAsking };
    const wanted = new Set(progress.inFlight.map(({ number }) => number));
    for (const number of this.#permits.keys()) if (!wanted.has(number)) this.#permits.delete(number);
    if (isLast && progress.inFlight.length === 0) {
      this.#say(`the run ends: ${progress.end}`);
      this.#forgetRun();
    }
  }

  /** No pod is in two batches, and a hold that is on its way lets nothing be permitted. */
  #check({ next, commands }: RollOutProgress, after: RollOutProgress): void {
    const uids = after.inFlight.flatMap(({ batch }) => batch.pods.map(({ uid }) => uid));
    const isPermitted = after.next > next && commands.some(isHold) && sameJson(commands, after.commands);
    const isTwice = new Set(uids).size < uids.length;
    const story = this.story.join('\n');
    expect([story, isTwice, isPermitted, after.inFlight.length <= mostInFlight]).toEqual([story, false, false, true]);
  }

  /** The watcher receives the batches that the run has handed in. */
  receive(): void {
    for (const { number, batch } of this.run ? mayBegin(this.run.progress) : []) {
      if (this.#received.has(number)) continue;
      this.#received.add(number);
      this.#permits.set(number, { batch, begun: new Set() });
    }
  }

  /** The attempt of the first batch is lost, and is made again. */
  retryBatch(): void {
    const [number] = this.#permits.keys();
    if (number === undefined) return;
    this.#permits.delete(number);
    this.#received.delete(number);
  }

  /** Another watcher leads. What the one before has received comes to nothing, unless its result is on the way. */
  changeLeader(): void {
    this.#say('another watcher leads');
    this.#term += 1;
    this.#permits.clear();
    this.#told = undefined;
  }

  /** The activity of the first batch is ended by hand. */
  endBatch(): void {
    const [number] = this.#permits.keys();
    if (number === undefined) return;
    this.#say(`batch ${number} is ended by hand`);
    this.#permits.delete(number);
    this.#send({ kind: 'lost', number, why: 'failed by hand' });
  }

  /** A hold that takes long takes back the permits of all batches. */
  withdraw(): void {
    const { commands = [], inFlight = [] } = this.run?.progress ?? {};
    if (!commands.some(isHold)) return;
    for (const { number } of inFlight) {
      if (this.#onTheWay.some((news) => 'number' in news && news.number === number)) continue;
      this.#permits.delete(number);
      this.#received.add(number);
      this.#send({ kind: 'lost', number, why: 'taken back' });
    }
  }

  /** The question is answered. The answer may be lost: then it is asked again by the same activity. */
  answer({ losesAnswer = false } = {}): void {
    if (!this.run?.isAsking || this.#onTheWay.some(({ kind }) => kind === 'answer')) return;
    const answer = this.#answer();
    if (!losesAnswer) this.#send({ kind: 'answer', answer, atMs: this.#now() });
  }

  /** The question fails for good. */
  refuse(): void {
    if (!this.run?.isAsking || this.#onTheWay.some(({ kind }) => kind === 'answer')) return;
    this.run = { ...this.run, isAsking: false };
    this.#put({ kind: 'notAnswered', waitingFor: waitFor('Invalid') });
    this.#pauses += 1;
  }

  pause(): void {
    if (this.#pauses === 0) return;
    this.#pauses -= 1;
    this.#put({ kind: 'changed' });
  }

  /** The activity that applies a command. Its answer may be lost: then it is called again. */
  apply({ losesAnswer = false } = {}): void {
    const command = this.#due();
    if (command === undefined) return;
    const { revision } = this.fleet;
    const previous = revision === 'r1' ? {} : { previous: 'r1' };
    const { orders } = ordersAfter({ by: '', ...command }, { orders: this.fleet.orders, revision, ...previous });
    if (orders) this.#say(`${command.name} is applied: ${JSON.stringify(orders)}`);
    this.fleet = { ...this.fleet, orders: orders ?? this.fleet.orders };
    // the activity answers once the cache shows what it has written
    this.watch();
    const next = this.#answer();
    if (!losesAnswer) this.#send({ kind: 'applied', key: command.key, next, atMs: this.#now() });
  }

  /** The command that is to be applied next: what holds or frees goes ahead. */
  #due(): GivenCommand | undefined {
    const isApplied = ({ key }: GivenCommand) =>
      this.#onTheWay.some((news) => news.kind === 'applied' && news.key === key);
    const waiting = (this.run?.progress.commands ?? []).filter((command) => !isApplied(command));
    return waiting.find((command) => isHold(command) || command.takesBack === 'unwritten') ?? waiting[0];
  }

  /** A result gets to the run. */
  deliver(nth = 0): void {
    const news = this.#onTheWay[nth % Math.max(this.#onTheWay.length, 1)];
    if (news === undefined || !this.run) return;
    this.#onTheWay = this.#onTheWay.filter((other) => other !== news);
    if (news.kind === 'answer') this.run = { ...this.run, isAsking: false };
    // nobody waits for what becomes of a command that was taken back
    const { commands } = this.#progress();
    if (news.kind === 'applied' && !commands.some(({ key }) => key === news.key)) return;
    this.#put(news);
  }

  deliverAll(): void {
    while (this.#onTheWay.length > 0) this.deliver();
  }

  watch(): void {
    this.cached = this.fleet;
  }

  /** A pod becomes ready. */
  kubelet(): void {
    const { pods } = this.fleet;
    const index = pods.findIndex(({ isReady }) => !isReady);
    const pod = pods[index];
    if (pod) this.fleet = { ...this.fleet, pods: pods.with(index, { ...pod, isReady: true }) };
  }

  /** A pass of the watcher: it disrupts what is permitted, and ends the batches that are through. */
  watcher(): void {
    const { revision, orders: rollOut } = this.cached;
    const isRolledOut = this.#undo() === undefined && this.cached.pods.every((pod) => pod.revision === revision);
    const kept = keptOrders({ metadata: {}, status: rollOut ? { rollOut } : {} }, { revision, isRolledOut });
    // a write on an old copy is refused
    if (!sameJson(kept, rollOut) && this.cached === this.fleet) {
      this.#say(`the watcher leaves of the orders ${JSON.stringify(kept)}`);
      this.fleet = { ...this.fleet, orders: kept };
    }
    for (const [number, permit] of [...this.#permits]) this.#carryOut(number, permit);
    if (this.cached.pods.some((pod) => !this.#isAtGoal(pod)) && !this.#orders()?.aborted) this.#start();
  }

  #carryOut(number: number, { batch, begun: before }: Permit): void {
    const may = batch.revision === this.#goal() && !this.#isHeld();
    const begun = new Set(before);
    const outcomes: PodOutcome[] = [];
    for (const { uid } of batch.pods) {
      const index = indexOf(uid);
      const outcome = { pod: uid, how: 'inPlace' } as const;
      const pod = this.fleet.pods[index];
      const isThere = pod?.revision === batch.revision;
      if (!begun.has(uid) && !isThere && !may) outcomes.push({ ...outcome, why: 'not now' });
      else if (isThere && pod.isReady) outcomes.push(outcome);
      else if (!begun.has(uid)) {
        this.#say(`pod ${index} becomes ${batch.revision}`);
        begun.add(uid);
        const pods = this.fleet.pods.with(index, { revision: batch.revision, isReady: false });
        this.fleet = { ...this.fleet, pods };
        this.watch();
      }
    }
    this.#permits.set(number, { batch, begun });
    if (outcomes.length < batch.pods.length) return;
    this.#permits.delete(number);
    const result = { summary: '', pods: outcomes, next: this.#answer() };
    this.#send({ kind: 'carriedOut', number, result, atMs: this.#now() });
  }

  /** The watcher wakes the run when another answer is to be given than the last one. The signal may be lost. */
  wake({ losesSignal = false } = {}): void {
    if (this.run && JSON.stringify(this.#next()) !== this.#told && !losesSignal) this.#put({ kind: 'changed' });
  }

  /** So much time passes that an answer does not count any more that has named pods, or has ended nothing. */
  later(): void {
    const { kind } = this.#next();
    if (kind === 'pods' || kind === 'done' || kind === 'aborted') this.#told = undefined;
  }

  /** Terminated by hand, or forgotten with the database of Temporal. */
  loseRun(): void {
    if (!this.run) return;
    this.#say('the run is lost');
    this.#forgetRun();
  }

  /** Everything takes its course, until nothing happens any more; whether it does not. */
  settle(): boolean {
    for (let round = 0; round < 60; round++) {
      const before = this.#events;
      this.workflow();
      this.receive();
      this.apply();
      this.deliverAll();
      this.kubelet();
      this.watch();
      this.watcher();
      this.deliverAll();
      this.workflow();
      // a question takes milliseconds, and wakes are seconds apart
      for (let nth = 0; nth < mostInARow && this.run?.isAsking; nth++) {
        this.answer();
        this.deliverAll();
        this.workflow();
      }
      this.pause();
      this.later();
      this.wake();
      if (this.#events === before) return true;
    }
    return false;
  }

  /** What may go at this moment, as the caches show it. */
  #next(): Answer {
    return { ...this.#kindOfNext(), facts: this.#facts() };
  }

  #kindOfNext(): AnswerKind {
    const { pods } = this.cached;
    if (pods.every((pod) => this.#isAtGoal(pod) && pod.isReady)) return { kind: 'done', summary: 'all' };
    const permitted = new Set([...this.#permits.values()].flatMap(({ batch }) => batch.pods.map(({ uid }) => uid)));
    const isDown = (pod: Pod, index: number) => !pod.isReady || permitted.has(uidOf(index));
    const room = maxUnavailable - pods.filter(isDown).length;
    const left = pods.flatMap((pod, index) => (this.#isAtGoal(pod) || isDown(pod, index) ? [] : [index]));
    const mayGo = this.#isHeld() ? [] : left.slice(0, Math.max(room, 0));
    if (mayGo.length > 0) {
      const chosen = mayGo.slice(0, mostNamed).map((index) => ({
        ...{ namespace: 'shop', name: uidOf(index), uid: uidOf(index), how: 'inPlace' as const, containers: [['app']] },
      }));
      const batches = batchesOf(this.#goal(), chosen);
      return { kind: 'pods', batches, more: mayGo.length > mostNamed, of: replicas, updated: 0 };
    }
    if (this.#orders()?.aborted) return { kind: 'aborted', summary: 'some', isIdle: this.#permits.size === 0 };
    if (this.#permits.size > 0) return { kind: 'nothing' };
    return { kind: 'wait', waitingFor: waitFor(this.#isHeld() ? 'PausedByOperator' : 'BudgetSpent') };
  }

  #answer(): Answer {
    const answer = this.#next();
    this.#told = JSON.stringify(answer);
    return { ...answer, order: { term: `term ${this.#term}`, nth: ++this.#answers } };
  }

  #orders() {
    const { orders, revision } = this.cached;
    return ordersFor(orders, revision);
  }

  #undo() {
    return undoOf(this.#orders());
  }

  #goal(): string {
    const undo = this.#undo();
    return undo?.from === this.cached.revision ? undo.to : this.cached.revision;
  }

  #isAtGoal(pod: Pod): boolean {
    const { revision } = this.cached;
    return this.#undo()?.from === revision ? pod.revision !== revision : pod.revision === revision;
  }

  #isHeld(): boolean {
    return isHeld(this.#orders());
  }

  #start(): void {
    if (!this.run) this.#events += 1;
    this.run ??= { progress: begun(this.#facts()), inbox: [], isAsking: false };
  }

  #forgetRun(): void {
    this.run = undefined;
    this.#permits.clear();
    this.#received.clear();
    this.#onTheWay = [];
    this.#told = undefined;
    this.#pauses = 0;
  }

  #facts(): RollOutFacts {
    const { generation, revision } = this.cached;
    const orders = toldOrders(this.cached.orders);
    return { generation, revision, replicas, ...(revision !== 'r1' && { previous: 'r1' }), ...(orders && { orders }) };
  }

  #progress(): RollOutProgress {
    const { progress, inbox } = this.run ?? { progress: begun(this.#facts()), inbox: [] };
    return inbox.reduce(heard, progress);
  }

  #put(news: RollOutNews): void {
    this.#events += 1;
    if (this.run) this.run = { ...this.run, inbox: [...this.run.inbox, news] };
  }

  #send(news: RollOutNews): void {
    this.#events += 1;
    this.#onTheWay = [...this.#onTheWay, news];
  }

  #now(): number {
    this.#ms += 400;
    return this.#ms;
  }
}

function uidOf(index: number): string {
  return `pod-${index}`;
}

function indexOf(uid: string): number {
  return Number(uid.split('-')[1]);
}

function waitFor(reason: string) {
  return { reason, blockedBy: [], blockedCount: 0, since: '', unblock: '' };
}

type Step = (play: Play) => void;
const commands = ['pause', 'resume', 'resume', 'resume', 'retry', 'skip', 'abort', 'undo'] as const;
const ofUser: readonly Step[] = [
  ...commands.map(
    (name): Step =>
      (play) =>
        play.command(name),
  ),
  (play) => play.changeSpec(),
];
const often: readonly Step[] = [
  (play) => play.workflow(),
  (play) => play.answer(),
  (play) => play.receive(),
  (play) => play.deliver(),
  (play) => play.watcher(),
  (play) => play.kubelet(),
  (play) => play.watch(),
  (play) => play.wake(),
];
const seldom: readonly Step[] = [
  (play) => play.apply({ losesAnswer: true }),
  (play) => play.answer({ losesAnswer: true }),
  (play) => play.wake({ losesSignal: true }),
  (play) => play.refuse(),
  (play) => play.retryBatch(),
  (play) => play.endBatch(),
  (play) => play.changeLeader(),
  (play) => play.withdraw(),
  (play) => play.later(),
  (play) => play.loseRun(),
];
const steps: readonly Step[] = [
  ...ofUser,
  ...seldom,
  ...often.flatMap((step) => Array<Step>(12).fill(step)),
  ...Array<Step>(5).fill((play) => play.apply()),
  ...Array<Step>(5).fill((play) => play.deliver(1)),
  ...Array<Step>(2).fill((play) => play.pause()),
];
const anySteps = fc.array(fc.constantFrom(...steps), { maxLength: 250, size: 'max' });
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
        const isAtRest = play.settle();
        const { revision, pods, orders } = play.fleet;
        const story = play.story.join('\n');
        const now = ordersFor(orders, revision);
        const undo = undoOf(now);
        const isThere = (pod: Pod) => (undo ? pod.revision !== revision : pod.revision === revision);
        const isDone = pods.every(isThere);
        expect([story, isAtRest, isDone || isHeld(now)]).toEqual([story, true, true]);
        // P-5: a run waits for whoever ends a pause, and else ends
        expect([story, play.run === undefined]).toEqual([story, isDone || now?.aborted !== undefined]);
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
        play.deliverAll();
        play.workflow();
        const revisions = () => play.fleet.pods.map(({ revision }) => revision);
        const held = revisions();
        for (const step of later) if (!ofUser.includes(step)) step(play);
        play.settle();
        const story = play.story.join('\n');
        expect([story, revisions()]).toEqual([story, held]);
        expect([story, isHeld(play.fleet.orders)]).toEqual([story, true]);
        play.command('resume');
        play.settle();
        expect([story, revisions().every((revision) => revision === play.fleet.revision)]).toEqual([story, true]);
      }),
      runs,
    );
  });
});
