// A roll-out of a CloneSet in place or of a StatefulSet by recreation, and a workload of the kind that grows beside it.
import { statefulSets } from '../../../api/stateful-set/types.ts';
import type { Report } from '../campaign.ts';
import type { ChaosSubject, Objections, SubjectKind, SubjectStep } from '../chaos-subject.ts';
import { cuts, freezes, kills } from '../fault-plan.ts';
import type { Random } from '../random.ts';
import { seconds, type World } from '../world.ts';
import { recreationSteps, type UpdateStep, updateSteps, type WorkloadPlan, WorkloadPods } from './workload-pods.ts';

/** How large a roll-out is, and at which of its steps faults are put. */
export interface RollOutOptions {
  readonly random: Random;
  readonly replicas: number;
  readonly maxUnavailable: number;
  readonly gracePeriodSeconds: number;
  /** A StatefulSet whose pods are recreated, with a PVC each. Absent: a CloneSet that is updated in place. */
  readonly isStateful?: true;
  /** Absent: every step of an update. */
  readonly steps?: readonly UpdateStep['name'][];
  /** Others take their time to their steps: a roll-out that is further by then is met where it is. */
  readonly mayBeFurther?: true;
}

export class RollOut implements ChaosSubject {
  readonly #updated: WorkloadPods;
  readonly #growing: WorkloadPods;
  readonly #options: RollOutOptions;
  #isBegun = false;
  #grown: Promise<void> = Promise.resolve();

  private constructor(updated: WorkloadPods, growing: WorkloadPods, options: RollOutOptions) {
    this.#updated = updated;
    this.#growing = growing;
    this.#options = options;
  }

  /** Both workloads with all pods ready. */
  static async prepare(world: World, options: RollOutOptions): Promise<RollOut> {
    const { replicas, maxUnavailable, gracePeriodSeconds, isStateful } = options;
    const rollingUpdate = { maxUnavailable, inPlaceUpdateStrategy: { gracePeriodSeconds } };
    const leastReady = replicas - maxUnavailable;
    const kind = isStateful ? stateful : {};
    const [updated, growing] = await Promise.all([
      WorkloadPods.create(world, { replicas, rollingUpdate, leastReady, expectsUpdate: true, ...kind }),
      WorkloadPods.create(world, { replicas: 2, leastReady: 0, expectsUpdate: false, ...kind }),
    ]);
    return new RollOut(updated, growing, options);
  }

  get namespace(): string {
    return this.#updated.namespace;
  }

  get steps(): readonly SubjectStep[] {
    const { steps, mayBeFurther, random, isStateful } = this.#options;
    const all = isStateful ? recreationSteps : updateSteps;
    const further = mayBeFurther ? all.slice(-1) : [];
    return all
      .filter(({ name }) => steps?.includes(name) ?? true)
      .map((step) => ({
        name: step.name,
        reach: async () => {
          await this.#begin();
          await this.#updated.reaches(step, ...further);
          this.#grown = this.#growing.grow(random.between(1, 4));
          this.#grown.catch(() => undefined); // it is waited for during the fault
          await seconds(random.within(0, 0.2));
        },
        meanwhile: () => this.#grown,
      }));
  }

  workflows(): ReturnType<ChaosSubject['workflows']> {
    return { rollOut: [this.#updated.rollOut, this.#growing.rollOut] };
  }

  async settled(): Promise<void> {
    await Promise.all([this.#updated.settled(), this.#growing.settled()]);
  }

  async objections(): Promise<Objections> {
    const [updated, growing] = await Promise.all([this.#updated.objections(), this.#growing.objections()]);
    return {
      lasting: [...updated.lasting, ...growing.lasting],
      pending: [...updated.pending, ...growing.pending],
    };
  }

  summarise(report: Report): void {
    this.#updated.summarise(report);
    this.#growing.summarise(report);
  }

  async remove(): Promise<void> {
    await Promise.all([this.#updated.remove(), this.#growing.remove()]);
  }

  async #begin(): Promise<void> {
    if (this.#isBegun) return;
    this.#isBegun = true;
    await this.#updated.update();
  }
}

const volumeMounts = [{ name: 'data', mountPath: '/data' }];

/** A StatefulSet whose pods have a PVC each, and are recreated beside each other. */
const stateful: Partial<WorkloadPlan> = {
  resource: statefulSets,
  recreates: true,
  spec: {
    podManagementPolicy: 'Parallel',
    persistentVolumeClaimRetentionPolicy: { whenScaled: 'Delete' },
    volumeClaimTemplates: [
      {
        metadata: { name: 'data' },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
      },
    ],
  },
  more: { volumeMounts },
};

/** Longer than a lease of the watcher, or than a permit. */
export const outages = { watcher: 15, worker: 12, daemon: 12, temporal: 12, apiserver: 12 } as const;

export const { daemon: _, ...outagesOfControl } = outages;

/** Of twenty pods, a fifth is updated at once. */
export const rollOutSize = { replicas: 20, maxUnavailable: 4, gracePeriodSeconds: 2 } as const;

export const statefulRollOuts: SubjectKind = {
  name: 'stateful-roll-out',
  about: 'an update of 12 pods of a StatefulSet by recreation, and of growing',
  prepare: (world, { random }) =>
    RollOut.prepare(world, { replicas: 12, maxUnavailable: 3, gracePeriodSeconds: 0, isStateful: true, random }),
  prepareBeside: (world, { random }) =>
    RollOut.prepare(world, {
      ...{ random, replicas: 6, maxUnavailable: 2, gracePeriodSeconds: 0, isStateful: true },
      ...{ mayBeFurther: true, steps: recreationSteps.slice(1).map(({ name }) => name) },
    }),
  endures: [
    ...kills(['watcher', 'worker', 'temporal', 'apiserver'], [0, 3]),
    ...freezes(outagesOfControl),
    ...cuts(outagesOfControl),
  ],
};

export const rollOuts: SubjectKind = {
  name: 'roll-out',
  about: 'an update of 20 pods in place, and of growing',
  prepare: (world, { random }) => RollOut.prepare(world, { ...rollOutSize, random }),
  prepareBeside: (world, { random }) =>
    RollOut.prepare(world, {
      ...{ random, replicas: 9, maxUnavailable: 2, gracePeriodSeconds: 3 },
      ...{ mayBeFurther: true, steps: updateSteps.slice(1).map(({ name }) => name) },
    }),
  endures: [
    ...kills(['watcher', 'worker', 'daemon', 'temporal', 'apiserver'], [0, 3]),
    ...freezes(outages),
    ...cuts(outages),
  ],
};
