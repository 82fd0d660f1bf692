// The verdict about the hot-upgrade sidecar of one pod: from every version of the pod, in order, and from when the container
// runtime saw containers end. Pure, so that the judge can be judged.
import type { Pod } from '../../../api/core/pod.ts';
import type { Judge } from './judge.ts';

/** What is known of one pod since all of its containers were ready. */
export interface SwapEvidence {
  readonly subject: string;
  /** The two containers of the sidecar. */
  readonly pair: readonly [string, string];
  readonly emptyImage: string;
  /** Oldest first. */
  readonly versions: readonly Pod[];
  /** When the runtime saw the main process of this container end. */
  readonly exitsOf: (containerId: string) => readonly string[];
  /** How often each container may be restarted, and has to be. */
  readonly restarts: Readonly<Record<string, number>>;
  /** The test ended both containers itself. */
  readonly endedByTest?: true;
}

export const swapViolations: Judge<SwapEvidence> = ({ subject, ...evidence }) =>
  [
    ...(evidence.endedByTest ? [] : [...withoutServing(evidence), ...withoutOverlap(evidence)]),
    ...emptiedTooEarly(evidence),
    ...wrongRestarts(evidence),
  ].map((text) => `${subject}: ${text}`);

type Facts = Omit<SwapEvidence, 'subject'>;

/** In no version of the pod neither container runs an image that works. */
function withoutServing(facts: Facts): readonly string[] {
  const worst = living(facts).find((pod) => servingIn(pod, facts).length === 0);
  return worst ? [`no container served in version ${worst.metadata.resourceVersion}`] : [];
}

/** When a container with an image that works ended, the other one was already running. */
function withoutOverlap(facts: Facts): readonly string[] {
  const lives = servingLives(facts);
  return lives.flatMap(({ id, container, startedAtMs, endedAtMs }) => {
    if (endedAtMs === Infinity) return [];
    const next = lives.filter((other) => other.container !== container && other.startedAtMs <= endedAtMs);
    // what has never been ready serves nobody: that it ends takes nothing away
    const isCovered = next.some((other) => other.endedAtMs > endedAtMs && other.id !== id);
    const at = new Date(endedAtMs).toISOString();
    return isCovered
      ? []
      : [`${container} ended at ${at}, ${endedAtMs - startedAtMs} ms old, and the other one did not run`];
  });
}

/** The old container gets the empty image only after the kubelet has reported the new one as ready. */
function emptiedTooEarly(facts: Facts): readonly string[] {
  const { pair, emptyImage, versions } = facts;
  return versions.slice(1).flatMap((pod, index) => {
    const before = versions[index];
    return pair.flatMap((container, nth) => {
      const was = before && imageIn(before, container);
      if (was === emptyImage || imageIn(pod, container) !== emptyImage) return [];
      const other = pair[1 - nth] ?? '';
      const isReady = servingIn(pod, facts).some(({ name, ready }) => name === other && ready);
      return isReady
        ? []
        : [`${container} was emptied in version ${pod.metadata.resourceVersion} before ${other} was ready`];
    });
  });
}

function wrongRestarts({ versions, restarts }: Facts): readonly string[] {
  const [first, last] = [versions[0], versions.at(-1)];
  if (!first || !last) return ['no version of the pod was seen'];
  const before = restartsOf(first);
  return Object.entries(restartsOf(last)).flatMap(([container, count]) => {
    const more = count - (before[container] ?? 0);
    const wanted = restarts[container] ?? 0;
    return more === wanted ? [] : [`${container} was restarted ${more} times, not ${wanted}`];
  });
}

/** The life of each container with an image that works. */
function servingLives(facts: Facts) {
  const lives = new Map<string, { id: string; container: string; startedAtMs: number; endedAtMs: number }>();
  for (const pod of facts.versions) {
    for (const { name, containerID = '', state } of servingIn(pod, facts)) {
      const id = containerID.replace(/^.*:\/\//, '');
      const [end] = facts.exitsOf(id);
      const startedAtMs = Date.parse(state?.running?.startedAt ?? '');
      lives.set(id, { id, container: name, startedAtMs, endedAtMs: end === undefined ? Infinity : Date.parse(end) });
    }
  }
  return [...lives.values()];
}

function living({ versions }: Facts): readonly Pod[] {
  return versions.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

function servingIn({ status }: Pod, { pair, emptyImage }: Facts) {
  return (status?.containerStatuses ?? []).filter(
    ({ name, image = '', state }) => pair.includes(name) && state?.running && !image.endsWith(emptyImage),
  );
}

function imageIn({ spec }: Pod, container: string): string | undefined {
  return spec.containers.find(({ name }) => name === container)?.image;
}

export function restartsOf({ status }: Pod): Readonly<Record<string, number>> {
  return Object.fromEntries((status?.containerStatuses ?? []).map(({ name, restartCount }) => [name, restartCount]));
}
