// One fault that outlasts every wait, with requests at some of their steps, and a second watcher beside the first.
import type { Scenario } from '../campaign.ts';
import { faultScenario, hurriedFlags, inOrder } from '../fault-plan.ts';
import { cutOff, type Fault, frozen, killed, together } from '../faults.ts';
import { RecreateRequests } from '../subjects/recreate-requests.ts';
import { atTheMoment, someSteps } from '../subjects/recreated-pods.ts';
import type { World } from '../world.ts';

interface LongFault {
  readonly name: string;
  readonly about: string;
  readonly fault: (world: World) => Fault;
  readonly lastsSeconds: number;
  /** How often another watcher has to take over. */
  readonly leaseChanges: number;
}

/** Longer than a lease, than a daemon may be silent in the middle of a step, than a connection is waited for. */
const longFaults: readonly LongFault[] = [
  {
    name: 'long-freeze',
    about: 'watcher and daemons stand still beyond lease and heartbeat',
    fault: (world) => frozen(world, 'watcher', 'daemon'),
    ...{ lastsSeconds: 38, leaseChanges: 1 },
  },
  {
    name: 'long-cut',
    about: 'one node is cut off, and the container runtime of the other is away',
    fault: (world) => together(cutOff(world, 'node-1'), killed(world, 'containerd-node-2')),
    ...{ lastsSeconds: 25, leaseChanges: 0 },
  },
  {
    name: 'long-apiserver',
    about: 'the API server is away',
    fault: (world) => killed(world, 'apiserver'),
    ...{ lastsSeconds: 20, leaseChanges: 0 },
  },
];

const flags = hurriedFlags();

/** One for each fault. */
export const longFaultScenarios: readonly Scenario[] = longFaults.map(
  ({ name, about, fault, lastsSeconds, leaseChanges }) =>
    faultScenario({
      name,
      about,
      setting: { watcherFlags: flags, secondWatcher: { flags, leaseChanges } },
      async plan(world) {
        const plans = [...someSteps(), ...atTheMoment()];
        const requests = await RecreateRequests.prepare(world, { plans, judgementOf: () => ({ deaths: 1 }) });
        return { subjects: [requests], faultAt: inOrder({ fault: fault(world), lastsSeconds }) };
      },
    }),
);
