import { isJsonList, isJsonObject, type Json, type JsonObject } from '../api/base/json.ts';
import { fillRecreateRequest, placeRecreateRequest } from '../api/container-recreate-request/admit.ts';
import { defaultRecreateRequest } from '../api/container-recreate-request/defaults.ts';
import { recreateVersion } from '../api/container-recreate-request/types.ts';
import {
  refuseSpec,
  validateRecreateSpec,
  validateRecreateUpdate,
} from '../api/container-recreate-request/validate.ts';
import { type FeatureGate, type FeatureGates, gateRefusal } from '../api/feature-gates.ts';
import type { LookUps } from './review/look-ups.ts';
import { type AdmissionRequest, isBeingDeleted, objectOf, type Review, type Verdict } from './review/review.ts';
import { MalformedBody } from './server/server.ts';

/** Who may receive details of pods. */
export interface RecreateTrust {
  /**
   * Whether only the API server gets an answer. Otherwise an answer contains only the UID and the node of a pod, and
   * the watcher fills in the rest.
   */
  readonly knowsCaller: boolean;
  /** The namespace of Windlass's own ServiceAccounts, which may fill in a request after its creation. */
  readonly suiteNamespace: string;
}

/**
 * Fills in and validates new requests, and rejects changes of their spec. Objects stay in the version of the request.
 */
export function reviewRecreateRequest(gates: FeatureGates, lookUps: LookUps, trust: RecreateTrust): Review {
  return async (request, signal) => {
    const object = objectOf(request);
    if (isBeingDeleted(request)) return { kind: 'allowed' };
    if (!gates.KruiseDaemon) return refusedByGate('KruiseDaemon');

    switch (request.operation) {
      case 'CREATE':
        return await admit(request, object, { lookUps, signal, ...trust });
      case 'UPDATE':
        if (request.oldObject === undefined) throw new MalformedBody('request.oldObject is not an object');
        return update(request.oldObject, object, isOfSuite(request, trust));
      case 'DELETE':
      case 'CONNECT':
        return { kind: 'allowed' };
    }
  };
}

async function admit(
  request: AdmissionRequest,
  object: JsonObject,
  { lookUps, signal, knowsCaller }: RecreateTrust & { readonly lookUps: LookUps; readonly signal: AbortSignal },
): Promise<Verdict> {
  const version = recreateVersion(object);
  if (version === undefined)
    throw new MalformedBody(`request.object is not a ContainerRecreateRequest of apps.kruise.io`);
  const draft = defaultRecreateRequest(object);
  const problems = validateRecreateSpec(draft.spec, version);
  if (problems.length > 0 || !isJsonObject(draft.spec)) return refuseSpec(problems, version);

  const pod = await lookUps.pod(request.namespace, String(draft.spec.podName), signal);
  const nodeName = pod?.spec.nodeName ?? '';
  const node = nodeName === '' ? undefined : await lookUps.node(nodeName, signal);
  const filled = (knowsCaller ? fillRecreateRequest : placeRecreateRequest)({ request: draft, pod, node });
  return filled.kind === 'refused' ? filled : { kind: 'allowed', object: filled.request };
}

/**
 * Applying the same manifest again must change nothing, but a client that replaces lists as a whole leaves out what
 * admission has filled in. Those fields are restored before the comparison; any other difference is a change by the
 * user.
 */
function update(before: JsonObject, after: JsonObject, mayFill: boolean): Verdict {
  const object = withFilledFields(before, after);
  return validateRecreateUpdate(before, object, mayFill) ?? { kind: 'allowed', object };
}

function isOfSuite({ user }: AdmissionRequest, { suiteNamespace }: RecreateTrust): boolean {
  return user.startsWith(`system:serviceaccount:${suiteNamespace}:`);
}

function withFilledFields(before: JsonObject, after: JsonObject): JsonObject {
  const [had, has] = [before.spec, after.spec];
  if (!isJsonObject(had) || !isJsonObject(has)) return after;
  const known = isJsonList(had.containers) ? had.containers : [];
  const containers = isJsonList(has.containers)
    ? has.containers.map((container, index) => withFieldsOf(known[index], container))
    : has.containers;
  return { ...after, spec: { ...has, ...(containers && { containers }) } };
}

const filledFields = ['preStop', 'ports', 'statusContext'] as const;

function withFieldsOf(before: Json | undefined, after: Json): Json {
  if (!isJsonObject(before) || !isJsonObject(after) || before.name !== after.name) return after;
  const missing = filledFields.filter((field) => after[field] === undefined && before[field] !== undefined);
  return { ...after, ...Object.fromEntries(missing.map((field) => [field, before[field]])) };
}

function refusedByGate(gate: FeatureGate): Verdict {
  return { kind: 'refused', code: 403, message: gateRefusal(gate), errors: [] };
}
