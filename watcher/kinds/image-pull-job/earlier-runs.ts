/**
 * Operations of release 0.1.0, on workers of that release. They receive commands only, and name no nodes. Such a run is
 * handed over as soon as the workers of this release are current; until then the watcher tells nodes by itself, as that
 * release did.
 */
import { pullOnNodesId } from '../../../api/image-pull-job/operation.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import { type NodeStanding, nodesToTell } from '../../../plan/images/image-pull-job.ts';
import type { Starter } from '../../starter.ts';

export interface EarlierRunTimes {
  /** An operation of this release asks long before. */
  readonly patienceMs: number;
  /** How often a run is looked at that does not ask. */
  readonly againMs: number;
}

const earlierRunTimes: EarlierRunTimes = { patienceMs: 10_000, againMs: 30_000 };

/** A run with fewer events has done nothing yet: no worker has taken it up, or its first workflow task fails. */
const leastEvents = 6;

interface Silent {
  readonly sinceMs: number;
  lookedAtMs?: number;
  isEarlier?: boolean;
}

export class EarlierRuns {
  readonly #starter: Pick<Starter, 'runOf' | 'isSent' | 'trouble'>;
  readonly #wake: (uid: string) => void;
  readonly #times: EarlierRunTimes;
  readonly #silent = new Map<string, Silent>();

  constructor(
    starter: Pick<Starter, 'runOf' | 'isSent' | 'trouble'>,
    wake: (uid: string) => void,
    times: EarlierRunTimes = earlierRunTimes,
  ) {
    this.#starter = starter;
    this.#wake = wake;
    this.#times = times;
  }

  /**
   * Whether nodes may be told without being named. `isAttended`: the operation has asked which nodes go next, so it is of
   * this release.
   */
  judge(
    job: ImagePullJob,
    { nodes, isAttended }: { readonly nodes: readonly NodeStanding[]; readonly isAttended: boolean },
  ): { readonly isGranted: boolean; readonly againInMs?: number } {
    const { uid } = job.metadata;
    const workflowId = pullOnNodesId(uid);
    if (isAttended || !this.#starter.isSent(workflowId)) {
      this.#silent.delete(uid);
      return { isGranted: false };
    }
    const silent = this.#silent.get(uid) ?? { sinceMs: performance.now() };
    this.#silent.set(uid, silent);
    if (silent.isEarlier) return { isGranted: true };
    if (nodesToTell(job, nodes).length === 0 || this.#starter.trouble(workflowId)) return { isGranted: false };

    const { sinceMs, lookedAtMs } = silent;
    const { patienceMs, againMs } = this.#times;
    const dueMs = lookedAtMs === undefined ? sinceMs + patienceMs : lookedAtMs + againMs;
    const leftMs = dueMs - performance.now();
    if (leftMs > 0) return { isGranted: false, againInMs: leftMs };
    silent.lookedAtMs = performance.now();
    void this.#look(uid, workflowId, silent);
    return { isGranted: false, againInMs: againMs };
  }

  forget(uid: string): void {
    this.#silent.delete(uid);
  }

  async #look(uid: string, workflowId: string, silent: Silent): Promise<void> {
    const run = await this.#starter.runOf(workflowId).catch(() => undefined);
    // operations of this release show their phase from the first workflow task on
    if (run === undefined || run.phase !== undefined || run.events < leastEvents) return;
    silent.isEarlier = true;
    this.#wake(uid);
  }
}
