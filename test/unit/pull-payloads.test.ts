import '../support/property-seed.ts';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { NodeImageLook } from '../../activities/kube/node-images.ts';
import { nodeImageActivities } from '../../activities/kube/node-images.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import {
  findTagStatus,
  type ImageTag,
  isStale,
  type NodeImage,
  nodeImages,
  openTags,
  tagsOf,
} from '../../api/node-image/types.ts';
import {
  begun,
  failedWith,
  heard,
  newPull,
  nextReport,
  nodeWaitingFor,
  type OpenTag,
  openTagsOf,
  type PullNews,
  reportOf,
} from '../../plan/images/pull-images.ts';
import { payloadBytes } from '../../plan/text-size.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { bornAt, bornMs, nodeImage, tagOf } from '../support/pull-objects.ts';

const nodeRef = { name: 'n'.repeat(253), uid: '00000000-0000-4000-8000-000000000000' };

function activitiesOn(live: NodeImage) {
  const cluster = new MemoryCluster();
  cluster.put(nodeImages, live);
  const activities = nodeImageActivities({ kube: cluster.client(), now: () => new Date(bornMs) });
  const { name, uid } = live.metadata;
  const ref = { name, uid };
  const operation = { nodeImage: ref, node: ref };
  return {
    ref,
    read: () => cluster.look<NodeImage>(nodeImages, { name }) as NodeImage,
    /** Every part of a look, as the workflow asks for them. */
    async look(): Promise<readonly Extract<NodeImageLook, { kind: 'open' }>[]> {
      const parts: Extract<NodeImageLook, { kind: 'open' }>[] = [];
      for (let skip = 0; ; ) {
        const part = await activities.lookAtNodeImage({ operation, skip });
        if (part.kind !== 'open') throw new Error(part.kind);
        parts.push(part);
        if (!part.more) return parts;
        if (part.tags.length === 0) throw new Error('a part without a tag says that there are more');
        skip += part.tags.length;
      }
    },
    report: activities.reportPulls,
  };
}

/** All reports when all pulls have something to report, in the order of the writes. */
function reportsOf(ref: typeof nodeRef, open: readonly OpenTag[], news: PullNews | undefined, before?: WaitingFor) {
  const pulls = open.map((tag) => {
    const pull = begun(newPull(tag), bornMs);
    return news === undefined ? pull : heard(pull, news, bornMs);
  });
  const waitingFor = nodeWaitingFor(pulls, { node: ref.name, before, nowMs: bornMs });
  const written = [];
  for (let left = pulls.map(reportOf); left.length > 0; ) {
    const next = nextReport(ref, left, waitingFor);
    written.push(next);
    left = left.slice(next.tags.length);
  }
  return written;
}

const host = '123456789012.dkr.ecr.eu-central-1.amazonaws.com';
const digestOf = (index: number) => `sha256:${index.toString(16).padStart(64, 'a')}`;
const manyDigests = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      `${host}/team-${index}/some-service-with-a-name`,
      [tagOf(digestOf(index))],
    ]),
  );

describe('what a node is asked and says about its pulls', () => {
  it('C2: fits into an event of the history while fifteen images by digest wait for a registry that is away', async () => {
    const message = `failed to resolve reference: ${'unexpected status from GET request: 503 Service Unavailable '.repeat(12)}`;
    for (const news of [undefined, { kind: 'failed', final: false, message } as const]) {
      const { look, report, ref, read } = activitiesOn(nodeImage('a', manyDigests(15)));
      const open = (await look()).flatMap(({ tags }) => tags);
      expect(open).toHaveLength(15);
      for (const next of reportsOf(ref, open, news)) {
        expect(jsonBytes(next)).toBeLessThanOrEqual(payloadBytes);
        await report(next);
      }
      const { waitingFor } = read().status ?? {};
      expect(waitingFor).toMatchObject({ reason: news ? 'BackingOff' : 'Pulling', blockedCount: 15 });
      for (const part of await look()) expect(jsonBytes(part)).toBeLessThanOrEqual(payloadBytes);
    }
  });

  it('C2: says in a look what it waits for in the very words that it would write again', async () => {
    const news = { kind: 'failed', final: false, message: 'registry says no. '.repeat(200) } as const;
    const { look, report, ref } = activitiesOn(nodeImage('a', manyDigests(15)));
    const open = (await look()).flatMap(({ tags }) => tags);
    const written = reportsOf(ref, open, news);
    for (const next of written) await report(next);
    expect((await look())[0]?.waitingFor).toEqual(written[0]?.waitingFor);
  });

  it('C2: fits into 4 KB, part for part, for any NodeImage that admission lets pass', async () => {
    await fc.assert(
      fc.asyncProperty(anyNodeImage, anyNews, async (live, news) => {
        const { look, ref } = activitiesOn(live);
        const parts = await look();
        for (const part of parts) expect(jsonBytes(part)).toBeLessThanOrEqual(payloadBytes);
        const open = parts.flatMap(({ tags }) => tags);
        expect(open).toEqual(openTagsOf(live));
        const shown = parts[0]?.waitingFor;
        for (const next of reportsOf({ ...nodeRef, uid: ref.uid }, open, news, shown)) {
          expect(next.tags.length).toBeGreaterThan(0);
          expect(jsonBytes(next)).toBeLessThanOrEqual(payloadBytes);
        }
        expect(jsonBytes({ nodeImage: nodeRef, node: nodeRef })).toBeLessThanOrEqual(payloadBytes);
      }),
      { numRuns: 25 },
    );
  });

  it('cuts what an operator or a runtime says of a pull', () => {
    const [open] = openTagsOf(nodeImage('a', { nginx: [tagOf('1')] }));
    if (!open) throw new Error('no tag');
    const pull = begun(newPull(open), bornMs);
    const long = '"é"\n'.repeat(10_000);
    expect(jsonBytes(reportOf(failedWith(pull, long, bornMs)))).toBeLessThan(1_500);
    expect(jsonBytes(reportOf(heard(pull, { kind: 'succeeded', imageId: long }, bornMs)))).toBeLessThan(1_500);
  });
});

describe('an image whose reference is too long', () => {
  const longName = `r.example.com/${'a'.repeat(3_600)}`;
  const live = nodeImage('a', {
    [longName]: [tagOf('1')],
    nginx: [tagOf('1.27')],
    ['b'.repeat(255)]: [tagOf('c'.repeat(200))],
  });

  it('C1: keeps nobody else from being looked at, in a bounded number of looks', async () => {
    const parts = await activitiesOn(live).look();
    expect(parts).toHaveLength(1);
    expect(parts[0]?.tags.map(({ name }) => name)).toEqual(['nginx']);
  });

  it('C1: has failed, and says why, without being asked for', async () => {
    const { status: _, ...unseen } = live;
    expect([isStale(live), isStale(unseen)]).toEqual([true, true]);
    const { report, read, ref, look } = activitiesOn(live);
    await report(nextReport(ref, [], undefined));
    const after = read();
    expect(findTagStatus(after, longName, '1')).toEqual({
      tag: '1',
      phase: 'Failed',
      version: 0,
      progress: 0,
      startTime: bornAt,
      completionTime: bornAt,
      message: 'the image reference is too long: its repository has 3614 characters, at most 255 are possible',
    });
    expect(findTagStatus(after, 'b'.repeat(255), 'c'.repeat(200))?.message).toBe(
      'the image reference is too long: it has 456 characters, at most 400 are possible',
    );
    expect(after.status).toMatchObject({ desired: 3, failed: 2 });
    expect(isStale(after)).toBe(false);
    expect(openTags(after).map(({ name }) => name)).toEqual(['nginx']);
    expect((await look())[0]?.stale).toBe(false);
  });

  it('C1: stays over until somebody asks for it in another version', async () => {
    const { report, read, ref } = activitiesOn(live);
    await report(nextReport(ref, [], undefined));
    const again = { ...read(), spec: { images: { [longName]: { tags: [tagOf('1', { version: 1 })] } } } };
    expect(isStale(again)).toBe(true);
  });
});

describe('a look at many tags', () => {
  it('C1: comes to an end, each part with at least one tag', async () => {
    const tags = Array.from({ length: 400 }, (_, index) => tagOf(`${index}-${'t'.repeat(110)}`));
    const many = nodeImage('a', { ['i'.repeat(255)]: tags });
    const parts = await activitiesOn(many).look();
    expect(parts.flatMap(({ tags: seen }) => seen)).toHaveLength(tagsOf(many).length);
    for (const part of parts) {
      expect(part.tags.length).toBeGreaterThan(0);
      expect(jsonBytes(part)).toBeLessThanOrEqual(payloadBytes);
    }
  });
});

// ---------------------------------------------------------------------------------------------------------- any of them

const anyText = (maxLength: number) =>
  fc.oneof(
    fc.string({ unit: 'binary', maxLength }),
    fc.integer({ min: 0, max: maxLength }).map((length) => '\u0001'.repeat(length)),
    fc.integer({ min: 0, max: maxLength }).map((length) => '語'.repeat(length)),
  );

const anyTime = fc
  .tuple(fc.integer({ min: 0, max: 59 }), fc.integer({ min: 0, max: 4_000 }))
  .map(
    ([second, digits]) =>
      `2026-11-21T10:00:${String(second).padStart(2, '0')}${digits > 0 ? `.${'1'.repeat(digits)}` : ''}Z`,
  );

const anyName = fc
  .integer({ min: 1, max: 255 })
  .chain((length) => fc.constantFrom('a', '/', 'é', '語', '"').map((unit) => unit.repeat(length)));

const anyTag: fc.Arbitrary<ImageTag> = fc
  .record({
    text: fc.oneof(
      fc.constant(digestOf(7)),
      fc.integer({ min: 1, max: 128 }).map((length) => 't'.repeat(length)),
      fc.integer({ min: 1, max: 256 }).map((length) => '"'.repeat(length)),
    ),
    version: fc.nat(),
    createdAt: anyTime,
    seconds: fc.integer({ min: -1, max: 2 ** 31 - 1 }),
  })
  .map(({ text, version, createdAt, seconds }) =>
    tagOf(text, {
      version,
      createdAt,
      pullPolicy: {
        timeoutSeconds: seconds,
        backoffLimit: seconds,
        ttlSecondsAfterFinished: 1,
        activeDeadlineSeconds: Number.MAX_SAFE_INTEGER,
      },
    }),
  );

const anyWait: fc.Arbitrary<WaitingFor> = fc.record({
  reason: fc.string({ maxLength: 64 }),
  blockedBy: fc.array(anyText(512), { maxLength: 10 }),
  blockedCount: fc.nat(),
  since: anyTime,
  unblock: anyText(5_000),
});

const anyNodeImage: fc.Arbitrary<NodeImage> = fc
  .record({
    images: fc.dictionary(anyName, fc.uniqueArray(anyTag, { maxLength: 12, selector: ({ tag }) => tag }), {
      maxKeys: 30,
    }),
    waitingFor: fc.option(anyWait, { nil: undefined }),
    startTime: fc.option(anyTime, { nil: undefined }),
  })
  .map(({ images, waitingFor, startTime }) => {
    const live = nodeImage('n'.repeat(253), images);
    const imageStatuses = Object.fromEntries(
      Object.entries(images).map(([name, tags]) => [
        name,
        {
          tags: tags.map(({ tag, version = 0 }) => ({
            tag,
            version,
            phase: 'Pulling' as const,
            ...(startTime !== undefined && { startTime }),
          })),
        },
      ]),
    );
    return {
      ...live,
      status: { desired: 0, succeeded: 0, failed: 0, pulling: 0, imageStatuses, ...(waitingFor && { waitingFor }) },
    };
  });

const anyNews: fc.Arbitrary<PullNews | undefined> = fc.oneof(
  fc.constant(undefined),
  fc.constant({ kind: 'silent' } as const),
  anyText(3_000).map((message) => ({ kind: 'failed', final: false, message }) as const),
  anyText(3_000).map((message) => ({ kind: 'away', reason: 'RuntimeUnreachable', message }) as const),
  anyText(3_000).map((message) => ({ kind: 'refused', reason: 'Denied', message }) as const),
  anyText(3_000).map((imageId) => ({ kind: 'succeeded', imageId }) as const),
);
