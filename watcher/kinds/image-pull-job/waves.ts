/**
 * The waves that the operation of one job has handed in, and its question which nodes go next. Both end with the
 * activities that have brought them.
 *
 * A node is told only with permission: a wave in flight names it, or the question which nodes go next is open, so that the
 * next wave will. The question is open while it is handed in, and for a job that no node has yet also before its operation
 * has begun. The nodes that were told so are the first that the next wave names.
 */

import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import type { FirstWave } from '../../../api/image-pull-job/operation.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import type { NodeStanding } from '../../../plan/images/image-pull-job.ts';
import {
  firstNames,
  mostInWave,
  mostWavesInFlight,
  type NextNodes,
  type NodeOutcome,
  nextWave,
  type PullEnd,
  type Wave,
  type WaveOutcome,
  type WaveQuestion,
  waveOutcome,
} from '../../../plan/images/pull-waves.ts';
import { waitWithin } from '../../../plan/text-size.ts';
import type { PermitLife } from '../../permits/held.ts';
import { type Held, heldFor } from '../../permits/held.ts';

interface HeldQuestion extends Held<NextNodes> {
  readonly question: WaveQuestion;
  /** What it waits for without a break, and since when. */
  waiting?: { readonly reason: string; readonly sinceMs: number };
}

interface HeldWave extends Held<WaveOutcome> {
  readonly wave: Wave;
}

/** When a node was told, by both clocks, and how long its pull took. */
interface Begun {
  readonly at: string;
  readonly sinceMs: number;
  ms?: number;
}

/** What the nodes of a job look like in a reconcile. */
export interface WaveJudgement {
  readonly job: ImagePullJob;
  readonly nodes: readonly NodeStanding[];
  /** Whether nodes get the job at all. */
  readonly mayTell: boolean;
  /** What keeps every further node from getting the job. */
  readonly heldBackBy?: WaitingFor | undefined;
}

/** What people see of a wave, or of a question. */
interface WaveProgress {
  readonly of: number;
  readonly told: number;
  readonly pulled: number;
  /** The first nodes that have failed, and that pull. */
  readonly failed: readonly string[];
  readonly now: readonly string[];
  readonly waitingFor?: string;
}

/** After so long a wait is reported; a pause is at once. */
const blockedAfterMs = 5_000;

/** An operation that has neither asked nor handed in anything for so long is woken: a worker of another release may have begun it. */
const unheardMs = 600_000;

/** The wait for waves that are in flight in Temporal and not handed in here. */
const missingReason = 'WaveNotRunning';

/** What the operation was told when there was nothing to name. */
const idle = 'idle';

export class JobWaves {
  readonly #waves = new Map<number, HeldWave>();
  readonly #begun = new Map<string, Begun>();
  /** Nodes that have the job and were named by no wave. */
  readonly #unnamed = new Set<string>();
  #question: HeldQuestion | undefined;
  /** The last wave that was answered, until it is handed in. */
  #chosen: Wave | undefined;
  /** Numbers of waves that have ended here, of those that the operation may not know to have ended. */
  #ended = new Set<number>();
  /** The history begins anew: nodes that ended before are named again. */
  #namesAll = false;
  /** What the last question was answered with, if the operation asks again only when it is told to. */
  #said: string | undefined;
  /** The wave that the operation is told when it is started, until it asks or hands something in. */
  #first: FirstWave | undefined;
  /** The waves that were in flight when the operation asked last. */
  #after: readonly number[] = [];
  #nodes: readonly NodeStanding[] = [];
  #progress = new Map<number | undefined, WaveProgress>();
  /** Whether the operation has asked or handed in anything in this term. */
  #isAttended = false;
  /** When an operation that has not was last woken; at first, when the term or the job began. */
  #wokenAtMs = performance.now();
  #wakes = 0;

  /** How often the operation was woken in this term. */
  get wakes(): number {
    return this.#wakes;
  }

  /** What the operation of a job that has just been created is told when it is started. Call it after `judge`. */
  firstWave(judgement: WaveJudgement): FirstWave | undefined {
    const { job, nodes } = judgement;
    const isNew = job.status?.startTime === undefined && !this.#isAttended;
    if (isNew && this.#first === undefined) {
      for (const { node, state } of nodes) if (state !== 'unasked') this.#unnamed.add(node);
      const { nodes: named, rest } = this.#next(judgement);
      const ended = nodes.filter(hasEnded).length;
      if (named.length > 0) this.#first = { image: job.spec.image, nodes: named, of: nodes.length, ended, rest };
    }
    return this.#first;
  }

  /** Takes a question in; it replaces one that is there. */
  ask(question: WaveQuestion, life: PermitLife): Promise<NextNodes> {
    this.#isAttended = true;
    this.#question?.fail(new Error('a later attempt has asked again'));
    this.#said = undefined;
    const { wave, after } = question;
    // it has taken what it was told when it was started, and will hand it in
    if (this.#first && after.includes(1)) this.#chosen = { wave: 1, nodes: this.#first.nodes };
    this.#first = undefined;
    this.#after = after;
    if (wave === 1) this.#namesAll = true;
    this.#ended = new Set(after.filter((number) => this.#ended.has(number)));
    for (const held of [...this.#waves.values()]) {
      if (!after.includes(held.wave.wave)) held.fail(new Error('the operation does not wait for this wave any more'));
    }
    if (this.#chosen && !after.includes(this.#chosen.wave)) {
      // the answer was lost
      for (const node of this.#chosen.nodes) this.#unnamed.add(node);
      this.#chosen = undefined;
    }
    return heldFor<NextNodes, HeldQuestion>(
      life,
      (held) => {
        this.#question = { ...held, question };
        return this.#question;
      },
      (held) => {
        if (this.#question === held) this.#question = undefined;
      },
    );
  }

  /** Takes a wave in. It replaces one of the same number. */
  await(wave: Wave, life: PermitLife): Promise<WaveOutcome> {
    this.#isAttended = true;
    // it was told all that there was to tell
    if (this.#first?.rest === 0) this.#said = idle;
    this.#first = undefined;
    this.#waves.get(wave.wave)?.fail(new Error('a later attempt has brought the wave again'));
    this.#ended.delete(wave.wave);
    if (this.#chosen?.wave === wave.wave) this.#chosen = undefined;
    return heldFor<WaveOutcome, HeldWave>(
      life,
      (held) => {
        const kept = { ...held, wave };
        this.#waves.set(wave.wave, kept);
        return kept;
      },
      (held) => {
        if (this.#waves.get(wave.wave) === held) this.#waves.delete(wave.wave);
        this.#progress.delete(wave.wave);
      },
    );
  }

  /** Takes in where the nodes stand before it is decided which of them are told. */
  see(nodes: readonly NodeStanding[]): void {
    this.#dropDead();
    this.#nodes = nodes;
    const named = this.#named();
    for (const { node, state } of nodes) {
      this.#time(node, state);
      const isBegun = state !== 'unasked';
      if (!isBegun || named.has(node)) this.#unnamed.delete(node);
      else if (state === 'active' || this.#namesAll) this.#unnamed.add(node);
    }
    this.#namesAll = false;
    const known = new Set(nodes.map(({ node }) => node));
    for (const node of this.#unnamed) if (!known.has(node)) this.#unnamed.delete(node);
    for (const node of this.#begun.keys()) if (!known.has(node)) this.#begun.delete(node);
  }

  /** Which nodes may be told now. It is asked again for each node before that is written. */
  permission(nodes: readonly NodeStanding[]): (node: string) => boolean {
    const waves = new Map<string, HeldWave>();
    for (const held of this.#waves.values()) for (const node of held.wave.nodes) waves.set(node, held);
    const named = this.#named();
    const isFirst = !this.#isAttended && nodes.every(({ state }) => state === 'unasked');
    const question = this.#missing().length === 0 && this.#waves.size < mostWavesInFlight ? this.#question : undefined;
    const further = nodes.filter(
      ({ node, state, held }) => state === 'unasked' && held === undefined && !named.has(node),
    );
    const next = new Set(further.slice(0, Math.max(mostInWave - this.#unnamed.size, 0)).map(({ node }) => node));
    // those that have the job already may get its Secrets
    const begun = new Set(nodes.filter(({ state }) => state === 'active').map(({ node }) => node));
    return (node) => {
      const wave = waves.get(node);
      if (isFirst || begun.has(node)) return true;
      if (wave) return this.#waves.get(wave.wave.wave) === wave && wave.life.isAlive();
      return next.has(node) && this.#question === question && question?.life.isAlive() === true;
    };
  }

  /** A node is told to pull, which counts from now. */
  begins(node: string, nowMs: number): void {
    this.#begun.set(node, { at: new Date(nowMs).toISOString(), sinceMs: performance.now() });
  }

  /**
   * Ends the waves of which each node has ended, and answers the question if there is something to answer. It says when to
   * judge again, if that is not by an event.
   */
  judge(judgement: WaveJudgement): { readonly againInMs?: number } {
    this.see(judgement.nodes);
    this.#endWaves(judgement.nodes);
    if (this.#question) return this.#judgeQuestion(this.#question, judgement);
    return this.#isAttended ? this.#judgeSilence(judgement) : this.#judgeUnattended();
  }

  /** Ends all waves of a job that has ended. Whether the operation was told that it has. */
  finish(job: ImagePullJob, nodes: readonly NodeStanding[], end: PullEnd): boolean {
    this.see(nodes);
    this.#endWaves(nodes, `the job has ended: ${end.reason}`);
    const isNamed = !this.#answerWave({ job, nodes, mayTell: false });
    const question = isNamed ? this.#question : undefined;
    question?.end({ kind: 'finished', end });
    return question !== undefined;
  }

  /** The job is gone. Whether the operation was told that it is. */
  gone(): boolean {
    const question = this.#question;
    this.#endWaves(this.#nodes, 'the job was deleted');
    question?.end({ kind: 'gone' });
    return question !== undefined;
  }

  /** Ends everything without an answer. */
  fail(reason: unknown): void {
    this.#question?.fail(reason);
    for (const held of [...this.#waves.values()]) held.fail(reason);
  }

  /** What people are told of a wave; of the question when no number is given. */
  progressOf(wave?: number): WaveProgress | undefined {
    return this.#progress.get(wave);
  }

  /** Ends the waves of which each node has ended; all waves if there is a reason why other nodes do not. */
  #endWaves(nodes: readonly NodeStanding[], why?: string): void {
    const byName = new Map(nodes.map((standing) => [standing.node, standing]));
    for (const held of [...this.#waves.values()]) {
      const { wave, nodes: named } = held.wave;
      const standings = named.flatMap((node) => byName.get(node) ?? []);
      this.#progress.set(wave, progressIn(standings));
      if (why === undefined && !standings.every(hasEnded)) continue;
      const otherwise = why ?? 'the job does not select this node any more';
      const outcomes = named.map((node) => this.#outcome(node, byName.get(node), otherwise));
      for (const node of named) this.#begun.delete(node);
      this.#ended.add(wave);
      held.end(waveOutcome(outcomes));
    }
  }

  /** What has become of a node; `otherwise`: why it has no image if it has not ended. */
  #outcome(node: string, standing: NodeStanding | undefined, otherwise: string): NodeOutcome {
    const begun = this.#begun.get(node);
    const at = begun?.at ?? standing?.toldAt;
    const told = at === undefined ? {} : { at };
    switch (standing?.state) {
      case 'succeeded': {
        const ms = begun?.ms ?? between(standing);
        return { node, ...told, ...(ms !== undefined && { ms }) };
      }
      case 'failed':
        return { node, ...told, why: standing.why ?? 'the pull failed' };
      case 'active':
        return { node, ...told, why: otherwise };
      case 'unasked':
      case undefined:
        return { node, why: otherwise };
    }
  }

  #judgeQuestion(question: HeldQuestion, judgement: WaveJudgement): { readonly againInMs?: number } {
    const { nodes } = judgement;
    this.#progress.set(undefined, progressIn(nodes));
    const isMissing = this.#missing().length > 0;
    if (!isMissing && this.#answerWave(judgement)) return {};
    const reason = isMissing ? missingReason : this.#reasonToWait(judgement);
    if (reason === undefined) {
      delete question.waiting;
      return {};
    }
    if (reason === idle) {
      this.#said = idle;
      question.end({ kind: 'idle', of: nodes.length, ended: nodes.filter(hasEnded).length });
      return {};
    }
    const { sinceMs } = question.waiting?.reason === reason ? question.waiting : { sinceMs: performance.now() };
    question.waiting = { reason, sinceMs };
    this.#progress.set(undefined, { ...progressIn(nodes), waitingFor: reason });
    const leftMs = reason === 'Paused' ? 0 : sinceMs + blockedAfterMs - performance.now();
    if (leftMs > 0) return { againInMs: leftMs };
    this.#said = reason;
    question.end({ kind: 'blocked', waitingFor: waitWithin(this.#waitingFor(judgement)) });
    return {};
  }

  /** The operation does not ask, because it was told that there is nothing to ask for. It is woken when there is. */
  #judgeSilence(judgement: WaveJudgement): Record<string, never> {
    if (this.#said === undefined) return {};
    const isOver =
      this.#said === missingReason
        ? this.#missing().length === 0
        : this.#next(judgement).nodes.length > 0 || this.#reasonToWait(judgement) !== this.#said;
    if (isOver) {
      this.#said = undefined;
      this.#wakes += 1;
    }
    return {};
  }

  #judgeUnattended(): { readonly againInMs: number } {
    const leftMs = this.#wokenAtMs + unheardMs - performance.now();
    if (leftMs > 0) return { againInMs: leftMs };
    this.#wokenAtMs = performance.now();
    this.#wakes += 1;
    return { againInMs: unheardMs };
  }

  /** Why nothing is named now; undefined while nodes that pull make room for others. */
  #reasonToWait(judgement: WaveJudgement): string | undefined {
    if (judgement.heldBackBy) return judgement.heldBackBy.reason;
    return this.#next(judgement).rest === 0 ? idle : undefined;
  }

  #waitingFor({ heldBackBy }: WaveJudgement): WaitingFor {
    const missing = this.#missing();
    if (missing.length === 0 && heldBackBy) return heldBackBy;
    const blockedBy = missing.slice(0, 10).map((wave) => `wave/${wave}`);
    const unblock = 'The next nodes are chosen once these waves are handed in: unpause or reset their activities';
    const since = new Date(Date.now() - blockedAfterMs).toISOString();
    return { reason: missingReason, blockedBy, blockedCount: missing.length, since, unblock };
  }

  #next({ job, nodes, mayTell }: WaveJudgement): ReturnType<typeof nextWave> {
    if (this.#waves.size >= mostWavesInFlight) return { nodes: [], rest: 1 };
    const named = this.#named();
    return nextWave(job, { nodes, isNamed: (node) => named.has(node), unnamed: this.#unnamed, mayTell });
  }

  /** Whether the question was answered with a wave. */
  #answerWave(judgement: WaveJudgement): boolean {
    const question = this.#question;
    const { nodes, rest } = this.#next(judgement);
    if (question === undefined || nodes.length === 0) return false;
    this.#chosen = { wave: question.question.wave, nodes };
    for (const node of nodes) this.#unnamed.delete(node);
    if (rest === 0) this.#said = idle;
    const ended = judgement.nodes.filter(hasEnded).length;
    question.end({ kind: 'wave', nodes, of: judgement.nodes.length, ended, rest });
    return true;
  }

  /** Waves that are in flight in Temporal and not here: they will be, or their activity is held up. */
  #missing(): readonly number[] {
    return this.#after.filter((number) => !this.#waves.has(number) && !this.#ended.has(number));
  }

  #named(): ReadonlySet<string> {
    const waves = [...this.#waves.values()].map(({ wave }) => wave);
    return new Set([...waves, ...(this.#chosen ? [this.#chosen] : [])].flatMap(({ nodes }) => nodes));
  }

  #time(node: string, state: NodeStanding['state']): void {
    const begun = this.#begun.get(node);
    if (begun === undefined) return;
    if (state === 'unasked') this.#begun.delete(node);
    else if (state === 'active') delete begun.ms;
    else begun.ms ??= Math.round(performance.now() - begun.sinceMs);
  }

  #dropDead(): void {
    for (const held of [this.#question, ...this.#waves.values()]) {
      if (held !== undefined && !held.life.isAlive()) held.fail(held.life.ended.reason);
    }
  }
}

function hasEnded({ state }: NodeStanding): boolean {
  return state === 'succeeded' || state === 'failed';
}

/** How long a pull took, to the second, according to its NodeImage. */
function between({ toldAt, endedAt }: NodeStanding): number | undefined {
  if (toldAt === undefined || endedAt === undefined) return undefined;
  const ms = Date.parse(endedAt) - Date.parse(toldAt);
  return Number.isFinite(ms) ? Math.max(ms, 0) : undefined;
}

function progressIn(nodes: readonly NodeStanding[]): WaveProgress {
  const named = (state: NodeStanding['state']) =>
    nodes.filter((standing) => standing.state === state).map(({ node }) => node);
  const [pulled, failed, now] = [named('succeeded'), named('failed'), named('active')];
  return {
    of: nodes.length,
    told: pulled.length + failed.length + now.length,
    pulled: pulled.length,
    failed: firstNames(failed),
    now: firstNames(now),
  };
}
