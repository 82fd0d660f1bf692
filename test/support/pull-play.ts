import { jest } from '@jest/globals';
import { awaitNodesActivity, type NodeHolder } from '../../activities/fleet/nodes.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import { heldBackBy, type NodeStanding, nodesToTell } from '../../plan/images/image-pull-job.ts';
import { pullEndOf } from '../../plan/images/pull-waves.ts';
import { WaveHolder } from '../../watcher/kinds/image-pull-job/wave-holder.ts';
import type { WaveJudgement } from '../../watcher/kinds/image-pull-job/waves.ts';
import { type PlayedPulls, playPulls } from './played-pulls.ts';
import { bornAt, bornMs } from './pull-objects.ts';

export const pullUid = 'job-1';

type State = NodeStanding['state'];

const plays: PullPlay[] = [];

/** Before each test. */
export function useClockOfPulls(): void {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
}

/** After each test. */
export function endPullPlays(): void {
  for (const play of plays.splice(0)) play.stop();
  jest.useRealTimers();
}

/**
 * One job in memory: its nodes, the reconciles of the controller, and its operation, whose waves are handed in by the real
 * activity, so that heartbeats are counted.
 */
export class PullPlay {
  job: ImagePullJob;
  isGone = false;
  /** Nodes that take no further image. */
  readonly full = new Set<string>();
  /** Why the copies of its Secrets cannot be written. */
  secretTrouble: string | undefined;
  readonly states = new Map<string, State>();
  readonly told: string[] = [];
  /** The most nodes that pulled at once. */
  most = 0;
  /** Numbers of waves whose activity is paused by hand before a watcher has taken it. */
  readonly pausedByHand = new Set<number>();
  /** How often its operation was told to ask, attempts at waves, and heartbeats of these. */
  readonly counts = { tells: 0, attempts: 0, heartbeats: 0 };
  holder: WaveHolder;
  #lost = new AbortController();
  #attempts = new AbortController();
  #againInMs: number | undefined;
  #isWoken = false;
  readonly #pulls: PlayedPulls | undefined;

  constructor(job: ImagePullJob, nodes: readonly string[], { hasOperation = true } = {}) {
    this.job = job;
    for (const node of nodes) this.states.set(node, 'unasked');
    if (hasOperation) this.#pulls = playPulls(() => this.#activities());
    this.holder = this.newTerm();
    plays.push(this);
  }

  stop(): void {
    this.#pulls?.stop();
  }

  /** Another leader. */
  newTerm(): WaveHolder {
    this.#lost.abort(new Error('the lease is lost'));
    this.#lost = new AbortController();
    const wake = () => {
      this.#isWoken = true;
    };
    this.holder = new WaveHolder({
      term: { lost: this.#lost.signal },
      look: () => (this.isGone ? undefined : this.judgement()),
      ...{ wake, remind: wake },
      tell: (_, nth) => {
        this.counts.tells += 1;
        if (pullEndOf(this.job)) this.#pulls?.tell(pullUid);
        else this.#pulls?.want({ argument: { job: { name: 'warm', uid: pullUid } }, inputs: String(nth) });
      },
    });
    return this.holder;
  }

  /** Every attempt at a wave is lost. */
  loseAttempts(): void {
    this.#attempts.abort(new Error('Temporal has started another attempt'));
    this.#attempts = new AbortController();
  }

  get operation() {
    return this.#pulls?.of(pullUid);
  }

  get questions(): number {
    return this.operation?.counts.questions ?? 0;
  }

  /** Billable: signals, questions, attempts at waves and heartbeats. */
  get actions(): number {
    const { tells, attempts, heartbeats } = this.counts;
    return tells + this.questions + attempts + heartbeats;
  }

  outcomes() {
    const all = [...(this.operation?.outcomes ?? [])].toSorted(([one], [other]) => one - other);
    return all.flatMap(([, { nodes }]) => nodes);
  }

  /** The nodes of all waves that have ended, in their order, without those that were given back. */
  named(): readonly string[] {
    return this.outcomes().flatMap(({ node, why }) => (why?.startsWith('not now: ') ? [] : [node]));
  }

  /** The nodes of waves in flight. */
  inFlight(): readonly string[] {
    return (this.operation?.progress().inFlight ?? []).flatMap(({ batch }) => batch);
  }

  active(): readonly string[] {
    return [...this.states].filter(([, state]) => state === 'active').map(([node]) => node);
  }

  standings(): readonly NodeStanding[] {
    return [...this.states]
      .map(([node, state]) => ({
        ...{ node, state, lacksSecret: false },
        ...(state === 'unasked' && this.full.has(node) && { held: 'full' as const }),
      }))
      .sort((a, b) => (a.node < b.node ? -1 : 1));
  }

  judgement(): WaveJudgement {
    const nodes = this.standings();
    const { secretTrouble } = this;
    const wait = heldBackBy(this.job, nodes, { nowMs: bornMs, ...(secretTrouble !== undefined && { secretTrouble }) });
    return { job: this.job, nodes, mayTell: secretTrouble === undefined, heldBackBy: wait, end: pullEndOf(this.job) };
  }

  /** One reconcile, like that of the controller. */
  pass(): void {
    this.#isWoken = false;
    const waves = this.holder.of(pullUid);
    const isOpen = pullEndOf(this.job) === undefined;
    if (isOpen) {
      const before = this.standings();
      waves.see(before);
      const { hasTurn, mayTell } = waves.permission(this.job, before);
      for (const node of this.secretTrouble === undefined ? nodesToTell(this.job, before, hasTurn) : []) {
        if (!mayTell(node)) continue;
        waves.begins(node, bornMs);
        this.states.set(node, 'active');
        this.told.push(node);
      }
      // the status is written
      const counts = { desired: 0, active: 0, succeeded: 0, failed: 0 };
      this.job = { ...this.job, status: { ...counts, startTime: bornAt, ...this.job.status } };
    }
    this.most = Math.max(this.most, this.active().length);
    this.#againInMs = waves.judge(this.judgement())?.againInMs;
  }

  /** Reconciles until nothing asks for another, and again after so long, or as soon as a reconcile has asked for it. */
  async settle(ms = 0): Promise<void> {
    for (let leftMs = ms; ; ) {
      do {
        this.pass();
        await passMs();
      } while (this.#isWoken);
      if (leftMs <= 0) return;
      const nextMs = Math.min(leftMs, Math.ceil(this.#againInMs ?? leftMs), mostPassMs);
      leftMs -= nextMs;
      await passMs(nextMs);
    }
  }

  end(node: string, state: State = 'succeeded'): void {
    this.states.set(node, state);
  }

  finish(reason: string): void {
    const failed = { type: 'Failed', status: 'True' as const, reason, message: reason, lastTransitionTime: bornAt };
    const counts = { desired: 0, active: 0, succeeded: 0, failed: 0 };
    this.job = { ...this.job, status: { ...counts, startTime: bornAt, completionTime: bornAt, conditions: [failed] } };
  }

  pause(isPaused: boolean): void {
    const status = isPaused ? ('True' as const) : ('False' as const);
    const condition = { type: 'Paused', status, reason: 'X', message: 'X by ann', lastTransitionTime: bornAt };
    const counts = { desired: 0, active: 0, succeeded: 0, failed: 0 };
    this.job = { ...this.job, status: { ...counts, ...this.job.status, conditions: [condition] } };
  }

  /** Until no node pulls any more, each for a second. */
  async playOut(): Promise<void> {
    for (await this.settle(); this.active().length > 0; await this.settle(1_000)) {
      const [first] = this.active();
      if (first !== undefined) this.end(first);
    }
  }

  #activities(): NodeHolder {
    const { holder } = this;
    return {
      next: (uid, question) => holder.next(uid, question),
      progressOf: (uid, wave) => holder.progressOf(uid, wave),
      isBegun: (uid, wave) => holder.isBegun(uid, wave),
      confirmed: (uid) => holder.confirmed(uid),
      await: async (uid, { run = '', number, nodes }, life) => {
        if (this.pausedByHand.has(number)) {
          while (this.pausedByHand.has(number)) await new Promise((resolve) => void setTimeout(resolve, 10_000));
          throw new Error('Temporal has started another attempt');
        }
        this.counts.attempts += 1;
        const beat = () => {
          this.counts.heartbeats += 1;
        };
        const activity = awaitNodesActivity({
          queueOf: () => holder,
          runId: () => run,
          attempt: () => ({
            confirm: async () => {
              beat();
              return 'counts' as const;
            },
            heartbeat: beat,
            heartbeatTimeoutMs: 60_000,
            cancelled: AbortSignal.any([life.ended, this.#attempts.signal]),
          }),
        });
        return await activity({ job: { namespace: 'shop', name: 'warm', uid }, number, nodes });
      },
    };
  }
}

/** A reconcile is made at least as often, for other reasons. */
const mostPassMs = 900_000;

/** What is on its way arrives within a few turns of the event loop. */
export async function passMs(ms = 0): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
}

/** n000, n001 and so on. */
export function nodeNames(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `n${String(index).padStart(count > 1_000 ? 4 : 3, '0')}`);
}
