import { ApplicationFailure } from '@temporalio/common';
import { shortened } from '../../workflows/plan/text-size.ts';

/** The runtime comes back within seconds or not for long, so a long back-off would only cost time. */
const runtimeRetryMs = 1_000;

/** Texts of runtimes travel through histories. */
const longestWhyBytes = 900;

/** Why something could not be done, in the words of somebody else, cut to what a history holds. */
export function whyOf(text: string): string {
  return shortened(text, longestWhyBytes);
}

/** The runtime or the API server cannot say what it was asked; it is asked again soon. */
export function unreachable(attempted: string, why: string): ApplicationFailure {
  const message = `${attempted}: ${whyOf(why)}`;
  return ApplicationFailure.create({ type: 'Unreachable', message, nextRetryDelay: runtimeRetryMs });
}

/** The world has moved on: who asked has to decide anew. */
export function superseded(attempted: string, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Superseded', message: `${attempted}: ${whyOf(why)}`, nonRetryable: true });
}

/** What was asked for makes no sense here. */
export function invalid(attempted: string, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Invalid', message: `${attempted}: ${whyOf(why)}`, nonRetryable: true });
}
