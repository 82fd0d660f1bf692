/** The batches that an operation has handed in: each ends with its result, or with the activity that has brought it. */
import { type CarriedBatches, mostInFlight } from '../../plan/permits/in-flight.ts';
import { type Held, heldFor, type PermitLife } from './held.ts';

/** How a batch is known. */
export interface BatchKey {
  /** The run that has handed it in. Absent: there is only one. */
  readonly run?: string;
  /** From 1, in the order in which they were chosen. */
  readonly number: number;
}

/** A batch that is handed in. */
export interface OneHeld<Outcome> extends Held<Outcome> {
  readonly request: BatchKey;
}

export interface HeldBatchesOptions<Held> {
  /** Whether it names this item, also if that is through. */
  readonly names: (held: Held, id: string) => boolean;
  /** The item is in the batch of this number, so this one does not wait for it, unless it is through. */
  readonly moved: (held: Held, id: string, to: number) => void;
  /** It has ended. */
  readonly left?: (held: Held) => void;
}

export class HeldBatches<Outcome, Batch extends OneHeld<Outcome>> {
  readonly #options: HeldBatchesOptions<Batch>;
  readonly #batches = new Map<number, Batch>();

  constructor(options: HeldBatchesOptions<Batch>) {
    this.#options = options;
  }

  /** How many are in flight. */
  get size(): number {
    return this.#batches.size;
  }

  /** Whether another batch may be handed in. */
  get hasRoom(): boolean {
    return this.#batches.size < mostInFlight;
  }

  /** All of them, in the order in which they were handed in. What is changed meanwhile does not change this. */
  all(): readonly Batch[] {
    return [...this.#batches.values()];
  }

  of(number: number): Batch | undefined {
    return this.#batches.get(number);
  }

  /**
   * Takes a batch of these items in. It replaces one of the same number and those of another run (P-6), and takes its items from those
   * before it; what is in a later one stays there, as this one was taken back and is late.
   */
  take(
    request: BatchKey,
    ids: readonly string[],
    life: PermitLife,
    keep: (held: Held<Outcome>) => Batch,
  ): Promise<Outcome> {
    const { moved, names, left } = this.#options;
    const { run, number } = request;
    this.#batches.get(number)?.fail(new Error('a later attempt has brought the batch again'));
    this.#drop((other) => other.run !== run);
    const inLater: { readonly id: string; readonly later: number }[] = [];
    for (const other of this.all()) {
      const { number: later } = other.request;
      for (const id of ids) {
        if (!names(other, id)) continue;
        if (later < number) moved(other, id, number);
        else inLater.push({ id, later });
      }
    }
    return heldFor<Outcome, Batch>(
      life,
      (held) => {
        const batch = keep(held);
        this.#batches.set(number, batch);
        for (const { id, later } of inLater) moved(batch, id, later);
        return batch;
      },
      (held) => {
        if (this.#batches.get(number) === held) this.#batches.delete(number);
        left?.(held);
      },
    );
  }

  /** The run asks, and these of its batches count: all others were taken back. */
  carried({ run, numbers, next }: CarriedBatches & Pick<BatchKey, 'run'>): void {
    const counts = new Set(numbers);
    this.#drop((one) => one.run !== run || (one.number < next && !counts.has(one.number)));
  }

  /** Ends everything without an answer. */
  fail(reason: unknown): void {
    for (const held of this.all()) held.fail(reason);
  }

  #drop(isTakenBack: (request: BatchKey) => boolean): void {
    for (const held of this.all()) {
      if (isTakenBack(held.request)) held.fail(new Error('the operation has taken the batch back'));
    }
  }
}
