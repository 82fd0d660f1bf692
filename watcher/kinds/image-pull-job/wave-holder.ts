import type { NodeHolder } from '../../../activities/fleet/nodes.ts';
import type { Term } from '../../../kube/leader.ts';
import type { NextNodes, Wave, WaveOutcome, WaveQuestion } from '../../../plan/images/pull-waves.ts';
import type { PermitLife } from '../../permits/held.ts';

import { JobWaves } from './waves.ts';

/** What the operations of all jobs have handed in during one term; all of it ends with the term. */
export class WaveHolder implements NodeHolder {
  readonly #jobs = new Map<string, JobWaves>();
  readonly #lost: AbortSignal;
  readonly #wake: (uid: string) => void;

  constructor({ lost }: Pick<Term, 'lost'>, wake: (uid: string) => void) {
    this.#lost = lost;
    this.#wake = wake;
    const end = () => {
      for (const waves of this.#jobs.values()) waves.fail(lost.reason);
      this.#jobs.clear();
    };
    if (!lost.aborted) lost.addEventListener('abort', end, { once: true });
  }

  /** Of a job that is reconciled. */
  of(uid: string): JobWaves {
    const known = this.#jobs.get(uid);
    if (known) return known;
    const waves = new JobWaves();
    this.#jobs.set(uid, waves);
    return waves;
  }

  /** Of a job that needs none, unless its operation has handed something in. */
  known(uid: string): JobWaves | undefined {
    return this.#jobs.get(uid);
  }

  /** The job is gone. Whether its operation was told that it is. */
  forget(uid: string): boolean {
    const isTold = this.#jobs.get(uid)?.gone() ?? false;
    this.#jobs.delete(uid);
    return isTold;
  }

  ask(uid: string, question: WaveQuestion, life: PermitLife): Promise<NextNodes> {
    return this.#take(uid, life, (waves) => waves.ask(question, life));
  }

  await(uid: string, wave: Wave, life: PermitLife): Promise<WaveOutcome> {
    return this.#take(uid, life, (waves) => waves.await(wave, life));
  }

  progressOf(uid: string, wave?: number): unknown {
    return this.#jobs.get(uid)?.progressOf(wave);
  }

  async #take<Answer>(uid: string, life: PermitLife, take: (waves: JobWaves) => Promise<Answer>): Promise<Answer> {
    this.#lost.throwIfAborted();
    if (!life.isAlive()) throw life.ended.reason;
    const answer = take(this.of(uid));
    this.#wake(uid);
    try {
      return await answer;
    } catch (error) {
      // what ends without an answer may be what the question waits for
      this.#wake(uid);
      throw error;
    }
  }
}
