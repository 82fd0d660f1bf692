// How the template of a workload is tried: the API server judges a pod like its own in a dry run.

import { type Json, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import { type FieldError, invalid } from '../core/field-error.ts';
import { subdomainProblem } from '../core/label-syntax.ts';
import { isText } from './workload-problems.ts';

/** A pod like those of a workload for a dry run, and the mapping of its field paths to those of the workload. */
export interface TemplateProbe {
  readonly pod: JsonObject;
  readonly pathInSet: (field: string) => string;
  /** Whether this field is one of a PVC template. */
  readonly isOfClaim: (field: string) => boolean;
}

/**
 * Whether the pods of an update have to be validated again: only when they would change. A template that was accepted
 * once stays valid, whatever a newer API server says.
 */
export function changesPods(before: JsonObject | undefined, after: JsonObject): boolean {
  const [had, has] = [objectOr(before?.spec), objectOr(after.spec)];
  return !sameJson(had.template, has.template) || !sameJson(had.volumeClaimTemplates, has.volumeClaimTemplates);
}

/**
 * The pod for a dry run in that namespace, with unknown fields as they are, so that the API server reports them. What
 * PVC templates say is in further, ephemeral volumes. References that are valid only in the namespace of the workload, or may be
 * created after it, are left out: ServiceAccount, PriorityClass, RuntimeClass. `probeProblems` checks their names.
 */
export function templateProbe(set: JsonObject, namespace: string): TemplateProbe {
  const { template, volumeClaimTemplates } = objectOr(set.spec);
  const { metadata, spec: _, ...others } = objectOr(template);
  const podSpec = objectOr(objectOr(template).spec);
  const claims = claimNames(objectOr(set.spec));
  const claimed = new Set(claims);
  const volumes = listOr(podSpec.volumes)
    .map((volume, index) => ({ volume, index }))
    .filter(({ volume }) => !claimed.has(objectOr(volume).name ?? null));
  const claimVolumes = claims.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  const contents = listOr(volumeClaimTemplates).map((claim, index) => ({
    name: `windlass-pvc-template-${index}`,
    ephemeral: { volumeClaimTemplate: contentOf(objectOr(claim)) },
  }));
  const firstContent = claimVolumes.length + volumes.length;
  /** The path in a PVC template, or undefined. */
  const inClaim = (field: string) => {
    const [, number, rest = ''] = /^spec\.volumes\[(\d+)\]\.ephemeral\.volumeClaimTemplate(.*)$/s.exec(field) ?? [];
    const index = Number(number ?? -1) - firstContent;
    return index < 0 ? undefined : `spec.volumeClaimTemplates[${index}]${rest}`;
  };
  const kept = Object.entries(podSpec).filter(([field]) => !elsewhere.some((name) => name === field));

  return {
    pod: {
      ...without(others, typeFields),
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...without(objectOr(metadata), identityFields), generateName: 'template-', namespace },
      spec: {
        ...Object.fromEntries(kept),
        automountServiceAccountToken: false,
        ...(firstContent > 0 && {
          volumes: [...claimVolumes, ...volumes.map(({ volume }) => volume), ...contents],
        }),
      },
    },
    isOfClaim: (field) => inClaim(field) !== undefined,
    pathInSet(field) {
      const ofClaim = inClaim(field);
      if (ofClaim !== undefined) return ofClaim;
      const [, number = '', rest = ''] = /^spec\.volumes\[(\d+)\](.*)$/s.exec(field) ?? [];
      if (number === '') return `spec.template.${field}`;
      const index = Number(number);
      if (index < claims.length) return `spec.volumeClaimTemplates[${index}].metadata.name`;
      return `spec.template.spec.volumes[${volumes[index - claims.length]?.index ?? number}]${rest}`;
    },
  };
}

/** What a template may have, and a part of a pod has not. */
const typeFields = ['apiVersion', 'kind', 'status'] as const;

/** The fields of ObjectMeta but for labels and annotations: a template has no use for them. */
const identityFields = [
  ...['name', 'generateName', 'namespace', 'selfLink', 'uid', 'resourceVersion', 'generation'],
  ...['creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds'],
  ...['ownerReferences', 'finalizers', 'managedFields'],
] as const;

/** What a PVC template says, without what an ephemeral volume cannot have. */
function contentOf(claim: JsonObject): JsonObject {
  return { ...without(claim, typeFields), metadata: without(objectOr(claim.metadata), identityFields) };
}

function without(object: JsonObject, fields: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([field]) => !fields.includes(field)));
}

const elsewhere = [
  'serviceAccountName',
  'serviceAccount',
  'priorityClassName',
  'priority',
  'preemptionPolicy',
  'runtimeClassName',
  'overhead',
] as const;

/** The names of its PVC templates. */
export function claimNames(spec: JsonObject): readonly Json[] {
  return listOr(spec.volumeClaimTemplates).map((claim) => objectOr(objectOr(claim).metadata).name ?? '');
}

/** The API server's answer to the dry run, with paths of the workload, and problems of what the dry run leaves out. */
export function probeProblems(
  set: JsonObject,
  probe: TemplateProbe,
  causes: readonly { readonly field?: string; readonly message?: string }[],
): readonly FieldError[] {
  const podSpec = objectOr(objectOr(objectOr(set.spec).template).spec);
  const names = ['serviceAccountName', 'priorityClassName', 'runtimeClassName'].flatMap((field) => {
    const name = podSpec[field];
    const problem = isText(name) ? subdomainProblem(name) : undefined;
    return problem === undefined ? [] : [invalid(`spec.template.spec.${field}`, name, problem)];
  });
  // What only PVCs of the templates will show is not a problem of the pods.
  const ofPods = causes.filter(({ field = '' }) => !probe.isOfClaim(field));
  const found = ofPods.map(({ field = 'spec', message = 'is refused by the API server' }): FieldError => {
    return { field: probe.pathInSet(field), detail: message };
  });
  return [...names, ...found];
}
