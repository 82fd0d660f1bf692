/**
 * The commands of operators about the objects of one kind, as the leading watcher applies them: one after the other for each
 * object, read from and written to its status.
 *
 * `pause` and `abort` hold from the moment in which they arrive, in memory, until they stand in the object (P-9): what
 * is looked at and planned has them as if they stood there.
 */
import type { AppliedCommand, CommandHolder, UnsignedCommand } from '../../activities/fleet/commands.ts';
import type { SentSignal } from '../../activities/temporal/signals.ts';
import { mergePatchTo, objectOr } from '../../api/base/json.ts';
import { failureTypeOf } from '../../api/core/failure.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../../api/core/meta.ts';
import type { ObjectRef } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import { delayedCommandEvent } from '../../api/engine/operations.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import { type OrderedObject, ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { type Cache, compareVersions } from '../../kube/cache.ts';
import { tellEvent } from '../../kube/events.ts';
import { KubeError } from '../../kube/failures.ts';
import { RecentlySeen } from '../../kube/recently-seen.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import type { HeldOrders } from '../../plan/fleet/input.ts';
import {
  isHeld,
  noteOnSkip,
  type OrderCommand,
  ordersAfter,
  type PodOfFleet,
  skipOfPods,
  understood,
} from '../../plan/fleet/roll-out-orders.ts';
import { listed } from '../../plan/text-size.ts';
import type { ControllerContext } from '../controller.ts';
import { messageOf } from './failed-steps.ts';

/** Written is written: a cache that is further behind only makes the next look come to nothing once. */
const seenWithinMs = 5_000;
/** How long an answer to `pause` and `abort` waits for writes that were on their way (P-9). */
const quietWithinMs = 10_000;
/** A command that cannot be applied for so long is told about again. */
const toldAgainMs = 600_000;
/** An operation gives a command again after five minutes at most. */
const takenBackMs = 3_600_000;
/** So many holds of an object are remembered. */
const mostHolds = 8;
/** Of the names of pods in a note. */
const mostNameBytes = 300;

export interface RollOutCommandsOptions<Owner extends KubeObject> {
  readonly resource: Resource;
  readonly owners: Pick<Cache<Owner>, 'byUid' | 'seen'>;
  /** The revision that an object asks for, as of the last look. */
  readonly revisionOf: (uid: string) => string | undefined;
  /** What a roll-out of this object has to know, once this generation of it was looked at. Rejects when that takes long. */
  readonly planned: (uid: string, generation: number) => Promise<RollOutFacts>;
  /** What an object waits for, as its status names it. */
  readonly blockedBy: (owner: Owner) => readonly string[];
  /** The pods of an object. */
  readonly podsOf: (uid: string) => readonly PodOfFleet[];
  /** Requests a look at an object. */
  readonly look: (uid: string) => void;
  /** Resolves when no write of a disruption is on its way; after so long with the names of the pods that are written. */
  readonly quiet: (uid: string, withinMs: number) => Promise<readonly string[]>;
}

/** A `pause` or `abort` that may not stand in the object yet. */
interface Hold {
  readonly command: OrderCommand;
  /** The version of the object in which it stands. Absent: none does. */
  readonly writtenAt?: string;
  /** Why it could not be written. */
  readonly why?: string;
}

export class RollOutCommands<Owner extends KubeObject & OrderedObject> implements CommandHolder {
  readonly #context: Pick<ControllerContext, 'kube' | 'commandEvents' | 'now'>;
  readonly #options: RollOutCommandsOptions<Owner>;
  /** By UID of the object and key of the command. */
  readonly #holds = new Map<string, Map<string, Hold>>();
  /** The last command of each object that is being applied. */
  readonly #turns = new Map<string, Promise<unknown>>();
  /** Keys of commands of which an Event says that they are not applied. */
  readonly #told = new RecentlySeen(toldAgainMs);
  /** Keys of holds that were taken back before they were written: whoever gives them again is too late. */
  readonly #takenBack = new RecentlySeen(takenBackMs);

  constructor(
    context: Pick<ControllerContext, 'kube' | 'commandEvents' | 'now'>,
    options: RollOutCommandsOptions<Owner>,
  ) {
    this.#context = context;
    this.#options = options;
  }

  /** A term has begun: operations give again what was not applied. */
  begin(): void {
    this.#holds.clear();
    this.#turns.clear();
    this.#takenBack.clear();
  }

  /** The object is gone. */
  forget(uid: string): void {
    this.#holds.delete(uid);
  }

  /** The orders with the holds that do not stand in the object yet, and why; undefined when all stand there. */
  held(owner: Owner): HeldOrders | undefined {
    const holds = this.#unwritten(owner);
    const orders = withHolds(ordersOf(owner), holds, this.#options.revisionOf(owner.metadata.uid));
    if (holds.length === 0 || orders === undefined) return undefined;
    const because = holds.find(({ why }) => why !== undefined)?.why;
    return { orders, ...(because !== undefined && { because }) };
  }

  async apply(
    target: ObjectRef,
    command: UnsignedCommand,
    senderOf: () => Promise<SentSignal>,
  ): Promise<AppliedCommand> {
    const isHold = command.name === 'pause' || command.name === 'abort';
    if (isHold) this.#hold(target.uid, { ...command, by: '' });
    const applied = await this.#inTurn(target.uid, () => this.#applyOnce(target, command, senderOf));
    if (!isHold || applied.answer.refused !== undefined) return applied;
    const left = await this.#options.quiet(target.uid, quietWithinMs);
    if (left.length === 0) return applied;
    const note = `writes that had begun have no answer yet: ${listed(left, mostNameBytes)}`;
    return { ...applied, answer: { ...applied.answer, note } };
  }

  /** Tries to write holds that nobody may give again, as their workflow was terminated. */
  async writeHolds(target: ObjectRef): Promise<void> {
    if (this.#turns.has(target.uid)) return;
    for (const { command, why } of this.#holds.get(target.uid)?.values() ?? []) {
      const { by, ...unsigned } = command;
      if (why !== undefined) await this.apply(target, unsigned, async () => ({ by, isReapplied: false }));
    }
  }

  /** Commands of one object are applied in the order in which they came. */
  async #inTurn<Result>(uid: string, apply: () => Promise<Result>): Promise<Result> {
    const before = this.#turns.get(uid) ?? Promise.resolve();
    const turn = before.then(apply, apply);
    this.#turns.set(uid, turn);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(uid) === turn) this.#turns.delete(uid);
    }
  }

  async #applyOnce(
    target: ObjectRef,
    unsigned: UnsignedCommand,
    senderOf: () => Promise<SentSignal>,
  ): Promise<AppliedCommand> {
    const { uid } = target;
    const { key } = unsigned;
    const { by, isReapplied } = await senderOf();
    const command = { ...unsigned, by };
    const isTakenBack = this.#takenBack.has(key, this.#context.now());
    if (isReapplied || isTakenBack) {
      this.#release(uid, ({ command: held }) => held.key === key);
      const answer = isTakenBack ? takenBack : reapplied;
      return { by, answer };
    }
    this.#note(uid, key, { command });
    try {
      return await despiteConflicts(() => this.#write(target, command));
    } catch (error) {
      this.#note(uid, command.key, { why: messageOf(error) });
      await this.#tellDelay(target, command, error);
      throw error;
    }
  }

  async #write({ namespace, name, uid }: ObjectRef, given: OrderCommand): Promise<AppliedCommand> {
    const { kube } = this.#context;
    const { resource, owners, planned, podsOf } = this.#options;
    const { by } = given;
    const live = await kube.get<Owner>(resource, { namespace, name });
    if (live.metadata.uid !== uid) throw gone(resource, name);
    const facts = await planned(uid, live.metadata.generation ?? 0);
    const own = ordersOf(live);
    // what was given later is not taken back, nor written, by what was given before
    const isEarlier = ({ command: { key, at } }: Hold) => at <= given.at && key !== given.key;
    const earlier = [...(this.#holds.get(uid)?.values() ?? [])].filter(isEarlier);
    if (given.name === 'resume' && given.takesBack !== 'undo' && earlier.length > 0 && !isHeld(own)) {
      // what it takes back is written nowhere
      this.#release(uid, isEarlier);
      return { by, answer: {} };
    }
    const pods = given.name === 'skip' ? podsOf(uid) : [];
    const isToBeUnderstood = given.name === 'skip' && !own?.applied?.includes(given.key);
    const command = isToBeUnderstood ? this.#skip(given, live, pods) : given;
    if ('refused' in command) return { by, answer: command };
    const { orders, answer } = ordersAfter(command, {
      ...facts,
      orders: withHolds(own, earlier, facts.revision),
      nowMs: this.#context.now(),
    });
    const { resourceVersion } = live.metadata;
    if (orders === undefined) {
      this.#note(uid, given.key, { writtenAt: resourceVersion });
      return { by, answer };
    }
    const rollOut = mergePatchTo(objectOr(live.status?.rollOut), objectOr(orders));
    const body = { metadata: { uid, resourceVersion }, status: { rollOut } };
    const written = await kube.patch<Owner>(resource, { namespace, name }, 'merge', body, { subresource: 'status' });
    if (written.status?.rollOut === undefined) throw unknownField(resource);
    const version = written.metadata.resourceVersion;
    this.#settle(uid, orders, version, (hold) => isEarlier(hold) || hold.command.key === given.key);
    await owners.seen(uid, version, AbortSignal.timeout(seenWithinMs)).catch(() => undefined);
    // what has failed is tried again at once
    this.#options.look(uid);
    const isSkip = answer.refused === undefined && given.name === 'skip';
    return { by, answer: { ...answer, ...(isSkip && noteOnSkip(command.pods ?? [], pods)) } };
  }

  /** Without a target it leaves out what the object waits for. */
  #skip(given: OrderCommand, live: Owner, pods: readonly PodOfFleet[]): OrderCommand | { readonly refused: string } {
    if (given.pods !== undefined) return skipOfPods(given, pods);
    const scene = { orders: ordersOf(live), blockedBy: this.#options.blockedBy(live), batches: new Map() };
    const meant = understood(given, scene);
    return 'refused' in meant ? meant : skipOfPods({ ...given, ...meant }, pods);
  }

  #hold(uid: string, command: OrderCommand): void {
    const owner = this.#options.owners.byUid(uid);
    const { key, name } = command;
    const isOver = this.#takenBack.has(key, this.#context.now());
    if (owner === undefined || isOver || ordersOf(owner)?.applied?.includes(key)) return;
    const holds = this.#holds.get(uid) ?? new Map<string, Hold>();
    if (holds.has(key)) return;
    // one more of its name holds nothing more
    const [oldest] = [...holds.values()].filter((hold) => hold.command.name === name);
    if (holds.size >= mostHolds && oldest) holds.delete(oldest.command.key);
    holds.set(key, { command });
    this.#holds.set(uid, holds);
    this.#options.look(uid);
  }

  /** Ends holds that stand nowhere. */
  #release(uid: string, isMeant: (hold: Hold) => boolean): void {
    const holds = this.#holds.get(uid);
    for (const [key, hold] of holds ?? []) {
      if (!isMeant(hold)) continue;
      holds?.delete(key);
      this.#takenBack.add(key, this.#context.now());
    }
    if (holds?.size === 0) this.#holds.delete(uid);
    if (holds) this.#options.look(uid);
  }

  #note(uid: string, key: string, more: Partial<Hold>): void {
    const holds = this.#holds.get(uid);
    const hold = holds?.get(key);
    if (hold) holds?.set(key, { ...hold, ...more });
    if (hold && more.why !== undefined && more.why !== hold.why) this.#options.look(uid);
  }

  /** Of these holds those that stand in this version of the object are remembered until the caches show it; others are over. */
  #settle(uid: string, orders: RollOutOrders, version: string, isMeant: (hold: Hold) => boolean): void {
    const stands = ({ command: { name } }: Hold) => (name === 'pause' ? orders.paused : orders.aborted) !== undefined;
    const holds = this.#holds.get(uid);
    for (const [key, hold] of holds ?? []) {
      const { why: _, ...known } = hold;
      if (isMeant(hold) && stands(hold)) holds?.set(key, { ...known, writtenAt: version });
    }
    this.#release(uid, (hold) => isMeant(hold) && !stands(hold));
  }

  #unwritten({ metadata }: Owner): readonly Hold[] {
    const { uid, resourceVersion } = metadata;
    const holds = this.#holds.get(uid);
    if (holds === undefined) return [];
    for (const [key, { writtenAt }] of holds) {
      if (writtenAt !== undefined && compareVersions(resourceVersion, writtenAt) >= 0) holds.delete(key);
    }
    if (holds.size === 0) this.#holds.delete(uid);
    return [...holds.values()];
  }

  /** Says in an Event, once, that a command waits, and for what. */
  async #tellDelay(target: ObjectRef, { key, name, by }: OrderCommand, error: unknown): Promise<void> {
    const { kube, commandEvents, now } = this.#context;
    const type = failureTypeOf(error);
    if ((type !== 'Denied' && type !== 'Invalid') || this.#told.has(key, now())) return;
    this.#told.add(key, now());
    const { resource } = this.#options;
    const metadata = { ...target, resourceVersion: '', creationTimestamp: '' };
    const event = delayedCommandEvent(name, by, messageOf(error));
    if (!commandEvents.take({ metadata }, event)) return;
    const about = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
    await tellEvent(kube, { about, component: eventComponent.rollOut, atMs: now(), ...event });
  }
}

/** The orders with holds that do not stand in the object. Where the revision is unknown, an abort holds for any. */
function withHolds(
  orders: RollOutOrders | undefined,
  holds: readonly Hold[],
  revision: string | undefined,
): RollOutOrders | undefined {
  return holds.reduce((before, { command }) => {
    const name = revision === undefined ? 'pause' : command.name;
    const scene = { orders: before, revision: revision ?? before?.revision ?? 'unknown' };
    return ordersAfter({ ...command, name }, scene).orders ?? before;
  }, orders);
}

const reapplied = {
  refused: 'a reset of the workflow has given it again, and the run before has received it',
} as const;
const takenBack = { note: 'taken back before it was written' } as const;

function gone({ kind }: Resource, name: string): KubeError {
  return new KubeError({ status: 404, reason: 'NotFound', message: `another ${kind} is called "${name}" now` });
}

/** The API server drops what the schema of a status does not contain. */
function unknownField({ kind }: Resource): KubeError {
  const why = `the CustomResourceDefinition of ${kind} has no status.rollOut; apply the manifests of this release`;
  return new KubeError({ status: 403, reason: 'Forbidden', message: why });
}
