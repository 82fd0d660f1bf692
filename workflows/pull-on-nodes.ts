import { CancellationScope, condition, isCancellation, sleep } from '@temporalio/workflow';
import { commandNames } from '../api/engine/operations.ts';
import { type FirstWave, type PullJobOperation, pullOnNodesId } from '../api/image-pull-job/operation.ts';
import { imagePullJobs } from '../api/image-pull-job/types.ts';
import {
  begun,
  begunWith,
  detailsOf,
  heard,
  isAnswered,
  isEnding,
  type PullNews,
  type PullProgress,
  phaseOf,
  reasonOfWait,
  type WaveInFlight,
  wantedQuestion,
} from '../plan/images/pull-on-nodes.ts';
import { questionText, waveText } from '../plan/images/pull-waves.ts';
import { refusedPauseMs } from '../plan/refused-pause.ts';
import { shortened, summaryBytes } from '../plan/text-size.ts';
import { fleet, images, look } from './shared/activities.ts';
import { newDisplay } from './shared/display.ts';
import { newGrace } from './shared/grace.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Inbox, newInbox } from './shared/inbox.ts';
import { type Announcement, announce, beginOperation, type OperationRun } from './shared/operation.ts';
import { type Operator, type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { deleted, endAs, type OperationResult, type Outcome, outcomeOf, showEnd } from './shared/outcome.ts';
import { asRefusal, reasonOf, refusedWait } from './shared/refusals.ts';
import { type Fields, listOf, number, object, text } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/**
 * What a run hands over to the next one. Commands are on the job, and nodes of waves that have not ended are named again:
 * those that pull come first.
 */
export interface PullJobHandOver {
  readonly operator: OperatorHandOver;
  /** The number of the next wave. */
  readonly next: number;
}

const pullJobHandOver: Fields<PullJobHandOver> = { operator: operatorHandOver, next: number };

const firstWave = object<FirstWave>({ image: text, nodes: listOf(text), of: number, ended: number, rest: number });

/**
 * Pulls the image of a job on its nodes. It asks the leading watcher which nodes go next, and permits it to tell these to
 * pull; how many pull at once, counting and the end of the job are the watcher's. Commands of operators are written to the
 * job. It ends as the job does.
 */
export async function pullOnNodes(operation: PullJobOperation, handOver?: unknown): Promise<OperationResult> {
  const before = handedOver(handOver, pullJobHandOver);
  const first = firstOf(operation, handOver);
  let isStartSignalDue = first !== undefined;
  const inbox = newInbox<PullNews>();
  const commands: ReceivedCommand[] = [];
  const receive = (command: OperatorCommand, by: string) => {
    commands.push({ command, by });
    inbox.put({ kind: 'command', name: command.name });
  };

  const run = beginOperation(
    { id: pullOnNodesId(operation.job.uid), commands: commandNames, withTarget: [], before: before.operator },
    {
      changed: () => {
        // a start brings a signal of its own, which is no news beside what it has told
        if (isStartSignalDue) isStartSignalDue = false;
        else inbox.put({ kind: 'changed' });
      },
      command: () => undefined,
      identified: receive,
      cancelled: (abort) => receive(abort, abort.by),
      answerTo: () => undefined, // its Event follows when it is written to the job
      announce: announceOn(operation),
    },
  );
  const { operator } = run;
  let progress = first ? begunWith(first, Date.now()) : begun(before);

  return await run.carryOut(async () => {
    const looker = newLooker(operation, inbox, operator);
    const steerer = newSteerer(operation, inbox, operator);
    const tellNodes = chooser(operation, inbox);
    const awaitNodes = carrier(operation, inbox);
    const display = newDisplay();
    const grace = newGrace('wait for the last nodes', () => inbox.put({ kind: 'graceOver' }));
    for (;;) {
      if (inbox.isEmpty()) {
        steerer.carryOut(commands.splice(0));
        looker.look(progress.looks);
        const isLast = isEnding(progress);
        const isHandOver = !isLast && operator.isHandOverDue();
        // a node that is promised to a wave is not chosen again, so the waves come first
        awaitNodes(progress.image, progress.inFlight);
        tellNodes(isHandOver ? undefined : wantedQuestion(progress), progress);
        if (!progress.end)
          display({ details: detailsOf(progress), phase: phaseOf(progress), reason: reasonOfWait(progress) });
        const isOver = grace.isOver(isLast || isHandOver, isLast ? isAnswered(progress) : !progress.inFlight.length);
        const mayEnd = () => steerer.isIdle() && run.isAnnounced();
        if (isOver && !mayEnd()) await condition(() => !inbox.isEmpty() || mayEnd());
        if (isOver && inbox.isEmpty()) {
          if (progress.end) {
            const end = endOf(progress.end, run);
            showEnd(end, detailsOf(progress));
            return endAs(end);
          }
          const { job } = operation;
          await handOverTo<typeof pullOnNodes>([{ job }, { operator: operator.handOver(), next: progress.next }]);
        }
      }
      for (const news of await inbox.take()) progress = heard(progress, news);
    }
  });
}

/** What the first run was told when it was started, where it has the expected shape: a person may have written it. */
function firstOf({ first }: PullJobOperation, handOver: unknown): FirstWave | undefined {
  if (handOver !== undefined || first === undefined || firstWave(first, 'first') !== undefined) return undefined;
  return first.nodes.length > 0 ? first : undefined;
}

interface ReceivedCommand {
  readonly command: OperatorCommand;
  readonly by: string;
}

/** A run ends as its job does. */
function endOf(end: NonNullable<PullProgress['end']>, run: OperationRun): Outcome {
  if (end === 'gone') return deleted(imagePullJobs.kind);
  const { failed, reason, message } = end;
  return outcomeOf({ type: failed ? 'Failed' : 'Complete', reason, message }, run.aborted());
}

/** Looks at the job whenever something has changed, one look after the other. */
function newLooker({ job }: PullJobOperation, inbox: Inbox<PullNews>, operator: Operator) {
  let seen = 0;
  let isLooking = false;

  return {
    look(wanted: number): void {
      if (isLooking || wanted === seen) return;
      seen = wanted;
      isLooking = true;
      void go();
    },
  };

  async function go(): Promise<void> {
    const summary = shortened(`look at ${job.name}`, summaryBytes);
    const found = await untilAllowed(() => look.lookAtPullJob.executeWithOptions({ summary }, [job]), operator, {
      refused: (why) => inbox.put({ kind: 'refused', step: 'look', waitingFor: refusedWait(why) }),
    });
    isLooking = false;
    inbox.put({ kind: 'allowed', step: 'look' });
    inbox.put({ kind: 'looked', look: found });
  }
}

/** Writes commands to the job, one after the other, and emits an Event for each. */
function newSteerer({ job }: PullJobOperation, inbox: Inbox<PullNews>, operator: Operator) {
  const waiting: ReceivedCommand[] = [];
  let isSteering = false;

  return {
    isIdle: () => !isSteering,
    carryOut(commands: readonly ReceivedCommand[]): void {
      waiting.push(...commands);
      if (!isSteering && waiting.length > 0) void go();
    },
  };

  async function go(): Promise<void> {
    isSteering = true;
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await steer(next);
    isSteering = false;
    inbox.put({ kind: 'allowed', step: 'command' });
  }

  async function steer({ command, by }: ReceivedCommand): Promise<void> {
    const { name } = command;
    const answer = await untilAllowed(
      () => images.steerPullJob.executeWithOptions({ summary: name }, [{ job, command: name, by }]),
      operator,
      {
        superseded: () => undefined,
        refused: (why) => inbox.put({ kind: 'refused', step: 'command', waitingFor: refusedWait(why) }),
      },
    );
    inbox.put({ kind: 'allowed', step: 'command' });
    await announce(command, by, answer ?? {}, announceOn({ job }));
  }
}

function announceOn({ job }: PullJobOperation) {
  const about = { kind: imagePullJobs.kind, ...job };
  return ({ options, event }: Announcement) =>
    images.announceSteering.executeWithOptions(options, [{ about, ...event }]);
}

/** Sees that this is asked, and nothing else. What comes of it is an event. */
function chooser({ job }: PullJobOperation, inbox: Inbox<PullNews>) {
  let current: { readonly key: string; readonly scope: CancellationScope } | undefined;
  let refusals = 0;

  /** No answer has come, and none will: it is asked again after a pause, or after `retry`. */
  function park(error: unknown): void {
    const refusal = asRefusal(reasonOf(error));
    inbox.put({ kind: 'parked', waitingFor: refusedWait(refusal) });
    void sleep(refusedPauseMs(refusal.reason, refusals++), { summary: 'retry after a refusal' }).then(() =>
      inbox.put({ kind: 'again' }),
    );
  }

  return (wanted: ReturnType<typeof wantedQuestion>, { image }: PullProgress): void => {
    if ((wanted?.key ?? '') === (current?.key ?? '')) return;
    current?.scope.cancel();
    current = undefined;
    if (!wanted) return;

    const scope = new CancellationScope();
    const { key, ...of } = wanted;
    current = { key, scope };
    const options = { summary: questionText(image, of.wave) };
    void scope
      .run(() => fleet['fleet.v1.tellNodes'].executeWithOptions(options, [{ job, ...of }]))
      .then(
        (next) => {
          refusals = 0;
          if (current?.scope === scope) inbox.put({ kind: 'next', next, of, atMs: Date.now() });
        },
        (error: unknown) => {
          if (!isCancellation(error) && current?.scope === scope) park(error);
        },
      );
  };
}

/** Sees that each wave in flight is handed in, once. What comes of it is an event. */
function carrier({ job }: PullJobOperation, inbox: Inbox<PullNews>) {
  const handedIn = new Set<number>();

  return (image: string, inFlight: readonly WaveInFlight[]): void => {
    for (const { wave, nodes } of inFlight) {
      if (handedIn.has(wave)) continue;
      handedIn.add(wave);
      const options = { summary: waveText(image, nodes) };
      void fleet['fleet.v1.awaitNodes'].executeWithOptions(options, [{ job, wave, nodes }]).then(
        (outcome) => inbox.put({ kind: 'ended', wave, outcome, atMs: Date.now() }),
        (error: unknown) => inbox.put({ kind: 'lost', wave, why: asRefusal(reasonOf(error)).message }),
      );
    }
  };
}
