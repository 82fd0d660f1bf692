import { describe, expect, it } from '@jest/globals';
import { objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { updateStateAnnotation } from '../../plan/sidecar-set/pods.ts';
import { resetDecision, resetWrite } from '../../plan/sidecar-set/swap.ts';
import { targetOfSpec } from '../../plan/sidecar-set/target.ts';
import { upgradableWrite } from '../../plan/sidecar-set/upgradable.ts';
import { sidecarWrite } from '../../plan/sidecar-set/write.ts';
import { recorded } from '../support/recorded.ts';
import { imagesOf, withAnnotations, written } from '../support/sidecar-pods.ts';

const runtimeMeta = 'apps.kruise.io/runtime-containers-meta';

function podOf(list: string, name: string): Pod {
  const pod = recorded<readonly Pod[]>(list).find(({ metadata }) => metadata.name === name);
  if (pod === undefined) throw new Error(`${list} has no pod ${name}`);
  return pod;
}

/** What a write is about: images, and all annotations but the one that the daemon writes. */
function marksOf(pod: Pod) {
  const { [runtimeMeta]: _, ...annotations } = pod.metadata.annotations ?? {};
  return { images: imagesOf(pod), annotations };
}

/** When OpenKruise wrote a pod, as its record says. */
function updatedAt(pod: Pod, setName: string): string {
  const entry = objectOr(JSON.parse(pod.metadata.annotations?.[updateStateAnnotation] ?? '{}'))[setName];
  return String(objectOr(entry).updateTimestamp);
}

interface Case {
  readonly set: string;
  readonly pod: string;
  readonly before: string;
  readonly after: string;
  /** The resourceVersion of the SidecarSet that OpenKruise read. */
  readonly version?: string;
}

const updates: readonly Case[] = [
  {
    set: 'sidecarset-2-partition-1-v1beta1',
    pod: 'cold-8lqmb',
    before: 'sidecarset-1-injected-pods',
    after: 'sidecarset-2-partition-1-pods',
  },
  {
    set: 'sidecarset-2-partition-1-v1beta1',
    pod: 'cold-jjjdn',
    before: 'sidecarset-1-injected-pods',
    after: 'sidecarset-2-partition-1-pods',
  },
  {
    set: 'sidecarset-3-updated-v1beta1',
    pod: 'cold-gnh75',
    before: 'sidecarset-2-partition-1-pods',
    after: 'sidecarset-3-updated-pods',
  },
  {
    set: 'sidecarset-hot-2-swapping',
    pod: 'hot-qqlvq',
    before: 'sidecarset-hot-1-injected-pods',
    after: 'sidecarset-hot-2-swapping-pods',
    version: '2386',
  },
  {
    set: 'sidecarset-hot-4-first-done',
    pod: 'hot-v7zzt',
    before: 'sidecarset-hot-3-resetting-pods',
    after: 'sidecarset-hot-4-first-done-pods',
    version: '2400',
  },
];

describe('the writes of a SidecarSet, as OpenKruise recorded them', () => {
  it.each(updates)('SCS-186, SCS-187, SHU-32: $set updates $pod', ({ set: setName, pod, before, after, version }) => {
    const set = recorded<SidecarSet>(setName);
    const wanted = podOf(after, pod);
    const now = updatedAt(wanted, set.metadata.name);
    const target = targetOfSpec(set, set.status?.latestRevision ?? '');
    const result = sidecarWrite({ ...target, ...(version && { version }) }, podOf(before, pod), now);
    if (result.kind !== 'write') throw new Error(`not a write: ${JSON.stringify(result)}`);
    expect(marksOf(written(podOf(before, pod), result.write))).toEqual(marksOf(wanted));
    expect(sidecarWrite(target, written(podOf(before, pod), result.write), now)).toEqual({ kind: 'nothing' });
  });

  it.each([
    {
      pod: 'hot-qqlvq',
      before: 'sidecarset-hot-3-resetting-pods',
      after: 'sidecarset-hot-4-first-done-pods',
    },
    { pod: 'hot-v7zzt', before: 'sidecarset-hot-4-first-done-pods', after: 'sidecarset-hot-5-done-pods' },
  ])('SHU-41: the reset of $pod', ({ pod, before, after }) => {
    const target = targetOfSpec(recorded<SidecarSet>('sidecarset-hot-5-done'), 'hot-85fdcd7846');
    const result = resetWrite(target, podOf(before, pod), '2026-11-22T20:00:30Z');
    if (result === undefined) throw new Error('no reset');
    expect(result.containers).toEqual(['mesh-1']);
    expect(marksOf(written(podOf(before, pod), result.write))).toEqual(marksOf(podOf(after, pod)));
    expect(resetWrite(target, podOf(after, pod), '2026-11-22T20:00:30Z')).toBeUndefined();
  });

  it('SHU-45: no reset while postStart of the new container runs', () => {
    const target = targetOfSpec(recorded<SidecarSet>('sidecarset-hot-2-swapping'), 'hot-85fdcd7846');
    const pod = podOf('sidecarset-hot-2-swapping-pods', 'hot-qqlvq');
    const waits = [{ reason: 'Inconsistent', containers: ['mesh-2'] }];
    expect(resetDecision(target, pod)).toEqual({ kind: 'wait', waits });
  });

  it.each([
    ['cold', 'sidecarset-2-partition-1-pods', 'cold-8lqmb'],
    ['hot', 'sidecarset-hot-2-swapping-pods', 'hot-qqlvq'],
  ])('SCS-191: the condition of a pod that %s updates', (setName, list, name) => {
    const after = podOf(list, name);
    const isCondition = ({ type }: { readonly type: string }) => type === 'SidecarSetUpgradable';
    const wanted = after.status?.conditions?.find(isCondition);
    const before: Pod = {
      ...after,
      status: { ...after.status, conditions: after.status?.conditions?.filter((one) => !isCondition(one)) ?? [] },
    };
    const write = upgradableWrite(before, setName, true, updatedAt(after, setName));
    if (write === undefined) throw new Error('no write');
    const { lastProbeTime: _, ...condition } = { lastProbeTime: null, ...wanted };
    expect(written(before, write).status?.conditions?.find(isCondition)).toEqual(condition);
    expect(upgradableWrite(written(before, write), setName, true, '2027-01-01T00:00:00Z')).toBeUndefined();
  });

  it('SCS-186: the old form of both hash annotations becomes the new one', () => {
    const set = recorded<SidecarSet>('sidecarset-2-partition-1-v1beta1');
    const before = podOf('sidecarset-1-injected-pods', 'cold-8lqmb');
    const hashOf = (annotation: string) => {
      const entry = objectOr(objectOr(JSON.parse(before.metadata.annotations?.[annotation] ?? '{}')).cold);
      return JSON.stringify({ cold: entry.hash, other: 'x' });
    };
    const old = withAnnotations(before, {
      'kruise.io/sidecarset-hash': hashOf('kruise.io/sidecarset-hash'),
      'kruise.io/sidecarset-hash-without-image': hashOf('kruise.io/sidecarset-hash-without-image'),
    });
    const result = sidecarWrite(targetOfSpec(set, 'cold-58c7484b74'), old, '2026-11-22T19:50:57Z');
    if (result.kind !== 'write') throw new Error(`not a write: ${JSON.stringify(result)}`);
    const other = '"other":{"updateTimestamp":null,"hash":"x","sidecarSetName":"other","sidecarList":null}}';
    const { annotations } = written(old, result.write).metadata;
    expect(annotations?.['kruise.io/sidecarset-hash']).toBe(
      '{"cold":{"updateTimestamp":"2026-11-22T19:50:57Z",' +
        '"hash":"d744zz845v8f8wvxv9469dd57484x8v565x86942x54z74884fwddv4x2xdwcf45",' +
        `"sidecarSetName":"cold","sidecarList":["logger"],"controllerRevision":"cold-58c7484b74"},${other}`,
    );
    expect(annotations?.['kruise.io/sidecarset-hash-without-image']).toBe(
      '{"cold":{"updateTimestamp":null,' +
        '"hash":"94xwwzvzz4ddw657fb68v65745bcv7b4d5cv826z76bwx8df7b675wcvf265xb2b",' +
        `"sidecarSetName":"cold","sidecarList":null},${other}`,
    );
  });
});
