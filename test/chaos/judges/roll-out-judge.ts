// The verdict about the pods of a CloneSet, from a recorded watch of all of them. Pure, so that the judge can be judged.
import type { FleetMoment } from '../../support/fleet-watch.ts';
import type { Judge } from './judge.ts';

/** What is known about the pods of one CloneSet since it was complete. */
export interface RollOutEvidence {
  readonly subject: string;
  /** What the watch showed, moment after moment. */
  readonly moments: readonly FleetMoment[];
  /** So many pods have to be ready at each of them. */
  readonly leastReady: number;
  /** The pods that there were, by UID, with the restarts of their containers. */
  readonly before: ReadonlyMap<string, Readonly<Record<string, number>>>;
  readonly now: ReadonlyMap<string, PodNow>;
  /** All of them are updated in place, or none. */
  readonly expectsUpdate: boolean;
}

export interface PodNow {
  readonly name: string;
  readonly isUpdated: boolean;
  readonly restarts: Readonly<Record<string, number>>;
}

export const rollOutViolations: Judge<RollOutEvidence> = ({ subject, ...evidence }) =>
  [...budgetViolations(evidence), ...podViolations(evidence)].map((text) => `${subject}: ${text}`);

type Facts = Omit<RollOutEvidence, 'subject'>;

function budgetViolations({ moments, leastReady }: Facts): readonly string[] {
  const fewest = fewestReady(moments);
  const worst = moments.find(({ ready }) => ready === fewest);
  if (worst === undefined || fewest >= leastReady) return [];
  return [`only ${fewest} pods were ready at ${worst.at}, after ${worst.event}`];
}

/** Each pod is the same as before; its containers were restarted once for the update, and else never. */
function podViolations({ before, now, expectsUpdate }: Facts): readonly string[] {
  return [...before].flatMap(([uid, restarts]) => {
    const pod = now.get(uid);
    if (!pod) return [`pod ${uid} is gone`];
    const wrong = Object.entries(pod.restarts)
      .map(([container, count]) => ({ container, more: count - (restarts[container] ?? 0) }))
      .filter(({ more }) => more !== Number(expectsUpdate));
    return [
      ...wrong.map(({ container, more }) => `${pod.name}: ${container} was restarted ${more} times`),
      ...(expectsUpdate && !pod.isUpdated ? [`${pod.name} is not updated`] : []),
    ];
  });
}

export function fewestReady(moments: readonly FleetMoment[]): number {
  return Math.min(...moments.map(({ ready }) => ready));
}
