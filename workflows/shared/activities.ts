import { ActivityCancellationType, proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { NodeActivities } from '../../activities/cri/contract.ts';
import type { PullActivities } from '../../activities/cri/pull-contract.ts';
import type { FleetActivities } from '../../activities/fleet/contract.ts';
import type { DrainActivities } from '../../activities/kube/drain.ts';
import type { EnvironmentActivities } from '../../activities/kube/environment.ts';
import type { NodeImageActivities } from '../../activities/kube/node-images.ts';
import type { OperatorEventActivities } from '../../activities/kube/operator-events.ts';
import type { PullJobActivities } from '../../activities/kube/pull-jobs.ts';
import type { RequestActivities } from '../../activities/kube/requests.ts';
import type { SidecarActivities } from '../../activities/kube/sidecars.ts';
import type { SignalActivities } from '../../activities/temporal/signals.ts';
import { queues } from '../../api/operations.ts';

/** An outage is waited out, however long it lasts: operations end by their own deadline or by a person, never by retries. */
export const untilItWorks = { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' } as const;

/** Look-ups at the API server: run inside the worker that runs the workflow, so they cost no hop. */
export const look = proxyLocalActivities<
  Pick<RequestActivities, 'lookAtRequest'> &
    Pick<SidecarActivities, 'lookAtSidecars'> &
    Pick<NodeImageActivities, 'lookAtNodeImage'> &
    Pick<PullJobActivities, 'lookAtPullJob'> &
    EnvironmentActivities
>({
  startToCloseTimeout: '45s',
  localRetryThreshold: '10s',
  retry: untilItWorks,
});

/** Short writes to the API server. */
export const kube = proxyActivities<
  Omit<RequestActivities, 'lookAtRequest'> &
    DrainActivities &
    OperatorEventActivities &
    Omit<SidecarActivities, 'lookAtSidecars'>
>({
  taskQueue: queues.cluster,
  startToCloseTimeout: '45s',
  retry: untilItWorks,
});

/**
 * How long a permit outlives the last heartbeat that Temporal has confirmed: as long a dead watcher goes unnoticed, and
 * as long something new may be disrupted after Temporal went away. One that waits costs less, and has nothing to disrupt.
 */
export const permitLife = { working: '10s', waiting: '30s' } as const;

/** The leading watcher. A permit that is given up is taken back at once, and the next one replaces it there. */
export const fleet = proxyActivities<Pick<FleetActivities, 'advance'>>({
  taskQueue: queues.fleet,
  startToCloseTimeout: '24h',
  heartbeatTimeout: permitLife.working,
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '2s' },
  cancellationType: ActivityCancellationType.TRY_CANCEL,
});

/** Short writes of the leading watcher. */
export const fleetWrites = proxyActivities<Pick<FleetActivities, 'recordOrders'>>({
  taskQueue: queues.fleet,
  startToCloseTimeout: '45s',
  retry: untilItWorks,
});

/** Short writes about images. */
export const images = proxyActivities<
  Omit<NodeImageActivities, 'lookAtNodeImage'> & Omit<PullJobActivities, 'lookAtPullJob'>
>({
  taskQueue: queues.cluster,
  startToCloseTimeout: '45s',
  retry: untilItWorks,
});

/**
 * The daemon of one node, for pulls. What it does not begin within `silenceMs` is a silent node; what it cannot begin for
 * want of a runtime comes back after so many attempts, to be told.
 */
export function pullOnNode(nodeUid: string, silenceMs: number, attempts: number) {
  return proxyActivities<PullActivities>({
    taskQueue: queues.node(nodeUid),
    scheduleToStartTimeout: silenceMs,
    startToCloseTimeout: '24h',
    // a Temporal that changes its server is away for some seconds, which must not cost each pull an attempt
    heartbeatTimeout: '60s',
    retry: { ...untilItWorks, maximumAttempts: attempts },
    cancellationType: ActivityCancellationType.TRY_CANCEL,
  });
}

/** Questions to Temporal itself. They only serve messages, so they give up soon. */
export const temporal = proxyActivities<SignalActivities>({
  taskQueue: queues.cluster,
  startToCloseTimeout: '10s',
  scheduleToCloseTimeout: '30s',
  retry: { maximumAttempts: 3 },
});

/** How long a node may leave a step lying before its silence is noticed (CRR-12). */
export const nodeSilenceMs = 60_000;

/**
 * The first look on a node waits in slices. One that ends late proves nothing, because Temporal or we were away, so
 * only those that end on time are added up to the silence that a request ends with.
 */
export const silenceSlice = { ms: nodeSilenceMs / 3, lateMs: 5_000 } as const;

/** The daemon of one node. Only that daemon listens on the queue, so the time to start is what notices a dead node. */
export function onNode(nodeUid: string) {
  return proxyActivities<NodeActivities>({
    taskQueue: queues.node(nodeUid),
    scheduleToStartTimeout: nodeSilenceMs,
    startToCloseTimeout: '24h',
    heartbeatTimeout: '30s',
    retry: untilItWorks,
    // a stop that has begun is never cancelled; what a cancelled step still reports is of no interest
    cancellationType: ActivityCancellationType.TRY_CANCEL,
  });
}
