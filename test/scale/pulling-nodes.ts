import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import type { ImageRuntime } from '../../activities/cri/image-runtime.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import { installation } from '../../api/core/well-known.ts';
import { systemClock } from '../../daemon/clock.ts';
import { currentAttempt } from '../../daemon/current-attempt.ts';
import { nodeImagesOf } from '../../daemon/images.ts';
import { NodeWorker } from '../../daemon/node-worker.ts';
import type { KubeClient } from '../../kube/client.ts';
import { observeActivities } from '../../process/activity-interceptor.ts';
import { createMetrics } from '../../process/metrics.ts';
import { dataConverter } from '../../process/payload-limit.ts';
import { workerConnection } from '../../process/temporal.ts';

/** A pull takes so long on a played runtime. */
export const pullMs = 200;

/** The daemons of many nodes in this process, as far as images go. */
export interface PullingNodes {
  /** How many pulls each node has begun, by its name. */
  readonly pulls: ReadonlyMap<string, number>;
  stop(): Promise<void>;
}

/** Starts the node worker of each node, all of the daemon's own code on a container runtime that is played. */
export function startPullingNodes(
  nodes: readonly NodeRef[],
  { kube, temporalAddress }: { readonly kube: KubeClient; readonly temporalAddress: string },
): PullingNodes {
  const log = pino({ level: 'warn' });
  const metrics = createMetrics('daemon');
  const config = { address: temporalAddress, namespace: 'default' };
  const pulls = new Map<string, number>();
  const workers = nodes.map((node) => {
    const runtime = playedRuntime(() => pulls.set(node.name, (pulls.get(node.name) ?? 0) + 1));
    const imagesOf = nodeImagesOf({
      reporter: { report: () => undefined },
      nodeCredentials: {
        find: async () => ({ keyrings: [], troubles: [], remembered: false }),
        forget: () => undefined,
      },
      kube,
      runtimes: { firstImages: () => runtime, noneMessage: '' },
      secretNamespace: installation.daemonConfigNamespace,
      pullsAtOnce: 4,
      clock: systemClock,
      attempt: currentAttempt,
      log,
    });
    const worker = new NodeWorker({
      nodeName: node.name,
      namespace: config.namespace,
      connect: (signal) => workerConnection({ config, log, signal }),
      activities: (stopping) => {
        EventEmitter.setMaxListeners(0, stopping);
        return imagesOf(stopping);
      },
      graceMs: 1_000,
      interceptors: observeActivities({ log, metrics }),
      dataConverter,
      log,
    });
    worker.serve(node.uid);
    return worker;
  });
  return {
    pulls,
    stop: async () => {
      await Promise.all(workers.map((worker) => worker.stop()));
    },
  };
}

function playedRuntime(onPull: () => void): ImageRuntime {
  const images = new Set<string>();
  return {
    name: 'played',
    imageId: async (reference) => (images.has(reference) ? `sha256:${reference}` : undefined),
    imageFolder: async () => undefined,
    watchPull: () => ({ look: async () => undefined, end: () => undefined }),
    async pullImage({ reference, signal }) {
      onPull();
      await delay(pullMs, undefined, { signal });
      images.add(reference);
      return `sha256:${reference}`;
    },
  };
}
