import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { Container, Pod, PodCondition } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type ControllerRevision, revisionLabels } from '../../api/fleet/revision.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import { formatState, type InPlaceState } from '../../api/in-place/state.ts';
import { type InPlaceChange, noWork } from '../../api/in-place/work.ts';
import { isInPlaceComplete } from '../../plan/fleet/in-place/completion.ts';
import {
  batchesOf,
  budgetQuestion,
  decideInPlace,
  type InPlaceBegin,
  type InPlaceStart,
  isResizeOnly,
  type PodWrite,
  type RefreshInput,
  refreshInPlace,
  startInPlace,
} from '../../plan/fleet/in-place/update.ts';
import { strategicMerge } from '../support/fake-api/strategic-merge.ts';
import { inPlacePod, inService, withPriority } from '../support/in-place-pod.ts';
import { recorded } from '../support/recorded.ts';

const gates = parseFeatureGates();
const resizing = { ...gates, InPlaceWorkloadVerticalScaling: true };
const now = '2026-07-01T08:00:00Z';
const nowMs = Date.parse(now);

const main: Container = { name: 'main', image: 'app:1' };
const side: Container = { name: 'side', image: 'side:1' };

function change(overrides: Partial<InPlaceChange>): InPlaceChange {
  return { ...noWork, updateEnvFromMetadata: false, ...overrides };
}

const toTwo = change({ images: { main: 'app:2' } });

function start(overrides: Partial<InPlaceStart> & Pick<InPlaceStart, 'pod'>): InPlaceBegin {
  return startInPlace({
    change: toTwo,
    revision: 'web-2',
    labels: revisionLabels('web-2', gates),
    graceSeconds: 0,
    nowMs,
    gates,
    canResize: true,
    ...overrides,
  });
}

function refresh(pod: Pod, overrides: Partial<RefreshInput> = {}) {
  return refreshInPlace({ pod, nowMs, gates, canResize: true, ...overrides });
}

/** The pod after these writes, as stored by the API server. */
function written(pod: Pod, writes: readonly PodWrite[]): Pod {
  const json: JsonObject = JSON.parse(JSON.stringify(pod));
  return JSON.parse(JSON.stringify(writes.reduce((object, { patch }) => strategicMerge(object, patch), json)));
}

function record(pod: Pod): Record<string, unknown> {
  return JSON.parse(pod.metadata.annotations?.[inPlaceAnnotation.state] ?? '{}');
}

function imagesOf(pod: Pod): readonly (string | undefined)[] {
  return pod.spec.containers.map(({ image }) => image);
}

function conditionOf(pod: Pod, type: string): PodCondition | undefined {
  return pod.status?.conditions?.find((condition) => condition.type === type);
}

/** The pod when its containers match the spec. */
function swapped(pod: Pod, ready = true): Pod {
  const { annotations = {}, labels = {} } = pod.metadata;
  const conditions = pod.status?.conditions ?? [];
  const statuses = Object.fromEntries(pod.spec.containers.map(({ name }) => [name, { ready }]));
  return inPlacePod(pod.spec.containers, { annotations, labels, conditions, statuses });
}

/** The pod after a report of its kubelet. */
function reported(pod: Pod, status: 'True' | 'False' = 'False'): Pod {
  const conditions = (pod.status?.conditions ?? []).map((condition) =>
    condition.type === 'Ready' ? { ...condition, status, lastTransitionTime: now } : condition,
  );
  return { ...pod, status: { ...pod.status, conditions } };
}

const outOfService: readonly PodCondition[] = inService.map((condition) => {
  if (condition.type === 'InPlaceUpdateReady')
    return { ...condition, status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime: now };
  return condition.type === 'Ready' ? { ...condition, status: 'False' } : condition;
});

const running: InPlaceState = {
  revision: 'web-2',
  updateTimestamp: now,
  updateEnvFromMetadata: false,
  updateResources: false,
  updateImages: true,
  lastContainerStatuses: { main: { imageID: 'id-of-app:0' } },
  next: noWork,
  requiredReady: [],
  batches: [{ timestamp: now, containers: ['main'] }],
};

function podWithState(containers: readonly Container[], state: InPlaceState): Pod {
  const annotations = { [inPlaceAnnotation.state]: formatState(state) };
  return inPlacePod(containers, { revision: 'web-2', annotations, conditions: outOfService });
}

describe('a real OpenKruise', () => {
  const podsOf = (phase: string) => recorded<readonly Pod[]>(`cloneset-${phase}-pods`);
  const podOf = (phase: string, name: string) => {
    const pod = podsOf(phase).find(({ metadata }) => metadata.name === name);
    if (pod === undefined) throw new Error(`no pod "${name}" was recorded`);
    return pod;
  };
  const [oldRevision, newRevision] = recorded<readonly ControllerRevision[]>('cloneset-3-updating-revisions');
  const short = { ...gates, CloneSetShortHash: true };

  it('begins an update with the same writes', () => {
    const [pod, real] = [podOf('1-created', 'web-s8g7h'), podOf('2-grace-period', 'web-s8g7h')];
    if (newRevision === undefined) throw new Error('no revision was recorded');
    const decision = decideInPlace({
      ...{ policy: 'InPlaceIfPossible', oldRevision, newRevision, pod, gates },
      recreatesForClaims: false,
    });
    if (decision.kind !== 'inPlace') throw new Error('it should be possible in place');
    const begin = start({
      pod,
      change: decision.change,
      revision: 'web-8b47cf55',
      labels: { ...revisionLabels('web-8b47cf55', short), 'lifecycle.apps.kruise.io/state': 'Updating' },
      annotations: { 'lifecycle.apps.kruise.io/timestamp': '2026-11-21T06:13:12Z' },
      graceSeconds: 8,
      nowMs: Date.parse('2026-11-21T06:13:12Z'),
    });
    expect(begin.againInMs).toBe(8_999);
    const begun = written(pod, [...(begin.drain ? [begin.drain] : []), ...begin.writes]);
    expect(begun.metadata.annotations).toEqual(real.metadata.annotations);
    expect(begun.metadata.labels).toEqual(real.metadata.labels);
    expect(begun.spec).toEqual(real.spec);
    for (const type of ['InPlaceUpdateReady', 'Ready']) {
      // The kubelet has written the time of Ready.
      const { lastTransitionTime: _, ...condition } = { ...conditionOf(real, type) };
      expect(conditionOf(begun, type)).toMatchObject(condition);
    }
    expect(conditionOf(begun, 'InPlaceUpdateReady')).toEqual(conditionOf(real, 'InPlaceUpdateReady'));
  });

  it('is waited for, and carried on, in its grace period', () => {
    const pod = podOf('2-grace-period', 'web-s8g7h');
    const real = podOf('3-updating', 'web-s8g7h');
    expect(refresh(pod, { nowMs: Date.parse('2026-11-21T06:13:15.500Z') })).toEqual({
      kind: 'wait',
      waitingFor: { reason: 'GracePeriod', containers: ['main'] },
      againInMs: 5_499,
    });

    const over = refresh(pod, { nowMs: Date.parse('2026-11-21T06:13:20.999Z') });
    if (over.kind !== 'write') throw new Error('the grace period should be over');
    const patched = written(pod, over.writes);
    expect(over.step).toBe('graceOver');
    expect(patched.metadata.annotations?.[inPlaceAnnotation.state]).toBe(
      real.metadata.annotations?.[inPlaceAnnotation.state],
    );
    expect(patched.metadata.annotations).not.toHaveProperty([inPlaceAnnotation.grace]);
    expect(patched.metadata.annotations?.team).toBe('b');
    expect(patched.spec).toEqual(real.spec);
  });

  it('is finished for, once its containers are swapped', () => {
    const done = podOf('4-updated', 'web-w952n');
    const conditions = podOf('3-updating', 'web-w952n').status?.conditions ?? [];
    const pod = { ...done, status: { ...done.status, conditions } };
    const finish = refresh(pod, { nowMs: Date.parse('2026-11-21T06:13:31Z') });
    if (finish.kind !== 'write') throw new Error('the pod should go into service');
    expect(finish.step).toBe('intoService');
    expect(conditionOf(written(pod, finish.writes), 'InPlaceUpdateReady')).toMatchObject({
      status: 'True',
      lastTransitionTime: '2026-11-21T06:13:31Z',
    });
  });

  it.each(['1-created', '4-updated'])('leaves nothing to do: %s', (phase) => {
    expect(podsOf(phase).map((pod) => refresh(pod))).toEqual([{ kind: 'none' }, { kind: 'none' }, { kind: 'none' }]);
  });
});

describe('startInPlace', () => {
  it('IPU-20, IPU-21: takes the pod out of service first, and says why', () => {
    const pod = inPlacePod([main], { statuses: { main: { image: 'app:1' } } });
    const { drain, writes } = start({ pod });
    expect(drain?.kind).toBe('status');
    expect(written(pod, drain ? [drain] : []).status?.conditions).toEqual([
      { type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime: now },
      { type: 'ContainersReady', status: 'True', lastTransitionTime: '2026-07-01T07:00:00Z' },
      {
        type: 'Ready',
        status: 'False',
        reason: 'ReadinessGatesNotReady',
        message: 'the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False',
      },
    ]);
    expect(writes.map(({ kind }) => kind)).toEqual(['pod']);
  });

  it('IPU-20: writes the condition even if it is False already', () => {
    const { drain } = start({ pod: inPlacePod([main], { conditions: outOfService }) });
    expect(drain?.patch).toMatchObject({
      status: { conditions: [{ type: 'InPlaceUpdateReady', status: 'False' }] },
    });
  });

  it('IPU-20: needs no drain without the gate', () => {
    expect(start({ pod: inPlacePod([main], { gate: false }) }).drain).toBeUndefined();
  });

  it('IPU-21: leaves Ready alone where it is absent, False, or where the containers are not ready', () => {
    const typesWritten = (conditions: readonly PodCondition[]) => {
      const patch = start({ pod: inPlacePod([main], { conditions }) }).drain?.patch.status as JsonObject;
      return (patch.conditions as readonly JsonObject[]).map(({ type }) => type);
    };
    const [gate, containers, ready] = inService as readonly [PodCondition, PodCondition, PodCondition];
    expect(typesWritten([gate, containers, ready])).toEqual(['InPlaceUpdateReady', 'Ready']);
    expect(typesWritten([gate, containers])).toEqual(['InPlaceUpdateReady']);
    expect(typesWritten([gate, ready])).toEqual(['InPlaceUpdateReady']);
    expect(typesWritten([gate, { ...containers, status: 'False' }, ready])).toEqual(['InPlaceUpdateReady']);
    expect(typesWritten([gate, containers, { ...ready, status: 'False' }])).toEqual(['InPlaceUpdateReady']);
    expect(typesWritten([])).toEqual(['InPlaceUpdateReady']);
  });

  it('IPU-22: keeps the time of a condition whose status stays', () => {
    const since = '2026-07-01T07:30:00Z';
    const conditions = [{ type: 'InPlaceUpdateReady', status: 'False', lastTransitionTime: since }];
    expect(start({ pod: inPlacePod([main], { conditions }) }).drain?.patch).toMatchObject({
      status: { conditions: [{ status: 'False', lastTransitionTime: since }] },
    });
  });

  it('IPU-23, IPU-24: writes labels, record and first batch at once', () => {
    const pod = inPlacePod([main, side], { annotations: { [inPlaceAnnotation.oldState]: '{}', other: 'stays' } });
    const { writes, againInMs } = start({
      pod,
      labels: { ...revisionLabels('web-2', gates), 'lifecycle.apps.kruise.io/state': 'Updating' },
      annotations: { 'lifecycle.apps.kruise.io/timestamp': now },
    });
    expect(againInMs).toBeUndefined();
    expect(writes).toHaveLength(1);
    const patched = written(pod, writes);
    expect(patched.metadata.labels).toMatchObject({
      'controller-revision-hash': 'web-2',
      'pod-template-hash': '2',
      'lifecycle.apps.kruise.io/state': 'Updating',
    });
    expect(patched.metadata.annotations).toEqual({
      other: 'stays',
      'lifecycle.apps.kruise.io/timestamp': now,
      [inPlaceAnnotation.state]:
        `{"revision":"web-2","updateTimestamp":"${now}",` +
        '"lastContainerStatuses":{"main":{"imageID":"id-of-app:1"}},"updateImages":true,' +
        `"containerBatchesRecord":[{"timestamp":"${now}","containers":["main"]}]}`,
    });
    expect(imagesOf(patched)).toEqual(['app:2', 'side:1']);
    // The patch contains only this container.
    expect(writes[0]?.patch.spec).toEqual({ containers: [{ name: 'main', image: 'app:2' }] });
  });

  it('IPU-25: takes the same path for metadata alone, with no container in the batch', () => {
    const pod = inPlacePod([main]);
    const metadataPatch = { metadata: { labels: { a: 'b', gone: null } } };
    const { drain, writes } = start({ pod, change: change({ metadataPatch }) });
    expect(drain).toBeDefined();
    const patched = written(pod, writes);
    expect(patched.metadata.labels).toMatchObject({ a: 'b' });
    expect(record(patched)).toMatchObject({
      lastContainerStatuses: null,
      containerBatchesRecord: [{ timestamp: now, containers: [] }],
    });
    const drained = written(patched, drain ? [drain] : []);
    expect(refresh(drained)).toMatchObject({ waitingFor: { reason: 'Draining' } });
    expect(refresh(reported(drained))).toMatchObject({ step: 'intoService' });
  });

  it('IPU-25: leaves the gate alone for metadata of a pod that is not ready', () => {
    const metadataPatch = { metadata: { labels: { a: 'b' } } };
    const pod = inPlacePod([main]);
    const conditions = [
      ...(pod.status?.conditions ?? []).filter(({ type }) => type !== 'Ready'),
      { type: 'Ready', status: 'False' },
    ];
    const unready = { ...pod, status: { ...pod.status, conditions } } as Pod;
    const drains = (what: InPlaceChange, graceSeconds = 0) =>
      start({ pod: unready, change: what, graceSeconds }).drain !== undefined;
    expect(drains(change({ metadataPatch }))).toBe(false);
    // a container is stopped, or Services get the time that was asked for
    expect(drains(change({ metadataPatch, images: { main: 'app:2' } }))).toBe(true);
    expect(drains(change({ metadataPatch }), 5)).toBe(true);
    const patched = written(unready, start({ pod: unready, change: change({ metadataPatch }) }).writes);
    expect(refresh(patched)).toEqual({ kind: 'none' });
  });

  it('IPU-15: drains for a resize only where a container restarts for what is resized', () => {
    const resize = change({ resources: { main: { limits: { cpu: '2' } } } });
    const podWith = (resourceName: string, restartPolicy: string) =>
      inPlacePod([{ ...main, resizePolicy: [{ resourceName, restartPolicy }] }]);
    const drains = (pod: Pod, what = resize) => start({ pod, change: what }).drain !== undefined;
    expect(drains(podWith('cpu', 'RestartContainer'))).toBe(true);
    expect(drains(podWith('memory', 'RestartContainer'))).toBe(false);
    expect(drains(podWith('cpu', 'NotRequired'))).toBe(false);
    expect(drains(inPlacePod([main]))).toBe(false);
    expect(drains(inPlacePod([main]), { ...resize, images: { main: 'app:2' } })).toBe(true);
    expect([resize, toTwo, change({})].map(isResizeOnly)).toEqual([true, false, false]);
  });

  it('IPU-14: resizes through the subresource before the other changes, and records the work before that', () => {
    const pod = inPlacePod([{ ...main, resources: { limits: { cpu: '1', memory: '1Gi' } } }]);
    const resize = change({
      images: { main: 'app:2' },
      resources: { main: { limits: { cpu: '2', memory: '1024Mi' } } },
    });
    const { writes } = start({ pod, change: resize, gates: resizing });
    expect(writes.map(({ kind }) => kind)).toEqual(['pod', 'resize', 'pod']);
    // Only what differs.
    expect(writes[1]?.patch).toEqual({ spec: { containers: [{ name: 'main', resources: { limits: { cpu: '2' } } }] } });
    const planned = written(pod, writes.slice(0, 1));
    expect(planned.metadata.labels).toMatchObject({ 'controller-revision-hash': 'web-2' });
    expect(record(planned)).toMatchObject({
      nextContainerImages: { main: 'app:2' },
      nextContainerResources: { main: { limits: { cpu: '2' } } },
    });
    expect(imagesOf(planned)).toEqual(['app:1']);
    const done = written(pod, writes);
    expect(imagesOf(done)).toEqual(['app:2']);
    expect(record(done)).not.toHaveProperty('nextContainerResources');
    expect(record(done)).toMatchObject({ updateImages: true, updateResources: true });
  });

  it('IPU-14: resizes with the pod where there is no subresource, and not at all where nothing differs', () => {
    const pod = inPlacePod([{ ...main, resources: { limits: { cpu: '1' } } }]);
    const to = (cpu: string, canResize: boolean) =>
      start({ pod, change: change({ resources: { main: { limits: { cpu } } } }), canResize }).writes;
    expect(to('2', false)).toHaveLength(1);
    expect(to('2', false)[0]?.patch.spec).toEqual({
      containers: [{ name: 'main', resources: { limits: { cpu: '2' } } }],
    });
    expect(to('1000m', true).map(({ kind, patch }) => [kind, patch.spec])).toEqual([['pod', undefined]]);
  });

  it('IPU-27: holds the change back for the grace period, with all that is needed to finish it', () => {
    const pod = inPlacePod([main]);
    const { writes, againInMs } = start({ pod, graceSeconds: 5 });
    const held = written(pod, writes);
    expect(againInMs).toBe(5_999);
    expect(imagesOf(held)).toEqual(['app:1']);
    expect(held.metadata.labels).toMatchObject({ 'controller-revision-hash': 'web-2' });
    expect(held.metadata.annotations).toEqual({
      [inPlaceAnnotation.state]: `{"revision":"web-2","updateTimestamp":"${now}","lastContainerStatuses":null,"updateImages":true}`,
      [inPlaceAnnotation.grace]: '{"revision":"web-2","containerImages":{"main":"app:2"},"graceSeconds":5}',
    });
    expect(start({ pod, graceSeconds: -5 }).againInMs).toBeUndefined();
  });

  it('IPU-26: takes the place of an update that is not finished, and keeps what that one has not seen done', () => {
    const unfinished = podWithState([{ ...main, image: 'app:2' }, side], {
      ...running,
      lastContainerStatuses: { main: { imageID: 'id-of-app:1' } },
      next: { ...noWork, images: { side: 'side:2' } },
      updateEnvFromMetadata: true,
    });
    const pod = { ...unfinished, status: { ...inPlacePod([main, side]).status, conditions: outOfService } };
    const { writes } = start({ pod, revision: 'web-3', change: change({ images: { side: 'side:3' } }) });
    expect(record(written(pod, writes))).toEqual({
      revision: 'web-3',
      updateTimestamp: now,
      lastContainerStatuses: { main: { imageID: 'id-of-app:1' }, side: { imageID: 'id-of-side:1' } },
      updateEnvFromMetadata: true,
      updateImages: true,
      containerBatchesRecord: [{ timestamp: now, containers: ['side'] }],
    });
  });

  it('IPU-26: begins a fresh record after an update that is finished', () => {
    const pod = podWithState([{ ...main, image: 'app:2' }, side], running);
    const { writes } = start({ pod, revision: 'web-3', change: change({ images: { side: 'side:3' } }) });
    expect(record(written(pod, writes)).lastContainerStatuses).toEqual({ side: { imageID: 'id-of-side:1' } });
  });

  it('removes a change that still waited for the end of its grace period', () => {
    const pod = inPlacePod([main], { annotations: { [inPlaceAnnotation.grace]: '{"revision":"web-1"}' } });
    expect(written(pod, start({ pod }).writes).metadata.annotations).not.toHaveProperty([inPlaceAnnotation.grace]);
  });
});

describe('the grace period', () => {
  const held = (overrides: { pod?: Pod; graceSeconds?: number } = {}) => {
    const pod = overrides.pod ?? inPlacePod([main]);
    const begin = start({ pod, graceSeconds: overrides.graceSeconds ?? 10 });
    return written(pod, [...(begin.drain ? [begin.drain] : []), ...begin.writes]);
  };

  it('IPU-27, IPU-28: is never shorter than asked for, though its start is told in whole seconds', () => {
    const waits = [0, 1, 10_998].map((ms) => refresh(held(), { nowMs: nowMs + ms }));
    expect(waits.map((wait) => wait.kind === 'wait' && wait.againInMs)).toEqual([10_999, 10_998, 1]);
    expect(isInPlaceComplete(held(), gates)).toBe(false);
  });

  it('IPU-27: ends with the first batch, in the write that removes the annotation', () => {
    const pod = held();
    const over = refresh(pod, { nowMs: nowMs + 10_999 });
    if (over.kind !== 'write') throw new Error('it should be over');
    expect(over.writes).toHaveLength(1);
    const patched = written(pod, over.writes);
    expect(imagesOf(patched)).toEqual(['app:2']);
    expect(patched.metadata.annotations).not.toHaveProperty([inPlaceAnnotation.grace]);
    expect(record(patched)).toMatchObject({
      updateTimestamp: now,
      containerBatchesRecord: [{ timestamp: '2026-07-01T08:00:10Z', containers: ['main'] }],
    });
  });

  it('IPU-27: is dropped when the pod is at another revision by then', () => {
    const pod = held();
    const moved = { ...pod, metadata: { ...pod.metadata, labels: revisionLabels('web-3', gates) } };
    const dropped = refresh(moved, { nowMs: nowMs + 60_000 });
    expect(dropped).toEqual({
      kind: 'write',
      step: 'graceDropped',
      writes: [{ kind: 'pod', patch: { metadata: { annotations: { [inPlaceAnnotation.grace]: null } } } }],
    });
  });

  it('IPU-28: is an error without the record of an update', () => {
    const pod = inPlacePod([main], { annotations: { [inPlaceAnnotation.grace]: '{"revision":"web-2"}' } });
    expect(refresh(pod)).toEqual({
      kind: 'broken',
      message: 'Cannot end the grace period of pod "shop/web-1": it has no record of an update',
    });
  });

  it('IPU-29: lasts as long as it was when it began', () => {
    expect(refresh(held({ graceSeconds: 3 }), { nowMs: nowMs + 3_999 })).toMatchObject({ step: 'graceOver' });
  });
});

describe('batches', () => {
  const [low, high, free]: readonly Container[] = [
    withPriority({ name: 'low', image: 'low:1' }, 1),
    withPriority({ name: 'high', image: 'high:1' }, 5),
    { name: 'free', image: 'free:1' },
  ] as const;
  const containers = [low, high, free].filter((container) => container !== undefined);
  const all = { images: { low: 'low:2', high: 'high:2', free: 'free:2' } };

  it('IPU-30: come by priority, with all that have none in the first', () => {
    const pod = inPlacePod(containers);
    expect(batchesOf(pod, change(all))).toEqual([['high', 'free'], ['low']]);
    expect(batchesOf(pod, change({ images: { low: 'low:2', free: 'free:2' } }))).toEqual([['low', 'free']]);
    expect(batchesOf(pod, change({}))).toEqual([]);
  });

  it('IPU-30: are joined by keys that change, from one container to the next', () => {
    const key = (name: string) => ({ labels: { [name]: 'new' } });
    const both = { labels: { a: 'new', b: 'new' } };
    const pod = inPlacePod([
      withPriority({ name: 'x', image: 'x' }, 3),
      withPriority({ name: 'y', image: 'y' }, 2),
      withPriority({ name: 'z', image: 'z' }, 1),
    ]);
    expect(batchesOf(pod, change({ refMetadata: { x: key('a'), y: key('b'), z: key('c') } }))).toEqual([
      ['x'],
      ['y'],
      ['z'],
    ]);
    expect(batchesOf(pod, change({ refMetadata: { x: key('a'), y: both, z: key('b') } }))).toEqual([['x', 'y', 'z']]);
  });

  it('IPU-31: leave the rest for later, and say who has to be ready first', () => {
    const pod = inPlacePod(containers);
    const metadataPatch = { metadata: { annotations: { plain: 'x' } } };
    const refMetadata = { low: { labels: { team: 'b' } } };
    const patched = written(pod, start({ pod, change: change({ ...all, refMetadata, metadataPatch }) }).writes);
    expect(imagesOf(patched)).toEqual(['low:1', 'high:2', 'free:2']);
    expect(patched.metadata.annotations?.plain).toBe('x');
    expect(patched.metadata.labels).not.toHaveProperty('team');
    expect(record(patched)).toMatchObject({
      lastContainerStatuses: { free: { imageID: 'id-of-free:1' }, high: { imageID: 'id-of-high:1' } },
      nextContainerImages: { low: 'low:2' },
      nextContainerRefMetadata: { low: { creationTimestamp: null, labels: { team: 'b' } } },
      preCheckBeforeNext: { containersRequiredReady: ['free', 'high'] },
      containerBatchesRecord: [{ timestamp: now, containers: ['free', 'high'] }],
    });
  });

  it('IPU-32, IPU-33: wait until the one before is swapped and ready, however long that takes', () => {
    const pod = inPlacePod(containers, { conditions: outOfService });
    const first = written(pod, start({ pod, change: change(all) }).writes);
    const later = { nowMs: nowMs + 3_600_000 };
    expect(refresh(first, later)).toEqual({
      kind: 'wait',
      waitingFor: { reason: 'ImageNotSwapped', containers: ['free', 'high'] },
    });
    expect(refresh(swapped(first, false), later)).toEqual({
      kind: 'wait',
      waitingFor: { reason: 'BatchNotReady', containers: ['free', 'high'] },
    });

    const next = refresh(swapped(first), later);
    if (next.kind !== 'write') throw new Error('the next batch should be due');
    const second = written(swapped(first), next.writes);
    expect(next.step).toBe('nextBatch');
    expect(imagesOf(second)).toEqual(['low:2', 'high:2', 'free:2']);
    expect(record(second)).toEqual({
      revision: 'web-2',
      updateTimestamp: now,
      lastContainerStatuses: {
        free: { imageID: 'id-of-free:1' },
        high: { imageID: 'id-of-high:1' },
        low: { imageID: 'id-of-low:1' },
      },
      updateImages: true,
      containerBatchesRecord: [
        { timestamp: now, containers: ['free', 'high'] },
        { timestamp: '2026-07-01T09:00:00Z', containers: ['low'] },
      ],
    });
    expect(refresh(second)).toMatchObject({ waitingFor: { reason: 'ImageNotSwapped' } });
    expect(refresh(swapped(second))).toMatchObject({ step: 'intoService' });
  });

  it('IPU-34: are one when all priorities are equal', () => {
    const equal = ['a', 'b'].map((name) => withPriority({ name, image: name }, 0));
    expect(batchesOf(inPlacePod(equal), change({ images: { a: 'a:2', b: 'b:2' } }))).toEqual([['a', 'b']]);
  });

  it('are sent also when there is nothing in them but a resize', () => {
    const next = { ...noWork, resources: { main: { limits: { cpu: '2' } } } };
    const state = { ...running, next, requiredReady: [], updateResources: true };
    const pod = podWithState([{ ...main, image: 'app:1', resources: { limits: { cpu: '1' } } }], state);
    const refreshed = refresh(pod, { gates: resizing });
    if (refreshed.kind !== 'write') throw new Error('the batch should be due');
    expect(refreshed.writes.map(({ kind }) => kind)).toEqual(['resize', 'pod']);
    expect(record(written(pod, refreshed.writes))).not.toHaveProperty('nextContainerResources');
  });

  it('do not wait for a container that the pod does not have', () => {
    const pod = inPlacePod([main]);
    const patched = written(
      pod,
      start({ pod, change: change({ images: { main: 'app:2', ghost: 'ghost:2' } }) }).writes,
    );
    expect(patched.spec.containers.map(({ name }) => name)).toEqual(['main']);
    expect(record(patched)).toMatchObject({ containerBatchesRecord: [{ containers: ['main'] }] });
  });
});

describe('refreshInPlace', () => {
  it('IPU-40: waits while a container is not swapped, and then puts the pod into service', () => {
    const state = { ...running, lastContainerStatuses: { main: { imageID: 'id-of-app:1' } } };
    const pod = podWithState([{ ...main, image: 'app:2' }], state);
    const old = { ...pod, status: { ...inPlacePod([main]).status, conditions: outOfService } };
    expect(refresh(old)).toEqual({
      kind: 'wait',
      waitingFor: { reason: 'ImageNotSwapped', containers: ['main'] },
    });

    const done = refresh(pod, { nowMs: nowMs + 1_000 });
    if (done.kind !== 'write') throw new Error('the pod should go into service');
    expect(done.writes.map(({ kind }) => kind)).toEqual(['status']);
    const ready = written(pod, done.writes);
    expect(conditionOf(ready, 'InPlaceUpdateReady')).toEqual({
      type: 'InPlaceUpdateReady',
      status: 'True',
      lastTransitionTime: '2026-07-01T08:00:01Z',
    });
    expect(refresh(ready)).toEqual({ kind: 'none' });
  });

  it('IPU-40: clears a reason that was left beside True, without a new time', () => {
    const conditions = [{ type: 'InPlaceUpdateReady', status: 'True', reason: 'Old', lastTransitionTime: 'then' }];
    const refreshed = refresh(inPlacePod([main], { conditions }));
    expect(refreshed).toMatchObject({
      step: 'intoService',
      writes: [{ patch: { status: { conditions: [{ status: 'True', reason: null, lastTransitionTime: 'then' }] } } }],
    });
  });

  it('leaves a pod out of service for a while after a drain of which nothing is on record', () => {
    const drained = (containers: readonly Container[], state?: InPlaceState) => {
      const pod = state ? podWithState(containers, state) : inPlacePod(containers, { conditions: outOfService });
      return [0, 20_000, 30_000].map((ms) => refresh(pod, { nowMs: nowMs + ms }));
    };
    const waits = [
      { kind: 'wait', waitingFor: { reason: 'Draining', containers: [] }, againInMs: 30_000 },
      { kind: 'wait', waitingFor: { reason: 'Draining', containers: [] }, againInMs: 10_000 },
      expect.objectContaining({ step: 'intoService' }),
    ];
    expect(drained([main])).toEqual(waits);
    const before = { ...running, updateTimestamp: '2026-07-01T07:59:00Z' };
    expect(drained([{ ...main, image: 'app:2' }], before)).toEqual(waits);
    const [atOnce] = drained([{ ...main, image: 'app:2' }], running);
    expect(atOnce).toMatchObject({ step: 'intoService' });
  });

  it('IPU-40: waits for a kubelet that has yet to see that the pod is out of service, but not for ever', () => {
    const conditions = outOfService.map((condition) => ({
      ...condition,
      ...(condition.type === 'Ready' && { status: 'True' }),
    }));
    const pod = { ...podWithState([{ ...main, image: 'app:2' }], running) };
    const behind = { ...pod, status: { ...pod.status, conditions } };
    expect(refresh(behind)).toMatchObject({ waitingFor: { reason: 'Draining' }, againInMs: 30_000 });
    expect(refresh(behind, { nowMs: nowMs + 30_000 })).toMatchObject({ step: 'intoService' });
    expect(refresh(pod)).toMatchObject({ step: 'intoService' });
  });

  it('IPU-21, IPU-40: takes a Ready that was written with the gate for no answer of the kubelet', () => {
    const pod = inPlacePod([main]);
    const { drain, writes } = start({ pod, change: change({ metadataPatch: { metadata: { labels: { a: 'b' } } } }) });
    const drained = written(pod, [...(drain ? [drain] : []), ...writes]);
    const ready = drained.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready).toMatchObject({ status: 'False', reason: 'ReadinessGatesNotReady' });
    expect(refresh(drained)).toEqual({
      kind: 'wait',
      waitingFor: { reason: 'Draining', containers: [] },
      againInMs: 30_000,
    });
    // late, the kubelet restores what it last reported
    expect(refresh(reported(drained, 'True'))).toMatchObject({ waitingFor: { reason: 'Draining' } });
    expect(refresh(reported(drained))).toMatchObject({ step: 'intoService' });
    expect(refresh(drained, { nowMs: nowMs + 30_000 })).toMatchObject({ step: 'intoService' });
  });

  it('does not wait for ever after a drain whose time is in the future', () => {
    const pod = inPlacePod([main], { conditions: outOfService });
    expect(refresh(pod, { nowMs: nowMs - 3_600_000 })).toMatchObject({ againInMs: 30_000 });
  });

  it('IPU-40a: puts a pod into service that was never updated, if it has the gate', () => {
    expect(refresh(inPlacePod([main], { conditions: [] }))).toMatchObject({ kind: 'write', step: 'intoService' });
    expect(refresh(inPlacePod([main], { conditions: [], gate: false }))).toEqual({ kind: 'none' });
    expect(refresh(inPlacePod([main]))).toEqual({ kind: 'none' });
  });

  it('IPU-21: never writes Ready when it opens the gate', () => {
    const pod = inPlacePod([main], { conditions: outOfService });
    expect(refresh(pod, { nowMs: nowMs + 60_000 })).toMatchObject({
      writes: [{ patch: { status: { conditions: [expect.objectContaining({ type: 'InPlaceUpdateReady' })] } } }],
    });
  });

  it.each([inPlaceAnnotation.state, inPlaceAnnotation.grace])('stops at an annotation nobody can read: %s', (key) => {
    expect(refresh(inPlacePod([main], { annotations: { [key]: '{' } }))).toEqual({
      kind: 'broken',
      message: `Cannot continue the update of pod "shop/web-1": annotation "${key}" cannot be read`,
    });
  });

  it('IPU-51: ignores a restart by another cause', () => {
    const pod = podWithState([{ ...main, image: 'app:2' }], running);
    const restarted = {
      ...pod,
      status: {
        ...pod.status,
        containerStatuses:
          pod.status?.containerStatuses?.map((s) => ({ ...s, restartCount: 7, containerID: 'containerd://other' })) ??
          [],
      },
    };
    expect(refresh(restarted)).toMatchObject({ step: 'intoService' });
  });
});

describe('budgetQuestion', () => {
  it('IPU-60: asks for an update as the manager, where the gate is on', () => {
    expect(budgetQuestion(gates)).toBeUndefined();
    expect(budgetQuestion({ PodUnavailableBudgetUpdateGate: true })).toEqual({
      operation: 'UPDATE',
      user: 'kruise-manager',
    });
  });
});
