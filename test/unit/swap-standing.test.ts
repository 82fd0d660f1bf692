import { describe, expect, it } from '@jest/globals';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { Pod } from '../../api/core/pod.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import { imageStartsAnnotation, swapAnnotation, swapWaits } from '../../api/sidecar-set/swap.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { cancelWrite, resetWrite } from '../../plan/sidecar-set/swap.ts';
import { targetOfSpec } from '../../plan/sidecar-set/target.ts';
import { sidecarWrite } from '../../plan/sidecar-set/write.ts';
import type { OpenSwap, SwapStage } from '../../plan/sidecar-swap/model.ts';
import { goalStanding, stepStanding, swapStanding } from '../../plan/sidecar-swap/standing.ts';
import { payloadBytes } from '../../plan/text-size.ts';
import {
  aSidecarSet,
  caughtUp,
  hot,
  injectedPod,
  withAnnotations,
  withStatus,
  written,
  writtenAt,
} from '../support/sidecar-pods.ts';

const mesh = (image: string, empty = 'empty:1') => aSidecarSet({ containers: [hot('mesh', image, empty)] });
const [first, second] = [mesh('mesh:1'), mesh('mesh:2')];
const targetOf = (set: SidecarSet) => targetOfSpec(set, 'logs-new');

function standing(set: SidecarSet, pod: Pod) {
  return swapStanding({ set, target: targetOf(set), pod, nowMs: Date.parse(writtenAt) });
}

/** The pod after the first write of a swap to this SidecarSet, which the kubelet has not seen. */
function begun(set: SidecarSet = second, pod: Pod = injectedPod([first])): Pod {
  const result = sidecarWrite(targetOf(set), pod, writtenAt);
  if (result.kind !== 'write') throw new Error(`not a write: ${JSON.stringify(result)}`);
  return written(pod, result.write);
}

function reset(set: SidecarSet, pod: Pod): Pod {
  const result = resetWrite(targetOf(set), pod, writtenAt);
  if (result === undefined) throw new Error('no reset is due');
  return written(pod, result.write);
}

const withNotes = (set: SidecarSet, annotations: Readonly<Record<string, string>>): SidecarSet => ({
  ...set,
  metadata: { ...set.metadata, annotations: { ...set.metadata.annotations, ...annotations } },
});

const [incoming, outgoing] = [
  { container: 'mesh-2', image: 'mesh:2' },
  { container: 'mesh-1', image: 'empty:1' },
];

describe('how far a swap is', () => {
  it('SHU-32, SHU-41: goes from begin to done', () => {
    const old = injectedPod([first]);
    expect(standing(first, old).look).toEqual({ kind: 'done' });
    expect(standing(second, old).look).toMatchObject({ stage: 'begin', incoming: [incoming], outgoing: [outgoing] });
    const starting = begun();
    expect(standing(second, starting).look).toMatchObject({ stage: 'starting', begunAt: writtenAt });
    const serves = caughtUp(starting);
    expect(standing(second, serves).look).toMatchObject({ stage: 'reset', outgoing: [outgoing] });
    const resetting = reset(second, serves);
    expect(standing(second, resetting).look).toMatchObject({ stage: 'resetting', outgoing: [outgoing] });
    expect(standing(second, caughtUp(resetting)).look).toEqual({ kind: 'done' });
  });

  it('is done in a new pod, whose containers have not started yet', () => {
    const starting = withStatus(injectedPod([first]), 'mesh-2', { ready: false });
    expect(standing(first, starting).look).toEqual({ kind: 'done' });
    expect(standing(first, { ...starting, status: { phase: 'Pending' } }).look).toEqual({ kind: 'done' });
  });

  it('SHU-33: another image while the new container is not ready is written first', () => {
    const third = mesh('mesh:3');
    const broken = withStatus(begun(), 'mesh-2', { ready: false });
    expect(standing(third, broken).look).toMatchObject({
      stage: 'begin',
      incoming: [{ container: 'mesh-2', image: 'mesh:3' }],
    });
  });

  it('what serves is not replaced before the old container is idle', () => {
    expect(standing(mesh('mesh:3'), caughtUp(begun())).look).toMatchObject({ stage: 'reset' });
  });

  it('SHU-61: the image of before undoes the swap', () => {
    const broken = withStatus(begun(), 'mesh-2', { ready: false });
    expect(standing(first, broken).look).toMatchObject({
      stage: 'begin',
      incoming: [{ container: 'mesh-2', image: 'empty:1' }],
      outgoing: [],
    });
  });

  it('SHU-60: a swap that was undone is over when the idle container is ready again', () => {
    const broken = withStatus(begun(), 'mesh-2', { ready: false });
    const result = cancelWrite(targetOf(second), broken, writtenAt);
    if (result === undefined) throw new Error('there is nothing to undo');
    const back = written(broken, result.write);
    expect(standing(second, back).look).toMatchObject({ stage: 'resetting' });
    expect(standing(second, caughtUp(back)).look).toEqual({ kind: 'done' });
  });

  it('SHU-68: another empty image is a reset without a new image', () => {
    const look = standing(mesh('mesh:1', 'empty:2'), injectedPod([first])).look;
    expect(look).toMatchObject({ stage: 'reset', outgoing: [{ container: 'mesh-2', image: 'empty:2' }] });
  });

  describe('what it waits for', () => {
    it.each([
      ['SHU-45: the kubelet, which has not reported the new container', begun(), 'ContainerNotReported', 'mesh-2'],
      [
        'SHU-60: the new container, which cannot be pulled',
        withStatus(begun(), 'mesh-2', { ready: false, state: { waiting: { reason: 'ImagePullBackOff' } } }),
        'ContainerNotReady',
        'mesh-2',
      ],
      [
        'SHU-63: a new container that is being created is not reported yet',
        withStatus(begun(), 'mesh-2', { ready: false, state: { waiting: { reason: 'ContainerCreating' } } }),
        'ContainerNotReported',
        'mesh-2',
      ],
      [
        'SHU-52: the new container, which is not ready',
        withStatus(caughtUp(begun(), false), 'mesh-2', { ready: false }),
        'ContainerNotReady',
        'mesh-2',
      ],
      [
        'SHU-67: the other containers of the pod',
        withStatus(caughtUp(begun(), false), 'app', { ready: false }),
        'PodNotReady',
        'app',
      ],
    ] as const)('%s', (_, pod, reason, container) => {
      expect(standing(second, pod)).toMatchObject({
        look: { stage: 'starting' },
        wait: { reason, blockedBy: [`container/${container}`] },
      });
    });

    it('says what the kubelet says, of the new container, of others, and of the empty image', () => {
      const failing = (pod: Pod, container: string) =>
        withStatus(pod, container, {
          ready: false,
          state: { waiting: { reason: 'ErrImagePull', message: 'no such image' } },
        });
      const said = (pod: Pod) => standing(second, pod).wait;
      const [now, ready] = [begun(), caughtUp(begun(), false)];
      expect(said(failing(now, 'mesh-2'))).toMatchObject({
        reason: 'ContainerNotReady',
        unblock: `${swapWaits.ContainerNotReady}; mesh-2: ErrImagePull: mesh:2: no such image`,
      });
      expect(said(failing(ready, 'app'))).toMatchObject({
        reason: 'PodNotReady',
        unblock: expect.stringMatching(/; app: ErrImagePull: .*no such image$/),
      });
      expect(said(failing(reset(second, caughtUp(begun())), 'mesh-1'))).toMatchObject({
        reason: 'IdleNotReported',
        unblock: expect.stringMatching(/; mesh-1: ErrImagePull: .*no such image$/),
      });
    });

    it('SHU-51: the idle container, until it is ready with the empty image', () => {
      const resetting = reset(second, caughtUp(begun()));
      const unready = withStatus(caughtUp(resetting), 'mesh-1', { ready: false });
      for (const pod of [resetting, unready]) {
        expect(standing(second, pod)).toMatchObject({
          look: { stage: 'resetting' },
          wait: { reason: 'IdleNotReported' },
        });
      }
    });

    it('a pod that names an idle container as the working one', () => {
      const marked = withAnnotations(caughtUp(begun()), { [hotMark.working]: '{"mesh":"mesh-2"}' });
      const empty = { ...marked, spec: { ...marked.spec, containers: marked.spec.containers.map(emptied) } };
      expect(standing(second, caughtUp(empty)).wait).toMatchObject({ reason: 'WorkingIsEmpty' });
    });

    const emptied = (container: Pod['spec']['containers'][number]) =>
      container.name === 'mesh-2' ? { ...container, image: 'empty:1' } : container;
  });

  it('has the deadline of the SidecarSet, if it is a duration', () => {
    const deadline = (text: string) =>
      (standing(withNotes(second, { [swapAnnotation.deadline]: text }), begun()).look as OpenSwap).deadlineMs;
    expect(['10m', '90s', 'soon', '0s', '-1s'].map(deadline)).toEqual([
      600_000,
      90_000,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('has the back-off of the kubelet before it begins, unless the SidecarSet does not want that', () => {
    const starts = JSON.stringify({ 'mesh-1': { 'empty:1': '2026-01-01T00:55:00Z' } });
    const pod = withAnnotations(injectedPod([first]), { [imageStartsAnnotation]: starts });
    expect(standing(second, pod).look).toMatchObject({ backOffUntil: '2026-01-01T01:05:00.000Z' });
    const hasty = withNotes(second, { [swapAnnotation.despiteBackOff]: 'true' });
    expect(standing(hasty, pod).look).not.toHaveProperty('backOffUntil');
  });

  it('fits into a history, whatever names and images are', () => {
    const names = Array.from({ length: 60 }, (_, nth) => `${'m'.repeat(58)}${nth}`);
    const many = (version: string) =>
      aSidecarSet({ containers: names.map((name) => hot(name, `example.com/${'i'.repeat(200)}:${version}`)) });
    const { look } = standing(many('2'), injectedPod([many('1')]));
    expect(look).toMatchObject({ stage: 'begin' });
    expect(jsonBytes(look)).toBeLessThanOrEqual(payloadBytes);
  });
});

describe('what is left to do', () => {
  const at = (stage: SwapStage): OpenSwap => ({ kind: 'open', stage, incoming: [], outgoing: [], target: 'h' });
  const stages = ['begin', 'starting', 'reset', 'resetting'] as const;

  it.each([
    ['begin', ['due', 'written', 'written', 'written', 'nothing']],
    ['reset', ['nothing', 'early', 'due', 'written', 'written']],
    ['cancel', ['nothing', 'due', 'nothing', 'written', 'written']],
  ] as const)('for %s, from begin to done: %j', (step, kinds) => {
    const found = [...stages.map((stage) => stepStanding(step, at(stage))), stepStanding(step, { kind: 'done' })];
    expect(found.map(({ kind }) => kind)).toEqual(kinds);
  });

  it.each([
    ['ready', ['changed', undefined, 'reached', 'changed', 'changed']],
    ['idle', ['changed', 'changed', 'changed', undefined, 'reached']],
  ] as const)('until it is %s, from begin to done: %j', (until, ends) => {
    const found = [...stages.map((stage) => goalStanding(until, at(stage))), goalStanding(until, { kind: 'done' })];
    expect(found).toEqual(ends);
  });
});
