import type { NodeHolder } from '../../activities/fleet/nodes.ts';
import type { PodOfFleet } from '../../activities/fleet/orders.ts';
import type { PermitHolder } from '../../activities/fleet/permit-holder.ts';
import type { SwapHolder } from '../../activities/fleet/swaps.ts';
import type { Resource } from '../../api/core/meta.ts';
import type { KubeWriter } from '../../kube/fence.ts';

/** What roll-outs, pull jobs and swaps ask of the leading watcher, for one term. */
export interface FleetWork {
  /** Aborts at the end of the term. */
  readonly ended: AbortSignal;
  /** Where roll-outs of a kind hand in their permits; undefined while this watcher does not lead. */
  readonly permitHolder: (kind: string) => PermitHolder | undefined;
  /** Where pull jobs hand in their waves; undefined while this watcher does not lead. */
  readonly nodeHolder: () => NodeHolder | undefined;
  /** Where swaps of sidecars hand in their steps; undefined while this watcher does not lead. */
  readonly swapHolder: () => SwapHolder | undefined;
  /** The pods of an object that is rolled out. Undefined: unknown. */
  readonly podsOf: (kind: string, uid: string) => readonly PodOfFleet[] | undefined;
  /** Fenced. */
  readonly kube: KubeWriter;
  /** Waits until the cache of a resource shows this version of an object, or a newer one. */
  readonly seen: (resource: Resource, uid: string, resourceVersion: string, signal: AbortSignal) => Promise<void>;
}

/** Takes what they ask from Temporal until the term ends. Returns at once; Temporal may be away. */
export type WorkFleets = (work: FleetWork) => void;
