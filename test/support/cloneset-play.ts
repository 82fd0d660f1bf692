/** A CloneSet as the subject of a play. */
import type { CloneSet, CloneSetSpec, RollingUpdate } from '../../api/cloneset/types.ts';
import { isActive, type Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { lifecycleStateOf } from '../../api/fleet/lifecycle.ts';
import { limitsOf } from '../../plan/cloneset/counts.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { cloneSetPlanner } from '../../plan/cloneset/planner.ts';
import type { CloneSetScale } from '../../plan/cloneset/scale.ts';
import { type CloneSetScene, replicasOf } from '../../plan/cloneset/scene.ts';
import type { CloneSetDemand } from '../../plan/cloneset/update.ts';
import { cloneSet } from './cloneset-world.ts';
import { FleetPlay } from './fleet-play/play.ts';
import type { PlayCast, Stage, Subject } from './fleet-play/subject.ts';

/** What a play begins with. */
export interface Cast extends PlayCast {
  readonly spec: Pick<CloneSetSpec, 'replicas' | 'minReadySeconds'> & { readonly maxSurge: number };
  readonly rollingUpdate: RollingUpdate;
  readonly keepsClaims: boolean;
  readonly hasClaims: boolean;
  readonly excludesPreparingDelete: boolean;
}

type CloneSetSubject = Subject<CloneSet, CloneSetInput, CloneSetScene, CloneSetScale, CloneSetDemand>;

export class CloneSetPlay extends FleetPlay<CloneSet, CloneSetInput, CloneSetScene, CloneSetScale, CloneSetDemand> {
  constructor(cast: Cast) {
    super(subjectOf(cast), cast);
  }
}

function subjectOf(cast: Cast): CloneSetSubject {
  const { excludesPreparingDelete } = cast;
  const { maxSurge, ...spec } = cast.spec;
  return {
    planner: cloneSetPlanner,
    ownerWith: (template) =>
      cloneSet({
        ...spec,
        template,
        rollingUpdate: { ...cast.rollingUpdate, maxSurge },
        ...(cast.lifecycle && { lifecycle: cast.lifecycle }),
        scaleStrategy: { enablePVCReuse: cast.keepsClaims },
        ...(cast.hasClaims && { volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: {} }] }),
      }),
    input: (input) => ({ ...input, nodes: new Map(), excludePreparingDelete: excludesPreparingDelete }),
    budgets: ['40%', 2],
    mended: ({ spec: { updateStrategy, scaleStrategy } }) => ({
      updateStrategy: {
        type: 'RollingUpdate',
        rollingUpdate: {
          ...updateStrategy?.rollingUpdate,
          ...{ podUpdatePolicy: 'InPlaceIfPossible', paused: false, partition: 0, maxUnavailable: 1 },
        },
      },
      scaleStrategy: { ...scaleStrategy, maxUnavailable: 100 },
    }),
    userSteps: () => [],
    userStepsFor: (stage, pod) => stepsFor(stage, pod),
    budgetOf: ({ limits }) => limits,
    isSurplus: ({ counted, limits }) => counted.length > limits.replicas,
    checkStep(stage, { kind }) {
      if (kind === 'adoptPod') throw stage.broken('a CloneSet adopts nothing');
      if (kind === 'createClaim') throw stage.broken('a CloneSet creates PVCs with their pods only');
      if (kind === 'resizeClaim') throw stage.broken('a CloneSet resizes no PVC');
    },
    // Nothing prevents a creation that another leader has sent: this leader knows of it once it has seen it.
    checkCreated(stage, { limits, counted, input: { owner } }) {
      const isUnknown = ({ metadata: { name } }: Pod) =>
        stage.late.has(name) && !counted.some((seen) => seen.name === name);
      const excluded = excludesPreparingDelete || owner.spec.scaleStrategy?.excludePreparingDelete;
      const active = stage.store.pods.filter(
        (one) =>
          isActive(one) &&
          !isUnknown(one) &&
          isControlledBy(owner, one) &&
          one.metadata.labels?.app === 'web' &&
          !(excluded && lifecycleStateOf(one) === 'PreparingDelete'),
      );
      if (active.length > limits.replicas + limits.maxSurge) {
        throw stage.broken(`${active.length} pods, where ${limits.replicas} and ${limits.maxSurge} more are allowed`);
      }
    },
    checkTruth(stage, { counted }) {
      const { rollingUpdate } = stage.owner.spec.updateStrategy ?? {};
      const limits = limitsOf({ replicas: replicasOf(stage.owner), rollingUpdate, scaleMaxUnavailable: undefined });
      const available = counted.filter(({ isAvailable }) => isAvailable).length;
      if (available < limits.replicas - limits.maxUnavailable) {
        throw stage.broken(
          `${available} pods of ${limits.replicas} are available, ${limits.maxUnavailable} may be missing`,
        );
      }
      const pods = counted.filter(({ state }) => !(excludesPreparingDelete && state === 'PreparingDelete'));
      if (pods.length > limits.replicas + limits.maxSurge) {
        throw stage.broken(`${pods.length} pods of ${limits.replicas}, and ${limits.maxSurge} more are allowed`);
      }
    },
  };
}

function stepsFor(stage: Stage<CloneSet>, pod: Pod) {
  const { scaleStrategy } = stage.owner.spec;
  const { name } = pod.metadata;
  const named = scaleStrategy?.podsToDelete ?? [];
  return [
    {
      what: `the user names ${name}`,
      take: () =>
        stage.changeSpec({ scaleStrategy: { ...scaleStrategy, podsToDelete: [...new Set([...named, name])] } }),
    },
    {
      what: `${name} is no longer of the set`,
      take: () => stage.store.patchPod(pod, { metadata: { labels: { app: 'other' } } }),
    },
  ];
}
