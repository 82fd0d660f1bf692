// The verdict about the pods of a workload, from a recorded watch of all of them. Pure, so that the judge can be judged.
import type { FleetMoment } from '../../support/fleet-watch.ts';
import type { Judge } from './judge.ts';

/** What is known about the pods of one workload since it was complete. */
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
  /** Or its place, where pods are recreated. */
  readonly name: string;
  readonly isUpdated: boolean;
  readonly restarts: Readonly<Record<string, number>>;
}

export const rollOutViolations: Judge<RollOutEvidence> = ({ subject, ...evidence }) =>
  [...budgetViolations(evidence), ...podViolations(evidence)].map((text) => `${subject}: ${text}`);

/** What is known besides about pods that are recreated in the place that they have: under their name, or on their node. */
export interface RecreationEvidence extends RollOutEvidence {
  /** The places of the pods that there were. */
  readonly known: ReadonlySet<string>;
  /** How many pods there have been in each place since the workload was complete. */
  readonly places: ReadonlyMap<string, number>;
  /** The UIDs of the PVCs by name. */
  readonly claims: Readonly<Record<'before' | 'now', Readonly<Record<string, string>>>>;
}

/** Each pod was recreated once, and none twice; those that there were have their PVCs. */
export const recreationViolations: Judge<RecreationEvidence> = ({ subject, known, places, claims, ...evidence }) => {
  const { before, now, expectsUpdate } = evidence;
  const pods = [...now.values()].map(({ name }) => name);
  const most = (place: string) => 1 + Number(expectsUpdate && known.has(place));
  return [
    ...budgetViolations(evidence),
    ...[...places].flatMap(([place, count]) =>
      count > most(place) ? [`there were ${count} pods ${place}, and ${most(place)} are to be`] : [],
    ),
    ...[...now].flatMap(([uid, { name, isUpdated }]) => [
      ...(expectsUpdate && !isUpdated ? [`${name} is not updated`] : []),
      ...(expectsUpdate && before.has(uid) ? [`${name} was not recreated`] : []),
    ]),
    ...Object.entries(claims.before).flatMap(([name, uid]) =>
      claims.now[name] === uid ? [] : [`PVC ${name} is ${claims.now[name] ?? 'gone'} and was ${uid}`],
    ),
    ...(new Set(pods).size < pods.length ? [`two pods have one place: ${pods.join()}`] : []),
  ].map((text) => `${subject}: ${text}`);
};

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
