import { isAbsent, isJsonObject, type JsonObject, listOr, objectOr } from './base/json.ts';
import { apiVersionOf, type Resource } from './core/meta.ts';
import { type FeatureGates, gateRefusal } from './feature-gates.ts';

/**
 * A label that protects objects from deletion, always or while something depends on them. Every check is made on DELETE
 * with the stored object: nothing is written, and no state is kept. Texts are OpenKruise's, verbatim.
 */

/** The label. Only the values of `Protection` have a meaning; an annotation of this name is ignored. */
export const deleteProtectionLabel = 'policy.kruise.io/delete-protection';

export type Protection = 'Always' | 'Cascading';

/** What protects an object with the value `Cascading`. `nothing`: the value is ignored. */
export type Cascading = 'replicas' | 'podsAndClaims' | 'customResources' | 'nothing';

/** A kind whose objects can be protected. */
export interface ProtectedKind {
  readonly group: string;
  readonly versions: readonly string[];
  readonly plural: string;
  readonly kind: string;
  readonly scope: 'Cluster' | 'Namespaced';
  /** The name of its validating webhook, with which rejections begin. */
  readonly webhook: string;
  readonly path: string;
  readonly cascading: Cascading;
  /**
   * `always`: a webhook for deletions of labelled objects, in the manifests. `withGate`: the same, only while gate
   * ResourcesDeletionProtection is on. `general`: the webhook that validates everything else about the kind, too.
   */
  readonly registered: 'always' | 'withGate' | 'general';
}

const workload = { group: 'apps', versions: ['v1'], scope: 'Namespaced', cascading: 'replicas' } as const;

/** Every kind that can be protected. A kind of Windlass's own needs a line here and a DELETE in its own review. */
export const protectedKinds = {
  Namespace: {
    ...{ group: '', versions: ['v1'], plural: 'namespaces', kind: 'Namespace', scope: 'Cluster' },
    ...{ webhook: 'vnamespace.kb.io', path: '/validate-namespace' },
    ...{ cascading: 'podsAndClaims', registered: 'always' },
  },
  CustomResourceDefinition: {
    ...{ group: 'apiextensions.k8s.io', versions: ['v1', 'v1beta1'], scope: 'Cluster' },
    ...{ plural: 'customresourcedefinitions', kind: 'CustomResourceDefinition' },
    ...{ webhook: 'vcustomresourcedefinition.kb.io', path: '/validate-customresourcedefinition' },
    ...{ cascading: 'customResources', registered: 'always' },
  },
  Deployment: {
    ...workload,
    ...{ plural: 'deployments', kind: 'Deployment', registered: 'always' },
    ...{ webhook: 'vbuiltindeployment.kb.io', path: '/validate-apps-deployment' },
  },
  StatefulSet: {
    ...workload,
    ...{ plural: 'statefulsets', kind: 'StatefulSet', registered: 'always' },
    ...{ webhook: 'vbuiltinstatefulset.kb.io', path: '/validate-apps-statefulset' },
  },
  ReplicaSet: {
    ...workload,
    ...{ plural: 'replicasets', kind: 'ReplicaSet', registered: 'always' },
    ...{ webhook: 'vbuiltinreplicaset.kb.io', path: '/validate-apps-replicaset' },
  },
  CloneSet: {
    ...workload,
    ...{ group: 'apps.kruise.io', versions: ['v1alpha1', 'v1beta1'], plural: 'clonesets', kind: 'CloneSet' },
    ...{ webhook: 'vcloneset.kb.io', path: '/validate-apps-kruise-io-cloneset', registered: 'general' },
  },
  AdvancedStatefulSet: {
    ...workload,
    ...{ group: 'apps.kruise.io', versions: ['v1alpha1', 'v1beta1'], plural: 'statefulsets', kind: 'StatefulSet' },
    ...{ webhook: 'vstatefulset.kb.io', path: '/validate-apps-kruise-io-statefulset', registered: 'general' },
  },
  Service: {
    ...{ group: '', versions: ['v1'], plural: 'services', kind: 'Service', scope: 'Namespaced' },
    ...{ webhook: 'vservice.kb.io', path: '/validate-service', cascading: 'nothing', registered: 'withGate' },
  },
  Ingress: {
    ...{ group: 'networking.k8s.io', versions: ['v1', 'v1beta1'], scope: 'Namespaced' },
    ...{ plural: 'ingresses', kind: 'Ingress' },
    ...{ webhook: 'vingress.kb.io', path: '/validate-ingress', cascading: 'nothing', registered: 'withGate' },
  },
} as const satisfies Record<string, ProtectedKind>;

/** Kinds whose webhook reviews deletions only. */
export const deletionOnlyKinds: readonly ProtectedKind[] = Object.values(protectedKinds).filter(
  ({ registered }) => registered !== 'general',
);

/** Kinds whose webhook exists only while gate ResourcesDeletionProtection is on. */
export const gatedKinds: readonly ProtectedKind[] = deletionOnlyKinds.filter(
  ({ registered }) => registered === 'withGate',
);

/** Why a deletion was rejected, as a metric label and in logs. */
export const deletionRefusalReasons = [
  'Always',
  'Replicas',
  'ActivePods',
  'BoundClaims',
  'CustomResources',
  'GateOff',
  'ListFailed',
] as const;

export type DeletionRefusalReason = (typeof deletionRefusalReasons)[number];

export interface DeletionRefusal {
  readonly kind: 'refused';
  readonly reason: DeletionRefusalReason;
  readonly message: string;
}

/** The decision about a deletion from the object alone. */
export type DeletionJudgement =
  | DeletionRefusal
  /** With warnings about the label for the user. */
  | { readonly kind: 'allowed'; readonly warnings: readonly string[] }
  /** Objects that depend on it have to be counted. */
  | { readonly kind: 'undecided'; readonly by: 'podsAndClaims' | 'customResources' }
  /** The object is not valid for its kind. */
  | { readonly kind: 'unreadable'; readonly message: string };

export type ProtectionGates = Pick<
  FeatureGates,
  'ResourcesDeletionProtection' | 'DeletionProtectionForCRDCascadingGate'
>;

/** Decides on the deletion of a stored object, as far as the object alone allows. */
export function judgeDeletion(kind: ProtectedKind, object: JsonObject, gates: ProtectionGates): DeletionJudgement {
  const { metadata } = object;
  if (!isJsonObject(metadata)) return { kind: 'unreadable', message: 'metadata is not an object' };
  if (!isAbsent(metadata.labels) && !isJsonObject(metadata.labels)) {
    return { kind: 'unreadable', message: 'metadata.labels is not an object' };
  }
  // DP-3: it is being deleted already, and its finalizers must be removable.
  if (!isAbsent(metadata.deletionTimestamp)) return { kind: 'allowed', warnings: [] };
  const allowed = { kind: 'allowed', warnings: protectionWarnings(kind, object, gates) } as const;
  const value = labelOf(object);
  if (!gates.ResourcesDeletionProtection || !isProtection(value)) return allowed;
  if (value === 'Always') return refused('Always', `${forbidden} ${deleteProtectionLabel}=Always`);
  switch (kind.cascading) {
    case 'nothing':
      return allowed;
    case 'podsAndClaims':
      return { kind: 'undecided', by: kind.cascading };
    case 'customResources':
      if (gates.DeletionProtectionForCRDCascadingGate) return { kind: 'undecided', by: kind.cascading };
      return refused('GateOff', gateRefusal('DeletionProtectionForCRDCascadingGate'));
    case 'replicas': {
      // DP-7: the desired replicas count, not the existing pods.
      const replicas = isAbsent(object.spec) ? 0 : isJsonObject(object.spec) ? (object.spec.replicas ?? 0) : undefined;
      if (!Number.isSafeInteger(replicas)) return { kind: 'unreadable', message: 'spec.replicas is not an integer' };
      return refusalByCount('Replicas', Number(replicas)) ?? allowed;
    }
  }
}

/** What is counted, as rejections name it. */
const counted = {
  Replicas: 'replicas',
  ActivePods: 'active pods',
  BoundClaims: '"Bound" status pvc',
  CustomResources: 'active CRs',
} as const satisfies Partial<Record<DeletionRefusalReason, string>>;

/** The rejection of a deletion with this count; undefined when the count is 0. */
export function refusalByCount(reason: keyof typeof counted, count: number): DeletionRefusal | undefined {
  if (count <= 0) return undefined;
  return refused(reason, `${forbidden} ${deleteProtectionLabel}=Cascading and ${counted[reason]} ${count}>0`);
}

/** The rejection of the deletion of a Namespace whose content cannot be listed (DP-9). */
export function namespaceListFailed(what: 'pods' | 'pvc', why: string): DeletionRefusal {
  return refused('ListFailed', `${forbidden} list ${what} error: ${why}`);
}

/** The rejection of the deletion of a CRD whose objects cannot be listed (DP-11). */
export function customResourceListFailed(resource: Resource | undefined, why: string): DeletionRefusal {
  const what = resource === undefined ? 'an unknown kind' : `${apiVersionOf(resource)}, Kind=${resource.kind}`;
  return refused('ListFailed', `failed to list CRs of ${what}: ${why}`);
}

/**
 * The resource of a CRD's objects, in the stored version, which needs no conversion; where that is not served, in a
 * served one. Undefined: the CRD has no version.
 */
export function customResourcesOf(definition: JsonObject): Resource | undefined {
  const spec = objectOr(definition.spec);
  const names = objectOr(spec.names);
  const versions = listOr(spec.versions).map(objectOr);
  const stored = versions.find(({ storage }) => storage === true);
  const { name } =
    (stored?.served === false ? versions.find(({ served }) => served === true) : undefined) ?? stored ?? {};
  if (typeof name !== 'string' || typeof spec.group !== 'string' || typeof names.plural !== 'string') return undefined;
  const kind = typeof names.listKind === 'string' ? names.listKind : `${String(names.kind)}List`;
  return { group: spec.group, version: name, plural: names.plural, kind, namespaced: spec.scope === 'Namespaced' };
}

/** Warnings about the label of an object that is written or deleted; empty when there is nothing to warn about. */
export function protectionWarnings(kind: ProtectedKind, object: JsonObject, gates: ProtectionGates): readonly string[] {
  const value = labelOf(object);
  if (value === undefined) return [];
  const label = `metadata.labels[${deleteProtectionLabel}]: "${String(value).slice(0, longestLabelValue)}"`;
  if (!isProtection(value)) return [`${label} gives no protection from deletion: only Always and Cascading do`];
  if (!gates.ResourcesDeletionProtection) {
    return [`${label} gives no protection from deletion: feature gate ResourcesDeletionProtection is off`];
  }
  const isIgnored = value === 'Cascading' && kind.cascading === 'nothing';
  return isIgnored ? [`${label} gives no protection from deletion to kind ${kind.kind}: only Always does`] : [];
}

const forbidden = 'forbidden by ResourcesProtectionDeletion for';
const longestLabelValue = 63;

function refused(reason: DeletionRefusalReason, message: string): DeletionRefusal {
  return { kind: 'refused', reason, message };
}

function labelOf({ metadata }: JsonObject): unknown {
  const labels = objectOr(objectOr(metadata).labels);
  return Object.hasOwn(labels, deleteProtectionLabel) ? labels[deleteProtectionLabel] : undefined;
}

function isProtection(value: unknown): value is Protection {
  return value === 'Always' || value === 'Cascading';
}
