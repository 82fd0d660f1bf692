import type { JsonObject } from '../../api/base/json.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { newestRevision, pinnedNamespaces, type WantedRevision } from '../../api/sidecar-set/injection/choose.ts';
import { sidecarSetLabel } from '../../api/sidecar-set/marks.ts';
import { typedSpec } from '../../api/sidecar-set/read.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { createCache } from '../../kube/cache.ts';
import { Reflector } from '../../kube/reflector.ts';
import type { FollowOptions } from './followed-objects.ts';
import { LookUpFailed } from './review.ts';

/** What injection reads for a new pod, from watches (SCS-35). */
export interface SidecarSource {
  /** The SidecarSets that may select pods of this namespace. Throws LookUpFailed until everything has been read once. */
  inNamespace(namespace: string): readonly SidecarSet[];
  /**
   * The labels of a namespace that a request names, once the watch shows it. Throws LookUpFailed if it does not in time, and at
   * once where `pod`, which is kept meanwhile, is too large to wait with, or too many wait.
   */
  namespaceLabels(namespace: string, pod: JsonObject): Labels | Promise<Labels>;
  /** A stored revision; undefined: there is none. */
  revision(wanted: WantedRevision): ControllerRevision | undefined;
}

export interface FollowedSidecarSets extends SidecarSource {
  all(): readonly SidecarSet[];
  /** The resource version up to which these are complete; undefined before the first list. */
  reached(): string | undefined;
  /** Calls this at each change of a SidecarSet. */
  onChange(listener: (before: SidecarSet | undefined, after: SidecarSet | undefined) => void): void;
  /** Why not everything has been read yet; undefined: it has. */
  readonly unread: string | undefined;
  /** Resolves when everything has been read once. */
  synced(): Promise<void>;
  stop(): Promise<void>;
}

type Labels = Readonly<Record<string, string>>;

/** The API server waits for two seconds, and has the namespace already: the watch is a moment behind. */
const namespaceSeenMs = 1_000;

/** Pods that wait for their namespaces at one time: parsed ones, which no other limit counts. */
const mostWaits = 20;

/** Bytes of JSON of a pod that may wait. Parsed it takes up to ten times as many. */
const mostWaitingBytes = 100 * 1024;

/** The index value of SidecarSets that are not limited to namespaces by their names. */
const anywhere = '';

/** Starts watching SidecarSets, their ControllerRevisions in `revisionNamespace`, and the labels of namespaces. */
export function followSidecarSets(
  { client, log, trackReflector }: Omit<FollowOptions, 'onChange'>,
  revisionNamespace: string,
): FollowedSidecarSets {
  const onError = (err: unknown) => log.warn({ err }, 'Cannot apply a watch event');
  const sets = createCache<SidecarSet>({ indexes: { namespace: indexedNamespaces }, onError });
  const revisions = createCache<ControllerRevision>({ indexes: { version: indexedVersions }, onError });
  const namespaces = createCache<KubeObject>({ onError });
  const common = { client, log };
  const reflectors = [
    new Reflector<SidecarSet>({ ...common, resource: sidecarSets, cache: sets, trim: trimSet }),
    new Reflector<ControllerRevision>({
      ...common,
      resource: kubeResource.controllerRevisions,
      cache: revisions,
      namespace: revisionNamespace,
      labelSelector: sidecarSetLabel.name,
      trim: withoutManagedFields,
    }),
    new Reflector<KubeObject>({ ...common, resource: kubeResource.namespaces, cache: namespaces, trim: labelsAlone }),
  ] as const;
  let waits = 0;
  const seenLabels = async (namespace: string, pod: JsonObject, labels: () => Labels | undefined): Promise<Labels> => {
    if (waits >= mostWaits || jsonBytes(pod) > mostWaitingBytes) {
      throw new LookUpFailed(`Namespace "${namespace}" has not been seen yet`);
    }
    const what = `namespace "${namespace}" is seen`;
    const wait = { signal: AbortSignal.timeout(namespaceSeenMs), what };
    waits += 1;
    await namespaces
      .until(() => labels() !== undefined, wait)
      .catch((error: unknown) => Promise.reject(new LookUpFailed(String(error))))
      .finally(() => {
        waits -= 1;
      });
    return labels() ?? {};
  };
  for (const reflector of reflectors) reflector.start();
  trackReflector?.(sidecarSets.plural, reflectors[0]);
  trackReflector?.(kubeResource.controllerRevisions.plural, reflectors[1]);
  trackReflector?.(kubeResource.namespaces.plural, reflectors[2]);
  return {
    inNamespace(namespace) {
      // A pod that is let through because none is known yet runs without its sidecars for as long as it lives.
      const unread = reflectors.some(({ isSynced }) => !isSynced);
      if (unread) throw new LookUpFailed('SidecarSets, their revisions and namespaces have not been read yet');
      return [...sets.byIndex('namespace', namespace), ...sets.byIndex('namespace', anywhere)];
    },
    namespaceLabels(namespace, pod) {
      const labels = () => {
        const found = namespaces.byName('', namespace);
        return found && (found.metadata.labels ?? {});
      };
      return labels() ?? seenLabels(namespace, pod, labels);
    },
    revision(wanted) {
      if ('name' in wanted) return revisions.byName(revisionNamespace, wanted.name);
      return newestRevision(revisions.byIndex('version', versionKey(wanted.sidecarSet, wanted.customVersion)));
    },
    get unread() {
      const behind = reflectors.findIndex(({ isSynced }) => !isSynced);
      if (behind < 0) return undefined;
      const what = ['SidecarSets', 'ControllerRevisions', 'Namespaces'][behind];
      return `${what} have not been read yet: ${reflectors[behind]?.trouble ?? 'the API server has not answered'}`;
    },
    all: () => [...sets.all()],
    reached: () => sets.reached,
    onChange(listener) {
      sets.onChange(({ before, after }) => listener(before, after));
    },
    async synced() {
      await Promise.all(reflectors.map((reflector) => reflector.synced()));
    },
    async stop() {
      await Promise.all(reflectors.map((reflector) => reflector.stop()));
    },
  };
}

function indexedNamespaces(set: SidecarSet): readonly string[] {
  const pinned = pinnedNamespaces(set);
  return pinned.length === 0 ? [anywhere] : pinned;
}

function indexedVersions({ metadata }: ControllerRevision): readonly string[] {
  const { [sidecarSetLabel.name]: set, [sidecarSetLabel.customVersion]: version } = metadata.labels ?? {};
  return set === undefined || version === undefined ? [] : [versionKey(set, version)];
}

function versionKey(set: string, version: string): string {
  return `${set}/${version}`;
}

function trimSet(set: SidecarSet): SidecarSet {
  return { ...withoutManagedFields(set), spec: typedSpec({ ...set.spec } as Parameters<typeof typedSpec>[0]) };
}

function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

function labelsAlone({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  const { name, uid, resourceVersion, creationTimestamp, labels } = metadata;
  return {
    apiVersion,
    kind,
    metadata: { name, uid, resourceVersion, creationTimestamp, ...(labels !== undefined && { labels }) },
  };
}
