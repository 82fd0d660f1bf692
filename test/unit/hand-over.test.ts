import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { backOffsOf, newPull, nextStep, type OpenTag } from '../../plan/images/pull-images.ts';
import { handedOver } from '../../workflows/shared/hand-over.ts';
import { operatorHandOver } from '../../workflows/shared/operator.ts';
import { type Fields, listOf, number, optional, text } from '../../workflows/shared/shape.ts';

interface Left {
  readonly by?: string | undefined;
  readonly failures: number;
  readonly log: readonly string[];
}

const left: Fields<Left> = { by: optional(text), failures: number, log: listOf(text) };

describe('what a run before has left', () => {
  it('is taken as it was written', () => {
    const whole = { by: 'ann', failures: 2, log: ['one'] };
    expect(handedOver(whole, left)).toEqual(whole);
  });

  it('is taken as far as it can be read, and nothing else of it', () => {
    const other = { by: 7, failures: 2, log: ['one', 2], hot: true };
    expect(handedOver(other, left)).toEqual({ failures: 2 });
  });

  it('is ignored when it has any other shape', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        const taken = handedOver(value, { ...left, operator: operatorHandOver });
        expect(Object.keys(taken).every((field) => ['by', 'failures', 'log', 'operator'].includes(field))).toBe(true);
        if (taken.failures !== undefined) expect(Number.isFinite(taken.failures)).toBe(true);
      }),
    );
  });
});

describe('NP-7: pulls that back off', () => {
  const tag: OpenTag = {
    name: 'web',
    tag: '1',
    version: 1,
    createdAt: '2026-11-22T10:00:00Z',
    always: false,
    timeoutSeconds: 600,
    backoffLimit: 3,
  };
  const nowMs = Date.parse('2026-11-22T10:01:00Z');

  it('go on with their attempts and their pause', () => {
    const pull = { ...newPull(tag), failures: 2, notBeforeMs: nowMs + 4_000 };
    const [backOff] = backOffsOf([pull, newPull({ ...tag, tag: '2' })]);
    const next = newPull(tag, backOff);
    expect(next).toMatchObject({ failures: 2, wait: { reason: 'BackingOff' } });
    expect(nextStep(next, nowMs, 60_000).step).toEqual({ kind: 'backOff', ms: 4_000 });
  });

  it('are handed over as far as they fit', () => {
    const many = Array.from({ length: 256 }, (_, nth) => {
      return { ...newPull({ ...tag, name: `${nth}`.padStart(200, 'a') }), failures: 1, notBeforeMs: nowMs };
    });
    const kept = backOffsOf(many);
    expect(kept.length).toBeGreaterThan(5);
    expect(JSON.stringify(kept).length).toBeLessThanOrEqual(2_600);
  });
});
