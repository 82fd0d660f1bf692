import { type ContainerRuntime, findRuntime, type Runtimes } from '../../activities/cri/runtime.ts';
import { failureTypeOf } from '../../api/core/failure.ts';
import type { Pod } from '../../api/core/pod.ts';
import { qualifiedName } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import { type ContainerMeta, formatContainersMeta } from '../../api/in-place/containers-meta.ts';
import { envHash, envReferences, startedEnvHash } from '../../api/in-place/env-hash.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { KeyedQueue, PassResult } from '../../kube/keyed-queue.ts';
import type { PodCache } from '../pod-view.ts';
import { type Entry, entriesOf, isReportDue, type ReportGates, runtimeOf } from './report.ts';

/** How many pods are processed at the same time (IPU-46). */
export const reportWorkers = 5;

/** First and longest pause after a failed report (IPU-46). */
export const reportBackOffMs = { first: 500, most: 50_000 } as const;

/**
 * The shortest time between two writes of a pod, and between a change and its write (ND-23), so that containers which
 * start together are in one report. Each write also triggers a sync of the pod in the kubelet, which makes one per
 * second: a write at the moment in which a container starts would delay the sync that makes the pod ready.
 */
const restMs = 1_000;

/** The pause before an unknown environment is requested again (IPU-47). */
const askAgainMs = 3_000;

export interface ReporterOptions {
  readonly pods: PodCache;
  /** Whether the pods that existed at the start are known by now. */
  readonly isSynced: () => boolean;
  readonly runtimes: Runtimes;
  readonly client: Pick<KubeClient, 'patch'>;
  readonly gates: ReportGates;
  /** Creates the queue: pods are processed one after the other for each UID, and failures are retried with a pause. */
  readonly queue: (pass: (podUid: string) => Promise<PassResult | undefined>) => Pick<KeyedQueue, 'add' | 'stop'>;
  /** A monotonic clock in milliseconds. */
  readonly monotonicMs: () => number;
}

/**
 * Keeps the report in the annotations of this node's pods up to date with the runtime, until `stop`. It writes only
 * changes, and remembers only the time of its last writes: a restart of the daemon loses nothing.
 */
export class ContainerMetaReporter {
  readonly #options: ReporterOptions;
  readonly #queue: Pick<KeyedQueue, 'add' | 'stop'>;
  readonly #wroteAtMs = new Map<string, number>();
  /** Since when a report of the pod has been due. */
  readonly #dueSinceMs = new Map<string, number>();
  readonly #unlisten: () => void;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#queue = options.queue((podUid) => this.#pass(podUid));
    this.#unlisten = options.pods.onChange(({ before, after }) => {
      if (after === undefined) {
        if (before) this.#forget(before.metadata.uid);
        return;
      }
      // ND-21: a start of the daemon must not write to every pod of the node at once
      const isOld = before === undefined && !options.isSynced();
      if (isOld && after.metadata.annotations?.[inPlaceAnnotation.containersMeta] === undefined) return;
      if (isReportDue(after, options.gates)) this.#queue.add(after.metadata.uid);
    });
  }

  async stop(): Promise<void> {
    this.#unlisten();
    await this.#queue.stop();
  }

  async #pass(podUid: string): Promise<PassResult | undefined> {
    const pod = this.#options.pods.byUid(podUid);
    if (pod === undefined || !isReportDue(pod, this.#options.gates)) {
      this.#dueSinceMs.delete(podUid);
      return undefined;
    }
    const waitMs = this.#dueAtMs(pod) - this.#options.monotonicMs();
    if (waitMs > 0) return { againInMs: waitMs };

    const runtime = await this.#runtimeOf(pod);
    const entries = entriesOf(pod, await runtime.listContainers({ podUid }));
    const metas: ContainerMeta[] = [];
    let mustAskAgain = false;
    for (const entry of entries) {
      const meta = await this.#withEnvHash(pod, entry, runtime);
      metas.push(meta);
      if (this.#wantsEnvHash(meta) && entry.instance.state === 'running') mustAskAgain = true;
    }
    const text = formatContainersMeta(metas);
    const isNew = text !== pod.metadata.annotations?.[inPlaceAnnotation.containersMeta];
    if (metas.length > 0 && isNew) await this.#write(pod, text);
    return mustAskAgain ? { againInMs: askAgainMs } : undefined;
  }

  /** When the report may be written. An in-place update that waits for an environment hash gets it without delay. */
  #dueAtMs({ metadata: { uid }, spec }: Pod): number {
    const nowMs = this.#options.monotonicMs();
    const sinceMs = this.#dueSinceMs.get(uid) ?? nowMs;
    this.#dueSinceMs.set(uid, sinceMs);
    const isAwaited =
      this.#options.gates.InPlaceUpdateEnvFromMetadata &&
      spec.containers.some((container) => envReferences(container).length > 0);
    const afterLastMs = (this.#wroteAtMs.get(uid) ?? Number.NEGATIVE_INFINITY) + restMs;
    return Math.max(afterLastMs, isAwaited ? nowMs : sinceMs + restMs);
  }

  #forget(podUid: string): void {
    this.#wroteAtMs.delete(podUid);
    this.#dueSinceMs.delete(podUid);
  }

  async #runtimeOf(pod: Pod): Promise<ContainerRuntime> {
    const found = await findRuntime(this.#options.runtimes, runtimeOf(pod) ?? '', pod.metadata.uid);
    if (found.kind === 'found') return found.runtime;
    throw new Error(`Cannot report the containers of pod "${qualifiedName(pod.metadata)}": ${found.message}`);
  }

  /** The entry with its environment hash, where that is needed and can be determined (ND-25). */
  async #withEnvHash(pod: Pod, { meta, instance }: Entry, runtime: ContainerRuntime): Promise<ContainerMeta> {
    const container = pod.spec.containers.find(({ name }) => name === meta.name);
    if (container === undefined || !this.#wantsEnvHash(meta)) return meta;
    const names = envReferences(container).map(({ env }) => env);
    if (names.length === 0) return { ...meta, envHash: envHash([]) };
    const started = await runtime.environment(instance.id, names);
    return started === undefined ? meta : { ...meta, envHash: startedEnvHash(container, pod.metadata, started) };
  }

  #wantsEnvHash({ envHash: known }: ContainerMeta): boolean {
    return this.#options.gates.InPlaceUpdateEnvFromMetadata && known === 0;
  }

  /** Writes the report, provided that the pod has not changed since it was read. */
  async #write({ metadata }: Pod, text: string): Promise<void> {
    const { namespace = '', name, uid, resourceVersion } = metadata;
    const body = { metadata: { uid, resourceVersion, annotations: { [inPlaceAnnotation.containersMeta]: text } } };
    try {
      await this.#options.client.patch(kubeResource.pods, { namespace, name }, 'merge', body, {
        subresource: 'status',
      });
    } catch (error) {
      const type = failureTypeOf(error);
      // the watch event of the newer version triggers the next attempt
      if (type === 'Conflict' || type === 'Superseded') return;
      throw error;
    }
    this.#wroteAtMs.set(uid, this.#options.monotonicMs());
    this.#dueSinceMs.delete(uid);
  }
}
