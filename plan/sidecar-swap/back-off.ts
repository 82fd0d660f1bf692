/**
 * The back-off of the kubelet in swaps. The kubelet keeps one for each container and image for ten minutes after it has
 * restarted the container with that image, so a container that returns to an image within that time waits before it
 * starts, and its pod is not ready meanwhile. The first start of a container counts for nothing.
 */
import type { Pod } from '../../api/core/pod.ts';
import { recordedStarts } from '../sidecar-set/pods.ts';
import type { SwapSlot } from './model.ts';

/** Twice the longest back-off of the kubelet. */
export const backOffKeptMs = 600_000;

/** The most images of one pod that are remembered. */
const mostStarts = 64;

interface ImageStart extends SwapSlot {
  readonly at: string;
}

/** When restarted containers of the pod last began to run images that were replaced since. Unreadable parts are left out. */
function imageStarts(pod: Pod): readonly ImageStart[] {
  return Object.entries(recordedStarts(pod)).flatMap(([container, images]) =>
    Object.entries(images).flatMap(([image, at]) => (Number.isNaN(Date.parse(at)) ? [] : [{ container, image, at }])),
  );
}

/** Until when the kubelet would make one of these containers wait; undefined: each could start now. */
export function backOffUntil(pod: Pod, starting: readonly SwapSlot[], nowMs: number): string | undefined {
  const known = imageStarts(pod);
  const ends = starting.flatMap(({ container, image }) =>
    known
      .filter((start) => start.container === container && start.image === image)
      .map(({ at }) => Date.parse(at) + backOffKeptMs),
  );
  const lastMs = Math.max(0, ...ends);
  return lastMs > nowMs ? new Date(lastMs).toISOString() : undefined;
}

/**
 * The annotation that a write has to carry which replaces the images of these containers: what the kubelet has begun to
 * count, as it reports it. Undefined: there is nothing to remember.
 */
export function imageStartsAfter(pod: Pod, replaced: readonly string[], nowMs: number): string | undefined {
  const known = imageStarts(pod).filter(({ at }) => Date.parse(at) + backOffKeptMs > nowMs);
  const images = new Map(pod.spec.containers.map(({ name, image = '' }) => [name, image]));
  const ran = (pod.status?.containerStatuses ?? []).flatMap(({ name, restartCount, state }): readonly ImageStart[] => {
    const at = state?.running?.startedAt;
    const image = images.get(name) ?? '';
    return replaced.includes(name) && restartCount > 0 && at !== undefined ? [{ container: name, image, at }] : [];
  });
  const kept = [...known, ...ran]
    .toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at))
    .slice(-mostStarts);
  if (kept.length === 0) return undefined;
  const byContainer: Record<string, Record<string, string>> = {};
  for (const { container, image, at } of kept) byContainer[container] = { ...byContainer[container], [image]: at };
  return JSON.stringify(byContainer);
}
