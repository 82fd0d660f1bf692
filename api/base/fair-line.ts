/**
 * Things that wait, each on behalf of a share, a namespace for example. They are taken round robin: one of each share that
 * waits, then the next of each; within a share in the order in which they came. So a thousand things of one share delay the
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

  /** Takes the first that may go, of the first share in turn that may go; undefined when there is none. */
  take(mayGo: { readonly share: (share: string) => boolean; readonly thing?: (thing: T) => boolean }): T | undefined {
    for (const [share, things] of this.#shares) {
      if (!mayGo.share(share)) continue;
      for (const thing of things) {
        if (mayGo.thing && !mayGo.thing(thing)) continue;
        this.delete(share, thing);
        // its next turn comes after everybody else's
        if (this.#shares.delete(share) && things.size > 0) this.#shares.set(share, things);
        return thing;
      }
    }
    return undefined;
  }

  /** Takes all that wait, in no order. */
  clear(): readonly T[] {
    const all = [...this.#shares.values()].flatMap((things) => [...things]);
    this.#shares.clear();
    this.#size = 0;
    return all;
  }
}

/**
 * How many of so many places one share may hold at once. An eighth of them stays for others, because what a share holds may take
 * as long as the slowest webhook of its namespace.
 */
export function mostOfOneShare(places: number): number {
  return places - Math.floor(places / 8);
}
