// What an operation receives instead of a payload that could not be decoded: operators may signal what they like, while
// an invalid input is an error that has to be reported.
import { isJsonObject } from '../base/json.ts';

const field = 'windlass.io/unreadable';

/** Replaces a payload that could not be decoded; contains its encoding. */
export function unreadablePayload(encoding: string): { readonly [field]: string } {
  return { [field]: encoding };
}

/** The encoding of a payload that could not be decoded; undefined for anything else. */
export function unreadableEncoding(value: unknown): string | undefined {
  const encoding = isJsonObject(value) ? value[field] : undefined;
  return typeof encoding === 'string' ? encoding : undefined;
}
