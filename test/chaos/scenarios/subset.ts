// What `npm test` runs of the campaign: the same faults, judged in the same way, on fewer pods and several at a time.

import { auditPosition } from '../audit-record.ts';
import type { Scenario } from '../campaign.ts';
import { cutOff, frozen, killed, startSecond, together, withFlags } from '../faults.ts';
import { atTheMoment, eachStep, someSteps } from '../steps.ts';
import { throughFaults } from './at-each-step.ts';
import { burst } from './burst.ts';
import { deletions } from './deletions.ts';
import { judgeWriters } from './freezes.ts';
import { hostileClients, webhookDown } from './hostile-clients.ts';
import { hostileRequests } from './hostile-requests.ts';
import { everythingOnNodes } from './on-nodes.ts';
import { saysEngineSilent } from './outages.ts';
import { randomFaults } from './random-faults.ts';
import { treatEachStep } from './treatments.ts';
import { witnesses } from './witnesses.ts';

/** The shorter campaign. */
export const subset: readonly Scenario[] = [
  ...witnesses,
  {
    name: 'every role is killed at each step',
    about: 'Temporal is away for longer, and requests say so',
    async run(world, random, report) {
      const undo = await withFlags(world, 'watcher', ['--engine-silent-after=5s']);
      try {
        await throughFaults(world, report, {
          plans: [...eachStep({ forceRecreate: random.chance(0.5) }), ...atTheMoment()],
          faults: [
            { fault: killed(world, 'temporal'), lastsSeconds: 20 },
            { fault: killed(world, 'daemon'), lastsSeconds: 0 },
            { fault: killed(world, 'worker'), lastsSeconds: 0 },
            { fault: killed(world, 'watcher'), lastsSeconds: 0 },
            { fault: killed(world, 'webhook'), lastsSeconds: 0 },
          ],
          meanwhile: async (fleet) => {
            await Promise.all(fleet.subjects.map((subject) => saysEngineSilent(subject)));
          },
          judgementOf: () => ({ deaths: 1 }),
        });
      } finally {
        await undo();
      }
    },
  },
  {
    name: 'what Windlass stands on goes away, and processes freeze',
    about: 'a watcher beyond its lease, daemons beyond their heartbeat, a node cut off, containerd and API server away',
    async run(world, _random, report) {
      const since = auditPosition(world.instance);
      const second = await startSecond(world, 'watcher');
      try {
        await throughFaults(world, report, {
          plans: [...someSteps(), ...atTheMoment()],
          faults: [
            { fault: frozen(world, 'watcher', 'daemon'), lastsSeconds: 38 },
            { fault: together(cutOff(world, 'node-1'), killed(world, 'containerd-node-2')), lastsSeconds: 25 },
            { fault: killed(world, 'apiserver'), lastsSeconds: 20 },
          ],
          judgementOf: () => ({ deaths: 1 }),
        });
      } finally {
        await second.stop();
      }
      await judgeWriters(world, report, since, 1);
    },
  },
  {
    name: 'people terminate, reset and delete in the middle',
    about: 'at each step, on plain and forced requests',
    run: treatEachStep,
  },
  ...deletions.filter(({ name }) => name === 'delete-namespace'),
  {
    name: 'anything fails at any time',
    about: 'requests of any kind, faults at seeded random times',
    run: (world, random, report) => randomFaults(world, random, report, { pods: 8, faults: 6 }),
  },
  {
    name: 'forty requests at once',
    about: 'over eight pods of five containers',
    run: (world, _random, report) => burst(world, report, { pods: 8, containers: 5 }),
  },
  {
    name: 'the work on the nodes goes on when each role dies',
    about: 'pulls, ends of sidecars, ordered starts and probes side by side, each role killed at another step',
    run: everythingOnNodes,
  },
  {
    name: 'hostile requests and clients',
    about: 'five hundred mutants through the API server, and all kinds of clients at the port of the webhook',
    async run(world, random, report) {
      await hostileRequests(world, random, report, { mutants: 500, real: 10 });
      await hostileClients(world, report, 8);
    },
  },
  {
    name: 'without the webhook others are unaffected',
    about: 'and bad requests are refused all the same',
    run: (world, _random, report) => webhookDown(world, report),
  },
];
