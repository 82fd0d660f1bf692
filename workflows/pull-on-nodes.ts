import { condition, workflowInfo } from '@temporalio/workflow';
import { type CommandName, commandNames } from '../api/engine/operations.ts';
import { type PullJobOperation, pullOnNodesId } from '../api/image-pull-job/operation.ts';
import { imagePullJobs } from '../api/image-pull-job/types.ts';
import {
  asked,
  begun,
  type CarriedProgress,
  detailsOf,
  handedInAgain,
  heard,
  inFlightText,
  isEnding,
  type PullNews,
  type PullProgress,
  phaseOf,
  reasonOfWait,
} from '../plan/images/pull-on-nodes.ts';
import type { NodesAnswer, Wave, WaveResult } from '../plan/images/pull-waves.ts';
import { carriedIn, onTheirWay } from '../plan/permits/in-flight.ts';
import { fitting } from '../plan/text-size.ts';
import { fleetBatches, fleetLooks, images } from './shared/activities.ts';
import { newDisplay } from './shared/display.ts';
import { newGrace } from './shared/grace.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Inbox, newInbox } from './shared/inbox.ts';
import { type Announcement, announce, beginOperation, type OperationRun } from './shared/operation.ts';
import { type Operator, type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { deleted, endAs, type OperationResult, type Outcome, outcomeOf, showEnd } from './shared/outcome.ts';
import { mostCarriedBytes, newCarrier, newQuestion, questionTimeout } from './shared/permits.ts';
import { refusedWait } from './shared/refusals.ts';
import { inFlightOf, wave } from './shared/results.ts';
import { type Fields, listOf, number, object, oneOf, text } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** What a run hands over to the next one. */
export interface PullJobHandOver extends CarriedProgress {
  readonly operator: OperatorHandOver;
  /** Commands that could not be written to the job yet. */
  readonly commands: readonly ReceivedCommand[];
  /** Questions that came to nothing in a row: each pause after one is longer than the one before. */
  readonly refusals: number;
}

const pullJobHandOver: Fields<PullJobHandOver> = {
  operator: operatorHandOver,
  commands: listOf(
    object<ReceivedCommand>({ name: oneOf<CommandName>(...commandNames), by: text, id: number, eventKey: text }),
  ),
  next: number,
  inFlight: listOf(inFlightOf(wave)),
  log: listOf(text),
  ...{ image: text, of: number, ended: number, failed: listOf(text) },
  refusals: number,
};

/** Of commands that cannot be written the first are kept. */
const mostCommandBytes = 8 * 1024;

/**
 * Pulls the image of a job on its nodes. It asks the leading watcher which nodes go next, and permits it to tell these to
 * pull; how many pull at once, counting and the end of the job are the watcher's. Commands of operators are written to the
 * job. It ends as the job does.
 */
export async function pullOnNodes(operation: PullJobOperation, handOver?: unknown): Promise<OperationResult> {
  const { job } = operation;
  const before = handedOver(handOver, pullJobHandOver);
  const inbox = newInbox<PullNews>();
  const commands = [...(before.commands ?? [])];
  const receive = ({ id, name }: OperatorCommand, by: string) => {
    commands.push({ id, name, by, eventKey: eventKeyOf(id) });
    inbox.put({ kind: 'command', name });
  };
  let progress = begun(before);

  const run = beginOperation(
    { id: pullOnNodesId(job), commands: commandNames, withTarget: [], before: before.operator },
    {
      changed: () => inbox.put({ kind: 'changed' }),
      handOver: () => inbox.put({ kind: 'timeOver' }),
      command: () => undefined,
      identified: receive,
      cancelled: (abort) => receive(abort, abort.by),
      answerTo: () => undefined, // its Event follows when it is written to the job
      announce: announceOn(operation),
    },
  );
  const { operator } = run;

  return await run.carryOut(async () => {
    const steerer = newSteerer(operation, inbox, operator);
    const question = newQuestion<NodesAnswer>(
      inbox,
      () => {
        const options = { summary: 'which nodes go next', ...questionTimeout };
        const justPermitted = onTheirWay(progress, Date.now()).flat();
        return fleetLooks['fleet.v1.nextNodes'].executeWithOptions(options, [
          { job, justPermitted, carried: carriedIn(progress) },
        ]);
      },
      before.refusals,
    );
    const waves = newCarrier<Wave, WaveResult>(inbox, (one) => {
      const { number: nth, batch: nodes } = one;
      const options = { summary: inFlightText(progress, one) };
      return fleetBatches['fleet.v1.awaitNodes'].executeWithOptions(options, [{ job, number: nth, nodes }]);
    });
    const display = newDisplay();
    const grace = newGrace('wait for the last nodes', () => inbox.put({ kind: 'timeOver' }));
    for (;;) {
      // nothing is begun on events that have not been read
      if (inbox.isEmpty()) {
        steerer.carryOut(commands.splice(0));
        const isLast = isEnding(progress) && (!question.isOpen() || progress.end === 'withdrawn');
        const mayEnd = () => steerer.isIdle() && run.isAnnounced();
        // P-11: it takes along what is in flight, and commands that cannot be written
        const mayHandOver = () => steerer.isResting() && run.isAnnounced();
        const isHandOver = !isLast && operator.isHandOverDue();
        if (isHandOver && mayHandOver()) return await handOn();
        progress = handedInAgain(progress, Date.now());
        // what is in a wave is not named again, so the waves come first
        waves.carryOut(progress.inFlight);
        if (progress.mustAsk && !question.isOpen() && progress.end !== 'withdrawn') {
          question.ask();
          progress = asked(progress);
        }
        if (!progress.end)
          display({ details: detailsOf(progress), phase: phaseOf(progress), reason: reasonOfWait(progress) });
        const isOver = grace.isOver(isLast, progress.inFlight.length === 0);
        const mayGo = isOver ? mayEnd : mayHandOver;
        if ((isOver || isHandOver) && !mayGo()) await condition(() => !inbox.isEmpty() || mayGo());
        if (isOver && inbox.isEmpty() && mayEnd() && progress.end) {
          const end = endOf(progress.end, run);
          showEnd(end, detailsOf(progress));
          return endAs(end);
        }
        if (isHandOver && inbox.isEmpty() && mayHandOver()) return await handOn();
      }
      for (const news of await inbox.take()) progress = heard(progress, news);
    }

    async function handOn(): Promise<never> {
      const { next, inFlight, log, image, of, ended, failed } = progress;
      const rest: PullJobHandOver = {
        ...{
          operator: operator.handOver(),
          refusals: question.refusals(),
          commands: fitting(steerer.waiting(), mostCommandBytes),
        },
        ...{ next, inFlight: fitting(inFlight, mostCarriedBytes), log: log.slice(-3) },
        ...{ image, of, ended, failed },
      };
      return await handOverTo<typeof pullOnNodes>([{ job }, rest]);
    }
  });
}

interface ReceivedCommand extends Pick<OperatorCommand, 'id' | 'name'> {
  readonly by: string;
  /** Names its Event, in whichever run that is emitted. */
  readonly eventKey: string;
}

function eventKeyOf(id: number): string {
  return `${workflowInfo().runId.slice(0, 8)}-${id}`;
}

/** A run ends as its job does. */
function endOf(end: NonNullable<PullProgress['end']>, run: OperationRun): Outcome {
  if (end === 'withdrawn') return deleted(imagePullJobs.kind);
  const { failed, reason, message } = end;
  return outcomeOf({ type: failed ? 'Failed' : 'Complete', reason, message }, run.aborted());
}

/** Writes commands to the job, one after the other, and emits an Event for each. */
function newSteerer({ job }: PullJobOperation, inbox: Inbox<PullNews>, operator: Operator) {
  let waiting: readonly ReceivedCommand[] = [];
  let isSteering = false;
  let isRefused = false;

  return {
    isIdle: () => !isSteering,
    /** Whether nothing is on its way to the job: what is waiting has been refused. */
    isResting: () => !isSteering || isRefused,
    /** The commands that are not written yet. */
    waiting: () => waiting,
    carryOut(commands: readonly ReceivedCommand[]): void {
      waiting = [...waiting, ...commands];
      if (!isSteering && waiting.length > 0) void go();
    },
  };

  async function go(): Promise<void> {
    isSteering = true;
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      await steer(next);
      waiting = waiting.slice(1);
    }
    isSteering = false;
  }

  async function steer(command: ReceivedCommand): Promise<void> {
    const { name, by } = command;
    const attempt = async () => {
      isRefused = false;
      return await images.steerPullJob.executeWithOptions({ summary: name }, [{ job, command: name, by }]);
    };
    const answer = await untilAllowed(attempt, operator, {
      superseded: () => undefined,
      refused: (why) => {
        isRefused = true;
        inbox.put({ kind: 'notWritten', waitingFor: refusedWait(why) });
      },
    });
    inbox.put({ kind: 'written', name, isRefused: answer !== undefined, atMs: Date.now() });
    await announce(command, by, answer ?? {}, announceOn({ job }));
  }
}

function announceOn({ job }: PullJobOperation) {
  const about = { kind: imagePullJobs.kind, ...job };
  return ({ options, event }: Announcement) =>
    images.announceSteering.executeWithOptions(options, [{ about, ...event }]);
}
