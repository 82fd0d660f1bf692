import type { Client } from '@temporalio/client';
import { type EngineTrouble, engineSilent } from '../api/engine/engine-trouble.ts';
import { type CommandName, type CommandPayload, changedSignal, searchAttributes } from '../api/engine/operations.ts';
import { KeyedQueue } from '../kube/keyed-queue.ts';

/** An operation that should be running. */
export interface WantedOperation {
  readonly workflowId: string;
  readonly workflowType: string;
  readonly taskQueue: string;
  /** Its only argument. */
  readonly argument: unknown;
  /** What the signal `changed` carries. */
  readonly change: unknown;
  /**
   * Names everything that the operation has to look at anew when it changes. The same text is sent once; the operation
   * is left alone until it differs.
   */
  readonly inputs: string;
  /** What people read in lists. */
  readonly summary: string;
  /** Whom the operation is about, for search attributes and memo. */
  readonly about: { readonly kind: string; readonly namespace: string; readonly name: string; readonly node: string };
}

export interface StarterOptions {
  readonly client: Pick<Client, 'workflow'>;
  /** The build ID of the workflow code of this release, kept in the memo of what is started. */
  readonly build: string;
  /** Nothing is started while this is false. */
  readonly mayStart: () => boolean;
  readonly onError: (workflowId: string, error: unknown, retryInMs: number) => void;
  /** Temporal has begun or ended to be silent. */
  readonly onSilence: (silent: boolean) => void;
  /** How long Temporal may fail to answer before that is told to users. */
  readonly silentAfterMs: number;
  /** Why an operation does not go on though Temporal answers; see `trouble`. Absent: nobody looks. */
  readonly stuck?: (workflowId: string, shown?: string) => EngineTrouble | undefined;
}

/** A run that is to end so that its operation begins anew, and why. */
export interface RunToEnd {
  readonly workflowId: string;
  readonly runId: string;
  readonly reason: string;
}

/** How many starts are under way at once. */
const concurrency = 16;

/** No operation has this ID. */
const probeId = 'windlass-probe';

/** First and longest pause after a start that failed: mostly Temporal is away, and soon back. */
const retryMs = { first: 200, most: 30_000 } as const;

/**
 * Sees that operations run. What is wanted is remembered until it is no longer wanted, sent once, and sent again when it
 * changes or when the operation turns out not to run: starting by signalWithStart under an ID made from a UID makes all
 * of that harmless.
 */
export class Starter {
  readonly #options: StarterOptions;
  readonly #queue: KeyedQueue;
  readonly #wanted = new Map<string, WantedOperation>();
  readonly #sent = new Map<string, string>();
  /** By workflow ID: what is to be terminated before the operation is started again. */
  readonly #ending = new Map<string, RunToEnd>();
  /** By type: what runs although nobody wants it, and in how many looks it was found in a row. */
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
      shareOf: (workflowId) => this.#wanted.get(workflowId)?.about.namespace ?? '',
      backOffMs: retryMs,
      pass: async (workflowId) => this.#send(workflowId),
      onError: (workflowId, error, retryInMs) => options.onError(workflowId, error, retryInMs),
    });
  }

  /** Operations that still have to be told to Temporal. */
  get depth(): number {
    return this.#queue.depth;
  }

  /** Whether Temporal has not answered for longer than users should be left without a word. */
  get silent(): boolean {
    return this.#silent;
  }

  /**
   * Why Temporal does not go on with this operation; undefined when it does, as far as is known. `shown` is the reason in
   * `waitingFor` of its object, or nothing for none, where the operation itself writes that.
   */
  trouble(workflowId: string, shown?: string): EngineTrouble | undefined {
    return this.#silent ? engineSilent : this.#options.stuck?.(workflowId, shown);
  }

  /** Whether Temporal knows of this operation in its present form, as far as this process knows. */
  isSent(workflowId: string): boolean {
    const wanted = this.#wanted.get(workflowId);
    return wanted !== undefined && this.#sent.get(workflowId) === wanted.inputs;
  }

  /** Wants this operation to run and to know of its inputs. Returns at once. */
  want(operation: WantedOperation): void {
    this.#wanted.set(operation.workflowId, operation);
    if (this.#sent.get(operation.workflowId) !== operation.inputs) this.#queue.add(operation.workflowId);
  }

  /** Nothing is to run under this ID any more. What runs is left to end by itself. */
  forget(workflowId: string): void {
    this.#wanted.delete(workflowId);
    this.#sent.delete(workflowId);
  }

  /**
   * The same, for an operation that ends by what it sees: when it was told of other inputs than these last, it is told
   * to look again, because what it has begun since may be gone.
   */
  dismiss({ workflowId, inputs, change }: WantedOperation): void {
    const sent = this.#sent.get(workflowId);
    this.forget(workflowId);
    if (sent !== undefined && sent !== inputs) void this.tell(workflowId, change);
  }

  /** Tells an operation that runs, if it does, to look again. Nothing is started. */
  async tell(workflowId: string, change: unknown): Promise<void> {
    this.#asked();
    try {
      await this.#options.client.workflow.getHandle(workflowId).signal(changedSignal, change);
      this.#answered();
    } catch (error) {
      // that it does not run is an answer; silence is found again by the next pass
      if (isNotFound(error)) this.#answered();
    }
  }

  /**
   * Passes a command on to an operation that runs, or starts the one that is given for it. Rejects when there is none, or
   * Temporal does not answer.
   */
  async command(
    workflowId: string,
    name: CommandName,
    payload: CommandPayload,
    start?: WantedOperation,
  ): Promise<void> {
    this.#asked();
    try {
      if (start) await this.#signalWithStart(start, name, payload);
      else await this.#options.client.workflow.getHandle(workflowId).signal(name, payload);
    } catch (error) {
      if (isNotFound(error)) this.#answered();
      throw error;
    }
    this.#answered();
  }

  /**
   * Starts again what is wanted and does not run: the end of a crash, of `terminate`, of a lost database. What runs and
   * is not wanted is told to look again, should it have missed that its object went.
   */
  async restartMissing(workflowType: string): Promise<void> {
    if (this.#isListing || !this.#options.mayStart()) return;
    this.#isListing = true;
    try {
      // Lists come from the visibility store: what it answers, or not, says nothing of whether operations go on.
      const wanted = [...this.#wanted.values()].filter((operation) => operation.workflowType === workflowType);
      const running = await this.#running(workflowType);
      for (const { workflowId } of wanted) {
        if (running.has(workflowId)) continue;
        this.#sent.delete(workflowId);
        this.#queue.add(workflowId);
      }
      const strays = [...running].filter((workflowId) => !this.#wanted.has(workflowId));
      await this.#tellStrays(workflowType, strays);
    } catch (error) {
      this.#options.onError('list', error, 0);
    } finally {
      this.#isListing = false;
    }
  }

  /** Starts an operation again whose run was ended, if it is still wanted. */
  startAgain(workflowId: string): void {
    if (this.#sent.delete(workflowId)) this.#queue.add(workflowId);
  }

  /**
   * Terminates this run and, where its operation is wanted, starts it again with a memo that says for which build. A
   * leader that is lost between the two leaves the start to the next one, without that memo.
   */
  beginAnew(run: RunToEnd): void {
    this.#ending.set(run.workflowId, run);
    this.#sent.delete(run.workflowId);
    this.#queue.add(run.workflowId);
  }

  /** Finds out whether Temporal answers though there is nothing to tell: asks for an operation that nobody has started. */
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
    this.#strays.clear();
  }

  /** Ends the retries. */
  async stop(): Promise<void> {
    clearTimeout(this.#silenceTimer);
    await this.#queue.stop();
  }

  async #send(workflowId: string): Promise<undefined> {
    const ended = await this.#end(workflowId);
    const operation = this.#wanted.get(workflowId);
    if (!operation || !this.#options.mayStart()) return;
    if (!ended && this.#sent.get(workflowId) === operation.inputs) return;
    this.#asked();
    try {
      await this.#signalWithStart(operation, changedSignal, operation.change);
    } catch (error) {
      this.#isFailing = true;
      throw error;
    }
    this.#answered();
    if (ended && this.#ending.get(workflowId) === ended) this.#ending.delete(workflowId);
    const wanted = this.#wanted.get(workflowId);
    if (wanted?.inputs === operation.inputs) this.#sent.set(workflowId, operation.inputs);
    else if (wanted) this.#queue.add(workflowId);
    // it was forgotten meanwhile, when nobody knew that it had begun
    else if (this.#options.mayStart()) void this.tell(workflowId, null);
  }

  /** Ends the run that is to end under this ID, if any; it is kept in mind until another one has followed. */
  async #end(workflowId: string): Promise<RunToEnd | undefined> {
    const run = this.#ending.get(workflowId);
    if (run === undefined || !this.#options.mayStart()) return undefined;
    try {
      await this.#options.client.workflow.getHandle(workflowId, run.runId).terminate(run.reason);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    if (!this.#wanted.has(workflowId)) this.#ending.delete(workflowId);
    return run;
  }

  async #signalWithStart(operation: WantedOperation, signal: string, payload: unknown): Promise<void> {
    const { kind, namespace, name, node } = operation.about;
    const { build } = this.#options;
    const isBegunAnew = this.#ending.has(operation.workflowId);
    await this.#options.client.workflow.signalWithStart(operation.workflowType, {
      workflowId: operation.workflowId,
      taskQueue: operation.taskQueue,
      args: [operation.argument],
      signal,
      signalArgs: [payload],
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      staticSummary: operation.summary,
      memo: { kind, namespace, name, build, ...(isBegunAnew && { begunAnew: build }) },
      searchAttributes: {
        [searchAttributes.kind]: [kind],
        [searchAttributes.namespace]: [namespace],
        [searchAttributes.name]: [name],
        [searchAttributes.node]: [node],
      },
    });
  }

  /** A run that is about to end may stand in the list, too, so only those are told that are found there again. */
  async #tellStrays(workflowType: string, strays: readonly string[]): Promise<void> {
    const before = this.#strays.get(workflowType);
    const found = new Map(strays.map((workflowId) => [workflowId, (before?.get(workflowId) ?? 0) + 1]));
    this.#strays.set(workflowType, found);
    for (const [workflowId, times] of found) {
      if (times === 2 || times % 30 === 0) await this.tell(workflowId, null);
    }
  }

  async #running(workflowType: string): Promise<ReadonlySet<string>> {
    const running = new Set<string>();
    const query = `WorkflowType = '${workflowType}' AND ExecutionStatus = 'Running'`;
    for await (const { workflowId } of this.#options.client.workflow.list({ query, pageSize: 1000 })) {
      running.add(workflowId);
    }
    return running;
  }

  /** From now on an answer is due. A call may fail at once or hang: silence counts from the first without an answer. */
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
    for (const workflowId of this.#wanted.keys()) if (!this.isSent(workflowId)) this.#queue.add(workflowId);
  }

  #setSilent(silent: boolean): void {
    this.#silenceTimer = undefined;
    if (this.#silent === silent) return;
    this.#silent = silent;
    this.#options.onSilence(silent);
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof Error && error.name === 'WorkflowNotFoundError';
}
