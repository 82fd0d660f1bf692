import { type PodBatch, type PodOutcome, podsOf } from '../../plan/fleet/batch.ts';
import { BrokenPromise } from './broken-promise.ts';
import { activitiesByHand, failedTasks } from './by-hand.ts';
import { type BatchInHistory, batchesIn } from './history.ts';
import type { RollOuts, TrivialRollOut } from './trivial-roll-outs.ts';

export type FleetActivity = 'fleet.v1.next' | 'fleet.v1.carryOutBatch';

/** What people can do to a roll-out with `temporal`. */
export function byHand({ client, cluster }: Pick<RollOuts, 'client' | 'cluster'>, rollOut: TrivialRollOut) {
  return {
    ...activitiesByHand(client, rollOut.handle),
    /** The names of the pods whose restart to this revision was written, in order. */
    restarted: (revision = 'new') =>
      cluster.writes.flatMap((write) =>
        write.uid === rollOut.uid && write.kind === 'restart' && write.revision === revision ? [write.name] : [],
      ),
  };
}

/** How a roll-out is judged. */
export interface Judgement {
  /** How many runs its workflow has had. */
  readonly runs?: number;
  readonly revision?: string;
  /** Results of activities were made up, so that the history says more than was done. */
  readonly isForged?: boolean;
}

/** What is wrong with a roll-out that has ended, by what has been written to its pods and by the histories of its runs. */
export async function problemsOf(
  rollOuts: Pick<RollOuts, 'client' | 'cluster'>,
  rollOut: TrivialRollOut,
  { runs = 1, revision = 'new', isForged = false }: Judgement = {},
): Promise<readonly string[]> {
  const { cluster } = rollOuts;
  const { maxUnavailable = 0 } = cluster.fleetOf(rollOut.uid) ?? {};
  const writes = cluster.writes.filter(({ uid, kind }) => uid === rollOut.uid && kind === 'restart');
  const most = Math.max(0, ...writes.map(({ unready }) => unready));
  const restarted = byHand(rollOuts, rollOut).restarted(revision);
  const wanted = cluster.pods(rollOut.uid).map(({ name }) => name);
  const histories = await byHand(rollOuts, rollOut).histories(runs);
  if (histories.length > runs) throw new Error(`the workflow has had ${histories.length} runs`);
  if (most > maxUnavailable) throw new BrokenPromise(`${most} pods were not ready at once, not ${maxUnavailable}`);
  return [
    ...differences(`restarted to ${revision}`, wanted, restarted),
    ...histories.flatMap(failedTasks),
    ...(isForged ? [] : historyProblems(histories.map(batchesIn), restarted, revision)),
  ];
}

/**
 * Of each pod a batch says that it was updated, unless no batch of this pod has come to a verdict, or the batch was given
 * back before the pod was available.
 */
function historyProblems(
  runs: readonly (readonly BatchInHistory[])[],
  restarted: readonly string[],
  revision: string,
): readonly string[] {
  const unheard = new Set<string>();
  const named = new Set<string>();
  const updated = new Set<string>();
  const twice: string[] = [];
  for (const batches of runs) {
    const ofRevision = batches.filter(({ input }) => input.batch.revision === revision);
    const inRun = ofRevision.filter(({ isTakenBack }) => !isTakenBack).flatMap(updatedBy);
    twice.push(...inRun.filter((pod, index) => inRun.indexOf(pod) !== index));
    for (const pod of ofRevision.flatMap(updatedBy)) updated.add(pod);
    for (const { input, verdict } of batches) {
      const isHeard = ({ why = '' }: PodOutcome) => !why.startsWith('not available after');
      const heard = new Set(verdict?.pods.filter(isHeard).map(({ pod }) => pod));
      for (const name of namesOf(input.batch)) {
        named.add(name);
        if (!heard.has(name)) unheard.add(name);
      }
    }
  }
  const inDoubt = (name: string) => unheard.has(name) && !updated.has(name);
  return [
    ...twice.map((name) => `one run says twice that ${name} was updated`),
    ...restarted.filter((name) => !named.has(name)).map((name) => `no batch names ${name}, which was restarted`),
    ...differences(
      'updated according to the history',
      restarted.filter((name) => !inDoubt(name)),
      [...updated],
    ),
  ];
}

function updatedBy({ verdict }: BatchInHistory): readonly string[] {
  return (verdict?.pods ?? []).flatMap(({ pod, why }) => (why === undefined ? [pod] : []));
}

function namesOf(batch: PodBatch): readonly string[] {
  return podsOf(batch).map(({ name }) => name);
}

/** What is wanted and not found, and what is found and not wanted, or more than once. */
function differences(what: string, wanted: readonly string[], found: readonly string[]): readonly string[] {
  const times = (name: string) => found.filter((other) => other === name).length;
  return [...new Set([...wanted, ...found])].flatMap((name) => {
    const due = wanted.includes(name) ? 1 : 0;
    return times(name) === due ? [] : [`${name} was ${times(name)} times ${what}, not ${due} times`];
  });
}
