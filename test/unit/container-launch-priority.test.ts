import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  barrierEnv,
  barrierKey,
  heldContainers,
  type LaunchContainer,
  launchOrder,
  launchStatusOf,
  launchWaits,
} from '../../api/container-launch-priority.ts';
import type { Pod } from '../../api/core/pod.ts';
import { nextLaunch } from '../../plan/container-launch-priority.ts';
import { type OrderedPod, orderedPod } from '../support/ordered-pod.ts';
import '../support/property-seed.ts';

const env = (...values: readonly unknown[]) => ({
  env: values.map((value) => ({ name: 'KRUISE_CONTAINER_PRIORITY', value })),
});
const ordered = { 'apps.kruise.io/container-launch-priority': 'Ordered' };

function priorities(containers: readonly ReturnType<typeof env>[], annotations = {}) {
  const order = launchOrder({ annotations, containers });
  return order.kind === 'ordered' ? order.priorities : order.kind;
}

describe('launchOrder', () => {
  it('CLP-2: leaves a pod with one container alone, whatever it asks for', () => {
    expect(priorities([env('5')], ordered)).toBe('none');
    expect(priorities([env('x')])).toBe('none');
  });

  it('CLP-3: Ordered is the order of the list, and other values of the annotation are none', () => {
    expect(priorities([env('1'), env(), env('x')], ordered)).toEqual([0, -1, -2]);
    const key = 'apps.kruise.io/container-launch-priority';
    for (const value of ['ordered', 'true', '', 'Ordered ']) {
      expect(priorities([env(), env()], { [key]: value })).toBe('none');
    }
  });

  it('CLP-4: the variable gives the priority, the last entry counts, and absent is 0', () => {
    expect(priorities([env('5'), env(), env('-3')])).toEqual([5, 0, -3]);
    expect(priorities([env('5', '7'), env('+2')])).toEqual([7, 2]);
    expect(priorities([env('-2147483647'), env('2147483647')])).toEqual([-2147483647, 2147483647]);
  });

  it('CLP-4: without a difference there is no order', () => {
    expect(priorities([env(), env()])).toBe('none');
    expect(priorities([env('0'), env('-0')])).toBe('none');
    expect(priorities([env('7'), env('7'), env('7')])).toBe('none');
  });

  it('names every value that is no whole number', () => {
    const order = launchOrder({ annotations: {}, containers: [env('1', 'high'), env(''), env(undefined), env('1.5')] });
    expect(order).toMatchObject({
      kind: 'unreadable',
      errors: [
        {
          field: 'spec.containers[0].env[1].value',
          detail: 'KRUISE_CONTAINER_PRIORITY must be an integer, not "high"',
        },
        { field: 'spec.containers[1].env[0].value' },
        {
          field: 'spec.containers[2].env[0].value',
          detail: 'KRUISE_CONTAINER_PRIORITY must be an integer; valueFrom is not supported',
        },
        { field: 'spec.containers[3].env[0].value' },
      ],
    });
  });
});

describe('heldContainers', () => {
  const held = (key: string, name = 'web-barrier'): Pod => ({
    ...orderedPod({ order: {} }),
    spec: {
      containers: [
        {
          name: 'app',
          env: [
            { name: 'KRUISE_CONTAINER_PRIORITY', value: '9' },
            { name: 'KRUISE_CONTAINER_BARRIER', valueFrom: { configMapKeyRef: { name, key } } },
          ],
        },
      ],
    },
  });

  it('CLP-11: reads the priority from the key of the hold, and not from the variable of the user', () => {
    const read = ['p_3', 'p_-2', 'p_0', 'p_x', 'p_'].map((key) => heldContainers(held(key))[0]?.priority);
    expect(read).toEqual([3, -2, 0, 0, 0]);
  });

  it('takes a variable of that name for no hold when it is not ours', () => {
    expect(heldContainers(held('p'))).toEqual([]);
    expect(heldContainers(held('p_1', 'other-barrier'))).toEqual([]);
    const plain = { name: 'app', env: [{ name: 'KRUISE_CONTAINER_BARRIER', value: '1' }] };
    expect(heldContainers({ ...held('p_1'), spec: { containers: [plain, { name: 'bare' }] } })).toEqual([]);
  });

  const stateOf = (given: Omit<OrderedPod, 'order'>) => heldContainers(orderedPod({ order: { app: 1 }, ...given }))[0];

  it('CLP-14: started is not ready', () => {
    expect(stateOf({})).toMatchObject({ state: 'awaited' });
    expect(stateOf({ now: { app: undefined } })).toMatchObject({ state: 'awaited' });
    expect(stateOf({ now: { app: 'running' } })).toMatchObject({ state: 'awaited' });
    expect(stateOf({ now: { app: 'ready' } })).toMatchObject({ state: 'passed' });
  });

  it('CLP-15: what has ended well and does not come back has passed; what comes back has not', () => {
    const ended = (exitCode: number, restartPolicy: 'Always' | 'OnFailure' | 'Never') =>
      stateOf({ now: { app: { exitCode } }, restartPolicy })?.state;
    expect([ended(0, 'Always'), ended(0, 'OnFailure'), ended(0, 'Never')]).toEqual(['awaited', 'passed', 'passed']);
    expect([ended(1, 'Always'), ended(1, 'OnFailure'), ended(1, 'Never')]).toEqual(['awaited', 'awaited', 'ended']);
  });
});

describe('nextLaunch', () => {
  const container = (name: string, priority: number, state: LaunchContainer['state'] = 'awaited') => ({
    name,
    priority,
    state,
  });
  const keys = (...of: readonly number[]) => new Set(of.map(barrierKey));

  it('CLP-12, CLP-13: publishes the highest priority first, and says what the others wait for', () => {
    const containers = [container('app', 0), container('db', 10), container('cache', 10), container('log', -1)];
    expect(nextLaunch({ containers, published: keys() })).toEqual({
      publish: [10],
      completed: false,
      waitingFor: {
        reason: 'ContainerNotReady',
        blockedBy: ['container/db', 'container/cache'],
        blockedCount: 2,
        unblock: expect.stringContaining('readiness probe'),
      },
    });
  });

  it('says why the kubelet does not run a container that the others wait for', () => {
    const containers = [container('app', 0), container('db', 10)];
    const made = orderedPod({ order: { app: 0, db: 10 } });
    const held = { waiting: { reason: 'CreateContainerConfigError', message: 'configmap "web-barrier" not found' } };
    const waiting = { reason: 'CrashLoopBackOff', message: 'back-off' };
    const containerStatuses = [
      { name: 'app', ready: false, restartCount: 0, state: held },
      {
        ...{ name: 'db', ready: false, restartCount: 2, state: { waiting } },
        lastState: { terminated: { exitCode: 2, reason: 'Error' } },
      },
    ];
    const pod = { ...made, status: { ...made.status, containerStatuses } };
    expect(nextLaunch({ pod, containers, published: keys(10) }).waitingFor?.unblock).toBe(
      `${launchWaits.ContainerNotReady}; db: CrashLoopBackOff: exit code 2 (Error)`,
    );
  });

  it('CLP-13: goes on when all of a priority are ready, and the last one completes it at once', () => {
    const at = (db: LaunchContainer['state'], cache: LaunchContainer['state']) => [
      container('app', 0),
      container('db', 10, db),
      container('cache', 10, cache),
    ];
    expect(nextLaunch({ containers: at('passed', 'awaited'), published: keys(10) })).toMatchObject({
      publish: [],
      completed: false,
      waitingFor: { blockedBy: ['container/cache'] },
    });
    const last = nextLaunch({ containers: at('passed', 'passed'), published: keys(10) });
    expect(last).toEqual({ publish: [0], completed: true });
  });

  it('CLP-16: a container that is no longer ready holds the next ones, and takes nothing back', () => {
    const containers = [container('db', 10), container('app', 5, 'passed'), container('log', 0)];
    const step = nextLaunch({ containers, published: keys(10, 5) });
    expect(step).toMatchObject({ publish: [], completed: false, waitingFor: { blockedBy: ['container/db'] } });
    expect(nextLaunch({ containers, published: keys(10, 5, 0) })).toEqual({ publish: [], completed: true });
  });

  it('CLP-15, CLP-17: a container that has failed for good is a wait with a name, and never a failure', () => {
    const containers = [container('init', 1, 'ended'), container('app', 0)];
    expect(nextLaunch({ containers, published: keys(1) })).toMatchObject({
      completed: false,
      waitingFor: { reason: 'ContainerEnded', blockedBy: ['container/init'] },
    });
  });

  it('CLP-22: keys that were lost half-way are published again down to where the pod is', () => {
    const containers = [container('db', 10, 'passed'), container('app', 5), container('log', 0)];
    expect(nextLaunch({ containers, published: keys() })).toMatchObject({ publish: [10, 5], completed: false });
  });

  it('CLP-13, CLP-16: played to the end, no container may start before all above it were ready', () => {
    const launch = fc.array(fc.integer({ min: -2, max: 3 }), { minLength: 2, maxLength: 6 });
    const turns = fc.array(fc.nat(1000), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(launch, turns, (given, chances) => {
        const published = new Set<string>();
        const states = given.map((): LaunchContainer['state'] => 'awaited');
        const wasReady = given.map(() => false);
        const step = () => {
          const containers = given.map((priority, index) => container(`c${index}`, priority, states[index]));
          const before = new Set(published);
          const due = nextLaunch({ containers, published });
          for (const priority of due.publish) {
            given.forEach((other, index) => {
              if (other > priority) expect(wasReady[index]).toBe(true);
            });
            published.add(barrierKey(priority));
          }
          expect(due.completed).toBe(given.every((priority) => published.has(barrierKey(priority))));
          expect(due.completed).toBe(due.waitingFor === undefined);
          // a second call has nothing left to do
          expect(nextLaunch({ containers, published }).publish).toEqual([]);
          return published.size > before.size;
        };
        for (const chance of chances) {
          step();
          const index = chance % given.length;
          const started = published.has(barrierKey(given[index] ?? 0));
          if (started) {
            states[index] = chance % 7 === 0 ? 'awaited' : 'passed';
            wasReady[index] ||= states[index] === 'passed';
          }
        }
        for (let turn = 0; turn <= given.length; turn++) {
          step();
          given.forEach((priority, index) => {
            if (!published.has(barrierKey(priority))) return;
            states[index] = 'passed';
            wasReady[index] = true;
          });
        }
        expect(given.every((priority) => published.has(barrierKey(priority)))).toBe(true);
      }),
      { numRuns: Number(process.env.PLAYS ?? 300) },
    );
  });
});

describe('the marks of a launch', () => {
  it('are those that OpenKruise writes', () => {
    expect(barrierEnv('web-0', -1)).toEqual({
      name: 'KRUISE_CONTAINER_BARRIER',
      valueFrom: { configMapKeyRef: { name: 'web-0-barrier', key: 'p_-1' } },
    });
  });

  it('take an annotation that nobody can read for none', () => {
    const read = (text: string) =>
      launchStatusOf(orderedPod({ order: {}, annotations: { 'windlass.io/container-launch': text } }));
    expect([read('{'), read('null'), read('{"waitingFor":7}'), launchStatusOf(orderedPod({ order: {} }))]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});
