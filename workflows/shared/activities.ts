import {
  ActivityCancellationType,
  type ActivityOptions,
  type LocalActivityOptions,
  proxyActivities,
  proxyLocalActivities,
} from '@temporalio/workflow';
import { queues } from '../../api/engine/operations.ts';
import { type Activities, type ActivityName, checkedResult, type ResultOf } from './results.ts';

/** An outage is waited out, however long it lasts: operations end by their own deadline or by a person, never by retries. */
export const untilItWorks = { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' } as const;

/** Activities of which every result has been checked when it arrives: whoever calls them need not doubt it. */
type Checked<Name extends ActivityName, Options> = {
  readonly [One in Name]: {
    readonly executeWithOptions: (options: Options, args: Parameters<Activities[One]>) => Promise<ResultOf<One>>;
  };
};

/** The only way from a workflow to an activity. */
function checked<Name extends ActivityName, Options>(names: readonly Name[], proxy: object): Checked<Name, Options> {
  const calls = proxy as Readonly<Record<string, Call<Options>>>;
  const entries = names.map((name) => [
    name,
    {
      executeWithOptions: (options: Options, args: readonly unknown[]) =>
        calls[name]?.executeWithOptions(options, args).then((result) => checkedResult(name, result)),
    },
  ]);
  return Object.fromEntries(entries) as Checked<Name, Options>;
}

interface Call<Options> {
  executeWithOptions(options: Options, args: readonly unknown[]): Promise<unknown>;
}

function remote<Name extends ActivityName>(options: ActivityOptions, ...names: readonly Name[]) {
  return checked<Name, ActivityOptions>(names, proxyActivities(options));
}

function local<Name extends ActivityName>(options: LocalActivityOptions, ...names: readonly Name[]) {
  return checked<Name, LocalActivityOptions>(names, proxyLocalActivities(options));
}

/**
 * Look-ups at the API server: run inside the worker that runs the workflow, so they cost no hop.
 *
 * The worker executes a workflow task for as long as a local activity waits for its next attempt, unless that is further
 * away than the threshold: then it is a timer, and an outage of the API server keeps no task open.
 */
export const look = local(
  {
    startToCloseTimeout: '45s',
    localRetryThreshold: '3s',
    retry: { ...untilItWorks, maximumInterval: '30s' },
  },
  'lookAtRequest',
  'lookAtSidecars',
  'lookAtNodeImage',
  'lookAtPullJob',
  'lookAtEnvironment',
);

const shortWrite = { taskQueue: queues.cluster, startToCloseTimeout: '45s', retry: untilItWorks } as const;

/** Short writes to the API server. */
export const kube = remote(
  shortWrite,
  'reportRequest',
  'announceCommand',
  'recordTarget',
  'takeOutOfService',
  'awaitDrained',
  'announceRollOutCommand',
  'endSidecars',
  'reportSidecars',
  'announceOnPod',
);

/**
 * How long a permit outlives the last heartbeat that Temporal has confirmed: as long a dead watcher goes unnoticed, and
 * as long something new may be disrupted after Temporal went away. One that waits costs less, and has nothing to disrupt.
 */
export const permitLife = { working: '10s', waiting: '30s' } as const;

/** The leading watcher. What is given up is taken back there at once. */
export const fleet = remote(
  {
    taskQueue: queues.fleet,
    startToCloseTimeout: '24h',
    heartbeatTimeout: permitLife.working,
    retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '2s' },
    cancellationType: ActivityCancellationType.TRY_CANCEL,
  },
  'fleet.v1.chooseBatch',
  'fleet.v1.carryOutBatch',
);

/** Short writes of the leading watcher. */
export const fleetWrites = remote({ ...shortWrite, taskQueue: queues.fleet }, 'fleet.v1.recordOrders');

/** Short writes about images. */
export const images = remote(shortWrite, 'reportPulls', 'steerPullJob', 'announceSteering');

/**
 * The daemon of one node, for pulls. What it does not begin within `silenceMs` is a silent node; what it cannot begin for
 * want of a runtime comes back after so many attempts, to be told.
 */
export function pullOnNode(nodeUid: string, silenceMs: number, attempts: number) {
  return remote(
    {
      taskQueue: queues.node(nodeUid),
      scheduleToStartTimeout: silenceMs,
      startToCloseTimeout: '24h',
      // longer than Temporal takes to fail over, which is to cost no pull an attempt
      heartbeatTimeout: '60s',
      retry: { ...untilItWorks, maximumAttempts: attempts },
      cancellationType: ActivityCancellationType.TRY_CANCEL,
    },
    'node.v1.pullImage',
  );
}

/** Questions to Temporal itself. They only serve messages, so they give up soon. */
export const temporal = remote(
  {
    taskQueue: queues.cluster,
    startToCloseTimeout: '10s',
    scheduleToCloseTimeout: '30s',
    retry: { maximumAttempts: 3 },
  },
  'identifySignal',
);

/** How long a node may leave a step lying before its silence is noticed (CRR-12). */
export const nodeSilenceMs = 60_000;

/**
 * The first look on a node waits in slices. One that ends late proves nothing, because Temporal or we were away, so
 * only those that end on time are added up to the silence that a request ends with.
 */
export const silenceSlice = { ms: nodeSilenceMs / 3, lateMs: 5_000 } as const;

/** The daemon of one node. Only that daemon listens on the queue, so the time to start is what notices a dead node. */
export function onNode(nodeUid: string) {
  return remote(
    {
      taskQueue: queues.node(nodeUid),
      scheduleToStartTimeout: nodeSilenceMs,
      startToCloseTimeout: '24h',
      heartbeatTimeout: '30s',
      retry: untilItWorks,
      // a stop that has begun is never cancelled; what a cancelled step still reports is of no interest
      cancellationType: ActivityCancellationType.TRY_CANCEL,
    },
    'node.v1.lookAtContainers',
    'node.v1.stopContainer',
    'node.v1.refreshContainer',
    'node.v1.awaitContainer',
  );
}
