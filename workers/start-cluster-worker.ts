import type { Client } from '@temporalio/client';
import type { RoleProcess, StartedPart } from '../process/role-process.ts';
import {
  registerSearchAttributes,
  type TemporalDependencies,
  temporalClient,
  untilConnected,
  workerConnection,
} from '../process/temporal.ts';
import { claimNamespace } from './cluster-claim.ts';
import { createClusterWorker } from './cluster-worker.ts';
import { describeDeployment } from './worker-versions.ts';

/** Starts the cluster worker in this process. Returns at once; it polls as soon as Temporal can be reached. */
export async function startClusterWorker({ config, log, metrics, shutdown, kube }: RoleProcess): Promise<StartedPart> {
  const temporal = { config: config.temporal, log, signal: shutdown.signal };
  const client = await temporalClient({ config: config.temporal, log, metrics });
  let polling: () => boolean = () => false;

  const started = (async () => {
    const connection = await workerConnection(temporal);
    await registerSearchAttributes({ ...temporal, client });
    await untilConnected(temporal, 'Cannot use this Temporal namespace', async () => {
      const foreign = await claimNamespace({ client, kube, log });
      if (foreign !== undefined) throw new Error(foreign);
    });
    const worker = await createClusterWorker({
      connection,
      client,
      kube,
      namespace: config.temporal.namespace,
      log,
      metrics,
      isVersioned: await areWorkersVersioned(client, temporal),
    });
    const running = worker.run();
    polling = () => worker.getState() === 'RUNNING';
    log.info({ queue: worker.options.taskQueue, identity: worker.options.identity }, 'Polling');
    running.catch((error: unknown) => {
      log.fatal({ err: error }, 'The worker has failed');
      return shutdown.begin('the worker has failed', 1);
    });
    return async () => {
      if (worker.getState() === 'RUNNING') worker.shutdown();
      await running;
      await connection.close();
    };
  })();
  started.catch((error: unknown) => {
    if (shutdown.signal.aborted) return;
    log.fatal({ err: error }, 'The worker cannot start');
    return shutdown.begin('the worker cannot start', 1);
  });

  shutdown.add({
    name: 'worker',
    stop: async () => {
      const stop = await started.catch(() => undefined);
      await stop?.();
      await client.connection.close();
    },
  });
  return {
    readiness: {
      temporal: () => {
        if (!polling()) throw new Error('no worker polls Temporal yet');
      },
    },
  };
}

/** A versioned worker would get no task from a server without versioning, so the server is asked first. */
async function areWorkersVersioned(client: Client, temporal: TemporalDependencies): Promise<boolean> {
  const attempted = 'Cannot find out whether Temporal versions workers';
  const deployment = await untilConnected(temporal, attempted, async () => describeDeployment(client));
  if (deployment.kind !== 'unsupported') {
    temporal.log.info('Temporal versions workers: operations stay on the version of the worker that began them');
    return true;
  }
  temporal.log.info(`Temporal does not version workers, so this one has no version: ${deployment.why}`);
  return false;
}
