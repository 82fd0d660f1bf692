import type { JsonObject } from '../../../api/base/json.ts';
import { describeErrors, type FieldError } from '../../../api/core/field-error.ts';
import { MalformedBody } from '../server/server.ts';

/** One change of a new object, by name. It gives back the same value where it has nothing to do. */
export interface ChainStep<Surroundings> {
  /** As messages and logs name it: `readiness gate`. */
  readonly name: string;
  readonly change: (object: JsonObject, surroundings: Surroundings) => JsonObject | Promise<JsonObject>;
}

/** A step that failed; the message begins with its name. */
export class ChainFailed extends Error {
  override readonly name = 'ChainFailed';
}

/** What a step throws at an object that its user has to mend, with every problem of it. It is refused as invalid. */
export class ChainRefused extends Error {
  override readonly name = 'ChainRefused';
  readonly errors: readonly FieldError[];

  constructor(errors: readonly FieldError[]) {
    super(describeErrors(errors));
    this.errors = errors;
  }
}

/** Runs the steps in their order, each on what the one before has made. The first that fails ends it (FG-12). */
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
      if (error instanceof MalformedBody || error instanceof ChainRefused) throw error;
      const why = error instanceof Error ? error.message : String(error);
      throw new ChainFailed(`Cannot apply ${step.name}: ${why}`, { cause: error });
    }
  }
  return changed;
}
