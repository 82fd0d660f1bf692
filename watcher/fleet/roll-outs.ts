/**
 * The roll-outs of the objects of one kind: they are started while there is something to roll out, and told what has
 * changed. Commands in annotations are applied here, also while Temporal is away (P-10).
 */
import { createHash } from 'node:crypto';
import { apiVersionOf, type KubeObject, type Resource } from '../../api/core/meta.ts';
import { qualifiedName } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import { type CommandAnswer, commandEvent, queues, rollOutCommandNames } from '../../api/engine/operations.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { type RollOutFacts, type RollOutOperation, rollOutId, rollOutType } from '../../api/fleet/operation.ts';
import { ordersLimit, ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { Cache } from '../../kube/cache.ts';
import { tellEvent } from '../../kube/events.ts';
import { noAnswer } from '../../kube/failures.ts';
import type { PassResult } from '../../kube/keyed-queue.ts';
import type { ChosenPod } from '../../plan/fleet/batch.ts';
import type { HeldOrders, WorkloadPlan } from '../../plan/fleet/input.ts';
import type { RollOutWanted } from '../../plan/fleet/permit.ts';
import {
  isHeld,
  nameInOrders,
  type OrderCommand,
  ordersFor,
  type PodOfFleet,
  understood,
} from '../../plan/fleet/roll-out-orders.ts';
import type { OperationState } from '../../process/metrics.ts';
import type { ControllerContext } from '../controller.ts';
import { operationState } from '../operation-state.ts';
import { type AnnotatedCommand, type Commanded, hasCommand, passOnCommand } from '../operator-commands.ts';
import type { WantedOperation } from '../starter.ts';
import { RollOutCommands } from './commands.ts';
import type { StepPod } from './kind.ts';
import type { FleetQueue } from './queue.ts';

/** What a plan says of the roll-out. */
export type ForRollOut = Pick<WorkloadPlan<unknown>, 'rollOut' | 'lacksPermit' | 'standing'>;

/** How long a command waits until its object has been looked at. */
const plannedWithinMs = 5_000;

/** An object that is rolled out. */
export interface RolledOutObject extends KubeObject {
  readonly status?: { readonly waitingFor?: WaitingFor; readonly rollOut?: RollOutOrders };
}

export interface RollOutsOptions<Owner extends KubeObject> {
  readonly resource: Resource;
  readonly owners: Pick<Cache<Owner>, 'byUid' | 'seen'>;
  /** The name of the queue, in metrics. */
  readonly queue: string;
  /** The pods of an object, as the caches show them. */
  readonly podsOf: (uid: string) => readonly PodOfFleet[];
  /** What carries out the roll-outs of these objects in the present term. */
  readonly fleet: () => Pick<FleetQueue<unknown, unknown>, 'add' | 'quiet' | 'batchesOf' | 'hasRollOut'> | undefined;
}

export class RollOuts<Owner extends RolledOutObject> {
  readonly #context: ControllerContext;
  readonly #options: RollOutsOptions<Owner>;
  readonly #operations: ReturnType<ControllerContext['queue']>;
  /** Since when pods have waited for a permit, of which at least one still does. */
  readonly #withoutPermit = new Map<string, { readonly sinceMs: number; readonly pods: ReadonlySet<string> }>();
  /** How often the roll-out of an object has been told to ask; those that are to be told now. */
  readonly #woken = new Map<string, number>();
  readonly #due = new Set<string>();
  /** The workflow IDs of their roll-outs: an object that is gone has no name. */
  readonly #ids = new Map<string, string>();
  /** Of each object that has been looked at. */
  readonly #wanted = new Map<string, RollOutWanted>();
  /** What waits for a look at an object. */
  readonly #awaited = new Map<string, Set<() => void>>();
  /** The last commands in annotations, by object and ID. */
  readonly #annotations = new Map<string, Map<string, Annotated>>();
  /** Applies the commands of operators. */
  readonly commands: RollOutCommands<Owner>;

  constructor(context: ControllerContext, options: RollOutsOptions<Owner>) {
    this.#context = context;
    this.#options = options;
    const { resource, owners, podsOf, fleet } = options;
    this.commands = new RollOutCommands(context, {
      ...{ resource, owners, podsOf },
      revisionOf: (uid) => this.wanted(uid)?.facts.revision,
      blockedBy: ({ status }) => status?.waitingFor?.blockedBy ?? [],
      planned: async (uid, generation) => await this.#planned(uid, generation),
      look: (uid) => fleet()?.add(uid, 'commanded'),
      quiet: async (uid, withinMs) => (await fleet()?.quiet(uid, withinMs)) ?? [],
    });
    this.#operations = context.queue(options.queue, (uid) => this.#pass(uid));
  }

  /** A term has begun. */
  begin(): void {
    this.#withoutPermit.clear();
    this.#woken.clear();
    this.#due.clear();
    this.#ids.clear();
    this.#wanted.clear();
    this.#annotations.clear();
    this.commands.begin();
  }

  /** The orders with what does not stand in the object yet, as input of planners; nothing when all does. */
  held(uid: string): { readonly held?: HeldOrders } {
    const owner = this.#options.owners.byUid(uid);
    const held = owner && this.commands.held(owner);
    return held ? { held } : {};
  }

  /** The orders as they stand, or are about to stand, in the object. */
  ordersNow(owner: Owner): RollOutOrders | undefined {
    return this.commands.held(owner)?.orders ?? ordersOf(owner);
  }

  /** Whether an operator holds the object or leaves the pod out, as is known at this moment (P-9). */
  isForbidden(uid: string, pod: StepPod): boolean {
    const owner = this.#options.owners.byUid(uid);
    const orders = owner && this.ordersNow(owner);
    if (orders === undefined) return false;
    const now = ordersFor(orders, this.wanted(uid)?.facts.revision ?? orders.revision);
    const name = nameInOrders(pod, owner?.metadata.namespace);
    return isHeld(now) || now?.skip?.includes(name) === true;
  }

  /** Has the roll-out of this object started, told or ended, and a command obeyed. */
  add(uid: string): void {
    this.#operations.add(uid);
  }

  /** An object has changed to this. */
  changed(owner: Owner): void {
    const { uid } = owner.metadata;
    const known = this.#annotations.get(uid);
    if (!hasCommand(owner)) for (const [id, one] of known ?? []) known?.set(id, { ...one, isGone: true });
    this.add(uid);
  }

  /** What there is to roll out, as of the last look. */
  wanted(uid: string): RollOutWanted | undefined {
    return this.#wanted.get(uid);
  }

  /** For the metrics. */
  stateOf({ metadata, status }: Owner): OperationState {
    const settled = status?.waitingFor?.reason === 'Aborted' ? 'Aborted' : 'Settled';
    return operationState(this.wanted(metadata.uid)?.isWanted ? 'RollingOut' : settled, status?.waitingFor);
  }

  /** Keeps what follows from a plan for the roll-out. */
  planned(uid: string, { rollOut, lacksPermit, standing }: ForRollOut, nowMs: number): void {
    if (lacksPermit) this.#missPermit(uid, standing.kind === 'pods' ? standing.pods.map((pod) => pod.uid) : [], nowMs);
    else this.#withoutPermit.delete(uid);
    if (rollOut === undefined || JSON.stringify(rollOut) === JSON.stringify(this.#wanted.get(uid))) return;
    this.#wanted.set(uid, rollOut);
    this.add(uid);
    for (const look of this.#awaited.get(uid) ?? []) look();
  }

  /** Since when the object has waited for its permit; undefined: it does not. */
  withoutPermitSinceMs(uid: string): number | undefined {
    return this.#withoutPermit.get(uid)?.sinceMs;
  }

  /** The object does not wait for a permit any more, as it is gone. */
  forgetPermit(uid: string): void {
    this.#withoutPermit.delete(uid);
  }

  /** Has the roll-out told to ask, and started if there is something to do. */
  wake(uid: string): void {
    this.#due.add(uid);
    this.add(uid);
  }

  /** The object is gone. */
  async forget(uid: string): Promise<void> {
    const isOpen = this.wanted(uid)?.isWanted || this.#options.fleet()?.hasRollOut(uid);
    const workflowId = this.#ids.get(uid);
    this.#wanted.delete(uid);
    this.commands.forget(uid);
    this.#annotations.delete(uid);
    this.#ids.delete(uid);
    if (!this.#context.isLeading()) return;
    this.#due.delete(uid);
    this.#woken.delete(uid);
    if (workflowId === undefined) return;
    this.#context.starter.forget(workflowId);
    if (isOpen) await this.#context.starter.tell(workflowId, null);
  }

  /** Pods come free all the time: one that waits for long is a reason to worry. Unnamed: which ones is not known. */
  #missPermit(uid: string, pods: readonly string[], nowMs: number): void {
    const before = this.#withoutPermit.get(uid);
    const still = pods.filter((pod) => before?.pods.has(pod));
    const goesOn = before && (still.length > 0 || (pods.length === 0 && before.pods.size === 0));
    this.#withoutPermit.set(
      uid,
      goesOn ? { ...before, pods: new Set(still) } : { sinceMs: nowMs, pods: new Set(pods) },
    );
  }

  /** Starts and tells as often as that is due; Temporal may be away for a while. */
  #wakeDue(operation: ReturnType<typeof operationOf>, uid: string, isWanted: boolean): void {
    const { starter } = this.#context;
    this.#ids.set(uid, operation.workflowId);
    const isDue = this.#due.delete(uid);
    if (!isWanted) {
      starter.forget(operation.workflowId);
      this.#woken.delete(uid);
      if (isDue) void starter.tell(operation.workflowId, null);
      return;
    }
    const times = (this.#woken.get(uid) ?? 0) + (isDue ? 1 : 0);
    if (times === 0) return;
    this.#woken.set(uid, times);
    starter.want({ ...operation, inputs: String(times) });
  }

  async #pass(uid: string): Promise<PassResult | undefined> {
    const { kube, starter, commandEvents } = this.#context;
    const { resource, owners } = this.#options;
    const owner = owners.byUid(uid);
    const rollOut = this.#wanted.get(uid);
    if (owner === undefined || rollOut === undefined) return undefined;
    this.#wakeDue(operationOf(resource.kind, owner, rollOut.facts), uid, rollOut.isWanted);
    const receiverOf = ({ name }: Pick<AnnotatedCommand, 'name'>): Commanded => {
      // an undo may come long after a roll-out has ended
      const isOver = name !== 'undo' && rollOut.isRolledOut && isUpToDate(rollOut, owner);
      if (isOver) return { kind: 'nobody', why: nothingToRollOut(rollOut) };
      return { kind: 'here', obey: async (command) => await this.#obey(owner, command) };
    };
    const again = await passOnCommand(owner, resource, rollOutCommandNames, receiverOf, {
      kube,
      starter,
      commandEvents,
    });
    const { namespace = '', name } = owner.metadata;
    if (!hasCommand(owner)) await this.commands.writeHolds({ namespace, name, uid });
    return again;
  }

  /**
   * The command of an annotation. Its ID is the same for all that say the same within a second, so it counts as another one
   * once the object has been seen without it.
   */
  #annotated(uid: string, id: string): Annotated {
    const known = this.#annotations.get(uid) ?? new Map<string, Annotated>();
    const before = known.get(id);
    if (before && !before.isGone) return before;
    const nth = before ? before.nth + 1 : 0;
    const now = { nth, at: new Date(this.#context.now()).toISOString(), isGone: false };
    known.delete(id);
    const latest = [...known].slice(1 - ordersLimit.applied);
    this.#annotations.set(uid, new Map([...latest, [id, now]]));
    return now;
  }

  /** Applies the command of an annotation, and says what has become of it. */
  async #obey(owner: Owner, { id, name, target, by }: AnnotatedCommand): Promise<boolean> {
    const { metadata, status } = owner;
    const { resource, fleet } = this.#options;
    const { kube, commandEvents, now } = this.#context;
    const { namespace, uid } = metadata;
    const namesOf = (pods: readonly ChosenPod[]) => pods.map((pod) => nameInOrders(pod, namespace));
    const meant = understood(
      { name, target },
      {
        orders: this.ordersNow(owner),
        blockedBy: status?.waitingFor?.blockedBy ?? [],
        batches: new Map([...(fleet()?.batchesOf(uid) ?? [])].map(([number, pods]) => [number, namesOf(pods)])),
        namespace: namespace ?? '',
      },
    );
    const { nth, at } = this.#annotated(uid, id);
    const key = keyOf(`${id}/${nth}`);
    const answer = 'refused' in meant ? meant : await this.#applied(metadata, { key, name, meant, by, at });
    const event = commandEvent(name, by, answer);
    if (!commandEvents.take({ metadata }, event)) return true;
    const about = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
    await tellEvent(kube, {
      about,
      component: eventComponent.rollOut,
      key: key.slice(0, 13),
      atMs: now(),
      ...event,
    });
    return true;
  }

  async #applied(
    { namespace = '', name: of, uid }: KubeObject['metadata'],
    { key, name, meant, by, at }: Pick<OrderCommand, 'key' | 'name' | 'by' | 'at'> & { readonly meant: object },
  ): Promise<CommandAnswer> {
    const command = { key, name, at, ...meant };
    const target = { namespace, name: of, uid };
    return (await this.commands.apply(target, command, async () => ({ by, isReapplied: false }))).answer;
  }

  /** The facts of this generation of an object, or of a newer one. */
  async #planned(uid: string, generation: number): Promise<RollOutFacts> {
    const factsNow = () => {
      const facts = this.wanted(uid)?.facts;
      return facts !== undefined && facts.generation >= generation ? facts : undefined;
    };
    const known = factsNow();
    if (known) return known;
    this.#options.fleet()?.add(uid, 'edited');
    const awaited = this.#awaited.get(uid) ?? new Set();
    this.#awaited.set(uid, awaited);
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, plannedWithinMs);
    const look = () => {
      if (factsNow()) resolve();
    };
    awaited.add(look);
    await promise;
    clearTimeout(timer);
    awaited.delete(look);
    if (awaited.size === 0) this.#awaited.delete(uid);
    const facts = factsNow();
    if (facts) return facts;
    throw noAnswer('', `generation ${generation} of the object has not been looked at yet`);
  }
}

/** A command in an annotation, as it has been seen. */
interface Annotated {
  /** How many commands of this ID there have been before. */
  readonly nth: number;
  /** When it was first seen, RFC 3339. */
  readonly at: string;
  /** The object has been seen without it since. */
  readonly isGone: boolean;
}

/** The key of the command of an annotation. */
function keyOf(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 32);
}

function isUpToDate({ facts }: RollOutWanted, { metadata }: KubeObject): boolean {
  return facts.generation === (metadata.generation ?? 0);
}

function nothingToRollOut({ facts }: RollOutWanted): string {
  const undo = facts.previous === undefined ? '' : `, or undo to return to revision ${facts.previous}`;
  return `nothing is rolled out, as all pods are of revision ${facts.revision}; change the spec to pause the next roll-out${undo}`;
}

function operationOf(kind: string, { metadata }: KubeObject, facts: RollOutFacts): Omit<WantedOperation, 'inputs'> {
  const { namespace = '', name, uid } = metadata;
  const operation: RollOutOperation = { kind, target: { namespace, name, uid }, facts };
  return {
    workflowId: rollOutId(metadata),
    workflowType: rollOutType,
    taskQueue: queues.cluster,
    argument: operation,
    change: null,
    summary: `roll out ${kind} ${qualifiedName({ namespace, name })}`,
    about: { kind, namespace, name, node: '' },
  };
}
