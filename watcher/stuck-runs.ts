/**
 * Runs whose workflow task fails or times out repeatedly: their history does not replay on the present workers, a
 * payload is rejected, or there is a bug. Temporal retries for ever and reports them as Running, so nobody starts them
 * again, and they process no command and no deadline.
 *
 * The leading watcher asks Temporal for them in each full pass. It reports each one on the object of its operation
 * (`EngineStuck`), counts them, and restarts an operation once its run has been stuck for some minutes. That is safe,
 * since all progress is in the cluster. It does so once for each build of the workflow code, which the memo of the new
 * run records for later leaders: a run that is stuck again needs a person, or other workers.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { type EngineTrouble, engineStuck, isEngineReason } from '../api/engine/engine-trouble.ts';
import { lockOf } from '../api/engine/operation-id.ts';
import type { Logger } from '../process/log.ts';
import type { Metrics } from '../process/metrics.ts';
import type { Starter } from './starter.ts';

/** A run whose workflow task fails repeatedly. */
export interface StuckRun {
  readonly workflowId: string;
  readonly runId: string;
  readonly workflowType: string;
  /**
   * Temporal's problem reports about its workflow task, such as `cause=WorkflowTaskFailedCauseNonDeterministicError`.
   */
  readonly problems: readonly string[];
  /** The build for which it was restarted, from its memo. Absent: it was not. */
  readonly begunAnew?: string;
}

/** A run that this leader has found stuck in each look since `sinceMs`. */
export interface KnownStuckRun extends StuckRun {
  readonly sinceMs: number;
  /** The object of the operation reports it. */
  readonly isShown: boolean;
}

/** What to do about a stuck run: `leave` needs a person, or other workers. */
export function stuckRunStep(
  { sinceMs, begunAnew }: Pick<KnownStuckRun, 'sinceMs' | 'begunAnew'>,
  { build, nowMs, patienceMs }: { readonly build: string; readonly nowMs: number; readonly patienceMs: number },
): 'wait' | 'beginAnew' | 'leave' {
  if (begunAnew === build) return 'leave';
  return nowMs - sinceMs < patienceMs ? 'wait' : 'beginAnew';
}

/** The known runs by lock after a look that has found these: a run that was not found continues, or has ended. */
export function knownAfter(
  before: ReadonlyMap<string, KnownStuckRun>,
  found: readonly StuckRun[],
  nowMs: number,
): ReadonlyMap<string, KnownStuckRun> {
  return new Map(
    found.map((run) => {
      const lock = lockOf(run.workflowId);
      const known = before.get(lock);
      const isSame = known?.runId === run.runId;
      const { sinceMs, isShown } = isSame ? known : { sinceMs: nowMs, isShown: false };
      return [lock, { ...run, sinceMs, isShown }];
    }),
  );
}

export interface StuckRunsOptions {
  readonly client: Pick<Client, 'workflow'>;
  readonly temporalNamespace: string;
  /** The build ID of the workflow code of this release. */
  readonly build: string;
  /** Nothing is restarted while this is false. */
  readonly mayAct: () => boolean;
  readonly beginAnew: Starter['beginAnew'];
  /** Called when the troubles that objects have to report have changed. */
  readonly onChange: () => void;
  readonly log: Logger;
  readonly gauge: Metrics['stuckOperations'];
  /** How long a run must be stuck before it is restarted. */
  readonly patienceMs: number;
  /** A monotonic clock. Absent: that of this process. */
  readonly nowMs?: () => number;
  /** Absent: a timer. */
  readonly pause?: (ms: number) => Promise<unknown>;
  /** The maximum number of runs in one look. Absent: 1000. */
  readonly mostRuns?: number;
}

/** The maximum number of runs in one look: reporting the same on thousands of objects helps nobody. */
const mostRuns = 1_000;

/**
 * The pause after a rejected query: a server that does not know the search attribute rejects it always, others do so
 * while their visibility store is being changed.
 */
const rejectedMs = 3_600_000;

/** The pause between two restarts: 20 a second, so that restarting all operations of a cluster causes little load. */
const restMs = 50;

/** The runs that are stuck, as the leading watcher knows them. */
export class StuckRuns {
  readonly #options: StuckRunsOptions;
  /** By the lock that they hold. */
  readonly #known = new Map<string, KnownStuckRun>();
  #workflowTypes: readonly string[] = [];
  /** Temporal has rejected the query: until then it is not asked again. */
  #rejectedUntilMs = Number.NEGATIVE_INFINITY;
  #isTruncated = false;

  constructor(options: StuckRunsOptions) {
    this.#options = options;
  }

  /**
   * Why the operation does not continue; undefined when it does, as far as is known. `shown` is the reason in
   * `waitingFor` of its object, or empty for none, where the operation itself writes that field: an operation that
   * overwrites `EngineStuck` continues, whatever the last look has found.
   */
  trouble(workflowId: string, shown?: string): EngineTrouble | undefined {
    const lock = lockOf(workflowId);
    const run = this.#known.get(lock);
    if (run === undefined) return undefined;
    const isShown = isEngineReason(shown);
    if (isShown) this.#known.set(lock, { ...run, isShown });
    else if (run.isShown && shown !== undefined) {
      this.#goesOn(run);
      this.#count();
      return undefined;
    }
    const { build, temporalNamespace } = this.#options;
    return engineStuck({ workflowId: run.workflowId, temporalNamespace, wasBegunAnew: run.begunAnew === build });
  }

  /** Finds the stuck operations of these types, and restarts those that have been stuck for long enough. */
  async pass(workflowTypes: readonly string[]): Promise<void> {
    const { mayAct, onChange } = this.#options;
    if (this.#nowMs() < this.#rejectedUntilMs || workflowTypes.length === 0) return;
    this.#workflowTypes = workflowTypes;
    const found = await this.#find();
    if (found === undefined || !mayAct()) return;
    const hasChanged = this.#know(found);
    this.#count();
    if (hasChanged) onChange();
    await this.#beginAnew();
  }

  /** Forgets everything: another watcher may lead from now on. */
  reset(): void {
    this.#known.clear();
    this.#rejectedUntilMs = Number.NEGATIVE_INFINITY;
    this.#isTruncated = false;
    this.#options.gauge.reset();
  }

  #nowMs(): number {
    return this.#options.nowMs?.() ?? performance.now();
  }

  /** The stuck runs according to Temporal; undefined when it cannot be asked. */
  async #find(): Promise<readonly StuckRun[] | undefined> {
    const { log } = this.#options;
    try {
      return await this.#list();
    } catch (error) {
      const isRejected = isInvalidArgument(error);
      if (isRejected) this.#rejectedUntilMs = this.#nowMs() + rejectedMs;
      const text = isRejected
        ? 'Temporal rejects the query by TemporalReportedProblems: for an hour stuck operations are not reported'
        : 'Cannot ask Temporal which operations are stuck';
      log.warn({ err: error }, text);
      return undefined;
    }
  }

  async #list(): Promise<readonly StuckRun[]> {
    const { client, log, mostRuns: most = mostRuns } = this.#options;
    const found: StuckRun[] = [];
    const query = stuckRunsQuery(this.#workflowTypes);
    for await (const { workflowId, runId, type, memo, searchAttributes } of client.workflow.list({
      query,
      pageSize: most,
    })) {
      if (found.length === most) {
        if (!this.#isTruncated) log.warn({ query }, `More than ${most} operations are stuck: only ${most} are handled`);
        this.#isTruncated = true;
        return found;
      }
      const begunAnew = memo?.begunAnew;
      found.push({
        ...{ workflowId, runId, workflowType: type },
        problems: searchAttributes.TemporalReportedProblems?.map(String) ?? [],
        ...(typeof begunAnew === 'string' && { begunAnew }),
      });
    }
    this.#isTruncated = false;
    return found;
  }

  /** Replaces the known stuck runs, and logs new ones. Returns whether there are new ones. */
  #know(found: readonly StuckRun[]): boolean {
    const { log, build } = this.#options;
    const before = new Map(this.#known);
    this.#known.clear();
    for (const [lock, run] of knownAfter(before, found, this.#nowMs())) this.#known.set(lock, run);
    const isSame = (run: StuckRun, other: StuckRun | undefined) => other?.runId === run.runId;
    const stuck = [...this.#known.values()].filter((run) => !isSame(run, before.get(lockOf(run.workflowId))));
    const freed = [...before.values()].filter((run) => !isSame(run, this.#known.get(lockOf(run.workflowId))));
    for (const { workflowId, runId, workflowType, problems, begunAnew } of stuck) {
      const fields = { operationId: workflowId, runId, workflowType, problems };
      if (begunAnew === build)
        log.error(fields, 'A workflow task keeps failing, also after its operation was started again');
      else log.warn(fields, 'A workflow task keeps failing');
    }
    for (const run of freed) this.#goesOn(run);
    return stuck.length + freed.length > 0;
  }

  /** The workflow task has succeeded, or the run has ended. */
  #goesOn({ workflowId, runId }: StuckRun): void {
    const lock = lockOf(workflowId);
    if (this.#known.get(lock)?.runId === runId) this.#known.delete(lock);
    this.#options.log.info({ operationId: workflowId, runId }, 'The workflow task no longer fails');
  }

  /** Restarts the operations that have been stuck for long enough. */
  async #beginAnew(): Promise<void> {
    const { build, beginAnew, log, patienceMs, mayAct, onChange, pause = delay } = this.#options;
    const nowMs = this.#nowMs();
    const due = [...this.#known.values()].filter(
      (run) => stuckRunStep(run, { build, nowMs, patienceMs }) === 'beginAnew',
    );
    for (const { workflowId, runId, problems } of due) {
      if (!mayAct()) return;
      const lock = lockOf(workflowId);
      if (this.#known.get(lock)?.runId !== runId) continue;
      log.warn({ operationId: workflowId, runId, problems }, 'A stuck operation is terminated and started again');
      const seconds = Math.round(patienceMs / 1000);
      const reason = `Stuck for ${seconds} s: ${problems.join(', ')}; it is started again, once for build ${build}`;
      beginAnew({ workflowId, runId, reason });
      this.#known.delete(lock);
      await pause(restMs);
    }
    if (due.length === 0) return;
    this.#count();
    onChange();
  }

  #count(): void {
    const runs = [...this.#known.values()];
    for (const type of this.#workflowTypes) {
      const count = runs.filter(({ workflowType }) => workflowType === type).length;
      this.#options.gauge.set({ workflow_type: type }, count);
    }
  }
}

/**
 * Temporal sets the attribute after five failed workflow tasks in a row, and removes it after the first that succeeds.
 */
export function stuckRunsQuery(workflowTypes: readonly string[]): string {
  const problems = ['WorkflowTaskFailed', 'WorkflowTaskTimedOut'].map((category) => `'category=${category}'`);
  const types = workflowTypes.map((type) => `'${type}'`);
  return (
    `TemporalReportedProblems IN (${problems.join(', ')}) AND ExecutionStatus = 'Running' ` +
    `AND WorkflowType IN (${types.join(', ')})`
  );
}

/** The gRPC status code of a query for an unknown search attribute. */
const invalidArgument = 3;

function isInvalidArgument(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && cause.code === invalidArgument) return true;
  }
  return false;
}
