import type { Client } from '@temporalio/client';
import { type EngineTrouble, engineSilent } from '../api/engine/engine-trouble.ts';
import { earlierIdOf, lockOf } from '../api/engine/operation-id.ts';
import { type OperationStart, startOptions } from '../api/engine/operation-start.ts';
import { type CommandName, type CommandPayload, changedSignal, searchAttributes } from '../api/engine/operations.ts';
import { KeyedQueue } from '../kube/keyed-queue.ts';
import type { NeedsOfOperation } from './heartbeats.ts';

/** An operation that should be running. */
export interface WantedOperation extends OperationStart {
  /** The payload of the signal `changed`. */
  readonly change: unknown;
  /**
   * Identifies all inputs of the operation. The signal is sent once for each value; the operation is not signalled
   * again until the value differs.
   */
  readonly inputs: string;
}

export interface StarterOptions {
  readonly client: Pick<Client, 'workflow'>;
  /** The build ID of the workflow code of this release, stored in the memo of started runs. */
  readonly build: string;
  /** Nothing is started while this is false. */
  readonly mayStart: () => boolean;
  readonly onError: (workflowId: string, error: unknown, retryInMs: number) => void;
  /** Called when Temporal stops or resumes answering. */
  readonly onSilence: (silent: boolean) => void;
  /** How long Temporal may fail to answer before that is reported to users. */
  readonly silentAfterMs: number;
  /** Why an operation does not continue although Temporal answers; see `trouble`. Absent: it is not checked. */
  readonly stuck?: (workflowId: string, shown?: string, needs?: NeedsOfOperation) => EngineTrouble | undefined;
}

/** A run to terminate so that its operation is restarted, and the reason that Temporal shows. */
export interface RunToEnd {
  readonly workflowId: string;
  readonly runId: string;
  readonly reason: string;
}

/** The maximum number of concurrent starts. */
const concurrency = 16;

/** No operation has this ID. */
const probeId = 'windlass-probe';

/** First and longest pause after a failed start: usually Temporal is away, and soon back. */
const retryMs = { first: 200, most: 30_000 } as const;

/** The reason that Temporal shows for the second of two runs with the same lock. */
const lockTaken = 'Another run works on the same object: one of them has a workflow ID of release 0.1.0';

/** How many locks are remembered as free: after that many, each is looked at once more. */
const mostFree = 100_000;

/**
 * Ensures that operations run. A wanted operation is remembered until it is forgotten, sent once, and sent again when
 * its inputs change or when it turns out not to be running. Starts use signalWithStart with a workflow ID made from a
 * UID, so repeating one is harmless.
 *
 * An operation is known by its lock, so each method takes any of its workflow IDs, or the lock. A run that release 0.1.0
 * has begun under another ID holds the lock until it ends: it gets the signals, and nothing is started. The signal itself
 * tells whether there is one. Once there is none, there is none for the rest of the term, because only a watcher begins
 * operations.
 */
export class Starter {
  readonly #options: StarterOptions;
  readonly #queue: KeyedQueue;
  /** By lock, as are the next three. */
  readonly #wanted = new Map<string, WantedOperation>();
  readonly #sent = new Map<string, string>();
  /** The run to terminate before the operation is started again. */
  readonly #ending = new Map<string, RunToEnd>();
  /** The locks that no run of release 0.1.0 holds. */
  readonly #free = new Set<string>();
  /** By type: runs of operations that are not wanted, and in how many looks in a row they were found. */
  readonly #strays = new Map<string, ReadonlyMap<string, number>>();
  #isListing = false;
  #isProbing = false;
  /** The last start failed, so others may be waiting for their next attempt. */
  #isFailing = false;
  #silent = false;
  #silenceTimer: NodeJS.Timeout | undefined;

  constructor(options: StarterOptions) {
    this.#options = options;
    this.#queue = new KeyedQueue({
      concurrency,
      shareOf: (lock) => this.#wanted.get(lock)?.about.namespace ?? '',
      backOffMs: retryMs,
      pass: async (lock) => this.#send(lock),
      onError: (lock, error, retryInMs) => options.onError(this.#fullId(lock), error, retryInMs),
    });
  }

  /** The number of operations that are not sent yet. */
  get depth(): number {
    return this.#queue.depth;
  }

  /** Whether Temporal has not answered for longer than `silentAfterMs`. */
  get silent(): boolean {
    return this.#silent;
  }

  /**
   * Why Temporal does not continue this operation; undefined when it does, as far as is known. `shown` is the reason in
   * `waitingFor` of its object, or empty for none, where the operation itself writes that field. `needs`: whom it needs
   * besides a cluster worker.
   */
  trouble(workflowId: string, shown?: string, needs?: NeedsOfOperation): EngineTrouble | undefined {
    return this.#silent ? engineSilent : this.#options.stuck?.(workflowId, shown, needs);
  }

  /** Whether Temporal knows the current inputs of this operation, as far as this process knows. */
  isSent(workflowId: string): boolean {
    const lock = lockOf(workflowId);
    const wanted = this.#wanted.get(lock);
    return wanted !== undefined && this.#sent.get(lock) === wanted.inputs;
  }

  /** Requests that this operation runs and knows its inputs. Returns at once. */
  want(operation: WantedOperation): void {
    const lock = lockOf(operation.workflowId);
    this.#wanted.set(lock, operation);
    if (this.#sent.get(lock) !== operation.inputs) this.#queue.add(lock);
  }

  /** The operation is no longer wanted. A running one ends by itself. */
  forget(workflowId: string): void {
    const lock = lockOf(workflowId);
    this.#wanted.delete(lock);
    this.#sent.delete(lock);
  }

  /**
   * The same, for an operation that ends by what it sees: if its last signal was about other inputs than these, it is
   * signalled to look again, because what it has begun since may be gone.
   */
  dismiss({ workflowId, inputs, change }: WantedOperation): void {
    const sent = this.#sent.get(lockOf(workflowId));
    this.forget(workflowId);
    if (sent !== undefined && sent !== inputs) void this.tell(workflowId, change);
  }

  /**
   * Signals a running operation to look again. Nothing is started. Answers whether Temporal has answered. By the lock alone
   * an operation is found as long as it is wanted.
   */
  async tell(workflowId: string, change: unknown): Promise<boolean> {
    this.#asked();
    try {
      await this.#signal(workflowId, changedSignal, change);
    } catch (error) {
      // not running is an answer, too; silence is noticed again by the next pass
      if (!isNotFound(error)) return false;
    }
    this.#answered();
    return true;
  }

  /**
   * Sends a command to a running operation, or starts the given one for it. Rejects when there is none, or Temporal
   * does not answer.
   */
  async command(
    workflowId: string,
    name: CommandName,
    payload: CommandPayload,
    start?: WantedOperation,
  ): Promise<void> {
    this.#asked();
    try {
      if (start) await this.#start(start, name, payload);
      else await this.#signal(workflowId, name, payload);
    } catch (error) {
      if (isNotFound(error)) this.#answered();
      throw error;
    }
    this.#answered();
  }

  /**
   * Starts wanted operations that are not running, after a crash, a `terminate`, or the loss of Temporal's database.
   * Running operations that are not wanted are signalled to look again, in case they have missed the deletion of their
   * object.
   */
  async restartMissing(workflowType: string): Promise<void> {
    if (this.#isListing || !this.#options.mayStart()) return;
    this.#isListing = true;
    try {
      // Lists come from the visibility store: its answers say nothing about whether operations continue.
      const wanted = [...this.#wanted.values()].filter((operation) => operation.workflowType === workflowType);
      const running = await this.#running(workflowType);
      await this.#endSecond(running);
      const held = new Set(running.map(lockOf));
      for (const { workflowId } of wanted) {
        const lock = lockOf(workflowId);
        if (held.has(lock)) continue;
        this.#sent.delete(lock);
        this.#queue.add(lock);
      }
      const strays = running.filter((workflowId) => !this.#wanted.has(lockOf(workflowId)));
      await this.#tellStrays(workflowType, strays);
    } catch (error) {
      this.#options.onError('list', error, 0);
    } finally {
      this.#isListing = false;
    }
  }

  /** Starts an operation again whose run the caller has terminated, if it is still wanted. */
  startAgain(workflowId: string): void {
    const lock = lockOf(workflowId);
    if (this.#sent.delete(lock)) this.#queue.add(lock);
  }

  /**
   * Terminates this run and, where its operation is wanted, starts it again with the build in its memo. If the leader is
   * lost between the two calls, the next one starts the operation without that memo, and may restart it once more. The
   * conflict policy TERMINATE_EXISTING would do both in one call, but for whatever run there is by then, and with a
   * reason of the server's own.
   */
  beginAnew(run: RunToEnd): void {
    const lock = lockOf(run.workflowId);
    this.#ending.set(lock, run);
    this.#sent.delete(lock);
    this.#queue.add(lock);
  }

  /** Checks whether Temporal answers when there is nothing to send: describes an operation that does not exist. */
  async probe(): Promise<void> {
    if (this.#isProbing || !this.#options.mayStart()) return;
    this.#isProbing = true;
    this.#asked();
    try {
      await this.#options.client.workflow.getHandle(probeId).describe();
      this.#answered();
    } catch (error) {
      if (isNotFound(error)) this.#answered();
    } finally {
      this.#isProbing = false;
    }
  }

  /** Forgets everything: another watcher may lead from now on. */
  reset(): void {
    clearTimeout(this.#silenceTimer);
    this.#silenceTimer = undefined;
    this.#wanted.clear();
    this.#sent.clear();
    this.#ending.clear();
    this.#free.clear();
    this.#strays.clear();
  }

  /** Ends the retries. */
  async stop(): Promise<void> {
    clearTimeout(this.#silenceTimer);
    await this.#queue.stop();
  }

  /** The workflow ID of this release, also by the lock of a wanted operation. */
  #fullId(workflowId: string): string {
    return this.#wanted.get(workflowId)?.workflowId ?? workflowId;
  }

  async #send(lock: string): Promise<undefined> {
    const ended = await this.#end(lock);
    const operation = this.#wanted.get(lock);
    if (!operation || !this.#options.mayStart()) return;
    if (!ended && this.#sent.get(lock) === operation.inputs) return;
    this.#asked();
    try {
      await this.#start(operation, changedSignal, operation.change);
    } catch (error) {
      this.#isFailing = true;
      throw error;
    }
    this.#answered();
    if (ended && this.#ending.get(lock) === ended) this.#ending.delete(lock);
    const wanted = this.#wanted.get(lock);
    if (wanted?.inputs === operation.inputs) this.#sent.set(lock, operation.inputs);
    else if (wanted) this.#queue.add(lock);
    // it was forgotten meanwhile, when it was not known to be running
    else if (this.#options.mayStart()) void this.tell(operation.workflowId, null);
  }

  /** Terminates the run to be restarted, if any; it is remembered until the next one has started. */
  async #end(lock: string): Promise<RunToEnd | undefined> {
    const run = this.#ending.get(lock);
    if (run === undefined || !this.#options.mayStart()) return undefined;
    await this.#terminate(run.workflowId, run.reason, run.runId);
    if (!this.#wanted.has(lock)) this.#ending.delete(lock);
    return run;
  }

  async #terminate(workflowId: string, reason: string, runId?: string): Promise<void> {
    try {
      await this.#options.client.workflow.getHandle(workflowId, runId).terminate(reason);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** Signals the run of an operation, whichever workflow ID it has. Rejects when there is none. */
  async #signal(workflowId: string, name: string, payload: unknown): Promise<void> {
    const id = this.#fullId(workflowId);
    if (await this.#signalEarlierRun(id, name, payload)) return;
    await this.#options.client.workflow.getHandle(id).signal(name, payload);
  }

  /** Signals the run of release 0.1.0 that holds the lock, if there is one. */
  async #signalEarlierRun(workflowId: string, name: string, payload: unknown): Promise<boolean> {
    const earlier = earlierIdOf(workflowId);
    if (earlier === undefined || this.#free.has(earlier)) return false;
    try {
      await this.#options.client.workflow.getHandle(earlier).signal(name, payload);
      return true;
    } catch (error) {
      if (!isNotFound(error)) throw error;
      if (this.#free.size >= mostFree) this.#free.clear();
      this.#free.add(earlier);
      return false;
    }
  }

  /**
   * Terminates the second of two runs with the same lock. A run of release 0.1.0 is the second one if its lock was free in
   * this term: a start by the watcher that led before has arrived late. The list alone decides nothing: it may lag behind.
   */
  async #endSecond(running: readonly string[]): Promise<void> {
    const listed = new Set(running);
    for (const workflowId of running) {
      const earlier = earlierIdOf(workflowId);
      const isSecond =
        earlier === undefined
          ? this.#free.has(workflowId)
          : listed.has(earlier) && (await this.#signalEarlierRun(workflowId, changedSignal, null));
      if (isSecond && this.#options.mayStart()) await this.#terminate(workflowId, lockTaken);
    }
  }

  /** A Temporal server that does not know the attribute of the cause yet rejects the start: it is left out then. */
  async #start(operation: WantedOperation, signal: string, payload: unknown): Promise<void> {
    if (await this.#signalEarlierRun(operation.workflowId, signal, payload)) return;
    try {
      await this.#signalWithStart(operation, signal, payload);
    } catch (error) {
      if (operation.about.cause === undefined || !isAboutCause(error)) throw error;
      const about = { ...operation.about, cause: undefined };
      await this.#signalWithStart({ ...operation, about }, signal, payload);
    }
  }

  async #signalWithStart(operation: WantedOperation, signal: string, payload: unknown): Promise<void> {
    const { build } = this.#options;
    const isBegunAnew = this.#ending.has(lockOf(operation.workflowId));
    await this.#options.client.workflow.signalWithStart(operation.workflowType, {
      ...startOptions(operation, { build, ...(isBegunAnew && { begunAnew: build }) }),
      args: [operation.argument],
      signal,
      signalArgs: [payload],
    });
  }

  /** The list may contain a run that is about to end, so only those are signalled that are found again. */
  async #tellStrays(workflowType: string, strays: readonly string[]): Promise<void> {
    const before = this.#strays.get(workflowType);
    const found = new Map(strays.map((workflowId) => [workflowId, (before?.get(workflowId) ?? 0) + 1]));
    this.#strays.set(workflowType, found);
    for (const [workflowId, times] of found) {
      if (times === 2 || isPowerOfTwo(times / 30)) await this.tell(workflowId, null);
    }
  }

  async #running(workflowType: string): Promise<readonly string[]> {
    const running: string[] = [];
    const query = `WorkflowType = '${workflowType}' AND ExecutionStatus = 'Running'`;
    for await (const { workflowId } of this.#options.client.workflow.list({ query, pageSize: 1000 })) {
      running.push(workflowId);
    }
    return running;
  }

  /**
   * An answer is expected from now on. A call may fail at once or hang: the time of silence starts with the first call
   * without an answer.
   */
  #asked(): void {
    if (this.#silent || this.#silenceTimer) return;
    this.#silenceTimer = setTimeout(() => this.#setSilent(true), this.#options.silentAfterMs);
    this.#silenceTimer.unref();
  }

  #answered(): void {
    clearTimeout(this.#silenceTimer);
    this.#silenceTimer = undefined;
    this.#setSilent(false);
    if (!this.#isFailing) return;
    this.#isFailing = false;
    for (const lock of this.#wanted.keys()) if (!this.isSent(lock)) this.#queue.add(lock);
  }

  #setSilent(silent: boolean): void {
    this.#silenceTimer = undefined;
    if (this.#silent === silent) return;
    this.#silent = silent;
    this.#options.onSilence(silent);
  }
}

/** 1, 2, 4 ...: what is repeated then costs less and less. */
function isPowerOfTwo(count: number): boolean {
  return count >= 1 && Number.isInteger(Math.log2(count));
}

function isNotFound(error: unknown): boolean {
  return error instanceof Error && error.name === 'WorkflowNotFoundError';
}

/** The gRPC status code of a start with an unknown search attribute. */
const invalidArgument = 3;

/** Whether Temporal rejects the search attribute of the cause. */
function isAboutCause(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && cause.code === invalidArgument) return cause.message.includes(searchAttributes.cause);
  }
  return false;
}
