// Swaps of sidecars whose leading watcher and kubelet are played: the workflow and Temporal are real.
import { randomUUID } from 'node:crypto';
import { Context } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import { changedSignal, queues, searchAttributes } from '../../api/engine/operations.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { type SwapOperation, type SwapWaitReason, swapSidecarId, swapWaits } from '../../api/sidecar-set/swap.ts';
import type { SwapLook, SwapStage } from '../../plan/sidecar-swap/model.ts';
import { goalStanding, stepStanding } from '../../plan/sidecar-swap/standing.ts';
import { type Answers, type PlayedOperations, startPlayedOperations } from './played-operations.ts';
import { waitFor } from './wait.ts';

/** A pod with one hot-upgrade sidecar, as the leading watcher sees it. */
export interface SwapWorld {
  readonly stage: SwapStage | 'done' | 'gone';
  /** The new image. */
  readonly image: string;
  /** The SidecarSet is paused. */
  readonly isPaused: boolean;
  /** The kubelet runs what was written, and it is ready. */
  readonly isRunning: boolean;
  /** The planner lets the pod go. */
  readonly isDue: boolean;
  readonly begunAt?: string;
  readonly deadlineMs?: number;
  readonly backOffUntil?: string;
}

const begins: SwapWorld = { stage: 'begin', image: 'mesh:v2', isPaused: false, isRunning: true, isDue: true };

/** One swap, and the pod that it works on. */
export class PlayedSwap {
  readonly operation: SwapOperation;
  readonly handle: WorkflowHandle;
  /** What was written into the pod. */
  readonly written: string[] = [];
  /** The answer that something was written comes after this. */
  answered: Promise<void> = Promise.resolve();
  #world: SwapWorld;
  readonly #played: PlayedOperations;

  constructor(operation: SwapOperation, world: SwapWorld, played: PlayedOperations) {
    this.operation = operation;
    this.#world = world;
    this.#played = played;
    this.handle = played.client.workflow.getHandle(swapSidecarId(operation.pod));
  }

  get world(): SwapWorld {
    return this.#world;
  }

  let(change: Partial<SwapWorld>): void {
    this.#world = { ...this.#world, ...change };
  }

  look(): SwapLook {
    const { stage, image, begunAt, deadlineMs, backOffUntil } = this.#kubelet();
    if (stage === 'gone') return { kind: 'gone', why: 'The pod is gone' };
    if (stage === 'done') return { kind: 'done' };
    return {
      ...{ kind: 'open', stage, target: image },
      incoming: [{ container: 'mesh-2', image }],
      outgoing: [{ container: 'mesh-1', image: 'empty:1' }],
      ...(begunAt !== undefined && { begunAt }),
      ...(deadlineMs !== undefined && { deadlineMs }),
      ...(backOffUntil !== undefined && stage === 'begin' && { backOffUntil }),
    };
  }

  /** Waits until the current details contain this text. */
  async shows(text: string): Promise<string> {
    return await waitFor(`${this.handle.workflowId} to show ${text}`, async (see) => {
      const details = see(await this.#played.detailsOf(this.handle));
      return details.includes(text) && details;
    });
  }

  /** Waits until this was written. */
  async wrote(step: string): Promise<void> {
    await waitFor(`${step} to be written`, (see) => see(this.written).includes(step));
  }

  async tell(signal: string, payload: unknown = null): Promise<void> {
    await this.handle.signal(signal, payload);
  }

  /** What the kubelet has done by now. */
  #kubelet(): SwapWorld {
    const { stage, isRunning } = this.#world;
    if (isRunning && stage === 'starting') this.let({ stage: 'reset' });
    if (isRunning && stage === 'resetting') this.let({ stage: 'done' });
    return this.#world;
  }
}

export interface PlayedSwaps {
  readonly played: PlayedOperations;
  begin(
    world?: Partial<SwapWorld>,
    options?: { readonly signal?: string; readonly pod?: string; readonly set?: string },
  ): Promise<PlayedSwap>;
  /** Starts the swap once more, as the watcher does with one that is wanted and not running. */
  again(swap: PlayedSwap): Promise<void>;
  /** A swap of the same pod for another SidecarSet, which is not started. */
  beside(swap: PlayedSwap, set: string): PlayedSwap;
  stop(): Promise<void>;
}

const pollMs = 20;

/** Starts Temporal and workers with a played watcher. */
export async function startPlayedSwaps(): Promise<PlayedSwaps> {
  const swaps = new Map<string, PlayedSwap>();
  const of = ({ pod, set }: SwapOperation): PlayedSwap => {
    const swap = swaps.get(`${pod.uid} ${set.uid}`);
    if (!swap) throw new Error('nobody has begun this swap');
    return swap;
  };

  const answers: Partial<Answers> = {
    'fleet.v1.lookAtSwap': ({ input }) => of(input).look(),
    'fleet.v1.swapStep': async ({ input }) => {
      const swap = of(input);
      for (;;) {
        const standing = stepStanding(input.step, swap.look());
        const { isPaused, isDue } = swap.world;
        if (standing.kind === 'written') return { kind: 'written', at: new Date().toISOString() };
        if (standing.kind === 'nothing') return standing;
        if (!isDue) return { kind: 'nothing', why: 'the partition keeps it' };
        if (isPaused && input.told !== 'Paused') return { kind: 'blocked', waitingFor: waitOf('Paused') };
        if (!isPaused && standing.kind === 'due') {
          const at = new Date().toISOString();
          swap.written.push(input.step);
          swap.let(input.step === 'begin' ? { stage: 'starting', begunAt: at } : { stage: 'resetting' });
          await swap.answered;
          return { kind: 'written', at };
        }
        await pause();
      }
    },
    'fleet.v1.awaitSwap': async ({ input }) => {
      const swap = of(input);
      for (;;) {
        const standing = goalStanding(input.until, swap.look());
        if (standing === 'reached') return { kind: 'reached' };
        if (standing === 'changed') return { kind: 'changed', why: `now ${swap.world.stage}` };
        const reason = input.until === 'ready' ? 'ContainerNotReady' : 'IdleNotReported';
        if (input.told !== reason) return { kind: 'blocked', waitingFor: waitOf(reason) };
        await pause();
      }
    },
  };
  const played = await startPlayedOperations({ answers });

  function added(operation: SwapOperation, world: SwapWorld): PlayedSwap {
    const swap = new PlayedSwap(operation, world, played);
    swaps.set(`${operation.pod.uid} ${operation.set.uid}`, swap);
    return swap;
  }

  async function start(operation: SwapOperation, signal: string): Promise<void> {
    await played.client.workflow.signalWithStart('swapSidecar', {
      workflowId: swapSidecarId(operation.pod),
      taskQueue: queues.cluster,
      args: [operation],
      signal,
      signalArgs: [signal === changedSignal ? null : { by: 'ann' }],
    });
  }

  return {
    played,
    async begin(world = {}, { signal = changedSignal, pod = 'web-0', set = 'mesh' } = {}) {
      const uid = randomUUID();
      const operation = { pod: { namespace: 'shop', name: pod, uid }, set: { name: set, uid: `${set}-${uid}` } };
      const swap = added(operation, { ...begins, ...world });
      await start(operation, signal);
      return swap;
    },
    again: ({ operation }) => start(operation, changedSignal),
    beside: ({ operation: { pod } }, set) => added({ pod, set: { name: set, uid: `${set}-${pod.uid}` } }, begins),
    stop: () => played.stop(),
  };
}

/** A heartbeat, as the watcher sends; it throws when the activity is cancelled. */
async function pause(): Promise<void> {
  const context = Context.current();
  context.heartbeat();
  await context.sleep(pollMs);
}

function waitOf(reason: SwapWaitReason): WaitingFor {
  const since = new Date().toISOString();
  return { reason, blockedBy: ['container/mesh-2'], blockedCount: 1, since, unblock: swapWaits[reason] };
}

/** The phase and the reason that people find an operation by. */
export async function foundBy(handle: WorkflowHandle): Promise<readonly unknown[]> {
  const { searchAttributes: found } = await handle.describe();
  return [found[searchAttributes.phase]?.[0], found[searchAttributes.reason]?.[0]];
}
