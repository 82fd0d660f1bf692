import type { Scenario } from '../campaign.ts';
import { cutOff, type Fault, frozen, killed, withFlags } from '../faults.ts';
import { atTheMoment, eachStep } from '../steps.ts';
import type { Subject } from '../subject.ts';
import { untilDone, type World } from '../world.ts';
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
];

/** The request that is worked on says so; the one behind it says that it waits for that one. */
export async function saysEngineSilent(subject: Subject): Promise<void> {
  await untilDone(
    `${subject.name} to say EngineSilent`,
    async () => {
      const [request] = await subject.requestsNow();
      const waitingFor = request?.status?.waitingFor;
      if (waitingFor?.reason !== 'EngineSilent') throw new Error(JSON.stringify(request?.status ?? 'nothing'));
    },
    50_000,
  );
}
