import { objectOr } from '../api/base/json.ts';
import { defaultCloneSet } from '../api/cloneset/defaults.ts';
import { cloneSetLimitProblems } from '../api/cloneset/limits.ts';
import { cloneSets, cloneSetVersion } from '../api/cloneset/types.ts';
import {
  cloneSetWarnings,
  lostClaims,
  lostClaimWarnings,
  namedPodProblem,
  newlyNamedPods,
  podsToDeletePath,
  validateCloneSet,
  validateCloneSetUpdate,
} from '../api/cloneset/validate.ts';
import type { FieldError } from '../api/core/field-error.ts';
import { protectedKinds } from '../api/deletion-protection.ts';
import { templateOf } from '../api/fleet/revision.ts';
import type { Found, LookedUp, WorkloadChange, WorkloadRules } from './workload.ts';

export const cloneSetRules: WorkloadRules = {
  kind: cloneSets.kind,
  protection: protectedKinds.CloneSet,
  versionOf: cloneSetVersion,
  defaulted: defaultCloneSet,
  problemsOf: ({ after, before }) => (before ? validateCloneSetUpdate(before, after) : validateCloneSet(after)),
  limitProblemsOf: ({ after, before }) => cloneSetLimitProblems(after, before),
  warningsOf: ({ after, before }) => cloneSetWarnings(after, before),
  lookedUp: namedPods,
  lookedUpWarnings: lostClaimsOf,
};

/** New names of one review that are looked up; the planner ignores names that are no pods of the CloneSet. */
const lookedUpPods = 100;

/** The number of names that a message lists. */
const reportedPods = 10;

async function namedPods({ after, before }: WorkloadChange, { namespace, lookUps, signal }: LookedUp): Promise<Found> {
  const names = newlyNamedPods(after, before);
  const checked = names.slice(0, lookedUpPods);
  const problems: FieldError[] = [];
  // One after the other: a list of thousands must not occupy all connections.
  for (const name of checked) {
    const problem = namedPodProblem(after, name, await lookUps.pod(namespace, name, signal));
    if (problem !== undefined) problems.push(problem);
    if (problems.length === reportedPods) break;
  }
  const unchecked = names.length - checked.length;
  const warnings =
    unchecked === 0 ? [] : [`${podsToDeletePath}: ${unchecked} more names are added than are looked up at once`];
  return { problems, warnings };
}

async function lostClaimsOf(
  { after, before }: WorkloadChange,
  { namespace, lookUps, signal }: LookedUp,
): Promise<readonly string[]> {
  const lost = before && lostClaims(after, before);
  if (lost === undefined) return [];
  const { revision, earlier } = lost;
  // A request is not refused because nobody knows whether there is something to warn of.
  const found = earlier && (await lookUps.revision(namespace, earlier, signal).catch(() => undefined));
  return [
    ...lostClaimWarnings(lost, objectOr(before?.spec).template, revision),
    ...(found ? lostClaimWarnings(lost, templateOf(found), earlier) : []),
  ];
}
