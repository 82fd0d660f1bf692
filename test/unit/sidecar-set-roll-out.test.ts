import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { KubeError, noAnswer } from '../../kube/failures.ts';
import { sidecarSetController } from '../../watcher/kinds/sidecar-set/controller.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import { type ControllerContextOptions, type RunningController, runController } from '../support/controller-context.ts';
import { type AboutCall, MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import {
  imagesIn,
  playedRollOut,
  podWith,
  type SidecarPod,
  setIn,
  setUid,
  sidecarSet,
  upgradableOf,
  usePlayedSidecarSets,
} from '../support/sidecar-world.ts';
import { waitFor } from '../support/wait.ts';

const sidecarSetsPlayed = usePlayedSidecarSets();

interface Given {
  readonly pods?: readonly (readonly [string, SidecarPod?])[];
  readonly spec?: JsonObject;
  readonly options?: ControllerContextOptions;
  /** The content of the old pods. Absent: the same with image log:1. */
  readonly old?: SidecarSet;
  readonly except?: (pod: Pod) => boolean;
}

/** Pods with image log:1, and a SidecarSet that asks for log:2; a kubelet. */
async function rollOut({ pods = [['a'], ['b'], ['c']], spec = {}, options = {}, old, except }: Given = {}) {
  const cluster = options.cluster ?? new MemoryCluster();
  for (const name of ['shop', 'other']) cluster.put(kubeResource.namespaces, { metadata: { name } });
  const before = old ?? sidecarSet('log:1', { spec });
  for (const [name, pod] of pods) cluster.put(kubeResource.pods, podWith(before, name, pod) as never);
  cluster.put(sidecarSets, sidecarSet('log:2', { generation: 2, spec }) as never);
  const controller = await sidecarSetsPlayed.run(cluster, options, except);
  const revision = setIn(cluster)?.status?.latestRevision ?? '';
  return { cluster, controller, revision, play: playedRollOut(controller) };
}

const podPatches = ({ writes }: RunningController) =>
  writes.filter(({ plural, verb }) => plural === 'pods' && verb === 'patch');
const isOfStatus = ({ body }: SeenCall) => typeof body === 'object' && body !== null && 'status' in body;
const nameOf = ({ name }: SeenCall) => name;

/** An operator leaves this pod out. */
function skip(cluster: MemoryCluster, revision: string, name: string): void {
  const set = setIn(cluster);
  cluster.put(sidecarSets, {
    ...set,
    status: { ...set?.status, rollOut: { version: 1, revision, skip: [name] } },
  } as never);
}

describe('the roll-out of a SidecarSet', () => {
  it('SCS-186, SCS-189: updates the pods of all namespaces under its permit, and none without', async () => {
    const { cluster, controller, play } = await rollOut({ pods: [['a'], ['b', { namespace: 'other' }]] });
    await waitFor('the wait', () => setIn(cluster)?.status?.matchedPods === 2);
    expect(podPatches(controller)).toEqual([]);
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster)).toEqual(['log:2', 'log:2']);
    expect(play.pods.toSorted()).toEqual(['other/b', 'shop/a']);
    await waitFor('the counts', () => setIn(cluster)?.status?.updatedReadyPods === 2);
    expect(play.results.flatMap(({ pods }) => pods).every(({ ms, why }) => ms !== undefined && !why)).toBe(true);
  });

  it('SCS-157: never has more unavailable pods than maxUnavailable', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const spec = { updateStrategy: { maxUnavailable: 2 } };
    const { cluster, play } = await rollOut({ pods: names.map((name) => [name] as const), spec });
    let most = 0;
    const watch = setInterval(() => {
      const pods = cluster.all<Pod>(kubeResource.pods);
      const swapping = pods.filter(
        (pod) => pod.spec.containers[0]?.image !== pod.status?.containerStatuses?.[0]?.image,
      );
      most = Math.max(most, swapping.length);
    }, 1);
    await play.run();
    clearInterval(watch);
    expect(imagesIn(cluster)).toEqual(names.map(() => 'log:2'));
    expect(most).toBeLessThanOrEqual(2);
    expect(Math.max(...play.batches.map(({ pods }) => pods.length))).toBe(2);
  });

  it('SCS-191: notes after each pod, and before the next one, that it can be updated', async () => {
    const spec = { updateStrategy: { maxUnavailable: '100%' } };
    const { cluster, controller, play } = await rollOut({ spec });
    await play.run();
    const order = podPatches(controller).map((call) => `${nameOf(call)} ${isOfStatus(call) ? 'status' : 'pod'}`);
    const sequence = order.map((text) => text.split(' '));
    expect(sequence).toHaveLength(6);
    for (let at = 0; at < 6; at += 2) {
      expect(sequence[at]?.[1]).toBe('pod');
      expect(sequence[at + 1]).toEqual([sequence[at]?.[0], 'status']);
    }
    expect(cluster.all<Pod>(kubeResource.pods).map(upgradableOf)).toEqual(Array(3).fill({ logs: true }));
  });

  it('SCS-191, SCS-192: marks pods that cannot be updated before any is, and says so in an Event', async () => {
    const spec = { containers: [{ name: 'log', image: 'log:2', env: [{ name: 'A', value: 'b' }] }] };
    const { cluster, controller, play } = await rollOut({ spec, old: sidecarSet('log:1') });
    await waitFor('the marks', () =>
      cluster.all<Pod>(kubeResource.pods).every((pod) => upgradableOf(pod).logs === false),
    );
    const event = controller.writes.find(({ plural }) => plural === 'events');
    expect(event?.body).toMatchObject({
      ...{ type: 'Normal', reason: 'NotUpgradablePods' },
      source: { component: 'sidecarset-controller' },
      message: 'SidecarSet in-place update detected 3 not upgradable pod(s) in this round, will skip them.',
    });
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster)).toEqual(['log:1', 'log:1', 'log:1']);
  });

  it('SCS-154: keeps as many pods at the old image as the partition says, and then says so', async () => {
    const spec = { updateStrategy: { partition: 2 } };
    const { cluster, play } = await rollOut({ spec });
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster).filter((image) => image === 'log:2')).toHaveLength(1);
    await waitFor('the wait', () => setIn(cluster)?.status?.waitingFor?.reason === 'PartitionReached');
  });

  it('SCS-228: updates nothing while it is paused', async () => {
    const spec = { updateStrategy: { paused: true } };
    const { cluster, controller, play } = await rollOut({ spec });
    expect(play.ask()).toMatchObject({ kind: 'wait', waitingFor: { reason: 'Paused' } });
    expect(podPatches(controller)).toEqual([]);
    expect(setIn(cluster)?.status?.waitingFor?.reason).toBe('Paused');
  });

  it('SCS-131: with type NotUpdate there is nothing to roll out', async () => {
    const spec = { updateStrategy: { type: 'NotUpdate' } };
    const { controller, play } = await rollOut({ spec });
    expect(play.ask()).toMatchObject({ kind: 'done' });
    expect(podPatches(controller)).toEqual([]);
  });

  it('SCS-133: a pod whose update is refused holds up neither forty others nor another SidecarSet', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `web-${index + 10}`);
    const refused: string[] = [];
    const meet = ({ plural, verb, name }: SeenCall) => {
      if (plural !== 'pods' || verb !== 'patch' || name !== 'web-25') return;
      refused.push(name);
      throw new KubeError({ status: 403, message: 'denied by a webhook' });
    };
    const spec = { updateStrategy: { maxUnavailable: 1 } };
    const pods = names.map((name) => [name] as const);
    const { cluster, play } = await rollOut({ pods, spec, options: { meet } });
    const beside = sidecarSet('beside:1', { metadata: { name: 'beside', uid: 'beside-uid' } });
    void play.run().catch(() => undefined);
    await waitFor('the others', () => imagesIn(cluster).filter((image) => image === 'log:2').length === 39);
    cluster.put(sidecarSets, beside as never);
    await waitFor('the other SidecarSet', () =>
      Boolean(cluster.look<SidecarSet>(sidecarSets, { name: 'beside' })?.status),
    );
    await waitFor('the wait', () => setIn(cluster)?.status?.waitingFor?.reason === 'CannotUpdate');
    expect(setIn(cluster)?.status?.waitingFor).toMatchObject({ blockedBy: ['pod/shop/web-25'] });
    expect(refused.length).toBeGreaterThan(0);
  });

  it('SCS-133, SCS-157: pods of a tenant that cannot be updated hold up no other, to the end, within the budget', async () => {
    const filler = { filler: 'x'.repeat(261_500) };
    const text = { note: 'no JSON' };
    const evil = Array.from({ length: 8 }, (_, at) => `evil-${at}`);
    const bank = Array.from({ length: 8 }, (_, at) => `bank-${at}`);
    const marks = [filler, filler, filler, text, text];
    const pods = [
      ...evil.map((name, at) => [name, { annotations: marks[at] ?? {} }] as const),
      ...bank.map((name) => [name, { namespace: 'other' }] as const),
    ];
    const patchPodMetadata = [{ annotations: { note: '{"a":1}' }, patchPolicy: 'MergePatchJson' }];
    const spec = { updateStrategy: { maxUnavailable: 2 }, patchPodMetadata };
    const tried = new Map<string, number>();
    const broken: string[] = [];
    let refuses = true;
    const cluster = new MemoryCluster();
    const isDown = (pod: Pod) => pod.spec.containers[0]?.image !== pod.status?.containerStatuses?.[0]?.image;
    const meet = ({ plural, verb, name = '', body }: SeenCall, { isDryRun }: AboutCall) => {
      if (plural !== 'pods' || verb !== 'patch' || 'status' in (body as object)) return;
      if (!isDryRun) tried.set(name, (tried.get(name) ?? 0) + 1);
      if (refuses && name.startsWith('evil')) throw new KubeError({ status: 422, message: 'denied' });
      if (isDryRun) return;
      const down = cluster.all<Pod>(kubeResource.pods).filter(isDown);
      if (down.length >= 2) broken.push(`${name} beside ${down.map(({ metadata }) => metadata.name)}`);
    };
    const { play } = await rollOut({ pods, spec, options: { cluster, meet } });
    const end = play.run();
    const updated = (prefix: string) =>
      cluster
        .all<Pod>(kubeResource.pods)
        .filter(
          (pod) => pod.metadata.name.startsWith(prefix) && pod.spec.containers[0]?.image === 'log:2' && !isDown(pod),
        );
    await waitFor('the pods of the other tenant', () => updated('bank').length === 8);
    await waitFor('the batches', () => play.results.length === play.batches.length);
    expect(updated('evil')).toEqual([]);
    // three would be written, and five cannot be: after as many the others are only tried in dry runs
    const writes = [...tried].filter(([name]) => name.startsWith('evil'));
    expect(writes.filter(([name, count]) => name < 'evil-5' || count > 1)).toEqual([]);
    const whys = new Map(play.results.flatMap((verdict) => verdict.pods.map(({ pod, why }) => [pod, why])));
    expect(whys.get('evil-0')).toMatch(/annotations would have \d+ bytes, and may have 262144/);
    expect(whys.get('evil-3')).toMatch(/not JSON/);
    for (const [name] of writes) expect(whys.get(name)).toBe('not now: refused: denied');

    // a person repairs them, and edits the SidecarSet
    refuses = false;
    for (const name of evil) {
      const pod = cluster.look<Pod>(kubeResource.pods, { namespace: 'shop', name });
      const { filler: _, note: __, ...annotations } = { ...pod?.metadata.annotations };
      cluster.put(kubeResource.pods, { ...pod, metadata: { ...pod?.metadata, annotations } } as never);
    }
    const present = setIn(cluster);
    cluster.put(sidecarSets, { ...present, metadata: { ...present?.metadata, generation: 3 } } as never);
    expect(await end).toMatchObject({ kind: 'done' });
    expect(updated('')).toHaveLength(16);
    expect(broken).toEqual([]);
  });

  it('SCS-157: a pod whose write got no answer keeps its part of the budget, as it may have been made', async () => {
    const written: string[] = [];
    let silent = 3;
    const meet = ({ plural, verb, name = '', body }: SeenCall) => {
      if (plural !== 'pods' || verb !== 'patch' || 'status' in (body as object)) return;
      if (name === 'a' && silent-- > 0) throw noAnswer(verb, 'connection reset');
      written.push(name);
    };
    const { cluster, play } = await rollOut({ options: { meet } });
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(written[0]).toBe('a');
    expect([written.length, new Set(written)]).toEqual([3, new Set(['a', 'b', 'c'])]);
    // it was made, or it will be told as refused
    expect(cluster.all(kubeResource.events)).toEqual([]);
  });

  it('P-7: an API server that asks for later is asked again with longer pauses, and then the pod is given back', async () => {
    const tried = new Map<string, number>();
    const meet = ({ plural, verb, name = '', body }: SeenCall, { isDryRun }: AboutCall) => {
      if (plural !== 'pods' || verb !== 'patch' || 'status' in (body as object)) return;
      if (!isDryRun) tried.set(name, (tried.get(name) ?? 0) + 1);
      throw new KubeError({ status: 429, message: 'too many requests' });
    };
    const { play } = await rollOut({ pods: [['a'], ['b']], options: { meet } });
    void play.run().catch(() => undefined);
    await waitFor('the batch', () => play.results.length === 1);
    const [first] = tried;
    expect(first).toEqual([play.pods[0]?.replace('shop/', ''), 5]);
    expect(play.results[0]?.pods[0]?.why).toMatch(/^not now: refused: .*too many requests/);
  });

  it('SCS-191: an update whose mark is refused was made all the same, and an Event says so', async () => {
    const meet = (call: SeenCall) => {
      if (call.plural === 'pods' && call.verb === 'patch' && isOfStatus(call))
        throw new KubeError({ status: 403, message: 'no right to pods/status' });
    };
    const { cluster, controller, play } = await rollOut({ options: { meet } });
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster)).toEqual(['log:2', 'log:2', 'log:2']);
    expect(play.results.flatMap(({ pods }) => pods).filter(({ why }) => why)).toEqual([]);
    const told = controller.writes.filter(({ plural }) => plural === 'events').map(({ body }) => body);
    expect(told).toHaveLength(3);
    expect(told[0]).toMatchObject({
      reason: 'FailedMarkPod',
      message: expect.stringContaining('no right to pods/status'),
    });
  });

  it('SCS-133: a pod that no write can update is given back after one look, and not after several', async () => {
    let reads = 0;
    const meet = ({ plural, verb, name }: SeenCall) => {
      if (plural === 'pods' && verb === 'get' && name === 'a') reads++;
    };
    const annotations = { filler: 'x'.repeat(261_500) };
    const { cluster, play } = await rollOut({ pods: [['a', { annotations }]], options: { meet } });
    void play.run().catch(() => undefined);
    await waitFor('the wait', () => setIn(cluster)?.status?.waitingFor?.reason === 'CannotChange');
    await waitFor('the batch', () => play.results.length === 1);
    expect(reads).toBe(1);
  });

  it('SCS-226: a pod that never gets ready holds up all others until an operator leaves it out', async () => {
    const { cluster, revision, play } = await rollOut({
      pods: [['a'], ['b', { namespace: 'other' }], ['c', { namespace: 'other' }]],
      except: ({ metadata }) => metadata.name === 'a',
    });
    cluster.put(kubeResource.pods, podWith(sidecarSet('log:2'), 'a', { ready: false }) as never);
    await waitFor('the wait', () => setIn(cluster)?.status?.waitingFor?.reason === 'BudgetSpent');
    expect(play.ask()).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'BudgetSpent' },
    });
    skip(cluster, revision, 'shop/a');
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster)).toEqual(['log:2', 'log:2', 'log:2']);
  });

  it('leaves out the pods that an operator names with their namespace', async () => {
    const pods = [['a'], ['a', { namespace: 'other' }], ['b']] as const;
    const { cluster, revision, play } = await rollOut({ pods });
    skip(cluster, revision, 'other/a');
    await play.run();
    const left = cluster.all<Pod>(kubeResource.pods).filter((pod) => pod.spec.containers[0]?.image === 'log:1');
    expect(left.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)).toEqual(['other/a']);
  });

  it('P-9: begins no other pod in the pass in which an operator pauses', async () => {
    const isPaused = Promise.withResolvers<void>();
    const begun: string[] = [];
    const meet = async ({ plural, verb, name, body }: SeenCall) => {
      if (plural !== 'pods' || verb !== 'patch' || 'status' in (body as object)) return;
      begun.push(name ?? '');
      await isPaused.promise;
    };
    const spec = { updateStrategy: { maxUnavailable: '100%' } };
    const { controller, play } = await rollOut({ spec, options: { meet } });
    void play.run().catch(() => undefined);
    await waitFor('the first pod', () => begun.length === 1);
    const commands = controller.controller.fleet?.commands();
    const command = { key: 'run/1', name: 'pause', at: '2026-11-21T06:00:00Z' } as const;
    const paused = commands?.apply({ namespace: '', name: 'logs', uid: setUid }, command, async () => ({
      by: 'ann',
      isReapplied: false,
    }));
    isPaused.resolve();
    expect(await paused).toMatchObject({ by: 'ann', answer: {} });
    await waitFor('the wait', () => setIn(controller.cluster)?.status?.waitingFor?.reason === 'PausedByOperator');
    expect(begun).toHaveLength(1);
  });

  it('begins no pod once its permit is lost', async () => {
    const ended = new AbortController();
    const life: PermitLife = { isAlive: () => !ended.signal.aborted, ended: ended.signal };
    const spec = { updateStrategy: { maxUnavailable: '100%' } };
    const lose = ({ plural, verb, body }: SeenCall) => {
      const isPod = plural === 'pods' && verb === 'patch' && !('status' in (body as object));
      if (isPod && !ended.signal.aborted) ended.abort(new Error('the activity was cancelled'));
    };
    const { cluster, controller } = await rollOut({ spec, options: { meet: lose } });
    const play = playedRollOut(controller, life);
    await play.run().catch(() => undefined);
    await waitFor('the first pod', () => imagesIn(cluster).includes('log:2'));
    await waitFor('its mark', () => cluster.all<Pod>(kubeResource.pods).some((pod) => upgradableOf(pod).logs === true));
    expect(podPatches(controller).filter((call) => !isOfStatus(call))).toHaveLength(1);
  });

  it('writes nothing once it does not lead any more, and the next leader goes on', async () => {
    let leads = true;
    const spec = { updateStrategy: { maxUnavailable: '100%' } };
    const lose = ({ plural, verb, body }: SeenCall) => {
      if (plural === 'pods' && verb === 'patch' && 'status' in (body as object)) leads = false;
    };
    const first = await rollOut({ spec, options: { meet: lose, isLeading: () => leads } });
    void first.play.run().catch(() => undefined);
    await waitFor('the end of the term', () => !leads);
    const { cluster } = first;
    const next = sidecarSetsPlayed.stopAfterwards(await runController(sidecarSetController, { cluster }));
    const play = playedRollOut(next);
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster)).toEqual(['log:2', 'log:2', 'log:2']);
    expect(podPatches(first.controller).filter((call) => !isOfStatus(call))).toHaveLength(1);
  });

  it('SCS-186: reads the pod again after a conflict, and gives up after four attempts until the next round', async () => {
    let attempts = 0;
    const meet = ({ plural, verb, body }: SeenCall) => {
      if (plural !== 'pods' || verb !== 'patch' || 'status' in (body as object) || ++attempts > 6) return;
      throw new KubeError({ status: 409, reason: 'Conflict', message: 'the object has been modified' });
    };
    const { cluster, controller, play } = await rollOut({ pods: [['a']], options: { meet } });
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster)).toEqual(['log:2']);
    expect(podPatches(controller).filter((call) => !isOfStatus(call))).toHaveLength(1);
    expect(controller.warnings.filter((text) => text.includes('has been modified'))).toHaveLength(1);
  });

  it('SCS-186, SCS-187: keeps what another SidecarSet writes into the same mark between the read and the write', async () => {
    const cluster = new MemoryCluster();
    const mark = 'kruise.io/sidecarset-hash';
    const entriesOf = (pod?: Pod) => JSON.parse(pod?.metadata.annotations?.[mark] ?? '{}');
    const look = () => cluster.look<Pod>(kubeResource.pods, { namespace: 'shop', name: 'a' });
    const others = { mesh: { hash: 'h', sidecarSetName: 'mesh', sidecarList: ['mesh'] } };
    let hasWritten = false;
    const meet = ({ plural, verb, body }: SeenCall) => {
      const pod = look();
      if (plural !== 'pods' || verb !== 'patch' || !('spec' in (body as object)) || hasWritten || !pod) return;
      hasWritten = true;
      const annotations = { ...pod.metadata.annotations, [mark]: JSON.stringify({ ...entriesOf(pod), ...others }) };
      cluster.put(kubeResource.pods, { ...pod, metadata: { ...pod.metadata, annotations } } as never);
    };
    const { revision, play } = await rollOut({ pods: [['a']], options: { cluster, meet } });
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster)).toEqual(['log:2']);
    expect(entriesOf(look())).toMatchObject({ logs: { controllerRevision: revision }, mesh: { hash: 'h' } });
  });

  it('SCS-157a: a pod that has become ready since is not updated for free', async () => {
    const spec = { updateStrategy: { maxUnavailable: 0 } };
    const { cluster, controller, play } = await rollOut({
      ...{ pods: [['a', { ready: false }]], spec },
      options: {
        meet({ plural, verb, name }: SeenCall) {
          // just before it is read again
          if (plural !== 'pods' || verb !== 'get' || name !== 'a') return;
          const pod = cluster.look<Pod>(kubeResource.pods, { namespace: 'shop', name });
          const conditions = [{ type: 'Ready', status: 'True' }];
          if (pod) cluster.put(kubeResource.pods, { ...pod, status: { ...pod.status, conditions } } as never);
        },
      },
    });
    play.ask();
    await waitFor('the ready pod', () => setIn(cluster)?.status?.readyPods === 1);
    await waitFor('the wait', () => setIn(cluster)?.status?.waitingFor?.reason === 'BudgetRoundsToZero');
    expect(podPatches(controller)).toEqual([]);
  });

  it('writes no pod with a HotUpgrade sidecar before its swap has handed in the first step', async () => {
    const container = (image: string) => ({
      ...{ name: 'log', image },
      upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'empty:1' },
    });
    const old = sidecarSet('log:1', { spec: { containers: [container('log:1')] } });
    const containers = [
      { name: 'log-1', image: 'log:1' },
      { name: 'log-2', image: 'empty:1' },
    ];
    const annotations = { 'kruise.io/sidecarset-working-hotupgrade-container': '{"log":"log-1"}' };
    const { cluster, controller, play } = await rollOut({
      ...{ old, pods: [['a', { containers, annotations }]], spec: { containers: [container('log:2')] } },
    });
    expect(play.ask()).toMatchObject({ kind: 'pods' });
    await waitFor('the wait', () => setIn(cluster)?.status?.waitingFor?.reason === 'SidecarsSwapping');
    expect(setIn(cluster)?.status?.waitingFor?.blockedBy).toEqual(['pod/shop/a']);
    expect(podPatches(controller)).toEqual([]);
  });

  it('ends when the SidecarSet is deleted', async () => {
    const { cluster, play } = await rollOut({ except: () => true });
    const ended = play.run();
    cluster.remove(sidecarSets, { name: 'logs' });
    expect(await ended).toMatchObject({ kind: 'withdrawn' });
    await waitFor('the batch', () => play.results.length === 1);
    expect(setUid).toBe('set-uid');
  });
});
