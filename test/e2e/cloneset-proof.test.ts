import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import type { Cluster } from '../support/cluster.ts';
import { isServing } from '../support/fleet-watch.ts';
import { describeAlone, describeProof } from '../support/groups.ts';
import { recorded } from '../support/recorded.ts';
import { steadyLoad } from '../support/steady-load.ts';
import { describeStuckConnection } from '../support/stuck-connection.ts';
import { waitFor } from '../support/wait.ts';
import { followsLoad } from './autoscaler.ts';
import { container, Fleet, type FleetOptions, images, restartsOf } from './fleet.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  local = await localCluster();
  ({ cluster } = local);
});

afterAll(async () => {
  await local?.close();
});

function fleetOf(options: FleetOptions): Promise<Fleet> {
  return Fleet.create({ cluster, temporal: local.temporal }, options);
}

/** Answers `NAME VERSION`, its own and the one of its image. */
const server = container('app', {
  command: [
    'sh',
    '-c',
    `mkdir -p /www && echo "$(hostname) $(cat /etc/busybox-version)" > /www/index.html
     trap 'exit 0' TERM; httpd -p 8080 -h /www; sleep 99999 & wait`,
  ],
  // readiness does not depend on the load: a loaded node must not take a pod out of service
  readinessProbe: { httpGet: { path: '/', port: 8080 }, periodSeconds: 1, timeoutSeconds: 30 },
});

describeProof('load', 'a CloneSet in use', () => {
  it.concurrent('loses no request while thirty pods behind a Service are updated in place', async () => {
    const fleet = await fleetOf({
      replicas: 30,
      containers: [server],
      rollingUpdate: { maxUnavailable: '20%', inPlaceUpdateStrategy: { gracePeriodSeconds: 5 } },
    });
    const { spec } = await cluster.kube.create<KubeObject & { readonly spec: { readonly clusterIP: string } }>(
      kubeResource.services,
      {
        metadata: { namespace: fleet.namespace, name: 'web' },
        spec: { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }] },
      },
    );
    const load = await steadyLoad({
      urls: [`http://${spec.clusterIP}/`],
      ...{ atOnce: 8, pauseMs: 50 },
      commandIn: (argv) => local.commandIn('node-1', argv),
      onStuck: async (port) => {
        const connection = { kube: cluster.kube, namespace: fleet.namespace, node: 'node-1', port };
        const text = await describeStuckConnection({ ...connection, clusterIP: spec.clusterIP, inNode: local.inNode });
        process.stdout.write(`A request from port ${port} is not connected\n${text}\n`);
      },
    });
    const before = fleet.identities();
    await fleet.update(images.new);
    await fleet.untilUpdated(30);
    const { asked, failures, answers, slowestMs } = await load.stop();

    expect(failures).toEqual([]);
    expect(asked).toBeGreaterThan(500);
    const versions = Object.keys(answers).map((answer) => answer.split(' ')[1]);
    expect(new Set(versions)).toEqual(new Set(['1.35', '1.36']));
    expect(new Set(Object.keys(answers).map((answer) => answer.split(' ')[0])).size).toBeGreaterThan(25);
    process.stdout.write(`${asked} requests, the slowest took ${slowestMs} ms\n`);
    expect(fleet.identities()).toEqual(before);
    fleet.neverFewerReady(24);
    for (const [, pod] of fleet.pods()) expect(restartsOf(pod, 'app')).toBe(1);
  });

  it.concurrent('CS-97: follows a HorizontalPodAutoscaler up and down, by the load of its pods', async () => {
    await followsLoad(local, { resource: cloneSets });
  });
});

/** The moments at which objects of a real OpenKruise were recorded. */
const moments = ['1-created', '2-grace-period', '3-updating', '4-updated'] as const;
type Moment = (typeof moments)[number];

const recordedSet = (moment: Moment) =>
  recorded<CloneSet>(`cloneset-${moment === '1-created' ? '1-created-v1beta1' : moment}`);
const recordedPods = (moment: Moment) => recorded<readonly Pod[]>(`cloneset-${moment}-pods`);
const recordedRevisions = (moment: Moment) =>
  recorded<readonly ControllerRevision[]>(`cloneset-${moment === '1-created' ? '1-created' : '3-updating'}-revisions`);

/**
 * What OpenKruise left at one moment, in a namespace of its own: the CloneSet with its status, its revisions, and pods
 * with the recorded names, labels, annotations, specs and gates. The pods are real: nodes and volumes of the recording
 * are left out, and statuses come from the kubelets and daemons of this cluster.
 */
class Legacy {
  readonly moment: Moment;
  readonly namespace: string;
  #before: ReadonlyMap<string, Pod> = new Map();

  private constructor(moment: Moment, namespace: string) {
    this.moment = moment;
    this.namespace = namespace;
  }

  static async restore(moment: Moment): Promise<Legacy> {
    const legacy = new Legacy(moment, await cluster.newNamespace());
    const { namespace } = legacy;
    const { metadata: of, spec, status } = recordedSet(moment);
    const ref = { namespace, name: of.name };
    const { labels, annotations } = of;
    const created = await cluster.kube.create<CloneSet>(cloneSets, {
      metadata: { ...ref, labels, annotations },
      spec: recordedSet('1-created').spec,
    });
    // so that the generation is the recorded one
    if (of.generation !== 1) await cluster.kube.patch(cloneSets, ref, 'merge', { spec: { template: spec.template } });
    await cluster.kube.patch(cloneSets, ref, 'merge', { status }, { subresource: 'status' });

    const owned = ({ metadata }: KubeObject) => ({
      namespace,
      name: metadata.name,
      labels: metadata.labels,
      annotations: metadata.annotations,
      ownerReferences: metadata.ownerReferences?.map((owner) => ({ ...owner, uid: created.metadata.uid })),
    });
    for (const revision of recordedRevisions(moment)) {
      await cluster.kube.create(kubeResource.controllerRevisions, { ...revision, metadata: owned(revision) });
    }
    await Promise.all(
      recordedPods(moment).map(async (pod) => {
        const { metadata } = await cluster.kube.create(kubeResource.pods, {
          metadata: owned(pod),
          spec: withoutPlace(pod.spec as unknown as JsonObject),
        });
        const gates = pod.status?.conditions?.filter(({ type }) => /^(InPlaceUpdateReady|KruisePodReady)$/.test(type));
        await cluster.kube.patch(
          kubeResource.pods,
          { namespace, name: metadata.name },
          'strategic',
          { status: { conditions: gates } },
          { subresource: 'status' },
        );
      }),
    );
    return legacy;
  }

  /** Waits until the pods are as ready as in the recording, and remembers them. */
  async ready(): Promise<void> {
    const wasServing = new Map(recordedPods(this.moment).map((pod) => [pod.metadata.name, isServing(pod)]));
    this.#before = await waitFor(`the pods of ${this.moment}`, async (see) => {
      const pods = await this.pods();
      see([...pods.values()].map(({ status }) => status));
      const are = [...pods].every(([name, pod]) => {
        const containers = pod.status?.containerStatuses ?? [];
        return isServing(pod) === wasServing.get(name) && containers.length === 2 && containers.every((it) => it.ready);
      });
      return are && pods;
    });
  }

  async pods(): Promise<ReadonlyMap<string, Pod>> {
    const { items } = await cluster.kube.list<Pod>(kubeResource.pods, { namespace: this.namespace });
    return new Map(items.map((pod) => [pod.metadata.name, pod]));
  }

  async patch(body: object): Promise<void> {
    await cluster.kube.patch(cloneSets, { namespace: this.namespace, name: 'web' }, 'merge', body);
  }

  async until(pods: number): Promise<CloneSet> {
    return await waitFor(`${pods} updated pods of ${this.moment}`, async (see) => {
      const set = see(await cluster.kube.get<CloneSet>(cloneSets, { namespace: this.namespace, name: 'web' }));
      const { status, metadata } = set;
      const isSeen = status?.observedGeneration === metadata.generation;
      return isSeen && status?.updatedReadyReplicas === pods && status.readyReplicas === pods && set;
    });
  }

  /** Names and data of all revisions. */
  async revisions(): Promise<readonly unknown[]> {
    const { items } = await cluster.kube.list<ControllerRevision>(kubeResource.controllerRevisions, {
      namespace: this.namespace,
    });
    return factsOf(items);
  }

  /** Which containers of the recorded pods were replaced: `web-s8g7h main`. */
  async replaced(): Promise<readonly string[]> {
    const now = await this.pods();
    return [...this.#before].flatMap(([name, before]) => {
      const after = now.get(name);
      if (after?.metadata.uid !== before.metadata.uid) return [`${name} itself`];
      return (before.status?.containerStatuses ?? []).flatMap(({ name: of, containerID }) => {
        const same = after.status?.containerStatuses?.find((status) => status.name === of);
        return same?.containerID === containerID ? [] : [`${name} ${of}`];
      });
    });
  }

  /** Containers that still had to be replaced at the time of the recording. */
  toReplace(): readonly string[] {
    return recordedPods(this.moment).flatMap(({ metadata, spec }) =>
      spec.containers.flatMap(({ name, image }) => (image === 'busybox:1.34' ? [`${metadata.name} ${name}`] : [])),
    );
  }
}

function factsOf(revisions: readonly ControllerRevision[]): readonly unknown[] {
  return revisions
    .map(({ metadata, revision, data }) => ({ name: metadata.name, revision, data }))
    .toSorted((a, b) => a.revision - b.revision);
}

/** The spec of a pod, without what was decided about this one. */
function withoutPlace({ nodeName: _node, volumes: _volumes, containers, ...spec }: JsonObject): JsonObject {
  const withoutMounts = ({ volumeMounts: _mounts, ...rest }: JsonObject): JsonObject => rest;
  return { ...spec, containers: (containers as JsonObject[]).map(withoutMounts) };
}

/** What daemons report about the containers of a pod: by name, what each was started from. */
function hashesOf({ metadata }: Pod): unknown {
  const told = JSON.parse(metadata.annotations?.['apps.kruise.io/runtime-containers-meta'] ?? '{"containers":[]}') as {
    readonly containers: readonly { readonly name: string; readonly hashes: unknown }[];
  };
  return Object.fromEntries(told.containers.map(({ name, hashes }) => [name, hashes]));
}

describeAlone('CloneSets that OpenKruise has left', () => {
  it('are carried on from each moment of a roll-out, with the same hashes, and no pod is disturbed for it', async () => {
    await local.pushBusybox('1.34');
    await local.part.stop('watcher');
    let all: readonly Legacy[] = [];
    try {
      all = await Promise.all(moments.map((moment) => Legacy.restore(moment)));
      await Promise.all(all.map((legacy) => legacy.ready()));
    } finally {
      await local.part.start('watcher');
    }
    const [created, inGrace, half, updated] = all as [Legacy, Legacy, Legacy, Legacy];

    // work in progress is completed, and nothing is done twice
    await Promise.all(
      [inGrace, half].map(async (legacy) => {
        const { status } = await legacy.until(3);
        expect(status).toMatchObject({ updateRevision: 'web-8b47cf55', currentRevision: 'web-8b47cf55' });
        expect(await legacy.replaced()).toEqual(legacy.toReplace());
      }),
    );
    // what was complete is left alone, and continues from there
    await Promise.all(
      [created, updated].map(async (legacy) => {
        await legacy.patch({ spec: { replicas: 4 } });
        const { status } = await legacy.until(4);
        expect(status?.updateRevision).toBe(recordedSet(legacy.moment).status?.updateRevision);
        expect(await legacy.replaced()).toEqual([]);
      }),
    );
    for (const legacy of all) expect(await legacy.revisions()).toEqual(factsOf(recordedRevisions(legacy.moment)));

    // and the change from that time is the same change now
    const strategy = { maxUnavailable: '100%', inPlaceUpdateStrategy: { gracePeriodSeconds: 0 } };
    const { template } = recordedSet('4-updated').spec;
    await created.patch({ spec: { template, updateStrategy: { rollingUpdate: strategy } } });
    await created.until(4);
    expect(await created.replaced()).toEqual(created.toReplace());
    expect(await created.revisions()).toEqual(factsOf(recordedRevisions('4-updated')));

    const [wanted] = recordedPods('4-updated').map(hashesOf);
    for (const legacy of all) {
      for (const [name] of await legacy.pods()) {
        await waitFor(`the daemon to tell of ${name}`, async (see) => {
          const pod = (await legacy.pods()).get(name);
          expect(see(pod && hashesOf(pod))).toEqual(wanted);
          return true;
        });
      }
    }
  });
});
