/**
 * The pod and the PVC of one ordinal of a StatefulSet with whenScaled: Delete, in every order in which users, the planner, the
 * kubelet and the garbage collector may come: each write of a pass is made or lost, and others act in between.
 */
import { describe, expect, it } from '@jest/globals';
import { objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { podMark } from '../../api/fleet/marks.ts';
import type { StatefulSet } from '../../api/stateful-set/types.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import { statefulSetWorkloads } from '../../plan/stateful-set/planner.ts';
import { strategicMerge } from '../support/fake-api/strategic-merge.ts';
import { claim, data, fresh, now, old, pod, set } from '../support/stateful-set-world.ts';

type Mode = 'Parallel' | 'OrderedReady';

interface Spec {
  readonly isWanted: boolean;
  readonly whenScaled: 'Delete' | 'Retain';
}

interface PodNow {
  readonly number: number;
  readonly version: number;
  readonly hasEnded?: boolean;
  readonly isLabelled?: boolean;
  readonly isTerminating?: boolean;
}

interface ClaimNow {
  readonly version: number;
  /** The number of the pod that owns it. */
  readonly owner?: number | undefined;
  /** It was given to a pod, or its pod deleted, when the ordinal was not wanted: its data may go. */
  readonly mayGo?: boolean;
}

interface State {
  readonly spec: Spec;
  readonly pod?: PodNow | undefined;
  readonly claim?: ClaimNow | undefined;
  /** The last pod. */
  readonly pods: number;
  /** What is left of the present pass, and the spec that it was planned for. */
  readonly steps: readonly Intention[];
  readonly planned: Spec;
  /** How many more times users and the pod itself change something. */
  readonly changes: number;
}

const uidOf = (podNumber: number) => `pod-${podNumber}`;
const numberOf = (podUid: unknown) => Number(String(podUid).slice('pod-'.length));

function ownerOf({ spec }: State, podManagementPolicy: Mode): StatefulSet {
  const { isWanted, whenScaled } = spec;
  const counts = { replicas: 0, readyReplicas: 0, availableReplicas: 0, currentReplicas: 0, updatedReplicas: 0 };
  return {
    ...set({
      ...{ replicas: isWanted ? 2 : 1, podManagementPolicy, volumeClaimTemplates: [data] },
      persistentVolumeClaimRetentionPolicy: { whenScaled },
    }),
    status: { ...counts, currentRevision: fresh.metadata.name },
  };
}

function podOf({ number, version, hasEnded, isLabelled, isTerminating }: PodNow): Pod {
  const { metadata, ...made } = pod(1, {
    ...{ of: fresh, going: isTerminating ?? false, phase: hasEnded ? 'Failed' : 'Running' },
    ...(isLabelled && { labels: { [podMark.specifiedDelete]: 'true' } }),
  });
  return { ...made, metadata: { ...metadata, uid: uidOf(number), resourceVersion: `${version}` } };
}

function claimOf({ version, owner }: ClaimNow): VolumeClaim {
  const reference = { apiVersion: 'v1', kind: 'Pod', name: 'web-1' };
  const ownerReferences = owner === undefined ? [] : [{ ...reference, uid: uidOf(owner) }];
  return claim(1, { resourceVersion: `${version}`, ownerReferences });
}

function stepsOf(state: State, mode: Mode): readonly Intention[] {
  return statefulSetWorkloads.plan({
    owner: ownerOf(state, mode),
    pods: [pod(0, { of: fresh }), ...(state.pod ? [podOf(state.pod)] : [])],
    claims: [claim(0), ...(state.claim ? [claimOf(state.claim)] : [])],
    ...{ revisions: [old, fresh], gates: parseFeatureGates(), hasResizeSubresource: true },
    ...{ nowMs: Date.parse(now), isSpent: () => false },
  }).upkeep;
}

/** The state after a write of a pass; the same when it is about another version. */
function written(state: State, step: Intention): State {
  const { pod: there, claim: present, planned } = state;
  const goesWithPod = !planned.isWanted && planned.whenScaled === 'Delete';
  switch (step.kind) {
    case 'writeClaim': {
      if (present === undefined || step.claim.resourceVersion !== `${present.version}`) return state;
      const before = { ownerReferences: (claimOf(present).metadata.ownerReferences ?? []).map((one) => ({ ...one })) };
      const { ownerReferences } = strategicMerge(before, objectOr(step.patch.metadata));
      const [first] = ownerReferences as readonly { readonly uid: string }[];
      const owner = first && numberOf(first.uid);
      // a pod that is going, or gone, is the owner of what goes with it
      const mayGo = owner !== undefined && (there?.number !== owner || there.isTerminating === true);
      return { ...state, claim: { version: present.version + 1, owner, mayGo } };
    }
    case 'deletePod': {
      const isThere = there && step.pod.uid === uidOf(there.number) && step.pod.resourceVersion === `${there.version}`;
      if (!isThere) return state;
      const going = { ...there, version: there.version + 1, isTerminating: true };
      return { ...state, pod: going, claim: present && { ...present, mayGo: goesWithPod } };
    }
    case 'createPod': {
      if (there) return state;
      const number = state.pods + 1;
      return { ...state, pod: { number, version: 1 }, pods: number, claim: { version: 1, ...present, mayGo: false } };
    }
    default:
      return state;
  }
}

/** Everything that may happen next. */
function nextStates(state: State, mode: Mode): readonly State[] {
  const { spec, pod: there, steps, planned, changes } = state;
  const next: State[] = [];
  for (const step of steps) {
    const rest = { ...state, steps: steps.filter((one) => one !== step) };
    // the writer stops before what was planned for another spec
    const isCurrent = step.kind === 'createPod' || planned === spec;
    next.push(rest, isCurrent ? written(rest, step) : rest);
  }
  if (steps.length === 0) next.push({ ...state, steps: stepsOf(state, mode), planned: spec });
  if (changes > 0) {
    const changed = { ...state, changes: changes - 1 };
    const others = { Delete: 'Retain', Retain: 'Delete' } as const;
    next.push({ ...changed, spec: { ...spec, isWanted: !spec.isWanted } });
    next.push({ ...changed, spec: { ...spec, whenScaled: others[spec.whenScaled] } });
    const version = (there?.version ?? 0) + 1;
    if (there && !there.hasEnded) next.push({ ...changed, pod: { ...there, version, hasEnded: true } });
    if (there && !there.isLabelled) next.push({ ...changed, pod: { ...there, version, isLabelled: true } });
  }
  if (there?.isTerminating) next.push({ ...state, pod: undefined });
  if (isCollected(state)) next.push({ ...state, claim: undefined });
  return next.filter((one) => keyOf(one) !== keyOf(state));
}

/** Whether the garbage collector deletes the PVC: its owner is gone. */
function isCollected({ pod: there, claim: present }: State): boolean {
  return present?.owner !== undefined && present.owner !== there?.number;
}

function keyOf({ planned, spec, ...state }: State): string {
  return JSON.stringify([state, spec, state.steps.length > 0 && [planned, planned === spec]]);
}

const spec: Spec = { isWanted: true, whenScaled: 'Delete' };
const start: State = {
  ...{ spec, pod: { number: 0, version: 1 }, claim: { version: 1 }, pods: 0 },
  ...{ steps: [], planned: spec, changes: 5 },
};

describe('PVCs of an ordinal that comes and goes', () => {
  it.each(['Parallel', 'OrderedReady'] as const)(
    'AS-81, AS-82: none is lost unless its ordinal was not wanted when its pod was deleted (%s)',
    (mode) => {
      const states = new Map([[keyOf(start), start]]);
      const atRest: State[] = [];
      for (const state of states.values()) {
        const next = nextStates(state, mode);
        if (isCollected(state) && !state.claim?.mayGo) throw new Error(`a PVC is lost: ${JSON.stringify(state)}`);
        if (next.length === 0) atRest.push(state);
        for (const one of next) {
          const key = keyOf(one);
          if (!states.has(key)) states.set(key, one);
        }
      }
      expect(states.size).toBeGreaterThan(1_000);
      expect(atRest.length).toBeGreaterThan(10);
      for (const { spec: wanted, pod: there, claim: present } of atRest) {
        expect(there !== undefined).toBe(wanted.isWanted);
        expect(there?.hasEnded).toBeUndefined();
        expect(present?.owner).toBeUndefined();
        if (wanted.isWanted) expect(present).toBeDefined();
      }
    },
  );
});
