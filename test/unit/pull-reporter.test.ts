import { describe, expect, it } from '@jest/globals';
import type { NodeImage } from '../../api/node-image/types.ts';
import { PullReporter } from '../../daemon/pull-reporter.ts';
import { KubeError } from '../../kube/failures.ts';
import { nodeImage, tagOf } from '../support/pull-objects.ts';
import { waitFor } from '../support/wait.ts';

const pulling = { tag: '1', phase: 'Pulling', version: 0, progress: 0 } as const;
const name = 'r.io/app';

function play(live: NodeImage | undefined, everyMs = 20) {
  const patches: (readonly object[])[] = [];
  const warnings: object[] = [];
  const clock = { nowMs: 0, reads: 0 };
  let failure: Error | undefined;
  const reporter = new PullReporter({
    kube: {
      get: async () => {
        clock.reads += 1;
        if (failure) throw failure;
        return live as never;
      },
      patch: async (_resource, _ref, _kind, body) => {
        patches.push(body as readonly object[]);
        return undefined as never;
      },
    },
    monotonicMs: () => clock.nowMs,
    log: { warn: (fields) => void warnings.push(fields) },
    everyMs,
  });
  const report = (elapsedSeconds: number, fetched = 34_000_000, more: object = {}) =>
    reporter.report({
      nodeImage: { name: 'a', uid: 'uid-a' },
      image: { name, tag: '1' },
      version: 0,
      bytes: { fetched, total: 120_000_000 },
      elapsedSeconds,
      ...more,
    });
  const fail = (status: number) => {
    failure = new KubeError({ status, message: 'no' });
  };
  return { reporter, report, patches, warnings, clock, fail };
}

const live = nodeImage('a', { [name]: [tagOf('1')] }, { [name]: [{ ...pulling, tag: '0' }, pulling] });

describe('NP-5: what is said on a NodeImage of a pull that takes long', () => {
  it('is how far it is', async () => {
    const { report, patches } = play(live);
    report(12);
    await waitFor('the write', () => patches.length === 1);
    const at = '/status/imageStatuses/r.io~1app/tags/1';
    expect(patches[0]).toEqual([
      { op: 'test', path: '/metadata/uid', value: 'uid-a' },
      { op: 'test', path: `${at}/tag`, value: '1' },
      { op: 'test', path: `${at}/phase`, value: 'Pulling' },
      { op: 'add', path: `${at}/progress`, value: 28 },
      { op: 'add', path: `${at}/fetched`, value: '34 of 120 MB in 12 s' },
    ]);
  });

  it('is nothing of one that has just begun', async () => {
    const { report, clock } = play(live, 10_000);
    report(9);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(clock.reads).toBe(0);
  });

  it('is written seldom, all pulls together and the newest of each', async () => {
    const two = nodeImage('a', {}, { [name]: [pulling], nginx: [pulling] });
    const { report, patches, reporter } = play(two, 50);
    report(12);
    report(15, 120_000_000);
    report(15, 60_000_000, { image: { name: 'nginx', tag: '1' } });
    await waitFor('the write', () => patches.length === 1);
    expect(patches[0]).toContainEqual(expect.objectContaining({ value: '120 of 120 MB in 15 s' }));
    expect(patches[0]).toContainEqual(expect.objectContaining({ value: 99 }));
    expect(patches[0]).toContainEqual(expect.objectContaining({ value: '60 of 120 MB in 15 s' }));
    for (let more = 0; more < 20; more += 1) report(18);
    reporter.end();
    report(20);
    await new Promise((resolve) => setTimeout(resolve, 80));
    expect(patches).toHaveLength(1);
  });

  it.each([
    ['has ended', [{ ...pulling, phase: 'Succeeded' as const }]],
    ['has another version', [{ ...pulling, version: 1 }]],
    ['is not told of', []],
  ])('is nothing of one that %s by then', async (_, tags) => {
    const { report, patches, clock } = play(nodeImage('a', {}, { [name]: tags }));
    report(12);
    await waitFor('the look', () => clock.reads === 1);
    expect(patches).toEqual([]);
  });

  it('is nothing on a NodeImage of another UID', async () => {
    const { report, patches, clock } = play({ ...live, metadata: { ...live.metadata, uid: 'other' } });
    report(12);
    await waitFor('the look', () => clock.reads === 1);
    expect(patches).toEqual([]);
  });

  it('is lost while the API server is away, which is logged, and comes again with the next look', async () => {
    const { report, warnings, clock, fail } = play(live);
    fail(0);
    report(12);
    await waitFor('the warning', () => warnings.length === 1);
    fail(409);
    clock.nowMs = 1_000;
    report(15);
    await waitFor('the look', () => clock.reads === 2);
    expect(warnings).toHaveLength(1);
  });
});
