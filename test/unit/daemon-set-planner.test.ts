import { describe, expect, it, test } from '@jest/globals';
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import type { Taint } from '../../api/core/node.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { DaemonSet, DaemonSetRollingUpdate } from '../../api/daemon-set/types.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type ControllerRevision, newRevision, shortHash } from '../../api/fleet/revision.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import type { DaemonSetInput } from '../../plan/daemon-set/input.ts';
import { daemonSetWorkloads } from '../../plan/daemon-set/planner.ts';
import { daemonSetRevisions } from '../../plan/daemon-set/revisions.ts';
import {
  fresh,
  input,
  listIn,
  node,
  nodes,
  noStatus,
  now,
  old,
  PlayedNodes,
  permit,
  pod,
  pods,
  revision,
  revisionOf,
  set,
  template,
} from '../support/daemon-set-world.ts';
import { endedTag, nodeImage, tagOf } from '../support/pull-objects.ts';
import { recorded } from '../support/recorded.ts';

const plan = (owner: DaemonSet, more: Partial<DaemonSetInput> = {}) => daemonSetWorkloads.plan(input(owner, more));
type Plan = ReturnType<typeof plan>;
const bodies = ({ upkeep }: Plan) => upkeep.flatMap((step) => (step.kind === 'createPod' ? [step.pod] : []));
const deleted = ({ upkeep }: Plan) => upkeep.flatMap((step) => (step.kind === 'deletePod' ? [step.pod.name] : []));
const begun = ({ disruption }: Plan) => disruption.flatMap((step) => ('pod' in step ? [step.pod.name] : []));
const reason = ({ status }: Plan) => status?.waitingFor?.reason;
const events = ({ upkeep }: Plan) => upkeep.flatMap((step) => (step.kind === 'event' ? [step.event.reason] : []));
const held = ({ upkeep }: Plan) =>
  upkeep.flatMap((step) => (step.kind === 'writePod' && step.why === 'prepareDelete' ? [step.pod.name] : []));

const kept = ({ upkeep }: Plan) =>
  upkeep.flatMap((step) => (step.kind === 'writePod' && step.why === 'keep' ? [step.pod.name] : []));

/** What a pod that is to be created requires of its node. */
function termsIn(body: JsonObject): readonly JsonObject[] {
  const { nodeAffinity } = objectOr(objectOr(body.spec).affinity);
  const required = objectOr(objectOr(nodeAffinity).requiredDuringSchedulingIgnoredDuringExecution);
  return listOr(required.nodeSelectorTerms).map(objectOr);
}

/** The nodes that get a pod. */
const created = (result: Plan) =>
  bodies(result).flatMap((body) =>
    termsIn(body).flatMap(({ matchFields }) => listOr(matchFields).flatMap((field) => listOr(objectOr(field).values))),
  );

const specified = { 'apps.kruise.io/specified-delete': 'true' };
const preparing = { 'lifecycle.apps.kruise.io/state': 'PreparingDelete' };
const hook = { lifecycle: { preDelete: { labelsHandler: { hold: 'yes' } } } };
const podSpec = (spec: JsonObject) => ({ template: template('app:2', spec) });
const taint = (key: string, effect: string, value = ''): Taint => ({ key, effect, value });

describe('AD-10: which nodes', () => {
  const pool = { labels: { pool: 'a' } };
  const affinity = (...terms: readonly JsonObject[]) => ({
    affinity: {
      nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } },
    },
  });
  const matching = (operator: string, values?: readonly string[], key = 'pool') => ({
    matchExpressions: [{ key, operator, ...(values && { values }) }],
  });
  const tolerating = (toleration: JsonObject) => ({ tolerations: [toleration] });
  const gpu = { taints: [taint('gpu', 'NoSchedule', 'a')] };
  const on = (effect: string) => ({ taints: [taint('gpu', effect)] });
  const trouble = (name: string, effect: string) => ({ taints: [taint(`node.kubernetes.io/${name}`, effect)] });

  test.each<readonly [string, JsonObject, Parameters<typeof node>[1], boolean]>([
    ['any', {}, {}, true],
    ['its name', { nodeName: 'n1' }, {}, true],
    ['another name', { nodeName: 'n2' }, {}, false],
    ['its label', { nodeSelector: { pool: 'a' } }, pool, true],
    ['another label', { nodeSelector: { pool: 'b' } }, pool, false],
    ['a label that it lacks', { nodeSelector: { pool: 'a' } }, {}, false],
    ['In', affinity(matching('In', ['a', 'b'])), pool, true],
    ['In of others', affinity(matching('In', ['b'])), pool, false],
    ['NotIn', affinity(matching('NotIn', ['a'])), pool, false],
    ['NotIn of a label that it lacks', affinity(matching('NotIn', ['a'])), {}, true],
    ['Exists', affinity(matching('Exists')), pool, true],
    ['DoesNotExist', affinity(matching('DoesNotExist')), pool, false],
    ['Gt', affinity(matching('Gt', ['3'], 'cpus')), { labels: { cpus: '4' } }, true],
    ['Gt of what is no number', affinity(matching('Gt', ['3'], 'cpus')), { labels: { cpus: 'many' } }, false],
    ['Lt', affinity(matching('Lt', ['4'], 'cpus')), { labels: { cpus: '4' } }, false],
    ['one of two terms', affinity(matching('In', ['b']), matching('In', ['a'])), pool, true],
    ['an empty term', affinity({}), pool, false],
    ['no terms', affinity(), pool, false],
    ['its field', affinity({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] }), {}, true],
    [
      'another field',
      affinity({ matchFields: [{ key: 'metadata.name', operator: 'NotIn', values: ['n1'] }] }),
      {},
      false,
    ],
    ['an unknown operator', affinity(matching('Near', ['a'])), pool, false],
    ['a taint', {}, gpu, false],
    ['a taint that keeps nobody away', {}, on('PreferNoSchedule'), true],
    ['a tolerated taint', tolerating({ key: 'gpu', operator: 'Equal', value: 'a' }), gpu, true],
    ['another value', tolerating({ key: 'gpu', value: 'b' }), gpu, false],
    ['another effect', tolerating({ key: 'gpu', operator: 'Exists', effect: 'NoExecute' }), gpu, false],
    ['every taint', tolerating({ operator: 'Exists' }), on('NoExecute'), true],
    ['a node that is not ready', {}, trouble('not-ready', 'NoExecute'), true],
    ['a node that is not ready yet', {}, trouble('not-ready', 'NoSchedule'), false],
    ['a node that is unreachable', {}, trouble('unreachable', 'NoExecute'), true],
    ['a cordoned node', {}, trouble('unschedulable', 'NoSchedule'), true],
    ['a node without room on its disk', {}, trouble('disk-pressure', 'NoSchedule'), true],
    ['a node without memory', {}, trouble('memory-pressure', 'NoSchedule'), true],
    ['a node without processes', {}, trouble('pid-pressure', 'NoSchedule'), true],
    ['a node without network', {}, trouble('network-unavailable', 'NoSchedule'), false],
    [
      'the same, for pods that do not need it',
      { hostNetwork: true },
      trouble('network-unavailable', 'NoSchedule'),
      true,
    ],
  ])('a template that asks for %s', (_, spec, of, runs) => {
    const result = plan(set({}, podSpec(spec)), { nodes: [node('n1', of)] });
    expect([created(result), result.status?.desiredNumberScheduled ?? 0]).toEqual([runs ? ['n1'] : [], runs ? 1 : 0]);
  });

  it('a pod stays on a node with a taint that keeps only new pods away, and goes from one that keeps all away', () => {
    const tainted = (effect: string) => ({ nodes: [node('n1', on(effect))], pods: [pod('n1', { of: fresh })] });
    expect(deleted(plan(set(), tainted('NoSchedule')))).toEqual([]);
    expect(plan(set(), tainted('NoSchedule')).status).toMatchObject({
      numberMisscheduled: 1,
      desiredNumberScheduled: 0,
    });
    expect(deleted(plan(set(), tainted('NoExecute')))).toEqual(['agent-n1-a']);
  });
});

describe('a new pod', () => {
  const made = (owner: DaemonSet) => bodies(plan(owner, { nodes: nodes(1) }))[0] ?? {};

  it('AD-17, AD §4: is of the newest revision, and bound to its node in place of all that the template requires of one', () => {
    const preferred = { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: {} }] };
    const required = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'a', operator: 'DoesNotExist' }] }] };
    const nodeAffinity = { ...preferred, requiredDuringSchedulingIgnoredDuringExecution: required };
    const affinity = { nodeAffinity, podAffinity: { a: 1 } };
    const owner = set({ partition: 1, paused: true }, podSpec({ affinity }));
    const body = made(owner);
    expect(body).toMatchObject({
      metadata: {
        name: expect.stringMatching(/^agent-[a-z0-9]{5}$/),
        labels: { app: 'agent', 'controller-revision-hash': shortHash(revisionOf(owner, 2).metadata.name) },
        ownerReferences: [{ apiVersion: 'apps.kruise.io/v1beta1', kind: 'DaemonSet', name: 'agent', controller: true }],
      },
      spec: { affinity: { nodeAffinity: preferred, podAffinity: { a: 1 } } },
    });
    expect(termsIn(body)).toEqual([{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] }]);
  });

  it('AD §4: tolerates a node in trouble, besides what the template tolerates', () => {
    const own = { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 5 };
    const body = made(set({}, podSpec({ tolerations: [own], hostNetwork: true })));
    const added = listIn(body, 'tolerations').map(({ key, effect }) => `${String(key).split('/')[1]} ${effect}`);
    expect(added).toEqual([
      ...['not-ready NoExecute', 'unreachable NoExecute', 'disk-pressure NoSchedule', 'memory-pressure NoSchedule'],
      ...['pid-pressure NoSchedule', 'unschedulable NoSchedule', 'network-unavailable NoSchedule'],
    ]);
    expect(listIn(made(set()), 'tolerations')).toHaveLength(6);
  });

  it('AD §4, LC-10: has the readiness gate of updates in place only where pods are updated so, and no state', () => {
    const gates = (rollingUpdateType: 'Standard' | 'InPlaceIfPossible') =>
      listIn(made(set({ rollingUpdateType })), 'readinessGates').map(({ conditionType }) => conditionType);
    expect(gates('InPlaceIfPossible')).toEqual(['InPlaceUpdateReady', 'KruisePodReady']);
    expect(gates('Standard')).toEqual(['KruisePodReady']);
    expect(JSON.stringify(made(set()))).not.toContain('lifecycle.apps.kruise.io');
  });

  it('AD §4: has the number of the template where the DaemonSet has one, and counts as updated with it', () => {
    const owner = set({}, {}, { 'deprecated.daemonset.template.generation': '7' });
    expect(made(owner)).toMatchObject({ metadata: { labels: { 'pod-template-generation': '7' } } });
    const there = pod('n1', { labels: { 'pod-template-generation': '7' } });
    const result = plan(owner, { nodes: nodes(1), pods: [there], permit });
    expect([begun(result), result.status?.updatedNumberScheduled]).toEqual([[], 1]);
  });

  it('has the same name in every plan, and another one than all pods that there are or were', () => {
    const nameOf = (more: Partial<DaemonSetInput>) =>
      String(objectOr(bodies(plan(set(), { nodes: nodes(1), ...more }))[0]?.metadata).name);
    const first = nameOf({});
    expect(nameOf({})).toBe(first);
    expect(nameOf({ isSpent: (name) => name === first, spentNames: 1 })).not.toBe(first);
  });

  it('AD §4: a revision has the hash as label, and the annotations of the DaemonSet', () => {
    const made = newRevision(daemonSetRevisions.ownerOf(set({}, {}, { note: 'x' })), 2);
    const hash = shortHash(made.metadata.name);
    expect(made.metadata).toMatchObject({
      ...{ name: `agent-${hash}`, annotations: { note: 'x' } },
      labels: { app: 'agent', 'controller-revision-hash': hash },
    });
  });
});

describe('AD-20: what every node has', () => {
  const all = { nodes: nodes(3) };

  it('one pod, also while the update is paused or left to the user', () => {
    const there = { ...all, pods: [pod('n2', { of: fresh })] };
    expect(created(plan(set(), there))).toEqual(['n1', 'n3']);
    expect(created(plan(set({ paused: true }), there))).toEqual(['n1', 'n3']);
    expect(created(plan(set({}, { updateStrategy: { type: 'OnDelete' } }), there))).toEqual(['n1', 'n3']);
  });

  it('AD-16: before anything is updated, in a pass of its own', () => {
    const owner = set({ maxUnavailable: 3 });
    const missing = plan(owner, { ...all, pods: pods(2), permit });
    expect([created(missing), begun(missing)]).toEqual([['n3'], []]);
    const surplus = plan(owner, { ...all, pods: [...pods(3), pod('n1', { suffix: 'b', created: now })], permit });
    expect([deleted(surplus), begun(surplus)]).toEqual([['agent-n1-b'], []]);
    // unless none can be created
    const failures = { scale: 'exceeded quota', scaleStep: 'create', nothingCreated: true } as const;
    expect(begun(plan(owner, { ...all, pods: pods(2), permit, failures }))).toEqual(['agent-n2-a', 'agent-n1-a']);
  });

  it('no second pod while the first one is being deleted, pending, or about to be adopted', () => {
    const orphan = pod('n3', { of: fresh });
    const orphans = [{ ...orphan, metadata: { ...orphan.metadata, ownerReferences: [] } }];
    const pending = pod('n2', { of: fresh, isUnscheduled: true, phase: 'Pending', ready: false });
    const result = plan(set(), { ...all, pods: [pod('n1', { going: true }), pending], orphans });
    expect([created(result), result.upkeep.map(({ kind }) => kind)]).toEqual([[], ['adoptPod']]);
    expect(reason(result)).toBe('NotScheduled');
  });

  it('a second pod once the containers of the first one have ended, where an annotation says so', () => {
    const going = (phase: string) => ({ nodes: nodes(1), pods: [pod('n1', { going: true, ready: false, phase })] });
    const policy = { 'windlass.io/pod-replacement-policy': 'TerminationComplete' };
    const [ended, running] = [
      plan(set({}, {}, policy), going('Succeeded')),
      plan(set({}, {}, policy), going('Running')),
    ];
    expect([created(ended), ended.status?.currentNumberScheduled]).toEqual([['n1'], 0]);
    expect([created(running), reason(running)]).toEqual([[], 'PodTerminating']);
    const beside = [...going('Failed').pods, pod('n1', { of: fresh, suffix: 'b' })];
    expect(reason(plan(set({}, {}, policy), { nodes: nodes(1), pods: beside }))).toBeUndefined();
    const strict = plan(set(), going('Failed'));
    expect([created(strict), reason(strict)]).toEqual([[], 'PodTerminating']);
  });

  it('the pod of a node that comes back is its own again', () => {
    const played = new PlayedNodes(set(), { nodes: nodes(3), pods: pods(3, { of: fresh }) });
    played.nodes = nodes(2);
    played.play(5);
    expect(played.pods).toHaveLength(3);
    played.nodes = nodes(3);
    played.play(5);
    expect(played.pods).toHaveLength(3);
  });

  it('AD-11: a pod that waits for a node that is gone is deleted, and one that was on it is left to the garbage collector', () => {
    const there = [pod('n8', { isUnscheduled: true }), pod('n9')];
    expect(deleted(plan(set(), { nodes: [], pods: there }))).toEqual(['agent-n8-a']);
  });

  it('of several pods the one that is on the node, then the oldest one', () => {
    const waiting = pod('n1', { of: fresh, suffix: 'a', isUnscheduled: true, created: '2025-01-01T00:00:00Z' });
    const older = pod('n1', { of: fresh, suffix: 'b' });
    const newer = pod('n1', { of: fresh, suffix: 'c', created: now });
    expect(deleted(plan(set(), { nodes: nodes(1), pods: [newer, waiting, older] }))).toEqual([
      'agent-n1-c',
      'agent-n1-a',
    ]);
  });

  it('while surging, the first of the old and of the new pods', () => {
    const two = (of: ControllerRevision) => [
      pod('n1', { of, suffix: `${of.revision}a`, ready: of === old }),
      pod('n1', { of, suffix: `${of.revision}b`, created: now }),
    ];
    const result = plan(set({ maxSurge: 1 }), { nodes: nodes(1), pods: [...two(old), ...two(fresh)] });
    expect(deleted(result)).toEqual(['agent-n1-2b', 'agent-n1-1b']);
  });

  it('while surging, a new pod beside one that is going', () => {
    const owner = set({ maxSurge: 1 }, hook);
    const going = [
      pod('n1', { going: true }),
      pod('n2', { labels: { ...preparing, hold: 'yes' } }),
      pod('n3', { phase: 'Failed' }),
    ];
    expect(created(plan(owner, { ...all, pods: going }))).toEqual(['n1', 'n2', 'n3']);
    expect(created(plan(set({}, hook), { ...all, pods: going }))).toEqual([]);
  });

  it('AD-35a: while surging, the old pod until the new one is available, unless it is not ready itself', () => {
    const beside = (oldReady: boolean, newReady: boolean | string) => [
      pod('n1', { ready: oldReady }),
      pod('n1', { of: fresh, suffix: 'b', ready: newReady }),
    ];
    const of = (there: readonly Pod[]) =>
      deleted(plan(set({ maxSurge: 1 }, { minReadySeconds: 10 }), { nodes: nodes(1), pods: there }));
    expect(of(beside(true, false))).toEqual([]);
    expect(of(beside(true, '2026-01-01T00:09:55Z'))).toEqual([]);
    expect(of(beside(true, '2026-01-01T00:09:45Z'))).toEqual(['agent-n1-a']);
    expect(of(beside(false, false))).toEqual(['agent-n1-a']);
  });

  describe('failed pods', () => {
    const failed = { nodes: nodes(1), pods: [pod('n1', { of: fresh, phase: 'Failed' })] };
    const failedFor = (times: number, secondsAgo: number) =>
      plan(set(), {
        ...failed,
        failedBefore: new Map([['n1', { times, lastAtMs: Date.parse(now) - secondsAgo * 1000 }]]),
      });

    it('the first one is deleted at once, whatever its conditions say, with an Event', () => {
      const result = plan(set(), failed);
      expect([deleted(result), events(result)]).toEqual([['agent-n1-a'], ['FailedDaemonPod']]);
    });

    test.each([
      [1, 1],
      [2, 2],
      [5, 16],
      [30, 900],
    ])('after %d of them the next one waits for %d s, and says so', (times, seconds) => {
      expect(deleted(failedFor(times, seconds))).toEqual(['agent-n1-a']);
      const waiting = failedFor(times, seconds - 1);
      expect([deleted(waiting), events(waiting), waiting.againInMs, reason(waiting)]).toEqual([
        [],
        [],
        1000,
        'FailedPod',
      ]);
    });

    it('while surging, no pod is created beside one that waits for its deletion', () => {
      const failedBefore = new Map([['n1', { times: 9, lastAtMs: Date.parse(now) }]]);
      expect(created(plan(set({ maxSurge: 1 }), { ...failed, failedBefore }))).toEqual([]);
    });

    it('pods that have succeeded stay', () => {
      const ended = { nodes: nodes(1), pods: [pod('n1', { of: fresh, phase: 'Succeeded' })] };
      expect(deleted(plan(set(), ended))).toEqual([]);
    });
  });

  it('AD-24: a hook holds every pod that is to go, and a pod that is held goes even if its node fits again', () => {
    const owner = set({}, { ...hook, ...podSpec({ nodeSelector: { pool: 'a' } }) });
    const there = [pod('n1', { of: fresh, labels: { hold: 'yes' } })];
    expect(held(plan(owner, { nodes: nodes(1), pods: there }))).toEqual(['agent-n1-a']);
    const fits = { nodes: nodes(1), revisions: [old, fresh] };
    const preparingPod = (hold: string) => [pod('n1', { of: fresh, labels: { ...preparing, hold } })];
    expect(deleted(plan(set({}, hook), { ...fits, pods: preparingPod('yes') }))).toEqual([]);
    expect(reason(plan(set({}, hook), { ...fits, pods: preparingPod('yes') }))).toBe('HookBeforeDelete');
    expect(deleted(plan(set({}, hook), { ...fits, pods: preparingPod('no') }))).toEqual(['agent-n1-a']);
    expect(deleted(plan(set(), { ...fits, pods: preparingPod('yes') }))).toEqual(['agent-n1-a']);
  });

  it('AD-12: pods of either version are its own; those of other labels are released', () => {
    const older = pod('n1', { of: fresh, apiVersion: 'apps.kruise.io/v1alpha1' });
    const stray = pod('n2', { of: fresh, labels: { app: 'other' } });
    const result = plan(set(), { nodes: nodes(2), pods: [older, stray] });
    expect([created(result), deleted(result)]).toEqual([['n2'], []]);
    expect(result.upkeep).toContainEqual(expect.objectContaining({ kind: 'writePod', why: 'release' }));
  });

  it('AD-15: nothing is done for one that is being deleted, or whose selector is empty', () => {
    const owner = set();
    const going = { ...owner, metadata: { ...owner.metadata, deletionTimestamp: now } };
    expect([plan(going, all).upkeep, plan(going, { ...all, permit }).disruption]).toEqual([[], []]);
    expect(plan(going, all).status).toBeUndefined();
    const greedy = plan(set({}, { selector: {} }), { ...all, pods: pods(3) });
    expect([events(greedy), greedy.upkeep.length, greedy.disruption.length]).toEqual([['SelectingAll'], 1, 0]);
  });

  it('AD-62: no hook is run for the pods of a DaemonSet that is deleted', () => {
    const owner = set({}, hook);
    const going = { ...owner, metadata: { ...owner.metadata, deletionTimestamp: now } };
    expect(plan(going, { nodes: [], pods: pods(2, { labels: { hold: 'yes' } }) }).upkeep).toEqual([]);
  });
});

describe('how many at once', () => {
  const many = { nodes: nodes(5) };

  test.each<readonly [DaemonSet['spec']['burstReplicas'], number]>([
    [2, 2],
    ['50%', 2],
    ['10%', 1],
    ['0%', 1],
    [0, 1],
    ['many', 5],
    [-3, 5],
  ])('AD-21, AD-40: with burstReplicas %p a pass creates and deletes %d pods', (burstReplicas, most) => {
    const owner = set({}, burstReplicas === undefined ? {} : { burstReplicas });
    expect(created(plan(owner, many))).toHaveLength(most);
    // of the nodes that there are now, not of those in the last status
    expect(owner.status?.desiredNumberScheduled).toBe(0);
    const there = pods(5, { of: fresh }).flatMap((one, index) => [
      one,
      pod(`n${index + 1}`, { of: fresh, suffix: 'b' }),
    ]);
    expect(deleted(plan(owner, { ...many, pods: there }))).toHaveLength(most);
  });

  it('AD-21: with 250 by default', () => {
    expect(created(plan(set(), { nodes: nodes(300) }))).toHaveLength(250);
  });

  it('AD-34: a pass begins no more updates than that', () => {
    const owner = set({ maxUnavailable: '100%', rollingUpdateType: 'InPlaceIfPossible' }, { burstReplicas: 2 });
    expect(begun(plan(owner, { ...many, pods: pods(5), permit }))).toHaveLength(2);
  });

  const progressive = { scaleStrategy: { partitionedScaling: true } };
  test.each<readonly [string, DaemonSet, readonly Pod[], readonly string[]]>([
    ['without pods', set({ partition: 3 }, progressive), [], ['n1', 'n2']],
    ['AD-23: in percent, of a new one', set({ partition: '50%' }, progressive), [], ['n1', 'n2', 'n3']],
    ['with a new pod', set({ partition: 3 }, progressive), [pod('n2', { of: fresh })], ['n1']],
    ['with an old pod', set({ partition: 3 }, progressive), [pod('n1')], ['n2', 'n3']],
    [
      'with all new pods it may have',
      set({ partition: 3 }, progressive),
      [pod('n4', { of: fresh }), pod('n5', { of: fresh })],
      [],
    ],
    ['of nothing', set({ partition: 0 }, progressive), [], ['n1', 'n2', 'n3', 'n4', 'n5']],
    ['that is not asked for', set({ partition: 3 }), [], ['n1', 'n2', 'n3', 'n4', 'n5']],
  ])('AD-22, AD-23: progressive creation %s', (_, owner, there, expected) => {
    expect(created(plan(owner, { ...many, pods: there }))).toEqual(expected);
  });

  it('AD-22: names the nodes whose pods the partition holds back', () => {
    const ready = ['n1', 'n2'].map((name) => pod(name, { of: fresh }));
    const { status } = plan(set({ partition: 3 }, progressive), { ...many, pods: ready });
    expect(status?.waitingFor).toMatchObject({
      reason: 'PartitionReached',
      blockedBy: ['node/n3', 'node/n4', 'node/n5'],
    });
  });
});

describe('AD-31: which nodes are updated', () => {
  const labelled = ['n1', 'n2', 'n3', 'n4'].map((name, index) =>
    node(name, { labels: { wave: index < 2 ? 'a' : 'b' } }),
  );
  const of = (rollingUpdate: DaemonSetRollingUpdate, there: readonly Pod[] = pods(4)) =>
    begun(plan(set({ maxUnavailable: 4, ...rollingUpdate }), { nodes: labelled, pods: there, permit }));
  const waveA = { selector: { matchLabels: { wave: 'a' } } };
  const [n1, n2, n3, n4] = ['agent-n1-a', 'agent-n2-a', 'agent-n3-a', 'agent-n4-a'] as const;

  it('all, from the last name on, but for the partition, a share rounded down', () => {
    expect(of({})).toEqual([n4, n3, n2, n1]);
    expect(of({ partition: 1 })).toEqual([n4, n3, n2]);
    expect(of({ partition: '49%' })).toEqual([n4, n3, n2]);
    expect([of({ partition: 4 }), of({ partition: 9 }), of({ partition: '100%' })]).toEqual([[], [], []]);
  });

  it('those with a new pod, or without one, count first', () => {
    const there = [pod('n1', { of: fresh }), pod('n2', { labels: preparing }), pod('n3'), pod('n4')];
    expect(
      plan(set({ maxUnavailable: 4, partition: 1 }, hook), { nodes: labelled, pods: there, permit }),
    ).toMatchObject({
      upkeep: [{ kind: 'deletePod' }],
    });
    const waiting = there.map((one) =>
      one.metadata.name === n2 ? pod('n2', { labels: { ...preparing, hold: 'yes' } }) : one,
    );
    expect(
      begun(plan(set({ maxUnavailable: 4, partition: 1 }, hook), { nodes: labelled, pods: waiting, permit })),
    ).toEqual([n4]);
    expect(
      begun(plan(set({ maxUnavailable: 4, partition: 2 }, hook), { nodes: labelled, pods: waiting, permit })),
    ).toEqual([]);
  });

  it('of the old ones only those that the selector selects, together with the partition', () => {
    expect(of(waveA)).toEqual([n2, n1]);
    expect(of({ ...waveA, partition: 3 })).toEqual([n2]);
    expect(of({ selector: { matchExpressions: [{ key: 'wave', operator: 'Odd' }] } })).toEqual([]);
  });

  it('nodes outside of the selection do not count as unavailable', () => {
    const broken = [pod('n1'), pod('n2'), pod('n3', { ready: false }), pod('n4', { ready: false })];
    expect(begun(plan(set({ maxUnavailable: 1, ...waveA }), { nodes: labelled, pods: broken, permit }))).toEqual([n2]);
  });

  it('AD-38: a node that leaves the selector keeps its new pod, and a raised partition takes nothing back', () => {
    const done = pods(4, { of: fresh });
    expect([of({ selector: { matchLabels: { wave: 'c' } } }, done), of({ partition: 4 }, done)]).toEqual([[], []]);
    const halfway = [...pods(2), pod('n3', { of: fresh }), pod('n4', { of: fresh })];
    expect(of({ partition: 1 }, halfway)).toEqual([n2]);
    expect(of({ partition: 3 }, halfway)).toEqual([]);
  });

  it('says what keeps the others', () => {
    const why = (rollingUpdate: object) =>
      plan(set({ maxUnavailable: 4, ...rollingUpdate }), { nodes: labelled, pods: pods(4), permit }).status?.waitingFor;
    expect(why({ partition: 4 })).toMatchObject({ reason: 'PartitionReached' });
    const halfway = [pod('n1', { of: fresh }), pod('n2', { of: fresh }), pod('n3'), pod('n4')];
    const { status } = plan(set(waveA), { nodes: labelled, pods: halfway, permit });
    expect(status?.waitingFor).toMatchObject({ reason: 'NodeNotSelected', blockedBy: ['node/n3', 'node/n4'] });
  });
});

describe('AD-32: without surging', () => {
  const all = { nodes: nodes(4), permit };
  const of = (maxUnavailable: number | string, there: readonly Pod[], more: Partial<DaemonSetInput> = {}) =>
    begun(plan(set({ maxUnavailable }, hook), { ...all, pods: there, ...more }));
  const [n3, n4] = ['agent-n3-a', 'agent-n4-a'] as const;

  it('AD-30: pods are labelled to be recreated, as many as may be unavailable, a share rounded up', () => {
    const { disruption } = plan(set({ maxUnavailable: 1 }), { ...all, pods: pods(4) });
    expect(disruption).toMatchObject([{ kind: 'recreatePod', pod: { name: n4 } }]);
    expect([of(2, pods(4)), of('26%', pods(4)), of('1%', pods(4))]).toEqual([[n4, n3], [n4, n3], [n4]]);
    expect(begun(plan(set(), { ...all, pods: pods(4) }))).toEqual([n4]);
    expect(begun(plan(set({ maxUnavailable: 0 }), { ...all, pods: pods(4) }))).toEqual([n4]);
  });

  it('nothing is begun without a permit', () => {
    expect(begun(plan(set(), { nodes: nodes(4), pods: pods(4) }))).toEqual([]);
  });

  it.each<readonly [string, readonly Pod[]]>([
    ['a new pod that is not available', [pod('n1', { of: fresh, ready: false })]],
    ['a pod that is being deleted', [pod('n1', { going: true })]],
    ['AD-32a: an old pod that is held before its deletion', [pod('n1', { labels: { ...preparing, hold: 'yes' } })]],
    ['a new pod that is held before its deletion', [pod('n1', { of: fresh, labels: { ...preparing, hold: 'yes' } })]],
  ])('%s takes part of the budget', (_, first) => {
    const there = [...first, pod('n2'), pod('n3'), pod('n4')];
    expect([of(1, there), of(2, there)]).toEqual([[], [n4]]);
  });

  it('an old pod that is unavailable is replaced whatever the budget is', () => {
    const broken = [pod('n1', { ready: false }), pod('n2', { ready: false }), pod('n3'), pod('n4')];
    expect(of(1, broken)).toEqual(['agent-n2-a', 'agent-n1-a', n4]);
  });

  it('AD-33: so a second template replaces all pods of a first one that was broken', () => {
    const broken = pods(4, { ready: false });
    expect(of(1, broken)).toHaveLength(4);
  });

  it('P-7: a pod that is out of service for its update, or whose update got no answer, takes part of it', () => {
    expect(of(1, pods(4), { inDoubt: new Set(['agent-n1-a-uid']) })).toEqual(['agent-n1-a']);
    const drained = drainedPod('n1');
    const owner = set({ maxUnavailable: 1, rollingUpdateType: 'InPlaceIfPossible' });
    expect(begun(plan(owner, { ...all, pods: [drained, pod('n2'), pod('n3'), pod('n4')] }))).not.toContain(n4);
  });

  it('a labelled pod is deleted within the budget', () => {
    const marked = (names: readonly string[]) =>
      ['n1', 'n2', 'n3', 'n4'].map((name) => pod(name, names.includes(name) ? { labels: specified } : {}));
    const result = plan(set({ maxUnavailable: 1 }), { ...all, pods: marked(['n2', 'n4']) });
    expect([deleted(result), begun(result), reason(result)]).toEqual([[n4], [], 'BudgetSpent']);
    const away = [pod('n1', { of: fresh, ready: false }), ...marked(['n4']).slice(1)];
    expect(deleted(plan(set({ maxUnavailable: 1 }), { ...all, pods: away }))).toEqual([]);
    expect(deleted(plan(set({ paused: true }), { ...all, pods: marked(['n4']) }))).toEqual([]);
  });

  it('AD-37: paused or left to the user, nothing is updated, and what has begun in place is finished', () => {
    const onDelete = set({}, { updateStrategy: { type: 'OnDelete' } });
    for (const owner of [set({ paused: true }), onDelete]) {
      expect(begun(plan(owner, { ...all, pods: pods(4) }))).toEqual([]);
    }
    expect([
      reason(plan(set({ paused: true }), { ...all, pods: pods(4) })),
      reason(plan(onDelete, { ...all, pods: pods(4) })),
    ]).toEqual(['Paused', 'OnDelete']);
  });

  it('AD-39, AD-39a: a node that is no longer one of them blocks the others with its pod, unless a gate leaves it out', () => {
    const tainted = node('n4', { taints: [taint('gpu', 'NoSchedule')] });
    const given = { permit, nodes: [...nodes(3), tainted], pods: [...pods(3), pod('n4', { of: fresh, ready: false })] };
    const gates = parseFeatureGates('DaemonSetPruneIneligibleNodes=true');
    expect(begun(plan(set(), given))).toEqual([]);
    // AD-39a
    expect(begun(plan(set(), { ...given, gates }))).toEqual([n3]);
    const hanging = { ...given, pods: [...pods(3), pod('n4', { going: true })], gates };
    expect([begun(plan(set(), hanging)), deleted(plan(set(), hanging))]).toEqual([[n3], []]);
  });

  it('AD-60: the pod of a node that is not ready is replaced like any other, and hangs as one that is being deleted', () => {
    const lost = node('n4', { taints: [taint('node.kubernetes.io/unreachable', 'NoExecute')] });
    const given = { permit, nodes: [...nodes(3), lost] };
    expect(begun(plan(set(), { ...given, pods: [...pods(3), pod('n4', { ready: false })] }))).toEqual([n4, n3]);
    const hanging = plan(set(), { ...given, pods: [...pods(3), pod('n4', { going: true })] });
    expect(begun(hanging)).toEqual([]);
    expect(hanging.status?.waitingFor).toMatchObject({
      reason: 'PodTerminating',
      unblock: expect.stringContaining('not ready are n4: their pods end once they are back'),
    });
    const held = { nodes: nodes(1), pods: [pod('n1', { going: true, finalizers: ['example.com/keep'] })] };
    expect(plan(set(), held).status?.waitingFor?.unblock).toContain('finalizers: example.com/keep');
  });
});

/** Taken out of service for its update a moment ago. */
function drainedPod(nodeName: string): Pod {
  const whole = pod(nodeName, { ready: false });
  const gate = { type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime: now };
  const conditions = (whole.status?.conditions ?? []).map((one) => (one.type === gate.type ? gate : one));
  return { ...whole, status: { ...whole.status, conditions } };
}

describe('AD-34: in place', () => {
  const inPlace = set({ rollingUpdateType: 'InPlaceIfPossible' }, { lifecycle: { preDelete: {} } });
  const all = { nodes: nodes(1), permit };
  const stepFor = (there: Pod, more: Partial<DaemonSetInput> = {}) =>
    plan(inPlace, { ...all, pods: [there], ...more }).disruption[0];

  it('the containers of a pod change, without lifecycle states and grace period', () => {
    const step = stepFor(pod('n1'));
    expect(step).toMatchObject({ kind: 'updatePod', revision: fresh.metadata.name });
    const text = JSON.stringify(step);
    expect(text).toContain(`"controller-revision-hash":"${shortHash(fresh.metadata.name)}"`);
    expect([text.includes('lifecycle.apps.kruise.io'), text.includes('inplace-update-grace')]).toEqual([false, false]);
  });

  it('a pod is recreated that has no gate, whose revision is gone, or of which something else changes', () => {
    expect(stepFor(pod('n1', { gates: ['KruisePodReady'] }))).toMatchObject({ kind: 'recreatePod' });
    expect(stepFor(pod('n1'), { revisions: [fresh] })).toMatchObject({ kind: 'recreatePod' });
    const other = newRevision(daemonSetRevisions.ownerOf(set({}, podSpec({ hostNetwork: true }))), 3);
    const newest = { ...other, metadata: { ...fresh.metadata, ...other.metadata } };
    const changed = { ...inPlace, spec: { ...inPlace.spec, ...podSpec({ hostNetwork: true }) } };
    const result = plan(changed, {
      ...all,
      pods: [pod('n1')],
      revisions: [old, newest],
      permit: { pods: new Map([['agent-n1-a-uid', newest.metadata.name]]), chooses: false },
    });
    expect(result.disruption).toMatchObject([{ kind: 'recreatePod' }]);
  });
});

describe('AD-35: surging', () => {
  const all = { nodes: nodes(4), permit };
  const owner = (maxSurge: number | string, spec: Partial<DaemonSet['spec']> = {}) =>
    set({ maxSurge, maxUnavailable: 0 }, spec);
  const marked = (name: string) => pod(name, { labels: specified });

  it('old pods are labelled to be replaced, as many as may be surging, a share rounded up', () => {
    expect(plan(owner(1), { ...all, pods: pods(4) }).disruption).toMatchObject([{ kind: 'recreatePod' }]);
    const of = (maxSurge: number | string) => begun(plan(owner(maxSurge), { ...all, pods: pods(4) })).length;
    expect([of(2), of('26%'), of('100%')]).toEqual([2, 2, 4]);
  });

  it('a labelled pod stays, and gets a new one beside it', () => {
    const result = plan(owner(1), { ...all, pods: [...pods(3), marked('n4')] });
    expect([created(result), deleted(result), begun(result)]).toEqual([['n4'], [], []]);
    expect(created(plan(set({ maxSurge: 1, paused: true }), { ...all, pods: [...pods(3), marked('n4')] }))).toEqual([]);
  });

  it('a labelled pod whose revision is the goal again is kept, without its label, and the new one beside it goes', () => {
    const back = pod('n1', { of: fresh, labels: specified });
    const beside = pod('n1', { suffix: 'b', ready: false, created: now });
    const result = plan(owner(1), { nodes: nodes(1), pods: [back, beside], permit });
    expect([kept(result), deleted(result), created(result)]).toEqual([['agent-n1-a'], ['agent-n1-b'], []]);
    const alone = plan(owner(1), { nodes: nodes(1), pods: [back], permit });
    expect([kept(alone), deleted(alone), created(alone)]).toEqual([['agent-n1-a'], [], []]);
  });

  it('a node with both takes part of the budget until its new pod is available', () => {
    const beside = (ready: boolean) => [...pods(3), marked('n4'), pod('n4', { of: fresh, suffix: 'b', ready })];
    const starting = plan(owner(1), { ...all, pods: beside(false) });
    expect([created(starting), deleted(starting), begun(starting), reason(starting)]).toEqual([
      [],
      [],
      [],
      'SurgeSpent',
    ]);
    expect(begun(plan(owner(2), { ...all, pods: beside(false) }))).toEqual(['agent-n3-a']);
    expect(deleted(plan(owner(1), { ...all, pods: beside(true) }))).toEqual(['agent-n4-a']);
  });

  it('a labelled pod takes part of the budget even if its new one cannot be created, and so does one in doubt', () => {
    const failures = { scale: 'exceeded quota', scaleStep: 'create', nothingCreated: true } as const;
    expect(begun(plan(owner(1), { ...all, pods: [...pods(3), marked('n4')], failures }))).toEqual([]);
    expect(begun(plan(owner(1), { ...all, pods: pods(4), inDoubt: new Set(['agent-n1-a-uid']) }))).toEqual([
      'agent-n1-a',
    ]);
  });

  it('an old pod that is not available gets a new one at once', () => {
    const broken = [pod('n1', { ready: false }), pod('n2', { ready: false }), pod('n3'), pod('n4')];
    expect(begun(plan(owner(1), { ...all, pods: broken }))).toEqual(['agent-n2-a', 'agent-n1-a', 'agent-n4-a']);
  });

  it('a node without an old pod, or with one that is held before its deletion, takes no part', () => {
    const there = [
      pod('n1', { of: fresh, ready: false }),
      pod('n2', { labels: { ...preparing, hold: 'yes' } }),
      pod('n3'),
      pod('n4'),
    ];
    const result = plan(owner(1, hook), { ...all, pods: [...there, pod('n2', { of: fresh, suffix: 'b' })] });
    expect(begun(result)).toEqual(['agent-n4-a']);
  });

  it('no node gets a new pod that should run none', () => {
    const tainted = { permit, nodes: [node('n1', { taints: [taint('gpu', 'NoSchedule')] })], pods: [pod('n1')] };
    expect(begun(plan(owner(1), tainted))).toEqual([]);
    expect(created(plan(owner(1), { ...tainted, pods: [marked('n1')] }))).toEqual([]);
  });
});

describe('played to the end', () => {
  const minReadySeconds = 5;

  /** Nodes with an available pod, and the most pods of a node that are not being deleted. */
  const stateOf = (played: PlayedNodes) => ({
    available: played.nodes.filter(({ metadata }) => played.at(metadata.name).some((one) => played.isAvailable(one)))
      .length,
    most: Math.max(
      ...played.nodes.map(
        ({ metadata }) => played.at(metadata.name).filter((one) => !one.metadata.deletionTimestamp).length,
      ),
    ),
  });
  const isDone = (played: PlayedNodes) =>
    played.pods.every((one) => one.metadata.labels?.['controller-revision-hash'] === shortHash(fresh.metadata.name));

  test.each<readonly [string, DaemonSet, number]>([
    ['by recreation', set({ maxUnavailable: 2 }, { minReadySeconds }), 2],
    ['by recreation, one at a time', set({ maxUnavailable: 1 }), 1],
    ['in place', set({ maxUnavailable: 2, rollingUpdateType: 'InPlaceIfPossible' }, { minReadySeconds }), 2],
    ['in place, in percent', set({ maxUnavailable: '30%', rollingUpdateType: 'InPlaceIfPossible' }), 2],
    ['surging', set({ maxSurge: 2 }, { minReadySeconds }), 0],
    ['surging on all nodes at once', set({ maxSurge: '100%' }, { minReadySeconds }), 0],
  ])('%s the budget is never exceeded, and no node has a pod too many', (_, owner, budget) => {
    const played = new PlayedNodes(owner, { nodes: nodes(5), pods: pods(5) });
    const isSurging = budget === 0;
    played.play(200, () => {
      const { available, most } = stateOf(played);
      expect(available).toBeGreaterThanOrEqual(5 - budget);
      expect(most).toBeLessThanOrEqual(isSurging ? 2 : 1);
    });
    expect([isDone(played), played.pods.length, stateOf(played).available]).toEqual([true, 5, 5]);
    expect(played.owner.status).toMatchObject({
      updatedNumberScheduled: 5,
      numberAvailable: 5,
      desiredNumberScheduled: 5,
    });
    expect(played.owner.status?.waitingFor).toBeUndefined();
  });

  it('AD-36: surging with minReadySeconds, the old pod of each node goes as soon as its new one is available', () => {
    const played = new PlayedNodes(set({ maxSurge: '100%' }, { minReadySeconds }), { nodes: nodes(3), pods: pods(3) });
    const gone = new Map<string, number>();
    const availableSince = new Map<string, number>();
    played.play(60, () => {
      for (const { metadata } of played.nodes) {
        const there = played.at(metadata.name);
        const [oldPod] = there.filter(({ spec }) => spec.containers[0]?.image === 'app:1');
        const hasNew = there.some((one) => one.spec.containers[0]?.image === 'app:2' && played.isAvailable(one));
        if (hasNew && !availableSince.has(metadata.name)) availableSince.set(metadata.name, played.nowMs);
        const isGoing = oldPod === undefined || oldPod.metadata.deletionTimestamp !== undefined;
        if (isGoing && !gone.has(metadata.name)) gone.set(metadata.name, played.nowMs);
      }
    });
    expect([...gone].map(([name, atMs]) => [name, atMs - (availableSince.get(name) ?? 0)])).toEqual([
      ['n1', 0],
      ['n2', 0],
      ['n3', 0],
    ]);
  });

  it('AD-36: a pass says when the next pod will have been ready for long enough', () => {
    const since = '2026-01-01T00:09:58Z';
    const there = [pod('n1', { labels: specified }), pod('n1', { of: fresh, suffix: 'b', ready: since })];
    const { againInMs } = plan(set({ maxSurge: 1 }, { minReadySeconds }), { nodes: nodes(1), pods: there, permit });
    expect(againInMs).toBe(3_001);
  });

  it('AD-20, AD-35: surging, a new revision that is broken leaves every old pod in service', () => {
    const played = new PlayedNodes(set({ maxSurge: 2 }), { nodes: nodes(5), pods: pods(5) });
    played.broken.add('app:2');
    played.play(60, () => expect(stateOf(played).available).toBe(5));
    expect([played.pods.length, played.owner.status?.waitingFor?.reason]).toEqual([7, 'SurgeSpent']);
  });

  it('AD-32: without surging, one that is broken takes down no more nodes than the budget', () => {
    const played = new PlayedNodes(set({ maxUnavailable: 2 }), { nodes: nodes(5), pods: pods(5) });
    played.broken.add('app:2');
    played.play(60, () => expect(stateOf(played).available).toBeGreaterThanOrEqual(3));
    expect([played.pods.length, stateOf(played).available]).toEqual([5, 3]);
  });

  it('AD-32a: with a hook, one pod is held and no other until it is replaced', () => {
    const owner = set({ maxUnavailable: 1 }, hook);
    const there = pods(3, { labels: { hold: 'yes' } });
    const played = new PlayedNodes(owner, { nodes: nodes(3), pods: there });
    const isHeld = ({ metadata }: Pod) => metadata.labels?.['lifecycle.apps.kruise.io/state'] === 'PreparingDelete';
    played.play(20, () => expect(played.pods.filter(isHeld).length).toBeLessThanOrEqual(1));
    expect([played.pods.filter(isHeld).length, played.pods.length]).toEqual([1, 3]);
    for (const one of there) {
      const latest = played.pods.find(({ metadata }) => metadata.name === one.metadata.name);
      if (latest)
        played.put({ ...latest, metadata: { ...latest.metadata, labels: { ...latest.metadata.labels, hold: 'no' } } });
    }
    played.play(60, () => expect(stateOf(played).available).toBeGreaterThanOrEqual(2));
    expect([isDone(played), played.pods.length]).toEqual([true, 3]);
  });

  it('AD-37: paused amid an update in place, what has begun is finished, and nothing else begins', () => {
    const inPlace = { maxUnavailable: 2, rollingUpdateType: 'InPlaceIfPossible' } as const;
    const played = new PlayedNodes(set(inPlace), { nodes: nodes(4), pods: pods(4) });
    played.pass();
    played.owner = { ...set({ ...inPlace, paused: true }), status: noStatus };
    played.play(20);
    const images = played.pods.map(({ spec }) => spec.containers[0]?.image);
    expect([images, stateOf(played).available]).toEqual([['app:1', 'app:1', 'app:2', 'app:2'], 4]);
    expect(played.owner.status?.waitingFor?.reason).toBe('Paused');
  });

  it('AD-20, AD-32: from surging to maxUnavailable amid an update, no node loses its pod beyond the budget', () => {
    const played = new PlayedNodes(set({ maxSurge: 3 }), { nodes: nodes(4), pods: pods(4) });
    played.play(3);
    played.owner = { ...set({ maxUnavailable: 1 }), status: noStatus };
    played.play(80, () => expect(stateOf(played).available).toBeGreaterThanOrEqual(3));
    expect([isDone(played), played.pods.length]).toEqual([true, 4]);
  });

  it('AD-31: with a partition, so many nodes stay old, and a pod that is lost there comes back new (AD-17)', () => {
    const played = new PlayedNodes(set({ partition: 2 }), { nodes: nodes(4), pods: pods(4) }).play(60);
    const oldNodes = () =>
      played.pods.filter(({ spec }) => spec.containers[0]?.image === 'app:1').map(({ spec }) => spec.nodeName);
    expect(oldNodes()).toEqual(['n1', 'n2']);
    played.put({ ...pod('n1', { going: true }) });
    played.play(20);
    expect(oldNodes()).toEqual(['n2']);
  });

  it('AD-22: progressively, nodes get pods as the partition is lowered', () => {
    const scaleStrategy = { partitionedScaling: true };
    const played = new PlayedNodes(set({ partition: 3 }, { scaleStrategy }), { nodes: nodes(5) }).play(20);
    expect(played.pods.map(({ spec }) => spec.nodeName)).toEqual(['n1', 'n2']);
    played.owner = { ...set({ partition: 1 }, { scaleStrategy }), status: noStatus };
    expect(played.play(20).pods).toHaveLength(4);
  });

  it('AD-33: a third template amid a surge leaves no node with more than two pods, and all end at it', () => {
    const third = revision('app:3', 3);
    const played = new PlayedNodes(set({ maxSurge: 2 }), { nodes: nodes(4), pods: pods(4) });
    played.broken.add('app:2');
    played.play(6);
    played.owner = { ...set({ maxSurge: 2 }, { template: template('app:3') }), status: noStatus };
    played.revisions = [old, fresh, third];
    played.more = { permit: { pods: new Map(), chooses: false } };
    played.play(60, () => {
      played.more = {
        permit: {
          pods: new Map(played.pods.map(({ metadata }) => [metadata.uid, third.metadata.name])),
          chooses: false,
        },
      };
      expect(stateOf(played).most).toBeLessThanOrEqual(2);
      expect(stateOf(played).available).toBe(4);
    });
    expect(played.pods.map(({ spec }) => spec.containers[0]?.image)).toEqual(Array(4).fill('app:3'));
  });

  it('surging in the play of the command line', () => {
    const result = daemonSetWorkloads.play(input(set({ maxSurge: 2 }), { nodes: nodes(4), pods: pods(4) }));
    expect(result).toMatchObject({ atOnce: 2, created: [], deleted: [], isPlayedOut: true });
    expect(result?.updated.map(({ pod: name, batch }) => `${name} ${batch}`)).toEqual([
      ...['agent-n4-a 1', 'agent-n3-a 1', 'agent-n2-a 2', 'agent-n1-a 2'],
    ]);
  });

  it('the same in the play of the command line', () => {
    const given = input(set({ maxUnavailable: 2, partition: 1 }), { nodes: nodes(4), pods: pods(3) });
    expect(daemonSetWorkloads.play(given)).toMatchObject({
      ...{ revision: fresh.metadata.name, atOnce: 2, isPlayedOut: true },
      created: [{ revision: fresh.metadata.name, count: 1 }],
      updated: [
        { pod: 'agent-n3-a', path: { kind: 'recreate' }, batch: 1 },
        { pod: 'agent-n2-a', path: { kind: 'recreate' }, batch: 1 },
        { pod: 'agent-n1-a', path: { kind: 'kept', because: 'Partition' } },
      ],
    });
  });
});

describe('status (AD §3)', () => {
  const status = (more: Partial<DaemonSetInput>, spec: Partial<DaemonSet['spec']> = {}) =>
    plan(set({}, spec), more).status;

  it('AD-1, AD-2: counts nodes, each by its first pod', () => {
    const tainted = node('n5', { taints: [taint('gpu', 'NoSchedule')] });
    const there = [
      pod('n1', { of: fresh }),
      pod('n2', { ready: false }),
      pod('n3', { going: true }),
      ...[pod('n3', { of: fresh, suffix: 'b', created: now }), pod('n5'), pod('n9')],
    ];
    expect(status({ nodes: [...nodes(4), tainted], pods: there })).toMatchObject({
      ...{ desiredNumberScheduled: 4, currentNumberScheduled: 3, numberMisscheduled: 1, numberReady: 2 },
      ...{ numberAvailable: 2, numberUnavailable: 2, updatedNumberScheduled: 1, observedGeneration: 2 },
      updateRevision: shortHash(fresh.metadata.name),
    });
  });

  it('a pod is available that has been ready for minReadySeconds, whatever its state', () => {
    const since = (ready: string, labels = {}) => ({
      nodes: nodes(1),
      pods: [pod('n1', { of: fresh, ready, labels })],
    });
    const available = (more: Partial<DaemonSetInput>) => status(more, { minReadySeconds: 10 })?.numberAvailable;
    expect(available(since('2026-01-01T00:09:55Z'))).toBe(0);
    expect(available(since(now.replace('10:00', '09:45')))).toBe(1);
    expect(available(since(now.replace('10:00', '09:45'), { ...preparing }))).toBe(1);
  });

  it('a pod that is out of service for its update is not available', () => {
    const [drained] = [drainedPod('n1')];
    const conditions = (drained.status?.conditions ?? []).map((one) =>
      one.type === 'Ready' ? { ...one, status: 'True' } : one,
    );
    const behind = { ...drained, status: { ...drained.status, conditions } };
    expect(status({ nodes: nodes(1), pods: [behind] })).toMatchObject({ numberReady: 1, numberAvailable: 0 });
  });

  it('is not written while the DaemonSet has what it says', () => {
    const given = { nodes: nodes(2), pods: pods(2, { of: fresh }) };
    const first = status(given);
    expect(plan({ ...set(), status: first ?? noStatus }, given)).toMatchObject({ upkeep: [], disruption: [] });
    expect(plan({ ...set(), status: first ?? noStatus }, given).status).toBeUndefined();
  });

  it('says before the template is recorded why that fails', () => {
    const failures = { revision: 'exceeded quota', revisionType: 'Denied' } as const;
    const result = plan(set(), { revisions: [], failures });
    expect(result.status).toMatchObject({ ...noStatus, waitingFor: { reason: 'CannotCreate' } });
  });
});

describe('images pulled ahead', () => {
  const gates = parseFeatureGates('PreDownloadImageForDaemonSetUpdate=true,ImagePullJobGate=true');
  const key = (name: string) => `apps.kruise.io/image-predownload-${name}`;
  const mark = (name: string) => ({ metadata: { labels: { [name]: 'true' } } });
  const created = mark('apps.kruise.io/pre-predownload-created');
  const ignored = mark('apps.kruise.io/image-predownload-ignored');
  const five = { nodes: nodes(5), pods: pods(5), gates };
  const steps = (owner: DaemonSet, more: Partial<DaemonSetInput> = {}) =>
    plan(owner, { ...five, ...more }).upkeep.filter(({ kind }) =>
      ['preDownload', 'patchRevision', 'deletePullJob'].includes(kind),
    );
  const job = {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'ImagePullJob',
    metadata: { ...pod('n1').metadata, name: 'job' },
  };
  const pullJobs = [job as unknown as ImagePullJob];
  const decided = {
    ...fresh,
    metadata: { ...fresh.metadata, labels: { ...fresh.metadata.labels, ...created.metadata.labels } },
  };

  it.each(['Standard', 'InPlaceIfPossible'] as const)(
    'AD-50: are jobs at the pace of the annotations: %s',
    (rollingUpdateType) => {
      const job = { metadata: { name: `${fresh.metadata.name}-main`, ownerReferences: [{ kind: 'DaemonSet' }] } };
      const paced = (parallelism: number, timeoutSeconds: number) => ({
        spec: {
          image: 'app:2',
          parallelism,
          pullPolicy: { timeoutSeconds },
          completionPolicy: { ttlSecondsAfterFinished: 600 },
        },
      });
      const owner = (annotations = {}) => set({ rollingUpdateType }, {}, annotations);
      expect(steps(owner())).toMatchObject([
        { kind: 'preDownload', jobs: [{ ...job, ...paced(1, 300) }], marks: created },
      ]);
      const annotations = {
        [key('parallelism')]: '4',
        [key('timeout-seconds')]: '60',
        [key('min-updated-ready-pods')]: '9',
      };
      expect(steps(owner(annotations))).toMatchObject([{ jobs: [paced(4, 60)] }]);
    },
  );

  it('AD-50: are those that any older revision does not have, and all of the first one', () => {
    const images = (revisions: readonly ControllerRevision[]) =>
      steps(set(), { revisions }).flatMap((step) =>
        step.kind === 'preDownload' ? step.jobs.map(({ spec }) => objectOr(spec).image) : [],
      );
    expect(images([fresh])).toEqual(['app:2']);
    expect(images([revision('app:2', 0), old, fresh])).toEqual(['app:2']);
    const same = revisionOf(set({}, podSpec({ hostNetwork: true })), 1);
    expect(steps(set(), { revisions: [same, fresh] })).toMatchObject([{ kind: 'patchRevision', patch: created }]);
  });

  it('AD-50: are not pulled where all nodes may go at once, which is recorded', () => {
    expect(steps(set({ maxUnavailable: '100%' }))).toMatchObject([{ kind: 'patchRevision', patch: ignored }]);
    expect(steps(set(), { nodes: nodes(1) })).toMatchObject([{ kind: 'patchRevision', patch: ignored }]);
    expect(steps(set({ maxUnavailable: '100%', partition: 1 }))).toMatchObject([{ kind: 'preDownload' }]);
  });

  it('AD-50: is decided once, and the jobs go when every node is updated', () => {
    const revisions = [old, decided];
    expect(steps(set(), { revisions, pullJobs })).toEqual([]);
    expect(steps(set(), { revisions, pullJobs, pods: pods(5, { of: fresh }) })).toMatchObject([
      { kind: 'deletePullJob' },
    ]);
  });

  it.each(['Standard', 'InPlaceIfPossible'] as const)(
    'with windlass.io/prefetch no pod is updated before they are on so many nodes: %s',
    (rollingUpdateType) => {
      const owner = set({ rollingUpdateType, maxUnavailable: '100%' }, {}, { 'windlass.io/prefetch': '2' });
      const on = (count: number) =>
        new Map(
          nodes(5).map(({ metadata: { name } }, at) => [
            name,
            at < count
              ? nodeImage(name, { app: [tagOf('2')] }, { app: [endedTag('2', 'Succeeded')] })
              : nodeImage(name),
          ]),
        );
      const given = (count: number) => ({ ...five, permit, nodeImages: on(count) });
      const early = plan(owner, given(1));
      expect(early.disruption).toEqual([]);
      expect(early.status?.waitingFor).toMatchObject({ reason: 'ImageNotReady' });
      expect(steps(owner, given(1))).toMatchObject([{ kind: 'preDownload', marks: created }]);
      const later = { ...given(1), revisions: [old, decided] };
      expect(steps(owner, later)).toMatchObject([{ kind: 'preDownload' }]);
      expect(plan(owner, given(2)).disruption).toHaveLength(5);
      expect(steps(owner, { ...given(2), revisions: [old, decided] })).toMatchObject([
        { kind: 'patchRevision', patch: { metadata: { annotations: { 'windlass.io/prefetched': '2' } } } },
      ]);
    },
  );

  it('AD-50, AD-51: without the gate, or with OnDelete, nothing is pulled', () => {
    expect(
      steps(set(), { gates: parseFeatureGates('PreDownloadImageForInPlaceUpdate=true,ImagePullJobGate=true') }),
    ).toEqual([]);
    expect(steps(set({}, { updateStrategy: { type: 'OnDelete' } }))).toEqual([]);
  });
});

describe('revisions', () => {
  it('AD-17: old content returns as the newest revision', () => {
    const owner = set({}, { template: template('app:1') });
    const { upkeep } = plan(owner, { nodes: nodes(1), pods: [pod('n1')], revisions: [old, fresh] });
    expect(upkeep).toMatchObject([
      { kind: 'patchRevision', revision: { name: old.metadata.name }, patch: { revision: 3 } },
    ]);
  });

  it('AD-18: beyond the limit old ones without pods go, the lowest number first', () => {
    const others = [revision('app:0', 0), old, revision('app:1b', 1.5)];
    const forgotten = (revisionHistoryLimit: number, there: readonly Pod[]) =>
      plan(set({}, { revisionHistoryLimit }), {
        nodes: nodes(1),
        pods: there,
        revisions: [...others, fresh],
      }).upkeep.flatMap((step) => (step.kind === 'deleteRevision' ? [step.revision.name] : []));
    const names = others.map(({ metadata }) => metadata.name);
    expect(forgotten(2, [pod('n1', { of: fresh })])).toEqual([names[0]]);
    expect(forgotten(0, [pod('n1', { of: fresh })])).toEqual(names);
    expect(forgotten(0, [pod('n1')])).toEqual([names[0], names[2]]);
  });
});

it.each(['1-created', '2-partition-1'] as const)(
  'a DaemonSet of OpenKruise is taken over without a write: %s',
  (stage) => {
    const owner = recorded<DaemonSet>(`daemonset-${stage}-v1beta1`);
    const given = {
      pods: recorded<readonly Pod[]>(`daemonset-${stage}-pods`),
      revisions: recorded<readonly ControllerRevision[]>(`daemonset-${stage}-revisions`),
    };
    const result = plan(owner, {
      ...given,
      nodes: ['node-1', 'node-2'].map((name) => node(name)),
      nowMs: Date.parse('2026-11-22T20:00:00Z'),
    });
    expect([result.upkeep, result.disruption, deleted(result)]).toEqual([[], [], []]);
    const { waitingFor, ...counts } = result.status ?? { ...owner.status };
    expect(counts).toEqual(owner.status);
    expect(waitingFor?.reason).toBe(stage === '1-created' ? undefined : 'PartitionReached');
  },
);
