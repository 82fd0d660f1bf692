import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { daemonSets } from '../../api/daemon-set/types.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import type { Cluster } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import { recorded } from '../support/recorded.ts';
import { waitFor } from '../support/wait.ts';
import type { FleetObject } from './fleet.ts';
import { containersWith, factsOf, Legacy, podsOf, type Recording, revisionsOf } from './left-by-openkruise.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { VolumeDriver } from './volume-driver.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  local = await localCluster();
  ({ cluster } = local);
});

afterAll(async () => {
  await local?.close();
});

function cloneSetAt(moment: string): Recording {
  const created = 'cloneset-1-created-v1beta1';
  const isFirst = moment === '1-created';
  return {
    ...{ resource: cloneSets, moment, created, object: isFirst ? created : `cloneset-${moment}` },
    pods: `cloneset-${moment}-pods`,
    revisions: `cloneset-${isFirst ? moment : '3-updating'}-revisions`,
  };
}

function daemonSetAt(moment: string): Recording {
  const of = `daemonset-${moment}`;
  const created = 'daemonset-1-created-v1beta1';
  return {
    ...{ resource: daemonSets, moment, created, object: `${of}-v1beta1` },
    ...{ pods: `${of}-pods`, revisions: `${of}-revisions` },
  };
}

const statefulSet: Recording = {
  ...{ resource: statefulSets, moment: '1-created' },
  ...{ created: 'statefulset-1-created-v1beta1', object: 'statefulset-1-created-v1beta1' },
  pods: 'statefulset-1-created-pods',
  revisions: 'statefulset-1-created-revisions',
  claims: 'statefulset-1-created-pvcs',
};

const templateIn = (name: string) => recorded<FleetObject>(name).spec.template;

/** What daemons report about the containers of a pod: by name, what each was started from. */
function hashesOf({ metadata }: Pod): unknown {
  const told = JSON.parse(metadata.annotations?.['apps.kruise.io/runtime-containers-meta'] ?? '{"containers":[]}') as {
    readonly containers: readonly { readonly name: string; readonly hashes: unknown }[];
  };
  return Object.fromEntries(told.containers.map(({ name, hashes }) => [name, hashes]));
}

/** Restores them while no watcher runs, and has one find them all. */
async function found<Name extends string>(
  recordings: Readonly<Record<Name, Recording>>,
  storageClassName: string,
): Promise<Readonly<Record<Name, Legacy>>> {
  await local.part.stop('watcher');
  try {
    const entries = await Promise.all(
      Object.entries<Recording>(recordings).map(async ([name, recording]) => {
        const legacy = await Legacy.restore(cluster, recording, storageClassName);
        await legacy.ready();
        return [name, legacy];
      }),
    );
    return Object.fromEntries(entries);
  } finally {
    await local.part.start('watcher');
  }
}

describeAlone('workloads that OpenKruise has left', () => {
  it('are carried on from each moment of a roll-out, with the same hashes, and no pod is disturbed for it', async () => {
    await Promise.all(['1.32', '1.33', '1.34'].map((version) => local.pushBusybox(version)));
    const driver = await VolumeDriver.start(cluster.kube);
    try {
      const { database, agents, halfOfThem, ...cloneSetsThen } = await found(
        {
          ...{ created: cloneSetAt('1-created'), inGrace: cloneSetAt('2-grace-period') },
          ...{ half: cloneSetAt('3-updating'), updated: cloneSetAt('4-updated') },
          ...{ agents: daemonSetAt('1-created'), halfOfThem: daemonSetAt('2-partition-1') },
          database: statefulSet,
        },
        driver.className,
      );
      await Promise.all([carriesOn(cloneSetsThen), goesOnByNodes(agents, halfOfThem), goesOnByName(database)]);
    } finally {
      await driver.stop();
    }
  });
});

async function carriesOn({
  created,
  inGrace,
  half,
  updated,
}: Readonly<Record<'created' | 'inGrace' | 'half' | 'updated', Legacy>>): Promise<void> {
  // work in progress is completed, and nothing is done twice
  await Promise.all(
    [inGrace, half].map(async (legacy) => {
      const { status } = await legacy.until(3);
      expect(status).toMatchObject({ updateRevision: 'web-8b47cf55', currentRevision: 'web-8b47cf55' });
      expect(await legacy.replaced()).toEqual(containersWith(legacy.recording, 'busybox:1.34'));
    }),
  );
  // what was complete is left alone, and continues from there
  await Promise.all(
    [created, updated].map(async (legacy) => {
      await legacy.patch({ spec: { replicas: 4 } });
      const { status } = await legacy.until(4);
      expect(status?.updateRevision).toBe(legacy.updateRevision);
      expect(await legacy.replaced()).toEqual([]);
    }),
  );
  const all = [created, inGrace, half, updated];
  for (const legacy of all) expect(await legacy.revisions()).toEqual(factsOf(revisionsOf(legacy.recording)));

  // and the change from that time is the same change now
  const strategy = { maxUnavailable: '100%', inPlaceUpdateStrategy: { gracePeriodSeconds: 0 } };
  await created.patch({
    spec: { template: templateIn('cloneset-4-updated'), updateStrategy: { rollingUpdate: strategy } },
  });
  await created.until(4);
  expect(await created.replaced()).toEqual(containersWith(created.recording, 'busybox:1.34'));
  expect(await created.revisions()).toEqual(factsOf(revisionsOf(updated.recording)));

  const [wanted] = podsOf(updated.recording).map(hashesOf);
  for (const legacy of all) {
    for (const [name] of await legacy.pods()) {
      await waitFor(`the daemon to tell of ${name}`, async (see) => {
        const pod = (await legacy.pods()).get(name);
        expect(see(pod && hashesOf(pod))).toEqual(wanted);
        return true;
      });
    }
  }
}

/** AD-31, AD-34: the change of that time takes the same pod and leaves the same one; without a partition, that one follows. */
async function goesOnByNodes(created: Legacy, half: Legacy): Promise<void> {
  const { object } = half.recording;
  await created.patch({ spec: { template: templateIn(object) } });
  await created.until(1, 2);
  expect(await created.replaced()).toEqual(['agent-2bglm main']);
  // OpenKruise names it after a hash of its own structure in memory
  const withoutName = (revisions: readonly object[]) => revisions.map((revision) => ({ ...revision, name: '' }));
  expect(withoutName(await created.revisions())).toEqual(withoutName(factsOf(revisionsOf(half.recording))));

  await half.patch({ spec: { updateStrategy: { rollingUpdate: { partition: 0 } } } });
  const { status } = await half.until(2);
  expect(status?.updateRevision).toBe(half.updateRevision);
  expect(await half.replaced()).toEqual(['agent-mjxck main']);
  expect(await half.revisions()).toEqual(factsOf(revisionsOf(half.recording)));
}

/** AS-22: another pod of the same revision joins the others */
async function goesOnByName(created: Legacy): Promise<void> {
  await created.patch({ spec: { replicas: 5 } });
  const { status } = await created.until(5);
  expect(status?.updateRevision).toBe(created.updateRevision);
  expect(await created.replaced()).toEqual([]);
  expect([...(await created.pods()).keys()]).toEqual(['db-0', 'db-2', 'db-3', 'db-4', 'db-5']);
  expect(await created.revisions()).toEqual(factsOf(revisionsOf(created.recording)));
}
