// Jobs whose pods have sidecars that never end by themselves, and whose main containers end when they are let.

import type { JsonObject } from '../../../api/base/json.ts';
import { restartContainersId } from '../../../api/container-recreate-request/operation.ts';
import { type ContainerRecreateRequest, crr } from '../../../api/container-recreate-request/types.ts';
import { findCondition } from '../../../api/core/conditions.ts';
import type { Event } from '../../../api/core/event.ts';
import type { KubeObject, Resource } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { terminateSidecarsId, terminationMark, terminationRequestName } from '../../../api/job-sidecar-termination.ts';
import { waitFor } from '../../support/wait.ts';
import type { Report } from '../campaign.ts';
import { type ChaosSubject, type Objections, type SubjectKind, type SubjectStep, soon } from '../chaos-subject.ts';
import { freezes, freezesInTurns, frozenSeconds, kills } from '../fault-plan.ts';
import type { ObjectRecord } from '../follow.ts';
import { inNanoseconds } from '../judges/recreate-judge.ts';
import { type JobPodEvidence, jobPodViolations } from '../judges/sidecar-judge.ts';
import { containersOf } from '../pod-record.ts';
import { Room, type SharedFolder } from '../room.ts';
import { patienceMs, type World } from '../world.ts';

const jobs: Resource = { group: 'batch', version: 'v1', plural: 'jobs', kind: 'Job', namespaced: true };

interface Job extends KubeObject {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

/** One Job of one pod. */
interface JobPlan {
  readonly name: string;
  /** Main containers, with how often each of them runs: all but its last run fail. */
  readonly mains: Readonly<Record<string, number>>;
  readonly sidecars: readonly string[];
  /** The sidecars exit with 3, which does not count. */
  readonly ignored?: true;
}

const plans: readonly JobPlan[] = [
  { name: 'first', mains: { main: 1 }, sidecars: ['proxy'] },
  { name: 'second', mains: { main: 1 }, sidecars: ['proxy', 'logger'] },
  { name: 'third', mains: { main: 1 }, sidecars: ['proxy'] },
  { name: 'fourth', mains: { main: 1 }, sidecars: ['proxy'] },
  { name: 'late', mains: { main: 1, other: 1 }, sidecars: ['proxy', 'logger'] },
  { name: 'retried', mains: { main: 2 }, sidecars: ['proxy'] },
  { name: 'ignored', mains: { main: 1 }, sidecars: ['proxy'], ignored: true },
];

/** Each run waits until it is let go. What it writes down before it ends is there before its end can be seen. */
const mainScript = `
cd /shared; n=0; while [ -e run-$NAME-$n ]; do n=$((n+1)); done; touch run-$NAME-$n
trap 'exit 9' TERM
until [ -e go-$NAME-$n ]; do sleep 0.1; done
[ $((n+1)) -lt $RUNS ] && exit 1
touch ended-$NAME`;

/** Counts each TERM, and takes two seconds to end. */
const sidecarScript = `
cd /shared; echo start >> start-$NAME
trap 'for m in $MAINS; do [ -e ended-$m ] || echo "$NAME before $m" >> early; done; echo TERM >> term-$NAME; told=1' TERM
until [ -n "$told" ]; do sleep 99999 & wait; done
i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i+1)); done; exit $CODE`;

interface JobRecords {
  readonly pods: ObjectRecord<Pod>;
  readonly jobs: ObjectRecord<Job>;
  readonly requests: ObjectRecord<ContainerRecreateRequest>;
}

/** Seven Jobs from creation to the verdict. */
export class JobPods implements ChaosSubject {
  readonly #world: World;
  readonly #room: Room;
  readonly #deaths: number;
  readonly #records: JobRecords;

  private constructor(world: World, room: Room, deaths: number, records: JobRecords) {
    this.#world = world;
    this.#room = room;
    this.#deaths = deaths;
    this.#records = records;
  }

  /** All Jobs, with their containers running. `deaths`: how often a process that had begun a stop may have died. */
  static async prepare(world: World, deaths: number): Promise<JobPods> {
    const room = await Room.create(world);
    const [pods, jobRecord, requests] = await Promise.all([
      room.record<Pod>(kubeResource.pods),
      room.record<Job>(jobs),
      room.record<ContainerRecreateRequest>(crr),
    ]);
    const jobPods = new JobPods(world, room, deaths, { pods, jobs: jobRecord, requests });
    world.leftovers.add(jobPods);
    await Promise.all(plans.map((plan) => room.make(jobs, plan.name, { spec: jobSpec(plan, room.folder(plan.name)) })));
    return jobPods;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  get steps(): readonly SubjectStep[] {
    return [
      {
        name: 'main containers run',
        reach: () =>
          soon('all containers to run', () =>
            plans.every(({ name, mains, sidecars }) => {
              const now = this.#podOf(name);
              const count = Object.keys(mains).length + sidecars.length;
              return now !== undefined && containersOf(now).filter(({ running }) => running).length === count;
            }),
          ),
      },
      {
        name: 'a main container has ended',
        reach: async () => {
          for (const name of ['first', 'late', 'retried']) this.#room.folder(name).touch('go-main-0');
          await soon('its end to be seen', () => this.#hasEnded('first', 'main'));
        },
      },
      {
        name: 'the stop of a sidecar is asked for',
        reach: async () => {
          for (const name of ['second', 'ignored']) this.#room.folder(name).touch('go-main-0');
          await soon('the request', () => this.#requestOf('second') !== undefined);
        },
      },
      {
        name: 'a sidecar is ending',
        reach: async () => {
          this.#room.folder('third').touch('go-main-0');
          await soon('the sidecar to be told', () => this.#room.folder('third').has('term-proxy'));
        },
      },
      {
        name: 'a sidecar has ended',
        reach: async () => {
          this.#room.folder('fourth').touch('go-main-0');
          await soon('the end of the sidecar', () => this.#endsOf('fourth', 'proxy').length > 0);
        },
        meanwhile: async () => {
          this.#room.folder('late').touch('go-other-0');
          this.#room.folder('retried').touch('go-main-1');
        },
      },
    ];
  }

  workflows(): ReturnType<ChaosSubject['workflows']> {
    const pods = plans.flatMap(({ name }) => this.#podOf(name)?.metadata ?? []);
    return {
      terminateSidecars: pods.map((pod) => terminateSidecarsId(pod)),
      restartContainers: pods.map((pod) => restartContainersId(pod)),
    };
  }

  async settled(): Promise<void> {
    await waitFor(
      `the jobs of ${this.namespace} to complete`,
      (see) => {
        const open = this.#records.jobs.now.filter((job) => !isComplete(job));
        see(open.map(({ metadata, status }) => ({ name: metadata.name, status })));
        return this.#records.jobs.now.length === plans.length && open.length === 0;
      },
      { deadlineMs: patienceMs },
    );
  }

  async objections(): Promise<Objections> {
    const events = await this.#room.list<KubeObject & Event>(kubeResource.events);
    const evidence = await Promise.all(plans.map((plan) => this.#evidence(plan, events)));
    const pods = this.#records.pods.all.length;
    return {
      lasting: pods === plans.length ? [] : [`${this.namespace}: ${plans.length} jobs had ${pods} pods`],
      // Events and the ends of operations come a moment later
      pending: evidence.flatMap(jobPodViolations),
    };
  }

  summarise(report: Report): void {
    const terms = plans.map((plan) =>
      plan.sidecars.map((name) => this.#room.folder(plan.name).lines(`term-${name}`).length),
    );
    report.outcome('as it should be');
    report.figure(`${this.namespace}: ${terms.flat().length} sidecars, told to end ${terms.flat().join(', ')} times`);
  }

  async remove(): Promise<void> {
    for (const { name } of plans) await this.#room.drop(jobs, name);
    await this.#room.dropPods();
    await this.#room.remove();
    this.#world.leftovers.delete(this);
  }

  async #evidence(plan: JobPlan, events: readonly Event[]): Promise<JobPodEvidence> {
    const { name, mains, sidecars, ignored = false } = plan;
    const folder = this.#room.folder(name);
    const pod = this.#podOf(name);
    const uid = pod?.metadata.uid ?? '';
    const job = this.#records.jobs.now.find(({ metadata }) => metadata.name === name);
    const request = this.#requestOf(name);
    const ids = pod ? [terminateSidecarsId(pod.metadata), restartContainersId(pod.metadata)] : [];
    const open = await this.#world.openWorkflows(ids);
    const waits = pod?.metadata.annotations?.[terminationMark.status];
    const ended = (container: string) => ({
      name: container,
      endedAtNs: this.#endsOf(name, container).map(inNanoseconds),
    });
    return {
      subject: `${this.namespace}/${name}`,
      phase: pod?.status?.phase,
      isJobComplete: job !== undefined && isComplete(job),
      mains: Object.entries(mains).map(([main, runs]) => ({ ...ended(main), runs, starts: runsIn(folder, main) })),
      sidecars: sidecars.map((sidecar) => ({
        ...ended(sidecar),
        starts: folder.lines(`start-${sidecar}`).length,
        terms: folder.lines(`term-${sidecar}`).length,
      })),
      early: folder.lines('early'),
      mostTerms: 1 + this.#deaths,
      byKubelet: ignored,
      told: events.filter(({ involvedObject }) => involvedObject.uid === uid).map(({ message }) => message),
      request: terminationRequestName(uid),
      isRequestComplete:
        request?.status?.phase === 'Completed' &&
        findCondition(request.status.conditions, 'Complete')?.reason === 'ContainersStopped',
      open: [
        ...open.map((id) => `workflow ${id} is still open`),
        ...(waits === undefined ? [] : [`the pod still says ${waits}`]),
        ...((request?.metadata.finalizers ?? []).length > 0 ? ['the request holds finalizers'] : []),
      ],
    };
  }

  #podOf(job: string): Pod | undefined {
    return this.#records.pods.now.find(({ metadata }) => metadata.labels?.['batch.kubernetes.io/job-name'] === job);
  }

  #requestOf(job: string): ContainerRecreateRequest | undefined {
    const name = terminationRequestName(this.#podOf(job)?.metadata.uid ?? '');
    return this.#records.requests.now.find(({ metadata }) => metadata.name === name);
  }

  #hasEnded(job: string, container: string): boolean {
    const pod = this.#podOf(job);
    return pod?.status?.containerStatuses?.some(({ name, state }) => name === container && state?.terminated) ?? false;
  }

  /** Of every instance that the watch has ever shown. */
  #endsOf(job: string, container: string): readonly string[] {
    const versions = this.#records.pods.versionsOf(this.#podOf(job)?.metadata.name ?? '');
    const ids = versions.flatMap(({ object }) => containersOf(object).filter(({ name }) => name === container));
    return [...new Set(ids.map(({ id }) => id))].flatMap((id) => this.#world.runtime.exitsOf(id));
  }
}

function runsIn(folder: SharedFolder, main: string): number {
  let runs = 0;
  while (folder.has(`run-${main}-${runs}`)) runs += 1;
  return runs;
}

function isComplete({ status }: Job): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Complete' && is === 'True') ?? false;
}

function jobSpec({ mains, sidecars, ignored }: JobPlan, { volume, mount }: SharedFolder): JsonObject {
  const isRetried = Object.values(mains).some((runs) => runs > 1);
  const container = (name: string, script: string, env: Readonly<Record<string, string>>): JsonObject => ({
    name,
    image: 'busybox:1.36',
    command: ['sh', '-c', script],
    env: Object.entries({ NAME: name, ...env }).map(([key, value]) => ({ name: key, value })),
    volumeMounts: [mount],
  });
  const marks = { [terminationMark.env]: 'true', ...(ignored && { [terminationMark.ignoreExitCodeEnv]: 'true' }) };
  const told = { MAINS: Object.keys(mains).join(' '), CODE: ignored ? '3' : '0' };
  return {
    // runs that fail count
    backoffLimit: isRetried ? 6 : 0,
    template: {
      spec: {
        restartPolicy: isRetried ? 'OnFailure' : 'Never',
        terminationGracePeriodSeconds: 60,
        enableServiceLinks: false,
        automountServiceAccountToken: false,
        volumes: [volume],
        containers: [
          ...Object.entries(mains).map(([name, runs]) => container(name, mainScript, { RUNS: String(runs) })),
          ...sidecars.map((name) => container(name, sidecarScript, { ...told, ...marks })),
        ],
      },
    },
  };
}

export const jobPods: SubjectKind = {
  name: 'sidecars',
  about: 'the end of the sidecars of seven Jobs',
  prepare: (world, { deaths }) => JobPods.prepare(world, deaths),
  endures: [
    ...kills(['daemon', 'worker', 'watcher', 'temporal', 'apiserver'], [0, 3]),
    ...freezes({ daemon: frozenSeconds.daemon }),
    freezesInTurns(frozenSeconds.watcher),
  ],
  featureGate: 'SidecarTerminator=true',
  hurried: true,
};
