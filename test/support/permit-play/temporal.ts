import type { Clock } from './clock.ts';
import type {
  Answer,
  Applied,
  Attempt,
  BatchRequest,
  BatchResult,
  Command,
  LeaderPart,
  News,
  OperationPart,
  OperationPorts,
  Question,
} from './protocol.ts';

/** What becomes of a message: one after the other from a list that goes round. */
export type Fate = 'arrives' | 'lost' | 'twice' | 'late';

type Work =
  | { readonly kind: 'next'; readonly question: Question }
  | { readonly kind: 'batch'; readonly batch: BatchRequest }
  | { readonly kind: 'command'; readonly command: Command };

interface Task {
  readonly seq: number;
  readonly work: Work;
  attempt: number;
  isPaused: boolean;
  endedAtMs?: number;
  poller?: Poller;
}

interface Run {
  readonly id: string;
  readonly operation: OperationPart;
  readonly before: unknown;
  readonly log: News[];
  /** Where each workflow task ended in the log. */
  readonly turns: number[];
  readonly tasks: Map<number, Task>;
  readonly timers: Map<number, number>;
  isOpen: boolean;
  isReplaying: boolean;
  isDue: boolean;
  closedAtMs?: number;
}

/** A watcher that takes tasks from the queue. `frozen`: those that it takes come to nothing. */
export interface Poller extends LeaderPart {
  readonly isPolling: () => boolean;
  readonly isFrozen: () => boolean;
}

const hopMs = 3;
const lateMs = 2_500;
const retryMs = 1_000;
const timeoutMs = { next: 30_000, batch: 60_000, command: 15_000 } as const;

/** Temporal as far as the protocol needs it: durable runs of one workflow ID, signals, activities, timers. */
export class Temporal {
  /** What is billed, and what else is counted. */
  readonly counts = {
    starts: 0,
    signals: 0,
    activities: 0,
    heartbeats: 0,
    timers: 0,
    questions: 0,
    tasks: 0,
    bytes: 0,
    longestQuestion: 0,
  };
  readonly pollers: Poller[] = [];
  readonly ends: string[] = [];
  readonly wrongs: string[] = [];
  /** Whether the bytes of payloads are counted. */
  measures = false;
  onBack: () => void = () => undefined;
  run: Run | undefined;
  fates: { signals: readonly Fate[]; results: readonly Fate[]; tasks: readonly Fate[] } = calm;
  #isAway = false;
  readonly #whenBack: (() => void)[] = [];
  #turn = 0;
  #runs = 0;
  readonly #clock: Clock;
  readonly #begin: (ports: OperationPorts, before: unknown) => OperationPart;

  /** `begin`: a run of the operation, with what the run before has left to it. */
  constructor(clock: Clock, begin: (ports: OperationPorts, before: unknown) => OperationPart) {
    this.#clock = clock;
    this.#begin = begin;
  }

  get billed(): number {
    const { starts, signals, activities, heartbeats, timers } = this.counts;
    return starts + signals + activities + heartbeats + timers;
  }

  /** Of the run that is open. */
  get runId(): string | undefined {
    return this.run?.id;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  setAway(isAway: boolean): void {
    this.#isAway = isAway;
    if (isAway) return;
    for (const what of this.#whenBack.splice(0)) what();
    this.onBack();
  }

  signal(withStart: boolean): 'received' | 'noRun' | 'noAnswer' {
    if (this.#isAway) return 'noAnswer';
    this.counts.signals += 1;
    if (this.run === undefined && !withStart) return 'noRun';
    const fate = this.#fate('signals');
    const arrive = () => this.#receive({ kind: 'changed' }, withStart);
    if (fate === 'late') this.#clock.after(lateMs, arrive);
    else if (fate !== 'lost') arrive();
    if (fate === 'twice') arrive();
    return 'received';
  }

  /** Whether each batch of the run that is open is with this watcher. */
  areBatchesWith(poller: Poller): boolean {
    const batches = [...(this.run?.tasks.values() ?? [])].filter(({ work }) => work.kind === 'batch');
    return batches.every((task) => task.attempt === 0 || task.poller === poller);
  }

  /** Of an operator. */
  command(command: Command, withStart: boolean): void {
    this.counts.signals += 1;
    this.#receive({ kind: 'command', command }, withStart);
  }

  terminate(): void {
    if (this.run) this.#close(this.run, 'terminated');
  }

  /** Begins the run again after one of its workflow tasks. */
  reset(at: number): void {
    const { run } = this;
    if (run === undefined || run.turns.length === 0) return;
    const turn = at % run.turns.length;
    this.#close(run, 'reset');
    const again = this.#newRun(run.before, (fresh) => {
      let from = 0;
      for (const end of run.turns.slice(0, turn + 1)) {
        this.#replay(fresh, run.log.slice(from, end));
        from = end;
      }
    });
    for (const news of run.log.slice(run.turns[turn])) {
      if (news.kind === 'changed' || news.kind === 'command') this.#append(again, news);
    }
  }

  handOver(): void {
    const { run } = this;
    if (run === undefined) return;
    run.operation.isHandOverDue = true;
    this.#wake(run);
  }

  pauseActivity(index: number): void {
    const task = this.#task(index);
    if (task) {
      task.isPaused = true;
      task.endedAtMs = this.#clock.nowMs;
    }
  }

  unpauseActivities(): void {
    const { run } = this;
    for (const task of run?.tasks.values() ?? []) {
      if (!task.isPaused) continue;
      task.isPaused = false;
      delete task.endedAtMs;
      if (run) this.#dispatch(run, task);
    }
  }

  cancelActivity(index: number): void {
    const { run } = this;
    const task = this.#task(index);
    if (run === undefined || task === undefined) return;
    task.endedAtMs = this.#clock.nowMs;
    run.tasks.delete(task.seq);
    this.#append(run, { kind: 'lost', seq: task.seq });
  }

  /** A watcher has died: its tasks time out. */
  died(poller: Poller): void {
    const { run } = this;
    for (const task of run?.tasks.values() ?? []) {
      if (task.poller === poller && run) this.#retry(run, task, task.attempt, timeoutMs[task.work.kind]);
    }
  }

  #task(index: number): Task | undefined {
    const tasks = [...(this.run?.tasks.values() ?? [])];
    return tasks[index % Math.max(tasks.length, 1)];
  }

  #receive(news: News, withStart: boolean): void {
    if (this.run === undefined && !withStart) return;
    if (this.run === undefined) {
      this.counts.starts += 1;
      this.#newRun(undefined);
    }
    if (this.run) this.#append(this.run, news);
  }

  #newRun(before: unknown, replay?: (run: Run) => void): Run {
    const made: { run?: Run } = {};
    const tasks = new Map<number, Task>();
    const timers = new Map<number, number>();
    let nextSeq = 1;
    const of = () => (made.run?.isReplaying === false ? made.run : undefined);
    const schedule = (work: Work): number => {
      const task: Task = { seq: nextSeq++, work, attempt: 0, isPaused: false };
      tasks.set(task.seq, task);
      const run = of();
      if (run) this.#dispatch(run, task);
      return task.seq;
    };
    const ports: OperationPorts = {
      next: (question) => schedule({ kind: 'next', question }),
      carryOut: (batch) => schedule({ kind: 'batch', batch }),
      apply: (command) => schedule({ kind: 'command', command }),
      timer: (ms) => {
        const seq = nextSeq++;
        timers.set(seq, ms);
        const run = of();
        if (run) this.#arm(run, seq, ms);
        return seq;
      },
      cancel: (seq) => {
        const task = tasks.get(seq);
        if (task) task.endedAtMs = this.#clock.nowMs;
        tasks.delete(seq);
      },
    };
    const operation = this.#begin(ports, before);
    const run: Run = {
      ...{ id: `run ${++this.#runs}`, operation, before, log: [], turns: [], tasks, timers },
      ...{ isOpen: true, isReplaying: true, isDue: false },
    };
    made.run = run;
    this.run = run;
    replay?.(run);
    run.isReplaying = false;
    for (const task of tasks.values()) this.#dispatch(run, task);
    for (const [seq, ms] of timers) this.#arm(run, seq, ms);
    return run;
  }

  #replay(run: Run, news: readonly News[]): void {
    for (const one of news) {
      if (one.kind === 'result' || one.kind === 'lost') run.tasks.delete(one.seq);
      if (one.kind === 'timer') run.timers.delete(one.seq);
    }
    run.log.push(...news);
    run.turns.push(run.log.length);
    run.operation.take(news);
  }

  #arm(run: Run, seq: number, ms: number): void {
    this.counts.timers += 1;
    this.#clock.after(ms, () => {
      if (run.timers.delete(seq)) this.#append(run, { kind: 'timer', seq });
    });
  }

  #append(run: Run, news: News): void {
    if (!run.isOpen) return;
    run.log.push(news);
    this.#wake(run);
  }

  #wake(run: Run): void {
    if (run.isDue || !run.isOpen) return;
    run.isDue = true;
    this.#clock.after(hopMs, () => this.#whenThere(() => this.#turnOf(run)));
  }

  /** A workflow task. It ends the run only if nothing has come since it began, which is at the same moment here. */
  #turnOf(run: Run): void {
    run.isDue = false;
    if (!run.isOpen) return;
    this.counts.tasks += 1;
    const news = run.log.slice(run.turns.at(-1) ?? 0);
    run.turns.push(run.log.length);
    const outcome = run.operation.take(news);
    if (outcome === 'ends') this.#close(run, 'ended');
    if (outcome !== 'handsOver') return;
    const before = run.operation.handOver();
    this.#close(run, 'continued as new');
    this.counts.starts += 1;
    this.#newRun(before);
  }

  #close(run: Run, how: string): void {
    run.isOpen = false;
    run.closedAtMs = this.#clock.nowMs;
    if (how === 'ended' && run.tasks.size > 0) this.wrongs.push(`it ends with ${run.tasks.size} activities in flight`);
    this.ends.push(how);
    if (this.run === run) this.run = undefined;
  }

  /** A task is handed to a watcher that polls; from then on it is on its way, whatever becomes of the run. */
  #dispatch(run: Run, task: Task): void {
    this.#clock.after(hopMs, () => this.#whenThere(() => this.#poll(run, task)));
  }

  #poll(run: Run, task: Task): void {
    if (!this.#isPending(run, task) || task.isPaused) return;
    const polling = this.pollers.filter((poller) => poller.isPolling());
    const poller = polling[this.#turn++ % Math.max(polling.length, 1)];
    if (poller === undefined) {
      this.#clock.after(retryMs / 4, () => this.#whenThere(() => this.#poll(run, task)));
      return;
    }
    task.attempt += 1;
    task.poller = poller;
    this.counts.activities += 1;
    if (task.work.kind === 'next') this.counts.questions += 1;
    if (this.measures) {
      const bytes = bytesOf(task.work);
      this.counts.bytes += bytes;
      if (task.work.kind === 'next') this.counts.longestQuestion = Math.max(this.counts.longestQuestion, bytes);
    }
    const { attempt } = task;
    if (poller.isFrozen()) {
      this.#retry(run, task, attempt, timeoutMs[task.work.kind]);
      return;
    }
    const deliver = () => {
      if (poller.isPolling() && !poller.isFrozen()) this.#deliver(run, task, attempt, poller);
      else this.#retry(run, task, attempt, timeoutMs[task.work.kind]);
    };
    if (this.#fate('tasks') === 'late') this.#clock.after(lateMs, deliver);
    else deliver();
  }

  #deliver(run: Run, task: Task, attempt: number, poller: Poller): void {
    const { work } = task;
    switch (work.kind) {
      case 'next':
        poller.next(work.question, this.#attempt<Answer>(run, task, attempt));
        return;
      case 'batch':
        poller.carryOut(work.batch, this.#attempt<BatchResult>(run, task, attempt));
        return;
      case 'command':
        poller.apply(work.command, this.#attempt<Applied>(run, task, attempt));
    }
  }

  #attempt<Result extends Answer | BatchResult | Applied>(run: Run, task: Task, attempt: number): Attempt<Result> {
    const isMine = () => this.#isPending(run, task) && task.attempt === attempt && !task.isPaused;
    return {
      run: run.id,
      confirm: () => {
        if (this.#isAway) return 'noAnswer';
        this.counts.heartbeats += 1;
        return isMine() ? 'alive' : 'ended';
      },
      endedForMs: () => {
        const endedAtMs = Math.min(
          run.closedAtMs ?? Number.POSITIVE_INFINITY,
          task.endedAtMs ?? Number.POSITIVE_INFINITY,
        );
        return Math.max(this.#clock.nowMs - endedAtMs, 0);
      },
      complete: (result) => {
        const fate = this.#fate('results');
        if (this.measures) this.counts.bytes += bytesOf(result);
        if (fate === 'lost') {
          this.#retry(run, task, attempt, timeoutMs[task.work.kind]);
          return;
        }
        const arrive = () =>
          this.#whenThere(() => {
            if (!this.#isPending(run, task) || task.attempt !== attempt) return;
            run.tasks.delete(task.seq);
            this.#append(run, { kind: 'result', seq: task.seq, result });
          });
        this.#clock.after(fate === 'late' ? lateMs : hopMs, arrive);
      },
      fail: () => this.#retry(run, task, attempt, retryMs),
    };
  }

  #retry(run: Run, task: Task, attempt: number, ms: number): void {
    this.#clock.after(ms, () =>
      this.#whenThere(() => {
        if (this.#isPending(run, task) && task.attempt === attempt) this.#poll(run, task);
      }),
    );
  }

  #isPending(run: Run, task: Task): boolean {
    return run.isOpen && run.tasks.get(task.seq) === task;
  }

  #whenThere(what: () => void): void {
    if (this.#isAway) this.#whenBack.push(what);
    else what();
  }

  #fate(of: 'signals' | 'results' | 'tasks'): Fate {
    const fates = this.fates[of];
    return fates[this.#turn++ % Math.max(fates.length, 1)] ?? 'arrives';
  }
}

export const calm = { signals: [], results: [], tasks: [] } as const;

function bytesOf(value: unknown): number {
  return JSON.stringify(value, (_, one: unknown) => (one instanceof Map ? [...one] : one)).length;
}
