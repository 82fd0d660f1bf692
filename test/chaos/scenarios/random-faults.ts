import type { Report, Scenario } from '../campaign.ts';
import { cutOff, type Fault, frozen, killed, together } from '../faults.ts';
import { Fleet } from '../fleet.ts';
import type { Random } from '../random.ts';
import type { Hold, SubjectPlan } from '../subject.ts';
import { seconds, type World } from '../world.ts';

/** Requests of any kind, begun and let go at any time, while anything fails at any time. */
export async function randomFaults(
  world: World,
  random: Random,
  report: Report,
  size: { readonly pods: number; readonly faults: number },
): Promise<void> {
  const plans = Array.from({ length: size.pods }, (_, index) => randomPod(`pod-${index}`, random.fork(`pod ${index}`)));
  const fleet = await Fleet.create(world, plans);
  const startedAtMs = performance.now();
  let deaths = 0;

  const requested = fleet.subjects.map(async (subject, index) => {
    const own = random.fork(`times ${index}`);
    await seconds(own.next() * size.faults * 5);
    await subject.request();
    await seconds(own.next() * 20);
    subject.release();
  });
  for (let index = 0; index < size.faults; index += 1) {
    const { fault, lastsSeconds, isDeath } = randomFault(world, random);
    await seconds(random.next() * 5);
    const at = Math.round((performance.now() - startedAtMs) / 1000);
    world.say(`   ${String(at).padStart(4)} s  ${fault.name} for ${lastsSeconds.toFixed(1)} s`);
    report.fault(fault.name);
    if (isDeath) deaths += 1;
    try {
      await fault.inject();
      await seconds(lastsSeconds);
    } finally {
      await fault.heal();
    }
  }
  await Promise.all(requested);
  await fleet.completed();
  const judgement = { deaths };
  await fleet.judge(report, () => judgement);
  await fleet.judge(report, () => judgement);
  report.outcome('Completed', fleet.subjects.flatMap(({ plan }) => plan.requests).length);
  await fleet.remove();
}

function randomPod(name: string, random: Random): SubjectPlan {
  const containers = Array.from({ length: random.between(1, 4) }, (_, index) => `c${index}`);
  const held = random.pick(containers);
  const holds: readonly Hold[] = [
    { kind: 'none' },
    { kind: 'stopping', container: held },
    { kind: 'starting', container: held },
  ];
  const hold = random.pick(holds);
  const isDrained = random.chance(0.3);
  return {
    name,
    step: name,
    hold,
    gate: isDrained,
    containers: containers.map((container) => ({
      name: container,
      ...(container === held && hold.kind === 'stopping' ? { preStop: true } : {}),
      ...(container === held && hold.kind === 'starting' ? { probe: true } : {}),
    })),
    requests: [
      {
        name,
        containers,
        version: random.pick(['v1alpha1', 'v1beta1']),
        strategy: {
          orderedRecreate: random.chance(0.5),
          forceRecreate: random.chance(0.3),
          minStartedSeconds: random.between(0, 3),
          failurePolicy: random.pick(['Fail', 'Ignore']),
          ...(isDrained ? { unreadyGracePeriodSeconds: random.between(0, 4) } : {}),
        },
      },
    ],
  };
}

function randomFault(
  world: World,
  random: Random,
): { readonly fault: Fault; readonly lastsSeconds: number; readonly isDeath: boolean } {
  const roles = ['worker', 'daemon', 'watcher', 'webhook', 'temporal'] as const;
  const choice = random.between(1, 10);
  if (choice <= 5) {
    const role = random.pick(roles);
    return { fault: killed(world, role), lastsSeconds: random.next() * 5, isDeath: role === 'daemon' };
  }
  if (choice <= 7) {
    return { fault: frozen(world, random.pick(roles)), lastsSeconds: 2 + random.next() * 12, isDeath: false };
  }
  if (choice === 8) return { fault: killed(world, 'apiserver'), lastsSeconds: random.next() * 5, isDeath: false };
  if (choice === 9) {
    return { fault: cutOff(world, random.pick(world.nodes)), lastsSeconds: 2 + random.next() * 10, isDeath: false };
  }
  const pair = together(killed(world, 'worker'), killed(world, 'containerd'));
  return { fault: pair, lastsSeconds: random.next() * 5, isDeath: true };
}

/** Any fault at any time. */
export const anyTime: readonly Scenario[] = [
  {
    name: 'random-faults',
    about: 'requests of any kind at seeded random times, 25 faults at seeded random times',
    run: (world, random, report) => randomFaults(world, random, report, { pods: 16, faults: 25 }),
  },
];
