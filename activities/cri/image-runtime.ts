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

/** A pull that failed. The message is the runtime's own text, which carries no credentials. */
export class PullError extends Error {
  override readonly name = 'PullError';
  readonly failure: PullFailure;

  constructor(failure: PullFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
  }
}
