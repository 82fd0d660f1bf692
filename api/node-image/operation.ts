import { isJsonObject } from '../base/json.ts';
import type { NodeRef } from '../core/refs.ts';

/** Keeps the images of one node true. The ID makes it the only path to a pull on that node. */
export const pullImagesType = 'pullImages';

export function pullImagesId(nodeImageUid: string): string {
  return `pull-images/${nodeImageUid}`;
}

/** What a run of `pullImages` is started with. */
export interface PullOperation {
  readonly nodeImage: NodeRef;
  /** The node as the watcher saw it last; a newer one comes with `changed`. */
  readonly node: NodeRef;
}

/** What the `changed` signal of `pullImages` carries. */
export interface PullChanged {
  readonly node: NodeRef;
}

/** Reads the signal `changed`. All that the watcher does not send is a wish to look again. */
export function parsePullChanged(payload: unknown): Partial<PullChanged> {
  if (!isJsonObject(payload) || !isJsonObject(payload.node)) return {};
  const { name, uid } = payload.node;
  return typeof name === 'string' && typeof uid === 'string' ? { node: { name, uid } } : {};
}
