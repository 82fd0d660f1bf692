import type { Report, Scenario } from '../campaign.ts';
import { Fleet } from '../fleet.ts';
import type { SubjectPlan } from '../subject.ts';
import type { World } from '../world.ts';

/** Every container of some pods, each by a request of its own, all at once. */
export async function burst(
  world: World,
  report: Report,
  size: { readonly pods: number; readonly containers: number },
): Promise<void> {
  const plans = Array.from({ length: size.pods }, (_, pod) => crowdedPod(`crowd-${pod}`, size.containers));
  const fleet = await Fleet.create(world, plans);
  const startedAtMs = performance.now();
  await Promise.all(fleet.subjects.map((subject) => subject.requestAtOnce()));
  const createdAtMs = performance.now();
  await fleet.completed();
  const completedAtMs = performance.now();
  const count = size.pods * size.containers;
  const took = (toMs: number): string => ((toMs - startedAtMs) / 1000).toFixed(1);
  report.figure(
    `${count} requests over ${size.pods} pods: created in ${took(createdAtMs)} s, all completed after ${took(completedAtMs)} s`,
  );
  await fleet.judge(report);
  await fleet.judge(report);
  report.outcome('Completed', count);
  await fleet.remove();
}

function crowdedPod(name: string, count: number): SubjectPlan {
  const containers = Array.from({ length: count }, (_, index) => ({ name: `c${index}` }));
  return {
    name,
    step: 'all at once',
    hold: { kind: 'none' },
    containers,
    requests: containers.map((container) => ({ name: `${name}-${container.name}`, containers: [container.name] })),
  };
}

/** The crowd. */
export const crowds: readonly Scenario[] = [
  {
    name: 'burst',
    about: '200 requests at once over 20 pods of 10 containers',
    run: (world, _random, report) => burst(world, report, { pods: 20, containers: 10 }),
  },
];
