// What is under way when roles are upgraded: work of each type of workflow, which is taken to a step on one version and
// comes to its end on another.

import type { ChaosSubject, Prepared } from '../chaos/chaos-subject.ts';
import { imagePulls } from '../chaos/subjects/image-pulls.ts';
import { jobPods } from '../chaos/subjects/job-pods.ts';
import { RecreateRequests } from '../chaos/subjects/recreate-requests.ts';
import { eachStep } from '../chaos/subjects/recreated-pods.ts';
import { RollOut } from '../chaos/subjects/roll-outs.ts';
import { updateSteps } from '../chaos/subjects/workload-pods.ts';
import type { World } from '../chaos/world.ts';

/** So many steps has the work that has most. */
export const mostSteps = updateSteps.length;

/** One of each, as it is before its first step. A daemon that has begun a stop may be replaced `deaths` times. */
export const works: readonly ((world: World, prepared: Prepared) => Promise<ChaosSubject>)[] = [
  (world, { deaths }) =>
    RecreateRequests.prepare(world, { plans: eachStep(), judgementOf: () => ({ deaths }), outcome: 'as it should be' }),
  (world, { random }) =>
    RollOut.prepare(world, {
      ...{ replicas: 6, maxUnavailable: 2, gracePeriodSeconds: 2 },
      ...{ random, mayBeFurther: true },
    }),
  (world, prepared) => imagePulls.prepare(world, prepared),
  (world, prepared) => jobPods.prepare(world, prepared),
];

/** Where the work stands, in words, once it has been taken to this step. */
export function stepOf({ steps }: ChaosSubject, step: number): string {
  return steps[lastOf(steps, step)]?.name ?? '';
}

/** Takes the work to a step; to its last where it has fewer. */
export async function takeTo({ steps }: ChaosSubject, step: number): Promise<void> {
  const last = lastOf(steps, step);
  for (const [index, { reach, meanwhile }] of steps.slice(0, last + 1).entries()) {
    await reach();
    if (index < last) await meanwhile?.();
  }
}

/** Takes the work on from this step, and waits until it has come to its end. */
export async function finish(work: ChaosSubject, step: number): Promise<void> {
  const last = lastOf(work.steps, step);
  await work.steps[last]?.meanwhile?.();
  for (const { reach, meanwhile } of work.steps.slice(last + 1)) {
    await reach();
    await meanwhile?.();
  }
  await work.settled();
}

function lastOf(steps: ChaosSubject['steps'], step: number): number {
  return Math.min(step, steps.length - 1);
}
