import { setTimeout as pause } from 'node:timers/promises';
import { lockOf } from '../../api/engine/operation-id.ts';
import { operationTypes } from '../../api/operations.ts';
import type { Report } from '../chaos/campaign.ts';
import type { World } from '../chaos/world.ts';

const betweenLooksMs = 250;

/** Looks all the time whether two runs with the same lock are open: one of the release before, and one of this one. */
export class LockWatch {
  readonly #found = new Set<string>();
  readonly #ended = new AbortController();
  readonly #done: Promise<void>;
  #forms: ReadonlySet<number> = new Set();

  private constructor(world: Pick<World, 'temporal'>) {
    this.#done = this.#follow(world);
  }

  static begin(world: Pick<World, 'temporal'>): LockWatch {
    return new LockWatch(world);
  }

  async #follow({ temporal }: Pick<World, 'temporal'>): Promise<void> {
    const isOpen = async (id: string) => (await temporal.workflow.getHandle(id).describe()).status.name === 'RUNNING';
    const look = async () => {
      const types = operationTypes.map((type) => `'${type}'`).join(', ');
      const query = `WorkflowType IN (${types}) AND ExecutionStatus = 'Running'`;
      const ids = new Set<string>();
      for await (const { workflowId } of temporal.workflow.list({ query })) ids.add(workflowId);
      this.#forms = new Set([...this.#forms, ...[...ids].map((id) => id.split('/').length)]);
      for (const [lock, runs] of Map.groupBy(ids, lockOf)) {
        if (runs.length < 2) continue;
        // the list may lag behind: each is asked for, the first one once more after the others
        const open = await Promise.all(runs.map(isOpen));
        if (open.every(Boolean) && (await isOpen(runs[0] ?? ''))) this.#found.add(`${lock}: ${runs.join(', ')}`);
      }
    };
    while (!this.#ended.signal.aborted) {
      await look().catch(() => undefined); // Temporal may be away for a moment
      await pause(betweenLooksMs);
    }
  }

  /** Ends the looks, and reports what they have found. */
  async end(report: Report): Promise<void> {
    this.#ended.abort();
    await this.#done;
    for (const found of this.#found) report.violation(`two open runs with one lock: ${found}`);
    const forms = [...this.#forms]
      .toSorted((left, right) => left - right)
      .map((parts) => (parts === 2 ? 'of the earlier form' : `of ${parts} parts`));
    report.figure(`workflow IDs ${forms.join(' and ')} have held locks`);
  }
}
