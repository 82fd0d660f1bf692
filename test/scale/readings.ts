import { readFileSync } from 'node:fs';
import { request } from 'undici';
import { type PlatformStatus, rolePorts } from '../../deploy/local/platform.ts';
import { others, type RoleCalls, type RoleUsage } from './judge.ts';

const roles = ['watcher', 'webhook', 'worker'] as const;
const ticksPerSecond = 100;

/** The counters of every role at one moment. */
export interface Reading {
  readonly calls: readonly RoleCalls[];
  readonly usage: readonly RoleUsage[];
}

/** Reads metrics and processes. Everything that is not Windlass's own is one row, without calls. */
export async function read(platform: PlatformStatus): Promise<Reading> {
  const calls = await Promise.all(roles.map((role) => callsOf(platform, role)));
  const own = platform.parts.filter(({ name }) => roles.some((role) => role === name));
  const foreign = platform.parts.filter((part) => !own.includes(part)).map(({ pid }) => usageOf('', pid));
  const sum = (field: 'cpuSeconds' | 'rssMegabytes') => foreign.reduce((all, usage) => all + usage[field], 0);
  return {
    calls,
    usage: [
      ...own.map(({ name, pid }) => usageOf(name, pid)),
      { role: others, cpuSeconds: sum('cpuSeconds'), rssMegabytes: sum('rssMegabytes') },
    ],
  };
}

/** What has been added since; memory is that of the end. */
export function since(before: Reading, after: Reading): Reading {
  return {
    calls: after.calls.map(({ role, reads, writes, podWrites, refused }) => {
      const was = before.calls.find((calls) => calls.role === role);
      return {
        role,
        reads: reads - (was?.reads ?? 0),
        writes: writes - (was?.writes ?? 0),
        podWrites: podWrites - (was?.podWrites ?? 0),
        refused: refused - (was?.refused ?? 0),
      };
    }),
    usage: after.usage.map(({ role, cpuSeconds, rssMegabytes }) => {
      const was = before.usage.find((usage) => usage.role === role);
      return { role, cpuSeconds: cpuSeconds - (was?.cpuSeconds ?? 0), rssMegabytes };
    }),
  };
}

async function callsOf(platform: PlatformStatus, role: (typeof roles)[number]): Promise<RoleCalls> {
  const { hostname } = new URL(platform.apiserver);
  const answer = await request(`http://${hostname}:${rolePorts[role]}/metrics`);
  return countCalls(role, await answer.body.text());
}

/** Calls of the API server in the text of /metrics, leases left out: they are there without any pod. */
export function countCalls(role: string, metrics: string): RoleCalls {
  let [reads, writes, podWrites, refused] = [0, 0, 0, 0];
  for (const [, labels = '', value = ''] of metrics.matchAll(/^windlass_kube_requests_total\{([^}]*)\} (\S+)$/gm)) {
    const label = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(labels)?.[1];
    if (label('resource') === 'leases') continue;
    const isRead = label('verb') === 'GET' || label('verb') === 'WATCH';
    if (isRead) reads += Number(value);
    else writes += Number(value);
    if (!isRead && label('resource') === 'pods') podWrites += Number(value);
    if (!isRead && !label('status')?.startsWith('2')) refused += Number(value);
  }
  return { role, reads, writes, podWrites, refused };
}

function usageOf(role: string, pid: number): RoleUsage {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ');
    const kilobytes = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
    const ticks = Number(fields[11]) + Number(fields[12]);
    return { role, cpuSeconds: ticks / ticksPerSecond, rssMegabytes: Math.round(kilobytes / 1024) };
  } catch {
    return { role, cpuSeconds: 0, rssMegabytes: 0 }; // it has ended
  }
}
