import { describe, expect, it } from '@jest/globals';
import type { CloneSet } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import type { Permit } from '../../plan/fleet/permit.ts';
import type { RefusedUpdates } from '../../plan/fleet/refused-updates.ts';
import {
  cloneSet,
  newName,
  newPodOf,
  oldName,
  pod,
  pods,
  revisionOf,
  template,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';
import { nodeImage, tagOf } from '../support/pull-objects.ts';
import { frozen, refusedUpdates, trialsIn } from '../support/refused-updates.ts';

const asked: Permit = { pods: new Map(), chooses: true };
const uidsOf = (of: readonly Pod[]) => of.map(({ metadata }) => metadata.uid);
const refusedOf = (names: readonly string[], change: Parameters<typeof refusedUpdates>[2] = {}) =>
  refusedUpdates(
    newName,
    names.map((name) => `${name}-uid`),
    change,
  );

interface Given extends Omit<WorldFacts, 'more' | 'permit'> {
  readonly refused?: RefusedUpdates;
  readonly permit?: Permit;
  readonly more?: Partial<CloneSetInput>;
}

function plan({ refused, more, permit = asked, ...facts }: Given) {
  return planCloneSet(world({ ...facts, permit, more: { ...more, ...(refused && { refused }) } }));
}

type Plan = ReturnType<typeof plan>;
const named = ({ standing }: Plan) => (standing.kind === 'pods' ? standing.pods.map(({ name }) => name) : []);
const tried = (made: Plan) => made.trials && trialsIn(made).map(({ pod }) => pod.name);
const wait = ({ standing }: Plan) => (standing.kind === 'waiting' ? standing.wait : undefined);
const failedUpdate = ({ status }: Plan) => status?.conditions?.find(({ type }) => type === 'FailedUpdate');

describe('P-7: a pod whose update was refused', () => {
  const set = cloneSet({ replicas: 3 });
  const three = pods('o', 3);

  it('is tried in a dry run, and takes no part of the budget from the others', () => {
    const given = plan({ set, pods: three, refused: refusedOf(['web-o1']) });
    expect([tried(given), named(given)]).toEqual([['web-o1'], ['web-o2']]);
    expect(trialsIn(given)[0]).toMatchObject({
      pod: { uid: 'web-o1-uid' },
      revision: newName,
      writes: [{ kind: 'status' }, { kind: 'pod', patch: { spec: { containers: [{ image: 'nginx:1.1' }] } } }],
    });
  });

  it('goes once a dry run was accepted, or another revision is wanted', () => {
    const refused = refusedOf(['web-o1']);
    const [uid, one] = [...refused.pods][0] ?? [];
    if (uid === undefined || one === undefined) throw new Error('nothing is refused');
    const accepted = { ...refused, pods: new Map([[uid, { ...one, isAccepted: true }]]) };
    expect(named(plan({ set, pods: three, refused: accepted }))).toEqual(['web-o1']);
    const earlier = plan({ set, pods: three, refused: { ...refused, revision: oldName } });
    expect([named(earlier), tried(earlier), failedUpdate(earlier)]).toEqual([['web-o1'], [], undefined]);
  });

  it('is given back, with why, also when it was drained before', () => {
    const permit = { pods: new Map([['web-o1-uid', newName]]), chooses: true };
    const drained = pod('web-o1', {
      conditions: [{ type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate' }],
    });
    for (const first of [pod('web-o1'), drained]) {
      const given = plan({ set, pods: [first, ...three.slice(1)], permit, refused: refusedOf(['web-o1']) });
      expect(given.named?.pods.get('web-o1-uid')).toEqual({ state: 'notNow', why: 'refused: frozen' });
    }
  });

  it('goes back into service at once when it was drained for it', () => {
    const since = new Date(Date.parse('2026-11-21T06:13:44Z') - 1_000).toISOString();
    const types = ['KruisePodReady', 'ContainersReady'];
    const conditions = [
      { type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime: since },
      ...types.map((type) => ({ type, status: 'True', lastTransitionTime: since })),
      { type: 'Ready', status: 'False', lastTransitionTime: since },
    ];
    const given = [pod('web-o1', { conditions }), ...three.slice(1)];
    const opened = (made: Plan) => made.upkeep.filter((step) => step.kind === 'writePod').map((step) => step.pod.name);
    expect(opened(plan({ set, pods: given }))).toEqual([]);
    expect(opened(plan({ set, pods: given, refused: refusedOf(['web-o1']) }))).toEqual(['web-o1']);
  });

  it('that was held for it by a hook is let go, and begins anew', () => {
    const hooked = cloneSet({ replicas: 3, lifecycle: { inPlaceUpdate: { labelsHandler: { hold: 'true' } } } });
    const held = pod('web-o1', { state: 'PreparingUpdate', labels: { hold: 'true' } });
    const given = plan({ set: hooked, pods: [held, ...three.slice(1)], refused: refusedOf(['web-o1']) });
    expect(given.upkeep.filter((step) => step.kind === 'writePod')).toMatchObject([
      { pod: { name: 'web-o1' }, why: 'refresh' },
    ]);
    expect(tried(given)).toEqual([]);
  });

  it('that is held does not keep other held pods from going on, though the roll-out is paused', () => {
    const hooked = cloneSet({
      replicas: 3,
      lifecycle: { inPlaceUpdate: { labelsHandler: { hold: 'true' } } },
      rollingUpdate: { maxUnavailable: 3 },
    });
    const given = [...['web-o1', 'web-o2'].map((name) => pod(name, { state: 'PreparingUpdate' })), pod('web-o3')];
    const held = { orders: { version: 1, revision: newName, paused: { by: 'ann', at: '' } } } as const;
    for (const chooses of [true, false]) {
      const permit = { pods: new Map<string, string>(), chooses };
      const { upkeep } = plan({ set: hooked, pods: given, permit, refused: refusedOf(['web-o1']), more: { held } });
      const steps = upkeep.flatMap((step) => ('pod' in step && step.kind !== 'createPod' ? [step] : []));
      expect(steps.map((step) => `${step.kind} ${step.pod.name}`)).toEqual(['updatePod web-o2', 'writePod web-o1']);
    }
  });

  it('is tried with what comes before a hook only, as a policy may wait for that', () => {
    const labels = { hold: 'true' };
    const given = pods('o', 3, { labels });
    const hooked = cloneSet({ replicas: 3, lifecycle: { inPlaceUpdate: { labelsHandler: labels } } });
    const [first] = trialsIn(plan({ set: hooked, pods: given, refused: refusedOf(['web-o1']) }));
    expect(first?.writes).toMatchObject([
      { kind: 'pod', patch: { metadata: { labels: { 'lifecycle.apps.kruise.io/state': 'PreparingUpdate' } } } },
    ]);
    const lifecycle = { preDelete: { labelsHandler: labels } };
    const recreated = cloneSet({ replicas: 3, lifecycle, rollingUpdate: { podUpdatePolicy: 'ReCreate' } });
    const [trial] = trialsIn(plan({ set: recreated, pods: given, refused: refusedOf(['web-o1']) }));
    expect(trial).not.toHaveProperty('deletes');
  });

  it('is tried with all that its update is going to write: after a grace period, in a later batch, and its deletion', () => {
    const spec = { containers: ['app', 'helper'].map((name) => ({ name, image: 'nginx:1.1' })) };
    const grace = cloneSet({ replicas: 3, rollingUpdate: { inPlaceUpdateStrategy: { gracePeriodSeconds: 10 } } });
    const writesOf = (owner: CloneSet) =>
      trialsIn(plan({ set: owner, pods: three, refused: refusedOf(['web-o1']) }))[0];
    expect(writesOf(grace)?.writes.at(-1)).toMatchObject({ patch: { spec: { containers: [{ image: 'nginx:1.1' }] } } });
    const recreated = cloneSet({ replicas: 3, template: template('nginx:1.1', spec) });
    const refused = refusedUpdates(revisionOf(recreated, 2).metadata.name, ['web-o1-uid']);
    expect(trialsIn(plan({ set: recreated, pods: three, refused }))[0]).toMatchObject({
      writes: [{ patch: { metadata: { labels: { 'apps.kruise.io/specified-delete': 'true' } } } }],
      deletes: true,
    });
  });
});

describe('P-7: dry runs', () => {
  const set = cloneSet({ replicas: 40 });
  const forty = pods('o', 40);

  it('of pods that were never tried come first, then of those refused the longest ago, as many as may be made', () => {
    const refused = refusedOf(['web-o1', 'web-o2', 'web-o3'], { isGeneral: true, mostTrials: 39 });
    const later = [...refused.pods].map(([uid, one], index) => [uid, { ...one, refusedAtMs: 9 - index }] as const);
    const given = plan({ set, pods: forty, refused: { ...refused, pods: new Map(later) } });
    expect([tried(given)?.slice(-2), tried(given)?.length, given.trials?.more]).toEqual([
      ['web-o3', 'web-o2'],
      39,
      true,
    ]);
  });

  it('are made of every pod once several were refused in a row, and none is named before', () => {
    const given = plan({ set, pods: forty, refused: refusedOf([], { isGeneral: true }) });
    expect([named(given), tried(given)?.length, given.trials?.more]).toEqual([[], 16, true]);
    expect(wait(given)).toMatchObject({ reason: 'CannotUpdate', unblock: expect.stringContaining('Invalid: frozen') });
  });

  it.each([
    ['it is too early', { refused: refusedOf(namesOf(forty), { mostTrials: 0 }) }, true],
    ['the roll-out is paused', { set: cloneSet({ replicas: 40, rollingUpdate: { paused: true } }) }, false],
    [
      'an operator holds it',
      { more: { held: { orders: { version: 1, revision: newName, paused: { by: 'ann', at: '' } } } } } as const,
      false,
    ],
    ['pods are missing', { set: cloneSet({ replicas: 41 }) }, undefined],
  ])('are not made while %s', (_what, facts, more) => {
    const given = plan({ set, pods: forty, refused: refusedOf(namesOf(forty)), ...facts });
    expect([tried(given) ?? [], given.trials?.more]).toEqual([[], more]);
  });
});

function namesOf(of: readonly Pod[]): readonly string[] {
  return of.map(({ metadata }) => metadata.name);
}

describe('P-7: what a set says of refused updates', () => {
  const set = cloneSet({ replicas: 3 });
  const all = refusedOf(['web-a', 'web-b', 'web-c'], { retriedWithinMs: 3_600_000 });
  const three = ['web-a', 'web-b', 'web-c'].map((name) => pod(name));

  it('names the pods, what refuses them, and within which time they are tried again', () => {
    const given = plan({ set, pods: three, refused: all });
    expect(wait(given)).toMatchObject({
      reason: 'CannotUpdate',
      blockedBy: ['pod/web-a', 'pod/web-b', 'pod/web-c'],
      unblock: expect.stringMatching(
        /Invalid: frozen; retried within 60 minutes, and at once when the CloneSet changes$/,
      ),
    });
    expect(failedUpdate(given)).toMatchObject({ status: 'True', message: frozen.message });
  });

  it('waits for what is under way first, and its condition says at once that some are refused', () => {
    const given = plan({
      set,
      pods: [newPodOf('web-a', { ready: false }), ...three.slice(1)],
      refused: refusedOf(['web-b', 'web-c']),
    });
    expect([wait(given)?.reason, failedUpdate(given)?.status]).toEqual(['NotReady', 'True']);
  });

  it('is not hidden by a skipped pod that is not available', () => {
    const given = plan({
      set,
      pods: [pod('web-a', { ready: false }), ...three.slice(1)],
      refused: refusedOf(['web-b', 'web-c']),
      more: { held: { orders: { version: 1, revision: newName, skip: ['web-a'] } } },
    });
    expect(wait(given)).toMatchObject({ reason: 'CannotUpdate', blockedCount: 2 });
  });

  it('does not depend on the room for batches', () => {
    const given = [pod('web-a'), pod('web-b'), newPodOf('web-c', { ready: false })];
    const conditions = [true, false].map((chooses) => {
      const permit = { pods: new Map([['web-c-uid', newName]]), chooses };
      return failedUpdate(plan({ set, pods: given, permit, refused: refusedOf(['web-a']) }))?.status;
    });
    expect(conditions).toEqual(['True', 'True']);
  });

  it('is over when its pods are updated, skipped, or not to be updated any more', () => {
    const updated = three.map(({ metadata }) => newPodOf(metadata.name));
    const skip = namesOf(three);
    const cases: readonly Given[] = [
      { pods: updated },
      { pods: three, more: { held: { orders: { version: 1, revision: newName, skip } } } },
      { pods: three, set: cloneSet({ replicas: 3, rollingUpdate: { partition: 3 } }) },
    ];
    for (const facts of cases) {
      const given = plan({ set, refused: all, ...facts });
      expect([wait(given)?.reason, failedUpdate(given), tried(given)]).not.toContain('CannotUpdate');
      expect([failedUpdate(given), tried(given)]).toEqual([undefined, []]);
    }
  });

  it('is that a pod cannot be updated in place where that is so, whatever was refused', () => {
    const given = plan({
      set: cloneSet({
        replicas: 3,
        template: template('nginx:1.1', { hostNetwork: true }),
        rollingUpdate: { podUpdatePolicy: 'InPlaceOnly' },
      }),
      pods: three,
      refused: refusedUpdates(
        revisionOf(cloneSet({ template: template('nginx:1.1', { hostNetwork: true }) }), 2).metadata.name,
        uidsOf(three),
        { isGeneral: true },
      ),
    });
    expect([wait(given)?.reason, tried(given)]).toEqual(['InPlaceImpossible', []]);
  });

  it('is that images are waited for where that is so', () => {
    const prefetching = cloneSet(
      { replicas: 3 },
      { metadata: { annotations: { [windlassAnnotation.prefetch]: '80%' } } },
    );
    const nodes = ['a', 'b', 'c'];
    const onNodes = nodes.map((node) => pod(`web-${node}`, { node: `node-${node}` }));
    const nodeImages = new Map(
      nodes.map((node) => [`node-${node}`, nodeImage(`node-${node}`, { nginx: [tagOf('1.1')] })]),
    );
    const given = plan({
      set: prefetching,
      gates: ['PreDownloadImageForInPlaceUpdate', 'ImagePullJobGate'],
      pods: onNodes,
      refused: all,
      more: { nodeImages },
    });
    expect([wait(given)?.reason, tried(given)]).toEqual(['ImageNotReady', []]);
  });
});
