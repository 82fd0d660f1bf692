import { fileURLToPath } from 'node:url';
import { CompleteAsyncError, Context } from '@temporalio/activity';
import { Client, type WorkflowHandle } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { Worker, type WorkerOptions } from '@temporalio/worker';
import { pino } from 'pino';
import { nextRunActivities } from '../../activities/temporal/next-run.ts';
import { signalActivities } from '../../activities/temporal/signals.ts';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import type { OperationTarget } from '../../api/engine/operation-id.ts';
import { changedSignal, queues } from '../../api/engine/operations.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import { terminateSidecarsId } from '../../api/job-sidecar-termination.ts';
import { pullImagesId } from '../../api/node-image/operation.ts';
import type { PerOperation } from '../../api/operations.ts';
import { swapSidecarId } from '../../api/sidecar-set/swap.ts';
import { batchOf } from '../../plan/fleet/batch.ts';
import { dataConverter } from '../../process/payload-limit.ts';
import { installTemporalRuntime, registerSearchAttributes } from '../../process/temporal.ts';
import type { Activities, ActivityName, ResultOf } from '../../workflows/shared/results.ts';
import { workflowsWith } from './bundled-workflows.ts';
import { connectToTemporal, connectWorkersToTemporal } from './temporal-connection.ts';
import { startTemporal } from './temporal-server.ts';
import { type Treatment, treatmentOf } from './treatments.ts';

/**
 * A result of every activity with which an operation runs briefly and without incidents, for operations that run
 * without a cluster.
 */
export type Answers = {
  readonly [Name in ActivityName]: (call: Call<Name>) => ResultOf<Name> | Promise<ResultOf<Name>>;
};

interface Call<Name extends ActivityName> {
  readonly input: Parameters<Activities[Name]>[0];
  /** The number of this call of the activity in this operation, from 1. */
  readonly nth: number;
  readonly workflowId: string;
}

export const operationTypes = {
  restartContainers: restartContainersId,
  refreshEnvironment: restartContainersId,
  pullImages: pullImagesId,
  pullOnNodes: pullOnNodesId,
  rollOut: rollOutId,
  terminateSidecars: terminateSidecarsId,
  swapSidecar: swapSidecarId,
} as const satisfies PerOperation<(of: OperationTarget) => string> & {
  readonly refreshEnvironment: (of: OperationTarget) => string;
};

export type OperationType = keyof typeof operationTypes;

const node = { name: 'node-1', uid: 'node-uid' };
const at = '2026-11-22T10:00:00Z';
const rolledOut = { kind: 'done', summary: '5 of 5 pods are of revision new' } as const;

/** The workflow ID of an operation of this type for the object with this UID. */
export function idOf(type: OperationType, uid: string): string {
  return operationTypes[type](type === 'pullImages' ? { name: node.name, uid } : { ...ofShop, uid });
}

const ofShop = { namespace: 'shop', name: 'web' } as const;

/** The input of an operation of this type for an object with this UID. */
export function inputOf(type: OperationType, uid: string): object {
  const named = { ...ofShop, uid };
  switch (type) {
    case 'restartContainers':
      return { request: { ...named, name: 'restart-web' }, pod: named, node };
    case 'refreshEnvironment':
      return { refresh: 'environment', pod: named, node };
    case 'pullImages':
      return { nodeImage: { name: node.name, uid }, node };
    case 'pullOnNodes':
      return { job: named };
    case 'rollOut':
      return {
        kind: 'CloneSet',
        target: named,
        facts: { generation: 1, revision: 'new', previous: 'old', replicas: 5 },
      };
    case 'terminateSidecars':
      return { pod: named };
    case 'swapSidecar':
      return { pod: named, set: { name: 'mesh', uid: 'mesh-uid' } };
  }
}

const tag = {
  name: 'nginx',
  tag: '1.27',
  version: 1,
  createdAt: at,
  always: false,
  timeoutSeconds: 600,
  backoffLimit: 3,
} as const;

/** A swap of one sidecar. */
const swap = {
  kind: 'open',
  incoming: [{ container: 'mesh-2', image: 'mesh:v2' }],
  outgoing: [{ container: 'mesh-1', image: 'empty:1' }],
  target: 'hash',
} as const;

/** What looks at a swap find: before its first and its second write, and after that. */
export const swapLooks = {
  begin: { ...swap, stage: 'begin' },
  reset: { ...swap, stage: 'reset' },
  done: { kind: 'done' },
} as const;

const ofPullJob = { image: 'nginx:1.27', of: 1 } as const;

/** What a pull job is answered: before its node may go, then, and at the end. */
export const pullAnswers = {
  open: { kind: 'nothing', ...ofPullJob, ended: 0 },
  nodes: { kind: 'nodes', waves: [['node-1']], more: false, ...ofPullJob, ended: 0 },
  finished: {
    kind: 'done',
    end: { failed: false, reason: 'ImagePulled', message: 'Image "nginx:1.27" is on 1 of 1 nodes' },
    ...{ ...ofPullJob, ended: 1 },
  },
} as const;

export const uneventful: Answers = {
  lookAtRequest: ({ input }) => ({
    kind: 'open',
    phase: '',
    createdAt: at,
    runtime: 'containerd',
    podGone: false,
    node,
    order: {
      request: input.operation.request.name,
      pod: 'web',
      ordered: true,
      force: true,
      failurePolicy: 'Fail',
      graceSeconds: 1,
      minStartedSeconds: 0,
      unreadyGraceSeconds: 0,
    },
    containers:
      input.skip > 0
        ? []
        : [{ name: 'app', phase: 'Pending', isKilled: false, originalId: 'old', originalRestartCount: 0 }],
    more: false,
  }),
  reportRequest: () => undefined,
  announceCommand: () => undefined,
  recordTarget: ({ input }) => ({ containerId: input.containerId }),
  takeOutOfService: () => ({ since: at, isHeld: true }),
  awaitDrained: () => true,
  lookAtEnvironment: () => ({
    kind: 'seen',
    instances: [{ name: 'app', runtime: 'containerd', containerId: 'old' }],
    more: false,
    node,
  }),
  lookAtSidecars: ({ nth }) => {
    const waitingFor = { reason: 'ContainerNotStarted', blockedBy: ['container/proxy'], blockedCount: 1, unblock: '' };
    const step = { kind: 'requestStop', containers: ['proxy'] } as const;
    if (nth === 1) return { decision: { kind: 'wait', waitingFor }, status: {} };
    if (nth === 2) return { decision: { kind: 'act', step }, status: {} };
    return { decision: { kind: 'done' }, status: {} };
  },
  endSidecars: () => undefined,
  reportSidecars: () => undefined,
  announceOnPod: () => undefined,
  lookAtNodeImage: () => ({
    kind: 'open',
    resourceVersion: '1',
    generation: 1,
    stale: false,
    tags: [tag],
    more: false,
  }),
  reportPulls: () => undefined,
  steerPullJob: () => undefined,
  announceSteering: () => undefined,
  announceRollOutCommand: () => undefined,
  'fleet.v1.next': ({ nth }) =>
    nth === 1
      ? {
          kind: 'pods',
          batches: [
            batchOf('new', [{ namespace: 'shop', name: 'web', uid: 'u', how: 'inPlace', containers: [['app']] }]),
          ],
          ...{ more: false, of: 5, updated: 4 },
        }
      : rolledOut,
  'fleet.v1.carryOutBatch': () => ({
    summary: '5 of 5 pods are updated',
    pods: [{ pod: 'web', how: 'inPlace' }],
    next: rolledOut,
  }),
  'fleet.v1.applyCommand': ({ input: { by = 'ann' } }) => ({ by, answer: {} }),
  'fleet.v1.nextNodes': ({ nth }) => (nth === 1 ? pullAnswers.nodes : pullAnswers.finished),
  'fleet.v1.awaitNodes': () => ({ nodes: [{ node: 'node-1', at, ms: 1_000 }], next: pullAnswers.finished }),
  'fleet.v1.lookAtSwap': ({ nth }) => swapLooks[nth === 1 ? 'begin' : 'done'],
  'fleet.v1.swapStep': () => ({ kind: 'written', at }),
  'fleet.v1.awaitSwap': () => ({ kind: 'reached' }),
  identifySignal: () => 'ann',
  startNextRun: () => undefined,
  'node.v1.lookAtContainers': () => ({
    kind: 'seen',
    instances: [{ name: 'app', id: 'old', state: 'running', restartCount: 0 }],
  }),
  'node.v1.stopContainer': () => ({ kind: 'stopped' }),
  'node.v1.refreshContainer': () => ({ kind: 'stopped' }),
  'node.v1.awaitContainer': () => ({ kind: 'ready', containerId: 'new', restartCount: 1 }),
  'node.v1.pullImage': () => ({ kind: 'succeeded', imageId: 'nginx@sha256:1', pulled: true }),
};

/** A call of an activity. */
export interface SeenCall {
  readonly workflowId: string;
  readonly activity: ActivityName;
  readonly input: unknown;
}

/** Operations on a Temporal server of their own, whose activities are simulated. */
export interface PlayedOperations {
  /** Of the Temporal server. */
  readonly address: string;
  readonly client: Client;
  readonly calls: readonly SeenCall[];
  /** Starts the operation of this type on the object with this UID, with a signal if one is given. */
  begin(
    type: OperationType,
    uid: string,
    signal?: { readonly name: string; readonly payload: unknown },
  ): Promise<WorkflowHandle>;
  /** Starts another worker of queue `cluster`, with these workflows. */
  startClusterWorker(options: ClusterWorkerOptions): Promise<{ stop(): Promise<void> }>;
  /** Whether the treatment of this operation has been applied. */
  isTreated(workflowId: string): boolean;
  /** The operation's texts for people: its details and activity summaries. */
  detailsOf(handle: WorkflowHandle): Promise<string>;
  stop(): Promise<void>;
}

type ClusterWorkerOptions = Pick<WorkerOptions, 'workflowBundle' | 'workerDeploymentOptions' | 'identity'>;

/** Starts Temporal with these dynamic settings, and workers with these answers in place of the usual ones. */
export async function startPlayedOperations({
  settings = [],
  answers = {},
  hasClusterWorker = true,
  hasLogger = false,
  cachedRuns,
}: {
  readonly settings?: readonly string[];
  readonly answers?: Partial<Answers>;
  /** False: the test starts the workers of queue `cluster` itself. */
  readonly hasClusterWorker?: boolean;
  /** True: the roles that run in this process have installed the logger of Temporal's SDK. */
  readonly hasLogger?: boolean;
  /** How many runs the cluster worker keeps in memory; others are replayed at each task. Absent: as many as usual. */
  readonly cachedRuns?: number;
} = {}): Promise<PlayedOperations> {
  const log = pino({ level: 'silent' });
  if (!hasLogger) installTemporalRuntime(log);
  const temporal = await startTemporal(settings);
  const { address } = temporal;
  const connection = await connectWorkersToTemporal(address);
  const clientConnection = await connectToTemporal(address);
  const client = new Client({ connection: clientConnection, dataConverter, identity: 'operator@test' });
  const config = { address, namespace: 'default' };
  await registerSearchAttributes({ config, log, client, signal: AbortSignal.timeout(300_000) });

  const nextRuns = nextRunActivities({ client, onError: () => undefined });
  const calls: SeenCall[] = [];
  const treated = new Set<string>();
  const counts = new Map<string, number>();

  /** Like an operator with `temporal activity fail` and `complete`. */
  async function byHand(workflowId: string, activityId: string, treatment: Treatment): Promise<never> {
    const about = { namespace: 'default', workflowId, activityId, identity: 'operator@test' };
    if (treatment === 'failed') {
      await client.workflowService.respondActivityTaskFailedById({
        ...about,
        failure: { message: 'failed by hand', applicationFailureInfo: { nonRetryable: true } },
      });
    } else if (treatment !== 'timedOut') {
      const result = { payloads: [defaultPayloadConverter.toPayload(treatment === 'null' ? null : [7])] };
      await client.workflowService.respondActivityTaskCompletedById({ ...about, result });
    }
    throw new CompleteAsyncError();
  }

  async function play(activity: ActivityName, input: unknown): Promise<unknown> {
    const { activityId, workflowExecution } = Context.current().info;
    const workflowId = workflowExecution?.workflowId ?? '';
    const due = treatmentOf(workflowId);
    calls.push({ workflowId, activity, input });
    const key = `${workflowId} ${activity}`;
    if (due.activity === activity && !treated.has(workflowId)) {
      treated.add(workflowId);
      const treatment = due.treatment as Treatment;
      return await byHand(workflowId, activityId, treatment);
    }
    const nth = (counts.get(key) ?? 0) + 1;
    counts.set(key, nth);
    if (activity === 'identifySignal') {
      return await signalActivities({ client }).identifySignal(input as never);
    }
    if (activity === 'startNextRun') return await nextRuns.startNextRun(input as never);
    const answer = answers[activity] ?? uneventful[activity];
    return await answer({ input: input as never, nth, workflowId });
  }

  const activities = Object.fromEntries(
    (Object.keys(uneventful) as ActivityName[]).map((name) => [name, (input: unknown) => play(name, input)]),
  );
  // as the workers of Windlass: else an activity learns of its cancellation after 24 s
  const heartbeats = { maxHeartbeatThrottleInterval: '1s', defaultHeartbeatThrottleInterval: '1s' } as const;
  const shared = { connection, dataConverter, activities, ...heartbeats } as const;
  const workers = await Promise.all([
    ...(hasClusterWorker
      ? [
          Worker.create({
            ...shared,
            taskQueue: queues.cluster,
            workflowBundle: await workflowsWith([fileURLToPath(new URL('./short-patience.ts', import.meta.url))]),
            ...(cachedRuns !== undefined && { maxCachedWorkflows: cachedRuns }),
          }),
        ]
      : []),
    Worker.create({ ...shared, taskQueue: queues.fleet }),
    Worker.create({ ...shared, taskQueue: queues.fleetCommands }),
    Worker.create({ ...shared, taskQueue: queues.node(node.uid) }),
  ]);
  const running = workers.map((worker) => worker.run());

  return {
    address,
    client,
    calls,
    async begin(type, uid, signal = { name: changedSignal, payload: null }) {
      return await client.workflow.signalWithStart(type === 'refreshEnvironment' ? 'restartContainers' : type, {
        workflowId: idOf(type, uid),
        taskQueue: queues.cluster,
        args: [inputOf(type, uid)],
        signal: signal.name,
        signalArgs: [signal.payload],
      });
    },
    async startClusterWorker(options) {
      // the SDK takes one unversioned worker of a queue for each connection
      const own = await connectWorkersToTemporal(address);
      const worker = await Worker.create({ ...shared, ...options, connection: own, taskQueue: queues.cluster });
      const working = worker.run();
      return {
        async stop() {
          worker.shutdown();
          await working;
          await own.close();
        },
      };
    },
    isTreated: (workflowId) => treated.has(workflowId),
    async detailsOf(handle) {
      try {
        const { currentDetails } = await handle.query<{ readonly currentDetails?: string }, []>(
          '__temporal_workflow_metadata',
        );
        return currentDetails ?? '';
      } catch (error) {
        throw new Error(`Cannot query ${handle.workflowId}: ${await taskOf(handle)}`, { cause: error });
      }
    },
    async stop() {
      for (const worker of workers) worker.shutdown();
      await Promise.all(running);
      await clientConnection.close();
      await connection.close();
      await temporal.stop();
    },
  };
}

/** The state of the workflow task of a run, which says why the run does not answer. */
async function taskOf(handle: WorkflowHandle): Promise<string> {
  const { status, raw } = await handle.describe();
  const { events } = await handle.fetchHistory();
  const failure = events?.findLast((event) => event.workflowTaskFailedEventAttributes)
    ?.workflowTaskFailedEventAttributes?.failure?.message;
  const [last] = events?.slice(-1) ?? [];
  const task = JSON.stringify(raw.pendingWorkflowTask ?? 'none');
  return `${status.name}, pending task ${task}, last failed task: ${failure ?? 'none'}, last event ${last?.eventType}`;
}
