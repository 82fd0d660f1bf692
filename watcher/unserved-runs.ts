/**
 * Runs whose workflow tasks no worker takes. Temporal answers and keeps the tasks until somebody does, so their objects
 * would wait without a reason. Which workers are needed is known from each look of `engine-versions.ts`: a run needs one of the
 * version that it is pinned to, any other run one of the current version. Which of them are alive is known within seconds
 * where Temporal keeps heartbeats of workers (`heartbeats.ts`), and from their polls otherwise.
 */
import { type EngineTrouble, engineNoWorkers } from '../api/engine/engine-trouble.ts';
import { lockOf } from '../api/engine/operation-id.ts';
import type { Logger } from '../process/log.ts';
import { currentBuild, isPinned, mayChangeVersions, type Poller, type SeenVersions } from './engine-versions.ts';
import type { IsHeard } from './heartbeats.ts';

export interface UnservedRunsOptions {
  readonly temporalNamespace: string;
  /** How long no worker may poll before objects report it. */
  readonly patienceMs: number;
  /** Called when the troubles that objects have to report have changed. */
  readonly onChange: () => void;
  readonly log: Logger;
  /** A monotonic clock. Absent: that of this process. */
  readonly nowMs?: () => number;
}

/** A poll lasts a minute. Temporal lists workers that have ended for five more, so a poll that stays the last one is over. */
const pollEndsMs = 90_000;

/** After an operation was continued by a worker that was not heard, heartbeats count for nothing for this long. */
const distrustMs = 60_000;

/** The build of runs that are not pinned to another version than the current one. */
const wherever = '';

type SeenWorkers = Pick<SeenVersions, 'own' | 'manages' | 'deployment' | 'pollers' | 'runs'>;

export class UnservedRuns {
  readonly #options: UnservedRunsOptions;
  /** By build: its last poll by Temporal's clock, and since when that has been known by ours. */
  readonly #polls = new Map<string, { readonly atMs: number; readonly sinceMs: number }>();
  /** By lock: the build of runs that are pinned elsewhere. */
  #pinned: ReadonlyMap<string, string> = new Map();
  /** The builds without workers. */
  #unserved: ReadonlySet<string> = new Set();
  /** By lock: operations whose objects have reported it since somebody had no worker. */
  readonly #shown = new Set<string>();
  #wanted = '';
  #seen: SeenWorkers | undefined;
  #isHeard: IsHeard = () => undefined;
  #trustedFromMs = Number.NEGATIVE_INFINITY;

  constructor(options: UnservedRunsOptions) {
    this.#options = options;
  }

  /**
   * Why no worker continues the operation; undefined when one does, as far as is known. `shown` is the reason in `waitingFor`
   * of its object, or empty for none, where the operation itself writes that field: an operation that overwrites
   * `EngineNoWorkers` has a worker, whatever the last look has found.
   */
  trouble(workflowId: string, shown?: string): EngineTrouble | undefined {
    const lock = lockOf(workflowId);
    const build = this.#pinned.get(lock) ?? wherever;
    if (!this.#unserved.has(build)) return undefined;
    if (shown === 'EngineNoWorkers') this.#shown.add(lock);
    else if (shown !== undefined && this.#shown.has(lock)) {
      this.#polls.delete(build);
      this.#trustedFromMs = this.#nowMs() + distrustMs;
      this.#tell(new Set([...this.#unserved].filter((other) => other !== build)));
      return undefined;
    }
    const { temporalNamespace } = this.#options;
    return engineNoWorkers({ temporalNamespace, build: build === wherever ? this.#wanted : build });
  }

  /** Takes in what a look has found. */
  note(seen: SeenWorkers): void {
    const { own, deployment, runs } = seen;
    this.#seen = seen;
    const current = currentBuild(deployment);
    this.#wanted = current ?? own;
    const elsewhere = runs.filter((run) => isPinned(run) && run.build !== this.#wanted);
    this.#pinned = new Map(elsewhere.map(({ workflowId, build }) => [lockOf(workflowId), build]));
    this.#judge(seen);
  }

  /** Takes in which workers of queue `cluster` send heartbeats. */
  hear(isHeard: IsHeard): void {
    this.#isHeard = isHeard;
    if (this.#seen !== undefined) this.#judge(this.#seen);
  }

  /** A look has failed: who polls is not known, and the patience begins again. */
  unknown(): void {
    this.#polls.clear();
  }

  /** Forgets everything: another watcher may lead from now on. */
  reset(): void {
    this.#polls.clear();
    this.#seen = undefined;
    this.#isHeard = () => undefined;
    this.#trustedFromMs = Number.NEGATIVE_INFINITY;
    this.#pinned = new Map();
    this.#unserved = new Set();
    this.#shown.clear();
  }

  #judge(seen: SeenWorkers): void {
    const taking = (build: string) => (poller: Poller) =>
      build === wherever ? takesWherever(seen, poller) : poller.isVersioned && poller.build === build;
    const builds = new Set([wherever, ...this.#pinned.values()]);
    for (const build of this.#polls.keys()) if (!builds.has(build)) this.#polls.delete(build);
    const isTrusted = this.#nowMs() >= this.#trustedFromMs;
    const unserved = [...builds].filter((build) => {
      const isUnpolled = this.#isUnserved(build, seen.pollers.filter(taking(build)));
      const isHeard = isTrusted ? this.#isHeard(taking(build)) : undefined;
      return isHeard === undefined ? isUnpolled : !isHeard;
    });
    this.#tell(new Set(unserved));
  }

  #isUnserved(build: string, pollers: readonly Poller[]): boolean {
    const { patienceMs } = this.#options;
    const atMs = Math.max(Number.NEGATIVE_INFINITY, ...pollers.map((poller) => poller.atMs));
    const known = this.#polls.get(build);
    if (known === undefined || atMs > known.atMs) this.#polls.set(build, { atMs, sinceMs: this.#nowMs() });
    const { sinceMs } = this.#polls.get(build) ?? { sinceMs: this.#nowMs() };
    return this.#nowMs() - sinceMs >= (pollers.length === 0 ? patienceMs : Math.max(patienceMs, pollEndsMs));
  }

  #nowMs(): number {
    return this.#options.nowMs?.() ?? performance.now();
  }

  #tell(unserved: ReadonlySet<string>): void {
    const { log, onChange } = this.#options;
    const before = this.#unserved;
    this.#unserved = unserved;
    if (unserved.size === 0) this.#shown.clear();
    if (unserved.size === before.size && [...unserved].every((build) => before.has(build))) return;
    const builds = [...unserved].map((build) => (build === wherever ? this.#wanted : build));
    if (unserved.size > 0) log.warn({ builds }, 'No worker takes workflow tasks: operations do not continue');
    else log.info('Workers take workflow tasks again');
    onChange();
  }
}

/** Whether the worker takes runs that are not pinned elsewhere, or will as soon as its version is current. */
function takesWherever(seen: Pick<SeenVersions, 'own' | 'manages' | 'deployment'>, poller: Poller): boolean {
  const current = currentBuild(seen.deployment);
  if (current !== undefined) return poller.isVersioned && poller.build === current;
  const isNext = poller.build === seen.own && mayChangeVersions(seen);
  return !poller.isVersioned || isNext;
}
