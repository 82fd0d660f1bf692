import { randomUUID } from 'node:crypto';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import {
  type ContainerRecreateRequest,
  type ContainerRecreateRequestSpec,
  type ContainerRecreateRequestStatus,
  crr,
  crrV1alpha1,
  isCompleted,
} from '../../api/container-recreate-request/types.ts';
import { type Condition, findCondition } from '../../api/core/conditions.ts';
import type { ObjectRef } from '../../api/core/refs.ts';
import type { Cluster, SeenEvent } from './cluster.ts';
import type { PlayedPod } from './kubelet-player.ts';
import { type See, type WaitOptions, waitFor } from './wait.ts';
import { waitOnRun } from './wait-on-run.ts';

/** The given fields of a request; the others have a user's defaults: no containers, no strategy. */
export interface RequestOptions extends Partial<Omit<ContainerRecreateRequestSpec, 'containers' | 'podName'>> {
  readonly pod: PlayedPod;
  readonly containers: readonly string[];
  /** Absent: v1beta1. */
  readonly version?: 'v1alpha1' | 'v1beta1';
}

/** A ContainerRecreateRequest in the cluster, and the operation that carries it out. */
export class TestRequest {
  readonly ref: ObjectRef;
  readonly workflowId: string;
  readonly #cluster: Cluster;
  readonly #client: Client;

  constructor(ref: ObjectRef, workflowId: string, cluster: Cluster, client: Client) {
    this.ref = ref;
    this.workflowId = workflowId;
    this.#cluster = cluster;
    this.#client = client;
  }

  /** The workflow of the pod, in any run. */
  get operation(): WorkflowHandle {
    return this.#client.workflow.getHandle(this.workflowId);
  }

  /** Resets the current run to its first task, like `temporal workflow reset`. Returns the ID of that run. */
  async resetToStart(): Promise<string> {
    const { runId } = await this.operation.describe();
    const { events = [] } = await this.operation.fetchHistory();
    const workflowTaskFinishEventId = events?.find((event) => event.workflowTaskCompletedEventAttributes)?.eventId;
    if (!workflowTaskFinishEventId) throw new Error(`run ${runId} has not completed its first task yet`);
    await this.#client.workflowService.resetWorkflowExecution({
      namespace: this.#client.options.namespace,
      workflowExecution: { workflowId: this.workflowId, runId },
      workflowTaskFinishEventId,
      reason: 'by hand',
      requestId: runId,
    });
    return runId;
  }

  /** The current request as v1beta1; undefined when it is gone. */
  async read(): Promise<ContainerRecreateRequest | undefined> {
    const found = await this.#cluster.find<ContainerRecreateRequest>(crr, this.ref);
    return found?.metadata.uid === this.ref.uid ? found : undefined;
  }

  /** Waits until the status fulfils a condition, and returns the whole object. */
  async until(
    what: string,
    holds: (status: ContainerRecreateRequestStatus, request: ContainerRecreateRequest) => boolean,
    options?: WaitOptions,
  ): Promise<ContainerRecreateRequest> {
    const look = async (see: See) => {
      const request = await this.read();
      see(request && { labels: request.metadata.labels, spec: request.spec, status: request.status });
      return request?.status && holds(request.status, request) ? request : undefined;
    };
    return await waitOnRun(this.operation, `request ${this.ref.name} to be ${what}`, look, options);
  }

  /** Waits until the request is completed, and returns its last status. */
  async ended(options?: WaitOptions): Promise<ContainerRecreateRequestStatus> {
    const { status } = await this.until('completed', ({ phase }) => phase === 'Completed', options);
    if (!status) throw new Error('a completed request has a status');
    return status;
  }

  /** Waits until the request says that it waits for this. */
  async waitsFor(reason: string): Promise<ContainerRecreateRequest> {
    return await this.until(`waiting for ${reason}`, ({ waitingFor }) => waitingFor?.reason === reason);
  }

  /** Waits until a container is in this phase. */
  async untilContainer(name: string, phase: string): Promise<ContainerRecreateRequest> {
    return await this.until(`${phase} in container ${name}`, (status) => phaseOf(status, name) === phase);
  }

  /** Waits until the request is gone. */
  async gone(): Promise<void> {
    await waitFor(`request ${this.ref.name} to be gone`, async (see) => see(await this.read()) === undefined);
  }

  /** Deletes it like a person. */
  async delete(): Promise<void> {
    await this.#cluster.kube.delete(crr, this.ref, { preconditions: { uid: this.ref.uid } });
  }

  async events(): Promise<readonly SeenEvent[]> {
    const { namespace, name, uid } = this.ref;
    return await this.#cluster.eventsOf({
      apiVersion: '',
      kind: crr.kind,
      metadata: { namespace, name, uid, resourceVersion: '', creationTimestamp: '' },
    });
  }
}

/** The phase of one container; empty while there is no state. */
export function phaseOf(status: ContainerRecreateRequestStatus | undefined, name: string): string {
  return status?.containerRecreateStates?.find((state) => state.name === name)?.phase ?? '';
}

/** The condition of the request's end. */
export function outcomeOf(status: ContainerRecreateRequestStatus): Condition | undefined {
  return findCondition(status.conditions, 'Complete') ?? findCondition(status.conditions, 'Failed');
}

/** Whether nothing is left to do for it, including releases. */
export function isAtRest(request: ContainerRecreateRequest): boolean {
  return isCompleted(request) && (request.metadata.finalizers ?? []).length === 0;
}

/** Creates a request through the API server, with admission. */
export async function createRequest(
  { cluster, client }: { readonly cluster: Cluster; readonly client: Client },
  { pod, containers, version = 'v1beta1', ...rest }: RequestOptions,
): Promise<TestRequest> {
  const { namespace } = pod.ref;
  const name = `request-${randomUUID().slice(0, 8)}`;
  const spec = { ...rest, podName: pod.ref.name, containers: containers.map((container) => ({ name: container })) };
  const resource = version === 'v1beta1' ? crr : crrV1alpha1;
  const { metadata } = await cluster.kube.create<ContainerRecreateRequest>(resource, {
    metadata: { namespace, name },
    spec,
  });
  return new TestRequest({ namespace, name, uid: metadata.uid }, restartContainersId(pod.ref), cluster, client);
}
