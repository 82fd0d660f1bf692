import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { engineNoFleetWorker, engineNoWorkers, engineSilent, engineStuck } from '../../api/engine/engine-trouble.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { hashAnnotation, hotMark } from '../../api/sidecar-set/marks.ts';
import { sidecarSetWaits } from '../../api/sidecar-set/texts.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { podsOf } from '../../plan/fleet/batch.ts';
import { type Permit, question } from '../../plan/fleet/permit.ts';
import { mostInAnswer } from '../../plan/permits/in-flight.ts';
import { classifyPods } from '../../plan/sidecar-set/classify.ts';
import type { SidecarSetInput } from '../../plan/sidecar-set/input.ts';
import { chooseSidecarBatch, mostMarked, planSidecarSet } from '../../plan/sidecar-set/planner.ts';
import { updateStateAnnotation } from '../../plan/sidecar-set/pods.ts';
import { targetOfSpec } from '../../plan/sidecar-set/target.ts';
import { mostFailing, mostFailingInAll, mostInPass } from '../../plan/sidecar-set/update.ts';
import { allWaits } from '../../plan/sidecar-set/waits.ts';
import { nothingYet } from '../../plan/starting.ts';
import { trimPod } from '../../watcher/trim.ts';
import { recorded } from '../support/recorded.ts';
import { refusedUpdates, trialsIn } from '../support/refused-updates.ts';
import { aSidecarSet, hot, injectedPod } from '../support/sidecar-pods.ts';
import { podWith, type SidecarPod, sidecarSet, storedRevision } from '../support/sidecar-world.ts';

const nowMs = Date.parse('2026-01-02T00:00:00Z');

interface Given {
  readonly spec?: JsonObject;
  readonly before?: JsonObject;
  readonly orders?: RollOutOrders;
  /** Pods with the content before, and pods with the present one. */
  readonly old?: Readonly<Record<string, SidecarPod>>;
  readonly updated?: Readonly<Record<string, SidecarPod>>;
  readonly more?: Partial<SidecarSetInput>;
}

/** The status that a plan writes; undefined: it writes none. */
function statusIn({ upkeep }: ReturnType<typeof planSidecarSet>) {
  return upkeep.flatMap((step) => (step.kind === 'writeStatus' ? [step.status] : []))[0];
}

/** A SidecarSet that asks for log:2 after log:1, both stored. */
function given({ spec = {}, before = {}, orders, old = {}, updated = {}, more = {} }: Given = {}) {
  const first = sidecarSet('log:1', { spec: before });
  const wanted = sidecarSet('log:2', { spec });
  const owner = { ...wanted, ...(orders && { status: { rollOut: orders } }) } as SidecarSet;
  const history = [storedRevision(first, 1), storedRevision(wanted, 2)];
  const podsWith = (set: SidecarSet, pods: Readonly<Record<string, SidecarPod>>) =>
    Object.entries(pods).map(([name, options]) => podWith(set, name, options));
  const pods = [...podsWith(first, old), ...podsWith(wanted, updated)];
  const input: SidecarSetInput = { owner, pods, history, revisionNamespace: 'kruise-system', nowMs, ...more };
  const [previous = '', latest = ''] = history.map(({ metadata }) => metadata.name);
  return { input, previous, latest };
}

function permitFor(revision: string, named: readonly Pod[] = [], more: Partial<Permit> = {}): Permit {
  const pods = new Map(named.map(({ metadata }) => [metadata.uid, revision]));
  return { pods, chooses: true, ...more };
}

/** The recorded SidecarSet with another image, as admission stores it. */
function withImage({ metadata, spec, ...rest }: SidecarSet, image: string): SidecarSet {
  const containers = spec.containers?.map((container) => ({ ...container, image }));
  const { annotations: _, ...others } = metadata;
  return defaultSidecarSet({ ...rest, metadata: others, spec: { ...spec, containers } } as never) as never;
}

const many = (count: number, prefix = 'web') =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}-${index + 1000}`, {}]));
const namesIn = (plan: ReturnType<typeof planSidecarSet>) =>
  plan.standing.kind === 'pods' ? plan.standing.pods.map(({ name }) => name) : [];

/** Every reason that holds. */
const reasonsIn = ({ situation }: ReturnType<typeof planSidecarSet>) =>
  (situation ? allWaits(situation) : []).map(({ reason }) => reason);

describe('a swap that waits for its turn in a pod', () => {
  it('is a wait that names the SidecarSet whose turn it is', () => {
    const hotSet = (image: string) => aSidecarSet({ name: 'mesh', containers: [hot('mesh', image)] });
    const pods = ['a', 'b'].map((name) => injectedPod([hotSet('mesh:1')], { name }));
    const history = [storedRevision(hotSet('mesh:1'), 1), storedRevision(hotSet('mesh:2'), 2)];
    const owner = hotSet('mesh:2');
    const permit = permitFor(history[1]?.metadata.name ?? '', pods.slice(0, 1), { chooses: false });
    const input = { owner, pods, history, revisionNamespace: 'kruise-system', nowMs, permit };
    const wait = (inFront?: ReadonlyMap<string, string>) => {
      const { standing } = planSidecarSet({ ...input, ...(inFront && { inFront }) });
      return standing.kind === 'waiting' ? standing.wait : undefined;
    };
    expect(wait()?.unblock).not.toContain('first');
    expect(wait(new Map([['uid-a', 'proxy']]))).toMatchObject({
      reason: 'SidecarsSwapping',
      blockedBy: ['pod/shop/a'],
      unblock: expect.stringMatching(/; SidecarSet proxy is swapped first in shop\/a$/),
    });
  });
});

describe('what the roll-out of a SidecarSet waits for', () => {
  it('says why the kubelet does not start a sidecar, and nothing of the other containers', () => {
    const set = sidecarSet('log:2');
    const { name } = set.metadata;
    const record = { [name]: { lastContainerStatuses: { log: { imageID: 'sha256:log:1' } } } };
    const made = podWith(set, 'a', { annotations: { [updateStateAnnotation]: JSON.stringify(record) }, ready: false });
    const failing = (failed: string): Pod => {
      const waiting = { reason: 'ImagePullBackOff', message: `Back-off pulling image of ${failed}` };
      const containerStatuses = made.status?.containerStatuses?.map((status) => ({
        ...status,
        ...(status.name === 'log' && { image: 'log:1', imageID: 'sha256:log:1' }),
        ...(status.name === failed && { state: { waiting } }),
      }));
      return { ...made, status: { ...made.status, ...(containerStatuses && { containerStatuses }) } };
    };
    const said = (failed: string) => {
      const { input, latest } = given({ old: many(1) });
      const pods = [...input.pods, failing(failed)].map(trimPod);
      const { situation } = planSidecarSet({ ...input, pods, permit: permitFor(latest) });
      return new Map((situation ? allWaits(situation) : []).map(({ reason, unblock }) => [reason, unblock]));
    };
    expect(said('log').get('NotConsistent')).toBe(
      `${sidecarSetWaits.NotConsistent}; shop/a: log: ImagePullBackOff: log:2: Back-off pulling image of log`,
    );
    expect(said('app').get('NotConsistent')).toBe(sidecarSetWaits.NotConsistent);
    // It uses up the budget, whatever has made it unready.
    expect(said('app').get('BudgetSpent')).toMatch(/; shop\/a: app: ImagePullBackOff: /);
  });
});

describe('the plan for a SidecarSet', () => {
  it('disrupts nothing without a permit, and says so after a while', () => {
    const { input } = given({ old: many(3) });
    const fresh = planSidecarSet({ ...input, withoutPermitSinceMs: nowMs });
    expect(fresh).toMatchObject({ disruption: [], lacksPermit: true, againInMs: 5_000 });
    const later = planSidecarSet({ ...input, withoutPermitSinceMs: nowMs - 6_000 });
    expect(later.upkeep).toContainEqual(
      expect.objectContaining({
        kind: 'writeStatus',
        status: expect.objectContaining({ waitingFor: expect.objectContaining({ reason: 'NoPermit' }) }),
      }),
    );
    const silent = planSidecarSet({ ...input, withoutPermitSinceMs: 0, engine: engineSilent });
    expect(JSON.stringify(silent.upkeep)).toContain('EngineSilent');
    const engine = engineNoWorkers({ temporalNamespace: 'default', build: 'abc' });
    const unserved = planSidecarSet({ ...input, withoutPermitSinceMs: 0, engine });
    expect(JSON.stringify(unserved.upkeep)).toContain('EngineNoWorkers');
    const noFleet = engineNoFleetWorker('default', '2026-11-28T10:00:00Z');
    const unasked = planSidecarSet({ ...input, withoutPermitSinceMs: 0, engine: noFleet });
    expect(JSON.stringify(unasked.upkeep)).toContain('EngineNoFleetWorker');
  });

  it('EngineSilent, EngineNoWorkers, EngineNoFleetWorker, EngineStuck: are told also of a roll-out that has a permit', () => {
    const { input, latest } = given({ old: many(2) });
    const { input: done } = given({ updated: many(2) });
    for (const engine of [
      engineSilent,
      engineNoWorkers({ temporalNamespace: 'default', build: 'abc' }),
      engineNoFleetWorker('default', '2026-11-28T10:00:00Z'),
      engineStuck({ workflowId: 'roll-out/mesh/set-uid', temporalNamespace: 'default', wasBegunAnew: false }),
    ]) {
      for (const permit of [question, permitFor(latest, input.pods, { chooses: false })]) {
        const plan = planSidecarSet({ ...input, engine, permit });
        expect(reasonsIn(plan)).toContain(engine.reason);
        expect(statusIn(plan)?.waitingFor).toMatchObject({ reason: engine.reason });
        expect(reasonsIn(planSidecarSet({ ...done, engine, permit }))).not.toContain(engine.reason);
      }
    }
  });

  it('NoPermit: is reported under a permit, too, while pods may go that it does not name, and ahead of BudgetSpent', () => {
    const spec = { updateStrategy: { maxUnavailable: 2 } };
    const { input, latest } = given({ old: many(3), updated: { lost: { ready: false } }, spec });
    const seen = (agoMs: number, permit = question) => {
      const plan = planSidecarSet({ ...input, permit, withoutPermitSinceMs: nowMs - agoMs });
      return { ...plan, reason: statusIn(plan)?.waitingFor?.reason };
    };
    expect(namesIn(seen(0))).toHaveLength(1);
    expect(seen(0)).toMatchObject({ lacksPermit: true, reason: 'BudgetSpent', againInMs: 5_000 });
    expect(seen(4_999)).toMatchObject({ reason: 'BudgetSpent', againInMs: 1 });
    expect(seen(5_000)).toMatchObject({ reason: 'NoPermit' });
    expect(reasonsIn(seen(5_000)).slice(0, 2)).toEqual(['NoPermit', 'BudgetSpent']);
    // as far as nobody knows since when, it is not reported of what is only asked
    expect(reasonsIn(planSidecarSet({ ...input, permit: question }))).not.toContain('NoPermit');
    const named = seen(5_000, permitFor(latest, input.pods));
    expect([named.lacksPermit, reasonsIn(named).includes('NoPermit')]).toEqual([false, false]);
  });

  it('begins no pod that the permit names for another revision, and may choose it again for this one', () => {
    const { input, previous, latest } = given({ old: many(4), spec: { updateStrategy: { maxUnavailable: 2 } } });
    const other = permitFor(previous, input.pods, { chooses: false });
    expect(planSidecarSet({ ...input, permit: other })).toMatchObject({ disruption: [], named: { to: latest } });
    const [first, second] = input.pods as [Pod, Pod];
    const pods = new Map([
      [first.metadata.uid, previous],
      [second.metadata.uid, latest],
    ]);
    const plan = planSidecarSet({ ...input, permit: { pods, chooses: true } });
    expect(plan.disruption).toMatchObject([{ pod: { name: second.metadata.name } }]);
    expect(namesIn(plan)).toEqual([first.metadata.name]);
  });

  it('updates nothing while an operator holds the roll-out, permit or not, before the object says so, too', () => {
    const { latest, input } = given({ old: many(3) });
    const orders = { version: 1, revision: latest, paused: { by: 'ann', at: '' } };
    const { input: ordered } = given({ old: many(3), orders });
    for (const facts of [ordered, { ...input, held: { orders } }]) {
      for (const permit of [question, permitFor(latest, facts.pods)]) {
        const plan = planSidecarSet({ ...facts, permit, withoutPermitSinceMs: 0 });
        expect(plan).toMatchObject({
          ...{ disruption: [], lacksPermit: false },
          standing: { kind: 'waiting', wait: { reason: 'PausedByOperator' } },
        });
      }
      expect(statusIn(planSidecarSet(facts))?.waitingFor).toMatchObject({ reason: 'PausedByOperator' });
    }
  });

  it('offers as many pods as an answer can hold, and says whether there are more', () => {
    const told = (count: number) => {
      const { input } = given({ old: many(count), spec: { updateStrategy: { maxUnavailable: '100%' } } });
      const { standing } = planSidecarSet({ ...input, permit: question });
      return standing.kind === 'pods' && [standing.pods.length, standing.more];
    };
    expect(told(mostInAnswer)).toEqual([mostInAnswer, false]);
    expect(told(mostInAnswer + 1)).toEqual([mostInAnswer, true]);
  });

  it('counts pods that are promised, and not begun, against the budget', () => {
    const { input, latest } = given({ old: many(5), spec: { updateStrategy: { maxUnavailable: 2 } } });
    const permit = permitFor(latest, input.pods.slice(0, 1));
    const plan = planSidecarSet({ ...input, permit });
    expect(plan.disruption).toHaveLength(1);
    expect(namesIn(plan)).toHaveLength(1);
    expect(plan.named?.pods.get(input.pods[0]?.metadata.uid ?? '')).toEqual({ state: 'next' });
  });

  it('SCS-157: updates pods that are not ready for free, and a ready one within the budget only', () => {
    const down = Object.fromEntries(Object.keys(many(4, 'down')).map((name) => [name, { ready: false }]));
    const { input, latest } = given({ old: { ...many(3), ...down } });
    const names = namesIn(planSidecarSet({ ...input, permit: permitFor(latest) }));
    expect(names.filter((name) => name.startsWith('down'))).toHaveLength(4);
    expect(names.filter((name) => name.startsWith('web'))).toHaveLength(1);
  });

  it('begins a bounded number of pods in a pass, and marks a bounded number', () => {
    const { input, latest } = given({ old: many(39), spec: { updateStrategy: { maxUnavailable: '100%' } } });
    expect(planSidecarSet({ ...input, permit: permitFor(latest, input.pods) }).disruption).toHaveLength(mostInPass);
    const env = [{ name: 'A', value: 'b' }];
    const other = given({ old: many(300), spec: { containers: [{ name: 'log', image: 'log:2', env }] } });
    const marks = planSidecarSet(other.input).upkeep.filter(({ kind }) => kind === 'writeCondition');
    expect(marks).toHaveLength(mostMarked);
  });

  it('a pod whose update gets no answer keeps its part of the budget, and once several get none no further ones are chosen', () => {
    const { input, latest } = given({ old: many(8), spec: { updateStrategy: { maxUnavailable: 1 } } });
    const uids = input.pods.map(({ metadata }) => metadata.uid);
    const failures = (count: number) => ({
      pods: new Set(uids.slice(0, count)),
      ...{ message: 'denied', type: 'Denied', retriedWithinMs: 0 },
    });
    const one = planSidecarSet({
      ...input,
      permit: permitFor(latest, input.pods.slice(0, 1)),
      failures: failures(1),
    } as never);
    expect([namesIn(one), one.disruption.length]).toEqual([[], 1]);
    const beside = given({ old: many(8), spec: { updateStrategy: { maxUnavailable: 2 } } }).input;
    const other = planSidecarSet({
      ...beside,
      permit: permitFor(latest, input.pods.slice(0, 1)),
      failures: failures(1),
    } as never);
    expect(namesIn(other)).toHaveLength(1);
    expect(namesIn(other)).not.toContain(input.pods[0]?.metadata.name);
    const permit = permitFor(latest, input.pods.slice(0, mostFailing));
    const five = planSidecarSet({ ...input, permit, failures: failures(mostFailing) } as never);
    expect(five.standing).toMatchObject({ kind: 'waiting', wait: { reason: 'CannotUpdate', blockedCount: 5 } });
  });

  describe('pods of one namespace whose update fails', () => {
    const evil = Object.fromEntries(Object.keys(many(8, 'evil')).map((name) => [name, { namespace: 'evil' }]));
    const spec = { updateStrategy: { maxUnavailable: 30 } };
    const failed = (pods: readonly Pod[], more: object = {}) => ({
      pods: new Set(pods.map(({ metadata }) => metadata.uid)),
      ...{ message: 'annotations: Too long', type: 'Invalid' as const, retriedWithinMs: 0, ...more },
    });
    const refusedOf = (revision: string, pods: readonly Pod[], change = {}) =>
      refusedUpdates(
        revision,
        pods.map(({ metadata }) => metadata.uid),
        change,
      );
    const podName = ({ metadata }: Pod) => metadata.name;
    const of = (pods: readonly Pod[], namespace: string) => pods.filter((pod) => pod.metadata.namespace === namespace);

    it('hold up no pod of another one', () => {
      const { input, latest } = given({ old: { ...many(3), ...evil }, spec });
      const failing = of(input.pods, 'evil').slice(0, mostFailing);
      const permit = permitFor(latest, failing);
      const plan = planSidecarSet({ ...input, permit, failures: failed(failing) });
      expect(new Set(namesIn(plan))).toEqual(new Set(Object.keys(many(3))));
    });

    it('stop all when they are of many', () => {
      const names = Object.keys(many(mostFailingInAll, 'bad'));
      const bad = Object.fromEntries(names.map((name, at) => [name, { namespace: `ns-${at}` }]));
      const { input, latest } = given({ old: { ...many(3), ...bad }, spec });
      const failing = input.pods.filter(({ metadata }) => metadata.namespace !== 'shop');
      const permit = permitFor(latest, failing);
      const plan = planSidecarSet({ ...input, permit, failures: failed(failing) });
      expect(namesIn(plan)).toEqual([]);
      const fewer = planSidecarSet({ ...input, permit, failures: failed(failing.slice(1)) });
      expect(namesIn(fewer)).toHaveLength(3);
    });

    it('P-7: are given back once they are refused, and then take no part of the budget and of the limit', () => {
      const { input, latest } = given({
        old: { ...many(3), ...evil },
        spec: { updateStrategy: { maxUnavailable: 2 } },
      });
      const all = of(input.pods, 'evil');
      const seven = all.slice(0, 7);
      const refused = refusedOf(latest, seven);
      const plan = planSidecarSet({ ...input, permit: permitFor(latest, seven), refused });
      expect(plan.disruption).toEqual([]);
      expect(namesIn(plan)).toHaveLength(2);
      for (const { metadata } of seven) {
        expect(plan.named?.pods.get(metadata.uid)).toEqual({ state: 'notNow', why: 'refused: frozen' });
      }
      const left = planSidecarSet({ ...input, pods: seven, permit: permitFor(latest), refused });
      expect(left.standing).toMatchObject({ kind: 'waiting', wait: { reason: 'CannotUpdate', blockedCount: 7 } });
      expect(left.rollOut?.isWanted).toBe(true);
    });

    it('P-7: are tried in dry runs, and hold up none of their namespace', () => {
      const { input, latest } = given({ old: evil, spec });
      const [other, ...failing] = input.pods as [Pod, ...Pod[]];
      const plan = planSidecarSet({
        ...input,
        permit: permitFor(latest, failing),
        refused: refusedOf(latest, failing),
      });
      expect(plan.disruption).toEqual([]);
      expect(namesIn(plan)).toEqual([other.metadata.name]);
      expect(new Set(trialsIn(plan).map(({ pod }) => pod.name))).toEqual(new Set(failing.map(podName)));
      expect(trialsIn(plan)[0]).toMatchObject({ revision: latest, isSwap: false });
    });

    it('P-7: are tried before they begin once several were refused in a row, and those of others are not', () => {
      const { input, latest } = given({ old: { ...many(20), ...evil }, spec });
      const namespaces = new Map([['evil', { isGeneral: true, isMisled: false, triedAtMs: 0 }]]);
      const refused = refusedOf(latest, [], { namespaces });
      const plan = planSidecarSet({ ...input, permit: permitFor(latest), refused });
      expect(new Set(namesIn(plan))).toEqual(new Set(Object.keys(many(20))));
      expect(trialsIn(plan)).toHaveLength(8);
      const all = planSidecarSet({ ...input, permit: permitFor(latest), refused: { ...refused, isGeneral: true } });
      expect([namesIn(all), trialsIn(all).length, all.trials?.more]).toEqual([[], 16, true]);
      const ofEvil = (made: typeof all) => trialsIn(made).filter(({ pod }) => pod.namespace === 'evil').length;
      expect(ofEvil(all)).toBe(8);
      const misled = new Map([['evil', { isGeneral: true, isMisled: true, triedAtMs: 7 }]]);
      const resting = planSidecarSet({
        ...{ ...input, permit: permitFor(latest) },
        refused: { ...refused, isGeneral: true, namespaces: misled, mostTrials: 30 },
      });
      expect([ofEvil(resting), trialsIn(resting).length, resting.trials?.more]).toEqual([0, 20, false]);
    });

    it('P-7: take turns in dry runs, first the namespace that had none for the longest time', () => {
      const spread = Object.fromEntries(
        ['a', 'b', 'c'].flatMap((namespace) => Object.keys(many(4, namespace)).map((name) => [name, { namespace }])),
      );
      const { input, latest } = given({ old: spread, spec });
      const namespaces = new Map(
        [3, 1, 2].map((triedAtMs, at) => [['a', 'b', 'c'][at] ?? '', { isGeneral: true, isMisled: false, triedAtMs }]),
      );
      const refused = refusedOf(latest, [], { namespaces, mostTrials: 5 });
      const plan = planSidecarSet({ ...input, permit: permitFor(latest), refused });
      expect(trialsIn(plan).map(({ pod }) => pod.namespace)).toEqual(['b', 'c', 'a', 'b', 'c']);
    });

    it.each([
      ['paused by the spec', { spec: { updateStrategy: { paused: true } } }, {}],
      ['held by an operator', { spec }, { orders: { version: 1, paused: { by: 'ann', at: '' } } }],
    ])('P-7: are not tried while it is %s', (_what, facts, more) => {
      const { latest } = given({ old: evil, ...facts });
      const orders = 'orders' in more ? { orders: { ...more.orders, revision: latest } } : {};
      const { input } = given({ old: evil, ...facts, ...orders } as never);
      const refused = refusedOf(latest, input.pods);
      expect(trialsIn(planSidecarSet({ ...input, permit: permitFor(latest), refused }))).toEqual([]);
      expect(trialsIn(planSidecarSet({ ...input, refused }))).toEqual([]);
    });

    it('P-7: are waited for only when nothing else is under way', () => {
      const { input, latest } = given({ old: { ...evil }, updated: { late: {} }, spec });
      const [late] = of(input.pods, 'shop') as [Pod];
      const restarting = { ...late, status: { ...late.status, containerStatuses: [] } };
      const refused = refusedOf(latest, of(input.pods, 'evil'));
      const pods = [restarting, ...of(input.pods, 'evil')];
      const busy = planSidecarSet({ ...input, pods, permit: permitFor(latest), refused });
      expect(busy.standing).toMatchObject({ kind: 'waiting', wait: { reason: 'NotConsistent' } });
      const unready = podWith(input.owner, 'late', { ready: false });
      const waiting = planSidecarSet({
        ...{ ...input, refused, pods: [unready, ...of(input.pods, 'evil')] },
        permit: permitFor(latest, [unready]),
      });
      expect(waiting.standing).not.toMatchObject({ wait: { reason: 'CannotUpdate' } });
      const idle = planSidecarSet({ ...input, pods: of(input.pods, 'evil'), permit: permitFor(latest), refused });
      const unblock = expect.stringContaining('Invalid: frozen');
      expect(idle.standing).toMatchObject({ wait: { reason: 'CannotUpdate', blockedCount: 8, unblock } });
    });

    it('are waited for as pods that cannot be changed where no write is possible', () => {
      const { input, latest } = given({ old: { ...many(1), ...evil }, spec });
      const [first, second] = of(input.pods, 'evil') as [Pod, Pod];
      const pods = [first, second];
      const error = { message: 'its annotations are too long', type: 'Invalid', isImpossible: true } as const;
      const known = refusedOf(latest, pods);
      const refused = { ...known, pods: new Map([...known.pods].map(([uid, one]) => [uid, { ...one, error }])) };
      const plan = planSidecarSet({ ...input, pods, refused, permit: permitFor(latest, [first]) });
      expect(plan.named?.pods.get(first.metadata.uid)).toEqual({
        state: 'notNow',
        why: 'its annotations are too long',
      });
      expect(plan.standing).toMatchObject({ kind: 'waiting', wait: { reason: 'CannotChange', blockedCount: 2 } });
      expect(namesIn(planSidecarSet({ ...input, refused, permit: permitFor(latest) }))).toHaveLength(7);
    });
  });

  it('SCS-157, SCS-226: an updated pod that is not ready takes no place any more once an operator leaves it out', () => {
    const facts = { old: many(2), updated: { lost: { namespace: 'evil', ready: false } } } as const;
    const { input, latest } = given(facts);
    const lost = input.pods.at(-1) as Pod;
    const spent = planSidecarSet({ ...input, permit: permitFor(latest, [lost]) });
    expect(spent.standing).toMatchObject({ kind: 'waiting', wait: { reason: 'BudgetSpent' } });
    const permit = permitFor(latest, [lost]);
    const { input: skipping } = given({ ...facts, orders: { version: 1, revision: latest, skip: ['evil/lost'] } });
    const plan = planSidecarSet({ ...skipping, permit });
    expect(namesIn(plan)).toHaveLength(1);
    expect(plan.named?.pods.get(lost.metadata.uid)).toEqual({ state: 'skipped' });
    const end = planSidecarSet({ ...skipping, pods: [lost], permit });
    expect(end.standing.kind).toBe('allDone');
  });

  it('SHU-35: a pod with the greatest version that there is cannot be changed, as its marks say', () => {
    const hotSet = (image: string) => aSidecarSet({ name: 'mesh', containers: [hot('mesh', image)] });
    const pod = injectedPod([hotSet('mesh:1')]);
    const last = { [`${hotMark.version}mesh-2`]: String(2n ** 63n - 1n) };
    const annotations = { ...pod.metadata.annotations, ...last };
    const end = trimPod({ ...pod, metadata: { ...pod.metadata, annotations } });
    const history = [storedRevision(hotSet('mesh:1'), 1), storedRevision(hotSet('mesh:2'), 2)];
    const input = { owner: hotSet('mesh:2'), pods: [end], history, revisionNamespace: 'kruise-system', nowMs };
    expect(chooseSidecarBatch(input)).toMatchObject({ kind: 'wait', wait: { reason: 'CannotChange' } });
    expect(chooseSidecarBatch({ ...input, pods: [trimPod(pod)] }).kind).toBe('pods');
  });

  it('P-5: is over for its roll-out once it is aborted, and is no reason for another one', () => {
    const orders = { version: 1, revision: '', aborted: { by: 'ann', at: '' } };
    const facts = { old: many(2), updated: { done: {} } };
    const { latest } = given(facts);
    const { input } = given({ ...facts, orders: { ...orders, revision: latest } });
    const plan = planSidecarSet({ ...input, permit: permitFor(latest) });
    expect(plan.standing).toEqual({ kind: 'aborted', summary: `1 of 3 pods are of revision ${latest}` });
    expect([plan.rollOut?.isWanted, plan.rollOut?.isRolledOut]).toEqual([false, false]);
    expect(planSidecarSet(input).lacksPermit).toBe(false);
    expect(statusIn(plan)?.waitingFor).toMatchObject({ reason: 'Aborted' });
  });

  it('a pod that keeps its place was named before others came ahead of it', () => {
    const { input, latest } = given({ old: many(4), spec: { updateStrategy: { partition: 3 } } });
    const last = input.pods.at(-1) as Pod;
    const plan = planSidecarSet({ ...input, permit: permitFor(latest, [last]) });
    expect(plan.disruption).toMatchObject([{ pod: { name: last.metadata.name } }]);
    expect(namesIn(plan)).toEqual([]);
  });

  it('a batch is through with a pod whose sidecars run, though the pod is not ready for other reasons', () => {
    const { input, latest } = given({ updated: { a: {}, b: { ready: false }, c: {} } });
    const pods = input.pods.map((pod, index) => {
      const containerStatuses = pod.status?.containerStatuses?.map((state) =>
        state.name === 'log' && index === 1 ? { ...state, ready: true } : state,
      );
      return { ...pod, status: { ...pod.status, ...(containerStatuses && { containerStatuses }) } };
    });
    const { named } = planSidecarSet({ ...input, pods, permit: permitFor(latest, pods) });
    expect([...(named?.pods.values() ?? [])].map(({ state }) => state)).toEqual(['done', 'done', 'done']);
    const down = planSidecarSet({ ...input, permit: permitFor(latest, input.pods) });
    expect(down.named?.pods.get('shop-b')).toEqual({ state: 'underWay', doing: 'not ready' });
  });

  it('SCS-158: a partition that is raised takes nothing back, and an image that is set back is updated at once', () => {
    const { input, latest } = given({ updated: many(4), spec: { updateStrategy: { partition: '100%' } } });
    const plan = planSidecarSet({ ...input, permit: permitFor(latest) });
    expect([plan.standing.kind, plan.rollOut?.isWanted]).toEqual(['allDone', false]);
  });

  it('SCS-227: another content redirects a roll-out', () => {
    const { input, latest } = given({ updated: many(2) });
    const third = sidecarSet('log:3');
    const plan = planSidecarSet({ ...input, owner: third, permit: permitFor(latest, input.pods) });
    expect(plan.disruption).toEqual([]);
    const revision = plan.named?.to;
    expect([latest, undefined]).not.toContain(revision);
    expect(plan.standing).toMatchObject({ kind: 'pods', revision });
    expect(plan.rollOut).toMatchObject({ isWanted: true, facts: { previous: latest } });
    expect(plan.upkeep[0]).toEqual({ kind: 'registerContent', number: 3 });
  });

  it('SCS-207: a content that is replaced before it was rolled out is marked, for whoever wants to go back to it', () => {
    const { input, latest } = given({ updated: many(2) });
    const status = { matchedPods: 3, updatedPods: 2, readyPods: 2, updatedReadyPods: 1, latestRevision: latest };
    const owner = { ...sidecarSet('log:3'), status };
    const [marked, registered] = planSidecarSet({ ...input, owner }).upkeep;
    expect(marked).toMatchObject({
      kind: 'patchRevision',
      revision: { name: latest },
      patch: { metadata: { annotations: { 'windlass.io/unfinished': '1 of 3 pods' } } },
    });
    expect(registered).toMatchObject({ kind: 'registerContent' });
    const done = { ...owner, status: { ...status, updatedPods: 3 } };
    expect(planSidecarSet({ ...input, owner: done }).upkeep[0]).toMatchObject({ kind: 'registerContent' });
  });

  it('SCS-226: an updated pod that is not ready uses up the budget until it is', () => {
    const { input, latest } = given({ old: many(2), updated: { lost: { ready: false } } });
    const plan = planSidecarSet({ ...input, permit: permitFor(latest) });
    expect(plan.standing).toMatchObject({
      kind: 'waiting',
      wait: { reason: 'BudgetSpent', blockedBy: ['pod/shop/lost'] },
    });
  });

  it('BudgetSpent, NotConsistent: ask for nothing as long as the pods were updated only just now', () => {
    const ago = (seconds: number) => new Date(nowMs - seconds * 1000).toISOString();
    const updatedAt = (pod: Pod, seconds: number): Pod => {
      const whole = JSON.parse(pod.metadata.annotations?.[hashAnnotation.whole] ?? '{}');
      const mark = { logs: { ...whole.logs, updateTimestamp: ago(seconds) } };
      const annotations = { ...pod.metadata.annotations, [hashAnnotation.whole]: JSON.stringify(mark) };
      return { ...pod, metadata: { ...pod.metadata, annotations } };
    };
    const { input, latest } = given({ old: many(2), updated: { lost: { ready: false } } });
    const at = (seconds: number) => {
      const pods = [...input.pods.slice(0, 2), updatedAt(input.pods.at(-1) as Pod, seconds)];
      const { standing, againInMs } = planSidecarSet({ ...input, pods, permit: permitFor(latest) });
      return [standing.kind === 'waiting' && [standing.wait.reason, standing.wait.unblock], againInMs];
    };
    expect(at(10)).toEqual([['BudgetSpent', nothingYet], 20_000]);
    expect(at(31)).toEqual([['BudgetSpent', sidecarSetWaits.BudgetSpent], undefined]);
    // Anybody may write the mark of a pod.
    expect(at(-3_600)).toEqual([['BudgetSpent', sidecarSetWaits.BudgetSpent], undefined]);
  });

  it('takes no more processor time for pods whose marks are as long as they can be', () => {
    const [owner, notReady] = [sidecarSet('log:2'), { ready: false }];
    const podsOf = (annotationsOf: (pod: Pod) => Readonly<Record<string, string>>) =>
      Array.from({ length: 100 }, (_, at) => {
        const { metadata, ...pod } = podWith(owner, `pod-${at}`, notReady);
        const annotations = { ...metadata.annotations, ...annotationsOf({ ...pod, metadata }) };
        return trimPod({ ...pod, metadata: { ...metadata, annotations } });
      });
    const filled = (entries: number, size: number) => (pod: Pod) => {
      const filler = Array.from({ length: entries }, (_, at) => [String(at).padStart(4, '0'), 'x'.repeat(size)]);
      const texts = [...Object.values(hashAnnotation), hotMark.working, updateStateAnnotation].map((key) => {
        const map = JSON.parse(pod.metadata.annotations?.[key] ?? '{}');
        return [key, JSON.stringify({ ...map, ...Object.fromEntries(filler) })];
      });
      return Object.fromEntries(texts);
    };
    const costOf = (pods: readonly Pod[]) => {
      const pass = () => planSidecarSet({ ...given().input, owner, pods, permit: permitFor('') });
      pass();
      const before = process.cpuUsage();
      for (let passes = 0; passes < 3; passes++) pass();
      return process.cpuUsage(before).user;
    };
    const usual = podsOf(() => ({}));
    costOf(usual);
    const limit = 5 * costOf(usual) + 20_000;
    expect(costOf(podsOf(filled(6_500, 0)))).toBeLessThan(limit);
    expect(costOf(podsOf(filled(900, 50)))).toBeLessThan(limit);
  });

  it('BudgetSpent: is no wait while the budget lets pods go', () => {
    const { input, latest } = given({ old: many(2) });
    const chosen = planSidecarSet({ ...input, permit: permitFor(latest) });
    expect(chosen.standing.kind).toBe('pods');
    expect(chosen.situation && allWaits(chosen.situation)).toEqual([]);
  });

  it('names in one batch pods of several namespaces', () => {
    const spec = { updateStrategy: { maxUnavailable: '100%' } };
    const { input } = given({ old: { a: {}, b: { namespace: 'other' } }, spec });
    const choice = chooseSidecarBatch(input);
    expect(choice.kind === 'pods' && podsOf(choice.batch).map(({ namespace, name }) => `${namespace}/${name}`)).toEqual(
      expect.arrayContaining(['shop/a', 'other/b']),
    );
  });

  it.each(['sidecarset-1-injected', 'sidecarset-2-partition-1', 'sidecarset-3-updated'])(
    'SCS-151, SCS-170, SCS-190: decides the same with what the watcher keeps of pods: %s',
    (name) => {
      const owner = recorded<SidecarSet>(`${name}-v1beta1`);
      const items = recorded<readonly Pod[]>(`${name}-pods`);
      // of a workload that is not of the suite, of which less is kept
      const owners = [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'x', uid: 'x', controller: true }];
      const pods = items.map((pod) => ({
        ...pod,
        metadata: { ...pod.metadata, ownerReferences: owners },
        spec: { ...pod.spec, readinessGates: [] },
      }));
      const revision = owner.status?.latestRevision ?? '';
      const again = { ...owner, spec: { ...owner.spec, updateStrategy: { maxUnavailable: '100%' } } };
      for (const set of [owner, again, withImage(again, 'busybox:9')]) {
        const places = (from: readonly Pod[]) =>
          classifyPods(targetOfSpec(set, revision), from, () => undefined).map(({ pod, ...rest }) => [
            pod.metadata.name,
            rest,
          ]);
        expect(places(pods.map(trimPod))).toEqual(places(pods));
        const choose = (from: readonly Pod[]) =>
          chooseSidecarBatch({ owner: set, pods: from, history: [], revisionNamespace: 'kruise-system', nowMs });
        expect(choose(pods.map(trimPod))).toEqual(choose(pods));
      }
    },
  );

  it('SCS-8: does nothing for a SidecarSet that is being deleted, and ends its roll-out', () => {
    const { input, latest } = given({ old: many(2) });
    const metadata = { ...input.owner.metadata, deletionTimestamp: '2026-01-02T00:00:00Z' };
    const plan = planSidecarSet({
      ...input,
      owner: { ...input.owner, metadata },
      permit: permitFor(latest, input.pods),
    });
    expect(plan).toMatchObject({ upkeep: [], disruption: [], standing: { kind: 'withdrawn' } });
    expect(plan.rollOut?.isWanted).toBe(false);
  });

  it('takes orders away once all pods are updated', () => {
    const { latest } = given();
    const orders = { version: 1, revision: latest, paused: { by: 'ann', at: '' } };
    const { input } = given({ updated: many(2), orders });
    const status = statusIn(planSidecarSet(input));
    expect(status?.matchedPods).toBe(2);
    expect(status?.rollOut).toBeUndefined();
    const { input: open } = given({ old: many(1), updated: many(1), orders });
    expect(statusIn(planSidecarSet(open))?.rollOut).toEqual(orders);
  });

  it('moves orders of release 0.1.0 from the annotation into the status', () => {
    const { latest, input } = given({ old: many(2) });
    const orders = { version: 1, revision: latest, paused: { by: 'ann', at: '' } };
    const annotations = { 'windlass.io/roll-out': JSON.stringify(orders) };
    const removal = { kind: 'writeOwner', patch: { metadata: { annotations: { 'windlass.io/roll-out': null } } } };
    const owner = { ...input.owner, metadata: { ...input.owner.metadata, annotations } };
    const moved = planSidecarSet({ ...input, owner });
    const status = statusIn(moved);
    expect(status?.rollOut).toEqual(orders);
    expect(moved.upkeep).not.toContainEqual(removal);
    const read = planSidecarSet({ ...input, owner: { ...owner, ...(status && { status }) } });
    expect(read.upkeep).toContainEqual(removal);
  });
});

describe('an undo of a SidecarSet', () => {
  const at = '2026-01-01T12:00:00Z';
  const undone = (more: Partial<Given> = {}) => {
    const { previous, latest } = given(more);
    const orders: RollOutOrders = { version: 1, revision: latest, undo: { by: 'ann', at, to: previous } };
    return { ...given({ orders, ...more }), permit: question };
  };

  it('gives updated pods the previous images under the same budget, and leaves old ones alone', () => {
    const { input, permit, previous, latest } = undone({ old: { a: {} }, updated: { b: {}, c: {} } });
    const plan = planSidecarSet({ ...input, permit });
    expect(plan.standing).toMatchObject({ kind: 'pods', revision: previous });
    expect(plan.named?.to).toBe(previous);
    expect(namesIn(plan)).toHaveLength(1);
    expect(['b', 'c']).toContain(namesIn(plan)[0]);
    // nobody has permitted that they become old
    expect(planSidecarSet({ ...input, permit: permitFor(latest, input.pods) }).disruption).toEqual([]);
  });

  it('ignores the partition, and says that it is over', () => {
    const spec = { updateStrategy: { partition: '100%', maxUnavailable: '100%' } };
    const { input, permit } = undone({ updated: { b: {}, c: {} }, spec });
    expect(namesIn(planSidecarSet({ ...input, permit }))).toHaveLength(2);
    const done = undone({ old: { b: {}, c: {} } });
    const plan = planSidecarSet({ ...done.input, permit: done.permit });
    expect(plan.standing.kind).toBe('allDone');
    expect(JSON.stringify(plan.upkeep)).toContain('"reason":"Undone"');
  });

  it('leaves pods alone that were created later', () => {
    const later = { createdAt: '2026-01-01T12:00:01Z' };
    const { input, permit } = undone({
      updated: { b: {}, late: later },
      spec: { updateStrategy: { maxUnavailable: 2 } },
    });
    expect(namesIn(planSidecarSet({ ...input, permit }))).toEqual(['b']);
  });

  it('keeps the revision that it returns to', () => {
    const { input, previous } = undone({ updated: { b: {} }, spec: { revisionHistoryLimit: 1 } });
    expect(planSidecarSet(input).upkeep.filter(({ kind }) => kind === 'deleteRevision')).toEqual([]);
    const { input: plain } = given({ updated: { b: {} }, spec: { revisionHistoryLimit: 1 } });
    expect(planSidecarSet(plain).upkeep).toContainEqual(
      expect.objectContaining({ kind: 'deleteRevision', revision: expect.objectContaining({ name: previous }) }),
    );
  });

  it('is refused with the field where more than images differ, and returns to the newest other content', () => {
    const env = [{ name: 'A', value: 'b' }];
    const { input, previous } = given({ spec: { containers: [{ name: 'log', image: 'log:2', env }] } });
    const { facts } = planSidecarSet(input).rollOut ?? {};
    expect(facts?.previous).toBeUndefined();
    expect(facts?.noUndo).toMatch(`spec.containers[0].env differs in revision ${previous}`);
    const same = given({ before: { containers: [{ name: 'log', image: 'log:2' }], volumes: [{ name: 'v' }] } });
    expect(planSidecarSet(same.input).rollOut?.facts).not.toHaveProperty('previous');
  });
});
