// Which annotations SidecarSets may write on pods: the ConfigMap `kruise-configuration` lists regular expressions by the
// labels of SidecarSets (SCS-83). It counts when a SidecarSet is written, and not when a pod is created (SCS-84).

import { parseGoRegexp } from '../base/go-regexp.ts';
import { isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type FieldError, forbidden, invalid } from '../core/field-error.ts';
import { isSelected } from '../core/label-selector.ts';
import { readSelector, textsIn } from './read.ts';

export const patchPath = 'spec.patchPodMetadata';

/**
 * The annotations of `patchPodMetadata` that are not allowed. `text` is the whitelist as JSON; undefined: there is none.
 * `isOptional`: gate SidecarSetPatchPodMetadataDefaultsAllowed.
 */
export function whitelistProblems(
  object: JsonObject,
  text: string | undefined,
  { isOptional }: { readonly isOptional: boolean },
): readonly FieldError[] {
  const patches = listOr(objectOr(object.spec).patchPodMetadata).map(objectOr);
  if (patches.length === 0) return [];
  if (text === undefined) {
    return isOptional ? [] : [forbidden(patchPath, 'SidecarSet patch metadata whitelist not found')];
  }
  const rules = rulesOf(text);
  if (rules === undefined) return [invalid(patchPath, text, 'the whitelist is not valid JSON')];
  const patterns = rules.flatMap((rule) => (appliesTo(rule, object) ? expressionsOf(rule) : []));
  if (patterns.length === 0) {
    return isOptional ? [] : [forbidden(patchPath, 'sidecarSet patch metadata annotation is not allowed')];
  }

  const expressions = patterns.map((pattern) => ({ pattern, parsed: parseGoRegexp(pattern) }));
  const bad = expressions.flatMap(({ pattern, parsed }) =>
    'problem' in parsed
      ? [invalid(patchPath, pattern, `the whitelist has an invalid expression: ${parsed.problem}`)]
      : [],
  );
  if (bad.length > 0) return bad;
  const isAllowed = (key: string) => expressions.some(({ parsed }) => 'matches' in parsed && parsed.matches(key));
  return patches.flatMap(({ annotations }, index) =>
    Object.keys(objectOr(annotations))
      .filter((key) => !isAllowed(key))
      .map((key) =>
        forbidden(
          `${patchPath}[${index}].annotations[${key}]`,
          `sidecarSet patch metadata annotation(${key}) is not allowed`,
        ),
      ),
  );
}

/** Undefined: the text is no JSON object. Unknown members are ignored (SCS-83a). */
function rulesOf(text: string): readonly JsonObject[] | undefined {
  try {
    const whitelist: Json = JSON.parse(text);
    return isJsonObject(whitelist) ? listOr(whitelist.rules).map(objectOr) : undefined;
  } catch {
    return undefined;
  }
}

function appliesTo({ selector }: JsonObject, { metadata }: JsonObject): boolean {
  return !isJsonObject(selector) || isSelected(readSelector(selector), textsIn(objectOr(metadata).labels));
}

function expressionsOf({ allowedAnnotationKeyExprs }: JsonObject): readonly string[] {
  return listOr(allowedAnnotationKeyExprs).filter((pattern) => typeof pattern === 'string');
}
