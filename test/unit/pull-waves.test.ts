import { describe, expect, it } from '@jest/globals';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { pullJobCondition } from '../../api/image-pull-job/texts.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import { heldBackBy, type NodeStanding, nodesToTell } from '../../plan/images/image-pull-job.ts';
import { nextWaves, pullEndOf, waveOutcome, waveText } from '../../plan/images/pull-waves.ts';
import { answerBytes, mostInBatch } from '../../plan/permits/in-flight.ts';
import { batchPayloadBytes, summaryBytes } from '../../plan/text-size.ts';
import { bornAt, bornMs, pullJob } from '../support/pull-objects.ts';

type Letter = 'u' | 'a' | 's' | 'f' | 'F';

/** One node for each letter: unasked, active, succeeded, failed, or full; named n00, n01 and so on. */
function nodes(letters: string): readonly NodeStanding[] {
  const states = { u: 'unasked', a: 'active', s: 'succeeded', f: 'failed', F: 'unasked' } as const;
  return [...letters].map((letter, index) => ({
    node: `n${String(index).padStart(2, '0')}`,
    state: states[letter as Letter],
    lacksSecret: false,
    ...(letter === 'F' && { held: 'full' }),
  }));
}

function next(
  job: ImagePullJob,
  letters: string,
  { named = [], unnamed = [], mayTell = true }: { named?: string[]; unnamed?: string[]; mayTell?: boolean } = {},
  most?: number,
) {
  const scene = { nodes: nodes(letters), isNamed: (node: string) => named.includes(node), mayTell };
  return nextWaves(job, { ...scene, unnamed: new Set(unnamed) }, most);
}

function withCondition(type: string): Partial<ImagePullJob> {
  const condition = { type, status: 'True' as const, reason: 'X', message: 'X by ann', lastTransitionTime: bornAt };
  return { status: { desired: 0, active: 0, succeeded: 0, failed: 0, conditions: [condition] } };
}

describe('the next waves', () => {
  it('name further nodes in the order of their names, however few of them may pull at once', () => {
    expect(next(pullJob({ parallelism: 1 }), 'uuu')).toEqual({ waves: [['n00', 'n01', 'n02']], more: false });
    const many = next(pullJob({ parallelism: 1 }), 'u'.repeat(100));
    expect(many).toEqual({ waves: [expect.any(Array)], more: false });
    expect(many.waves[0]).toHaveLength(mostInBatch);
  });

  it('begin with nodes that have begun without being named, also with those that have ended', () => {
    const { waves } = next(pullJob({ parallelism: 2 }), 'usuau', { unnamed: ['n01', 'n03'] });
    expect(waves).toEqual([['n01', 'n03', 'n00', 'n02', 'n04']]);
  });

  it('name as many as may pull at once, and as many ahead, but no more than a wave', () => {
    const sizes = (parallelism: number, letters: string) =>
      next(pullJob({ parallelism }), letters).waves.map((wave) => wave.length);
    expect(sizes(100, 'u'.repeat(500))).toEqual([40, 40, 40, 40]);
    expect(sizes(20, 'u'.repeat(500))).toEqual([40]);
    expect(sizes(21, 'u'.repeat(500))).toEqual([40, 40]);
    expect(sizes(40, `${'a'.repeat(40)}${'u'.repeat(60)}`)).toEqual([40]);
    expect(sizes(500, 'u'.repeat(130))).toEqual([40, 40, 40, 10]);
  });

  it('are no more than an answer can hold: further ones follow', () => {
    const { waves, more } = next(pullJob({ parallelism: 500 }), 'u'.repeat(300));
    expect([waves.map((wave) => wave.length), more]).toEqual([[40, 40, 40, 40, 40], true]);
    const ofWave = next(pullJob({ parallelism: 500 }), 'u'.repeat(300), {}, mostInBatch);
    expect([ofWave.waves.map((wave) => wave.length), ofWave.more]).toEqual([[40], true]);
  });

  it('are none while nodes of earlier waves take up all the room, and that ahead', () => {
    const job = pullJob({ parallelism: 2 });
    const named = { named: ['n00', 'n01', 'n02', 'n03'] };
    expect(next(job, 'aauuuu', named).waves).toEqual([]);
    expect(next(job, 'aaauuu', named).waves).toEqual([['n04', 'n05']]);
    expect(next(job, 'asuuuu', named).waves).toEqual([['n04', 'n05']]);
    expect(next(job, 'asasuu', named).waves).toEqual([['n04', 'n05']]);
  });

  it('leave out full nodes, which go later', () => {
    expect(next(pullJob({ parallelism: 5 }), 'uFu').waves).toEqual([['n00', 'n02']]);
    expect(next(pullJob({ parallelism: 5 }), 'F').waves).toEqual([]);
  });

  it('name only what has begun while no further node may go', () => {
    const named = { unnamed: ['n00'] };
    expect(next(pullJob({ parallelism: 5 }, withCondition(pullJobCondition.paused)), 'au', named).waves).toEqual([
      ['n00'],
    ]);
    expect(next(pullJob({ parallelism: 5 }, withCondition(pullJobCondition.aborted)), 'au', named).waves).toEqual([
      ['n00'],
    ]);
    expect(next(pullJob({ parallelism: 0 }), 'au', named).waves).toEqual([['n00']]);
    expect(next(pullJob({ parallelism: 5 }), 'au', { ...named, mayTell: false }).waves).toEqual([['n00']]);
    expect(next(pullJob({ parallelism: 5 }), 'u', { mayTell: false }).waves).toEqual([]);
  });

  it('and their outcomes take 8 KiB each at most, whatever nodes are called and however much a runtime says', () => {
    const long = nodes('u'.repeat(60)).map((one, index) => ({ ...one, node: `${index}-`.padEnd(253, 'n') }));
    const scene = { nodes: long, isNamed: () => false, unnamed: new Set<string>(), mayTell: true };
    const { waves, more } = nextWaves(pullJob({ parallelism: 60 }), scene);
    expect(waves.slice(0, -1).every((names) => names.length > 10)).toBe(true);
    expect([waves.flat(), more]).toEqual([long.map(({ node }) => node), false]);
    expect(jsonBytes({ kind: 'nodes', waves, more, of: 5_000, ended: 4_000 })).toBeLessThan(answerBytes + 1_024);
    const [longest = []] = waves;
    for (const names of [longest, nodes('u'.repeat(40)).map(({ node }) => node)]) {
      const why = 'failed to resolve reference "ärger": '.repeat(50);
      const outcome = waveOutcome(names.map((node) => ({ node, at: '2026-11-22T10:00:00.123Z', why })));
      expect(jsonBytes(names)).toBeLessThan(batchPayloadBytes);
      expect(jsonBytes(outcome)).toBeLessThan(batchPayloadBytes);
      expect(outcome.nodes.every(({ why: text = '' }) => text.startsWith('failed to resolve'))).toBe(true);
    }
    const all = waveOutcome(longest.map((node) => ({ node, at: '2026-11-22T10:00:00.123Z', ms: 86_400_000 })));
    expect(jsonBytes(all)).toBeLessThan(batchPayloadBytes);
  });

  it('are called by their image and their first nodes', () => {
    expect(waveText('nginx:1.27', ['node-1'])).toBe('pull nginx:1.27 on node-1');
    expect(waveText('nginx:1.27', ['node-1', 'node-2'])).toBe('pull nginx:1.27 on node-1 and node-2');
    const names = Array.from({ length: 40 }, (_, index) => `node-${index}.${'x'.repeat(60)}`);
    expect(waveText('nginx:1.27', names)).toMatch(/^pull nginx:1.27 on node-0\.x+, node-1\.x+ and 38 more$/);
    for (const image of ['nginx:1.27', `registry/${'ä'.repeat(400)}:1`]) {
      expect(jsonBytes(waveText(image, names))).toBeLessThanOrEqual(summaryBytes + 2);
    }
  });
});

describe('the nodes that are told', () => {
  it('IPJ-10: are those that may be told, in the order of their names and as far as parallelism goes', () => {
    const job = pullJob({ parallelism: 2 });
    expect(nodesToTell(job, nodes('uuuu'), (node) => node !== 'n01')).toEqual(['n00', 'n02']);
    expect(nodesToTell(job, nodes('auuu'), (node) => node !== 'n01')).toEqual(['n02']);
    expect(nodesToTell(job, nodes('uu'), () => false)).toEqual([]);
  });

  it.each([
    ['Paused', pullJob({}, withCondition(pullJobCondition.paused)), 'au', {}],
    ['NoParallelism', pullJob({ parallelism: 0 }), 'au', {}],
    ['NodesFull', pullJob(), 'aF', {}],
    ['NoNodes', pullJob(), '', {}],
    ['TooLarge', pullJob(), 'u', { tooLarge: 'image' }],
    ['SecretRefused', pullJob(), 'au', { secretTrouble: 'Allow it' }],
    [undefined, pullJob(), 'auF', {}],
    [undefined, pullJob(), 'as', {}],
  ] as const)('are held back by %s', (reason, job, letters, context) => {
    expect(heldBackBy(job, nodes(letters), { nowMs: bornMs, ...context })?.reason).toBe(reason);
  });
});

describe('the end of a job', () => {
  const ended = (type: string, reason: string, failed = 0) => {
    const condition = { type, status: 'True' as const, reason, message: `${reason}: so`, lastTransitionTime: bornAt };
    const status = { desired: 2, active: 0, succeeded: 2 - failed, failed, completionTime: bornAt };
    return pullJob(
      {},
      { status: { ...status, ...(type !== '' && { conditions: [condition] }), message: 'job has completed' } },
    );
  };

  it('is that of its condition', () => {
    expect(pullEndOf(pullJob())).toBeUndefined();
    expect(pullEndOf(ended('Complete', 'ImagePulled'))).toEqual({
      failed: false,
      reason: 'ImagePulled',
      message: 'ImagePulled: so',
    });
    expect(pullEndOf(ended('Failed', 'DeadlineExceeded', 1))).toMatchObject({
      failed: true,
      reason: 'DeadlineExceeded',
    });
  });

  it('is known of a job without conditions, which OpenKruise has completed', () => {
    expect(pullEndOf(ended('', '', 1))).toEqual({ failed: true, reason: 'NodesFailed', message: 'job has completed' });
    expect(pullEndOf(ended('', ''))).toMatchObject({ failed: false, reason: 'ImagePulled' });
  });
});
