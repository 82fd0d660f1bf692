// Roll-outs of DaemonSets from node to node: one by recreation, and one in place beside it.
import { daemonSets } from '../../../api/daemon-set/types.ts';
import type { Report } from '../campaign.ts';
import type { ChaosSubject, Objections, SubjectKind, SubjectStep } from '../chaos-subject.ts';
import { cuts, freezes, kills } from '../fault-plan.ts';
import type { Random } from '../random.ts';
import { seconds, type World } from '../world.ts';
import { outages, outagesOfControl } from './roll-outs.ts';
import { recreationSteps, type UpdateStep, WorkloadPods } from './workload-pods.ts';

/** The nodes of the cluster. */
const nodes = 2;

/** Of two pods there is no moment before the last ones. */
const steps = recreationSteps.slice(0, -1);

interface NodeRollOutOptions {
  readonly random: Random;
  readonly steps: readonly UpdateStep[];
}

/** No node gets a second pod, and none but one is without a pod that serves. */
class NodeRollOut implements ChaosSubject {
  readonly #recreated: WorkloadPods;
  readonly #inPlace: WorkloadPods;
  readonly #options: NodeRollOutOptions;

  private constructor(recreated: WorkloadPods, inPlace: WorkloadPods, options: NodeRollOutOptions) {
    this.#recreated = recreated;
    this.#inPlace = inPlace;
    this.#options = options;
  }

  /** Both DaemonSets with a pod on each node. */
  static async prepare(world: World, options: NodeRollOutOptions): Promise<NodeRollOut> {
    const plan = { resource: daemonSets, replicas: nodes, leastReady: nodes - 1, expectsUpdate: true } as const;
    const [recreated, inPlace] = await Promise.all([
      WorkloadPods.create(world, { ...plan, recreates: true }),
      WorkloadPods.create(world, plan),
    ]);
    return new NodeRollOut(recreated, inPlace, options);
  }

  get namespace(): string {
    return this.#recreated.namespace;
  }

  get steps(): readonly SubjectStep[] {
    const { random } = this.#options;
    return this.#options.steps.map((step) => ({
      name: step.name,
      reach: async () => {
        await this.#recreated.update();
        // two pods may be further by then
        await this.#recreated.reaches(step, ...steps.slice(-1));
        await this.#inPlace.update();
        await seconds(random.within(0, 0.2));
      },
    }));
  }

  workflows(): ReturnType<ChaosSubject['workflows']> {
    return { rollOut: [this.#recreated.rollOut, this.#inPlace.rollOut] };
  }

  async settled(): Promise<void> {
    await Promise.all([this.#recreated.settled(), this.#inPlace.settled()]);
  }

  async objections(): Promise<Objections> {
    const [recreated, inPlace] = await Promise.all([this.#recreated.objections(), this.#inPlace.objections()]);
    return {
      lasting: [...recreated.lasting, ...inPlace.lasting],
      pending: [...recreated.pending, ...inPlace.pending],
    };
  }

  summarise(report: Report): void {
    this.#recreated.summarise(report);
    this.#inPlace.summarise(report);
  }

  async remove(): Promise<void> {
    await Promise.all([this.#recreated.remove(), this.#inPlace.remove()]);
  }
}

export const nodeRollOuts: SubjectKind = {
  name: 'node-roll-out',
  about: 'updates of two DaemonSets from node to node, by recreation and in place',
  prepare: (world, { random }) => NodeRollOut.prepare(world, { random, steps }),
  prepareBeside: (world, { random }) => NodeRollOut.prepare(world, { random, steps: steps.slice(1) }),
  endures: [
    ...kills(['watcher', 'worker', 'daemon', 'temporal', 'apiserver'], [0, 3]),
    ...freezes(outages),
    ...cuts(outagesOfControl),
  ],
};
