// Whether the answer to a hostile write is a good one. Written down once more from the rules, and not with the code that
// is on trial.
import type { Mutant } from './mutants.ts';

/** A pod that a request may be about, as the API server shows it. */
export interface KnownPod {
  readonly uid: string;
  readonly nodeName: string;
  /** Container ID, by name. */
  readonly containers: ReadonlyMap<string, string>;
}

/** What came back. */
export interface WriteAnswer {
  readonly status: number;
  readonly body: string;
}

/** How an answer is counted, and what is wrong with it. */
export interface AnswerVerdict {
  readonly kind: 'accepted' | 'refused by admission' | 'refused by schema' | 'refused by the API server';
  readonly violation?: string;
}

/** Each write is refused with a field path, or accepted and then complete and harmless. */
export function judgeAnswer(
  mutant: Mutant,
  { status, body }: WriteAnswer,
  world: { readonly namespace: string; readonly pods: ReadonlyMap<string, KnownPod>; readonly existing: unknown },
): AnswerVerdict {
  if (status >= 200 && status < 300) {
    const object: unknown = JSON.parse(body);
    const problems = mutant.method === 'POST' ? newProblems(object, world) : changeProblems(object, world.existing);
    return problems.length === 0 ? { kind: 'accepted' } : { kind: 'accepted', violation: problems.join('; ') };
  }
  const answer = parsed(body);
  const message = String(at(answer, 'message') ?? body);
  const causes = at(answer, 'details', 'causes');
  const byAdmission = message.includes('admission webhook');
  const kind = byAdmission
    ? 'refused by admission'
    : status === 422
      ? 'refused by schema'
      : 'refused by the API server';
  const isOurs = byAdmission || message.includes('webhook');
  if (status === 500 && !isOurs && ownErrors.test(message)) return { kind };
  if (status < 400 || status >= 500) return { kind, violation: `answered ${status}: ${message.slice(0, 300)}` };

  const hasField = Array.isArray(causes) && causes.some((cause) => Boolean(at(cause, 'field')));
  const namesField = /\b(spec|metadata|status|apiVersion|kind)\b/.test(message);
  if (hasField || namesField || ownWords.test(message)) return { kind };
  return { kind, violation: `refused with ${status} and without a field: ${message.slice(0, 300)}` };
}

/** What the API server says before it knows of fields: about the text as a whole, its names, its kind. */
const ownWords =
  /unmarshal|decod|invalid character|unexpected end|couldn't get version|does not match|cannot be handled|yaml|too large|Object '(Kind|apiVersion)'|already exists|not found|name (or generateName )?is required|name must be provided|the namespace of the (provided )?object|resource name may not be empty|merge patch|must be specified|Precondition failed|the object has been modified|duplicate field|nesting|depth/i;

/** What the API server answers with 500, for every kind, when a patch spoils `resourceVersion` or `apiVersion`. */
const ownErrors = /strconv\.ParseUint: parsing|is unstructured and is not suitable for converting/;

function newProblems(object: unknown, { namespace, pods }: Parameters<typeof judgeAnswer>[2]): readonly string[] {
  const spec = at(object, 'spec');
  const labels = at(object, 'metadata', 'labels');
  const strategy = at(spec, 'strategy');
  const pod = pods.get(String(at(spec, 'podName')));
  if (!pod) return [`accepted for pod ${JSON.stringify(at(spec, 'podName'))}, which there is not`];
  const containers = at(spec, 'containers');
  const names = Array.isArray(containers) ? containers.map((container) => at(container, 'name')) : [];
  const ttl = at(spec, 'ttlSecondsAfterFinished');
  const isBeta = at(object, 'apiVersion') === 'apps.kruise.io/v1beta1';
  const checks: readonly (readonly [ok: boolean, problem: string])[] = [
    [at(object, 'metadata', 'namespace') === namespace, 'is in another namespace'],
    [at(labels, 'crr.apps.kruise.io/pod-uid') === pod.uid, 'has another pod UID'],
    [at(labels, 'crr.apps.kruise.io/node-name') === pod.nodeName, 'has another node'],
    [at(labels, 'crr.apps.kruise.io/active') === 'true', 'is not active'],
    [names.length > 0 && new Set(names).size === names.length, `names containers ${JSON.stringify(names)}`],
    [
      Array.isArray(containers) && containers.every((container) => isFilled(container, pod)),
      `has containers ${JSON.stringify(containers)}`,
    ],
    [['Fail', 'Ignore'].includes(String(at(strategy, 'failurePolicy'))), 'has no failurePolicy'],
    [isWhole(at(strategy, 'terminationGracePeriodSeconds'), 0), 'has no grace period'],
    [isWholeOrAbsent(at(strategy, 'unreadyGracePeriodSeconds'), 0), 'has an odd unreadyGracePeriodSeconds'],
    [isWholeOrAbsent(at(strategy, 'minStartedSeconds'), isBeta ? 0 : -(2 ** 31)), 'has an odd minStartedSeconds'],
    [isWholeOrAbsent(at(spec, 'activeDeadlineSeconds'), 3), 'has an odd activeDeadlineSeconds'],
    [isWholeOrAbsent(ttl, isBeta ? 0 : -(2 ** 31)), 'has an odd ttlSecondsAfterFinished'],
    [at(object, 'status', 'phase') === undefined || at(object, 'status', 'phase') === '', 'was born with a phase'],
  ];
  return checks.flatMap(([ok, problem]) => (ok ? [] : [`accepted, and ${problem}`]));
}

function isFilled(container: unknown, pod: KnownPod): boolean {
  const id = pod.containers.get(String(at(container, 'name')));
  const context = at(container, 'statusContext');
  return id !== undefined && at(context, 'containerID') === id && isWhole(at(context, 'restartCount'), 0);
}

/** Spec and the labels that tie a request to its pod stay as they were, whatever was sent. */
function changeProblems(object: unknown, existing: unknown): readonly string[] {
  const bound = ['crr.apps.kruise.io/pod-uid', 'crr.apps.kruise.io/node-name'];
  const problems: string[] = [];
  if (!sameJson(at(object, 'spec'), at(existing, 'spec'))) problems.push('accepted, and the spec has changed');
  for (const label of bound) {
    if (at(object, 'metadata', 'labels', label) !== at(existing, 'metadata', 'labels', label)) {
      problems.push(`accepted, and label ${label} has changed`);
    }
  }
  return problems;
}

function isWhole(value: unknown, least: number): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= least;
}

function isWholeOrAbsent(value: unknown, least: number): boolean {
  return value === undefined || isWhole(value, least);
}

function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) =>
      typeof inner === 'object' && inner !== null ? (inner as Readonly<Record<string, unknown>>)[key] : undefined,
    value,
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function sameJson(left: unknown, right: unknown): boolean {
  return sorted(left) === sorted(right);
}

function sorted(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
