/** The input of the planner of DaemonSets. */

import type { Node } from '../../api/core/node.ts';
import type { DaemonSet } from '../../api/daemon-set/types.ts';
import type { FleetInput } from '../fleet/input.ts';

/** What is read of a node: its name, its labels and its taints. */
export type DaemonNode = Pick<Node, 'apiVersion' | 'kind' | 'metadata' | 'spec'>;

/** Failed pods that were deleted on a node, one after the other. */
export interface FailedBefore {
  readonly times: number;
  /** When the last of them was deleted. */
  readonly lastAtMs: number;
}

/** Everything that a pass bases its decisions on. */
export interface DaemonSetInput extends FleetInput<DaemonSet> {
  /** Every node of the cluster. */
  readonly nodes: readonly DaemonNode[];
  /** By node, what failed there before. Absent: nothing is known of that. */
  readonly failedBefore?: ReadonlyMap<string, FailedBefore>;
}
