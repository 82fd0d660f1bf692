// Processes in /proc. A process is identified by its ID *and* its start time, so that a process that reuses the ID is
// never signalled.
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { pause } from './wait.ts';

/** One process of this machine, safe against reuse of its ID. */
export interface ProcessRef {
  readonly pid: number;
  /** Field 22 of /proc/PID/stat: clock ticks since boot. */
  readonly startTime: string;
}

/** The state of a process; `undefined` when it has exited (a zombie has exited). */
export function processState(ref: ProcessRef): 'running' | 'frozen' | undefined {
  const stat = readStat(ref.pid);
  if (stat?.startTime !== ref.startTime) return undefined;
  if (stat.state === 'Z' || stat.state === 'X') return undefined;
  return stat.state === 'T' ? 'frozen' : 'running';
}

/** The process with this ID now. */
export function processRef(pid: number): ProcessRef | undefined {
  const stat = readStat(pid);
  return stat && { pid, startTime: stat.startTime };
}

/** Sends a signal, and returns whether the process existed. */
export function signal(ref: ProcessRef, name: NodeJS.Signals): boolean {
  if (!processState(ref)) return false;
  try {
    process.kill(ref.pid, name);
    return true;
  } catch {
    return false;
  }
}

/**
 * Stops processes: SIGTERM, then SIGKILL for those that are left after `graceSeconds`; returns when all have exited.
 */
export async function endProcesses(refs: readonly ProcessRef[], graceSeconds: number): Promise<void> {
  for (const ref of refs) {
    signal(ref, graceSeconds > 0 ? 'SIGTERM' : 'SIGKILL');
    signal(ref, 'SIGCONT'); // a frozen process handles signals only when it resumes
  }
  const killAt = performance.now() + graceSeconds * 1000;
  const giveUpAt = killAt + 120_000;
  let left = refs.filter(processState);
  while (left.length > 0 && performance.now() < giveUpAt) {
    if (performance.now() >= killAt) for (const ref of left) signal(ref, 'SIGKILL');
    await pause(20);
    left = left.filter(processState);
  }
  if (left.length > 0)
    throw new Error(`Cannot end processes ${left.map(({ pid }) => pid).join(', ')}: SIGKILL had no effect`);
}

/** Every process for which `matches` is true, except kernel threads and this process. */
export function findProcesses(matches: (pid: number) => boolean): ProcessRef[] {
  const found: ProcessRef[] = [];
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const ref = processRef(pid);
    if (ref && processState(ref) && matches(pid)) found.push(ref);
  }
  return found;
}

/** The namespace of a process, by the kernel's identifier; `undefined` when the process is gone. */
export function namespaceOf(pid: number | 'self', kind: 'net' | 'mnt'): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/${kind}`);
  } catch {
    return undefined;
  }
}

/** Mount namespaces by the kernel's identifiers, which stay theirs until `release`. */
export interface HeldNamespaces {
  readonly names: ReadonlySet<string>;
  release(): void;
}

/**
 * The mount namespaces of these processes, if they are alive. The kernel may reuse the identifier of a namespace whose
 * last process has exited, but not that of a held one.
 */
export function holdMountNamespaces(refs: readonly ProcessRef[]): HeldNamespaces {
  const files = refs.flatMap((ref) => {
    try {
      const file = openSync(`/proc/${ref.pid}/ns/mnt`, 'r');
      if (processState(ref)) return [file];
      closeSync(file);
    } catch {
      // it has exited
    }
    return [];
  });
  return {
    names: new Set(files.map((file) => readlinkSync(`/proc/self/fd/${file}`))),
    release: () => {
      for (const file of files) closeSync(file);
    },
  };
}

/** Whether there is a mount at this path in the process's mount namespace. */
export function hasMount(pid: number, path: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/mountinfo`, 'utf8').includes(` ${path} `);
  } catch {
    return false;
  }
}

/** Whether a process was started with `NAME=VALUE` in its environment. */
export function hasEnvironment(pid: number, entry: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(entry);
  } catch {
    return false;
  }
}

/** The short name of a process, for messages. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ').trim().slice(0, 80);
  } catch {
    return 'unknown';
  }
}

/** Whether a process listens on a TCP port in the network namespace of a process. */
export function isListening(pid: number | 'self', port: number): boolean {
  return listeningSockets(pid).some((socket) => socket.port === port);
}

/** The processes of this machine that listen on a TCP port of the loopback address or of every address. */
export function listenersOn(port: number): number[] {
  const inodes = new Set(
    listeningSockets('self')
      .filter((socket) => socket.port === port && /^(0100007F|0+|0+0000FFFF0100007F|0+1000000)$/.test(socket.address))
      .map((socket) => `socket:[${socket.inode}]`),
  );
  if (inodes.size === 0) return [];
  return findProcesses((pid) => openFiles(pid).some((file) => inodes.has(file))).map(({ pid }) => pid);
}

function listeningSockets(pid: number | 'self'): { address: string; port: number; inode: string }[] {
  return ['tcp', 'tcp6'].flatMap((table) => {
    try {
      const lines = readFileSync(`/proc/${pid}/net/${table}`, 'utf8').split('\n').slice(1);
      return lines.flatMap((line) => {
        const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
        const [address = '', port = ''] = local.split(':');
        return state === '0A' ? [{ address, port: Number.parseInt(port, 16), inode }] : [];
      });
    } catch {
      return [];
    }
  });
}

function openFiles(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}

function readStat(pid: number): { state: string; startTime: string } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may contain anything, so parsing starts after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, startTime] = [fields[0], fields[19]];
    return state && startTime ? { state, startTime } : undefined;
  } catch {
    return undefined;
  }
}
