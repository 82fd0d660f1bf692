import { describe, expect, it } from '@jest/globals';
import { annotationWarnings, warningOfAnnotations } from '../../webhook/review/annotation-warnings.ts';
import type { AdmissionRequest } from '../../webhook/review/review.ts';

function request(annotations: Readonly<Record<string, string>>, kind = 'CloneSet', before = {}): AdmissionRequest {
  return {
    ...{ uid: 'u', operation: 'UPDATE', kind: { group: 'apps.kruise.io', kind }, subResource: '', namespace: 'shop' },
    ...{ name: 'web', dryRun: false, fieldValidation: 'Warn', user: 'ann' },
    object: { metadata: { annotations } },
    oldObject: { metadata: { annotations: before } },
  };
}

describe('a misspelt annotation', () => {
  it.each([
    ['windlass.io/comand', 'windlass.io/command'],
    ['windlas.io/command', 'windlass.io/command'],
    ['windlass.io/prefecth', 'windlass.io/prefetch'],
    ['windlass.io/swap-dedline', 'windlass.io/swap-deadline'],
  ])('%s is warned about with the right key', (key, meant) => {
    expect(annotationWarnings(request({ [key]: 'pause' }))).toEqual([
      `metadata.annotations: "${key}" is unknown: did you mean "${meant}"?`,
    ]);
  });

  it('that resembles no other is warned about with those that users set', () => {
    const [warning] = annotationWarnings(request({ 'windlass.io/do-it': 'now' }));
    expect(warning).toMatch(/"windlass.io\/do-it" is unknown: users set "windlass.io\/command", /);
  });

  it('is not warned about again by each change, nor are annotations of others', () => {
    const known = {
      'windlass.io/command': 'pause',
      'windlass.io/roll-out': '{}',
      'app.example/command': 'x',
      note: '',
    };
    expect(annotationWarnings(request(known))).toEqual([]);
    const misspelt = { 'windlass.io/comand': 'pause' };
    expect(annotationWarnings(request(misspelt, 'CloneSet', misspelt))).toEqual([]);
  });

  it('costs little, however many there are', () => {
    const keys = Array.from({ length: 20_000 }, (_, nth) => [`windlasz.ia/${nth}`, 'x'] as const);
    const ours = Array.from({ length: 20 }, (_, nth) => [`windlass.io/comman${nth}`, 'x'] as const);
    expect(annotationWarnings(request(Object.fromEntries(ours)))).toHaveLength(3);
    const before = process.cpuUsage();
    expect(annotationWarnings(request(Object.fromEntries(keys)))).toEqual([]);
    expect(process.cpuUsage(before).user).toBeLessThan(200_000);
  });

  it('is warned about beside what the review itself says, and not where that refuses', async () => {
    const review = warningOfAnnotations(() => ({ kind: 'allowed', warnings: ['first'] }));
    const { signal } = new AbortController();
    expect(await review(request({ 'windlass.io/comand': 'pause' }), signal)).toMatchObject({
      warnings: ['first', expect.stringContaining('did you mean')],
    });
    const refused = { kind: 'refused', code: 422, errors: [] } as const;
    expect(await warningOfAnnotations(() => refused)(request({ 'windlass.io/comand': '' }), signal)).toBe(refused);
  });
});

describe('a command on an object that takes none', () => {
  it('is warned about', () => {
    const command = { 'windlass.io/command': 'pause' };
    expect(annotationWarnings(request(command, 'ImageListPullJob'))).toEqual([
      'metadata.annotations: "windlass.io/command" has no effect: objects of kind ImageListPullJob take no commands',
    ]);
    expect(annotationWarnings(request(command, 'ImagePullJob'))).toEqual([]);
  });
});
