import { apiVersionOf } from '../api/core/meta.ts';
import { protectedKinds } from '../api/deletion-protection.ts';
import { storageClassProblem, storageClassWarning, templateChange } from '../api/stateful-set/claim-templates.ts';
import { convertStatefulSet } from '../api/stateful-set/convert.ts';
import { defaultStatefulSet } from '../api/stateful-set/defaults.ts';
import { statefulSetLimitProblems } from '../api/stateful-set/limits.ts';
import { statefulSets, statefulSetVersion } from '../api/stateful-set/types.ts';
import { statefulSetWarnings, validateStatefulSet, validateStatefulSetUpdate } from '../api/stateful-set/validate.ts';
import { type Found, type LookedUp, nothingFound, type WorkloadChange, type WorkloadRules } from './workload.ts';

/** Objects are judged as they are stored: one in v1alpha1 has fields of v1beta1 in an annotation. */
export const statefulSetRules: WorkloadRules = {
  kind: statefulSets.kind,
  protection: protectedKinds.AdvancedStatefulSet,
  versionOf: statefulSetVersion,
  defaulted: defaultStatefulSet,
  problemsOf: (change) => {
    const { after, before } = asStored(change);
    return before ? validateStatefulSetUpdate(before, after) : validateStatefulSet(after);
  },
  limitProblemsOf: (change) => {
    const { after, before } = asStored(change);
    return statefulSetLimitProblems(after, before);
  },
  warningsOf: ({ after }, gates) => {
    const { object, warnings } = stored(after);
    return [...warnings, ...statefulSetWarnings(object, gates)];
  },
  lookedUp: claimTemplates,
};

/** AS-95. */
async function claimTemplates(change: WorkloadChange, { lookUps, gates, signal }: LookedUp): Promise<Found> {
  const { after, before } = asStored(change);
  if (before === undefined || !gates.StatefulSetAutoResizePVCGate) return nothingFound;
  const { problems, resized } = templateChange(before, after);
  const classes = await Promise.all(
    resized.map(async (template) => ({ template, found: await lookUps.storageClass(template.className, signal) })),
  );
  return {
    problems: [...problems, ...classes.flatMap(({ template, found }) => storageClassProblem(template, found) ?? [])],
    warnings: classes.flatMap(({ template, found }) => storageClassWarning(template, found) ?? []),
  };
}

function asStored({ after, before }: WorkloadChange): WorkloadChange {
  return { after: stored(after).object, before: before && stored(before).object };
}

function stored(object: WorkloadChange['after']) {
  return convertStatefulSet(object, apiVersionOf(statefulSets)) ?? { object, warnings: [] };
}
