import { isJsonList, isJsonObject } from '../../api/base/json.ts';
import { type FeatureGate, featureGateNames, featureGateTable, hasNoEffect } from '../../api/feature-gates.ts';
import type { KindDefinition } from '../../api/schema/kind.ts';
import type { StructuralSchema } from '../../api/schema/structural.ts';
import { fieldsOf, type ReferenceField, schemaOf } from './crd.ts';

const note = '<!-- Written by `npm run generate`. Change the schema instead. -->';

/** The reference page of a kind: names, columns, every field of the stored version, and how other versions differ. */
export function referenceOf(kind: KindDefinition): string {
  const stored = kind.versions.find((version) => version.storage);
  if (stored === undefined) throw new Error(`Cannot write reference of ${kind.kind}: no version is stored`);
  const fields = fieldsOf(schemaOf(kind, stored));
  return [
    note,
    '',
    `# ${kind.kind}: reference`,
    '',
    kind.description,
    '',
    ...namesOf(kind),
    '',
    ...columnsOf(kind),
    ...section('spec', fields, stored.name),
    ...section('status', fields, stored.name),
    ...otherVersions(kind, stored.name, fields),
  ].join('\n');
}

function namesOf(kind: KindDefinition): readonly string[] {
  const versions = kind.versions.map((version) => `\`${version.name}\`${version.storage ? ' (stored)' : ''}`);
  return [
    `- API group: \`${kind.group}\`, versions ${versions.join(', ')}`,
    `- Resource: ${[`\`${kind.plural}\``, ...kind.shortNames.map((name) => `short \`${name}\``)].join(', ')}`,
    `- Scope: ${kind.scope === 'Namespaced' ? 'namespaced' : 'cluster'}`,
  ];
}

function columnsOf({ columns }: KindDefinition): readonly string[] {
  if (columns.length === 0) return ['`kubectl get` shows name and age.', ''];
  return [
    '## Columns of `kubectl get`',
    '',
    ...table(
      ['Column', 'From'],
      columns.map(({ name, jsonPath, priority }) => [
        `\`${name}\`${priority ? ' with `-o wide`' : ''}`,
        `\`${jsonPath}\``,
      ]),
    ),
    '',
  ];
}

function section(part: string, fields: readonly ReferenceField[], version: string): readonly string[] {
  return [
    `## \`${part}\` in ${version}`,
    '',
    ...table(['Field', 'Type', 'Limits', 'Meaning'], fields.filter(({ path }) => path.startsWith(`${part}.`)).map(row)),
    '',
  ];
}

function row(field: ReferenceField): readonly string[] {
  const { path, schema } = field;
  return [`\`${path}\``, typeOf(schema), limitsOf(field).join(', '), String(schema.description ?? '')];
}

/** A table with aligned columns, in the format of the repository's formatter. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const cells = [head, ...rows].map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = head.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const rule = widths.map((width) => '-'.repeat(width));
  const [first = [], ...others] = cells;
  return [first, rule, ...others].map((row) => {
    const padded = row.map((cell, column) => cell.padEnd(widths[column] ?? 0));
    return `| ${padded.join(' | ')} |`;
  });
}

function typeOf(schema: StructuralSchema): string {
  if (schema['x-kubernetes-int-or-string'] === true) return 'number or string';
  if (schema.format === 'date-time') return 'time';
  if (schema.type === 'array' && isJsonObject(schema.items)) return `list of ${typeOf(schema.items)}`;
  if (schema.type === 'object' && isJsonObject(schema.additionalProperties)) {
    return `map of ${typeOf(schema.additionalProperties)}`;
  }
  return String(schema.format ?? schema.type ?? 'any');
}

/** A field with this minimum is not limited beyond its type. */
const minInt32 = -(2 ** 31);

function limitsOf({ schema, required }: ReferenceField): readonly string[] {
  const keys = schema['x-kubernetes-list-map-keys'];
  const values = schema.enum;
  const limit = (keyword: string, text: string): readonly string[] =>
    schema[keyword] === undefined ? [] : [text.replace('#', String(schema[keyword]))];
  return [
    ...(required ? ['required'] : []),
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
    ...(isJsonList(values) ? [`one of ${values.map((value) => `\`${JSON.stringify(value)}\``).join(' ')}`] : []),
    ...(schema.minimum === minInt32 ? [] : [...limit('minimum', 'at least #'), ...limit('maximum', 'at most #')]),
    ...limit('minItems', 'at least # items'),
    ...limit('maxItems', 'at most # items'),
    ...(schema.minLength === 1 ? ['not empty'] : []),
    ...limit('maxLength', 'at most # characters'),
    ...(isJsonList(keys) ? [`unique ${keys.join(', ')}`] : []),
  ];
}

function otherVersions(
  kind: KindDefinition,
  stored: string,
  storedFields: readonly ReferenceField[],
): readonly string[] {
  return kind.versions
    .filter((version) => version.name !== stored)
    .flatMap((version) => {
      const fields = fieldsOf(schemaOf(kind, version));
      const missing = fieldsWithout(storedFields, fields).map(({ path }) => `- There is no \`${path}\`.`);
      const others = fields.filter((field) => version.limitsValues !== false && differs(field, storedFields));
      if (missing.length === 0 && others.length === 0 && version.limitsValues !== false) return [];
      return [
        `## What is different in ${version.name}`,
        '',
        ...(version.limitsValues === false
          ? ['- The schema checks types and required fields only; values are checked by admission.']
          : []),
        ...missing,
        '',
        ...(others.length > 0
          ? ['These it has instead:', '', ...table(['Field', 'Type', 'Limits', 'Meaning'], others.map(row)), '']
          : []),
      ];
    });
}

/**
 * Whether a field differs from the others: it is missing there and not part of a missing field, or has another meaning.
 */
function differs(field: ReferenceField, others: readonly ReferenceField[]): boolean {
  const same = others.find(({ path }) => path === field.path);
  if (same !== undefined) return row(same).join() !== row(field).join();
  const parent = field.path.replace(/(\.[^.]+|\[\])$/, '');
  return others.some(({ path }) => path === parent);
}

/** The fields that are missing in the others, without their subfields. */
function fieldsWithout(
  fields: readonly ReferenceField[],
  others: readonly ReferenceField[],
): readonly ReferenceField[] {
  const known = new Set(others.map(({ path }) => path));
  const left = fields.filter(({ path }) => !known.has(path));
  return left.filter(({ path }) => !left.some((parent) => path !== parent.path && isInside(path, parent.path)));
}

function isInside(path: string, parent: string): boolean {
  return path.startsWith(parent) && /^[.[]/.test(path.slice(parent.length));
}

/** The table of feature gates. */
export function featureGateReference(): string {
  return [
    note,
    '',
    '# Feature gates',
    '',
    'Given as `--feature-gates=A=true,B=false` or in `WINDLASS_FEATURE_GATES`, the same for every role.',
    '`AllAlpha` and `AllBeta` switch every gate of their stage that is not named itself, but for the gates marked',
    '"by name only". An unknown name ends the process at start.',
    '',
    ...table(['Gate', 'Default', 'Stage', 'When it is on'], featureGateNames.map(gateRow)),
    '',
    'Some gates force others, silently and even against explicit values:',
    '',
    '- Without `PodWebhook` these are off: `KruisePodReadinessGate`, both `PodUnavailableBudget…Gate`, `WorkloadSpread`,',
    '  `SidecarSetPatchPodMetadataDefaultsAllowed`, `EnhancedLivenessProbe`, `EnablePodProbeMarkerOnServerless`.',
    '- Without `KruiseDaemon` these are off: both `PreDownloadImageFor…Update`, `DaemonWatchingPod`,',
    '  `InPlaceUpdateEnvFromMetadata`, `PodProbeMarkerGate`, `SidecarTerminator`, `ImagePullJobGate`,',
    '  `EnhancedLivenessProbe`.',
    '- Without `ResourcesDeletionProtection`, `DeletionProtectionForCRDCascadingGate` is off.',
    '- With one of the `PreDownloadImageFor…Update` gates, `ImagePullJobGate` is on.',
    '',
    'The environment variable `CUSTOM_RESOURCE_ENABLE` (a comma list of kinds) without `SidecarSet` in it makes `PodWebhook`',
    'default to off. It does nothing else.',
    '',
    'What is switched by a gate with "no effect yet" does not exist in Windlass. All names of OpenKruise are accepted, so that',
    'existing settings work.',
    '',
  ].join('\n');
}

function gateRow(name: FeatureGate): readonly string[] {
  const gate: (typeof featureGateTable)[FeatureGate] & { readonly infrastructure?: true } = featureGateTable[name];
  const stage = gate.infrastructure ? `${gate.stage}, by name only` : gate.stage;
  return [
    `\`${name}\``,
    gate.default ? 'on' : 'off',
    stage,
    `${gate.effect}${hasNoEffect(name) ? ' (no effect yet)' : ''}`,
  ];
}
