// The verdict, from what the witnesses say: pod versions out of a watch, the runtime's own list and events, what the
// containers wrote down, and only then our own status. Pure, so that the judge can be judged.
import { type ContainerRecreateRequest, isCompleted } from '../../../api/container-recreate-request/types.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { heldKeys } from '../../../api/core/pod-readiness.ts';
import { crrLabel, podReadinessGate } from '../../../api/core/well-known.ts';
import { containersOf, type PodVersion } from '../pod-record.ts';
import type { RuntimeInstance } from '../runtime-record.ts';
import type { Judge } from './judge.ts';

/** What is to have happened to a container. */
export type Expectation =
  /** It was asked for: its instance was stopped once, and the one that followed was left alone. */
  | 'once'
  /** Nobody asked for it, or whoever did took it back in time. */
  | 'never'
  /** The request went away in the middle: it was stopped once, or not at all. */
  | 'atMostOnce';

/** What is known about one container of the pod. */
export interface ContainerEvidence {
  readonly name: string;
  readonly expected: Expectation;
  readonly originalId: string;
  /** As it counted itself. */
  readonly starts: number;
  /** How many later instances were told to end. */
  readonly laterTerms: number;
  readonly preStops: number;
}

/** What is known about a pod whose requests are over. */
export interface Evidence {
  readonly subject: string;
  readonly containers: readonly ContainerEvidence[];
  /** In this order, each only after the one before was ready again. */
  readonly ordered: readonly (readonly string[])[];
  /** In this order, though the starts may overlap. */
  readonly serial: readonly (readonly string[])[];
  /** How often a hook may have been begun for one stop: once more for each death of the process that ran it. */
  readonly mostPreStops: number;
  /** Absent when the pod is gone. */
  readonly pod?: Pod;
  readonly versions: readonly PodVersion[];
  readonly versionsComplete: boolean;
  readonly instances: readonly RuntimeInstance[];
  /** Ends of main processes, by instance. */
  readonly exits: ReadonlyMap<string, readonly string[]>;
  readonly exitsComplete: boolean;
  /** Those that are still there. */
  readonly requests: readonly ContainerRecreateRequest[];
  readonly operationOpen: boolean;
}

/** Everything that is not as promised, in words. */
export const violationsIn: Judge<Evidence> = (evidence) => {
  const found = [
    ...(isSandboxReplaced(evidence) ? [] : restartViolations(evidence)),
    ...podViolations(evidence),
    ...evidence.requests.flatMap((request) => requestViolations(request)),
    ...(evidence.operationOpen ? ['its operation is still open in Temporal'] : []),
  ];
  return found.map((text) => `${evidence.subject}: ${text}`);
};

/**
 * A container runtime that was killed may lose the sandbox of a pod; the kubelet then ends all of its containers and makes
 * them anew in another. Of such a pod nobody can say how often which container was to be started.
 */
function isSandboxReplaced({ instances }: Pick<Evidence, 'instances'>): boolean {
  return new Set(instances.map(({ sandbox }) => sandbox)).size > 1;
}

function restartViolations(evidence: Evidence): readonly string[] {
  return [
    ...evidence.containers.flatMap((container) => containerViolations(container, evidence)),
    ...evidence.ordered.flatMap((names) => pairs(names).flatMap((pair) => orderViolations(pair, evidence))),
    ...evidence.serial.flatMap((names) => pairs(names).flatMap((pair) => serialViolations(pair, evidence))),
  ];
}

function containerViolations(container: ContainerEvidence, evidence: Evidence): readonly string[] {
  const { name, expected, starts, laterTerms, preStops } = container;
  const neverRan = neverRanIn(evidence, container);
  const instances = evidence.instances.filter(({ id, container: of }) => of === name && !neverRan.has(id));
  return [
    ...(evidence.pod ? statusViolations(container, evidence.pod, neverRan.size) : []),
    ...(evidence.pod ? listViolations(container, instances) : []),
    ...exitViolations(container, instances, evidence),
    ...versionViolations(container, evidence.versions, neverRan),
    ...(laterTerms > 0 ? [`container ${name}: ${laterTerms} new instances were told to end`] : []),
    ...(starts > mostRestarts(expected) + 1 ? [`container ${name} was started ${starts} times`] : []),
    ...(starts < 2 && expected === 'once' && evidence.pod
      ? [`container ${name} was started ${starts} times only`]
      : []),
    ...(preStops > (expected === 'never' ? 0 : evidence.mostPreStops)
      ? [`container ${name}: its preStop hook was begun ${preStops} times`]
      : []),
  ];
}

/**
 * Instances that never ran, because the runtime failed to start them or died while the kubelet made them; the kubelet
 * then makes another one. Nobody has seen them run: neither the watch nor the runtime. That they did not run without
 * being seen is what the count of the containers themselves makes sure of.
 */
function neverRanIn(
  { versions, instances, exits }: Evidence,
  { name, originalId }: ContainerEvidence,
): ReadonlySet<string> {
  const seen = versions.flatMap(({ containers }) => containers.filter((container) => container.name === name));
  const listed = instances.filter(({ container }) => container === name);
  const ran = new Set([
    originalId,
    ...exits.keys(),
    ...seen.filter(({ running }) => running).map(({ id }) => id),
    ...listed.filter(({ running }) => running).map(({ id }) => id),
  ]);
  const known = [
    ...seen.map(({ id }) => id),
    ...seen.flatMap(({ neverRan }) => neverRan ?? []),
    ...listed.map(({ id }) => id),
  ];
  return new Set(known.filter((id) => id !== '' && !ran.has(id)));
}

function mostRestarts(expected: Expectation): number {
  return expected === 'never' ? 0 : 1;
}

/** The kubelet's word, now. */
function statusViolations(
  { name, expected, originalId }: ContainerEvidence,
  pod: Pod,
  failedStarts: number,
): readonly string[] {
  const now = containersOf(pod).find((container) => container.name === name);
  if (!now) return [`container ${name} is not in the status of the pod`];
  const least = expected === 'once' ? 1 : 0;
  const problems: string[] = [];
  if (now.restartCount < least || now.restartCount > mostRestarts(expected) + failedStarts) {
    problems.push(`container ${name} was restarted ${now.restartCount} times by its pod's status, not ${expected}`);
  }
  if (expected === 'once' && now.id === originalId) problems.push(`container ${name} still runs its first instance`);
  if (expected === 'never' && now.id !== originalId)
    problems.push(`container ${name} no longer runs its first instance`);
  if (!now.running || !now.ready) problems.push(`container ${name} does not run or is not ready`);
  return problems;
}

/** The runtime's list, now: the first instance, dead, and the one that followed. Dead ones may have been cleared away. */
function listViolations(
  { name, expected, originalId }: ContainerEvidence,
  instances: readonly RuntimeInstance[],
): readonly string[] {
  const later = instances.filter(({ id }) => id !== originalId);
  const original = instances.find(({ id }) => id === originalId);
  const problems: string[] = [];
  if (later.length > mostRestarts(expected)) {
    problems.push(`container ${name}: the runtime lists ${later.length} instances besides the first`);
  }
  if (expected === 'once' && later.length === 0) problems.push(`container ${name}: the runtime lists no new instance`);
  if (expected === 'once' && original?.running) problems.push(`container ${name}: its first instance still runs`);
  if (expected === 'never' && !original?.running) problems.push(`container ${name}: its first instance no longer runs`);
  if (later.some(({ running }) => !running)) problems.push(`container ${name}: a new instance does not run`);
  return problems;
}

/** The runtime's events. Those of instances that followed count whether or not some were missed. */
function exitViolations(
  { name, expected, originalId }: ContainerEvidence,
  instances: readonly RuntimeInstance[],
  { exits, exitsComplete, pod }: Evidence,
): readonly string[] {
  if (!pod) return []; // with the pod all of them end
  const ends = exits.get(originalId)?.length ?? 0;
  const problems: string[] = [];
  if (ends > mostRestarts(expected)) problems.push(`container ${name}: its first instance ended ${ends} times`);
  if (expected === 'once' && exitsComplete && ends === 0) {
    problems.push(`container ${name}: the runtime never told of the end of its first instance`);
  }
  for (const { id } of instances) {
    if (id !== originalId && exits.has(id)) problems.push(`container ${name}: new instance ${id} was stopped`);
  }
  return problems;
}

/** The watch: what was ever seen, also if it is over. */
function versionViolations(
  { name, expected }: ContainerEvidence,
  versions: readonly PodVersion[],
  neverRan: ReadonlySet<string>,
): readonly string[] {
  const seen = versions.flatMap(({ containers }) => containers.filter((container) => container.name === name));
  const ids = new Set(seen.map(({ id }) => id).filter((id) => id !== '' && !neverRan.has(id)));
  const most = Math.max(0, ...seen.map(({ restartCount }) => restartCount)) - neverRan.size;
  return [
    ...(ids.size > mostRestarts(expected) + 1 ? [`container ${name}: the watch saw ${ids.size} instances`] : []),
    ...(most > mostRestarts(expected) ? [`container ${name}: the watch saw it restarted ${most} times`] : []),
  ];
}

type Pair = readonly [before: string, after: string];

function pairs(names: readonly string[]): readonly Pair[] {
  return names.slice(1).map((after, index): Pair => [names[index] ?? '', after]);
}

/** In no version of the pod is the second one down before a version has shown the first one ready again. */
function orderViolations([before, after]: Pair, evidence: Evidence): readonly string[] {
  const { versions, versionsComplete } = evidence;
  const down = versions.findIndex((version) => !version.deleted && isDown(version, after, originalIn(evidence, after)));
  if (down < 0) return versionsComplete && wasAskedFor(evidence, after) ? [`the watch never saw ${after} down`] : [];
  const back = versions.findIndex((version) => isBack(version, before, originalIn(evidence, before)));
  if (back >= 0 && back < down) return serialViolations([before, after], evidence);
  // of a version that was missed nobody knows what it showed
  return versionsComplete ? [`${after} was stopped before ${before} was ready again`] : [];
}

/** The first instance of the one ended before that of the other, by the clock of their runtime. */
function serialViolations([before, after]: Pair, evidence: Evidence): readonly string[] {
  if (!evidence.pod) return []; // they all ended with it
  const [first] = evidence.exits.get(originalIn(evidence, before)) ?? [];
  const [second] = evidence.exits.get(originalIn(evidence, after)) ?? [];
  if (first === undefined || second === undefined) return [];
  return inNanoseconds(first) < inNanoseconds(second) ? [] : [`${after} ended at ${second}, ${before} at ${first}`];
}

/** A time of the runtime, `2026-01-01T00:00:00.123456789Z`, whose fraction may be shorter. */
export function inNanoseconds(time: string): bigint {
  const [whole = '', fraction = ''] = time.replace('Z', '').split('.');
  return BigInt(Date.parse(`${whole}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
}

function originalIn({ containers }: Evidence, name: string): string {
  return containers.find((container) => container.name === name)?.originalId ?? '';
}

function wasAskedFor({ containers }: Evidence, name: string): boolean {
  return containers.some((container) => container.name === name && container.expected === 'once');
}

function isDown({ containers }: PodVersion, name: string, originalId: string): boolean {
  const now = containers.find((container) => container.name === name);
  return now !== undefined && now.id !== '' && (now.id !== originalId || !now.running);
}

function isBack({ containers }: PodVersion, name: string, originalId: string): boolean {
  const now = containers.find((container) => container.name === name);
  return now !== undefined && now.id !== '' && now.id !== originalId && now.running && now.ready;
}

/** Nothing is held, and traffic comes back. */
function podViolations({ pod }: Evidence): readonly string[] {
  if (!pod) return [];
  const conditions = pod.status?.conditions ?? [];
  const problems = heldKeys(conditions).map(({ key }) => `key "${key}" is still on the pod`);
  const gate = conditions.find(({ type }) => type === podReadinessGate);
  if (gate && gate.status !== 'True') problems.push(`readiness gate is ${gate.status}`);
  const ready = conditions.find(({ type }) => type === 'Ready');
  if (ready?.status !== 'True') problems.push(`pod is not ready: ${ready?.reason ?? ''} ${ready?.message ?? ''}`);
  return problems;
}

function requestViolations(request: ContainerRecreateRequest): readonly string[] {
  const { metadata, spec, status } = request;
  const problems: string[] = [];
  if (!isCompleted(request)) problems.push(`is ${status?.phase || 'new'}: ${JSON.stringify(status?.waitingFor)}`);
  const states = spec.containers.map(({ name }) =>
    status?.containerRecreateStates?.find((state) => state.name === name),
  );
  if (!states.every((state) => state?.phase === 'Succeeded' && state.isKilled)) {
    problems.push(`says of its containers ${JSON.stringify(status?.containerRecreateStates)}`);
  }
  if (isCompleted(request)) {
    const complete = status?.conditions?.find(({ type }) => type === 'Complete');
    if (complete?.status !== 'True') problems.push(`lacks condition Complete: ${JSON.stringify(status?.conditions)}`);
    if (status?.message) problems.push(`completed with message "${status.message}"`);
    if (status?.waitingFor) problems.push(`completed and still waits for ${status.waitingFor.reason}`);
    if (status?.completionTime === undefined) problems.push('completed without a time');
    if (metadata.labels?.[crrLabel.active] !== undefined) problems.push('completed and still has label active');
  }
  if ((metadata.finalizers ?? []).length > 0) problems.push(`holds finalizers ${metadata.finalizers?.join(', ')}`);
  return problems.map((text) => `request ${metadata.name} ${text}`);
}
