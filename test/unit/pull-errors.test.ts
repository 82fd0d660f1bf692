import { describe, expect, it } from '@jest/globals';
import { CriError } from '../../activities/cri/runtime.ts';
import { failureIn, pullErrorOf } from '../../daemon/cri/pull-errors.ts';

const prefix =
  'failed to pull and unpack image "r.example.com/app:404": failed to resolve reference "r.example.com/app:404": ';

describe('failureIn', () => {
  // real texts of containerd 1.6 and CRI-O
  const texts: readonly (readonly [string, string])[] = [
    ['notFound', `${prefix}r.example.com/app: not found`],
    ['notFound', 'reading manifest 9 in r.example.com/app: manifest unknown: manifest unknown'],
    [
      'authentication',
      `${prefix}failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized`,
    ],
    [
      'authentication',
      `${prefix}pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`,
    ],
    ['authentication', `${prefix}unexpected status code [manifests 1]: 401 Unauthorized`],
    ['throttled', `${prefix}unexpected status code [manifests 1]: 429 Too Many Requests`],
    [
      'registryUnreachable',
      `${prefix}failed to do request: Head "http://10.0.0.1/v2/": dial tcp 10.0.0.1:80: connect: connection refused`,
    ],
    ['registryUnreachable', `${prefix}unexpected status code [manifests 1]: 500 Internal Server Error`],
    ['registryUnreachable', 'failed to copy: httpReadSeeker: failed open: unexpected EOF'],
    ['diskFull', 'failed to extract layer: write /var/lib/x: no space left on device'],
    ['timeout', `${prefix}context deadline exceeded`],
    ['invalid', 'failed to parse image reference "a b": invalid reference format'],
  ];
  it.each(texts)('tells %s from the words of the runtime: %s', (failure, text) => {
    expect(failureIn(text)).toBe(failure);
  });

  it('does not take the name of an image for a reason', () => {
    expect(failureIn('failed to pull and unpack image "r/unauthorized:404": strange')).toBeUndefined();
  });
});

describe('pullErrorOf', () => {
  it('tells a silent runtime from a silent registry, and what was abandoned from what failed', () => {
    const error = (failure: ConstructorParameters<typeof CriError>[0], text = '') =>
      new CriError(failure, 'PullImage', text);
    expect(pullErrorOf(error('unreachable')).failure).toBe('runtimeUnreachable');
    expect(pullErrorOf(error('deadline')).failure).toBe('timeout');
    expect(pullErrorOf(error('notFound', 'odd')).failure).toBe('notFound');
    expect(pullErrorOf(error('answer', 'odd')).failure).toBe('other');
    expect(pullErrorOf(error('unreachable'), AbortSignal.abort()).failure).toBe('cancelled');
  });
});
