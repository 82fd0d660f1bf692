import { describe, expect, it } from '@jest/globals';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { pullJobCondition } from '../../api/image-pull-job/texts.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import { heldBackBy, type NodeStanding, nodesToTell } from '../../plan/images/image-pull-job.ts';
import { mostInWave, nextWave, pullEndOf, questionText, waveOutcome, waveText } from '../../plan/images/pull-waves.ts';
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
) {
  return nextWave(job, {
    nodes: nodes(letters),
    isNamed: (node) => named.includes(node),
    unnamed: new Set(unnamed),
    mayTell,
  });
}

function withCondition(type: string): Partial<ImagePullJob> {
  const condition = { type, status: 'True' as const, reason: 'X', message: 'X by ann', lastTransitionTime: bornAt };
  return { status: { desired: 0, active: 0, succeeded: 0, failed: 0, conditions: [condition] } };
}

describe('the next wave', () => {
  it('names further nodes in the order of their names, however few of them may pull at once', () => {
    expect(next(pullJob({ parallelism: 1 }), 'uuu')).toEqual({ nodes: ['n00', 'n01', 'n02'], rest: 0 });
    const many = next(pullJob({ parallelism: 1 }), 'u'.repeat(100));
    expect(many.nodes).toHaveLength(mostInWave);
    expect(many.rest).toBe(60);
  });

  it('begins with nodes that have begun without being named, also with those that have ended', () => {
    const wave = next(pullJob({ parallelism: 2 }), 'usuau', { unnamed: ['n01', 'n03'] });
    expect(wave).toEqual({ nodes: ['n01', 'n03', 'n00', 'n02', 'n04'], rest: 0 });
  });

  it('is empty while nodes of earlier waves take up all the room', () => {
    const job = pullJob({ parallelism: 2 });
    expect(next(job, 'auu', { named: ['n00', 'n01'] })).toEqual({ nodes: [], rest: 1 });
    expect(next(job, 'aau', { named: ['n00', 'n01'] })).toEqual({ nodes: [], rest: 1 });
    expect(next(job, 'asu', { named: ['n00', 'n01'] })).toEqual({ nodes: ['n02'], rest: 0 });
  });

  it('leaves out full nodes, which go later', () => {
    expect(next(pullJob({ parallelism: 5 }), 'uFu')).toEqual({ nodes: ['n00', 'n02'], rest: 1 });
    expect(next(pullJob({ parallelism: 5 }), 'F')).toEqual({ nodes: [], rest: 1 });
  });

  it('names only what has begun while no further node may go', () => {
    const named = { unnamed: ['n00'] };
    expect(next(pullJob({ parallelism: 5 }, withCondition(pullJobCondition.paused)), 'au', named).nodes).toEqual([
      'n00',
    ]);
    expect(next(pullJob({ parallelism: 5 }, withCondition(pullJobCondition.aborted)), 'au', named).nodes).toEqual([
      'n00',
    ]);
    expect(next(pullJob({ parallelism: 0 }), 'au', named).nodes).toEqual(['n00']);
    expect(next(pullJob({ parallelism: 5 }), 'au', { ...named, mayTell: false }).nodes).toEqual(['n00']);
    expect(next(pullJob({ parallelism: 5 }), 'u', { mayTell: false }).nodes).toEqual([]);
  });

  it('and its outcome take 8 KiB at most, whatever nodes are called and however much a runtime says', () => {
    const long = nodes('u'.repeat(60)).map((one, index) => ({ ...one, node: `${index}-`.padEnd(253, 'n') }));
    const wave = nextWave(pullJob(), { nodes: long, isNamed: () => false, unnamed: new Set(), mayTell: true });
    expect(wave.nodes.length).toBeGreaterThan(10);
    expect(wave.nodes.length + wave.rest).toBe(60);
    for (const names of [wave.nodes, nodes('u'.repeat(40)).map(({ node }) => node)]) {
      const why = 'failed to resolve reference "ärger": '.repeat(50);
      const outcome = waveOutcome(names.map((node) => ({ node, at: '2026-11-22T10:00:00.123Z', why })));
      expect(jsonBytes({ kind: 'wave', nodes: names, of: 5_000, ended: 4_000, rest: 900 })).toBeLessThan(
        batchPayloadBytes,
      );
      expect(jsonBytes(outcome)).toBeLessThan(batchPayloadBytes);
      expect(outcome.nodes.every(({ why: text = '' }) => text.startsWith('failed to resolve'))).toBe(true);
    }
    const all = waveOutcome(wave.nodes.map((node) => ({ node, at: '2026-11-22T10:00:00.123Z', ms: 86_400_000 })));
    expect(jsonBytes(all)).toBeLessThan(batchPayloadBytes);
  });

  it('is called by its image and its first nodes', () => {
    expect(waveText('nginx:1.27', ['node-1'])).toBe('pull nginx:1.27 on node-1');
    expect(waveText('nginx:1.27', ['node-1', 'node-2'])).toBe('pull nginx:1.27 on node-1 and node-2');
    const names = Array.from({ length: 40 }, (_, index) => `node-${index}.${'x'.repeat(60)}`);
    expect(waveText('nginx:1.27', names)).toMatch(/^pull nginx:1.27 on node-0\.x+, node-1\.x+ and 38 more$/);
    for (const image of ['nginx:1.27', `registry/${'ä'.repeat(400)}:1`]) {
      expect(jsonBytes(waveText(image, names))).toBeLessThanOrEqual(summaryBytes + 2);
      expect(jsonBytes(questionText(image, 12_345))).toBeLessThanOrEqual(summaryBytes + 2);
    }
    expect(questionText('nginx:1.27', 2)).toBe('choose the next nodes: nginx:1.27, wave 2');
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
