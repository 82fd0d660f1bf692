/**
 * `npm run bench [-- part ...] [samples]`: measures Windlass on a real two-node cluster of its own. Each part writes its
 * section of docs/performance.md as soon as it has ended, so that what one could not measure takes nothing from others.
 * Ratios within one run mean more than figures of different runs: machines differ, and are noisy. So
 * `npm run bench -- part ... --against=COMMIT` measures this version and that of a commit in turn, in pairs, and
 * `--against=bare` this version and the cluster without it; they print a table and write nothing.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { repository } from '../../deploy/local/instance.ts';
import { down, status, up } from '../../deploy/local/platform.ts';
import { createProgress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';
import { measureStolen } from '../support/stolen.ts';
import type { Bench } from './actions.ts';
import { measureAgainst, pairedParts } from './against.ts';
import { benchCluster } from './cluster.ts';
import { type BenchPart, withSection } from './document.ts';
import { machine } from './figures.ts';
import { parts } from './parts.ts';

const args = process.argv.slice(2);
const samples = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 20);
const against = args.find((arg) => arg.startsWith('--against='))?.slice('--against='.length);
const names = args.filter((arg) => !/^(\d+|--against=.*)$/.test(arg));
const known = Object.keys(parts) as readonly BenchPart[];
const unknown = names.find((wanted) => !known.some((part) => part === wanted));
if (unknown !== undefined) {
  console.error(`No part is called ${unknown}: there are ${known.join(', ')}`);
  process.exit(2);
}

const paired = pairedParts.filter((part) => names.length === 0 || names.includes(part));
if (against !== undefined && paired.length < names.length) {
  console.error(`With --against, parts are ${pairedParts.join(', ')}`);
  process.exit(2);
}

const name = 'bench';
const progress = createProgress();
await down(name, progress);
try {
  const platform = await up({ name, nodes: 2, windlass: true, progress });
  const cluster = await benchCluster(platform);
  const bench: Bench = { instance: name, samples, cluster, platform: () => status(name) ?? platform };
  if (against !== undefined) await compare(against, bench);
  else for (const part of known.filter((one) => names.length === 0 || names.includes(one))) await measure(part, bench);
  await cluster.close();
} finally {
  await down(name, progress);
}

async function compare(base: string, bench: Bench): Promise<void> {
  const stolen = measureStolen();
  const table = await measureAgainst(base, paired, bench, progress);
  console.log(`\n${machine()}, ${stolen() ?? 'unknown'} % of the CPU stolen meanwhile; milliseconds\n\n${table}`);
}

async function measure(part: BenchPart, bench: Bench): Promise<void> {
  const load = () => (loadavg()[0] ?? Number.NaN).toFixed(1);
  const stolen = measureStolen();
  const loadAtStart = load();
  try {
    const { title, text } = await parts[part](bench);
    const circumstances =
      `${new Date().toISOString().slice(0, 10)}, ${machine()}, ${stolen() ?? 'unknown'} % of the CPU stolen meanwhile, ` +
      `load average ${loadAtStart} at the start and ${load()} at the end.`;
    const section = `## ${title}\n\n${circumstances}\n\n${text}`;
    const file = join(repository, 'docs', 'performance.md');
    writeFileSync(file, withSection(existsSync(file) ? readFileSync(file, 'utf8') : '', `bench -- ${part}`, section));
    await run(join(repository, 'node_modules', '.bin', 'biome'), ['format', '--write', file]);
    console.log(`\n${section}\n\nWritten to docs/performance.md`);
  } catch (error) {
    console.error(`Could not measure ${part}:`, error);
    process.exitCode = 1;
  }
}
