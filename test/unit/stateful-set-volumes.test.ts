import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import type { StatefulSet, StatefulSetSpec } from '../../api/stateful-set/types.ts';
import type { FleetInput, VolumeClaim } from '../../plan/fleet/input.ts';
import { statefulSetWorkloads } from '../../plan/stateful-set/planner.ts';
import { permitForAll } from '../support/permits.ts';
import { claim, data, fresh, now, old, pod, pods, set } from '../support/stateful-set-world.ts';

const permit = permitForAll(fresh.metadata.name);
const gates = parseFeatureGates('StatefulSetAutoResizePVCGate=true');
const sized = (storage: string, more: JsonObject = {}) => ({
  ...data,
  spec: { ...data.spec, resources: { requests: { storage } }, ...more },
});
const following = { volumeClaimUpdateStrategy: { type: 'OnPodRollingUpdate' } } as const;

/** A StatefulSet whose templates ask for 2Gi, where its PVCs have 1Gi. */
function grown(spec: Partial<StatefulSetSpec> = {}, ...[rollingUpdate, image]: [Parameters<typeof set>[1]?, string?]) {
  return set({ volumeClaimTemplates: [sized('2Gi')], ...following, ...spec }, rollingUpdate, image);
}

interface Size {
  readonly request?: string;
  readonly capacity?: string;
  readonly pending?: boolean;
  readonly spec?: JsonObject;
}

/** The PVC of an ordinal, which requests 2Gi and has them. */
function at(ordinal: number, { request = '2Gi', capacity = request, pending = false, spec }: Size = {}): VolumeClaim {
  const conditions = pending ? [{ type: 'FileSystemResizePending', status: 'True' }] : [];
  return {
    ...claim(ordinal),
    spec: sized(request, spec).spec,
    status: { capacity: { storage: capacity }, conditions },
  };
}

function input(owner: StatefulSet, of: readonly Pod[], more: Partial<FleetInput<StatefulSet>> = {}) {
  const counts = { replicas: 0, readyReplicas: 0, availableReplicas: 0, currentReplicas: 0, updatedReplicas: 0 };
  return {
    owner: { ...owner, status: { ...counts, currentRevision: fresh.metadata.name } },
    ...{ pods: of, claims: of.map((_, ordinal) => claim(ordinal)), revisions: [old, fresh], gates },
    ...{ hasResizeSubresource: true, nowMs: Date.parse(now), isSpent: () => false },
    ...more,
  };
}

const plan = (...of: Parameters<typeof input>) => statefulSetWorkloads.plan(input(...of));
const asked = (...of: Parameters<typeof input>) => statefulSetWorkloads.chooseBatch(input(...of));
type Plan = ReturnType<typeof plan>;
const resized = ({ disruption }: Plan) =>
  disruption.flatMap((step) => (step.kind === 'resizeClaim' ? [step.claim.name] : []));
const updated = ({ disruption }: Plan) =>
  disruption.flatMap((step) => (step.kind === 'updatePod' || step.kind === 'recreatePod' ? [step.pod.name] : []));
const wait = ({ status }: Plan) => status?.waitingFor;
const upToDate = { of: fresh };

describe('volumes that grow with their templates', () => {
  it('AS-90: stay as they are without the gate, and with OnDelete', () => {
    const off = { gates: parseFeatureGates(), permit };
    expect(plan(grown(), pods(3, upToDate), off).disruption).toEqual([]);
    const onDelete = grown({ volumeClaimUpdateStrategy: { type: 'OnDelete' } });
    expect(plan(onDelete, pods(3, upToDate), { permit }).disruption).toEqual([]);
  });

  it('AS-91, AS-92: the resources of the template are written, and who did it, under a permit only', () => {
    expect(plan(grown(), pods(3, upToDate)).disruption).toEqual([]);
    const { disruption } = plan(grown(), pods(3, upToDate), { permit });
    expect(disruption).toMatchObject([
      {
        ...{ kind: 'resizeClaim', pod: { name: 'web-2' }, claim: { name: 'data-web-2', uid: 'data-web-2-uid' } },
        patch: {
          metadata: { annotations: { 'apps.kruise.io/owned-by-asts': 'web' } },
          spec: { resources: { requests: { storage: '2Gi' } } },
        },
      },
    ]);
  });

  it('AS-91: a roll-out is told which pods, whose containers stay as they are', () => {
    const choice = asked(grown({}, { maxUnavailable: 2 }), pods(3, upToDate));
    expect(choice).toMatchObject({
      kind: 'pods',
      batch: { how: 'inPlace', containers: [], pods: [{ name: 'web-2' }, { name: 'web-1' }] },
    });
  });

  it.each([
    ['the partition', {}, { partition: 2, maxUnavailable: 3 }, ['data-web-2']],
    ['maxUnavailable', {}, { maxUnavailable: 2 }, ['data-web-2', 'data-web-1']],
    ['maxUnavailable, of which a pod that is not ready takes none', { ready: false }, {}, ['data-web-2']],
  ] as const)('AS-91, AS-62: is limited by %s', (_, last, rollingUpdate, expected) => {
    const of = [...pods(2, upToDate), pod(2, { ...upToDate, ...last })];
    expect(resized(plan(grown({}, rollingUpdate), of, { permit }))).toEqual(expected);
  });

  it('AS-61: a PVC without its capacity, or with another class, spends maxUnavailable; one that is to be resized does not', () => {
    const next = (claims: readonly VolumeClaim[]) =>
      resized(plan(grown(), pods(3, upToDate), { claims: [claim(0), ...claims], permit }));
    expect(next([claim(1), at(2)])).toEqual(['data-web-1']);
    expect(next([claim(1), at(2, { capacity: '1Gi' })])).toEqual([]);
    expect(next([claim(1), at(2, { capacity: '1Gi', pending: true })])).toEqual([]);
  });

  it('AS-61, AS-70: it spends what deletions by label take as well', () => {
    const labels = { 'apps.kruise.io/specified-delete': 'true' };
    const of = [pod(0, { ...upToDate, labels }), ...pods(3, upToDate).slice(1)];
    const deleted = (capacity: string) =>
      plan(grown(), of, { claims: [at(0), at(1), at(2, { capacity })] }).upkeep.flatMap((step) =>
        step.kind === 'deletePod' ? [step.pod.name] : [],
      );
    expect([deleted('2Gi'), deleted('1Gi')]).toEqual([['web-0'], []]);
  });

  it('AS-93: the update of the pod waits until its PVCs are expanded, and says so', () => {
    const of = pods(3);
    const first = plan(grown(), of, { permit });
    expect([resized(first), updated(first)]).toEqual([['data-web-2'], []]);
    const second = plan(grown(), of, { claims: [claim(0), claim(1), at(2, { capacity: '1Gi' })], permit });
    expect([resized(second), updated(second)]).toEqual([[], []]);
    expect(wait(second)).toMatchObject({ reason: 'ClaimResizing', blockedBy: ['pod/web-2'] });
    expect(wait(second)?.unblock).toContain('PVCs: data-web-2');
    expect(second.named?.pods.get('web-2-uid')).toMatchObject({ state: 'underWay' });
    const third = plan(grown(), of, { claims: [claim(0), claim(1), at(2)], permit });
    expect([resized(third), updated(third)]).toEqual([[], ['web-2']]);
  });

  it('AS-93: the update goes on where the file system is expanded with the next mount', () => {
    const claims = [claim(0), claim(1), at(2, { capacity: '1Gi', pending: true })];
    expect(updated(plan(grown(), pods(3), { claims, permit }))).toEqual(['web-2']);
  });

  it('AS-94: a change of templates alone restarts no pod, and what waits for a mount is said', () => {
    const claims = [at(0), at(1), at(2, { capacity: '1Gi', pending: true })];
    const done = plan(grown(), pods(3, upToDate), { claims, permit });
    expect(done).toMatchObject({ disruption: [], standing: { kind: 'allDone' } });
    expect(done.named?.pods.get('web-2-uid')).toEqual({ state: 'done' });
    expect(wait(done)).toMatchObject({ reason: 'FileSystemResizePending', blockedBy: ['pod/web-2'] });
  });

  it('AS-94: a roll-out is over when the volumes have their size', () => {
    const standing = (capacity: string) =>
      plan(grown(), pods(3, upToDate), { claims: [at(0), at(1), at(2, { capacity })], permit }).standing;
    expect(standing('1Gi')).toMatchObject({ kind: 'waiting', wait: { reason: 'ClaimResizing' } });
    expect(standing('2Gi')).toMatchObject({ kind: 'allDone' });
  });

  it('AS-91: says between two expansions that there are more', () => {
    const claims = [claim(0), claim(1), at(2)];
    expect(wait(plan(grown(), pods(3, upToDate), { claims, permit }))).toMatchObject({
      ...{ reason: 'ClaimResizing', blockedBy: ['pod/web-0', 'pod/web-1'] },
    });
    expect(wait(plan(grown({}, { partition: 2 }), pods(3, upToDate), { claims, permit }))).toBeUndefined();
  });

  it('AS-94: a template that is smaller than the PVC changes nothing, and counts as compatible', () => {
    const claims = [0, 1, 2].map((ordinal) => at(ordinal, { request: '4Gi' }));
    const { disruption, status } = plan(grown(), pods(3, upToDate), { claims, permit });
    expect(disruption).toEqual([]);
    expect(status?.volumeClaims).toEqual([
      { volumeClaimName: 'data', compatibleReplicas: 3, compatibleReadyReplicas: 3 },
    ]);
  });

  it('AS-94: PVCs of ordinals without a pod are not resized', () => {
    const claims = [...pods(3).map((_, ordinal) => at(ordinal)), claim(3)];
    expect(plan(grown(), pods(3, upToDate), { claims, permit }).disruption).toEqual([]);
  });

  it('AS-94a: a roll-back of the pod template goes on expanding', () => {
    const back = { permit: permitForAll(old.metadata.name), revisions: [{ ...old, revision: 3 }, fresh] };
    const of = [pod(0), pod(1), pod(2)];
    expect(resized(plan(grown({}, {}, 'app:1'), of, back))).toEqual(['data-web-2']);
  });

  it('AS-61: an undo expands nothing, waits for no PVC of its pods, and counts those of others', () => {
    const undo = { from: fresh.metadata.name, to: old.metadata.name };
    const back = { undo, permit: permitForAll(old.metadata.name) };
    expect(plan(grown(), pods(3), back).disruption).toEqual([]);
    const takenBack = (claims: readonly VolumeClaim[]) => {
      const result = plan(grown({}, { podUpdatePolicy: 'ReCreate' }), pods(3, upToDate), { ...back, claims });
      return [resized(result), updated(result)];
    };
    const less = { capacity: '1Gi' };
    expect(takenBack([claim(0), claim(1), at(2, less)])).toEqual([[], ['web-2']]);
    expect(takenBack([at(0, less), claim(1), claim(2)])).toEqual([[], []]);
  });

  it('an undo of what expands volumes alone is refused, as it would take back what is rolled out', () => {
    const facts = (of: readonly Pod[], claims: readonly VolumeClaim[]) =>
      plan(grown(), of, { claims, permit }).rollOut?.facts;
    const claims = [at(0), claim(1), claim(2)];
    expect(facts(pods(3, upToDate), claims)).toMatchObject({
      noUndo: expect.stringContaining('only PVCs are expanded'),
    });
    expect(facts(pods(3, upToDate), claims)).not.toHaveProperty('previous');
    expect(facts([...pods(2, upToDate), pod(2)], claims)).toMatchObject({ previous: old.metadata.name });
    expect(facts(pods(3, upToDate), [at(0), at(1), at(2)])).toMatchObject({ previous: old.metadata.name });
  });

  it('AS-61: a PVC that is deleted while it is expanded spends maxUnavailable as long as it is there', () => {
    const { metadata, ...sizes } = at(2, { capacity: '1Gi' });
    const going = { ...sizes, metadata: { ...metadata, deletionTimestamp: now } };
    const claims = [claim(0), claim(1), going];
    expect(resized(plan(grown(), pods(3, upToDate), { claims, permit }))).toEqual([]);
  });

  it('AS-92: a difference in anything but size stops, with the Event, the condition and the remedy', () => {
    const claims = [claim(0), claim(1), at(2, { request: '1Gi', spec: { storageClassName: 'slow' } })];
    const owner = grown({ volumeClaimTemplates: [sized('2Gi', { storageClassName: 'fast' })] });
    const stopped = plan(owner, pods(3), { claims, permit });
    expect(stopped.disruption).toEqual([]);
    expect(stopped.upkeep).toContainEqual({
      kind: 'event',
      event: {
        type: 'Warning',
        reason: 'FailedUpdatePVC',
        message: 'failed to update pvc data-web-2: contains diff other than spec resource, wait pvc to be deleted',
      },
    });
    expect(stopped.status?.conditions).toMatchObject([
      { type: 'FailedUpdatePod', message: expect.stringContaining('can not patch pvc data-web-2: contains diff') },
    ]);
    expect(wait(stopped)).toMatchObject({ reason: 'ClaimDiffers', blockedBy: ['pod/web-2'] });
  });

  it('AS-92: a template that matches is left alone, whatever its class', () => {
    const logs = { ...sized('1Gi'), metadata: { name: 'logs' } };
    const other = { ...claim(2), metadata: { ...claim(2).metadata, name: 'logs-web-2', uid: 'logs-web-2-uid' } };
    const owner = grown({ volumeClaimTemplates: [sized('2Gi'), logs] });
    const claims = [claim(0), claim(1), claim(2), other];
    expect(resized(plan(owner, pods(3, upToDate), { claims, permit }))).toEqual(['data-web-2']);
  });

  it('a PVC whose write got no answer spends maxUnavailable', () => {
    const unanswered = new Map([['data-web-1-uid', Date.parse(now) + 1000]]);
    const claims = [claim(0), claim(1), at(2)];
    expect(resized(plan(grown(), pods(3, upToDate), { claims, permit, unanswered }))).toEqual(['data-web-1']);
    const forOther = { pods: new Map([['web-0-uid', fresh.metadata.name]]), chooses: false };
    expect(resized(plan(grown(), pods(3, upToDate), { claims, permit: forOther, unanswered }))).toEqual([]);
  });

  it.each([
    ['OnDelete', grown({ updateStrategy: { type: 'OnDelete' } })],
    ['a pause', grown({}, { paused: true })],
  ])('AS-91: nothing is resized with %s', (_, owner) => {
    expect(plan(owner, pods(3, upToDate), { permit }).disruption).toEqual([]);
  });

  it('AS-97: a template that is added or removed lets pods run, and is for those that are created', () => {
    const logs = { ...data, metadata: { name: 'logs' } };
    const added = plan(set({ volumeClaimTemplates: [data, logs] }), pods(2, upToDate), { permit });
    expect(added.disruption).toEqual([]);
    expect(added.upkeep).toMatchObject([
      {
        kind: 'createPod',
        name: 'web-2',
        claims: [{ metadata: { name: 'data-web-2' } }, { metadata: { name: 'logs-web-2' } }],
      },
    ]);
    expect(added.status).not.toHaveProperty('conditions');
    const removed = plan(set({ volumeClaimTemplates: [] }), pods(3, upToDate), { permit });
    expect([removed.upkeep, removed.disruption]).toEqual([[], []]);
  });

  it('plan shows which PVCs are expanded, batch by batch, where no pod is restarted', () => {
    const played = statefulSetWorkloads.play(input(grown({}, { maxUnavailable: 2 }), pods(3, upToDate)));
    const expands = (ordinal: number) => ({ kind: 'expand', claims: [`data-web-${ordinal}`] });
    expect(played).toMatchObject({
      created: [],
      deleted: [],
      updated: [
        { pod: 'web-2', path: expands(2), batch: 1 },
        { pod: 'web-1', path: expands(1), batch: 1 },
        { pod: 'web-0', path: expands(0), batch: 2 },
      ],
      isPlayedOut: true,
    });
  });
});
