import { describe, expect, it } from '@jest/globals';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import type { ImageTagStatus } from '../../api/node-image/types.ts';
import { jobViolations, type PullEvidence, pullViolations } from '../chaos/judges/pull-judge.ts';
import type { RegistryCall } from '../support/test-registry.ts';

function call(what: RegistryCall['what'], beganAtMs: number, end?: RegistryCall['end']): RegistryCall {
  return { repository: 'app', what, from: '10.0.0.1', beganAtMs, ...(end && { end }) };
}

/** A request that is answered immediately. */
function manifest(beganAtMs: number): RegistryCall {
  return call('manifest', beganAtMs, { atMs: beganAtMs, whole: true });
}

function status(phase: ImageTagStatus['phase'], more: Partial<ImageTagStatus> = {}): ImageTagStatus {
  const hasEnded = phase === 'Succeeded' || phase === 'Failed';
  return { tag: '1', phase, ...(hasEnded && { completionTime: '2026-01-01T00:00:00Z' }), ...more };
}

/** A pull that was interrupted, and then succeeded. */
function evidence(more: Partial<PullEvidence> = {}): PullEvidence {
  return {
    subject: 'app:1@node-1',
    calls: [
      manifest(10),
      call('layer', 20, { atMs: 30, whole: false }),
      manifest(40),
      call('layer', 50, { atMs: 80, whole: true }),
    ],
    arrivedAtMs: 90,
    isListed: true,
    always: false,
    statuses: [
      { seenAtMs: 15, status: status('Pulling') },
      { seenAtMs: 100, status: status('Succeeded') },
    ],
    ...more,
  };
}

describe('what speaks against a pull', () => {
  it('is nothing when it was broken off, begun again, and told of afterwards', () => {
    expect(pullViolations(evidence())).toEqual([]);
  });

  const good = evidence().calls;
  const cases: readonly (readonly [string, Partial<PullEvidence>, RegExp])[] = [
    ['a second one beside it', { calls: [...good, manifest(60)] }, /twice at once: its manifest/],
    ['its layer a second time', { calls: [...good, call('layer', 79, good[3]?.end)] }, /twice at once: its layer/],
    ['a layer that never ended', { calls: [call('layer', 1), ...good] }, /twice at once/],
    ['a pull of what is there', { calls: [...good, manifest(95)] }, /was there, and its manifest was asked for 5 ms/],
    ['no pull at all', { calls: [] }, /never left the registry/],
    ['an image that nobody has', { arrivedAtMs: undefined, isListed: false }, /never came to the node/],
    ['another image of that name', { isListed: false }, /is not on the node now/],
    ['a success before its time', { arrivedAtMs: 101 }, /said to be there before it was/],
    ['no end', { statuses: evidence().statuses.slice(0, 1) }, /ends as .*Pulling/],
    [
      'an end that was taken back',
      { statuses: [{ seenAtMs: 95, status: status('Succeeded') }, ...evidence().statuses] },
      /was over, and then Pulling/,
    ],
    [
      'a failure on the way',
      { statuses: [{ seenAtMs: 95, status: status('Failed') }, ...evidence().statuses.slice(1)] },
      /said to have failed/,
    ],
    [
      'a second order for the same',
      { statuses: [{ seenAtMs: 100, status: status('Succeeded', { version: 1 }) }] },
      /asked of the node a second time/,
    ],
  ];

  it.each(cases)('is %s', (_, more, text) => {
    expect(pullViolations(evidence(more)).join('\n')).toMatch(text);
  });

  it('is a layer, but no manifest, that a pull of the policy Always asks for although it is there', () => {
    expect(pullViolations(evidence({ always: true, calls: [...good, manifest(95)] }))).toEqual([]);
    const again = call('layer', 95, { atMs: 96, whole: true });
    expect(pullViolations(evidence({ always: true, calls: [...good, again] }))).toHaveLength(1);
  });
});

function job(more: Partial<NonNullable<ImagePullJob['status']>> = {}, finalizers: readonly string[] = []) {
  return {
    metadata: { name: 'pull', finalizers },
    spec: { image: 'app:1', completionPolicy: { type: 'Always' } },
    status: {
      desired: 2,
      succeeded: 2,
      failed: 0,
      active: 0,
      completionTime: '2026-01-01T00:00:00Z',
      message: 'job has completed',
      conditions: [{ type: 'Complete', status: 'True' }],
      ...more,
    },
  } as unknown as ImagePullJob;
}

describe('what speaks against a job', () => {
  const expected = { nodes: 2, parallelism: 1 };
  const { completionTime: _, ...open } = job().status ?? {};
  const half = { ...job(), status: { ...open, succeeded: 1, active: 1, conditions: [] } } as unknown as ImagePullJob;

  it('is nothing when it went from node to node, and ended', () => {
    expect(jobViolations([half, job()], expected)).toEqual([]);
  });

  it.each([
    ['that it never was', [], /was never there/],
    ['that it has not ended', [half], /has not completed/],
    ['a wrong count', [job({ succeeded: 1, failed: 1 })], /counts 2,1,1,0/],
    ['a failure that was mended', [{ ...half, status: { ...half.status, failed: 1 } }, job()], /as failed/],
    ['a node that was lost', [job({ succeeded: 2 }), half, job()], /lost a node/],
    ['too many at once', [{ ...half, status: { ...half.status, active: 2 } }, job()], /more than 1 nodes/],
    ['a second end', [job({ completionTime: '2025-01-01T00:00:00Z' }), job()], /completed twice/],
    ['what it holds', [job({}, ['kept'])], /holds finalizers kept/],
    ['no condition', [job({ conditions: [] })], /lacks condition Complete/],
    ['another message', [job({ message: 'job exceeds activeDeadlineSeconds' })], /says "job exceeds/],
  ] as const)('is %s', (_name, versions, text) => {
    expect(jobViolations(versions as readonly ImagePullJob[], expected).join('\n')).toMatch(text);
  });
});
