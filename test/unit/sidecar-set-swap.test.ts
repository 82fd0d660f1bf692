import { describe, expect, it } from '@jest/globals';
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { currentContent } from '../../api/sidecar-set/injection/choose.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { classifyPods } from '../../plan/sidecar-set/classify.ts';
import { isConsistent, isSidecarReady, updateStateAnnotation } from '../../plan/sidecar-set/pods.ts';
import { sidecarSetStatus } from '../../plan/sidecar-set/status.ts';
import {
  cancelWrite,
  emptyImagesToRoll,
  hotSidecars,
  resetDecision,
  resetWrite,
  type SwapWrite,
} from '../../plan/sidecar-set/swap.ts';
import { targetOfSpec } from '../../plan/sidecar-set/target.ts';
import { sidecarWrite } from '../../plan/sidecar-set/write.ts';
import {
  aSidecarSet,
  caughtUp,
  cold,
  hot,
  imagesOf,
  injectedPod,
  withAnnotations,
  withStatus,
  written,
  writtenAt,
} from '../support/sidecar-pods.ts';

const target = (set: SidecarSet) => ({ ...targetOfSpec(set, 'logs-new'), version: '200' });
const mesh = (image: string, emptyImage?: string) => aSidecarSet({ containers: [hot('mesh', image, emptyImage)] });
const one = mesh('mesh:1');
const two = mesh('mesh:2');

function updating(set: SidecarSet, pod: Pod): Pod {
  const result = sidecarWrite(target(set), pod, writtenAt);
  if (result.kind !== 'write') throw new Error(`not a write: ${JSON.stringify(result)}`);
  return written(pod, result.write);
}

function applied(pod: Pod, result: SwapWrite | undefined): Pod {
  if (result === undefined) throw new Error('no write');
  return written(pod, result.write);
}

const injected = injectedPod([one]);
const swapping = updating(two, injected);
const taken = caughtUp(swapping);
const annotationsOf = ({ metadata }: Pod) => metadata.annotations ?? {};
const jsonOf = (pod: Pod, key: string): JsonObject => objectOr(JSON.parse(annotationsOf(pod)[key] ?? '{}'));
const versionsOf = (pod: Pod) =>
  ['version', 'versionalt'].flatMap((prefix) =>
    [1, 2].map((number) => annotationsOf(pod)[`${prefix}.sidecarset.kruise.io/mesh-${number}`]),
  );
const working = 'kruise.io/sidecarset-working-hotupgrade-container';

describe('when a container becomes idle', () => {
  it('SHU-40: not while every idle container has the empty image', () => {
    expect(resetDecision(target(two), injected)).toEqual({ kind: 'none' });
    expect(hotSidecars(target(two), injected)).toMatchObject([{ name: 'mesh', state: 'idle', idle: 'mesh-2' }]);
  });

  it('SHU-40: once the new container runs and the pod is Ready', () => {
    expect(hotSidecars(target(two), taken)).toMatchObject([{ state: 'swapping', working: 'mesh-2', idle: 'mesh-1' }]);
    expect(resetDecision(target(two), taken)).toEqual({ kind: 'due', containers: ['mesh-1'], isSwap: true });
  });

  it('SHU-40, SHU-45: not while the kubelet has not finished with the new one', () => {
    const waits = [{ reason: 'Inconsistent', containers: ['mesh-2'] }];
    expect(resetDecision(target(two), swapping)).toEqual({ kind: 'wait', waits });
    expect(resetWrite(target(two), swapping, writtenAt)).toBeUndefined();
  });

  it('SHU-40: not while a cold sidecar of the SidecarSet is being restarted', () => {
    const both = (tag: string) => aSidecarSet({ containers: [hot('mesh', `mesh:${tag}`), cold('log', `log:${tag}`)] });
    const pod = updating(both('2'), injectedPod([both('1')]));
    const restarting = withStatus(caughtUp(pod), 'log', {
      image: 'docker.io/library/log:1',
      imageID: 'docker.io/library/log@sha256:1',
    });
    const waits = [{ reason: 'Inconsistent', containers: ['log'] }];
    expect(resetDecision(target(both('2')), restarting)).toEqual({ kind: 'wait', waits });
  });

  it('SHU-40, SHU-67: not while a container of the pod is not Ready, unless it is the old one', () => {
    const unready = (container: string) => withStatus(caughtUp(swapping, false), container, { ready: false });
    const waits = [{ reason: 'NotReady', containers: ['app'] }];
    expect(resetDecision(target(two), unready('app'))).toEqual({ kind: 'wait', waits });
    expect(resetDecision(target(two), unready('mesh-2'))).toMatchObject({ kind: 'wait' });
    expect(resetDecision(target(two), unready('mesh-1'))).toMatchObject({ kind: 'due' });
  });

  it('SHU-40: a pod without statuses waits, and the containers are named', () => {
    const starting = { ...taken, status: { phase: 'Running', containerStatuses: [] } };
    const waits = [{ reason: 'Inconsistent', containers: ['mesh-2'] }];
    expect(resetDecision(target(two), starting)).toEqual({ kind: 'wait', waits });
  });

  it('never empties both containers', () => {
    const confused = withAnnotations(injected, { [working]: '{"mesh":"mesh-2"}' });
    const waits = [{ reason: 'WorkingIsEmpty', containers: ['mesh-2'] }];
    expect(resetDecision(target(one), confused)).toEqual({ kind: 'wait', waits });
    expect(cancelWrite(target(one), confused, writtenAt)).toBeUndefined();
  });

  it('SHU-41: the write leaves hashes, working map, and the other two versions as they are', () => {
    const result = resetWrite(target(two), taken, writtenAt);
    const pod = applied(taken, result);
    expect(result?.write.patch.spec).toEqual({ containers: [{ name: 'mesh-1', image: 'empty:1' }] });
    expect(versionsOf(pod)).toEqual(['0', '200', '200', '0']);
    expect(jsonOf(pod, updateStateAnnotation)).toMatchObject({
      logs: { lastContainerStatuses: { 'mesh-1': { imageID: 'docker.io/library/mesh@sha256:1' } } },
    });
    for (const key of ['kruise.io/sidecarset-hash', 'kruise.io/sidecarset-hash-without-image', working]) {
      expect(annotationsOf(pod)[key]).toBe(annotationsOf(taken)[key]);
    }
    expect(resetWrite(target(two), pod, writtenAt)).toBeUndefined();
  });

  it('SHU-40: one write for all sidecars that are due', () => {
    const both = (tag: string) =>
      aSidecarSet({ containers: [hot('left', `left:${tag}`), hot('right', `right:${tag}`)] });
    const pod = caughtUp(updating(both('2'), injectedPod([both('1')])));
    expect(resetWrite(target(both('2')), pod, writtenAt)?.containers).toEqual(['left-1', 'right-1']);
  });

  it('SHU §3: the numbers of the status during a swap', () => {
    const numbers = (pod: Pod) => {
      const status = sidecarSetStatus(two, { pods: [pod], latestRevision: '', collisionCount: 0 });
      return [status.matchedPods, status.updatedPods, status.readyPods, status.updatedReadyPods];
    };
    const reset = applied(taken, resetWrite(target(two), taken, writtenAt));
    expect([injected, swapping, taken, reset, caughtUp(reset)].map(numbers)).toEqual([
      [1, 0, 1, 0],
      [1, 1, 0, 0],
      [1, 1, 0, 0],
      [1, 1, 0, 0],
      [1, 1, 1, 1],
    ]);
  });

  it('SHU-34, SHU-34a: sidecar-ready again with the reset written, consistent with it done', () => {
    const reset = applied(taken, resetWrite(target(two), taken, writtenAt));
    const states = [taken, reset, caughtUp(reset)].map((pod) => [isSidecarReady(two, pod), isConsistent(two, pod)]);
    expect(states).toEqual([
      [false, true],
      [true, false],
      [true, true],
    ]);
  });

  it('the next upgrade mirrors the first one', () => {
    const done = caughtUp(applied(taken, resetWrite(target(two), taken, writtenAt)));
    const next = { ...target(mesh('mesh:3')), version: '300' };
    const result = sidecarWrite(next, done, writtenAt);
    if (result.kind !== 'write') throw new Error('not a write');
    const pod = written(done, result.write);
    expect([imagesOf(pod)['mesh-1'], versionsOf(pod)]).toEqual(['mesh:3', ['300', '200', '200', '300']]);
    const last = applied(caughtUp(pod), resetWrite(next, caughtUp(pod), writtenAt));
    expect([imagesOf(last)['mesh-2'], versionsOf(last)]).toEqual(['empty:1', ['300', '0', '0', '300']]);
  });
});

describe('what a swap promises', () => {
  const steps = () => {
    const begin = sidecarWrite(target(two), injected, writtenAt);
    const reset = resetWrite(target(two), taken, writtenAt);
    const cancel = cancelWrite(target(two), swapping, writtenAt);
    if (begin.kind !== 'write' || reset === undefined || cancel === undefined) throw new Error('a step writes nothing');
    return [begin.write, reset.write, cancel.write];
  };

  it('SHU-50, SHU-83: no step writes more than images and annotations: no condition, gate or variable', () => {
    for (const { kind, patch } of steps()) {
      expect([kind, new Set(Object.keys(patch))]).toEqual(['pod', new Set(['metadata', 'spec'])]);
      expect(Object.keys(objectOr(patch.metadata))).toEqual(['annotations']);
      expect(Object.keys(objectOr(patch.spec))).toEqual(['containers']);
      for (const container of listOr(objectOr(patch.spec).containers)) {
        expect(new Set(Object.keys(objectOr(container)))).toEqual(new Set(['name', 'image']));
      }
    }
  });

  it('SHU-35a: pods that are updated in different rounds have different numbers for the same image', () => {
    const round = (version: string) => {
      const result = sidecarWrite({ ...target(two), version }, injected, writtenAt);
      if (result.kind !== 'write') throw new Error('no write');
      return written(injected, result.write);
    };
    const [first, later] = [round('200'), round('300')];
    expect(imagesOf(first)).toEqual(imagesOf(later));
    expect(versionsOf(first)).toEqual(['1', '200', '200', '1']);
    expect(versionsOf(later)).toEqual(['1', '300', '300', '1']);
  });

  it('SHU-44: the old version becomes idle as soon as the kubelet reports the new one, without an upper limit before', () => {
    expect(resetDecision(target(two), swapping).kind).toBe('wait');
    expect(resetDecision(target(two), taken)).toMatchObject({ kind: 'due', containers: ['mesh-1'] });
  });

  it('SHU-52, SHU-62: while the new container fails or restarts nothing is written, and the old one stays', () => {
    const unready = caughtUp(swapping, false);
    const failing = [
      withStatus(unready, 'mesh-2', { ready: false }),
      withStatus(unready, 'mesh-2', {
        ready: false,
        restartCount: 7,
        state: { waiting: { reason: 'CrashLoopBackOff' } },
      }),
    ];
    for (const pod of failing) {
      expect(resetWrite(target(two), pod, writtenAt)).toBeUndefined();
      expect(sidecarWrite(target(two), pod, writtenAt)).toEqual({ kind: 'nothing' });
    }
  });

  it('SHU-87: the map of working containers names the new one from the first write', () => {
    expect(jsonOf(injected, working)).toEqual({ mesh: 'mesh-1' });
    expect(jsonOf(swapping, working)).toEqual({ mesh: 'mesh-2' });
  });
});

describe('the cancel of a swap', () => {
  it('8.1: puts the empty image back, and map and versions as they were', () => {
    const result = cancelWrite(target(two), swapping, writtenAt);
    const pod = applied(swapping, result);
    expect(result?.containers).toEqual(['mesh-2']);
    expect(imagesOf(pod)).toEqual(imagesOf(injected));
    expect(versionsOf(pod)).toEqual(versionsOf(injected));
    expect(annotationsOf(pod)[working]).toBe(annotationsOf(injected)[working]);
    expect(annotationsOf(pod)['kruise.io/sidecarset-hash']).toBe(annotationsOf(swapping)['kruise.io/sidecarset-hash']);
    expect(cancelWrite(target(two), pod, writtenAt)).toBeUndefined();
    expect(resetDecision(target(two), pod)).toEqual({ kind: 'none' });
  });

  it('8.1: marks the pod with the content that it has again, when that is given', () => {
    const back = { ...target(two), ...currentContent(one), revision: 'logs-old' };
    const pod = applied(swapping, cancelWrite(target(two), swapping, writtenAt, back));
    expect(objectOr(jsonOf(pod, 'kruise.io/sidecarset-hash').logs)).toMatchObject({
      hash: currentContent(one).hashes.whole,
      controllerRevision: 'logs-old',
    });
    expect(classifyPods(target(two), [caughtUp(pod)], () => undefined)[0]?.place).toEqual({ kind: 'waiting' });
  });

  it('SHU-61: is done at once where the kubelet has never run the new image, else once it runs the empty one', () => {
    const unpulled = withStatus(caughtUp(injected, false), 'mesh-2', { ready: false, state: { waiting: {} } });
    const { status } = unpulled;
    const never = { ...swapping, ...(status && { status }) };
    const back = applied(never, cancelWrite(target(two), never, writtenAt));
    expect(isConsistent(two, caughtUp(back))).toBe(true);

    const crashing = withStatus(caughtUp(swapping, false), 'mesh-2', { ready: false });
    const pod = applied(crashing, cancelWrite(target(two), crashing, writtenAt));
    expect([isConsistent(two, pod), isConsistent(two, caughtUp(pod))]).toEqual([false, true]);
    expect(isSidecarReady(two, caughtUp(pod))).toBe(true);
  });

  it('is nothing without a swap', () => {
    expect(cancelWrite(target(one), injected, writtenAt)).toBeUndefined();
  });
});

describe('a changed empty image', () => {
  const changed = aSidecarSet({
    containers: [hot('mesh', 'mesh:1', 'empty:2')],
    updateStrategy: { maxUnavailable: 2 },
  });
  const pods = ['d', 'c', 'b', 'a'].map((name) => injectedPod([one], { name }));
  const rolled = (fleet: readonly Pod[]) => {
    const managed = classifyPods(target(changed), fleet, () => undefined);
    return emptyImagesToRoll(target(changed), managed).map(({ pod }) => pod.metadata.name);
  };
  const reset = (pod: Pod) => applied(pod, resetWrite(target(changed), pod, writtenAt));

  it('SHU-68, SHU-69: is due in every pod, and is no swap', () => {
    expect(hotSidecars(target(changed), injected)).toMatchObject([{ state: 'otherEmptyImage', idle: 'mesh-2' }]);
    expect(resetDecision(target(changed), injected)).toEqual({ kind: 'due', containers: ['mesh-2'], isSwap: false });
    expect(imagesOf(reset(injected))).toMatchObject({ 'mesh-1': 'mesh:1', 'mesh-2': 'empty:2' });
    expect(versionsOf(reset(injected))).toEqual(versionsOf(injected));
  });

  it('SHU-68: goes under maxUnavailable, by name, and the pods stay as they were for updates', () => {
    expect(rolled(pods)).toEqual(['a', 'b']);
    const begun = pods.map((pod) => (['a', 'b'].includes(pod.metadata.name) ? reset(pod) : pod));
    expect(rolled(begun)).toEqual([]);
    const first = begun.map((pod) => (pod.metadata.name === 'a' ? caughtUp(pod) : pod));
    expect(rolled(first)).toEqual(['c']);
    const kinds = classifyPods(
      target(changed),
      begun.map((pod) => caughtUp(pod)),
      () => undefined,
    );
    expect(kinds.map(({ place }) => place.kind)).toEqual(Array(4).fill('notUpgradable'));
  });

  it('SHU-68: pods that are not Ready for other reasons use up nothing, and cost nothing', () => {
    const lost = pods.map((pod) =>
      pod.metadata.name === 'd' ? withStatus(caughtUp(pod, false), 'mesh-2', { ready: false }) : pod,
    );
    expect(rolled(lost)).toEqual(['a', 'b', 'd']);
  });
});
