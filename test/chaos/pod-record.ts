// The first witness: every version of every pod that is looked at, as the API server's watch tells them.

import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Follower, follow } from './follow.ts';

/** The label by which pods are chosen for the record. */
export const recordedLabel = { key: 'windlass.io/chaos', value: 'recorded' } as const;

/** A container as one version of its pod shows it. */
export interface ContainerVersion {
  readonly name: string;
  /** Without `<runtime>://`; empty before the first start. */
  readonly id: string;
  readonly running: boolean;
  readonly ready: boolean;
  readonly restartCount: number;
  /** The instance before, or this one, if the runtime could not even start it: nobody has ended it. */
  readonly neverRan?: string;
}

/** One version of a pod. */
export interface PodVersion {
  readonly resourceVersion: string;
  readonly seenAt: string;
  readonly containers: readonly ContainerVersion[];
  /** The pod is on its way out, or gone: from here on it is the kubelet that ends its containers. */
  readonly deleted: boolean;
}

/** Records from `start` to `stop`. */
export class PodRecord {
  readonly #kube: Pick<KubeClient, 'list' | 'watch'>;
  readonly #versions = new Map<string, PodVersion[]>();
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #gaps = 0;

  constructor(kube: Pick<KubeClient, 'list' | 'watch'>) {
    this.#kube = kube;
  }

  /** Begins to record; resolves when nothing that happens from now on is missed. */
  async start(): Promise<void> {
    const begun = Promise.withResolvers<void>();
    const follower: Follower<Pod> = {
      seen: (pod, isGone) => this.#add(pod, isGone),
      begun: () => begun.resolve(),
      gap: () => {
        this.#gaps += 1;
      },
    };
    const labelSelector = `${recordedLabel.key}=${recordedLabel.value}`;
    this.#running = follow(this.#kube, kubeResource.pods, { labelSelector }, follower, this.#stop.signal);
    await begun.promise;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** How often versions may have been missed. */
  get gaps(): number {
    return this.#gaps;
  }

  /** What was seen of a pod, oldest first. */
  versionsOf(podUid: string): readonly PodVersion[] {
    return this.#versions.get(podUid) ?? [];
  }

  #add(pod: Pod, deleted: boolean): void {
    const { uid, resourceVersion } = pod.metadata;
    const versions = this.#versions.get(uid) ?? [];
    this.#versions.set(uid, versions);
    if (versions.at(-1)?.resourceVersion === resourceVersion) return;
    versions.push({
      resourceVersion,
      seenAt: new Date().toISOString(),
      containers: containersOf(pod),
      deleted: deleted || pod.metadata.deletionTimestamp !== undefined,
    });
  }
}

interface Terminated {
  readonly reason?: string;
  readonly containerID?: string;
}

/** The containers of a pod as its status shows them. */
export function containersOf(pod: Pod): readonly ContainerVersion[] {
  return (pod.status?.containerStatuses ?? []).map((status) => {
    const { name, containerID = '', ready, restartCount, state } = status;
    const { lastState } = status as { readonly lastState?: { readonly terminated?: Terminated } };
    const ends: readonly (Terminated | undefined)[] = [state?.terminated, lastState?.terminated];
    const neverRan = ends.find((end) => end?.reason === 'StartError')?.containerID;
    return {
      name,
      id: withoutRuntime(containerID),
      running: state?.running !== undefined,
      ready,
      restartCount,
      ...(neverRan === undefined ? {} : { neverRan: withoutRuntime(neverRan) }),
    };
  });
}

function withoutRuntime(containerID: string): string {
  return containerID.replace(/^.*:\/\//, '');
}
