/**
 * A queue of things that each belong to a share, for example a namespace. They are taken round robin: one of each
 * waiting share, then the next of each; within a share in order of arrival. So a thousand things of one share delay the
 * first of another by one turn.
 */
export class FairLine<T> {
  /** Insertion order is the order of turns; no share is empty. */
  readonly #shares = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(share: string, thing: T): void {
    const things = this.#shares.get(share) ?? new Set();
    this.#shares.set(share, things);
    if (things.has(thing)) return;
    things.add(thing);
    this.#size += 1;
  }

  delete(share: string, thing: T): void {
    const things = this.#shares.get(share);
    if (!things?.delete(thing)) return;
    this.#size -= 1;
    if (things.size === 0) this.#shares.delete(share);
  }

  /**
   * Takes the first thing that `mayGo` accepts, of the first share in turn that it accepts; undefined when there is
   * none.
   */
  take(mayGo: { readonly share: (share: string) => boolean; readonly thing?: (thing: T) => boolean }): T | undefined {
    for (const [share, things] of this.#shares) {
      if (!mayGo.share(share)) continue;
      for (const thing of things) {
        if (mayGo.thing && !mayGo.thing(thing)) continue;
        this.delete(share, thing);
        // the share moves to the end of the queue
        if (this.#shares.delete(share) && things.size > 0) this.#shares.set(share, things);
        return thing;
      }
    }
    return undefined;
  }

  /** Removes and returns everything that waits, in no particular order. */
  clear(): readonly T[] {
    const all = [...this.#shares.values()].flatMap((things) => [...things]);
    this.#shares.clear();
    this.#size = 0;
    return all;
  }
}

/**
 * How many of the given places one share may use. An eighth of them is left to others, because a share may hold its
 * places as long as the slowest webhook of its namespace takes.
 */
export function mostOfOneShare(places: number): number {
  return places - Math.floor(places / 8);
}
