// The verdict about the end of sidecars, from what the runtime and the containers themselves say, and who is told to have
// ended them. Pure, so that the judge can be judged.
import type { Judge } from './judge.ts';

/** What is known about one container, over all of its instances. */
export interface EndedContainer {
  readonly name: string;
  /** As it counted itself. */
  readonly starts: number;
  /** Ends of main processes in nanoseconds since 1970, by the clock of the runtime. */
  readonly endedAtNs: readonly bigint[];
}

export interface EndedSidecar extends EndedContainer {
  /** How often it was told to end, as it counted itself. */
  readonly terms: number;
}

/** What is known about a pod that has finished. */
export interface JobPodEvidence {
  readonly subject: string;
  readonly phase: string | undefined;
  readonly isJobComplete: boolean;
  readonly mains: readonly (EndedContainer & { readonly runs: number })[];
  readonly sidecars: readonly EndedSidecar[];
  /** What sidecars wrote down when they were told to end while a main container had not ended. */
  readonly early: readonly string[];
  /** How often a stop may have been begun: once more for each death of the process that had begun it. */
  readonly mostTerms: number;
  /** How the kubelet ends what is left of a pod whose phase was written for it is its own business. */
  readonly byKubelet: boolean;
  /** Messages of Events about the pod. */
  readonly told: readonly string[];
  readonly request: string;
  readonly isRequestComplete: boolean;
  /** What is still open, or still waits. */
  readonly open: readonly string[];
}

/** Everything that is not as promised, in words. */
export const jobPodViolations: Judge<JobPodEvidence> = (evidence) => {
  const { phase, isJobComplete, mains, early, open } = evidence;
  const found = [
    ...(phase === 'Succeeded' ? [] : [`pod is ${phase}`]),
    ...(isJobComplete ? [] : ['job is not complete']),
    ...mains.flatMap(({ name, starts, runs, endedAtNs }) => [
      ...(starts === runs ? [] : [`${name} was started ${starts} times, not ${runs}`]),
      ...(endedAtNs.length === runs ? [] : [`${name} ended ${endedAtNs.length} times, not ${runs}`]),
    ]),
    ...early.map((text) => `a sidecar was told to end too early: ${text}`),
    ...evidence.sidecars.flatMap((sidecar) => sidecarViolations(sidecar, evidence)),
    ...toldViolations(evidence),
    ...open,
  ];
  return found.map((text) => `${evidence.subject}: ${text}`);
};

function sidecarViolations(
  { name, starts, terms, endedAtNs }: EndedSidecar,
  { mains, mostTerms, byKubelet }: JobPodEvidence,
): readonly string[] {
  const mainsEnded = mains.flatMap((main) => main.endedAtNs);
  return [
    ...(starts === 1 ? [] : [`${name} was started ${starts} times`]),
    ...(endedAtNs.length === 1 ? [] : [`${name} ended ${endedAtNs.length} times`]),
    ...(endedAtNs.some((at) => mainsEnded.some((main) => at < main)) ? [`${name} ended before a main container`] : []),
    ...(terms === 0 ? [`${name} was never told to end`] : []),
    ...(terms > mostTerms && !byKubelet ? [`${name} was told to end ${terms} times`] : []),
  ];
}

/** By whom each sidecar was ended. */
function toldViolations(evidence: JobPodEvidence): readonly string[] {
  const { sidecars, told, request, isRequestComplete, byKubelet, mostTerms } = evidence;
  const names = sidecars.map(({ name }) => name).toSorted();
  const asked = `Kruise SidecarTerminator is trying to terminate sidecar [${names.join(' ')}] using crr`;
  if (byKubelet) return [];
  const missing = names
    .map((name) => `Stopping container ${name} by ContainerRecreateRequest ${request}`)
    .filter((text) => !told.includes(text));
  // A daemon sends Events in the background, like a kubelet: those that wait when it is killed are lost with it.
  const mayBeLost = mostTerms - 1;
  return [
    ...(told.includes(asked) ? [] : [`no Event says "${asked}"`]),
    ...(missing.length > mayBeLost ? missing.map((text) => `no Event says "${text}"`) : []),
    ...(isRequestComplete ? [] : [`request ${request} is not complete`]),
  ];
}
