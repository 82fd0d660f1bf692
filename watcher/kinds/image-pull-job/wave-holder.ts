import type { NodeHolder, QuestionOfRun } from '../../../activities/fleet/nodes.ts';
import type { Term } from '../../../kube/leader.ts';
import type { NodesAnswer, WaveResult } from '../../../plan/images/pull-waves.ts';
import { mostInBatch } from '../../../plan/permits/in-flight.ts';
import { Answers } from '../../permits/answers.ts';
import type { PermitLife } from '../../permits/held.ts';
import { JobWaves, type NodesQuestion, type WaveJudgement, type WaveRequest } from './waves.ts';

export interface WaveHolderOptions {
  readonly term: Pick<Term, 'lost'>;
  /** Where the nodes of a job stand at this moment; undefined: the job is gone. */
  readonly look: (uid: string) => WaveJudgement | undefined;
  /** Requests a pass over a job. */
  readonly wake: (uid: string) => void;
  /** The same, unless its last pass has failed: then it keeps its pause. */
  readonly remind: (uid: string) => void;
  /** Has the operation of a job told to ask, and started if nodes may still go; for the nth time in this term, of all jobs. */
  readonly tell: (uid: string, nth: number) => void;
}

/** What the operations of all jobs have handed in during one term; all of it ends with the term. */
export class WaveHolder implements NodeHolder {
  readonly #options: WaveHolderOptions;
  readonly #jobs = new Map<string, JobWaves>();
  readonly #answers = new Answers<NodesAnswer>();
  #tells = 0;

  constructor(options: WaveHolderOptions) {
    this.#options = options;
    const { lost } = options.term;
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
    const waves = new JobWaves(() => this.#options.tell(uid, ++this.#tells));
    this.#jobs.set(uid, waves);
    return waves;
  }

  /** Of a job that needs none, unless its operation has handed something in. */
  known(uid: string): JobWaves | undefined {
    return this.#jobs.get(uid);
  }

  /** The job is gone. Whether its operation is told so with the result of a wave. */
  forget(uid: string): boolean {
    const waves = this.#jobs.get(uid);
    this.#jobs.delete(uid);
    return waves?.withdrawn() === true;
  }

  next(uid: string, { carried, ...question }: NodesQuestion & QuestionOfRun = {}): NodesAnswer {
    this.#options.term.lost.throwIfAborted();
    const order = this.#answers.order();
    const judgement = this.#options.look(uid);
    if (judgement === undefined) return { kind: 'withdrawn', order };
    const waves = this.of(uid);
    if (carried) waves.carried(carried);
    waves.wakeUps.followed();
    return { ...waves.answer(judgement, question), order };
  }

  async await(uid: string, request: WaveRequest, life: PermitLife): Promise<WaveResult> {
    const { term, wake } = this.#options;
    term.lost.throwIfAborted();
    if (!life.isAlive()) throw life.ended.reason;
    const ended = this.of(uid).take(request, life);
    this.#answers.handedIn(uid);
    wake(uid);
    try {
      const outcome = await ended;
      return { ...outcome, next: this.#answers.shared(uid, () => this.next(uid, { most: mostInBatch })) };
    } catch (error) {
      // its nodes may go in another wave
      wake(uid);
      throw error;
    }
  }

  confirmed(uid: string): void {
    this.#options.remind(uid);
  }

  progressOf(uid: string, wave: number): unknown {
    return this.#jobs.get(uid)?.progressOf(wave);
  }

  isBegun(uid: string, wave: number): boolean {
    return this.#jobs.get(uid)?.isBegun(wave) === true;
  }
}
