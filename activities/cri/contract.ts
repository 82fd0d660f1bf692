import type { ObjectRef, PodRef } from '../../api/core/refs.ts';

/** The request that an act serves, and its pod. The node checks both by UID. */
export interface RequestTarget {
  /** The ContainerRecreateRequest. */
  readonly request: ObjectRef;
  readonly pod: PodRef;
  /** Prefix of the container IDs in the pod's status, without `://`: it picks the runtime of the node. */
  readonly runtime: string;
}

/** One instance of a container in the runtime; the kubelet creates a new one at each restart. */
export interface ContainerInstance {
  readonly name: string;
  /** Without `<runtime>://`. */
  readonly id: string;
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  /** The kubelet's restart count on the instance, 0 when there is none. */
  readonly restartCount: number;
  /** RFC 3339 in UTC by the node's clock; absent when the instance never started. */
  readonly startedAt?: string;
}

/** The result of looking at the runtime. */
export type LookResult =
  | { readonly kind: 'seen'; readonly instances: readonly ContainerInstance[] }
  /** The node has no runtime of this name, and no socket that might turn out to have it. */
  | { readonly kind: 'noRuntime'; readonly message: string };

/** The result of a preStop hook. None of the three prevents the stop. */
export type PreStopOutcome = 'ran' | 'failed' | 'timedOut';

/** The result of a stop. */
export type StopResult =
  /** The runtime has confirmed that this instance no longer runs. `preStop` is absent when there was no hook. */
  | { readonly kind: 'stopped'; readonly preStop?: PreStopOutcome }
  /** Nothing was done: the instance has exited, was removed, or never belonged to this container of this pod. */
  | { readonly kind: 'alreadyGone' }
  /** The node has no runtime of this name, and no socket that might turn out to have it. */
  | { readonly kind: 'noRuntime'; readonly message: string }
  /** The runtime refused, or did not answer in time. `message` is its own text. */
  | { readonly kind: 'failed'; readonly message: string; readonly preStop?: PreStopOutcome };

/** The result of a wait for the next instance. */
export type AwaitResult =
  | { readonly kind: 'ready'; readonly containerId: string; readonly restartCount: number }
  /**
   * The new instance is ready but has not run for long enough, or no longer is so: only with `isYoung`. Or `trouble` is why
   * the kubelet does not start it, as far as it says; empty: it runs, and has for a while. Only with `trouble`.
   */
  | { readonly kind: 'changed'; readonly isYoung: boolean; readonly trouble?: string }
  /** The pod of this UID is being deleted, or is no longer there. */
  | { readonly kind: 'podGone' };

/** Why a node activity has not completed yet: the details of its heartbeats. */
export interface NodeProgress {
  readonly reason:
    | 'RunningPreStop'
    | 'Stopping'
    | 'RuntimeUnreachable'
    | 'ContainerNotFound'
    | 'ContainerNotRunning'
    | 'ContainerNotReady'
    | 'MinStartedSeconds';
  readonly container: string;
  /** The instance that is being checked, without `<runtime>://`; absent when there is none. */
  readonly containerId?: string;
  readonly message: string;
}

/**
 * The daemon's activities for workflows, by registered name, on the task queue of the node. Each may run twice.
 *
 * The first two fail as `Unreachable`, which is retried, while the runtime or the API server cannot be reached.
 * `stopContainer` fails as `Superseded` when the request of this UID is gone, being deleted or completed, and as
 * `Invalid` when it does not ask for this container of this pod on this node; neither happens once the stop has begun.
 * A wait continues through outages, and is `Unreachable` only when the daemon itself ends. All but the first send
 * heartbeats.
 */
export interface NodeActivities {
  /** Finds the newest instance of each named container of the pod; containers that the runtime lacks are left out. */
  'node.v1.lookAtContainers'(input: RequestTarget & { readonly containers: readonly string[] }): Promise<LookResult>;

  /**
   * Runs the preStop hook of exactly this instance, stops it, and confirms that it has exited; later attempts join one
   * in progress. With `restartCount`, an instance with more restarts is another one, even with the same ID.
   */
  'node.v1.stopContainer'(
    input: RequestTarget & {
      readonly container: string;
      readonly containerId: string;
      /** The value that the workflow has read; current daemons read the request themselves. */
      readonly graceSeconds: number;
      readonly restartCount?: number;
    },
  ): Promise<StopResult>;

  /**
   * Stops exactly this instance like the kubelet would, because its environment is not the one that the pod's labels
   * and annotations define. Fails as `Superseded` when that is not (or no longer) true, or when the pod is not out of
   * service for an update.
   */
  'node.v1.refreshContainer'(input: {
    readonly pod: PodRef;
    readonly runtime: string;
    readonly container: string;
    readonly containerId: string;
  }): Promise<StopResult>;

  /**
   * Waits until the newest instance is not `notContainerId`, is the one that the pod's status reports as ready, and has
   * run strictly longer than `minStartedSeconds`. `isYoung` says whether only the running time was missing before,
   * `trouble` why the kubelet did not start it; with either the wait also ends when that changes.
   */
  'node.v1.awaitContainer'(
    input: RequestTarget & {
      readonly container: string;
      readonly notContainerId: string;
      readonly minStartedSeconds: number;
      readonly isYoung?: boolean;
      /** Empty: none was known. */
      readonly trouble?: string;
    },
  ): Promise<AwaitResult>;
}
