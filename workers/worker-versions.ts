/**
 * The versions of the cluster worker in Temporal: which ones exist, which workers poll, which runs are on them, and the
 * calls that change them. A build ID names workflow code (`workflow-bundle.ts`); only queue `cluster` is versioned.
 */
import { hostname } from 'node:os';
import { type Client, isGrpcServiceError, type WorkflowExecutionInfo } from '@temporalio/client';
import proto from '@temporalio/proto';
import { changedSignal, handOverSignal, queues } from '../api/engine/operations.ts';
import type { Deployment, EngineRun, Poller, WorkerVersions } from '../watcher/engine-versions.ts';
import type { Heartbeat, ListHeartbeats } from '../watcher/heartbeats.ts';

/** The name of the worker deployment of the cluster workers. */
export const deploymentName = 'windlass-cluster';

type VersionsClient = Pick<Client, 'workflow' | 'workflowService' | 'withDeadline'> & {
  readonly options: { readonly namespace: string };
};

const grpcCodes = { notFound: 5, permissionDenied: 7, unimplemented: 12 } as const;
const {
  DescribeTaskQueueMode: { DESCRIBE_TASK_QUEUE_MODE_ENHANCED: enhanced },
  WorkerStatus: { WORKER_STATUS_SHUTTING_DOWN: ending, WORKER_STATUS_SHUTDOWN: ended },
  TaskQueueType: { TASK_QUEUE_TYPE_WORKFLOW: workflowTasks },
  WorkerDeploymentVersionStatus: {
    WORKER_DEPLOYMENT_VERSION_STATUS_INACTIVE: neverCurrent,
    WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED: drained,
  },
} = proto.temporal.api.enums.v1;

/** The deadline of each call, and of each list. */
const deadlineMs = 30_000;

/**
 * A worker counts as polling if its last poll is at most this much older than the latest one: a poll lasts a minute.
 * Servers of earlier releases remember workers that have ended for five minutes.
 */
const pollsWithinMs = 90_000;

/**
 * The identity of watchers that change versions. It can be made the only allowed one (`temporal worker deployment
 * manager-identity set`).
 */
const ownIdentity = 'windlass-watcher';

/** The identity of a worker in lists and histories: role, build, process and host. */
export function workerIdentity(build: string): string {
  return `windlass-worker/${build}/${process.pid}@${hostname()}`;
}

/** The build of a worker with this identity; empty when the identity does not contain it. */
function buildOfIdentity(identity: string): string {
  return /^windlass-worker\/([^/]+)\//.exec(identity)?.[1] ?? '';
}

/** The options of a versioned worker: a run stays on its version until it continues as new. */
export function deploymentOptions(buildId: string) {
  return {
    useWorkerVersioning: true,
    version: { deploymentName, buildId },
    defaultVersioningBehavior: 'PINNED',
  } as const;
}

/** The worker deployment in Temporal. */
export async function describeDeployment(client: VersionsClient): Promise<Deployment> {
  try {
    const { workerDeploymentInfo: found, conflictToken } = await within(client, async () =>
      client.workflowService.describeWorkerDeployment({ namespace: client.options.namespace, deploymentName }),
    );
    const { currentDeploymentVersion: current, currentVersionChangedTime: since } = found?.routingConfig ?? {};
    const manager = found?.managerIdentity ?? '';
    return {
      kind: 'found',
      ...(current?.buildId && { current: { build: current.buildId, sinceMs: millisecondsOf(since) } }),
      ...(manager !== '' && manager !== ownIdentity && { managedBy: manager }),
      conflictToken,
      idle: (found?.versionSummaries ?? []).flatMap(({ status, deploymentVersion }) =>
        status === drained || status === neverCurrent ? (deploymentVersion?.buildId ?? []) : [],
      ),
    };
  } catch (error) {
    if (!isGrpcServiceError(error)) throw error;
    if (error.code === grpcCodes.notFound) return { kind: 'none' };
    // "Worker Deployment Versions are disabled on this namespace." is reported as permission denied
    if (error.code !== grpcCodes.unimplemented && error.code !== grpcCodes.permissionDenied) throw error;
    return { kind: 'unsupported', why: error.details };
  }
}

function millisecondsOf(
  time: { readonly seconds?: unknown; readonly nanos?: number | null } | null | undefined,
): number {
  return Number(time?.seconds ?? 0) * 1000 + Math.floor((time?.nanos ?? 0) / 1e6);
}

/** Who has polled for workflow tasks recently: versioned workers of these builds, and unversioned ones. */
export async function pollersOf(client: VersionsClient, builds: readonly string[]): Promise<readonly Poller[]> {
  const { versionsInfo } = await within(client, async () =>
    client.workflowService.describeTaskQueue({
      namespace: client.options.namespace,
      taskQueue: { name: queues.cluster },
      apiMode: enhanced,
      taskQueueTypes: [workflowTasks],
      versions: { buildIds: builds.map(versionName), unversioned: true },
      reportPollers: true,
    }),
  );
  const polls = Object.entries(versionsInfo).flatMap(([version, { typesInfo }]) =>
    (typesInfo?.[workflowTasks]?.pollers ?? []).map(({ identity, lastAccessTime }) => ({
      build: version === '' ? buildOfIdentity(identity ?? '') : buildOfVersion(version),
      isVersioned: version !== '',
      atMs: millisecondsOf(lastAccessTime),
    })),
  );
  const latest = Math.max(...polls.map(({ atMs }) => atMs));
  return polls.filter(({ atMs }) => latest - atMs <= pollsWithinMs);
}

/** How long a server that keeps no heartbeats is not asked again, and the deadline of a list. */
const withoutHeartbeatsMs = 600_000;
const heartbeatsDeadlineMs = 5_000;

/** The heartbeats of workers; none for a while where the server says that it keeps none. */
export function listHeartbeats(client: VersionsClient, nowMs: () => number = () => performance.now()): ListHeartbeats {
  const { namespace } = client.options;
  let [isKept, askedAtMs] = [false, Number.NEGATIVE_INFINITY];
  const call = async <T>(request: () => Promise<T>) => client.withDeadline(Date.now() + heartbeatsDeadlineMs, request);
  return async (queues) => {
    if (!isKept && nowMs() - askedAtMs > withoutHeartbeatsMs) {
      const { namespaceInfo } = await call(async () => client.workflowService.describeNamespace({ namespace }));
      isKept = namespaceInfo?.capabilities?.workerHeartbeats ?? false;
      askedAtMs = nowMs();
    }
    if (!isKept) return undefined;
    try {
      const query = queues.map((queue) => `TaskQueue = '${queue}'`).join(' OR ');
      const request = { namespace, query, pageSize: mostHeartbeats };
      const { workersInfo } = await call(async () => client.workflowService.listWorkers(request));
      return workersInfo.flatMap(({ workerHeartbeat }) => heartbeatOf(workerHeartbeat));
    } catch (error) {
      if (!isGrpcServiceError(error)) throw error;
      if (error.code !== grpcCodes.unimplemented && error.code !== grpcCodes.permissionDenied) throw error;
      isKept = false;
      return undefined;
    }
  };
}

/** Far more than live on the queues of one look, and than have died on them within the last minutes. */
const mostHeartbeats = 1_000;

function heartbeatOf(beat: proto.temporal.api.worker.v1.IWorkerHeartbeat | null | undefined): readonly Heartbeat[] {
  if (!beat || beat.status === ending || beat.status === ended) return [];
  const isVersioned = (beat.deploymentVersion?.deploymentName ?? '') !== '';
  const build = isVersioned ? beat.deploymentVersion?.buildId : buildOfIdentity(beat.workerIdentity ?? '');
  return [
    {
      queue: beat.taskQueue ?? '',
      ...{ worker: beat.workerInstanceKey ?? '', build: build ?? '', isVersioned },
      atMs: millisecondsOf(beat.heartbeatTime),
      periodMs: millisecondsOf(beat.elapsedSinceLastHeartbeat),
    },
  ];
}

/** The state of a version. */
export interface VersionState {
  readonly isCurrent: boolean;
  /** Whether a worker of it has polled recently. */
  readonly isPolled: boolean;
  /** Open runs that are pinned to it. At 0 its workers may be removed, unless it is current. */
  readonly runs: number;
}

/** The state of the version of this build; undefined where the server does not version workers. */
export async function versionState(client: VersionsClient, build: string): Promise<VersionState | undefined> {
  const deployment = await describeDeployment(client);
  if (deployment.kind === 'unsupported') return undefined;
  const current = deployment.kind === 'found' ? deployment.current?.build : undefined;
  const query = `TemporalWorkerDeploymentVersion = '${versionName(build)}' AND ${isPinned} AND ${isRunning}`;
  const [pollers, { count }] = await Promise.all([
    pollersOf(client, current === undefined ? [build] : [build, current]),
    within(client, async () => client.workflow.count(query)),
  ]);
  return {
    isCurrent: current === build,
    isPolled: pollers.some((poller) => poller.isVersioned && poller.build === build),
    runs: count,
  };
}

/** The versions of the cluster worker, for the leading watcher. */
export function workerVersions(client: VersionsClient): WorkerVersions {
  const { namespace } = client.options;
  return {
    describe: async () => describeDeployment(client),
    pollers: async (builds) => pollersOf(client, builds),
    async runsPinnedElsewhere(build, types) {
      const deployment = `TemporalWorkerDeployment = '${deploymentName}'`;
      const elsewhere = `TemporalWorkerDeploymentVersion != '${versionName(build)}'`;
      return await list(
        client,
        `${deployment} AND ${elsewhere} AND ${isPinned} AND ${isOneOf(types)} AND ${isRunning}`,
      );
    },
    runs: async (types) => list(client, `${isOneOf(types)} AND ${isRunning}`),
    async setCurrent(buildId, conflictToken) {
      const request = { namespace, deploymentName, buildId, conflictToken, identity: ownIdentity };
      await within(client, async () => client.workflowService.setWorkerDeploymentCurrentVersion(request));
    },
    async remove(buildId) {
      const deploymentVersion = { deploymentName, buildId };
      const request = { namespace, deploymentVersion, identity: ownIdentity };
      await within(client, async () => client.workflowService.deleteWorkerDeploymentVersion(request));
    },
    async wake({ workflowId, runId }) {
      const handle = client.workflow.getHandle(workflowId, runId);
      await unlessEnded(client, async () => {
        await handle.signal(handOverSignal);
        await handle.signal(changedSignal, null); // wakes a workflow that waits
      });
    },
    async terminate({ workflowId, runId }, reason) {
      await unlessEnded(client, async () => client.workflow.getHandle(workflowId, runId).terminate(reason));
    },
  };
}

const isPinned = "TemporalWorkflowVersioningBehavior = 'Pinned'";
const isRunning = "ExecutionStatus = 'Running'";

function isOneOf(types: readonly string[]): string {
  return `WorkflowType IN (${types.map((type) => `'${type}'`).join(', ')})`;
}

/** The name of a version in Temporal's format. */
function versionName(build: string): string {
  return `${deploymentName}:${build}`;
}

function buildOfVersion(version: string): string {
  return version.slice(version.indexOf(':') + 1);
}

async function list(client: VersionsClient, query: string): Promise<readonly EngineRun[]> {
  const found: EngineRun[] = [];
  await within(client, async () => {
    for await (const run of client.workflow.list({ query, pageSize: 1000 })) found.push(engineRun(run));
  });
  return found;
}

function engineRun(run: WorkflowExecutionInfo): EngineRun {
  const { workflowId, runId, type: workflowType, startTime, memo, searchAttributes } = run;
  const text = (value: unknown) => (typeof value === 'string' ? value : '');
  const behavior = text(searchAttributes.TemporalWorkflowVersioningBehavior?.[0]);
  const version = text(searchAttributes.TemporalWorkerDeploymentVersion?.[0]);
  const build = behavior === 'Pinned' ? buildOfVersion(version) : text(memo?.build);
  return { workflowId, runId, workflowType, startedAtMs: startTime.getTime(), behavior, build };
}

async function unlessEnded(client: VersionsClient, call: () => Promise<unknown>): Promise<void> {
  try {
    await within(client, call);
  } catch (error) {
    if (!(error instanceof Error && error.name === 'WorkflowNotFoundError')) throw error;
  }
}

async function within<T>(client: VersionsClient, call: () => Promise<T>): Promise<T> {
  return await client.withDeadline(Date.now() + deadlineMs, call);
}
