/** A container runtime as far as images go, in the verbs of CRI. Calls fail with a `CriError`, pulls with a `PullError`. */
export interface ImageRuntime {
  /** RuntimeName of the Version call. */
  readonly name: string;
  /** The ID of the image that it has under this reference; undefined when it has none. */
  imageId(reference: string): Promise<string | undefined>;
  /** Pulls, and answers the ID of the image. When the signal aborts the call is abandoned and fails as `cancelled`. */
  pullImage(pull: ImagePull): Promise<string>;
  /** The folder in which it keeps images; undefined when it does not tell. */
  imageFolder(): Promise<string | undefined>;
  /** Watches the pull of this reference, which is about to begin. */
  watchPull(reference: string): PullWatch;
}

/** How much of an image is there. */
export interface PullBytes {
  readonly fetched: number;
  readonly total: number;
}

/** For people, in the unit that suits the whole: `34 of 120 MB`. */
export function bytesText({ fetched, total }: PullBytes): string {
  const [unit, name] = units.find(([size]) => total >= 10 * size) ?? [1, 'bytes'];
  return `${Math.floor(fetched / unit)} of ${Math.floor(total / unit)} ${name}`;
}

/** As registries count them. */
const units = [
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
] as const;

/** Looks how far one pull is. */
export interface PullWatch {
  /** Undefined where the runtime does not tell, or not whose bytes they are. Never fails. */
  look(): Promise<PullBytes | undefined>;
  /** The pull has ended. */
  end(): void;
}

/** One attempt to pull. */
export interface ImagePull {
  readonly reference: string;
  /** Absent: anonymously. */
  readonly auth?: RegistryAuth;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Who asks a registry. */
export interface RegistryAuth {
  readonly username?: string;
  readonly password?: string;
  readonly identityToken?: string;
}

/**
 * Why an image could not be pulled. `runtimeUnreachable` says nothing about the image: the runtime itself did not
 * answer; `cancelled` says that nobody wanted it any more.
 */
export const pullFailures = [
  'notFound',
  'authentication',
  'registryUnreachable',
  'throttled',
  'diskFull',
  'timeout',
  'invalid',
  'runtimeUnreachable',
  'cancelled',
  'other',
] as const;

export type PullFailure = (typeof pullFailures)[number];

/** A pull that failed. The message is the runtime's own text, from which credentials in URLs have been cut. */
export class PullError extends Error {
  override readonly name = 'PullError';
  readonly failure: PullFailure;

  constructor(failure: PullFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
  }
}
