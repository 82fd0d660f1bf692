/** Keeps the SidecarSelection, by which the API server checks new pods while the webhook is away. */
import { sameJson } from '../../../api/base/json.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import {
  type SidecarSelection,
  type SidecarSelectionSpec,
  sidecarSelection,
  sidecarSelectionName,
  sidecarSelections,
} from '../../../api/sidecar-set/selection.ts';
import type { SidecarSet } from '../../../api/sidecar-set/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import { KubeError } from '../../../kube/failures.ts';
import type { ControllerContext } from '../../controller.ts';
import { messageOf } from '../../fleet/failed-steps.ts';

/** Returns the function that has the object written if it is not what the SidecarSets say. Many calls make one write. */
export function keepingSelection(
  { queue, kube, log, config }: Pick<ControllerContext, 'queue' | 'kube' | 'log' | 'config'>,
  sets: Cache<SidecarSet>,
): () => void {
  if (!config.featureGates.PodWebhook) return () => undefined;
  const ref = { name: sidecarSelectionName };
  let trouble: string | undefined;
  const passes = queue('sidecar-selection', async () => {
    const spec = sidecarSelection([...sets.all()]);
    try {
      await write(spec);
      report(fullness(spec));
    } catch (error) {
      const type = failureTypeOf(error);
      if (!isMissing(error) && type !== 'Denied' && type !== 'Invalid') throw error;
      report(`Cannot write the SidecarSelection: ${messageOf(error)}`);
    }
    return undefined;
  });

  async function write(spec: SidecarSelectionSpec): Promise<void> {
    const found = await kube.get<SidecarSelection>(sidecarSelections, ref).catch(undefinedIfMissing);
    if (found === undefined) await kube.create(sidecarSelections, { metadata: ref, spec });
    else if (!sameJson(found.spec, spec)) {
      await kube.patch(sidecarSelections, ref, 'json', [{ op: 'add', path: '/spec', value: spec }]);
    }
  }

  /** Once, not in each pass. */
  function report(now: string | undefined): void {
    if (now !== undefined && now !== trouble) log.warn(now);
    trouble = now;
  }

  return () => passes.add(sidecarSelectionName);
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
