import { isJsonObject, type JsonObject } from '../../api/base/json.ts';
import { installation } from '../../api/core/well-known.ts';
import { definitionName, type KindDefinition, type KindVersion, type PrinterColumn } from '../../api/schema/kind.ts';
import { type StructuralSchema, toStructural, withoutField, withoutLimits } from '../../api/schema/structural.ts';

/** The CustomResourceDefinition of a kind, ready to be applied; the webhook adds its own CA bundle. */
export function crdOf(kind: KindDefinition): JsonObject {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: definitionName(kind) },
    spec: {
      group: kind.group,
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        ...(kind.shortNames.length > 0 && { shortNames: kind.shortNames }),
        singular: kind.kind.toLowerCase(),
      },
      scope: kind.scope,
      ...(kind.versions.length > 1 && { conversion }),
      versions: kind.versions.map((version) => versionOf(kind, version)),
    },
  };
}

const conversion: JsonObject = {
  strategy: 'Webhook',
  webhook: {
    clientConfig: {
      service: {
        name: installation.webhookService,
        namespace: installation.namespace,
        path: installation.conversionPath,
        port: 443,
      },
    },
    conversionReviewVersions: ['v1'],
  },
};

function versionOf(kind: KindDefinition, version: KindVersion): JsonObject {
  return {
    name: version.name,
    served: true,
    storage: version.storage,
    ...(version.status && { subresources: { status: {}, ...(kind.scale && { scale: { ...kind.scale } }) } }),
    ...(kind.columns.length > 0 && { additionalPrinterColumns: kind.columns.map(columnOf) }),
    schema: { openAPIV3Schema: schemaOf(kind, version) },
  };
}

function columnOf(column: PrinterColumn): JsonObject {
  const { name, type, jsonPath, description, priority } = column;
  return { name, type, jsonPath, ...(description && { description }), ...(priority && { priority }) };
}

/** The structural schema of one version, whole objects included. */
export function schemaOf(kind: KindDefinition, version: KindVersion): StructuralSchema {
  const whole: StructuralSchema = {
    description: kind.description,
    type: 'object',
    required: ['spec'],
    properties: {
      apiVersion: { description: 'Group and version of this object.', type: 'string' },
      kind: { description: `Always ${kind.kind}.`, type: 'string' },
      metadata: { type: 'object' },
      spec: toStructural(version.spec, 'spec'),
      ...(version.status && { status: toStructural(version.status, 'status') }),
    },
  };
  const without = (version.without ?? []).reduce(withoutField, whole);
  return version.limitsValues === false ? withoutLimits(without) : without;
}

/** A field of a kind in the reference page. */
export interface ReferenceField {
  /** `spec.containers[].name` */
  readonly path: string;
  readonly schema: StructuralSchema;
  readonly required: boolean;
}

/** Every field below `spec` and `status`, parents before children, in the order of the schema. */
export function fieldsOf(schema: StructuralSchema): readonly ReferenceField[] {
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  return ['spec', 'status'].flatMap((name) => {
    const part = properties[name];
    return isJsonObject(part) ? fieldsBelow(name, part) : [];
  });
}

function fieldsBelow(path: string, schema: StructuralSchema): readonly ReferenceField[] {
  const { properties, items, required, additionalProperties } = schema;
  if (isJsonObject(items)) return fieldsBelow(`${path}[]`, items);
  if (isJsonObject(additionalProperties)) return fieldsBelow(`${path}.*`, additionalProperties);
  if (!isJsonObject(properties)) return [];
  return Object.entries(properties).flatMap(([name, child]) => {
    if (!isJsonObject(child)) return [];
    const field = { path: `${path}.${name}`, schema: child, required: isRequired(required, name) };
    return [field, ...fieldsBelow(field.path, child)];
  });
}

function isRequired(required: unknown, name: string): boolean {
  return Array.isArray(required) && required.includes(name);
}
