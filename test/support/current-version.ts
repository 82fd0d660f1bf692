/** Sets the current version of the cluster worker, as a leading watcher does. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { deploymentName, describeDeployment, pollersOf, workerVersions } from '../../workers/worker-versions.ts';
import { waitFor } from './wait.ts';

/** Sends new operations to workers of this build, once one polls. Without versioning there is nothing to do. */
export async function makeCurrent(client: Client, build: string): Promise<void> {
  await waitFor(`workers of build ${build} to be current`, async () => {
    const deployment = await describeDeployment(client);
    if (deployment.kind === 'unsupported') return true;
    if (deployment.kind === 'none') return false;
    if (deployment.current?.build === build) return true;
    const pollers = await pollersOf(client, [build]);
    if (!pollers.some((poller) => poller.isVersioned && poller.build === build)) return false;
    // a watcher may have been faster
    await workerVersions(client)
      .setCurrent(build, deployment.conflictToken)
      .catch(() => undefined);
    return false;
  });
}

/** Sends new operations to workers without a version. */
export async function makeUnversionedCurrent(client: Client): Promise<void> {
  const deployment = await describeDeployment(client);
  if (deployment.kind === 'found' && deployment.current) await unsetCurrent(client);
}

/**
 * Whether workers of these bundles are versioned; those of early releases are not, and need that no version is current.
 */
export function areVersioned(bundles: string): boolean {
  return globSync('*.js', { cwd: bundles }).some((file) =>
    readFileSync(join(bundles, file), 'utf8').includes(deploymentName),
  );
}

async function unsetCurrent(client: Client): Promise<void> {
  await client.workflowService.setWorkerDeploymentCurrentVersion({
    namespace: client.options.namespace,
    deploymentName,
    buildId: '',
    ignoreMissingTaskQueues: true,
  });
}
