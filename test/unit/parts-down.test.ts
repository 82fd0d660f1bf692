import { mkdirSync, mkdtempSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { Instance } from '../../deploy/local/instance.ts';
import { type PartStatus, partStatuses } from '../../deploy/local/parts.ts';
import { partsDown } from '../../deploy/local/parts-down.ts';

const startedAt = '2026-11-28T10:00:00.000Z';
const downAt = '2026-11-28T11:00:00.000Z';

function part(name: string, state: PartStatus['state'], downSince?: string): PartStatus {
  return { name, pid: 1, state, since: startedAt, ...(downSince !== undefined && { downSince }) };
}

describe('partsDown', () => {
  it('says of each part that does not run since when, what waits for it, and how to bring it back', () => {
    const parts = [
      part('worker', 'dead', downAt),
      part('watcher', 'running'),
      part('daemon-node-1', 'frozen', downAt),
      part('other', 'stopped'),
    ];
    expect(partsDown(parts)).toEqual([
      `worker is dead since ${downAt}. For it waits: every operation; objects say EngineNoWorkers within 15 s. npm run part -- start worker`,
      `daemon-node-1 is frozen since ${downAt}. For it waits: restarts, pulls and probes on that node; objects say EngineNoDaemon within 15 s, later NodeSilent. npm run part -- thaw daemon-node-1`,
      'other is stopped. For it waits: what needs it. npm run part -- start other',
    ]);
  });
});

describe('partStatuses', () => {
  it('knows since when a part is down: from the command that ended it, or from its log', () => {
    const folder = mkdtempSync(join(tmpdir(), 'windlass-parts-'));
    for (const name of ['parts', 'logs']) mkdirSync(join(folder, name));
    const log = join(folder, 'logs', 'watcher.log');
    writeFileSync(log, '');
    utimesSync(log, new Date(downAt), new Date(downAt));
    const record = { pid: 2 ** 22 + 1, startTime: '1', since: startedAt, wanted: 'running' };
    const write = (name: string, more: object) =>
      writeFileSync(join(folder, 'parts', `${name}.json`), JSON.stringify({ ...record, name, ...more }));
    write('watcher', {});
    write('worker', { downSince: '2026-11-28T12:00:00.000Z' });
    write('webhook', { wanted: 'stopped' });
    expect(partStatuses({ folder } as Instance)).toMatchObject([
      { name: 'watcher', state: 'dead', downSince: downAt },
      { name: 'webhook', state: 'stopped' },
      { name: 'worker', state: 'dead', downSince: '2026-11-28T12:00:00.000Z' },
    ]);
  });
});
