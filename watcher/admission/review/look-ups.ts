import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject, Resource } from '../../../api/core/meta.ts';
import type { Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { LookUpFailed } from './review.ts';

/** What admission reads from the API server during a request. Undefined: the object does not exist. */
export interface LookUps {
  pod(namespace: string, name: string, signal: AbortSignal): Promise<Pod | undefined>;
  node(name: string, signal: AbortSignal): Promise<Node | undefined>;
}

/** Reads without a cache, which end with the signal. A failure rejects with LookUpFailed. */
export function lookUpsIn(client: Pick<KubeClient, 'get'>): LookUps {
  async function find<T extends KubeObject>(
    resource: Resource,
    ref: { readonly namespace?: string; readonly name: string },
    signal: AbortSignal,
  ): Promise<T | undefined> {
    try {
      return await onceMore(signal, () => client.get<T>(resource, ref, { signal }));
    } catch (error) {
      if (isMissing(error)) return undefined;
      const name = ref.namespace === undefined ? ref.name : `${ref.namespace}/${ref.name}`;
      const why = error instanceof Error ? error.message : String(error);
      throw new LookUpFailed(`Cannot look up ${resource.kind} "${name}": ${why}`);
    }
  }
  return {
    pod: (namespace, name, signal) => find<Pod>(kubeResource.pods, { namespace, name }, signal),
    node: (name, signal) => find<Node>(kubeResource.nodes, { name }, signal),
  };
}

/** The HTTP status of a failed call to the API server; 0 without an answer, undefined for any other error. */
export function answerStatus(error: unknown): number | undefined {
  const status = error instanceof Error && 'status' in error ? error.status : undefined;
  return typeof status === 'number' ? status : undefined;
}

/** Whether the API server answered that the object does not exist, as opposed to the kind. */
export function isMissing(error: unknown): boolean {
  return answerStatus(error) === 404 && error instanceof Error && 'reason' in error && error.reason === 'NotFound';
}

/** Repeats a call once that got no answer: its idle connection may have been closed by the other end. */
export async function onceMore<Value>(signal: AbortSignal, call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    if (answerStatus(error) !== 0 || signal.aborted) throw error;
    await sleep(50, undefined, { signal });
    return await call();
  }
}
