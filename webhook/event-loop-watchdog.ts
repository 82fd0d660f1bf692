import { Worker } from 'node:worker_threads';

// Ends a process whose event loop stands still: a client keeps its connections to it, so that it costs more than one that is
// gone. A thread of its own looks at it, as the main thread cannot.
//
// Only processor time of the main thread counts, and of each look no more than the time between two looks. A machine that
// stalls for minutes, a process that is stopped, and one that gets no processor stand still as well, but through no fault
// of the event loop: the thread stands still with them, and what the kernel then reports as processor time counts as one
// look at most. A main thread that waits without using the processor is left to the probes of the kubelet.

export interface WatchdogOptions {
  /** In the log. */
  readonly role: string;
  /** Processor time that the main thread may use without returning to its event loop. */
  readonly mostCpuMs: number;
  /** Between two looks. */
  readonly lookMs?: number;
}

export interface Watchdog {
  stop(): Promise<void>;
}

/** Watches the event loop of this thread, which has to be the main one. It keeps no process from ending. */
export function watchEventLoop({ role, mostCpuMs, lookMs = 250 }: WatchdogOptions): Watchdog {
  const turns = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const turn = setInterval(() => Atomics.add(turns, 0, 1), lookMs / 2);
  turn.unref();
  const workerData = { turns, role, mostCpuMs, lookMs };
  const watch = new Worker(watchSource, { eval: true, execArgv: [], workerData });
  watch.unref();
  return {
    async stop() {
      clearInterval(turn);
      await watch.terminate();
    },
  };
}

/** Text, because the processes are bundled into one file each. */
const watchSource = `
const { readFileSync, writeSync } = require('node:fs');
const { workerData: { turns, role, mostCpuMs, lookMs } } = require('node:worker_threads');

/** Of the main thread, whose ID is that of the process; without Linux of all threads. */
function cpuMs() {
  try {
    const stat = readFileSync('/proc/self/task/' + process.pid + '/stat', 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  }
}

let seen = Atomics.load(turns, 0);
let before = cpuMs();
let usedMs = 0;
setInterval(() => {
  const [turn, now] = [Atomics.load(turns, 0), cpuMs()];
  usedMs = turn === seen ? usedMs + Math.min(now - before, lookMs) : 0;
  seen = turn;
  before = now;
  if (usedMs < mostCpuMs) return;
  const msg = 'The event loop has stood still for ' + usedMs + ' ms of processor time, so the process is ended';
  try {
    writeSync(1, JSON.stringify({ level: 'fatal', time: new Date().toISOString(), role, msg }) + '\\n');
  } finally {
    process.kill(process.pid, 'SIGKILL');
  }
}, lookMs);
`;
