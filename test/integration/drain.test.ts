import { describe, expect, it } from '@jest/globals';
import { type ContainerRecreateRequest, crr, crrV1alpha1 } from '../../api/container-recreate-request/types.ts';
import { findCondition } from '../../api/core/conditions.ts';
import type { Pod } from '../../api/core/pod.ts';
import { heldKeys } from '../../api/core/pod-readiness.ts';
import { crrAnnotation, crrUnreadyFinalizer, podReadinessGate } from '../../api/core/well-known.ts';
import { expectStops } from '../support/expect-stops.ts';
import { newGate } from '../support/gate.ts';
import type { PlayedPod } from '../support/kubelet-player.ts';
import { isAtRest, type TestRequest } from '../support/requests.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();

/** A pod with the readiness gate, when the condition of the gate is set. */
async function gatedPod(containers: readonly string[]): Promise<PlayedPod> {
  const pod = await windlass().runPod(containers, { gate: true });
  await waitFor(
    'the gate to be answered',
    async (see) => see(conditionOf(await pod.read(), podReadinessGate)) === 'True',
  );
  await pod.report();
  return pod;
}

function conditionOf(pod: Pod | undefined, type: string): string | undefined {
  return pod?.status?.conditions?.find((condition) => condition.type === type)?.status;
}

/** Waits until the drain has begun: the condition is written last. */
async function drains(request: TestRequest): Promise<ContainerRecreateRequest> {
  return await request.until(
    'draining',
    ({ conditions, waitingFor }) =>
      waitingFor?.reason === 'Draining' && findCondition(conditions, 'PreRecreateGrace') !== undefined,
  );
}

describe('a drain', () => {
  it.concurrent('CRR-22: makes the pod unready before the first stop', async () => {
    const { node, cluster } = windlass();
    const pod = await gatedPod(['app']);
    expect(conditionOf(await pod.read(), 'Ready')).toBe('True');
    const strategy = { unreadyGracePeriodSeconds: 3_600 };
    const request = await windlass().request({ pod, containers: ['app'], strategy });

    const draining = await drains(request);
    const drained = await pod.read();
    const old = await cluster.find<ContainerRecreateRequest>(crrV1alpha1, request.ref);

    expectStops(node.stopsOf(pod), []);
    expect(draining.metadata.finalizers).toEqual([crrUnreadyFinalizer]);
    expect(conditionOf(drained, 'Ready')).toBe('False');
    expect(conditionOf(drained, podReadinessGate)).toBe('False');
    expect(heldKeys(drained?.status?.conditions)).toEqual([
      { userAgent: 'ContainerRecreateRequest', key: `${request.ref.namespace}/${request.ref.name}` },
    ]);
    const marked = findCondition(draining.status?.conditions, 'PreRecreateGrace');
    expect(marked).toMatchObject({ status: 'True', reason: 'PreRecreateGrace' });
    expect(old?.metadata.annotations?.[crrAnnotation.unreadyAcquired]).toBe(marked?.lastTransitionTime);
  });

  it.concurrent('CRR-24: keeps the pod unready until the request has completed, and CRR-10 gives it back then', async () => {
    const ready = newGate();
    const pod = await gatedPod(['app']);
    pod.script('app', { readyTakes: ready.opened });
    const request = await windlass().request({ pod, containers: ['app'], strategy: { unreadyGracePeriodSeconds: 0 } });
    await request.waitsFor('ContainerNotReady');
    expect(heldKeys((await pod.read())?.status?.conditions)).toHaveLength(1);

    ready.open();
    await request.ended();

    const last = await request.until('at rest', (_, live) => isAtRest(live));
    const released = await pod.read();
    expect(last.metadata.finalizers ?? []).toEqual([]);
    expect(heldKeys(released?.status?.conditions)).toEqual([]);
    expect(conditionOf(released, podReadinessGate)).toBe('True');
  });

  it.concurrent('CRR-23: is a plain delay for a pod without the gate', async () => {
    const pod = await windlass().runPod(['app']);
    const strategy = { unreadyGracePeriodSeconds: 3_600 };
    const request = await windlass().request({ pod, containers: ['app'], strategy });

    const draining = await drains(request);
    expect(conditionOf(await pod.read(), 'Ready')).toBe('True');
    expect(draining.metadata.finalizers ?? []).toEqual([]);
    expect(pod.restartsOf('app')).toBe(0);
  });

  for (const gate of [true, false]) {
    it.concurrent(`CRR-22, CRR-23: ends after the time given ${gate ? 'with' : 'without'} the gate`, async () => {
      const pod = gate ? await gatedPod(['app']) : await windlass().runPod(['app']);
      const strategy = { unreadyGracePeriodSeconds: 10 };
      const request = await windlass().request({ pod, containers: ['app'], strategy });
      const status = await request.ended();
      const since = Date.parse(findCondition(status.conditions, 'PreRecreateGrace')?.lastTransitionTime ?? '');
      expect((pod.newest('app')?.startedAtMs ?? 0) - since).toBeGreaterThanOrEqual(10_000);
    });
  }

  it.concurrent('CRR-53: gives the pod back when the request is deleted in the middle', async () => {
    const pod = await gatedPod(['app']);
    const request = await windlass().request({
      pod,
      containers: ['app'],
      strategy: { unreadyGracePeriodSeconds: 3_600 },
    });
    await drains(request);

    await request.delete();
    await request.gone();

    const released = await pod.read();
    expect(heldKeys(released?.status?.conditions)).toEqual([]);
    expect(conditionOf(released, podReadinessGate)).toBe('True');
    expect(pod.restartsOf('app')).toBe(0);
  });

  it.concurrent('CRR-10: gives the pod back when the finalizer was removed by hand and the request is gone', async () => {
    const { cluster } = windlass();
    const pod = await gatedPod(['app']);
    const request = await windlass().request({
      pod,
      containers: ['app'],
      strategy: { unreadyGracePeriodSeconds: 3_600 },
    });
    await drains(request);

    await cluster.kube.patch(crr, request.ref, 'merge', {
      metadata: { finalizers: null },
    });
    await request.delete();
    await request.gone();

    await waitFor('the key to be off the pod', async (see) => {
      return see(heldKeys((await pod.read())?.status?.conditions)).length === 0;
    });
  });

  it.concurrent('CRR-22: two requests hold the gate each in its turn', async () => {
    const pod = await gatedPod(['app', 'proxy']);
    const strategy = { unreadyGracePeriodSeconds: 0 };
    const both = await Promise.all([
      windlass().request({ pod, containers: ['app'], strategy }),
      windlass().request({ pod, containers: ['proxy'], strategy }),
    ]);
    await Promise.all(both.map((request) => request.ended()));
    await Promise.all(both.map((request) => request.until('at rest', (_, live) => isAtRest(live))));
    expect(heldKeys((await pod.read())?.status?.conditions)).toEqual([]);
    expect(conditionOf(await pod.read(), podReadinessGate)).toBe('True');
  });
});
