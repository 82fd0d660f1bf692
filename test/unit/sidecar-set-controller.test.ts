import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { KubeError, noAnswer } from '../../kube/failures.ts';
import type { Controller, ControllerContext } from '../../watcher/controller.ts';
import { sidecarSetController } from '../../watcher/kinds/sidecar-set/controller.ts';
import { SidecarSetFleet } from '../../watcher/kinds/sidecar-set/fleet.ts';
import { type ControllerContextOptions, type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { alive } from '../support/played-roll-out.ts';
import { podWith, sidecarSet } from '../support/sidecar-world.ts';
import { waitFor } from '../support/wait.ts';

const running: RunningController[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

function set(spec: JsonObject = {}, generation = 1): { metadata: { name: string; uid: string } } & JsonObject {
  return defaultSidecarSet(sidecarSetDraft({ metadata: { uid: 'set-uid', generation }, spec })) as never;
}

function pod(name: string, hash: string, ready = true): Pod {
  const entry = { hash, sidecarSetName: 'logs', sidecarList: ['log'] };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...{ name, namespace: 'shop', uid: name, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
      labels: { app: 'web' },
      annotations: {
        'kruise.io/sidecarset-injected-list': 'logs',
        'kruise.io/sidecarset-hash': JSON.stringify({ logs: entry }),
      },
    },
    spec: {
      containers: [
        { name: 'log', image: 'log:1' },
        { name: 'app', image: 'app' },
      ],
    },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
      containerStatuses: ['log', 'app'].map((container) => ({ name: container, ready, restartCount: 0 })),
    },
  };
}

const hashOf = (object: JsonObject) =>
  String(objectOr(objectOr(object.metadata).annotations)['kruise.io/sidecarset-hash']);

async function run(cluster: MemoryCluster, options: ControllerContextOptions = {}): Promise<RunningController> {
  cluster.put(kubeResource.namespaces, { metadata: { name: 'shop' } });
  const controller = await runController(sidecarSetController, { ...options, cluster });
  running.push(controller);
  return controller;
}

const statusIn = (cluster: MemoryCluster) =>
  cluster.look<SidecarSet & KubeObject>(sidecarSets, { name: 'logs' })?.status;
const revisionsIn = (cluster: MemoryCluster) =>
  cluster
    .all<ControllerRevision>(kubeResource.controllerRevisions)
    .toSorted((left, right) => left.revision - right.revision);

describe('the controller of SidecarSets', () => {
  it('SCS-132: stores the content and writes a status, also where no pod matches', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, set());
    await run(cluster);
    await waitFor('the status', () => statusIn(cluster) !== undefined);
    const [revision] = revisionsIn(cluster);
    expect(revision?.metadata).toMatchObject({
      namespace: 'kruise-system',
      labels: { 'kruise.io/sidecarset-name': 'logs' },
    });
    expect(statusIn(cluster)).toEqual({
      ...{
        observedGeneration: 1,
        matchedPods: 0,
        updatedPods: 0,
        readyPods: 0,
        updatedReadyPods: 0,
        collisionCount: 0,
      },
      latestRevision: revision?.metadata.name,
    });
  });

  it('SCS-130, SCS-130a: counts pods, and again when one of them changes or goes', async () => {
    const cluster = new MemoryCluster();
    const object = set();
    cluster.put(sidecarSets, object);
    cluster.put(kubeResource.pods, pod('a', hashOf(object)));
    cluster.put(kubeResource.pods, pod('b', 'old', false));
    await run(cluster);
    await waitFor('both', () => statusIn(cluster)?.matchedPods === 2);
    expect(statusIn(cluster)).toMatchObject({ updatedPods: 1, readyPods: 1, updatedReadyPods: 1 });
    cluster.put(kubeResource.pods, {
      ...pod('b', 'old'),
      metadata: { ...pod('b', 'old').metadata, resourceVersion: '9' },
    });
    await waitFor('the ready one', () => statusIn(cluster)?.readyPods === 2);
    cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'a' });
    await waitFor('the pod to go', () => statusIn(cluster)?.matchedPods === 1);
  });

  it('SCS-23: reports another SidecarSet with a container of the same name for the same pods, on both', async () => {
    const cluster = new MemoryCluster();
    const named = (name: string, spec: JsonObject = {}) => {
      const { metadata, ...rest } = set(spec);
      return { ...rest, metadata: { ...metadata, name, uid: `${name}-uid` } };
    };
    const others = { selector: { matchLabels: { app: 'elsewhere' } } };
    for (const one of [named('a'), named('b'), named('c', others)]) cluster.put(sidecarSets, one);
    const waitOf = (name: string) => cluster.look<SidecarSet>(sidecarSets, { name })?.status?.waitingFor;
    await run(cluster);
    await waitFor('the report', () => waitOf('a') !== undefined && waitOf('b') !== undefined);
    expect(waitOf('a')).toMatchObject({ reason: 'ContainerConflict', blockedBy: ['sidecarset/b'] });
    expect(waitOf('b')).toMatchObject({ reason: 'ContainerConflict', blockedBy: ['sidecarset/a'] });
    await waitFor('the third', () => cluster.look<SidecarSet>(sidecarSets, { name: 'c' })?.status !== undefined);
    expect(waitOf('c')).toBeUndefined();
  });

  it('SCS-6, SCS-130a: a pod that ends is not counted, whether or not it was ever ready', async () => {
    const cluster = new MemoryCluster();
    const object = set();
    cluster.put(sidecarSets, object);
    for (const name of ['evicted', 'done', 'c'])
      cluster.put(kubeResource.pods, pod(name, hashOf(object), name === 'c'));
    await run(cluster);
    await waitFor('all', () => statusIn(cluster)?.matchedPods === 3);
    for (const [name, phase] of [
      ['evicted', 'Failed'],
      ['done', 'Succeeded'],
    ] as const) {
      const { metadata, status, ...rest } = pod(name, hashOf(object), false);
      cluster.put(kubeResource.pods, {
        ...rest,
        metadata: { ...metadata, resourceVersion: '9' },
        status: { ...status, phase },
      });
    }
    await waitFor('the counts to meet', () => statusIn(cluster)?.matchedPods === 1);
    expect(statusIn(cluster)).toMatchObject({ updatedPods: 1, readyPods: 1, updatedReadyPods: 1 });
  });

  it('SCS-130a: does not look at its pods because of one that lists it and is not its own', async () => {
    const cluster = new MemoryCluster();
    const object = set();
    cluster.put(sidecarSets, object);
    let looks = 0;
    await run(cluster, {
      now: () => {
        looks += 1;
        return Date.parse('2026-01-01T00:01:00Z');
      },
    });
    await waitFor('the status', () => statusIn(cluster)?.matchedPods === 0);
    const flipped = async (name: string, labels: Readonly<Record<string, string>>) => {
      const before = looks;
      for (let version = 2; version < 8; version++) {
        const { metadata, ...rest } = pod(name, hashOf(object), version % 2 === 0);
        cluster.put(kubeResource.pods, {
          ...rest,
          metadata: { ...metadata, labels, resourceVersion: String(version) },
        });
        // longer than an object rests
        await delay(60);
      }
      return looks - before;
    };
    expect(await flipped('foreign', { app: 'other' })).toBe(0);
    expect(await flipped('own', { app: 'web' })).toBeGreaterThan(3);
    expect(statusIn(cluster)?.matchedPods).toBe(1);
  });

  it('SCS-131, SCS-131a: with type NotUpdate counts when a pod is created, and never otherwise', async () => {
    const cluster = new MemoryCluster();
    const object = set({ updateStrategy: { type: 'NotUpdate' } });
    cluster.put(sidecarSets, object);
    // The other type shows what the caches know already.
    const beside = (generation: number) => {
      const { metadata, ...rest } = set({}, generation);
      return { ...rest, metadata: { ...metadata, name: 'beside', uid: 'beside-uid' } };
    };
    cluster.put(sidecarSets, beside(1));
    const besideStatus = () => cluster.look<SidecarSet & KubeObject>(sidecarSets, { name: 'beside' })?.status;
    const ofBoth = (ready: boolean): Pod => {
      const { metadata, ...rest } = pod('a', hashOf(object), ready);
      const annotations = { ...metadata.annotations, 'kruise.io/sidecarset-injected-list': 'beside,logs' };
      return { ...rest, metadata: { ...metadata, annotations } };
    };
    const { controller } = await run(cluster);
    await waitFor('the status', () => statusIn(cluster)?.matchedPods === 0);
    cluster.put(kubeResource.pods, ofBoth(false));
    await waitFor('the pod', () => statusIn(cluster)?.matchedPods === 1);
    cluster.put(kubeResource.pods, ofBoth(true));
    await waitFor('the ready pod', () => besideStatus()?.readyPods === 1);
    controller.wantAll();
    cluster.put(sidecarSets, { ...beside(2), status: besideStatus() });
    await waitFor('a later pass', () => besideStatus()?.observedGeneration === 2);
    expect(statusIn(cluster)).toMatchObject({ matchedPods: 1, readyPods: 0 });
    cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'a' });
    await waitFor('the pod to go', () => besideStatus()?.matchedPods === 0);
    expect(statusIn(cluster)).toMatchObject({ matchedPods: 1, readyPods: 0 });
    cluster.put(kubeResource.pods, pod('b', hashOf(object), false));
    cluster.put(kubeResource.pods, pod('c', hashOf(object), false));
    await waitFor('the next pods', () => statusIn(cluster)?.matchedPods === 2);
    expect(statusIn(cluster)?.readyPods).toBe(0);
  });

  it('SCS-132a, SCS-207, SCS-209: stores each content once and deletes the surplus before the status shows it', async () => {
    const cluster = new MemoryCluster();
    const contents = [1, 2, 3, 1].map((tag) => ({
      revisionHistoryLimit: 2,
      containers: [{ name: 'log', image: `log:${tag}` }],
    }));
    cluster.put(sidecarSets, set(contents[0]));
    await run(cluster);
    for (const [index, spec] of contents.entries()) {
      const present = cluster.look<SidecarSet & KubeObject>(sidecarSets, { name: 'logs' });
      cluster.put(sidecarSets, { ...set(spec, index + 1), ...(present?.status && { status: present.status }) });
      await waitFor(`generation ${index + 1}`, () => statusIn(cluster)?.observedGeneration === index + 1);
      expect(revisionsIn(cluster).length).toBeLessThanOrEqual(2);
    }
    expect(revisionsIn(cluster).map(({ revision }) => revision)).toEqual([3, 4]);
    expect(statusIn(cluster)?.latestRevision).toBe(revisionsIn(cluster).at(-1)?.metadata.name);
  });

  it('SCS-207: counts a collision where the name of a revision is taken by other content', async () => {
    const first = new MemoryCluster();
    first.put(sidecarSets, set());
    await run(first);
    await waitFor('the revision', () => statusIn(first)?.latestRevision !== undefined);
    const name = statusIn(first)?.latestRevision ?? '';
    const cluster = new MemoryCluster();
    cluster.put(kubeResource.controllerRevisions, {
      metadata: { namespace: 'kruise-system', name },
      data: { other: true },
      revision: 1,
    });
    cluster.put(sidecarSets, set());
    await run(cluster);
    await waitFor('the status', () => statusIn(cluster)?.collisionCount === 1);
    expect(statusIn(cluster)?.latestRevision).not.toBe(name);
  });

  it('writes each SidecarSet once a term as it is, so that it is stored in the present version', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, sidecarSet('log:1'));
    let refusals = 1;
    const asItIs: string[] = [];
    const meet = ({ verb, name, body }: SeenCall) => {
      if (verb !== 'patch' || JSON.stringify(body) !== '{"metadata":{"uid":"set-uid"}}') return;
      asItIs.push(name);
      if (refusals-- > 0) throw noAnswer(verb, 'connection reset');
    };
    const { controller, warnings } = await run(cluster, { meet });
    await waitFor('the second attempt', () => asItIs.length === 2);
    controller.wantAll();
    await waitFor('the status', () => statusIn(cluster) !== undefined);
    expect([asItIs, warnings]).toEqual([['logs', 'logs'], []]);

    const refused = await run(cluster, {
      meet({ verb, body }) {
        const isAsItIs = verb === 'patch' && JSON.stringify(body) === '{"metadata":{"uid":"set-uid"}}';
        if (isAsItIs) throw new KubeError({ status: 403, message: 'denied by a policy' });
      },
    });
    await waitFor('the warning', () => refused.warnings.length > 0);
    expect(refused.warnings[0]).toContain('Cannot store a SidecarSet in the present version');
  });

  it('P-7: after writes without an answer reads these pods, and sees each as it is, or that it is gone', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, sidecarSet('log:2', { generation: 2 }));
    for (const name of ['a', 'b']) cluster.put(kubeResource.pods, podWith(sidecarSet('log:1'), name));
    let [isAway, reads] = [true, 0];
    const meet = ({ verb, plural, name }: SeenCall) => {
      if (plural !== 'pods') return;
      if (verb === 'patch' || (isAway && verb === 'get' && reads > 0 && name === 'b'))
        throw noAnswer(verb, 'connection reset');
      if (verb === 'get') reads++;
    };
    let fleet: SidecarSetFleet | undefined;
    const controllerOf = (context: ControllerContext): Controller => {
      const kept = new SidecarSetFleet(context);
      fleet = kept;
      return { wantAll: () => undefined, begin: (term) => kept.begin(term), stop: () => kept.stop() };
    };
    cluster.put(kubeResource.namespaces, { metadata: { name: 'shop' } });
    running.push(await runController(controllerOf, { cluster, meet }));
    const { signal } = new AbortController();
    const world = fleet?.look('set-uid');
    if (fleet === undefined || world === undefined) throw new Error('there is no SidecarSet');
    fleet.plan(world, undefined, 0);
    for (const { metadata } of world.pods) {
      const seen = { ...metadata, namespace: 'shop' };
      const step = { kind: 'updateSidecars', pod: seen, revision: 'logs-2', isFree: false } as const;
      await expect(fleet.act(step, world, signal, () => true)).rejects.toThrow('connection reset');
    }

    cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'a' });
    const written = world.pods.map(({ metadata }) => ({ ...metadata, namespace: 'shop' }));
    await expect(fleet.catchUp('set-uid', signal, written)).rejects.toThrow('connection reset');
    isAway = false;
    const callsBefore = cluster.calls.length;
    await fleet.catchUp('set-uid', signal, written);
    expect(cluster.calls.slice(callsBefore).filter((call) => call.includes('pods/'))).toEqual([
      'get pods/a',
      'get pods/b',
    ]);
    expect(fleet.look('set-uid')?.pods.map(({ metadata }) => metadata.name)).toEqual(['b']);
  });

  it('P-7: a write without an answer is told as such, and made again', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, sidecarSet('log:2', { generation: 2 }));
    cluster.put(kubeResource.pods, podWith(sidecarSet('log:1'), 'a'));
    cluster.put(kubeResource.namespaces, { metadata: { name: 'shop' } });
    let unanswered = 0;
    const meet = ({ verb, plural }: SeenCall) => {
      if (verb === 'patch' && plural === 'pods' && unanswered++ === 0) throw noAnswer(verb, 'connection reset');
    };
    let fleet: SidecarSetFleet | undefined;
    const controllerOf = (context: ControllerContext): Controller => {
      const kept = new SidecarSetFleet(context);
      fleet = kept;
      return { wantAll: () => undefined, begin: (term) => kept.begin(term), stop: () => kept.stop() };
    };
    const controller = await runController(controllerOf, { cluster, meet });
    running.push(controller);
    fleet?.add('set-uid', 'fullPass');
    await waitFor('the status', () => statusIn(cluster)?.latestRevision !== undefined);
    const asked = await waitFor('the pod', () => {
      const answer = fleet?.queue?.next('set-uid');
      return answer?.kind === 'pods' && answer.batches[0];
    });
    if (!asked) throw new Error('no pod may go');
    void fleet?.queue?.carryOut('set-uid', { number: 1, batch: asked }, alive).catch(() => undefined);
    await waitFor('the next write', () => unanswered > 1);
    for (const warning of controller.warnings) expect(warning).not.toContain('Cannot read properties');
    expect(controller.warnings.join()).toContain('Reconcile failed');
  });

  it('SCS-8: leaves pods and the SidecarSet alone while it is deleted', async () => {
    const cluster = new MemoryCluster();
    const object = set();
    cluster.put(sidecarSets, {
      ...object,
      metadata: { ...object.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
    });
    const { writes } = await run(cluster);
    cluster.put(kubeResource.pods, pod('a', hashOf(object)));
    await waitFor('the pod', () => cluster.all(kubeResource.pods).length === 1);
    expect(writes.filter(({ plural }) => plural !== 'sidecarselections')).toEqual([]);
  });
});
