import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import type { JsonObject } from '../../api/base/json.ts';
import { convertCloneSet } from '../../api/cloneset/convert.ts';
import type { CloneSet, CloneSetStatus } from '../../api/cloneset/types.ts';
import { cloneSetWaits } from '../../api/cloneset/types.ts';
import { convertRecreateRequest } from '../../api/container-recreate-request/convert.ts';
import type {
  ContainerRecreateRequest,
  ContainerRecreateRequestStatus,
  ContainerRecreateState,
} from '../../api/container-recreate-request/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { historyLines, type OperationEngine, type OperationReport } from '../../cli/operation.ts';
import {
  cloneSet,
  newName,
  newPodOf,
  newRevisionOfSet,
  now,
  oldName,
  oldRevision,
  pod,
  pods,
  type SpecChange,
} from '../support/cloneset-world.ts';
import { kubectlKruise } from '../support/kruise-command.ts';
import { aPod } from '../support/objects/pod.ts';
import { aRecreateRequest } from '../support/objects/recreate-request.ts';
import { smallCluster } from '../support/small-cluster.ts';

const status: Partial<CloneSetStatus> = {
  observedGeneration: 2,
  replicas: 5,
  readyReplicas: 4,
  availableReplicas: 4,
  updatedReplicas: 2,
  updatedReadyReplicas: 1,
  expectedUpdatedReplicas: 5,
  currentRevision: oldName,
  updateRevision: newName,
};

function shop(
  change: Partial<CloneSetStatus> = {},
  { spec = {}, fleet }: { spec?: SpecChange; fleet?: readonly Pod[] } = {},
) {
  const set: CloneSet = cloneSet(spec, { status: { ...status, ...change } });
  const there = fleet ?? [
    newPodOf('web-n1'),
    newPodOf('web-n2', { ready: '2026-11-21T06:12:44Z', conditions: down }),
    ...pods('o', 3),
  ];
  const all: readonly KubeObject[] = [set, oldRevision, newRevisionOfSet, ...there];
  return smallCluster(all.map((object) => (object.kind ? object : { ...object, kind: 'Pod' })));
}

/** Its container runs, and is not ready. */
const down = [
  { type: 'InPlaceUpdateReady', status: 'True', lastTransitionTime: '2026-11-21T06:12:40Z' },
  { type: 'Ready', status: 'False', lastTransitionTime: '2026-11-21T06:12:44Z' },
];

function engineOf(report: Partial<OperationReport> | undefined): OperationEngine {
  return {
    address: 'temporal:7233',
    flags: '--address temporal:7233 --namespace default',
    report: async (workflowId) =>
      report && {
        workflowId,
        runId: 'run-1',
        state: 'RUNNING',
        startedAt: '2026-11-21T06:10:44.000Z',
        historyEvents: 17,
        pending: [],
        history: [],
        ...report,
      },
    close: async () => undefined,
  };
}

const allKinds =
  'clonesets, clone; containerrecreaterequests, crr; podprobemarkers; imagelistpulljobs; imagepulljobs; nodeimages; ' +
  'sidecarsets; statefulsets.apps.kruise.io, asts; daemonsets.apps.kruise.io, daemon, ads; pods, po';

describe('kubectl kruise explain while no watcher leads', () => {
  const lease = (secondsAgo: number): KubeObject & { readonly spec: object } => ({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      namespace: 'kruise-system',
      name: 'windlass-watcher',
      uid: 'l',
      resourceVersion: '1',
      creationTimestamp: now,
    },
    spec: { holderIdentity: 'a', renewTime: new Date(Date.parse(now) - secondsAgo * 1_000).toISOString() },
  });
  const explained = async (secondsAgo: number, { renews = false } = {}) => {
    const request = aRecreateRequest();
    const { namespace = '', name } = request.metadata;
    const cluster = smallCluster([request, lease(secondsAgo)]);
    const pause = async () => {
      if (renews) cluster.put(lease(secondsAgo - 3));
    };
    return (await kubectlKruise(['explain', `crr/${name}`, '-n', namespace], { cluster, pause })).out;
  };

  it('says since when, once another could have taken over', async () => {
    expect(await explained(16)).toContain(
      'no watcher leads: Lease kruise-system/windlass-watcher was last renewed at 20',
    );
    expect(await explained(14)).not.toContain('no watcher leads');
  });

  it.each([
    ['slow', -300],
    ['fast', 300],
  ])('is not misled by a clock that is %s', async (_, secondsAgo) => {
    expect(await explained(secondsAgo, { renews: true })).not.toContain('no watcher leads');
    expect(await explained(secondsAgo)).toContain('no watcher leads');
  });
});

describe('kubectl kruise explain cloneset', () => {
  it('says what the roll-out waits for since when, how far each pod is, and what helps', async () => {
    const engine = engineOf({
      pending: [{ step: 'batch 2 of web', attempt: 1, since: '2026-11-21T06:12:00.000Z' }],
      history: [
        { at: '2026-11-21T06:10:44.000Z', text: 'started' },
        { at: '2026-11-21T06:11:00.000Z', text: 'pause by alice' },
      ],
    });
    const waitingFor = {
      reason: 'BudgetSpent',
      blockedBy: ['pod/web-n2'],
      blockedCount: 1,
      since: '2026-11-21T06:12:44Z',
      unblock: 'Fix these pods, or raise maxUnavailable or maxSurge',
    };
    const said = await kubectlKruise(['explain', 'clone/web'], { cluster: shop({ waitingFor }), engine });
    const signal =
      'temporal workflow signal --address temporal:7233 --namespace default --workflow-id roll-out/shop/web/set-uid';
    expect(said).toEqual({
      code: 0,
      err: '',
      out: [
        `CloneSet shop/web: ${oldName} -> ${newName}: 2 of 5 pods updated, 4 of 5 available`,
        '',
        'Waits for',
        '  BudgetSpent, since 2026-11-21T06:12:44Z (60s)',
        '    by: pod/web-n2',
        '    to unblock: Fix these pods, or raise maxUnavailable or maxSurge',
        '  NotReady, since 2026-11-21T06:12:44Z (60s)',
        '    by: pod/web-n2',
        '    to unblock: Look at the logs and readiness probes of these pods',
        '',
        'Steps',
        '  STEP     STATE            DETAIL',
        '  web-n2   updated          unavailable (since 2026-11-21T06:12:44Z)',
        '  web-o1   waits, batch 1   in place: main',
        '  web-o2   waits, batch 2   in place: main',
        '  web-o3   waits, batch 3   in place: main',
        '  1 pod done',
        '',
        'Operation roll-out/shop/web/set-uid: running for 3m, 17 events',
        '  now: batch 2 of web, since 2026-11-21T06:12:00.000Z',
        '  2026-11-21T06:10:44.000Z  started',
        '  2026-11-21T06:11:00.000Z  pause by alice',
        '',
        'Commands',
        '  # shows why web-n2 is not ready',
        '  kubectl -n shop describe pod web-n2',
        '  # shows the logs of web-n2',
        '  kubectl -n shop logs web-n2 --all-containers',
        '  # disrupts no further pod',
        `  ${signal} --name pause`,
        '  # stops the roll-out where it is',
        `  ${signal} --name abort`,
        '  # returns updated pods to the previous revision',
        `  ${signal} --name undo`,
        '  # the same without permission to signal workflows; other commands likewise',
        '  kubectl -n shop annotate clone web windlass.io/command=pause',
        '',
      ].join('\n'),
    });
  });

  it('says at each pod what the kubelet says of it', async () => {
    const failing = (made: Pod): Pod => {
      const waiting = { reason: 'ErrImagePull', message: 'failed to pull "nginx:1.1": not found' };
      const containerStatuses = [{ name: 'main', ready: false, restartCount: 0, state: { waiting } }];
      return { ...made, status: { ...made.status, containerStatuses } };
    };
    const broken = failing(newPodOf('web-n2', { ready: false, conditions: down }));
    const fleet = [newPodOf('web-n1'), broken, ...pods('o', 3)];
    const { out } = await kubectlKruise(['explain', 'clone/web'], { cluster: shop({}, { fleet }) });
    const said = 'main: ErrImagePull: failed to pull "nginx:1.1": not found';
    expect(out).toContain(`unavailable (since 2026-11-21T06:12:44Z); ${said}\n`);
    expect(out).toContain(`to unblock: Look at the logs and readiness probes of these pods; web-n2: ${said}\n`);
  });

  it('prints control characters of messages as text; JSON and YAML keep them, escaped', async () => {
    const hostile = 'pull failed: \u001b[2J\u009bm\u202egnp.exe\u2028';
    const engine = engineOf({ pending: [{ step: 'batch 2 of web', attempt: 2, lastFailure: hostile }] });
    const waitingFor = { reason: 'Parked', blockedBy: ['pod/web-n2'], blockedCount: 1, unblock: hostile };
    const cluster = shop({ waitingFor: { ...waitingFor, since: '2026-11-21T06:12:44Z' } });
    const asText = 'pull failed: \\u001b[2J\\u009bm\\u202egnp.exe\\u2028';
    const { out } = await kubectlKruise(['explain', 'clone/web'], { cluster, engine });
    expect(out).toContain(`to unblock: ${asText}\n`);
    expect(out).toContain(`attempt 2: ${asText}\n`);
    for (const [format, read] of [
      ['json', (text: string) => JSON.parse(text)],
      ['yaml', (text: string) => parse(text)],
    ] as const) {
      const said = await kubectlKruise(['explain', 'clone/web', '-o', format], { cluster, engine });
      expect(said.out).not.toMatch(/(?!\n)[\p{C}\p{Zl}]/u);
      expect(read(said.out)).toMatchObject({ operation: { pending: [{ lastFailure: hostile }] } });
    }
  });

  it('works without Temporal, and says what it could not ask', async () => {
    const said = await kubectlKruise(['explain', 'cloneset', 'web'], { cluster: shop() });
    expect(said.code).toBe(0);
    expect(said.out).toContain(
      'Operation roll-out/shop/web/set-uid: unknown; set the address of Temporal by --temporal-address or WINDLASS_TEMPORAL_ADDRESS',
    );
    expect(said.out).toContain('  temporal workflow signal --workflow-id roll-out/shop/web/set-uid --name pause');
  });

  it('works when Temporal does not answer', async () => {
    const cause = new Error('14 UNAVAILABLE: connect ECONNREFUSED');
    const error = new Error('Failed to describe workflow', { cause });
    const engine = { ...engineOf({}), report: () => Promise.reject(error) };
    const said = await kubectlKruise(['explain', 'clone/web'], { cluster: shop(), engine });
    expect(said).toMatchObject({ code: 0, err: '' });
    const why = 'Cannot query Temporal at temporal:7233: 14 UNAVAILABLE: connect ECONNREFUSED';
    expect(said.out).toContain(`unknown; ${why}`);

    const late = Object.assign(new Error('4 DEADLINE_EXCEEDED: after 0.000s'), { code: 4 });
    const silent = { ...engine, report: () => Promise.reject(new Error('Failed', { cause: late })) };
    expect((await kubectlKruise(['explain', 'clone/web'], { cluster: shop(), engine: silent })).out).toContain(
      'Cannot query Temporal at temporal:7233: no answer in time',
    );

    const given = { ...engine, isGiven: true };
    const wrong = await kubectlKruise(['explain', 'clone/web'], { cluster: shop(), engine: given });
    expect(wrong).toEqual({ code: 1, err: `error: ${why}\n`, out: said.out });
  });

  it.each([
    [
      'Paused',
      { paused: true },
      'kubectl -n shop patch clone web --type=merge -p \'{"spec":{"updateStrategy":{"rollingUpdate":{"paused":false}}}}\'',
    ],
    [
      'PartitionReached',
      { partition: 3 },
      'kubectl -n shop patch clone web --type=merge -p \'{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}\'',
    ],
  ] as const)('names %s, with the command that ends it', async (reason, rollingUpdate, command) => {
    const fleet = [newPodOf('web-n1'), newPodOf('web-n2'), ...pods('o', 3)];
    const said = await kubectlKruise(['explain', 'clone/web', '-o', 'json'], {
      cluster: shop({}, { spec: { rollingUpdate }, fleet }),
    });
    const { waits, commands } = JSON.parse(said.out);
    expect(waits[0]).toMatchObject({ reason, from: 'planner' });
    expect(commands[0].command).toBe(command);
  });

  it('EngineStuck: is told once, with what helps', async () => {
    const unblock = 'Nothing to do: it begins anew';
    const waitingFor = { reason: 'EngineStuck', blockedBy: ['workflow/a'], blockedCount: 1, since: now, unblock };
    const cluster = shop({ waitingFor });
    const said = await kubectlKruise(['explain', 'clone/web', '-o', 'json'], { cluster, engine: engineOf({}) });
    const { waits, commands } = JSON.parse(said.out);
    const reasons = waits.map(({ reason }: { readonly reason: string }) => reason);
    expect(reasons.filter((reason: string) => reason === 'EngineStuck')).toHaveLength(1);
    expect(waits[0]).toMatchObject({ reason: 'EngineStuck', unblock, from: 'status' });
    expect(commands[1].command).toBe(
      'temporal workflow terminate --address temporal:7233 --namespace default --workflow-id roll-out/shop/web/set-uid',
    );
  });

  it('tells resume from pause when an operator has paused', async () => {
    const waitingFor = {
      reason: 'PausedByOperator',
      blockedBy: [],
      blockedCount: 0,
      since: now,
      unblock: 'Signal resume, or abort',
    };
    const said = await kubectlKruise(['explain', 'clone/web', '-o', 'json'], {
      cluster: shop({ waitingFor }),
      engine: engineOf({}),
    });
    const names = JSON.parse(said.out).commands.map(
      ({ command }: { command: string }) => /--name (\w+)/.exec(command)?.[1],
    );
    expect(names).toEqual(expect.arrayContaining(['resume', 'abort', 'undo']));
    expect(names).not.toContain('pause');
  });

  it('P-5: names for an aborted one what reaches it, as its run has ended', async () => {
    const waitingFor = {
      reason: 'Aborted',
      blockedBy: [],
      blockedCount: 0,
      since: now,
      unblock: cloneSetWaits.Aborted,
    };
    const said = await kubectlKruise(['explain', 'clone/web', '-o', 'json'], {
      cluster: shop({ waitingFor }),
      engine: engineOf({}),
    });
    const commands = JSON.parse(said.out).commands.map(({ command }: { command: string }) => command);
    const annotate = (name: string) => `kubectl -n shop annotate clone web windlass.io/command=${name}`;
    const steering = commands.filter((command: string) => /annotate|workflow/.test(command));
    expect(steering).toEqual([annotate('resume'), annotate('undo')]);
    const order = { by: 'ann', at: now };
    const both = { version: 2, revision: newName, paused: order, aborted: order };
    const set = cloneSet({}, { status: { ...status, rollOut: both, waitingFor } });
    const cluster = smallCluster([set, oldRevision, newRevisionOfSet, newPodOf('web-n1'), ...pods('o', 4)]);
    const { out } = await kubectlKruise(['explain', 'clone/web'], { cluster, engine: engineOf({}) });
    expect(out).toContain(annotate('resume'));
    expect(out).not.toMatch(/workflow signal|command=retry/);
  });

  it('takes what operators have decided from the set itself', async () => {
    const orders = {
      version: 3,
      revision: newName,
      paused: { by: 'alice', at: now },
      undo: { by: 'bob', at: now, to: oldName },
      skip: ['web-n1'],
    };
    const set = cloneSet({}, { status: { ...status, rollOut: orders } });
    const fleet = [newPodOf('web-n1'), newPodOf('web-n2'), ...pods('o', 3)];
    const cluster = smallCluster([set, oldRevision, newRevisionOfSet, ...fleet]);
    const said = await kubectlKruise(['explain', 'clone/web', '-o', 'json'], { cluster, engine: engineOf({}) });
    const { notes, waits, steps } = JSON.parse(said.out);
    expect(notes).toEqual([
      `paused by alice at ${now}`,
      `${newName} was undone to ${oldName} by bob at ${now}`,
      'skipped by operators: web-n1',
    ]);
    expect(waits[0]).toMatchObject({ reason: 'PausedByOperator' });
    expect(steps.filter(({ state }: { state: string }) => state === 'done')).toHaveLength(3);
  });

  it('names an undo in its first line, while pods go back and when all have', async () => {
    const orders = { version: 1, revision: newName, undo: { by: 'bob', at: now, to: oldName } };
    const explained = async (updatedReplicas: number, fleet: readonly Pod[]) => {
      const set = cloneSet({}, { status: { ...status, updatedReplicas, availableReplicas: 5, rollOut: orders } });
      const cluster = smallCluster([set, oldRevision, newRevisionOfSet, ...fleet]);
      return (await kubectlKruise(['explain', 'clone/web'], { cluster, engine: engineOf({}) })).out;
    };
    const back = await explained(2, [newPodOf('web-n1'), newPodOf('web-n2'), ...pods('o', 3)]);
    expect(back).toContain(
      `CloneSet shop/web: undo of ${newName}, back to ${oldName}: 2 of 5 pods have yet to go back, 5 of 5 available\n`,
    );
    expect(back).toMatch(/web-n1 +waits, batch 1 +back in place: main\n/);
    expect(back).toContain('next to go back: web-n1 (in place)');
    expect(back).toContain('# ends the undo: the update begins again\n');
    expect(back).not.toContain('--name undo');
    const gone = await explained(0, pods('o', 5));
    expect(gone).toContain(`undo of ${newName}, back to ${oldName}: all pods have gone back, 5 of 5 available\n`);
  });

  it('tells the pods that an operator leaves out, and those that are deleted for surge pods', async () => {
    const rollOut = { version: 1, revision: newName, skip: ['web-o4'] };
    const fleet = [newPodOf('web-n1'), newPodOf('web-n2'), ...pods('o', 4)];
    const spec: SpecChange = { rollingUpdate: { maxSurge: 1, maxUnavailable: 0, partition: 1 } };
    const said = await kubectlKruise(['explain', 'clone/web', '-o', 'json'], {
      cluster: shop({ rollOut }, { spec, fleet }),
      engine: engineOf({}),
    });
    const { steps } = JSON.parse(said.out);
    expect(steps).toEqual([
      { step: 'web-o1', state: 'waits, batch 1', detail: 'in place: main' },
      { step: 'web-o2', state: 'waits, batch 2', detail: 'in place: main' },
      { step: 'web-o3', state: 'to be deleted', detail: 'more pods than replicas' },
      { step: 'web-o4', state: 'kept', detail: 'by an operator' },
      { step: 'web-n1', state: 'done', detail: '' },
      { step: 'web-n2', state: 'done', detail: '' },
    ]);
  });

  it('tells the field that nothing but a new pod can change', async () => {
    const spec: SpecChange = { rollingUpdate: { podUpdatePolicy: 'ReCreate' } };
    const said = await kubectlKruise(['explain', 'clone/web', '-o', 'yaml'], {
      cluster: shop({}, { spec, fleet: pods('o', 5) }),
    });
    expect(said.out).toContain('detail: "recreate: the update strategy recreates pods"');
  });

  it('waits for nothing when all is done, and offers no command', async () => {
    const fleet = ['a', 'b', 'c', 'd', 'e'].map((name) => newPodOf(`web-${name}`));
    const done = { currentRevision: newName, updatedReplicas: 5, updatedReadyReplicas: 5, availableReplicas: 5 };
    const said = await kubectlKruise(['explain', 'clone/web'], {
      cluster: shop(done, { fleet }),
      engine: engineOf(undefined),
    });
    expect(said.out).toBe(
      [
        `CloneSet shop/web: ${newName}: 5 of 5 pods updated, 5 of 5 available`,
        '',
        'Waits for nothing',
        '',
        'Steps',
        '  5 pods done',
        '',
        'Operation roll-out/shop/web/set-uid: Temporal has no run of it',
        '',
      ].join('\n'),
    );
  });

  it('notes a status that is behind, a template nobody has recorded, and a pod that does not end', async () => {
    const stuck = pod('web-o9', { deleting: true, finalizers: ['example.com/hold'] });
    const late: Pod = { ...stuck, metadata: { ...stuck.metadata, deletionTimestamp: '2026-11-21T06:00:00Z' } };
    const set = cloneSet({}, { status: { ...status, observedGeneration: 1 } });
    const cluster = smallCluster([set, oldRevision, late]);
    const { notes } = JSON.parse((await kubectlKruise(['explain', 'clone/web', '-o', 'json'], { cluster })).out);
    expect(notes).toEqual([
      'no ControllerRevision of the template yet: no watcher has reconciled the CloneSet',
      'status.observedGeneration is 1, metadata.generation is 2',
      'pod web-o9 should have terminated by 2026-11-21T06:00:00Z, and has finalizers example.com/hold',
    ]);
  });

  it.each([
    [['explain'], `one object must be specified, as KIND/NAME or KIND NAME; supported kinds: ${allKinds}`],
    [['explain', 'clone'], `one object must be specified, as KIND/NAME or KIND NAME; supported kinds: ${allKinds}`],
    [
      ['explain', 'clone/web', 'x'],
      `one object must be specified, as KIND/NAME or KIND NAME; supported kinds: ${allKinds}`,
    ],
    [['explain', 'deploy/web'], `"deploy" cannot be explained; supported: ${allKinds}`],
    [['explain', 'clone/none'], 'Cannot read CloneSet "shop/none": clonesets.apps.kruise.io "none" not found'],
  ])('%j is an error with exit code 1', async (args, message) => {
    expect(await kubectlKruise(args, { cluster: shop() })).toEqual({ code: 1, out: '', err: `error: ${message}\n` });
  });

  it.each(['CloneSet', 'clonesets', 'clonesets.apps.kruise.io', 'clonesets.v1beta1.apps.kruise.io', 'clone'])(
    'knows the word %s',
    async (word) => {
      expect((await kubectlKruise(['explain', `${word}/web`], { cluster: shop() })).code).toBe(0);
    },
  );
});

describe('KK-2a: kubectl kruise explain', () => {
  const older = (object: KubeObject, convert: typeof convertCloneSet) =>
    convert(object as unknown as JsonObject, 'apps.kruise.io/v1alpha1')?.object as unknown as KubeObject;
  const set = cloneSet({ rollingUpdate: { paused: true, partition: 1 } }, { status });
  const parts = [oldRevision, newRevisionOfSet, ...pods('o', 3), newPodOf('web-n1'), newPodOf('web-n2')];
  const atVersions = (served: readonly KubeObject[]) =>
    smallCluster([...served, ...parts], { unserved: unserved(served) });
  const unserved = (served: readonly KubeObject[]) =>
    ['apps.kruise.io/v1beta1', 'apps.kruise.io/v1alpha1'].filter((one) => served.every((o) => o.apiVersion !== one));
  const explained = async (words: readonly string[], served: readonly KubeObject[]) =>
    await kubectlKruise(['explain', ...words], { cluster: atVersions(served) });

  it('reads a CloneSet in every version that is served, and says the same of it', async () => {
    const v1alpha1 = older(set, convertCloneSet);
    const now = await explained(['clone/web'], [set]);
    expect(now).toMatchObject({ code: 0, err: '' });
    const same = (text: string) => text.replaceAll(/kubectl .* patch .*/g, 'PATCH');
    for (const [word, served] of [
      ['clone', [v1alpha1]],
      ['clonesets.v1alpha1.apps.kruise.io', [v1alpha1]],
      ['cloneset.v1alpha1.apps.kruise.io', [set, v1alpha1]],
      ['clonesets.v1beta1.apps.kruise.io', [set, v1alpha1]],
    ] as const) {
      const said = await explained([`${word}/web`], served);
      expect(said).toMatchObject({ code: 0, err: '' });
      expect(same(said.out)).toBe(same(now.out));
    }
  });

  it('gives commands whose fields are those of the version that was read', async () => {
    const now = await explained(['clone/web'], [set]);
    expect(now.out).toContain(
      `kubectl -n shop patch clone web --type=merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"paused":false}}}}'`,
    );
    const before = await explained(['clone/web'], [older(set, convertCloneSet)]);
    expect(before.out).toContain(
      `kubectl -n shop patch clonesets.v1alpha1.apps.kruise.io web --type=merge -p '{"spec":{"updateStrategy":{"paused":false}}}'`,
    );
  });

  it('reads a ContainerRecreateRequest in every version that is served', async () => {
    const v1alpha1 = older(request({ phase: 'Recreating' }), convertRecreateRequest);
    for (const word of ['crr', 'crr.apps.kruise.io', 'containerrecreaterequests.v1alpha1.apps.kruise.io']) {
      const said = await explained([word, 'restart-web'], [v1alpha1]);
      expect(said).toMatchObject({ code: 0, err: '' });
      expect(said.out).toContain('ContainerRecreateRequest shop/restart-web: Recreating');
    }
  });

  it('reads nothing but the version that is named, and says what is missing', async () => {
    expect((await explained(['clonesets.v1beta1.apps.kruise.io/web'], [older(set, convertCloneSet)])).err).toBe(
      'error: Cannot read CloneSet "shop/web": 404 page not found (HTTP 404)\n',
    );
    expect((await explained(['clone/none'], [older(set, convertCloneSet)])).err).toBe(
      'error: Cannot read CloneSet "shop/none": clonesets.apps.kruise.io "none" not found\n',
    );
    expect((await explained(['clonesets.v2.apps.kruise.io/web'], [set])).err).toContain('cannot be explained');
  });
});

function request(status: ContainerRecreateRequestStatus | undefined): ContainerRecreateRequest {
  const labels = { 'crr.apps.kruise.io/pod-uid': 'pod-uid', 'crr.apps.kruise.io/node-name': 'node-1' };
  return aRecreateRequest({
    metadata: { name: 'restart-web', uid: 'crr-uid', creationTimestamp: now, labels },
    spec: { containers: [{ name: 'app' }, { name: 'proxy' }] },
    ...(status && { status }),
  });
}

/** The pod of the request, with this container `app`. */
function podOf(app: Partial<ContainerStatus> = {}): Pod {
  const containerStatuses = [{ name: 'app', ready: false, restartCount: 0, containerID: 'containerd://app-0', ...app }];
  return aPod({ metadata: { uid: 'pod-uid' }, status: { phase: 'Running', containerStatuses } });
}

describe('kubectl kruise explain crr', () => {
  it.each([
    ['a new instance that does not exist yet', {}, 'waiting for the new instance'],
    [
      'one that runs',
      { containerID: 'containerd://app-1', state: { running: {} } },
      'the new instance runs, and is not ready',
    ],
    [
      'one that cannot be started',
      {
        state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 10s' } },
        lastState: { terminated: { exitCode: 1, reason: 'Error' } },
      },
      'CrashLoopBackOff: exit code 1 (Error)',
    ],
  ])('says of a stopped container what has become of it: %s', async (_, app, text) => {
    const containerRecreateStates = [{ name: 'app', phase: 'Recreating', isKilled: true }] as const;
    const asked = request({ phase: 'Recreating', containerRecreateStates });
    const containers = asked.spec.containers.map((container) => ({
      ...container,
      statusContext: { containerID: 'containerd://app-0', restartCount: 0 },
    }));
    const filled: ContainerRecreateRequest = { ...asked, spec: { ...asked.spec, containers } };
    const cluster = smallCluster([filled, podOf(app)]);
    const said = await kubectlKruise(['explain', 'crr/restart-web', '-o', 'json'], { cluster });
    expect(JSON.parse(said.out).steps[0]).toMatchObject({ state: 'Recreating', detail: `stopped; ${text}` });
  });

  it.each(['Aborted', 'DeadlineExceeded', 'PodGone'])(
    'CRR-13: the phases of a request that has ended stay, and the steps say what has become of them: %s',
    async (reason) => {
      const cluster = smallCluster([
        request({
          phase: 'Completed',
          conditions: [{ type: 'Failed', status: 'True', reason, message: '', lastTransitionTime: now }],
          containerRecreateStates: [
            { name: 'app', phase: 'Recreating', isKilled: true },
            { name: 'proxy', phase: 'Pending' },
          ],
        }),
      ]);
      const said = await kubectlKruise(['explain', 'crr/restart-web', '-o', 'json'], { cluster });
      const before = `the request ended (${reason}) before`;
      expect(JSON.parse(said.out)).toMatchObject({
        waits: [],
        notes: [],
        steps: [
          { state: 'Not ready', detail: `stopped; ${before} a new instance was ready` },
          { state: 'Left out', detail: `${before} it was stopped` },
        ],
      });
    },
  );

  it('says that a container was skipped, and which were stopped for good', async () => {
    const ended = (reason: string, containerRecreateStates: readonly ContainerRecreateState[]) =>
      smallCluster([
        request({
          phase: 'Completed',
          conditions: [{ type: 'Complete', status: 'True', reason, message: '', lastTransitionTime: now }],
          containerRecreateStates,
        }),
      ]);
    const explained = async (cluster: ReturnType<typeof ended>) =>
      JSON.parse((await kubectlKruise(['explain', 'crr/restart-web', '-o', 'json'], { cluster })).out);
    const skipped = ended('ContainersRecreated', [
      { name: 'app', phase: 'Succeeded' },
      { name: 'proxy', phase: 'Pending', message: 'skipped by ann' },
    ]);
    expect((await explained(skipped)).steps[1]).toMatchObject({ state: 'Skipped', detail: 'skipped by ann' });
    const stopped = ended('ContainersStopped', [
      { name: 'app', phase: 'Recreating', isKilled: true },
      { name: 'proxy', phase: 'Recreating', isKilled: true },
    ]);
    expect(await explained(stopped)).toMatchObject({
      summary: 'Completed (Complete: ContainersStopped), 2 of 2 containers of pod web stopped',
      steps: [{ state: 'Stopped', detail: '' }, { state: 'Stopped' }],
    });
  });

  it('says which container is awaited since when, and what helps', async () => {
    const cluster = smallCluster([
      request({
        phase: 'Recreating',
        containerRecreateStates: [
          { name: 'app', phase: 'Recreating', isKilled: true },
          { name: 'proxy', phase: 'Pending' },
        ],
        waitingFor: {
          reason: 'ContainerNotReady',
          blockedBy: ['container/app'],
          blockedCount: 1,
          since: '2026-11-21T06:03:44Z',
          unblock: 'Look at the logs and the readiness probe of the new container',
        },
        observedGeneration: 1,
      }),
      podOf(),
    ]);
    const said = await kubectlKruise(['explain', 'crr/restart-web'], { cluster, engine: engineOf({}) });
    const signal =
      'temporal workflow signal --address temporal:7233 --namespace default --workflow-id restart-containers/shop/web/pod-uid';
    expect(said.out).toBe(
      [
        'ContainerRecreateRequest shop/restart-web: Recreating, 0 of 2 containers of pod web restarted',
        '',
        'Waits for',
        '  ContainerNotReady, since 2026-11-21T06:03:44Z (10m)',
        '    by: container/app',
        '    to unblock: Look at the logs and the readiness probe of the new container',
        '',
        'Steps',
        '  STEP                STATE        DETAIL',
        '  restart app@web     Recreating   stopped; waiting for the new instance',
        '  restart proxy@web   Pending',
        '',
        'Operation restart-containers/shop/web/pod-uid: running for 3m, 17 events',
        '',
        'Commands',
        '  # shows the logs of app',
        '  kubectl -n shop logs web -c app',
        '  # stops no further container',
        `  ${signal} --name pause`,
        '  # skips app',
        `  ${signal} --name skip --input '{"target":"app"}'`,
        '  # ends the request; what has not been stopped stays as it is',
        `  ${signal} --name abort`,
        '  # the same without permission to signal workflows; other commands likewise',
        '  kubectl -n shop annotate crr restart-web windlass.io/command=abort',
        '',
      ].join('\n'),
    );
  });

  it('leads to the request in front', async () => {
    const waitingFor = { reason: 'Queued', blockedBy: ['crr/first'], blockedCount: 1, since: now, unblock: 'Wait' };
    const cluster = smallCluster([request({ phase: 'Pending', waitingFor })]);
    const said = await kubectlKruise(['explain', 'crr', 'restart-web', '-o', 'json'], { cluster });
    expect(JSON.parse(said.out).commands[0].command).toBe('kubectl kruise -n shop explain crr/first');
  });

  it('EngineStuck: shows why the workflow task fails, and terminates the run so that it begins anew', async () => {
    const waitingFor = { reason: 'EngineStuck', blockedBy: [], blockedCount: 0, since: now, unblock: 'Nothing to do' };
    const cluster = smallCluster([request({ phase: 'Recreating', waitingFor })]);
    const said = await kubectlKruise(['explain', 'crr/restart-web', '-o', 'json'], { cluster, engine: engineOf({}) });
    const flags = '--address temporal:7233 --namespace default --workflow-id restart-containers/shop/web/pod-uid';
    const commands = JSON.parse(said.out).commands.map(({ command }: { readonly command: string }) => command);
    expect(commands.slice(0, 2)).toEqual([
      `temporal workflow show --detailed ${flags}`,
      `temporal workflow terminate ${flags}`,
    ]);
  });

  it('tells how a request has ended, and offers nothing', async () => {
    const cluster = smallCluster([
      request({
        phase: 'Completed',
        message: 'aborted by alice',
        conditions: [{ type: 'Failed', status: 'True', reason: 'Aborted', message: '', lastTransitionTime: now }],
        containerRecreateStates: [{ name: 'app', phase: 'Succeeded' }],
        observedGeneration: 1,
      }),
    ]);
    const { summary, commands, steps } = JSON.parse(
      (await kubectlKruise(['explain', 'crr/restart-web', '-o', 'json'], { cluster })).out,
    );
    expect(summary).toBe('Completed (Failed: Aborted, aborted by alice), 1 of 2 containers of pod web restarted');
    expect(commands).toEqual([]);
    expect(steps[1]).toMatchObject({ step: 'restart proxy@web', state: 'Left out' });
  });

  it('says that nobody has looked at a request yet', async () => {
    const { notes } = JSON.parse(
      (
        await kubectlKruise(['explain', 'crr/restart-web', '-o', 'json'], {
          cluster: smallCluster([request(undefined)]),
        })
      ).out,
    );
    expect(notes).toEqual(['it has no status: no watcher has reconciled it yet']);
  });
});

describe('historyLines', () => {
  const bytes = (value: unknown) => ({ data: new TextEncoder().encode(JSON.stringify(value)) });
  const at = (seconds: number) => ({ seconds: 1_800_000_000 + seconds, nanos: 0 });

  it('tells steps by their summaries with how long they took, and commands with who gave them', () => {
    const lines = historyLines([
      { eventId: 1, eventTime: at(0), workflowExecutionStartedEventAttributes: {} },
      {
        eventId: 5,
        eventTime: at(1),
        userMetadata: { summary: bytes('batch 1 of web') },
        activityTaskScheduledEventAttributes: { activityId: '1', activityType: { name: 'advanceRollOut' } },
      },
      { eventId: 6, eventTime: at(2), workflowExecutionSignaledEventAttributes: { signalName: 'changed' } },
      {
        eventId: 7,
        eventTime: at(3),
        workflowExecutionSignaledEventAttributes: {
          signalName: 'skip',
          identity: 'cli@host',
          input: { payloads: [bytes({ target: 'web-1' })] },
        },
      },
      {
        eventId: 8,
        eventTime: at(15),
        activityTaskCompletedEventAttributes: {
          scheduledEventId: 5,
          result: { payloads: [bytes({ summary: '2 of 5 pods are of revision web-1' })] },
        },
      },
      {
        eventId: 9,
        eventTime: at(16),
        activityTaskFailedEventAttributes: { scheduledEventId: 5, failure: { message: 'no answer' } },
      },
      { eventId: 10, eventTime: at(17), workflowExecutionTerminatedEventAttributes: { identity: 'bob' } },
    ]);
    expect(lines.map(({ text }) => text)).toEqual([
      'started',
      'skip web-1 by cli@host',
      'batch 1 of web: done in 14.0 s, 2 of 5 pods are of revision web-1',
      'batch 1 of web: failed: no answer',
      'terminated by bob',
    ]);
    expect(lines[0]?.at).toBe('2027-01-15T08:00:00.000Z');
  });

  it('F8: tells how a run has ended, and why', () => {
    const result = { payloads: [bytes({ reason: 'RolledOut', message: '5 of 5 pods are of revision web-1' })] };
    const lines = historyLines([
      { eventId: 1, eventTime: at(0), workflowExecutionCompletedEventAttributes: { result } },
      { eventId: 2, eventTime: at(0), workflowExecutionCompletedEventAttributes: {} },
      {
        eventId: 3,
        eventTime: at(0),
        workflowExecutionFailedEventAttributes: { failure: { message: 'pod has gone' } },
      },
      { eventId: 4, eventTime: at(0), workflowExecutionCanceledEventAttributes: {} },
    ]);
    expect(lines.map(({ text }) => text)).toEqual([
      'completed: 5 of 5 pods are of revision web-1',
      'completed',
      'failed: pod has gone',
      'canceled',
    ]);
  });
});
