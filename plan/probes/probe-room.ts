// What of the work list of a node fits into one object. The list and the results of all its probes are one object, which
// the API server takes up to 1.5 MiB of:
//
//   the list, and a result without message for each probe   768 KiB
//   messages                                                384 KiB   (cut by the daemon)
//
// When it is too little for all, namespaces get fair shares of it, and within a namespace its markers do. What is on the
// list comes before what is not, so that nothing changes places.
import { fairShares } from '../../api/base/fair-shares.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { type ContainerProbe, type PodProbe, parseProbeKey } from '../../api/node-pod-probe/types.ts';
import { mostProbesOfPod } from '../../api/pod-probe-marker/limits.ts';
import type { MarkerWaitReason } from '../../api/pod-probe-marker/texts.ts';

/** Bytes of the list of a node, with the results that its probes will have, and without their messages. */
export const listRoom = 768 * 1024;

/** Probes of a pod that are not on the list of its node, and why. */
export interface LeftOut {
  readonly namespace: string;
  readonly pod: string;
  readonly marker: string;
  readonly reason: Extract<MarkerWaitReason, 'NodeListFull' | 'TooManyProbes'>;
}

/** The part of a work list that fits; `present` is the current list. */
export function fittingWork(
  podProbes: readonly PodProbe[],
  present: readonly PodProbe[],
  room: number = listRoom,
): { readonly podProbes: readonly PodProbe[]; readonly leftOut: readonly LeftOut[] } {
  const known = new Set(present.flatMap(({ uid, probes = [] }) => probes.map(({ name }) => `${uid} ${name}`)));
  const entries = podProbes.flatMap((pod) => entriesOf(pod, known));
  const ofPods = groupedBy(entries, ({ pod }) => pod.uid);
  const counted = [...ofPods.values()].flatMap((probes) => presentFirst(probes).slice(0, mostProbesOfPod));
  const fitting = new Set(withinRoom(counted, room));
  const tooMany = [...ofPods.values()].flatMap((probes) => presentFirst(probes).slice(mostProbesOfPod));
  const noRoom = counted.filter((entry) => !fitting.has(entry));
  if (tooMany.length + noRoom.length === 0) return { podProbes, leftOut: [] };
  const kept = [...ofPods.values()].flatMap((probes) => {
    const [first] = probes;
    const left = probes.filter((entry) => fitting.has(entry)).map(({ probe }) => probe);
    return first && left.length > 0 ? [{ ...first.pod, probes: left }] : [];
  });
  const leftOut = [
    ...tooMany.map((entry) => leftOutOf(entry, 'TooManyProbes')),
    ...noRoom.map((entry) => leftOutOf(entry, 'NodeListFull')),
  ];
  return { podProbes: kept, leftOut };
}

/** One probe of one pod. */
interface Entry {
  readonly pod: PodProbe;
  readonly probe: ContainerProbe;
  readonly marker: string;
  readonly isPresent: boolean;
}

function entriesOf(pod: PodProbe, known: ReadonlySet<string>): readonly Entry[] {
  return (pod.probes ?? []).map((probe) => ({
    pod,
    probe,
    marker: parseProbeKey(probe.name)?.marker ?? '',
    isPresent: known.has(`${pod.uid} ${probe.name}`),
  }));
}

function presentFirst(entries: readonly Entry[]): readonly Entry[] {
  return [...entries.filter(({ isPresent }) => isPresent), ...entries.filter(({ isPresent }) => !isPresent)];
}

function withinRoom(entries: readonly Entry[], room: number): readonly Entry[] {
  if (bytesOf(entries) <= room) return entries;
  return divided(entries, room, ({ pod }) => pod.namespace).flatMap(([ofNamespace, share]) =>
    divided(ofNamespace, share, ({ marker }) => marker).flatMap(([ofMarker, room]) => filled(ofMarker, room)),
  );
}

function divided(
  entries: readonly Entry[],
  room: number,
  by: (entry: Entry) => string,
): readonly (readonly [readonly Entry[], number])[] {
  const groups = groupedBy(entries, by);
  const shares = fairShares(new Map([...groups].map(([name, group]) => [name, bytesOf(group)])), room);
  return [...groups].map(([name, group]) => [group, shares.get(name) ?? 0] as const);
}

function filled(entries: readonly Entry[], room: number): readonly Entry[] {
  const pods = new Set<string>();
  let left = room;
  return presentFirst(entries).filter((entry) => {
    const bytes = probeBytes(entry) + (pods.has(entry.pod.uid) ? 0 : podBytes(entry));
    if (bytes > left) return false;
    left -= bytes;
    pods.add(entry.pod.uid);
    return true;
  });
}

/** A pod is counted for each marker, so that the size of one marker does not depend on the others. */
function bytesOf(entries: readonly Entry[]): number {
  const seen = new Set<string>();
  return entries.reduce((sum, entry) => {
    const key = `${entry.pod.uid} ${entry.marker}`;
    const bytes = probeBytes(entry) + (seen.has(key) ? 0 : podBytes(entry));
    seen.add(key);
    return sum + bytes;
  }, 0);
}

/** A result without its name and message: state, two times, the ID of an instance and a hash. */
const resultBytes = 300;

/** The names of fields around a pod, in the list and in the results. */
const fieldBytes = 150;

function probeBytes({ probe }: Entry): number {
  return jsonBytes(probe) + jsonBytes(probe.name) + resultBytes;
}

function podBytes({ pod: { name, namespace, uid } }: Entry): number {
  return 2 * jsonBytes([name, namespace, uid]) + fieldBytes;
}

function leftOutOf({ pod, marker }: Entry, reason: LeftOut['reason']): LeftOut {
  return { namespace: pod.namespace, pod: pod.name, marker, reason };
}

function groupedBy(entries: readonly Entry[], by: (entry: Entry) => string): ReadonlyMap<string, readonly Entry[]> {
  const groups = new Map<string, Entry[]>();
  for (const entry of entries) {
    const group = groups.get(by(entry));
    if (group) group.push(entry);
    else groups.set(by(entry), [entry]);
  }
  return groups;
}
