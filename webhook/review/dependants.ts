import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient, ListOptions } from '../../kube/client.ts';
import { isMissing, onceMore } from './look-ups.ts';

/**
 * What depends on an object that is to be deleted. Reads the API server: a cache would be outdated right after a change
 * (DP-9, DP-11).
 */
export interface Dependants {
  /** The stored cluster-scoped object; undefined: there is none. */
  stored(resource: Resource, name: string, signal: AbortSignal): Promise<KubeObject | undefined>;
  /** Pods that have not completed and are not being deleted. */
  activePods(namespace: string, signal: AbortSignal): Promise<number>;
  /** PVCs that are bound and not being deleted. */
  boundClaims(namespace: string, signal: AbortSignal): Promise<number>;
  /** Objects in any namespace that are not being deleted. */
  customResources(resource: Resource, signal: AbortSignal): Promise<number>;
}

const pageSize = 500;
/** Of one page, as JSON. Larger pages are requested again with fewer objects. */
const pageBytes = 16 * 1024 * 1024;
/** After this many pages the count is a lower bound. */
const mostPages = 20;

interface Claim extends KubeObject {
  readonly status?: { readonly phase?: string };
}

/** Lists in pages, none of which is kept. Rejects when nothing was found and not everything could be listed. */
export function dependantsIn(client: Pick<KubeClient, 'get' | 'list'>): Dependants {
  async function count<T extends KubeObject>(
    resource: Resource,
    selection: ListOptions,
    counts: (object: T) => boolean,
    signal: AbortSignal,
  ): Promise<number> {
    let found = 0;
    let limit = pageSize;
    let next: string | undefined;
    for (let page = 0; page < mostPages || found === 0; page++) {
      const options = { ...selection, limit, continue: next, maxBytes: pageBytes, signal };
      const listed = await onceMore(signal, () => client.list<T>(resource, options).catch(unlessTooLarge(limit))).catch(
        // The objects found so far are enough for a decision.
        (error: unknown) => (found > 0 ? 'enough' : Promise.reject(error)),
      );
      if (listed === 'enough') break;
      if (listed === 'tooLarge') {
        limit = Math.ceil(limit / 8);
        continue;
      }
      found += listed.items.filter((object) => isStaying(object) && counts(object)).length;
      next = listed.continue;
      if (next === undefined) break;
    }
    return found;
  }

  return {
    async stored(resource, name, signal) {
      try {
        return await onceMore(signal, () => client.get<KubeObject>(resource, { name }, { signal }));
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
    activePods: (namespace, signal) =>
      count(kubeResource.pods, { namespace, fieldSelector: unfinished, metadataOnly: true }, () => true, signal),
    boundClaims: (namespace, signal) =>
      count<Claim>(
        kubeResource.persistentVolumeClaims,
        { namespace },
        ({ status }) => status?.phase === 'Bound',
        signal,
      ),
    customResources: (resource, signal) => count(resource, { metadataOnly: true }, () => true, signal),
  };
}

const unfinished = 'status.phase!=Succeeded,status.phase!=Failed';

function isStaying({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp === undefined;
}

/** A page of one object cannot become smaller. */
function unlessTooLarge(limit: number): (error: unknown) => 'tooLarge' {
  return (error) => {
    const isTooLarge = error instanceof Error && 'reason' in error && error.reason === 'AnswerTooLarge';
    if (isTooLarge && limit > 1) return 'tooLarge';
    throw error;
  };
}
