import { readFileSync } from 'node:fs';
import type { PlatformStatus } from '../../deploy/local/platform.ts';

const roles = /^(watcher|webhook|worker|daemon-node-1)$/;
const ticksPerSecond = 100;

/** Memory and CPU time of one process of Windlass. */
export interface Usage {
  readonly role: string;
  readonly rssMegabytes: number;
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
    const rss = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1024;
    return [{ role: name, rssMegabytes: Math.round(rss), cpuSeconds: ticks / ticksPerSecond }];
  });
}

/** Markdown: memory idle and after the load, and the CPU time that an idle minute and the whole run took. */
export function usageTable(idle: readonly Usage[], idleMinute: readonly Usage[], after: readonly Usage[]): string {
  const rows = idle.map(({ role, rssMegabytes, cpuSeconds }) => {
    const minute = idleMinute.find((usage) => usage.role === role);
    const end = after.find((usage) => usage.role === role);
    const share = (((minute?.cpuSeconds ?? cpuSeconds) - cpuSeconds) / 60) * 100;
    return `| ${role} | ${rssMegabytes} | ${end?.rssMegabytes ?? ''} | ${share.toFixed(2)} | ${end ? (end.cpuSeconds - cpuSeconds).toFixed(1) : ''} |`;
  });
  return [
    '| role | RSS idle, MB | RSS after, MB | CPU idle, % of a core | CPU of the run, s |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n');
}
