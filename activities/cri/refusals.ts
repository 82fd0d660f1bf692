import { ApplicationFailure } from '@temporalio/common';

/** The runtime comes back within seconds or not for long, so a long back-off would only cost time. */
const runtimeRetryMs = 1_000;

/** The runtime or the API server cannot say what it was asked; it is asked again soon. */
export function unreachable(attempted: string, why: string): ApplicationFailure {
  const message = `${attempted}: ${why}`;
  return ApplicationFailure.create({ type: 'Unreachable', message, nextRetryDelay: runtimeRetryMs });
}

/** The world has moved on: who asked has to decide anew. */
export function superseded(attempted: string, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Superseded', message: `${attempted}: ${why}`, nonRetryable: true });
}

/** What was asked for makes no sense here. */
export function invalid(attempted: string, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Invalid', message: `${attempted}: ${why}`, nonRetryable: true });
}
