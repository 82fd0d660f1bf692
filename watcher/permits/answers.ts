import { randomUUID } from 'node:crypto';
import type { AnswerOrder } from '../../plan/permits/in-flight.ts';

/** The answers of one leading watcher about the objects of a kind, during one term. */
export class Answers<Answer> {
  readonly #term = randomUUID().slice(0, 8);
  #nth = 1;
  /** Those that were given in this turn of the event loop, by object. */
  readonly #shared = new Map<string, Answer>();

  /** The place of the next answer. */
  order(): AnswerOrder {
    return { term: this.#term, nth: this.#nth++ };
  }

  /** A batch was handed in: what was answered before does not know of it. */
  handedIn(uid: string): void {
    this.#shared.delete(uid);
  }

  /** Batches that end together share one answer: it takes a look at the whole object. */
  shared(uid: string, give: () => Answer): Answer {
    const known = this.#shared.get(uid);
    if (known !== undefined) return known;
    const answer = give();
    this.#shared.set(uid, answer);
    setImmediate(() => this.#shared.delete(uid));
    return answer;
  }
}
