import { describe, expect, it } from '@jest/globals';
import { causeOf } from '../../api/core/field-error.ts';
import { defaultNodeImage } from '../../api/node-image/defaults.ts';
import type { NodeImage } from '../../api/node-image/types.ts';
import { isStale, openTags } from '../../api/node-image/types.ts';
import { validateNodeImage } from '../../api/node-image/validate.ts';
import {
  begun,
  heard,
  mergedStatus,
  newPull,
  nextStep,
  nodeWaitingFor,
  type OpenTag,
  openTagsOf,
  type Pull,
  type PullNews,
  reportOf,
} from '../../plan/images/pull-images.ts';
import { bornAt, bornMs, endedTag, nodeImage, tagOf } from '../support/pull-objects.ts';

const tag: OpenTag = {
  name: 'nginx',
  tag: '1.27',
  version: 2,
  createdAt: bornAt,
  always: false,
  timeoutSeconds: 600,
  backoffLimit: 3,
};
const failed: PullNews = { kind: 'failed', final: false, message: 'connection refused' };
const silence = 60_000;

/** Lets a pull fail repeatedly, and returns the pauses in between. */
function pausesOf(pull: Pull): { readonly pauses: readonly number[]; readonly pull: Pull } {
  const pauses: number[] = [];
  let nowMs = bornMs;
  let now = pull;
  for (;;) {
    const { pull: after, step } = nextStep(now, nowMs, silence);
    if (step.kind === 'ended') return { pauses, pull: after };
    if (step.kind === 'backOff') {
      pauses.push(step.ms);
      nowMs += step.ms;
      now = after;
    } else now = heard(begun(after, nowMs), failed, nowMs);
  }
}

describe('a pull', () => {
  it('NP-7: is tried once and backoffLimit times more, after 1, 2, 4 … and at most 30 seconds', () => {
    expect(pausesOf(newPull(tag)).pauses).toEqual([1000, 2000, 4000]);
    const { pauses } = pausesOf(newPull({ ...tag, backoffLimit: 7 }));
    expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  });

  it('NP-9: fails with the last error when all attempts have', () => {
    const { pull } = pausesOf(newPull(tag));
    expect(pull).toMatchObject({ phase: 'Failed', message: 'connection refused' });
  });

  it('fails at once where no further attempt can help', () => {
    const pull = heard(begun(newPull(tag), bornMs), { ...failed, final: true }, bornMs);
    expect(nextStep(pull, bornMs, silence).step.kind).toBe('ended');
  });

  it('NP-7, NP-8: an attempt has no longer than the deadline leaves, and none follows it', () => {
    const pull = begun(newPull({ ...tag, deadlineSeconds: 700 }), bornMs);
    expect(nextStep(pull, bornMs, silence).step).toMatchObject({ kind: 'attempt', timeoutSeconds: 600 });
    expect(nextStep(pull, bornMs + 650_000, silence).step).toMatchObject({ kind: 'attempt', timeoutSeconds: 50 });
    const { pull: late, step } = nextStep(pull, bornMs + 700_000, silence);
    expect(step.kind).toBe('ended');
    expect(late).toMatchObject({ phase: 'Failed', message: 'pulling exceeds the activeDeadlineSeconds' });
  });

  it('NP-7: counts its deadline from its turn, also when another run takes it over', () => {
    const waited = { ...tag, createdAt: '2026-11-21T09:00:00Z', deadlineSeconds: 700 };
    expect(nextStep(newPull(waited), bornMs, silence).step.kind).toBe('attempt');
    const taken = newPull({ ...waited, startTime: bornAt });
    expect(taken.phase).toBe('Pulling');
    expect(nextStep(taken, bornMs + 701_000, silence).step.kind).toBe('ended');
  });

  it('NI-8: a node that leaves it lying for ten minutes is given up, and asked until then', () => {
    let pull = heard(begun(newPull(tag), bornMs), { kind: 'silent' }, bornMs + 60_000);
    expect(nextStep(pull, bornMs + 60_000, silence).step).toMatchObject({ kind: 'attempt', silenceMs: 60_000 });
    expect(nextStep(pull, bornMs + 590_000, silence).step).toMatchObject({ kind: 'attempt', silenceMs: 10_000 });
    pull = nextStep(pull, bornMs + 600_000, silence).pull;
    expect(pull).toMatchObject({ phase: 'Failed', message: 'node has not responded for a long time' });
  });

  it('NI-8: a node that has answered meanwhile has ten minutes again', () => {
    const answered = heard(begun(newPull(tag), bornMs), failed, bornMs + 500_000);
    const pull = heard(begun(answered, bornMs + 501_000), { kind: 'silent' }, bornMs + 561_000);
    expect(nextStep(pull, bornMs + 700_000, silence).step.kind).toBe('attempt');
  });

  it('NI-8: neither the wait for its turn nor an outage of Temporal is a silence of the node', () => {
    const late = bornMs + 3_600_000;
    const waited = heard(begun(newPull(tag), late), { kind: 'silent' }, late + 60_000);
    expect(nextStep(waited, late + 60_000, silence).step.kind).toBe('attempt');
    const interrupted = heard(waited, { kind: 'interrupted' }, late + 7_200_000);
    expect(nextStep(interrupted, late + 7_200_000, silence).step.kind).toBe('attempt');
  });

  it.each([
    ['Denied', 'Denied', 10_000],
    ['Invalid', 'Parked', 60_000],
  ] as const)('what is refused as %s costs no attempt, and is tried again by itself', (reason, wait, ms) => {
    const refused: PullNews = { kind: 'refused', reason, message: 'no' };
    const pull = heard(begun(newPull({ ...tag, backoffLimit: 0 }), bornMs), refused, bornMs);
    expect(pull.wait).toEqual({ reason: wait, text: 'no' });
    expect(nextStep(pull, bornMs, silence).step).toEqual({ kind: 'backOff', ms });
    expect(nextStep(pull, bornMs + ms, silence).step.kind).toBe('attempt');
  });

  it('a runtime that is away costs no attempt', () => {
    const away: PullNews = { kind: 'away', reason: 'RuntimeUnreachable', message: 'no socket' };
    const pull = heard(begun(newPull({ ...tag, backoffLimit: 0 }), bornMs), away, bornMs);
    expect(nextStep(pull, bornMs, silence).step).toEqual({ kind: 'backOff', ms: 2000 });
    expect(nextStep(pull, bornMs + 2000, silence).step.kind).toBe('attempt');
  });
});

describe('what is open on a node', () => {
  it('NP-2: is every tag whose status does not speak of an end of its version', () => {
    const live = nodeImage(
      'a',
      { nginx: [tagOf('1'), tagOf('2', { version: 1 }), tagOf('3')] },
      { nginx: [endedTag('1', 'Failed'), endedTag('2', 'Succeeded')] },
    );
    expect(openTags(live).map(({ tag: { tag: name } }) => name)).toEqual(['2', '3']);
  });

  it('NP-11: asks the registry for every policy but IfNotPresent', () => {
    const { imagePullPolicy: _, ...silent } = tagOf('3');
    const live = nodeImage('a', { nginx: [tagOf('1'), tagOf('2', { imagePullPolicy: 'Always' }), silent] });
    expect(openTagsOf(live).map(({ always }) => always)).toEqual([false, true, true]);
  });

  it('comes in the order in which it was wished for, with defaults for what nobody said', () => {
    const live = nodeImage('a', {
      nginx: [tagOf('1', { createdAt: '2026-11-21T10:00:02Z', pullPolicy: { backoffLimit: -1 } })],
      redis: [tagOf('7', { createdAt: '2026-11-21T10:00:01Z' })],
    });
    expect(openTagsOf(live)).toMatchObject([
      { name: 'redis' },
      { name: 'nginx', timeoutSeconds: 600, backoffLimit: 3 },
    ]);
  });
});

describe('what a node waits for', () => {
  const waitOf = (pulls: readonly Pull[], pausedBy?: string) =>
    nodeWaitingFor(pulls, { node: 'a', before: undefined, nowMs: bornMs, ...(pausedBy && { pausedBy }) });
  const pulling = begun(newPull(tag), bornMs);

  it('is what a person can do something about, before what only takes time', () => {
    const silent = heard(pulling, { kind: 'silent' }, bornMs);
    const resting = heard(pulling, failed, bornMs);
    expect(waitOf([])).toBeUndefined();
    expect(waitOf([pulling])).toMatchObject({ reason: 'Pulling', blockedBy: ['image/nginx:1.27'] });
    expect(waitOf([pulling, resting])).toMatchObject({
      reason: 'BackingOff',
      unblock: expect.stringContaining('connection refused'),
    });
    expect(waitOf([resting, silent])).toMatchObject({ reason: 'NodeSilent', blockedBy: ['node/a'] });
    expect(waitOf([pulling], 'ann')).toMatchObject({ reason: 'Paused', blockedBy: ['operator/ann'] });
  });

  it('keeps since when as long as the reason is the same', () => {
    const before = { reason: 'Pulling', blockedBy: [], blockedCount: 0, since: '2026-11-21T09:00:00Z', unblock: '' };
    const wait = nodeWaitingFor([pulling], { node: 'a', before, nowMs: bornMs });
    expect(wait?.since).toBe('2026-11-21T09:00:00Z');
  });
});

describe('the status of a node', () => {
  const live = nodeImage('a', { nginx: [tagOf('1.27', { version: 2 })], redis: [tagOf('7')] });
  const merge = (nodeImages: NodeImage, pull: Pull) => mergedStatus(nodeImages, [reportOf(pull)], undefined, bornMs);

  it('NP-6, NP-10: shows Pulling before the end, and progress 100 with the ID at it', () => {
    const pulling = begun(newPull(tag), bornMs);
    expect(merge(live, newPull(tag))).toMatchObject({ desired: 2, waiting: 1, pulling: 0 });
    expect(merge(live, pulling)).toMatchObject({
      pulling: 1,
      imageStatuses: { nginx: { tags: [{ phase: 'Pulling', startTime: bornAt }] } },
    });
    const done = heard(pulling, { kind: 'succeeded', imageId: 'nginx@sha256:1' }, bornMs + 3000);
    expect(merge(live, done)).toEqual({
      desired: 2,
      succeeded: 1,
      failed: 0,
      pulling: 0,
      waiting: 0,
      observedGeneration: 1,
      imageStatuses: {
        nginx: {
          tags: [
            {
              tag: '1.27',
              phase: 'Succeeded',
              version: 2,
              progress: 100,
              startTime: bornAt,
              completionTime: '2026-11-21T10:00:03Z',
              imageID: 'nginx@sha256:1',
            },
          ],
        },
      },
    });
  });

  it('never lets what has ended begin again, and believes nothing about another version', () => {
    const ended = nodeImage(
      'a',
      { nginx: [tagOf('1.27', { version: 2 })] },
      { nginx: [endedTag('1.27', 'Succeeded', 2)] },
    );
    expect(merge(ended, begun(newPull(tag), bornMs)).imageStatuses?.nginx?.tags).toEqual([
      endedTag('1.27', 'Succeeded', 2),
    ]);
    const moved = nodeImage('a', { nginx: [tagOf('1.27', { version: 3 })] });
    expect(merge(moved, begun(newPull(tag), bornMs)).imageStatuses).toBeUndefined();
  });

  it('NI-11: forgets what the spec does not have any more', () => {
    const old = nodeImage(
      'a',
      { redis: [tagOf('7')] },
      { nginx: [endedTag('1', 'Failed')], redis: [endedTag('7', 'Succeeded')] },
    );
    expect(isStale(old)).toBe(true);
    const status = mergedStatus(old, [], undefined, bornMs);
    expect(Object.keys(status.imageStatuses ?? {})).toEqual(['redis']);
    expect(isStale({ ...old, status })).toBe(false);
  });
});

describe('NP-5: what the node says of its pull', () => {
  const pulling = begun(newPull(tag), bornMs);
  const said = { tag: '1.27', phase: 'Pulling', version: 2, progress: 28, fetched: '34 of 120 MB in 12 s' } as const;
  const live = nodeImage('a', { nginx: [tagOf('1.27', { version: 2 })] }, { nginx: [said] });
  const merged = (nodeImages: NodeImage, pull: Pull) =>
    mergedStatus(nodeImages, [reportOf(pull)], undefined, bornMs).imageStatuses?.nginx?.tags?.[0];

  it('stays while the pull goes on', () => {
    expect(merged(live, pulling)).toMatchObject({ progress: 28, fetched: said.fetched });
    const other = tagOf('7');
    const both = { ...live, spec: { images: { ...live.spec.images, redis: { tags: [other] } } } };
    expect(mergedStatus(both, [], undefined, bornMs).imageStatuses?.nginx?.tags?.[0]).toEqual(said);
  });

  it.each([
    ['it has ended', heard(pulling, { kind: 'succeeded', imageId: 'x' }, bornMs), 100],
    ['it has failed', heard(pulling, { kind: 'failed', final: true, message: 'x' }, bornMs), 0],
    ['an attempt has failed', heard(pulling, failed, bornMs), 0],
    ['another version is pulled', { ...pulling, tag: { ...tag, version: 3 } }, 0],
  ])('goes when %s', (_, pull, progress) => {
    const { version } = pull.tag;
    const asked = { ...live, spec: nodeImage('a', { nginx: [tagOf('1.27', { version })] }).spec };
    const after = merged(asked, pull);
    expect(after?.progress).toBe(progress);
    expect(after).not.toHaveProperty('fetched');
  });
});

describe('admission of a NodeImage', () => {
  const given = (tags: readonly object[]) => ({ spec: { images: { nginx: { tags } } } }) as never;

  it('fills in what a tag leaves out, and sorts tags', () => {
    const pullPolicy = { ttlSecondsAfterFinished: 60 };
    expect(
      defaultNodeImage(
        given([
          { tag: 'b', pullPolicy },
          { tag: 'a', createdAt: bornAt },
        ]),
        bornMs,
      ),
    ).toEqual(
      given([
        { tag: 'a', createdAt: bornAt },
        {
          tag: 'b',
          createdAt: bornAt,
          pullPolicy: { timeoutSeconds: 600, backoffLimit: 3, ttlSecondsAfterFinished: 60 },
        },
      ]),
    );
  });

  const good = { tag: '1', createdAt: bornAt, pullPolicy: { ttlSecondsAfterFinished: 1 } };
  const bad: readonly (readonly [object, RegExp])[] = [
    [{ ...good, tag: '' }, /tag can not be empty/],
    [{ ...good, version: -1 }, /must not be negative/],
    [{ tag: '1', createdAt: bornAt }, /pullPolicy field for nginx:1 must set/],
    [{ ...good, pullPolicy: {} }, /pullPolicy.ttlSecondsAfterFinished for nginx:1 must set/],
    [{ ...good, createdAt: undefined }, /createAt field for nginx:1 can not be empty/],
  ];
  it.each(bad)('refuses %j', (one, message) => {
    expect(validateNodeImage(given([one])).map(causeOf)).toEqual([
      expect.objectContaining({
        field: expect.stringContaining('spec.images[nginx].tags[0]'),
        message: expect.stringMatching(message),
      }),
    ]);
  });

  it('C1: refuses a name and a reference that no runtime takes', () => {
    const check = (name: string, tag: string) =>
      validateNodeImage({ spec: { images: { [name]: { tags: [{ ...good, tag }] } } } } as never).map(causeOf);
    expect(check('a'.repeat(255), 't'.repeat(128))).toEqual([]);
    expect(check('a'.repeat(256), '1')).toEqual([
      expect.objectContaining({
        message: expect.stringContaining('its repository has 256 characters, at most 255 are possible'),
      }),
    ]);
    expect(check('a'.repeat(255), 't'.repeat(200))).toMatchObject([
      { message: expect.stringContaining('it has 456 characters') },
    ]);
    const huge = check('a'.repeat(100_000), '1');
    expect(huge.map(({ field, message }) => field.length + message.length).every((length) => length < 600)).toBe(true);
  });

  it('H4: judges of an update only what it makes worse', () => {
    const many = Object.fromEntries(
      Array.from({ length: 300 }, (_, index) => [`i${index}`, { tags: [good] }] as const),
    );
    const old = { ...good, tag: 'old', pullPolicy: {}, version: -1 };
    const images = { ...many, ['a'.repeat(500)]: { tags: [good] }, odd: { tags: [old, good, good] } };
    const before = { spec: { images } } as never;
    const changedTo = (changed: object) =>
      validateNodeImage({ spec: { images: { ...images, ...changed } } } as never, before);
    expect(changedTo({})).toEqual([]);
    expect(changedTo({ i0: { tags: [good, { ...good, tag: '2' }] } })).toEqual([]);
    expect(changedTo({ odd: { tags: [old, { ...good, version: 1 }] } })).toEqual([]);
    expect(changedTo({ more: {} })).toMatchObject([{ field: 'spec.images' }]);
    expect(changedTo({ i0: { tags: [good, good] } })).toMatchObject([{ field: 'spec.images[i0].tags[1].tag' }]);
    expect(changedTo({ odd: { tags: [{ ...old, version: -2 }] } }).length).toBeGreaterThan(0);
    expect(validateNodeImage(before).length).toBeGreaterThan(3);
  });

  it('H4: refuses more than 256 Secrets of an image, unless they are there already', () => {
    const secrets = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ namespace: 'n', name: `s${index}` }));
    const image = (count: number) =>
      ({ spec: { images: { nginx: { tags: [good], pullSecrets: secrets(count) } } } }) as never;
    expect(validateNodeImage(image(257))).toMatchObject([{ field: 'spec.images[nginx].pullSecrets' }]);
    expect(validateNodeImage(image(256))).toEqual([]);
    expect(validateNodeImage(image(299), image(300))).toEqual([]);
    expect(validateNodeImage(image(301), image(300))).toHaveLength(1);
  });

  it('H2: looks at many tags once each', () => {
    const tags = Array.from({ length: 50_000 }, (_, index) => ({ ...good, tag: `t${index}` }));
    const before = process.cpuUsage();
    expect(validateNodeImage(given([...tags, { ...good, tag: 't7' }]))).toMatchObject([
      { field: 'spec.images[nginx].tags[50000].tag' },
    ]);
    const { user } = process.cpuUsage(before);
    expect(user / 1_000).toBeLessThan(3_000);
  });

  it('refuses a tag twice, and more images than 256', () => {
    expect(validateNodeImage(given([good, good]))).toMatchObject([{ field: 'spec.images[nginx].tags[1].tag' }]);
    const images = Object.fromEntries(Array.from({ length: 257 }, (_, index) => [`i${index}`, {}]));
    expect(validateNodeImage({ spec: { images } })).toMatchObject([{ field: 'spec.images' }]);
    expect(validateNodeImage(given([good]))).toEqual([]);
  });
});
