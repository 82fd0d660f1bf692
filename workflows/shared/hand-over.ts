// How a run continues as new: with an empty history, and on the current worker version.
import { type ContinueAsNewOptions, makeContinueAsNewFunc, type Workflow } from '@temporalio/workflow';
import type { Fields, Shape } from './shape.ts';

/**
 * Continues as new, on the then current worker version. Without the versioning behavior Temporal would keep the next
 * run on the version of this one.
 */
export async function handOverTo<W extends Workflow>(
  parameters: Parameters<W>,
  options: ContinueAsNewOptions = {},
): Promise<never> {
  return await makeContinueAsNewFunc<W>({ ...options, initialVersioningBehavior: 'AUTO_UPGRADE' })(...parameters);
}

/**
 * What the previous run has handed over: each field that has the expected shape. It is part of the workflow input,
 * which another release may have written, or a person.
 */
export function handedOver<T extends object>(value: unknown, fields: Fields<T>): Partial<T> {
  if (typeof value !== 'object' || value === null) return {};
  const given = value as Readonly<Record<string, unknown>>;
  const known = Object.entries<Shape<unknown>>(fields).filter(
    ([name, shape]) => given[name] !== undefined && shape(given[name], name) === undefined,
  );
  return Object.fromEntries(known.map(([name]) => [name, given[name]])) as Partial<T>;
}
