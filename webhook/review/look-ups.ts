import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Node } from '../../api/core/node.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { defaultStorageClass, type StorageClass } from '../../api/stateful-set/claim-templates.ts';
import type { KubeClient } from '../../kube/client.ts';
import { LookUpFailed } from './review.ts';

/** StorageClasses among which the default one is looked for. */
const mostClasses = 500;

/** What admission reads from the API server during a request. Undefined: the object does not exist. */
export interface LookUps {
  pod(namespace: string, name: string, signal: AbortSignal): Promise<Pod | undefined>;
  node(name: string, signal: AbortSignal): Promise<Node | undefined>;
  revision(namespace: string, name: string, signal: AbortSignal): Promise<ControllerRevision | undefined>;
  /** Without a name: the default one. */
  storageClass(name: string | undefined, signal: AbortSignal): Promise<StorageClass | undefined>;
}

/** Reads without a cache, which end with the signal. A failure rejects with LookUpFailed. */
export function lookUpsIn(client: Pick<KubeClient, 'get' | 'list'>): LookUps {
  const shared = new SharedCalls();

  async function lookUp<Result>(
    what: string,
    signal: AbortSignal,
    call: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result | undefined> {
    try {
      return await shared.join(what, signal, (joint) => onceMore(joint, () => call(joint)));
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw new LookUpFailed(`Cannot look up ${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  function find<T extends KubeObject>(
    resource: Resource,
    ref: { readonly namespace?: string; readonly name: string },
    signal: AbortSignal,
  ): Promise<T | undefined> {
    const name = ref.namespace === undefined ? ref.name : `${ref.namespace}/${ref.name}`;
    return lookUp(`${resource.kind} "${name}"`, signal, (joint) => client.get<T>(resource, ref, { signal: joint }));
  }
  return {
    pod: (namespace, name, signal) => find<Pod>(kubeResource.pods, { namespace, name }, signal),
    node: (name, signal) => find<Node>(kubeResource.nodes, { name }, signal),
    revision: (namespace, name, signal) =>
      find<ControllerRevision>(kubeResource.controllerRevisions, { namespace, name }, signal),
    async storageClass(name, signal) {
      const resource = kubeResource.storageClasses;
      if (name !== undefined) return await find<StorageClass>(resource, { name }, signal);
      const page = await lookUp('the default StorageClass', signal, (joint) =>
        client.list<StorageClass>(resource, { limit: mostClasses, signal: joint }),
      );
      return defaultStorageClass(page?.items ?? []);
    },
  };
}

interface SharedCall {
  readonly answer: Promise<unknown>;
  readonly abort: AbortController;
  callers: number;
}

/** Those who ask for the same at one time share one call, which is aborted once all of them have gone. */
class SharedCalls {
  readonly #calls = new Map<string, SharedCall>();

  async join<Value>(key: string, signal: AbortSignal, call: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    const joined = this.#calls.get(key) ?? this.#begin(key, call);
    joined.callers += 1;
    const gone = Promise.withResolvers<never>();
    const leave = () => gone.reject(signal.reason);
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    try {
      // The key says what is asked for.
      return await Promise.race([joined.answer as Promise<Value>, gone.promise]);
    } finally {
      signal.removeEventListener('abort', leave);
      joined.callers -= 1;
      if (joined.callers === 0) {
        if (this.#calls.get(key) === joined) this.#calls.delete(key);
        joined.abort.abort(signal.reason);
      }
    }
  }

  #begin(key: string, call: (signal: AbortSignal) => Promise<unknown>): SharedCall {
    const abort = new AbortController();
    const begun: SharedCall = { answer: call(abort.signal), abort, callers: 0 };
    this.#calls.set(key, begun);
    const end = () => {
      if (this.#calls.get(key) === begun) this.#calls.delete(key);
    };
    begun.answer.then(end, end);
    return begun;
  }
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
