import type { KindName } from './kinds.ts';

/**
 * A part of one layer for each kind. A registry of this type compiles only when it has a line for every kind; `'none'`
 * means that the layer has nothing for the kind, with a comment where the reason is not obvious.
 *
 * This file imports only the type of the names: a registry does not load the schemas of all kinds.
 */
export type PerKind<Part extends object> = Readonly<Record<KindName, Part | 'none'>>;

/** The parts in a registry, in order. */
export function partsOf<Part extends object>(registry: PerKind<Part>): readonly Part[] {
  return Object.values(registry).filter((part): part is Part => part !== 'none');
}

/** The part of a kind; undefined where the layer has none, or the kind is unknown. */
export function partOf<Part extends object>(registry: PerKind<Part>, kind: string): Part | undefined {
  const part = Object.hasOwn(registry, kind) ? registry[kind as KindName] : 'none';
  return part === 'none' ? undefined : part;
}
