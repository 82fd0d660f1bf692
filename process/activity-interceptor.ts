import type { Context, Info } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { failureTypes, isFailureType } from '../api/core/failure.ts';
import type { Logger } from './log.ts';

/** How an attempt ended, as a metric label: a closed list, so that the number of series is bounded. */
export const activityOutcomes = ['done', 'cancelled', ...failureTypes, 'Error'] as const;

export type ActivityOutcome = (typeof activityOutcomes)[number];

/** The part of a histogram that is needed here. */
interface ActivityTimer {
  observe(labels: { activity: string; outcome: ActivityOutcome }, seconds: number): void;
}

/** Measures every activity attempt, and logs its end with workflow ID, activity ID and failure type. */
export function observeActivities(dependencies: {
  readonly log: Logger;
  readonly metrics: { readonly activitySeconds: ActivityTimer };
}): ActivityInterceptorsFactory {
  return (context: Context) => ({
    inbound: {
      async execute(input, next) {
        const startedAtMs = performance.now();
        const report = (outcome: ActivityOutcome, error?: unknown) => {
          const seconds = (performance.now() - startedAtMs) / 1000;
          dependencies.metrics.activitySeconds.observe({ activity: context.info.activityType, outcome }, seconds);
          logEnd(dependencies.log, context.info, outcome, seconds, error);
        };
        try {
          const result = await next(input);
          report('done');
          return result;
        } catch (error) {
          report(outcomeOf(error), error);
          throw error;
        }
      },
    },
  });
}

function outcomeOf(error: unknown): ActivityOutcome {
  if (error instanceof CancelledFailure || (error instanceof Error && error.name === 'AbortError')) return 'cancelled';
  if (error instanceof ApplicationFailure && isFailureType(error.type)) return error.type;
  return 'Error';
}

function logEnd(log: Logger, info: Info, outcome: ActivityOutcome, seconds: number, error: unknown): void {
  const fields = {
    operationId: info.workflowExecution?.workflowId,
    activity: info.activityType,
    activityId: info.activityId,
    attempt: info.attempt,
    outcome,
    seconds: Math.round(seconds * 1000) / 1000,
  };
  if (outcome === 'done' || outcome === 'cancelled') {
    log.debug(fields, 'Activity ended');
  } else if (outcome === 'Error') {
    // An error without a type is a bug; outages and cancellations are normal.
    log.error({ ...fields, err: error }, 'Activity failed');
  } else {
    log.info({ ...fields, failure: error instanceof Error ? error.message : String(error) }, 'Activity failed');
  }
}
