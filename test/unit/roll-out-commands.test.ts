import { describe, expect, it } from '@jest/globals';
import proto from '@temporalio/proto';
import { type ApplyCommandInput, applyCommandActivity } from '../../activities/fleet/commands.ts';
import { recordOrdersActivity } from '../../activities/fleet/earlier-orders.ts';
import { operatorEventActivities } from '../../activities/kube/operator-events.ts';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { fleetResource } from '../../api/fleet/fleet-kinds.ts';
import { type OrderedObject, ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { EventBudget } from '../../kube/events.ts';
import { KubeError } from '../../kube/failures.ts';
import { NotLeading } from '../../kube/fence.ts';
import type { Answer } from '../../plan/fleet/permit.ts';
import type { PodOfFleet } from '../../plan/fleet/roll-out-orders.ts';
import { RollOutCommands } from '../../watcher/fleet/commands.ts';

const target = { namespace: 'shop', name: 'web', uid: 'set-1' };
const at = '2026-11-21T06:00:00Z';
const by = { by: 'ann', at };
const afterwards = '2026-11-21T06:00:01Z';

type Owner = KubeObject & OrderedObject;

interface Start {
  /** Orders in the status of the object. */
  readonly orders?: RollOutOrders;
  /** In the annotation of release 0.1.0. */
  readonly annotation?: string;
  readonly pods?: readonly PodOfFleet[];
  /** What the object waits for, as its status names it. */
  readonly blockedBy?: readonly string[];
  /** What the history says of the sender of a signal. */
  readonly history?: readonly object[];
}

function refusing(): never {
  throw new KubeError({ status: 403, reason: 'Forbidden', message: 'a policy refuses it' });
}

/** A CloneSet, an API server that stores its status, and what applies commands to it. */
class World {
  #owner: Owner;
  /** What the cache of the watcher shows. */
  shown: Owner;
  readonly calls: unknown[] = [];
  readonly events: string[] = [];
  /** Asked before each write; throws in place of it. */
  refuse: () => void = () => undefined;
  /** The schema of the status has no orders. */
  isOldSchema = false;
  /** Pods that are being written. */
  onTheWay: readonly string[] = [];
  /** Which pods may go next. */
  nextOf: () => Answer | undefined = () => undefined;
  readonly commands: RollOutCommands<Owner>;
  readonly #start: Start;
  #version = 1;

  constructor(start: Start = {}) {
    this.#start = start;
    const annotations = start.annotation === undefined ? {} : { [windlassAnnotation.rollOut]: start.annotation };
    const metadata = { ...target, generation: 4, resourceVersion: '1', creationTimestamp: '', annotations };
    this.#owner = {
      apiVersion: 'v1',
      kind: 'CloneSet',
      metadata,
      ...(start.orders && { status: { rollOut: start.orders } }),
    };
    this.shown = this.#owner;
    const kube = {
      get: async () => this.#owner,
      patch: async (...[resource, , , body, options]: readonly unknown[]) => {
        this.refuse();
        const { plural } = resource as { readonly plural: string };
        this.calls.push([`${plural}/${(options as { subresource: string }).subresource}`, body]);
        return this.#write((body as { status: { rollOut: object } }).status.rollOut);
      },
      create: async (_resource: unknown, event: { readonly reason: string; readonly message: string }) => {
        this.events.push(`${event.reason}: ${event.message}`);
        return event;
      },
    };
    this.commands = new RollOutCommands<Owner>(
      { kube: kube as never, commandEvents: new EventBudget(Date.now), now: Date.now },
      {
        resource: cloneSets,
        owners: {
          byUid: () => this.shown,
          seen: async () => {
            this.shown = this.#owner;
          },
        },
        revisionOf: () => 'web-2',
        planned: async (_uid, generation) => ({ generation, revision: 'web-2', previous: 'web-1', replicas: 3 }),
        blockedBy: () => start.blockedBy ?? [],
        podsOf: () => start.pods ?? [],
        look: () => undefined,
        quiet: async () => this.onTheWay,
      },
    );
  }

  #write(rollOut: object): Owner {
    const merged = Object.entries({ ...this.#owner.status?.rollOut, ...rollOut }).filter(([, value]) => value !== null);
    const resourceVersion = String(++this.#version);
    const { status: _, ...owner } = this.#owner;
    this.#owner = {
      ...{ ...owner, metadata: { ...owner.metadata, resourceVersion } },
      ...(!this.isOldSchema && { status: { rollOut: Object.fromEntries(merged) as never } }),
    };
    return this.#owner;
  }

  get orders(): RollOutOrders | undefined {
    return ordersOf(this.#owner);
  }

  /** The orders as planners see them. */
  get held(): RollOutOrders | undefined {
    return this.commands.held(this.shown)?.orders ?? ordersOf(this.shown);
  }

  apply(
    name: ApplyCommandInput['command']['name'],
    more: Partial<ApplyCommandInput['command']> = {},
    input: Partial<ApplyCommandInput> = { by: 'ann' },
  ) {
    const page = { history: { events: this.#start.history ?? [] }, nextPageToken: new Uint8Array() };
    const workflowService = { getWorkflowExecutionHistoryReverse: async () => page };
    const activity = applyCommandActivity({
      client: { workflowService, options: { namespace: 'default' } } as never,
      resourceOf: fleetResource,
      holderOf: () => this.commands,
      nextOf: () => this.nextOf(),
    });
    return activity({ kind: 'CloneSet', target, command: { key: name, name, at, ...more }, ...input });
  }
}

describe('a command that the leading watcher applies', () => {
  it('P-10: is written into the status of the object of this version, with its key, and answered once the caches show it', async () => {
    const world = new World();
    const orders = { version: 1, revision: 'web-2', paused: by };
    expect(await world.apply('pause')).toEqual({ by: 'ann', answer: {} });
    const applied = { ...orders, applied: ['pause'] };
    expect(world.calls).toEqual([
      ['clonesets/status', { metadata: { uid: 'set-1', resourceVersion: '1' }, status: { rollOut: applied } }],
    ]);
    expect(ordersOf(world.shown)).toEqual(applied);
    expect(await world.apply('resume')).toEqual({ by: 'ann', answer: {} });
    // what is over goes by name
    expect(world.calls[1]).toMatchObject(['clonesets/status', { status: { rollOut: { paused: null } } }]);
  });

  it('P-8: has no effect when it is given once more: the undo that came between stands', async () => {
    const world = new World({ orders: { version: 1, revision: 'web-2', paused: by } });
    await world.apply('resume');
    await world.apply('undo');
    const written = world.calls.length;
    expect(await world.apply('resume')).toMatchObject({ answer: {} });
    expect(world.orders).toMatchObject({ undo: { to: 'web-1' }, applied: ['resume', 'undo'] });
    expect(world.calls).toHaveLength(written);
  });

  it('P-8: keeps the keys of the last 16', async () => {
    const world = new World();
    for (let nth = 0; nth < 20; nth++) await world.apply('retry', { key: `retry-${nth}` });
    expect(world.orders?.applied).toEqual(Array.from({ length: 16 }, (_, index) => `retry-${index + 4}`));
  });

  it('takes over the orders of release 0.1.0', async () => {
    const annotation = JSON.stringify({ version: 7, revision: 'web-2', skip: ['web-a'] });
    const world = new World({ annotation });
    await world.apply('pause');
    expect(world.orders).toMatchObject({ version: 8, skip: ['web-a'], paused: by });
  });

  it('says which manifests are missing where the API server drops the orders', async () => {
    const world = new World();
    world.isOldSchema = true;
    await expect(world.apply('undo')).rejects.toMatchObject({
      type: 'Denied',
      message:
        'Cannot apply the command undo to CloneSet "shop/web": the CustomResourceDefinition of CloneSet has no ' +
        'status.rollOut; apply the manifests of this release',
    });
  });

  it('leaves out skips of pods that the object does not have, and says which are unavailable', async () => {
    const pods = [
      { name: 'web-b', spendsBudget: false },
      { name: 'web-a', spendsBudget: true },
    ];
    const world = new World({ pods });
    expect(await world.apply('skip', { pods: ['web-a', 'web-nope'] })).toMatchObject({
      answer: { target: 'web-a', note: 'still unavailable, and so still counted by maxUnavailable: web-a' },
    });
    expect(world.orders?.skip).toEqual(['web-a']);
    expect(await world.apply('skip', { key: 'b', pods: ['web-nope'] })).toMatchObject({
      answer: { refused: 'web-nope is none of its pods: it has web-a, web-b' },
    });
    expect(world.orders?.skip).toEqual(['web-a']);
  });

  it('P-8: skips without a target what the status says that the object waits for', async () => {
    const pods = ['web-a', 'web-b', 'web-c'].map((name) => ({ name, spendsBudget: false }));
    const world = new World({ pods, blockedBy: ['pod/web-a', 'node/node-1', 'pod/web-b', 'pod/web-gone'] });
    const answer = { target: 'web-a and web-b' };
    expect(await world.apply('skip')).toEqual({ by: 'ann', answer });
    expect(world.orders?.skip).toEqual(['web-a', 'web-b']);
    // once it is applied it is not looked at again what it is about
    expect((await world.apply('skip')).answer.refused).toBeUndefined();
    expect(world.orders?.skip).toEqual(['web-a', 'web-b']);
    for (const blockedBy of [[], ['node/node-1', 'batch/3']]) {
      const other = new World({ pods, blockedBy });
      const { refused } = (await other.apply('skip')).answer;
      expect(refused).toBe('it has no target, and the roll-out has not waited for a pod for 5 s; name the pod');
      expect(other.calls).toEqual([]);
    }
  });

  it('P-3: answers which pods may go next, as of when it is applied; nothing when that is not known', async () => {
    const world = new World();
    const next = { kind: 'done', summary: '3 of 3' } as const;
    const writtenBefore: number[] = [];
    world.nextOf = () => {
      writtenBefore.push(world.calls.length);
      return next;
    };
    expect(await world.apply('pause')).toEqual({ by: 'ann', answer: {}, next });
    expect(writtenBefore).toEqual([1]);
    expect(await world.apply('retry', { pods: ['web-a'] })).toMatchObject({
      ...{ answer: { refused: expect.stringContaining('is not skipped') }, next },
    });
    world.nextOf = () => undefined;
    expect(await world.apply('resume')).toEqual({ by: 'ann', answer: {} });
  });

  it('P-8: is applied, and given again, when it cannot be said any more which pods may go next', async () => {
    const world = new World();
    world.nextOf = () => {
      throw new Error('this watcher is not the leader');
    };
    await expect(world.apply('undo')).rejects.toMatchObject({ nonRetryable: false });
    world.nextOf = () => undefined;
    expect(await world.apply('undo')).toMatchObject({ answer: { target: 'web-1' } });
    expect([world.orders?.applied, world.calls.length]).toEqual([['undo'], 1]);
  });

  it('is decided on anew when somebody has written in between', async () => {
    const world = new World();
    let conflicts = 1;
    world.refuse = () => {
      if (conflicts-- > 0) throw new KubeError({ status: 409, reason: 'Conflict', message: '' });
    };
    await world.apply('pause');
    expect(world.orders).toMatchObject({ paused: by });
  });

  it('is tried again by whoever leads, and not where the object is gone or nobody may write it', async () => {
    const refused = async (error: Error) => {
      const world = new World();
      world.refuse = () => {
        throw error;
      };
      await world.apply('undo');
    };
    const answer = (status: number, reason: string) => refused(new KubeError({ status, reason, message: '' }));
    await expect(refused(new NotLeading('no'))).rejects.toMatchObject({ type: 'Unreachable' });
    await expect(answer(503, '')).rejects.toMatchObject({ type: 'Unreachable', nonRetryable: false });
    await expect(answer(404, 'NotFound')).rejects.toMatchObject({ type: 'Superseded', nonRetryable: true });
    await expect(answer(403, 'Forbidden')).rejects.toMatchObject({ type: 'Denied', nonRetryable: true });
    const unknown = new World().apply('pause', {}, { kind: 'Deployment' });
    await expect(unknown).rejects.toMatchObject({ type: 'Invalid', nonRetryable: true });
  });

  it('that waits for a right says so in an Event, once', async () => {
    const world = new World();
    world.refuse = () => {
      throw new KubeError({ status: 403, reason: 'Forbidden', message: 'windlass may not patch clonesets/status' });
    };
    for (let attempt = 0; attempt < 3; attempt++) await expect(world.apply('undo')).rejects.toThrow();
    expect(world.events).toEqual([
      'CommandNotApplied: Command undo by ann is not applied yet, and is tried again: windlass may not patch clonesets/status',
    ]);
  });
});

describe('a pause', () => {
  it('P-9: holds from the moment in which it arrives, before it is known who gave it', async () => {
    const world = new World();
    const applied = world.apply(
      'pause',
      {},
      { place: { workflowId: 'roll-out/web/1', runId: 'r', signal: 'pause', upTo: 9, fromEnd: 0 } },
    );
    expect([world.held?.paused, world.orders]).toEqual([{ by: '', at }, undefined]);
    await applied;
    expect(world.orders?.paused).toEqual({ by: 'an unnamed sender', at });
    expect(world.held).toEqual(world.orders);
  });

  it('P-9: holds though it cannot be written, with the reason, until it is written or taken back', async () => {
    const world = new World();
    world.refuse = () => {
      throw new KubeError({ status: 403, reason: 'Forbidden', message: 'a policy refuses it' });
    };
    await expect(world.apply('pause')).rejects.toMatchObject({ type: 'Denied' });
    expect(world.held?.paused).toEqual(by);
    expect(world.commands.held(world.shown)?.because).toBe('a policy refuses it');
    // what stands nowhere needs no write to be taken back
    expect(await world.apply('resume', { takesBack: 'hold' })).toEqual({ by: 'ann', answer: {} });
    expect(world.held).toBeUndefined();
    await expect(world.apply('abort')).rejects.toMatchObject({ type: 'Denied' });
    world.refuse = () => undefined;
    await world.apply('abort');
    expect([world.orders?.aborted, world.commands.held(world.shown)?.because]).toEqual([by, undefined]);
  });

  it('P-9: is answered when the writes that were on their way have their answers, or names those that have none', async () => {
    const world = new World();
    world.onTheWay = ['web-a', 'web-b'];
    expect(await world.apply('pause')).toMatchObject({
      answer: { note: 'writes that had begun have no answer yet: web-a and web-b' },
    });
    expect((await world.apply('retry')).answer).toEqual({});
  });

  it('P-9: stands when a command that came before it, and is still being applied, takes back what held then', async () => {
    for (const [earlier, later] of [
      ['resume', 'pause'],
      ['retry', 'abort'],
      ['undo', 'pause'],
    ] as const) {
      const world = new World({ orders: { version: 1, revision: 'web-2', paused: by, aborted: by } });
      const first = world.apply(earlier);
      const second = world.apply(later, { at: afterwards });
      await Promise.all([first, second]);
      expect([earlier, world.orders?.[later === 'pause' ? 'paused' : 'aborted']]).toEqual([
        earlier,
        { by: 'ann', at: afterwards },
      ]);
    }
    const world = new World();
    world.refuse = refusing;
    await expect(world.apply('pause', { key: 'P1' })).rejects.toThrow();
    const resumed = world.apply('resume');
    const paused = world.apply('pause', { key: 'P2', at: afterwards });
    await expect(paused).rejects.toThrow();
    expect([(await resumed).answer, world.held?.paused]).toEqual([{}, { by: 'ann', at: afterwards }]);
  });

  it('stands when a command that was given before it could not be applied until then', async () => {
    for (const late of ['resume', 'undo', 'retry'] as const) {
      const world = new World({ orders: { version: 1, revision: 'web-2', paused: by, aborted: by } });
      world.refuse = refusing;
      await expect(world.apply(late)).rejects.toThrow();
      world.refuse = () => undefined;
      await world.apply('pause', { at: afterwards });
      await world.apply('abort', { at: afterwards });
      await world.apply(late);
      expect([late, world.orders?.paused?.at, world.orders?.aborted?.at]).toEqual([late, afterwards, afterwards]);
    }
    const world = new World({ orders: { version: 1, revision: 'web-2', paused: { by: 'bob', at: afterwards } } });
    expect((await world.apply('resume')).answer.refused).toBe(`bob has held it since, at ${afterwards}`);
  });

  it('is not taken back by a resume that is about an undo', async () => {
    const world = new World({ orders: { version: 1, revision: 'web-2', undo: { ...by, to: 'web-1' } } });
    world.refuse = refusing;
    await expect(world.apply('pause')).rejects.toThrow();
    await expect(world.apply('resume', { takesBack: 'undo' })).rejects.toThrow();
    expect(world.held).toMatchObject({ paused: by, undo: { to: 'web-1' } });
  });

  it('is over for whoever gives it again, once it was taken back unwritten by another way', async () => {
    const world = new World();
    world.refuse = refusing;
    await expect(world.apply('pause')).rejects.toThrow();
    await world.apply('resume');
    world.refuse = () => undefined;
    expect(await world.apply('pause')).toMatchObject({ answer: { note: 'taken back before it was written' } });
    expect([world.orders, world.held]).toEqual([undefined, undefined]);
  });

  it('holds for the present revision while the status has orders for another one', async () => {
    const world = new World({ orders: { version: 1, revision: 'web-1', skip: ['web-a'] } });
    world.refuse = refusing;
    await expect(world.apply('abort')).rejects.toThrow();
    expect(world.held).toMatchObject({ revision: 'web-2', aborted: by });
  });

  it('is written by the watcher when nobody gives it again, as after a termination', async () => {
    const world = new World();
    world.refuse = refusing;
    await expect(world.apply('pause')).rejects.toThrow();
    world.refuse = () => undefined;
    await world.commands.writeHolds(target);
    expect([world.orders?.paused, world.commands.held(world.shown)?.because]).toEqual([by, undefined]);
  });

  it('ends with the term in memory: its operation gives it again', async () => {
    const world = new World();
    world.refuse = () => {
      throw new NotLeading('no');
    };
    await expect(world.apply('pause')).rejects.toThrow();
    world.commands.begin();
    expect(world.held).toBeUndefined();
  });
});

describe('the sender of a command', () => {
  const signal = {
    eventId: 9,
    workflowExecutionSignaledEventAttributes: { signalName: 'undo', identity: 'eve@phone' },
  };
  const place = { workflowId: 'roll-out/web/1', runId: 'r', signal: 'undo', upTo: 9, fromEnd: 0 };

  it('is read from the history', async () => {
    const world = new World({ history: [signal, { eventId: 8 }] });
    expect(await world.apply('undo', {}, { place })).toMatchObject({ by: 'eve@phone' });
    expect(world.orders).toMatchObject({ undo: { by: 'eve@phone' } });
  });

  it('P-8: gave it to the run before where a reset has applied it again: it has no effect', async () => {
    const cause = proto.temporal.api.enums.v1.WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW;
    const reset = { eventId: 7, workflowTaskFailedEventAttributes: { cause } };
    const other = { eventId: 8, workflowExecutionSignaledEventAttributes: { signalName: 'changed', identity: 'w' } };
    const world = new World({ history: [signal, other, reset] });
    expect(await world.apply('undo', {}, { place })).toEqual({
      by: 'eve@phone',
      answer: { refused: 'a reset of the workflow has given it again, and the run before has received it' },
    });
    expect(world.calls).toEqual([]);
  });
});

describe('recordOrders, by which roll-outs of release 0.1.0 have orders written', () => {
  const orders = { version: 3, revision: 'web-2', paused: by };

  /** Records orders in an object with these. */
  async function record(live?: RollOutOrders, fails?: Error) {
    const calls: unknown[] = [];
    const activity = recordOrdersActivity({
      kube: {
        get: async () =>
          ({ metadata: { ...target, resourceVersion: '6' }, status: live ? { rollOut: live } : {} }) as never,
        patch: async (_resource, _name, _type, body) => {
          calls.push(body);
          if (fails) throw fails;
          return body as never;
        },
      },
      resourceOf: fleetResource,
    });
    const answer = await activity({ kind: 'CloneSet', target, orders });
    return { calls, answer };
  }

  it('F14: writes nothing over newer orders, and answers those; it writes over older ones', async () => {
    const newer = { ...orders, version: 4 };
    expect(await record(newer)).toEqual({ calls: [], answer: { newer } });
    const body = { metadata: { uid: 'set-1', resourceVersion: '6' }, status: { rollOut: orders } };
    expect(await record({ ...orders, version: 2 })).toEqual({ calls: [body], answer: undefined });
    await expect(record(undefined, new NotLeading('no'))).rejects.toMatchObject({ type: 'Unreachable' });
    const forbidden = new KubeError({ status: 403, reason: 'Forbidden', message: '' });
    await expect(record(undefined, forbidden)).rejects.toMatchObject({ type: 'Denied', nonRetryable: true });
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
