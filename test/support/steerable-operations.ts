import { randomUUID } from 'node:crypto';
import { expect } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import proto from '@temporalio/proto';
import { changedSignal, queues, searchAttributes } from '../../api/engine/operations.ts';
import type { ActivityName } from '../../workflows/shared/results.ts';
import { closedAs } from './closed.ts';
import { newGate } from './gate.ts';
import {
  type Answers,
  idOf,
  inputOf,
  type OperationType,
  type PlayedOperations,
  pullAnswers,
  startPlayedOperations,
  uneventful,
} from './played-operations.ts';
import { waitFor } from './wait.ts';

const { PENDING_ACTIVITY_STATE_PAUSED } = proto.temporal.api.enums.v1.PendingActivityState;

/** How the activities of one operation behave. */
export type Behaviour = 'usual' | 'held' | 'refused' | 'failing';

/** The activity that each type looks at the cluster with, and the one that it acts with. */
export const activitiesOf = {
  restartContainers: { look: 'lookAtRequest', act: 'node.v1.stopContainer' },
  refreshEnvironment: { look: 'lookAtEnvironment', act: 'node.v1.refreshContainer' },
  pullImages: { look: 'lookAtNodeImage', act: 'node.v1.pullImage' },
  pullOnNodes: { look: 'fleet.v1.nextNodes', act: 'steerPullJob' },
  rollOut: { look: 'fleet.v1.next', act: 'fleet.v1.carryOutBatch' },
  terminateSidecars: { look: 'lookAtSidecars', act: 'endSidecars' },
  swapSidecar: { look: 'fleet.v1.lookAtSwap', act: 'fleet.v1.swapStep' },
} as const satisfies Readonly<Record<OperationType, { readonly look: ActivityName; readonly act: ActivityName }>>;

/** What people find an operation by. */
export type About = Readonly<Partial<Record<keyof typeof searchAttributes, string>>>;

/** One operation whose activities behave as the test says. */
export class SteerableOperation {
  readonly workflowId: string;
  readonly type: OperationType;
  readonly handle: WorkflowHandle;
  readonly #played: PlayedOperations;
  readonly #behaviours: Behaviours;

  constructor(type: OperationType, handle: WorkflowHandle, played: PlayedOperations, behaviours: Behaviours) {
    this.type = type;
    this.workflowId = handle.workflowId;
    this.handle = handle;
    this.#played = played;
    this.#behaviours = behaviours;
  }

  /** The inputs with which an activity was called. */
  inputsOf(activity: ActivityName): readonly unknown[] {
    const calls = this.#played.calls.filter((call) => call.workflowId === this.workflowId);
    return calls.filter((call) => call.activity === activity).map(({ input }) => input);
  }

  looks(): number {
    return this.inputsOf(activitiesOf[this.type].look).length;
  }

  acts(): number {
    return this.inputsOf(activitiesOf[this.type].act).length;
  }

  /** From now on the activity behaves so. A held call ends when the activity is no longer held. */
  let(step: 'look' | 'act', behaviour: Behaviour): void {
    this.#behaviours.set(this.workflowId, activitiesOf[this.type][step], behaviour);
  }

  /** Waits until its details or its search attribute have this reason, and returns the details. */
  async waits(reason: string): Promise<string> {
    return await waitFor(`${this.workflowId} to wait for ${reason}`, async (see) => {
      const { searchAttributes: found } = await this.handle.describe();
      const details = await this.#played.detailsOf(this.handle);
      const [shown] = see([found[searchAttributes.reason]?.[0], details]);
      return (shown === reason || details.includes(reason)) && `${shown}: ${details}`;
    });
  }

  /** Waits until it has ended, as its object has. A pull job is told that the watcher has completed it. */
  async ended(): Promise<void> {
    if (this.type === 'pullOnNodes') {
      this.#behaviours.set(this.workflowId, 'fleet.v1.nextNodes', 'usual', pullAnswers.finished);
      await this.handle.signal(changedSignal, null).catch(() => undefined);
    }
    expect(['COMPLETED', 'FAILED', 'CANCELLED']).toContain(await closedAs(this.handle));
  }

  /** The pending activity that it acts with, once there is one that holds. */
  async pending(holds: (activity: PendingActivity) => boolean = () => true): Promise<PendingActivity> {
    const name = activitiesOf[this.type].act;
    return await waitFor(`a pending ${name}`, async (see) => {
      const { raw } = await this.handle.describe();
      const found = raw.pendingActivities?.find(({ activityType }) => activityType?.name === name);
      const { activityId, attempt, state } = see(found) ?? {};
      const activity = {
        id: activityId ?? '',
        attempt: attempt ?? 0,
        isPaused: state === PENDING_ACTIVITY_STATE_PAUSED,
      };
      return found && holds(activity) && activity;
    });
  }
}

export interface PendingActivity {
  readonly id: string;
  readonly attempt: number;
  /** And no attempt is under way any more. */
  readonly isPaused: boolean;
}

/** Operations on a Temporal server of their own whose activities can be held up and refused. */
export interface SteerableOperations {
  readonly played: PlayedOperations;
  begin(
    type: OperationType,
    options?: {
      readonly look?: Behaviour;
      readonly act?: Behaviour;
      readonly about?: About;
      /** Its first signal, by ann. */
      readonly signal?: string;
    },
  ): Promise<SteerableOperation>;
  stop(): Promise<void>;
}

/** Starts Temporal, and workers for these operations, in a process where roles of Windlass run. */
export async function startSteerableOperations(): Promise<SteerableOperations> {
  const behaviours = newBehaviours();
  const played = await startPlayedOperations({ answers: behaviours.answers, hasLogger: true });

  return {
    played,
    async begin(type, { look = 'usual', act = 'usual', about = {}, signal = changedSignal } = {}) {
      const uid = randomUUID();
      const workflowId = idOf(type, uid);
      behaviours.set(workflowId, activitiesOf[type].look, look);
      behaviours.set(workflowId, activitiesOf[type].act, act);
      const attributes = Object.entries(about).map(([key, value]) => [
        searchAttributes[key as keyof typeof searchAttributes],
        [value],
      ]);
      const workflowType = type === 'refreshEnvironment' ? 'restartContainers' : type;
      const handle = await played.client.workflow.signalWithStart(workflowType, {
        workflowId,
        taskQueue: queues.cluster,
        args: [inputOf(type, uid)],
        signal,
        signalArgs: [signal === changedSignal ? null : { by: 'ann' }],
        searchAttributes: Object.fromEntries(attributes),
      });
      // the latest run, whatever starts it
      return new SteerableOperation(type, played.client.workflow.getHandle(handle.workflowId), played, behaviours);
    },
    async stop() {
      behaviours.end();
      await played.stop();
    },
  };
}

interface Behaviours {
  readonly answers: Partial<Answers>;
  set(workflowId: string, activity: ActivityName, behaviour: Behaviour, answer?: unknown): void;
  end(): void;
}

interface Behaving {
  readonly behaviour: Behaviour;
  /** In place of the usual one. */
  readonly answer?: unknown;
  readonly isOver: ReturnType<typeof newGate>;
}

function newBehaviours(): Behaviours {
  const current = new Map<string, Behaving>();
  const ended = new Set<string>();
  const usual: Readonly<Record<string, (call: never) => unknown>> = uneventful;

  async function play(activity: ActivityName, call: { readonly workflowId: string }): Promise<unknown> {
    const behaving = current.get(`${call.workflowId} ${activity}`);
    if (behaving?.behaviour === 'refused') throw ApplicationFailure.nonRetryable('refused by the test', 'Strange');
    if (behaving?.behaviour === 'failing') throw ApplicationFailure.retryable('away for the test', 'Strange');
    if (behaving?.behaviour === 'held') await behaving.isOver.opened;
    if (activity === 'endSidecars') ended.add(call.workflowId);
    const { answer } = current.get(`${call.workflowId} ${activity}`) ?? {};
    if (answer !== undefined) return answer;
    if (activity === 'fleet.v1.nextNodes') return pullAnswers.open;
    if (activity === 'lookAtSidecars') return sidecarsOf(ended.has(call.workflowId));
    return await usual[activity]?.(call as never);
  }

  return {
    answers: Object.fromEntries(
      Object.keys(uneventful).map((name) => [name, (call: never) => play(name as ActivityName, call)]),
    ) as Partial<Answers>,
    set(workflowId, activity, behaviour, answer) {
      const key = `${workflowId} ${activity}`;
      const before = current.get(key);
      current.set(key, { behaviour, answer, isOver: newGate() });
      before?.isOver.open();
    },
    end() {
      for (const { isOver } of current.values()) isOver.open();
    },
  };
}

function sidecarsOf(haveEnded: boolean): unknown {
  if (haveEnded) return { decision: { kind: 'done' }, status: {} };
  return { decision: { kind: 'act', step: { kind: 'requestStop', containers: ['proxy'] } }, status: {} };
}
