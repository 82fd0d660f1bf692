/**
 * What the swaps of pods have handed in during one term: the step that is to be written next, and the wait for the kubelet.
 * Each ends with the activity that has brought it. The controller writes the steps that are due, within the budget of the
 * SidecarSet; everything else is answered here, from how far the pod is.
 */

import type { SwapHolder } from '../../../activities/fleet/swaps.ts';
import { timestamp } from '../../../api/base/time.ts';
import type { Term } from '../../../kube/leader.ts';
import type { Wait } from '../../../plan/decision.ts';
import type {
  SwapAwaitAnswer,
  SwapAwaitRequest,
  SwapLook,
  SwapOfPod,
  SwapStepAnswer,
  SwapStepRequest,
} from '../../../plan/sidecar-swap/model.ts';
import { goalStanding, type SwapStanding, stepStanding } from '../../../plan/sidecar-swap/standing.ts';
import { waitWithin } from '../../../plan/text-size.ts';
import type { PermitLife } from '../../permits/held.ts';
import { type Held, heldFor } from '../../permits/held.ts';

/** How long a wait has to last before it is reported: the longer, the more of this step were. */
export const reportAfterMs = { first: 5_000, factor: 4, most: 600_000 } as const;

export interface SwapsMeans {
  readonly term: Pick<Term, 'lost'>;
  /** How far a swap is, from the caches. */
  readonly look: (of: SwapOfPod) => SwapStanding;
  /** Requests a pass over a SidecarSet: something was handed in for one of its pods, or taken back. */
  readonly wake: (setUid: string) => void;
  /** The wall clock. */
  readonly nowMs: () => number;
}

/** What one activity has handed in. */
interface HeldRequest<Request, Answer> extends Held<Answer> {
  readonly request: Request;
  /** What it waits for without a break, and since when. */
  waiting?: { readonly wait: Wait; readonly since: string; readonly sinceMs: number };
  timer?: NodeJS.Timeout;
}

type HeldStep = HeldRequest<SwapStepRequest, SwapStepAnswer>;
type HeldAwait = HeldRequest<SwapAwaitRequest, SwapAwaitAnswer>;

/** What people see of it. */
interface SwapProgressShown {
  readonly stage: string;
  readonly waitingFor?: string;
  readonly blockedBy?: readonly string[];
}

export class Swaps implements SwapHolder {
  readonly #means: SwapsMeans;
  /** By the UID of the pod: a pod has one swap at a time, which does one thing at a time. */
  readonly #steps = new Map<string, HeldStep>();
  readonly #awaits = new Map<string, HeldAwait>();
  /** Writes on their way, by the UID of the pod. They resolve when the caches show what has come of them. */
  readonly #writes = new Map<string, Promise<void>>();

  constructor(means: SwapsMeans) {
    this.#means = means;
    const { lost } = means.term;
    if (!lost.aborted) lost.addEventListener('abort', () => this.#fail(lost.reason), { once: true });
  }

  look(of: SwapOfPod): SwapLook {
    return this.#means.look(of).look;
  }

  async step(request: SwapStepRequest, life: PermitLife): Promise<SwapStepAnswer> {
    this.#check(life);
    const answer = this.#take<SwapStepRequest, SwapStepAnswer>(this.#steps, request, life);
    this.podChanged(request.pod.uid);
    try {
      return await answer;
    } catch (error) {
      // what was on its way when the activity ended has been written all the same
      await this.#writes.get(request.pod.uid);
      const look = this.look(request);
      if (stepStanding(request.step, look).kind === 'written') return this.#written(request, look);
      throw error;
    } finally {
      // what it was counted for may let another pod go
      this.#means.wake(request.set.uid);
    }
  }

  async await(request: SwapAwaitRequest, life: PermitLife): Promise<SwapAwaitAnswer> {
    this.#check(life);
    const answer = this.#take<SwapAwaitRequest, SwapAwaitAnswer>(this.#awaits, request, life);
    this.podChanged(request.pod.uid);
    const end = await answer;
    // the next pod may go
    if (end.kind === 'reached') this.#means.wake(request.set.uid);
    return end;
  }

  progressOf(podUid: string): SwapProgressShown | undefined {
    const held = this.#steps.get(podUid) ?? this.#awaits.get(podUid);
    if (held === undefined) return undefined;
    const { look, wait: byKubelet } = this.#means.look(held.request);
    const { reason, blockedBy } = held.waiting?.wait ?? byKubelet ?? {};
    const stage = look.kind === 'open' ? look.stage : look.kind;
    return { stage, ...(reason !== undefined && { waitingFor: reason }), ...(blockedBy && { blockedBy }) };
  }

  /** The steps for pods of a SidecarSet that are to be written now. */
  dueSteps(setUid: string): readonly SwapStepRequest[] {
    return [...this.#steps.values()]
      .filter(({ request, life }) => request.set.uid === setUid && life.isAlive() && this.#isDue(request))
      .map(({ request }) => request);
  }

  /** Whether the step of a pod may be written at this moment: asked again before the write. */
  mayWrite({ pod, set, step }: Pick<SwapStepRequest, 'pod' | 'set' | 'step'>): boolean {
    const held = this.#steps.get(pod.uid);
    return held?.request.step === step && held.request.set.uid === set.uid && held.life.isAlive();
  }

  /** The step of a pod is being written. The result is to be called once the caches show what has come of it. */
  writing(podUid: string): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#writes.set(podUid, promise);
    return () => {
      if (this.#writes.get(podUid) === promise) this.#writes.delete(podUid);
      resolve();
    };
  }

  /** There is nothing to write for the step. */
  nothing(podUid: string, why: string): void {
    this.#steps.get(podUid)?.end({ kind: 'nothing', why });
  }

  /** The step of a pod waits for this; undefined: for nothing any more. A wait that lasts is reported. */
  waits(podUid: string, wait: Wait | undefined): void {
    const held = this.#steps.get(podUid);
    if (held) this.#waits(held, wait, () => this.#means.wake(held.request.set.uid));
  }

  /** The pod or its SidecarSet has changed, or was written: answers what is over, and has written what is due. */
  podChanged(podUid: string): void {
    const step = this.#steps.get(podUid);
    if (step) this.#judgeStep(step);
    const kubelet = this.#awaits.get(podUid);
    if (kubelet) this.#judgeAwait(kubelet);
  }

  /** The same for each pod of a SidecarSet that has handed something in. */
  setChanged(setUid: string): void {
    for (const { request } of [...this.#steps.values(), ...this.#awaits.values()]) {
      if (request.set.uid === setUid) this.podChanged(request.pod.uid);
    }
  }

  #check(life: PermitLife): void {
    this.#means.term.lost.throwIfAborted();
    if (!life.isAlive()) throw life.ended.reason;
  }

  #take<Request extends SwapOfPod, Answer>(
    into: Map<string, HeldRequest<Request, Answer>>,
    request: Request,
    life: PermitLife,
  ): Promise<Answer> {
    const { uid } = request.pod;
    into.get(uid)?.fail(new Error('a later attempt has brought it again'));
    return heldFor<Answer, HeldRequest<Request, Answer>>(
      life,
      (held) => {
        const kept = { ...held, request };
        into.set(uid, kept);
        return kept;
      },
      (held) => {
        clearTimeout(held.timer);
        if (into.get(uid) === held) into.delete(uid);
      },
    );
  }

  #isDue(request: SwapStepRequest): boolean {
    return stepStanding(request.step, this.#means.look(request).look).kind === 'due';
  }

  #judgeStep(held: HeldStep): void {
    const { request } = held;
    const { look, wait } = this.#means.look(request);
    const standing = stepStanding(request.step, look);
    switch (standing.kind) {
      case 'due':
        this.#means.wake(request.set.uid);
        return;
      case 'early':
        this.#waits(held, wait, () => this.#judgeStep(held));
        return;
      case 'written':
        held.end(this.#written(request, look));
        return;
      case 'nothing':
        held.end(standing);
    }
  }

  #written({ step }: SwapStepRequest, look: SwapLook): SwapStepAnswer {
    const begunAt = look.kind === 'open' && step === 'begin' ? look.begunAt : undefined;
    return { kind: 'written', at: begunAt ?? timestamp(this.#means.nowMs()) };
  }

  #judgeAwait(held: HeldAwait): void {
    const { request } = held;
    const { look, wait } = this.#means.look(request);
    const standing = goalStanding(request.until, look);
    if (standing === 'reached') held.end({ kind: 'reached' });
    else if (standing === 'changed')
      held.end({ kind: 'changed', why: look.kind === 'gone' ? look.why : `now ${stageOf(look)}` });
    else this.#waits(held, wait, () => this.#judgeAwait(held));
  }

  /** Reports a wait that has lasted; calls `again` when it will have. */
  #waits(
    held: HeldRequest<SwapStepRequest, SwapStepAnswer> | HeldRequest<SwapAwaitRequest, SwapAwaitAnswer>,
    wait: Wait | undefined,
    again: () => void,
  ): void {
    clearTimeout(held.timer);
    const { told, reports } = held.request;
    if (wait === undefined) {
      delete held.waiting;
      return;
    }
    const now = { since: timestamp(this.#means.nowMs()), sinceMs: performance.now() };
    const { since, sinceMs } = held.waiting?.wait.reason === wait.reason ? held.waiting : now;
    held.waiting = { wait, since, sinceMs };
    if (wait.reason === told) return;
    const leftMs = sinceMs + lastsMs(wait, reports) - performance.now();
    if (leftMs <= 0) held.end({ kind: 'blocked', waitingFor: waitWithin({ ...wait, since }) });
    else held.timer = setTimeout(again, leftMs).unref();
  }

  #fail(reason: unknown): void {
    for (const held of [...this.#steps.values(), ...this.#awaits.values()]) held.fail(reason);
  }
}

/** A pause is reported at once, the first time. */
function lastsMs({ reason }: Wait, reports: number): number {
  const { first, factor, most } = reportAfterMs;
  return reason === 'Paused' && reports === 0 ? 0 : Math.min(first * factor ** reports, most);
}

function stageOf(look: SwapLook): string {
  return look.kind === 'open' ? look.stage : look.kind;
}
