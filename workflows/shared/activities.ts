import { ActivityCancellationType, type ActivityOptions, proxyActivities } from '@temporalio/workflow';
import { queues } from '../../api/engine/operations.ts';
import { type Activities, type ActivityName, checkedResult, type ResultOf } from './results.ts';

/**
 * An outage is waited for, however long it lasts: operations end by their own deadline or by a person, never because
 * retries are exhausted.
 */
export const untilItWorks = { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' } as const;

/** Activities whose results are validated: callers can rely on their types. */
type Checked<Name extends ActivityName> = {
  readonly [One in Name]: {
    readonly executeWithOptions: (
      options: ActivityOptions,
      args: Parameters<Activities[One]>,
    ) => Promise<ResultOf<One>>;
  };
};

/**
 * The only way from a workflow to an activity. None is local: the SDK may hand the result of a local activity to the workflow
 * together with other events and, when the history is replayed, before them, which has happened where a query arrived in
 * between. Such a run can never continue.
 */
function remote<Name extends ActivityName>(options: ActivityOptions, ...names: readonly Name[]): Checked<Name> {
  const calls = proxyActivities<Readonly<Record<string, (...args: unknown[]) => Promise<unknown>>>>(options);
  const entries = names.map((name) => [
    name,
    {
      executeWithOptions: (own: ActivityOptions, args: readonly unknown[]) =>
        calls[name]?.executeWithOptions(own, [...args]).then((result) => checkedResult(name, result)),
    },
  ]);
  return Object.fromEntries(entries) as Checked<Name>;
}

const shortWrite = { taskQueue: queues.cluster, startToCloseTimeout: '45s', retry: untilItWorks } as const;

/** Look-ups at the API server. */
export const look = remote(
  { ...shortWrite, retry: { ...untilItWorks, maximumInterval: '30s' } },
  'lookAtRequest',
  'lookAtSidecars',
  'lookAtNodeImage',
  'lookAtEnvironment',
);

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
 * detected, and for this long something may be disrupted after Temporal went away. A permit that waits costs less, and
 * has nothing to disrupt. A batch is handed in again as soon as another watcher answers, and asks for itself whether it counts (P-6).
 */
export const permitLife = { batch: '60s', working: '10s', waiting: '30s' } as const;

const byLeader = {
  taskQueue: queues.fleet,
  startToCloseTimeout: '24h',
  heartbeatTimeout: permitLife.working,
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '2s' },
} as const;

/** The leading watcher. A cancelled activity is withdrawn there at once. */
export const fleet = remote(
  { ...byLeader, cancellationType: ActivityCancellationType.TRY_CANCEL },
  'fleet.v1.awaitSwap',
);

/** The same, for batches of pods or nodes. */
export const fleetBatches = remote(
  {
    ...byLeader,
    heartbeatTimeout: permitLife.batch,
    cancellationType: ActivityCancellationType.TRY_CANCEL,
  },
  'fleet.v1.carryOutBatch',
  'fleet.v1.awaitNodes',
);

/** The same, for single writes: what a cancelled one has written all the same is its result. */
export const fleetSteps = remote(
  { ...byLeader, cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED },
  'fleet.v1.swapStep',
);

/** The leading watcher, for commands of operators: a queue of their own, so that a pause never waits behind batches. */
export const fleetCommands = remote(
  { ...shortWrite, taskQueue: queues.fleetCommands, cancellationType: ActivityCancellationType.TRY_CANCEL },
  'fleet.v1.applyCommand',
);

/** Looks into the caches of the leading watcher. */
export const fleetLooks = remote(
  { ...shortWrite, taskQueue: queues.fleet },
  'fleet.v1.lookAtSwap',
  'fleet.v1.next',
  'fleet.v1.nextNodes',
);

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

/** Calls to Temporal itself. An operation does without their results, so they fail soon. */
export const temporal = remote(
  {
    taskQueue: queues.cluster,
    startToCloseTimeout: '10s',
    scheduleToCloseTimeout: '30s',
    retry: { maximumAttempts: 3 },
  },
  'identifySignal',
  'startNextRun',
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
