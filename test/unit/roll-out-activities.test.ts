import { describe, expect, it } from '@jest/globals';
import { type PodOfFleet, recordOrdersActivity } from '../../activities/fleet/orders.ts';
import { operatorEventActivities } from '../../activities/kube/operator-events.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { fleetResource } from '../../api/fleet/fleet-kinds.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { KubeError } from '../../kube/failures.ts';
import { NotLeading } from '../../kube/fence.ts';

const target = { namespace: 'shop', name: 'web', uid: 'set-1' };
const orders = { version: 3, revision: 'web-2', paused: { by: 'ann', at: '2026-11-21T06:00:00Z' } };

/** Records orders with an API server that answers so. */
async function record(input: {
  readonly kind?: string;
  readonly given?: RollOutOrders;
  readonly fails?: Error;
  /** Orders in the status of the object. */
  readonly live?: RollOutOrders;
  /** Orders in the annotation of release 0.1.0. */
  readonly annotation?: string;
  /** The schema of the status has no orders. */
  readonly isOldSchema?: boolean;
  /** So often somebody else is faster. */
  readonly conflicts?: number;
  readonly pods?: readonly PodOfFleet[];
  readonly check?: readonly string[];
}) {
  const calls: unknown[] = [];
  let conflicts = input.conflicts ?? 0;
  const activity = recordOrdersActivity({
    kube: {
      get: async () => {
        const { live: rollOut, annotation } = input;
        const annotations = annotation === undefined ? {} : { [windlassAnnotation.rollOut]: annotation };
        const status = rollOut ? { rollOut } : {};
        return { metadata: { ...target, resourceVersion: '6', annotations }, status } as never;
      },
      patch: async (resource, name, type, body, options) => {
        calls.push([`${resource.plural}/${options?.subresource}`, name, type, body]);
        if (input.fails) throw input.fails;
        if (conflicts-- > 0) throw new KubeError({ status: 409, reason: 'Conflict', message: '' });
        const status = input.isOldSchema ? {} : (body as { status: object }).status;
        return { metadata: { resourceVersion: '7' }, status } as never;
      },
    },
    seen: async (resource, uid, version) => void calls.push(['seen', resource.plural, uid, version]),
    resourceOf: fleetResource,
    podsOf: () => input.pods,
  });
  const { check } = input;
  const answer = await activity({
    ...{ kind: input.kind ?? 'CloneSet', target, orders: input.given ?? orders },
    ...(check && { check }),
  });
  return answer === undefined ? calls : [...calls, answer];
}

describe('recordOrders', () => {
  it('writes into the status of the object of this UID, and answers when the caches show it', async () => {
    const written = (rollOut: object) => [
      'clonesets/status',
      { namespace: 'shop', name: 'web' },
      'merge',
      { metadata: { uid: 'set-1', resourceVersion: '6' }, status: { rollOut } },
    ];
    expect(await record({})).toEqual([written(orders), ['seen', 'clonesets', 'set-1', '7']]);
    const silent = { version: 4, revision: 'web-2' };
    // what is over goes by name
    expect((await record({ live: orders, given: silent }))[0]).toEqual(written({ ...silent, paused: null }));
  });

  it('says which manifests are missing where the API server drops the orders', async () => {
    await expect(record({ isOldSchema: true })).rejects.toMatchObject({
      type: 'Denied',
      message:
        'Cannot write the orders for CloneSet "shop/web": the CustomResourceDefinition of CloneSet has no ' +
        'status.rollOut; apply the manifests of this release',
    });
  });

  it('F14: writes nothing over newer orders, and answers those; it writes over older ones', async () => {
    const newer = { ...orders, version: 4 };
    expect(await record({ live: newer })).toEqual([{ newer }]);
    expect(await record({ annotation: JSON.stringify(newer) })).toEqual([{ newer }]);
    expect(await record({ live: { ...orders, version: 2 } })).toHaveLength(2);
    expect(await record({ annotation: 'nobody can read this' })).toHaveLength(2);
  });

  it('leaves out skips of pods that the object does not have, and answers which these are and which are unavailable', async () => {
    const skipping = { ...orders, skip: ['web-old', 'web-a', 'web-nope'] };
    const pods = [
      { name: 'web-b', spendsBudget: false },
      { name: 'web-a', spendsBudget: true },
    ];
    const [written, , answer] = await record({ given: skipping, pods, check: ['web-a', 'web-nope'] });
    // what was skipped before may be gone by now
    expect(JSON.stringify(written)).toContain('"skip":["web-old","web-a"]');
    const checked = { unknown: ['web-nope'], unavailable: ['web-a'], pods: ['web-a', 'web-b'], count: 2 };
    expect(answer).toEqual({ checked });
    // where the caches know nothing of the object, nothing is left out
    expect(JSON.stringify(await record({ given: skipping, check: ['web-nope'] }))).toContain('web-nope');
  });

  it('F14: reads again when somebody has written in between', async () => {
    expect(await record({ conflicts: 1 })).toHaveLength(3);
  });

  it('is tried again by whoever leads, and not where the object is gone or nobody may write it', async () => {
    const refused = (status: number, reason: string) =>
      record({ fails: new KubeError({ status, reason, message: '' }) });
    await expect(record({ fails: new NotLeading('no') })).rejects.toMatchObject({ type: 'Unreachable' });
    await expect(refused(503, '')).rejects.toMatchObject({ type: 'Unreachable', nonRetryable: false });
    await expect(refused(404, 'NotFound')).rejects.toMatchObject({ type: 'Superseded', nonRetryable: true });
    await expect(refused(403, 'Forbidden')).rejects.toMatchObject({ type: 'Denied', nonRetryable: true });
    await expect(record({ kind: 'Deployment' })).rejects.toMatchObject({ type: 'Invalid', nonRetryable: true });
  });
});

describe('announceRollOutCommand', () => {
  it('tells who steered a roll-out, or why a command had no effect', async () => {
    const events: unknown[] = [];
    const create = async (_resource: unknown, event: unknown) => {
      events.push(event);
      return event as never;
    };
    const { announceRollOutCommand } = operatorEventActivities({ kube: { create }, now: () => new Date(0) });
    const about = { kind: 'CloneSet', target, by: 'ann', key: 'run-1' };
    await announceRollOutCommand({ ...about, command: 'skip', pod: 'web-a' });
    await announceRollOutCommand({ ...about, command: 'undo', refused: 'no earlier revision is kept' });
    await announceRollOutCommand({ ...about, kind: 'Deployment', command: 'undo' });
    expect(events).toMatchObject([
      { type: 'Normal', reason: 'Skipped', message: 'Skipped web-a by ann', involvedObject: { kind: 'CloneSet' } },
      {
        type: 'Warning',
        reason: 'CommandRefused',
        message: 'Command undo by ann has no effect: no earlier revision is kept',
        involvedObject: { apiVersion: 'apps.kruise.io/v1beta1', uid: 'set-1' },
      },
    ]);
  });
});
