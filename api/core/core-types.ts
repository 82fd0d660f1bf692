// How the core types of a pod template look as JSON when a Go program has read and written them: which fields are left out
// when they are empty, which are written even then, in which order. OpenKruise stores templates in this form, and hashes it.
//
// core-type-tables.ts has the fields in the order of Go's structs. A field is written as
//   name          left out when empty: "", 0, false
//   name!         always written, "" when absent; name!0 is 0 when absent
//   name*         a pointer: any value stays, null is left out; name!* is null when absent
//   name[]        a list, name{} a map: left out when empty; name![] is null when absent
//   name:Type     of that type; a plain one is written even when it is empty, as {}
// Times are written as null when absent, quantities as "0", and quantities are put into their canonical form.

import { isJsonList, isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { compareGoStrings, type GoValue } from '../base/json-go.ts';
import { canonicalQuantity } from '../base/quantity.ts';
import { coreTypeTables } from './core-type-tables.ts';

/** A core type whose fields are known. */
export type CoreType = keyof typeof coreTypeTables;

/** The object as the API server would store it. Unknown fields are kept and come last. */
export function canonicalCore(type: CoreType, object: JsonObject): JsonObject {
  return toJson(struct(coreFields(type), object, { unknown: true }));
}

/** The object as a current Go program would write it: without unknown fields. */
export function asGoStruct(type: CoreType, object: JsonObject): GoObject {
  return struct(coreFields(type), object, { unknown: false });
}

/** A Go struct or a Go map as `goJson` writes it. */
export type GoObject = Readonly<Record<string, GoValue | undefined>>;

/** A field of a core type. */
interface CoreField {
  readonly name: string;
  readonly always: boolean;
  readonly shape: 'plain' | 'pointer' | 'list' | 'map';
  /** The value of an always written field when it is absent. */
  readonly zero: '' | 0 | null;
  /** The type of the value, or of the items of a list or a map. Absent: the value is kept unchanged. */
  readonly type?: string;
}

interface Style {
  /** Whether unknown fields are kept. */
  readonly unknown: boolean;
}

const fieldPattern = /^(\w+)(!?)(0?)(\*|\[\]|\{\})?(?::(\w+))?$/;
const shapes = new Map<string | undefined, CoreField['shape']>([
  ['*', 'pointer'],
  ['[]', 'list'],
  ['{}', 'map'],
]);

type CoreFields = ReadonlyMap<string, CoreField>;

const parsed: ReadonlyMap<string, CoreFields> = new Map(
  Object.entries(coreTypeTables).map(([type, table]) => [
    type,
    new Map(
      table
        .trim()
        .split(/\s+/)
        .map(parseField)
        .map((field) => [field.name, field]),
    ),
  ]),
);

const noFields: CoreFields = new Map();

function parseField(text: string): CoreField {
  const [, name = '', always, zero, mark, type] = fieldPattern.exec(text) ?? [];
  const shape = shapes.get(mark) ?? 'plain';
  const scalarZero = zero === '0' ? 0 : '';
  return { name, always: always === '!', shape, zero: shape === 'plain' ? scalarZero : null, ...(type && { type }) };
}

/** The fields of a type by name, in the order of Go's struct. Empty: the type has its own JSON format. */
export function coreFields(type: string): CoreFields {
  return parsed.get(type) ?? noFields;
}

function struct(fields: CoreFields, object: JsonObject, style: Style): GoObject {
  const entries: [string, GoValue | undefined][] = [];
  for (const field of fields.values()) {
    const value = fieldValue(field, object[field.name] ?? undefined, style);
    if (value !== undefined) entries.push([field.name, value]);
  }
  if (style.unknown) {
    for (const name of Object.keys(object)) if (!fields.has(name)) entries.push([name, object[name]]);
  }
  return Object.fromEntries(entries);
}

/** Undefined: left out. */
function fieldValue(field: CoreField, value: Json | undefined, style: Style): GoValue | undefined {
  switch (field.shape) {
    case 'list':
      if (!isJsonList(value)) return value ?? absent(field);
      return value.length > 0 || field.always ? value.map((item) => typed(field.type, item, style)) : undefined;
    case 'map':
      if (!isJsonObject(value)) return value;
      return Object.keys(value).length > 0 ? map(field.type, value, style) : undefined;
    case 'pointer':
      return value === undefined ? absent(field) : typed(field.type, value, style);
    case 'plain':
      if (field.type !== undefined) return typed(field.type, value ?? emptyOf(field.type), style);
      return isEmpty(value) ? absent(field) : value;
  }
}

function map(type: string | undefined, object: JsonObject, style: Style): GoValue {
  return new Map(
    Object.entries(object).flatMap(([key, value]) =>
      value === undefined ? [] : [[key, typed(type, value, style)] as const],
    ),
  );
}

function typed(type: string | undefined, value: Json, style: Style): GoValue {
  if (type === 'Quantity') {
    return typeof value === 'string' || typeof value === 'number' ? canonicalQuantity(value) : value;
  }
  return type !== undefined && isJsonObject(value) ? struct(coreFields(type), value, style) : value;
}

function emptyOf(type: string): Json {
  if (type === 'Time') return null;
  return type === 'Quantity' ? '0' : {};
}

function absent(field: CoreField): Json | undefined {
  return field.always ? field.zero : undefined;
}

function isEmpty(value: Json | undefined): boolean {
  return value === undefined || value === '' || value === 0 || value === false;
}

function toJson(value: GoObject): JsonObject {
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}

function plain(value: GoValue | undefined): Json | undefined {
  if (isGoMap(value)) {
    return Object.fromEntries(
      [...value]
        .toSorted(([left], [right]) => compareGoStrings(left, right))
        .map(([key, inner]) => [key, plain(inner) ?? null]),
    );
  }
  if (isGoList(value)) return value.map((item) => plain(item) ?? null);
  return isGoObject(value) ? toJson(value) : value;
}

function isGoMap(value: GoValue | undefined): value is ReadonlyMap<string, GoValue> {
  return value instanceof Map;
}

function isGoList(value: GoValue | undefined): value is readonly GoValue[] {
  return Array.isArray(value);
}

function isGoObject(value: GoValue | undefined): value is GoObject {
  return typeof value === 'object' && value !== null;
}
