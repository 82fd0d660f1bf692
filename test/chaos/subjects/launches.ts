// Pods whose containers start in order, each as soon as the one before it is let become ready.

import type { JsonObject } from '../../../api/base/json.ts';
import { barrierName, type LaunchBarrier, launchMark } from '../../../api/container-launch-priority.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { waitFor } from '../../support/wait.ts';
import type { Report } from '../campaign.ts';
import { type ChaosSubject, type Objections, type SubjectKind, type SubjectStep, soon } from '../chaos-subject.ts';
import { freezes, freezesInTurns, frozenSeconds, kills } from '../fault-plan.ts';
import type { ObjectRecord } from '../follow.ts';
import { launchViolations } from '../judges/launch-judge.ts';
import { Room } from '../room.ts';
import { patienceMs, untilDone, type World } from '../world.ts';

/** Pods with their containers, in the order of the list, and the priority of each. */
const orders = {
  listed: { first: 0, second: -1, third: -2 },
  numbered: { third: -5, first: 10, second: 0 },
  // two that may start together
  paired: { first: 1, second: 0, third: 0 },
  deleted: { first: 0, second: -1, third: -2 },
} as const satisfies Readonly<Record<string, Readonly<Record<string, number>>>>;
type Name = keyof typeof orders;
const names = Object.keys(orders) as readonly Name[];
/** It is deleted while it waits. */
const doomed: Name = 'deleted';
const kept = names.filter((name) => name !== doomed);

/** A container is ready once there is a file for it. */
const script = `
cd /shared; for before in $BEFORE; do [ -e ready-$before ] || echo "$NAME before $before" >> early; done
echo $NAME >> starts; trap 'exit 0' TERM; sleep 99999 & wait`;

/** Four pods from before their creation to the verdict. */
export class Launches implements ChaosSubject {
  readonly #world: World;
  readonly #room: Room;
  readonly #pods: ObjectRecord<Pod>;
  readonly #barriers: ObjectRecord<LaunchBarrier>;

  private constructor(world: World, room: Room, pods: ObjectRecord<Pod>, barriers: ObjectRecord<LaunchBarrier>) {
    this.#world = world;
    this.#room = room;
    this.#pods = pods;
    this.#barriers = barriers;
  }

  static async prepare(world: World): Promise<Launches> {
    const room = await Room.create(world);
    const [pods, barriers] = await Promise.all([
      room.record<Pod>(kubeResource.pods),
      room.record<LaunchBarrier>(kubeResource.configMaps),
    ]);
    const launches = new Launches(world, room, pods, barriers);
    world.leftovers.add(launches);
    return launches;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  get steps(): readonly SubjectStep[] {
    return [
      {
        name: 'pods are made',
        reach: async () => {
          await Promise.all(names.map((name) => this.#room.make(kubeResource.pods, name, this.#podBody(name))));
        },
      },
      {
        name: 'the first containers run',
        reach: () => soon('all first containers to run', () => names.every((name) => this.#isRunning(name, 'first'))),
        meanwhile: () => this.#room.drop(kubeResource.pods, doomed),
      },
      {
        name: 'a first container is ready',
        reach: async () => {
          for (const name of kept) this.#room.folder(name).touch('ready-first');
          await soon('a first container to be ready', () => kept.some((name) => this.#isReady(name, 'first')));
        },
      },
      {
        name: 'a second container may start',
        reach: () => soon('the next key', () => kept.some((name) => this.#keys(name) >= 2)),
      },
      {
        name: 'the last may start',
        reach: async () => {
          await soon('all second containers to run', () => kept.every((name) => this.#isRunning(name, 'second')));
          for (const name of kept) this.#room.folder(name).touch('ready-second');
          await soon('the last key', () => this.#keys('listed') === 3 || this.#keys('numbered') === 3);
          for (const name of kept) this.#room.folder(name).touch('ready-third');
        },
      },
    ];
  }

  workflows(): ReturnType<ChaosSubject['workflows']> {
    return {};
  }

  async settled(): Promise<void> {
    await waitFor(
      `the pods of ${this.namespace} to be ready`,
      (see) => {
        const waiting = kept.filter((name) => !['first', 'second', 'third'].every((one) => this.#isReady(name, one)));
        see(waiting.map((name) => this.#podOf(name)?.status?.containerStatuses));
        return waiting.length === 0;
      },
      { deadlineMs: patienceMs },
    );
  }

  async objections(): Promise<Objections> {
    // the last marks come a moment later
    return { lasting: [], pending: [...kept.flatMap((name) => this.#violationsOf(name)), ...this.#litter(doomed)] };
  }

  summarise(report: Report): void {
    const starts = kept.map((name) => this.#room.folder(name).lines('starts').join(' → '));
    report.outcome('as it should be');
    report.figure(`${this.namespace}: ${starts.join('; ')}`);
  }

  /** What holds containers goes with their pods, also when these go first. */
  async remove(): Promise<void> {
    await this.#room.dropPods();
    await untilDone('all barriers to be gone', async () => {
      const litter = names.flatMap((name) => this.#litter(name));
      if (litter.length > 0) throw new Error(litter.join('; '));
    });
    await this.#room.remove();
    this.#world.leftovers.delete(this);
  }

  #violationsOf(name: Name): readonly string[] {
    const folder = this.#room.folder(name);
    return launchViolations({
      subject: `${this.namespace}/${name}`,
      order: orders[name],
      versions: this.#pods.versionsOf(name).map(({ object }) => object),
      starts: folder.lines('starts'),
      early: folder.lines('early'),
      barrier: this.#barrierOf(name),
    });
  }

  #litter(name: Name): readonly string[] {
    const left = [this.#podOf(name) && 'pod', this.#barrierOf(name) && 'barrier'];
    return left.flatMap((what) => (what ? [`${this.namespace}/${name} was deleted, and its ${what} is there`] : []));
  }

  #podOf(name: Name): Pod | undefined {
    return this.#pods.now.find(({ metadata }) => metadata.name === name);
  }

  #barrierOf(name: Name): LaunchBarrier | undefined {
    return this.#barriers.now.find(({ metadata }) => metadata.name === barrierName(name));
  }

  #keys(name: Name): number {
    return Object.keys(this.#barrierOf(name)?.data ?? {}).length;
  }

  #isRunning(name: Name, container: string): boolean {
    return this.#statusOf(name, container)?.state?.running !== undefined;
  }

  #isReady(name: Name, container: string): boolean {
    return this.#statusOf(name, container)?.ready ?? false;
  }

  #statusOf(name: Name, container: string) {
    return this.#podOf(name)?.status?.containerStatuses?.find((status) => status.name === container);
  }

  #podBody(name: Name): JsonObject {
    const { volume, mount } = this.#room.folder(name);
    const order: Readonly<Record<string, number>> = orders[name];
    const isListed = name === 'listed' || name === 'deleted';
    return {
      ...(isListed && { metadata: { annotations: { [launchMark.annotation]: launchMark.ordered } } }),
      spec: {
        terminationGracePeriodSeconds: 2,
        enableServiceLinks: false,
        automountServiceAccountToken: false,
        volumes: [volume],
        containers: Object.entries(order).map(([container, priority]) => {
          const before = Object.keys(order).filter((other) => (order[other] ?? 0) > priority);
          const env = {
            NAME: container,
            BEFORE: before.join(' '),
            ...(!isListed && { [launchMark.env]: String(priority) }),
          };
          return {
            name: container,
            image: 'busybox:1.36',
            command: ['sh', '-c', script],
            env: Object.entries(env).map(([key, value]) => ({ name: key, value })),
            volumeMounts: [mount],
            readinessProbe: {
              exec: { command: ['test', '-e', `/shared/ready-${container}`] },
              periodSeconds: 1,
              timeoutSeconds: 10,
            },
          };
        }),
      },
    };
  }
}

export const launches: SubjectKind = {
  name: 'launch',
  about: 'the start of four pods whose containers have an order',
  prepare: (world) => Launches.prepare(world),
  endures: [
    ...kills(['daemon', 'worker', 'watcher', 'temporal', 'apiserver'], [0, 3]),
    ...freezes({ daemon: frozenSeconds.daemon }),
    freezesInTurns(frozenSeconds.watcher),
  ],
  hurried: true,
};
