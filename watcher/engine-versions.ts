/**
 * Moves operations to the workers of this release. Workers of queue `cluster` are versions of one worker deployment,
 * each named by the build ID of its workflow code, and a run stays on the version that started it until it continues as
 * new. The leading watcher makes the version of its own release current, signals runs that are pinned to another one so
 * that they continue as new, and restarts those for which no worker is left. A rollback is the same, done by an older
 * watcher.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../process/log.ts';
import type { Metrics } from '../process/metrics.ts';

/** The worker deployment in Temporal. */
export type Deployment =
  /** The server does not support versioning, or does not permit it. */
  | { readonly kind: 'unsupported'; readonly why: string }
  /** No versioned worker has ever polled. */
  | { readonly kind: 'none' }
  | FoundDeployment;

export interface FoundDeployment {
  readonly kind: 'found';
  /** The current version by its build ID, and since when; absent: new runs go to unversioned workers. */
  readonly current?: { readonly build: string; readonly sinceMs: number };
  /** The only identity that may change it, if there is one. */
  readonly managedBy?: string;
  /** Identifies this state: a change that was decided on another one is rejected. */
  readonly conflictToken: Uint8Array;
  /** The builds that Temporal reports as drained, or that were never current. */
  readonly idle: readonly string[];
}

/** A worker that polls for workflow tasks of queue `cluster`. */
export interface Poller {
  /** Empty: unknown. */
  readonly build: string;
  readonly isVersioned: boolean;
  /** When its last poll began, by Temporal's clock. */
  readonly atMs: number;
}

/** An open run of an operation. */
export interface EngineRun {
  readonly workflowId: string;
  readonly runId: string;
  readonly workflowType: string;
  readonly startedAtMs: number;
  /**
   * Its versioning behavior in Temporal: `Pinned`, `AutoUpgrade`, or empty while no versioned worker has completed a
   * task of it.
   */
  readonly behavior: string;
  /**
   * The build of the version that it is pinned to, otherwise that of the watcher that started it. Empty: an early
   * release.
   */
  readonly build: string;
}

/** The versions of the cluster worker in Temporal. */
export interface WorkerVersions {
  describe(): Promise<Deployment>;
  /** Who has polled recently: versioned workers of these builds, and unversioned ones. */
  pollers(builds: readonly string[]): Promise<readonly Poller[]>;
  /** All open runs of these types. */
  runs(types: readonly string[]): Promise<readonly EngineRun[]>;
  /** Runs of these types that are pinned to another version than that of this build. */
  runsPinnedElsewhere(build: string, types: readonly string[]): Promise<readonly EngineRun[]>;
  setCurrent(build: string, conflictToken: Uint8Array): Promise<void>;
  remove(build: string): Promise<void>;
  /** Asks a run to continue as new on the current version. A completed run is not an error. */
  wake(run: EngineRun): Promise<void>;
  /** Terminates a run. A completed run is not an error. */
  terminate(run: EngineRun, reason: string): Promise<void>;
}

/** The inputs of a decision. */
export interface SeenVersions {
  /** The build ID of this watcher's own release. */
  readonly own: string;
  /** Whether this watcher may change versions (`--manage-worker-deployment`). */
  readonly manages: boolean;
  readonly deployment: Deployment;
  readonly pollers: readonly Poller[];
  /** For how many looks in a row, including this one, a build had no versioned worker; absent: it has some. */
  readonly silentLooks: ReadonlyMap<string, number>;
  readonly runs: readonly EngineRun[];
}

/** The next steps. */
export interface VersionSteps {
  /** Runs that are not on the current version. */
  readonly left: RunsLeft;
  readonly setCurrent: boolean;
  readonly wake: readonly EngineRun[];
  readonly terminate: readonly { readonly run: EngineRun; readonly reason: string }[];
  /** Builds whose versions are no longer needed. */
  readonly remove: readonly string[];
  /** Why this watcher cannot do more. */
  readonly waitsFor?: string;
}

export interface RunsLeft {
  /** Pinned to a version that is not current, and that has workers. */
  readonly draining: readonly EngineRun[];
  /** Pinned to a version without workers. */
  readonly orphaned: readonly EngineRun[];
  /** Not pinned to a version, and started by another build. */
  readonly unversioned: readonly EngineRun[];
}

/**
 * After this many looks in a row that found no worker of a version, its runs are terminated: the server's data about
 * pollers may be some seconds old, and a restarting worker is back within this time.
 */
const looksUntilGone = 4;

/** Decides on the next steps. Only the leader may carry them out. */
export function nextVersionSteps(seen: SeenVersions): VersionSteps {
  const left = runsLeft(seen);
  const nothing: VersionSteps = { left, setCurrent: false, wake: [], terminate: [], remove: [] };
  const { own, deployment, silentLooks } = seen;
  if (deployment.kind === 'unsupported') return { ...nothing, ...stepsWithoutVersions(seen, left) };

  const isPolled = seen.pollers.some(({ build, isVersioned }) => isVersioned && build === own);
  const mayChange = mayChangeVersions(seen);
  if (currentBuild(deployment) !== own) {
    if (mayChange && isPolled) return { ...nothing, setCurrent: true };
    return { ...nothing, wake: left.draining, waitsFor: whyNotCurrent(seen, isPolled) };
  }
  if (!isPolled) return { ...nothing, wake: left.draining, waitsFor: nobodyPolls(own) };

  const isGone = (build: string) => (silentLooks.get(build) ?? 0) >= looksUntilGone;
  const orphaned = mayChange ? left.orphaned.filter(({ build }) => isGone(build)) : [];
  const used = new Set([own, ...[...left.draining, ...left.orphaned].map(({ build }) => build)]);
  return {
    left,
    setCurrent: false,
    wake: left.draining,
    terminate: [
      ...orphaned.map((run) => ({
        run,
        reason: `No worker of build ${run.build} polls any longer: ${begunAnew(own)}`,
      })),
      ...left.unversioned.map((run) => ({ run, reason: `${begunBy(run)} without worker versions: ${begunAnew(own)}` })),
    ],
    remove:
      mayChange && deployment.kind === 'found'
        ? deployment.idle.filter((build) => !used.has(build) && isGone(build))
        : [],
  };
}

/** Whether this watcher may set the current version. */
export function mayChangeVersions({ manages, deployment }: Pick<SeenVersions, 'manages' | 'deployment'>): boolean {
  return manages && deployment.kind === 'found' && deployment.managedBy === undefined;
}

function runsLeft({ own, deployment, silentLooks, runs }: SeenVersions): RunsLeft {
  if (deployment.kind === 'unsupported') {
    return { draining: [], orphaned: [], unversioned: runs.filter((run) => isPinned(run) || run.build !== own) };
  }
  const current = currentBuild(deployment) ?? own;
  const elsewhere = runs.filter((run) => isPinned(run) && run.build !== current);
  return {
    draining: elsewhere.filter(({ build }) => !silentLooks.has(build)),
    orphaned: elsewhere.filter(({ build }) => silentLooks.has(build)),
    unversioned: current === own ? runs.filter((run) => isFromBefore(run, own, deployment)) : [],
  };
}

/**
 * Whether unversioned workers of another build started this run. A run that was started later goes to the current
 * version, even if its memo names the watcher that started its first run.
 */
function isFromBefore({ behavior, build, startedAtMs }: EngineRun, own: string, deployment: Deployment): boolean {
  if (behavior !== '' || build === own) return false;
  return deployment.kind === 'found' && startedAtMs < (deployment.current?.sinceMs ?? 0);
}

export function isPinned({ behavior }: EngineRun): boolean {
  return behavior === 'Pinned';
}

/** The build of the current version, if there is one. */
export function currentBuild(deployment: Deployment): string | undefined {
  return deployment.kind === 'found' ? deployment.current?.build : undefined;
}

/**
 * Without versioning, a run that continues with the code of another build may fail for ever; a restarted run cannot.
 */
function stepsWithoutVersions(
  { own, pollers }: SeenVersions,
  { unversioned }: RunsLeft,
): Pick<VersionSteps, 'terminate' | 'waitsFor'> {
  if (unversioned.length === 0) return { terminate: [] };
  if (!pollers.some(({ build }) => build === own)) return { terminate: [], waitsFor: nobodyPolls(own) };
  // An old worker would take the restarted run, and leave it to the new ones half-way.
  const others = new Set(pollers.flatMap(({ build }) => (build === own ? [] : build || 'an earlier release')));
  if (others.size > 0)
    return { terminate: [], waitsFor: `workers of other builds still poll: ${[...others].join(', ')}` };
  return {
    terminate: unversioned.map((run) => ({
      run,
      reason: `${begunBy(run)} on a server without worker versions: ${begunAnew(own)}`,
    })),
  };
}

function nobodyPolls(own: string): string {
  return `no worker of build ${own} polls`;
}

function begunAnew(own: string): string {
  return `the watcher starts this operation again on build ${own}, from the state of the cluster`;
}

function begunBy({ build }: EngineRun): string {
  return build === '' ? 'Started by an earlier release' : `Started by build ${build}`;
}

function whyNotCurrent({ own, manages, deployment }: SeenVersions, isPolled: boolean): string {
  if (!isPolled) return nobodyPolls(own);
  if (!manages) return 'the watcher does not set the current version (--manage-worker-deployment=false)';
  if (deployment.kind !== 'found') return 'the worker deployment does not exist yet';
  return `the worker deployment is managed by "${deployment.managedBy}", and only that manager can set the current version`;
}

export interface EngineVersionsOptions {
  readonly versions: WorkerVersions;
  /** The build ID of this watcher's own release. */
  readonly own: string;
  readonly manages: boolean;
  /** The workflow types that can be restarted now. */
  readonly types: () => readonly string[];
  /** Is told what each look has found, and of each that has failed. */
  readonly unserved: { note(seen: SeenVersions): void; unknown(): void };
  /** Starts a terminated operation again, if it is still wanted. */
  readonly restart: (workflowId: string) => void;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'reportVersions'>;
  readonly times: VersionTimes;
  /** A monotonic clock. Absent: that of this process. */
  readonly nowMs?: () => number;
}

export interface VersionTimes {
  /** The interval when nothing is to be done, while a change is in progress, and while no version is current. */
  readonly restMs: number;
  readonly quickMs: number;
  readonly firstMs: number;
  /** A run that has not moved is signalled again after this time, then after twice as long, and so on. */
  readonly wakeAgainMs: number;
  /** Between two signals, or two terminations. */
  readonly spacingMs: number;
}

/** How often it looks and acts, derived from the interval of the watcher's full pass. */
export function versionTimes(fullPassSeconds: number): VersionTimes {
  const restMs = fullPassSeconds * 1000;
  return { restMs, quickMs: Math.min(3_000, restMs), firstMs: 500, wakeAgainMs: 30_000, spacingMs: 50 };
}

/** The maximum number of signals and terminations before the next look. */
const mostAtOnce = 100;

/** The longest pause between two signals to a run. */
const longestWakeMs = 3_600_000;

/** After this many failures in a row, it is Temporal that fails, and not a run: the rest waits for the next look. */
const mostFailuresInARow = 5;

/** After this many frequent looks with the same result, it looks less often. */
const mostQuickLooks = 60;

/** The maximum number of looks for a fresh installation, whose first operations wait for a current version. */
const mostFirstLooks = 40;

/** The maximum number of idle versions that are queried per look. */
const mostIdle = 10;

/** What a leader remembers about versions. */
interface Memory {
  readonly silentLooks: Map<string, number>;
  /** By run ID: when it is signalled again, and the pause before that. */
  readonly woken: Map<string, { readonly dueMs: number; readonly pauseMs: number }>;
  /** Types without unversioned runs of another build. No such run is started while this watcher leads. */
  readonly migrated: Set<string>;
  /** By topic: the last log message. */
  readonly said: Map<string, string>;
  /** Whether the last look found that Temporal has no current version for new operations. */
  isNoneCurrent: boolean;
}

/** Maintains versions until the end of this leader's term. A failure is logged once and retried. */
export async function keepVersions(options: EngineVersionsOptions, ended: AbortSignal): Promise<void> {
  const { restMs, quickMs, firstMs } = options.times;
  const memory: Memory = {
    ...{ silentLooks: new Map(), woken: new Map(), migrated: new Set(), said: new Map() },
    isNoneCurrent: false,
  };
  let before: string | undefined;
  let looks = 0;
  let firstLooks = 0;
  while (!ended.aborted) {
    const found = await passOver(options, memory, ended);
    looks = found === before ? looks + 1 : 0;
    before = found;
    const isFirst = memory.isNoneCurrent && firstLooks++ < mostFirstLooks;
    const isQuick = found !== undefined && looks < mostQuickLooks;
    await delay(isFirst ? firstMs : isQuick ? quickMs : restMs, undefined, { signal: ended }).catch(() => undefined);
  }
  options.metrics.reportVersions(undefined);
}

/** Looks once and does the next steps. Returns what is left to do as a short text; undefined when there is nothing. */
async function passOver(
  options: EngineVersionsOptions,
  memory: Memory,
  ended: AbortSignal,
): Promise<string | undefined> {
  const { own, log, unserved } = options;
  try {
    const types = options.types();
    const seen = await look(options, memory, types);
    unserved.note(seen);
    const steps = nextVersionSteps(seen);
    report(options, seen, steps);
    sayOnce(memory, 'waits', steps.waitsFor, (text) => log.info({ build: own }, `Worker versions: ${text}`));
    await carryOut(options, seen, steps, memory, ended);
    memory.said.delete('error');
    if (mayMigrate(seen)) {
      const remaining = new Set(steps.left.unversioned.map(({ workflowType }) => workflowType));
      for (const type of types) if (!remaining.has(type)) memory.migrated.add(type);
    }
    const { draining, orphaned, unversioned } = steps.left;
    const runs = [draining, orphaned, unversioned].map(({ length }) => length).join();
    const isSettled = types.length > 0 && !steps.setCurrent && steps.waitsFor === undefined && runs === '0,0,0';
    return isSettled ? undefined : `${types.length} ${steps.setCurrent} ${steps.waitsFor} ${runs}`;
  } catch (error) {
    if (ended.aborted) return undefined;
    unserved.unknown();
    const text = error instanceof Error ? error.message : String(error);
    sayOnce(memory, 'error', text, () => log.warn({ err: error }, 'Cannot reconcile the versions of the workers'));
    return text;
  }
}

/** Whether unversioned runs can be restarted, and would go to workers of this build. */
function mayMigrate({ own, deployment }: Pick<SeenVersions, 'own' | 'deployment'>): boolean {
  return deployment.kind === 'unsupported' || currentBuild(deployment) === own;
}

async function look(
  { versions, own, manages, log }: EngineVersionsOptions,
  memory: Memory,
  types: readonly string[],
): Promise<SeenVersions> {
  const deployment = await versions.describe();
  const isSupported = deployment.kind !== 'unsupported';
  memory.isNoneCurrent = isSupported && currentBuild(deployment) === undefined;
  if (memory.isNoneCurrent) memory.silentLooks.clear(); // these looks are too frequent to count
  sayOnce(memory, 'support', isSupported ? undefined : deployment.why, (why) =>
    log.info(`Temporal does not version workers, so operations of other builds are started again: ${why}`),
  );

  const asksForPinned = isSupported && types.length > 0;
  const pinned = asksForPinned ? await versions.runsPinnedElsewhere(currentBuild(deployment) ?? own, types) : [];
  const asked = mayMigrate({ own, deployment }) ? types.filter((type) => !memory.migrated.has(type)) : [];
  const others = asked.length > 0 ? await versions.runs(asked) : [];
  const runs = [...new Map([...pinned, ...others].map((run) => [run.runId, run])).values()];

  const idle = deployment.kind === 'found' ? deployment.idle.slice(0, mostIdle) : [];
  const builds = new Set([own, currentBuild(deployment) ?? own, ...idle, ...pinned.map(({ build }) => build)]);
  const pollers = await versions.pollers(isSupported ? [...builds] : []);
  countSilence(memory.silentLooks, builds, pollers);
  return { own, manages, deployment, pollers, silentLooks: memory.silentLooks, runs };
}

function countSilence(silentLooks: Map<string, number>, builds: ReadonlySet<string>, pollers: readonly Poller[]): void {
  const polled = new Set(pollers.flatMap(({ build, isVersioned }) => (isVersioned ? build : [])));
  for (const build of silentLooks.keys()) if (!builds.has(build) || polled.has(build)) silentLooks.delete(build);
  for (const build of builds) if (!polled.has(build)) silentLooks.set(build, (silentLooks.get(build) ?? 0) + 1);
}

async function carryOut(
  options: EngineVersionsOptions,
  { own, deployment }: SeenVersions,
  steps: VersionSteps,
  memory: Memory,
  ended: AbortSignal,
): Promise<void> {
  const { woken } = memory;
  const {
    versions,
    log,
    restart,
    times: { wakeAgainMs },
    nowMs = () => performance.now(),
  } = options;
  if (steps.setCurrent && deployment.kind === 'found') {
    await versions.setCurrent(own, deployment.conflictToken);
    log.info({ build: own, before: deployment.current?.build ?? 'none' }, 'Set the current version of the workers');
  }

  const terminate = steps.terminate.slice(0, mostAtOnce);
  const terminated = await forEachRun(terminate, { ...options, memory, ended }, async ({ run, reason }) => {
    await versions.terminate(run, reason);
    restart(run.workflowId);
  });
  if (terminated > 0) log.info({ build: own, count: terminated }, 'Started operations of other builds again');

  const listed = new Set(steps.wake.map(({ runId }) => runId));
  for (const runId of woken.keys()) if (!listed.has(runId)) woken.delete(runId);
  const due = steps.wake.filter(({ runId }) => (woken.get(runId)?.dueMs ?? Number.NEGATIVE_INFINITY) <= nowMs());
  const wake = due.slice(0, mostAtOnce - terminate.length).map((run) => ({ run }));
  const signalled = await forEachRun(wake, { ...options, memory, ended }, async ({ run }) => {
    const pauseMs = Math.min((woken.get(run.runId)?.pauseMs ?? wakeAgainMs / 2) * 2, longestWakeMs);
    woken.set(run.runId, { dueMs: nowMs() + pauseMs, pauseMs });
    await versions.wake(run);
  });
  if (signalled > 0)
    log.info({ build: own, count: signalled }, 'Signalled operations that are pinned to other builds to hand over');

  for (const build of steps.remove) {
    if (ended.aborted) return;
    await remove(options, build);
  }
}

/** Acts on one run after the other; one that fails does not stop those behind it. Returns how many have succeeded. */
async function forEachRun<Step extends { readonly run: EngineRun }>(
  steps: readonly Step[],
  {
    log,
    times: { spacingMs },
    memory,
    ended,
  }: Pick<EngineVersionsOptions, 'log' | 'times'> & { readonly memory: Memory; readonly ended: AbortSignal },
  act: (step: Step) => Promise<void>,
): Promise<number> {
  let [succeeded, failedInARow] = [0, 0];
  for (const step of steps) {
    if (ended.aborted) break;
    try {
      await act(step);
      succeeded++;
      failedInARow = 0;
    } catch (error) {
      if (++failedInARow === mostFailuresInARow) throw error;
      const { runId, workflowId } = step.run;
      const text = error instanceof Error ? error.message : String(error);
      sayOnce(memory, `run ${runId}`, text, () =>
        log.warn({ operationId: workflowId, runId, err: error }, 'Cannot signal or end a run of another build'),
      );
    }
    await delay(spacingMs);
  }
  return succeeded;
}

/** Nothing depends on it: a version that Temporal still needs is kept until the next look. */
async function remove({ versions, log }: EngineVersionsOptions, build: string): Promise<void> {
  try {
    await versions.remove(build);
    log.info({ build }, 'Deleted a version of the workers that is drained');
  } catch (error) {
    log.debug({ build, err: error }, 'Cannot delete a version of the workers yet');
  }
}

function report({ metrics }: EngineVersionsOptions, seen: SeenVersions, { left }: VersionSteps): void {
  metrics.reportVersions({
    isCurrent: mayMigrate(seen),
    runs: {
      draining: left.draining.length,
      orphaned: left.orphaned.length,
      unversioned: left.unversioned.length,
    },
  });
}

/** Logs what is new; the same message again only after it has been resolved in between. */
function sayOnce({ said }: Memory, topic: string, text: string | undefined, say: (text: string) => void): void {
  if (text === undefined) {
    said.delete(topic);
  } else if (said.get(topic) !== text) {
    said.set(topic, text);
    say(text);
  }
}
