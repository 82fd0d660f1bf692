/**
 * The waves that the operation of one job has handed in, and what it is told. A wave ends with its nodes, or with the activity that has
 * brought it.
 *
 * A node is told only with permission: a wave in flight names it. The nodes of a job that no node has yet are told also before its
 * operation has begun, as far as parallelism goes; these are the first that it is told to name.
 */

import { longestReference } from '../../../api/core/image-reference.ts';
import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import { earliest, type PassResult } from '../../../kube/keyed-queue.ts';
import { type NodeStanding, roomOf } from '../../../plan/images/image-pull-job.ts';
import {
  firstNames,
  type NodeOutcome,
  type NodesAnswerKind,
  type NodesTold,
  nextWaves,
  notNow,
  type PullEnd,
  type Wave,
  type WaveOutcome,
  waveOutcome,
} from '../../../plan/images/pull-waves.ts';
import { shortened, waitWithin } from '../../../plan/text-size.ts';
import { waitingSince } from '../../../plan/waiting-since.ts';
import type { Held, PermitLife } from '../../permits/held.ts';
import { type BatchKey, HeldBatches, type OneHeld } from '../../permits/held-batches.ts';
import { type Found, WakeUps } from '../../permits/wake-ups.ts';

/** A permit to tell the nodes of one wave. */
export interface WaveRequest extends BatchKey {
  readonly nodes: Wave;
}

interface HeldWave extends OneHeld<WaveOutcome> {
  readonly request: WaveRequest;
  /** Nodes that are in another wave, and which. */
  readonly moved: Map<string, string>;
  /** It has come to its result. */
  isDone?: true;
  progress?: WaveProgress;
}

/** When a node was told, by both clocks, and how long its pull took. */
interface Begun {
  readonly at: string;
  readonly sinceMs: number;
  ms?: number;
  isSeen?: true;
}

/** A node has to be held back for so long before it is given back, and a wait has to last so long before it is told. */
const lastsMs = 5_000;

/** An activity whose attempt is lost has got another one by then, unless it is held up. */
const nextAttemptMs = 10_000;

/** Each further change of a wait is told after twice as long, as long as no node goes. */
const mostLastsMs = 3_600_000;

/** What the nodes of a job look like at one moment. */
export interface WaveJudgement {
  readonly job: ImagePullJob;
  readonly nodes: readonly NodeStanding[];
  /** Whether nodes get the job at all. */
  readonly mayTell: boolean;
  /** What keeps every further node from getting the job. */
  readonly heldBackBy?: WaitingFor | undefined;
  /** How the job has ended. */
  readonly end?: PullEnd | undefined;
}

export interface NodePermission {
  readonly hasTurn: (node: string) => boolean;
  readonly mayTell: (node: string) => boolean;
}

/** What people see of a wave. */
interface WaveProgress {
  readonly of: number;
  readonly told: number;
  readonly pulled: number;
  /** The first nodes that have failed, and that pull. */
  readonly failed: readonly string[];
  readonly now: readonly string[];
}

/** What the operation is told. */
export type AnswerOfWaves = NodesAnswerKind & Omit<NodesTold, 'order'>;

export interface NodesQuestion {
  /** So many nodes are named at most. Absent: as many as an answer can hold. */
  readonly most?: number;
  /** Nodes that were permitted a moment ago. */
  readonly justPermitted?: readonly string[];
}

export class JobWaves {
  readonly #waves = new HeldBatches<WaveOutcome, HeldWave>({
    names: ({ request }, node) => request.nodes.includes(node),
    moved: ({ moved }, node, to) => {
      if (!moved.has(node)) moved.set(node, `it is in wave ${to}`);
    },
    left: ({ request, isDone }) => {
      if (!isDone) this.#aside.set(request.number, { nodes: request.nodes, sinceMs: performance.now() });
    },
  });
  /** When the operation is told to ask. */
  readonly wakeUps: WakeUps;
  /** Whether nodes may get the job as far as its Secrets go, and what is wrong with these, as of the last pass. */
  secrets: { readonly mayTell: boolean; readonly trouble?: string } | undefined;
  readonly #begun = new Map<string, Begun>();
  /** Nodes that have the job and are named by no wave. */
  readonly #unnamed = new Set<string>();
  /** Waves that are in flight as far as is known, and whose activity does not run here, by number. */
  readonly #aside = new Map<number, { readonly nodes: Wave; readonly sinceMs: number }>();
  /** The run that has asked last. */
  #run: string | undefined;
  /** The history begins anew: nodes that ended before are named again. */
  #namesAll = false;
  /** The wait in the last answer, and how many changes of it were answered since a node last went. */
  #told = { wait: '', changes: 0 };
  /** Since when no further node may go, because of this. */
  #heldBack: { readonly reason: string; readonly sinceMs: number } | undefined;
  #hasRoom = true;
  #nodes: readonly NodeStanding[] = [];

  constructor(wake: () => void) {
    this.wakeUps = new WakeUps(wake);
  }

  /** Takes a wave in. */
  take(request: WaveRequest, life: PermitLife): Promise<WaveOutcome> {
    this.wakeUps.handedIn(request.nodes);
    const keep = (held: Held<WaveOutcome>): HeldWave => ({ ...held, request, moved: new Map() });
    const taken = this.#waves.take(request, request.nodes, life, keep);
    this.#aside.delete(request.number);
    return taken;
  }

  /** The run asks, and these of its waves count. */
  carried(carried: Parameters<HeldBatches<WaveOutcome, HeldWave>['carried']>[0]): void {
    // an attempt at a question may be late
    if (carried.next === 1 && carried.run !== this.#run) this.#namesAll = true;
    this.#run = carried.run;
    this.#waves.carried(carried);
    for (const number of this.#aside.keys()) if (!carried.numbers.includes(number)) this.#aside.delete(number);
  }

  /**
   * Takes in where the nodes stand before it is decided which of them are told. `isOpen`: the job has not ended. With it all waves end, and what
   * still pulls then is not named once more.
   */
  see(nodes: readonly NodeStanding[], isOpen = true): void {
    this.#nodes = nodes;
    const named = this.#named();
    for (const { node, state } of nodes) {
      this.#time(node, state);
      const isBegun = state !== 'unasked';
      if (!isBegun || named.has(node)) this.#unnamed.delete(node);
      else if ((state === 'active' && isOpen) || this.#namesAll) this.#unnamed.add(node);
    }
    this.#namesAll = false;
    const known = new Set(nodes.map(({ node }) => node));
    for (const node of this.#unnamed) if (!known.has(node)) this.#unnamed.delete(node);
    for (const node of this.#begun.keys()) if (!known.has(node)) this.#begun.delete(node);
  }

  /**
   * Whose turn it is, and whether a node may be told at this moment: that is asked right before each is, as the permit of its wave may
   * have to be confirmed first. It keeps its place until then.
   */
  permission(job: ImagePullJob, nodes: readonly NodeStanding[]): NodePermission {
    const waves = new Map<string, HeldWave>();
    for (const held of this.#waves.all()) {
      for (const node of held.request.nodes) if (!held.moved.has(node)) waves.set(node, held);
    }
    const isNew = job.status?.startTime === undefined && !this.wakeUps.isHeard;
    const isFirst = isNew && nodes.every(({ state }) => state === 'unasked');
    // those that have the job already may get its Secrets
    const begun = new Set(nodes.filter(({ state }) => state === 'active').map(({ node }) => node));
    const isFree = (node: string) => isFirst || begun.has(node);
    const waveOf = (node: string) => {
      const wave = waves.get(node);
      return wave !== undefined && this.#waves.of(wave.request.number) === wave ? wave : undefined;
    };
    return {
      hasTurn: (node) => isFree(node) || waveOf(node) !== undefined,
      mayTell: (node) => isFree(node) || waveOf(node)?.life.isAlive() === true,
    };
  }

  /** A node is told to pull, which counts from now. */
  begins(node: string, nowMs: number): void {
    this.#begun.set(node, { at: new Date(nowMs).toISOString(), sinceMs: performance.now() });
  }

  /** The waves in flight. */
  inFlight(): ReadonlySet<object> {
    return new Set(this.#waves.all());
  }

  /**
   * Ends the waves of which each node has ended, or all with the job, and has the operation told to ask when it is owed that. `known`:
   * the waves that were in flight when the nodes stood so. Says when to judge again, if that is not by an event.
   */
  judge(judgement: WaveJudgement, known = this.inFlight()): PassResult | undefined {
    const { job, nodes, end, mayTell } = judgement;
    this.see(nodes, end === undefined);
    const { size } = this.#waves;
    const { givenBack, againInMs } = this.#heldBackNow(judgement);
    this.#endWaves(judgement, { known, givenBack, ...(end && { why: `the job has ended: ${end.reason}` }) });
    this.#hasRoom = mayTell && roomOf(job, nodes) > 0;
    this.wakeUps.look({ ...this.#found(judgement, this.#next(judgement)), endsBatch: this.#waves.size < size });
    if (end && this.#waves.size === 0) this.#nodes = [];
    const attemptInMs = this.#nextAttemptInMs();
    return earliest(
      againInMs === undefined ? undefined : { againInMs },
      attemptInMs === undefined ? undefined : { againInMs: attemptInMs },
    );
  }

  /** What is to be told to nodes cannot be written: nothing begins until that is tried again. */
  rest(): void {
    this.#hasRoom = false;
  }

  /** Which nodes may go next, or why none may. */
  answer(judgement: WaveJudgement, question: NodesQuestion = {}): AnswerOfWaves {
    const { job, nodes, heldBackBy, end } = judgement;
    this.see(nodes, end === undefined);
    const next = this.#next(judgement, question);
    const { waves, more } = next;
    const image = shortened(job.spec.image, longestReference.whole);
    const told = { image, of: nodes.length, ended: nodes.filter(hasEnded).length };
    const waits = waves.length === 0 && end === undefined && heldBackBy !== undefined;
    const wait = waits ? heldBackBy.reason : '';
    if (wait !== this.#told.wait) this.#told = { wait, changes: this.#told.changes + 1 };
    this.wakeUps.answer(this.#found(judgement, next));
    if (waves.length > 0) return { kind: 'nodes', waves, more, ...told };
    if (end) return { kind: 'done', end, ...told };
    if (!waits) return { kind: 'nothing', ...told };
    const waitingFor = waitingSince(job.status?.waitingFor, heldBackBy, heldBackBy.since);
    return { kind: 'wait', waitingFor: waitWithin(waitingFor), ...told };
  }

  /** The job is gone. Whether there were waves that end with it. */
  withdrawn(): boolean {
    const { size } = this.#waves;
    this.wakeUps.stop();
    this.#endWaves({ nodes: this.#nodes }, { known: this.inFlight(), why: 'the job was deleted' });
    return size > 0;
  }

  /** Ends everything without an answer. */
  fail(reason: unknown): void {
    this.wakeUps.stop();
    this.#waves.fail(reason);
  }

  /** What people are told of a wave. */
  progressOf(number: number): WaveProgress | undefined {
    return this.#waves.of(number)?.progress;
  }

  /** Whether no node is told by a wave at present: each was, or those that pull leave no room. */
  isBegun(number: number): boolean {
    const progress = this.progressOf(number);
    return progress !== undefined && (progress.told === progress.of || !this.#hasRoom);
  }

  /**
   * Nodes that were not told and may not be now, and why: they are full, or the whole job has been held back for a while. Their waves do
   * not wait for them (P-7). Says when that is to be looked at again.
   */
  #heldBackNow({ job, nodes, mayTell, heldBackBy, end }: WaveJudgement): {
    readonly givenBack: ReadonlyMap<string, string>;
    readonly againInMs: number | undefined;
  } {
    const isHeldBack = end === undefined && (!mayTell || roomOf(job, []) <= 0);
    const reason = isHeldBack ? (heldBackBy?.reason ?? 'JobHeldBack') : undefined;
    if (reason !== this.#heldBack?.reason) {
      this.#heldBack = reason === undefined ? undefined : { reason, sinceMs: performance.now() };
    }
    const leftMs = this.#heldBack === undefined ? undefined : this.#heldBack.sinceMs + lastsMs - performance.now();
    const isLong = leftMs !== undefined && leftMs <= 0;
    const givenBack = nodes
      .filter(({ state, held }) => state === 'unasked' && (held !== undefined || isLong))
      .map(({ node, held }) => [node, notNow(held === undefined ? (reason ?? '') : heldReasons[held])] as const);
    const isDue = leftMs !== undefined && leftMs > 0 && this.#waves.size > 0;
    return { givenBack: new Map(givenBack), againInMs: isDue ? leftMs : undefined };
  }

  /** Ends the waves of which each node has ended or is given back; all waves if there is a reason why other nodes do not end. */
  #endWaves(
    { nodes }: Pick<WaveJudgement, 'nodes'>,
    {
      known,
      givenBack = new Map(),
      why,
    }: { readonly known: ReadonlySet<object>; readonly givenBack?: ReadonlyMap<string, string>; readonly why?: string },
  ): void {
    const byName = new Map(nodes.map((standing) => [standing.node, standing]));
    for (const held of this.#waves.all()) {
      if (!known.has(held)) continue;
      const { request, moved } = held;
      const isAwaited = (node: string) => !moved.has(node) && !givenBack.has(node);
      const awaited = request.nodes.filter(isAwaited).flatMap((node) => byName.get(node) ?? []);
      held.progress = progressIn(awaited);
      if (why === undefined && !awaited.every(hasEnded)) continue;
      const otherwise = why ?? 'the job does not select this node any more';
      const outcomes = request.nodes.map((node): NodeOutcome => {
        const left = moved.get(node) ?? givenBack.get(node);
        return left === undefined ? this.#outcome(node, byName.get(node), otherwise) : { node, why: left };
      });
      for (const node of request.nodes) if (isAwaited(node)) this.#begun.delete(node);
      held.isDone = true;
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

  /** What the nodes mean for an operation that is not told of them. */
  #found({ end, heldBackBy }: WaveJudgement, { waves, more }: ReturnType<typeof nextWaves>): Found {
    const isWanted = end === undefined;
    const waits = isWanted && waves.length === 0 && heldBackBy !== undefined;
    return {
      isWanted,
      isNothingLeft: !isWanted && waves.length === 0,
      // of a job that has ended nobody starts an operation any more
      mayGo: isWanted || this.wakeUps.isRunning ? waves.flat() : [],
      ...(more && { hasMore: true }),
      // what is waited for, and that nothing is any more
      facts: waits ? heldBackBy.reason : '',
      factsLastMs: Math.min(lastsMs * 2 ** Math.max(this.#told.changes - 1, 0), mostLastsMs),
      hasRoomForBatch: this.#waves.hasRoom,
      endsBatch: false,
      collectMs: 0,
    };
  }

  #next(
    { job, nodes, mayTell, end }: WaveJudgement,
    { most, justPermitted = [] }: NodesQuestion = {},
  ): ReturnType<typeof nextWaves> {
    const isYoung = ({ sinceMs }: { readonly sinceMs: number }) => performance.now() - sinceMs < nextAttemptMs;
    const all = [...this.#aside.values()];
    const young = all.filter((wave) => end !== undefined || isYoung(wave)).flatMap((wave) => wave.nodes);
    const named = new Set([...this.#named(), ...justPermitted, ...young]);
    const aside = new Set(all.flatMap((wave) => wave.nodes));
    const unnamed = new Set([...this.#unnamed].filter((node) => !named.has(node) && !aside.has(node)));
    const scene = { nodes, isNamed: (node: string) => named.has(node), isAside: (node: string) => aside.has(node) };
    return nextWaves(job, { ...scene, unnamed, mayTell }, most);
  }

  /** When the first wave that has lost its attempt should have got another one; undefined: there is none, or they are late. */
  #nextAttemptInMs(): number | undefined {
    const left = [...this.#aside.values()].map(({ sinceMs }) => sinceMs + nextAttemptMs - performance.now());
    const due = left.filter((ms) => ms > 0);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  #named(): ReadonlySet<string> {
    return new Set(this.#waves.all().flatMap(({ request, moved }) => request.nodes.filter((node) => !moved.has(node))));
  }

  #time(node: string, state: NodeStanding['state']): void {
    const begun = this.#begun.get(node);
    if (begun === undefined) return;
    if (state === 'unasked') {
      this.#begun.delete(node);
      return;
    }
    if (!begun.isSeen) {
      begun.isSeen = true;
      // what is waited for from now on is news
      this.#told = { ...this.#told, changes: 0 };
    }
    if (state === 'active') delete begun.ms;
    else begun.ms ??= Math.round(performance.now() - begun.sinceMs);
  }
}

/** Why a node is held back, by itself. */
const heldReasons = { full: 'NodesFull', noNodeImage: 'NoNodeImages' } as const;

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
