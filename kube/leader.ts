/**
 * Leader election by a Lease, like client-go's, with a fence.
 *
 * The holder writes renewTime every retry period. Other candidates never compare that time with their own clock: they
 * record on their own monotonic clock when they last saw the lease change, and take it once it has not changed for its
 * duration. Every write carries the resourceVersion that was read, so of two candidates that take it at once one is
 * refused.
 *
 * The fence: the holder trusts its lease only until `start of the last successful renewal + renewDeadline`. It counts
 * from the start, because others count from when they see the write, which is later; and the renew deadline is shorter
 * than the duration. So the holder always stops before another one can begin, however long the process was frozen and
 * whatever its timers did.
 */
import { setTimeout as timer } from 'node:timers/promises';
import type { KubeObject, Resource } from '../api/core/meta.ts';
import type { KubeClient } from './client.ts';
import type { KubeError } from './failures.ts';

export interface LeaderOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'patch'>;
  readonly lease: LeaseName;
  /** Unique among all processes and restarts: pod name and a random part. */
  readonly identity: string;
  /** Leases of other controllers; this process does not lead while one of them is being renewed. */
  readonly yieldTo?: readonly (LeaseName & { /** Completes "… holds Lease". */ readonly owner: string })[];
  readonly log: LeaderLog;
  readonly times?: LeaseTimes;
  readonly clock?: Clock;
}

export interface LeaseName {
  readonly namespace: string;
  readonly name: string;
}

/** What a leader logs through. pino's loggers fit. */
export interface LeaderLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface LeaseTimes {
  /** How long a lease must stay unchanged before another candidate takes it. Whole seconds. */
  readonly leaseDurationSeconds: number;
  /** How long the holder continues without a successful renewal. */
  readonly renewDeadlineSeconds: number;
  /** How often the holder renews, and other candidates look. */
  readonly retryPeriodSeconds: number;
}

/**
 * After the death of a leader the next one leads within duration + retry period + two calls: less than 15 s.
 * client-go's defaults of 15, 10 and 2 s allow 19 s.
 */
export const defaultLeaseTimes: LeaseTimes = {
  leaseDurationSeconds: 12,
  renewDeadlineSeconds: 8,
  retryPeriodSeconds: 1,
};

/** A monotonic clock. It may stop while the machine sleeps, but not while only the process is suspended. */
export interface Clock {
  now(): number;
  /** Resolves after that time, or earlier when the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** The wall-clock time, for people to read. */
  date(): Date;
}

/** One term of leadership, from acquiring the lease to losing it. A term that has ended never resumes. */
export interface Term {
  /** To be checked before each write that only a leader may make. */
  isLeading(): boolean;
  /** Aborts when the term ends. A frozen process notices that late: `isLeading` is the fence. */
  readonly lost: AbortSignal;
}

/** Competes for one lease, holds it, and releases it. */
export class Leader {
  readonly #options: LeaderOptions;
  readonly #clock: Clock;
  readonly #leaseSeconds: number;
  readonly #renewDeadlineMs: number;
  readonly #retryMs: number;
  readonly #own: ObservedLease;
  readonly #foreign: readonly ForeignLease[];
  readonly #stop = new AbortController();
  #term: HeldTerm | undefined;
  #holding: Promise<void> = Promise.resolve();
  #standbyReason: string | undefined = 'it has not tried to acquire the lease yet';
  /** Until when this process does not compete, and why. */
  #abstention: { readonly untilMs: number; readonly reason: string } | undefined;

  /** Throws a RangeError when the times cannot exclude two leaders at once. */
  constructor(options: LeaderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? monotonicClock;
    const times = checked(options.times ?? defaultLeaseTimes);
    this.#leaseSeconds = times.leaseDurationSeconds;
    this.#renewDeadlineMs = times.renewDeadlineSeconds * 1000;
    this.#retryMs = times.retryPeriodSeconds * 1000;
    this.#own = new ObservedLease(options.lease, this.#clock);
    this.#foreign = (options.yieldTo ?? []).map(({ owner, ...name }) => ({
      owner,
      lease: new ObservedLease(name, this.#clock),
    }));
  }

  /** False from the moment in which another candidate could begin to lead. To be checked before each write. */
  isLeading(): boolean {
    return this.#term?.isLeading() ?? false;
  }

  /** Why this process does not lead, for people to read; undefined while it leads. */
  get standbyReason(): string | undefined {
    return this.isLeading() ? undefined : this.#standbyReason;
  }

  /** Resolves when this process leads; call it again when the term has ended. Rejects when the signal aborts. */
  async campaign(signal: AbortSignal): Promise<Term> {
    const ended = AbortSignal.any([signal, this.#stop.signal]);
    for (;;) {
      ended.throwIfAborted();
      if (this.#term?.isLeading()) return this.#term;
      await this.#holding; // the previous term may still have a call in flight
      const hindrance = await this.#attempt(ended);
      if (hindrance === undefined) continue;

      ended.throwIfAborted();
      this.#standBy(hindrance.reason);
      const jittered = this.#retryMs * (1 + Math.random() / 5);
      await this.#clock.sleep(Math.min(jittered, hindrance.endsInMs ?? jittered), ended);
    }
  }

  /** Ends the term at once and releases the lease, so that the next leader need not wait for it to expire. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the election was stopped'));
    this.#term?.end('it was stopped');
    await this.#holding;
    if (this.#term) await this.#giveBack();
  }

  /** Ends the term, releases the lease, and does not compete for long enough that a healthy candidate can take it. */
  async resign(reason: string): Promise<void> {
    const term = this.#term;
    if (!term?.isLeading()) return;
    this.#options.log.warn({ identity: this.#options.identity, reason }, 'releasing the lease');
    this.#abstention = { untilMs: this.#clock.now() + 3 * this.#leaseSeconds * 1000, reason };
    term.end(reason);
    await this.#holding;
    await this.#giveBack();
  }

  async #giveBack(): Promise<void> {
    try {
      // Read again: a renewal that was aborted may have been written nevertheless.
      await this.#look(this.#own, { deadlineMs: 2000 });
      if (this.#own.holder === this.#options.identity) await this.#write('', { deadlineMs: 2000 });
    } catch (error) {
      this.#options.log.warn({ err: error }, 'cannot release the lease: the next leader waits until it expires');
    }
  }

  /** Acquires the lease, or returns what prevents it and, where known, for how long at least. */
  async #attempt(signal: AbortSignal): Promise<Hindrance | undefined> {
    const limits = { signal, deadlineMs: this.#renewDeadlineMs };
    const { untilMs = 0, reason = '' } = this.#abstention ?? {};
    const abstainsMs = untilMs - this.#clock.now();
    if (abstainsMs > 0) return { reason: `it has released the lease: ${reason}`, endsInMs: abstainsMs };
    try {
      for (const { owner, lease } of this.#foreign) {
        await this.#look(lease, limits);
        if (lease.freshForMs > 0) return { reason: heldBy(owner, lease), endsInMs: lease.freshForMs };
      }
      await this.#look(this.#own, limits);
      const { holder, freshForMs } = this.#own;
      if (freshForMs > 0 && holder !== this.#options.identity) {
        return { reason: heldBy(`"${holder}"`, this.#own), endsInMs: freshForMs };
      }
      const startedAt = this.#clock.now();
      await this.#write(this.#options.identity, limits);
      this.#lead(startedAt);
      return undefined;
    } catch (error) {
      return { reason: `it cannot read or write the leases: ${error instanceof Error ? error.message : error}` };
    }
  }

  #lead(startedAt: number): void {
    const term = new HeldTerm(this.#clock, startedAt + this.#renewDeadlineMs);
    this.#term = term;
    this.#options.log.info({ identity: this.#options.identity, transitions: this.#own.transitions }, 'leading');
    this.#holding = this.#hold(term);
  }

  /** Renews until the term ends; ends it when the lease is lost, or when a lease to yield to is held. */
  async #hold(term: HeldTerm): Promise<void> {
    while (term.isLeading()) {
      await this.#clock.sleep(Math.min(this.#retryMs, term.leftMs), term.lost);
      if (!term.isLeading()) break;
      // Half of the remaining time, so that one hanging call leaves time for another one.
      const limits = { signal: term.lost, deadlineMs: Math.max(1, term.leftMs / 2) };
      const startedAt = this.#clock.now();
      try {
        await this.#write(this.#options.identity, limits);
        term.renew(startedAt + this.#renewDeadlineMs);
        await this.#lookForOthers(term, limits);
      } catch (error) {
        if (!term.isLeading()) break;
        this.#options.log.warn({ err: error, leftMs: Math.round(term.leftMs) }, 'cannot renew the lease');
        if (isOvertaken(error)) await this.#lookWhoHolds(term, limits);
      }
    }
    const reason = this.#stop.signal.aborted ? 'it was stopped' : term.lost.reason.message;
    this.#standBy(reason);
  }

  /** After a refused write: another process wrote the lease, or took it. */
  async #lookWhoHolds(term: HeldTerm, limits: CallLimits): Promise<void> {
    try {
      await this.#look(this.#own, limits);
      if (this.#own.holder !== '' && this.#own.holder !== this.#options.identity) {
        term.end(heldBy(`"${this.#own.holder}"`, this.#own));
      }
    } catch {
      // The next renewal shows whether the lease is still held.
    }
  }

  async #lookForOthers(term: HeldTerm, limits: CallLimits): Promise<void> {
    for (const { owner, lease } of this.#foreign) {
      try {
        await this.#look(lease, limits);
      } catch {
        continue; // failing to read is no reason to stop: nothing is known to have changed
      }
      if (lease.freshForMs > 0) term.end(heldBy(owner, lease));
    }
  }

  async #look(lease: ObservedLease, limits: CallLimits): Promise<void> {
    try {
      lease.observe(await this.#options.client.get<Lease>(leases, lease.name, limits));
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
      lease.observe(undefined);
    }
  }

  /** Writes the lease as last seen, with this holder; "" releases it. */
  async #write(holderIdentity: string, limits: CallLimits): Promise<void> {
    const { client, lease: name } = this.#options;
    const seen = this.#own.lease;
    const renewTime = microTime(this.#clock.date());
    const goesOn = seen?.spec?.holderIdentity === holderIdentity;
    const spec: LeaseSpec = {
      holderIdentity,
      leaseDurationSeconds: holderIdentity === '' ? 1 : this.#leaseSeconds,
      acquireTime: (goesOn && seen.spec?.acquireTime) || renewTime,
      renewTime,
      leaseTransitions: this.#own.transitions + (goesOn || holderIdentity === '' || !seen ? 0 : 1),
    };
    const written = seen
      ? await client.patch<Lease>(
          leases,
          name,
          'merge',
          { metadata: { resourceVersion: seen.metadata.resourceVersion }, spec },
          limits,
        )
      : await client.create<Lease>(leases, { metadata: { ...name }, spec }, limits);
    this.#own.observe(written);
  }

  #standBy(reason: string): void {
    if (reason === this.#standbyReason) return;
    this.#standbyReason = reason;
    this.#options.log.info({ identity: this.#options.identity, reason }, 'not leading');
  }
}

interface CallLimits {
  readonly signal?: AbortSignal;
  readonly deadlineMs?: number;
}

interface Hindrance {
  readonly reason: string;
  readonly endsInMs?: number;
}

interface ForeignLease {
  readonly owner: string;
  readonly lease: ObservedLease;
}

interface Lease extends KubeObject {
  readonly spec?: LeaseSpec;
}

interface LeaseSpec {
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
}

const leases: Resource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
};

/** A lease as this process sees it, and since when it has been unchanged. */
class ObservedLease {
  readonly name: LeaseName;
  readonly #clock: Clock;
  #lease: Lease | undefined;
  #changedAt = 0;

  constructor(name: LeaseName, clock: Clock) {
    this.name = name;
    this.#clock = clock;
  }

  get lease(): Lease | undefined {
    return this.#lease;
  }

  /** "" when nobody holds it. */
  get holder(): string {
    return this.#lease?.spec?.holderIdentity ?? '';
  }

  get transitions(): number {
    return this.#lease?.spec?.leaseTransitions ?? 0;
  }

  /** How much longer the holder is to be left alone if it does not renew; 0 when there is no holder. */
  get freshForMs(): number {
    if (this.holder === '') return 0;
    const durationMs = (this.#lease?.spec?.leaseDurationSeconds ?? 0) * 1000;
    return Math.max(0, this.#changedAt + durationMs - this.#clock.now());
  }

  observe(lease: Lease | undefined): void {
    // Only a change of the spec shows that the holder is alive; anybody may add a label.
    if (JSON.stringify(lease?.spec) !== JSON.stringify(this.#lease?.spec)) this.#changedAt = this.#clock.now();
    this.#lease = lease;
  }
}

class HeldTerm implements Term {
  readonly #lost = new AbortController();
  readonly #clock: Clock;
  #until: number;

  constructor(clock: Clock, until: number) {
    this.#clock = clock;
    this.#until = until;
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  get leftMs(): number {
    return Math.max(0, this.#until - this.#clock.now());
  }

  isLeading(): boolean {
    // Final: a renewal that succeeds too late must not resume a term whose work is being stopped.
    if (this.leftMs === 0) this.end('it did not renew the lease in time');
    return !this.lost.aborted;
  }

  renew(until: number): void {
    if (this.isLeading()) this.#until = until;
  }

  end(reason: string): void {
    this.#lost.abort(new Error(reason));
  }
}

const monotonicClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) => timer(ms, undefined, { signal }).catch(() => {}),
  date: () => new Date(),
};

function checked(times: LeaseTimes): LeaseTimes {
  const { leaseDurationSeconds, renewDeadlineSeconds, retryPeriodSeconds } = times;
  if (!Number.isInteger(leaseDurationSeconds)) throw new RangeError('leaseDurationSeconds must be an integer');
  if (!(renewDeadlineSeconds < leaseDurationSeconds)) {
    throw new RangeError('renewDeadlineSeconds must be less than leaseDurationSeconds');
  }
  if (!(retryPeriodSeconds > 0 && retryPeriodSeconds * 2 <= renewDeadlineSeconds)) {
    throw new RangeError('retryPeriodSeconds must be above 0 and at most half of renewDeadlineSeconds');
  }
  return times;
}

function heldBy(owner: string, lease: ObservedLease): string {
  return `${owner} holds Lease "${lease.name.namespace}/${lease.name.name}"`;
}

function isOvertaken(error: unknown): boolean {
  return [404, 409].includes(statusOf(error) ?? 0);
}

function statusOf(error: unknown): number | undefined {
  return (error as Partial<KubeError>).status;
}

function microTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}
