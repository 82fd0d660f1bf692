import type { NodeHolder } from '../../activities/fleet/nodes.ts';
import type { PullJobOperation } from '../../api/image-pull-job/operation.ts';
import {
  asked,
  begun,
  handedInAgain,
  heard,
  isEnding,
  type PullNews,
  type PullProgress,
} from '../../plan/images/pull-on-nodes.ts';
import type { NodesAnswer, WaveOutcome } from '../../plan/images/pull-waves.ts';
import { carriedIn, onTheirWay } from '../../plan/permits/in-flight.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import type { WantedOperation } from '../../watcher/starter.ts';

/** A life that ends when the test says so. */
export function newLife(): PermitLife & { readonly end: (why?: string) => void } {
  const end = new AbortController();
  return {
    isAlive: () => !end.signal.aborted,
    ended: end.signal,
    end: (why = 'the activity has ended') => end.abort(new Error(why)),
  };
}

/** What one operation was told, in order. */
export interface PlayedPull {
  /** With results of waves, too. */
  readonly answers: readonly NodesAnswer[];
  readonly outcomes: ReadonlyMap<number, WaveOutcome>;
  /** How often it was told to ask, and has asked. */
  readonly counts: { readonly signals: number; readonly questions: number };
  readonly progress: () => PullProgress;
  /** It is told to ask. */
  readonly changed: () => void;
}

/** The operations of pull jobs in this process: the fold of the workflow, without Temporal. */
export interface PlayedPulls {
  /** In place of that of the starter. */
  readonly want: (operation: Pick<WantedOperation, 'argument' | 'inputs'>) => void;
  /** The same for a job that has ended. */
  readonly tell: (uid: string) => void;
  readonly of: (uid: string) => PlayedPull | undefined;
  /** Nothing is asked any more. */
  readonly stop: () => void;
}

/** How soon an attempt follows one that has failed. */
const retryMs = 20;

/** By the clock of the test. */
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export function playPulls(holder: () => NodeHolder | undefined): PlayedPulls {
  const end = newLife();
  const runs = new Map<string, PlayedPull & { inputs: string }>();

  return {
    want({ argument, inputs }) {
      const { uid } = (argument as PullJobOperation).job;
      const known = runs.get(uid);
      if (known?.inputs === inputs) return;
      const run = known ?? { ...begin(uid), inputs };
      runs.set(uid, run);
      run.inputs = inputs;
      run.changed();
    },
    tell: (uid) => runs.get(uid)?.changed(),
    of: (uid) => runs.get(uid),
    stop: () => end.end(),
  };

  function begin(uid: string): PlayedPull {
    const run = `run of ${uid}`;
    let progress = begun();
    let isAsking = false;
    const handedIn = new Set<number>();
    const answers: NodesAnswer[] = [];
    const outcomes = new Map<number, WaveOutcome>();
    const counts = { signals: 0, questions: 0 };
    const put = (news: PullNews) => {
      if (isEnding(progress) && progress.inFlight.length === 0) return;
      progress = handedInAgain(heard(progress, news), Date.now());
      for (const { number, batch: nodes } of progress.inFlight) {
        if (handedIn.has(number)) continue;
        handedIn.add(number);
        void attempt((to) => to.await(uid, { run, number, nodes }, end)).then(({ next, ...outcome }) => {
          // it was handed in again under another number
          if (!progress.inFlight.some((one) => one.number === number)) return;
          outcomes.set(number, outcome);
          answers.push(next);
          put({ kind: 'carriedOut', number, result: { ...outcome, next }, atMs: Date.now() });
        });
      }
      if (isAsking || !progress.mustAsk) return;
      isAsking = true;
      counts.questions += 1;
      const justPermitted = onTheirWay(progress, Date.now()).flat();
      const question = { justPermitted, carried: { ...carriedIn(progress), run } };
      progress = asked(progress);
      void attempt(async (to) => to.next(uid, question)).then((answer) => {
        isAsking = false;
        answers.push(answer);
        put({ kind: 'answer', answer, atMs: Date.now() });
      });
    };
    const changed = () => {
      counts.signals += 1;
      put({ kind: 'changed' });
    };
    return { answers, outcomes, counts, changed, progress: () => progress };
  }

  /** Like an activity: until it has an answer. */
  async function attempt<Answer>(hand: (to: NodeHolder) => Promise<Answer>): Promise<Answer> {
    for (;;) {
      try {
        const to = holder();
        if (to) return await hand(to);
      } catch {
        // another attempt follows
      }
      if (!end.isAlive()) return await new Promise<never>(() => undefined);
      await pause(retryMs);
    }
  }
}
