/**
 * Keeps the SidecarSelection, by which the API server checks new pods while the webhook is away. The webhook and the leading
 * watcher both do: it follows a new SidecarSet although the webhook has died since, and a deleted one while no watcher leads.
 * Each has a watch of its own, which may have fallen silent: the object says what it was computed from, and is left alone by
 * those who know less.
 */
import { type JsonObject, sameJson } from '../api/base/json.ts';
import { failureTypeOf } from '../api/core/failure.ts';
import { typedSpec } from '../api/sidecar-set/read.ts';
import {
  type SidecarSelection,
  type SidecarSelectionSpec,
  selectionVersionAnnotation,
  sidecarSelection,
  sidecarSelectionName,
  sidecarSelections,
} from '../api/sidecar-set/selection.ts';
import type { SidecarSet } from '../api/sidecar-set/types.ts';
import { compareVersions } from '../kube/cache.ts';
import type { KubeClient } from '../kube/client.ts';
import { KubeError } from '../kube/failures.ts';

/**
 * Returns the function that writes the object where it is not what these SidecarSets, all that there are as of this
 * resource version, say. There is none where they require nothing of pods.
 */
export function selectionWriter(
  client: Pick<KubeClient, 'get' | 'create' | 'patch' | 'delete'>,
  log: { readonly warn: (fields: object, message: string) => void },
): (sets: readonly SidecarSet[], reached: string | undefined) => Promise<void> {
  const ref = { name: sidecarSelectionName };
  let trouble: string | undefined;

  /** Once, not in each pass. */
  function report(now: string | undefined): void {
    if (now !== undefined && now !== trouble) log.warn({}, now);
    trouble = now;
  }

  async function write(spec: SidecarSelectionSpec, reached: string): Promise<void> {
    const version = { [selectionVersionAnnotation]: reached };
    const found = await client.get<SidecarSelection>(sidecarSelections, ref).catch(undefinedIfMissing);
    if (found === undefined) {
      if (!isEmpty(spec)) await client.create(sidecarSelections, { metadata: { ...ref, annotations: version }, spec });
    } else if (!sameJson(found.spec, spec) && !isNewer(found, reached)) {
      const { resourceVersion, annotations } = found.metadata;
      if (isEmpty(spec)) {
        await client.delete(sidecarSelections, ref, { preconditions: { resourceVersion } }).catch(undefinedIfMissing);
        return;
      }
      await client.patch(sidecarSelections, ref, 'json', [
        { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
        { op: 'add', path: '/metadata/annotations', value: { ...annotations, ...version } },
        { op: 'add', path: '/spec', value: spec },
      ]);
    }
  }

  return async (sets, reached) => {
    if (reached === undefined) return;
    const spec = sidecarSelection(sets.map((set) => ({ ...set, spec: typedSpec({ ...set.spec } as JsonObject) })));
    try {
      await write(spec, reached);
      report(fullness(spec));
    } catch (error) {
      const type = failureTypeOf(error);
      if (!isMissing(error) && type !== 'Denied' && type !== 'Invalid') throw error;
      report(`Cannot write the SidecarSelection: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
}

/**
 * Whether it was computed from later SidecarSets than those of this version. One that claims to be computed from what was
 * written after it is taken for wrong: nobody could change it for long.
 */
function isNewer({ metadata }: SidecarSelection, reached: string): boolean {
  const version = metadata.annotations?.[selectionVersionAnnotation] ?? '';
  const isPossible = /^[1-9]\d*$/.test(version) && compareVersions(version, metadata.resourceVersion) < 0;
  return isPossible && compareVersions(version, reached) > 0;
}

/** Without the object the API server does not even begin to evaluate the policy. */
function isEmpty({ sidecarSets, unchecked }: SidecarSelectionSpec): boolean {
  return sidecarSets.length === 0 && unchecked === undefined;
}

function fullness({ unchecked, uncheckedNames = [] }: SidecarSelectionSpec): string | undefined {
  if (unchecked === undefined) return undefined;
  const names = uncheckedNames.join(', ');
  return `The SidecarSelection is full: while the webhook is away, pods start without the sidecars of ${unchecked} SidecarSets, such as ${names}`;
}

function undefinedIfMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}

/** The object or its CRD, which comes with the policy. */
function isMissing(error: unknown): boolean {
  return error instanceof KubeError && error.status === 404;
}

/** Whether a change of a SidecarSet may change the selection: status writes do not. */
export function concernsSelection(before: SidecarSet | undefined, after: SidecarSet | undefined): boolean {
  if (before === undefined || after === undefined) return true;
  return (
    before.metadata.generation !== after.metadata.generation ||
    !sameJson(before.metadata.annotations ?? {}, after.metadata.annotations ?? {})
  );
}
