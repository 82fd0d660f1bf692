import type { ObjectRef, PodRef } from '../../api/core/refs.ts';

/** The order that an act serves, and the pod that it is about. Both are checked by UID on the node. */
export interface RequestTarget {
  /** The ContainerRecreateRequest. */
  readonly request: ObjectRef;
  readonly pod: PodRef;
  /** Prefix of the container IDs in the pod's status, without `://`: it picks the runtime of the node. */
  readonly runtime: string;
}

/** One instance of a container as the runtime knows it; the kubelet makes a new one at each restart. */
export interface ContainerInstance {
  readonly name: string;
  /** Without `<runtime>://`. */
  readonly id: string;
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  /** What the kubelet wrote on the instance, 0 when it wrote nothing. */
  readonly restartCount: number;
  /** RFC 3339 in UTC by the clock of the node; absent when the instance never started. */
  readonly startedAt?: string;
}

/** What one look at the runtime found. */
export type LookResult =
  | { readonly kind: 'seen'; readonly instances: readonly ContainerInstance[] }
  /** The node has no runtime of this name, and none that might still turn out to have it. */
  | { readonly kind: 'noRuntime'; readonly message: string };

/** How a preStop hook ended. None of the three holds up the stop. */
export type PreStopOutcome = 'ran' | 'failed' | 'timedOut';

/** How a stop ended. */
export type StopResult =
  /** The runtime has shown that this instance no longer runs. `preStop` is absent when there was none to run. */
  | { readonly kind: 'stopped'; readonly preStop?: PreStopOutcome }
  /** Nothing was done: the instance has exited, was removed, or never belonged to this container of this pod. */
  | { readonly kind: 'alreadyGone' }
  /** The node has no runtime of this name, and none that might still turn out to have it. */
  | { readonly kind: 'noRuntime'; readonly message: string }
  /** The runtime refused, or did not answer in time. `message` is its own text. */
  | { readonly kind: 'failed'; readonly message: string; readonly preStop?: PreStopOutcome };

/** How a wait for the next instance ended. */
export type AwaitResult =
  | { readonly kind: 'ready'; readonly containerId: string; readonly restartCount: number }
  /** The new instance is ready but has not run for long enough, or no longer is so. For those who ask by `isYoung`. */
  | { readonly kind: 'changed'; readonly isYoung: boolean }
  /** The pod of this UID is being deleted, or is no longer there. */
  | { readonly kind: 'podGone' };

/** Why an activity of the node has not answered yet: the details of its heartbeats. */
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
  /** The instance that is looked at, without `<runtime>://`; absent when there is none. */
  readonly containerId?: string;
  readonly message: string;
}

/**
 * What the daemon of a node does for workflows, by registered name, on the queue of the node. Each may run twice.
 *
 * The first two fail as `Unreachable`, which is retried, while the runtime or the API server cannot be reached.
 * `stopContainer` fails as `Superseded` when the request of this UID is gone, going or completed, and as `Invalid` when
 * it does not ask for this container of this pod on this node; neither happens once the stop has begun. A wait lasts
 * through outages, and is `Unreachable` only when the daemon itself ends. All but the first send heartbeats.
 */
export interface NodeActivities {
  /** Finds the newest instance of each named container of the pod; containers that the runtime lacks are left out. */
  'node.v1.lookAtContainers'(input: RequestTarget & { readonly containers: readonly string[] }): Promise<LookResult>;

  /**
   * Runs the preStop hook of exactly this instance, stops it, and sees it gone; attempts join one that is under way. With
   * `restartCount`, an instance of more restarts is another one, whatever its ID.
   */
  'node.v1.stopContainer'(
    input: RequestTarget & {
      readonly container: string;
      readonly containerId: string;
      /** What the workflow has read; daemons of now read it in the request themselves. */
      readonly graceSeconds: number;
      readonly restartCount?: number;
    },
  ): Promise<StopResult>;

  /**
   * Stops exactly this instance as the kubelet would, because it runs with an environment that the pod's labels and
   * annotations no longer ask for. Fails as `Superseded` when that is not so (any more), or the pod is not out of
   * service for an update.
   */
  'node.v1.refreshContainer'(input: {
    readonly pod: PodRef;
    readonly runtime: string;
    readonly container: string;
    readonly containerId: string;
  }): Promise<StopResult>;

  /**
   * Waits until the newest instance is not `notContainerId`, is the one that the pod's status calls ready, and has run
   * strictly longer than `minStartedSeconds`. With `isYoung` it also ends when that is no longer right: whether time is
   * all that is missing.
   */
  'node.v1.awaitContainer'(
    input: RequestTarget & {
      readonly container: string;
      readonly notContainerId: string;
      readonly minStartedSeconds: number;
      readonly isYoung?: boolean;
    },
  ): Promise<AwaitResult>;
}
