import type { KubeObject } from '../../../api/core/meta.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { ControllerRevision } from '../../../api/fleet/revision.ts';
import { newestRevision, pinnedNamespaces, type WantedRevision } from '../../../api/sidecar-set/injection/choose.ts';
import { sidecarSetLabel } from '../../../api/sidecar-set/marks.ts';
import { typedSpec } from '../../../api/sidecar-set/read.ts';
import { type SidecarSet, sidecarSets } from '../../../api/sidecar-set/types.ts';
import { createCache } from '../../../kube/cache.ts';
import { Reflector } from '../../../kube/reflector.ts';
import type { FollowOptions } from './followed-objects.ts';

/** What injection reads for a new pod, from watches (SCS-35). */
export interface SidecarSource {
  /** The SidecarSets that may select pods of this namespace. */
  inNamespace(namespace: string): readonly SidecarSet[];
  /** The labels of a namespace; undefined: there is none of this name. */
  namespaceLabels(namespace: string): Readonly<Record<string, string>> | undefined;
  /** A stored revision; undefined: there is none. */
  revision(wanted: WantedRevision): ControllerRevision | undefined;
}

export interface FollowedSidecarSets extends SidecarSource {
  all(): readonly SidecarSet[];
  /** Calls this at each change of a SidecarSet. */
  onChange(listener: (before: SidecarSet | undefined, after: SidecarSet | undefined) => void): void;
  /** Resolves when everything has been read once. */
  synced(): Promise<void>;
  stop(): Promise<void>;
}

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
  for (const reflector of reflectors) reflector.start();
  trackReflector?.(sidecarSets.plural, reflectors[0]);
  trackReflector?.(kubeResource.controllerRevisions.plural, reflectors[1]);
  trackReflector?.(kubeResource.namespaces.plural, reflectors[2]);
  return {
    inNamespace: (namespace) => [...sets.byIndex('namespace', namespace), ...sets.byIndex('namespace', anywhere)],
    namespaceLabels(namespace) {
      const found = namespaces.byName('', namespace);
      return found && (found.metadata.labels ?? {});
    },
    revision(wanted) {
      if ('name' in wanted) return revisions.byName(revisionNamespace, wanted.name);
      return newestRevision(revisions.byIndex('version', versionKey(wanted.sidecarSet, wanted.customVersion)));
    },
    all: () => [...sets.all()],
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
