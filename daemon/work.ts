/** What workflows request from this node: the activities of its worker. */

import { EventEmitter } from 'node:events';
import { containerActivities } from '../activities/cri/containers.ts';
import type { NodeActivities, NodeProgress, StopResult } from '../activities/cri/contract.ts';
import type { NodeCredentials } from '../activities/cri/pull.ts';
import type { PullActivities } from '../activities/cri/pull-contract.ts';
import { type ContainerRecreateRequest, crr } from '../api/container-recreate-request/types.ts';
import type { Pod } from '../api/core/pod.ts';
import { type ObjectRef, type PodRef, qualifiedName } from '../api/core/refs.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { KubeClient } from '../kube/client.ts';
import { toFailure } from '../kube/failures.ts';
import { unlessGone } from '../kube/moved-on.ts';
import type { Logger } from '../process/log.ts';
import { systemClock } from './clock.ts';
import type { RuntimeDetector } from './cri/detection.ts';
import { currentAttempt } from './current-attempt.ts';
import type { EventSender } from './event-sender.ts';
import { getHook } from './http-hook.ts';
import { nodeImagesOf } from './images.ts';
import type { InFlight } from './in-flight.ts';
import { podView } from './pod-view.ts';
import type { PullReporter } from './pull-reporter.ts';
import type { NodeWatches } from './watches.ts';

export interface NodeWorkMeans {
  readonly kube: KubeClient;
  readonly nodeName: string;
  readonly watches: Pick<NodeWatches, 'pods'>;
  readonly runtimes: RuntimeDetector;
  readonly stops: InFlight<StopResult, NodeProgress>;
  readonly events: Pick<EventSender, 'say'>;
  readonly pullReporter: PullReporter;
  readonly nodeCredentials: NodeCredentials;
  /** The only namespace whose Secrets are read (SEC-1). */
  readonly secretNamespace: string;
  readonly pullsAtOnce: number;
  readonly log: Logger;
}

/** The activities of this node, in groups; they share state across all workers that run them. */
export function nodeWork(
  means: NodeWorkMeans,
): (stopping: AbortSignal) => { readonly containers: NodeActivities; readonly images: PullActivities } {
  const { kube, nodeName, runtimes, stops, events, log } = means;
  const { cache, reflector } = means.watches.pods;
  const pods = podView({
    cache,
    isSynced: () => reflector.isSynced,
    lastOutage: () => reflector.lastOutage,
    client: kube,
  });
  const shared = { clock: systemClock, attempt: currentAttempt, log };
  const { secretNamespace, nodeCredentials, pullReporter: reporter, pullsAtOnce } = means;
  const imagesOf = nodeImagesOf({
    kube,
    runtimes,
    secretNamespace,
    nodeCredentials,
    reporter,
    pullsAtOnce,
    ...shared,
  });
  return (stopping) => {
    EventEmitter.setMaxListeners(0, stopping); // one listener per wait
    const images = imagesOf(stopping);
    const containers = containerActivities({
      nodeName,
      runtimes,
      pods,
      readRequest: (ref) => readRequest(ref, kube),
      readPod: (ref) => readPod(ref, kube),
      say: (pod, container, text, component) => events.say(pod, container, text, component),
      stops,
      httpGet: getHook,
      stopping,
      ...shared,
    });
    return { containers, images };
  };
}

async function readRequest(
  ref: ObjectRef,
  kube: Pick<KubeClient, 'get'>,
): Promise<ContainerRecreateRequest | undefined> {
  try {
    return await unlessGone(kube.get<ContainerRecreateRequest>(crr, ref));
  } catch (error) {
    throw toFailure(error, `Cannot read ContainerRecreateRequest "${qualifiedName(ref)}"`);
  }
}

async function readPod(ref: PodRef, kube: Pick<KubeClient, 'get'>): Promise<Pod | undefined> {
  try {
    const pod = await unlessGone(kube.get<Pod>(kubeResource.pods, ref));
    return pod?.metadata.uid === ref.uid ? pod : undefined;
  } catch (error) {
    throw toFailure(error, `Cannot read pod "${qualifiedName(ref)}"`);
  }
}
