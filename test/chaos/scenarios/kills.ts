import type { Scenario } from '../campaign.ts';
import { killed } from '../faults.ts';
import { atTheMoment, eachStep } from '../steps.ts';
import { throughFaults } from './at-each-step.ts';

const roles = ['worker', 'daemon', 'watcher', 'webhook', 'temporal'] as const;

/** Each role, killed at each step. */
export const kills: readonly Scenario[] = [
  ...roles.map(
    (role): Scenario => ({
      name: `kill-${role}`,
      about: `kill -9 of ${role} with requests at each step`,
      async run(world, random, report) {
        const letGo = new Set(
          eachStep()
            .filter(() => random.chance(0.5))
            .map(({ name }) => name),
        );
        await throughFaults(world, report, {
          plans: [...eachStep(), ...atTheMoment()],
          faults: [{ fault: killed(world, role), lastsSeconds: random.between(0, 4) }],
          releaseMeanwhile: ({ plan }) => letGo.has(plan.name),
          judgementOf: () => ({ deaths: role === 'daemon' ? 1 : 0 }),
        });
      },
    }),
  ),
  {
    name: 'kill-all',
    about: 'kill -9 of all five at the same moment, of forced requests at each step',
    async run(world, random, report) {
      await throughFaults(world, report, {
        plans: [...eachStep({ forceRecreate: true }), ...atTheMoment({ forceRecreate: true })],
        faults: [{ fault: killed(world, ...roles), lastsSeconds: random.between(0, 4) }],
        judgementOf: () => ({ deaths: 1 }),
      });
    },
  },
];
