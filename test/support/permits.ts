import type { Permit } from '../../plan/fleet/permit.ts';

/** A permit that names every pod there may be, for this revision. */
export function permitForAll(revision: string, { chooses = false }: Partial<Pick<Permit, 'chooses'>> = {}): Permit {
  return { pods: new EveryPod(revision), chooses };
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
