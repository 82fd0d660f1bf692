// What PodProbeMarkers wait for.

import { blockedByLimit, type WaitingFor } from '../engine/waiting-for.ts';

/** Reasons of `status.waitingFor`, with what a person can do. */
export const markerWaits = {
  NodeNotReady: 'Bring the node back: it gets its list of probes once it is ready',
  PortNotFound: 'Name a port of the container, or give a number',
  TooManyProbes: 'Have fewer markers select the pod, or take probes out of them: a pod has at most 64',
  NodeListFull:
    'Make commands and headers shorter, or probe fewer pods: the probes of a node are limited in size, and its namespaces share the limit',
  EngineNoDaemon: 'Bring the daemons of the nodes back; the pods without results are then probed automatically',
} as const;
export type MarkerWaitReason = keyof typeof markerWaits;

/** A wait of a marker; the same wait keeps its start time. */
export function markerWait(
  reason: MarkerWaitReason,
  blockedBy: readonly string[],
  now: string,
  before: WaitingFor | undefined,
  unblock: string = markerWaits[reason],
): WaitingFor {
  return {
    reason,
    blockedBy: blockedBy.slice(0, blockedByLimit),
    blockedCount: blockedBy.length,
    since: before?.reason === reason ? before.since : now,
    unblock,
  };
}
