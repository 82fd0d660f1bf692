/** A DaemonSet as the subject of a play: with its nodes, which come and go. */
import type { Node, Taint } from '../../api/core/node.ts';
import { nodeOf, type Pod } from '../../api/core/pod.ts';
import type { DaemonSet, DaemonSetRollingUpdate, DaemonSetSpec } from '../../api/daemon-set/types.ts';
import type { DaemonSetInput } from '../../plan/daemon-set/input.ts';
import { daemonSetPlanner } from '../../plan/daemon-set/planner.ts';
import type { DaemonSetScale } from '../../plan/daemon-set/scale.ts';
import { budgetsOf, type DaemonSetScene, type Place } from '../../plan/daemon-set/scene.ts';
import { type DaemonSetDemand, selectedPlaces } from '../../plan/daemon-set/update.ts';
import type { FleetInput } from '../../plan/fleet/input.ts';
import { type FleetPod, isPodReady, type Members } from '../../plan/fleet/pods.ts';
import { isInDoubt } from '../../plan/fleet/scene.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import { isDrained } from '../../plan/fleet/update.ts';
import { node, set, uid } from './daemon-set-world.ts';
import { FleetPlay } from './fleet-play/play.ts';
import type { PlayCast, PlayedPlan, Stage, Step, Subject } from './fleet-play/subject.ts';

/** What a play begins with. */
export interface DaemonSetCast extends PlayCast {
  readonly nodes: number;
  readonly spec: Pick<DaemonSetSpec, 'minReadySeconds' | 'burstReplicas'>;
  readonly rollingUpdate: DaemonSetRollingUpdate;
}

type Plan = PlayedPlan<DaemonSet, DaemonSetScene, DaemonSetScale, DaemonSetDemand>;

export class DaemonSetPlay extends FleetPlay<
  DaemonSet,
  DaemonSetInput,
  DaemonSetScene,
  DaemonSetScale,
  DaemonSetDemand
> {
  constructor(cast: DaemonSetCast) {
    super(new DaemonSetSubject(cast), cast);
  }
}

const refusing: readonly Taint['effect'][] = ['NoSchedule', 'NoExecute'];

class DaemonSetSubject implements Subject<DaemonSet, DaemonSetInput, DaemonSetScene, DaemonSetScale, DaemonSetDemand> {
  readonly planner = daemonSetPlanner;
  readonly budgets = ['40%', 2] as const;
  readonly #cast: DaemonSetCast;
  /** By name. Every leader sees them as they are. */
  readonly #nodes = new Map<string, Node>();

  constructor(cast: DaemonSetCast) {
    this.#cast = cast;
    this.#reset();
  }

  ownerWith(template: DaemonSetSpec['template']): DaemonSet {
    const { spec, rollingUpdate, lifecycle } = this.#cast;
    const selector = { matchLabels: { app: 'web' } };
    const owner = set(rollingUpdate, { ...spec, selector, template, ...(lifecycle && { lifecycle }) });
    return { ...owner, metadata: { ...owner.metadata, name: 'web' } };
  }

  input(input: FleetInput<DaemonSet>): DaemonSetInput {
    const isOrphan = ({ metadata }: Pod) => !metadata.ownerReferences?.some(({ controller }) => controller);
    return { ...input, orphans: input.pods.filter(isOrphan), nodes: [...this.#nodes.values()] };
  }

  hasNode(name: string): boolean {
    return this.#nodes.has(name);
  }

  replicas(): number {
    return this.#running().length;
  }

  mended({ spec: { updateStrategy } }: DaemonSet): object {
    const { selector: _, ...rollingUpdate } = updateStrategy?.rollingUpdate ?? {};
    const open = {
      rollingUpdateType: 'InPlaceIfPossible',
      paused: false,
      partition: 0,
      maxUnavailable: 1,
      maxSurge: 0,
    };
    return {
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { ...rollingUpdate, ...open } },
      scaleStrategy: {},
    };
  }

  mend(): void {
    this.#reset();
  }

  userSteps(stage: Stage<DaemonSet>): readonly Step[] {
    const { updateStrategy } = stage.owner.spec;
    const rolling = (what: string, change: DaemonSetRollingUpdate): Step => ({
      what: `the user ${what}`,
      take: () =>
        stage.changeSpec({
          updateStrategy: { ...updateStrategy, rollingUpdate: { ...updateStrategy?.rollingUpdate, ...change } },
        }),
    });
    const put = (name: string, what: string, given: Parameters<typeof node>[1]): Step => ({
      what: `${name} ${what}`,
      take: () => void this.#nodes.set(name, node(name, given)),
    });
    const forNodes = this.#names().flatMap((name): readonly Step[] => [
      put(name, 'is there', {}),
      ...refusing.map((effect) => put(name, `has a taint ${effect}`, { taints: [{ key: 'down', effect }] })),
      put(name, 'is a canary', { labels: { stage: 'canary' } }),
      { what: `${name} is removed`, take: () => void this.#nodes.delete(name) },
    ]);
    return [
      ...forNodes,
      rolling('surges', { maxSurge: 1, maxUnavailable: 0, rollingUpdateType: 'Standard' }),
      rolling('surges no more', { maxSurge: 0, maxUnavailable: 1 }),
      rolling('updates the canaries', { selector: { matchLabels: { stage: 'canary' } } }),
      rolling('updates all nodes', { selector: {} }),
      {
        what: 'the user creates pods step by step',
        take: () => stage.changeSpec({ scaleStrategy: { partitionedScaling: true } }),
      },
    ];
  }

  userStepsFor(stage: Stage<DaemonSet>, pod: Pod): readonly Step[] {
    const take = () => {
      const live = stage.store.objects.pod.get(pod.metadata.name);
      if (live?.metadata.uid !== pod.metadata.uid) return;
      stage.store.put('pod', { ...live, metadata: { ...live.metadata, ownerReferences: [] } });
    };
    return [{ what: `the user makes ${pod.metadata.name} an orphan`, take }];
  }

  /** The garbage collector of pods. */
  natureSteps({ store }: Stage<DaemonSet>): readonly Step[] {
    const lost = store.pods.filter(({ spec: { nodeName } }) => nodeName !== undefined && !this.#nodes.has(nodeName));
    return lost.map(({ metadata: { name } }) => ({
      what: `${name} is collected with its node`,
      take: () => store.remove('pod', name),
    }));
  }

  /** AD-32: so many available pods may be taken as the budget has left. */
  budgetOf(scene: DaemonSetScene) {
    const selected = selectedPlaces(scene);
    const spent = selected.filter((place) => isSpent(scene, place)).length;
    const available = scene.counted.filter(
      (pod) => pod.isAvailable && !isInDoubt(scene, pod) && this.isWanted(scene, pod),
    ).length;
    return { replicas: available + spent, maxUnavailable: scene.maxUnavailable };
  }

  /** While surging, what matters is that another one is available on the node. */
  isWanted(scene: DaemonSetScene, pod: FleetPod): boolean {
    if (scene.maxSurge > 0) return false;
    return selectedPlaces(scene).some(
      ({ eligibility, pods }) => eligibility !== 'no' && pods.find(({ isTerminating }) => !isTerminating) === pod,
    );
  }

  isSurplus(scene: DaemonSetScene, pod: FleetPod): boolean {
    const place = placeOf(scene, pod);
    if (place === undefined || place.eligibility === 'no' || pod.state === 'PreparingDelete') return true;
    return place.pods.filter(({ isTerminating }) => !isTerminating).length > 1;
  }

  checkPlan(stage: Stage<DaemonSet>, { upkeep, disruption }: Plan, scene: DaemonSetScene): void {
    const all = [...upkeep, ...disruption];
    const created = all.flatMap((step) =>
      step.kind === 'createPod' ? [nodeOf(step.pod as unknown as Pod) ?? ''] : [],
    );
    for (const name of created) {
      const { pods = [], fresh = [] } = scene.places.find((place) => place.node === name) ?? {};
      const isFree =
        scene.maxSurge > 0 ? fresh.filter((pod) => pod.state !== 'PreparingDelete').every(isFailed) : pods.length === 0;
      if (!isFree) throw stage.broken(`creates a pod on ${name}, which has one`);
    }
    if (new Set(created).size !== created.length) throw stage.broken(`creates two pods on one node: ${created.join()}`);
    for (const step of all) if (step.kind === 'deletePod') this.#checkReplaced(stage, step, scene);
  }

  /** AD-35a: while surging, an available pod goes only once its node has another one. */
  #checkReplaced(
    stage: Stage<DaemonSet>,
    { pod: { uid: podUid, name } }: { readonly pod: { uid: string; name: string } },
    scene: DaemonSetScene,
  ) {
    const pod = scene.counted.find((one) => one.pod.metadata.uid === podUid);
    const place = pod && placeOf(scene, pod);
    if (pod?.isAvailable !== true || place?.eligibility !== 'runs' || pod.state === 'PreparingDelete') return;
    const others = place.pods.filter((one) => one !== pod && isPodReady(one.pod) && !one.isTerminating);
    if (scene.maxSurge > 0 && others.length === 0) throw stage.broken(`deletes ${name}, the only pod of its node`);
  }

  checkStep(stage: Stage<DaemonSet>, step: Intention): void {
    if ('claim' in step || step.kind === 'createClaim') throw stage.broken('a DaemonSet has no PVCs');
  }

  checkTruth(stage: Stage<DaemonSet>, { counted }: Members): void {
    const { rollingUpdate = {} } = stage.owner.spec.updateStrategy ?? {};
    const nodes = this.#running();
    const { maxUnavailable, maxSurge } = budgetsOf(rollingUpdate, nodes.length);
    const present = Map.groupBy(
      counted.filter(({ isTerminating }) => !isTerminating),
      ({ pod }) => nodeOf(pod) ?? '',
    );
    const served = nodes.filter((name) => present.get(name)?.some(({ isAvailable }) => isAvailable)).length;
    // AD-35: one that a hook holds is none of them
    const isStaying = ({ state }: FleetPod) => state !== 'PreparingDelete';
    const doubled = nodes.filter((name) => (present.get(name)?.filter(isStaying).length ?? 0) > 1);
    if (served < nodes.length - maxUnavailable) {
      throw stage.broken(`${served} of ${nodes.length} nodes are served, ${maxUnavailable} may be without`);
    }
    if (doubled.length > maxSurge) throw stage.broken(`two pods on ${doubled.join()}, where ${maxSurge} may surge`);
    const many = [...present].find(([, pods]) => pods.length > 2);
    if (many) throw stage.broken(`${many[1].length} pods on ${many[0]}`);
  }

  unfinished({ store }: Stage<DaemonSet>): readonly string[] {
    return this.#running().flatMap((name) => {
      const count = store.pods.filter((pod) => nodeOf(pod) === name && isOurs(pod)).length;
      return count === 1 ? [] : [`${count} pods on ${name}`];
    });
  }

  #names(): readonly string[] {
    return Array.from({ length: this.#cast.nodes }, (_, at) => `node-${at}`);
  }

  /** The nodes that should run a pod. */
  #running(): readonly string[] {
    return [...this.#nodes.values()].filter(({ spec }) => !spec?.taints?.length).map(({ metadata }) => metadata.name);
  }

  #reset(): void {
    for (const name of this.#names()) this.#nodes.set(name, node(name));
  }
}

function isOurs({ metadata }: Pod): boolean {
  return metadata.ownerReferences?.some((owner) => owner.uid === uid) ?? false;
}

function placeOf({ places }: DaemonSetScene, { pod }: FleetPod): Place | undefined {
  return places.find(({ node: name }) => name === nodeOf(pod));
}

function isFailed({ pod }: FleetPod): boolean {
  return pod.status?.phase === 'Failed';
}

/** AD-32: the node is without an available pod of the new revision, and not waiting for its turn. */
function isSpent(scene: DaemonSetScene, { fresh, old }: Place): boolean {
  const waiting = old.filter(({ state }) => state !== 'PreparingDelete');
  const [only] = waiting;
  if (fresh.length + waiting.length !== 1 || old.length > 1) return true;
  return only ? isDrained(only) || isInDoubt(scene, only) : fresh[0]?.isAvailable !== true;
}
