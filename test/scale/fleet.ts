import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isGone } from '../../kube/failures.ts';
import type { StepName } from './judge.ts';

export const scaleNamespace = 'scale';

/** A workload of many pods that is taken through its steps. */
export interface Fleet {
  /** Does the step and waits for its end. Answers seconds; throws with what the set waits for when it takes too long. */
  run(step: StepName): Promise<number>;
  /** Events in the histories of the roll-out, all its runs together. */
  historyEvents(): Promise<number>;
  /** Removes the set and waits until no pod is left. */
  remove(): Promise<void>;
}

const patienceMs = 300_000;

/** The name of the CloneSet, and the label `app` of its pods. */
export function fleetName(pods: number): string {
  return `fleet-${pods}`;
}

/** Events in the histories of all runs of a workflow. */
export async function eventsOf(client: Client, workflowId: string): Promise<number> {
  let events = 0;
  for await (const run of client.workflow.list({ query: `WorkflowId = "${workflowId}"` })) {
    events += (await client.workflow.getHandle(run.workflowId, run.runId).describe()).historyLength;
  }
  return events;
}

type WithStatus = KubeObject & {
  readonly status?: Readonly<Record<string, unknown>> & { observedGeneration?: number };
};

/** Waits until this holds of the object. However slow the machine: it is given up only when no count has moved for long. */
export async function untilStatus<Kind extends WithStatus>(
  get: () => Promise<Kind>,
  step: string,
  holds: (object: Kind) => boolean,
): Promise<void> {
  let [counts, movedAt] = ['', performance.now()];
  for (;;) {
    const object = await get();
    const { metadata, status } = object;
    if (status?.observedGeneration === metadata.generation && holds(object)) return;
    const { waitingFor: _, conditions: __, ...now } = status ?? {};
    if (JSON.stringify(now) !== counts) [counts, movedAt] = [JSON.stringify(now), performance.now()];
    if (performance.now() - movedAt > patienceMs) {
      const seconds = patienceMs / 1000;
      throw new Error(`${metadata.name}: ${step} has not moved for ${seconds} s: ${JSON.stringify(status)}`);
    }
    await delay(100);
  }
}

/** How many pods a fleet has. */
export async function countPods(kube: KubeClient, name: string): Promise<number> {
  const { items, remainingItemCount = 0 } = await kube.list(kubeResource.pods, {
    namespace: scaleNamespace,
    labelSelector: `app=${name}`,
    limit: 1,
    resourceVersion: '0',
  });
  return items.length + remainingItemCount;
}

/** Removes a fleet and waits until no pod is left. */
export async function removeFleet(kube: KubeClient, resource: Resource, name: string): Promise<void> {
  try {
    await kube.delete(resource, { namespace: scaleNamespace, name }, { propagationPolicy: 'Background' });
  } catch (error) {
    if (!isGone(error)) throw error;
  }
  while ((await countPods(kube, name)) > 0) await delay(500);
}

/** A JSON patch: nothing but the image, so that the pods can stay, and the pace. */
export function imageChange(image: number, maxUnavailable: string): readonly object[] {
  return [
    { op: 'replace', path: '/spec/template/spec/containers/0/image', value: `app:${image}` },
    { op: 'add', path: '/spec/updateStrategy/rollingUpdate/maxUnavailable', value: maxUnavailable },
  ];
}

/** The template of every fleet, with more of the spec of its pods. */
export function templateOf(labels: Readonly<Record<string, string>>, more: object = {}): object {
  return {
    metadata: { labels },
    spec: {
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 1,
      containers: [{ name: 'app', image: 'app:1', resources: { requests: { cpu: '10m', memory: '16Mi' } } }],
      ...more,
    },
  };
}

/** A set of so many pods, which is not there yet. */
export function fleetOf(pods: number, { kube, client }: { readonly kube: KubeClient; readonly client: Client }): Fleet {
  const name = fleetName(pods);
  const ref = { namespace: scaleNamespace, name };
  let image = 1;

  const until = (step: string, holds: (set: CloneSet) => boolean) =>
    untilStatus(() => kube.get<CloneSet>(cloneSets, ref), step, holds);

  async function update(maxUnavailable: string): Promise<void> {
    image += 1;
    await kube.patch(cloneSets, ref, 'json', imageChange(image, maxUnavailable));
  }

  const updated = ({ status }: CloneSet) =>
    status?.updatedReplicas === pods && status.updatedAvailableReplicas === pods;

  return {
    async run(step) {
      const startedAt = performance.now();
      switch (step) {
        case 'create':
          await kube.create(cloneSets, setOf(name, pods));
          await until(step, ({ status }) => status?.availableReplicas === pods);
          break;
        case 'update, 100 % at once':
          await update('100%');
          await until(step, updated);
          break;
        case 'update, 10 % at once':
          await update('10%');
          await until(step, updated);
          break;
        case 'scale to zero':
          await kube.patch(cloneSets, ref, 'merge', { spec: { replicas: 0 } });
          await until(step, ({ status }) => status?.replicas === 0);
          while ((await countPods(kube, name)) > 0) await delay(100);
          break;
      }
      return (performance.now() - startedAt) / 1000;
    },

    async historyEvents() {
      const { metadata } = await kube.get<CloneSet>(cloneSets, ref);
      return await eventsOf(client, rollOutId(metadata));
    },

    remove: () => removeFleet(kube, cloneSets, name),
  };
}

function setOf(name: string, replicas: number): object {
  const labels = { app: name };
  return {
    metadata: { name, namespace: scaleNamespace },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible' } },
      template: templateOf(labels),
    },
  };
}
