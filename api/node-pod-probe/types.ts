// NodePodProbe: the probes that the daemon of one node runs, and their results.
//
// Each field has one writer.
//
//   the object itself, spec    the watcher, computed from all markers and the pods of the node
//   status                     the daemon of the node, as a whole
import type { EventText } from '../core/event.ts';
import type { KubeObject, Resource } from '../core/meta.ts';
import { group } from '../core/well-known.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

/** The work list and the results of one node; it has the name of the node. */
export interface NodePodProbe extends KubeObject {
  readonly spec: NodePodProbeSpec;
  /** Absent until the daemon has reported something. */
  readonly status?: NodePodProbeStatus;
}

export type NodePodProbeSpec = Parsed<typeof specSchema>;
export type NodePodProbeStatus = Parsed<typeof statusSchema>;
/** One pod of the work list. */
export type PodProbe = NonNullable<NodePodProbeSpec['podProbes']>[number];
/** One probe of one of its containers. */
export type ContainerProbe = NonNullable<PodProbe['probes']>[number];
export type PodProbeStatus = NonNullable<NodePodProbeStatus['podProbeStatuses']>[number];
export type ContainerProbeState = NonNullable<PodProbeStatus['probeStates']>[number];

/** The state of a container. `Unknown`: its present instance has no result yet. */
export type ProbeVerdict = 'Succeeded' | 'Failed' | 'Unknown';

/** The resource. */
export const nodePodProbe = {
  group: group.apps,
  version: 'v1alpha1',
  plural: 'nodepodprobes',
  kind: 'NodePodProbe',
  namespaced: false,
} as const satisfies Resource;

/** The name of a marker's probe in the list of a node. Names of markers and probes never contain the separator. */
export function probeKey(marker: string, probe: string): string {
  return `${marker}#${probe}`;
}

/** Splits the name of a probe in the list of a node; undefined when it has another format. */
export function parseProbeKey(key: string): { readonly marker: string; readonly probe: string } | undefined {
  const at = key.indexOf('#');
  return at <= 0 ? undefined : { marker: key.slice(0, at), probe: key.slice(at + 1) };
}

/** The maximum length of a message in bytes: a pod condition is no log. */
export const longestProbeMessage = 1024;

/**
 * The daemon's Event on the pod when the state of a probe changes (NPP §4); `Unknown` has no reason of its own. The message is the
 * output of the probe, like in OpenKruise; a probe without output is named instead.
 */
export function probeEvent(probe: string, verdict: ProbeVerdict, message: string): EventText {
  return {
    type: 'Normal',
    reason: verdict === 'Succeeded' ? 'KruiseProbeSucceeded' : 'KruiseProbeFailed',
    message: message || `${probe}: ${verdict}, without output`,
  };
}

/** The message for a container that does not run. */
export function notRunningMessage(container: string): string {
  return `Container(${container}) is Non-running`;
}
