import type { Permit } from '../../plan/fleet/permit.ts';

/** A permit that names every pod there may be. */
export function permitForAll(revision: string, change: Partial<Permit> = {}): Permit {
  const pods = new EveryPod(change.revision ?? revision);
  return { revision, paused: false, pods, chooses: false, ...change };
}

class EveryPod extends Map<string, string> {
  readonly #revision: string;

  constructor(revision: string) {
    super();
    this.#revision = revision;
  }

  override has(): boolean {
    return true;
  }

  override get(): string {
    return this.#revision;
  }
}
