// Pods that are held at every step of their requests, so that one fault hits all steps at once.
import type { Report } from '../campaign.ts';
import type { Fault } from '../faults.ts';
import { Fleet, type Judgement } from '../fleet.ts';
import type { Subject, SubjectPlan } from '../subject.ts';
import { laps, seconds, type World } from '../world.ts';

/** Faults in the middle of everything. */
export interface AtEachStep {
  readonly plans: readonly SubjectPlan[];
  /** Injected one after the other, each healed before the next. */
  readonly faults: readonly { readonly fault: Fault; readonly lastsSeconds: number }[];
  /** These are let go while the last fault lasts, all others after it. */
  readonly releaseMeanwhile?: (subject: Subject) => boolean;
  /** Done while the first fault lasts. */
  readonly meanwhile?: (fleet: Fleet) => Promise<void>;
  readonly judgementOf?: (subject: Subject) => Judgement;
}

/** Holds a fleet at each step, injects and heals, lets go, and judges. */
export async function throughFaults(world: World, report: Report, options: AtEachStep): Promise<void> {
  const { plans, faults, releaseMeanwhile = () => false, meanwhile, judgementOf } = options;
  const lap = laps();
  const fleet = await Fleet.create(world, plans);
  lap('pods ready');
  await fleet.hold();
  lap('at their steps');
  await fleet.tellWhere();

  const created: Promise<void>[] = [fleet.request('justBefore')];
  for (const [index, { fault, lastsSeconds }] of faults.entries()) {
    world.say(`   ${fault.name}${lastsSeconds > 0 ? `, for ${lastsSeconds} s` : ''}`);
    report.fault(fault.name);
    const isFirst = index === 0;
    const isLast = index === faults.length - 1;
    try {
      await fault.inject();
      if (isFirst) created.push(fleet.request('meanwhile')); // may be refused until the end of the fault
      if (isLast) for (const subject of fleet.subjects) if (releaseMeanwhile(subject)) subject.release();
      await Promise.all([seconds(lastsSeconds), isFirst ? meanwhile?.(fleet) : undefined]);
    } finally {
      await fault.heal();
    }
  }
  lap('faults');
  await Promise.all(created);
  fleet.release();
  await fleet.completed();
  lap('completed');
  await fleet.judge(report, judgementOf);
  // what was right has to stay so
  await fleet.judge(report, judgementOf);
  report.outcome('Completed', fleet.subjects.flatMap(({ plan }) => plan.requests).length);
  lap('judged');
  await fleet.remove();
  lap('removed');
  world.say(`   ${lap.told()}`);
}
