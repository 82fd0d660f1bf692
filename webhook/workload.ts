import { isJsonObject, type JsonObject, objectOr } from '../api/base/json.ts';
import type { FieldError } from '../api/core/field-error.ts';
import { group, installation } from '../api/core/well-known.ts';
import { type ProtectedKind, protectionWarnings } from '../api/deletion-protection.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { changesPods, probeProblems, templateProbe } from '../api/fleet/template-probe.ts';
import type { LookUps } from './review/look-ups.ts';
import type { PodTrials } from './review/pod-trial.ts';
import {
  type AdmissionRequest,
  isBeingDeleted,
  objectOf,
  type Review,
  unknownFields,
  type Verdict,
} from './review/review.ts';
import { MalformedBody } from './server/server.ts';

/** What a review has found. */
export interface Found {
  readonly problems: readonly FieldError[];
  readonly warnings: readonly string[];
}

export const nothingFound: Found = { problems: [], warnings: [] };

/** A workload as it is to become, and as it is. */
export interface WorkloadChange {
  readonly after: JsonObject;
  /** Absent: it is created. */
  readonly before?: JsonObject | undefined;
}

/** What has to be known of a kind of workload to judge it. Objects are in the version of the request. */
export interface WorkloadRules {
  /** `CloneSet` */
  readonly kind: string;
  /** Absent: its objects are not protected from deletion. */
  readonly protection?: ProtectedKind;
  /** Its version, if it is an object of this kind. */
  readonly versionOf: (object: JsonObject) => string | undefined;
  readonly defaulted: (object: JsonObject, gates: FeatureGates, before: JsonObject | undefined) => JsonObject;
  /** All that can be found without the API server, and what of it is about size. */
  readonly problemsOf: (change: WorkloadChange) => readonly FieldError[];
  readonly limitProblemsOf: (change: WorkloadChange) => readonly FieldError[];
  readonly warningsOf: (change: WorkloadChange, gates: FeatureGates) => readonly string[];
  /** What only this kind looks up before it accepts a change. Absent: nothing. */
  readonly lookedUp?: (change: WorkloadChange, of: LookedUp) => Promise<Found>;
  /** Warnings about what is looked up once a change is accepted. Absent: none. */
  readonly lookedUpWarnings?: (change: WorkloadChange, of: LookedUp) => Promise<readonly string[]>;
}

export interface LookedUp {
  readonly namespace: string;
  readonly lookUps: Pick<LookUps, 'pod' | 'revision' | 'storageClass'>;
  readonly gates: FeatureGates;
  readonly signal: AbortSignal;
}

export interface WorkloadJudge {
  readonly gates: FeatureGates;
  readonly lookUps: LookedUp['lookUps'];
  readonly trials: PodTrials;
  /** The review of deletions: `reviewDeletion` of the kind. Absent: all are allowed. */
  readonly deletion?: Review;
}

/** Sets defaults in workloads. Objects stay in the version of the request. */
export function reviewWorkloadDefaults(rules: WorkloadRules, gates: FeatureGates): Review {
  return (request) => {
    switch (request.operation) {
      case 'CREATE':
      case 'UPDATE': {
        const object = objectOf(request);
        mustBe(rules, object);
        if (isBeingDeleted(request)) return { kind: 'allowed' };
        return { kind: 'allowed', object: rules.defaulted(object, gates, request.oldObject) };
      }
      case 'DELETE':
      case 'CONNECT':
        return { kind: 'allowed' };
    }
  };
}

/** Validates new and changed workloads, and rejects the deletion of protected ones. */
export function reviewWorkload(rules: WorkloadRules, { gates, lookUps, trials, deletion }: WorkloadJudge): Review {
  return async (request, signal) => {
    switch (request.operation) {
      case 'CREATE':
        return await judge(request, { after: objectOf(request) });
      case 'UPDATE':
        if (request.oldObject === undefined) throw new MalformedBody('request.oldObject is not an object');
        return await judge(request, { after: objectOf(request), before: request.oldObject });
      case 'DELETE':
        return deletion ? await deletion(request, signal) : { kind: 'allowed' };
      case 'CONNECT':
        return { kind: 'allowed' };
    }

    async function judge(request: AdmissionRequest, change: WorkloadChange): Promise<Verdict> {
      const { after } = change;
      mustBe(rules, after);
      if (isBeingDeleted(request)) return { kind: 'allowed' };
      const seen = rules.problemsOf(change);
      // The API server needs more than ten seconds for a dry run of a pod with 20,000 volumes.
      const isTooLarge = seen.length > 0 && rules.limitProblemsOf(change).length > 0;
      if (isTooLarge) return { kind: 'refused', code: 422, errors: seen };
      const of = { namespace: request.namespace, lookUps, gates, signal };
      const [found, tried] = await Promise.all([
        rules.lookedUp?.(change, of) ?? nothingFound,
        tryTemplate(request, change, { trials, signal }),
      ]);
      const problems = [...seen, ...found.problems, ...tried.problems];
      if (problems.length > 0) return { kind: 'refused', code: 422, errors: problems };
      const ofLabel = rules.protection ? protectionWarnings(rules.protection, after, gates) : [];
      const others = (await rules.lookedUpWarnings?.(change, of)) ?? [];
      return {
        kind: 'allowed',
        warnings: [...rules.warningsOf(change, gates), ...ofLabel, ...found.warnings, ...tried.warnings, ...others],
      };
    }
  };
}

function mustBe({ kind, versionOf }: WorkloadRules, object: JsonObject): void {
  if (versionOf(object) === undefined) throw new MalformedBody(`request.object is not a ${kind} of ${group.apps}`);
}

/** Has the API server judge a pod like those of the template, in a dry run. */
async function tryTemplate(
  request: AdmissionRequest,
  { after, before }: WorkloadChange,
  { trials, signal }: { readonly trials: PodTrials; readonly signal: AbortSignal },
): Promise<Found> {
  const isPods = isJsonObject(objectOr(after.spec).template) && changesPods(before, after);
  if (!isPods) return nothingFound;
  const probe = templateProbe(after, installation.dryRunNamespace);
  const trial = await trials.tryPod(probe.pod, signal);
  const causes = trial.kind === 'refused' ? trial.causes : [];
  const unanswered = trial.kind === 'unanswered' ? [`spec.template could not be checked: ${trial.why}`] : [];
  const unknown = unknownFields(request, (trial.unknown ?? []).map(probe.pathInSet));
  return {
    problems: [...probeProblems(after, probe, causes), ...unknown.problems],
    warnings: [...unanswered, ...unknown.warnings],
  };
}
