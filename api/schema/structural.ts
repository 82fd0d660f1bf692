// Turns the JSON Schema that TypeBox makes into what a CustomResourceDefinition accepts: a *structural* schema, in which
// every place has one type and nothing is decided by alternatives. What has no such form is an error here, with the path,
// rather than a surprise in the API server.
//
//   anyOf of constants, enum, const     type and enum              Record<string, X>       additionalProperties: X
//   anyOf of X and null                 nullable                   Unknown, Any            preserve-unknown-fields
//   anyOf of integer and string         int-or-string              allOf of objects        one object
//   exclusiveMinimum: n                 minimum: n, exclusive      additionalProperties: false   nothing, as unknown fields go
import { isJsonList, isJsonObject, type Json, type JsonObject } from '../base/json.ts';

/** A schema in the format of `openAPIV3Schema` in a CustomResourceDefinition. */
export type StructuralSchema = JsonObject;

/** Why a schema has no structural form. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}

/** The structural form of a JSON Schema. Throws a `SchemaError` that names the place for what has none. */
export function toStructural(schema: object, path = ''): StructuralSchema {
  const plain: unknown = JSON.parse(JSON.stringify(schema));
  return convert(isJsonObject(plain) ? plain : {}, path);
}

/** The same schema without limits on values: types, required fields and maximum sizes stay. */
export function withoutLimits(schema: StructuralSchema): StructuralSchema {
  const dropped = [
    'enum',
    'minimum',
    'exclusiveMinimum',
    'maximum',
    'exclusiveMaximum',
    'minLength',
    'minItems',
    'pattern',
  ];
  const kept = Object.entries(schema).filter(([keyword]) => !dropped.includes(keyword));
  return mapChildren(Object.fromEntries(kept), withoutLimits);
}

/** The same schema without the field at this dotted path, in which lists count as their items. */
export function withoutField(schema: StructuralSchema, path: string): StructuralSchema {
  const [first, ...rest] = path.split('.');
  const { properties, items, required } = schema;
  if (first === undefined) return schema;
  if (isJsonObject(items)) return { ...schema, items: withoutField(items, path) };
  const child = isJsonObject(properties) ? properties[first] : undefined;
  if (!isJsonObject(properties) || !isJsonObject(child)) {
    throw new SchemaError(`Cannot leave out field "${path}": there is none`);
  }

  if (rest.length > 0) {
    return { ...schema, properties: { ...properties, [first]: withoutField(child, rest.join('.')) } };
  }
  const { [first]: _, ...others } = properties;
  const stillRequired = isJsonList(required) ? required.filter((name) => name !== first) : [];
  const changed = { ...schema, required: stillRequired, properties: others };
  const { required: __, ...withoutRequired } = changed;
  return stillRequired.length > 0 ? changed : withoutRequired;
}

const annotations = ['description', 'default', 'nullable'] as const;
const limits = {
  string: ['format', 'pattern', 'minLength', 'maxLength'],
  integer: ['format', 'multipleOf'],
  number: ['format', 'multipleOf'],
  boolean: [],
  array: ['minItems', 'maxItems'],
  object: ['minProperties', 'maxProperties'],
} as const;
type SchemaType = keyof typeof limits;

// The formats that the API server supports; it warns about others and does not check them.
const formats: Readonly<Partial<Record<SchemaType, readonly string[]>>> = {
  string: ['date-time', 'date', 'duration', 'byte', 'uri', 'uuid', 'hostname', 'ipv4', 'ipv6', 'cidr'],
  integer: ['int32', 'int64'],
  number: ['float', 'double'],
};

// Keywords for people or other validators, which can be dropped.
const ignored = ['title', '$id', '$schema', 'examples', 'readOnly', 'writeOnly'];

function convert(schema: JsonObject, path: string): StructuralSchema {
  if (isJsonList(schema.anyOf)) return convertUnion(schema, schema.anyOf, path);
  if (isJsonList(schema.allOf)) return convert(merged(schema, schema.allOf, path), path);
  if (schema.const !== undefined || schema.enum !== undefined) return convertEnum(schema, path);
  if (schema.type === undefined) return convertOpen(schema, path);

  const type = schemaType(schema.type, path);
  const common = { ...pick(schema, annotations), ...extensions(schema), type, ...pick(schema, limits[type]) };
  refuseUnknown(schema, type, path);
  checkFormat(schema.format, type, path);

  if (type === 'object') return { ...common, ...convertObject(schema, path) };
  if (type === 'array') return { ...common, ...convertArray(schema, path) };
  if (type === 'integer' || type === 'number') return { ...common, ...range(schema) };
  return common;
}

function convertObject(schema: JsonObject, path: string): StructuralSchema {
  const { properties, required, patternProperties, additionalProperties } = schema;
  if (isJsonObject(patternProperties)) return { additionalProperties: recordValue(patternProperties, path) };
  if (isJsonObject(additionalProperties) && Object.keys(additionalProperties).length > 0) {
    return { additionalProperties: convert(additionalProperties, `${path}.*`) };
  }

  const converted = Object.entries(isJsonObject(properties) ? properties : {}).map(([name, property]) => {
    const place = path === '' ? name : `${path}.${name}`;
    return [name, convert(isJsonObject(property) ? property : {}, place)] as const;
  });
  return {
    ...(isJsonList(required) && required.length > 0 && { required: required.toSorted() }),
    ...(converted.length > 0 && { properties: Object.fromEntries(converted) }),
  };
}

function recordValue(patterns: JsonObject, path: string): StructuralSchema {
  const [[pattern, value] = [], ...others] = Object.entries(patterns);
  if (pattern !== '^.*$' || others.length > 0) throw unsupported(path, 'keys by pattern; any string must do');
  return convert(isJsonObject(value) ? value : {}, `${path}.*`);
}

function convertArray(schema: JsonObject, path: string): StructuralSchema {
  const { items } = schema;
  if (!isJsonObject(items)) throw unsupported(path, 'a tuple; every item must have the same schema');
  const converted = convert(items, `${path}[]`);
  checkListKeys(schema, converted, path);
  return { items: converted };
}

/** The API server rejects a list of type map whose key is optional. */
function checkListKeys(list: JsonObject, items: StructuralSchema, path: string): void {
  const isMap = list['x-kubernetes-list-type'] === 'map';
  const keys = isJsonList(list['x-kubernetes-list-map-keys']) ? list['x-kubernetes-list-map-keys'] : [];
  if (isMap && keys.length === 0) throw unsupported(path, 'a list of type map without keys');
  const required = isJsonList(items.required) ? items.required : [];
  const properties = isJsonObject(items.properties) ? items.properties : {};
  for (const key of keys) {
    const property = properties[String(key)];
    const hasDefault = isJsonObject(property) && property.default !== undefined;
    if (!required.includes(key) && !hasDefault) throw unsupported(path, `list key "${String(key)}" that may be absent`);
  }
}

function convertUnion(schema: JsonObject, branches: readonly Json[], path: string): StructuralSchema {
  const { anyOf: _, ...around } = schema;
  const objects = branches.filter(isJsonObject);
  const present = objects.filter((branch) => branch.type !== 'null');
  const nullable = present.length < objects.length ? { nullable: true } : {};
  const [only, ...others] = present;

  if (only !== undefined && others.length === 0) return convert({ ...only, ...around, ...nullable }, path);
  if (present.every((branch) => branch.const !== undefined)) {
    return convertEnum({ ...around, ...nullable, enum: present.map((branch) => branch.const ?? null) }, path);
  }
  const types = present.map((branch) => branch.type).toSorted();
  if (types.length === 2 && types[0] === 'integer' && types[1] === 'string') {
    return {
      ...pick({ ...around, ...nullable }, annotations),
      ...extensions(around),
      anyOf: [{ type: 'integer' }, { type: 'string' }],
      'x-kubernetes-int-or-string': true,
    };
  }
  throw unsupported(path, 'alternatives other than constants, null, or an integer and a string');
}

function convertEnum(schema: JsonObject, path: string): StructuralSchema {
  const values = isJsonList(schema.enum) ? schema.enum : [schema.const ?? null];
  const types = new Set(values.map(typeOfConstant));
  const [type] = types;
  if (type === undefined || types.size > 1) throw unsupported(path, 'constants of several types');
  return { ...pick(schema, annotations), ...extensions(schema), type, enum: values };
}

function typeOfConstant(value: Json): SchemaType | undefined {
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'boolean';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return undefined;
}

function convertOpen(schema: JsonObject, path: string): StructuralSchema {
  const keywords = Object.keys(schema).filter(
    (keyword) => !ignored.includes(keyword) && !keyword.startsWith('x-kubernetes-') && !isAnnotation(keyword),
  );
  if (keywords.length > 0) throw unsupported(path, `a schema without type but with ${keywords.join(', ')}`);
  const open = { ...pick(schema, annotations), ...extensions(schema) };
  const isIntOrString = schema['x-kubernetes-int-or-string'] === true;
  return isIntOrString ? open : { ...open, 'x-kubernetes-preserve-unknown-fields': true };
}

/** One object with the fields of all parts. */
function merged(schema: JsonObject, parts: readonly Json[], path: string): JsonObject {
  const { allOf: _, ...around } = schema;
  const objects = parts.filter(isJsonObject);
  if (objects.length < parts.length || objects.some((part) => part.type !== 'object')) {
    throw unsupported(path, 'an intersection of anything but objects');
  }
  const properties = objects.flatMap((part) => Object.entries(isJsonObject(part.properties) ? part.properties : {}));
  if (new Set(properties.map(([name]) => name)).size < properties.length) {
    throw unsupported(path, 'an intersection of objects that share a field');
  }
  const required = objects.flatMap((part) => (isJsonList(part.required) ? part.required : []));
  return { ...Object.assign({}, ...objects), ...around, properties: Object.fromEntries(properties), required };
}

function schemaType(type: Json | undefined, path: string): SchemaType {
  if (typeof type === 'string' && isSchemaType(type)) return type;
  throw unsupported(path, `type ${JSON.stringify(type)}`);
}

function isSchemaType(type: string): type is SchemaType {
  return Object.hasOwn(limits, type);
}

function checkFormat(format: Json | undefined, type: SchemaType, path: string): void {
  if (format === undefined) return;
  if (typeof format === 'string' && formats[type]?.includes(format)) return;
  throw unsupported(path, `format ${JSON.stringify(format)} of type ${type}`);
}

/** OpenAPI 3.0 has the number in `minimum` and a boolean beside it. */
function range(schema: JsonObject): StructuralSchema {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema;
  return {
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
    ...(exclusiveMinimum !== undefined && { minimum: exclusiveMinimum, exclusiveMinimum: true }),
    ...(exclusiveMaximum !== undefined && { maximum: exclusiveMaximum, exclusiveMaximum: true }),
  };
}

const structure: Readonly<Partial<Record<SchemaType, readonly string[]>>> = {
  object: ['properties', 'required', 'patternProperties', 'additionalProperties'],
  array: ['items'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
};

function refuseUnknown(schema: JsonObject, type: SchemaType, path: string): void {
  const known = ['type', ...annotations, ...ignored, ...limits[type], ...(structure[type] ?? [])];
  const unknown = Object.keys(schema).filter(
    (keyword) => !known.includes(keyword) && !keyword.startsWith('x-kubernetes-'),
  );
  // For a tuple there is a clearer error than that of an unknown keyword.
  if (unknown.length > 0 && !(type === 'array' && isJsonList(schema.items))) {
    throw unsupported(path, `${unknown.join(', ')} of type ${type}`);
  }
}

function unsupported(path: string, what: string): SchemaError {
  return new SchemaError(`Cannot write schema of "${path}": ${what}`);
}

function isAnnotation(keyword: string): boolean {
  return annotations.some((annotation) => annotation === keyword);
}

function pick(schema: JsonObject, keywords: readonly string[]): JsonObject {
  return Object.fromEntries(keywords.flatMap((key) => (schema[key] === undefined ? [] : [[key, schema[key]]])));
}

function extensions(schema: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => keyword.startsWith('x-kubernetes-')));
}

function mapChildren(
  schema: StructuralSchema,
  change: (child: StructuralSchema) => StructuralSchema,
): StructuralSchema {
  const { properties, items, additionalProperties } = schema;
  const changed = Object.entries(isJsonObject(properties) ? properties : {}).map(
    ([name, child]) => [name, isJsonObject(child) ? change(child) : child] as const,
  );
  return {
    ...schema,
    ...(changed.length > 0 && { properties: Object.fromEntries(changed) }),
    ...(isJsonObject(items) && { items: change(items) }),
    ...(isJsonObject(additionalProperties) && { additionalProperties: change(additionalProperties) }),
  };
}
