import type { CommandHolder } from '../../activities/fleet/commands.ts';
import type { NodeHolder } from '../../activities/fleet/nodes.ts';
import type { PermitHolder } from '../../activities/fleet/permit-holder.ts';
import type { SwapHolder } from '../../activities/fleet/swaps.ts';
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
  /** What applies the commands of operators to objects of a kind; undefined while this watcher does not lead. */
  readonly commandHolder: (kind: string) => CommandHolder | undefined;
  /** Fenced. */
  readonly kube: KubeWriter;
}

/** Takes what they ask from Temporal until the term ends. Returns at once; Temporal may be away. */
export type WorkFleets = (work: FleetWork) => void;
