import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { fromBase64, toBase64 } from '../../api/base/base64.ts';
import { launchPriority } from '../../api/container-launch-priority.ts';
import type { Container, ContainerStatus, EnvVar, Pod } from '../../api/core/pod.ts';
import { hasResizeSubresource, sameResources } from '../../api/core/resources.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import {
  containersMetaOf,
  formatContainersMeta,
  parseContainersMeta,
  plainHash,
  wholePlainHash,
} from '../../api/in-place/containers-meta.ts';
import { envHash, envReferences, expectedEnvHash, startedEnvHash } from '../../api/in-place/env-hash.ts';
import { formatGrace, graceOf, isInGrace, parseGrace } from '../../api/in-place/grace.ts';
import { formatState, type InPlaceState, parseState, stateOf } from '../../api/in-place/state.ts';
import { isInPlaceComplete, unfinishedContainers } from '../../plan/fleet/in-place/completion.ts';
import { aPod } from '../support/objects/pod.ts';
import { recorded } from '../support/recorded.ts';

const gates = parseFeatureGates();
const resizing = { ...gates, InPlaceWorkloadVerticalScaling: true };
const phases = ['1-created', '2-grace-period', '3-updating', '4-updated'] as const;
const pods = phases.flatMap((phase) => recorded<readonly Pod[]>(`cloneset-${phase}-pods`));

/** The texts of one annotation on all recorded pods that have it. */
function textsOf(key: string): readonly string[] {
  return pods.flatMap(({ metadata }) => metadata.annotations?.[key] ?? []);
}

function fromField(name: string, fieldPath: string, value?: string): EnvVar {
  return { name, valueFrom: { fieldRef: { fieldPath } }, ...(value !== undefined && { value }) };
}

const blank: InPlaceState = {
  revision: 'web-2',
  updateTimestamp: '2026-07-01T08:00:00Z',
  updateEnvFromMetadata: false,
  updateResources: false,
  updateImages: false,
  next: { images: {}, refMetadata: {}, resources: {} },
  requiredReady: [],
  batches: [],
};

describe('the annotations of a real OpenKruise', () => {
  it('are read and written letter by letter: the record of an update', () => {
    const texts = textsOf(inPlaceAnnotation.state);
    expect(texts).toHaveLength(6);
    expect(texts.map((text) => formatState(parseState(text) ?? blank))).toEqual(texts);
  });

  it('are read and written letter by letter: a change in its grace period', () => {
    const texts = textsOf(inPlaceAnnotation.grace);
    expect(texts).toHaveLength(2);
    for (const text of texts) {
      const grace = parseGrace(text);
      expect(grace && formatGrace(grace)).toBe(text);
    }
  });

  it('are read and written letter by letter: the report of the daemon', () => {
    const texts = textsOf(inPlaceAnnotation.containersMeta);
    expect(texts).toHaveLength(12);
    expect(texts.map((text) => formatContainersMeta(parseContainersMeta(text) ?? []))).toEqual(texts);
  });

  it('hold the hashes that follow from the pods, wherever pod and report are of the same time', () => {
    for (const pod of pods.filter((candidate) => !isInGrace(candidate))) {
      for (const container of pod.spec.containers) {
        const meta = containersMetaOf(pod)?.find(({ name }) => name === container.name);
        expect(meta?.plainHash).toBe(plainHash(container));
        expect(meta?.envHash).toBe(expectedEnvHash(container, pod.metadata));
      }
    }
  });

  it('say that created and updated pods are complete, and those in their grace period are not', () => {
    const complete = pods.map((pod) => isInPlaceComplete(pod, gates));
    expect(complete).toEqual(pods.map((pod) => !isInGrace(pod)));
    expect(pods.filter(isInGrace)).toHaveLength(2);
  });
});

describe('formatState', () => {
  it('writes every key in its place', () => {
    const state: InPlaceState = {
      ...blank,
      revision: 'demo-6b8c7bd9f5',
      lastContainerStatuses: { main: { imageID: 'docker.io/library/nginx@sha256:1' } },
      updateEnvFromMetadata: true,
      updateResources: true,
      updateImages: true,
      next: {
        images: { sidecar: 'sidecar:v2' },
        refMetadata: { sidecar: { annotations: { a: '<b>' }, labels: { k: 'v', 9: 'x', 10: 'y' } } },
        resources: { sidecar: { requests: { cpu: '1' }, limits: { cpu: '2' } } },
      },
      requiredReady: ['main'],
      batches: [
        { timestamp: '2026-07-01T08:00:00Z', containers: ['main'] },
        { timestamp: '2026-07-01T08:01:00Z', containers: [] },
      ],
    };
    const text =
      '{"revision":"demo-6b8c7bd9f5","updateTimestamp":"2026-07-01T08:00:00Z",' +
      '"lastContainerStatuses":{"main":{"imageID":"docker.io/library/nginx@sha256:1"}},' +
      '"updateEnvFromMetadata":true,"updateResources":true,"updateImages":true,' +
      '"nextContainerImages":{"sidecar":"sidecar:v2"},' +
      '"nextContainerRefMetadata":{"sidecar":{"creationTimestamp":null,' +
      '"labels":{"10":"y","9":"x","k":"v"},"annotations":{"a":"\\u003cb\\u003e"}}},' +
      '"nextContainerResources":{"sidecar":{"limits":{"cpu":"2"},"requests":{"cpu":"1"}}},' +
      '"preCheckBeforeNext":{"containersRequiredReady":["main"]},' +
      '"containerBatchesRecord":[{"timestamp":"2026-07-01T08:00:00Z","containers":["main"]},' +
      '{"timestamp":"2026-07-01T08:01:00Z","containers":[]}]}';
    expect(formatState(state)).toBe(text);
    expect(parseState(text)).toEqual(state);
  });

  it('leaves out what is empty, but for the statuses of old', () => {
    expect(formatState(blank)).toBe(
      '{"revision":"web-2","updateTimestamp":"2026-07-01T08:00:00Z","lastContainerStatuses":null}',
    );
  });
});

describe('formatGrace', () => {
  it('writes every key in its place, the patch in base64', () => {
    const change = {
      images: { main: 'nginx:1.27' },
      refMetadata: { main: { annotations: { a: 'b' } } },
      resources: { main: { limits: { cpu: '2' } } },
      metadataPatch: { metadata: { annotations: { a: 'b' } } },
      updateEnvFromMetadata: true,
    };
    const text =
      '{"revision":"demo-6b8c7bd9f5","containerImages":{"main":"nginx:1.27"},' +
      '"containerRefMetadata":{"main":{"creationTimestamp":null,"annotations":{"a":"b"}}},' +
      '"containerResources":{"main":{"limits":{"cpu":"2"}}},' +
      '"metaDataPatch":"eyJtZXRhZGF0YSI6eyJhbm5vdGF0aW9ucyI6eyJhIjoiYiJ9fX0=",' +
      '"updateEnvFromMetadata":true,"graceSeconds":10}';
    const grace = { revision: 'demo-6b8c7bd9f5', change, graceSeconds: 10 };
    expect(formatGrace(grace)).toBe(text);
    expect(parseGrace(text)).toEqual(grace);
  });

  it('leaves out what is empty, but keeps an empty patch apart from none', () => {
    const none = { images: {}, refMetadata: {}, resources: {}, updateEnvFromMetadata: false };
    expect(formatGrace({ revision: 'r', change: none, graceSeconds: 0 })).toBe('{"revision":"r"}');
    expect(formatGrace({ revision: 'r', change: { ...none, metadataPatch: {} }, graceSeconds: 0 })).toBe(
      '{"revision":"r","metaDataPatch":"e30="}',
    );
  });
});

describe('reading annotations', () => {
  const withAnnotations = (annotations: Record<string, string>): Pod => podWith([], { annotations });

  it('tells an absent one from one that nobody can read', () => {
    expect(stateOf(withAnnotations({}))).toEqual({ kind: 'absent' });
    for (const text of ['', '{', '[]', 'null', '"x"']) {
      expect(stateOf(withAnnotations({ [inPlaceAnnotation.state]: text }))).toEqual({ kind: 'unreadable' });
      expect(graceOf(withAnnotations({ [inPlaceAnnotation.grace]: text }))).toEqual({ kind: 'unreadable' });
    }
    const badPatch = '{"revision":"r","metaDataPatch":"%"}';
    expect(graceOf(withAnnotations({ [inPlaceAnnotation.grace]: badPatch }))).toEqual({ kind: 'unreadable' });
  });

  it('takes the keys of old only where the new ones are absent', () => {
    const [old, now] = [formatState({ ...blank, revision: 'old' }), formatState({ ...blank, revision: 'now' })];
    expect(stateOf(withAnnotations({ [inPlaceAnnotation.oldState]: old }))).toMatchObject({
      value: { revision: 'old' },
    });
    const both = { [inPlaceAnnotation.oldState]: old, [inPlaceAnnotation.state]: now };
    expect(stateOf(withAnnotations(both))).toMatchObject({ value: { revision: 'now' } });
    expect(isInGrace(withAnnotations({ [inPlaceAnnotation.oldGrace]: '{"revision":"r"}' }))).toBe(true);
  });

  it('takes values of another type than they should be for absent', () => {
    const text = '{"revision":1,"lastContainerStatuses":[],"updateImages":"yes","nextContainerImages":{"a":1,"b":"c"}}';
    expect(parseState(text)).toMatchObject({
      revision: '',
      updateImages: false,
      next: { images: { b: 'c' } },
    });
  });

  it('ND-26: takes a report that nobody can read for none', () => {
    expect(containersMetaOf(withAnnotations({ [inPlaceAnnotation.containersMeta]: '{' }))).toBeUndefined();
  });

  it('reads back every record that it writes', () => {
    const map = <Value>(value: fc.Arbitrary<Value>) => fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), value);
    const filled = (value: string) =>
      fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), fc.constant(value), { minKeys: 1 });
    const amounts = fc.record({ limits: filled('1'), requests: filled('2Gi') }, { requiredKeys: [] });
    const ref = fc.record({ labels: filled('a<b'), annotations: filled('') }, { requiredKeys: [] });
    const work = fc.record({ images: map(fc.string()), refMetadata: map(ref), resources: map(amounts) });
    const state: fc.Arbitrary<InPlaceState> = fc.record({
      revision: fc.string(),
      updateTimestamp: fc.string(),
      updateEnvFromMetadata: fc.boolean(),
      updateResources: fc.boolean(),
      updateImages: fc.boolean(),
      next: work,
      requiredReady: fc.array(fc.string()),
      batches: fc.array(fc.record({ timestamp: fc.string(), containers: fc.array(fc.string()) })),
    });
    fc.assert(fc.property(state, (value) => expect(parseState(formatState(value))).toEqual(value)));
  });
});

describe('base64', () => {
  it('is the standard encoding', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(toBase64(text)).toBe(Buffer.from(text).toString('base64'));
        expect(fromBase64(toBase64(text))).toBe(text);
      }),
    );
    expect(['a', '====', 'a%==', 'ab=c'].map(fromBase64)).toEqual([undefined, undefined, undefined, undefined]);
  });
});

describe('hashes', () => {
  it('have the known values for known contents', () => {
    expect(plainHash({ name: 'main', image: 'nginx:1.25' })).toBe(436018172);
    expect(envHash([])).toBe(86995377);
    expect(envHash([{ name: 'APP_CONFIG', value: 'v2' }])).toBe(984755435);
  });

  it('of environment do not depend on order, and leave out what is empty', () => {
    const two = [
      { name: 'B', value: '' },
      { name: 'A', value: 'a' },
    ];
    expect(envHash(two)).toBe(envHash(two.toReversed()));
    expect(envHash([{ name: 'A', value: '' }])).not.toBe(envHash([]));
  });

  it('of the kubelet up to 1.30 cover the whole container, in the form of a Go program', () => {
    const container: Container = { name: 'main', image: 'nginx:1.25', env: [{ name: 'A', value: '' }] };
    const text = '{"name":"main","image":"nginx:1.25","env":[{"name":"A"}],"resources":{}}';
    const sameContents: Container = JSON.parse(text);
    expect(wholePlainHash(container)).toBe(wholePlainHash(sameContents));
    expect(wholePlainHash({ ...container, env: [{ name: 'A', value: 'a' }] })).not.toBe(wholePlainHash(container));
  });
});

describe('envReferences', () => {
  it('IPU-11: finds what a container takes from labels and annotations, and nothing else', () => {
    const env = [
      fromField('TEAM', "metadata.annotations['example.com/team']"),
      fromField('APP', "metadata.labels['app']"),
      fromField('QUOTE', "metadata.labels['it's']"),
      fromField('SET', "metadata.labels['app']", 'has a value'),
      fromField('EMPTY', "metadata.labels['app']", ''),
      fromField('NAME', 'metadata.name'),
      fromField('ALL', 'metadata.labels'),
      fromField('SIDECARSET_VERSION', "metadata.annotations['v']"),
      fromField('SIDECARSET_VERSION_ALT', "metadata.annotations['v']"),
      { name: 'PLAIN', value: 'x' },
    ];
    expect(envReferences({ env })).toEqual([
      { env: 'TEAM', from: 'annotations', key: 'example.com/team' },
      { env: 'APP', from: 'labels', key: 'app' },
      { env: 'QUOTE', from: 'labels', key: "it's" },
      { env: 'EMPTY', from: 'labels', key: 'app' },
    ]);
    expect(envReferences({})).toEqual([]);
  });

  it('has an empty value for a label that is not there', () => {
    const env = [fromField('APP', "metadata.labels['app']")];
    expect(expectedEnvHash({ env }, { labels: {} })).toBe(envHash([{ name: 'APP', value: '' }]));
    expect(expectedEnvHash({ env }, { labels: { app: 'a' } })).toBe(envHash([{ name: 'APP', value: 'a' }]));
  });

  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])(
    'L1: has an empty value for a label called %s that is not there',
    (key) => {
      const env = [fromField('APP', `metadata.labels['${key}']`)];
      const empty = envHash([{ name: 'APP', value: '' }]);
      expect(expectedEnvHash({ env }, { labels: { app: 'a' } })).toBe(empty);
      expect(startedEnvHash({ env }, { labels: { app: 'a' } }, new Map([['APP', '']]))).toBe(empty);
    },
  );
});

describe('launchPriority', () => {
  const barrier = (key: string) => ({
    env: [{ name: 'KRUISE_CONTAINER_BARRIER', valueFrom: { configMapKeyRef: { name: 'web-barrier', key } } }],
  });

  it('is what the key of the barrier says', () => {
    expect(['p_3', 'p_-2', 'p_0', 'p_x', 'else'].map((key) => launchPriority(barrier(key)))).toEqual([3, -2, 0, 0, 0]);
  });

  it('IPU-34: is absent where nothing is ordered', () => {
    expect(launchPriority({})).toBeUndefined();
    expect(launchPriority({ env: [{ name: 'KRUISE_CONTAINER_PRIORITY', value: '3' }] })).toBeUndefined();
  });
});

describe('hasResizeSubresource', () => {
  it('IPU-14: begins with 1.32, whatever vendors append', () => {
    const with132 = ['v1.32.0', 'v1.34.4+gke.1', 'v1.33.1-eks-abc', '1.32', 'v2.0.0'].map(hasResizeSubresource);
    expect(with132).toEqual([true, true, true, true, true]);
    const without = ['v1.31.9', 'v1.31.2+gke.1', 'v1.4.0', '', 'latest'].map(hasResizeSubresource);
    expect(without).toEqual([false, false, false, false, false]);
  });
});

describe('sameResources', () => {
  it('compares amounts, and takes no others than those', () => {
    expect(sameResources({ limits: { cpu: '1' } }, { limits: { cpu: '1000m' }, requests: {} })).toBe(true);
    expect(sameResources(undefined, {})).toBe(true);
    expect(sameResources({ limits: { cpu: '1' } }, { limits: { cpu: '2' } })).toBe(false);
    expect(sameResources({}, { limits: { cpu: '2' } })).toBe(false);
    expect(sameResources({}, undefined)).toBe(false);
  });
});

/** A pod whose containers have these statuses, by name. */
function podWith(
  containers: readonly Container[],
  {
    annotations = {},
    statuses = [],
    generation,
    observedGeneration,
  }: {
    readonly annotations?: Readonly<Record<string, string>>;
    readonly statuses?: readonly Partial<ContainerStatus>[];
    readonly generation?: number;
    readonly observedGeneration?: number;
  } = {},
): Pod {
  const containerStatuses = statuses.map((status, index) => ({
    name: containers[index]?.name ?? '',
    ready: true,
    restartCount: 0,
    ...status,
  }));
  return aPod({
    metadata: { name: 'web-1', annotations, labels: { team: 'a' }, ...(generation !== undefined && { generation }) },
    spec: { containers },
    status: { containerStatuses, ...(observedGeneration !== undefined && { observedGeneration }) },
  });
}

function reportOf(...entries: readonly { name: string; id: string; plainHash?: number; envHash?: number }[]) {
  const meta = entries.map(({ name, id, plainHash: hash = 1, envHash: env = 0 }) => ({
    name,
    containerID: id,
    restartCount: 0,
    plainHash: hash,
    envHash: env,
  }));
  return { [inPlaceAnnotation.containersMeta]: formatContainersMeta(meta) };
}

describe('unfinishedContainers', () => {
  const main: Container = { name: 'main', image: 'app:2' };
  const side: Container = { name: 'side', image: 'side:1' };
  const swapping: InPlaceState = { ...blank, updateImages: true, lastContainerStatuses: { main: { imageID: 'id-1' } } };
  const reads: Container = { name: 'main', image: 'app:2', env: [fromField('TEAM', "metadata.labels['team']")] };
  const refreshing: InPlaceState = { ...blank, updateEnvFromMetadata: true };
  const fresh = expectedEnvHash(reads, { labels: { team: 'a' } });

  it.each([
    ['the ID of the image is another one', { imageID: 'id-2', image: 'x' }, undefined],
    ['the status names the image of the spec', { imageID: 'id-1', image: 'app:2' }, undefined],
    ['the status names it in full', { imageID: 'id-1', image: 'docker.io/library/app:2' }, undefined],
    ['nothing has changed', { imageID: 'id-1', image: 'app:1' }, { reason: 'ImageNotSwapped', containers: ['main'] }],
  ])('IPU-38: judges by the status where nothing is reported: %s', (_, status, expected) => {
    expect(unfinishedContainers(podWith([main], { statuses: [status] }), swapping, gates)).toEqual(expected);
  });

  it('IPU-38: waits for a status that is not there', () => {
    expect(unfinishedContainers(podWith([main]), swapping, gates)).toEqual({
      reason: 'ImageNotSwapped',
      containers: ['main'],
    });
  });

  it('IPU-37: takes hashes for better than image IDs, in either variant', () => {
    const statuses = [{ containerID: 'c://1', imageID: 'id-1', image: 'app:1' }];
    for (const hash of [plainHash(main), wholePlainHash(main) ?? 0]) {
      const annotations = reportOf({ name: 'main', id: 'c://1', plainHash: hash });
      expect(unfinishedContainers(podWith([main], { annotations, statuses }), swapping, gates)).toBeUndefined();
    }
  });

  it('IPU-37: does not take the hash of another instance', () => {
    const statuses = [{ containerID: 'c://2', imageID: 'id-1', image: 'app:1' }];
    const annotations = reportOf({ name: 'main', id: 'c://1', plainHash: plainHash(main) });
    expect(unfinishedContainers(podWith([main], { annotations, statuses }), swapping, gates)).toMatchObject({
      reason: 'ImageNotSwapped',
    });
  });

  it('does not accept the image of an update that was superseded', () => {
    // The image ID is no longer the recorded one, but the hash proves that neither image is running.
    const statuses = [{ containerID: 'c://1', imageID: 'id-1b', image: 'docker.io/library/app:1b' }];
    const annotations = reportOf({
      name: 'main',
      id: 'c://1',
      plainHash: plainHash({ name: 'main', image: 'app:1b' }),
    });
    expect(unfinishedContainers(podWith([main], { annotations, statuses }), swapping, gates)).toMatchObject({
      reason: 'ImageNotSwapped',
    });
  });

  it('IPU-38: falls back to image IDs when a hash says nothing', () => {
    const statuses = [{ containerID: 'c://1', imageID: 'id-2', image: 'app:2' }];
    const annotations = reportOf({ name: 'main', id: 'c://1', plainHash: 7 });
    expect(unfinishedContainers(podWith([main], { annotations, statuses }), swapping, gates)).toBeUndefined();
  });

  it('IPU-35: waits for a report about every instance when environment has changed', () => {
    const statuses = [{ containerID: 'c://2' }, { containerID: 'c://s' }];
    const about = (annotations: Record<string, string>) =>
      unfinishedContainers(podWith([reads, side], { annotations, statuses }), refreshing, gates);
    expect(about({})).toEqual({ reason: 'NotReported', containers: ['main', 'side'] });
    const old = reportOf({ name: 'main', id: 'c://1', envHash: fresh }, { name: 'side', id: 'c://s' });
    expect(about(old)).toEqual({ reason: 'NotReported', containers: ['main'] });
  });

  it('IPU-35: waits until every container was started with the metadata of now', () => {
    const statuses = [{ containerID: 'c://2' }, { containerID: 'c://s' }];
    const about = (ofMain: number, ofSide: number) => {
      const annotations = reportOf(
        { name: 'main', id: 'c://2', envHash: ofMain },
        { name: 'side', id: 'c://s', envHash: ofSide },
      );
      return unfinishedContainers(podWith([reads, side], { annotations, statuses }), refreshing, gates);
    };
    const stale = 'EnvironmentNotRefreshed';
    expect(about(1, envHash([]))).toEqual({ reason: stale, containers: ['main'] });
    expect(about(fresh, 0)).toEqual({ reason: stale, containers: ['side'] });
    expect(about(fresh, envHash([]))).toBeUndefined();
  });

  it('IPU-36: waits until all containers have the amounts of the spec, where the gate is on', () => {
    const resized: Container = { ...main, resources: { limits: { cpu: '2' } } };
    const state: InPlaceState = { ...blank, updateResources: true };
    const about = (...resources: readonly (ContainerStatus['resources'] | undefined)[]) =>
      unfinishedContainers(
        podWith([resized, side], { statuses: resources.map((amounts) => (amounts ? { resources: amounts } : {})) }),
        state,
        resizing,
      );
    expect(about({ limits: { cpu: '1' } }, {})).toEqual({ reason: 'NotResized', containers: ['main'] });
    expect(about({ limits: { cpu: '2' } }, undefined)).toEqual({ reason: 'NotResized', containers: ['side'] });
    expect(about({ limits: { cpu: '2' } }, {}, {})).toEqual({ reason: 'NotResized', containers: [] });
    expect(about({ limits: { cpu: '2000m' } }, {})).toBeUndefined();
    const off = podWith([resized], { statuses: [{ resources: {} }] });
    expect(unfinishedContainers(off, state, gates)).toBeUndefined();
  });

  it('waits until the kubelet has seen the change, where it says what it has seen', () => {
    const statuses = [{ imageID: 'id-2', image: 'app:2' }];
    const about = (observedGeneration?: number) =>
      unfinishedContainers(
        podWith([main], { statuses, generation: 3, ...(observedGeneration && { observedGeneration }) }),
        { ...swapping, batches: [{ timestamp: '', containers: ['main'] }] },
        gates,
      );
    expect(about(2)).toEqual({ reason: 'NotObserved', containers: ['main'] });
    expect(about(3)).toBeUndefined();
    expect(about()).toBeUndefined();
  });
});

describe('isInPlaceComplete', () => {
  const main: Container = { name: 'main', image: 'app:2' };
  const complete = (annotations: Record<string, string>) => isInPlaceComplete(podWith([main], { annotations }), gates);

  it('IPU-39: is true for a pod that was never updated', () => {
    expect(complete({})).toBe(true);
  });

  it('IPU-39: is false while a batch is to come or a grace period lasts', () => {
    const waiting = { ...blank, next: { ...blank.next, images: { main: 'app:3' } } };
    expect(complete({ [inPlaceAnnotation.state]: formatState(blank) })).toBe(true);
    expect(complete({ [inPlaceAnnotation.state]: formatState(waiting) })).toBe(false);
    const grace = { [inPlaceAnnotation.state]: formatState(blank), [inPlaceAnnotation.grace]: '{"revision":"r"}' };
    expect(complete(grace)).toBe(false);
  });

  it('is false while nobody can read the record', () => {
    expect(complete({ [inPlaceAnnotation.state]: '{' })).toBe(false);
    expect(complete({ [inPlaceAnnotation.grace]: '{' })).toBe(false);
  });
});
