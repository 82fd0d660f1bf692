import { setTimeout as delay } from 'node:timers/promises';
import { kubeResource } from '../../api/core/well-known.ts';
import { type DaemonSet, daemonSets } from '../../api/daemon-set/types.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { playedNode, playedNumberLabel } from '../../deploy/local/kwok.ts';
import {
  countPods,
  eventsOf,
  type Fleet,
  fleetName,
  imageChange,
  removeFleet,
  scaleNamespace,
  templateOf,
  untilStatus,
} from './fleet.ts';
import type { ScaleMeans } from './run.ts';

/** How many nodes are written at once. */
const writtenAtOnce = 16;

/** A DaemonSet on the first so many of the nodes, which is not there yet. */
export function daemonSetOf(nodes: number, { kube, client }: ScaleMeans): Fleet {
  const name = fleetName(nodes);
  const ref = { namespace: scaleNamespace, name };
  let changes = 1;

  const until = (step: string, holds: (set: DaemonSet) => boolean) =>
    untilStatus(() => kube.get<DaemonSet>(daemonSets, ref), step, holds);

  async function update(maxUnavailable: string): Promise<void> {
    changes += 1;
    await kube.patch(daemonSets, ref, 'json', imageChange(changes, maxUnavailable));
  }

  /** Gives every node an annotation, which nobody looks at, and the watcher time to see the last of them. */
  async function annotateNodes(): Promise<void> {
    changes += 1;
    const metadata = { annotations: { 'scale.example/change': String(changes) } };
    const names = Array.from({ length: nodes }, (_, at) => playedNode(at + 1));
    for (let at = 0; at < nodes; at += writtenAtOnce) {
      const some = names.slice(at, at + writtenAtOnce);
      await Promise.all(some.map((node) => kube.patch(kubeResource.nodes, { name: node }, 'merge', { metadata })));
    }
    await delay(1_000);
  }

  const available = ({ status }: DaemonSet) =>
    status?.desiredNumberScheduled === nodes && status.numberAvailable === nodes;
  const updated = (set: DaemonSet) => available(set) && set.status?.updatedNumberScheduled === nodes;

  return {
    async run(step) {
      const startedAt = performance.now();
      switch (step) {
        case 'create on every node':
          await kube.create(daemonSets, setOf(name, nodes) as never);
          await until(step, available);
          break;
        case 'update, 100 % at once':
          await update('100%');
          await until(step, updated);
          break;
        case 'update, 10 % at once':
          await update('10%');
          await until(step, updated);
          break;
        case 'annotation on every node':
          await annotateNodes();
          break;
        case 'no node fits any more': {
          const spec = { template: { spec: { nodeSelector: { none: 'fits' } } } };
          await kube.patch(daemonSets, ref, 'merge', { spec });
          await until(step, ({ status }) => status?.desiredNumberScheduled === 0);
          while ((await countPods(kube, name)) > 0) await delay(100);
          break;
        }
        default:
          throw new Error(`A DaemonSet has no step "${step}"`);
      }
      return (performance.now() - startedAt) / 1000;
    },

    async historyEvents() {
      const { metadata } = await kube.get<DaemonSet>(daemonSets, ref);
      return await eventsOf(client, rollOutId(metadata));
    },

    remove: () => removeFleet(kube, daemonSets, name),
  };
}

function setOf(name: string, nodes: number): object {
  const labels = { app: name };
  const first = { key: playedNumberLabel, operator: 'Lt', values: [String(nodes + 1)] };
  const nodeAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [first] }] },
  };
  return {
    metadata: { name, namespace: scaleNamespace },
    spec: {
      selector: { matchLabels: labels },
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { rollingUpdateType: 'InPlaceIfPossible' } },
      template: templateOf(labels, { affinity: { nodeAffinity } }),
    },
  };
}
