// The verdict about the results of probes, from what every version of a pod has shown. Pure, so that the judge can be
// judged.

import type { Pod } from '../../../api/core/pod.ts';
import type { ContainerProbeState } from '../../../api/node-pod-probe/types.ts';
import type { Judge } from './judge.ts';

/** What is known about one probe of one pod, since its first result was there. */
export interface ProbeEvidence {
  readonly subject: string;
  readonly conditionType: string;
  /** The label that says the same, `yes` or `no`; absent when there is none. */
  readonly label?: string;
  /** What was the case, one value after the other. */
  readonly truth: readonly boolean[];
  /** Every version of the pod, oldest first. */
  readonly versions: readonly Pod[];
  /** What each version of the list of its node said of this probe; undefined where it said nothing. */
  readonly states: readonly (ContainerProbeState | undefined)[];
}

/** Everything that is not as promised, in words. */
export const probeViolations: Judge<ProbeEvidence> = (evidence) => {
  const { subject, conditionType, label, truth, versions, states } = evidence;
  const expected = truth.map((is) => (is ? 'True' : 'False'));
  const shown = changes(versions.map((pod) => conditionOf(pod, conditionType)?.status));
  const found = changes(states.map((state) => state?.state));
  const times = new Set(versions.map((pod) => conditionOf(pod, conditionType)?.lastTransitionTime));
  const last = versions.at(-1)?.metadata.labels?.[label ?? ''];
  const wanted = truth.at(-1) ? 'yes' : 'no';
  const problems = [
    ...(shown.join() === expected.join() ? [] : [`was ${expected.join()}, and the pod showed ${shown.join()}`]),
    ...(times.size > truth.length ? [`changed ${times.size} times by its own word, not ${truth.length}`] : []),
    ...(label !== undefined && last !== wanted ? [`ends with label ${last}, not ${wanted}`] : []),
    ...(found.join() === truth.map((is) => (is ? 'Succeeded' : 'Failed')).join()
      ? []
      : [`was ${expected.join()}, and its node said ${found.join()}`]),
  ];
  return problems.map((text) => `${subject} ${conditionType} ${text}`);
};

function conditionOf({ status }: Pod, conditionType: string) {
  return status?.conditions?.find(({ type }) => type === conditionType);
}

/** Each value that differs from the one before it. */
function changes(values: readonly (string | undefined)[]): readonly string[] {
  return values.filter((value, index) => index === 0 || value !== values[index - 1]).map(String);
}
