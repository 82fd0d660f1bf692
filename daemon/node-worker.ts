import { setTimeout as timeout } from 'node:timers/promises';
import type { ActivityInterceptorsFactory, NativeConnection, WorkerOptions } from '@temporalio/worker';
import { Worker } from '@temporalio/worker';
import type { NodeActivities } from '../activities/cri/contract.ts';
import type { PullActivities } from '../activities/cri/pull-contract.ts';
import { queues } from '../api/engine/operations.ts';
import { backOff } from '../kube/back-off.ts';

const retryMs = { first: 500, most: 10_000 } as const;

export interface NodeWorkerOptions {
  readonly nodeName: string;
  readonly namespace: string;
  /** Resolves once Temporal has answered; rejects only when the signal aborts. */
  readonly connect: (signal: AbortSignal) => Promise<NativeConnection>;
  /** `stopping` aborts when the worker that runs them shuts down. */
  readonly activities: (stopping: AbortSignal) => Partial<NodeActivities & PullActivities>;
  /** How long activities that ignore `stopping` may continue. */
  readonly graceMs: number;
  readonly interceptors: ActivityInterceptorsFactory;
  readonly dataConverter: NonNullable<WorkerOptions['dataConverter']>;
  readonly log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
  };
}

/**
 * Polls the task queue of this node, and another one as soon as the Node has another UID. Whatever ends a worker, for
 * example a Temporal outage, another one is created until `stop`.
 */
export class NodeWorker {
  readonly #options: NodeWorkerOptions;
  readonly #ended = new AbortController();
  #turn: { readonly nodeUid: string; readonly over: AbortController } | undefined;
  #running: Promise<void> = Promise.resolve();
  #worker: Worker | undefined;

  constructor(options: NodeWorkerOptions) {
    this.#options = options;
  }

  /** To be called with the UID of the Node whenever it may have changed. */
  serve(nodeUid: string): void {
    if (this.#ended.signal.aborted || this.#turn?.nodeUid === nodeUid) return;
    this.#turn?.over.abort();
    const turn = { nodeUid, over: new AbortController() };
    this.#turn = turn;
    const before = this.#running;
    this.#running = before.then(() => this.#serveUntil(turn.nodeUid, turn.over.signal));
  }

  /** Why it does not poll; undefined when it does. */
  get trouble(): string | undefined {
    if (this.#worker?.getState() === 'RUNNING') return undefined;
    if (this.#turn === undefined) return `Node "${this.#options.nodeName}" has not been seen`;
    return 'no worker polls Temporal';
  }

  /** Accepts no more tasks, and resolves when the activities have ended or were returned for a retry. */
  async stop(): Promise<void> {
    this.#ended.abort();
    this.#turn?.over.abort();
    await this.#running;
  }

  async #serveUntil(nodeUid: string, over: AbortSignal): Promise<void> {
    const { log } = this.#options;
    let failures = 0;
    while (!over.aborted) {
      const startedAtMs = performance.now();
      try {
        await this.#pollUntil(nodeUid, over);
      } catch (error) {
        if (over.aborted) return;
        log.warn({ err: error, nodeUid }, 'The worker of this node has failed and is recreated');
        await timeout(backOff(retryMs, failures), undefined, { signal: over }).catch(() => undefined);
        const lasted = performance.now() - startedAtMs > 2 * retryMs.most;
        failures = lasted ? 0 : failures + 1;
      }
    }
  }

  async #pollUntil(nodeUid: string, over: AbortSignal): Promise<void> {
    const { connect, namespace, nodeName, activities, graceMs, interceptors, dataConverter, log } = this.#options;
    const taskQueue = queues.node(nodeUid);
    const connection = await connect(over);
    try {
      const worker = await Worker.create({
        connection,
        namespace,
        taskQueue,
        identity: `daemon@${nodeName}`,
        activities: { ...activities(over) },
        // One poller per node is enough, and 5,000 nodes share one Temporal server.
        activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 1 },
        // Most of them only wait, which costs nothing.
        maxConcurrentActivityTaskExecutions: 500,
        maxHeartbeatThrottleInterval: '1s',
        defaultHeartbeatThrottleInterval: '1s',
        shutdownGraceTime: graceMs,
        interceptors: { activity: [interceptors] },
        dataConverter,
      });
      const shutdown = () => worker.shutdown();
      over.addEventListener('abort', shutdown);
      const running = worker.run();
      if (over.aborted) shutdown();
      this.#worker = worker;
      log.info({ taskQueue }, 'Polling');
      await running.finally(() => {
        over.removeEventListener('abort', shutdown);
        this.#worker = undefined;
      });
    } finally {
      await connection.close();
    }
  }
}
