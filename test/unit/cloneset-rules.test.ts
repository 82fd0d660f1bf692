// Rules of CloneSets that result from several decisions.
import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import { revisionLabels } from '../../api/fleet/revision.ts';
import { formatGrace, type InPlaceGrace } from '../../api/in-place/grace.ts';
import { formatState } from '../../api/in-place/state.ts';
import { noWork } from '../../api/in-place/work.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import {
  cloneSet,
  earlier,
  fleet,
  imageUpdate,
  newImage,
  newName,
  newPodOf,
  oldImage,
  onDelete,
  permit,
  pod,
  pods,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';

const oldImageId = `docker.io/library/${oldImage}@sha256:0`;
const drain = 'example.com/drain';
const marked = { finalizers: [drain] } as const;
const hook = { finalizersHandler: [drain] };
const lifecycle: Lifecycle = { inPlaceUpdate: hook, preDelete: hook, preNormal: hook };
const fresh = (count: number) => pods('n', count, { revision: newName });

function plan(facts: WorldFacts) {
  return planCloneSet(world({ permit: permit(), ...facts }));
}

/** The steps for pods: `writePod web-a`. */
function said(steps: readonly Intention[]): readonly string[] {
  return steps.flatMap((step) => {
    if ('pod' in step && 'uid' in step.pod) return [`${step.kind} ${String(step.pod.name)}`];
    return step.kind === 'createPod' ? [step.kind] : [];
  });
}

/** A pod that was taken out of service for an update to the new image, whose container has not changed yet. */
function underWay(name: string, more: { readonly inGrace?: boolean } = {}): Pod {
  const state = imageUpdate(more.inGrace ? {} : { lastContainerStatuses: { main: { imageID: oldImageId } } });
  const grace: InPlaceGrace = {
    revision: newName,
    change: { ...noWork, images: { main: newImage }, updateEnvFromMetadata: false },
    graceSeconds: 5,
  };
  const down = (type: string) => ({ type, status: 'False', lastTransitionTime: earlier });
  const made = newPodOf(name, {
    state: 'Updating',
    image: more.inGrace ? oldImage : newImage,
    annotations: {
      'apps.kruise.io/inplace-update-state': formatState(state),
      ...(more.inGrace && { 'apps.kruise.io/inplace-update-grace': formatGrace(grace) }),
    },
    conditions: [
      { ...down('InPlaceUpdateReady'), reason: 'StartInPlaceUpdate' },
      { ...down('KruisePodReady'), status: 'True' },
      down('Ready'),
    ],
  });
  const containerStatuses = made.status?.containerStatuses?.map((status) => ({
    ...status,
    image: `docker.io/library/${oldImage}`,
    imageID: oldImageId,
  }));
  return { ...made, status: { ...made.status, ...(containerStatuses && { containerStatuses }) } };
}

describe('rules of CloneSets', () => {
  it('CS-47: a name of 52 characters leaves room for the revision in a label; with short hashes any name does', () => {
    const longest = (name: string, isShort: boolean) => {
      const labels = revisionLabels(`${name}-bcdfghjklm`, { CloneSetShortHash: isShort });
      return Math.max(...Object.values(labels).map((value) => value.length));
    };
    expect(longest('a'.repeat(52), false)).toBe(63);
    expect(longest('a'.repeat(53), false)).toBeGreaterThan(63);
    expect(longest('a'.repeat(200), true)).toBeLessThan(63);
  });

  it('CS-93: pods of a lost node spend the budget until they are being deleted; then they are replaced', () => {
    const set = cloneSet({ rollingUpdate: { maxUnavailable: 1 } });
    const lost = newPodOf('web-lost', { ready: false });
    const waiting = plan({ set, pods: [...pods('o', 4), lost] });
    expect([said(waiting.upkeep), waiting.disruption]).toEqual([[], []]);
    expect(waiting.standing).toMatchObject({ wait: { reason: 'BudgetSpent', blockedBy: ['pod/web-lost'] } });
    const going = newPodOf('web-lost', { ready: false, deleting: true });
    expect(said(plan({ set, pods: [...pods('o', 4), going] }).upkeep)).toEqual(['createPod']);
  });

  it('IPU-52: a pod that was under way on a lost node stays unavailable, and nothing is done about it', () => {
    const set = cloneSet({ rollingUpdate: { maxUnavailable: 1 } });
    const { upkeep, disruption, status } = plan({ set, pods: [...pods('o', 4), underWay('web-lost')] });
    expect([said(upkeep), disruption]).toEqual([[], []]);
    expect(status).toMatchObject({ availableReplicas: 4, updatedReplicas: 1, updatedReadyReplicas: 0 });
    expect(status?.waitingFor).toMatchObject({ reason: 'ContainersNotSwapped', blockedBy: ['pod/web-lost'] });
  });

  it('IPU-50: while paused, and with OnDelete, what has begun goes on and nothing else begins', () => {
    const given = [...pods('o', 4), underWay('web-begun', { inGrace: true })];
    const paused = cloneSet({ rollingUpdate: { paused: true, maxUnavailable: 5 } });
    for (const set of [paused, onDelete(cloneSet())]) {
      const { upkeep, disruption } = plan({ set, pods: given });
      expect([said(upkeep), disruption]).toEqual([['writePod web-begun'], []]);
    }
  });

  it('LC-14: a pod in PreparingNormal is ready, and unavailable all the same', () => {
    const [young] = fleet(newPodOf('web-a', { state: 'PreparingNormal' }));
    expect(young).toMatchObject({ isServing: true, isAvailable: false });
    const set = cloneSet({ lifecycle, scaleStrategy: { maxUnavailable: 1 } });
    const { status, upkeep } = plan({ set, pods: [...fresh(3), newPodOf('web-a', { state: 'PreparingNormal' })] });
    expect(status).toMatchObject({ readyReplicas: 4, availableReplicas: 3 });
    expect(said(upkeep)).toEqual([]); // the missing pod has to wait
  });

  it('LC-42: a pod that somebody else deletes is not held, and is replaced at once', () => {
    const set = cloneSet({ lifecycle });
    const going = newPodOf('web-gone', { ...marked, deleting: true });
    expect(said(plan({ set, pods: [...fresh(4), going] }).upkeep)).toEqual(['createPod']);
  });

  it('LC-46: a pod that is held before its deletion counts as a pod, and as unavailable', () => {
    const set = cloneSet({ replicas: 4, lifecycle });
    const held = newPodOf('web-held', { ...marked, state: 'PreparingDelete' });
    const { status, upkeep } = plan({ set, pods: [...fresh(4), held] });
    expect(status).toMatchObject({ replicas: 5, readyReplicas: 5, availableReplicas: 4 });
    expect(said(upkeep)).toEqual([]);
  });

  it('LC-47: a pass that changes the state of a pod does nothing more to it; what follows is seen at the next', () => {
    const set = cloneSet({ lifecycle: { inPlaceUpdate: hook }, rollingUpdate: { maxUnavailable: 1 } });
    const before = plan({ set, pods: [...fresh(4), pod('web-a', marked)] });
    expect(before.disruption).toMatchObject([{ pod: { name: 'web-a' } }]);
    expect(JSON.stringify(before.disruption)).toContain('PreparingUpdate');
    const free = plan({ set, pods: [...fresh(4), pod('web-a', { state: 'PreparingUpdate' })] });
    expect(said(free.upkeep)).toEqual(['updatePod web-a']);
  });

  it('LC-66: state and marks together say at which point a pod is held', () => {
    const at = (held: Pod, replicas = 5) =>
      plan({ set: cloneSet({ replicas, lifecycle }), pods: [...fresh(4), held] }).status?.waitingFor?.reason;
    expect(at(pod('web-a', { ...marked, state: 'PreparingUpdate' }))).toBe('HookBeforeUpdate');
    expect(at(newPodOf('web-a', { state: 'Updated' }))).toBe('HookAfterUpdate');
    expect(at(newPodOf('web-a', { ...marked, state: 'PreparingDelete' }), 4)).toBe('HookBeforeDelete');
    expect(at(newPodOf('web-a', { state: 'PreparingNormal' }))).toBe('HookBeforeNormal');
  });
});
