import type {
  Answer,
  Applied,
  BatchRequest,
  BatchResult,
  Command,
  News,
  OperationPart,
  OperationPorts,
  Rules,
} from './protocol.ts';

const mostInBatch = 40;
const mostInFlight = 25;
const unwrittenMs = 2_000;
const refused = { firstMs: 5_000, mostMs: 3_600_000 } as const;

interface InFlight extends BatchRequest {
  readonly seq: number;
  /** Of the last answer that was known when it was handed in. */
  readonly term: number;
}

/** A command that is not known to be written. */
interface Unwritten {
  readonly command: Command;
  /** The activity that applies it; undefined: it is not its turn. */
  seq?: number;
  refusals: number;
  /** It was refused, and is tried again after a pause. */
  isResting?: boolean;
}

/** What a run leaves to the next one. */
export interface HandedOver {
  readonly term: number;
  readonly nextNumber: number;
  readonly batches: readonly BatchRequest[];
  readonly commands: readonly Command[];
  readonly end?: Answer['kind'];
  /** It was woken, or has asked, and has no answer to that. */
  readonly mustAsk: boolean;
}

/** The loop of an operation with many targets: asks, permits, obeys. */
export class Operation implements OperationPart {
  readonly #ports: OperationPorts;
  readonly #rules: Rules;
  #term: number;
  #nextNumber: number;
  #batches: readonly InFlight[] = [];
  #lane: readonly Unwritten[] = [];
  readonly #timers = new Map<number, () => void>();
  #asking: number | undefined;
  /** The last answer was `done`, `withdrawn` or `aborted`. */
  #end: Answer['kind'] | undefined;
  #mustAsk: boolean;
  /** From outside: the history is long. */
  isHandOverDue = false;

  constructor(ports: OperationPorts, rules: Rules, before?: HandedOver) {
    this.#ports = ports;
    this.#rules = rules;
    this.#term = before?.term ?? 0;
    this.#nextNumber = before?.nextNumber ?? 1;
    this.#end = before?.end;
    this.#mustAsk = before?.mustAsk ?? true;
    for (const batch of before?.batches ?? []) this.#handIn(batch);
    this.#lane = (before?.commands ?? []).map((command) => ({ command, refusals: 0 }));
    this.#act();
  }

  take(news: readonly News[]): 'goesOn' | 'ends' | 'handsOver' {
    for (const one of news) this.#hear(one);
    if (this.isHandOverDue) return 'handsOver';
    this.#act();
    const isOver = this.#end !== undefined && this.#batches.length === 0 && this.#lane.length === 0;
    return isOver && this.#asking === undefined ? 'ends' : 'goesOn';
  }

  handOver(): HandedOver {
    return {
      term: this.#term,
      nextNumber: this.#nextNumber,
      batches: this.#batches.map(({ number, revision, uids }) => ({ number, revision, uids })),
      commands: this.#lane.map(({ command }) => command),
      ...(this.#end !== undefined && { end: this.#end }),
      mustAsk: this.#mustAsk || this.#asking !== undefined,
    };
  }

  #hear(news: News): void {
    switch (news.kind) {
      case 'changed':
        this.#mustAsk = true;
        return;
      case 'command':
        this.#obey(news.command);
        return;
      case 'timer':
        this.#timers.get(news.seq)?.();
        this.#timers.delete(news.seq);
        return;
      case 'lost':
        if (this.#asking === news.seq) this.#asking = undefined;
        this.#batches = this.#batches.filter(({ seq }) => seq !== news.seq);
        // an order stands until it is taken back
        for (const unwritten of this.#lane) if (unwritten.seq === news.seq) delete unwritten.seq;
        this.#mustAsk = true;
        return;
      case 'result':
        this.#heardResult(news.seq, news.result);
    }
  }

  #heardResult(seq: number, result: Answer | BatchResult | Applied): void {
    if ('kind' in result) {
      if (this.#asking !== seq) return;
      this.#asking = undefined;
      this.#answered(result);
    } else if ('number' in result) {
      // one that was withdrawn has been handed in again
      if (!this.#batches.some((batch) => batch.seq === seq)) return;
      this.#batches = this.#batches.filter((batch) => batch.seq !== seq);
      this.#answered(result.next);
    } else {
      const of = this.#lane.find((unwritten) => unwritten.seq === seq);
      if (of === undefined) return;
      if (result.isRefused) {
        const times = this.#rules.ordersRest ? of.refusals : 0;
        of.refusals += 1;
        const pauseMs = Math.min(refused.firstMs * 2 ** times, refused.mostMs);
        of.isResting = true;
        this.#timer(pauseMs, () => tryAgain(of));
      } else this.#lane = this.#lane.filter((other) => other !== of);
      this.#answered(result.next);
    }
  }

  #answered(answer: Answer): void {
    // from a watcher that does not lead any more: the one that does was not asked, and goes on waking
    if (answer.term < this.#term) return;
    if (answer.term > this.#term) {
      this.#term = answer.term;
      const before = this.#batches.filter(({ term }) => term !== answer.term);
      for (const { seq } of before) this.#ports.cancel(seq);
      this.#batches = this.#batches.filter(({ term }) => term === answer.term);
      if (!this.#isHeld) for (const batch of before) this.#handIn(batch);
    }
    this.#end = undefined;
    switch (answer.kind) {
      case 'items': {
        if (this.#isHeld) return;
        const uids = answer.uids.filter((uid) => !this.#batches.some((batch) => batch.uids.includes(uid)));
        for (let at = 0; at < uids.length && this.#batches.length < mostInFlight; at += mostInBatch) {
          this.#handIn({
            number: this.#nextNumber++,
            revision: answer.revision,
            uids: uids.slice(at, at + mostInBatch),
          });
        }
        if (answer.more && this.#batches.length < mostInFlight) this.#mustAsk = true;
        return;
      }
      case 'done':
      case 'withdrawn':
      case 'aborted':
        this.#end = answer.kind;
        return;
      case 'nothing':
      case 'wait':
    }
  }

  #handIn({ number, revision, uids }: BatchRequest): void {
    const seq = this.#ports.carryOut({ number, revision, uids });
    this.#batches = [...this.#batches, { number, revision, uids, seq, term: this.#term }];
  }

  /** From the moment a pause arrives until it is written: then every answer knows of it. */
  get #isHeld(): boolean {
    return this.#lane.some(({ command }) => isHold(command));
  }

  /** What is taken back and not written yet is not applied any more, and its key says so where it has been already. */
  #obey(command: Command): void {
    const isTakenBack = ({ name }: Command) => (command.name === 'undo' ? name === 'abort' : isHold({ name }));
    const takes = command.name === 'resume' || command.name === 'undo';
    const dropped = this.#lane.filter((unwritten) => takes && isTakenBack(unwritten.command));
    for (const { seq } of dropped) if (seq !== undefined) this.#ports.cancel(seq);
    const keys = dropped.map((unwritten) => unwritten.command.key);
    const takesBack = [...command.takesBack, ...keys];
    // whoever commands something wants to know what comes of it
    for (const unwritten of this.#lane) tryAgain(unwritten);
    this.#lane = [
      ...this.#lane.filter((unwritten) => !dropped.includes(unwritten)),
      { command: { ...command, takesBack }, refusals: 0 },
    ];
  }

  #act(): void {
    this.#applyNext();
    if (!this.#mustAsk || this.#asking !== undefined) return;
    this.#mustAsk = false;
    this.#asking = this.#ports.next({ inFlight: this.#batches.map(({ number, uids }) => ({ number, uids })) });
  }

  /** In their order; a pause or abort waits for none. */
  #applyNext(): void {
    const isFree = !this.#lane.some(({ seq, command }) => seq !== undefined && !isHold(command));
    const first = isFree ? this.#lane.find(({ seq, command }) => seq === undefined && !isHold(command)) : undefined;
    for (const unwritten of this.#lane) {
      const { command } = unwritten;
      if (unwritten.seq !== undefined || (unwritten !== first && !isHold(command))) continue;
      unwritten.seq = this.#ports.apply(command);
      if (isHold(command) && unwritten.refusals === 0) this.#timer(unwrittenMs, () => this.#cancelBatches(unwritten));
    }
  }

  #cancelBatches(unless: Unwritten): void {
    if (!this.#lane.includes(unless)) return;
    for (const { seq } of this.#batches) this.#ports.cancel(seq);
    this.#batches = [];
  }

  #timer(ms: number, then: () => void): void {
    this.#timers.set(this.#ports.timer(ms), then);
  }
}

function tryAgain(unwritten: Unwritten): void {
  if (unwritten.isResting) delete unwritten.seq;
  unwritten.isResting = false;
}

function isHold({ name }: Pick<Command, 'name'>): boolean {
  return name === 'pause' || name === 'abort';
}
