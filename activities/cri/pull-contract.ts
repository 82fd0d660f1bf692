import type { FamiliarImage } from '../../api/core/familiar-image.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import type { PullFailure } from './image-runtime.ts';

/** One attempt to pull one image. */
export interface PullInput {
  /** The NodeImage, which names the Secrets and the sandbox; checked by UID. */
  readonly nodeImage: NodeRef;
  readonly image: FamiliarImage;
  /** The version of the tag. When the NodeImage has another one, nothing is done. */
  readonly version: number;
  /** Contact the registry even if the image exists. */
  readonly always: boolean;
  readonly timeoutSeconds: number;
}

/** The result of an attempt. */
export type PullResult =
  /** `pulled`: false when the image existed already. */
  | { readonly kind: 'succeeded'; readonly imageId: string; readonly pulled: boolean }
  /** `final`: retrying cannot help. */
  | { readonly kind: 'failed'; readonly failure: PullFailure; readonly final: boolean; readonly message: string }
  /** The NodeImage of this UID does not ask for this version of this tag (any more). */
  | { readonly kind: 'superseded' };

/** The progress of a pull: the details of its heartbeats. */
export interface PullProgress {
  readonly reason: 'Looking' | 'Waiting' | 'Pulling';
  readonly image: string;
  /** Since the start of this attempt. */
  readonly elapsedSeconds: number;
  /** For people, where the runtime reports it: `34 of 120 MB`. */
  readonly fetched?: string;
}

/**
 * The daemon's activity for images, by registered name, on the task queue of the node. It may run twice: an image is
 * never pulled twice at the same time.
 *
 * Fails as `Unreachable`, which is retried, while the runtime or the API server cannot be reached; as `Denied` when the
 * NodeImage may not be read.
 */
export interface PullActivities {
  /** Checks whether the image exists, and pulls it if not. Sends heartbeats. */
  'node.v1.pullImage'(input: PullInput): Promise<PullResult>;
}
