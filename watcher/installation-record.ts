import { readFile } from 'node:fs/promises';
import type { KubeObject } from '../api/core/meta.ts';
import { installation, kubeResource } from '../api/core/well-known.ts';
import { recordData } from '../api/engine/installation-record.ts';
import { unlessGone } from '../kube/moved-on.ts';
import type { Controller, ControllerContext } from './controller.ts';

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

/**
 * Publishes Temporal's address and the feature gates of this watcher while it leads; again when the record is changed.
 */
export function installationRecord({ kube, config, log, queue }: ControllerContext): Controller {
  const { temporal, featureGates, podNamespace: namespace } = config;
  const ref = { namespace, name: installation.recordConfigMap };

  const passes = queue('installation-record', async () => {
    const data = recordData(
      {
        address: temporal.address,
        namespace: temporal.namespace,
        tls: temporal.tls !== undefined,
        ...(temporal.tls?.serverName !== undefined && { serverName: temporal.tls.serverName }),
        ...(temporal.tls?.caFile !== undefined && { ca: await authority(temporal.tls.caFile) }),
      },
      featureGates,
    );
    const found = await unlessGone(kube.get<ConfigMap>(kubeResource.configMaps, ref));
    if (found === undefined) {
      await kube.create(kubeResource.configMaps, { metadata: { ...ref, labels: recordLabels }, data });
    } else if (!isSame(found.data ?? {}, data)) {
      await kube.patch(kubeResource.configMaps, ref, 'json', [{ op: 'add', path: '/data', value: data }]);
    }
    return undefined;
  });

  async function authority(file: string): Promise<string> {
    return await readFile(file, 'utf8').catch((error: unknown) => {
      log.warn({ err: error, file }, "Cannot publish the authority of Temporal's certificate");
      return '';
    });
  }

  return { wantAll: () => passes.add('record') };
}

const recordLabels = { 'app.kubernetes.io/name': 'windlass' };

function isSame(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}
