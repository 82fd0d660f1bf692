/**
 * Runs whose workflow task fails or times out again and again: their history does not replay on the workers that are
 * there, a payload is refused, a bug. Temporal keeps trying for ever and calls them Running, so nobody starts them again,
 * and no command and no deadline reaches them.
 *
 * The leading watcher asks Temporal for them once a full pass. It reports each on the object of its operation
 * (`EngineStuck`), counts them, and begins an operation anew once its run has been stuck for some minutes: that is safe,
 * since all progress is in the cluster. It does so once for each build of the workflow code. The memo of the new run says
 * so, for whoever leads by then: a run that gets stuck again needs a person, or other workers.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { type EngineTrouble, engineStuck, isEngineReason } from '../api/engine/engine-trouble.ts';
import type { Logger } from '../workers/log.ts';
import type { Metrics } from '../workers/metrics.ts';
import type { Starter } from './starter.ts';

/** A run whose workflow task fails again and again. */
export interface StuckRun {
  readonly workflowId: string;
  readonly runId: string;
  readonly workflowType: string;
  /** What Temporal says of its workflow task, as `cause=WorkflowTaskFailedCauseNonDeterministicError`. */
  readonly problems: readonly string[];
  /** The build for which it was begun anew, from its memo. Absent: it was not. */
  readonly begunAnew?: string;
}

/** A run that this leader has found stuck in each look since then. */
export interface KnownStuckRun extends StuckRun {
  readonly sinceMs: number;
  /** The object of the operation says so. */
  readonly isShown: boolean;
}

/** What is done about a stuck run: `leave` needs a person, or other workers. */
export function stuckRunStep(
  { sinceMs, begunAnew }: Pick<KnownStuckRun, 'sinceMs' | 'begunAnew'>,
  { build, nowMs, patienceMs }: { readonly build: string; readonly nowMs: number; readonly patienceMs: number },
): 'wait' | 'beginAnew' | 'leave' {
  if (begunAnew === build) return 'leave';
  return nowMs - sinceMs < patienceMs ? 'wait' : 'beginAnew';
}

/** What is known after a look that has found these: a run that it has not found goes on, or has ended. */
export function knownAfter(
  before: ReadonlyMap<string, KnownStuckRun>,
  found: readonly StuckRun[],
  nowMs: number,
): ReadonlyMap<string, KnownStuckRun> {
  return new Map(
    found.map((run) => {
      const known = before.get(run.workflowId);
      const isSame = known?.runId === run.runId;
      const { sinceMs, isShown } = isSame ? known : { sinceMs: nowMs, isShown: false };
      return [run.workflowId, { ...run, sinceMs, isShown }];
    }),
  );
}

export interface StuckRunsOptions {
  readonly client: Pick<Client, 'workflow'>;
  readonly temporalNamespace: string;
  /** The build ID of the workflow code of this release. */
  readonly build: string;
  /** Nothing is begun anew while this is false. */
  readonly mayAct: () => boolean;
  readonly beginAnew: Starter['beginAnew'];
  /** What objects have to report has changed. */
  readonly onChange: () => void;
  readonly log: Logger;
  readonly gauge: Metrics['stuckOperations'];
  /** For how long a run is seen stuck before it is begun anew. */
  readonly patienceMs: number;
  /** A clock that only grows. Absent: that of this process. */
  readonly nowMs?: () => number;
  /** Absent: a timer. */
  readonly pause?: (ms: number) => Promise<unknown>;
  /** The most that one look takes. Absent: 1000. */
  readonly mostRuns?: number;
}

/** The most that one look takes: thousands of objects that all say the same would help nobody. */
const mostRuns = 1_000;

/** Between two operations that are begun anew: 20 a second, so that a whole cluster of them burdens nobody. */
const restMs = 50;

/** The runs that are stuck, as the leading watcher knows them. */
export class StuckRuns {
  readonly #options: StuckRunsOptions;
  /** By workflow ID. */
  readonly #known = new Map<string, KnownStuckRun>();
  #workflowTypes: readonly string[] = [];
  /** Temporal does not know the search attribute. */
  #isUnknown = false;
  #isTruncated = false;

  constructor(options: StuckRunsOptions) {
    this.#options = options;
  }

  /**
   * Why the operation does not go on; undefined when it does, as far as is known. `shown` is the reason in `waitingFor` of
   * its object, or nothing for none, where the operation itself writes that: one that writes over `EngineStuck` goes on,
   * whatever the last look has found.
   */
  trouble(workflowId: string, shown?: string): EngineTrouble | undefined {
    const run = this.#known.get(workflowId);
    if (run === undefined) return undefined;
    const isShown = isEngineReason(shown);
    if (isShown) this.#known.set(workflowId, { ...run, isShown });
    else if (run.isShown && shown !== undefined) {
      this.#goesOn(run);
      this.#count();
      return undefined;
    }
    const { build, temporalNamespace } = this.#options;
    return engineStuck({ workflowId, temporalNamespace, wasBegunAnew: run.begunAnew === build });
  }

  /** Looks which operations of these types are stuck, and begins those anew whose time has come. */
  async pass(workflowTypes: readonly string[]): Promise<void> {
    const { mayAct, onChange } = this.#options;
    if (this.#isUnknown || workflowTypes.length === 0) return;
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
    this.#isUnknown = false;
    this.#isTruncated = false;
    this.#options.gauge.reset();
  }

  #nowMs(): number {
    return this.#options.nowMs?.() ?? performance.now();
  }

  /** What Temporal says; undefined where it cannot say. */
  async #find(): Promise<readonly StuckRun[] | undefined> {
    const { log } = this.#options;
    try {
      return await this.#list();
    } catch (error) {
      this.#isUnknown = isInvalidArgument(error);
      const text = this.#isUnknown
        ? 'Temporal does not know the search attribute TemporalReportedProblems: stuck operations are not reported'
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

  /** Takes these for what is stuck now, and logs what is new. Answers whether anything is. */
  #know(found: readonly StuckRun[]): boolean {
    const { log, build } = this.#options;
    const before = new Map(this.#known);
    this.#known.clear();
    for (const [workflowId, run] of knownAfter(before, found, this.#nowMs())) this.#known.set(workflowId, run);
    const isSame = (run: StuckRun, other: StuckRun | undefined) => other?.runId === run.runId;
    const stuck = [...this.#known.values()].filter((run) => !isSame(run, before.get(run.workflowId)));
    const freed = [...before.values()].filter((run) => !isSame(run, this.#known.get(run.workflowId)));
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
    if (this.#known.get(workflowId)?.runId === runId) this.#known.delete(workflowId);
    this.#options.log.info({ operationId: workflowId, runId }, 'The workflow task no longer fails');
  }

  /** Begins those anew that have been stuck for long enough. */
  async #beginAnew(): Promise<void> {
    const { build, beginAnew, log, patienceMs, mayAct, onChange, pause = delay } = this.#options;
    const nowMs = this.#nowMs();
    const due = [...this.#known.values()].filter(
      (run) => stuckRunStep(run, { build, nowMs, patienceMs }) === 'beginAnew',
    );
    for (const { workflowId, runId, problems } of due) {
      if (!mayAct()) return;
      if (this.#known.get(workflowId)?.runId !== runId) continue;
      log.warn({ operationId: workflowId, runId, problems }, 'A stuck operation is terminated and started again');
      const seconds = Math.round(patienceMs / 1000);
      const reason = `Stuck for ${seconds} s: ${problems.join(', ')}; it is started again, once for build ${build}`;
      beginAnew({ workflowId, runId, reason });
      this.#known.delete(workflowId);
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

/** Temporal sets the attribute after five failed workflow tasks in a row, and takes it off with the first that succeeds. */
export function stuckRunsQuery(workflowTypes: readonly string[]): string {
  const problems = ['WorkflowTaskFailed', 'WorkflowTaskTimedOut'].map((category) => `'category=${category}'`);
  const types = workflowTypes.map((type) => `'${type}'`);
  return (
    `TemporalReportedProblems IN (${problems.join(', ')}) AND ExecutionStatus = 'Running' ` +
    `AND WorkflowType IN (${types.join(', ')})`
  );
}

/** The code of gRPC by which Temporal refuses a query for an attribute that it does not know. */
const invalidArgument = 3;

function isInvalidArgument(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && cause.code === invalidArgument) return true;
  }
  return false;
}
