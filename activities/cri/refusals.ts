import { ApplicationFailure } from '@temporalio/common';
import { shortened } from '../../plan/text-size.ts';

/** A runtime is back within seconds or away for long, so a longer back-off would only cost time. */
const runtimeRetryMs = 1_000;

/** The runtime's texts are stored in histories. */
const longestWhyBytes = 900;

/** Another system's error text, shortened for a history. */
export function whyOf(text: string): string {
  return shortened(text, longestWhyBytes);
}

/** The runtime or the API server cannot answer; it is asked again soon. */
export function unreachable(attempted: string, why: string): ApplicationFailure {
  const message = `${attempted}: ${whyOf(why)}`;
  return ApplicationFailure.create({ type: 'Unreachable', message, nextRetryDelay: runtimeRetryMs });
}

/** The state has changed: the caller has to decide again. */
export function superseded(attempted: string, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Superseded', message: `${attempted}: ${whyOf(why)}`, nonRetryable: true });
}

/** The input is invalid here. */
export function invalid(attempted: string, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Invalid', message: `${attempted}: ${whyOf(why)}`, nonRetryable: true });
}
