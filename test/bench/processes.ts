import { readFileSync } from 'node:fs';
import type { PlatformStatus } from '../../deploy/local/platform.ts';

const roles = /^(watcher|webhook|worker|daemon-node-1)$/;
const ticksPerSecond = 100;

/** Memory and CPU time of one process of Windlass. */
export interface Usage {
  readonly role: string;
  readonly rssMegabytes: number;
  /** The part of it that belongs to this process alone, without the code of Node and of Temporal's core. */
  readonly privateMegabytes: number;
  readonly cpuSeconds: number;
}

/** What each role takes now. */
export function usageOf(platform: PlatformStatus): readonly Usage[] {
  return platform.parts.flatMap(({ name, pid }) => {
    if (!roles.test(name) || pid === undefined) return [];
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const [, , ...fields] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, 'x y ')
      .split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    const megabytes = (field: string) =>
      Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? Number.NaN) / 1024);
    const [rssMegabytes, privateMegabytes] = [megabytes('VmRSS'), megabytes('RssAnon')];
    return [{ role: name, rssMegabytes, privateMegabytes, cpuSeconds: ticks / ticksPerSecond }];
  });
}

/** The same processes at four moments: at rest, a minute after that, right after the load, and another minute later. */
export interface Usages {
  readonly idle: readonly Usage[];
  readonly idleMinute: readonly Usage[];
  readonly after: readonly Usage[];
  readonly later: readonly Usage[];
}

/** Markdown: memory after the idle minute and after the load, and the CPU time that the minute and the whole run took. */
export function usageTable({ idle, idleMinute, after, later }: Usages): string {
  const rows = idle.map(({ role, cpuSeconds }) => {
    const of = (usages: readonly Usage[]) => usages.find((usage) => usage.role === role);
    const memoryOf = (usage: Usage | undefined) => [usage?.rssMegabytes ?? '', usage?.privateMegabytes ?? ''];
    const share = (((of(idleMinute)?.cpuSeconds ?? cpuSeconds) - cpuSeconds) / 60) * 100;
    const memory = [idleMinute, after, later].flatMap((usages) => memoryOf(of(usages))).join(' | ');
    const run = of(after);
    return `| ${role} | ${memory} | ${share.toFixed(2)} | ${run ? (run.cpuSeconds - cpuSeconds).toFixed(1) : ''} |`;
  });
  return [
    '| role | RSS idle, MB | of it private | RSS after, MB | of it private | RSS a minute later, MB | of it private ' +
      '| CPU idle, % of a core | CPU of the run, s |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n');
}
