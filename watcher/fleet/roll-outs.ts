/**
 * The roll-outs of the objects of one kind: they are started while there is something to roll out, told what has changed,
 * and receive the commands of operators.
 */
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { qualifiedName } from '../../api/core/refs.ts';
import { queues, rollOutCommandNames } from '../../api/engine/operations.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import {
  type RollOutChanged,
  type RollOutFacts,
  type RollOutOperation,
  rollOutId,
  rollOutType,
} from '../../api/fleet/operation.ts';
import type { Cache } from '../../kube/cache.ts';
import type { PassResult } from '../../kube/keyed-queue.ts';
import type { RollOutWanted, WorkloadPlan } from '../../plan/fleet/input.ts';
import { isHeld, ordersFor } from '../../plan/fleet/roll-out-orders.ts';
import type { OperationState } from '../../process/metrics.ts';
import type { ControllerContext } from '../controller.ts';
import { operationState } from '../operation-state.ts';
import { type AnnotatedCommand, type Commanded, passOnCommand } from '../operator-commands.ts';
import type { WantedOperation } from '../starter.ts';

/** A roll-out that has not asked for so long is told to: it may have lost what it was told last, as after a restore. */
const unheardMs = 600_000;

/** What a plan says of the roll-out. */
export type ForRollOut = Pick<WorkloadPlan<unknown>, 'rollOut' | 'lacksPermit'>;

/** An object that is rolled out. */
export interface RolledOutObject extends KubeObject {
  readonly status?: { readonly waitingFor?: WaitingFor };
}

export interface RollOutsOptions<Owner extends KubeObject> {
  readonly resource: Resource;
  readonly owners: Pick<Cache<Owner>, 'byUid'>;
  /** The name of the queue, in metrics. */
  readonly queue: string;
}

export class RollOuts<Owner extends RolledOutObject> {
  readonly #context: ControllerContext;
  readonly #options: RollOutsOptions<Owner>;
  readonly #operations: ReturnType<ControllerContext['queue']>;
  /** Since when objects have waited for the permit of their roll-out, and when it was last told to ask. */
  readonly #withoutPermit = new Map<string, { readonly sinceMs: number; readonly toldAtMs: number }>();
  /** Of each object that has been looked at. */
  readonly #wanted = new Map<string, RollOutWanted>();

  constructor(context: ControllerContext, options: RollOutsOptions<Owner>) {
    this.#context = context;
    this.#options = options;
    this.#operations = context.queue(options.queue, (uid) => this.#pass(uid));
  }

  /** A term has begun. */
  begin(): void {
    this.#withoutPermit.clear();
    this.#wanted.clear();
  }

  /** Has the roll-out of this object started, told or ended, and a command passed on. */
  add(uid: string): void {
    this.#operations.add(uid);
  }

  /** What there is to roll out, as of the last look. */
  wanted(uid: string): RollOutWanted | undefined {
    return this.#wanted.get(uid);
  }

  /** For the metrics. */
  stateOf({ metadata, status }: Owner): OperationState {
    return operationState(this.wanted(metadata.uid)?.isWanted ? 'RollingOut' : 'Settled', status?.waitingFor);
  }

  /** Keeps what follows from a plan for the roll-out. */
  planned(uid: string, { rollOut, lacksPermit }: ForRollOut, nowMs: number): void {
    if (lacksPermit) this.#missPermit(uid, rollOut, nowMs);
    else this.#withoutPermit.delete(uid);
    if (rollOut === undefined || JSON.stringify(rollOut) === JSON.stringify(this.#wanted.get(uid))) return;
    this.#wanted.set(uid, rollOut);
    this.add(uid);
  }

  /** Since when the object has waited for its permit; undefined: it does not. */
  withoutPermitSinceMs(uid: string): number | undefined {
    return this.#withoutPermit.get(uid)?.sinceMs;
  }

  /** The object does not wait for a permit any more, as it is gone. */
  forgetPermit(uid: string): void {
    this.#withoutPermit.delete(uid);
  }

  /** Tells a parked roll-out to ask again. Answers false when Temporal has not answered. */
  async wake(uid: string): Promise<boolean> {
    return await this.#context.starter.tell(rollOutId(uid), null);
  }

  /** The object is gone. */
  async forget(uid: string): Promise<void> {
    const wasWanted = this.wanted(uid)?.isWanted;
    this.#wanted.delete(uid);
    if (!this.#context.isLeading()) return;
    this.#context.starter.forget(rollOutId(uid));
    const change: RollOutChanged = { withdrawn: true };
    if (wasWanted) await this.#context.starter.tell(rollOutId(uid), change);
  }

  /** One that an operator holds has no reason to ask. */
  #missPermit(uid: string, rollOut: RollOutWanted | undefined, nowMs: number): void {
    const { sinceMs, toldAtMs } = this.#withoutPermit.get(uid) ?? { sinceMs: nowMs, toldAtMs: nowMs };
    const isDue = nowMs - toldAtMs >= unheardMs;
    this.#withoutPermit.set(uid, { sinceMs, toldAtMs: isDue ? nowMs : toldAtMs });
    if (!isDue || !rollOut?.isWanted) return;
    const { orders, revision } = rollOut.facts;
    if (!isHeld(ordersFor(orders, revision))) void this.wake(uid);
  }

  async #pass(uid: string): Promise<PassResult | undefined> {
    const { kube, starter, commandEvents } = this.#context;
    const { resource, owners } = this.#options;
    const owner = owners.byUid(uid);
    const rollOut = this.#wanted.get(uid);
    if (owner === undefined || rollOut === undefined) return undefined;
    const operation = operationOf(resource.kind, owner, rollOut.facts);
    if (rollOut.isWanted) starter.want(operation);
    else starter.forget(rollOutId(uid));
    const receiverOf = ({ name }: Pick<AnnotatedCommand, 'name'>): Commanded => {
      // An undo may come long after a roll-out has ended, so a command starts one.
      const isOver = name !== 'undo' && rollOut.isRolledOut && isUpToDate(rollOut, owner);
      return isOver ? { kind: 'nobody', why: nothingToRollOut(rollOut) } : { kind: 'started', operation };
    };
    return passOnCommand(owner, resource, rollOutCommandNames, receiverOf, { kube, starter, commandEvents });
  }
}

function isUpToDate({ facts }: RollOutWanted, { metadata }: KubeObject): boolean {
  return facts.generation === (metadata.generation ?? 0);
}

function nothingToRollOut({ facts }: RollOutWanted): string {
  const undo = facts.previous === undefined ? '' : `, or undo to return to revision ${facts.previous}`;
  return `nothing is rolled out, as all pods are of revision ${facts.revision}; change the spec to pause the next roll-out${undo}`;
}

function operationOf(kind: string, { metadata }: KubeObject, facts: RollOutFacts): WantedOperation {
  const { namespace = '', name, uid } = metadata;
  const operation: RollOutOperation = { kind, target: { namespace, name, uid }, facts };
  const change: RollOutChanged = facts;
  return {
    workflowId: rollOutId(uid),
    workflowType: rollOutType,
    taskQueue: queues.cluster,
    argument: operation,
    change,
    inputs: JSON.stringify(facts),
    summary: `roll out ${kind} ${qualifiedName({ namespace, name })}`,
    about: { kind, namespace, name, node: '' },
  };
}
