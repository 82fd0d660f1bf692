import type { Trials } from '../../plan/fleet/permit.ts';
import type { RefusedUpdate, RefusedUpdates } from '../../plan/fleet/refused-updates.ts';

export const frozen: NonNullable<RefusedUpdate['error']> = { message: 'frozen', type: 'Invalid' };

/** Updates to this revision that the API server has refused, of the pods with these UIDs, of which dry runs are due. */
export function refusedUpdates(
  revision: string,
  uids: readonly string[],
  change: Partial<Omit<RefusedUpdates, 'pods'>> = {},
): RefusedUpdates {
  const refused: RefusedUpdate = { error: frozen, isAccepted: false, refusedAtMs: 1, isDue: true };
  return {
    ...{
      revision,
      isGeneral: false,
      namespaces: new Map(),
      mostTrials: 16,
      mostMisledTrials: 0,
      error: frozen,
      retriedWithinMs: 5_000,
    },
    pods: new Map(uids.map((uid) => [uid, refused])),
    ...change,
  };
}

/** The dry runs that a plan asks for. */
export function trialsIn<Step extends { readonly kind: string }>({ trials }: { readonly trials?: Trials<Step> }) {
  return (trials?.steps ?? []).filter(
    (step): step is Extract<Step, { readonly kind: 'tryUpdate' }> => step.kind === 'tryUpdate',
  );
}
