import { readFile } from 'node:fs/promises';
import type { Client } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import { drainActivities } from '../activities/kube/drain.ts';
import { environmentActivities } from '../activities/kube/environment.ts';
import { nodeImageActivities } from '../activities/kube/node-images.ts';
import { operatorEventActivities } from '../activities/kube/operator-events.ts';
import { pullJobActivities } from '../activities/kube/pull-jobs.ts';
import { requestActivities } from '../activities/kube/requests.ts';
import { sidecarActivities } from '../activities/kube/sidecars.ts';
import { nextRunActivities } from '../activities/temporal/next-run.ts';
import { signalActivities } from '../activities/temporal/signals.ts';
import { queues } from '../api/engine/operations.ts';
import type { KubeClient } from '../kube/client.ts';
import { joinActivities } from '../process/activity-groups.ts';
import { observeActivities } from '../process/activity-interceptor.ts';
import type { Logger } from '../process/log.ts';
import type { Metrics } from '../process/metrics.ts';
import { dataConverterFor } from '../process/payload-limit.ts';
import { deploymentOptions, workerIdentity } from './worker-versions.ts';
import { buildIdOf, workflowBundle } from './workflow-bundle.ts';

export interface ClusterWorkerDependencies {
  readonly connection: NativeConnection;
  readonly client: Client;
  readonly kube: KubeClient;
  readonly namespace: string;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Whether the server keeps each run on the worker version that started it. */
  readonly isVersioned: boolean;
  /** The file with the workflow bundle; absent: that of this release. */
  readonly workflows?: string;
}

/** The worker of queue `cluster`: all workflows, and activities that read and write one object. It is stateless. */
export async function createClusterWorker(dependencies: ClusterWorkerDependencies): Promise<Worker> {
  const { connection, client, kube, namespace, log, metrics, isVersioned } = dependencies;
  const codePath = dependencies.workflows ?? (await workflowBundle());
  const build = buildIdOf(await readFile(codePath, 'utf8'));
  return await Worker.create({
    connection,
    namespace,
    taskQueue: queues.cluster,
    dataConverter: dataConverterFor({ log, metrics }),
    identity: workerIdentity(build),
    ...(isVersioned && { workerDeploymentOptions: deploymentOptions(build) }),
    workflowBundle: { codePath },
    activities: clusterActivities({ client, kube, log, now: () => new Date() }),
    interceptors: { activity: [observeActivities({ log, metrics })] },
    workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: 4 },
    activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 4 },
    // a waiting workflow needs no cache entry: it is replayed from its short history when a signal arrives
    maxCachedWorkflows: 200,
    maxConcurrentWorkflowTaskExecutions: 200,
    maxConcurrentActivityTaskExecutions: 200,
    shutdownGraceTime: '5s',
    shutdownForceTime: '8s',
  });
}

/** The activities of queue `cluster`, by registered name. */
export function clusterActivities({
  client,
  kube,
  log,
  now,
}: Pick<ClusterWorkerDependencies, 'client' | 'kube' | 'log'> & { readonly now: () => Date }) {
  return joinActivities({
    requests: requestActivities({ kube, now }),
    drain: drainActivities({ kube, now }),
    environment: environmentActivities({ kube }),
    operatorEvents: operatorEventActivities({ kube, now }),
    sidecars: sidecarActivities({ kube, now }),
    nodeImages: nodeImageActivities({ kube, now }),
    pullJobs: pullJobActivities({ kube, now }),
    signals: signalActivities({ client }),
    nextRuns: nextRunActivities({
      client,
      onError: (workflowId, err) =>
        log.warn({ workflowId, err }, 'Cannot start the next run; the watcher starts it within a minute'),
    }),
  });
}
