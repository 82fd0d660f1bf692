import type { KubeObject } from './meta.ts';
import { virtualNodeLabel } from './well-known.ts';

/** The fields of a node that Windlass reads. */
export interface Node extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly Taint[] };
  readonly status?: {
    readonly conditions?: readonly NodeCondition[];
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
  };
}

/** Keeps pods away that do not tolerate it. */
export interface Taint {
  readonly key: string;
  readonly value?: string;
  /** `NoSchedule`, `PreferNoSchedule` or `NoExecute`. */
  readonly effect: string;
}

export interface NodeCondition {
  readonly type: string;
  readonly status: string;
  /** RFC 3339 in UTC, when `status` last changed. */
  readonly lastTransitionTime?: string;
  readonly reason?: string;
  readonly message?: string;
}

/** A virtual node, such as a cloud's pod service; no daemon runs there. */
export function isVirtual(node: Node): boolean {
  return node.metadata.labels?.[virtualNodeLabel.key] === virtualNodeLabel.value;
}

/**
 * Whether the labels of a node, or of its NodeImage, name another operating system than Linux, for which there is no
 * daemon.
 */
export function isOfOtherSystem({ metadata: { labels } }: Pick<KubeObject, 'metadata'>): boolean {
  return (labels?.[systemLabel] ?? 'linux') !== 'linux';
}

/** Written by each kubelet. */
const systemLabel = 'kubernetes.io/os';

/** Whether the node gets a NodeImage once it is ready: a daemon can run on it (NI-1). */
export function getsNodeImage(node: Node): boolean {
  return node.metadata.deletionTimestamp === undefined && !isVirtual(node) && !isOfOtherSystem(node);
}

/** Since when the node has been ready; undefined while it is not. */
export function readySince(node: Node): string | undefined {
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status === 'True' ? (ready.lastTransitionTime ?? node.metadata.creationTimestamp) : undefined;
}
