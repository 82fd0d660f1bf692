import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { toolPath } from '../../deploy/local/tools.ts';

/** What the placeholders of a command line stand for, by name: `<container>` for `container`. */
export type Placeholders = Readonly<Record<string, string>>;

/** The command lines of `temporal` and `tctl` in a Markdown page: code spans, and lines of code blocks after `$ `. */
export function commandLinesOf(page: URL): readonly string[] {
  const [prose = '', blocks = ''] = splitBlocks(readFileSync(page, 'utf8'));
  const spans = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span);
  const typed = [...blocks.matchAll(/^\$ (.+?)(?: +#.*)?$/gm)].map(([, line = '']) => line);
  return [...new Set([...spans, ...typed].filter((text) => /^(temporal|tctl) /.test(text)))];
}

function splitBlocks(text: string): readonly [string, string] {
  const fenced = /^```[^\n]*\n(.*?)^```$/gms;
  const blocks = [...text.matchAll(fenced)].map(([, block = '']) => block);
  return [text.replaceAll(fenced, ''), blocks.join('\n')];
}

/** The line with its placeholders filled in. */
export function filledIn(line: string, placeholders: Placeholders): string {
  return line.replaceAll(/<([a-z][A-Za-z ]*)>/g, (whole, name: string) => {
    const value = placeholders[name];
    if (value === undefined) throw new Error(`No value for ${whole} in: ${line}`);
    return value;
  });
}

/** Runs the line in a shell where `id` is set, with the `temporal` of the tools. Returns what it prints. */
export async function runInShell(line: string, id: string, address: string): Promise<string> {
  const env = {
    PATH: `${dirname(toolPath('temporal'))}:${process.env.PATH ?? ''}`,
    HOME: tmpdir(), // no settings of the user
    TEMPORAL_ADDRESS: address,
    id,
  };
  const { stdout } = await promisify(execFile)('bash', ['-c', line], { env });
  return stdout;
}

/** The words of the line as a shell passes them to the program. */
export async function wordsOf(line: string, id: string): Promise<readonly string[]> {
  const print = `printf '%s\\0' ${line}`;
  const { stdout } = await promisify(execFile)('bash', ['-c', print], { env: { id } });
  return stdout.split('\0').slice(0, -1);
}
