import { statfs } from 'node:fs/promises';
import { imageActivities } from '../activities/cri/images.ts';
import type { ImageActivityMeans, NodeCredentials } from '../activities/cri/pull.ts';
import type { PullActivities } from '../activities/cri/pull-contract.ts';
import type { PullSecret } from '../activities/cri/registry-credentials.ts';
import type { KubeObject } from '../api/core/meta.ts';
import type { NodeRef } from '../api/core/refs.ts';
import { kubeResource } from '../api/core/well-known.ts';
import { type NodeImage, nodeImages, type PullSecretRef } from '../api/node-image/types.ts';
import type { KubeClient } from '../kube/client.ts';
import { isGone, KubeError, toFailure } from '../kube/failures.ts';
import type { RuntimeDetector } from './cri/detection.ts';
import type { PullReporter } from './pull-reporter.ts';
import { NodePulls } from './shared-pulls.ts';

export interface NodeImagesMeans {
  readonly kube: Pick<KubeClient, 'get'>;
  readonly runtimes: Pick<RuntimeDetector, 'firstImages' | 'noneMessage'>;
  /** The only namespace whose Secrets are read (SEC-1). */
  readonly secretNamespace: string;
  readonly nodeCredentials: NodeCredentials;
  readonly reporter: Pick<PullReporter, 'report'>;
  readonly pullsAtOnce: number;
  readonly clock: ImageActivityMeans['clock'];
  readonly attempt: ImageActivityMeans['attempt'];
  readonly log: { warn(fields: object, message: string): void };
}

/** What the daemon does for the images of its node; `stopping` aborts when the worker that runs it shuts down. */
export function nodeImagesOf(means: NodeImagesMeans): (stopping: AbortSignal) => PullActivities {
  const { kube, runtimes, secretNamespace, nodeCredentials, reporter, pullsAtOnce, clock, attempt, log } = means;
  const pulls = new NodePulls({ slots: pullsAtOnce });
  return (stopping) =>
    imageActivities({
      runtime: () => runtimes.firstImages(),
      noRuntime: () => runtimes.noneMessage,
      readNodeImage,
      readSecret,
      nodeCredentials,
      freeBytes,
      pulls,
      report: reporter.report,
      clock,
      attempt,
      stopping,
    });

  async function readNodeImage({ name, uid }: NodeRef): Promise<NodeImage | undefined> {
    try {
      const found = await kube.get<NodeImage>(nodeImages, { name });
      return found.metadata.uid === uid ? found : undefined;
    } catch (error) {
      if (isGone(error)) return undefined;
      throw toFailure(error, `Cannot read NodeImage "${name}"`);
    }
  }

  /** SEC-8: a Secret that cannot be read is left out, and the registry decides. */
  async function readSecret({ namespace = '', name = '' }: PullSecretRef): Promise<PullSecret | 'denied' | undefined> {
    if (namespace !== secretNamespace) {
      log.warn(
        { secret: `${namespace}/${name}`, readable: secretNamespace },
        'A pull Secret is in the wrong namespace',
      );
      return undefined;
    }
    try {
      return await kube.get<KubeObject & PullSecret>(kubeResource.secrets, { namespace, name });
    } catch (error) {
      if (isGone(error)) return undefined;
      if (error instanceof KubeError && error.type === 'Denied') {
        log.warn({ secret: `${namespace}/${name}`, err: error }, 'A pull Secret cannot be read');
        return 'denied';
      }
      throw toFailure(error, `Cannot read Secret "${namespace}/${name}"`);
    }
  }
}

/** Undefined when the runtime's folder is not visible, as from within a container. */
async function freeBytes(folder: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return undefined;
  }
}
