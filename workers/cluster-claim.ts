/**
 * Which Kubernetes cluster a Temporal namespace belongs to. Two clusters in one namespace would take each other's tasks and
 * set their worker versions current in turn. The claim is an open run of a workflow that no worker takes: Temporal lets only
 * one run with an ID be open, so the first cluster has it, until somebody terminates it.
 */
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { failureTypeOf } from '../api/core/failure.ts';
import type { KubeObject } from '../api/core/meta.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { KubeClient } from '../kube/client.ts';

/** The ID of the run, and its task queue, which nobody polls. */
export const claimId = 'windlass-cluster-claim';

export interface ClaimMeans {
  readonly client: Pick<Client, 'workflow' | 'options' | 'withDeadline'>;
  readonly kube: Pick<KubeClient, 'get'>;
  readonly log: { readonly warn: (fields: object, message: string) => void };
}

/** A Temporal server that does not answer must not hold up a watcher, which leads without it. */
const deadlineMs = 5_000;

/**
 * Claims the Temporal namespace for this cluster unless another one has it. Resolves with why it must not be used;
 * undefined: it is ours, or this process may not see yet which cluster it is in, as in an upgrade whose new rights are
 * still to be applied. Rejects when Temporal or the API server does not answer.
 */
export async function claimNamespace({ client, kube, log }: ClaimMeans): Promise<string | undefined> {
  const metadata = await clusterOf(kube).catch((error: unknown) => {
    if (failureTypeOf(error) !== 'Denied') throw error;
    log.warn({ err: error }, 'Cannot find out whether the Temporal namespace belongs to another cluster');
    return undefined;
  });
  if (metadata === undefined) return undefined;
  const owner = await client.withDeadline(Date.now() + deadlineMs, async () => {
    return (await ownerOf(client)) ?? (await claim(client, metadata.uid));
  });
  if (owner === metadata.uid) return undefined;
  const { namespace } = client.options;
  return (
    `Temporal namespace "${namespace}" belongs to Kubernetes cluster ${owner}, and this one is ${metadata.uid}: ` +
    'use another namespace (--temporal-namespace), or, if that cluster is gone, ' +
    `temporal workflow terminate --namespace ${namespace} --workflow-id ${claimId}`
  );
}

async function clusterOf(kube: ClaimMeans['kube']): Promise<KubeObject['metadata']> {
  return (await kube.get<KubeObject>(kubeResource.namespaces, { name: 'kube-system' })).metadata;
}

/** The cluster that has the claim: the UID of its namespace kube-system. */
async function ownerOf(client: ClaimMeans['client']): Promise<string | undefined> {
  try {
    const { status, memo } = await client.workflow.getHandle(claimId).describe();
    return status.name === 'RUNNING' ? String(memo?.cluster) : undefined;
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return undefined;
    throw error;
  }
}

async function claim(client: ClaimMeans['client'], cluster: string): Promise<string | undefined> {
  try {
    await client.workflow.start('windlassClusterClaim', {
      ...{ workflowId: claimId, taskQueue: claimId, args: [], memo: { cluster } },
      staticSummary: `this namespace belongs to Kubernetes cluster ${cluster}`,
    });
    return cluster;
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    return await ownerOf(client);
  }
}
