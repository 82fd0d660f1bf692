import { isCompleted } from '../../../api/container-recreate-request/types.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { auditPosition, watcherWrites } from '../audit-record.ts';
import type { Report, Scenario } from '../campaign.ts';
import { type Fault, frozen, killed, startSecond } from '../faults.ts';
import type { Expectation } from '../judge.ts';
import type { Random } from '../random.ts';
import { atTheMoment, eachStep } from '../steps.ts';
import type { Subject } from '../subject.ts';
import { seconds, untilDone, type World } from '../world.ts';
import { throughFaults } from './at-each-step.ts';

/** Processes that stop for longer than anybody waits for them, and then go on. */
export const freezes: readonly Scenario[] = [
  {
    name: 'freeze-daemon',
    about: 'SIGSTOP of the daemons beyond the heartbeat (30 s), then SIGCONT',
    run: (world, random, report) => freezeDaemons(world, report, { lastsSeconds: 45, letGo: () => random.chance(0.5) }),
  },
  {
    name: 'freeze-daemon-long',
    about:
      'SIGSTOP of the daemons for longer than a node may be silent: what has begun goes on afterwards, nothing begins',
    run: (world, random, report) => freezeDaemonsForLong(world, random, report),
  },
  {
    name: 'freeze-daemon-second',
    about: 'others take over from frozen daemons, which then wake up beside them',
    async run(world, random, report) {
      const plans = [...eachStep(), ...atTheMoment()];
      const letGo = new Set(plans.filter(() => random.chance(0.7)).map(({ name }) => name));
      const seconds2 = new Map<string, Awaited<ReturnType<typeof startSecond>>>();
      const freeze = frozen(world, 'daemon');
      const replaced: Fault = {
        name: 'freeze daemon, with a second one',
        async inject() {
          await freeze.inject();
          await Promise.all(
            world.nodes.map(async (node) => seconds2.set(node, await startSecond(world, `daemon-${node}`))),
          );
        },
        heal: freeze.heal,
      };
      try {
        await throughFaults(world, report, {
          plans,
          faults: [{ fault: replaced, lastsSeconds: 50 }],
          releaseMeanwhile: ({ plan }) => letGo.has(plan.name),
          // the second one runs the hook again, because it cannot know of the first
          judgementOf: () => ({ deaths: 1 }),
        });
      } finally {
        await freeze.heal();
        await Promise.all([...seconds2.values()].map((second) => second.stop()));
      }
    },
  },
  {
    name: 'freeze-watcher',
    about: 'SIGSTOP of the leading watcher beyond its lease; another takes over; then SIGCONT',
    async run(world, random, report) {
      const since = auditPosition(world.instance);
      const second = await startSecond(world, 'watcher', ['--full-pass-period=5s']);
      const plans = [...eachStep(), ...atTheMoment()];
      const letGo = new Set(plans.filter(() => random.chance(0.5)).map(({ name }) => name));
      try {
        await throughFaults(world, report, {
          plans,
          faults: [{ fault: frozen(world, 'watcher'), lastsSeconds: 40 }],
          releaseMeanwhile: ({ plan }) => letGo.has(plan.name),
        });
      } finally {
        await second.stop();
      }
      await judgeWriters(world, report, since, 1);
    },
  },
  {
    name: 'two-watchers',
    about: 'two watchers take the lease from each other, again and again, frozen or killed',
    async run(world, random, report) {
      const since = auditPosition(world.instance);
      const flags = ['--full-pass-period=5s'];
      const second = await startSecond(world, 'watcher', flags);
      const rounds = Array.from({ length: 6 }, (_, index) => {
        const part = index % 2 === 0 ? 'watcher' : second.part;
        const fault = random.chance(0.6) ? frozen(world, part) : killed(world, part);
        return { fault: untilOtherLeads(world, fault), lastsSeconds: random.between(0, 3) };
      });
      try {
        await throughFaults(world, report, {
          plans: [...eachStep({ forceRecreate: true }), ...atTheMoment()],
          faults: rounds,
        });
      } finally {
        await second.stop();
      }
      await judgeWriters(world, report, since, 3);
    },
  },
];

async function freezeDaemons(
  world: World,
  report: Report,
  { lastsSeconds, letGo }: { readonly lastsSeconds: number; readonly letGo: () => boolean },
): Promise<void> {
  const plans = [...eachStep(), ...atTheMoment()];
  const released = new Set(plans.filter(letGo).map(({ name }) => name));
  await throughFaults(world, report, {
    plans,
    faults: [{ fault: frozen(world, 'daemon'), lastsSeconds }],
    releaseMeanwhile: ({ plan }) => released.has(plan.name),
  });
}

/** What the node has answered once waits for it; what it has never answered ends (CRR-12). */
async function freezeDaemonsForLong(world: World, random: Random, report: Report): Promise<void> {
  const plans = [...eachStep(), ...atTheMoment().filter(({ requested }) => requested === 'meanwhile')];
  const released = new Set(plans.filter(() => random.chance(0.5)).map(({ name }) => name));
  const isNew = ({ plan }: Subject): boolean => plan.requested === 'meanwhile';
  await throughFaults(world, report, {
    plans,
    faults: [{ fault: frozen(world, 'daemon'), lastsSeconds: 70 }],
    releaseMeanwhile: ({ plan }) => released.has(plan.name),
    meanwhile: async (fleet) => {
      await untilDone('the new request to end', async () => {
        const [request] = (
          await Promise.all(fleet.subjects.filter(isNew).map((subject) => subject.requestsNow()))
        ).flat();
        if (!request || !isCompleted(request)) throw new Error(JSON.stringify(request?.status ?? 'nothing'));
      });
    },
    judgementOf: (subject) => (isNew(subject) ? { nodeSilent: true, expected: neverAny(subject) } : {}),
  });
}

function neverAny({ plan }: Subject): Readonly<Record<string, Expectation>> {
  return Object.fromEntries(plan.containers.map(({ name }): [string, Expectation] => [name, 'never']));
}

/** Lasts until the lease has gone to the other one. */
function untilOtherLeads(world: World, fault: Fault): Fault {
  return {
    ...fault,
    async inject() {
      const before = await holder(world);
      await fault.inject();
      await untilDone('the other watcher to lead', async () => {
        const now = await holder(world);
        // the one that was hit may not have led
        if (now === before && !(await isRenewed(world))) throw new Error(`${now} holds the lease`);
      });
    },
  };
}

interface Lease {
  readonly spec?: { readonly holderIdentity?: string; readonly renewTime?: string };
}

async function lease(world: World): Promise<Lease> {
  const ref = { namespace: 'kruise-system', name: 'windlass-watcher' };
  return (await world.kube.get(kubeResource.leases, ref)) as Lease;
}

async function holder(world: World): Promise<string> {
  return await untilDone(
    'the holder of the lease to be known',
    async () => (await lease(world)).spec?.holderIdentity ?? '',
  );
}

async function isRenewed(world: World): Promise<boolean> {
  const before = (await lease(world)).spec?.renewTime;
  await seconds(4);
  return (await lease(world)).spec?.renewTime !== before;
}

/** Every write was by the one who held the lease at that moment. */
export async function judgeWriters(world: World, report: Report, since: number, leastChanges: number): Promise<void> {
  const { writes, changes, unentitled } = await watcherWrites(world.instance, since);
  report.figure(`the lease changed hands ${changes} times; ${writes} writes, ${unentitled.length} by somebody else`);
  if (changes < leastChanges) report.violation(`the lease changed hands only ${changes} times: nothing was proved`);
  for (const text of unentitled) report.violation(`written without the lease: ${text}`);
}
