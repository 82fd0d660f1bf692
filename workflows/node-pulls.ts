/** The pulls of one node that a run carries out: each waits for a slot, asks the node, and pauses after a failure. */
import { CancellationScope, condition, isCancellation } from '@temporalio/workflow';
import { referenceOf } from '../api/core/familiar-image.ts';
import type { NodeRef } from '../api/core/refs.ts';
import type { CommandAnswer } from '../api/engine/operations.ts';
import type { WaitingFor } from '../api/engine/waiting-for.ts';
import type { PullOperation } from '../api/node-image/operation.ts';
import { pullMessage } from '../api/node-image/texts.ts';
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
} from '../plan/images/pull-images.ts';
import { listed, shortened, summaryBytes } from '../plan/text-size.ts';
import { newPullReports, type PullReports } from './pull-reports.ts';
import { nodeSilenceMs, pullOnNode } from './shared/activities.ts';
import type { OperatorCommand } from './shared/operator.ts';
import { reasonOf } from './shared/refusals.ts';
import type { Retries } from './shared/until-allowed.ts';

/** One pull of this run. */
interface PullRun {
  pull: Pull;
  readonly scope: CancellationScope;
  /** The scope of the attempt in progress. */
  attempt?: CancellationScope;
  /** Whether it has a slot. */
  hasTurn: boolean;
  /** Whether its present pause is to end now. */
  hurry: boolean;
}

/** The pulls of one node, and their state. */
export interface NodePulls {
  readonly nodeImage: NodeRef;
  /** The node as last reported by the watcher. */
  node: NodeRef;
  /** Absent: not paused. While it is paused no attempt begins. */
  pausedBy?: string;
  /** The history is full: no attempt begins in this run. */
  isDraining: boolean;
  /** The NodeImage has to be looked at. */
  wantsLook: boolean;
  readonly runs: Map<string, PullRun>;
  /** Pulls that wait for a slot, first come, first served. */
  readonly queue: PullRun[];
  /** The number of images that this run has found on the node in the end. */
  pulled: number;
  /** Images that could not be pulled in this run. */
  readonly failed: string[];
  /** Who has aborted the pulls, if nothing has begun since. */
  abortedBy?: string;
  /** Pulls that have ended in this run. A look that is older than their report must not begin them again. */
  readonly over: Set<string>;
  /** Back-offs from the previous run, for pulls that have not begun again. */
  readonly backOffs: Map<string, PullBackOff>;
  readonly reports: PullReports;
}

/** How many pulls of one node are requested at the same time; the node itself limits how many it runs. */
const atOnce = 16;

/** How much later than due a time-out may be reported. */
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
    ...{ pulled: 0, failed: [] },
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
  delete pulls.abortedBy;
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

/** Cancels a pull that is no longer wanted; nothing is reported about it. */
export function stopPull(pulls: NodePulls, key: string): void {
  pulls.runs.get(key)?.scope.cancel();
  pulls.runs.delete(key);
  pulls.reports.drop(key);
  giveTurns(pulls);
}

/** Fails all pulls: an operator has aborted them. */
export function abortPulls(pulls: NodePulls, by: string): void {
  failPulls(pulls, pullMessage.aborted(by));
  pulls.abortedBy = by;
}

/** Fails pulls: those of one image, or all. */
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

/** What becomes of a command about some of the pulls, or all, for its Event. */
export function answerAbout(
  { runs }: NodePulls,
  { name, target }: Pick<OperatorCommand, 'name' | 'target'>,
): CommandAnswer {
  const images = [...runs.values()].map(({ pull }) => referenceOf(pull.tag));
  if (target !== undefined && images.includes(target)) return {};
  if (target !== undefined) {
    const pulled = images.length > 0 ? `it pulls ${listed(images, 200)}` : 'it pulls no image';
    return { refused: `image "${shortened(target, 150)}" is not pulled on this node now; ${pulled}` };
  }
  if (images.length === 0) return name === 'retry' ? {} : { refused: 'no image is pulled on this node now' };
  return name === 'skip' ? { target: listed(images, 300) } : {};
}

/** The node was replaced. Nobody polls the old task queue, so each attempt is repeated on the new one. */
export function moveTo(pulls: NodePulls, node: NodeRef): void {
  pulls.node = node;
  for (const { attempt } of pulls.runs.values()) attempt?.cancel();
}

/** Gives slots to the pulls that have waited longest. A pull that pauses has given its slot to the next. */
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

/** Carries out one pull to its end. */
async function work(pulls: NodePulls, key: string, run: PullRun): Promise<void> {
  for (;;) {
    const { pull, step } = nextStep(run.pull, Date.now(), nodeSilenceMs);
    run.pull = pull;
    switch (step.kind) {
      case 'ended':
        endPull(pulls, key, run);
        return;
      case 'backOff': {
        run.hurry = false;
        const summary = shortened(`back off: ${referenceOf(run.pull.tag)}`, summaryBytes);
        await condition(() => run.hurry, step.ms, { summary });
        if (run.hurry) run.pull = { ...run.pull, notBeforeMs: Date.now() };
        break;
      }
      case 'attempt': {
        pulls.queue.push(run);
        giveTurns(pulls);
        // NP-6: a pull that gets a slot at once was never waiting, and is not reported as such
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
          // the node was replaced: the next attempt goes to the new one
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
  // a silent node, or a missing runtime, is reported until there is an answer
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
    // a time-out that is reported late: Temporal or the workers were away at the time
    const isLate = Date.now() - askedAtMs > step.silenceMs + lateMs;
    return news !== 'superseded' && news.kind === 'silent' && isLate ? { kind: 'interrupted' } : news;
  }
}

/** What a failed attempt means: about the node, or about the pull. */
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

/** The NodeImage has changed, so it is looked at again. */
function forget(pulls: NodePulls, key: string): void {
  pulls.wantsLook = true;
  pulls.runs.delete(key);
  pulls.reports.drop(key);
}

function endPull(pulls: NodePulls, key: string, run: PullRun): void {
  if (run.pull.phase === 'Succeeded') pulls.pulled++;
  else pulls.failed.push(referenceOf(run.pull.tag));
  pulls.reports.put(key, run.pull);
  pulls.runs.delete(key);
  pulls.over.add(key);
  void pulls.reports.write();
}

function reportPull({ reports }: NodePulls, key: string, { pull }: PullRun): void {
  reports.put(key, pull);
  void reports.write();
}
