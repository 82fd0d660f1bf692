// Why a pull failed. Runtimes report it as text only, mostly that of the registry library that they use; this file is
// the only one that parses such texts. An unknown text is `other`, and is retried like an outage.
import { PullError, type PullFailure } from '../../activities/cri/image-runtime.ts';
import { CriError } from '../../activities/cri/runtime.ts';

/** In this order: a text such as `403 Forbidden … not found` is about missing rights. */
const words: readonly (readonly [failure: PullFailure, pattern: RegExp])[] = [
  ['diskFull', /no space left on device|disk quota exceeded|not enough space/i],
  ['throttled', /\b429\b|too many requests|toomanyrequests|rate limit/i],
  [
    'authentication',
    /\b40[13]\b|unauthori[sz]ed|forbidden|authentication required|authorization failed|no basic auth credentials|access denied|access to the resource is denied|insufficient_scope|denied: /i,
  ],
  ['invalid', /invalid reference format|failed to parse (?:image )?reference|invalid checksum digest/i],
  [
    'notFound',
    /\bnot found\b|\b404\b|manifest unknown|manifest_unknown|name unknown|repository does not exist|no match for platform/i,
  ],
  ['timeout', /context deadline exceeded|deadlineexceeded|timed out waiting/i],
  [
    'registryUnreachable',
    /\b5\d\d\b|connection (?:refused|reset)|no such host|i\/o timeout|no route to host|network is unreachable|dial tcp|tls: |tls handshake|x509: |unexpected EOF|\bEOF\b|broken pipe|failed size validation|failed precondition/i,
  ],
];

/** Translates an error of the call PullImage. `signal` is the one that can abort the call. */
export function pullErrorOf(error: unknown, signal?: AbortSignal): PullError {
  const cause = { cause: error };
  if (signal?.aborted) return new PullError('cancelled', 'the pull was abandoned', cause);
  if (!(error instanceof CriError)) throw error;
  const { failure, message } = error;
  if (failure === 'deadline') return new PullError('timeout', message, cause);
  if (failure === 'unreachable') return new PullError('runtimeUnreachable', message, cause);
  return new PullError(failureIn(message) ?? (failure === 'notFound' ? 'notFound' : 'other'), message, cause);
}

/** The failure that a runtime's text describes; undefined when it is unknown. */
export function failureIn(text: string): PullFailure | undefined {
  // image names are chosen by users, and may contain any of these words
  const plain = text.replace(/"[^"]*"/g, '""').replace(/\bsha256:[0-9a-f]+/g, 'sha256');
  return words.find(([, pattern]) => pattern.test(plain))?.[0];
}
