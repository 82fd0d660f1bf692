import type { JsonObject } from '../../api/base/json.ts';
import { describeErrors, type FieldError } from '../../api/core/field-error.ts';
import { MalformedBody } from '../server/server.ts';

/** One named change of a new object. Returns the same value when there is nothing to change. */
export interface ChainStep<Surroundings> {
  /** The name in messages and logs: `readiness gate`. */
  readonly name: string;
  readonly change: (object: JsonObject, surroundings: Surroundings) => JsonObject | Promise<JsonObject>;
}

/** A failed step; the message begins with its name. */
export class ChainFailed extends Error {
  override readonly name = 'ChainFailed';
}

/**
 * Thrown by a step for an object that its user has to fix, with all its problems. The object is rejected as invalid.
 */
export class ChainRefused extends Error {
  override readonly name = 'ChainRefused';
  readonly errors: readonly FieldError[];

  constructor(errors: readonly FieldError[]) {
    super(describeErrors(errors));
    this.errors = errors;
  }
}

/** Thrown by a step for an object that must not be stored, although its user cannot fix it. */
export class ChainDenied extends Error {
  override readonly name = 'ChainDenied';
}

/** Runs the steps in order, each on the result of the previous one. The first failure ends the chain (FG-12). */
export async function runChain<Surroundings>(
  steps: readonly ChainStep<Surroundings>[],
  object: JsonObject,
  surroundings: Surroundings,
): Promise<JsonObject> {
  let changed = object;
  for (const step of steps) {
    try {
      changed = await step.change(changed, surroundings);
    } catch (error) {
      if (error instanceof MalformedBody || error instanceof ChainRefused || error instanceof ChainDenied) throw error;
      const why = error instanceof Error ? error.message : String(error);
      throw new ChainFailed(`Cannot apply ${step.name}: ${why}`, { cause: error });
    }
  }
  return changed;
}
