// How the template of a workload is tried: the API server judges a pod like its own in a dry run.

import { isJsonObject, type Json, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import { type FieldError, invalid } from '../core/field-error.ts';
import { subdomainProblem } from '../core/label-syntax.ts';
import { isText } from './workload-problems.ts';

/** A pod like those of a workload for a dry run, and the mapping of its field paths to those of the workload. */
export interface TemplateProbe {
  readonly pod: JsonObject;
  readonly pathInSet: (field: string) => string;
}

/**
 * Whether the pods of an update have to be validated again: only when they would change. A template that was accepted
 * once stays valid, whatever a newer API server says.
 */
export function changesPods(before: JsonObject | undefined, after: JsonObject): boolean {
  const [had, has] = [objectOr(before?.spec), objectOr(after.spec)];
  return !sameJson(had.template, has.template) || !sameJson(claimNames(had), claimNames(has));
}

/**
 * The pod for a dry run in that namespace. References that are valid only in the namespace of the workload, or may be
 * created after it, are left out: ServiceAccount, PriorityClass, RuntimeClass. `probeProblems` checks their names.
 */
export function templateProbe(set: JsonObject, namespace: string): TemplateProbe {
  const { template } = objectOr(set.spec);
  const { labels, annotations } = objectOr(objectOr(template).metadata);
  const podSpec = objectOr(objectOr(template).spec);
  const claims = claimNames(objectOr(set.spec));
  const claimed = new Set(claims);
  const volumes = listOr(podSpec.volumes)
    .map((volume, index) => ({ volume, index }))
    .filter(({ volume }) => !claimed.has(objectOr(volume).name ?? null));
  const claimVolumes = claims.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  const kept = Object.entries(podSpec).filter(([field]) => !elsewhere.some((name) => name === field));

  return {
    pod: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        generateName: 'template-',
        namespace,
        ...(isJsonObject(labels) && { labels }),
        ...(isJsonObject(annotations) && { annotations }),
      },
      spec: {
        ...Object.fromEntries(kept),
        automountServiceAccountToken: false,
        ...(claims.length + volumes.length > 0 && {
          volumes: [...claimVolumes, ...volumes.map(({ volume }) => volume)],
        }),
      },
    },
    pathInSet(field) {
      const [, number = '', rest = ''] = /^spec\.volumes\[(\d+)\](.*)$/s.exec(field) ?? [];
      if (number === '') return `spec.template.${field}`;
      const index = Number(number);
      if (index < claims.length) return `spec.volumeClaimTemplates[${index}].metadata.name`;
      return `spec.template.spec.volumes[${volumes[index - claims.length]?.index ?? number}]${rest}`;
    },
  };
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
  const found = causes.map(({ field = 'spec', message = 'is refused by the API server' }): FieldError => {
    return { field: probe.pathInSet(field), detail: message };
  });
  return [...names, ...found];
}
