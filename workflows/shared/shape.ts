/**
 * Validation of activity results. A result may have been given manually (`temporal activity complete`), or by a worker
 * of another release, so its type has to be checked. Unknown fields are ignored.
 */

/** The problem of a value, with its path; undefined when it is a `T`. */
export type Shape<T> = ((value: unknown, path: string) => string | undefined) & { readonly of?: T | undefined };

/** For a result, or a field, that is not read: any value is valid. */
export const unread: Shape<never> = () => undefined;

export const text: Shape<string> = primitive('a string', (value) => typeof value === 'string');
export const flag: Shape<boolean> = primitive('a boolean', (value) => typeof value === 'boolean');
export const number: Shape<number> = primitive('a number', Number.isFinite);

/** Milliseconds since 1970, as far as a date can have them. */
export const moment: Shape<number> = primitive(
  'a moment',
  (value) => typeof value === 'number' && !Number.isNaN(new Date(value).getTime()),
);

/** RFC 3339, as far as it can be read. */
export const time: Shape<string> = primitive(
  'a time',
  (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value)),
);

/** One of these strings. */
export function oneOf<const T extends string>(...known: readonly T[]): Shape<T> {
  const all: readonly unknown[] = known;
  return primitive(`one of ${known.map((one) => `"${one}"`).join(', ')}`, (value) => all.includes(value));
}

export function listOf<T>(item: Shape<T>): Shape<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) return `${path} must be a list`;
    return first(value, (one, index) => item(one, `${path}[${index}]`));
  };
}

/** A field that may be missing. */
export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value, path) => (value === undefined ? undefined : shape(value, path));
}

/** An object with at least these fields. */
export function object<T extends object>(fields: Fields<T>): Shape<T> {
  return (value, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return `${path} must be an object`;
    const given = value as Readonly<Record<string, unknown>>;
    const shapes = Object.entries<Shape<unknown>>(fields);
    return first(shapes, ([name, shape]) => shape(given[name], `${path}.${name}`));
  };
}

/** An object whose field `kind` determines the other fields. */
export function byKind<T extends { readonly kind: string }>(
  kinds: {
    readonly [Kind in T['kind']]: Fields<Omit<Extract<T, { readonly kind: Kind }>, 'kind'>>;
  },
): Shape<T> {
  const shapes = new Map(Object.entries<Fields<object>>(kinds).map(([kind, fields]) => [kind, object(fields)]));
  const kindOf = object<{ readonly kind: string }>({ kind: oneOf(...shapes.keys()) });
  return (value, path) => {
    const problem = kindOf(value, path);
    return problem ?? shapes.get((value as T).kind)?.(value, path);
  };
}

/** A shape for each field, the optional ones included. */
export type Fields<T extends object> = { readonly [Name in keyof T]-?: Shape<T[Name]> };

function primitive<T>(what: string, holds: (value: unknown) => boolean): Shape<T> {
  return (value, path) => (holds(value) ? undefined : `${path} must be ${what}`);
}

function first<T>(
  entries: readonly T[],
  problemOf: (entry: T, index: number) => string | undefined,
): string | undefined {
  for (const [index, entry] of entries.entries()) {
    const problem = problemOf(entry, index);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
