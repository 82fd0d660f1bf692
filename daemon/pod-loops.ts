/**
 * What the daemon does by itself for the pods of its node: it reports their containers and opens their readiness gates.
 */

import type { FeatureGates } from '../api/feature-gates.ts';
import type { KubeClient } from '../kube/client.ts';
import { KeyedQueue } from '../kube/keyed-queue.ts';
import type { Logger } from '../process/log.ts';
import type { Metrics } from '../process/metrics.ts';
import { systemClock } from './clock.ts';
import { ContainerMetaReporter, reportBackOffMs, reportWorkers } from './container-meta/reporter.ts';
import type { RuntimeDetector } from './cri/detection.ts';
import { GateOpener, openingBackOffMs } from './in-place-gate/opener.ts';
import type { NodeWatches } from './watches.ts';

export interface PodLoopMeans {
  readonly kube: KubeClient;
  readonly watches: Pick<NodeWatches, 'pods'>;
  readonly runtimes: RuntimeDetector;
  readonly gates: FeatureGates;
  readonly metrics: Pick<Metrics, 'trackQueue'>;
  readonly log: Logger;
}

/** Keeps the report of containers in the annotations of pods. */
export function reportContainers({
  kube,
  watches,
  runtimes,
  gates,
  metrics,
  log,
}: PodLoopMeans): ContainerMetaReporter {
  const { cache, reflector } = watches.pods;
  const onError = (podUid: string, error: unknown, retryInMs: number) =>
    log.warn({ podUid, err: error, retryInMs: Math.round(retryInMs) }, 'Cannot report the containers of a pod');
  return new ContainerMetaReporter({
    pods: cache,
    isSynced: () => reflector.isSynced,
    runtimes,
    client: kube,
    gates,
    monotonicMs: () => systemClock.monotonicMs(),
    queue(pass) {
      const queue = new KeyedQueue({ pass, onError, concurrency: reportWorkers, backOffMs: reportBackOffMs });
      metrics.trackQueue('container-meta', () => queue.depth);
      return queue;
    },
  });
}

/** Puts pods back into service as soon as their containers are replaced. */
export function openGates({ kube, watches, runtimes, log }: PodLoopMeans): GateOpener {
  const onError = (runtime: string, error: unknown, retryInMs: number) =>
    log.warn({ runtime, err: error, retryInMs: Math.round(retryInMs) }, 'Cannot put pods back into service early');
  return new GateOpener({
    pods: watches.pods.cache,
    runtimes,
    client: kube,
    clock: systemClock,
    log,
    queue: (pass) => new KeyedQueue({ pass, onError, concurrency: 2, backOffMs: openingBackOffMs }),
  });
}
