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
import type { KubeClient } from '../../../kube/client.ts';
import { KubeError } from '../../../kube/failures.ts';
import { KeyedQueue } from '../../../kube/keyed-queue.ts';
import type { FollowedSidecarSets } from './followed-sidecar-sets.ts';

export interface SelectionMeans {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'patch'>;
  readonly sidecars: Pick<FollowedSidecarSets, 'all' | 'onChange' | 'synced'>;
  readonly log: { readonly warn: (fields: object, message: string) => void };
  /** How often the object is looked at without a change of a SidecarSet: a minute. */
  readonly everyMs?: number;
}

/**
 * Has the object written where it is not what the SidecarSets say: after each change of one, and every minute. It is kept by
 * each webhook process, since SidecarSets change only while one answers: so a deletion or a pause lets pods start at once,
 * whatever else of Windlass is away. Ends with the returned function.
 */
export function keepSelection({ client, sidecars, log, everyMs = 60_000 }: SelectionMeans): () => Promise<void> {
  const ref = { name: sidecarSelectionName };
  let trouble: string | undefined;
  const passes = new KeyedQueue({ pass, onError: (_, err) => log.warn({ err }, cannotWrite), concurrency: 1 });

  async function pass() {
    await sidecars.synced();
    const spec = sidecarSelection(sidecars.all());
    try {
      await write(spec);
      report(fullness(spec));
    } catch (error) {
      const type = failureTypeOf(error);
      if (!isMissing(error) && type !== 'Denied' && type !== 'Invalid') throw error;
      report(`${cannotWrite}: ${error instanceof Error ? error.message : String(error)}`);
    }
    return { againInMs: everyMs };
  }

  async function write(spec: SidecarSelectionSpec): Promise<void> {
    const found = await client.get<SidecarSelection>(sidecarSelections, ref).catch(undefinedIfMissing);
    if (found === undefined) await client.create(sidecarSelections, { metadata: ref, spec });
    else if (!sameJson(found.spec, spec)) {
      const { resourceVersion } = found.metadata;
      await client.patch(sidecarSelections, ref, 'json', [
        { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
        { op: 'add', path: '/spec', value: spec },
      ]);
    }
  }

  /** Once, not in each pass. */
  function report(now: string | undefined): void {
    if (now !== undefined && now !== trouble) log.warn({}, now);
    trouble = now;
  }

  sidecars.onChange((before, after) => {
    if (concernsSelection(before, after)) passes.add(sidecarSelectionName);
  });
  passes.add(sidecarSelectionName);
  return () => passes.stop();
}

const cannotWrite = 'Cannot write the SidecarSelection';

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
function concernsSelection(before: SidecarSet | undefined, after: SidecarSet | undefined): boolean {
  if (before === undefined || after === undefined) return true;
  return (
    before.metadata.generation !== after.metadata.generation ||
    !sameJson(before.metadata.annotations ?? {}, after.metadata.annotations ?? {})
  );
}
