import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { benchNamespace } from './cluster.ts';
import type { Figure } from './figures.ts';

/** How long the API server takes to create a pod that admission does not see, and one that it does (as a dry run). */
export async function admissionFigures(kube: KubeClient, samples: number): Promise<readonly Figure[]> {
  const { plain, owned } = podCreations(kube);
  return [
    { what: 'pod creation without any webhook', samples: await plain(samples), dropped: 0 },
    { what: 'pod creation through the pod webhook', samples: await owned(samples), dropped: 0 },
  ];
}

/** Creations, as dry runs, of a pod that admission does not see and of one that it does: milliseconds of each. */
export function podCreations(kube: KubeClient) {
  const plain = podBody([]);
  const owned = podBody([
    { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'bench', uid: 'bench', controller: true },
  ]);
  return {
    plain: (samples: number) => creations(kube, plain, samples),
    owned: (samples: number) => creations(kube, owned, samples),
  };
}

function podBody(ownerReferences: readonly object[]): object {
  return {
    metadata: { generateName: 'bench-', namespace: benchNamespace, ownerReferences },
    spec: { containers: [{ name: 'app', image: 'busybox:1.36' }] },
  };
}

async function creations(kube: KubeClient, body: object, samples: number): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = 0; index < samples + 20; index++) {
    const startedAt = performance.now();
    await kube.create(kubeResource.pods, body, { dryRun: true });
    if (index >= 20) times.push(performance.now() - startedAt); // the first ones warm connections and compilers
  }
  return times;
}
