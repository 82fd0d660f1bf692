/**
 * Simulates a request to its end: the real plan and the real activities with an API server in memory, a simulated node
 * and kubelet, and a run of the operation that can be lost at any moment. Every step checks the invariants, and throws
 * when one is violated.
 */
import { ApplicationFailure } from '@temporalio/common';
import { type RequestLook, requestActivities } from '../../activities/kube/requests.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { timestamp } from '../../api/base/time.ts';
import {
  type ContainerRecreateRequest,
  type ContainerRecreateRequestStatus,
  crr,
} from '../../api/container-recreate-request/types.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { applyEvent, markStarted, newProgress, type RecreateEvent } from '../../plan/recreate/events.ts';
import { type Command, isMomentary, isOver, type Progress } from '../../plan/recreate/model.ts';
import { type Action, nextActions } from '../../plan/recreate/next.ts';
import { type ReportedStatus, reportedBefore, sameStatus, statusDelta, withDelta } from '../../plan/recreate/report.ts';
import { recreateStatus } from '../../plan/recreate/status.ts';
import { waitingOnBlockersSince } from '../../plan/waiting-since.ts';
import { MemoryCluster } from './fake-api/memory-cluster.ts';
import { createdAt } from './objects/metadata.ts';
import { gatedPod, operationFor, originalId } from './recreate-requests.ts';

interface Instance {
  readonly id: string;
  readonly restartCount: number;
  running: boolean;
  ready: boolean;
}

type StopOutcome = Extract<RecreateEvent, { kind: 'stopEnded' }>['result'];

/** The stop of one instance on the node. Later callers join it. */
interface Act {
  readonly container: string;
  readonly id: string;
  outcome?: StopOutcome;
}

/** An attempt in progress. Attempts of a lost run may still take effect. */
interface Attempt {
  readonly what: 'look' | 'drain' | 'record' | 'stop' | 'await' | 'report' | 'identify' | 'moment';
  readonly container?: string;
  /** For a stop: its container is stopping, which cannot be cancelled. */
  act?: Act;
  /** False: its result cannot arrive now. */
  readonly canEnd: () => boolean;
  readonly end: (fails: boolean) => Promise<RecreateEvent | undefined>;
  /** The event when the node stays silent. */
  readonly silence?: RecreateEvent;
}

/** One run of the operation. */
interface Run {
  progress: Progress;
  told: ReportedStatus;
  written: ReportedStatus;
  readonly runtime: string;
  readonly attempts: Set<Attempt>;
  lastCommand: number;
  /** The status showed a pause when this run began, and nobody has resumed it. */
  foundPaused: boolean;
  /** Containers that the status showed as skipped when this run began. */
  readonly skipped: ReadonlySet<string>;
}

/** One step that the test may choose. */
export interface Step {
  readonly what: string;
  readonly take: () => Promise<void>;
}

/** What may happen next, by who does it. The course is how things go by themselves; all else disturbs it. */
export interface Steps {
  readonly course: readonly Step[];
  readonly commands: readonly Step[];
  readonly node: readonly Step[];
  readonly containers: readonly Step[];
  readonly failures: readonly Step[];
  readonly crashes: readonly Step[];
  readonly late: readonly Step[];
  readonly ends: readonly Step[];
}

const payloadLimit = 4 * 1024;
const longMessage = 'the runtime says: "no"\n'.repeat(60);
const phaseRank = ['', 'Pending', 'Recreating', 'Completed'];

/** A violated invariant. */
export class BrokenPromise extends Error {
  override readonly name = 'BrokenPromise';
}

export class Simulation {
  /** The history, to be printed when an invariant is violated. */
  readonly story: string[] = [];
  /** Stops that have taken an instance down or began to. */
  readonly stops: { readonly container: string; readonly id: string }[] = [];
  readonly #cluster = new MemoryCluster();
  readonly #request: ContainerRecreateRequest;
  readonly #activities: ReturnType<typeof requestActivities>;
  readonly #containers = new Map<string, Instance[]>();
  readonly #leftOver = new Set<Attempt>();
  readonly #acts = new Set<Act>();
  #run: Run | undefined;
  #isNodeUp = true;
  #seconds = 0;
  #instances = 0;
  #firstCompleted: ContainerRecreateRequestStatus | undefined;
  #lastPhase = '';
  readonly #succeeded = new Set<string>();

  constructor(request: ContainerRecreateRequest) {
    this.#request = request;
    this.#cluster.put(crr, request);
    this.#cluster.put(kubeResource.pods, gatedPod());
    this.#cluster.put(kubeResource.nodes, { metadata: { name: 'node-1', uid: 'uid-of-node-1' } });
    const kube = this.#cluster.client();
    this.#activities = requestActivities({ kube, now: () => new Date(this.#now()) });
    for (const { name } of request.spec.containers) {
      this.#containers.set(name, [{ id: originalId(name), restartCount: 0, running: true, ready: true }]);
    }
  }

  /** The current request; undefined when it was deleted. */
  get live(): ContainerRecreateRequest | undefined {
    return this.#cluster.look(crr, this.#request.metadata) as ContainerRecreateRequest | undefined;
  }

  get isOver(): boolean {
    return (
      this.#run === undefined &&
      this.#leftOver.size === 0 &&
      (this.live === undefined || this.live.status?.phase === 'Completed')
    );
  }

  /** All possible next steps. */
  steps(): Steps {
    return {
      course: [...this.#runSteps(), ...this.#kubeletSteps()],
      commands: this.#commandSteps(),
      node: this.#nodeSteps(),
      containers: this.#containerSteps(),
      failures: this.#failureSteps(),
      crashes: this.#crashSteps(),
      late: this.#leftOverSteps(),
      ends: this.#endSteps(),
    };
  }

  /** Ends all disturbances from outside, and lets left-over attempts take effect. */
  async calmDown(): Promise<void> {
    const [late] = this.#leftOverSteps();
    if (late) await this.take(late);
    this.#isNodeUp = true;
    const { progress } = this.#run ?? {};
    if (progress?.paused) this.#resume();
    if (progress?.parked) this.#hear(this.#command('retry'));
  }

  #resume(): void {
    if (this.#run) this.#run.foundPaused = false;
    this.#hear(this.#command('resume'));
  }

  /** Takes one step and checks all invariants. */
  async take(step: Step): Promise<void> {
    this.#seconds += 1;
    this.story.push(step.what);
    await step.take();
    this.#checkStatus();
  }

  // ------------------------------------------------------------------------------------------------ the operation

  #runSteps(): Step[] {
    if (!this.#run) {
      const isOpen = this.live !== undefined && this.live.status?.phase !== 'Completed';
      return isOpen ? [{ what: 'a run begins', take: () => this.#begin() }] : [];
    }
    const run = this.#run;
    return [...run.attempts]
      .filter((attempt) => attempt.canEnd())
      .map((attempt) => ({ what: nameOf(attempt), take: () => this.#end(run, attempt, false) }));
  }

  async #begin(): Promise<void> {
    const containers: Extract<RequestLook, { kind: 'open' }>['containers'][number][] = [];
    for (;;) {
      const look = await this.#look(containers.length);
      if (look.kind !== 'open') return;
      containers.push(...look.containers);
      if (look.more) continue;
      const told = reportedBefore(look);
      const run: Run = {
        progress: newProgress({ ...look, containers }),
        told,
        written: told,
        runtime: look.runtime,
        attempts: new Set(),
        lastCommand: 0,
        foundPaused: this.live?.status?.waitingFor?.reason === 'Paused',
        skipped: this.#skipped(),
      };
      this.#run = run;
      if (look.podGone) run.progress = applyEvent(run.progress, { kind: 'podGone' });
      this.#advance(run);
      return;
    }
  }

  #skipped(): ReadonlySet<string> {
    const states = this.live?.status?.containerRecreateStates ?? [];
    return new Set(states.filter(({ message }) => message?.startsWith('skipped by')).map(({ name }) => name));
  }

  async #look(skip: number): Promise<RequestLook> {
    const look = await this.#activities.lookAtRequest({ operation: operationFor(this.#request), skip });
    assert(jsonBytes(look) <= payloadLimit, `a look takes ${jsonBytes(look)} bytes`);
    return look;
  }

  /** Ends one attempt, and delivers the result to the run. */
  async #end(run: Run, attempt: Attempt, fails: boolean): Promise<void> {
    const news = await attempt.end(fails);
    if (attempt.what === 'stop' && news === undefined) return; // it has only begun
    run.attempts.delete(attempt);
    if (news) this.#hear(news);
    else this.#advance(run);
  }

  #hear(news: RecreateEvent): void {
    const run = this.#run;
    if (!run) return;
    const { end } = run.progress;
    run.progress = applyEvent(run.progress, news);
    assert(end === undefined || run.progress.end?.kind === end.kind, `the first end, ${end?.kind}, does not stand`);
    this.#advance(run);
  }

  /** What the workflow does after each event. */
  #advance(run: Run): void {
    for (let actions = nextActions(run.progress); actions.length > 0; actions = nextActions(run.progress)) {
      for (const action of actions) {
        this.#checkAction(run.progress, action);
        run.progress = markStarted(run.progress, action);
        run.attempts.add(this.#attempt(action));
      }
    }
    const moment = [...run.attempts].find(({ what }) => what === 'moment');
    if (!isMomentary(run.progress)) {
      if (moment) run.attempts.delete(moment);
      this.#tell(run);
    } else if (!moment) {
      run.attempts.add({ what: 'moment', canEnd: () => true, end: async () => ({ kind: 'stopIsLong' }) });
    }
    if (run.progress.end) {
      assert(nextActions(run.progress).length === 0, 'there are next actions after the end');
      for (const attempt of run.attempts) if (attempt.what === 'await') run.attempts.delete(attempt);
    }
    const isWritten = sameStatus(run.written, run.told) || run.progress.end?.kind === 'withdrawn';
    if (isOver(run.progress) && isWritten && !has(run, 'report')) {
      this.story.push('the run ends');
      this.#run = undefined;
      return;
    }
    const isWaiting = run.attempts.size === 0 && run.progress.end === undefined;
    assert(!isWaiting || run.told.waitingFor !== undefined, 'a silent wait');
  }

  #tell(run: Run): void {
    const { waitingFor: wait, ...status } = recreateStatus(run.progress, run.runtime);
    const now = timestamp(this.#now());
    const waitingFor = waitingOnBlockersSince(run.told.waitingFor, wait, now);
    const completionTime = run.told.completionTime ?? (status.phase === 'Completed' ? now : undefined);
    run.told = { ...status, ...(waitingFor ? { waitingFor } : {}), ...(completionTime ? { completionTime } : {}) };
    if (run.progress.end?.kind === 'withdrawn' || has(run, 'report') || sameStatus(run.written, run.told)) return;

    const delta = statusDelta(run.written, run.told);
    const input = { request: operationFor(this.#request).request, delta };
    assert(jsonBytes(input) <= payloadLimit, `a report takes ${jsonBytes(input)} bytes`);
    const before = run.written;
    run.attempts.add({
      what: 'report',
      canEnd: () => true,
      end: async () => {
        await this.#activities.reportRequest(input);
        run.written = withDelta(before, delta);
        return undefined;
      },
    });
  }

  #attempt(action: Action): Attempt {
    const operation = operationFor(this.#request);
    const isNodeUp = () => this.#isNodeUp;
    switch (action.kind) {
      case 'look':
        return {
          what: 'look',
          canEnd: isNodeUp,
          silence: { kind: 'nodeSilent', during: 'look' },
          end: async () => {
            const instances = action.containers.flatMap((name) => this.#newest(name) ?? []);
            return { kind: 'looked', containers: action.containers, instances: instances.map(toSeen) };
          },
        };
      case 'drain':
        return {
          what: 'drain',
          canEnd: () => true,
          end: async () => {
            const began = await orSuperseded(this.#activities.takeOutOfService(operation));
            return began ? { kind: 'drained' } : await this.#lookAgain({ kind: 'interrupted', during: 'drain' });
          },
        };
      case 'recordTarget': {
        const { container, containerId } = action;
        return {
          what: 'record',
          container,
          canEnd: () => true,
          end: async () => {
            const input = { request: operation.request, container, containerId };
            const recorded = await orSuperseded(this.#activities.recordTarget(input));
            if (recorded) return { kind: 'targetRecorded', container, containerId: recorded.containerId };
            return await this.#lookAgain({ kind: 'interrupted', during: 'record', container });
          },
        };
      }
      case 'stop':
        return this.#stopAttempt(action);
      case 'await': {
        const { container, notContainerId, isYoung } = action;
        const ready = () => {
          const newest = this.#newest(container);
          return newest && newest.id !== notContainerId && newest.running && newest.ready ? newest : undefined;
        };
        return {
          what: 'await',
          container,
          canEnd: () => this.#isNodeUp && (this.#isPodGone || ready() !== undefined || isYoung === true),
          silence: { kind: 'nodeSilent', during: 'await', container },
          end: async () => {
            const newest = ready();
            // callers receive first that it is ready, and its end when it has been ready for long enough
            if (!this.#isPodGone && isYoung !== undefined && isYoung !== (newest !== undefined)) {
              return { kind: 'awaitEnded', container, result: { kind: 'changed', isYoung: newest !== undefined } };
            }
            if (!newest || this.#isPodGone) {
              const gone: RecreateEvent = { kind: 'awaitEnded', container, result: { kind: 'podGone' } };
              return await this.#lookAgain(gone);
            }
            const { id: containerId, restartCount } = newest;
            return { kind: 'awaitEnded', container, result: { kind: 'ready', containerId, restartCount } };
          },
        };
      }
    }
  }

  /** Like the daemon: checks, begins, and completes it, whoever still waits. */
  #stopAttempt({ container, containerId }: Extract<Action, { kind: 'stop' }>): Attempt {
    const interrupted: RecreateEvent = { kind: 'interrupted', during: 'stop', container };
    const ended = (result: StopOutcome): RecreateEvent => ({ kind: 'stopEnded', container, result });
    const attempt: Attempt = {
      what: 'stop',
      container,
      canEnd: () => this.#isNodeUp && this.#hasTurn(attempt),
      silence: { kind: 'nodeSilent', during: 'stop', container },
      end: async (fails) => {
        const instance = this.#containers.get(container)?.find(({ id }) => id === containerId);
        if (!attempt.act) {
          const underWay = [...this.#acts].find((act) => act.id === containerId && !act.outcome);
          if (underWay) {
            attempt.act = underWay;
            return undefined;
          }
          if (!instance?.running) return ended({ kind: 'alreadyGone' });
          const { live } = this;
          if (!live || live.status?.phase === 'Completed') return await this.#lookAgain(interrupted);
          this.#checkStop(container, containerId);
          attempt.act = { container, id: containerId };
          this.#acts.add(attempt.act);
          this.stops.push(attempt.act);
          return undefined;
        }
        if (!attempt.act.outcome) {
          attempt.act.outcome = fails ? { kind: 'failed', message: longMessage } : { kind: 'stopped' };
          if (instance && !fails) exit(instance);
        }
        return ended(attempt.act.outcome);
      },
    };
    return attempt;
  }

  /** Like the workflow after a superseded step: it looks whether there is still anything to do. */
  async #lookAgain(then: RecreateEvent): Promise<RecreateEvent> {
    await this.#lookForEnd();
    return then;
  }

  async #lookForEnd(): Promise<void> {
    const look = await this.#look(this.#request.spec.containers.length);
    const run = this.#run;
    if (!run) return;
    if (look.kind !== 'open') run.progress = applyEvent(run.progress, { kind: 'withdrawn' });
    else if (look.podGone) run.progress = applyEvent(run.progress, { kind: 'podGone' });
  }

  // -------------------------------------------------------------------------------------------------- disturbances

  #commandSteps(): Step[] {
    const run = this.#run;
    if (!run) return [];
    const names: Command['name'][] = ['pause', 'resume', 'pause', 'resume', 'retry', 'retry', 'skip'];
    const targets = this.#request.spec.containers.map(({ name }) => name);
    const commands = [
      ...names.map((name) => this.#command(name)),
      ...targets.slice(0, 2).map((target) => this.#command('skip', target)),
      ...(run.lastCommand > 2 ? [this.#command('abort')] : []),
    ];
    return commands.map((news) => ({
      what: `operator: ${JSON.stringify(news)}`,
      take: async () => {
        if (news.kind !== 'command') return;
        if (news.command.name === 'resume') run.foundPaused = false;
        // the number is assigned on delivery
        const id = ++run.lastCommand;
        const { by, ...command } = news.command;
        if (id % 2 === 1) {
          this.#hear({ kind: 'command', command: { ...news.command, id } });
          return;
        }
        run.attempts.add({
          what: 'identify',
          canEnd: () => true,
          end: async () => ({ kind: 'commandIdentified', id, by: by ?? '' }),
        });
        this.#hear({ kind: 'command', command: { ...command, id } });
      },
    }));
  }

  #command(name: Command['name'], target?: string): RecreateEvent {
    return { kind: 'command', command: { id: 0, name, by: 'ann', ...(target === undefined ? {} : { target }) } };
  }

  #nodeSteps(): Step[] {
    const run = this.#run;
    const silent: Step[] = [...(run?.attempts ?? [])].flatMap((attempt) => {
      const { silence } = attempt;
      if (this.#isNodeUp || !silence || !run) return [];
      const take = async () => {
        run.attempts.delete(attempt);
        if (attempt.act) this.#leftOver.add(attempt); // continues nevertheless
        this.#hear(await this.#lookAgain(silence));
      };
      return [{ what: `silence during ${nameOf(attempt)}`, take }];
    });
    const toggle = async () => {
      this.#isNodeUp = !this.#isNodeUp;
    };
    const away = [...(run?.attempts ?? [])]
      .filter(({ what }) => what === 'look')
      .map((attempt) => ({
        what: 'the runtime is away',
        take: async () => {
          run?.attempts.delete(attempt);
          this.#hear({ kind: 'runtimeAway', message: 'socket closed' });
        },
      }));
    return [{ what: this.#isNodeUp ? 'the node goes down' : 'the node is back', take: toggle }, ...silent, ...away];
  }

  /** What containers do by themselves. */
  #containerSteps(): Step[] {
    return [...this.#containers].flatMap(([name, instances]) => {
      const newest = instances.at(-1);
      if (!newest) return [];
      const replace = async () => {
        exit(newest);
        this.#create(name);
      };
      const remove = async () => {
        this.#containers.set(name, []);
      };
      return [
        { what: `${name} exits`, take: async () => exit(newest) },
        { what: `${name} is replaced`, take: replace },
        { what: `${name} is removed`, take: remove },
      ];
    });
  }

  /** Failures of the operation itself. */
  #failureSteps(): Step[] {
    const run = this.#run;
    if (!run) return [];
    const refused: Step[] = [...run.attempts]
      .filter(({ what, act }) => (what === 'drain' || what === 'record' || what === 'stop') && !act)
      .map((attempt) => ({
        what: `${nameOf(attempt)} is refused`,
        take: async () => {
          run.attempts.delete(attempt);
          const { what, container } = attempt;
          if (what !== 'drain' && what !== 'record' && what !== 'stop') return;
          const about = { during: what, ...(container === undefined ? {} : { container }) };
          this.#hear({ kind: 'refused', ...about, reason: 'Denied', message: 'forbidden' });
        },
      }));
    const failed = [...run.attempts]
      .filter(({ act }) => act && !act.outcome)
      .map((attempt) => ({ what: `${nameOf(attempt)} fails`, take: () => this.#end(run, attempt, true) }));
    return [...refused, ...failed];
  }

  /** The end of a run by `terminate`, or the loss of Temporal. Its attempts may continue. */
  #crashSteps(): Step[] {
    const run = this.#run;
    if (!run) return [];
    const take = async () => {
      for (const attempt of run.attempts) if (!isOfRunAlone(attempt)) this.#leftOver.add(attempt);
      this.#run = undefined;
    };
    return [{ what: 'the run is thrown away', take }];
  }

  /** Attempts of lost runs take effect late, or never. */
  #leftOverSteps(): Step[] {
    return [...this.#leftOver].flatMap((attempt): Step[] => {
      const { act } = attempt;
      const late = async () => {
        this.#leftOver.delete(attempt);
        await attempt.end(false);
        // one that had not begun may begin now; it then completes
        if (attempt.act && !attempt.act.outcome) this.#leftOver.add(attempt);
      };
      const never = async () => {
        this.#leftOver.delete(attempt);
      };
      const steps = this.#hasTurn(attempt) ? [{ what: `late: ${nameOf(attempt)}`, take: late }] : [];
      return act ? steps : [...steps, { what: `never: ${nameOf(attempt)}`, take: never }];
    });
  }

  /** Events outside that end a request; rare, or other cases would hardly occur. */
  #endSteps(): Step[] {
    const run = this.#run;
    if (!run) return [];
    return [
      { what: 'the deadline passes', take: async () => this.#hear({ kind: 'deadline' }) },
      {
        what: 'the pod is deleted',
        take: async () => {
          this.#cluster.remove(kubeResource.pods, gatedPod().metadata);
          await this.#lookForEnd();
          this.#advance(run);
        },
      },
      {
        what: 'the request is deleted',
        take: async () => {
          this.#cluster.remove(crr, this.#request.metadata);
          await this.#lookForEnd();
          this.#advance(run);
        },
      },
    ];
  }

  // ------------------------------------------------------------------------------------------- the node and its kubelet

  #kubeletSteps(): Step[] {
    if (this.#isPodGone) return [];
    return [...this.#containers].flatMap(([name, instances]) => {
      const newest = instances.at(-1);
      const create = async () => this.#create(name);
      if (!newest?.running) return [{ what: `the kubelet starts ${name}`, take: create }];
      if (newest.ready) return [];
      const becomeReady = async () => {
        newest.ready = true;
      };
      return [{ what: `${name} becomes ready`, take: becomeReady }];
    });
  }

  #create(name: string): void {
    const instances = this.#containers.get(name) ?? [];
    const restartCount = (instances.at(-1)?.restartCount ?? 0) + 1;
    this.#containers.set(name, [
      ...instances,
      { id: `${name}-${++this.#instances}`, restartCount, running: true, ready: false },
    ]);
  }

  #newest(name: string): (Instance & { readonly name: string }) | undefined {
    const newest = this.#containers.get(name)?.at(-1);
    return newest && { ...newest, name };
  }

  get #isPodGone(): boolean {
    return this.#cluster.look(kubeResource.pods, gatedPod().metadata) === undefined;
  }

  #now(): number {
    return Date.parse(createdAt) + this.#seconds * 1000;
  }

  // ------------------------------------------------------------------------------------------------------- promises

  #checkAction({ order, containers, paused, end }: Progress, action: Action): void {
    if (action.kind !== 'stop' && action.kind !== 'recordTarget' && action.kind !== 'drain') return;
    assert(!paused && !this.#run?.foundPaused, `${action.kind} during a pause`);
    assert(end === undefined, `${action.kind} after the end`);
    if (action.kind === 'drain') return;

    assert(!this.#run?.skipped.has(action.container), `${action.kind} of ${action.container}, which is skipped`);
    if (!order.ordered) return;

    const before = containers.slice(
      0,
      containers.findIndex(({ name }) => name === action.container),
    );
    for (const { name, phase, skippedBy } of before) {
      const isPassed = skippedBy !== undefined || phase === 'Succeeded';
      const isForgiven = phase === 'Failed' && order.failurePolicy === 'Ignore';
      assert(isPassed || isForgiven, `${action.kind} of ${action.container} although ${name} is ${phase}`);
    }
  }

  /** The daemon begins a stop when no other one of the pod is in progress, whoever has requested that. */
  #hasTurn({ what, container, act }: Attempt): boolean {
    return act !== undefined || what !== 'stop' || container === undefined || this.#otherStop(container) === undefined;
  }

  #otherStop(container: string): Act | undefined {
    return [...this.#acts].find((act) => !act.outcome && act.container !== container);
  }

  #checkStop(container: string, id: string): void {
    const underWay = this.#otherStop(container);
    assert(!underWay, `${underWay?.container} and ${container} are stopped at once`);

    const others = this.stops.filter((stop) => stop.container === container && stop.id !== id);
    assert(others.length === 0, `${container} was stopped as ${others[0]?.id} and then as ${id}`);
    if (this.#request.spec.strategy?.forceRecreate) {
      const state = this.live?.status?.containerRecreateStates?.find(({ name }) => name === container);
      assert(state?.targetContainerID === id, `stops ${id}, but ${state?.targetContainerID} is recorded`);
    } else {
      assert(id === originalId(container), `stops ${id}, which did not run when the request was made`);
    }
  }

  #checkStatus(): void {
    const { status } = this.live ?? {};
    if (!status) return;
    const { phase, conditions, message, completionTime } = status;
    assert(!message?.startsWith('aborted by') || message === 'aborted by ann', `it says: ${message}`);
    assert(phaseRank.indexOf(phase) >= phaseRank.indexOf(this.#lastPhase), `${phase} after ${this.#lastPhase}`);
    this.#lastPhase = phase;
    for (const { name, phase: now } of status.containerRecreateStates ?? []) {
      assert(now === 'Succeeded' || !this.#succeeded.has(name), `${name} is ${now} after it has succeeded`);
      if (now === 'Succeeded') this.#succeeded.add(name);
    }
    if (phase !== 'Completed') return;

    assert(status.waitingFor === undefined, 'waits for something although it has completed');
    const first = this.#firstCompleted;
    const end = JSON.stringify([conditions, message, completionTime]);
    if (first) {
      const before = JSON.stringify([first.conditions, first.message, first.completionTime]);
      assert(end === before, `ended as ${before}, and then as ${end}`);
    }
    this.#firstCompleted ??= status;
    const outcomes = conditions?.filter(({ type }) => type === 'Complete' || type === 'Failed') ?? [];
    assert(outcomes.length === 1 && completionTime !== undefined, `${outcomes.length} outcomes`);
  }
}

function assert(holds: boolean, what: string): void {
  if (!holds) throw new BrokenPromise(what);
}

/** Whether it always ends with its run. */
function isOfRunAlone({ what }: Attempt): boolean {
  return what === 'identify' || what === 'moment';
}

function has({ attempts }: Run, what: Attempt['what']): boolean {
  return [...attempts].some((attempt) => attempt.what === what);
}

function nameOf({ what, container, act }: Attempt): string {
  return `${what}${container === undefined ? '' : ` ${container}`}${act ? ' ends' : ''}`;
}

function exit(instance: Instance): void {
  instance.running = false;
  instance.ready = false;
}

function toSeen({ id, restartCount, running, name }: Instance & { readonly name: string }) {
  return { name, id, restartCount, state: running ? ('running' as const) : ('exited' as const) };
}

/** Undefined when the step found that there is nothing left to do. */
async function orSuperseded<T>(step: Promise<T>): Promise<T | undefined> {
  try {
    return await step;
  } catch (error) {
    if (error instanceof ApplicationFailure && error.type === 'Superseded') return undefined;
    throw error;
  }
}
