import { setTimeout as pause } from 'node:timers/promises';
import { operationTypes } from '../../api/operations.ts';
import { workerVersions } from '../../workers/worker-versions.ts';
import type { Report } from '../chaos/campaign.ts';
import { patienceMs, type World } from '../chaos/world.ts';

/** When nothing has moved for so long, what is left waits for what holds it. */
const quietMs = 6_000;
const betweenLooksMs = 250;

interface Look {
  readonly atMs: number;
  /** By workflow type, of the runs that are pinned to another build. */
  readonly left: readonly string[];
}

/** Follows how the runs that are pinned to other builds move to this one, until none is left or it is ended. */
export class Drain {
  readonly #looks: Look[] = [];
  readonly #ended = new AbortController();
  readonly #done: Promise<void>;

  private constructor(look: () => Promise<Look>, first: Look) {
    this.#looks.push(first);
    this.#done = this.#follow(look);
  }

  static async begin({ temporal }: Pick<World, 'temporal'>, build: string): Promise<Drain> {
    const versions = workerVersions(temporal);
    const look = async (): Promise<Look> => {
      const runs = await versions.runsPinnedElsewhere(build, operationTypes);
      return { atMs: Date.now(), left: runs.map(({ workflowType }) => workflowType) };
    };
    return new Drain(look, await look());
  }

  async #follow(look: () => Promise<Look>): Promise<void> {
    while (!this.#ended.signal.aborted && this.#last().left.length > 0) {
      await pause(betweenLooksMs);
      // a visibility store that is late or away says the same a moment later
      const seen = await look().catch(() => undefined);
      if (seen) this.#looks.push(seen);
    }
  }

  #last(): Look {
    return this.#looks.at(-1) as Look;
  }

  /** When the last run has moved, so far. */
  #movedAtMs(): number {
    const { left } = this.#last();
    return this.#looks.find((look) => look.left.length === left.length)?.atMs ?? 0;
  }

  /** Waits until no run moves any more, and tells how long that took since the build has been current. */
  async untilHeld(report: Report, currentSinceMs: number): Promise<void> {
    const isQuiet = (): boolean => Date.now() - Math.max(this.#movedAtMs(), currentSinceMs) > quietMs;
    while (this.#last().left.length > 0 && !isQuiet()) await pause(betweenLooksMs);
    const { left } = this.#last();
    const all = this.#looks[0]?.left.length ?? 0;
    const seconds = inSeconds(Math.max(0, this.#movedAtMs() - currentSinceMs));
    const held = left.length > 0 ? `; left: ${counted(left)}` : '';
    report.figure(`${all - left.length} of ${all} runs moved in ${seconds} while all was held${held}`);
  }

  /** Waits until no run is left, and tells how long that took. */
  async untilDone(report: Report): Promise<void> {
    const startedAtMs = Date.now();
    const timer = setTimeout(() => this.#ended.abort(), patienceMs);
    await this.#done.finally(() => clearTimeout(timer));
    const { left, atMs } = this.#last();
    if (left.length > 0) report.violation(`not drained: ${counted(left)}`);
    else report.figure(`no run was left ${inSeconds(Math.max(0, atMs - startedAtMs))} after nothing was held any more`);
  }
}

function counted(names: readonly string[]): string {
  return [...Map.groupBy(names, (name) => name)].map(([name, { length }]) => `${length} ${name}`).join(', ');
}

function inSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
