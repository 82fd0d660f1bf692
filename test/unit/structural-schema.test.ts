import { describe, expect, it } from '@jest/globals';
import { type TSchema, Type } from 'typebox';
import { cel, intOrString, listKeyedBy } from '../../api/schema/shared.ts';
import { SchemaError, toStructural, withoutField, withoutLimits } from '../../api/schema/structural.ts';

describe('toStructural', () => {
  it.each<readonly [string, TSchema, object]>([
    ['a string', Type.String({ minLength: 1, pattern: '^a' }), { type: 'string', pattern: '^a', minLength: 1 }],
    ['a time', Type.String({ format: 'date-time' }), { type: 'string', format: 'date-time' }],
    ['an int32', Type.Integer({ format: 'int32', minimum: 0 }), { type: 'integer', format: 'int32', minimum: 0 }],
    ['a boolean with a default', Type.Boolean({ default: false }), { type: 'boolean', default: false }],
    ['a description', Type.Number({ description: 'd' }), { type: 'number', description: 'd' }],
    [
      'an open limit',
      Type.Number({ exclusiveMinimum: 3, maximum: 9 }),
      { type: 'number', minimum: 3, exclusiveMinimum: true, maximum: 9 },
    ],
    [
      'a union of constants',
      Type.Union([Type.Literal('Fail'), Type.Literal('')], { default: 'Fail', description: 'd' }),
      { type: 'string', enum: ['Fail', ''], default: 'Fail', description: 'd' },
    ],
    ['one constant', Type.Literal(3), { type: 'integer', enum: [3] }],
    ['an enum', Type.Enum(['a', 'b']), { type: 'string', enum: ['a', 'b'] }],
    ['a value or null', Type.Union([Type.String(), Type.Null()]), { type: 'string', nullable: true }],
    [
      'constants or null',
      Type.Union([Type.Literal('a'), Type.Literal('b'), Type.Null()]),
      { type: 'string', enum: ['a', 'b'], nullable: true },
    ],
    [
      'a number or a string',
      intOrString({ description: 'd' }),
      { anyOf: [{ type: 'integer' }, { type: 'string' }], 'x-kubernetes-int-or-string': true, description: 'd' },
    ],
    [
      'a record',
      Type.Record(Type.String(), Type.Integer()),
      { type: 'object', additionalProperties: { type: 'integer' } },
    ],
    [
      'an object that admits nothing else, without its title',
      Type.Object({ a: Type.String(), b: Type.Optional(Type.String()) }, { additionalProperties: false, title: 't' }),
      { type: 'object', required: ['a'], properties: { a: { type: 'string' }, b: { type: 'string' } } },
    ],
    ['anything', Type.Unknown(), { 'x-kubernetes-preserve-unknown-fields': true }],
    [
      'an object whose unknown fields stay',
      Type.Object({}, { 'x-kubernetes-preserve-unknown-fields': true }),
      { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    ],
    [
      'an intersection of objects',
      Type.Unsafe({
        allOf: [
          { type: 'object', required: ['a'], properties: { a: { type: 'string' } } },
          { type: 'object', required: ['b'], properties: { b: { type: 'string' } } },
        ],
      }),
      { type: 'object', required: ['a', 'b'], properties: { a: { type: 'string' }, b: { type: 'string' } } },
    ],
    [
      'a keyed list',
      Type.Array(Type.Object({ name: Type.String() }), { ...listKeyedBy('name'), maxItems: 9 }),
      {
        type: 'array',
        maxItems: 9,
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
        items: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
      },
    ],
    [
      'rules in CEL',
      Type.String({ ...cel({ rule: 'self == oldSelf', message: 'm' }) }),
      { type: 'string', 'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'm' }] },
    ],
  ])('writes %s', (_, schema, expected) => {
    expect(toStructural(schema)).toEqual(expected);
  });

  it.each<readonly [string, TSchema, string]>([
    ['a union of objects', Type.Union([Type.Object({}), Type.String()]), 'alternatives'],
    ['a tuple', Type.Tuple([Type.String(), Type.Integer()]), 'a tuple'],
    ['keys by pattern', Type.Record(Type.String({ pattern: '^x-' }), Type.String()), 'keys by pattern'],
    ['constants of several types', Type.Union([Type.Literal('a'), Type.Literal(1)]), 'constants of several types'],
    ['a format that nobody checks', Type.String({ format: 'int32' }), 'format "int32" of type string'],
    ['uniqueItems', Type.Array(Type.String(), { uniqueItems: true }), 'uniqueItems of type array'],
    ['a bigint', Type.BigInt(), 'type "bigint"'],
    ['null alone', Type.Null(), 'type "null"'],
    ['a reference', Type.Ref('Other'), '$ref'],
    [
      'a list key that may be absent',
      Type.Array(Type.Object({ name: Type.Optional(Type.String()) }), listKeyedBy('name')),
      'list key "name" that may be absent',
    ],
  ])('refuses %s and names the place', (_, schema, message) => {
    const whole = Type.Object({ items: Type.Array(Type.Object({ bad: schema })) });
    expect(() => toStructural(whole, 'spec')).toThrow(SchemaError);
    expect(() => toStructural(whole, 'spec')).toThrow(`Cannot write schema of "spec.items[].bad": `);
    expect(() => toStructural(whole, 'spec')).toThrow(message);
  });

  it('accepts a list key that has a default', () => {
    const port = Type.Object({ protocol: Type.Optional(Type.String({ default: 'TCP' })) });
    expect(() => toStructural(Type.Array(port, listKeyedBy('protocol')))).not.toThrow();
  });
});

describe('withoutLimits', () => {
  it('keeps types, required fields and upper bounds of size', () => {
    const schema = toStructural(
      Type.Object({
        phase: Type.Union([Type.Literal('a'), Type.Literal('b')], { default: 'a' }),
        seconds: Type.Array(Type.Integer({ minimum: 0, maximum: 5, format: 'int32' }), { minItems: 1, maxItems: 9 }),
        enum: Type.String({ minLength: 1, maxLength: 3 }),
      }),
    );
    expect(withoutLimits(schema)).toEqual({
      type: 'object',
      required: ['enum', 'phase', 'seconds'],
      properties: {
        phase: { type: 'string', default: 'a' },
        seconds: { type: 'array', maxItems: 9, items: { type: 'integer', format: 'int32' } },
        enum: { type: 'string', maxLength: 3 },
      },
    });
  });
});

describe('withoutField', () => {
  const schema = toStructural(
    Type.Object({ list: Type.Array(Type.Object({ a: Type.String(), b: Type.String() })), c: Type.String() }),
  );

  it('takes the field out, also of the required ones and below lists', () => {
    expect(withoutField(schema, 'list.a')).toMatchObject({
      required: ['c', 'list'],
      properties: { list: { items: { required: ['b'], properties: { b: { type: 'string' } } } } },
    });
    expect(withoutField(schema, 'list')).toEqual({
      type: 'object',
      required: ['c'],
      properties: { c: { type: 'string' } },
    });
  });

  it('refuses a field that is not there', () => {
    expect(() => withoutField(schema, 'list.x.y')).toThrow(SchemaError);
  });
});
