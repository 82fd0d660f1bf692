import type { Report } from '../campaign.ts';
import { Fleet, type Judgement } from '../fleet.ts';
import type { Random } from '../random.ts';
import { eachStep } from '../steps.ts';
import type { Subject } from '../subject.ts';
import { seconds, type World } from '../world.ts';
import { afterDeletion, deletePod, deleteRequests } from './deletions.ts';
import { reset, terminate } from './engine.ts';

/** Something that a person does to one pod's operation. */
interface Treatment {
  readonly name: string;
  readonly apply: (world: World, subject: Subject, random: Random) => Promise<unknown>;
  readonly judgementOf: (subject: Subject) => Judgement;
}

const treatments: readonly Treatment[] = [
  { name: 'workflow terminate', apply: terminate, judgementOf: () => ({}) },
  {
    name: 'workflow reset to any point',
    apply: (world, subject, random) => reset(world, subject, 'any', random),
    judgementOf: () => ({}),
  },
  { name: 'requests deleted', apply: deleteRequests, judgementOf: afterDeletion.ofRequests },
  { name: 'pod deleted', apply: deletePod, judgementOf: afterDeletion.ofPod },
];

/**
 * Each step under two treatments, which chance chooses; with forced stops, too. The watcher has to look at everything every
 * few seconds.
 */
export async function treatEachStep(world: World, random: Random, report: Report): Promise<void> {
  const first = random.between(0, treatments.length - 1);
  const chosen = new Map<string, Treatment>();
  const plans = [false, true].flatMap((forceRecreate) =>
    eachStep({ forceRecreate }).map((plan, index) => {
      const treatment = treatments[(first + index * 3 + (forceRecreate ? 1 : 0)) % treatments.length];
      if (!treatment) throw new Error('there is no such treatment');
      const suffix = forceRecreate ? '-forced' : '';
      const name = `${plan.name}${suffix}`;
      chosen.set(name, treatment);
      const requests = plan.requests.map((request) => ({ ...request, name: `${request.name}${suffix}` }));
      return { ...plan, name, requests, step: `${plan.step}${forceRecreate ? ', forced' : ''}: ${treatment.name}` };
    }),
  );
  const fleet = await Fleet.create(world, plans);
  await fleet.hold();
  await fleet.tellWhere();
  const treatmentOf = ({ plan }: Subject): Treatment | undefined => chosen.get(plan.name);
  await Promise.all(
    fleet.subjects.map(async (subject) => {
      const treatment = treatmentOf(subject);
      report.fault(treatment?.name ?? 'nothing');
      await treatment?.apply(world, subject, random);
    }),
  );
  await seconds(random.between(2, 6));
  fleet.release();
  await fleet.completed();
  const judgementOf = (subject: Subject): Judgement => treatmentOf(subject)?.judgementOf(subject) ?? {};
  await fleet.judge(report, judgementOf);
  await fleet.judge(report, judgementOf);
  report.outcome('as it should be', fleet.subjects.flatMap(({ plan }) => plan.requests).length);
  await fleet.remove();
}
