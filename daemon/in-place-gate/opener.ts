import { criLabel, type Runtimes } from '../../activities/cri/runtime.ts';
import { failureTypeOf } from '../../api/core/failure.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { KeyedQueue, PassResult } from '../../kube/keyed-queue.ts';
import { runtimeOf } from '../container-meta/report.ts';
import type { PodCache } from '../pod-view.ts';
import { hasSwapped, isOpeningDue, openingPatch } from './opening.ts';

/** First and longest pause after a failed check; the workload's controller opens the gates meanwhile. */
export const openingBackOffMs = { first: 500, most: 10_000 } as const;

/**
 * How often the runtime is asked while containers are being replaced: detecting it late may miss a sync of the kubelet.
 */
const lookEveryMs = 25;

/** The slower interval, after this much time: for example when images are being pulled. */
const slow = { afterMs: 5_000, lookEveryMs: 500 } as const;

/** The largest share of time that checks may take. */
const mostBusy = 0.2;

export interface GateOpenerOptions {
  readonly pods: PodCache;
  readonly runtimes: Runtimes;
  readonly client: Pick<KubeClient, 'patch'>;
  /**
   * Creates the queue: runtimes are checked one after the other for each name, and failed checks are retried with a
   * pause.
   */
  readonly queue: (pass: (runtime: string) => Promise<PassResult | undefined>) => Pick<KeyedQueue, 'addAfter' | 'stop'>;
  readonly clock: {
    nowMs(): number;
    /** A monotonic clock in milliseconds. */
    monotonicMs(): number;
  };
  readonly log: { debug(fields: object, message: string): void };
}

/**
 * Opens the readiness gates of this node's pods when an update has replaced their containers, before the kubelet
 * reports the new containers, until `stop`. One list call to the runtime serves all pods; there is none while no update
 * is in progress. A gate is opened only in the version of the pod that was checked, and nothing depends on it: the
 * workload's controller opens it, too, a second later.
 */
export class GateOpener {
  readonly #options: GateOpenerOptions;
  readonly #queue: Pick<KeyedQueue, 'addAfter' | 'stop'>;
  /** Pods whose containers are being replaced, and since when. */
  readonly #dueSinceMs = new Map<string, number>();
  readonly #unlisten: () => void;

  constructor(options: GateOpenerOptions) {
    this.#options = options;
    this.#queue = options.queue((runtime) => this.#look(runtime));
    this.#unlisten = options.pods.onChange(({ before, after }) => {
      const uid = (after ?? before)?.metadata.uid ?? '';
      if (after === undefined || !isOpeningDue(after)) {
        this.#dueSinceMs.delete(uid);
        return;
      }
      if (!this.#dueSinceMs.has(uid)) this.#dueSinceMs.set(uid, options.clock.monotonicMs());
      this.#queue.addAfter(runtimeOf(after) ?? '', lookEveryMs);
    });
  }

  async stop(): Promise<void> {
    this.#unlisten();
    await this.#queue.stop();
  }

  async #look(runtimeName: string): Promise<PassResult | undefined> {
    const { pods, runtimes, clock } = this.#options;
    const due = [...this.#dueSinceMs.keys()].flatMap((uid) => pods.byUid(uid) ?? []);
    const ofRuntime = due.filter((pod) => runtimeOf(pod) === runtimeName);
    if (ofRuntime.length === 0) return undefined;

    const askedAtMs = clock.monotonicMs();
    const lists = await Promise.all(runtimes.named(runtimeName).map((runtime) => runtime.listContainers({})));
    const tookMs = clock.monotonicMs() - askedAtMs;
    const containers = Map.groupBy(lists.flat(), ({ labels }) => labels[criLabel.podUid]);
    const swapped = ofRuntime.filter((pod) => hasSwapped(pod, containers.get(pod.metadata.uid) ?? []));
    await Promise.all(swapped.map((pod) => this.#open(pod)));
    return { againInMs: Math.max(this.#pauseMs(ofRuntime), tookMs / mostBusy) };
  }

  /** The interval for the pod that has been waiting for the shortest time. */
  #pauseMs(pods: readonly Pod[]): number {
    const nowMs = this.#options.clock.monotonicMs();
    const isAnyYoung = pods.some(({ metadata: { uid } }) => {
      return nowMs - (this.#dueSinceMs.get(uid) ?? Number.NEGATIVE_INFINITY) < slow.afterMs;
    });
    return isAnyYoung ? lookEveryMs : slow.lookEveryMs;
  }

  async #open(pod: Pod): Promise<void> {
    const { namespace = '', name, uid } = pod.metadata;
    const sinceMs = this.#dueSinceMs.get(uid);
    // a change that arrives meanwhile needs another check
    this.#dueSinceMs.delete(uid);
    try {
      const patch = openingPatch(pod, this.#options.clock.nowMs());
      await this.#options.client.patch(kubeResource.pods, { namespace, name }, 'strategic', patch, {
        subresource: 'status',
      });
      this.#options.log.debug(
        { pod: `${namespace}/${name}`, podUid: uid },
        'The pod is in service with its new containers',
      );
    } catch (error) {
      const type = failureTypeOf(error);
      if (type === 'Conflict' || type === 'Superseded') return;
      if (sinceMs !== undefined && !this.#dueSinceMs.has(uid)) this.#dueSinceMs.set(uid, sinceMs);
      throw error;
    }
  }
}
