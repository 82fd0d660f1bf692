import { describe, expect, it } from '@jest/globals';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { judgeAnswer, type KnownPod } from '../chaos/admission-judge.ts';
import { type ContainerEvidence, type Evidence, violationsIn } from '../chaos/judges/recreate-judge.ts';
import type { Mutant } from '../chaos/mutants.ts';
import type { ContainerVersion, PodVersion } from '../chaos/pod-record.ts';
import { randomFrom } from '../chaos/random.ts';
import type { RuntimeInstance } from '../chaos/runtime-record.ts';

const names = ['first', 'second'];

function container(name: string, instance: 0 | 1 | 2, more: Partial<ContainerVersion> = {}): ContainerVersion {
  return { name, id: `${name}-${instance}`, running: true, ready: true, restartCount: instance, ...more };
}

function version(resourceVersion: number, ...containers: readonly ContainerVersion[]): PodVersion {
  return { resourceVersion: String(resourceVersion), seenAt: '', containers, deleted: false };
}

function instance(name: string, number: 0 | 1 | 2, running: boolean): RuntimeInstance {
  return { id: `${name}-${number}`, podUid: 'pod-1', container: name, sandbox: 'sandbox-0', createdAt: '', running };
}

function evidenceOf(name: string, more: Partial<ContainerEvidence> = {}): ContainerEvidence {
  return { name, expected: 'once', originalId: `${name}-0`, starts: 2, laterTerms: 0, preStops: 0, ...more };
}

function podWith(containers: readonly ContainerVersion[], conditions: object[] = []): Pod {
  const containerStatuses = containers.map(({ name, id, running, ready, restartCount }) => ({
    name,
    ready,
    restartCount,
    containerID: `containerd://${id}`,
    state: running ? { running: {} } : { terminated: { exitCode: 0 } },
  }));
  const status = { containerStatuses, conditions: [{ type: 'Ready', status: 'True' }, ...conditions] };
  return { metadata: { uid: 'pod-1' }, spec: { containers: [] }, status } as unknown as Pod;
}

function request(more: object = {}, metadata: object = {}): ContainerRecreateRequest {
  return {
    metadata: { name: 'request', ...metadata },
    spec: { podName: 'pod', containers: names.map((name) => ({ name })) },
    status: {
      phase: 'Completed',
      completionTime: '2026-01-01T00:00:00Z',
      message: '',
      containerRecreateStates: names.map((name) => ({ name, phase: 'Succeeded', isKilled: true })),
      conditions: [{ type: 'Complete', status: 'True' }],
      ...more,
    },
  } as unknown as ContainerRecreateRequest;
}

const down = { running: false, ready: false };
/** first goes down and comes back, then second. */
const inOrder = [
  version(1, container('first', 0), container('second', 0)),
  version(2, container('first', 0, down), container('second', 0)),
  version(3, container('first', 1, { ready: false }), container('second', 0)),
  version(4, container('first', 1), container('second', 0)),
  version(5, container('first', 1), container('second', 0, down)),
  version(6, container('first', 1), container('second', 1)),
];

/** The evidence of an ordered request for two containers that succeeded. */
function good(more: Partial<Evidence> = {}): Evidence {
  return {
    subject: 'shop/web',
    containers: names.map((name) => evidenceOf(name)),
    ordered: [names],
    serial: [names],
    mostPreStops: 1,
    pod: podWith([container('first', 1), container('second', 1)]),
    versions: inOrder,
    versionsComplete: true,
    instances: names.flatMap((name) => [instance(name, 0, false), instance(name, 1, true)]),
    exits: new Map([
      ['first-0', ['2026-01-01T00:00:01.5Z']],
      ['second-0', ['2026-01-01T00:00:02.123456789Z']],
    ]),
    exitsComplete: true,
    requests: [request()],
    operationOpen: false,
    ...more,
  };
}

describe('the judge of the chaos campaign', () => {
  it('says nothing of restarts in a pod whose sandbox the kubelet has replaced, and all of the rest', () => {
    const instances = [...good().instances, { ...instance('second', 2, true), sandbox: 'sandbox-1' }];
    const pod = podWith([container('first', 2), container('second', 2)]);
    expect(violationsIn(good({ instances, pod }))).toEqual([]);
    expect(violationsIn(good({ instances, pod, operationOpen: true }))).toHaveLength(1);
    expect(violationsIn(good({ instances: good().instances, pod }))).not.toEqual([]);
  });

  it('has nothing to say when each container was restarted once, in order, and nothing is held', () => {
    expect(violationsIn(good())).toEqual([]);
  });

  it.each<[string, Partial<Evidence>]>([
    ['a second restart in the status', { pod: podWith([container('first', 2), container('second', 1)]) }],
    ['a missing restart in the status', { pod: podWith([container('first', 0), container('second', 1)]) }],
    ['a container that does not run', { pod: podWith([container('first', 1, down), container('second', 1)]) }],
    ['a third instance in the runtime', { instances: [...good().instances, instance('first', 2, true)] }],
    ['a new instance that does not run', { instances: [instance('first', 1, false), instance('second', 1, true)] }],
    ['an end of a new instance', { exits: new Map([...good().exits, ['second-1', ['2026-01-01T00:00:09Z']]]) }],
    [
      'two ends of one instance',
      { exits: new Map([...good().exits, ['first-0', ['2026-01-01T00:00:01Z', '2026-01-01T00:00:01.1Z']]]) },
    ],
    ['no end where every end is known', { exits: new Map([['first-0', ['2026-01-01T00:00:01Z']]]) }],
    ['a second restart that only the watch saw', { versions: [...inOrder, version(7, container('first', 2))] }],
    [
      'a new instance that was told to end',
      { containers: [evidenceOf('first', { laterTerms: 1 }), evidenceOf('second')] },
    ],
    ['a second start that is missing', { containers: [evidenceOf('first', { starts: 1 }), evidenceOf('second')] }],
    ['a third start', { containers: [evidenceOf('first', { starts: 3 }), evidenceOf('second')] }],
    ['a hook that ran twice', { containers: [evidenceOf('first', { preStops: 2 }), evidenceOf('second')] }],
    [
      'a container that nobody asked for',
      { containers: [evidenceOf('first', { expected: 'never' }), evidenceOf('second')] },
    ],
    ['a key on the pod', { pod: podWith([container('first', 1), container('second', 1)], [heldGate()]) }],
    ['a request that is open', { requests: [request({ phase: 'Recreating' })] }],
    ['a finalizer', { requests: [request({}, { finalizers: ['x'] })] }],
    ['an active label', { requests: [request({}, { labels: { 'crr.apps.kruise.io/active': 'true' } })] }],
    ['a wait of a completed request', { requests: [request({ waitingFor: { reason: 'EngineSilent' } })] }],
    ['a container that failed', { requests: [request({ containerRecreateStates: [] })] }],
    ['a condition that is missing', { requests: [request({ conditions: [] })] }],
    ['an operation that is open', { operationOpen: true }],
  ])('sees %s', (_what, more) => {
    expect(violationsIn(good(more))).not.toEqual([]);
  });

  it('sees the second one down before the first is ready again, by versions and not by clocks', () => {
    const tooEarly = [
      version(1, container('first', 0), container('second', 0)),
      version(2, container('first', 1, { ready: false }), container('second', 0, down)),
      version(3, container('first', 1), container('second', 1)),
    ];
    expect(violationsIn(good({ versions: tooEarly }))).toEqual([
      'shop/web: second was stopped before first was ready again',
    ]);
    expect(violationsIn(good({ versions: tooEarly, ordered: [] }))).toEqual([]);
  });

  it('sees in the same version that both are down and back', () => {
    const atOnce = [
      version(1, container('first', 0), container('second', 0)),
      version(2, container('first', 1), container('second', 1)),
    ];
    expect(violationsIn(good({ versions: atOnce }))).toHaveLength(1);
  });

  it('sees stops that were not one after the other', () => {
    const exits = new Map([
      ['first-0', ['2026-01-01T00:00:02.2Z']],
      ['second-0', ['2026-01-01T00:00:02.123456789Z']],
    ]);
    expect(violationsIn(good({ exits, ordered: [] }))).toHaveLength(1);
  });

  it('does not blame anybody for an instance that the runtime could not start', () => {
    const failed = container('first', 1, { ...down, neverRan: 'first-1' });
    const versions = [
      ...inOrder.slice(0, 2),
      version(3, failed, container('second', 0)),
      version(4, container('first', 2), container('second', 0)),
      version(5, container('first', 2), container('second', 1)),
    ];
    const instances = [instance('first', 1, false), instance('first', 2, true), instance('second', 1, true)];
    const pod = podWith([container('first', 2), container('second', 1)]);
    const containers = names.map((name) => evidenceOf(name));
    expect(violationsIn(good({ versions, instances, pod, containers }))).toEqual([]);
  });

  it('sees that an instance which nobody saw running did run, by its own count', () => {
    const gone = container('first', 1, down);
    const versions = [
      ...inOrder.slice(0, 2),
      version(3, gone, container('second', 0)),
      version(4, container('first', 2), container('second', 0)),
      version(5, container('first', 2), container('second', 1)),
    ];
    const instances = [instance('first', 1, false), instance('first', 2, true), instance('second', 1, true)];
    const pod = podWith([container('first', 2), container('second', 1)]);
    expect(violationsIn(good({ versions, instances, pod }))).toEqual([]);
    const counted = [evidenceOf('first', { starts: 3 }), evidenceOf('second')];
    expect(violationsIn(good({ versions, instances, pod, containers: counted }))).not.toEqual([]);
    const ended = new Map([...good().exits, ['first-1', ['2026-01-01T00:00:03Z']]]);
    expect(violationsIn(good({ versions, instances, pod, exits: ended }))).not.toEqual([]);
  });

  it('does not guess about versions and ends that were missed', () => {
    const later = inOrder.slice(-1);
    expect(
      violationsIn(good({ versions: later, versionsComplete: false, exits: new Map(), exitsComplete: false })),
    ).toEqual([]);
  });

  function heldGate(): object {
    const message = JSON.stringify([{ userAgent: 'ContainerRecreateRequest', key: 'shop/request' }]);
    return { type: 'KruisePodReady', status: 'False', message };
  }
});

describe('the judge of hostile requests', () => {
  const pod: KnownPod = { uid: 'pod-1', nodeName: 'node-1', containers: new Map([['first', 'containerd://a']]) };
  const pods = new Map([['victim', pod]]);
  const post: Mutant = { method: 'POST', version: 'v1beta1', contentType: 'application/json', text: '' };
  const world = { namespace: 'shop', pods, existing: { spec: { podName: 'victim' } } };
  const complete = {
    apiVersion: 'apps.kruise.io/v1beta1',
    metadata: {
      namespace: 'shop',
      labels: {
        'crr.apps.kruise.io/pod-uid': 'pod-1',
        'crr.apps.kruise.io/node-name': 'node-1',
        'crr.apps.kruise.io/active': 'true',
      },
    },
    spec: {
      podName: 'victim',
      containers: [{ name: 'first', statusContext: { containerID: 'containerd://a', restartCount: 0 } }],
      strategy: { failurePolicy: 'Fail', terminationGracePeriodSeconds: 30 },
    },
  };
  const judged = (body: unknown, status = 201, mutant = post) =>
    judgeAnswer(mutant, { status, body: JSON.stringify(body) }, world).violation;

  it('lets a complete request pass', () => {
    expect(judged(complete)).toBeUndefined();
  });

  it('sees what admission should not have let in', () => {
    expect(judged({ ...complete, spec: { ...complete.spec, podName: 'nobody' } })).toBeDefined();
    expect(judged({ ...complete, spec: { ...complete.spec, containers: [{ name: 'first' }] } })).toBeDefined();
    expect(judged({ ...complete, spec: { ...complete.spec, activeDeadlineSeconds: 2 } })).toBeDefined();
    expect(judged({ ...complete, metadata: { namespace: 'shop' } })).toBeDefined();
  });

  it('wants a field in a refusal, and never an error of the server', () => {
    expect(judged({ message: 'spec.podName: is required' }, 400)).toBeUndefined();
    expect(judged({ message: 'no', details: { causes: [{ field: 'spec' }] } }, 422)).toBeUndefined();
    expect(judged({ message: 'no' }, 400)).toBeDefined();
    expect(judged({ message: 'spec: cannot read' }, 500)).toBeDefined();
  });

  it('sees a spec that an update has changed', () => {
    const put: Mutant = { ...post, method: 'PUT' };
    expect(judged({ spec: { podName: 'victim' } }, 200, put)).toBeUndefined();
    expect(judged({ spec: { podName: 'other' } }, 200, put)).toBeDefined();
  });
});

describe('chance of the chaos campaign', () => {
  const numbers = (seed: number) => {
    const random = randomFrom(seed);
    return Array.from({ length: 5 }, () => random.between(1, 1_000_000));
  };

  it('repeats itself for the same seed, and only then', () => {
    expect(numbers(7)).toEqual(numbers(7));
    expect(numbers(7)).not.toEqual(numbers(8));
    expect(randomFrom(7).fork('a').next()).not.toBe(randomFrom(7).fork('b').next());
  });
});
