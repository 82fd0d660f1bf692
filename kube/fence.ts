import { AsyncLocalStorage } from 'node:async_hooks';
import type { Fence, KubeClient } from './client.ts';
import type { Term } from './leader.ts';

/** What a leader writes with. */
export type KubeWriter = Pick<KubeClient, 'get' | 'list' | 'create' | 'patch' | 'delete' | 'request'>;

/** A write that was not made because this process does not lead. It is no failure of the write. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading';
}

/** The term in which the work that runs was begun. */
const ownTerm = new AsyncLocalStorage<Term>();

/** Does work of this term: whatever it writes is fenced by this term, even when it goes on while a later one has begun. */
export function inTerm<T>(term: Term, work: () => T): T {
  return ownTerm.run(term, work);
}

/** The term of the work that runs; outside of `inTerm` the one that is given. */
export function termOfWork(otherwise: Term | undefined): Term | undefined {
  return ownTerm.getStore() ?? otherwise;
}

/**
 * The same client, whose writes are made only while the term lasts in which they were decided: this is asked when they are
 * about to be sent, not when they begin to wait for it. What waits or is under way when the term ends is aborted, reads too.
 */
export function fenced(kube: KubeWriter, termNow: () => Term | undefined): KubeWriter {
  return {
    get: (resource, ref, options) => ofTerm(termNow, (fence) => kube.get(resource, ref, { ...options, ...fence })),
    list: (resource, options) => ofTerm(termNow, (fence) => kube.list(resource, { ...options, ...fence })),
    create: (resource, object, options) =>
      ofTerm(termNow, (fence) => kube.create(resource, object, { ...options, ...fence }), 'write'),
    patch: (resource, ref, type, body, options) =>
      ofTerm(termNow, (fence) => kube.patch(resource, ref, type, body, { ...options, ...fence }), 'write'),
    delete: (resource, ref, options) =>
      ofTerm(termNow, (fence) => kube.delete(resource, ref, { ...options, ...fence }), 'write'),
    request: (method, path, options) =>
      ofTerm(
        termNow,
        (fence) => kube.request(method, path, { ...options, ...fence }),
        method === 'GET' ? 'read' : 'write',
      ),
  };
}

async function ofTerm<T>(
  termNow: () => Term | undefined,
  call: (options: { readonly fence?: Fence }) => Promise<T>,
  what: 'read' | 'write' = 'read',
): Promise<T> {
  const term = termOfWork(termNow());
  const hindrance = () => (term?.isLeading() ? undefined : new NotLeading('this watcher is not the leader'));
  const hindered = hindrance();
  if (what === 'write' && hindered) throw hindered;
  // A reading that begins after the term is its caller's affair, and harmless.
  if (term === undefined || hindered) return await call({});
  try {
    return await call({ fence: { hindrance, ended: term.lost } });
  } catch (error) {
    throw term.lost.aborted && error === term.lost.reason ? (hindrance() ?? error) : error;
  }
}
