import { AsyncLocalStorage } from 'node:async_hooks';
import type { Fence, KubeClient } from './client.ts';
import type { Term } from './leader.ts';

/** The calls that a leader makes. */
export type KubeWriter = Pick<KubeClient, 'get' | 'list' | 'create' | 'patch' | 'delete' | 'request'>;

/** A write that was not sent because this process does not lead. The write itself did not fail. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading';
}

/** The leadership term in which the current work began. */
const ownTerm = new AsyncLocalStorage<Term>();

/** Runs work in this term: its writes are fenced by this term, even if it continues when a later term has begun. */
export function inTerm<T>(term: Term, work: () => T): T {
  return ownTerm.run(term, work);
}

/** The term of the current work; outside `inTerm` the given one. */
export function termOfWork(otherwise: Term | undefined): Term | undefined {
  return ownTerm.getStore() ?? otherwise;
}

/**
 * The same client, fenced: a write is sent only while the term in which it was decided lasts, which is checked when it
 * is about to be sent. When the term ends, calls that wait or are in flight are aborted, including reads.
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
  // A read that begins after the term has ended is harmless.
  if (term === undefined || hindered) return await call({});
  try {
    return await call({ fence: { hindrance, ended: term.lost } });
  } catch (error) {
    throw term.lost.aborted && error === term.lost.reason ? (hindrance() ?? error) : error;
  }
}
