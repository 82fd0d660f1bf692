/** What becomes of a command about a ContainerRecreateRequest, for its Event. */
import type { CommandAnswer } from '../../api/engine/operations.ts';
import { listed } from '../text-size.ts';
import { containerInTheWay } from './events.ts';
import { type Command, type ContainerProgress, containerNamed, isSettled, type Progress } from './model.ts';

/** What a command does that is applied to this progress. */
export function answerTo(progress: Progress, { name, target }: Pick<Command, 'name' | 'target'>): CommandAnswer {
  const { end, paused, containers } = progress;
  if (end) return { refused: 'the request is at its end' };
  const named = target === undefined ? undefined : containerNamed(progress, target);
  if (target !== undefined && named === undefined) {
    return {
      refused: notOfRequest(
        target,
        containers.map((container) => container.name),
      ),
    };
  }
  switch (name) {
    case 'pause':
    case 'abort':
      return {};
    case 'resume':
      return paused ? {} : { refused: 'the request is not paused' };
    case 'retry':
      return answerToRetry(progress, named);
    case 'skip': {
      const skipped = named ?? containerInTheWay(progress);
      if (skipped === undefined) return { refused: 'it has no target, and the request waits for no container' };
      if (isSettled(skipped)) return { refused: `container "${skipped.name}" ${settledTexts(skipped)}` };
      const isStopping = progress.inFlight.stopping === skipped.name;
      return { target: skipped.name, ...(isStopping && { note: 'its stop has begun, and is finished' }) };
    }
  }
}

/** Why a container cannot be the target of a command. */
export function notOfRequest(target: string, containers: readonly string[]): string {
  const most = 150;
  return `container "${listed([target], most)}" is not one of the request, which has ${listed(containers, most)}`;
}

function answerToRetry({ containers, parked }: Progress, named: ContainerProgress | undefined): CommandAnswer {
  const failed = containers.filter((container) => container.phase === 'Failed' && (named ?? container) === container);
  if (named && failed.length === 0 && parked === undefined) {
    return { refused: `the stop of container "${named.name}" has not failed` };
  }
  return failed.length > 0
    ? {
        target: listed(
          failed.map(({ name }) => name),
          200,
        ),
      }
    : {};
}

function settledTexts({ phase, skippedBy }: ContainerProgress): string {
  if (skippedBy !== undefined) return 'is skipped already';
  if (phase === 'Failed') return 'could not be stopped, and the request goes on without it';
  return phase === 'Succeeded' ? 'is recreated already' : 'is stopped already';
}
