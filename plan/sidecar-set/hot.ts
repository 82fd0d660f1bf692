// The two containers of hot-upgrade sidecars in a pod: what they are, which of them is updated, and their marks (SHU §4).

import { entryOf, jsonObjectIn } from '../../api/base/json.ts';
import { type GoValue, goJson } from '../../api/base/json-go.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { Annotations } from '../../api/sidecar-set/injection/metadata.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import { textOf } from '../../api/sidecar-set/read.ts';
import { hotPair, isHotUpgrade, type SidecarContainer } from '../../api/sidecar-set/types.ts';
import { consistencyOf, imageOf, nameOf, workingContainers } from './pods.ts';
import type { SidecarTarget } from './target.ts';

/** What of a SidecarSet swaps depend on; a target is one. */
export type SwapTarget = Pick<SidecarTarget, 'setName' | 'content' | 'hashes'>;

/** A hot-upgrade sidecar in a pod. */
export interface HotSidecar {
  readonly name: string;
  /** The image of the spec. */
  readonly image: string;
  readonly emptyImage: string;
  /** The container that the pod names as working. */
  readonly working: string;
  /** The other one. */
  readonly idle: string;
  /**
   * `idle`: no swap. `swapping`: the other container still has a real image. `otherEmptyImage`: it is idle with another
   * empty image than the present one (SHU-68, SHU-69).
   */
  readonly state: 'idle' | 'swapping' | 'otherEmptyImage';
}

/** The hot-upgrade sidecars of a managed pod. */
export function hotSidecars({ content }: Pick<SwapTarget, 'content'>, pod: Pod): readonly HotSidecar[] {
  const hot = (content.containers ?? []).filter(isHotUpgrade);
  if (hot.length === 0) return [];
  const map = workingContainers(pod);
  return hot.map((sidecar): HotSidecar => {
    const name = nameOf(sidecar);
    const [first, second] = hotPair(name);
    const [working, idle] = entryOf(map, name) === first ? [first, second] : [second, first];
    const emptyImage = emptyImageOf(sidecar);
    const image = textOf(sidecar.image);
    const isIdle = versionOf(pod, idle) === '0';
    const state = imageOf(pod, idle) === emptyImage ? 'idle' : isIdle ? 'otherEmptyImage' : 'swapping';
    return { name, image, emptyImage, working, idle, state };
  });
}

function emptyImageOf({ upgradeStrategy }: SidecarContainer): string {
  return upgradeStrategy?.hotUpgradeEmptyImage ?? '';
}

/** What an update does with a hot-upgrade sidecar. */
export type HotChoice =
  /** One of its containers has the wanted image (SHU-31). */
  | { readonly kind: 'keep' }
  /** `target` gets the wanted image, `twin` stays (SHU-32). */
  | { readonly kind: 'upgrade'; readonly target: string; readonly twin: string }
  /** `target` becomes idle, and `twin`, which has the wanted image, works again (SHU-61). */
  | { readonly kind: 'cancel'; readonly target: string; readonly twin: string }
  /** The wanted image is in the container that is to become idle, and the other one has taken over already. */
  | { readonly kind: 'resetFirst'; readonly idle: string };

/** SHU-30, SHU-31, SHU-61. Never both containers. */
export function hotChoice({ setName }: Pick<SwapTarget, 'setName'>, pod: Pod, hot: HotSidecar): HotChoice {
  const { image, emptyImage, working, idle } = hot;
  const areConsistent = consistencyOf(pod, [setName]);
  const isUp = (container: string) =>
    pod.status?.containerStatuses?.find(({ name }) => name === container)?.ready === true &&
    areConsistent((name) => name === container);
  const twinOf = (container: string) => (container === working ? idle : working);

  if (hot.state === 'swapping' && imageOf(pod, working) !== emptyImage && imageOf(pod, idle) === image) {
    if (imageOf(pod, working) === image) return { kind: 'keep' };
    return isUp(working) ? { kind: 'resetFirst', idle } : { kind: 'cancel', target: working, twin: idle };
  }
  const [first, second] = hotPair(hot.name);
  const up = [first, second].filter(isUp);
  const [only] = up;
  const target =
    [first, second].find((container) => imageOf(pod, container) === emptyImage) ??
    (up.length === 1 && only !== undefined ? twinOf(only) : idle);
  const twin = twinOf(target);
  const isThere = [target, twin].some((container) => imageOf(pod, container) === image);
  return isThere ? { kind: 'keep' } : { kind: 'upgrade', target, twin };
}

/** The marks of a pod in which `target` gets a new image (SHU-32). */
export function upgradeMarks(
  pod: Pod,
  { target, twin }: { readonly target: string; readonly twin: string },
  version: string,
): Annotations {
  return {
    [`${hotMark.version}${target}`]: version,
    [`${hotMark.otherVersion}${target}`]: decimalOr(versionOf(pod, twin), '1'),
    [`${hotMark.otherVersion}${twin}`]: version,
  };
}

/** The marks of a pod in which `idle` becomes idle (SHU-41). */
export function idleMarks({ working, idle }: { readonly working: string; readonly idle: string }): Annotations {
  return { [`${hotMark.version}${idle}`]: '0', [`${hotMark.otherVersion}${working}`]: '0' };
}

/** The marks of a pod after a swap that was cancelled: those that it had before it. */
export function cancelMarks(
  pod: Pod,
  { target, twin }: { readonly target: string; readonly twin: string },
): Annotations {
  return {
    ...idleMarks({ working: twin, idle: target }),
    [`${hotMark.otherVersion}${target}`]: decimalOr(versionOf(pod, twin), '1'),
  };
}

/** The map of working containers with these, by sidecar; nothing when there are none. */
export function workingMark(pod: Pod, working: ReadonlyMap<string, string>): Annotations {
  if (working.size === 0) return {};
  // All of them: what is not read here may be somebody else's.
  const map = jsonObjectIn(pod.metadata.annotations?.[hotMark.working]);
  const present = Object.entries(map).filter(([, name]) => typeof name === 'string');
  return { [hotMark.working]: goJson(new Map<string, GoValue>([...present, ...working] as [string, string][])) };
}

/**
 * The version of the update of a sidecar: that of the target, or the next one after those of its two containers, if it is
 * not greater (SHU-35). Undefined: there is none of 64 bits.
 */
export function nextVersion(
  { version }: Pick<SidecarTarget, 'version'>,
  { metadata }: Pod,
  { name }: Pick<HotSidecar, 'name'>,
): string | undefined {
  let last = 1n;
  for (const container of hotPair(name)) {
    for (const prefix of [hotMark.version, hotMark.otherVersion]) {
      const written = numberIn(metadata.annotations?.[`${prefix}${container}`] ?? '') ?? 0n;
      if (written > last) last = written;
    }
  }
  const wanted = numberIn(version) ?? 0n;
  const next = wanted > last ? wanted : last + 1n;
  return next > greatest ? undefined : String(next);
}

const greatest = 2n ** 63n - 1n;

function versionOf({ metadata }: Pod, container: string): string | undefined {
  return metadata.annotations?.[`${hotMark.version}${container}`];
}

function decimalOr(text: string | undefined, other: string): string {
  const number = text === undefined ? undefined : numberIn(text);
  return number === undefined ? other : String(number);
}

function numberIn(text: string): bigint | undefined {
  const number = /^\d{1,19}$/.test(text) ? BigInt(text) : undefined;
  return number === undefined || number > greatest ? undefined : number;
}
