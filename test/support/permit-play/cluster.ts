import type { Clock } from './clock.ts';

export interface Item {
  readonly uid: string;
  readonly revision: string;
  /** Infinity: never. */
  readonly availableAtMs: number;
}

export type OrderName = 'pause' | 'abort' | 'undo';

/** What operators have ordered, as it stands in the status of the object: each order until its key is taken back. */
export interface Orders {
  readonly standing: readonly { readonly name: OrderName; readonly key: string }[];
  /** Of the last 16 commands. */
  readonly keys: readonly string[];
}

/** The keys of these orders that stand. */
export function standing(orders: Orders, ...names: readonly OrderName[]): readonly string[] {
  return orders.standing.filter(({ name }) => names.includes(name)).map(({ key }) => key);
}

export interface Fleet {
  readonly size: number;
  readonly maxUnavailable: number;
  /** After an update. Infinity: never. */
  readonly readyAfterMs: number;
  /** Items that are not available change between not ready and ready too short. */
  readonly alternatesEveryMs?: number;
  /** Absent: `i0`, `i1` ... */
  readonly uidOf?: (index: number) => string;
}

/** Longer than a step waits for its turn. */
const unknownMs = 40_000;
/** How long a permit that has ended may be used: until Temporal is asked again, and has not answered. */
const aliveMs = 16_000;

/** One object and its items, as they are; it sees every write, and what is wrong with it. */
export class Cluster {
  revision = 'r1';
  previous = 'r0';
  isDeleted = false;
  orders: Orders = { standing: [], keys: [] };
  /** The API server refuses writes of items, or of orders. */
  refuses = { items: false, orders: false };
  readonly items = new Map<string, Item>();
  readonly wrongs: string[] = [];
  /** Keys of pauses and aborts that were answered as written. */
  readonly answeredHolds = new Set<string>();
  disruptions = 0;
  lastBegunAtMs = Number.NEGATIVE_INFINITY;
  readonly #onTheirWay = new Set<string>();
  readonly #brokenAtMs = new Map<string, number>();
  onChange: () => void = () => undefined;
  readonly #clock: Clock;
  readonly fleet: Fleet;

  constructor(clock: Clock, fleet: Fleet) {
    this.#clock = clock;
    this.fleet = fleet;
    for (let index = 0; index < fleet.size; index++) {
      const uid = fleet.uidOf?.(index) ?? `i${index}`;
      this.items.set(uid, { uid, revision: 'r1', availableAtMs: 0 });
    }
    if (fleet.alternatesEveryMs !== undefined) this.#alternate(fleet.alternatesEveryMs);
  }

  isAvailable({ availableAtMs }: Item): boolean {
    return availableAtMs <= this.#clock.nowMs;
  }

  get unavailable(): number {
    let count = 0;
    for (const item of this.items.values()) if (!this.isAvailable(item)) count += 1;
    return count;
  }

  /** What an item that is not available lacks. */
  get lack(): 'NotReady' | 'ReadyTooShort' {
    const { alternatesEveryMs } = this.fleet;
    if (alternatesEveryMs === undefined) return 'NotReady';
    return Math.floor(this.#clock.nowMs / alternatesEveryMs) % 2 === 0 ? 'NotReady' : 'ReadyTooShort';
  }

  edit(): void {
    const number = Number(this.revision.slice(1)) + 1;
    this.previous = this.revision;
    this.revision = `r${number}`;
    // orders other than a pause were about the revision before
    const { orders } = this;
    this.orders = { ...orders, standing: orders.standing.filter(({ name }) => name === 'pause') };
    this.onChange();
  }

  remove(): void {
    this.isDeleted = true;
    this.onChange();
  }

  breakDown(uid: string): void {
    this.#brokenAtMs.set(uid, this.#clock.nowMs);
    this.#put(uid, { availableAtMs: this.#clock.nowMs + 5_000 });
  }

  makeAvailable(uid: string): void {
    this.#put(uid, { availableAtMs: this.#clock.nowMs });
  }

  /** A write that begins an update has been sent. */
  begins(
    uid: string,
    under: { readonly permits: number; readonly isHeld: boolean; readonly endedForMs: number },
  ): void {
    const wrong = (what: string) => this.wrongs.push(`${this.#clock.nowMs}: ${uid} ${what}`);
    if (under.permits !== 1) wrong(`is disrupted under ${under.permits} permits`);
    if (under.isHeld) wrong('is disrupted while it is held');
    if (under.endedForMs > aliveMs) wrong(`is disrupted ${under.endedForMs} ms after its permit has ended`);
    this.#heldFrom(wrong);
    this.lastBegunAtMs = this.#clock.nowMs;
    const item = this.items.get(uid);
    const down = [...this.items.values()].filter((one) => this.#counts(one)).length;
    if (item && this.isAvailable(item) && down >= this.fleet.maxUnavailable) wrong('is disrupted beyond the budget');
    this.#onTheirWay.add(uid);
  }

  #heldFrom(wrong: (what: string) => void): void {
    const holds = standing(this.orders, 'pause', 'abort').filter((key) => this.answeredHolds.has(key));
    if (holds.length > 0) wrong(`is disrupted after ${holds} was answered`);
  }

  /** Nobody can know of an item that has broken down just now. */
  #counts(item: Item): boolean {
    const isNew = this.#clock.nowMs - (this.#brokenAtMs.get(item.uid) ?? Number.NEGATIVE_INFINITY) < unknownMs;
    return this.#onTheirWay.has(item.uid) || (!this.isAvailable(item) && !isNew);
  }

  /** The write arrives. */
  disrupt(uid: string, revision: string): 'done' | 'refused' | 'gone' {
    this.#onTheirWay.delete(uid);
    const item = this.items.get(uid);
    if (item === undefined || this.isDeleted) return 'gone';
    if (this.refuses.items) return 'refused';
    this.#heldFrom((what) => this.wrongs.push(`${this.#clock.nowMs}: ${uid} ${what}`));
    if (item.revision === revision) this.wrongs.push(`${uid} is disrupted again`);
    this.disruptions += 1;
    this.#put(uid, { revision, availableAtMs: this.#clock.nowMs + this.fleet.readyAfterMs });
    return 'done';
  }

  #put(uid: string, change: Partial<Item>): void {
    const item = this.items.get(uid);
    if (item === undefined) return;
    const changed = { ...item, ...change };
    this.items.set(uid, changed);
    this.onChange();
    const ms = changed.availableAtMs - this.#clock.nowMs;
    if (ms > 0 && Number.isFinite(ms)) this.#clock.after(ms, () => this.onChange());
  }

  #alternate(everyMs: number): void {
    this.#clock.after(everyMs, () => {
      if (this.unavailable > 0) this.onChange();
      this.#alternate(everyMs);
    });
  }
}
