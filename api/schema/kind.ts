import type { TSchema } from 'typebox';

/** The content of a kind's CustomResourceDefinition. */
export interface KindDefinition {
  readonly group: string;
  readonly kind: string;
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly scope: 'Namespaced' | 'Cluster';
  readonly description: string;
  /** The columns of `kubectl get`, the same in every version. */
  readonly columns: readonly PrinterColumn[];
  /**
   * The paths of the scale subresource, for autoscalers and `kubectl scale`, the same in every version. Absent: the
   * kind cannot be scaled.
   */
  readonly scale?: ScalePaths;
  /** With more than one, the webhook converts; exactly one is stored. */
  readonly versions: readonly KindVersion[];
}

/** The name of the CustomResourceDefinition of a kind. */
export function definitionName({ plural, group }: Pick<KindDefinition, 'plural' | 'group'>): string {
  return `${plural}.${group}`;
}

interface ScalePaths {
  readonly specReplicasPath: string;
  readonly statusReplicasPath: string;
  readonly labelSelectorPath: string;
}

export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  readonly jsonPath: string;
  readonly description?: string;
  /** Above 0: shown with `-o wide` only. */
  readonly priority?: number;
}

/** A column with a number from the status. */
export function counter(name: string, field: string, description: string): PrinterColumn {
  return { name, type: 'integer', jsonPath: `.status.${field}`, description };
}

/** The columns of `kubectl get -o wide` about the containers of a pod template. */
export const templateColumns: readonly PrinterColumn[] = [
  templateColumn('CONTAINERS', 'name', 'The containers of the template.'),
  templateColumn('IMAGES', 'image', 'The images of the containers.'),
];

function templateColumn(name: string, field: string, description: string): PrinterColumn {
  const jsonPath = `.spec.template.spec.containers[*].${field}`;
  return { name, type: 'string', jsonPath, description, priority: 1 };
}

export interface KindVersion {
  readonly name: string;
  readonly storage: boolean;
  readonly spec: TSchema;
  /** Absent: the kind has no status. */
  readonly status?: TSchema;
  /** Fields of the schema that are missing in this version, as dotted paths without list markers. */
  readonly without?: readonly string[];
  /** False: types and required fields only, no enums, minimums or patterns. Absent: true. */
  readonly limitsValues?: boolean;
}
