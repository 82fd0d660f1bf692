import { isJsonObject, type JsonObject, objectOr } from '../api/base/json.ts';
import { defaultCloneSet } from '../api/cloneset/defaults.ts';
import { cloneSetLimitProblems } from '../api/cloneset/limits.ts';
import { cloneSetVersion } from '../api/cloneset/types.ts';
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
import { installation } from '../api/core/well-known.ts';
import { type ProtectionGates, protectedKinds, protectionWarnings } from '../api/deletion-protection.ts';
import { templateOf } from '../api/fleet/revision.ts';
import type { TemplateGates } from '../api/fleet/template-defaults.ts';
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

export interface CloneSetJudge {
  readonly gates: ProtectionGates;
  readonly lookUps: Pick<LookUps, 'pod' | 'revision'>;
  readonly trials: PodTrials;
  /** The review of deletions: `reviewDeletion` of the kind. */
  readonly deletion: Review;
}

/** Sets defaults in CloneSets. Objects stay in the version of the request. */
export function reviewCloneSetDefaults(gates: TemplateGates): Review {
  return (request) => {
    switch (request.operation) {
      case 'CREATE':
      case 'UPDATE': {
        const object = objectOf(request);
        if (cloneSetVersion(object) === undefined)
          throw new MalformedBody('request.object is not a CloneSet of apps.kruise.io');
        if (isBeingDeleted(request)) return { kind: 'allowed' };
        return { kind: 'allowed', object: defaultCloneSet(object, gates, request.oldObject) };
      }
      case 'DELETE':
      case 'CONNECT':
        return { kind: 'allowed' };
    }
  };
}

/** Validates new and changed CloneSets, and rejects the deletion of protected ones. */
export function reviewCloneSet({ gates, lookUps, trials, deletion }: CloneSetJudge): Review {
  return async (request, signal) => {
    switch (request.operation) {
      case 'CREATE':
        return await judge(request, objectOf(request), undefined);
      case 'UPDATE':
        if (request.oldObject === undefined) throw new MalformedBody('request.oldObject is not an object');
        return await judge(request, objectOf(request), request.oldObject);
      case 'DELETE':
        return await deletion(request, signal);
      case 'CONNECT':
        return { kind: 'allowed' };
    }

    async function judge(
      request: AdmissionRequest,
      after: JsonObject,
      before: JsonObject | undefined,
    ): Promise<Verdict> {
      if (cloneSetVersion(after) === undefined)
        throw new MalformedBody('request.object is not a CloneSet of apps.kruise.io');
      if (isBeingDeleted(request)) return { kind: 'allowed' };
      const seen = before === undefined ? validateCloneSet(after) : validateCloneSetUpdate(before, after);
      // The API server needs more than ten seconds for a dry run of a pod with 20,000 volumes.
      const isTooLarge = seen.length > 0 && cloneSetLimitProblems(after, before).length > 0;
      if (isTooLarge) return { kind: 'refused', code: 422, errors: seen };
      const [named, tried] = await Promise.all([
        namedPods(request.namespace, after, before),
        tryTemplate(request, after, before),
      ]);
      const problems = [...seen, ...named.problems, ...tried.problems];
      if (problems.length > 0) return { kind: 'refused', code: 422, errors: problems };
      const lost = await warnOfLostClaims(request.namespace, after, before);
      const ofLabel = protectionWarnings(protectedKinds.CloneSet, after, gates);
      return {
        kind: 'allowed',
        warnings: [...cloneSetWarnings(after, before), ...ofLabel, ...named.warnings, ...tried.warnings, ...lost],
      };
    }

    async function namedPods(namespace: string, after: JsonObject, before: JsonObject | undefined) {
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

    async function warnOfLostClaims(
      namespace: string,
      after: JsonObject,
      before: JsonObject | undefined,
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

    async function tryTemplate(
      request: AdmissionRequest,
      after: JsonObject,
      before: JsonObject | undefined,
    ): Promise<{ readonly problems: readonly FieldError[]; readonly warnings: readonly string[] }> {
      const isPods = isJsonObject(objectOr(after.spec).template) && changesPods(before, after);
      if (!isPods) return { problems: [], warnings: [] };
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
  };
}

/** New names of one review that are looked up; the planner ignores names that are no pods of the CloneSet. */
const lookedUpPods = 100;

/** The number of names that a message lists. */
const reportedPods = 10;
