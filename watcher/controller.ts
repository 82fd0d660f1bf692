import type { PermitHolder } from '../activities/fleet/permit-holder.ts';
import type { KubeObject, Resource } from '../api/core/meta.ts';
import type { Cache, IndexFunction } from '../kube/cache.ts';
import type { KubeWriter } from '../kube/fence.ts';
import type { KeyedQueue, PassResult } from '../kube/keyed-queue.ts';
import type { Term } from '../kube/leader.ts';
import type { Config } from '../workers/config.ts';
import type { Logger } from '../workers/log.ts';
import type { Metrics, OperationState } from '../workers/metrics.ts';
import type { Starter } from './starter.ts';

/** What the watcher gives to each kind. */
export interface ControllerContext {
  /** Each write first makes sure that this process leads; else it throws NotLeading. */
  readonly kube: KubeWriter;
  readonly starter: Pick<Starter, 'want' | 'forget' | 'dismiss' | 'tell' | 'command' | 'isSent' | 'trouble'>;
  readonly config: Pick<Config, 'namespace' | 'podNamespace' | 'featureGates' | 'images' | 'temporal'>;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** The wall clock. */
  readonly now: () => number;
  readonly isLeading: () => boolean;
  /**
   * What there is of a resource: one reflector and one cache for all who ask, trimmed by `trim.ts`. Asked for before the
   * watcher starts. Indexes of one name are the same to everybody. With a label selector it is a cache beside the others,
   * of what the selector finds.
   */
  cache<T extends KubeObject>(
    resource: Resource,
    indexes?: Readonly<Record<string, IndexFunction<T>>>,
    selection?: { readonly labelSelector: string },
  ): Cache<T>;
  /**
   * A queue whose passes are made only while this process leads and the caches of the controller are filled. Keys are UIDs
   * of objects in its caches, which take turns by namespace, or names.
   */
  queue(name: string, pass: (key: string) => Promise<PassResult | undefined>): Pick<KeyedQueue, 'add' | 'addAfter'>;
}

/** What the watcher does for one kind. All of it looks at the whole object and may be done again. */
export interface Controller {
  /** Wants a pass over everything: at the beginning of each term, once a minute, and when Temporal comes or goes. */
  wantAll(): void;
  /** A term has begun, and the caches of this controller hold all that was true at its beginning. `lost` aborts at its end. */
  begin?(term: Term): void;
  /** The types of its operations, so that those which are missing are started again. */
  readonly workflowTypes?: readonly string[];
  /** Where roll-outs of its kind hand in their permits; undefined while this process does not lead. */
  readonly fleet?: { readonly kind: string; readonly queue: () => PermitHolder | undefined };
  /** Its operations, for the metrics. */
  operations?(): { readonly kind: string; readonly states: readonly OperationState[] };
  /** Ends what does not end with the queues of the context. */
  stop?(): Promise<void>;
}

/** Makes the controller of a kind. It listens to its caches at once, and acts only while leading. */
export type ControllerOf = (context: ControllerContext) => Controller;
