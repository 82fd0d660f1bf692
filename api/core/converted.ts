import type { JsonObject } from '../base/json.ts';

/** An object in the other version, and what could not be taken along, for the log. */
export interface Converted {
  readonly object: JsonObject;
  readonly warnings: readonly string[];
}
