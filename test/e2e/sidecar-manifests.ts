// Manifests of SidecarSets. Each selects the pods of one namespace alone: pods of other tests may have its labels.
import type { JsonObject } from '../../api/base/json.ts';
import { sample } from './local-cluster.ts';

/** A sample of a SidecarSet, for the pods of one namespace. */
export async function sampleFor(namespace: string, file = 'sidecar-set.yaml'): Promise<string> {
  const only = `  namespaceSelector:\n    matchLabels:\n      kubernetes.io/metadata.name: ${namespace}\n`;
  return (await sample(file)).replace('spec:\n', `spec:\n${only}`);
}

/** A SidecarSet `mesh` for the pods of `hotPod` in one namespace. `container` is its hot-upgrade sidecar. */
export function hotSidecarSet(
  namespace: string,
  {
    maxUnavailable,
    emptyImage,
    container,
    volumes = [],
  }: {
    readonly maxUnavailable: number;
    readonly emptyImage: string;
    readonly container: JsonObject;
    readonly volumes?: readonly JsonObject[];
  },
): string {
  return JSON.stringify({
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'SidecarSet',
    metadata: { name: 'mesh' },
    spec: {
      selector: { matchLabels: { app: 'hot' } },
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
      updateStrategy: { type: 'RollingUpdate', maxUnavailable },
      ...(volumes.length > 0 && { volumes }),
      containers: [
        {
          name: 'mesh',
          ...container,
          upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: emptyImage },
        },
      ],
    },
  });
}

/** A pod that it selects, with a container of its own that ends at once on TERM. */
export function hotPod(
  name: string,
  { graceSeconds, sharedAt }: { readonly graceSeconds: number; readonly sharedAt?: string },
): string {
  const command = ['sh', '-c', 'trap "exit 0" TERM; sleep 99999 & wait'];
  const app = { name: 'app', image: 'busybox:1.36', command };
  const shares = sharedAt !== undefined;
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { app: 'hot' } },
    spec: {
      terminationGracePeriodSeconds: graceSeconds,
      automountServiceAccountToken: false,
      ...(shares && { volumes: [{ name: 'shared', emptyDir: {} }] }),
      containers: [{ ...app, ...(shares && { volumeMounts: [{ name: 'shared', mountPath: sharedAt }] }) }],
    },
  });
}
