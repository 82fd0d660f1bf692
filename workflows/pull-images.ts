import {
  ApplicationFailure,
  CancellationScope,
  condition,
  defineSignal,
  isCancellation,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { NodeImageLook } from '../activities/kube/node-images.ts';
import { sameJson } from '../api/base/json.ts';
import { referenceOf } from '../api/core/familiar-image.ts';
import { changedSignal, commandNames, searchAttributes } from '../api/engine/operations.ts';
import type { WaitingFor } from '../api/engine/waiting-for.ts';
import { type PullOperation, parsePullChanged, pullImagesId } from '../api/node-image/operation.ts';
import { nodeImages, pullMessage } from '../api/node-image/types.ts';
import {
  backOffsOf,
  begun,
  failedWith,
  heard,
  type NextReport,
  newPull,
  nextReport,
  nextStep,
  nodeWaitingFor,
  type OpenTag,
  type Pull,
  type PullBackOff,
  type PullNews,
  pullKey,
  reportOf,
  type TagReport,
} from './plan/images/pull-images.ts';
import { shortened, summaryBytes } from './plan/text-size.ts';
import { images, look, nodeSilenceMs, pullOnNode } from './shared/activities.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { listenToOperator, type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { checkOwnId } from './shared/own-id.ts';
import { reasonOf } from './shared/refusals.ts';
import { type Fields, listOf, number, object, optional, text } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** One pull that this run looks after. */
interface Run {
  pull: Pull;
  readonly scope: CancellationScope;
  /** Of the attempt that is under way. */
  attempt?: CancellationScope;
  /** Its turn has come, and is not over. */
  hasTurn: boolean;
  /** The pause that it makes is to end now. */
  hurry: boolean;
}

/** What a look has found open. */
interface SeenTags {
  readonly tags: readonly OpenTag[];
  /** Nothing else is open. */
  readonly isAll: boolean;
}

/** So many pulls of one node are asked for at once; how many of them the node does at once is its own business. */
const atOnce = 16;

/** So much later than due a time-out may be told of. */
const lateMs = 10_000;

/** So many parts of a look are taken at once. What they do not hold is looked at when these have ended. */
const mostParts = 64;

/** What a run leaves to the next one; all else stands in the NodeImage. */
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

/**
 * Keeps the images of one node true: pulls what the NodeImage asks for and writes down how that went. It ends when nothing
 * is open. While it runs, nothing else pulls on that node for Windlass.
 */
export async function pullImages(operation: PullOperation, handOver?: unknown): Promise<void> {
  const { nodeImage } = operation;
  checkOwnId(pullImagesId(nodeImage.uid));
  const before = handedOver(handOver, pullHandOver);
  const backOffs = new Map(before.backOffs?.map((backOff) => [backOff.key, backOff]));
  let node = operation.node;
  let wantsLook = true;
  let { pausedBy } = before;
  /** Whether the status still has to say if an operator paused an earlier run: there a pause outlives a run that is lost. */
  let asksForPause = true;
  let hasLooked = false;
  /** What ends pulls of which this run does not know yet. */
  const early: (() => void)[] = [];
  let isDraining = false;
  const runs = new Map<string, Run>();
  /** Those that wait for their turn, first come, first served. */
  const queue: Run[] = [];
  /** What has ended in this run. A look that is older than the report of it must not begin it again. */
  const over = new Set<string>();
  const reports = new Map<string, TagReport>();
  let isWriting = false;
  let written: WaitingFor | undefined;
  let shownReason = '';
  let isStale = false;
  let isMoreOpen = false;

  setHandler(defineSignal<[unknown]>(changedSignal), (payload) => {
    const change = parsePullChanged(payload);
    wantsLook = true;
    if (change.node === undefined || change.node.uid === node.uid) return;
    node = change.node;
    // nobody listens for the old one any more
    for (const { attempt } of runs.values()) attempt?.cancel();
  });
  const announcements: Promise<void>[] = [];
  const operator = listenToOperator(
    commandNames,
    {
      command: (command) => obeyAtOnce(command),
      identified: (command, by) => {
        obey(command, by);
        announcements.push(announce(operation, command, by));
      },
    },
    { before: before.operator },
  );
  CancellationScope.current().cancelRequested.catch(() =>
    onceSeen(() => endAll(pullMessage.aborted('a cancellation of its workflow'))),
  );

  await CancellationScope.nonCancellable(async () => {
    for (;;) {
      if (wantsLook) {
        wantsLook = false;
        const seen = await lookAtAll();
        if (seen === undefined) {
          for (const key of [...runs.keys()]) stop(key);
          return;
        }
        takeIn(seen);
        hasLooked = true;
        for (const act of early.splice(0)) act();
        if (isStale) await write('clean up', nextReport(nodeImage, [], waitingNow()));
        isStale = false;
      }
      await condition(() => wantsLook || isQuiet() || mayHandOver());
      if (wantsLook) continue;
      await Promise.all(announcements.splice(0));
      if (mayHandOver() && !isQuiet()) {
        const rest: PullHandOver = {
          operator: operator.handOver(),
          ...(pausedBy !== undefined && { pausedBy }),
          backOffs: backOffsOf([...runs.values()].map(({ pull }) => pull)),
        };
        // all other progress is in the cluster, so the next run needs only the same references
        await handOverTo<typeof pullImages>([{ nodeImage, node }, rest]);
      }
      if (wantsLook || !isQuiet() || announcements.length > 0) continue;
      if (!isMoreOpen) return;
      wantsLook = true;
    }
  });

  function isQuiet(): boolean {
    return runs.size === 0 && reports.size === 0 && !isWriting;
  }

  function mayHandOver(): boolean {
    // a full history takes nothing new; another version can wait for a moment without attempts
    isDraining ||= workflowInfo().continueAsNewSuggested;
    const isDue = isDraining || operator.isHandOverDue();
    // a command is obeyed once it is known who gave it
    if (!isDue || operator.unidentified() > 0) return false;
    return reports.size === 0 && !isWriting && [...runs.values()].every(({ attempt }) => attempt === undefined);
  }

  /**
   * What is open, read in parts that fit into history: all of it, or the first so many parts. Undefined when there is
   * nothing to look after.
   */
  async function lookAtAll(): Promise<SeenTags | undefined> {
    const summary = shortened(`look at ${nodeImage.name}`, summaryBytes);
    let tags: OpenTag[] = [];
    let version: string | undefined;
    for (let parts = 0; parts < mostParts; parts++) {
      const skip = tags.length;
      const part: NodeImageLook = await untilAllowed(
        () => look.lookAtNodeImage.executeWithOptions({ summary }, [{ operation, skip }]),
        operator,
      );
      if (part.kind === 'gone') return undefined;
      // it has changed between two parts: what was at the seam may be missing
      if (version !== undefined && version !== part.resourceVersion) {
        tags = [];
        version = undefined;
        continue;
      }
      version = part.resourceVersion;
      isStale = part.stale;
      if (asksForPause && part.waitingFor?.reason === 'Paused') pausedBy ??= pauserIn(part.waitingFor);
      asksForPause = false;
      if (tags.length === 0 && !isWriting) written = part.waitingFor;
      tags.push(...part.tags);
      if (!part.more) return { tags, isAll: true };
      if (part.tags.length === 0) {
        const message = `Cannot read NodeImage "${nodeImage.name}": the answer has no tag although it announces more`;
        throw ApplicationFailure.nonRetryable(message, 'Invalid');
      }
    }
    return { tags, isAll: false };
  }

  function takeIn({ tags, isAll }: SeenTags): void {
    const wanted = new Map(tags.map((tag) => [pullKey(tag), tag]));
    if (isAll) {
      for (const key of [...runs.keys()]) if (!wanted.has(key)) stop(key); // NP-3
      // it has been seen that it is over; who wants the same again begins with the same version
      for (const key of over) if (!wanted.has(key)) over.delete(key);
    }
    for (const [key, tag] of wanted) if (!runs.has(key) && !over.has(key)) start(key, tag);
    // where nothing has begun, another look would show the same
    isMoreOpen = !isAll && runs.size > 0;
    // a status that says Waiting or Pulling of what has ended here meanwhile is written over by what is under way
    void tell();
  }

  function start(key: string, tag: OpenTag): void {
    const pull = newPull(tag, backOffs.get(key));
    backOffs.delete(key);
    const run: Run = { pull, scope: new CancellationScope(), hasTurn: false, hurry: false };
    runs.set(key, run);
    reports.set(key, reportOf(run.pull));
    void run.scope
      .run(() => work(key, run))
      .catch((error: unknown) => {
        if (!isCancellation(error)) throw error;
      });
  }

  /** It is not wanted any more, so nothing is said about it either. */
  function stop(key: string): void {
    runs.get(key)?.scope.cancel();
    runs.delete(key);
    reports.delete(key);
    giveTurns();
  }

  async function work(key: string, run: Run): Promise<void> {
    for (;;) {
      const { pull, step } = nextStep(run.pull, Date.now(), nodeSilenceMs);
      run.pull = pull;
      switch (step.kind) {
        case 'ended':
          end(key, run);
          return;
        case 'backOff':
          run.hurry = false;
          await condition(() => run.hurry, step.ms);
          if (run.hurry) run.pull = { ...run.pull, notBeforeMs: Date.now() };
          break;
        case 'attempt': {
          queue.push(run);
          giveTurns();
          // NP-6: one whose turn comes at once was never waiting, and need not be told of as if
          if (!run.hasTurn) await condition(() => run.hasTurn);
          const attempt = new CancellationScope();
          run.attempt = attempt;
          const before = run.pull;
          run.pull = begun(run.pull, Date.now());
          // a node that was silent, or a runtime that was away, still is until it answers
          if (before.wait !== undefined && before.wait.reason !== 'BackingOff')
            run.pull = { ...run.pull, wait: before.wait };
          say(key, run);
          try {
            const news = await attempt.run(() => tryOnce(run.pull, step));
            if (news === 'superseded') {
              wantsLook = true;
              runs.delete(key);
              reports.delete(key);
              return;
            }
            run.pull = heard(run.pull, news, Date.now());
          } catch (error) {
            // the node is another one now: the next attempt goes there
            if (!isCancellation(error) || run.scope.consideredCancelled) throw error;
          } finally {
            delete run.attempt;
            run.hasTurn = false;
            giveTurns();
          }
          if (run.pull.completedAtMs === undefined) say(key, run);
        }
      }
    }
  }

  /** A pull that pauses has given its place to the next. */
  function giveTurns(): void {
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

  async function tryOnce(
    pull: Pull,
    step: { readonly timeoutSeconds: number; readonly silenceMs: number },
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
      // a time-out that comes late: nobody was there to tell of it in time
      const isLate = Date.now() - askedAtMs > step.silenceMs + lateMs;
      return news !== 'superseded' && news.kind === 'silent' && isLate ? { kind: 'interrupted' } : news;
    }
  }

  function end(key: string, run: Run): void {
    reports.set(key, reportOf(run.pull));
    runs.delete(key);
    over.add(key);
    void tell();
  }

  function say(key: string, run: Run): void {
    reports.set(key, reportOf(run.pull));
    void tell();
  }

  /** Writes what there is to say, one write at a time; what is overtaken is never written. */
  function tell(): Promise<void> {
    if (isWriting) return Promise.resolve();
    isWriting = true;
    // whoever has something to say may be cancelled; what is said is not
    return CancellationScope.nonCancellable(writeAll);
  }

  async function writeAll(): Promise<void> {
    try {
      // what begins in the same moment is told together
      await Promise.resolve();
      for (;;) {
        const waitingFor = waitingNow();
        const waiting = [...reports.entries()];
        const next = nextReport(
          nodeImage,
          waiting.map(([, report]) => report),
          waitingFor,
        );
        const { tags } = next;
        if (tags.length === 0 && sameJson(waitingFor, written)) return;
        for (const [key] of waiting.slice(0, tags.length)) reports.delete(key);
        showReason(waitingFor);
        const summary = `report ${tags.length === 1 && tags[0] ? `${referenceOf(tags[0])} ${tags[0].phase}` : `${tags.length} tags`}`;
        await write(shortened(summary, summaryBytes), next);
        written = waitingFor;
      }
    } finally {
      isWriting = false;
    }
  }

  async function write(summary: string, report: NextReport): Promise<void> {
    await untilAllowed(() => images.reportPulls.executeWithOptions({ summary }, [report]), operator, {
      superseded: () => undefined, // it is gone: whoever looks learns of it
    });
  }

  function waitingNow(): WaitingFor | undefined {
    const pulls = [...runs.values()].map(({ pull }) => pull);
    return nodeWaitingFor(pulls, {
      node: node.name,
      before: written,
      nowMs: Date.now(),
      ...(pausedBy !== undefined && { pausedBy }),
    });
  }

  function showReason(waitingFor: WaitingFor | undefined): void {
    const reason = waitingFor?.reason ?? '';
    setCurrentDetails(waitingFor ? `${reason}: ${waitingFor.blockedBy.join(', ')}: ${waitingFor.unblock}` : '');
    if (reason === shownReason) return;
    shownReason = reason;
    upsertSearchAttributes({ [searchAttributes.reason]: [reason] });
  }

  function obeyAtOnce({ name, by, target }: OperatorCommand): void {
    if (name === 'pause') pausedBy = by ?? 'an operator';
    if (name === 'resume') {
      pausedBy = undefined;
      asksForPause = false;
      giveTurns();
    }
    if (name === 'retry') {
      for (const run of runs.values())
        if (target === undefined || referenceOf(run.pull.tag) === target) run.hurry = true;
    }
    void tell();
  }

  function obey({ name, target }: OperatorCommand, by: string): void {
    if (name === 'pause' && pausedBy !== undefined) pausedBy = by;
    if (name === 'abort') onceSeen(() => endAll(pullMessage.aborted(by)));
    if (name === 'skip') onceSeen(() => endAll(pullMessage.skipped(by), target));
    void tell();
  }

  function onceSeen(act: () => void): void {
    if (hasLooked) act();
    else early.push(act);
  }

  function endAll(message: string, target?: string): void {
    for (const [key, run] of runs) {
      if (target !== undefined && referenceOf(run.pull.tag) !== target) continue;
      run.pull = failedWith(run.pull, message, Date.now());
      run.scope.cancel();
      end(key, run);
    }
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

/** Who has paused the node, as the status says it. */
function pauserIn({ blockedBy }: WaitingFor): string {
  return blockedBy[0]?.replace(/^operator\//, '') || 'an operator';
}

/** Emits an Event that names the command and its sender. Nothing depends on it, and nothing waits for it for long. */
async function announce({ nodeImage }: PullOperation, command: OperatorCommand, by: string): Promise<void> {
  const { name, target, id } = command;
  const key = `${workflowInfo().runId.slice(0, 8)}-${id}`;
  const options = { summary: `emit an Event: ${name}`, scheduleToCloseTimeout: '30s', retry: { maximumAttempts: 3 } };
  const about = { kind: nodeImages.kind, namespace: '', ...nodeImage };
  const input = { about, command: name, by, key, ...(target === undefined ? {} : { target }) };
  await images.announceSteering.executeWithOptions(options, [input]).catch(() => undefined);
}
