import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { type StatefulSet, statefulSets } from '../../api/stateful-set/types.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import type { Cluster } from '../support/cluster.ts';
import { describeTogether } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { container, Fleet, images, restartsOf, startedAt } from './fleet.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { VolumeDriver } from './volume-driver.ts';

let local: LocalCluster;
let cluster: Cluster;
const drivers: VolumeDriver[] = [];

beforeAll(async () => {
  local = await localCluster();
  ({ cluster } = local);
});

afterAll(async () => {
  await Promise.all(drivers.map((driver) => driver.stop()));
  await local?.close();
});

async function aDriver(options: Parameters<typeof VolumeDriver.start>[1] = {}): Promise<VolumeDriver> {
  const driver = await VolumeDriver.start(cluster.kube, options);
  drivers.push(driver);
  return driver;
}

const claimsOf = (storageClassName: string, storage: string) => ({
  volumeClaimTemplates: [
    {
      metadata: { name: 'data' },
      spec: { accessModes: ['ReadWriteOnce'], storageClassName, resources: { requests: { storage } } },
    },
  ],
});

/** Three pods with a volume of 1Mi each, that follow their template. */
function fleetOf(driver: VolumeDriver, rollingUpdate: JsonObject = {}): Promise<Fleet<StatefulSet>> {
  return Fleet.create<StatefulSet>(
    { cluster, temporal: local.temporal },
    {
      ...{ resource: statefulSets, rollingUpdate },
      containers: [container('app', { volumeMounts: [{ name: 'data', mountPath: '/data' }] })],
      podSpec: { readinessGates: [{ conditionType: inPlaceReadinessGate }] },
      spec: {
        ...claimsOf(driver.className, '1Mi'),
        ...{ podManagementPolicy: 'Parallel', volumeClaimUpdateStrategy: { type: 'OnPodRollingUpdate' } },
      },
    },
  );
}

async function claimIn({ namespace }: Fleet<StatefulSet>, name: string): Promise<VolumeClaim> {
  return await cluster.kube.get(kubeResource.persistentVolumeClaims, { namespace, name });
}

const uidsOf = (fleet: Fleet<StatefulSet>) =>
  Object.fromEntries([...fleet.pods()].map(([name, { metadata }]) => [name, metadata.uid]));

const compatible = (pods: number) => ({
  volumeClaimName: 'data',
  compatibleReplicas: pods,
  compatibleReadyReplicas: pods,
});

async function untilGrown(fleet: Fleet<StatefulSet>): Promise<void> {
  await fleet.until('all PVCs to have the size of their template', ({ status }) => {
    const [data] = status?.volumeClaims ?? [];
    return data?.compatibleReadyReplicas === 3;
  });
}

const inOrder = ['data-web-2', 'data-web-1', 'data-web-0'];

describeTogether('the volumes of a StatefulSet', () => {
  it.concurrent('AS-91, AS-92, AS-94: grow with their template, one after the other, and no pod is restarted', async () => {
    const driver = await aDriver();
    const fleet = await fleetOf(driver);
    const before = uidsOf(fleet);
    await fleet.patch({ spec: claimsOf(driver.className, '2Mi') });
    await untilGrown(fleet);
    expect(driver.expansions.map(({ claim }) => claim)).toEqual(inOrder);
    expect(uidsOf(fleet)).toEqual(before);
    expect([...fleet.pods().values()].map((pod) => restartsOf(pod, 'app'))).toEqual([0, 0, 0]);
    fleet.neverFewerReady(3);
    const { metadata, spec } = await claimIn(fleet, 'data-web-2');
    expect(metadata.annotations).toMatchObject({ 'apps.kruise.io/owned-by-asts': 'web' });
    expect(spec?.resources?.requests).toEqual({ storage: '2Mi' });
    await fleet.eventSays('SuccessfulResize', /^resize Claim data-web-2 Pod web-2 in StatefulSet web success$/);
    const { status } = await fleet.until('nothing to be waited for', (set) => set.status?.waitingFor === undefined);
    expect(status?.volumeClaims).toEqual([compatible(3)]);
    expect((await fleet.operation.describe()).status.name).toBe('COMPLETED');
  });

  it.concurrent('AS-93, AS-82: a pod is recreated when its volume has grown, on the same PVC', async () => {
    const driver = await aDriver();
    const fleet = await fleetOf(driver, { podUpdatePolicy: 'ReCreate' });
    const uidOf = async (name: string) => (await claimIn(fleet, name)).metadata.uid;
    const before = await Promise.all(inOrder.map(uidOf));
    await fleet.update(images.new, claimsOf(driver.className, '2Mi'));
    await fleet.untilUpdated(3);
    await untilGrown(fleet);
    expect(driver.expansions.map(({ claim }) => claim)).toEqual(inOrder);
    for (const { claim, atMs } of driver.expansions) {
      // times of containers are whole seconds
      expect(startedAt(fleet.pod(claim.slice('data-'.length)), 'app') + 999).toBeGreaterThanOrEqual(atMs);
    }
    expect(await Promise.all(inOrder.map(uidOf))).toEqual(before);
    fleet.neverFewerReady(2);
  });

  it.concurrent('AS-61, AS-94: one that grows with the next mount says so, and is waited for', async () => {
    const driver = await aDriver({ expandsOnMount: true });
    const fleet = await fleetOf(driver);
    await fleet.patch({ spec: claimsOf(driver.className, '2Mi') });
    const { status } = await fleet.waitsFor('FileSystemResizePending');
    expect(status?.waitingFor).toMatchObject({
      blockedBy: ['pod/web-2'],
      unblock: expect.stringMatching(/Delete the pod.*PVCs: data-web-2/s),
    });
    expect(driver.expansions).toHaveLength(1);
    for (const claim of inOrder) {
      await waitFor(`${claim} to be expanded`, () => driver.expansions.some((one) => one.claim === claim));
      await waitFor('its condition', async () => ((await claimIn(fleet, claim)).status?.conditions ?? []).length > 0);
      await driver.mounted({ namespace: fleet.namespace, name: claim });
    }
    await untilGrown(fleet);
    expect(driver.expansions.map(({ claim }) => claim)).toEqual(inOrder);
  });

  it.concurrent('AS-95, AS-95a: what cannot be done with them is refused, with the path of the field', async () => {
    const driver = await aDriver({ allowVolumeExpansion: false });
    const fleet = await fleetOf(driver);
    const refused = async (spec: JsonObject) => {
      const args = ['patch', 'asts', 'web', '-n', fleet.namespace, '--type=merge', '-p', JSON.stringify({ spec })];
      const { stderr } = await local.kubectl(args);
      return stderr;
    };
    expect(await refused(claimsOf(driver.className, '2Mi'))).toMatch(
      `spec.volumeClaimTemplates[data].spec.resources.requests.storage: Forbidden: storage class ${driver.className} does not support volume expansion`,
    );
    expect(await refused(claimsOf('standard', '1Mi'))).toMatch(
      /spec\.volumeClaimTemplates\[data\]\.spec\.storageClassName: Forbidden/,
    );
    expect(await refused({ volumeClaimTemplates: null })).toMatch(/spec\.volumeClaimTemplates: Forbidden/);
    // AS-95a: the strategy that is stored counts
    await fleet.patch({ spec: { volumeClaimUpdateStrategy: { type: 'OnDelete' } } });
    await fleet.patch({ spec: claimsOf(driver.className, '2Mi') });
    await fleet.until('the template to be compared', ({ status }) =>
      (status?.volumeClaims ?? []).every(({ compatibleReplicas }) => compatibleReplicas === 0),
    );
    expect(driver.expansions).toEqual([]);
  });
});
