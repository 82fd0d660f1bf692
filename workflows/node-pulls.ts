/** The pulls of one node that a run looks after: each waits for its turn, asks the node, and pauses when that failed. */
import { CancellationScope, condition, isCancellation } from '@temporalio/workflow';
import { referenceOf } from '../api/core/familiar-image.ts';
import type { NodeRef } from '../api/core/refs.ts';
import type { WaitingFor } from '../api/engine/waiting-for.ts';
import type { PullOperation } from '../api/node-image/operation.ts';
import {
  begun,
  failedWith,
  heard,
  newPull,
  nextStep,
  nodeWaitingFor,
  type OpenTag,
  type Pull,
  type PullBackOff,
  type PullNews,
  type PullStep,
} from './plan/images/pull-images.ts';
import { shortened, summaryBytes } from './plan/text-size.ts';
import { newPullReports, type PullReports } from './pull-reports.ts';
import { nodeSilenceMs, pullOnNode } from './shared/activities.ts';
import { reasonOf } from './shared/refusals.ts';
import type { Retries } from './shared/until-allowed.ts';

/** One pull that this run looks after. */
interface PullRun {
  pull: Pull;
  readonly scope: CancellationScope;
  /** Of the attempt that is under way. */
  attempt?: CancellationScope;
  /** Its turn has come, and is not over. */
  hasTurn: boolean;
  /** The pause that it makes is to end now. */
  hurry: boolean;
}

/** The pulls of one node, and what becomes of them. */
export interface NodePulls {
  readonly nodeImage: NodeRef;
  /** As the watcher reported it last. */
  node: NodeRef;
  /** Absent: not paused. While it is paused no attempt begins. */
  pausedBy?: string;
  /** The history is full: no attempt begins in this run. */
  isDraining: boolean;
  /** The NodeImage has to be looked at. */
  wantsLook: boolean;
  readonly runs: Map<string, PullRun>;
  /** Those that wait for their turn, first come, first served. */
  readonly queue: PullRun[];
  /** What has ended in this run. A look that is older than the report of it must not begin it again. */
  readonly over: Set<string>;
  /** What the run before has left, of pulls that have not begun again. */
  readonly backOffs: Map<string, PullBackOff>;
  readonly reports: PullReports;
}

/** So many pulls of one node are asked for at once; how many of them the node does at once is its own business. */
const atOnce = 16;

/** So much later than due a time-out may be reported. */
const lateMs = 10_000;

/** No pulls yet. */
export function newNodePulls(
  { nodeImage, node }: PullOperation,
  before: { readonly pausedBy?: string | undefined; readonly backOffs?: readonly PullBackOff[] | undefined },
  operator: Retries,
): NodePulls {
  const pulls: NodePulls = {
    nodeImage,
    node,
    ...(before.pausedBy !== undefined && { pausedBy: before.pausedBy }),
    isDraining: false,
    wantsLook: true,
    runs: new Map(),
    queue: [],
    over: new Set(),
    backOffs: new Map(before.backOffs?.map((backOff) => [backOff.key, backOff])),
    reports: newPullReports(nodeImage, operator, (written) => waitingNow(pulls, written)),
  };
  return pulls;
}

function waitingNow(pulls: NodePulls, written: WaitingFor | undefined): WaitingFor | undefined {
  const { node, pausedBy, runs } = pulls;
  return nodeWaitingFor(
    [...runs.values()].map(({ pull }) => pull),
    { node: node.name, before: written, nowMs: Date.now(), ...(pausedBy !== undefined && { pausedBy }) },
  );
}

/** Begins a pull that is wanted. */
export function startPull(pulls: NodePulls, key: string, tag: OpenTag): void {
  const pull = newPull(tag, pulls.backOffs.get(key));
  pulls.backOffs.delete(key);
  const run: PullRun = { pull, scope: new CancellationScope(), hasTurn: false, hurry: false };
  pulls.runs.set(key, run);
  pulls.reports.put(key, run.pull);
  void run.scope
    .run(() => work(pulls, key, run))
    .catch((error: unknown) => {
      if (!isCancellation(error)) throw error;
    });
}

/** Ends a pull that nobody wants any more, so nothing is reported about it either. */
export function stopPull(pulls: NodePulls, key: string): void {
  pulls.runs.get(key)?.scope.cancel();
  pulls.runs.delete(key);
  pulls.reports.drop(key);
  giveTurns(pulls);
}

/** Ends pulls as failed: those of one image, or all. */
export function failPulls(pulls: NodePulls, message: string, image?: string): void {
  for (const [key, run] of pulls.runs) {
    if (image !== undefined && referenceOf(run.pull.tag) !== image) continue;
    run.pull = failedWith(run.pull, message, Date.now());
    run.scope.cancel();
    endPull(pulls, key, run);
  }
}

/** Ends the pauses after failed attempts: of one image, or of all. */
export function endPauses({ runs }: NodePulls, image?: string): void {
  for (const run of runs.values()) if (image === undefined || referenceOf(run.pull.tag) === image) run.hurry = true;
}

/** The node is another one now. Nobody listens for the old one any more, so each attempt is made again on the new one. */
export function moveTo(pulls: NodePulls, node: NodeRef): void {
  pulls.node = node;
  for (const { attempt } of pulls.runs.values()) attempt?.cancel();
}

/** Gives turns to those that have waited longest. A pull that pauses has given its place to the next. */
export function giveTurns({ runs, queue, pausedBy, isDraining }: NodePulls): void {
  if (pausedBy !== undefined || isDraining) return;
  let free = atOnce - [...runs.values()].filter(({ hasTurn }) => hasTurn).length;
  while (free > 0) {
    const next = queue.shift();
    if (next === undefined) return;
    if (next.scope.consideredCancelled) continue;
    next.hasTurn = true;
    free -= 1;
  }
}

/** Goes through one pull until it has ended. */
async function work(pulls: NodePulls, key: string, run: PullRun): Promise<void> {
  for (;;) {
    const { pull, step } = nextStep(run.pull, Date.now(), nodeSilenceMs);
    run.pull = pull;
    switch (step.kind) {
      case 'ended':
        endPull(pulls, key, run);
        return;
      case 'backOff':
        run.hurry = false;
        await condition(() => run.hurry, step.ms);
        if (run.hurry) run.pull = { ...run.pull, notBeforeMs: Date.now() };
        break;
      case 'attempt': {
        pulls.queue.push(run);
        giveTurns(pulls);
        // NP-6: one whose turn comes at once was never waiting, and is not reported as if
        if (!run.hasTurn) await condition(() => run.hasTurn);
        const attempt = beginAttempt(pulls, key, run);
        try {
          const news = await attempt.run(() => tryOnce(pulls, run.pull, step));
          if (news === 'superseded') {
            forget(pulls, key);
            return;
          }
          run.pull = heard(run.pull, news, Date.now());
        } catch (error) {
          // the node is another one now: the next attempt goes there
          if (!isCancellation(error) || run.scope.consideredCancelled) throw error;
        } finally {
          delete run.attempt;
          run.hasTurn = false;
          giveTurns(pulls);
        }
        if (run.pull.completedAtMs === undefined) reportPull(pulls, key, run);
      }
    }
  }
}

function beginAttempt(pulls: NodePulls, key: string, run: PullRun): CancellationScope {
  const attempt = new CancellationScope();
  run.attempt = attempt;
  const { wait } = run.pull;
  run.pull = begun(run.pull, Date.now());
  // a node that was silent, or a runtime that was away, still is until it answers
  if (wait !== undefined && wait.reason !== 'BackingOff') run.pull = { ...run.pull, wait };
  reportPull(pulls, key, run);
  return attempt;
}

async function tryOnce(
  { node, nodeImage }: NodePulls,
  pull: Pull,
  step: Extract<PullStep, { kind: 'attempt' }>,
): Promise<PullNews | 'superseded'> {
  const { tag } = pull;
  const { name, version, always } = tag;
  const attempts = pull.wait?.reason === 'RuntimeUnreachable' ? 30 : 5;
  const askedAtMs = Date.now();
  try {
    const result = await pullOnNode(node.uid, step.silenceMs, attempts)['node.v1.pullImage'].executeWithOptions(
      { summary: shortened(`pull ${referenceOf(tag)}@${node.name}`, summaryBytes) },
      [{ nodeImage, image: { name, tag: tag.tag }, version, always, timeoutSeconds: step.timeoutSeconds }],
    );
    return result.kind === 'superseded' ? 'superseded' : result;
  } catch (error) {
    const news = newsOf(error);
    // a time-out that comes late: nobody was there to report it in time
    const isLate = Date.now() - askedAtMs > step.silenceMs + lateMs;
    return news !== 'superseded' && news.kind === 'silent' && isLate ? { kind: 'interrupted' } : news;
  }
}

/** What a failed attempt says: about the node, or about what it needs. */
function newsOf(error: unknown): PullNews | 'superseded' {
  if (isCancellation(error)) throw error;
  const why = reasonOf(error);
  switch (why.kind) {
    case 'nodeSilent':
      return { kind: 'silent' };
    case 'away':
      return { kind: 'away', reason: 'RuntimeUnreachable', message: why.message };
    case 'superseded':
      return 'superseded';
    case 'refused':
      return why;
  }
}

/** The NodeImage asks for something else now, so what it asks for is looked at. */
function forget(pulls: NodePulls, key: string): void {
  pulls.wantsLook = true;
  pulls.runs.delete(key);
  pulls.reports.drop(key);
}

function endPull(pulls: NodePulls, key: string, run: PullRun): void {
  pulls.reports.put(key, run.pull);
  pulls.runs.delete(key);
  pulls.over.add(key);
  void pulls.reports.write();
}

function reportPull({ reports }: NodePulls, key: string, { pull }: PullRun): void {
  reports.put(key, pull);
  void reports.write();
}
