import { isJsonObject, type JsonObject, objectOr } from '../api/base/json.ts';
import { kubeResource } from '../api/core/well-known.ts';
import {
  customResourceListFailed,
  customResourcesOf,
  type DeletionJudgement,
  type DeletionRefusal,
  deleteProtectionLabel,
  judgeDeletion,
  namespaceListFailed,
  type ProtectedKind,
  type ProtectionGates,
  refusalByCount,
} from '../api/deletion-protection.ts';
import type { Dependants } from './review/dependants.ts';
import type { AdmissionRequest, Review, Verdict } from './review/review.ts';

/** Dependencies of reviews of deletions, the same for every kind. */
export interface DeletionProtection {
  readonly gates: ProtectionGates;
  readonly dependants: Dependants;
  /** Called for each rejection, including those of dry runs. */
  readonly onRefused?: (refused: RefusedDeletion) => void;
  /** The time limit of all reads for one deletion. Absent: 8 s, as the API server waits for 10 s. */
  readonly readMs?: number;
}

/** A rejected deletion, for log and metrics. */
export interface RefusedDeletion {
  readonly kind: ProtectedKind;
  readonly reason: DeletionRefusal['reason'];
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly username: string;
  readonly dryRun: boolean;
}

/** Rejects the deletion of protected objects of a kind. Every other request passes (DP-1). */
export function reviewDeletion(
  kind: ProtectedKind,
  { gates, dependants, onRefused, readMs = usualReadMs }: DeletionProtection,
): Review {
  return async (request, signal) => {
    const { operation, subResource, oldObject } = request;
    if (operation !== 'DELETE' || subResource !== '' || oldObject === undefined) return { kind: 'allowed' };
    const judgement = await judgeWithDependants(oldObject, signal);
    if (judgement.kind === 'refused') onRefused?.(refusedDeletion(kind, judgement, request, oldObject));
    return verdictOf(judgement);
  };

  async function judgeWithDependants(object: JsonObject, asked: AbortSignal): Promise<Decided> {
    const judgement = judgeDeletion(kind, object, gates);
    const isOfNamespace = judgement.kind === 'refused' && kind.scope === 'Namespaced';
    if (judgement.kind !== 'undecided' && !isOfNamespace) return judgement;
    // Before the deadline of the review itself, so that the answer says what took too long.
    const late = new Error(`no answer within ${readMs / 1000} s`);
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(late), readMs);
    try {
      const signal = AbortSignal.any([asked, deadline.signal]);
      if (judgement.kind === 'undecided') return await judgeByDependants(judgement.by, object, signal);
      return (await isNamespaceGoing(object, signal)) ? { kind: 'allowed', warnings: [] } : judgement;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The protection of the namespace itself was decided on when it was deleted; its contents would keep it for ever. */
  async function isNamespaceGoing({ metadata }: JsonObject, signal: AbortSignal): Promise<boolean> {
    const { namespace } = objectOr(metadata);
    if (typeof namespace !== 'string') return false;
    try {
      const stored = await dependants.stored(kubeResource.namespaces, namespace, signal);
      return stored?.metadata.deletionTimestamp !== undefined;
    } catch {
      return false;
    }
  }

  async function judgeByDependants(
    by: 'podsAndClaims' | 'customResources',
    object: JsonObject,
    signal: AbortSignal,
  ): Promise<Decided> {
    const allowed = { kind: 'allowed', warnings: [] } as const;
    switch (by) {
      case 'podsAndClaims':
        return (await keptByContents(object, signal)) ?? allowed;
      case 'customResources':
        return (await keptByCustomResources(object, signal)) ?? allowed;
    }
  }

  async function keptByContents(object: JsonObject, signal: AbortSignal): Promise<DeletionRefusal | undefined> {
    const name = nameOf(object);
    try {
      if (!isSame(object, await dependants.stored(kubeResource.namespaces, name, signal))) {
        return namespaceListFailed('pods', unknownObject(kind, name));
      }
      const pods = refusalByCount('ActivePods', await dependants.activePods(name, signal));
      if (pods !== undefined) return pods;
    } catch (error) {
      return namespaceListFailed('pods', textOf(error));
    }
    try {
      return refusalByCount('BoundClaims', await dependants.boundClaims(name, signal));
    } catch (error) {
      return namespaceListFailed('pvc', textOf(error));
    }
  }

  async function keptByCustomResources(object: JsonObject, signal: AbortSignal): Promise<DeletionRefusal | undefined> {
    const name = nameOf(object);
    const given = customResourcesOf(object);
    try {
      const stored = await dependants.stored(kubeResource.customResourceDefinitions, name, signal);
      if (!isSame(object, stored)) return customResourceListFailed(given, unknownObject(kind, name));
      const resource = customResourcesOf(stored);
      if (resource === undefined) return customResourceListFailed(undefined, 'the definition stores no version');
      return refusalByCount('CustomResources', await dependants.customResources(resource, signal));
    } catch (error) {
      return customResourceListFailed(given, textOf(error));
    }
  }
}

type Decided = Exclude<DeletionJudgement, { readonly kind: 'undecided' }>;

function verdictOf(judgement: Decided): Verdict {
  switch (judgement.kind) {
    case 'allowed':
      return judgement;
    case 'refused':
      return { kind: 'refused', code: 403, reason: '', message: judgement.message, errors: [] };
    case 'unreadable':
      return { kind: 'refused', code: 400, message: `Cannot review the deletion: ${judgement.message}`, errors: [] };
  }
}

/**
 * Whether the review is about the stored object. Without a client CA anybody who reaches the port can send a made-up
 * review, which must not reveal the content of a namespace or trigger list calls: only clients that may read the object
 * know its UID.
 */
function isSame(object: JsonObject, stored: object | undefined): stored is JsonObject {
  if (!isJsonObject(stored)) return false;
  const [told, known] = [objectOr(object.metadata).uid, objectOr(stored.metadata).uid];
  const label = (of: JsonObject) => objectOr(objectOr(of.metadata).labels)[deleteProtectionLabel];
  return typeof told === 'string' && told === known && label(object) === label(stored);
}

function unknownObject({ kind }: ProtectedKind, name: string): string {
  return `the API server has no ${kind} "${name}" with the UID and the label of the review`;
}

/** The name in the object: a review of `deletecollection` has none. */
function nameOf(object: JsonObject): string {
  const { name } = objectOr(object.metadata);
  return typeof name === 'string' ? name : '';
}

function refusedDeletion(
  kind: ProtectedKind,
  { reason }: DeletionRefusal,
  { user, dryRun }: AdmissionRequest,
  object: JsonObject,
): RefusedDeletion {
  const { namespace } = objectOr(object.metadata);
  return {
    kind,
    reason,
    namespace: typeof namespace === 'string' ? namespace.slice(0, longestName) : '',
    name: nameOf(object).slice(0, longestName),
    username: user.slice(0, longestName),
    dryRun,
  };
}

const longestName = 253;
const usualReadMs = 8_000;

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
