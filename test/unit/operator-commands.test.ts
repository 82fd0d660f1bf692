import { describe, expect, it } from '@jest/globals';
import { cloneSets } from '../../api/cloneset/types.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { rollOutCommandNames } from '../../api/engine/operations.ts';
import { EventBudget } from '../../kube/events.ts';
import { type AnnotatedCommand, type Commanded, hasCommand, passOnCommand } from '../../watcher/operator-commands.ts';
import type { WantedOperation } from '../../watcher/starter.ts';
import { cloneSet } from '../support/cloneset-world.ts';

const operation: WantedOperation = {
  workflowId: 'roll-out/shop/web/set-uid',
  workflowType: 'rollOut',
  taskQueue: 'cluster',
  argument: {},
  change: {},
  inputs: '1',
  summary: 'roll out CloneSet shop/web',
  about: { kind: 'CloneSet', namespace: 'shop', name: 'web', node: '' },
};

/** A pass over a CloneSet with a command in its annotation. */
async function passOn(text: string, commanded: Commanded, sent = false, commandEvents = new EventBudget(() => 0)) {
  const calls: unknown[] = [];
  const events: unknown[] = [];
  const object = cloneSet({}, { metadata: { annotations: { [windlassAnnotation.command]: text } } });
  const again = await passOnCommand(object, cloneSets, rollOutCommandNames, () => commanded, {
    kube: {
      patch: async (_resource, _name, kind) => {
        calls.push(kind);
        return {} as never;
      },
      create: async (_resource, event) => {
        events.push(event);
        return {} as never;
      },
    },
    commandEvents,
    starter: { isSent: () => sent, command: async (...call) => void calls.push(call) },
  });
  return { again, calls, events };
}

describe('a command in the annotation of a fleet object', () => {
  it('starts the operation that it is for, and is taken off once Temporal has it', async () => {
    const { calls, again } = await passOn('undo', { kind: 'started', operation });
    expect(calls).toEqual([
      [operation.workflowId, 'undo', { by: 'an annotation', id: 'set-uid//undo' }, operation],
      'json',
    ]);
    expect(again).toBeUndefined();
  });

  it('stays until a run that is there knows the object as it is', async () => {
    const running: Commanded = { kind: 'running', workflowId: operation.workflowId };
    expect(await passOn('skip web-a', running)).toEqual({ again: { againInMs: 500 }, calls: [], events: [] });
    const { calls } = await passOn('skip web-a', running, true);
    expect(calls).toMatchObject([[operation.workflowId, 'skip', { target: 'web-a' }], 'json']);
  });

  it('stays where it is for a run that may not be started yet, unless it is none', async () => {
    expect((await passOn('pause', { kind: 'later' })).calls).toEqual([]);
    expect((await passOn('dance', { kind: 'later' })).calls).toEqual(['json']);
  });

  it('F6: is obeyed here where nobody in Temporal works on the object, and stays until that is written', async () => {
    const given: AnnotatedCommand[] = [];
    const here = (written: boolean): Commanded => ({
      kind: 'here',
      obey: async (command) => {
        given.push(command);
        return written;
      },
    });
    expect((await passOn('skip web-a', here(true))).calls).toEqual(['json']);
    expect(given).toEqual([{ name: 'skip', target: 'web-a', by: 'an annotation', id: 'set-uid//skip web-a' }]);
    expect((await passOn('pause', here(false))).calls).toEqual([]);
    expect((await passOn('dance', here(true))).calls).toEqual(['json']);
    expect(given).toHaveLength(2);
  });

  it('is taken off when it is none, or refused where what it is about has ended', async () => {
    expect((await passOn('dance', { kind: 'started', operation })).calls).toEqual(['json']);
    const { calls, events } = await passOn('pause', { kind: 'nobody', why: 'the request has ended' });
    expect(calls).toEqual(['json']);
    expect(events).toMatchObject([
      {
        type: 'Warning',
        reason: 'CommandRefused',
        message: 'Command pause by an annotation has no effect: the request has ended',
      },
    ]);
    expect(hasCommand(cloneSet())).toBe(false);
  });

  it('is refused by as many Events as an object may get, and taken off each time', async () => {
    let nowMs = 0;
    const budget = new EventBudget(() => nowMs);
    const ended: Commanded = { kind: 'nobody', why: 'the request has ended' };
    const seen = { removed: 0, events: 0 };
    for (let n = 0; n < 400; n++) {
      nowMs += 100;
      const { calls, events } = await passOn(n % 2 === 0 ? `skip web-${n}` : `dance ${n}`, ended, false, budget);
      seen.removed += calls.length;
      seen.events += events.length;
    }
    expect(seen).toEqual({ removed: 400, events: 25 + 3 });
  });

  it('L3: is answered and taken off when it is none, before any work, however long it is', async () => {
    for (const text of [`abort ${'x'.repeat(200_000)}`, 'dance', 'skip a b', '']) {
      const { calls, events } = await passOn(text, { kind: 'started', operation });
      expect(calls).toEqual(['json']);
      expect(events).toMatchObject([
        { type: 'Warning', reason: 'CommandRefused', involvedObject: { kind: 'CloneSet', uid: 'set-uid' } },
      ]);
      const { message } = events[0] as { readonly message: string };
      expect(message).toContain(`Command "${text.slice(0, 60)}`);
      expect(message).toContain('must be one of pause, resume, retry, skip, abort, undo');
      expect(message.length).toBeLessThan(300);
    }
    const longest = await passOn(`abort ${'x'.repeat(253)}`, { kind: 'started', operation });
    expect(longest.calls).toHaveLength(2);
    expect(longest.events).toEqual([]);
  });
});
