import { afterEach, describe, expect, it } from '@jest/globals';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { engineStuck } from '../../api/engine/engine-trouble.ts';
import { KubeError } from '../../kube/failures.ts';
import { batchOf, type ChosenPod } from '../../plan/fleet/batch.ts';
import { cloneSetController } from '../../watcher/kinds/cloneset/controller.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import {
  claim,
  cloneSet,
  newName,
  newPodOf,
  newRevisionOfSet,
  now,
  nowMs,
  oldName,
  oldRevision,
  pod,
} from '../support/cloneset-world.ts';
import { type ControllerContextOptions, type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { unavailable } from '../support/recreate-requests.ts';
import { waitFor } from '../support/wait.ts';

const drain = 'example.com/drain';
const running: RunningController[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

/** A CloneSet with these pods, all of its present revision, and its controller. */
async function run(
  set: CloneSet,
  pods: readonly Pod[],
  options: ControllerContextOptions = {},
): Promise<RunningController> {
  const { cluster = new MemoryCluster() } = options;
  cluster.put(cloneSets, set);
  cluster.put(kubeResource.controllerRevisions, newRevisionOfSet);
  for (const pod of pods) cluster.put(kubeResource.pods, pod);
  const controller = await runController(cloneSetController, { now: () => nowMs, ...options, cluster });
  running.push(controller);
  return controller;
}

function statusIn({ cluster }: RunningController): CloneSet['status'] {
  const set = cluster.look<CloneSet>(cloneSets, { namespace: 'shop', name: 'web' }) as CloneSet;
  return set.status;
}

describe('the controller of CloneSets', () => {
  it('EngineStuck: a set says why its roll-out does not go on', async () => {
    const stuck = engineStuck({
      workflowId: 'roll-out/shop/web/set-uid',
      temporalNamespace: 'default',
      wasBegunAnew: false,
    });
    const starter: ControllerContextOptions['starter'] = {
      trouble: (id) => (id === 'roll-out/shop/web/set-uid' ? stuck : undefined),
    };
    const cluster = new MemoryCluster();
    cluster.put(kubeResource.controllerRevisions, oldRevision);
    const controller = await run(cloneSet({ replicas: 1 }), [pod('web-a')], { cluster, starter });
    await waitFor('the wait', () => statusIn(controller)?.waitingFor?.reason === 'EngineStuck');
    expect(statusIn(controller)?.waitingFor).toMatchObject({
      blockedBy: ['workflow/roll-out/shop/web/set-uid'],
      unblock: stuck.unblock,
    });
  });

  it.each([false, true])(
    'P-5: has its roll-out started, once, whatever happens to its pods (held: %s)',
    async (isHeld) => {
      const wanted: string[] = [];
      const rollOut = { version: 1, revision: newName, paused: { by: 'ann', at: now } };
      const cluster = new MemoryCluster();
      cluster.put(kubeResource.controllerRevisions, oldRevision);
      const set = cloneSet(
        { replicas: 2, rollingUpdate: { maxUnavailable: 2 } },
        { status: isHeld ? { rollOut } : {} },
      );
      const controller = await run(set, [pod('web-a', { state: 'Normal' }), pod('web-b', { state: 'Normal' })], {
        cluster,
        starter: { want: ({ workflowId, inputs }) => void wanted.push(`${workflowId} ${inputs}`) },
      });
      /** Has the controller look again. */
      const look = async (ready: boolean) => {
        cluster.put(kubeResource.pods, pod('web-a', { state: 'Normal', ready }));
        await waitFor('the look', () => statusIn(controller)?.readyReplicas === 1 + Number(ready));
      };
      await waitFor('the first look', () => statusIn(controller)?.readyReplicas === 2);
      await look(false);
      await look(true);
      await waitFor('the roll-out to be wanted', () => wanted.length > 0);
      // under other inputs it would be signalled again
      expect(new Set(wanted)).toEqual(new Set(['roll-out/shop/web/set-uid 1']));
    },
  );

  it('CS-31: a surge pod comes as soon as the roll-out has asked, and not with the next full pass', async () => {
    const cluster = new MemoryCluster();
    cluster.put(kubeResource.controllerRevisions, oldRevision);
    cluster.put(kubeResource.controllerRevisions, newRevisionOfSet);
    cluster.put(cloneSets, cloneSet({ replicas: 2, rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } }));
    for (const name of ['web-a', 'web-b']) cluster.put(kubeResource.pods, pod(name, { state: 'Normal' }));
    let wanted = 0;
    const controller = await runController(cloneSetController, {
      cluster,
      now: () => nowMs,
      starter: { want: () => void wanted++ },
    });
    running.push(controller);
    await waitFor('the roll-out to be wanted', () => wanted > 0);
    const queue = controller.controller.fleet?.queue();
    expect(queue?.next('set-uid').kind).toBe('nothing');
    await waitFor('the surge pod', () => controller.writes.some(calls('create', 'pods')));
  });

  it('CS-89: decides only after its caches are filled, and so creates no pod twice', async () => {
    const pods = ['web-a', 'web-b', 'web-c', 'web-d'].map((name) => newPodOf(name));
    const controller = await run(cloneSet(), pods);
    await waitFor('the missing pod', () => controller.cluster.calls.some((call) => call.startsWith('create pods')));
    await waitFor('the status', () => statusIn(controller)?.replicas === 5);
    const created = controller.writes.filter(({ verb, plural }) => verb === 'create' && plural === 'pods');
    expect(created).toHaveLength(1);
  });

  it('CS-89: decides only after it knows how pods are resized', async () => {
    const cluster = new MemoryCluster();
    const clientOf = cluster.client.bind(cluster);
    const isKnown = Promise.withResolvers<void>();
    let attempts = 0;
    cluster.client = (meet) => {
      const client = clientOf(meet);
      const request: typeof client.request = async (...call) => {
        attempts += 1;
        if (attempts === 1) throw unavailable();
        await isKnown.promise;
        return await client.request(...call);
      };
      return { ...client, request };
    };
    const controller = await run(cloneSet(), [newPodOf('web-a')], { cluster });
    await waitFor('a second attempt', () => attempts === 2).finally(isKnown.resolve);
    expect([controller.writes, controller.controller.fleet?.queue()]).toEqual([[], undefined]);
    await waitFor('the missing pods', () => controller.writes.some(({ verb }) => verb === 'create'));
    expect(controller.controller.fleet?.queue()).toBeDefined();
  });

  it.each(['', 'CloneSetEventHandlerOptimization=true'])(
    'CS-88, LC-64: looks again when labels, marks or readiness of a pod change (gates "%s")',
    async (gates) => {
      const lifecycle = { preDelete: { finalizersHandler: [drain] } };
      const set = cloneSet({ replicas: 1, lifecycle });
      const held = newPodOf('web-a', { state: 'Normal', finalizers: [drain] });
      const controller = await run(set, [held], { gates });
      await waitFor('the pod to be counted', () => statusIn(controller)?.readyReplicas === 1);
      const { cluster } = controller;

      cluster.put(
        kubeResource.pods,
        newPodOf('web-a', { state: 'Normal', finalizers: [drain], ready: false }) as never,
      );
      await waitFor('its readiness to be seen', () => statusIn(controller)?.readyReplicas === 0);
      const named = { state: 'Normal', finalizers: [drain], ready: false, specified: true } as const;
      cluster.put(kubeResource.pods, newPodOf('web-a', named));
      await waitFor('its label to be seen', () => statusIn(controller)?.waitingFor?.reason === 'HookBeforeDelete');
      const free = { ...named, finalizers: [], state: 'PreparingDelete' } as const;
      cluster.put(kubeResource.pods, newPodOf('web-a', free));
      await waitFor('its mark to be seen gone', () => controller.writes.some(({ verb }) => verb === 'delete'));
    },
  );
});

describe('commands of operators', () => {
  const old = (count: number) => Array.from({ length: count }, (_, nth) => pod(`web-${nth}`, { state: 'Normal' }));
  const messages = ({ cluster }: RunningController) =>
    cluster.all(kubeResource.events).map((event) => (event as unknown as { readonly message: string }).message);

  it('P-10: an annotation is obeyed without Temporal, and goes; an undo has the roll-out started', async () => {
    const wanted: string[] = [];
    const starter: ControllerContextOptions['starter'] = {
      want: ({ workflowId }) => void wanted.push(workflowId),
      command: async () => {
        throw new Error('Temporal is away');
      },
    };
    const cluster = new MemoryCluster();
    cluster.put(kubeResource.controllerRevisions, oldRevision);
    const annotated = (text: string) =>
      cloneSet({ replicas: 2 }, { metadata: { annotations: { 'windlass.io/command': text } }, status: {} });
    const pods = ['web-a', 'web-b'].map((name) => newPodOf(name, { state: 'Normal' }));
    const controller = await run(annotated('undo'), pods, { cluster, starter });
    await waitFor('the undo', () => statusIn(controller)?.rollOut?.undo);
    expect(statusIn(controller)?.rollOut).toMatchObject({ undo: { by: 'an annotation', to: oldName } });
    await waitFor('its roll-out', () => wanted.includes('roll-out/shop/web/set-uid'));
    const { annotations } = (cluster.look<CloneSet>(cloneSets, { namespace: 'shop', name: 'web' }) as CloneSet)
      .metadata;
    expect(annotations?.['windlass.io/command']).toBeUndefined();
    await waitFor('its Event', () => messages(controller).includes(`Undone to revision ${oldName} by an annotation`));
  });

  it('P-10: annotations that say the same within a second are commands of their own', async () => {
    const cluster = new MemoryCluster();
    cluster.put(kubeResource.controllerRevisions, oldRevision);
    const controller = await run(cloneSet({ replicas: 2 }), old(2), { cluster });
    await waitFor('the first look', () => statusIn(controller)?.replicas === 2);
    const annotate = async (text: string) => {
      const set = cluster.look<CloneSet>(cloneSets, { namespace: 'shop', name: 'web' }) as CloneSet;
      cluster.put(cloneSets, { ...set, metadata: { ...set.metadata, annotations: { 'windlass.io/command': text } } });
      await waitFor(text, () => {
        const { metadata } = cluster.look<CloneSet>(cloneSets, { namespace: 'shop', name: 'web' }) as CloneSet;
        return metadata.annotations?.['windlass.io/command'] === undefined;
      });
    };
    for (const text of ['pause', 'resume', 'pause']) await annotate(text);
    expect(statusIn(controller)?.rollOut).toMatchObject({ paused: { by: 'an annotation' } });
    expect(statusIn(controller)?.rollOut?.applied).toHaveLength(3);
  });

  it('P-9: a pause while a pass updates two hundred pods lets no write begin after its answer', async () => {
    const begun: string[] = [];
    const slow = Promise.withResolvers<void>();
    const cluster = new MemoryCluster();
    cluster.put(kubeResource.controllerRevisions, oldRevision);
    const meet = async ({ plural, verb, name = '' }: SeenCall) => {
      if (plural !== 'pods' || verb === 'get') return;
      begun.push(name);
      await slow.promise;
    };
    const pods = old(200);
    const set = cloneSet({ replicas: 200, rollingUpdate: { maxUnavailable: 200 } });
    const controller = await run(set, pods, { cluster, meet });
    await waitFor('the first look', () => statusIn(controller)?.replicas === 200);
    void rollOut(controller, pods)?.catch(() => undefined);
    await waitFor('the first writes', () => begun.length > 0);
    const commands = controller.controller.fleet?.commands();
    const target = { namespace: 'shop', name: 'web', uid: 'set-uid' };
    const command = { key: 'run/1', name: 'pause', at: now } as const;
    let isAnswered = false;
    const paused = commands
      ?.apply(target, command, async () => ({ by: 'ann', isReapplied: false }))
      .then((applied) => {
        isAnswered = true;
        return applied;
      });
    await waitFor('the order', () => statusIn(controller)?.rollOut?.paused);
    expect(isAnswered).toBe(false);
    slow.resolve();
    expect(await paused).toMatchObject({ by: 'ann', answer: {} });
    const atAnswer = begun.length;
    await waitFor('the wait', () => statusIn(controller)?.waitingFor?.reason === 'PausedByOperator');
    expect([begun.length, atAnswer < 200]).toEqual([atAnswer, true]);
  });
});

const alive: PermitLife = { isAlive: () => true, ended: new AbortController().signal };

/** Hands in what a roll-out does: a batch of these pods. */
function rollOut(
  { controller }: RunningController,
  pods: readonly Pod[],
  how: ChosenPod['how'] = 'inPlace',
): Promise<unknown> | undefined {
  const queue = controller.fleet?.queue();
  const chosen = pods.map(({ metadata: { namespace = '', name, uid } }): ChosenPod => {
    return { namespace, name, uid, how };
  });
  const batch = batchOf(newName, chosen as [ChosenPod]);
  return queue?.carryOut('set-uid', { number: 1, batch }, alive);
}

/** A cluster with the old revision of the CloneSet, and PVCs without a pod. */
function clusterWith(...claims: readonly string[]): MemoryCluster {
  const cluster = new MemoryCluster();
  cluster.put(kubeResource.controllerRevisions, oldRevision);
  for (const id of claims) cluster.put(kubeResource.persistentVolumeClaims, claim('data', id));
  return cluster;
}

/** Fails the matching calls, this many times. */
function failing(times: number, error: () => KubeError, isMeant: (call: SeenCall) => boolean) {
  const met: SeenCall[] = [];
  const meet = (call: SeenCall) => {
    if (!isMeant(call)) return;
    met.push(call);
    if (met.length <= times) throw error();
  };
  return { met, meet };
}

const calls = (verb: string, plural: string) => (call: SeenCall) => call.verb === verb && call.plural === plural;
const podNames = ['web-aaaaa', 'web-bbbbb', 'web-ccccc', 'web-ddddd', 'web-eeeee'];
const stable = { status: { currentRevision: newRevisionOfSet.metadata.name } };

describe('a step of the controller of CloneSets that fails', () => {
  const isStatus = ({ body }: SeenCall) => typeof body === 'object' && body !== null && 'status' in body;
  const stray = newPodOf('web-stray', { labels: { app: 'quarantine' } });
  const five = podNames.map((name) => newPodOf(name));
  const noReuse = cloneSet({ scaleStrategy: { enablePVCReuse: false }, volumeClaimTemplates: [] }, stable);
  const old = podNames.map((name) => pod(name));
  const steps: readonly {
    readonly step: string;
    readonly fails: (call: SeenCall) => boolean;
    readonly set: CloneSet;
    readonly pods: readonly Pod[];
    readonly cluster?: () => MemoryCluster;
  }[] = [
    { step: 'createPod', fails: calls('create', 'pods'), set: cloneSet({}, stable), pods: five.slice(1) },
    { step: 'deletePod', fails: calls('delete', 'pods'), set: cloneSet({ replicas: 4 }, stable), pods: five },
    { step: 'writePod', fails: calls('patch', 'pods'), set: cloneSet({}, stable), pods: [...five, stray] },
    { step: 'updatePod', fails: calls('patch', 'pods'), set: cloneSet(), pods: old, cluster: () => clusterWith() },
    {
      step: 'recreatePod',
      fails: calls('patch', 'pods'),
      set: cloneSet({ rollingUpdate: { podUpdatePolicy: 'ReCreate' } }),
      pods: old,
      cluster: () => clusterWith(),
    },
    {
      step: 'createRevision',
      fails: calls('create', 'controllerrevisions'),
      set: cloneSet({ template: { metadata: { labels: { app: 'web' } }, spec: { containers: [] } } }),
      pods: five,
    },
    {
      step: 'deleteRevision',
      fails: calls('delete', 'controllerrevisions'),
      set: cloneSet({ revisionHistoryLimit: 0 }, stable),
      pods: five,
      cluster: () => clusterWith(),
    },
    {
      step: 'deleteClaim',
      fails: calls('delete', 'persistentvolumeclaims'),
      set: noReuse,
      pods: five,
      cluster: () => clusterWith('zzzzz'),
    },
    {
      step: 'writeClaim',
      fails: calls('patch', 'persistentvolumeclaims'),
      set: noReuse,
      pods: [...five, newPodOf('web-zzzzz', { phase: 'Failed' })],
      cluster: () => clusterWith('zzzzz'),
    },
    {
      step: 'writeOwner',
      fails: (call) => calls('patch', 'clonesets')(call) && !isStatus(call),
      set: cloneSet({ scaleStrategy: { podsToDelete: ['web-gone'] } }, stable),
      pods: five,
    },
    {
      step: 'writeStatus',
      fails: (call) => calls('patch', 'clonesets')(call) && isStatus(call),
      set: cloneSet({}, stable),
      pods: five,
    },
  ];

  it.each(steps)('H8: $step: is told by its own reason and tried again, and a 503 is looked after', async (one) => {
    const { met, meet } = failing(1, unavailable, one.fails);
    const lists: SeenCall[] = [];
    const cluster = one.cluster?.();
    const controller = await run(one.set, one.pods, {
      ...(cluster && { cluster }),
      meet: (call) => {
        if (call.verb === 'list') lists.push(call);
        meet(call);
      },
    });
    void rollOut(controller, one.pods, one.step === 'recreatePod' ? 'recreate' : 'inPlace')?.catch(() => undefined);
    await waitFor('the second attempt', () => met.length >= 2);
    expect(controller.warnings.filter((text) => text.startsWith('Reconcile failed'))).toEqual([
      'Reconcile failed: etcd is away',
    ]);
    expect(controller.failures).toEqual([]);
    expect(lists.map(({ plural }) => plural)).toContain('pods');
    for (const { body } of lists) expect(body).toMatchObject({ limit: expect.any(Number) });
  });

  it('H8: a relabelled pod does not block the controller', async () => {
    const isRelease = (call: SeenCall) => calls('patch', 'pods')(call) && call.name === 'web-stray';
    const { met, meet } = failing(1_000, unavailable, isRelease);
    const controller = await run(cloneSet({}, stable), [...five, stray], { meet });
    await waitFor('its release to fail', () => met.length >= 2);
    controller.cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'web-aaaaa' });
    await waitFor('the lost pod to be replaced', () => controller.writes.some(calls('create', 'pods')));
  });

  it('H8: a creation of which the answer was lost makes one pod', async () => {
    const cluster = new MemoryCluster();
    let lost = 0;
    const controller = await run(cloneSet({}, stable), five.slice(1), {
      cluster,
      meet: (call) => {
        if (!calls('create', 'pods')(call) || lost > 0) return;
        lost += 1;
        cluster.put(kubeResource.pods, call.body as Pod);
        throw new KubeError({ status: 0, message: 'no answer within 30 s' });
      },
    });
    await waitFor('the pod to be counted', () => statusIn(controller)?.replicas === 5);
    await waitFor('the pass to be over', () => statusIn(controller)?.waitingFor?.reason !== 'CannotCreate');
    expect([lost, controller.writes.filter(calls('create', 'pods')).length]).toEqual([1, 0]);
  });

  it.each([
    { what: 'no answer to the deletion of its PVC', fails: calls('delete', 'persistentvolumeclaims') },
    { what: 'a lost answer to its own deletion', fails: calls('delete', 'pods') },
  ])('M1, CS-35: a pod that the set deletes takes its PVCs with it, after $what', async ({ fails }) => {
    const cluster = clusterWith('aaaaa');
    const { meet } = failing(1, unavailable, (call) => {
      if (!fails(call)) return false;
      // carried out, but not answered
      if (call.plural === 'pods') cluster.remove(kubeResource.pods, { namespace: 'shop', name: call.name });
      return true;
    });
    const volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }];
    const set = cloneSet({ replicas: 1, volumeClaimTemplates, rollingUpdate: { maxUnavailable: 1 } }, stable);
    const controller = await run(set, [newPodOf('web-aaaaa', { specified: true })], { cluster, meet });
    await waitFor('the new pod', () => controller.writes.some(calls('create', 'pods')));
    await waitFor('the PVC to be gone', () => {
      return (
        cluster.look(kubeResource.persistentVolumeClaims, { namespace: 'shop', name: 'data-web-aaaaa' }) === undefined
      );
    });
    const created = controller.writes.filter(({ verb }) => verb === 'create').map(({ name }) => name);
    expect(created.filter((name) => name.endsWith('aaaaa'))).toEqual([]);
  });

  it('CS-35: the PVCs of a pod stay with it where its deletion was not carried out and is not wanted any more', async () => {
    const cluster = clusterWith('aaaaa');
    const volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }];
    const pod = newPodOf('web-aaaaa', { specified: true });
    const { met, meet } = failing(1, unavailable, (call) => {
      if (!calls('delete', 'pods')(call)) return false;
      cluster.put(kubeResource.pods, newPodOf('web-aaaaa'));
      return true;
    });
    const controller = await run(cloneSet({ replicas: 1, volumeClaimTemplates }, stable), [pod], { cluster, meet });
    await waitFor('the deletion to fail', () => met.length === 1);
    cluster.put(kubeResource.pods, newPodOf('web-aaaaa', { ready: false }));
    await waitFor('another look', () => statusIn(controller)?.readyReplicas === 0);
    cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'web-aaaaa' });
    await waitFor('the pod to come back', () => controller.writes.some(calls('create', 'pods')));
    expect(controller.writes.filter(calls('delete', 'persistentvolumeclaims'))).toEqual([]);
    expect(controller.writes.find(calls('create', 'pods'))?.name).toBe('web-aaaaa');
  });

  it('H8: a revision that is refused is told in the status, and recorded once it may be', async () => {
    const message = 'controllerrevisions.apps "web-x" is forbidden: exceeded quota: few';
    const refused = () => new KubeError({ status: 403, message });
    const { meet } = failing(4, refused, calls('create', 'controllerrevisions'));
    const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [] } };
    const controller = await run(cloneSet({ template }), five, { meet });
    await waitFor('the status to tell of it', () => {
      const { reason, unblock } = statusIn(controller)?.waitingFor ?? {};
      return reason === 'CannotCreate' && unblock?.includes(`Denied: ${message}`);
    });
    expect(statusIn(controller)?.observedGeneration).toBeUndefined();
    await waitFor('the set to go on', () => statusIn(controller)?.observedGeneration === 2);
    expect(statusIn(controller)?.waitingFor?.reason).not.toBe('CannotCreate');
  });

  const right =
    'pods is forbidden: User "system:serviceaccount:kruise-system:windlass-watcher" cannot create resource "pods" ' +
    'in API group "" in the namespace "shop"';
  const quota = 'pods "web-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=4, limited: pods=4';
  const policy = 'Pod "web-x" is invalid: spec.containers[0].image: Forbidden: not from this registry';
  it('H8: is Denied or Invalid in status and verdict, with the text of the refusal, and goes on once it may', async () => {
    const refusals = [
      {
        status: 403,
        type: 'Denied',
        message: right,
        grant: 'Allow ServiceAccount "kruise-system/windlass-watcher" to create pods',
      },
      { status: 403, type: 'Denied', message: quota, grant: '' },
      { status: 422, type: 'Invalid', message: policy, grant: '' },
    ];
    await Promise.all(
      refusals.map(async ({ status, type, message, grant }) => {
        let isRefused = true;
        const lists: string[] = [];
        const controller = await run(cloneSet({}, stable), five.slice(1), {
          meet: (call) => {
            if (call.verb === 'list') lists.push(call.plural);
            if (isRefused && calls('create', 'pods')(call)) throw new KubeError({ status, message });
          },
        });
        void rollOut(controller, five.slice(1))?.catch(() => undefined);
        await waitFor('the status to tell of it', () => statusIn(controller)?.waitingFor?.reason === 'CannotCreate');
        const told = statusIn(controller);
        expect(told?.waitingFor?.unblock).toContain(`${type}: ${grant}`);
        expect(told?.waitingFor?.unblock).toContain(message);
        expect(told?.conditions).toContainEqual(expect.objectContaining({ type: 'FailedScale', message }));
        expect(controller.controller.fleet?.queue()?.next('set-uid')).toMatchObject({
          kind: 'wait',
          waitingFor: { reason: type, unblock: expect.stringContaining(message) },
        });
        expect(lists).toEqual([]);

        isRefused = false;
        // somebody asks for another try
        const set = controller.cluster.look<CloneSet>(cloneSets, { namespace: 'shop', name: 'web' });
        const metadata = { ...set?.metadata, annotations: { again: 'please' } };
        controller.cluster.put(cloneSets, { ...set, metadata } as CloneSet);
        await waitFor('the set to go on', () => {
          const { replicas, waitingFor, conditions = [] } = statusIn(controller) ?? {};
          return replicas === 5 && waitingFor?.reason !== 'CannotCreate' && conditions.length === 0;
        });
      }),
    );
  });
});
