import type { KubeClient } from '../activities/kube/client.ts';

/** What a leader writes with. */
export type KubeWriter = Pick<KubeClient, 'get' | 'list' | 'create' | 'patch' | 'delete' | 'request'>;

/** A write that was not made because this process does not lead. It is no failure of the write. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading';
}

/** The same client, whose writes first make sure that this process leads at that moment. */
export function fenced(kube: KubeWriter, isLeading: () => boolean): KubeWriter {
  function guard(): void {
    if (!isLeading()) throw new NotLeading('this watcher does not lead');
  }
  return {
    get: async (...call) => kube.get(...call),
    list: async (...call) => kube.list(...call),
    create: async (...call) => {
      guard();
      return kube.create(...call);
    },
    patch: async (...call) => {
      guard();
      return kube.patch(...call);
    },
    request: async (method, ...call) => {
      if (method !== 'GET') guard();
      return kube.request(method, ...call);
    },
    delete: async (...call) => {
      guard();
      return kube.delete(...call);
    },
  };
}
