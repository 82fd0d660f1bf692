import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import type { Pod } from '../../api/core/pod.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { containersMetaOf, plainHash } from '../../api/in-place/containers-meta.ts';
import { expectedEnvHash } from '../../api/in-place/env-hash.ts';
import { formatState, parseState } from '../../api/in-place/state.ts';
import { noWork } from '../../api/in-place/work.ts';
import { unfinishedContainers } from '../../plan/fleet/in-place/completion.ts';
import { expectStops } from '../support/expect-stops.ts';
import { describeProof, describeTogether } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster, sample } from './local-cluster.ts';

let cluster: LocalCluster;

beforeAll(async () => {
  cluster = await localCluster();
});

afterAll(async () => {
  await cluster.close();
});

interface Web {
  readonly namespace: string;
  read(): Promise<Pod>;
  /** Through the status, like the controller of the pod. */
  setGate(status: 'True' | 'False'): Promise<void>;
  patch(body: object): Promise<void>;
}

/** The pod of the sample in a namespace of its own, in service and reported on. */
async function pod(change: (manifest: Pod) => object = (manifest) => manifest): Promise<Web> {
  const namespace = await cluster.newNamespace();
  const manifest = change(parse(await sample('pod-environment.yaml')) as Pod);
  await cluster.ok(['apply', '-n', namespace, '-f', '-'], JSON.stringify(manifest));
  const patch = async (body: object, ...more: readonly string[]) =>
    void (await cluster.ok(['patch', 'pod', 'web', '-n', namespace, ...more, '-p', JSON.stringify(body)]));
  const web: Web = {
    namespace,
    read: () => cluster.get<Pod>('pod', namespace, 'web'),
    setGate: (status) =>
      patch({ status: { conditions: [{ type: inPlaceReadinessGate, status }] } }, '--subresource=status'),
    patch,
  };
  await web.setGate('True');
  await cluster.readyPod(namespace, 'web');
  await reported(web);
  return web;
}

/** The pod when the report matches its status. */
async function reported(web: Web): Promise<Pod> {
  return await waitFor('the daemon to report what runs', async (see) => {
    const found = await web.read();
    const ids = (found.status?.containerStatuses ?? []).map(({ name, containerID }) => `${name} ${containerID}`);
    const told = see(containersMetaOf(found) ?? []).filter(({ envHash }) => envHash > 0);
    return ids.join() === told.map(({ name, containerID }) => `${name} ${containerID}`).join() && found;
  });
}

/** Takes the pod out of service and changes it, like a CloneSet: one write with the change and its record. */
async function update(web: Web, tier: string, images: Readonly<Record<string, string>> = {}): Promise<void> {
  await web.setGate('False');
  const now = await web.read();
  const last = (now.status?.containerStatuses ?? []).filter(({ name }) => images[name] !== undefined);
  const state = formatState({
    revision: 'web-2',
    updateTimestamp: '2026-07-01T08:00:00Z',
    ...(last.length > 0 && {
      lastContainerStatuses: Object.fromEntries(last.map(({ name, imageID = '' }) => [name, { imageID }])),
    }),
    updateEnvFromMetadata: true,
    updateResources: false,
    updateImages: last.length > 0,
    next: noWork,
    requiredReady: [],
    batches: [{ timestamp: '2026-07-01T08:00:00Z', containers: ['app', 'proxy'] }],
  });
  const containers = Object.entries(images).map(([name, image]) => ({ name, image }));
  await web.patch({
    metadata: { labels: { tier }, annotations: { [inPlaceAnnotation.state]: state } },
    ...(containers.length > 0 && { spec: { containers } }),
  });
}

/** The pod when its update is complete by the rule of its controller. */
async function completed(web: Web): Promise<Pod> {
  return await waitFor('the containers to be what they are to be', async (see) => {
    const found = await web.read();
    const state = parseState(found.metadata.annotations?.[inPlaceAnnotation.state] ?? '');
    if (!state) throw new Error('the record of the update is gone');
    return see(unfinishedContainers(found, state, { InPlaceWorkloadVerticalScaling: false })) === undefined && found;
  });
}

/** How often each container was started, from the runtime's own list. */
async function startsOf(found: Pod): Promise<Record<string, number>> {
  const starts: Record<string, number> = {};
  for (const { name } of await cluster.containersOf(found)) starts[name] = (starts[name] ?? 0) + 1;
  return starts;
}

/** Waits until the present instance of a container has logged this: it runs a moment before it has. */
async function logs({ namespace }: Web, name: string, text: string): Promise<void> {
  await waitFor(`${name} to write ${text}`, async (see) => {
    return see(await cluster.ok(['logs', 'web', '-c', name, '-n', namespace])) === text;
  });
}

/** The containers that the daemon says it has stopped for their environment. */
async function stopsSaid({ namespace }: Web): Promise<readonly string[]> {
  const events = await cluster.ok(['get', 'events', '-n', namespace, '--field-selector=reason=Killing', '-o', 'json']);
  const { items } = JSON.parse(events) as { items: { message: string; source: { component?: string } }[] };
  return items
    .filter(({ source }) => source.component === 'kruise-daemon-containermeta')
    .map(
      ({ message }) =>
        /^Stopping containerID containerd:\/\/(.+) by container meta restarter$/.exec(message)?.[1] ?? message,
    );
}

describeTogether('the report of the daemon', () => {
  it.concurrent('ND-24, IPU-47: says of each container which instance runs, from which image and environment', async () => {
    const web = await pod();
    const found = await reported(web);
    const expected = found.spec.containers.map((container) => ({
      name: container.name,
      restartCount: 0,
      plainHash: plainHash(container),
      envHash: expectedEnvHash(container, found.metadata),
    }));
    // in the order of the status, which is the kubelet's own
    const told = containersMetaOf(found) ?? [];
    expect(told.toSorted((a, b) => a.name.localeCompare(b.name))).toMatchObject(
      expected.toSorted((a, b) => a.name.localeCompare(b.name)),
    );
  });
});

describeTogether('an update of labels that containers have in their environment', () => {
  it.concurrent('ND-27, ND-29, IPU-48: restarts each of them once, by whom it concerns, and no other', async () => {
    const web = await pod();
    const before = await web.read();
    // while in service, nothing follows a label; back again, because ND-27 counts as soon as the pod is out of service
    await web.patch({ metadata: { labels: { tier: 'bronze' } } });
    await web.patch({ metadata: { labels: { tier: 'silver' } } });
    await update(web, 'gold', { proxy: 'busybox:1.36' });
    const after = await completed(web);

    await waitFor('the Event', async (see) => see(await stopsSaid(web)).length > 0);
    // the other one was replaced by the kubelet, because of its image
    expectStops(await stopsSaid(web), ['app']);
    expect(await startsOf(after)).toEqual({ app: 2, proxy: 2, logger: 1 });
    expect(after.metadata.uid).toBe(before.metadata.uid);
    await logs(web, 'app', 'app is gold\n');
    await logs(web, 'proxy', 'proxy is gold\n');
    await web.setGate('True');
    await cluster.readyPod(web.namespace, 'web');
  });
});

describeProof('slow', 'an update of labels that containers have in their environment', () => {
  it('IPU-48: is not kept from it by the death of any process, and restarts nothing twice', async () => {
    const web = await pod((manifest) => ({
      ...manifest,
      spec: {
        ...manifest.spec,
        containers: manifest.spec.containers.map((container) =>
          container.name === 'app'
            ? { ...container, lifecycle: { preStop: { exec: { command: ['sleep', '2'] } } } }
            : container,
        ),
      },
    }));
    const { spec } = await web.read();
    const dies = async (part: string) => {
      await cluster.part.kill(part);
      await cluster.part.start(part);
    };
    await update(web, 'gold');
    await Promise.all(['worker', 'watcher', 'temporal'].map(dies));
    await waitFor('a stop to begin', async (see) => see(await stopsSaid(web)).length > 0);
    await dies(`daemon-${spec.nodeName}`);

    const after = await completed(web);
    expect(await startsOf(after)).toEqual({ app: 2, proxy: 2, logger: 1 });
    await logs(web, 'app', 'app is gold\n');
  });
});
