// How a run goes on in another one: with an empty history, and with the code of the worker version that is current.
import { type ContinueAsNewOptions, makeContinueAsNewFunc, type Workflow } from '@temporalio/workflow';
import type { Fields, Shape } from './shape.ts';

/**
 * Goes on in another run, on the version of the workers that is current then. Without the behavior Temporal would keep the
 * next run on the version of this one.
 */
export async function handOverTo<W extends Workflow>(
  parameters: Parameters<W>,
  options: ContinueAsNewOptions = {},
): Promise<never> {
  return await makeContinueAsNewFunc<W>({ ...options, initialVersioningBehavior: 'AUTO_UPGRADE' })(...parameters);
}

/**
 * What the run before has left, as far as it can be read: each field that has its shape. It comes with the input of the
 * workflow, which another release may have written, or anybody by hand.
 */
export function handedOver<T extends object>(value: unknown, fields: Fields<T>): Partial<T> {
  if (typeof value !== 'object' || value === null) return {};
  const given = value as Readonly<Record<string, unknown>>;
  const known = Object.entries<Shape<unknown>>(fields).filter(
    ([name, shape]) => given[name] !== undefined && shape(given[name], name) === undefined,
  );
  return Object.fromEntries(known.map(([name]) => [name, given[name]])) as Partial<T>;
}
