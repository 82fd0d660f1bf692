import { parseArgs } from 'node:util';
import type { Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { kindDefinitions } from '../../api/kinds.ts';
import type { KindDefinition } from '../../api/schema/kind.ts';
import type { KubeClient } from '../../kube/client.ts';

/**
 * What `kubectl get … -o json` prints for these arguments, read without kubectl: tests that wait ask several times a second,
 * and a process costs a tenth of a second of a processor each time. Undefined for all other commands.
 */
export function readAsKubectl(
  kube: Pick<KubeClient, 'get' | 'list'>,
  args: readonly string[],
): Promise<string> | undefined {
  const asked = readGet(args);
  if (asked === undefined) return undefined;
  const { resource, name, namespace, ...selection } = asked;
  const answer =
    name === undefined ? kube.list(resource, { namespace, ...selection }) : kube.get(resource, { namespace, name });
  return answer.then((found) => JSON.stringify(found));
}

const options = {
  namespace: { type: 'string', short: 'n' },
  selector: { type: 'string', short: 'l' },
  'field-selector': { type: 'string' },
  output: { type: 'string', short: 'o' },
} as const;

function readGet(args: readonly string[]) {
  if (args[0] !== 'get') return undefined;
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
    const [, kind = '', name, ...others] = positionals;
    const resource = resources.get(kind);
    if (resource === undefined || values.output !== 'json' || others.length > 0) return undefined;
    const [labelSelector, fieldSelector] = [values.selector, values['field-selector']];
    return { resource, name, namespace: values.namespace ?? 'default', labelSelector, fieldSelector };
  } catch {
    return undefined; // an option that only kubectl knows
  }
}

/** By every word for which kubectl takes them. */
const resources: ReadonlyMap<string, Resource> = new Map(
  [
    ...Object.values<Resource>(kubeResource).map((resource) => ({ resource, words: wordsOf(resource) })),
    ...kindDefinitions.flatMap(wordsOfVersions),
  ].flatMap(({ resource, words }) => words.map((word) => [word, resource] as const)),
);

function wordsOf({ plural, kind }: Pick<Resource, 'plural' | 'kind'>): readonly string[] {
  return [plural, kind.toLowerCase()];
}

/** Words without a version mean the latest one. */
function wordsOfVersions(definition: KindDefinition): readonly { resource: Resource; words: readonly string[] }[] {
  const { group, kind, plural, shortNames, scope, versions } = definition;
  const latestFirst = versions.map(({ name }) => name).toSorted((a, b) => b.localeCompare(a));
  return latestFirst.map((version, index) => ({
    resource: { group, version, plural, kind, namespaced: scope === 'Namespaced' },
    words: [
      `${plural}.${version}.${group}`,
      ...(index === 0 ? [...wordsOf(definition), `${plural}.${group}`, ...shortNames] : []),
    ],
  }));
}
