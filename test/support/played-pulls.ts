import { setTimeout as pause } from 'node:timers/promises';
import type { NodeHolder } from '../../activities/fleet/nodes.ts';
import type { FirstWave, PullJobOperation } from '../../api/image-pull-job/operation.ts';
import { begun, begunWith, heard, type PullNews, wantedQuestion } from '../../plan/images/pull-on-nodes.ts';
import type { NextNodes, WaveOutcome } from '../../plan/images/pull-waves.ts';
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
  readonly answers: readonly NextNodes[];
  readonly outcomes: ReadonlyMap<number, WaveOutcome>;
}

/** The operations of pull jobs in this process: the fold of the workflow, without Temporal. */
export interface PlayedPulls {
  /** In place of that of the starter. */
  readonly want: (operation: Pick<WantedOperation, 'argument' | 'inputs'>) => void;
  readonly of: (uid: string) => PlayedPull | undefined;
  /** Nothing is asked any more. */
  readonly stop: () => void;
}

/** How soon an attempt follows one that has failed. */
const retryMs = 20;

export function playPulls(holder: () => NodeHolder | undefined): PlayedPulls {
  const end = newLife();
  const runs = new Map<string, PlayedPull & { readonly put: (news: PullNews) => void; inputs: string }>();

  return {
    want({ argument, inputs }) {
      const { job, first } = argument as PullJobOperation;
      const { uid } = job;
      const known = runs.get(uid);
      if (known?.inputs === inputs) return;
      const run = known ?? { ...begin(uid, first), inputs };
      runs.set(uid, run);
      run.inputs = inputs;
      // what it was told at its start needs no look
      if (!known && first) run.put({ kind: 'allowed', step: 'look' });
      else run.put({ kind: 'looked', look: { kind: 'open', image: 'nginx:1.27' } });
    },
    of: (uid) => runs.get(uid),
    stop: () => end.end(),
  };

  function begin(uid: string, first: FirstWave | undefined): PlayedPull & { readonly put: (news: PullNews) => void } {
    let progress = first ? begunWith(first, Date.now()) : begun();
    let asked = '';
    const handedIn = new Set<number>();
    const answers: NextNodes[] = first ? [{ kind: 'wave', ...first }] : [];
    const outcomes = new Map<number, WaveOutcome>();
    const put = (news: PullNews) => {
      progress = heard(progress, news);
      for (const { wave, nodes } of progress.inFlight) {
        if (handedIn.has(wave)) continue;
        handedIn.add(wave);
        void attempt((to) => to.await(uid, { wave, nodes }, end)).then((outcome) => {
          outcomes.set(wave, outcome);
          put({ kind: 'ended', wave, outcome, atMs: Date.now() });
        });
      }
      const wanted = wantedQuestion(progress);
      if (asked === (wanted?.key ?? '')) return;
      asked = wanted?.key ?? '';
      if (wanted === undefined) return;
      const { key, ...of } = wanted;
      void attempt((to) => to.ask(uid, of, end)).then((next) => {
        if (asked !== key) return;
        answers.push(next);
        put({ kind: 'next', next, of, atMs: Date.now() });
      });
    };
    return { answers, outcomes, put };
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
