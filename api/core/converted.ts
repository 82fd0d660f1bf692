import type { JsonObject } from '../base/json.ts';

/** An object in another version, and what could not be converted, for the log. */
export interface Converted {
  readonly object: JsonObject;
  readonly warnings: readonly string[];
}
