import { readFileSync } from 'node:fs';

interface CpuTimes {
  readonly total: number;
  readonly stolen: number;
}

/**
 * Starts measuring; the returned function returns the percentage of this machine's CPU time that its hypervisor gave to
 * others since then. Undefined where the kernel does not report it.
 */
export function measureStolen(read: () => string = () => readFileSync('/proc/stat', 'utf8')): () => number | undefined {
  const before = cpuTimes(read);
  return () => {
    const after = cpuTimes(read);
    if (before === undefined || after === undefined || after.total <= before.total) return undefined;
    return Math.round((100 * (after.stolen - before.stolen)) / (after.total - before.total));
  };
}

/** The first line of /proc/stat: `cpu user nice system idle iowait irq softirq steal …`, where guest is part of user. */
function cpuTimes(read: () => string): CpuTimes | undefined {
  try {
    const [line = ''] = read().split('\n');
    const [, ...fields] = line.trim().split(/\s+/);
    const times = fields.slice(0, 8).map(Number);
    const stolen = times[7];
    if (stolen === undefined || times.some(Number.isNaN)) return undefined;
    return { total: times.reduce((sum, time) => sum + time, 0), stolen };
  } catch {
    return undefined;
  }
}
