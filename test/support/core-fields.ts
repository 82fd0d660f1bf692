import { isJsonList, isJsonObject, type JsonObject, objectOr } from '../../api/base/json.ts';
import { coreFields } from '../../api/core/core-types.ts';

/**
 * The fields of a type, and recursively of the types of its fields, that the API server has and the table of core types
 * lacks: `Container.restartPolicyRules`. `document` is the API server's OpenAPI v3 document.
 */
export function fieldsMissingFrom(document: JsonObject, schemaName: string): readonly string[] {
  const schemas = objectOr(objectOr(document.components).schemas);
  const missing = new Set<string>();
  const compared = new Set<string>();
  const left: Comparison[] = [{ schemaName, type: lastPart(schemaName) }];
  for (let next = left.pop(); next; next = left.pop()) {
    const { schemaName: name, type } = next;
    if (compared.has(name)) continue;
    compared.add(name);
    const known = coreFields(type);
    for (const [field, schema] of Object.entries(propertiesOf(schemas, name))) {
      const inTable = known.get(field);
      if (inTable === undefined) missing.add(`${lastPart(name)}.${field}`);
      for (const reference of referencesOf(schema)) left.push({ schemaName: reference, type: inTable?.type ?? '' });
    }
  }
  return [...missing].toSorted((left, right) => left.localeCompare(right));
}

interface Comparison {
  readonly schemaName: string;
  /** Its name in the table; "" where the table has no fields for this type. */
  readonly type: string;
}

function propertiesOf(schemas: JsonObject, name: string): JsonObject {
  if (!isJsonObject(schemas[name])) throw new Error(`The API server has no schema "${name}"`);
  return objectOr(schemas[name].properties);
}

/** The schemas that a field, its items or the values of its map refer to. */
function referencesOf(schema: unknown): readonly string[] {
  if (!isJsonObject(schema)) return [];
  const { $ref, allOf, items, additionalProperties } = schema;
  const own = typeof $ref === 'string' ? [lastPart($ref, '/')] : [];
  return [...own, ...[...(isJsonList(allOf) ? allOf : []), items, additionalProperties].flatMap(referencesOf)];
}

function lastPart(name: string, separator = '.'): string {
  return name.slice(name.lastIndexOf(separator) + 1);
}
