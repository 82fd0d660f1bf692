import { isJsonObject } from '../base/json.ts';
import type { NodeRef } from '../core/refs.ts';
import { type OperationTarget, operationId } from '../engine/operation-id.ts';

/** Pulls the images of one node. Because of its workflow ID, it is the only way to a pull on that node. */
export const pullImagesType = 'pullImages';

export function pullImagesId(nodeImage: OperationTarget): string {
  return operationId(pullImagesType, nodeImage);
}

/** The input of `pullImages`. */
export interface PullOperation {
  readonly nodeImage: NodeRef;
  /** The node as last seen by the watcher; a newer one arrives with `changed`. */
  readonly node: NodeRef;
}

/** The payload of the signal `changed` of `pullImages`. */
export interface PullChanged {
  readonly node: NodeRef;
}

/** Parses the signal `changed`. Only the watcher's payloads are used; anything else is a request to look again. */
export function parsePullChanged(payload: unknown): Partial<PullChanged> {
  if (!isJsonObject(payload) || !isJsonObject(payload.node)) return {};
  const { name, uid } = payload.node;
  return typeof name === 'string' && typeof uid === 'string' ? { node: { name, uid } } : {};
}
