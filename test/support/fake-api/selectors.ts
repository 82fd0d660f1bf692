import { isJsonObject, type Json } from '../../../api/base/json.ts';
import type { Selection } from '../../../kube/client.ts';
import { badRequest } from './refusals.ts';
import type { Stored } from './stored.ts';
import type { Traits } from './traits.ts';

type Matches = (object: Stored) => boolean;

/** Whether a list or a watch with this selection shows an object. Refuses what the API server cannot read. */
export function selects({ namespace = '', labelSelector, fieldSelector }: Selection, traits: Traits): Matches {
  const parts = [
    ...(namespace === '' ? [] : [({ metadata }: Stored) => metadata.namespace === namespace]),
    ...termsOf(labelSelector).map(labelTerm),
    ...termsOf(fieldSelector).map((term) => fieldTerm(term, traits)),
  ];
  return (object) => parts.every((matches) => matches(object));
}

/** The terms between commas that are not in parentheses. */
function termsOf(selector = ''): readonly string[] {
  return selector
    .split(/,(?![^(]*\))/)
    .map((term) => term.trim())
    .filter((term, _, all) => term !== '' || all.length > 1);
}

const key = '([A-Za-z0-9][-A-Za-z0-9_./]*)';
const forms = {
  equal: new RegExp(`^${key}\\s*==?\\s*([-A-Za-z0-9_.]*)$`),
  unequal: new RegExp(`^${key}\\s*!=\\s*([-A-Za-z0-9_.]*)$`),
  among: new RegExp(`^${key}\\s+(in|notin)\\s+\\(([-A-Za-z0-9_., ]*)\\)$`),
  there: new RegExp(`^(!?)\\s*${key}$`),
};

function labelTerm(term: string): Matches {
  const label = ({ metadata }: Stored, name = '') =>
    Object.hasOwn(metadata.labels ?? {}, name) ? metadata.labels?.[name] : undefined;

  const equal = forms.equal.exec(term);
  if (equal) return (object) => label(object, equal[1]) === equal[2];
  // As with `notin`, what has no such label is selected.
  const unequal = forms.unequal.exec(term);
  if (unequal) return (object) => label(object, unequal[1]) !== unequal[2];
  const among = forms.among.exec(term);
  if (among) {
    const values = among[3]?.split(',').map((value) => value.trim());
    return (object) => values?.includes(label(object, among[1]) ?? absent) === (among[2] === 'in');
  }
  const there = forms.there.exec(term);
  if (there) return (object) => (label(object, there[2]) === undefined) === (there[1] === '!');
  throw badRequest(`unable to parse requirement: ${term}`);
}

/** No value of a label. */
const absent = '\0';

function fieldTerm(term: string, { fields }: Traits): Matches {
  const [, path = '', operator, value] = /^([^=!]+)(=|==|!=)([^=]*)$/.exec(term) ?? [];
  if (operator === undefined) throw badRequest(`invalid selector: '${term}'; can't understand '${term}'`);
  const isKnown = fields === 'any' || ['metadata.name', 'metadata.namespace', ...fields].includes(path);
  if (!isKnown) throw badRequest(`field label not supported: ${path}`);
  const isEqual = (object: Stored) => fieldText(object, path) === value;
  return operator === '!=' ? (object) => !isEqual(object) : isEqual;
}

function fieldText(object: Stored, path: string): string {
  let found: Json | undefined = object as unknown as Json;
  for (const step of path.split('.')) found = isJsonObject(found) ? found[step] : undefined;
  return found === undefined || found === null ? '' : String(found);
}
