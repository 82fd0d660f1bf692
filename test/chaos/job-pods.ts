// Jobs whose pods have sidecars that never end by themselves, and whose main containers end when they are let.

import type { JsonObject } from '../../api/base/json.ts';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import { type ContainerRecreateRequest, crr } from '../../api/container-recreate-request/types.ts';
import { findCondition } from '../../api/core/conditions.ts';
import type { Event } from '../../api/core/event.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { terminateSidecarsId, terminationMark, terminationRequestName } from '../../api/job-sidecar-termination.ts';
import { waitFor } from '../support/wait.ts';
import type { Report } from './campaign.ts';
import { ObjectRecord } from './follow.ts';
import { inNanoseconds } from './judge.ts';
import { type Ordeal, type OrdealStep, soon } from './ordeal.ts';
import { containersOf } from './pod-record.ts';
import { Room, type SharedFolder } from './room.ts';
import { type JobPodEvidence, jobPodViolations } from './sidecar-judge.ts';
import { patienceMs, type World } from './world.ts';

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

/** Seven Jobs from creation to the verdict. */
export class JobPods implements Ordeal {
  readonly #world: World;
  readonly #room: Room;
  readonly #deaths: number;
  readonly #folders: ReadonlyMap<string, SharedFolder>;
  readonly #pods: ObjectRecord<Pod>;
  readonly #jobs: ObjectRecord<Job>;
  readonly #requests: ObjectRecord<ContainerRecreateRequest>;

  private constructor(
    world: World,
    room: Room,
    deaths: number,
    records: {
      readonly pods: ObjectRecord<Pod>;
      readonly jobs: ObjectRecord<Job>;
      readonly requests: ObjectRecord<ContainerRecreateRequest>;
    },
  ) {
    this.#world = world;
    this.#room = room;
    this.#deaths = deaths;
    this.#folders = new Map(plans.map(({ name }) => [name, room.folder(name)]));
    this.#pods = records.pods;
    this.#jobs = records.jobs;
    this.#requests = records.requests;
  }

  /** All Jobs, with their containers running. `deaths`: how often a process that had begun a stop may have died. */
  static async create(world: World, deaths: number): Promise<JobPods> {
    const room = await Room.create(world);
    const { namespace } = room;
    const [pods, jobRecord, requests] = await Promise.all([
      ObjectRecord.start<Pod>(world.kube, kubeResource.pods, { namespace }),
      ObjectRecord.start<Job>(world.kube, jobs, { namespace }),
      ObjectRecord.start<ContainerRecreateRequest>(world.kube, crr, { namespace }),
    ]);
    const ordeal = new JobPods(world, room, deaths, { pods, jobs: jobRecord, requests });
    world.leftovers.add(ordeal);
    await Promise.all(
      plans.map((plan) => room.make(jobs, plan.name, { spec: jobSpec(plan, ordeal.#folder(plan.name)) })),
    );
    return ordeal;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  get steps(): readonly OrdealStep[] {
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
          for (const name of ['first', 'late', 'retried']) this.#folder(name).touch('go-main-0');
          await soon('its end to be seen', () => this.#hasEnded('first', 'main'));
        },
      },
      {
        name: 'the stop of a sidecar is asked for',
        reach: async () => {
          for (const name of ['second', 'ignored']) this.#folder(name).touch('go-main-0');
          await soon('the request', () => this.#requestOf('second') !== undefined);
        },
      },
      {
        name: 'a sidecar is ending',
        reach: async () => {
          this.#folder('third').touch('go-main-0');
          await soon('the sidecar to be told', () => this.#folder('third').has('term-proxy'));
        },
      },
      {
        name: 'a sidecar has ended',
        reach: async () => {
          this.#folder('fourth').touch('go-main-0');
          await soon('the end of the sidecar', () => this.#endsOf('fourth', 'proxy').length > 0);
        },
        meanwhile: async () => {
          this.#folder('late').touch('go-other-0');
          this.#folder('retried').touch('go-main-1');
        },
      },
    ];
  }

  async settled(): Promise<void> {
    await waitFor(
      `the jobs of ${this.namespace} to complete`,
      (see) => {
        const open = this.#jobs.now.filter((job) => !isComplete(job));
        see(open.map(({ metadata, status }) => ({ name: metadata.name, status })));
        return this.#jobs.now.length === plans.length && open.length === 0;
      },
      { deadlineMs: patienceMs },
    );
  }

  async judge(report: Report): Promise<void> {
    let found: readonly string[] = ['not judged'];
    // Events and the ends of operations come a moment later; what has gone wrong stays so
    await waitFor('nothing to object to', async () => {
      found = await this.#objections();
      return found.length === 0;
    }).catch(() => undefined);
    for (const text of found) report.violation(text);
    const pods = this.#pods.all.length;
    if (pods !== plans.length) report.violation(`${this.namespace}: ${plans.length} jobs had ${pods} pods`);
    const terms = plans.map((plan) =>
      plan.sidecars.map((name) => this.#folder(plan.name).lines(`term-${name}`).length),
    );
    report.figure(`${this.namespace}: ${terms.flat().length} sidecars, told to end ${terms.flat().join(', ')} times`);
  }

  async remove(): Promise<void> {
    for (const { name } of plans) await this.#room.drop(jobs, name);
    await this.#room.dropPods();
    await Promise.all([this.#pods.stop(), this.#jobs.stop(), this.#requests.stop()]);
    await this.#room.remove();
    this.#world.leftovers.delete(this);
  }

  async #objections(): Promise<readonly string[]> {
    const events = await this.#room.list<KubeObject & Event>(kubeResource.events);
    const evidence = await Promise.all(plans.map((plan) => this.#evidence(plan, events)));
    return evidence.flatMap(jobPodViolations);
  }

  async #evidence(plan: JobPlan, events: readonly Event[]): Promise<JobPodEvidence> {
    const { name, mains, sidecars, ignored = false } = plan;
    const folder = this.#folder(name);
    const pod = this.#podOf(name);
    const uid = pod?.metadata.uid ?? '';
    const job = this.#jobs.now.find(({ metadata }) => metadata.name === name);
    const request = this.#requestOf(name);
    const open = await this.#world.openWorkflows([terminateSidecarsId(uid), restartContainersId(uid)]);
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

  #folder(job: string): SharedFolder {
    const folder = this.#folders.get(job);
    if (!folder) throw new Error(`No job "${job}"`);
    return folder;
  }

  #podOf(job: string): Pod | undefined {
    return this.#pods.now.find(({ metadata }) => metadata.labels?.['batch.kubernetes.io/job-name'] === job);
  }

  #requestOf(job: string): ContainerRecreateRequest | undefined {
    const name = terminationRequestName(this.#podOf(job)?.metadata.uid ?? '');
    return this.#requests.now.find(({ metadata }) => metadata.name === name);
  }

  #hasEnded(job: string, container: string): boolean {
    const pod = this.#podOf(job);
    return pod?.status?.containerStatuses?.some(({ name, state }) => name === container && state?.terminated) ?? false;
  }

  /** Of every instance that the watch has ever shown. */
  #endsOf(job: string, container: string): readonly string[] {
    const versions = this.#pods.versionsOf(this.#podOf(job)?.metadata.name ?? '');
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
