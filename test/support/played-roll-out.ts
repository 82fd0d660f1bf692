import { type BatchOutcome, type PodBatch, podsOf } from '../../plan/fleet/batch.ts';
import type { Answer, BatchResult } from '../../plan/fleet/permit.ts';
import type { BatchRequest } from '../../watcher/fleet/held-batch.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';

/** The queue of a leader, as a roll-out sees it. */
export interface PlayedQueue {
  next(uid: string): Answer;
  carryOut(uid: string, request: BatchRequest, life: PermitLife): Promise<BatchResult>;
}

export const alive: PermitLife = { isAlive: () => true, ended: new AbortController().signal };

/** What a roll-out does, without Temporal: it asks which pods go next, and has carried out what is in no batch of its own. */
export class PlayedRollOut {
  readonly batches: PodBatch[] = [];
  /** What has become of each batch that has ended. */
  readonly results: BatchOutcome[] = [];
  readonly waits: string[] = [];
  readonly #queue: () => PlayedQueue;
  readonly #uid: string;
  readonly #life: PermitLife;
  readonly #inFlight = new Map<number, { readonly batch: PodBatch; readonly ended: Promise<unknown> }>();
  #number = 1;

  constructor(queue: () => PlayedQueue, uid: string, life: PermitLife = alive) {
    this.#queue = queue;
    this.#uid = uid;
    this.#life = life;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** The pods of all batches, with their namespaces. */
  get pods(): readonly string[] {
    return this.batches.flatMap((batch) => podsOf(batch).map(({ namespace, name }) => `${namespace}/${name}`));
  }

  /** Asks once, and has what may go carried out. */
  ask(): Answer {
    const answer = this.#queue().next(this.#uid);
    if (answer.kind === 'wait') this.waits.push(answer.waitingFor.reason);
    if (answer.kind === 'pods') for (const batch of answer.batches) this.#carryOut(batch);
    return answer;
  }

  /** Asks again and again until everything is rolled out, or so many batches have ended. */
  async run(most = Number.POSITIVE_INFINITY): Promise<Answer> {
    for (;;) {
      const answer = this.batches.length < most ? this.ask() : ({ kind: 'nothing' } as const);
      const isOver = this.batches.length >= most || answer.kind === 'done' || answer.kind === 'withdrawn';
      if (isOver) await this.ended();
      if (isOver) return answer;
      await Promise.race([...this.#ends, new Promise((resolve) => void setTimeout(resolve, 20))]);
      if (!this.#life.isAlive()) throw this.#life.ended.reason;
    }
  }

  /** Until no batch is in flight. */
  async ended(): Promise<void> {
    await Promise.all(this.#ends);
  }

  get #ends(): readonly Promise<unknown>[] {
    return [...this.#inFlight.values()].map(({ ended }) => ended);
  }

  #carryOut(answered: PodBatch): void {
    const own = new Set([...this.#inFlight.values()].flatMap(({ batch }) => batch.pods.map(({ uid }) => uid)));
    const pods = answered.pods.filter(({ uid }) => !own.has(uid));
    if (pods.length === 0) return;
    const [number, batch] = [this.#number++, { ...answered, pods }];
    this.batches.push(batch);
    const ended = this.#queue()
      .carryOut(this.#uid, { number, batch }, this.#life)
      .then(
        ({ next: _, ...outcome }) => void this.results.push(outcome),
        () => undefined, // its life has ended, or the term of the leader
      )
      .finally(() => this.#inFlight.delete(number));
    this.#inFlight.set(number, { batch, ended });
  }
}
