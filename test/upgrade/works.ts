// What is under way when roles are upgraded: work of each type of workflow, which is taken to a step on one version and
// comes to its end on another.

import type { Report } from '../chaos/campaign.ts';
import { Fleet } from '../chaos/fleet.ts';
import { ImagePulls } from '../chaos/image-pulls.ts';
import { JobPods } from '../chaos/job-pods.ts';
import type { Ordeal } from '../chaos/ordeal.ts';
import { PodSet, updateSteps } from '../chaos/pod-set.ts';
import { eachStep } from '../chaos/steps.ts';
import type { World } from '../chaos/world.ts';

/** Work in a namespace of its own, with those who witness it. */
export interface Work {
  /** Where it stands, in words, once it has been taken to this step. */
  at(step: number): string;
  /** Takes it to a step; to its last where it has fewer. */
  reach(step: number): Promise<void>;
  /** Takes it on from this step, and waits until it has come to its end. */
  finish(step: number): Promise<void>;
  /** Reports everything that is not as promised. */
  judge(report: Report): Promise<void>;
  /** Removes it, and waits until nothing of it is left. */
  remove(): Promise<void>;
}

/** So many steps has the work that has most. */
export const mostSteps = updateSteps.length;

const replicas = 6;
const maxUnavailable = 2;

/** One of each, as it is before its first step. A daemon that has begun a stop may be replaced `deaths` times. */
export const works: readonly ((world: World, deaths: number) => Promise<Work>)[] = [
  restarts,
  rollOut,
  async (world) => inSteps(await ImagePulls.create(world)),
  async (world, deaths) => inSteps(await JobPods.create(world, deaths)),
];

/** Requests to restart containers, of which each is held at another step, whichever is asked for. */
async function restarts(world: World, deaths: number): Promise<Work> {
  const fleet = await Fleet.create(world, eachStep());
  return {
    at: () => 'restarts at each step',
    reach: () => fleet.hold(),
    async finish() {
      fleet.release();
      await fleet.completed();
    },
    async judge(report) {
      // what was right has to stay so
      for (let time = 1; time <= 2; time += 1) await fleet.judge(report, () => ({ deaths }));
    },
    remove: () => fleet.remove(),
  };
}

/** An update in place of a CloneSet, by a roll-out. */
async function rollOut(world: World): Promise<Work> {
  const set = await PodSet.create(world, replicas, {
    maxUnavailable,
    inPlaceUpdateStrategy: { gracePeriodSeconds: 2 },
  });
  const stepAt = (step: number) => updateSteps[Math.min(step, updateSteps.length - 1)];
  return {
    at: (step) => `a roll-out: ${stepAt(step)?.name}`,
    async reach(step) {
      await set.update();
      const wanted = stepAt(step);
      if (wanted) await set.reaches(wanted);
    },
    finish: () => set.settled(),
    judge: (report) => set.judge(report, replicas - maxUnavailable, { isUpdated: true }),
    remove: () => set.remove(),
  };
}

function inSteps(ordeal: Ordeal): Work {
  const { steps } = ordeal;
  const last = (step: number): number => Math.min(step, steps.length - 1);
  return {
    at: (step) => steps[last(step)]?.name ?? '',
    async reach(step) {
      for (const [index, { reach, meanwhile }] of steps.slice(0, last(step) + 1).entries()) {
        await reach();
        if (index < last(step)) await meanwhile?.();
      }
    },
    async finish(step) {
      await steps[last(step)]?.meanwhile?.();
      for (const { reach, meanwhile } of steps.slice(last(step) + 1)) {
        await reach();
        await meanwhile?.();
      }
      await ordeal.settled();
    },
    judge: (report) => ordeal.judge(report),
    remove: () => ordeal.remove(),
  };
}
