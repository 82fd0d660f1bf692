// The verdict about the order in which the containers of one pod started. Pure, so that the judge can be judged.
import { barrierKey, type LaunchBarrier, launchMark } from '../../../api/container-launch-priority.ts';
import type { Pod } from '../../../api/core/pod.ts';
import type { Judge } from './judge.ts';

/** What is known about one pod that launches its containers in order. */
export interface LaunchEvidence {
  readonly subject: string;
  /** Container names with their priorities. */
  readonly order: Readonly<Record<string, number>>;
  /** Every version of the pod, oldest first. */
  readonly versions: readonly Pod[];
  /** What containers wrote down as they started, in that order. */
  readonly starts: readonly string[];
  /** What they wrote down when they started before one that they are to follow had been let go. */
  readonly early: readonly string[];
  /** As it is now. */
  readonly barrier: LaunchBarrier | undefined;
}

/** Everything that is not as promised, in words. */
export const launchViolations: Judge<LaunchEvidence> = (evidence) => {
  const { subject, order, versions, starts, early } = evidence;
  const last = versions.at(-1);
  const now = last?.status?.containerStatuses ?? [];
  const names = Object.keys(order);
  const found = [
    ...early.map((text) => `started too early: ${text}`),
    ...outOfOrder(order, versions),
    ...names.flatMap((name) => {
      const count = starts.filter((start) => start === name).length;
      return count === 1 ? [] : [`${name} was started ${count} times`];
    }),
    ...names
      .filter((name) => !now.some((status) => status.name === name && status.ready))
      .map((name) => `${name} is not ready`),
    ...(last?.metadata.annotations?.[launchMark.completed] === 'true' ? [] : ['the launch is not marked as completed']),
    ...(last?.metadata.annotations?.[launchMark.status] ? ['the pod still says what its launch waits for'] : []),
    ...barrierViolations(evidence, last),
  ];
  return found.map((text) => `${subject}: ${text}`);
};

/** In no version does one run before a version has shown those of higher priority ready. */
function outOfOrder(order: LaunchEvidence['order'], versions: readonly Pod[]): readonly string[] {
  const ready = new Set<string>();
  const found = new Set<string>();
  for (const { status } of versions) {
    const containers = status?.containerStatuses ?? [];
    for (const container of containers) if (container.ready) ready.add(container.name);
    for (const { name, state } of containers) {
      if (state?.running === undefined) continue;
      for (const [before, priority] of Object.entries(order)) {
        if (priority > (order[name] ?? 0) && !ready.has(before)) found.add(`${name} ran before ${before} was ready`);
      }
    }
  }
  return [...found];
}

function barrierViolations({ order, barrier }: LaunchEvidence, pod: Pod | undefined): readonly string[] {
  if (barrier === undefined) return ['its barrier is gone'];
  const keys = [...new Set(Object.values(order))].map(barrierKey);
  const missing = keys.filter((key) => barrier.data?.[key] !== 'true');
  const isOwned = barrier.metadata.ownerReferences?.some(({ uid }) => uid === pod?.metadata.uid) ?? false;
  return [
    ...missing.map((key) => `its barrier lacks ${key}`),
    ...(isOwned ? [] : ['its barrier belongs to nobody, and would stay']),
  ];
}
