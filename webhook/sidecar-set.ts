import { isJsonObject, type JsonObject, objectOr } from '../api/base/json.ts';
import { type FieldError, invalid, newErrors } from '../api/core/field-error.ts';
import { installation } from '../api/core/well-known.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { canaryBase } from '../api/sidecar-set/canary.ts';
import { baseProblems, conflictsOf, hotConflictsOf } from '../api/sidecar-set/conflicts.ts';
import { defaultSidecarSet } from '../api/sidecar-set/defaults.ts';
import { hasTooManySidecars, sidecarSetLimitProblems } from '../api/sidecar-set/limits.ts';
import { textOf } from '../api/sidecar-set/read.ts';
import { changesContent, contentTrial } from '../api/sidecar-set/trial.ts';
import { sidecarSetVersion } from '../api/sidecar-set/types.ts';
import { stored, validateSidecarSet } from '../api/sidecar-set/validate.ts';
import { whitelistProblems } from '../api/sidecar-set/whitelist.ts';
import type { PodTrials } from './review/pod-trial.ts';
import {
  type AdmissionRequest,
  isBeingDeleted,
  objectOf,
  type Review,
  unknownFields,
  type Verdict,
} from './review/review.ts';
import type { AskedRevision, SidecarSetLookUps } from './review/sidecar-set-look-ups.ts';
import { MalformedBody } from './server/server.ts';

export interface SidecarSetJudge {
  readonly gates: Pick<FeatureGates, 'SidecarSetPatchPodMetadataDefaultsAllowed'>;
  readonly lookUps: SidecarSetLookUps;
  readonly trials: PodTrials;
}

/** Sets defaults and hashes in SidecarSets. Objects stay in the version of the request. */
export function reviewSidecarSetDefaults(): Review {
  return (request) => {
    if (request.operation !== 'CREATE' && request.operation !== 'UPDATE') return { kind: 'allowed' };
    const object = sidecarSetIn(request);
    // The hashes of tens of thousands of containers take seconds.
    if (isBeingDeleted(request) || hasTooManySidecars(object)) return { kind: 'allowed' };
    return { kind: 'allowed', object: defaultSidecarSet(object) };
  };
}

/** Validates new and changed SidecarSets, alone and beside the others. */
export function reviewSidecarSet({ gates, lookUps, trials }: SidecarSetJudge): Review {
  return async (request, signal): Promise<Verdict> => {
    if (request.operation !== 'CREATE' && request.operation !== 'UPDATE') return { kind: 'allowed' };
    const given = sidecarSetIn(request);
    if (request.operation === 'UPDATE' && request.oldObject === undefined) {
      throw new MalformedBody('request.oldObject is not an object');
    }
    if (isBeingDeleted(request)) return { kind: 'allowed' };
    const seen = validateSidecarSet(given, request.oldObject);
    const [object, before] = [stored(given), request.oldObject && stored(request.oldObject)];
    // The API server needs more than ten seconds for a dry run of a pod with 20,000 volumes.
    const isTooLarge = seen.problems.length > 0 && sidecarSetLimitProblems(object, before).length > 0;
    if (isTooLarge) return { kind: 'refused', code: 422, errors: seen.problems };

    const [listed, revisions, tried] = await Promise.all([
      notAllowed(object, signal),
      missingRevision(object, signal),
      tryContainers(request, object, before, signal),
    ]);
    const problems = [...seen.problems, ...listed, ...revisions, ...tried.problems];
    if (problems.length > 0) return { kind: 'refused', code: 422, errors: problems };
    const conflicts = await conflictsWithOthers(object, before, signal);
    if (conflicts.length > 0) return { kind: 'refused', code: 422, errors: conflicts };
    return { kind: 'allowed', warnings: [...seen.warnings, ...tried.warnings] };
  };

  async function notAllowed(object: JsonObject, signal: AbortSignal): Promise<readonly FieldError[]> {
    const { patchPodMetadata } = objectOr(object.spec);
    if (!Array.isArray(patchPodMetadata) || patchPodMetadata.length === 0) return [];
    const isOptional = gates.SidecarSetPatchPodMetadataDefaultsAllowed;
    return whitelistProblems(object, await lookUps.whitelist(signal), { isOptional });
  }

  /** SCS-246. */
  async function missingRevision(object: JsonObject, signal: AbortSignal): Promise<readonly FieldError[]> {
    const asked = askedRevision(object);
    if (asked === undefined || (await lookUps.hasRevision(asked, signal))) return [];
    const [field, value] = 'name' in asked ? ['revisionName', asked.name] : ['customVersion', asked.customVersion];
    const detail = `Cannot find specific ControllerRevision, err: there is no ControllerRevision of this ${field}`;
    return [invalid(`spec.injectionStrategy.revision.${field}`, value, detail)];
  }

  /** SCS-252. */
  async function tryContainers(
    request: AdmissionRequest,
    object: JsonObject,
    before: JsonObject | undefined,
    signal: AbortSignal,
  ) {
    if (!isJsonObject(object.spec) || !changesContent(before, object)) return { problems: [], warnings: [] };
    const trial = await trials.tryPod(contentTrial(object, installation.dryRunNamespace), signal);
    const causes = trial.kind === 'refused' ? trial.causes : [];
    const problems = causes.map(({ field = 'spec', message = 'is refused by the API server' }): FieldError => {
      return { field, detail: message };
    });
    const unanswered = trial.kind === 'unanswered' ? [`the containers could not be checked: ${trial.why}`] : [];
    const unknown = unknownFields(request, trial.unknown ?? []);
    return { problems: [...problems, ...unknown.problems], warnings: [...unanswered, ...unknown.warnings] };
  }

  /** SCS-106, SCS-256 to SCS-258, and what only Windlass rejects. */
  async function conflictsWithOthers(object: JsonObject, before: JsonObject | undefined, signal: AbortSignal) {
    const all = await lookUps.all(signal);
    const base = canaryBase(object);
    const ofBase = base === undefined ? undefined : all.find((one) => textOf(objectOr(one.metadata).name) === base);
    return [
      ...baseProblems(object, ofBase),
      ...conflictsOf(object, all),
      ...newErrors(before === undefined ? [] : hotConflictsOf(before, all), hotConflictsOf(object, all)),
    ];
  }
}

function askedRevision(object: JsonObject): AskedRevision | undefined {
  const { revision } = objectOr(objectOr(object.spec).injectionStrategy);
  const { revisionName, customVersion } = objectOr(revision);
  if (typeof revisionName === 'string') return { name: revisionName };
  if (typeof customVersion !== 'string') return undefined;
  return { sidecarSet: textOf(objectOr(object.metadata).name), customVersion };
}

function sidecarSetIn(request: AdmissionRequest): JsonObject {
  const object = objectOf(request);
  if (sidecarSetVersion(object) === undefined) {
    throw new MalformedBody('request.object is not a SidecarSet of apps.kruise.io');
  }
  return object;
}
