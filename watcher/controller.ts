import type { CommandHolder } from '../activities/fleet/commands.ts';
import type { NodeHolder } from '../activities/fleet/nodes.ts';
import type { PermitHolder } from '../activities/fleet/permit-holder.ts';
import type { SwapHolder } from '../activities/fleet/swaps.ts';
import type { KubeObject, Resource } from '../api/core/meta.ts';
import type { EngineTrouble } from '../api/engine/engine-trouble.ts';
import type { Cache, IndexFunction } from '../kube/cache.ts';
import type { KubeWriter } from '../kube/fence.ts';
import type { KeyedQueue, PassResult } from '../kube/keyed-queue.ts';
import type { Term } from '../kube/leader.ts';
import type { Config } from '../process/config.ts';
import type { Logger } from '../process/log.ts';
import type { Metrics, OperationState } from '../process/metrics.ts';
import type { CommandEvents } from './operator-commands.ts';
import type { Starter } from './starter.ts';

/** What the watcher provides to the controller of each kind. */
export interface ControllerContext {
  /** Each write first checks that this process leads; otherwise it throws NotLeading. */
  readonly kube: KubeWriter;
  readonly starter: Pick<Starter, 'want' | 'forget' | 'dismiss' | 'tell' | 'command' | 'isSent' | 'trouble'>;
  readonly config: Pick<Config, 'namespace' | 'podNamespace' | 'featureGates' | 'images' | 'temporal'>;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** The wall clock. */
  readonly now: () => number;
  readonly commandEvents: CommandEvents;
  /** That the daemon of this node, for which something waits, does not answer; undefined when it does, as far as is known. */
  readonly daemonTrouble: (node: string) => EngineTrouble | undefined;
  readonly isLeading: () => boolean;
  /**
   * The cache of a resource: one reflector and one cache for all controllers, trimmed by `trim.ts`. Must be requested
   * before the watcher starts. Index names are shared between controllers. With a label selector it is a separate cache
   * of the selected objects.
   */
  cache<T extends KubeObject>(
    resource: Resource,
    indexes?: Readonly<Record<string, IndexFunction<T>>>,
    selection?: { readonly labelSelector: string },
  ): Cache<T>;
  /**
   * The cache of a resource that is not needed from the beginning: it stays empty until `begin` is called, and a controller
   * that has it does not wait until it is filled.
   */
  lateCache<T extends KubeObject>(resource: Resource): LateCache<T>;
  /**
   * A queue that runs only while this process leads and the controller's caches are filled. Keys are names, or UIDs of
   * objects in its caches, which take turns by namespace.
   */
  queue(
    name: string,
    pass: (key: string) => Promise<PassResult | undefined>,
  ): Pick<KeyedQueue, 'add' | 'addAfter' | 'remind'>;
}

/** A cache that is filled once somebody needs it. */
export interface LateCache<T extends KubeObject> extends Pick<Cache<T>, 'byName' | 'onChange'> {
  /** Begins to fill it; further calls do nothing. */
  begin(): void;
}

/** The controller of one kind. Every part of it looks at the whole object, and may be repeated. */
export interface Controller {
  /**
   * Requests a pass over everything: at the beginning of each term, once a minute, and when Temporal becomes
   * unavailable or available.
   */
  wantAll(): void;
  /**
   * A term has begun, and the caches of this controller hold everything that was true at its beginning. `lost` aborts
   * at its end.
   */
  begin?(term: Term): void;
  /** The workflow types of its operations; missing ones are started again. */
  readonly workflowTypes?: readonly string[];
  readonly fleet?: {
    readonly kind: string;
    /** Where roll-outs of its kind submit their permits; undefined while this process does not lead. */
    readonly queue: () => PermitHolder | undefined;
    /** What applies the commands of operators; undefined while this process does not lead. */
    readonly commands: () => CommandHolder | undefined;
  };
  /** Where pull jobs hand in their waves; undefined while this process does not lead. */
  readonly nodes?: () => NodeHolder | undefined;
  /** Where swaps of sidecars hand in their steps; undefined while this process does not lead. */
  readonly swaps?: () => SwapHolder | undefined;
  /** Its operations, for the metrics. */
  operations?(): { readonly kind: string; readonly states: readonly OperationState[] };
  /** Stops what is not stopped with the queues of the context. */
  stop?(): Promise<void>;
}

/** Creates the controller of a kind. It subscribes to its caches at once, and acts only while leading. */
export type ControllerOf = (context: ControllerContext) => Controller;
