// People terminate and reset the workflows of each type at each step of the work, and pause, reset, fail and complete
// their activities; no process dies.
import { type OperationType, operationTypes, type PerOperation } from '../../../api/operations.ts';
import type { Scenario } from '../campaign.ts';
import type { SubjectKind } from '../chaos-subject.ts';
import { faultScenario, hurriedFlags, shuffled } from '../fault-plan.ts';
import { inTurn } from '../faults.ts';
import { imagePulls } from '../subjects/image-pulls.ts';
import { jobPods } from '../subjects/job-pods.ts';
import { recreateRequests } from '../subjects/recreate-requests.ts';
import { rollOuts } from '../subjects/roll-outs.ts';
import { sidecarSwaps } from '../subjects/sidecar-swaps.ts';
import { allTreatments, treated } from '../treatments.ts';

/** The work that has operations of a type. */
const work: PerOperation<SubjectKind | 'none'> = {
  restartContainers: recreateRequests,
  rollOut: rollOuts,
  pullImages: imagePulls,
  pullOnNodes: imagePulls,
  terminateSidecars: jobPods,
  swapSidecar: sidecarSwaps,
};

/** So many steps with two treatments each: every treatment comes at two steps or more. */
const steps = 7;

function byHandScenario(type: OperationType, kind: SubjectKind): Scenario {
  return faultScenario({
    name: `by-hand-${type}`,
    about: `workflows terminated and reset, activities paused, reset, failed and completed: ${type} of ${kind.about}`,
    // what was terminated is started again by the next full pass
    setting: { watcherFlags: hurriedFlags(kind) },
    async plan(world, random) {
      const prepared = { deaths: 0, random: random.fork(kind.name) };
      const subject = (await kind.prepareBeside?.(world, prepared, steps)) ?? (await kind.prepare(world, prepared));
      const rounds = [shuffled(allTreatments(random), random), shuffled(allTreatments(random), random)];
      const of = (): readonly string[] => subject.workflows()[type] ?? [];
      const faults = Array.from({ length: steps }, (_, step) => {
        const treatments = rounds.flatMap((round) => round[step % round.length] ?? []);
        return inTurn(...treatments.map((treatment) => treated(world, of, treatment)));
      });
      return {
        subjects: [subject],
        faults: steps,
        faultAt: (step) => faults[step] && { fault: faults[step], lastsSeconds: random.within(1, 5) },
      };
    },
  });
}

/** One scenario for each workflow type. */
export const byHand: readonly Scenario[] = operationTypes.flatMap((type) => {
  const kind = work[type];
  return kind === 'none' ? [] : [byHandScenario(type, kind)];
});
