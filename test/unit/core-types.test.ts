import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { coreFields } from '../../api/core/core-types.ts';
import { fieldsMissingFrom } from '../support/core-fields.ts';

const root = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), 'utf8');
const [header = '', ...table] = read('api/core/core-type-tables.ts').split('\n');
const pins = read('deploy/local/tools/kubernetes/go.mod');

describe('the table of core types', () => {
  it.each(['k8s.io/api', 'k8s.io/apimachinery'])(
    'is made from the version of %s that the local platform runs',
    (path) => {
      const pinned = new RegExp(`\\t${path} => ${path} (v\\S+)`).exec(pins)?.[1];
      expect(pinned).toMatch(/^v\d/);
      expect(header).toContain(`${path} ${pinned}`);
    },
  );

  it('names only types that it has, and fields once', () => {
    const types = table.flatMap((line) => [...line.matchAll(/^ {2}(\w+): /g)]).map(([, name = '']) => name);
    const referred = table.flatMap((line) => [...line.matchAll(/:(\w+)/g)]).map(([, name = '']) => name);
    expect(types).toContain('PodTemplateSpec');
    expect(new Set(referred.filter((name) => !types.includes(name)))).toEqual(new Set(['Quantity', 'Time']));
    for (const type of types) expect(coreFields(type).has('')).toBe(false);
  });
});

describe('fieldsMissingFrom', () => {
  const container = { name: { type: 'string' }, resources: { allOf: [{ $ref: reference('ResourceRequirements') }] } };
  const podSpec = { containers: { type: 'array', items: { allOf: [{ $ref: reference('Container') }] } } };
  const limits = { type: 'object', additionalProperties: { $ref: reference('Quantity') } };

  it('finds nothing where the table has every field', () => {
    const document = openApi({
      PodSpec: podSpec,
      Container: container,
      ResourceRequirements: { limits },
      Quantity: undefined,
    });
    expect(fieldsMissingFrom(document, 'v1.PodSpec')).toEqual([]);
  });

  it('finds fields of a newer API server, at any depth', () => {
    const document = openApi({
      PodSpec: { ...podSpec, newList: { type: 'array', items: { $ref: reference('NewItem') } } },
      Container: container,
      ResourceRequirements: { limits, newField: { type: 'string' } },
      NewItem: { inner: { type: 'string' } },
      Quantity: undefined,
    });
    expect(fieldsMissingFrom(document, 'v1.PodSpec')).toEqual([
      'NewItem.inner',
      'PodSpec.newList',
      'ResourceRequirements.newField',
    ]);
  });

  it('refuses a document without the type', () => {
    expect(() => fieldsMissingFrom(openApi({}), 'v1.PodSpec')).toThrow('no schema "v1.PodSpec"');
  });
});

function reference(type: string): string {
  return `#/components/schemas/v1.${type}`;
}

/** A document with these types; undefined: a type without properties. */
function openApi(types: Readonly<Record<string, JsonObject | undefined>>): JsonObject {
  const schemas = Object.entries(types).map(([type, properties]) => [`v1.${type}`, properties ? { properties } : {}]);
  return { components: { schemas: Object.fromEntries(schemas) } };
}
