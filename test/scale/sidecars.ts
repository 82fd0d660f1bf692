import { setTimeout as delay } from 'node:timers/promises';
import { failureTypeOf } from '../../api/core/failure.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { isGone } from '../../kube/failures.ts';
import { eventsOf, type Fleet, fleetName, fleetOf, scaleNamespace, untilStatus } from './fleet.ts';
import type { ScaleMeans } from './run.ts';

type UpgradeType = 'ColdUpgrade' | 'HotUpgrade';

/** Pods of a CloneSet with one sidecar, which is updated. */
export function sidecarsOf(upgradeType: UpgradeType): (pods: number, means: ScaleMeans) => Fleet {
  return (pods, { kube, client }) => {
    const owner = fleetOf(pods, { kube, client });
    const ref = { name: `sidecar-${fleetName(pods)}` };
    const get = () => kube.get<SidecarSet>(sidecarSets, ref);

    const until = (step: string, holds: (set: SidecarSet) => boolean) => untilStatus(get, step, holds);

    /** Whether the webhook knows the SidecarSet by now. */
    async function isInjected(): Promise<boolean> {
      const pod = {
        metadata: { generateName: 'try-', namespace: scaleNamespace, labels: { app: fleetName(pods) } },
        spec: { automountServiceAccountToken: false, containers: [{ name: 'app', image: 'app:1' }] },
      };
      try {
        return (await kube.create<Pod>(kubeResource.pods, pod, { dryRun: true })).spec.containers.length > 1;
      } catch (error) {
        if (failureTypeOf(error) === 'Denied') return false; // by the policy that refuses pods without their sidecars
        throw error;
      }
    }

    return {
      async run(step) {
        const startedAt = performance.now();
        if (step.startsWith('create')) {
          await kube.create(sidecarSets, setOf(ref.name, pods, { image: 'mesh:1', upgradeType }));
          await until(step, ({ status }) => status?.latestRevision !== undefined);
          while (!(await isInjected())) await delay(100);
          await owner.run('create');
          await until(step, ({ status }) => status?.updatedReadyPods === pods);
        } else {
          const spec = { containers: [sidecar({ image: 'mesh:2', upgradeType })] };
          await kube.patch(sidecarSets, ref, 'merge', { spec });
          await until(step, ({ status }) => status?.updatedReadyPods === pods);
        }
        return (performance.now() - startedAt) / 1000;
      },

      async historyEvents() {
        return await eventsOf(client, rollOutId((await get()).metadata));
      },

      async remove() {
        await owner.remove();
        try {
          await kube.delete(sidecarSets, ref);
        } catch (error) {
          if (!isGone(error)) throw error;
        }
      },
    };
  };
}

function setOf(name: string, pods: number, of: { readonly image: string; readonly upgradeType: UpgradeType }): object {
  return {
    metadata: { name },
    spec: {
      selector: { matchLabels: { app: fleetName(pods) } },
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': scaleNamespace } },
      updateStrategy: { type: 'RollingUpdate', maxUnavailable: '10%' },
      containers: [sidecar(of)],
    },
  };
}

function sidecar({ image, upgradeType }: { readonly image: string; readonly upgradeType: UpgradeType }) {
  const hotUpgradeEmptyImage = 'mesh:empty';
  return {
    ...{ name: 'mesh', image },
    upgradeStrategy: { upgradeType, ...(upgradeType === 'HotUpgrade' && { hotUpgradeEmptyImage }) },
  };
}
