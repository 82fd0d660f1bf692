import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type ImagePullJob, imagePullJobs, isFinished } from '../../api/image-pull-job/types.ts';
import { type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { createCriClient } from '../../daemon/cri/client.ts';
import { type Image, pushImages } from '../../deploy/local/images.ts';
import { findInstance } from '../../deploy/local/instance.ts';
import { waitFor } from '../support/wait.ts';
import { type BenchCluster, benchNamespace } from './cluster.ts';
import { type Figure, sample } from './figures.ts';

/** What is measured of pulls: both nodes get a fresh image of 1 MiB each time. */
export async function pullTakes(cluster: BenchCluster, instance: string) {
  const found = findInstance(instance);
  if (!found) throw new Error(`Instance "${instance}" is down`);
  const registry = `http://127.0.0.1:${found.ports.registry}`;
  const nodes = ['node-1', 'node-2'];
  const runtimes = nodes.map((node) =>
    createCriClient(join(found.folder, 'nodes', node, 'run', 'containerd', 'containerd.sock')),
  );
  await waitFor('a NodeImage for each node', async () => {
    const { items } = await cluster.kube.list<NodeImage>(nodeImages);
    return nodes.every((node) => items.some(({ metadata }) => metadata.name === node));
  });
  let number = 0;

  async function freshImage(): Promise<string> {
    const reference = `bench/image-${Date.now().toString(36)}-${number++}:1`;
    const content = randomBytes(1024 * 1024);
    const image: Image = { reference, layers: [[{ kind: 'file', path: 'data', content }]], config: {} };
    await pushImages(registry, [image]);
    return reference;
  }

  async function bare(): Promise<number> {
    const reference = await freshImage();
    const { signal } = new AbortController();
    const startedAt = performance.now();
    const pull = { reference, labels: {}, annotations: {}, timeoutMs: 60_000, signal };
    await Promise.all(runtimes.map((runtime) => runtime.pullImage(pull)));
    return performance.now() - startedAt;
  }

  /** A job, until it has completed. */
  async function jobTakes(): Promise<{ readonly ms: number; readonly remove: () => Promise<void> }> {
    const image = await freshImage();
    const name = `bench-${Date.now().toString(36)}-${number++}`;
    const startedAt = performance.now();
    const { resourceVersion } = (
      await cluster.kube.create<ImagePullJob>(imagePullJobs, {
        metadata: { name, namespace: benchNamespace },
        spec: { image, parallelism: 2 },
      })
    ).metadata;
    const selection = { namespace: benchNamespace, fieldSelector: `metadata.name=${name}`, resourceVersion };
    let took = Number.NaN;
    for await (const event of cluster.kube.watch<ImagePullJob>(imagePullJobs, selection)) {
      if (event.type === 'BOOKMARK' || !isFinished(event.object)) continue;
      took = performance.now() - startedAt;
      if (event.object.status?.succeeded !== nodes.length) {
        throw new Error(`Job ${name} went wrong: ${JSON.stringify(event.object.status)}`);
      }
      break;
    }
    return { ms: took, remove: () => cluster.remove(imagePullJobs, name) };
  }

  async function job(): Promise<number> {
    const { ms, remove } = await jobTakes();
    await remove();
    return ms;
  }

  return {
    ...{ bare, job, jobTakes },
    close: () => {
      for (const runtime of runtimes) runtime.close();
    },
  };
}

/** How long a job takes until both nodes have a fresh image, beside the bare pull of such an image by both. */
export async function pullFigures(
  cluster: BenchCluster,
  instance: string,
  samples: number,
): Promise<readonly Figure[]> {
  const { bare, job, close } = await pullTakes(cluster, instance);
  try {
    return [
      await sample('bare: CRI pull of a fresh 1 MiB image by both runtimes', samples, bare),
      await sample('ImagePullJob of a fresh 1 MiB image on two nodes: created → Completed', samples, job),
    ];
  } finally {
    close();
  }
}
