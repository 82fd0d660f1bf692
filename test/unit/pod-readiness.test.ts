import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { OwnerReference } from '../../api/core/meta.ts';
import type { Pod, PodCondition } from '../../api/core/pod.ts';
import {
  formatKeys,
  hasReadinessGate,
  heldKeys,
  initialReadiness,
  needsReadinessGate,
  type ReadinessKey,
  recreateKey,
  requestOfKey,
  withoutReadinessKey,
  withReadinessKey,
} from '../../api/core/pod-readiness.ts';
import { aPod } from '../support/objects/pod.ts';

const now = '2026-11-21T06:13:44Z';
const before = '2026-11-21T06:00:00Z';
const first: ReadinessKey = { userAgent: 'ContainerRecreateRequest', key: 'shop/a' };
const second: ReadinessKey = { userAgent: 'ContainerRecreateRequest', key: 'shop/b' };
const hook: ReadinessKey = { userAgent: 'Lifecycle', key: 'preUpdateHook' };

function pod(
  conditions: readonly PodCondition[],
  gates: readonly string[] = ['KruisePodReady'],
  deleting = false,
): Pod {
  return aPod({
    metadata: { ...(deleting && { deletionTimestamp: now }) },
    spec: { readinessGates: gates.map((conditionType) => ({ conditionType })) },
    status: { conditions },
  });
}

function own(status: string, keys?: readonly ReadinessKey[]): PodCondition {
  return {
    type: 'KruisePodReady',
    status,
    lastTransitionTime: before,
    ...(keys && { message: formatKeys(keys) }),
  };
}

function condition(type: string, status: string): PodCondition {
  return { type, status, lastTransitionTime: before };
}

const healthy = [own('True'), condition('Ready', 'True'), condition('ContainersReady', 'True')];

function find(conditions: readonly PodCondition[] | undefined, type: string): PodCondition | undefined {
  return conditions?.find((candidate) => candidate.type === type);
}

describe('needsReadinessGate', () => {
  const owner: OwnerReference = { apiVersion: 'apps.kruise.io/v1alpha1', kind: 'CloneSet', name: 'web', uid: 'o' };
  const off = { KruisePodReadinessGate: false };
  const create = (owners: readonly OwnerReference[], gates: readonly string[] = []) => ({
    metadata: { ownerReferences: owners },
    spec: { readinessGates: gates.map((conditionType) => ({ conditionType })) },
  });

  it('PRG-1: gives the gate to pods that one of our workloads controls, in any version', () => {
    expect(needsReadinessGate(create([{ ...owner, controller: true }]), off)).toBe(true);
    const other = { ...owner, apiVersion: 'apps.kruise.io/v1', kind: 'Anything', controller: true };
    expect(needsReadinessGate(create([other]), off)).toBe(true);
  });

  it('PRG-1: gives it to every pod with the feature gate', () => {
    expect(needsReadinessGate({ spec: {} }, { KruisePodReadinessGate: true })).toBe(true);
    expect(needsReadinessGate({ spec: {} }, off)).toBe(false);
  });

  it('PRG-1: does not give it twice', () => {
    const has = create([{ ...owner, controller: true }], ['KruisePodReady']);
    expect(needsReadinessGate(has, { KruisePodReadinessGate: true })).toBe(false);
  });

  it('PRG-2: leaves out pods whose controller is a native workload', () => {
    const replicaSet = { ...owner, apiVersion: 'apps/v1', kind: 'ReplicaSet', controller: true };
    expect(needsReadinessGate(create([replicaSet, owner]), off)).toBe(false);
  });

  it('PRG-4: takes a gate of the user for its own', () => {
    expect(hasReadinessGate(pod([], ['other', 'KruisePodReady']))).toBe(true);
    expect(hasReadinessGate(pod([], ['other']))).toBe(false);
  });
});

describe('initialReadiness', () => {
  it('PRG-6: adds True without a message where the condition is absent', () => {
    const conditions = initialReadiness(pod([condition('Ready', 'False')]), now);
    expect(conditions).toEqual([
      condition('Ready', 'False'),
      { type: 'KruisePodReady', status: 'True', lastTransitionTime: now },
    ]);
  });

  it('PRG-6: leaves out pods without the gate and pods on their way out', () => {
    expect(initialReadiness(pod([], ['other']), now)).toBeUndefined();
    expect(initialReadiness(pod([], ['KruisePodReady'], true), now)).toBeUndefined();
  });

  it('PRG-8: leaves a condition alone, whatever it says', () => {
    expect(initialReadiness(pod([own('False')]), now)).toBeUndefined();
    expect(initialReadiness(pod([own('')]), now)).toBeUndefined();
  });
});

describe('withReadinessKey', () => {
  it('PRG-10: writes nothing on a pod without the gate, or when the key is held', () => {
    expect(withReadinessKey(pod(healthy, []), first, now)).toBeUndefined();
    expect(withReadinessKey(pod([own('False', [first])]), first, now)).toBeUndefined();
  });

  it('PRG-11: adds the key in order, sets False and the time', () => {
    const conditions = withReadinessKey(pod([own('False', [hook, second])]), first, now);
    expect(find(conditions, 'KruisePodReady')).toEqual({
      type: 'KruisePodReady',
      status: 'False',
      lastTransitionTime: now,
      message:
        '[{"userAgent":"ContainerRecreateRequest","key":"shop/a"},' +
        '{"userAgent":"ContainerRecreateRequest","key":"shop/b"},' +
        '{"userAgent":"Lifecycle","key":"preUpdateHook"}]',
    });
  });

  it('PRG-11: writes nothing when the live list holds the key, whatever the status says', () => {
    expect(withReadinessKey(pod([own('True', [first])]), first, now)).toBeUndefined();
  });

  it('PRG-12: appends an absent condition as not ready', () => {
    const conditions = withReadinessKey(pod([]), first, now);
    expect(conditions).toEqual([{ ...own('False', [first]), lastTransitionTime: now }]);
  });

  it('PRG-13: makes the pod unready in the same write, as it was recorded', () => {
    const recorded: Pod = JSON.parse(
      readFileSync(new URL('../recorded/crr-1-draining-pod.json', import.meta.url), 'utf8'),
    );
    const drained = recorded.status?.conditions ?? [];
    const undone = drained.map((entry) => {
      if (entry.type === 'KruisePodReady') return { ...entry, status: 'True', message: '[]' };
      return entry.type === 'Ready'
        ? { type: 'Ready', status: 'True', lastProbeTime: null, observedGeneration: 2 }
        : entry;
    });
    const again = withReadinessKey(
      { ...recorded, status: { ...recorded.status, conditions: undone } },
      recreateKey({ namespace: 'rec', name: 'ordered' }),
      now,
    );
    expect(again).toEqual(drained);
  });

  it('PRG-13: names every gate that is not open, in the order of the pod', () => {
    const gates = ['example.com/lb', 'KruisePodReady', 'example.com/open'];
    const conditions = withReadinessKey(pod([...healthy, condition('example.com/open', 'True')], gates), first, now);
    expect(find(conditions, 'Ready')).toEqual({
      type: 'Ready',
      status: 'False',
      reason: 'ReadinessGatesNotReady',
      message:
        'corresponding condition of pod readiness gate "example.com/lb" does not exist., ' +
        'the status of pod readiness gate "KruisePodReady" is not "True", but False',
      lastTransitionTime: null,
    });
  });

  it.each([
    ['there is no condition Ready', [own('True'), condition('ContainersReady', 'True')]],
    ['Ready is False already', [own('True'), condition('Ready', 'False'), condition('ContainersReady', 'True')]],
    ['the containers are not ready', [own('True'), condition('Ready', 'True'), condition('ContainersReady', 'False')]],
    ['nobody knows about the containers', [own('True'), condition('Ready', 'True')]],
  ])('PRG-13: leaves Ready alone when %s', (_, conditions) => {
    expect(withReadinessKey(pod(conditions), first, now)?.slice(1)).toEqual(conditions.slice(1));
  });

  it.each(['', 'no JSON', '{"userAgent":"a","key":"b"}', '[1]', 'null', '[{"userAgent":1}]'])(
    'PRG-14: takes the message %j for an empty list and overwrites it',
    (message) => {
      const conditions = withReadinessKey(pod([{ ...own('False'), message }]), first, now);
      expect(find(conditions, 'KruisePodReady')?.message).toBe(formatKeys([first]));
    },
  );
});

describe('withoutReadinessKey', () => {
  it('PRG-15: writes nothing without the gate, the condition or the key', () => {
    expect(withoutReadinessKey(pod([own('False', [first])], []), first, now)).toBeUndefined();
    expect(withoutReadinessKey(pod([]), first, now)).toBeUndefined();
    expect(withoutReadinessKey(pod([own('False', [second])]), first, now)).toBeUndefined();
  });

  it('PRG-15: stays False while somebody else holds a key', () => {
    const conditions = withoutReadinessKey(pod([own('False', [first, hook])]), first, now);
    expect(conditions).toEqual([{ ...own('False', [hook]), lastTransitionTime: now }]);
  });

  it('PRG-15: becomes True with an empty list when the last key goes', () => {
    const conditions = withoutReadinessKey(pod([own('False', [first])]), first, now);
    expect(conditions).toEqual([{ type: 'KruisePodReady', status: 'True', message: '[]', lastTransitionTime: now }]);
  });

  it('PRG-16: leaves Ready to the kubelet', () => {
    const held = withReadinessKey(pod(healthy), first, now) ?? [];
    const released = withoutReadinessKey(pod(held), first, now);
    expect(find(released, 'Ready')).toEqual(find(held, 'Ready'));
  });

  it('PRG-20: any order of adding and removing leaves exactly the keys that are still held', () => {
    const key = fc.constantFrom(first, second, hook, { userAgent: 'Lifecycle', key: 'preDeleteHook' });
    const steps = fc.array(fc.tuple(fc.boolean(), key), { maxLength: 30 });
    fc.assert(
      fc.property(steps, (taken) => {
        const held = new Set<string>();
        let conditions: readonly PodCondition[] = healthy;
        for (const [add, entry] of taken) {
          const change = add ? withReadinessKey : withoutReadinessKey;
          conditions = change(pod(conditions), entry, now) ?? conditions;
          if (add) held.add(formatKeys([entry]));
          else held.delete(formatKeys([entry]));
          const listed = heldKeys(conditions).map((one) => formatKeys([one]));
          expect(new Set(listed)).toEqual(held);
          expect(find(conditions, 'KruisePodReady')?.status).toBe(held.size === 0 ? 'True' : 'False');
          expect(conditions).toHaveLength(healthy.length);
        }
      }),
    );
  });
});

describe('requestOfKey', () => {
  it('finds the request that holds a key, and nothing for other holders', () => {
    expect(requestOfKey(recreateKey({ namespace: 'shop', name: 'a' }))).toEqual({ namespace: 'shop', name: 'a' });
    expect(requestOfKey(hook)).toBeUndefined();
    expect(requestOfKey({ userAgent: 'ContainerRecreateRequest', key: 'odd' })).toBeUndefined();
  });
});
