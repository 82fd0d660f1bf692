// npm run generate:core-types   writes api/core/core-type-tables.ts from the Go sources of k8s.io/api
//
// Not part of `npm run generate`: it needs Go and, in the module cache, the sources that deploy/local/tools/kubernetes
// pins. Run it when that version changes. Revision hashes depend on the result, so read the difference before you commit.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const widest = 120;

const [versions = '', ...types] = execFileSync(
  'go',
  ['run', '-mod=readonly', join(import.meta.dirname, 'core-types.go')],
  { cwd: join(root, 'deploy/local/tools/kubernetes'), encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
)
  .trim()
  .split('\n');

const content = [
  `// Written by \`npm run generate:core-types\` from the Go structs of ${versions}.`,
  '// core-types.ts says how to read it.',
  '',
  'export const coreTypeTables = {',
  ...types.map(entry),
  '} as const;',
  '',
].join('\n');
writeFileSync(join(root, 'api/core/core-type-tables.ts'), content);

function entry(line: string): string {
  const [type = '', fields = ''] = line.split(/: (.*)/);
  const short = `  ${type}: '${fields}',`;
  return short.length <= widest ? short : `  ${type}: \`\n${wrapped(fields.split(' ')).join('\n')}\`,`;
}

function wrapped(fields: readonly string[]): readonly string[] {
  const lines: string[] = [];
  for (const field of fields) {
    const line = `${lines.at(-1)} ${field}`;
    if (lines.length > 0 && line.length < widest) lines[lines.length - 1] = line;
    else lines.push(`    ${field}`);
  }
  return lines;
}
