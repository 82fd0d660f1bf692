import { apiVersionOf } from '../api/core/meta.ts';
import { convertDaemonSet } from '../api/daemon-set/convert.ts';
import { defaultDaemonSet } from '../api/daemon-set/defaults.ts';
import { daemonSetLimitProblems } from '../api/daemon-set/limits.ts';
import { daemonSets, daemonSetVersion } from '../api/daemon-set/types.ts';
import { daemonSetWarnings, validateDaemonSet, validateDaemonSetUpdate } from '../api/daemon-set/validate.ts';
import type { WorkloadRules } from './workload.ts';

/** AD §6: nothing is looked up, and deletions are not reviewed. */
export const daemonSetRules: WorkloadRules = {
  kind: daemonSets.kind,
  versionOf: daemonSetVersion,
  defaulted: (object, _, before) => defaultDaemonSet(object, before),
  problemsOf: ({ after, before }) => (before ? validateDaemonSetUpdate(before, after) : validateDaemonSet(after)),
  limitProblemsOf: ({ after, before }) => daemonSetLimitProblems(after, before),
  warningsOf: ({ after }) => [
    ...(convertDaemonSet(after, apiVersionOf(daemonSets))?.warnings ?? []),
    ...daemonSetWarnings(after),
  ],
};
