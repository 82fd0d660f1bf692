import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, WorkflowNotFoundError } from '@temporalio/client';
import proto from '@temporalio/proto';
import { restartContainersType } from '../../api/container-recreate-request/operation.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { earlierIdOf, lockOf, operationLock } from '../../api/engine/operation-id.ts';
import { findInstance, type Instance, instanceName } from '../../deploy/local/instance.ts';
import type { Place } from '../../deploy/local/namespaces.ts';
import { readParts } from '../../deploy/local/parts.ts';
import { status } from '../../deploy/local/platform.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { isGone } from '../../kube/failures.ts';
import { textOf } from '../support/history.ts';
import { connectToTemporal } from '../support/temporal-connection.ts';
import { waitFor } from '../support/wait.ts';
import { PodRecord } from './pod-record.ts';
import { RuntimeRecord } from './runtime-record.ts';

/** The cluster into which faults are injected, and the witnesses of what happens in it. */
export interface World {
  readonly instance: Instance;
  /** As the administrator. */
  readonly kube: KubeClient;
  readonly temporal: Client;
  readonly nodes: readonly Place[];
  readonly pods: PodRecord;
  readonly runtime: RuntimeRecord;
  /** Where containers find the folders that tests share with them: the same path on each node. */
  readonly shared: { readonly here: string; readonly inNodes: string };
  /** What a scenario leaves behind when it breaks off. */
  readonly leftovers: Set<{ remove(): Promise<void> }>;
  say(line: string): void;
  /** The object as it is now; undefined when it is gone. */
  find<T extends KubeObject>(resource: Resource, ref: { namespace?: string; name: string }): Promise<T | undefined>;
  /** Where the operation of a pod stands, by the last events of its history. */
  lastEvent(workflowId: string): Promise<string>;
  /** Those of these pods whose operation is open. */
  openOperations(podUids: readonly string[]): Promise<readonly string[]>;
  /** Those of these workflows that are open. */
  openWorkflows(ids: readonly string[]): Promise<readonly string[]>;
  leave(): Promise<void>;
}

/** Enters the instance that WINDLASS_INSTANCE names, which has to be up, and begins to record. */
export async function enterWorld(say: (line: string) => void): Promise<World> {
  const name = instanceName(process.env);
  const instance = findInstance(name);
  const now = status(name);
  if (!instance || !now) throw new Error(`Instance "${name}" is down`);

  const connection = await connectToTemporal(now.temporal);
  const temporal = new Client({ connection });
  const kube = createKubeClient({
    kubeconfig: now.kubeconfig,
    userAgent: 'windlass-chaos',
    qps: 1_000,
    burst: 2_000,
  });
  const nodes = readParts(instance).flatMap(({ name: part, place }) => (part.startsWith('kubelet-') ? [place] : []));
  const pods = new PodRecord(kube);
  const runtime = new RuntimeRecord(instance, nodes);
  await Promise.all([pods.start(), runtime.start()]);

  return {
    instance,
    kube,
    temporal,
    nodes,
    pods,
    runtime,
    shared: { here: join(instance.folder, 'volumes'), inNodes: '/tmp/hostpath_pv' },
    leftovers: new Set(),
    say,

    async find(resource, ref) {
      try {
        return await kube.get(resource, ref);
      } catch (error) {
        if (isGone(error)) return undefined;
        throw error;
      }
    },

    lastEvent: (workflowId) => lastEvent(temporal, workflowId),

    async openOperations(podUids) {
      const locks = new Map(podUids.map((uid) => [operationLock(restartContainersType, uid), uid]));
      const open: string[] = [];
      const query = `WorkflowType = '${restartContainersType}' AND ExecutionStatus = 'Running'`;
      for await (const { workflowId } of temporal.workflow.list({ query, pageSize: 1000 })) {
        const uid = locks.get(lockOf(workflowId));
        if (uid !== undefined) open.push(uid);
      }
      return open;
    },

    async openWorkflows(ids) {
      const open = await Promise.all(
        ids.flatMap(withEarlierId).map(async (id) => {
          const found = await temporal.workflow.getHandle(id).describe().catch(unlessNone);
          return found?.status.name === 'RUNNING' ? [id] : [];
        }),
      );
      return open.flat();
    },

    async leave() {
      await Promise.all([pods.stop(), runtime.stop()]);
      await kube.close();
      await connection.close();
    },
  };
}

/** A run that release 0.1.0 has begun has another ID. */
function withEarlierId(workflowId: string): readonly string[] {
  return [workflowId, earlierIdOf(workflowId) ?? []].flat();
}

/** There was none under this ID. */
function unlessNone(error: unknown): undefined {
  if (!(error instanceof WorkflowNotFoundError)) throw error;
}

const { EventType } = proto.temporal.api.enums.v1;

async function lastEvent(temporal: Client, workflowId: string): Promise<string> {
  try {
    const { history } = await temporal.workflowService.getWorkflowExecutionHistoryReverse({
      namespace: 'default',
      execution: { workflowId },
      maximumPageSize: 30,
    });
    const [last, ...before] = history?.events ?? [];
    if (!last) return 'an empty history';
    const type = EventType[last.eventType ?? 0]?.replace('EVENT_TYPE_', '').toLowerCase();
    const step = [last, ...before].map(({ userMetadata }) => textOf(userMetadata?.summary)).find(Boolean);
    return `${last.eventId} ${type}${step ? `, last step begun "${step}"` : ''}`;
  } catch (error) {
    const earlier = earlierIdOf(workflowId);
    if (earlier !== undefined) return await lastEvent(temporal, earlier);
    return `no history yet (${error instanceof Error ? error.message : String(error)})`;
  }
}

/** Does something until it succeeds: processes are dying here. The last failure stands in the error of the deadline. */
export async function untilDone<Value>(what: string, work: () => Promise<Value>, deadlineMs = 240_000): Promise<Value> {
  const { value } = await waitFor(what, async () => ({ value: await work() }), { deadlineMs });
  return value;
}

/** How long every wait of a campaign lasts at most: machines stall for minutes. */
export const patienceMs = 420_000;

/** Lets so many seconds pass. Faults have a length; nothing else here waits for a time. */
export async function seconds(count: number): Promise<void> {
  await delay(count * 1000);
}

/** Says how long each part took. */
export function laps(): ((name: string) => void) & { told(): string } {
  let lastMs = performance.now();
  const told: string[] = [];
  const lap = (name: string): void => {
    const nowMs = performance.now();
    told.push(`${name} ${Math.round((nowMs - lastMs) / 1000)} s`);
    lastMs = nowMs;
  };
  return Object.assign(lap, { told: () => told.join(', ') });
}
