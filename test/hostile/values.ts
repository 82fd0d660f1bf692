// The largest, deepest, longest and oddest values that a field may be given, from the schema of its kind.
import type { TSchema } from 'typebox';
import type { Json, JsonObject } from '../../api/base/json.ts';

/** Where a field is: names of fields, `0` for the first item of a list, and `key` for a value of a map. */
export type FieldPath = readonly string[];

/** One value for one field. */
export interface HostileValue {
  readonly path: FieldPath;
  /** What is odd about it, in a few words. */
  readonly what: string;
  readonly value: Json;
}

/** The parts of JSON Schema that the schemas of kinds use. */
interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly const?: unknown;
  readonly maxItems?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
}

/** Every hostile value of every field of a schema, shallow fields first. */
export function hostileValues(schema: TSchema, path: FieldPath): readonly HostileValue[] {
  return valuesBelow(schema as Schema, path).toSorted((a, b) => a.path.length - b.path.length);
}

/** The object with a value at the path; what is missing on the way is made. */
export function withValue(object: Json | undefined, [first, ...rest]: FieldPath, value: Json): Json {
  if (first === undefined) return value;
  if (first === '0') {
    const list = Array.isArray(object) ? (object as readonly Json[]) : [];
    return [withValue(list[0], rest, value), ...list.slice(1)];
  }
  const fields = typeof object === 'object' && object !== null && !Array.isArray(object) ? (object as JsonObject) : {};
  return { ...fields, [first]: withValue(fields[first], rest, value) };
}

/** `spec.probes[0].probe.exec.command`, as refusals write it. */
export function pathText(path: FieldPath): string {
  return path.reduce((text, field) => (field === '0' ? `${text}[0]` : text === '' ? field : `${text}.${field}`), '');
}

function valuesBelow(schema: Schema, path: FieldPath): readonly HostileValue[] {
  const own = ownValues(schema).map(([what, value]) => ({ path, what, value }));
  const properties = Object.entries(schema.properties ?? {}).flatMap(([name, field]) =>
    valuesBelow(field, [...path, name]),
  );
  const items = schema.items === undefined ? [] : valuesBelow(schema.items, [...path, '0']);
  const [entry] = Object.values(schema.patternProperties ?? {});
  const entries = entry === undefined ? [] : valuesBelow(entry, [...path, 'key']);
  return [...own, ...properties, ...items, ...entries];
}

function ownValues(schema: Schema): readonly (readonly [string, Json])[] {
  if (schema['x-kubernetes-preserve-unknown-fields']) return [...objects, ...templates];
  if (schema.anyOf?.some(({ const: literal }) => literal !== undefined)) return strings(schema);
  if (schema.anyOf) return schema.anyOf.flatMap(ownValues);
  switch (schema.type) {
    case 'string':
      return strings(schema);
    case 'integer':
      return integers(schema);
    case 'array':
      return lists(schema);
    case 'object':
      return schema.patternProperties ? maps(schema.patternProperties) : objects;
    default:
      return [];
  }
}

const long = 200_000;

function strings({ maxLength = long }: Schema): readonly (readonly [string, Json])[] {
  return [
    ['the longest text', 'a'.repeat(maxLength)],
    ['the longest text in wide characters', '😀'.repeat(Math.max(1, Math.floor(maxLength / 2)))],
    ['digits only', '9'.repeat(maxLength)],
    ['a share with many digits', `${'9'.repeat(Math.max(1, maxLength - 1))}%`],
    ['stars', '*a'.repeat(Math.max(1, Math.min(200, maxLength / 2)))],
    ['slashes and colons', 'a/b:c@'.repeat(Math.max(1, Math.min(1_000, maxLength / 6)))],
    ['a name of every object', '__proto__'],
    ['a method of every object', 'constructor'],
    ['control characters', 'a\u0001\u001b[31m\nb\u0000'.slice(0, -1)],
    ['a path upwards', '../../../../etc/passwd'],
    ['nothing', ''],
  ];
}

function integers({ minimum = -(2 ** 31), maximum = 2 ** 31 - 1 }: Schema): readonly (readonly [string, Json])[] {
  return [
    ['the largest number', maximum],
    ['the smallest number', minimum],
    ['zero', 0],
  ];
}

function lists({ items = {}, maxItems = 20_000 }: Schema): readonly (readonly [string, Json])[] {
  const count = Math.min(maxItems, 20_000);
  return [
    ['the longest list', Array.from({ length: count }, (_, index) => plainValue(items, `i${index}`))],
    ['the same item again and again', Array.from({ length: count }, () => plainValue(items, 'same'))],
    ['an empty list', []],
  ];
}

function maps(schemas: Readonly<Record<string, Schema>>): readonly (readonly [string, Json])[] {
  const [schema = {}] = Object.values(schemas);
  const entry = plainValue(schema, 'v');
  return [
    ['many keys', Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`k${index}`, entry]))],
    ['a long key', { ['k'.repeat(100_000)]: entry }],
    ['keys that objects have', JSON.parse('{"__proto__":"v","constructor":"v","toString":"v","hasOwnProperty":"v"}')],
  ];
}

const objects: readonly (readonly [string, Json])[] = [
  ['an empty object', {}],
  ['fields that nobody knows', { unknown: { field: 'x'.repeat(1_000) } }],
];

const templates: readonly (readonly [string, Json])[] = [
  ['a deep template', { metadata: { labels: { app: 'hostile' } }, spec: { deep: nested(200) } }],
  [
    'a wide template',
    templateWith(Array.from({ length: 400 }, (_, index) => ({ name: `c${index}`, image: 'busybox:1.36' }))),
  ],
  [
    'many variables',
    templateWith([
      {
        name: 'app',
        image: 'busybox:1.36',
        env: Array.from({ length: 5_000 }, (_, index) => ({ name: `V${index}`, value: 'x'.repeat(40) })),
      },
    ]),
  ],
];

function templateWith(containers: readonly JsonObject[]): Json {
  return { metadata: { labels: { app: 'hostile' } }, spec: { containers } };
}

function nested(depth: number): Json {
  let value: Json = 'end';
  for (let level = 0; level < depth; level++) value = { next: value };
  return value;
}

/** An ordinary value of a schema, told apart from others by `name`. */
function plainValue(schema: Schema, name: string): Json {
  const [literal] = schema.anyOf?.flatMap(({ const: value }) => (typeof value === 'string' ? [value] : [])) ?? [];
  if (literal !== undefined) return literal;
  const { type = schema.anyOf?.[0]?.type, properties = {} } = schema;
  if (type === 'string') return name.slice(0, schema.maxLength ?? name.length);
  if (type === 'integer') return Math.max(1, schema.minimum ?? 1);
  if (type === 'boolean') return true;
  if (type === 'array') return [plainValue(schema.items ?? {}, name)];
  return Object.fromEntries(Object.entries(properties).map(([field, below]) => [field, plainValue(below, name)]));
}
