import {
  ActivityCancellationType,
  type ActivityOptions,
  type LocalActivityOptions,
  proxyActivities,
  proxyLocalActivities,
} from '@temporalio/workflow';
import { queues } from '../../api/engine/operations.ts';
import { type Activities, type ActivityName, checkedResult, type ResultOf } from './results.ts';

/**
 * An outage is waited for, however long it lasts: operations end by their own deadline or by a person, never because
 * retries are exhausted.
 */
export const untilItWorks = { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' } as const;

/** Activities whose results are validated: callers can rely on their types. */
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
 * Look-ups at the API server: local activities, which run in the worker of the workflow and need no task of their own.
 *
 * The worker keeps a workflow task open while a local activity waits for its next attempt, unless the pause is longer
 * than the threshold: then it becomes a timer, so that an outage of the API server keeps no task open.
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
 * How long a permit outlives the last heartbeat that Temporal has confirmed: for this long a dead watcher is not
 * detected, and for this long new pods may be disrupted after Temporal went away. A permit that waits costs less, and
 * has nothing to disrupt.
 */
export const permitLife = { working: '10s', waiting: '30s' } as const;

/** The leading watcher. A cancelled activity is withdrawn there at once. */
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
 * The daemon of one node, for pulls. A task that it does not start within `silenceMs` means a silent node; a pull that
 * cannot start because there is no runtime fails after this many attempts, so that it can be reported.
 */
export function pullOnNode(nodeUid: string, silenceMs: number, attempts: number) {
  return remote(
    {
      taskQueue: queues.node(nodeUid),
      scheduleToStartTimeout: silenceMs,
      startToCloseTimeout: '24h',
      // longer than a fail-over of Temporal, which must not cost a pull an attempt
      heartbeatTimeout: '60s',
      retry: { ...untilItWorks, maximumAttempts: attempts },
      cancellationType: ActivityCancellationType.TRY_CANCEL,
    },
    'node.v1.pullImage',
  );
}

/** Queries to Temporal itself. They only serve messages, so they fail soon. */
export const temporal = remote(
  {
    taskQueue: queues.cluster,
    startToCloseTimeout: '10s',
    scheduleToCloseTimeout: '30s',
    retry: { maximumAttempts: 3 },
  },
  'identifySignal',
);

/** How long a node may take to start a step before it counts as silent (CRR-12). */
export const nodeSilenceMs = 60_000;

/**
 * The first look at a node waits in slices. A slice that ends late proves nothing, because Temporal or the worker was
 * away, so only slices that end on time are added up to the silence after which a request fails.
 */
export const silenceSlice = { ms: nodeSilenceMs / 3, lateMs: 5_000 } as const;

/**
 * The daemon of one node. Only that daemon polls the task queue, so the schedule-to-start timeout detects a dead node.
 */
export function onNode(nodeUid: string) {
  return remote(
    {
      taskQueue: queues.node(nodeUid),
      scheduleToStartTimeout: nodeSilenceMs,
      startToCloseTimeout: '24h',
      heartbeatTimeout: '30s',
      retry: untilItWorks,
      // a stop that has begun cannot be cancelled; the result of a cancelled step is not needed
      cancellationType: ActivityCancellationType.TRY_CANCEL,
    },
    'node.v1.lookAtContainers',
    'node.v1.stopContainer',
    'node.v1.refreshContainer',
    'node.v1.awaitContainer',
  );
}
