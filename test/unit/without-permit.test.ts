import { describe, expect, it } from '@jest/globals';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { ChosenPod } from '../../plan/fleet/batch.ts';
import { type ForRollOut, RollOuts } from '../../watcher/fleet/roll-outs.ts';

const uid = 'set-uid';

/** The roll-outs of one kind, as far as plans are kept. */
function rollOuts() {
  const context = { queue: () => ({ add: () => undefined }), now: () => 0 };
  const owners = { byUid: () => undefined, seen: async () => undefined };
  return new RollOuts(context as never, {
    ...{ resource: cloneSets, owners, queue: 'roll-outs' },
    podsOf: () => [],
    fleet: () => undefined,
  });
}

/** A plan in which these pods may go, and no permit names them. */
function mayGo(...uids: readonly string[]): ForRollOut {
  const pods = uids.map((one): ChosenPod => ({ namespace: 'shop', name: one, uid: one, how: 'inPlace' }));
  return {
    lacksPermit: true,
    standing: { kind: 'pods', revision: 'new', pods: pods as [ChosenPod], more: false },
  };
}

describe('an update without a permit', () => {
  it('waits since one pod of it has waited, and not since others have that were permitted meanwhile', () => {
    const fleet = rollOuts();
    fleet.planned(uid, mayGo('a', 'b'), 1_000);
    fleet.planned(uid, mayGo('b', 'c'), 3_000);
    expect(fleet.withoutPermitSinceMs(uid)).toBe(1_000);
    // pods come free all the time, and each is permitted at once
    fleet.planned(uid, mayGo('c', 'd'), 5_000);
    expect(fleet.withoutPermitSinceMs(uid)).toBe(5_000);
    fleet.planned(uid, { lacksPermit: false, standing: { kind: 'working' } }, 6_000);
    expect(fleet.withoutPermitSinceMs(uid)).toBeUndefined();
  });

  it('waits from the first look on where it is not known which pods may go', () => {
    const fleet = rollOuts();
    for (const ms of [1_000, 4_000]) fleet.planned(uid, { lacksPermit: true, standing: { kind: 'working' } }, ms);
    expect(fleet.withoutPermitSinceMs(uid)).toBe(1_000);
  });
});
