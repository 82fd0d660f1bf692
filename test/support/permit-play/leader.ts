import {
  answered,
  handedIn,
  type Known,
  nothingPaid,
  nothingSent,
  owedFromMs,
  type Paid,
  type Sent,
  sendAtMs,
  went,
} from '../../../plan/permits/owed.ts';
import type { Clock } from './clock.ts';
import { type Cluster, type OrderName, type Orders, standing } from './cluster.ts';
import type {
  Answer,
  Applied,
  Attempt,
  BatchRequest,
  BatchResult,
  Command,
  CommandName,
  Question,
  Rules,
} from './protocol.ts';
import type { Poller, Temporal } from './temporal.ts';

/** `fenced`: its clock says that it may not lead any more. `unaware`: it does not know that it has lost the lease, and answers on; its clock keeps it from writing. */
export type Mode = 'leads' | 'fenced' | 'unaware' | 'frozen' | 'dead';

/** How long things take, one after the other. */
export interface Delays {
  readonly drainMs: readonly number[];
  readonly writeMs: readonly number[];
  readonly cacheMs: readonly number[];
}

const mostInBatch = 40;
const mostInAnswer = 200;
const mostInFlight = 25;
const confirmMs = 5_000;
const heartbeatMs = 25_000;
const silentMs = 10_000;
const restMs = 600_000;
const listMs = 60_000;
const parallelSteps = 4;
const pauseAnswerMs = 10_000;
const refused = { firstMs: 5_000, mostMs: 3_600_000 } as const;
const notNow = { firstMs: 5_000, mostMs: 300_000 } as const;

const refusedWhy = 'not now: refused';

interface Permit {
  readonly request: BatchRequest;
  readonly attempt: Attempt<BatchResult>;
  /** Items without an outcome. */
  readonly states: Map<string, 'waits' | 'begun'>;
  readonly outcomes: Map<string, string>;
  progressAtMs: number;
  confirmedAtMs: number;
  /** It is over, and items are collected for its answer. */
  isEnding: boolean;
}

interface Plan {
  readonly revision: string;
  readonly mayGo: readonly string[];
  readonly wait?: { readonly reason: string; readonly isOwn: boolean };
  readonly end?: 'done' | 'withdrawn' | 'aborted';
  /** When an item that waits to be tried again may go. */
  readonly againAtMs: number | undefined;
}

/** The permits, the planner and the queue of one object in one term of one watcher. */
export class Leader implements Poller {
  readonly term: number;
  mode: Mode = 'leads';
  /** Planner runs. */
  readonly runs = { passes: 0, answers: 0 };
  readonly #clock: Clock;
  readonly #cluster: Cluster;
  readonly #temporal: Temporal;
  readonly #rules: Rules;
  readonly #delays: Delays;
  readonly #turns = { drainMs: 0, writeMs: 0, cacheMs: 0 };
  #permits: readonly Permit[] = [];
  #run: string | undefined;
  readonly #endedRuns = new Set<string>();
  /** Pauses and aborts that are not written yet, with the run that has brought each. */
  readonly #holds = new Map<string, string>();
  /** When items that were given back may go again. */
  readonly #retries = new Map<string, { readonly times: number; readonly atMs: number }>();
  /** Every item of the last batch was refused: the object rests, and then one batch is tried. */
  #refusals: { readonly times: number; readonly atMs: number } | undefined;
  readonly #flying = new Set<string>();
  #landed: (() => void)[] = [];
  #view: { revision: string; previous: string; isDeleted: boolean; orders: Orders };
  #paid: Paid = nothingPaid;
  #sent: Sent = nothingSent;
  #isRunning = false;
  /** A watcher that may not lead any more takes no further task. */
  #hasRefused = false;
  #freeSinceMs: number | undefined;
  #waits: { readonly of: string; readonly sinceMs: number } | undefined;
  #isPassDue = false;
  #isPassMissed = false;
  #callOff: () => void = () => undefined;
  #callOffAgain: () => void = () => undefined;

  constructor(
    term: number,
    parts: {
      readonly clock: Clock;
      readonly cluster: Cluster;
      readonly temporal: Temporal;
      readonly rules: Rules;
      readonly delays: Delays;
    },
  ) {
    this.term = term;
    this.#clock = parts.clock;
    this.#cluster = parts.cluster;
    this.#temporal = parts.temporal;
    this.#rules = parts.rules;
    this.#delays = parts.delays;
    this.#view = this.#look();
    this.#listRuns();
    this.#passSoon();
  }

  isPolling(): boolean {
    return this.mode !== 'dead' && !this.#hasRefused;
  }

  isFrozen(): boolean {
    return this.mode === 'frozen';
  }

  /** Something has changed in the cluster, which its cache shows a little later. */
  changed(): void {
    this.#clock.after(this.#delay('cacheMs'), () => {
      this.#view = this.#look();
      this.#passSoon();
    });
  }

  /** Items that may go and for which there is no permit. */
  get mayGo(): readonly string[] {
    return this.#plan().mayGo;
  }

  temporalIsBack(): void {
    this.#sent = { ...this.#sent, isBack: true };
    this.#passSoon();
  }

  /** It knows by now that its term is over. */
  end(): void {
    const wasFrozen = this.mode === 'frozen';
    this.mode = 'dead';
    for (const { attempt } of this.#permits) attempt.fail();
    this.#permits = [];
    if (wasFrozen) this.#temporal.died(this);
  }

  next(question: Question, attempt: Attempt<Answer>): void {
    if (this.mode === 'fenced') {
      this.#hasRefused = true;
      attempt.fail();
      return;
    }
    this.#sent = { ...this.#sent, unfollowed: 0 };
    this.#isRunning = true;
    const inFlight = question.inFlight.flatMap(({ uids }) => uids);
    attempt.complete(this.#answer(mostInAnswer, inFlight));
    this.#owe();
  }

  carryOut(request: BatchRequest, attempt: Attempt<BatchResult>): void {
    if (!this.#isOfTheRun(attempt)) {
      attempt.fail();
      return;
    }
    for (const permit of this.#permits) {
      if (permit.request.number === request.number) this.#drop(permit);
      for (const uid of request.uids) this.#settle(permit, uid, `it is in batch ${request.number}`);
    }
    const { nowMs } = this.#clock;
    const permit: Permit = {
      ...{ request, attempt, outcomes: new Map(), isEnding: false },
      states: new Map(request.uids.map((uid) => [uid, 'waits'])),
      ...{ progressAtMs: nowMs, confirmedAtMs: nowMs },
    };
    this.#permits = [...this.#permits, permit];
    this.#paid = handedIn(this.#paid, request.uids, this.#clock.nowMs);
    this.#sent = { ...this.#sent, unfollowed: 0 };
    this.#isRunning = true;
    this.#confirm(permit);
    this.#passSoon();
  }

  /** Holds first, then writes the order; answers when no write is on its way that began before. */
  apply(command: Command, attempt: Attempt<Applied>): void {
    const { key, name } = command;
    const isKnown = this.#cluster.orders.keys.includes(key);
    if (!isKnown && (name === 'pause' || name === 'abort')) this.#holds.set(key, attempt.run);
    this.#passSoon();
    this.#clock.after(this.#delay('writeMs'), () => {
      if (this.mode !== 'leads') {
        attempt.fail();
        return;
      }
      if (this.#cluster.refuses.orders && !isKnown) {
        attempt.complete({ key, isRefused: true, next: this.#answer(mostInBatch) });
        return;
      }
      this.#write(command);
      this.#whenLanded(() => {
        if (this.mode !== 'leads') {
          attempt.fail();
          return;
        }
        if (name === 'pause' || name === 'abort') this.#cluster.answeredHolds.add(key);
        attempt.complete({ key, isRefused: false, next: this.#answer(mostInBatch) });
        this.#passSoon();
      });
    });
  }

  /** A command by annotation: applied by the watcher itself. */
  annotated(command: Command): void {
    if (this.mode === 'leads') this.#write(command);
  }

  #write({ key, name, takesBack }: Command): void {
    const { orders } = this.#cluster;
    this.#holds.delete(key);
    if (orders.keys.includes(key)) return;
    const voided = this.#rules.takenBackByKey ? takesBack : this.#ofTheKind(name, takesBack);
    for (const back of voided) this.#holds.delete(back);
    const isReplaced = (other: OrderName) => other === name && !this.#rules.ordersStandByKey;
    const left = orders.standing.filter((order) => !voided.includes(order.key) && !isReplaced(order.name));
    const given = name === 'resume' || name === 'retry' ? [] : [{ name, key }];
    if (name === 'retry') {
      this.#retries.clear();
      this.#refusals = undefined;
    }
    const keys = [...new Set([...orders.keys, ...voided, key])].slice(-16);
    this.#cluster.orders = { standing: [...left, ...given], keys };
    this.#view = { ...this.#view, orders: this.#cluster.orders };
    this.#cluster.onChange();
  }

  /** All orders that stand of the kind that was shown to the sender. */
  #ofTheKind(name: CommandName, shown: readonly string[]): readonly string[] {
    const { orders } = this.#cluster;
    if (name === 'undo') return standing(orders, 'abort');
    if (name !== 'resume') return [];
    if (shown.some((key) => key.startsWith('undo'))) return standing(orders, 'undo');
    return [...this.#holds.keys(), ...standing(orders, 'pause', 'abort')];
  }

  #look() {
    const { revision, previous, isDeleted, orders } = this.#cluster;
    return { revision, previous, isDeleted, orders };
  }

  get #isHeld(): boolean {
    return this.#holds.size > 0 || standing(this.#view.orders, 'pause', 'abort').length > 0;
  }

  get #target(): string {
    const { revision, previous, orders } = this.#view;
    return standing(orders, 'undo').length === 0 ? revision : previous;
  }

  #isOfTheRun(attempt: Attempt<BatchResult>): boolean {
    if (this.mode === 'fenced') this.#hasRefused = true;
    if (this.mode === 'dead' || this.mode === 'fenced' || this.#endedRuns.has(attempt.run)) return false;
    if (this.#run === attempt.run) return true;
    if (this.#run !== undefined) {
      if (this.#rules.runsAreConfirmed && attempt.confirm() !== 'alive') return false;
      this.#endedRuns.add(this.#run);
      for (const permit of this.#permits) this.#drop(permit);
    }
    this.#run = attempt.run;
    return true;
  }

  /** Ends a permit without an answer. What has begun is finished as upkeep. */
  #drop(permit: Permit): void {
    this.#permits = this.#permits.filter((other) => other !== permit);
    permit.attempt.fail();
  }

  /** While items have not begun Temporal is asked every five seconds, then with the SDK's own heartbeats. */
  #confirm(permit: Permit): void {
    this.#clock.after(confirmMs, () => {
      if (!this.#permits.includes(permit) || this.mode === 'frozen') return;
      const isWaiting = [...permit.states.values()].includes('waits');
      const silentForMs = this.#clock.nowMs - permit.confirmedAtMs;
      if (isWaiting || silentForMs >= heartbeatMs) {
        const answer = permit.attempt.confirm();
        if (answer === 'alive') permit.confirmedAtMs = this.#clock.nowMs;
        const isSilent = answer === 'noAnswer' && silentForMs >= (isWaiting ? silentMs : heartbeatMs + silentMs);
        if (answer === 'ended' || isSilent) {
          this.#drop(permit);
          this.#passSoon();
          return;
        }
      }
      this.#confirm(permit);
    });
  }

  #settle(permit: Permit, uid: string, why: string): void {
    if (!permit.states.delete(uid)) return;
    permit.outcomes.set(uid, why);
    permit.progressAtMs = this.#clock.nowMs;
  }

  #passSoon(): void {
    if (this.#isPassDue) return;
    this.#isPassDue = true;
    this.#clock.after(1, () => {
      this.#isPassDue = false;
      this.#pass();
    });
  }

  /** One at a time: the next waits for the writes of the last. */
  #pass(): void {
    if (this.mode !== 'leads') return;
    if (this.#flying.size > 0) {
      this.#isPassMissed = true;
      return;
    }
    const target = this.#target;
    let room = this.#cluster.fleet.maxUnavailable - this.#cluster.unavailable;
    for (const permit of this.#permits) {
      for (const [uid, state] of permit.states) {
        const item = this.#cluster.items.get(uid);
        const settle = (why: string) => this.#settle(permit, uid, why);
        const isAvailable = item !== undefined && this.#cluster.isAvailable(item);
        if (item === undefined || this.#view.isDeleted) settle('it is gone');
        else if (item.revision === target && isAvailable) settle('');
        else if (item.revision === target) permit.states.set(uid, 'begun');
        else if (state === 'begun' || permit.request.revision !== target) settle('another revision is asked for');
        else if (this.#isHeld) settle('not now: it is held');
        else if ((this.#retries.get(uid)?.atMs ?? 0) > this.#clock.nowMs) settle('not now: it is tried again later');
        else if (isAvailable && room <= 0) settle('not now: no room');
        else {
          if (isAvailable) room -= 1;
          this.#begin(permit, uid);
        }
      }
      if (this.#clock.nowMs - permit.progressAtMs >= restMs) {
        for (const uid of permit.states.keys()) this.#settle(permit, uid, 'not available after 10 minutes');
      }
    }
    this.runs.passes += 1;
    const plan = this.#plan();
    for (const permit of this.#permits) if (permit.states.size === 0) this.#endSoon(permit, plan);
    this.#owe(plan);
  }

  #endSoon(permit: Permit, plan: Plan): void {
    if (permit.isEnding) return;
    permit.isEnding = true;
    this.#clock.after(this.#collectMs(plan), () => {
      if (this.mode !== 'leads' || !this.#permits.includes(permit)) return;
      this.#permits = this.#permits.filter((other) => other !== permit);
      const { number } = permit.request;
      if ([...permit.outcomes.values()].every((why) => why === refusedWhy)) this.#rest();
      permit.attempt.complete({ number, outcomes: permit.outcomes, next: this.#answer(mostInBatch) });
      this.#owe();
    });
  }

  #collectMs({ mayGo }: Plan): number {
    const isAlone = !this.#permits.some(({ isEnding }) => !isEnding);
    if (mayGo.length >= mostInBatch || isAlone) return 0;
    return Math.min(Math.max(this.#cluster.fleet.size * 2, 20), 500);
  }

  /** The drain, then the write; it is asked immediately before whether it may still go. */
  #begin(permit: Permit, uid: string): void {
    const turn = 1 + Math.floor(this.#flying.size / parallelSteps);
    this.#flying.add(uid);
    const { revision } = permit.request;
    const wasAvailable = this.#isAvailable(uid);
    this.#clock.after(this.#delay('drainMs') * turn, () => {
      const of = this.#permits.filter(({ states }) => states.has(uid));
      const isAllowed = this.mode === 'leads' && of.includes(permit) && !this.#isHeld && this.#target === revision;
      // the write names the version of the item that was planned for
      if (!isAllowed || this.#isAvailable(uid) !== wasAvailable) {
        this.#land(uid);
        return;
      }
      permit.states.set(uid, 'begun');
      const endedForMs = permit.attempt.endedForMs();
      this.#cluster.begins(uid, { permits: of.length, isHeld: this.#isHeld, endedForMs });
      this.#clock.after(this.#delay('writeMs'), () => this.#written(permit, uid, revision));
    });
  }

  #written(permit: Permit, uid: string, revision: string): void {
    if (this.#cluster.disrupt(uid, revision) === 'refused') {
      this.#settle(permit, uid, refusedWhy);
      this.#tryAgain(uid, refused);
    } else {
      this.#retries.delete(uid);
      this.#refusals = undefined;
      permit.progressAtMs = this.#clock.nowMs;
      this.#paid = went(this.#paid);
    }
    this.#clock.after(restMs + 1, () => this.#passSoon());
    this.#land(uid);
  }

  #rest(): void {
    if (!this.#rules.refusalsRest) return;
    const times = (this.#refusals?.times ?? 0) + 1;
    this.#refusals = { times, atMs: this.#clock.nowMs + Math.min(refused.firstMs * 2 ** (times - 1), refused.mostMs) };
  }

  /** Those that become due at about the same time are due together. */
  #tryAgain(uid: string, { firstMs, mostMs }: typeof refused | typeof notNow): void {
    const times = (this.#retries.get(uid)?.times ?? 0) + 1;
    const pauseMs = Math.min(firstMs * 2 ** (times - 1), mostMs);
    const atMs = this.#clock.nowMs + pauseMs;
    this.#retries.set(uid, { times, atMs: Math.ceil(atMs / pauseMs) * pauseMs });
  }

  #isAvailable(uid: string): boolean {
    const item = this.#cluster.items.get(uid);
    return item !== undefined && this.#cluster.isAvailable(item);
  }

  #land(uid: string): void {
    this.#flying.delete(uid);
    if (this.#flying.size > 0) return;
    for (const what of this.#landed.splice(0)) what();
    if (this.#isPassMissed || this.mode === 'leads') this.#passSoon();
    this.#isPassMissed = false;
  }

  #whenLanded(what: () => void): void {
    if (this.#flying.size === 0) {
      what();
      return;
    }
    let isDone = false;
    const once = () => {
      if (!isDone) what();
      isDone = true;
    };
    this.#landed.push(once);
    this.#clock.after(pauseAnswerMs, once);
  }

  #plan(inFlight: readonly string[] = []): Plan {
    const { nowMs } = this.#clock;
    const { items, fleet } = this.#cluster;
    const revision = this.#target;
    const none = { revision, mayGo: [], againAtMs: undefined };
    if (this.#view.isDeleted) return { ...none, end: 'withdrawn' };
    const named = new Set(inFlight);
    for (const { states } of this.#permits) for (const uid of states.keys()) named.add(uid);
    const isOwn = this.#permits.some(({ states }) => states.size > 0);
    let room = fleet.maxUnavailable;
    let left = 0;
    let missing = 0;
    for (const item of items.values()) {
      const isAvailable = this.#cluster.isAvailable(item);
      if (!isAvailable || (named.has(item.uid) && item.revision !== revision)) room -= 1;
      if (item.revision !== revision) left += 1;
      else if (!isAvailable) missing += 1;
    }
    if (left + missing === 0) return { ...none, end: 'done' };
    if (standing(this.#view.orders, 'abort').length > 0) return { ...none, end: 'aborted' };
    if (this.#isHeld) return { ...none, wait: { reason: 'Paused', isOwn: false } };
    if (left === 0) return { ...none, wait: { reason: this.#cluster.lack, isOwn } };

    const mayGo: string[] = [];
    const restsUntilMs = this.#refusals?.atMs ?? 0;
    let againAtMs = restsUntilMs > nowMs ? restsUntilMs : undefined;
    let isNamed = 0;
    for (const item of items.values()) {
      if (item.revision === revision) continue;
      if (named.has(item.uid)) {
        isNamed += 1;
        continue;
      }
      const isAvailable = this.#cluster.isAvailable(item);
      if (isAvailable && room <= 0) continue;
      const atMs = Math.max(restsUntilMs, this.#retries.get(item.uid)?.atMs ?? 0);
      if (atMs > nowMs) {
        againAtMs = Math.min(againAtMs ?? atMs, atMs);
        continue;
      }
      if (isAvailable) room -= 1;
      mayGo.push(item.uid);
    }
    const isProbe = this.#refusals !== undefined;
    if (isProbe && isOwn) return { ...none, wait: { reason: 'Denied', isOwn } };
    if (mayGo.length > 0) return { revision, mayGo: isProbe ? mayGo.slice(0, mostInBatch) : mayGo, againAtMs };
    const isMissing = isNamed === left && !isOwn;
    const reason = isMissing ? 'BatchNotRunning' : againAtMs === undefined ? this.#cluster.lack : 'Denied';
    return { revision, mayGo, againAtMs, wait: { reason, isOwn } };
  }

  /** What pays is what is known, and what is answered leaves out what the operation says it has handed in. */
  #answer(most: number, inFlight: readonly string[] = []): Answer {
    this.runs.answers += 1;
    const owed = this.#plan();
    const plan = inFlight.length === 0 ? owed : this.#plan(inFlight);
    const { revision, mayGo, wait, end } = plan;
    const uids = mayGo.slice(0, most);
    const known = this.#known(owed);
    const paysFor = this.#rules.answersPayAll ? known.mayGo : uids;
    this.#paid = answered(this.#paid, { ...known, mayGo: paysFor }, this.#clock.nowMs);
    if (!this.#rules.answersLast) this.#paid = { ...this.#paid, fruitless: 0 };
    this.#freeSinceMs = undefined;
    const { term } = this;
    if (end !== undefined) return { term, kind: end };
    if (uids.length > 0) return { term, kind: 'items', revision, uids, more: mayGo.length > most };
    return wait === undefined || wait.isOwn ? { term, kind: 'nothing' } : { term, kind: 'wait', reason: wait.reason };
  }

  #known(plan: Plan): Known {
    const { nowMs } = this.#clock;
    const { mayGo, wait, end } = plan;
    if (mayGo.length === 0) this.#freeSinceMs = undefined;
    else this.#freeSinceMs ??= nowMs;
    const of = wait && `${wait.reason} ${wait.isOwn}`;
    if (of !== this.#waits?.of) this.#waits = of === undefined ? undefined : { of, sinceMs: nowMs };
    return {
      isWanted: end === undefined,
      isRunning: this.#isRunning,
      isNothingLeft: end !== undefined,
      mayGo,
      collectsUntilMs: (this.#freeSinceMs ?? nowMs) + this.#collectMs(plan),
      hasRoomForBatch: this.#permits.length < mostInFlight,
      endsBatch: this.#permits.some(({ isEnding }) => isEnding),
      ...(wait && { wait: { ...wait, sinceMs: this.#waits?.sinceMs ?? nowMs } }),
    };
  }

  #owe(plan: Plan = this.#plan()): void {
    this.#callOff();
    this.#callOffAgain();
    if (this.mode !== 'leads') return;
    const { nowMs } = this.#clock;
    if (plan.againAtMs !== undefined)
      this.#callOffAgain = this.#clock.after(plan.againAtMs - nowMs, () => this.#passSoon());
    const known = this.#known(plan);
    const fromMs = owedFromMs(known, this.#paid);
    if (fromMs === undefined) return;
    const atMs = sendAtMs(fromMs, this.#sent);
    if (atMs > nowMs) {
      this.#callOff = this.#clock.after(atMs - nowMs, () => this.#owe());
      return;
    }
    const outcome = this.#temporal.signal(known.isWanted);
    this.#sent = { lastMs: nowMs, unfollowed: this.#sent.unfollowed + 1, isBack: false };
    if (outcome === 'noRun') this.#isRunning = false;
    if (outcome === 'received') this.#isRunning = true;
    this.#owe(plan);
  }

  /** Which runs are open is listed now and then. */
  #listRuns(): void {
    this.#clock.after(listMs, () => {
      if (this.mode !== 'leads') return;
      if (!this.#temporal.isAway) this.#listed(this.#temporal.runId);
      this.#passSoon();
      this.#listRuns();
    });
  }

  #listed(run: string | undefined): void {
    this.#isRunning = run !== undefined;
    if (!this.#rules.holdsEndWithRun) return;
    for (const [key, of] of this.#holds) if (of !== run) this.#holds.delete(key);
  }

  #delay(of: keyof Delays): number {
    const delays = this.#delays[of];
    return delays[this.#turns[of]++ % Math.max(delays.length, 1)] ?? 1;
  }
}
