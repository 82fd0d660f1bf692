import { ApplicationFailure, condition, patched, workflowInfo } from '@temporalio/workflow';
import type { NodeImageLook } from '../activities/kube/node-images.ts';
import { commandNames } from '../api/engine/operations.ts';
import type { WaitingFor } from '../api/engine/waiting-for.ts';
import { type PullOperation, parsePullChanged, pullImagesId } from '../api/node-image/operation.ts';
import { pullMessage } from '../api/node-image/texts.ts';
import { nodeImages } from '../api/node-image/types.ts';
import { backOffsOf, type OpenTag, type PullBackOff, pullKey } from '../plan/images/pull-images.ts';
import { shortened, summaryBytes } from '../plan/text-size.ts';
import {
  abortPulls,
  answerAbout,
  endPauses,
  failPulls,
  giveTurns,
  moveTo,
  type NodePulls,
  newNodePulls,
  startPull,
  stopPull,
} from './node-pulls.ts';
import { images, look } from './shared/activities.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Answers, answersOf, beginOperation, newAnswers, type OperationRun } from './shared/operation.ts';
import { type Operator, type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { deleted, endAs, type OperationResult, type Outcome, showEnd } from './shared/outcome.ts';
import { type Fields, listOf, number, object, optional, text } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** What a run hands over to the next one; everything else is in the NodeImage. */
export interface PullHandOver {
  readonly operator: OperatorHandOver;
  readonly pausedBy?: string | undefined;
  readonly backOffs: readonly PullBackOff[];
}

const pullHandOver: Fields<PullHandOver> = {
  operator: operatorHandOver,
  pausedBy: optional(text),
  backOffs: listOf(object<PullBackOff>({ key: text, failures: number, notBeforeMs: number })),
};

/** The maximum number of parts that are read at once. The rest is read when these tags are complete. */
const mostParts = 64;

/** What a run knows about the NodeImage. */
interface Looks {
  /** Whether a pause of an earlier run still has to be read from the status, which keeps it if a run is lost. */
  asksForPause: boolean;
  hasLooked: boolean;
  /** Commands that arrived before the first look, and are applied after it. */
  readonly early: (() => void)[];
  /** The status contains tags that are not in the spec. */
  isStale: boolean;
  isMoreOpen: boolean;
}

/** The open tags that a look has found. */
interface SeenTags {
  readonly tags: readonly OpenTag[];
  /** Nothing else is open. */
  readonly isAll: boolean;
}

/**
 * Maintains the images of one node: pulls what the NodeImage requests and reports the results. It completes when
 * nothing is open. While it runs, nothing else pulls on that node for Windlass.
 */
export async function pullImages(operation: PullOperation, handOver?: unknown): Promise<OperationResult> {
  const { nodeImage } = operation;
  const before = handedOver(handOver, pullHandOver);
  const pulls = newNodePulls(operation, before, { retries: () => run.operator.retries() });
  const answers = newAnswers();
  const looks: Looks = { asksForPause: true, hasLooked: false, early: [], isStale: false, isMoreOpen: false };

  const run = beginOperation(
    { id: pullImagesId(nodeImage), commands: commandNames, withTarget: ['retry', 'skip'], before: before.operator },
    {
      changed: (payload) => {
        const { node } = parsePullChanged(payload);
        pulls.wantsLook = true;
        if (node !== undefined && node.uid !== pulls.node.uid) moveTo(pulls, node);
      },
      command: (command) => obeyAtOnce(pulls, looks, answers, command),
      identified: (command, by) => obey(pulls, looks, command, by),
      cancelled: ({ by }) => onceLooked(looks, () => abortPulls(pulls, by)),
      answerTo: answersOf(answers),
      announce: ({ options, event }) => {
        const about = { kind: nodeImages.kind, namespace: '', ...nodeImage };
        return images.announceSteering.executeWithOptions(options, [{ about, ...event }]);
      },
    },
  );

  return await run.carryOut(async () => {
    for (;;) {
      if (pulls.wantsLook) {
        const seen = await lookAndTakeIn(operation, pulls, looks, run.operator);
        if (seen === 'gone') {
          const end = deleted(nodeImages.kind);
          // runs of before have ended without that
          if (pulls.reports.showsWait() && patched('show that the NodeImage was deleted')) showEnd(end);
          return endAs(end);
        }
      }
      await condition(() => pulls.wantsLook || isQuiet(pulls) || mayHandOver(pulls, run));
      if (pulls.wantsLook) continue;
      await run.announced(() => pulls.wantsLook);
      // all other progress is in the cluster, so the next run needs only the same references
      if (mayHandOver(pulls, run) && !isQuiet(pulls) && run.isAnnounced()) {
        return await handOverTo<typeof pullImages>([{ nodeImage, node: pulls.node }, restOf(pulls, run)]);
      }
      if (pulls.wantsLook || !isQuiet(pulls) || !run.isAnnounced()) continue;
      if (!looks.isMoreOpen) {
        const end = endOf(pulls, run);
        // the pulls of a node have no phases, so nothing is shown of those that are done
        if (end.kind !== 'Completed') showEnd(end);
        return endAs(end);
      }
      pulls.wantsLook = true;
    }
  });
}

/** A tag that could not be pulled is a result; the run fails only when it is aborted. */
function endOf({ node, pulled, failed, abortedBy }: NodePulls, run: OperationRun): Outcome {
  const [first] = failed;
  const others = failed.length > 1 ? ` and ${failed.length - 1} more` : '';
  const not = first === undefined ? '' : `; not ${first}${others}`;
  const message = shortened(`${pulled} images are on node "${node.name}"${not}`, endBytes);
  if (abortedBy !== undefined) {
    return { kind: run.aborted(), reason: 'Aborted', message: `Aborted by ${abortedBy}: ${message}` };
  }
  return { kind: 'Completed', reason: first === undefined ? 'ImagesPulled' : 'ImagesFailed', message };
}

/** Names of images are long. */
const endBytes = 600;

/** Whether nothing is in progress. */
function isQuiet({ runs, reports }: NodePulls): boolean {
  return runs.size === 0 && reports.isDone();
}

function mayHandOver(pulls: NodePulls, { operator }: OperationRun): boolean {
  // with a full history nothing new begins; a move to another version can wait for a moment without attempts
  pulls.isDraining ||= workflowInfo().continueAsNewSuggested;
  const isDue = pulls.isDraining || operator.isHandOverDue();
  // a command is carried out once its sender is known
  if (!isDue || operator.unidentified() > 0) return false;
  return pulls.reports.isDone() && [...pulls.runs.values()].every(({ attempt }) => attempt === undefined);
}

function restOf({ pausedBy, runs }: NodePulls, { operator }: OperationRun): PullHandOver {
  return {
    operator: operator.handOver(),
    ...(pausedBy !== undefined && { pausedBy }),
    backOffs: backOffsOf([...runs.values()].map(({ pull }) => pull)),
  };
}

// ---------------------------------------------------------------------------------------------------------- looking

async function lookAndTakeIn(
  operation: PullOperation,
  pulls: NodePulls,
  looks: Looks,
  operator: Operator,
): Promise<'gone' | 'seen'> {
  pulls.wantsLook = false;
  const seen = await lookAtAll(operation, pulls, looks, operator);
  if (seen === undefined) {
    for (const key of [...pulls.runs.keys()]) stopPull(pulls, key);
    return 'gone';
  }
  takeIn(seen, pulls, looks);
  looks.hasLooked = true;
  for (const act of looks.early.splice(0)) act();
  if (looks.isStale) await pulls.reports.cleanUp();
  looks.isStale = false;
  return 'seen';
}

/**
 * The open tags, read in parts that fit into the history: all of them, or the first parts. Undefined when there is
 * nothing to do.
 */
async function lookAtAll(
  operation: PullOperation,
  pulls: NodePulls,
  looks: Looks,
  operator: Operator,
): Promise<SeenTags | undefined> {
  const { name } = operation.nodeImage;
  const summary = shortened(`look at ${name}`, summaryBytes);
  let tags: OpenTag[] = [];
  let version: string | undefined;
  for (let parts = 0; parts < mostParts; parts++) {
    const skip = tags.length;
    const part: NodeImageLook = await untilAllowed(
      () => look.lookAtNodeImage.executeWithOptions({ summary }, [{ operation, skip }]),
      operator,
    );
    if (part.kind === 'gone') return undefined;
    // it has changed between two parts: tags at the boundary may be missing
    if (version !== undefined && version !== part.resourceVersion) {
      tags = [];
      version = undefined;
      continue;
    }
    version = part.resourceVersion;
    looks.isStale = part.stale;
    takePauseFrom(part.waitingFor, pulls, looks);
    if (tags.length === 0) pulls.reports.seen(part.waitingFor);
    tags.push(...part.tags);
    if (!part.more) return { tags, isAll: true };
    if (part.tags.length === 0) {
      const message = `Cannot read NodeImage "${name}": the answer has no tag although it announces more`;
      throw ApplicationFailure.nonRetryable(message, 'Invalid');
    }
  }
  return { tags, isAll: false };
}

function takePauseFrom(waitingFor: WaitingFor | undefined, pulls: NodePulls, looks: Looks): void {
  if (looks.asksForPause && waitingFor?.reason === 'Paused') pulls.pausedBy ??= pauserIn(waitingFor);
  looks.asksForPause = false;
}

/** Who has paused the node, according to the status. */
function pauserIn({ blockedBy }: WaitingFor): string {
  return blockedBy[0]?.replace(/^operator\//, '') || 'an operator';
}

function takeIn({ tags, isAll }: SeenTags, pulls: NodePulls, looks: Looks): void {
  const { runs, over } = pulls;
  const wanted = new Map(tags.map((tag) => [pullKey(tag), tag]));
  if (isAll) {
    for (const key of [...runs.keys()]) if (!wanted.has(key)) stopPull(pulls, key); // NP-3
    // its end was seen; a new request for the same image has the same version again
    for (const key of over) if (!wanted.has(key)) over.delete(key);
  }
  for (const [key, tag] of wanted) if (!runs.has(key) && !over.has(key)) startPull(pulls, key, tag);
  // if nothing has begun, another look would show the same
  looks.isMoreOpen = !isAll && runs.size > 0;
  // a status with Waiting or Pulling for a pull that has ended meanwhile is overwritten by the write in progress
  void pulls.reports.write();
}

// --------------------------------------------------------------------------------------------------------- commands

/** Carries out what does not depend on the sender. */
function obeyAtOnce(pulls: NodePulls, looks: Looks, answers: Answers, command: OperatorCommand): void {
  const { name, by, target } = command;
  const answer = () => {
    // what is pulled may stay unknown for long
    if (target === undefined && !looks.hasLooked) answers.put(command, {});
    else onceLooked(looks, () => answers.put(command, answerAbout(pulls, command)));
  };
  switch (name) {
    case 'pause':
      pulls.pausedBy = by ?? 'an operator';
      answers.put(command, {});
      break;
    case 'resume': {
      const mayBePaused = pulls.pausedBy !== undefined || looks.asksForPause;
      answers.put(command, mayBePaused ? {} : { refused: 'the pulls of this node are not paused' });
      delete pulls.pausedBy;
      looks.asksForPause = false;
      giveTurns(pulls);
      break;
    }
    case 'retry':
      answer();
      onceLooked(looks, () => endPauses(pulls, target));
      break;
    default:
      answer();
  }
  void pulls.reports.write();
}

/** Carries out what names its sender in the status. */
function obey(pulls: NodePulls, looks: Looks, { name, target }: OperatorCommand, by: string): void {
  if (name === 'pause' && pulls.pausedBy !== undefined) pulls.pausedBy = by;
  if (name === 'abort') onceLooked(looks, () => abortPulls(pulls, by));
  if (name === 'skip') onceLooked(looks, () => failPulls(pulls, pullMessage.skipped(by), target));
  void pulls.reports.write();
}

/** Acts after the first look. */
function onceLooked({ hasLooked, early }: Looks, act: () => void): void {
  if (hasLooked) act();
  else early.push(act);
}
