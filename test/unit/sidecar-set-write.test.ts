import { describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { hasLongMark, updateStateAnnotation } from '../../plan/sidecar-set/pods.ts';
import { type SidecarTarget, targetOfSpec } from '../../plan/sidecar-set/target.ts';
import { annotationProblem } from '../../plan/sidecar-set/update-marks.ts';
import { upgradableWrite } from '../../plan/sidecar-set/upgradable.ts';
import { sidecarWrite } from '../../plan/sidecar-set/write.ts';
import {
  aSidecarSet,
  caughtUp,
  cold,
  hot,
  imagesOf,
  injectedPod,
  type SetFacts,
  withAnnotations,
  withStatus,
  written,
  writtenAt,
} from '../support/sidecar-pods.ts';

const target = (set: SidecarSet, version?: string): SidecarTarget => ({
  ...targetOfSpec(set, `${set.metadata.name}-new`),
  ...(version !== undefined && { version }),
});
const version = (facts: SetFacts['containers'] & object, others: SetFacts = {}) =>
  aSidecarSet({ ...others, containers: facts });

function writeOf(set: SidecarSet, pod: Pod, resourceVersion?: string) {
  const result = sidecarWrite(target(set, resourceVersion), pod, writtenAt);
  if (result.kind !== 'write') throw new Error(`not a write: ${JSON.stringify(result)}`);
  return result;
}

const updated = (set: SidecarSet, pod: Pod, resourceVersion?: string) =>
  written(pod, writeOf(set, pod, resourceVersion).write);
const annotationsOf = ({ metadata }: Pod) => metadata.annotations ?? {};
const jsonOf = (pod: Pod, key: string): JsonObject => objectOr(JSON.parse(annotationsOf(pod)[key] ?? '{}'));
const changedKeys = (before: Pod, changed: Pod) =>
  Object.keys(annotationsOf(changed)).filter((key) => annotationsOf(changed)[key] !== annotationsOf(before)[key]);

describe('the annotations that a write leaves', () => {
  const [one, two] = [version([cold('log', 'log:1')]), version([cold('log', 'log:2')])];
  const problemOf = (annotations: Readonly<Record<string, string>>) => {
    const pod = withAnnotations(injectedPod([one]), annotations);
    return annotationProblem(pod, writeOf(two, pod).write);
  };
  const bytesOf = (pod: Pod) =>
    Object.entries(annotationsOf(pod)).reduce((sum, [key, text]) => sum + Buffer.byteLength(key + text), 0);

  it('fit into what the API server takes of all annotations together, to the byte', () => {
    const left = 256 * 1024 - bytesOf(updated(two, withAnnotations(injectedPod([one]), { filler: '' })));
    expect(problemOf({ filler: 'x'.repeat(left) })).toBeUndefined();
    expect(problemOf({ filler: 'x'.repeat(left + 1) })).toContain('262145 bytes');
    expect(problemOf({ filler: 'ü'.repeat(left / 2 + 1) })).toContain('262144');
  });

  it('keep each mark short enough to be read again', () => {
    const others = (length: number) =>
      JSON.stringify({ ...jsonOf(injectedPod([one]), 'kruise.io/sidecarset-hash'), other: 'h'.repeat(length) });
    expect(problemOf({ 'kruise.io/sidecarset-hash': others(60_000) })).toBeUndefined();
    expect(problemOf({ 'kruise.io/sidecarset-hash': others(64 * 1024 - others(0).length) })).toContain(
      'annotation kruise.io/sidecarset-hash',
    );
  });

  it('are as long as is read at most, also where a mark was short enough before', () => {
    const record = (length: number) => ({ [updateStateAnnotation]: JSON.stringify({ mesh: 'm'.repeat(length) }) });
    const lengthOf = (pod: Pod) => annotationsOf(pod)[updateStateAnnotation]?.length ?? 0;
    const left = 64 * 1024 - lengthOf(updated(two, withAnnotations(injectedPod([one]), record(0))));
    const longer = withAnnotations(injectedPod([one]), record(left + 1));
    expect(hasLongMark(longer)).toBe(false);
    expect(hasLongMark(updated(two, withAnnotations(injectedPod([one]), record(left))))).toBe(false);
    expect(problemOf(record(left))).toBeUndefined();
    expect(hasLongMark(updated(two, longer))).toBe(true);
    expect(problemOf(record(left + 1))).toContain(`annotation ${updateStateAnnotation}`);
  });
});

describe('the write of a pod', () => {
  const one = version([cold('log', 'log:1')]);
  const two = version([cold('log', 'log:2')]);

  it('SCS-185, SCS-186, SHU-84: one patch of images and annotations, and of nothing else', () => {
    const both = version([cold('log', 'log:1'), cold('trace', 'trace:1')]);
    const { write } = writeOf(version([cold('log', 'log:2'), cold('trace', 'trace:1')]), injectedPod([both]));
    expect(write.kind).toBe('pod');
    expect(new Set(Object.keys(write.patch))).toEqual(new Set(['metadata', 'spec']));
    expect(Object.keys(objectOr(write.patch.metadata))).toEqual(['annotations']);
    expect(write.patch.spec).toEqual({ containers: [{ name: 'log', image: 'log:2' }] });
    const keys = Object.keys(objectOr(objectOr(write.patch.metadata).annotations));
    expect(new Set(keys)).toEqual(new Set(['kruise.io/sidecarset-hash', updateStateAnnotation]));
  });

  it('SCS-185: initContainers stay as they are', () => {
    const withInit = (image: string) =>
      version([cold('log', `log:${image}`)], { initContainers: [{ name: 'prepare', image: `prepare:${image}` }] });
    const pod = injectedPod([withInit('1')]);
    expect(updated(withInit('2'), pod).spec.initContainers).toEqual(pod.spec.initContainers);
  });

  it('SCS-187: the record has the image IDs of changed containers; revision and time are those of the first update', () => {
    const both = (log: string, trace: string) => version([cold('log', log), cold('trace', trace)]);
    const first = caughtUp(updated(both('log:2', 'trace:1'), injectedPod([both('log:1', 'trace:1')])));
    const record = objectOr(jsonOf(first, updateStateAnnotation).logs);
    const id = (image: string) => ({ imageID: `docker.io/library/${image.replace(':', '@sha256:')}` });
    expect(record).toMatchObject({ updateTimestamp: writtenAt, lastContainerStatuses: { log: id('log:1') } });

    const third = both('log:3', 'trace:3');
    const result = sidecarWrite(target(third), first, '2026-01-02T00:00:00Z');
    if (result.kind !== 'write') throw new Error('not a write');
    expect(objectOr(jsonOf(written(first, result.write), updateStateAnnotation).logs)).toEqual({
      ...record,
      lastContainerStatuses: { log: id('log:2'), trace: id('trace:1') },
    });
  });

  it('SCS-187: entries of other SidecarSets stay, so that several update the same pod', () => {
    const other = aSidecarSet({ name: 'mesh', containers: [cold('mesh', 'mesh:1')] });
    const otherNext = aSidecarSet({ name: 'mesh', containers: [cold('mesh', 'mesh:2')] });
    const first = updated(otherNext, injectedPod([one, other]));
    const pod = updated(two, first);
    expect(jsonOf(pod, updateStateAnnotation).mesh).toEqual(jsonOf(first, updateStateAnnotation).mesh);
    expect(jsonOf(pod, 'kruise.io/sidecarset-hash').mesh).toEqual(jsonOf(first, 'kruise.io/sidecarset-hash').mesh);
    expect(Object.keys(jsonOf(pod, updateStateAnnotation))).toEqual(['logs', 'mesh']);
    expect(imagesOf(pod)).toMatchObject({ log: 'log:2', mesh: 'mesh:2' });
  });

  it('SCS-187: a container without status has an entry without ID', () => {
    const pod = injectedPod([one]);
    const starting = { ...pod, status: { ...pod.status, containerStatuses: [] } };
    const { lastContainerStatuses } = objectOr(jsonOf(updated(two, starting), updateStateAnnotation).logs);
    expect(lastContainerStatuses).toEqual({ log: {} });
  });

  it('SCS-188: only annotations, when the images are as they should be', () => {
    const pod = injectedPod([one]);
    const byHand = { ...pod, spec: updated(two, pod).spec };
    const { write, containers } = writeOf(two, byHand);
    expect(containers).toEqual([]);
    expect(Object.keys(write.patch)).toEqual(['metadata']);
    expect(changedKeys(byHand, written(byHand, write))).toEqual(['kruise.io/sidecarset-hash']);
    expect(sidecarWrite(target(two), written(byHand, write), writtenAt)).toEqual({ kind: 'nothing' });
  });

  it('SCS-189: changes no condition and no readiness gate', () => {
    expect(objectOr(writeOf(two, injectedPod([one])).write.patch.spec)).not.toHaveProperty('readinessGates');
    expect(writeOf(two, injectedPod([one])).write.patch).not.toHaveProperty('status');
  });

  it('SCS-81: patches of metadata by their policies, in the same write', () => {
    const policies = (image: string) =>
      version([cold('log', image)], {
        patchPodMetadata: [
          { annotations: { kept: 'new', filled: 'new' }, patchPolicy: 'Retain' },
          { annotations: { replaced: 'new' }, patchPolicy: 'Overwrite' },
          { annotations: { merged: '{"b":2,"a":null}' }, patchPolicy: 'MergePatchJson' },
          { annotations: { unknown: 'new' }, patchPolicy: 'Sometimes' },
        ],
      });
    const own = { kept: 'old', replaced: 'old', merged: '{"a":1,"c":3}' };
    const pod = updated(policies('log:2'), withAnnotations(injectedPod([one]), own));
    expect(annotationsOf(pod)).toMatchObject({ kept: 'old', filled: 'new', replaced: 'new', merged: '{"b":2,"c":3}' });
    expect(annotationsOf(pod)).not.toHaveProperty('unknown');
  });

  it('SCS-80: is impossible where an annotation cannot be merged, and names it', () => {
    const merging = version([cold('log', 'log:2')], {
      patchPodMetadata: [{ annotations: { team: '{"a":1}' }, patchPolicy: 'MergePatchJson' }],
    });
    const results = ['no JSON', '['.repeat(100_000)].map((team) =>
      sidecarWrite(target(merging), withAnnotations(injectedPod([one]), { team }), writtenAt),
    );
    for (const result of results) {
      expect(result).toMatchObject({ kind: 'impossible', why: expect.stringContaining('annotation team') });
    }
    const deep = `{"a":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}}`;
    const patch = { annotations: { team: deep }, patchPolicy: 'MergePatchJson' };
    const pod = withAnnotations(injectedPod([one]), { team: deep });
    const deeper = version([cold('log', 'log:2')], { patchPodMetadata: [patch] });
    expect(sidecarWrite(target(deeper), pod, writtenAt).kind).toBe('impossible');
  });

  it('is nothing when the pod has the content already', () => {
    expect(sidecarWrite(target(two), injectedPod([two]), writtenAt)).toEqual({ kind: 'nothing' });
    expect(sidecarWrite(target(two), updated(two, injectedPod([one])), writtenAt)).toEqual({ kind: 'nothing' });
  });

  it('SCS-151: is none while the kubelet has not finished the last one', () => {
    const pod = updated(two, injectedPod([one]));
    expect(sidecarWrite(target(version([cold('log', 'log:3')])), pod, writtenAt)).toMatchObject({
      kind: 'inProgress',
      containers: ['log'],
    });
  });

  it('is impossible for pods that are going, lack a container, or differ in more than images', () => {
    const pod = injectedPod([one]);
    const going = { ...pod, metadata: { ...pod.metadata, deletionTimestamp: writtenAt } };
    const lacking = { ...pod, spec: { ...pod.spec, containers: pod.spec.containers.slice(1) } };
    const reasons = [
      sidecarWrite(target(two), going, writtenAt),
      sidecarWrite(target(two), lacking, writtenAt),
      sidecarWrite(target(version([cold('log', 'log:2', { tty: true })])), pod, writtenAt),
    ].map((result) => (result.kind === 'impossible' ? result.why : result.kind));
    expect(reasons).toEqual([
      'the pod is completed or being deleted',
      expect.stringContaining('lacks containers of SidecarSet logs'),
      expect.stringContaining('annotation kruise.io/sidecarset-hash-without-image'),
    ]);
  });

  it('names the changed containers in the order of their launch', () => {
    const names = ['a', 'b', 'c'];
    const images = (tag: number) => version(names.map((name) => cold(name, `${name}:${tag}`)));
    const pod = injectedPod([images(1)]);
    const priorities: Readonly<Record<string, number>> = { a: -1, b: 3 };
    const containers = pod.spec.containers.map((container) => {
      const key = `p_${priorities[container.name]}`;
      const env = [{ name: 'KRUISE_CONTAINER_BARRIER', valueFrom: { configMapKeyRef: { name: 'web-barrier', key } } }];
      return container.name in priorities ? { ...container, env } : container;
    });
    const ordered = { ...pod, spec: { ...pod.spec, containers } };
    expect(writeOf(images(2), ordered).containers.map(({ name }) => name)).toEqual(['c', 'b', 'a']);
  });

  it('an unreadable record is written anew', () => {
    for (const text of ['{', '[]', `{"logs":${'['.repeat(1_000)}${']'.repeat(1_000)}}`]) {
      const pod = withAnnotations(injectedPod([one]), { [updateStateAnnotation]: text });
      expect(Object.keys(jsonOf(updated(two, pod), updateStateAnnotation))).toEqual(['logs']);
    }
  });
});

describe('the write of a pod with hot-upgrade sidecars', () => {
  const mesh = (image: string) => version([hot('mesh', image)]);
  const injected = injectedPod([mesh('mesh:1')]);
  const swapping = updated(mesh('mesh:2'), injected, '200');
  const marksOf = (pod: Pod) => ({
    images: [imagesOf(pod)['mesh-1'], imagesOf(pod)['mesh-2']],
    working: jsonOf(pod, 'kruise.io/sidecarset-working-hotupgrade-container').mesh,
    versions: ['version', 'versionalt'].flatMap((prefix) =>
      [1, 2].map((number) => annotationsOf(pod)[`${prefix}.sidecarset.kruise.io/mesh-${number}`]),
    ),
  });
  const broken = (pod: Pod) => withStatus(caughtUp(pod, false), 'mesh-2', { ready: false });

  it('SHU-30, SHU-32: the container with the empty image gets the new one, the twin is not touched', () => {
    expect(writeOf(mesh('mesh:2'), injected).containers).toEqual([
      { name: 'mesh-2', image: 'mesh:2', hot: { sidecar: 'mesh', step: 'upgrade' } },
    ]);
    const versions = ['1', '200', '200', '1'];
    expect(marksOf(swapping)).toEqual({ images: ['mesh:1', 'mesh:2'], working: 'mesh-2', versions });
  });

  it('SHU-30, SHU-33: a further image goes into the container that is not Ready', () => {
    const pod = updated(mesh('mesh:3'), broken(swapping), '300');
    const versions = ['1', '300', '300', '1'];
    expect(marksOf(pod)).toEqual({ images: ['mesh:1', 'mesh:3'], working: 'mesh-2', versions });
  });

  it('SHU-30: with both Ready a further image goes into the one that is not working', () => {
    const pod = updated(mesh('mesh:3'), caughtUp(swapping), '300');
    const versions = ['300', '200', '200', '300'];
    expect(marksOf(pod)).toEqual({ images: ['mesh:3', 'mesh:2'], working: 'mesh-1', versions });
  });

  it('SHU-31: a sidecar whose image one of the two has stays as it is', () => {
    const withLog = (image: string, log: string) => version([hot('mesh', image), cold('log', log)]);
    const pod = injectedPod([withLog('mesh:1', 'log:1')]);
    const result = writeOf(withLog('mesh:1', 'log:2'), pod);
    expect(result.containers).toEqual([{ name: 'log', image: 'log:2' }]);
    expect(marksOf(written(pod, result.write))).toEqual(marksOf(pod));

    const inSwap = broken(updated(withLog('mesh:2', 'log:1'), pod, '200'));
    const onlyLog = writeOf(withLog('mesh:2', 'log:2'), inSwap);
    expect(onlyLog.containers).toEqual([{ name: 'log', image: 'log:2' }]);
    expect(marksOf(written(inSwap, onlyLog.write))).toEqual(marksOf(inSwap));
  });

  it('SHU-33: is none while the new container is Ready and not restarted', () => {
    expect(sidecarWrite(target(mesh('mesh:3')), swapping, writtenAt)).toMatchObject({
      kind: 'inProgress',
      containers: ['mesh-2'],
    });
  });

  it('SHU-61: the old image while the new container is broken cancels the swap', () => {
    const result = writeOf(mesh('mesh:1'), broken(swapping), '300');
    expect(result.containers).toEqual([{ name: 'mesh-2', image: 'empty:1', hot: { sidecar: 'mesh', step: 'cancel' } }]);
    const pod = written(broken(swapping), result.write);
    expect(marksOf(pod)).toEqual(marksOf(injected));
    expect(sidecarWrite(target(mesh('mesh:1')), pod, writtenAt)).toEqual({ kind: 'nothing' });
    expect(jsonOf(pod, updateStateAnnotation)).toMatchObject({
      logs: { lastContainerStatuses: { 'mesh-2': { imageID: 'docker.io/library/mesh@sha256:2' } } },
    });
  });

  it('SHU-61: the old image after the new container has taken over waits for the reset', () => {
    const result = sidecarWrite(target(mesh('mesh:1')), caughtUp(swapping), writtenAt);
    expect(result).toMatchObject({ kind: 'inProgress', containers: ['mesh-1'] });
  });

  it('SHU-35: the version is greater than any of the two containers, whatever the SidecarSet has', () => {
    const versionOf = (pod: Pod) => annotationsOf(pod)['version.sidecarset.kruise.io/mesh-2'];
    expect(versionOf(updated(mesh('mesh:3'), broken(swapping), '150'))).toBe('201');
    expect(versionOf(updated(mesh('mesh:2'), injected, '1'))).toBe('2');
    expect(versionOf(updated(mesh('mesh:2'), injected, 'opaque'))).toBe('2');
    const greatest = { 'version.sidecarset.kruise.io/mesh-1': '9223372036854775807' };
    const result = sidecarWrite(target(mesh('mesh:2'), '5'), withAnnotations(injected, greatest), writtenAt);
    expect(result).toMatchObject({ kind: 'impossible', why: expect.stringContaining('version.sidecarset.kruise.io/') });
  });

  it('SHU-80: values that are no decimal integers are never copied', () => {
    const pod = withAnnotations(injected, { 'version.sidecarset.kruise.io/mesh-1': 'v1; rm -rf /' });
    const versions = annotationsOf(updated(mesh('mesh:2'), pod, '200'));
    expect(versions['versionalt.sidecarset.kruise.io/mesh-2']).toBe('1');
  });

  it('several hot-upgrade sidecars swap in one write, with one map of working containers', () => {
    const two = (left: string, right: string) => version([hot('left', left), hot('right', right)]);
    const other = aSidecarSet({ name: 'other', containers: [hot('third', 'third:1')] });
    const pod = updated(two('left:2', 'right:2'), injectedPod([two('left:1', 'right:1'), other]));
    expect(jsonOf(pod, 'kruise.io/sidecarset-working-hotupgrade-container')).toEqual({
      left: 'left-2',
      right: 'right-2',
      third: 'third-1',
    });
  });
});

describe('the condition SidecarSetUpgradable', () => {
  const pod = injectedPod([aSidecarSet()]);
  const conditionOf = ({ status }: Pod) => status?.conditions?.find(({ type }) => type === 'SidecarSetUpgradable');
  const noted = (before: Pod, name: string, isUpgradable: boolean, now = writtenAt): Pod => {
    const write = upgradableWrite(before, name, isUpgradable, now);
    if (write?.kind !== 'status') throw new Error('no write of the status');
    return written(before, write);
  };

  it('SCS-191: is absent after injection, and True only while every entry is', () => {
    expect(conditionOf(pod)).toBeUndefined();
    const bad = noted(noted(pod, 'b', true), 'a', false);
    expect(conditionOf(bad)).toEqual({
      type: 'SidecarSetUpgradable',
      status: 'False',
      reason: 'UpdateImmutableField',
      message: '{"a":false,"b":true}',
      lastTransitionTime: writtenAt,
    });
    expect(conditionOf(noted(bad, 'a', true))).toMatchObject({ status: 'True', reason: 'AllSidecarsetUpgradable' });
  });

  it('SCS-191: its time changes with its status, and nothing is written that is there already', () => {
    const first = noted(pod, 'a', true);
    expect(upgradableWrite(first, 'a', true, '2027-01-01T00:00:00Z')).toBeUndefined();
    expect(conditionOf(noted(first, 'b', true, '2027-01-01T00:00:00Z'))?.lastTransitionTime).toBe(writtenAt);
    const later = noted(first, 'b', false, '2027-01-01T00:00:00Z');
    expect(conditionOf(later)?.lastTransitionTime).toBe('2027-01-01T00:00:00Z');
  });

  it.each(['', '{', '[]', '{"a":{"b":{}}}', '['.repeat(100_000)])(
    'replaces a message that is no map: %#',
    (message) => {
      const condition = { type: 'SidecarSetUpgradable', status: 'True', message };
      const conditions = [...(pod.status?.conditions ?? []), condition];
      const result = noted({ ...pod, status: { ...pod.status, conditions } }, 'x', false);
      expect(conditionOf(result)?.message).toBe('{"x":false}');
    },
  );
});
