// What the running pods of a SidecarSet are to become: its present content, or during an undo a stored one.

import type { Json } from '../../api/base/json.ts';
import { type DiffOperation, diffJson, formatPath } from '../../api/base/json-diff.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type ContentHashes, hashInput } from '../../api/sidecar-set/hash.ts';
import { type ChosenContent, currentContent } from '../../api/sidecar-set/injection/choose.ts';
import type { SidecarContent, SidecarSet, SidecarSetSpec } from '../../api/sidecar-set/types.ts';
import { type NamedSidecars, recordedHash } from './pods.ts';

export type SidecarUpdateStrategy = NonNullable<SidecarSetSpec['updateStrategy']>;

/** What the running pods of a SidecarSet are to become. */
export interface SidecarTarget {
  /** The name of the SidecarSet. */
  readonly setName: string;
  readonly strategy: SidecarUpdateStrategy;
  readonly content: SidecarContent;
  readonly hashes: ContentHashes;
  /** The ControllerRevision of the content, which pods are marked with; empty: none is known. */
  readonly revision: string;
  /** The resourceVersion of the SidecarSet: the version that hot-upgrade sidecars get (SHU-35). */
  readonly version: string;
  /**
   * The hash of the content that an undo takes back: pods with another hash are at their goal, whichever it is. Absent:
   * this is no undo, and pods with the hash of the content are.
   */
  readonly takenBack?: string;
}

/** The present content. `revision` is the name of its ControllerRevision, which the status may not show yet. */
export function targetOfSpec(set: SidecarSet, revision: string): SidecarTarget {
  return targetOf(set, { ...currentContent(set), revision });
}

/** An undo: pods with the present content get the one of a stored revision. */
export function targetOfUndo(set: SidecarSet, stored: ChosenContent): SidecarTarget {
  return { ...targetOf(set, stored), takenBack: currentContent(set).hashes.whole };
}

function targetOf({ metadata, spec }: SidecarSet, { content, hashes, revision }: ChosenContent): SidecarTarget {
  return {
    setName: metadata.name,
    strategy: spec.updateStrategy ?? {},
    content,
    hashes,
    revision,
    version: metadata.resourceVersion,
  };
}

/** The sidecars of a target, as functions about pods take them. */
export function sidecarsOf({ setName, content }: Pick<SidecarTarget, 'setName' | 'content'>): NamedSidecars {
  return { metadata: { name: setName }, spec: content };
}

/** Whether the pod needs no update: it has the content of the target, or none that an undo takes back. */
export function isAtGoal({ setName, hashes, takenBack }: SidecarTarget, pod: Pod): boolean {
  const hash = recordedHash(pod, setName);
  return takenBack === undefined ? hash === hashes.whole : hash !== takenBack;
}

/**
 * The path of the first field because of which running pods cannot go from one content to the other, such as
 * `spec.containers[0].env[1].value`; undefined: only images of containers differ. An undo with such a field is refused.
 */
export function firstImmutableDifference(from: SidecarContent, to: SidecarContent): string | undefined {
  const [first] = [...differences(from, to, { images: false }), ...nativeImages(from, to)];
  return first && formatPath(['spec', ...first.path]);
}

/** Images of native sidecars, which no running pod can change (SCS-220). */
function nativeImages(from: SidecarContent, to: SidecarContent): readonly DiffOperation[] {
  return differences(from, to, { images: true }).filter(({ path: [list] }) => list === 'initContainers');
}

/** What differs in the input of the hashes (SCS-117), so that there is a difference whenever the hashes differ. */
function differences(
  from: SidecarContent,
  to: SidecarContent,
  options: { readonly images: boolean },
): readonly DiffOperation[] {
  const input = ({ containers, initContainers }: SidecarContent): Json =>
    JSON.parse(hashInput(containers, initContainers, options));
  return diffJson(input(from), input(to));
}
