import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { batchBytes, batchesOf, batchOf, batchText, type ChosenPod, podsOf } from '../../plan/fleet/batch.ts';
import { answerBytes, mostInAnswer, mostInBatch } from '../../plan/permits/in-flight.ts';
import { batchPayloadBytes, summaryBytes } from '../../plan/text-size.ts';
import '../support/property-seed.ts';

const name = fc.oneof(fc.stringMatching(/^[a-z]{1,10}-[a-z0-9]{5}$/), fc.string({ minLength: 1, maxLength: 253 }));
const order = fc.array(fc.array(fc.stringMatching(/^[a-z]{1,10}$/), { maxLength: 3 }), { maxLength: 3 });
const pod = fc.oneof(
  fc.record({
    namespace: fc.constantFrom('shop', 'other'),
    name,
    uid: fc.uuid(),
    how: fc.constant('recreate' as const),
  }),
  fc.record({
    namespace: fc.constant('shop'),
    name,
    uid: fc.uuid(),
    how: fc.constant('inPlace' as const),
    containers: fc.oneof(fc.constant([['app'], ['proxy']]), order),
  }),
);
const pods = fc.array(pod, { minLength: 1, maxLength: 60 }) as fc.Arbitrary<[ChosenPod, ...ChosenPod[]]>;

describe('a batch', () => {
  it('says everything about the first pods that fit, and about one at least', () => {
    fc.assert(
      fc.property(pods, (chosen) => {
        const batch = batchOf('web-2', chosen);
        expect(batch.pods.length).toBeLessThanOrEqual(mostInBatch);
        expect(podsOf(batch)).toEqual(chosen.slice(0, batch.pods.length));
        if (batch.pods.length > 1) expect(jsonBytes(batch)).toBeLessThanOrEqual(batchBytes);
        const isFull = batch.pods.length === Math.min(chosen.length, mostInBatch);
        expect(isFull || jsonBytes(batch) > batchBytes / 3).toBe(true);
      }),
    );
  });

  it('says what is the same for all pods once', () => {
    const alike = ['web-a', 'web-b'].map((podName): ChosenPod => {
      return { namespace: 'shop', name: podName, uid: podName, how: 'inPlace', containers: [['app']] };
    });
    expect(batchOf('web-2', alike as [ChosenPod])).toEqual({
      ...{ revision: 'web-2', namespace: 'shop', how: 'inPlace', containers: [['app']] },
      pods: [
        { name: 'web-a', uid: 'web-a' },
        { name: 'web-b', uid: 'web-b' },
      ],
    });
  });

  it('leaves room for a verdict on each of its pods in a payload', () => {
    fc.assert(
      fc.property(pods, (chosen) => {
        const batch = batchOf('web-2', chosen);
        const outcomes = podsOf(batch).map((one) => ({
          ...{ pod: one.namespace === 'shop' ? one.name : `${one.namespace}/${one.name}`, how: one.how },
          ...{ at: '2026-11-23T12:15:02.277Z', ms: 1_234_567 },
        }));
        if (batch.pods.length > 1)
          expect(jsonBytes({ summary: 'x'.repeat(80), pods: outcomes })).toBeLessThan(batchPayloadBytes + 512);
      }),
    );
  });

  it('is a text of people that fits into a summary', () => {
    const text = (...chosen: readonly ChosenPod[]) => batchText(batchOf('web-2', chosen as unknown as [ChosenPod]));
    const inPlace = (podName: string): ChosenPod => ({
      namespace: 'shop',
      name: podName,
      uid: podName,
      how: 'inPlace',
    });
    const recreated = (podName: string): ChosenPod => ({ ...inPlace(podName), how: 'recreate' });
    expect(text(inPlace('web-a'))).toBe('update web-a in place');
    expect(text(inPlace('web-a'), inPlace('web-b'))).toBe('update web-a and web-b in place');
    expect(text(recreated('web-a'), recreated('web-b'), recreated('web-c'))).toBe('recreate web-a, web-b and web-c');
    expect(text(inPlace('web-a'), recreated('web-b'))).toBe('update web-a in place, recreate web-b');
    const many = Array.from({ length: 40 }, (_, index) => inPlace(`web-6f9d4c8b7-${index}`));
    expect(text(...many)).toMatch(/^update web-6f9d4c8b7-0, .* and \d+ more in place$/);
    fc.assert(fc.property(pods, (chosen) => expect(jsonBytes(text(...chosen))).toBeLessThanOrEqual(summaryBytes)));
  });
});

describe('the batches of an answer', () => {
  /** Pods with names of so many characters, in turn; every second pod is recreated. */
  const named = (count: number, ...lengths: readonly number[]) =>
    Array.from({ length: count }, (_, at): ChosenPod => {
      const podName = `web-${at}`.padEnd(lengths[at % lengths.length] ?? 0, 'x');
      const common = { namespace: at % 3 === 0 ? 'shop' : 'other', name: podName, uid: `uid-of-pod-${at}` };
      return at % 2 === 0 ? { ...common, how: 'inPlace', containers: [['app']] } : { ...common, how: 'recreate' };
    });
  const namesIn = (chosen: readonly ChosenPod[]) =>
    batchesOf('web-2', chosen)
      .flatMap(podsOf)
      .map(({ name: podName }) => podName);

  it('name the first pods that fit, in their order and each of them once', () => {
    const lengths = fc.array(fc.integer({ min: 8, max: 253 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 250 }), lengths, (count, each) => {
        const chosen = named(count, ...each);
        const batches = batchesOf('web-2', chosen);
        const told = batches.flatMap(podsOf);
        expect(told).toEqual(chosen.slice(0, told.length));
        expect(told.length).toBeGreaterThan(0);
        expect(told.length).toBeLessThanOrEqual(mostInAnswer);
        if (batches.length > 1) expect(jsonBytes(batches)).toBeLessThanOrEqual(answerBytes);
        for (const batch of batches) {
          expect(batch.revision).toBe('web-2');
          expect(batch.pods.length).toBeGreaterThan(0);
          expect(batch.pods.length).toBeLessThanOrEqual(mostInBatch);
          if (batch.pods.length > 1) expect(jsonBytes(batch)).toBeLessThanOrEqual(batchBytes);
        }
        // what is left out is left out for want of room
        const isFull = told.length === Math.min(chosen.length, mostInAnswer);
        expect(isFull || jsonBytes(batches) > answerBytes - batchBytes - 512).toBe(true);
      }),
    );
  });

  it('are full ones of pods with short names, up to the number of an answer', () => {
    const sizes = (count: number) => batchesOf('web-2', named(count, 12)).map((batch) => batch.pods.length);
    expect(sizes(mostInBatch)).toEqual([mostInBatch]);
    expect(sizes(mostInBatch + 1)).toEqual([mostInBatch, 1]);
    expect(sizes(mostInAnswer + 1)).toEqual(Array(mostInAnswer / mostInBatch).fill(mostInBatch));
  });

  it('are smaller and fewer where names are long', () => {
    const given = named(mostInAnswer, 253);
    const batches = batchesOf('web-2', given);
    expect(batches.length).toBeGreaterThan(1);
    for (const batch of batches) expect(batch.pods.length).toBeLessThan(mostInBatch);
    expect(namesIn(given).length).toBeLessThan(mostInAnswer);
    expect(jsonBytes(batches)).toBeLessThanOrEqual(answerBytes);
  });

  it('are one where there is a pod, however long it is, and none where there is none', () => {
    expect(batchesOf('web-2', [])).toEqual([]);
    const containers = [[...Array(1_000).keys()].map((at) => `container-${at}-${'x'.repeat(40)}`)];
    const [first, ...others] = named(3, 12).map((one): ChosenPod => ({ ...one, how: 'inPlace', containers }));
    if (first === undefined) throw new Error('no pods');
    expect(jsonBytes(first)).toBeGreaterThan(answerBytes);
    expect(namesIn([first, ...others])).toEqual([first.name]);
  });
});
