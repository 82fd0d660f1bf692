// Requests at each of their steps while more than one role fails, or what Windlass stands on.
import { isCompleted } from '../../../api/container-recreate-request/types.ts';
import type { Report, Scenario } from '../campaign.ts';
import { drawnFault, faultScenario, hurriedFlags, inOrder, type PlannedFault } from '../fault-plan.ts';
import { cutOff, daemonsReplaced, type Fault, frozen, killed, together, untilOtherLeads } from '../faults.ts';
import type { Random } from '../random.ts';
import { RecreateRequests } from '../subjects/recreate-requests.ts';
import type { RecreatedPod } from '../subjects/recreated-pod.ts';
import { anyPod, atTheMoment, crowdedPod, eachStep, someOf } from '../subjects/recreated-pods.ts';
import { seconds, untilDone, type World } from '../world.ts';
import { eachOf } from './people.ts';

/** One fault, with requests at each step. */
interface Outage {
  readonly name: string;
  readonly about: string;
  readonly fault: (world: World) => Fault;
  readonly lastsSeconds: number | readonly [least: number, most: number];
  /** The process that runs hooks dies, or loses its hold on them. */
  readonly deaths?: number;
  /** All pods run on this node. */
  readonly node?: string;
  /** With this probability a request goes on while the fault lasts. Absent: a half. */
  readonly letGo?: number;
  readonly forceRecreate?: true;
}

const outages: readonly Outage[] = [
  {
    name: 'kill-all',
    about: 'kill -9 of all five roles at the same moment, of forced requests at each step',
    fault: (world) => killed(world, 'worker', 'daemon', 'watcher', 'webhook', 'temporal'),
    ...{ lastsSeconds: [0, 4], deaths: 1, letGo: 0, forceRecreate: true },
  },
  {
    name: 'freeze-daemon-second',
    about: 'others take over from frozen daemons, which then wake up beside them',
    fault: daemonsReplaced,
    // the second one runs the hook again, because it cannot know of the first
    ...{ lastsSeconds: 50, deaths: 1, letGo: 0.7 },
  },
  {
    name: 'containerd-away',
    about: 'the container runtime of both nodes dead for 20 s',
    fault: (world) => killed(world, 'containerd'),
    ...{ lastsSeconds: 20, deaths: 1 },
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
    ...{ lastsSeconds: 30, node: 'node-1' },
  },
];

function outageScenario({ name, about, fault, lastsSeconds, node, ...outage }: Outage): Scenario {
  const { deaths = 0, letGo = 0.5, forceRecreate = false } = outage;
  return faultScenario({
    name,
    about,
    async plan(world, random) {
      const plans = [...eachStep({ forceRecreate }), ...atTheMoment({ forceRecreate })].map((plan) => ({
        ...plan,
        ...(node !== undefined && { node }),
      }));
      const requests = await RecreateRequests.prepare(world, {
        ...{ plans, letGo: someOf(plans, random, letGo), judgementOf: () => ({ deaths }) },
      });
      const lasts = typeof lastsSeconds === 'number' ? lastsSeconds : random.within(...lastsSeconds);
      return { subjects: [requests], faultAt: inOrder({ fault: fault(world), lastsSeconds: lasts }) };
    },
  });
}

/** Faults of which something else is expected than that everything goes on afterwards. */
const silences: readonly Scenario[] = [
  faultScenario({
    name: 'freeze-daemon-long',
    about: 'SIGSTOP of the daemons for longer than a node may be silent: what has begun goes on, nothing begins',
    async plan(world, random) {
      const plans = [...eachStep(), ...atTheMoment().filter(({ requested }) => requested === 'meanwhile')];
      const isNew = ({ plan }: RecreatedPod): boolean => plan.requested === 'meanwhile';
      // what the node has answered once waits for it; what it has never answered ends (CRR-12)
      const requests = await RecreateRequests.prepare(world, {
        ...{ plans, letGo: someOf(plans, random) },
        judgementOf: (pod) => (isNew(pod) ? { nodeSilent: true, expected: neverAny(pod) } : {}),
      });
      const until = async (): Promise<void> => {
        await untilDone('the new request to end', async () => {
          const [request] = (await Promise.all(requests.pods.filter(isNew).map((pod) => pod.requestsNow()))).flat();
          if (!request || !isCompleted(request)) throw new Error(JSON.stringify(request?.status ?? 'nothing'));
        });
      };
      return {
        subjects: [requests],
        faultAt: inOrder({ fault: frozen(world, 'daemon'), lastsSeconds: 70, until }),
      };
    },
  }),
  faultScenario({
    name: 'temporal-away',
    about: 'Temporal dead for 60 s; requests that are created meanwhile say EngineSilent and run afterwards',
    setting: { watcherFlags: ['--engine-silent-after=10s'] },
    async plan(world, random, report) {
      const plans = [...eachStep(), ...atTheMoment()];
      const requests = await RecreateRequests.prepare(world, { plans, letGo: someOf(plans, random) });
      const until = (): Promise<void> => requests.say('EngineSilent', report, { every: true });
      return {
        subjects: [requests],
        faultAt: inOrder({ fault: killed(world, 'temporal'), lastsSeconds: 60, until }),
      };
    },
  }),
  faultScenario({
    name: 'temporal-away-first-look',
    about: 'Temporal dead for the minute in which nodes had to answer for the first time: that is no silence of theirs',
    plan: awayAtTheFirstLook,
  }),
];

function neverAny({ plan }: RecreatedPod) {
  return eachOf(
    plan.containers.map(({ name }) => name),
    'never',
  );
}

/** The daemons are down when the first question comes; when they are back, Temporal is not. */
async function awayAtTheFirstLook(world: World, _random: Random, report: Report) {
  const plans = atTheMoment().filter(({ requested }) => requested === 'meanwhile');
  const requests = await RecreateRequests.prepare(world, { plans });
  const [daemon, temporal] = [killed(world, 'daemon'), killed(world, 'temporal')];
  const until = async (): Promise<void> => {
    await untilDone('the nodes to be asked', async () => {
      const events = await Promise.all(requests.pods.map(({ operation }) => world.lastEvent(operation)));
      if (!events.every((event) => event.includes('activity_task_scheduled'))) throw new Error(events.join());
    });
    report.fault(temporal.name);
    await temporal.inject();
    daemon.heal().catch(() => undefined); // they are not ready before they are connected
    await seconds(61);
  };
  const fault = { ...together(temporal, daemon), name: daemon.name, inject: daemon.inject };
  return { subjects: [requests], faultAt: inOrder({ fault, lastsSeconds: 0, until }) };
}

const twoWatchers = faultScenario({
  name: 'two-watchers',
  about: 'two watchers take the lease from each other, again and again, frozen or killed',
  setting: { secondWatcher: { flags: hurriedFlags(), leaseChanges: 3 } },
  async plan(world, random) {
    const rounds = Array.from({ length: 6 }, (_, index): PlannedFault => {
      const part = index % 2 === 0 ? 'watcher' : 'second-watcher';
      const fault = (random.chance(0.6) ? frozen : killed)(world, part);
      return { fault: untilOtherLeads(world, fault), lastsSeconds: random.between(0, 3) };
    });
    const plans = [...eachStep({ forceRecreate: true }), ...atTheMoment()];
    const requests = await RecreateRequests.prepare(world, { plans, steps: rounds.length });
    return { subjects: [requests], faultAt: inOrder(...rounds) };
  },
});

const anyTime = faultScenario({
  name: 'random-faults',
  about: 'requests of any kind at seeded random times, 25 faults at seeded random times',
  async plan(world, random) {
    const faults = Array.from({ length: 25 }, () => drawnFault(world, random));
    const deaths = faults.filter(({ isDeath }) => isDeath).length;
    const requests = await RecreateRequests.prepare(world, {
      plans: Array.from({ length: 16 }, (_, index) => anyPod(`pod-${index}`, random.fork(`pod ${index}`))),
      created: { random: random.fork('times'), withinSeconds: faults.length * 5 },
      steps: faults.length,
      judgementOf: () => ({ deaths }),
    });
    return { subjects: [requests], faultAt: inOrder(...faults) };
  },
});

/** Every container of some pods, each by a request of its own, all at once. */
function burst(name: string, size: { readonly pods: number; readonly containers: number }): Scenario {
  return faultScenario({
    name,
    about: `${size.pods * size.containers} requests at once over ${size.pods} pods of ${size.containers} containers`,
    plan: async (world) => ({
      subjects: [
        await RecreateRequests.prepare(world, {
          plans: Array.from({ length: size.pods }, (_, pod) => crowdedPod(`crowd-${pod}`, size.containers)),
          created: 'atOnce',
        }),
      ],
      faultAt: () => undefined,
    }),
  });
}

export const fortyRequests = burst('burst-of-forty', { pods: 8, containers: 5 });

/** What requests go through beside the failure of each single role. */
export const requestScenarios: readonly Scenario[] = [
  ...outages.map(outageScenario),
  ...silences,
  twoWatchers,
  anyTime,
  burst('burst', { pods: 20, containers: 10 }),
];
