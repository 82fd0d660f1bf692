import type { FamiliarImage } from '../../api/core/familiar-image.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import type { PullFailure } from './image-runtime.ts';

/** One attempt to have one image on the node. */
export interface PullInput {
  /** Says which Secrets and which sandbox; checked by UID. */
  readonly nodeImage: NodeRef;
  readonly image: FamiliarImage;
  /** Of the tag. When the NodeImage says another one, nothing is done. */
  readonly version: number;
  /** Ask the registry although the image is there. */
  readonly always: boolean;
  readonly timeoutSeconds: number;
}

/** How an attempt ended. */
export type PullResult =
  /** `pulled`: false when the image was there already. */
  | { readonly kind: 'succeeded'; readonly imageId: string; readonly pulled: boolean }
  /** `final`: no further attempt can help. */
  | { readonly kind: 'failed'; readonly failure: PullFailure; readonly final: boolean; readonly message: string }
  /** The NodeImage of this UID does not ask for this version of this tag (any more). */
  | { readonly kind: 'superseded' };

/** What a pull is doing: the details of its heartbeats. */
export interface PullProgress {
  readonly reason: 'Looking' | 'Waiting' | 'Pulling';
  readonly image: string;
  /** Since this attempt began. */
  readonly elapsedSeconds: number;
  /** For people, where the runtime tells: `34 of 120 MB`. */
  readonly fetched?: string;
}

/**
 * What the daemon of a node does about images, by registered name, on the queue of the node. It may run twice: two pulls
 * of one image are never under way at once.
 *
 * Fails as `Unreachable`, which is retried, while the runtime or the API server cannot be reached; as `Denied` when the
 * NodeImage may not be read.
 */
export interface PullActivities {
  /** Looks whether the image is there, and pulls it where it is not. Sends heartbeats. */
  'node.v1.pullImage'(input: PullInput): Promise<PullResult>;
}
