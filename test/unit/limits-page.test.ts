import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { longestPodName } from '../../api/container-launch-priority.ts';
import { kindDefinitions } from '../../api/kinds.ts';
import { fieldsOf, schemaOf } from '../../deploy/generate/crd.ts';

// The page of limits matches the code: each row that names a constant has its value, and no limit of an input is
// missing.

const root = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), 'utf8');
const page = read('docs/reference/limits.md');

interface Row {
  readonly what: string;
  readonly limit: string;
  /** The file and, where there is one, the constant. */
  readonly code: readonly string[];
}

const rows = page.split('\n').flatMap((line): readonly Row[] => {
  const cells = line.split('|').map((cell) => cell.trim());
  const [, what = '', limit = '', , , , code = ''] = cells;
  const isRow = cells.length === 8 && what !== 'What' && !what.startsWith('-');
  return isRow ? [{ what, limit, code: [...code.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name) }] : [];
});

const units: Readonly<Record<string, number>> = { KiB: 1024, MiB: 1024 ** 2, s: 1_000 };

/** `32 KiB` as a number of bytes, `10 s` of milliseconds. */
function numberOf(limit: string, inSeconds = false): number {
  const [, digits = '', unit = ''] = /^([\d,.]+) ?(\w*)/.exec(limit) ?? [];
  const number = Number(digits.replaceAll(',', ''));
  return number * (unit === 's' && inSeconds ? 1 : (units[unit] ?? 1));
}

/** The value of a constant, or of a field of one, as the source spells it. */
function constantIn(source: string, name: string): number | undefined {
  const [constant = '', field] = name.split('.');
  const value = String.raw`([\d_ *]+)`;
  const pattern =
    field === undefined
      ? String.raw`\b${constant}(?: =|:) ${value}[;,}]`
      : String.raw`\b${constant}\b[^=\n]*= \{[^}]*?\b${field}: ${value}[,\s}]`;
  const text = new RegExp(pattern).exec(source)?.[1]?.replaceAll('_', '').replaceAll(' ', '');
  return text
    ?.split('*')
    .map(Number)
    .reduce((product, factor) => product * factor, 1);
}

describe('the page of limits', () => {
  const named = rows.filter(({ code }) => code.length === 2);

  it('has rows, and names constants in most of them', () => {
    expect(rows.length).toBeGreaterThan(80);
    expect(named.length).toBeGreaterThan(rows.length / 2);
  });

  it.each(named.filter(({ code }) => code[1] !== 'longestPodName'))('says what the code says: $what', (row) => {
    const [file = '', name = ''] = row.code;
    expect(constantIn(read(file), name)).toBe(numberOf(row.limit, name.endsWith('Seconds')));
  });

  it('says how long the name of a pod may be whose ConfigMap is named after it', () => {
    const limits = named.filter(({ code }) => code[1] === 'longestPodName').map(({ limit }) => numberOf(limit));
    expect(limits).toEqual([longestPodName]);
  });

  it('names files that there are', () => {
    for (const { code } of rows) if (code[0] !== undefined) expect(read(code[0])).not.toBe('');
  });

  it('has every limit that api/ exports by its name', () => {
    const names = readdirSync(new URL('api', root), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) => {
        const found = read(`api/${file}`).matchAll(/^export const ((?:most|longest|largest|deepest)[A-Z]\w*) =/gm);
        return [...found].map(([, name = '']) => `api/${file} ${name}`);
      });
    const onPage = named.map(({ code: [file, name = ''] }) => `${file} ${name.split('.')[0]}`);
    expect(names.length).toBeGreaterThan(15);
    expect(names.filter((name) => !onPage.includes(name))).toEqual([]);
  });

  const limited = kindDefinitions.flatMap((kind) =>
    kind.versions.flatMap((version) =>
      fieldsOf(schemaOf(kind, version)).flatMap(({ path, schema }) => {
        const most = schema.maxItems ?? schema.maxLength;
        return path.startsWith('spec') && typeof most === 'number' ? [[kind.kind, path, most] as const] : [];
      }),
    ),
  );

  it.each(limited)('has the limit of the schema of %s at %s', (_kind, path, most) => {
    const limits = rows.filter(({ what }) => what.startsWith(`\`${path}\``)).map(({ limit }) => numberOf(limit));
    expect(limits).toContain(most);
  });
});
