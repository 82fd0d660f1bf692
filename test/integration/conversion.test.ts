import { randomUUID } from 'node:crypto';
import { beforeAll, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { JsonObject } from '../../api/base/json.ts';
import { preRecreateGrace } from '../../api/container-recreate-request/texts.ts';
import { type ContainerRecreateRequest, crr, crrV1alpha1 } from '../../api/container-recreate-request/types.ts';
import type { Resource } from '../../api/core/meta.ts';
import { crrAnnotation } from '../../api/core/well-known.ts';
import { pathOf } from '../../kube/client.ts';
import { describeAlone } from '../support/groups.ts';
import type { PlayedPod } from '../support/kubelet-player.ts';
import { useWindlass } from './windlass.ts';

// Only the test writes these requests.
const windlass = useWindlass({ watcher: false, worker: false });

const containers = ['app', 'proxy', 'logger'] as const;

const seconds = fc.integer({ min: 0, max: 100_000 });
const text = fc.string({ maxLength: 40, unit: 'grapheme' });
const time = fc
  .integer({ min: Date.parse('2020-01-01T00:00:00Z') / 1_000, max: Date.parse('2040-01-01T00:00:00Z') / 1_000 })
  .map((atSeconds) => new Date(atSeconds * 1_000).toISOString().replace('.000Z', 'Z'));
const key = fc.stringMatching(/^[a-z][a-z0-9]{0,10}$/).map((name) => `example.com/${name}`);

const spec = fc.record(
  {
    containers: fc.shuffledSubarray([...containers], { minLength: 1 }),
    strategy: fc.record(
      {
        failurePolicy: fc.constantFrom('Fail', 'Ignore'),
        orderedRecreate: fc.boolean(),
        forceRecreate: fc.boolean(),
        terminationGracePeriodSeconds: seconds,
        unreadyGracePeriodSeconds: seconds,
        minStartedSeconds: seconds,
      },
      { requiredKeys: [] },
    ),
    activeDeadlineSeconds: fc.integer({ min: 3, max: 100_000 }),
    ttlSecondsAfterFinished: seconds,
  },
  { requiredKeys: ['containers'] },
);

const snapshotEntry = fc.record(
  { ready: fc.boolean(), restartCount: fc.nat(), containerID: text },
  { requiredKeys: ['ready', 'restartCount'] },
);

/** What v1alpha1 stores in the status itself, and what it stores in annotations. */
const status = fc.record(
  {
    phase: fc.constantFrom('', 'Pending', 'Recreating', 'Succeeded', 'Failed', 'Completed'),
    completionTime: time,
    message: text,
    states: fc.array(
      fc.record(
        {
          phase: fc.constantFrom('Pending', 'Recreating', 'Succeeded', 'Failed'),
          message: text,
          isKilled: fc.boolean(),
        },
        { requiredKeys: ['phase'] },
      ),
      { maxLength: 3 },
    ),
    snapshot: fc.array(snapshotEntry, { minLength: 1, maxLength: 3 }),
    drainedSince: time,
    condition: fc.record({ type: fc.constantFrom('Complete', 'Failed'), message: text, lastTransitionTime: time }),
  },
  { requiredKeys: ['phase', 'states'] },
);

const draft = fc.record({
  spec,
  status,
  labels: fc.dictionary(key, fc.stringMatching(/^[a-z0-9]{0,10}$/), { maxKeys: 3 }),
  annotations: fc.dictionary(key, text, { maxKeys: 3 }),
});

type Draft = typeof draft extends fc.Arbitrary<infer Value> ? Value : never;

/** Writes a request in v1alpha1, like clients of that version: object, annotations and status. */
async function write(pod: PlayedPod, { spec: wanted, status: told, labels, annotations }: Draft) {
  const { kube } = windlass().cluster;
  const { namespace, name: podName } = pod.ref;
  const name = `request-${randomUUID().slice(0, 8)}`;
  const ref = { namespace, name };
  await kube.create(crrV1alpha1, {
    metadata: { namespace, name, labels, annotations },
    spec: { ...wanted, podName, containers: wanted.containers.map((container) => ({ name: container })) },
  });
  const { states, snapshot, drainedSince, condition, ...rest } = told;
  const conditions = condition ? [{ ...condition, status: 'True', reason: 'Because' }] : undefined;
  const containerRecreateStates = states.map((state, index) => ({ name: containers[index] ?? '', ...state }));
  await kube.patch(
    crrV1alpha1,
    ref,
    'merge',
    { status: { ...rest, containerRecreateStates, conditions } },
    {
      subresource: 'status',
    },
  );
  const marks = {
    ...(snapshot && {
      [crrAnnotation.syncContainerStatuses]: JSON.stringify(
        snapshot.map((entry, index) => ({ name: containers[index] ?? '', ...entry })),
      ),
    }),
    ...(drainedSince !== undefined && { [crrAnnotation.unreadyAcquired]: drainedSince }),
  };
  await kube.patch(crrV1alpha1, ref, 'merge', { metadata: { annotations: marks } });
  return { ref, written: { status: { ...rest, containerRecreateStates, conditions }, marks } };
}

/** The object without the fields that the API server adds. */
function own({ metadata, ...rest }: ContainerRecreateRequest): JsonObject {
  const { labels, annotations, finalizers } = metadata;
  return JSON.parse(JSON.stringify({ ...rest, labels, annotations, finalizers }));
}

describeAlone('conversion through the API server', () => {
  let pod: PlayedPod;

  beforeAll(async () => {
    pod = await windlass().runPod(containers);
  });

  function read(resource: Resource, ref: { namespace: string; name: string }): Promise<ContainerRecreateRequest> {
    return windlass().cluster.kube.get<ContainerRecreateRequest>(resource, ref);
  }

  it('loses nothing from v1alpha1 to v1beta1 and back', async () => {
    const { kube } = windlass().cluster;
    const property = fc.asyncProperty(draft, async (given) => {
      const { ref, written } = await write(pod, given);
      const old = await read(crrV1alpha1, ref);
      const now = await read(crr, ref);

      // v1alpha1 shows what was written
      expect(old.metadata.annotations ?? {}).toMatchObject({ ...given.annotations });
      expect(JSON.parse(old.metadata.annotations?.[crrAnnotation.syncContainerStatuses] ?? '[]')).toEqual(
        JSON.parse(written.marks[crrAnnotation.syncContainerStatuses] ?? '[]'),
      );
      expect(old.metadata.annotations?.[crrAnnotation.unreadyAcquired]).toBe(given.status.drainedSince);
      expect(old.status).toEqual(JSON.parse(JSON.stringify(written.status)));
      expect(old.status?.containerStatusSnapshot).toBeUndefined();

      // v1beta1 has fields instead of annotations
      expect(now.metadata.annotations ?? {}).toEqual({ ...given.annotations });
      expect(now.status?.containerStatusSnapshot?.map(({ ready }) => ready)).toEqual(
        given.status.snapshot?.map(({ ready }) => ready),
      );
      expect(now.status?.conditions?.filter(({ type }) => type === 'PreRecreateGrace') ?? []).toEqual(
        given.status.drainedSince === undefined ? [] : [preRecreateGrace(given.status.drainedSince)],
      );
      expect(now.spec).toEqual(old.spec);

      // a client of v1beta1 writes back all that it has read; v1alpha1 shows the same as before
      await kube.request('PUT', pathOf(crr, ref), { body: now });
      const { metadata } = await read(crr, ref);
      await kube.request('PUT', pathOf(crr, ref, 'status'), { body: { ...now, metadata } });
      expect(own(await read(crrV1alpha1, ref))).toEqual(own(old));
      expect(own(await read(crr, ref))).toEqual(own(now));
    });
    await fc.assert(property, { numRuns: 50, interruptAfterTimeLimit: 150_000, endOnFailure: true });
  });

  it('drops an annotation that cannot be read, and keeps the rest', async () => {
    const { kube } = windlass().cluster;
    const { namespace, name: podName } = pod.ref;
    const name = `request-${randomUUID().slice(0, 8)}`;
    const annotations = { [crrAnnotation.syncContainerStatuses]: 'not JSON', note: 'by hand' };
    await kube.create(crrV1alpha1, {
      metadata: { namespace, name, annotations },
      spec: { podName, containers: [{ name: 'app' }] },
    });
    const old = await read(crrV1alpha1, { namespace, name });
    expect(old.metadata.annotations).toEqual({ note: 'by hand' });
  });

  it('lists requests of both versions in either', async () => {
    const { kube } = windlass().cluster;
    const { namespace } = pod.ref;
    const lists = await Promise.all([kube.list(crr, { namespace }), kube.list(crrV1alpha1, { namespace })]);
    const [now, old] = lists.map(({ items }) => items.map(({ metadata }) => metadata.name));
    expect(now).toEqual(old);
    expect(now).not.toEqual([]);
  });
});
