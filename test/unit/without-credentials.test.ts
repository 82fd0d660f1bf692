import { describe, expect, it } from '@jest/globals';
import { withoutCredentials } from '../../activities/cri/without-credentials.ts';

describe('withoutCredentials', () => {
  const texts: readonly (readonly [string, string])[] = [
    [
      'Get "https://b.s3.amazonaws.com/x/sha256:ab?X-Amz-Credential=AK%2F1&X-Amz-Signature=5e": dial tcp 10.0.0.1:443: i/o timeout',
      'Get "https://b.s3.amazonaws.com/x/sha256:ab?…": dial tcp 10.0.0.1:443: i/o timeout',
    ],
    ['fetch https://ann:hunter2@r.io:5000/v2/: 401 Unauthorized', 'fetch https://…@r.io:5000/v2/: 401 Unauthorized'],
    ['https://ann:p@ss@r.io/v2/', 'https://…@r.io/v2/'],
    ['http://ann@proxy:3128', 'http://…@proxy:3128'],
    ['redirected to blobs.example.com/a?sv=1&sig=abc, twice', 'redirected to blobs.example.com/a?… twice'],
    ['"/v2/app/blobs/sha256:ab?token=x" is gone', '"/v2/app/blobs/sha256:ab?…" is gone'],
    ['https://r.io/a?x#y and https://r.io/b?z', 'https://r.io/a?… and https://r.io/b?…'],
    // names of images and questions are neither
    [
      `failed to pull "r.io/app:1@sha256:${'a'.repeat(64)}": not found`,
      `failed to pull "r.io/app:1@sha256:${'a'.repeat(64)}": not found`,
    ],
    ['https://r.io/v2/@scope/app: not found', 'https://r.io/v2/@scope/app: not found'],
    ['no such image: is the name right?', 'no such image: is the name right?'],
  ];
  it.each(texts)('M10: %s', (text, safe) => {
    expect(withoutCredentials(text)).toBe(safe);
    expect(withoutCredentials(safe)).toBe(safe);
  });

  it('M10: costs little, whatever the text', () => {
    const startedAt = process.cpuUsage();
    for (const piece of ['://', 'a.', '?', '?a', '?a=', '@', 'a:b@', '/', 'https://a@']) {
      withoutCredentials(piece.repeat(100_000));
    }
    const { user, system } = process.cpuUsage(startedAt);
    expect((user + system) / 1_000).toBeLessThan(5_000);
  });
});
