// What `npm test` runs of the campaign: the same faults, judged in the same way, on fewer pods and several at a time.

import { auditPosition } from '../audit-record.ts';
import type { Report, Scenario } from '../campaign.ts';
import { cutOff, type Fault, frozen, killed, startSecond, together } from '../faults.ts';
import type { Random } from '../random.ts';
import { atTheMoment, someSteps } from '../steps.ts';
import type { World } from '../world.ts';
import { throughFaults } from './at-each-step.ts';
import { burst } from './burst.ts';
import { deletions } from './deletions.ts';
import { judgeWriters } from './freezes.ts';
import { hostileClients, webhookDown } from './hostile-clients.ts';
import { hostileRequests } from './hostile-requests.ts';
import { everythingSideBySide, sideBySideFlags } from './side-by-side.ts';
import { treatEachStep } from './treatments.ts';
import { witnesses } from './witnesses.ts';

/** Nothing dies in these: those of people may run at once. */
export const undisturbed: readonly Scenario[] = [
  ...witnesses,
  {
    name: 'people terminate, reset and delete in the middle',
    about: 'at each step, on plain and forced requests',
    run: treatEachStep,
  },
  ...deletions.filter(({ name }) => name === 'delete-namespace'),
  {
    name: 'forty requests at once',
    about: 'over eight pods of five containers',
    run: (world, _random, report) => burst(world, report, { pods: 8, containers: 5 }),
  },
];

/** Judged by how soon requests of others are answered, so it runs beside nothing else. */
export const hostile: Scenario = {
  name: 'hostile requests',
  about: 'five hundred mutants through the API server',
  run: (world, random, report) => hostileRequests(world, random, report, { mutants: 500, real: 10 }),
};

/** Each role dies once. */
export const sideBySide: Scenario = {
  name: 'work of every kind goes on when each role dies',
  about: 'requests at each step, pulls, ends of sidecars, ordered starts, probes and a roll-out side by side',
  run: everythingSideBySide,
};

/** Each needs the cluster for itself, too. */
export const disturbed: readonly Scenario[] = [
  {
    name: 'something is away or stands still for long',
    about: 'one of: processes beyond lease and heartbeat, a node and a container runtime, the API server',
    run: oneLongFault,
  },
  {
    name: 'hostile clients',
    about: 'all kinds of clients at the port of the webhook',
    run: (world, _random, report) => hostileClients(world, report, 8),
  },
  {
    name: 'without the webhook others are unaffected',
    about: 'and bad requests are refused all the same',
    run: (world, _random, report) => webhookDown(world, report),
  },
];

interface LongFault {
  readonly fault: (world: World) => Fault;
  readonly lastsSeconds: number;
  /** Another watcher has to take over. */
  readonly leaseChanges: boolean;
}

/** Longer than a lease, than a daemon may be silent in the middle of a step, than a connection is waited for. */
const longFaults: readonly LongFault[] = [
  { fault: (world) => frozen(world, 'watcher', 'daemon'), lastsSeconds: 38, leaseChanges: true },
  {
    fault: (world) => together(cutOff(world, 'node-1'), killed(world, 'containerd-node-2')),
    lastsSeconds: 25,
    leaseChanges: false,
  },
  { fault: (world) => killed(world, 'apiserver'), lastsSeconds: 20, leaseChanges: false },
];

async function oneLongFault(world: World, random: Random, report: Report): Promise<void> {
  const { fault, lastsSeconds, leaseChanges } = random.pick(longFaults);
  const since = auditPosition(world.instance);
  const second = await startSecond(world, 'watcher', sideBySideFlags);
  try {
    await throughFaults(world, report, {
      plans: [...someSteps(), ...atTheMoment()],
      faults: [{ fault: fault(world), lastsSeconds }],
      judgementOf: () => ({ deaths: 1 }),
    });
  } finally {
    await second.stop();
  }
  await judgeWriters(world, report, since, leaseChanges ? 1 : 0);
}
