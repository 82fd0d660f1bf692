import { type WorkflowInterceptorsFactory, workflowInfo } from '@temporalio/workflow';
import { treatmentOf } from './treatments.ts';

/** Makes the activity under test time out for good, and soon, if that is its treatment. */
export const interceptors: WorkflowInterceptorsFactory = () => {
  const { activity, treatment } = treatmentOf(workflowInfo().workflowId);
  let isFirst = true;
  const isDue = (activityType: string) => {
    if (treatment !== 'timedOut' || activityType !== activity || !isFirst) return false;
    isFirst = false;
    return true;
  };
  const short = { startToCloseTimeout: 400, retry: { maximumAttempts: 1 } } as const;
  return {
    outbound: [
      {
        async scheduleActivity(input, next) {
          if (!isDue(input.activityType)) return await next(input);
          return await next({ ...input, options: { ...input.options, ...short } });
        },
      },
    ],
  };
};
