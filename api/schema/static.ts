import type { Static, TSchema } from 'typebox';

/** The TypeScript type of a schema, deeply readonly. */
export type Parsed<Schema extends TSchema> = DeepReadonly<Static<Schema>>;

type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;
