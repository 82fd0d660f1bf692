import { describe, expect, it } from '@jest/globals';
import type { CloneSet } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { permitForAll } from '../support/permits.ts';
import { recorded } from '../support/recorded.ts';

const newName = 'web-8b47cf55';

/** What OpenKruise left at one moment of a roll-out, as input of the planner. */
function found(moment: '1-created' | '2-grace-period' | '3-updating' | '4-updated', at: string): CloneSetInput {
  const set = recorded<CloneSet>(`cloneset-${moment === '1-created' ? '1-created-v1beta1' : moment}`);
  const revisions = moment === '1-created' ? 'cloneset-1-created-revisions' : 'cloneset-3-updating-revisions';
  return {
    owner: set,
    pods: recorded<readonly Pod[]>(`cloneset-${moment}-pods`),
    claims: [],
    revisions: recorded<readonly ControllerRevision[]>(revisions),
    nodes: new Map(),
    gates: parseFeatureGates('AllAlpha=true,AllBeta=true,EnableExternalCerts=false,TemplateNoDefaults=false'),
    hasResizeSubresource: true,
    excludePreparingDelete: false,
    nowMs: Date.parse(at),
    permit: permitForAll(moment === '1-created' ? 'web-84d9b589cd' : newName),
    isSpent: () => false,
  };
}

describe('a CloneSet that OpenKruise has left', () => {
  it('is taken over as it was created: not one pod is touched, and not one field of the status changes', () => {
    const plan = planCloneSet(found('1-created', '2026-11-21T06:13:11Z'));
    expect([plan.status, plan.upkeep, plan.disruption]).toEqual([undefined, [], []]);
    expect(plan.standing).toMatchObject({ kind: 'allDone' });
  });

  it('waits for the end of a grace period that has begun, and nothing else', () => {
    const plan = planCloneSet(found('2-grace-period', '2026-11-21T06:13:16Z'));
    expect([plan.upkeep, plan.disruption, plan.againInMs]).toEqual([[], [], 4_999]);
    expect(plan.status).toMatchObject({
      updatedReplicas: 1,
      waitingFor: { reason: 'GracePeriod', blockedBy: ['pod/web-s8g7h'] },
    });
  });

  it('goes on with that pod when the grace period is over', () => {
    const plan = planCloneSet(found('2-grace-period', '2026-11-21T06:13:21Z'));
    expect(plan.disruption).toEqual([]);
    expect(plan.upkeep).toMatchObject([
      {
        kind: 'writePod',
        pod: { name: 'web-s8g7h' },
        writes: [
          {
            kind: 'pod',
            patch: {
              metadata: { annotations: { team: 'b', 'apps.kruise.io/inplace-update-grace': null } },
              spec: { containers: [{ name: 'main', image: 'busybox:1.36' }] },
            },
          },
        ],
      },
    ]);
  });

  it('carries a half of the roll-out on: the second pod in its grace period, the third one not before', () => {
    const plan = planCloneSet(found('3-updating', '2026-11-21T06:13:24Z'));
    expect([plan.upkeep, plan.disruption]).toEqual([[], []]);
    expect(plan.status).toMatchObject({ updatedReplicas: 2, waitingFor: { reason: 'GracePeriod' } });
  });

  it('has nothing left to do when the roll-out was through', () => {
    const plan = planCloneSet(found('4-updated', '2026-11-21T06:13:44Z'));
    expect([plan.status, plan.upkeep, plan.disruption]).toEqual([undefined, [], []]);
    expect(plan.standing).toMatchObject({ kind: 'allDone' });
  });
});
