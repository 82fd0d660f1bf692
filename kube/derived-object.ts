import { sameJson } from '../api/base/json.ts';
import { failureTypeOf } from '../api/core/failure.ts';
import type { KubeObject, Resource } from '../api/core/meta.ts';
import { compareVersions } from './cache.ts';
import type { KubeClient } from './client.ts';
import { KubeError } from './failures.ts';

/** A cluster-wide object that several processes compute from the same other objects. */
export interface DerivedObject {
  readonly resource: Resource;
  readonly name: string;
  /** The annotation with the resource version of the list that it was computed from. */
  readonly versionAnnotation: string;
}

/** What it has to say; no spec: it is not to be there. */
export interface Derived {
  readonly spec: object | undefined;
  /** What is wrong with it, for the log. */
  readonly warning: string | undefined;
}

type Stored = KubeObject & { readonly spec: object };

/**
 * Returns the function that writes the object where it is not what this list, as of the resource version `reached`, says.
 * Each process has a watch of its own, which may have fallen silent: the object says what it was computed from, and is left
 * alone by those who know less. A refused write is logged once; a conflict is thrown, and needs another attempt.
 */
export function derivedObjectWriter(
  client: Pick<KubeClient, 'get' | 'create' | 'patch' | 'delete'>,
  log: { readonly warn: (fields: object, message: string) => void },
  { resource, name, versionAnnotation }: DerivedObject,
): (derived: Derived, reached: string | undefined) => Promise<void> {
  const ref = { name };
  let trouble: string | undefined;

  /** Once, not at each attempt. */
  function report(now: string | undefined): void {
    if (now !== undefined && now !== trouble) log.warn({}, now);
    trouble = now;
  }

  async function write(spec: object | undefined, reached: string): Promise<void> {
    const version = { [versionAnnotation]: reached };
    const found = await client.get<Stored>(resource, ref).catch(undefinedIfMissing);
    if (found === undefined) {
      if (spec) await client.create(resource, { metadata: { ...ref, annotations: version }, spec });
      return;
    }
    const { resourceVersion, annotations } = found.metadata;
    if ((spec && sameJson(found.spec, spec)) || isNewer(found, reached)) return;
    if (!spec) {
      await client.delete(resource, ref, { preconditions: { resourceVersion } }).catch(undefinedIfMissing);
      return;
    }
    await client.patch(resource, ref, 'json', [
      { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
      { op: 'add', path: '/metadata/annotations', value: { ...annotations, ...version } },
      { op: 'add', path: '/spec', value: spec },
    ]);
  }

  /**
   * Whether it was computed from a later list than that of this version. One that claims to be computed from what was
   * written after it is taken for wrong: nobody could change it for long.
   */
  function isNewer({ metadata }: Stored, reached: string): boolean {
    const version = metadata.annotations?.[versionAnnotation] ?? '';
    const isPossible = /^[1-9]\d*$/.test(version) && compareVersions(version, metadata.resourceVersion) < 0;
    return isPossible && compareVersions(version, reached) > 0;
  }

  return async ({ spec, warning }, reached) => {
    if (reached === undefined) return;
    try {
      await write(spec, reached);
      report(warning);
    } catch (error) {
      const type = failureTypeOf(error);
      if (!isMissing(error) && type !== 'Denied' && type !== 'Invalid') throw error;
      report(`Cannot write the ${resource.kind}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
}

function undefinedIfMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}

/** The object or its CRD. */
function isMissing(error: unknown): boolean {
  return error instanceof KubeError && error.status === 404;
}
