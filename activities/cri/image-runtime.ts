/** The image calls of a container runtime, with CRI's verbs. Calls fail with a `CriError`, pulls with a `PullError`. */
export interface ImageRuntime {
  /** RuntimeName of the Version call. */
  readonly name: string;
  /** The ID of the image with this reference; undefined when there is none. */
  imageId(reference: string): Promise<string | undefined>;
  /** Pulls, and returns the ID of the image. When the signal aborts the call is abandoned and fails as `cancelled`. */
  pullImage(pull: ImagePull): Promise<string>;
  /** The folder with the runtime's images; undefined when it is not known. */
  imageFolder(): Promise<string | undefined>;
  /** Watches the pull of this reference, which is about to begin. */
  watchPull(reference: string): PullWatch;
}

/** How many bytes of an image have been fetched. */
export interface PullBytes {
  readonly fetched: number;
  readonly total: number;
}

/** For people, in the unit that fits the total: `34 of 120 MB`. */
export function bytesText({ fetched, total }: PullBytes): string {
  const [unit, name] = units.find(([size]) => total >= 10 * size) ?? [1, 'bytes'];
  return `${Math.floor(fetched / unit)} of ${Math.floor(total / unit)} ${name}`;
}

/** Decimal units, as registries use them. */
const units = [
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
] as const;

/** Observes the progress of one pull. */
export interface PullWatch {
  /** Undefined where the runtime does not report progress, or it cannot be attributed to this pull. Never fails. */
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

/** Credentials for a registry. */
export interface RegistryAuth {
  readonly username?: string;
  readonly password?: string;
  readonly identityToken?: string;
}

/**
 * Why an image could not be pulled. `runtimeUnreachable` says nothing about the image: the runtime did not answer;
 * `cancelled` means that the pull was no longer wanted.
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

/** A failed pull. The message is the runtime's own text without credentials in URLs. */
export class PullError extends Error {
  override readonly name = 'PullError';
  readonly failure: PullFailure;

  constructor(failure: PullFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
  }
}
