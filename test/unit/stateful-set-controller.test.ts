import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type StatefulSet, statefulSets } from '../../api/stateful-set/types.ts';
import type { ListOptions } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import type { FailedStep } from '../../watcher/fleet/failed-steps.ts';
import { FleetQueue } from '../../watcher/fleet/queue.ts';
import { statefulSetController } from '../../watcher/kinds/stateful-set/controller.ts';
import { type ControllerContextOptions, type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { claim, data, fresh, now, old, pod, pods, set, uid } from '../support/stateful-set-world.ts';
import { waitFor } from '../support/wait.ts';

const running: RunningController[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

/** A StatefulSet with these pods and PVCs, all of its revision, and its controller. */
async function run(
  owner: StatefulSet,
  { pods: of, claims = [] }: { readonly pods: readonly Pod[]; readonly claims?: readonly KubeObject[] },
  options: ControllerContextOptions = {},
): Promise<RunningController> {
  const { cluster = new MemoryCluster() } = options;
  cluster.put(statefulSets, owner);
  cluster.put(kubeResource.controllerRevisions, fresh);
  for (const one of of) cluster.put(kubeResource.pods, one);
  for (const claim of claims) cluster.put(kubeResource.persistentVolumeClaims, claim);
  const controller = await runController(statefulSetController, { now: () => Date.parse(now), ...options, cluster });
  running.push(controller);
  return controller;
}

const calls = (verb: SeenCall['verb'], plural: string, name: string) => (call: SeenCall) =>
  call.verb === verb && call.plural === plural && call.name === name;

const statusIn = ({ cluster }: RunningController) =>
  cluster.look<StatefulSet>(statefulSets, { namespace: 'shop', name: 'web' })?.status;
const podIn = ({ cluster }: RunningController, name: string) =>
  cluster.look<Pod>(kubeResource.pods, { namespace: 'shop', name });
const eventsIn = ({ cluster }: RunningController) =>
  cluster
    .all<KubeObject & { readonly reason: string; readonly message: string }>(kubeResource.events)
    .map(({ reason, message }) => `${reason}: ${message}`);

function failedSteps({ controller }: RunningController): readonly FailedStep<{ readonly kind: string }>[] {
  const queue = controller.fleet?.queue();
  return queue instanceof FleetQueue ? queue.failedSteps(uid) : [];
}

const upToDate = { of: fresh };

function orphaned(one: Pod): Pod {
  const { ownerReferences: _, ...metadata } = one.metadata;
  return { ...one, metadata };
}

describe('pods that have ended', () => {
  const ended = { ...upToDate, phase: 'Failed' };

  it('AS-11: are released once when they match no more, and their name is asked for with pauses', async () => {
    const stray = pod(1, { ...ended, labels: { app: 'db' } });
    const controller = await run(set(), { pods: [pod(0, upToDate), stray, pod(2, upToDate)] });
    await waitFor('the second attempt', () => controller.writes.filter(calls('create', 'pods', 'web-1')).length > 1);
    const attempts = controller.writes.filter(calls('create', 'pods', 'web-1')).length;
    expect(controller.writes.filter(calls('patch', 'pods', 'web-1'))).toHaveLength(1);
    expect(podIn(controller, 'web-1')?.metadata.ownerReferences ?? []).toEqual([]);
    // the first pauses are 0.2 s and 0.4 s
    expect(attempts).toBeLessThan(5);
    expect(statusIn(controller)?.waitingFor).toMatchObject({ reason: 'CannotCreate' });
    controller.cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'web-1' });
    await waitFor('the pod', () => isControlledBy(set(), podIn(controller, 'web-1') ?? orphaned(stray)));
  });

  it('AS-11, AS-30: are adopted, and then replaced', async () => {
    const orphan = orphaned(pod(1, ended));
    const controller = await run(set(), { pods: [pod(0, upToDate), orphan, pod(2, upToDate)] });
    await waitFor('the deletion', () => controller.writes.some(calls('delete', 'pods', 'web-1')));
    await waitFor('the new pod', () => {
      const { status, metadata } = podIn(controller, 'web-1') ?? orphan;
      return status?.phase !== 'Failed' && isControlledBy(set(), { metadata });
    });
    const verbs = controller.writes.filter(({ plural }) => plural === 'pods').map(({ verb }) => verb);
    expect(verbs.slice(0, 3)).toEqual(['patch', 'delete', 'create']);
  });
});

const asObject = (one: VolumeClaim) => ({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...one });
const ownersIn = ({ cluster }: RunningController, name: string) =>
  cluster.look(kubeResource.persistentVolumeClaims, { namespace: 'shop', name })?.metadata.ownerReferences ?? [];

describe('PVCs', () => {
  const ofSet = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'StatefulSet', name: 'web', uid };

  it('AS §3: counts those that satisfy their template', async () => {
    const claims = [claim(0), { ...claim(1), status: { capacity: { storage: '1Mi' } } }].map(asObject);
    const owner = set({ volumeClaimTemplates: [data] });
    const controller = await run(owner, { pods: pods(3, upToDate), claims });
    const counts = { volumeClaimName: 'data', compatibleReplicas: 2, compatibleReadyReplicas: 1 };
    await waitFor('the status', () => statusIn(controller)?.volumeClaims !== undefined);
    expect(statusIn(controller)?.volumeClaims).toEqual([counts]);
  });

  it('AS-80, AS-83: changes its own references and none of the others, however many there are', async () => {
    const others = Array.from({ length: 70 }, (_, at) => ({
      ...{ apiVersion: 'v1', kind: 'ConfigMap', name: `c${at}`, uid: `c${at}` },
    }));
    const stale = { ...ofSet, uid: 'an-earlier-uid' };
    const claims = [asObject(claim(0, { ownerReferences: [...others, stale] }))];
    const policy = { whenDeleted: 'Delete', whenScaled: 'Retain' } as const;
    const owner = set({ replicas: 1, volumeClaimTemplates: [data], persistentVolumeClaimRetentionPolicy: policy });
    const controller = await run(owner, { pods: pods(1, upToDate), claims });
    await waitFor('the reference', () => ownersIn(controller, 'data-web-0').some((one) => one.uid === uid));
    expect(ownersIn(controller, 'data-web-0')).toEqual([...others, ofSet]);
    controller.cluster.put(statefulSets, {
      ...owner,
      metadata: { ...owner.metadata, generation: 2 },
      spec: { ...owner.spec, persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' } },
    });
    await waitFor('the reference to go', () => ownersIn(controller, 'data-web-0').length === others.length);
    expect(controller.writes.filter(({ plural }) => plural === 'persistentvolumeclaims')).toHaveLength(2);
  });

  it('AS-80: does not ask without end for a reference that is there, behind more than are kept', async () => {
    const others = Array.from({ length: 200 }, (_, at) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      name: '0',
      uid: `p${at}`,
    }));
    const claims = [asObject(claim(0, { ownerReferences: [...others, ofSet] }))];
    const policy = { whenDeleted: 'Delete', whenScaled: 'Retain' } as const;
    const owner = set({ replicas: 1, volumeClaimTemplates: [data], persistentVolumeClaimRetentionPolicy: policy });
    const controller = await run(owner, { pods: pods(1, upToDate), claims });
    const changes = () => controller.writes.filter(({ plural }) => plural === 'persistentvolumeclaims').length;
    await waitFor('the status', () => statusIn(controller)?.readyReplicas === 1);
    const before = changes();
    controller.cluster.put(kubeResource.pods, pod(0, { ...upToDate, ready: false }));
    await waitFor('a further pass', () => statusIn(controller)?.readyReplicas === 0);
    expect(changes() - before).toBeLessThan(5);
    expect(ownersIn(controller, 'data-web-0')).toHaveLength(201);
  });
});

describe('AS-81: PVCs that go with their pods', () => {
  const policy = { whenScaled: 'Delete' } as const;
  const of = (replicas: number) => {
    const owner = set({ replicas, volumeClaimTemplates: [data], persistentVolumeClaimRetentionPolicy: policy });
    return { ...owner, metadata: { ...owner.metadata, generation: replicas } };
  };
  const podOf = (ordinal: number) => ({
    ...{ apiVersion: 'v1', kind: 'Pod', name: `web-${ordinal}`, uid: `web-${ordinal}-uid` },
  });
  const isDeletion = ({ verb, plural }: SeenCall) => verb === 'delete' && plural === 'pods';
  const world = { pods: pods(3, upToDate), claims: [0, 1, 2].map((ordinal) => asObject(claim(ordinal))) };

  it('are kept when their pods, whose deletion was refused, are wanted again', async () => {
    let attempts = 0;
    const meet = (call: SeenCall) => {
      if (!isDeletion(call)) return;
      attempts += 1;
      throw new KubeError({ status: 403, message: 'admission webhook "guard" denied the request: in use' });
    };
    const controller = await run(of(1), world, { meet });
    await waitFor('both deletions to be tried', () => attempts >= 2);
    expect([1, 2].map((ordinal) => ownersIn(controller, `data-web-${ordinal}`))).toEqual([[podOf(1)], [podOf(2)]]);
    controller.cluster.put(statefulSets, of(3));
    await waitFor('the PVCs to be kept', () =>
      [1, 2].every((ordinal) => ownersIn(controller, `data-web-${ordinal}`).length === 0),
    );
    expect(controller.writes.filter(isDeletion)).toEqual([]);
  });

  it('are not lost to a change without an answer that comes late: it is waited out', async () => {
    let nowMs = Date.parse(now);
    const isLost = calls('patch', 'persistentvolumeclaims', 'data-web-2');
    const meet = (call: SeenCall) => {
      if (isLost(call)) throw new KubeError({ status: 0, message: 'no answer within 30 s' });
    };
    const controller = await run(of(2), world, { meet, now: () => nowMs });
    await waitFor('the change', () => controller.cluster.calls.includes('patch persistentvolumeclaims/data-web-2'));
    controller.cluster.put(kubeResource.pods, pod(2, { ...upToDate, phase: 'Failed' }));
    controller.cluster.put(statefulSets, of(3));
    await waitFor('the status', () => statusIn(controller)?.observedGeneration === 3);
    controller.controller.wantAll();
    await waitFor('a further pass', () => statusIn(controller)?.readyReplicas === 2);
    expect(controller.writes.filter(isDeletion)).toEqual([]);
    nowMs += 61_000;
    controller.controller.wantAll();
    await waitFor('the deletion', () => controller.writes.some(isDeletion));
  });

  it('are looked for whatever their labels when a change got no answer, and their pods deleted once it is seen', async () => {
    const lists: ListOptions[] = [];
    let isLost = false;
    const cluster = new MemoryCluster();
    const meet = (call: SeenCall) => {
      if (call.verb === 'list' && call.plural === 'persistentvolumeclaims') lists.push(call.body as ListOptions);
      if (isLost || !calls('patch', 'persistentvolumeclaims', 'data-web-2')(call)) return;
      isLost = true;
      cluster.put(kubeResource.persistentVolumeClaims, asObject(claim(2, { ownerReferences: [podOf(2)] })));
      throw new KubeError({ status: 0, message: 'no answer within 30 s' });
    };
    const controller = await run(of(2), world, { cluster, meet });
    await waitFor('the deletion', () => controller.writes.some(isDeletion));
    expect(controller.writes.filter(({ plural }) => plural === 'persistentvolumeclaims')).toEqual([]);
    expect(lists.map(({ labelSelector, metadataOnly }) => [labelSelector, metadataOnly])).toEqual([[undefined, true]]);
  });
});

it('P-7, AS-70: a deletion without an answer keeps its part of the budget', async () => {
  const labels = { 'apps.kruise.io/specified-delete': 'true' };
  const isLost = calls('delete', 'pods', 'web-1');
  let attempts = 0;
  const meet = (call: SeenCall) => {
    if (!isLost(call)) return;
    attempts++;
    throw new KubeError({ status: 0, message: 'no answer within 30 s' });
  };
  const there = [pod(0, upToDate), pod(1, { ...upToDate, labels }), pod(2, upToDate)];
  const controller = await run(set({}, { maxUnavailable: 1 }), { pods: there }, { meet });
  await waitFor('the lost deletion', () => attempts > 0);
  controller.cluster.put(kubeResource.pods, pod(2, { ...upToDate, labels }));
  const before = attempts;
  await waitFor('two further attempts', () => attempts > before + 1);
  expect(controller.writes.filter(calls('delete', 'pods', 'web-2'))).toEqual([]);
});

describe('AS-31: a pod whose name another one has', () => {
  const others = {
    'of another workload': { ownerReferences: [{ ...pod(1).metadata.ownerReferences?.[0], uid: 'another-uid' }] },
    'that nobody controls and that does not match': { ownerReferences: [], labels: { app: 'db' } },
    'that is being deleted': { ownerReferences: [], deletionTimestamp: now, finalizers: ['example.com/hold'] },
  };

  it.each(Object.entries(others))('%s, is tried again at once when that one is gone', async (_, metadata) => {
    const there = pod(1, upToDate);
    const other = { ...there, metadata: { ...there.metadata, ...metadata } } as Pod;
    let isRefusing = false;
    const meet = (call: SeenCall) => {
      if (!isRefusing || !calls('create', 'pods', 'web-1')(call)) return;
      throw new KubeError({ status: 403, message: 'exceeded quota' });
    };
    const controller = await run(set(), { pods: [pod(0, upToDate), other, pod(2, upToDate)] }, { meet });
    const [failed] = await waitFor('three attempts', () => {
      const all = failedSteps(controller);
      return all.some(({ attempts }) => attempts >= 3) && all;
    });
    expect(failed?.step).toMatchObject({ kind: 'createPod', name: 'web-1' });
    isRefusing = true;
    controller.cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'web-1' });
    const attempts = await waitFor('the next attempt', () => {
      const [last] = failedSteps(controller);
      return String(last?.error).includes('exceeded quota') && last?.attempts;
    });
    expect(attempts).toBe(1);
  });
});

describe('adoption', () => {
  const refused = () => new KubeError({ status: 403, message: 'admission webhook "guard" denied the request: frozen' });

  it.each(['Parallel', 'OrderedReady'] as const)(
    'AS-11, %s: creates no pod in the place of one that cannot be adopted, and says why',
    async (podManagementPolicy) => {
      let isRefusing = true;
      const owner = set({ podManagementPolicy });
      const others = [pod(0, upToDate), orphaned(pod(1, upToDate)), pod(2, upToDate)];
      const controller = await run(
        owner,
        { pods: others },
        {
          meet: (call) => {
            if (isRefusing && calls('patch', 'pods', 'web-1')(call)) throw refused();
          },
        },
      );
      const status = await waitFor('the wait', () => {
        const present = statusIn(controller);
        return present?.waitingFor?.reason === 'CannotUpdate' && present;
      });
      expect(status).toMatchObject({ replicas: 2, waitingFor: { unblock: expect.stringContaining('frozen') } });
      expect(status.conditions).toMatchObject([
        {
          type: 'FailedUpdatePod',
          message: expect.stringContaining('StatefulPodControl failed to update Pod error: '),
        },
      ]);
      expect(eventsIn(controller)).toEqual([
        expect.stringMatching(/^FailedUpdate: update Pod web-1 in StatefulSet web failed error: .*frozen$/),
      ]);
      expect(controller.writes.filter(({ verb, plural }) => plural === 'pods' && verb !== 'patch')).toEqual([]);
      isRefusing = false;
      await waitFor('the adoption', () => statusIn(controller)?.replicas === 3);
      expect(eventsIn(controller)).toHaveLength(1);
      expect(isControlledBy(owner, podIn(controller, 'web-1') ?? pod(9))).toBe(true);
    },
  );

  it('AS-11: says nothing of a pod that is released, and why one cannot be', async () => {
    let isRefusing = true;
    const stray = pod(5, { ...upToDate, labels: { app: 'db' } });
    const meet = (call: SeenCall) => {
      if (isRefusing && calls('patch', 'pods', 'web-5')(call)) throw refused();
    };
    const controller = await run(set(), { pods: [...pods(3, upToDate), stray] }, { meet });
    await waitFor('the wait', () => statusIn(controller)?.waitingFor?.reason === 'CannotUpdate');
    isRefusing = false;
    await waitFor('the release', () => podIn(controller, 'web-5')?.metadata.ownerReferences?.length === 0);
    await waitFor('the wait to end', () => statusIn(controller)?.waitingFor === undefined);
    expect(eventsIn(controller)).toEqual([
      expect.stringMatching(/^FailedUpdate: update Pod web-5 in StatefulSet web failed error: .*frozen$/),
    ]);
  });

  it('AS-11, AS-12: adopts pods of ordinals that are not wanted as well, and deletes them', async () => {
    const controller = await run(set({ replicas: 1 }), { pods: [...pods(1, upToDate), orphaned(pod(4, upToDate))] });
    await waitFor('the deletion', () => controller.writes.some(calls('delete', 'pods', 'web-4')));
    expect(eventsIn(controller)).toEqual(['SuccessfulDelete: delete Pod web-4 in StatefulSet web successful']);
  });
});

describe('a pass', () => {
  const refusal = (message: string) => new KubeError({ status: 403, message });
  const quota = () => refusal('pods "web-1" is forbidden: exceeded quota: pods');

  it('AS-2a: writes nothing of the StatefulSet but its status, and that only when it differs', async () => {
    const controller = await run(set(), { pods: pods(3, upToDate) });
    await waitFor('the status', () => statusIn(controller)?.readyReplicas === 3);
    const look = () => controller.cluster.look<StatefulSet>(statefulSets, { namespace: 'shop', name: 'web' });
    const before = look();
    const unnamed = pod(1, { ...upToDate, labels: { 'statefulset.kubernetes.io/pod-name': '' } });
    controller.cluster.put(kubeResource.pods, unnamed);
    await waitFor('a further pass', () => controller.writes.some(calls('patch', 'pods', 'web-1')));
    controller.cluster.put(kubeResource.pods, pod(1, { ...upToDate, ready: false }));
    await waitFor('the change', () => statusIn(controller)?.readyReplicas === 2);
    const bodies = controller.writes
      .filter(({ plural }) => plural === 'statefulsets')
      .map(({ body }) => body as object);
    expect(bodies.map((body) => Object.keys(body))).toEqual([
      ['status', 'metadata'],
      ['status', 'metadata'],
    ]);
    const { resourceVersion, ...metadata } = look()?.metadata ?? pod(0).metadata;
    expect(before).toMatchObject({ metadata, spec: look()?.spec });
  });

  it('AS-20b: that has failed writes its status all the same, and deletes revisions that nobody uses', async () => {
    const cluster = new MemoryCluster();
    cluster.put(kubeResource.controllerRevisions, old);
    const meet = (call: SeenCall) => {
      if (calls('create', 'pods', 'web-1')(call)) throw quota();
    };
    const owner = set({ revisionHistoryLimit: 0 });
    const controller = await run(owner, { pods: [pod(0, upToDate), pod(2, upToDate)] }, { cluster, meet });
    await waitFor('the failure', () => statusIn(controller)?.waitingFor?.reason === 'CannotCreate');
    expect(statusIn(controller)).toMatchObject({
      observedGeneration: 1,
      replicas: 2,
      updateRevision: fresh.metadata.name,
    });
    await waitFor('one revision', () => cluster.all(kubeResource.controllerRevisions).length === 1);
    // in the same pass, before the creation is tried again
    const [, again = Number.POSITIVE_INFINITY] = cluster.calls.flatMap((call, at) =>
      call === 'create pods/web-1' ? [at] : [],
    );
    const others = ['patch statefulsets/web', `delete controllerrevisions/${old.metadata.name}`];
    expect(others.map((call) => cluster.calls.indexOf(call) < again)).toEqual([true, true]);
  });

  it('AS-38: creates from the lowest ordinal up, in groups that grow, and no further group after an error', async () => {
    const attempts: string[] = [];
    let isRefusing = true;
    const meet = (call: SeenCall) => {
      if (call.verb !== 'create' || call.plural !== 'pods') return;
      attempts.push(call.name);
      if (isRefusing && call.name === 'web-1') throw quota();
    };
    const controller = await run(set({ replicas: 7 }), { pods: [] }, { meet });
    await waitFor('a further attempt', () => attempts.filter((name) => name === 'web-1').length > 1);
    expect(attempts.slice(0, 3)).toEqual(['web-0', 'web-1', 'web-2']);
    expect(new Set(attempts)).toEqual(new Set(['web-0', 'web-1', 'web-2']));
    isRefusing = false;
    await waitFor(
      'all pods',
      () => statusIn(controller)?.replicas === 7 || controller.cluster.all(kubeResource.pods).length === 7,
    );
    expect(attempts.slice(-4)).toEqual(['web-3', 'web-4', 'web-5', 'web-6']);
  });

  it('AS-65: that a budget refuses is tried again, and asks for no budget itself', async () => {
    const labelled = pod(1, { ...upToDate, labels: { 'apps.kruise.io/specified-delete': 'true' } });
    let attempts = 0;
    const meet = (call: SeenCall) => {
      if (!calls('delete', 'pods', 'web-1')(call)) return;
      attempts += 1;
      if (attempts < 3) throw refusal('admission webhook "vpod.kb.io" denied the request: not allowed by pub "web"');
    };
    const controller = await run(set(), { pods: [pod(0, upToDate), labelled, pod(2, upToDate)] }, { meet });
    await waitFor('the deletion', () => controller.writes.some(calls('delete', 'pods', 'web-1')));
    expect(attempts).toBe(3);
    const failed = eventsIn(controller).filter((event) => event.startsWith('FailedDelete'));
    expect(failed[0]).toContain('not allowed by pub "web"');
    expect(controller.cluster.calls.filter((call) => call.includes('podunavailablebudgets'))).toEqual([]);
  });

  it('AS-70a: that sees a labelled pod in a quiet set deletes it, and a new one takes its place', async () => {
    const controller = await run(set(), { pods: pods(3, upToDate) });
    await waitFor('the status', () => statusIn(controller)?.readyReplicas === 3);
    const labelled = pod(1, { ...upToDate, labels: { 'apps.kruise.io/specified-delete': '' } });
    controller.cluster.put(kubeResource.pods, labelled);
    await waitFor('the deletion', () => controller.writes.some(calls('delete', 'pods', 'web-1')));
    controller.cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'web-1' });
    const { metadata } = await waitFor('the new pod', () => podIn(controller, 'web-1'));
    expect(metadata.uid).not.toBe('web-1-uid');
    expect(metadata.labels).toMatchObject({ 'controller-revision-hash': fresh.metadata.name });
    expect(metadata.labels).not.toHaveProperty(['apps.kruise.io/specified-delete']);
  });
});

describe('AS-25: a StatefulSet at rest is woken', () => {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] }));
  afterEach(() => void jest.useRealTimers());

  const web1 = { namespace: 'shop', name: 'web-1' };
  const stray = { ...orphaned(pod(1, { ...upToDate, labels: { app: 'db' } })) };
  const pending = pod(1, { ...upToDate, phase: 'Pending', ready: false });
  const atRest = pod(1, upToDate);

  it.each<
    [what: string, before: Pod, change: (cluster: MemoryCluster) => void, does: [SeenCall['verb'], string, string]]
  >([
    [
      'by a change of its own',
      atRest,
      (cluster) => cluster.put(statefulSets, of({ replicas: 4 })),
      ['create', 'pods', 'web-3'],
    ],
    ['by the end of a pod', atRest, (cluster) => cluster.remove(kubeResource.pods, web1), ['create', 'pods', 'web-1']],
    [
      'by a change of a pod',
      atRest,
      (cluster) => cluster.put(kubeResource.pods, pod(1, { ...upToDate, phase: 'Failed' })),
      ['delete', 'pods', 'web-1'],
    ],
    [
      'by a pod that loses it as owner',
      atRest,
      (cluster) => cluster.put(kubeResource.pods, stray),
      ['create', 'pods', 'web-1'],
    ],
    [
      'by an orphan that begins to match',
      stray,
      (cluster) => cluster.put(kubeResource.pods, orphaned(atRest)),
      ['patch', 'pods', 'web-1'],
    ],
    [
      'by the end of a PVC',
      pending,
      (cluster) => cluster.remove(kubeResource.persistentVolumeClaims, { ...web1, name: 'data-web-1' }),
      ['create', 'persistentvolumeclaims', 'data-web-1'],
    ],
  ])('%s', async (_, before, change, does) => {
    const claims = [0, 1, 2].map((ordinal) => asObject(claim(ordinal)));
    const controller = await run(of(), { pods: [pod(0, upToDate), before, pod(2, upToDate)], claims });
    await jest.advanceTimersByTimeAsync(10_000);
    const isDone = calls(...does);
    const earlier = controller.writes.filter(isDone).length;
    change(controller.cluster);
    // less than any pause after which something is tried again
    await jest.advanceTimersByTimeAsync(100);
    expect(controller.writes.filter(isDone).length).toBe(earlier + 1);
  });

  function of(spec: Parameters<typeof set>[0] = {}): StatefulSet {
    const owner = set({ volumeClaimTemplates: [data], ...spec });
    return { ...owner, metadata: { ...owner.metadata, generation: spec.replicas === undefined ? 1 : 2 } };
  }
});
