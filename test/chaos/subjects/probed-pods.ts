// Pods that are probed for what the test decides, and what is shown of that.
import type { JsonObject } from '../../../api/base/json.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { type NodePodProbe, nodePodProbe, probeKey } from '../../../api/node-pod-probe/types.ts';
import { podProbeMarker } from '../../../api/pod-probe-marker/types.ts';
import { waitFor } from '../../support/wait.ts';
import type { Report } from '../campaign.ts';
import { type ChaosSubject, type Objections, type SubjectKind, type SubjectStep, soon } from '../chaos-subject.ts';
import { freezes, freezesInTurns, frozenSeconds, kills } from '../fault-plan.ts';
import type { ObjectRecord } from '../follow.ts';
import { probeViolations } from '../judges/probe-judge.ts';
import { podWithFolder, Room } from '../room.ts';
import { patienceMs, type World } from '../world.ts';

const marker = 'chaos';
const condition = { up: 'chaos.example/up', open: 'chaos.example/open' } as const;
type Probe = keyof typeof condition;
const label = 'chaos.example/is-up';
const app = { app: 'probed' };

/** Pods by what they are like at first; `turning` changes. */
const atFirst = { up: true, down: false, turning: true, 'turning-too': false } as const;
type Name = keyof typeof atFirst;
const names = Object.keys(atFirst) as readonly Name[];
const turning = names.filter((name) => name.startsWith('turning'));

const script = `trap 'exit 0' TERM; mkdir -p /www; httpd -p 8080 -h /www; sleep 99999 & wait`;

/** Four pods with two probes each, from their first results to the verdict. */
export class ProbedPods implements ChaosSubject {
  readonly #world: World;
  readonly #room: Room;
  readonly #pods: ObjectRecord<Pod>;
  readonly #lists: ObjectRecord<NodePodProbe>;
  readonly #truth: ReadonlyMap<Name, boolean[]> = new Map(names.map((name) => [name, [atFirst[name]]]));
  /** How many versions there were before everything had a result. */
  readonly #before = new Map<string, number>();

  private constructor(world: World, room: Room, pods: ObjectRecord<Pod>, lists: ObjectRecord<NodePodProbe>) {
    this.#world = world;
    this.#room = room;
    this.#pods = pods;
    this.#lists = lists;
  }

  /** The pods, with all first results. */
  static async prepare(world: World): Promise<ProbedPods> {
    const room = await Room.create(world);
    const [pods, lists] = await Promise.all([
      room.record<Pod>(kubeResource.pods),
      room.record<NodePodProbe>(nodePodProbe, 'everywhere'),
    ]);
    const probed = new ProbedPods(world, room, pods, lists);
    world.leftovers.add(probed);
    for (const name of names) if (atFirst[name]) room.folder(name).touch('up');
    await room.make(podProbeMarker, marker, { spec: markerSpec() });
    await Promise.all(
      names.map((name) =>
        room.make(
          kubeResource.pods,
          name,
          podWithFolder(room.folder(name), { labels: app, container: 'main', script }),
        ),
      ),
    );
    await probed.settled();
    for (const versions of [...pods.all, ...lists.all]) {
      probed.#before.set(versions[0]?.object.metadata.uid ?? '', versions.length - 1);
    }
    return probed;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  get steps(): readonly SubjectStep[] {
    return [
      { name: 'nothing changes', reach: () => this.settled() },
      {
        name: 'what is probed has just changed',
        reach: async () => {
          await this.settled();
          this.#turn();
        },
      },
      {
        name: 'what is probed changes meanwhile',
        reach: () => this.settled(),
        meanwhile: async () => this.#turn(),
      },
      {
        name: 'found out, and not yet shown',
        reach: async () => {
          await this.settled();
          this.#turn();
          await soon('a daemon to say so', () => turning.some((name) => this.#isFound(name)));
        },
      },
    ];
  }

  workflows(): ReturnType<ChaosSubject['workflows']> {
    return {};
  }

  async settled(): Promise<void> {
    await waitFor(
      `the pods of ${this.namespace} to show what is the case`,
      (see) => {
        const wrong = names.filter((name) => !this.#isShown(name));
        see(wrong.map((name) => ({ name, conditions: this.#podOf(name)?.status?.conditions })));
        return wrong.length === 0;
      },
      { deadlineMs: patienceMs },
    );
  }

  async objections(): Promise<Objections> {
    const probes = Object.keys(condition) as readonly Probe[];
    return {
      lasting: names.flatMap((name) => probes.flatMap((probe) => this.#violationsOf(name, probe))),
      pending: [],
    };
  }

  summarise(report: Report): void {
    const turns = [...this.#truth.values()].reduce((sum, truth) => sum + truth.length - 1, 0);
    const versions = names.map((name) => this.#pods.versionsOf(name).length - (this.#before.get(this.#uid(name)) ?? 0));
    report.outcome('as it should be');
    report.figure(`${this.namespace}: ${turns} changes, shown in ${versions.join(' + ')} versions of the pods`);
    if (this.#pods.gaps > 0) report.figure(`${this.namespace}: ${this.#pods.gaps} gaps in the watch`);
  }

  async remove(): Promise<void> {
    await this.#room.drop(podProbeMarker, marker);
    await this.#room.dropPods();
    const uids = this.#pods.all.map(([first]) => first?.object.metadata.uid);
    await waitFor('nothing of them to be probed any more', (see) => {
      const listed = this.#lists.now.flatMap(({ spec, status }) => [
        ...(spec.podProbes ?? []),
        ...(status?.podProbeStatuses ?? []),
      ]);
      return see(listed.filter(({ uid }) => uids.includes(uid))).length === 0;
    });
    await this.#room.remove();
    this.#world.leftovers.delete(this);
  }

  #turn(): void {
    for (const name of turning) {
      const is = !this.#truthOf(name).at(-1);
      this.#truthOf(name).push(is);
      if (is) this.#room.folder(name).touch('up');
      else this.#room.folder(name).remove('up');
    }
  }

  #violationsOf(name: Name, probe: Probe): readonly string[] {
    const pod = this.#podOf(name);
    const uid = this.#uid(name);
    const versions = this.#pods.versionsOf(name).slice(this.#before.get(uid));
    const list = this.#lists.versionsOf(pod?.spec.nodeName ?? '');
    const since = this.#before.get(list[0]?.object.metadata.uid ?? '') ?? 0;
    return probeViolations({
      subject: `${this.namespace}/${name}`,
      conditionType: condition[probe],
      ...(probe === 'up' && { label }),
      truth: probe === 'up' ? this.#truthOf(name) : [true],
      versions: versions.map(({ object }) => object),
      states: list.slice(since).map(({ object }) => stateIn(object, uid, probe)),
    });
  }

  #isShown(name: Name): boolean {
    const { metadata, status } = this.#podOf(name) ?? {};
    const shown = (probe: Probe) => status?.conditions?.find(({ type }) => type === condition[probe])?.status;
    const is = this.#truthOf(name).at(-1);
    return (
      shown('up') === (is ? 'True' : 'False') &&
      shown('open') === 'True' &&
      metadata?.labels?.[label] === (is ? 'yes' : 'no')
    );
  }

  #isFound(name: Name): boolean {
    const wanted = this.#truthOf(name).at(-1) ? 'Succeeded' : 'Failed';
    return this.#lists.now.some((list) => stateIn(list, this.#uid(name), 'up')?.state === wanted);
  }

  #podOf(name: Name): Pod | undefined {
    return this.#pods.now.find(({ metadata }) => metadata.name === name);
  }

  #uid(name: Name): string {
    return this.#podOf(name)?.metadata.uid ?? '';
  }

  #truthOf(name: Name): boolean[] {
    return this.#truth.get(name) ?? [];
  }
}

function stateIn({ status }: NodePodProbe, podUid: string, probe: Probe) {
  const own = status?.podProbeStatuses?.find(({ uid }) => uid === podUid);
  return own?.probeStates?.find(({ name }) => name === probeKey(marker, probe));
}

/** One failure turns a result around, so none may be made up. */
function markerSpec(): JsonObject {
  const timing = { periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1 };
  return {
    selector: { matchLabels: app },
    probes: [
      {
        name: 'up',
        containerName: 'main',
        probe: { exec: { command: ['test', '-e', '/shared/up'] }, ...timing },
        podConditionType: condition.up,
        markerPolicy: [
          { state: 'Succeeded', labels: { [label]: 'yes' } },
          { state: 'Failed', labels: { [label]: 'no' } },
        ],
      },
      {
        name: 'open',
        containerName: 'main',
        probe: { tcpSocket: { port: 8080 }, ...timing },
        podConditionType: condition.open,
      },
    ],
  };
}

export const probedPods: SubjectKind = {
  name: 'probes',
  about: 'what the probes of four pods find out',
  prepare: (world) => ProbedPods.prepare(world),
  endures: [
    ...kills(['daemon', 'watcher', 'apiserver'], [0, 3]),
    ...freezes({ daemon: frozenSeconds.daemon }),
    freezesInTurns(frozenSeconds.watcher),
  ],
  hurried: true,
};
