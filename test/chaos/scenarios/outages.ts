import type { Report, Scenario } from '../campaign.ts';
import { cutOff, type Fault, frozen, killed, withFlags } from '../faults.ts';
import { Fleet } from '../fleet.ts';
import { atTheMoment, eachStep } from '../steps.ts';
import type { Subject } from '../subject.ts';
import { seconds, untilDone, type World } from '../world.ts';
import { throughFaults } from './at-each-step.ts';

interface Outage {
  readonly name: string;
  readonly about: string;
  readonly fault: (world: World) => Fault;
  readonly lastsSeconds: number;
  /** The process that runs hooks dies, or loses its hold on them. */
  readonly deaths?: number;
  /** All pods run on this node. */
  readonly node?: string;
}

const all: readonly Outage[] = [
  {
    name: 'containerd-away',
    about: 'the container runtime of both nodes dead for 20 s',
    fault: (world) => killed(world, 'containerd'),
    lastsSeconds: 20,
    deaths: 1,
  },
  {
    name: 'containerd-frozen',
    about: 'the container runtime of both nodes hanging for 20 s',
    fault: (world) => frozen(world, 'containerd'),
    lastsSeconds: 20,
  },
  {
    name: 'apiserver-away',
    about: 'the API server dead for 20 s',
    fault: (world) => killed(world, 'apiserver'),
    lastsSeconds: 20,
  },
  {
    name: 'apiserver-frozen',
    about: 'the API server hanging for 20 s',
    fault: (world) => frozen(world, 'apiserver'),
    lastsSeconds: 20,
  },
  {
    name: 'network-cut',
    about: 'the network of the node cut for 30 s',
    fault: (world) => cutOff(world, 'node-1'),
    lastsSeconds: 30,
    node: 'node-1',
  },
];

/** What Windlass stands on, away for a while, with requests at each step. */
export const outages: readonly Scenario[] = [
  ...all.map(
    ({ name, about, fault, lastsSeconds, deaths = 0, node }): Scenario => ({
      name,
      about,
      async run(world, random, report) {
        const plans = [...eachStep(), ...atTheMoment()].map((plan) => (node === undefined ? plan : { ...plan, node }));
        const letGo = new Set(plans.filter(() => random.chance(0.5)).map((plan) => plan.name));
        await throughFaults(world, report, {
          plans,
          faults: [{ fault: fault(world), lastsSeconds }],
          releaseMeanwhile: ({ plan }) => letGo.has(plan.name),
          judgementOf: () => ({ deaths }),
        });
      },
    }),
  ),
  {
    name: 'temporal-away',
    about: 'Temporal dead for 60 s; requests that are created meanwhile say EngineSilent and run afterwards',
    async run(world, random, report) {
      const undo = await withFlags(world, 'watcher', ['--engine-silent-after=10s']);
      const plans = [...eachStep(), ...atTheMoment()];
      const letGo = new Set(plans.filter(() => random.chance(0.5)).map(({ name }) => name));
      try {
        await throughFaults(world, report, {
          plans,
          faults: [{ fault: killed(world, 'temporal'), lastsSeconds: 60 }],
          releaseMeanwhile: ({ plan }) => letGo.has(plan.name),
          meanwhile: async (fleet) => {
            await Promise.all(fleet.subjects.map((subject) => saysEngineSilent(subject)));
            report.figure(`${fleet.subjects.length} requests said EngineSilent`);
          },
        });
      } finally {
        await undo();
      }
    },
  },
  {
    name: 'temporal-away-first-look',
    about: 'Temporal dead for the minute in which nodes had to answer for the first time: that is no silence of theirs',
    run: (world, _random, report) => awayAtTheFirstLook(world, report),
  },
];

/** The daemons are down when the first question comes; when they are back, Temporal is not. */
async function awayAtTheFirstLook(world: World, report: Report): Promise<void> {
  const [daemon, temporal] = [killed(world, 'daemon'), killed(world, 'temporal')];
  const fleet = await Fleet.create(
    world,
    atTheMoment().filter(({ requested }) => requested === 'justBefore'),
  );
  let back = Promise.resolve();
  try {
    report.fault(daemon.name);
    await daemon.inject();
    await fleet.request('justBefore');
    await untilDone('the nodes to be asked', async () => {
      const events = await Promise.all(fleet.subjects.map(({ uid }) => world.lastEvent(uid)));
      if (!events.every((event) => event.includes('activity_task_scheduled'))) throw new Error(events.join());
    });
    report.fault(temporal.name);
    await temporal.inject();
    back = daemon.heal(); // they are not ready before they are connected
    await seconds(61);
  } finally {
    await temporal.heal();
    await Promise.all([back, daemon.heal()]);
  }
  await fleet.completed();
  await fleet.judge(report);
  report.outcome('Completed', fleet.subjects.length);
  await fleet.remove();
}

/** The request that is worked on says so; the one behind it says that it waits for that one. */
export async function saysEngineSilent(subject: Subject): Promise<void> {
  await untilDone(
    `${subject.name} to say EngineSilent`,
    async () => {
      const [request] = await subject.requestsNow();
      const waitingFor = request?.status?.waitingFor;
      if (waitingFor?.reason !== 'EngineSilent') throw new Error(JSON.stringify(request?.status ?? 'nothing'));
    },
    150_000,
  );
}
