/** A StatefulSet as the subject of a play. */
import { listOr, objectOr } from '../../api/base/json.ts';
import type { OwnerReference } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { lifecycleStateOf } from '../../api/fleet/lifecycle.ts';
import { ordinalIn, type ReservedOrdinal } from '../../api/stateful-set/ordinals.ts';
import type { StatefulSet, StatefulSetRollingUpdate, StatefulSetSpec } from '../../api/stateful-set/types.ts';
import type { FleetInput, VolumeClaim } from '../../plan/fleet/input.ts';
import type { FleetPod, Members } from '../../plan/fleet/pods.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import { hasCapacity, requestsLess } from '../../plan/stateful-set/claim.ts';
import { statefulSetPlanner } from '../../plan/stateful-set/planner.ts';
import type { StatefulSetScale } from '../../plan/stateful-set/scale.ts';
import { budgetOf, ordinalsFor, replicasOf, type StatefulSetScene } from '../../plan/stateful-set/scene.ts';
import type { StatefulSetDemand } from '../../plan/stateful-set/update.ts';
import { FleetPlay } from './fleet-play/play.ts';
import type { PlayCast, PlayedPlan, Stage, Step, Subject } from './fleet-play/subject.ts';
import { data, set } from './stateful-set-world.ts';

/** What a play begins with. */
export interface StatefulSetCast extends PlayCast {
  readonly spec: Pick<StatefulSetSpec, 'replicas' | 'podManagementPolicy'>;
  readonly rollingUpdate: StatefulSetRollingUpdate;
  readonly hasClaims: boolean;
  readonly whenScaled: WhenScaled;
}

type WhenScaled = 'Retain' | 'Delete';
type Input = FleetInput<StatefulSet>;
type Plan = PlayedPlan<StatefulSet, StatefulSetScene, StatefulSetScale, StatefulSetDemand>;

export class StatefulSetPlay extends FleetPlay<
  StatefulSet,
  Input,
  StatefulSetScene,
  StatefulSetScale,
  StatefulSetDemand
> {
  constructor(cast: StatefulSetCast) {
    super(new StatefulSetSubject(cast), cast);
  }
}

class StatefulSetSubject implements Subject<StatefulSet, Input, StatefulSetScene, StatefulSetScale, StatefulSetDemand> {
  readonly planner = statefulSetPlanner;
  readonly budgets: readonly [number | string, number | string];
  readonly #cast: StatefulSetCast;
  /** UIDs of pods that were deleted, and whose PVCs are to be used again. */
  readonly #kept = new Set<string>();

  constructor(cast: StatefulSetCast) {
    this.#cast = cast;
    this.budgets = cast.spec.podManagementPolicy === 'Parallel' ? ['40%', 2] : [1, 1];
  }

  ownerWith(template: StatefulSetSpec['template']): StatefulSet {
    const { spec, rollingUpdate, lifecycle, hasClaims, whenScaled } = this.#cast;
    return set(
      {
        ...spec,
        template,
        ...(lifecycle && { lifecycle }),
        ...(hasClaims && { volumeClaimTemplates: [data], volumeClaimUpdateStrategy: { type: 'OnPodRollingUpdate' } }),
        persistentVolumeClaimRetentionPolicy: { whenScaled },
      },
      rollingUpdate,
    );
  }

  input(input: Input): Input {
    const orphans = input.pods.filter(
      ({ metadata }) => !metadata.ownerReferences?.some(({ controller }) => controller),
    );
    return { ...input, orphans };
  }

  mended({ spec: { updateStrategy } }: StatefulSet): object {
    const open = { podUpdatePolicy: 'InPlaceIfPossible', paused: false, partition: 0, maxUnavailable: 1 };
    return {
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { ...updateStrategy?.rollingUpdate, ...open } },
      scaleStrategy: { maxUnavailable: '100%' },
    };
  }

  /** LC-45: what is held before its deletion does not come back. */
  mend({ store }: Stage<StatefulSet>): void {
    const held = store.pods.filter((pod) => lifecycleStateOf(pod) === 'PreparingDelete');
    for (const pod of held) store.deletePod(pod);
  }

  userSteps(stage: Stage<StatefulSet>): readonly Step[] {
    const reserve = (...reserveOrdinals: readonly ReservedOrdinal[]): Step => ({
      what: `the user reserves ${reserveOrdinals.join() || 'nothing'}`,
      take: () => stage.changeSpec({ reserveOrdinals }),
    });
    const keep = (whenScaled: WhenScaled): Step => ({
      what: `the user wants whenScaled ${whenScaled}`,
      take: () => stage.changeSpec({ persistentVolumeClaimRetentionPolicy: { whenScaled } }),
    });
    const resize = (storage: string): Step => ({
      what: `the user wants volumes of ${storage}`,
      take: () => stage.changeSpec({ volumeClaimTemplates: [sized(storage)] }),
    });
    const sizes = this.#cast.hasClaims ? [resize('1Gi'), resize('2Gi'), resize('3Gi')] : [];
    return [reserve(), reserve(1), reserve('0-1'), keep('Retain'), keep('Delete'), ...sizes];
  }

  userStepsFor(stage: Stage<StatefulSet>, pod: Pod): readonly Step[] {
    const take = () => {
      const live = stage.store.objects.pod.get(pod.metadata.name);
      if (live?.metadata.uid !== pod.metadata.uid) return;
      stage.store.put('pod', { ...live, metadata: { ...live.metadata, ownerReferences: [] } });
    };
    return [{ what: `the user makes ${pod.metadata.name} an orphan`, take }];
  }

  natureSteps(stage: Stage<StatefulSet>): readonly Step[] {
    return [...this.#collectorSteps(stage), ...this.#driverSteps(stage)];
  }

  /** The driver of the volumes. */
  #driverSteps({ store }: Stage<StatefulSet>): readonly Step[] {
    const due = store.all<VolumeClaim>('claim').filter((claim) => !hasCapacity(claim));
    return due.map((claim) => ({
      what: `${claim.metadata.name} is expanded`,
      take: () => {
        const { storage = '' } = claim.spec?.resources?.requests ?? {};
        store.put('claim', { ...claim, status: { capacity: { storage } } });
      },
    }));
  }

  /** The garbage collector. */
  #collectorSteps(stage: Stage<StatefulSet>): readonly Step[] {
    const { store } = stage;
    const uids = new Set(store.pods.map(({ metadata }) => metadata.uid));
    return store.all<VolumeClaim>('claim').flatMap((claim): readonly Step[] => {
      const { name, deletionTimestamp, ownerReferences = [] } = claim.metadata;
      if (deletionTimestamp !== undefined)
        return [{ what: `${name} is gone`, take: () => store.remove('claim', name) }];
      const gone = ownerReferences.filter(({ kind, uid }) => kind === 'Pod' && !uids.has(uid));
      if (gone.length === 0) return [];
      const take = () => {
        const user = store.pods.find(
          ({ metadata }) => `data-${metadata.name}` === name && !stage.late.has(metadata.name),
        );
        if (gone.some(({ uid }) => this.#kept.has(uid))) throw stage.broken(`${name} is lost`);
        if (user && user.metadata.deletionTimestamp === undefined)
          throw stage.broken(`${name} is lost, which a pod uses`);
        store.put('claim', { ...claim, metadata: { ...claim.metadata, deletionTimestamp: store.now } });
      };
      return [{ what: `${name} is collected`, take }];
    });
  }

  budgetOf({ replicas, maxUnavailable }: StatefulSetScene) {
    return { replicas, maxUnavailable };
  }

  isWanted({ ordinals }: StatefulSetScene, { name }: FleetPod): boolean {
    return ordinals.isWanted(ordinalIn(name, 'web') ?? -1);
  }

  isSurplus(scene: StatefulSetScene, pod: FleetPod): boolean {
    return !this.isWanted(scene, pod);
  }

  /** AS-50: in order, these are the lowest wanted ordinals, whatever their revisions. */
  keptOld({ partition, rollingUpdate }: StatefulSetScene): number {
    return rollingUpdate.unorderedUpdate ? partition : 0;
  }

  checkPlan(stage: Stage<StatefulSet>, { upkeep, disruption }: Plan, scene: StatefulSetScene): void {
    if (scene.isOrdered) this.#checkOrder(stage, upkeep, scene);
    if (scene.rollingUpdate.unorderedUpdate || scene.isUndo) return;
    for (const step of disruption) {
      const name = 'pod' in step ? String(step.pod.name) : '';
      const below = scene.ordinals.below(ordinalIn(name, 'web') ?? -1);
      if (below < scene.partition) throw stage.broken(`updates ${name}, which is below the partition`);
    }
  }

  /** AS-34, AS-40: in order, one creation or deletion at a time, and none beyond a pod that is not available. */
  #checkOrder(stage: Stage<StatefulSet>, upkeep: readonly Intention[], scene: StatefulSetScene): void {
    const creations = upkeep.filter((step) => step.kind === 'createPod');
    const deletions = upkeep.filter((step) => step.kind === 'deletePod');
    if (creations.length + deletions.length > 1) throw stage.broken('creates or deletes several pods at once');
    const available = new Set(scene.replicaPods.filter(({ pod }) => pod.isAvailable).map(({ ordinal }) => ordinal));
    const ordinals = [...scene.ordinals.wanted()];
    for (const { name } of creations) {
      const below = ordinals.slice(0, ordinals.indexOf(ordinalIn(name, 'web') ?? -1));
      if (!below.every((ordinal) => available.has(ordinal))) throw stage.broken(`creates ${name} out of order`);
    }
    for (const { pod } of deletions) {
      const isTooMany = scene.condemned.some(({ pod: { name } }) => name === pod.name);
      if (isTooMany && !ordinals.every((ordinal) => available.has(ordinal))) {
        throw stage.broken(`scales in ${pod.name} while another one is not available`);
      }
      if (isTooMany && scene.condemned[0]?.pod.name !== pod.name) throw stage.broken(`scales in ${pod.name} too early`);
    }
  }

  checkStep(stage: Stage<StatefulSet>, step: Intention, scene: StatefulSetScene): void {
    switch (step.kind) {
      case 'createPod': {
        const there = scene.counted.find(({ name }) => name === step.name);
        if (there) throw stage.broken(`creates ${step.name}, which it sees`);
        return;
      }
      case 'recreatePod':
      case 'deletePod': {
        if (step.kind === 'recreatePod' && step.mark) return;
        const { uid, name } = step.pod;
        const seen = scene.counted.find((pod) => pod.pod.metadata.uid === uid);
        if (seen?.isTerminating) throw stage.broken(`deletes ${name} twice`);
        const live = stage.store.objects.pod.get(name);
        if (live?.metadata.resourceVersion === step.pod.resourceVersion && !goesWithPod(scene, name))
          this.#kept.add(uid);
        return;
      }
      case 'writeClaim': {
        const owners = listOr(objectOr(step.patch.metadata).ownerReferences) as unknown as readonly OwnerReference[];
        const podOwner = owners.find((owner) => owner.kind === 'Pod' && !('$patch' in owner));
        if (podOwner === undefined) return;
        if (!goesWithPod(scene, podOwner.name)) throw stage.broken(`${step.claim.name} is to go with ${podOwner.name}`);
        this.#kept.delete(podOwner.uid);
        return;
      }
      case 'deleteClaim':
        throw stage.broken(`deletes ${step.claim.name}`);
      default:
        return;
    }
  }

  checkTruth(stage: Stage<StatefulSet>, { counted }: Members): void {
    const { owner, store } = stage;
    const replicas = replicasOf(owner);
    const { maxUnavailable = 1 } = owner.spec.updateStrategy?.rollingUpdate ?? {};
    const budget = budgetOf(maxUnavailable, replicas);
    const isExpanding = (pod: string) =>
      store.all<VolumeClaim>('claim').some((claim) => claim.metadata.name === `data-${pod}` && !hasCapacity(claim));
    const available = counted.filter(({ name, isAvailable }) => isAvailable && !isExpanding(name)).length;
    if (available < replicas - budget) {
      throw stage.broken(`${available} pods of ${replicas} are available with their volumes, ${budget} may be missing`);
    }
    if (counted.length > replicas) throw stage.broken(`${counted.length} pods of ${replicas}`);
  }

  unfinished({ owner, store }: Stage<StatefulSet>): readonly string[] {
    const wanted = [...ordinalsFor(owner, { StatefulSetStartOrdinal: false }).wanted()];
    const missing = wanted.filter((ordinal) => !store.objects.pod.has(`web-${ordinal}`));
    const bare = wanted.filter((ordinal) => this.#cast.hasClaims && !store.objects.claim.has(`data-web-${ordinal}`));
    const [template] = owner.spec.volumeClaimTemplates ?? [];
    const small = store.all<VolumeClaim>('claim').filter((claim) => template && requestsLess(claim, template));
    const left = this.#cast.gates.includes('StatefulSetAutoResizePVCGate') ? small : [];
    return [
      ...left
        .filter(({ metadata }) => wanted.includes(ordinalIn(metadata.name, 'data-web') ?? -1))
        .map(({ metadata }) => `${metadata.name} is small`),
      ...missing.map((ordinal) => `web-${ordinal} is missing`),
      ...bare.map((ordinal) => `web-${ordinal} has no PVC`),
    ];
  }
}

/** The template of PVCs, for volumes of this size. */
export function sized(storage: string) {
  return { ...data, spec: { ...data.spec, resources: { requests: { storage } } } };
}

function goesWithPod({ owner, ordinals }: StatefulSetScene, podName: string): boolean {
  const { whenScaled } = owner.spec.persistentVolumeClaimRetentionPolicy ?? {};
  return whenScaled === 'Delete' && !ordinals.isWanted(ordinalIn(podName, 'web') ?? -1);
}
