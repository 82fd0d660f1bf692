import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { parseRestartChanged, restartContainersId } from '../../api/container-recreate-request/operation.ts';
import type { OwnerReference } from '../../api/core/meta.ts';
import {
  commandEvent,
  commandNames,
  isCommandName,
  parseCommandPayload,
  parseCommandText,
  queues,
  rollOutCommandNames,
} from '../../api/engine/operations.ts';
import { rollOutBehind } from '../../api/fleet/cause.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { operationTypes } from '../../api/operations.ts';
import { operationFor, request } from '../support/recreate-requests.ts';

describe('parseCommandPayload', () => {
  it('reads who and what', () => {
    const payload = { by: 'ann', target: 'app', id: '7', else: true };
    expect(parseCommandPayload(payload)).toEqual({ by: 'ann', target: 'app', id: '7' });
  });

  it('treats anything else as an empty payload', () => {
    for (const payload of [undefined, null, 'ann', 7, [], { by: 7, target: null }, { by: '' }]) {
      expect(parseCommandPayload(payload)).toEqual({});
    }
    fc.assert(fc.property(fc.anything(), (payload) => void parseCommandPayload(payload)));
  });

  it('cuts names that no object could have', () => {
    expect(parseCommandPayload({ by: 'x'.repeat(999) }).by).toHaveLength(253);
  });

  it('reads names in one line, as they stand in messages', () => {
    expect(parseCommandPayload({ by: 'ann\n\u001b[31m  of\tteam a ' }).by).toBe('ann [31m of team a');
    expect(parseCommandPayload({ by: '\n' }).by).toBe('an operator');
  });
});

describe('commandEvent', () => {
  it('is one line, whatever was sent', () => {
    expect(commandEvent('no\nsuch', 'ann', { refused: 'web\r\n is none of its pods' }).message).toBe(
      'Command no such by ann has no effect: web is none of its pods',
    );
    expect(commandEvent('skip', 'ann', { target: 'web\n' }).message).toBe('Skipped web by ann');
  });
});

describe('parseCommandText', () => {
  it('reads a command and its target', () => {
    expect(parseCommandText(' pause ', commandNames)).toEqual({ name: 'pause' });
    expect(parseCommandText('skip app', commandNames)).toEqual({ name: 'skip', target: 'app' });
  });

  it('refuses what is no command', () => {
    for (const text of ['', 'stop', 'skip app now', 'Pause', 'undo']) {
      expect(parseCommandText(text, commandNames)).toBeUndefined();
    }
    expect(parseCommandText('undo', rollOutCommandNames)).toEqual({ name: 'undo' });
    expect(isCommandName('toString', commandNames)).toBe(false);
  });
});

describe('parseRestartChanged', () => {
  const change = { operation: operationFor(request()), generation: 3 };

  it('reads what the watcher sends', () => {
    expect(parseRestartChanged(change)).toEqual({ ...change, withdrawn: false });
    expect(parseRestartChanged({ ...change, withdrawn: true })).toMatchObject({ withdrawn: true });
  });

  it('reads work for which there is no request', () => {
    const { pod, node } = change.operation;
    const operation = { refresh: 'environment', pod, node };
    expect(parseRestartChanged({ operation, generation: 1 }).operation).toEqual(operation);
    expect(parseRestartChanged({ operation: { ...operation, refresh: 'else' } })).toEqual({});
  });

  it('reads what has caused the work, and nothing that is no name', () => {
    const caused = (cause: unknown) => parseRestartChanged({ ...change, operation: { ...change.operation, cause } });
    expect(caused('roll-out/set-1').operation?.cause).toBe('roll-out/set-1');
    expect(caused('x'.repeat(999)).operation?.cause).toHaveLength(255);
    for (const cause of [undefined, null, 7, '', ['roll-out/set-1']]) {
      expect(caused(cause).operation).toEqual(change.operation);
    }
  });

  it('takes anything else for a wish to look again, because nobody can take a signal back', () => {
    const { request: ref, pod, node } = change.operation;
    const broken = [
      undefined,
      null,
      'now',
      {},
      { operation: null },
      { operation: { request: ref, pod } },
      { operation: { request: { ...ref, uid: 1 }, pod, node } },
      { operation: { request: ref, pod: [], node } },
      { operation: { request: ref, pod, node: { name: 'node-1' } } },
    ];
    for (const payload of broken) expect(parseRestartChanged(payload)).toEqual({});
    fc.assert(fc.property(fc.anything(), (payload) => void parseRestartChanged(payload)));
  });
});

describe('rollOutBehind', () => {
  const cloneSet = {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    name: 'web',
    uid: 'set-1',
    controller: true,
  };
  const behind = (...ownerReferences: readonly OwnerReference[]) =>
    rollOutBehind({ metadata: { namespace: 'shop', ownerReferences } });

  it('is that of the CloneSet that controls the object, in any version', () => {
    expect(behind(cloneSet)).toBe('roll-out/shop/web/set-1');
    expect(behind({ ...cloneSet, apiVersion: 'apps.kruise.io/v1alpha1' })).toBe('roll-out/shop/web/set-1');
  });

  it('is that of a SidecarSet by its name alone, since it has no namespace', () => {
    expect(behind({ ...cloneSet, kind: 'SidecarSet', name: 'mesh' })).toBe('roll-out/mesh/set-1');
  });

  it('is none where another kind controls it, a CloneSet only owns it, or nothing does', () => {
    expect(behind({ ...cloneSet, controller: false })).toBeUndefined();
    expect(behind({ ...cloneSet, kind: 'ImageListPullJob' })).toBeUndefined();
    expect(behind({ ...cloneSet, apiVersion: 'example.com/v1' })).toBeUndefined();
    expect(rollOutBehind({ metadata: {} })).toBeUndefined();
  });
});

describe('names', () => {
  it('are made from UIDs, so that nothing is worked on twice and no node sees the work of another', () => {
    const pod = { namespace: 'shop', name: 'web', uid: 'p-1' };
    expect(restartContainersId(pod)).toBe('restart-containers/shop/web/p-1');
    expect(rollOutId({ ...pod, uid: 's-1' })).toBe('roll-out/shop/web/s-1');
    expect(queues.node('n-1')).toBe('node/n-1');
  });
});

describe('the list of operations', () => {
  it('has the types of the workflows that the bundle holds, and no others', () => {
    const index = readFileSync('workflows/index.ts', 'utf8');
    const names = [...index.matchAll(/^export \{ (\w+) \} from/gm)].map(([, name]) => name);
    expect(new Set(names)).toEqual(new Set(operationTypes));
  });
});
