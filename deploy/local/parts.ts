// A part is one process of the platform. Its record contains how to start it and its current process, so that any
// command can inspect, stop, kill or restart it without knowing what it is.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { Agent, request } from 'undici';
import { makePartsCgroup } from './cgroups.ts';
import { filesIn, readJson, writeJson } from './files.ts';
import type { Instance } from './instance.ts';
import { commandIn, marker, type Place } from './namespaces.ts';
import {
  endProcesses,
  hasEnvironment,
  isListening,
  type ProcessRef,
  processRef,
  processState,
  signal,
} from './processes.ts';
import { HopelessError, waitFor } from './wait.ts';

/** How to check that a part works. */
type ReadyCheck =
  | { readonly kind: 'http'; readonly url: string }
  /** An HTTPS request as administrator. */
  | { readonly kind: 'https'; readonly url: string }
  /** A TCP port in the part's own network namespace. */
  | { readonly kind: 'listening'; readonly port: number }
  /** The process exists; the other parts do not depend on more. */
  | { readonly kind: 'alive' }
  /** A Unix socket, by its path in the part's mount namespace. */
  | { readonly kind: 'socket'; readonly path: string };

/** How to run a part. */
export interface PartSpec {
  readonly name: string;
  readonly place: Place;
  readonly argv: readonly string[];
  /** Extra flags until the next `up`, which starts the part without them. */
  readonly extra?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly ready: ReadyCheck;
  /**
   * A hash of what the part also depends on, such as the contents of its files: when it changes, `up` restarts the
   * part.
   */
  readonly fingerprint?: string;
}

/** A part as it was last started. */
export interface PartRecord extends PartSpec, ProcessRef {
  readonly since: string;
  /** `stopped`: a command stopped or killed it. */
  readonly wanted: 'running' | 'stopped';
  /** When a command has stopped, killed or frozen it. */
  readonly downSince?: string;
}

/** A part in the output of `status`. */
export interface PartStatus {
  readonly name: string;
  readonly pid: number;
  readonly state: 'running' | 'frozen' | 'dead' | 'stopped';
  readonly since: string;
  /** When a command has ended or frozen it, or when it has logged last. Absent: it runs, or nothing is known. */
  readonly downSince?: string;
}

/** Every part of this instance that was ever started. */
export function readParts(instance: Instance): PartRecord[] {
  return filesIn(join(instance.folder, 'parts')).flatMap((file) =>
    file.endsWith('.json') ? (readJson<PartRecord>(file) ?? []) : [],
  );
}

/** The state of each part, by name. */
export function partStatuses(instance: Instance): PartStatus[] {
  return readParts(instance)
    .map((part) => statusOfPart(instance, part))
    .sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

function statusOfPart(instance: Instance, part: PartRecord): PartStatus {
  const { name, pid, since } = part;
  const state = stateOf(part);
  const downSince = state === 'running' ? undefined : (part.downSince ?? lastLogAt(instance, part));
  return { name, pid, state, since, ...(downSince !== undefined && { downSince }) };
}

function lastLogAt(instance: Instance, { name }: PartRecord): string | undefined {
  return statSync(logFile(instance, name), { throwIfNoEntry: false })?.mtime.toISOString();
}

/** Ensures that the part runs with this spec and is ready: starts it, or leaves it alone if it does already. */
export async function ensurePart(instance: Instance, spec: PartSpec): Promise<void> {
  const current = readParts(instance).find((part) => part.name === spec.name);
  if (current && processState(current)) {
    signal(current, 'SIGCONT');
    if (digest(current) === digest(spec)) {
      await becomesReady(instance, current, 0);
      return;
    }
    await endProcesses([current], 15);
  }
  await launch(instance, spec);
}

/** Starts a part from its record. A running part is left alone, unless its flags differ. */
export async function startPart(instance: Instance, name: string, extra: readonly string[] = []): Promise<void> {
  const part = findPart(instance, name);
  if (processState(part)) {
    if (extra.length === 0) return;
    await endProcesses([part], 15);
  }
  const {
    pid: _pid,
    startTime: _startTime,
    since: _since,
    wanted: _wanted,
    extra: _extra,
    downSince: _downSince,
    ...spec
  } = part;
  await launch(instance, extra.length > 0 ? { ...spec, extra } : spec);
}

/** Stops a part with SIGTERM, and with SIGKILL after 15 s. */
export async function stopPart(instance: Instance, name: string): Promise<void> {
  const part = findPart(instance, name);
  writeRecord(instance, { ...part, wanted: 'stopped', downSince: now() });
  await endProcesses([part], 15);
}

/** Kills a part with SIGKILL: it cannot clean up. */
export async function killPart(instance: Instance, name: string): Promise<void> {
  const part = findPart(instance, name);
  if (processState(part)) writeRecord(instance, { ...part, downSince: now() });
  await endProcesses([part], 0);
}

/** Freezes a part, like a stalled machine, until `thawPart`. */
export function freezePart(instance: Instance, name: string): void {
  const part = findPart(instance, name);
  if (!signal(part, 'SIGSTOP')) throw new Error(`Cannot freeze part "${name}": it does not run`);
  writeRecord(instance, { ...part, downSince: now() });
}

/** Resumes a frozen part. */
export function thawPart(instance: Instance, name: string): void {
  const part = findPart(instance, name);
  if (!signal(part, 'SIGCONT')) throw new Error(`Cannot thaw part "${name}": it does not run`);
  const { downSince: _, ...running } = part;
  writeRecord(instance, running);
}

/** Waits until a running part is ready; fails at once when it dies. */
export async function partReady(instance: Instance, name: string): Promise<void> {
  await becomesReady(instance, findPart(instance, name), 0);
}

/** Stops parts whose starting command was killed before it could record them. */
export async function endUnrecordedParts(instance: Instance): Promise<void> {
  const recorded = new Set(readParts(instance).map(({ pid }) => pid));
  const strays = filesIn(join(instance.folder, 'parts')).flatMap((file) => {
    if (!file.endsWith('.pid')) return [];
    const pid = Number(readFileSync(file, 'utf8'));
    const ref = recorded.has(pid) || !hasEnvironment(pid, marker(instance)) ? undefined : processRef(pid);
    return ref ?? [];
  });
  await endProcesses(strays, 15);
}

/** The log file of a part. */
export function logFile(instance: Instance, name: string): string {
  return join(instance.folder, 'logs', `${name}.log`);
}

/** Renames a running part. It continues running, and writes to the log with its new name. */
export function renamePart(instance: Instance, name: string, newName: string): void {
  const part = findPart(instance, name);
  writeRecord(instance, { ...part, name: newName });
  for (const file of [logFile, pidFile]) {
    if (existsSync(file(instance, name))) renameSync(file(instance, name), file(instance, newName));
  }
  rmSync(recordFile(instance, name));
}

/** Removes a part for good: only its log stays. */
export async function removePart(instance: Instance, name: string): Promise<void> {
  await stopPart(instance, name);
  for (const file of [recordFile, pidFile]) rmSync(file(instance, name), { force: true });
}

/** The part of this name, which may have ended for good and left its log; without a name all that there are. */
export function loggedParts(instance: Instance, name: string | undefined): readonly string[] {
  if (name === undefined) return readParts(instance).map((part) => part.name);
  return [existsSync(logFile(instance, name)) ? name : findPart(instance, name).name];
}

function findPart(instance: Instance, name: string): PartRecord {
  const parts = readParts(instance);
  const part = parts.find((candidate) => candidate.name === name);
  if (part) return part;
  const names = parts.map((candidate) => candidate.name).sort((a, b) => a.localeCompare(b));
  throw new Error(`No part "${name}" in instance "${instance.name}": there are ${names.join(', ') || 'none'}`);
}

async function launch(instance: Instance, spec: PartSpec): Promise<void> {
  const log = logFile(instance, spec.name);
  mkdirSync(dirname(log), { recursive: true });
  mkdirSync(dirname(pidFile(instance, spec.name)), { recursive: true });
  const output = openSync(log, 'a');
  const logStart = statSync(log).size;
  const procs = makePartsCgroup(`${instance.id}-parts`);
  const [markerName = '', markerValue = ''] = marker(instance).split('=');
  // The shell joins the instance's group, writes its process ID, and then becomes the part: no descendant can be
  // missed, and the part is found even if we are killed before its record is written.
  const script = 'echo $$ > "$1" && echo $$ > "$2" && shift 2 && exec "$@"';
  const argv = [
    procs,
    pidFile(instance, spec.name),
    ...commandIn(instance, spec.place, [...spec.argv, ...(spec.extra ?? [])]),
  ];
  const child = spawn('sh', ['-c', script, 'sh', ...argv], {
    detached: true,
    cwd: '/',
    stdio: ['ignore', output, output],
    // Without the caller's environment: a part must not depend on who started it.
    env: { PATH: standardPath, HOME: '/root', LANG: 'C.UTF-8', ...spec.env, [markerName]: markerValue },
  });
  closeSync(output);
  child.unref();
  const ref = await new Promise<ProcessRef>((resolve, reject) => {
    child.once('error', (error) => reject(new Error(`Cannot start ${spec.name}: ${error.message}`)));
    child.once('spawn', () => {
      const started = child.pid === undefined ? undefined : processRef(child.pid);
      if (started) resolve(started);
      else reject(new Error(`Cannot start ${spec.name}: it ended at once`));
    });
  });
  const record: PartRecord = { ...spec, ...ref, since: now(), wanted: 'running' };
  writeRecord(instance, record);
  await becomesReady(instance, record, logStart);
}

async function becomesReady(instance: Instance, part: PartRecord, logStart: number): Promise<void> {
  const dispatcher = part.ready.kind === 'https' ? adminAgent(instance) : new Agent();
  try {
    await waitFor(`part ${part.name} to be ready`, async () => {
      if (!processState(part)) {
        const words = lastWords(logFile(instance, part.name), logStart);
        throw new HopelessError(`Part ${part.name} ended before it was ready\n${words}`);
      }
      return await isReady(part, dispatcher);
    });
  } finally {
    await dispatcher.destroy();
  }
}

async function isReady(part: PartRecord, dispatcher: Agent): Promise<boolean> {
  switch (part.ready.kind) {
    case 'http':
    case 'https': {
      const answer = await request(part.ready.url, { dispatcher, headersTimeout: 10_000, bodyTimeout: 10_000 });
      const text = await answer.body.text();
      if (answer.statusCode !== 200)
        throw new Error(`${part.ready.url} answered ${answer.statusCode} ${text.slice(0, 500)}`);
      return true;
    }
    case 'listening':
      return isListening(part.pid, part.ready.port);
    case 'alive':
      return true;
    case 'socket':
      // By the root folder of the part's process, so that it is found in any mount namespace and under a short path.
      return await accepts(`/proc/${part.pid}/root${part.ready.path}`);
  }
}

function accepts(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const end = (accepted: boolean): void => {
      socket.destroy();
      resolve(accepted);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}

/** Connections to this instance's API server with the administrator's certificate. */
export function adminAgent(instance: Instance): Agent {
  const file = (name: string): string => readFileSync(join(instance.folder, 'pki', name), 'utf8');
  return new Agent({
    connections: 4,
    connect: { ca: file('ca.crt'), cert: file('admin.crt'), key: file('admin.key'), timeout: 30_000 },
  });
}

/** A short hash of contents, for `PartSpec.fingerprint`. */
export function fingerprintOf(...contents: readonly string[]): string {
  return createHash('sha256').update(contents.join('\0')).digest('hex').slice(0, 16);
}

function stateOf(part: PartRecord): PartStatus['state'] {
  return processState(part) ?? (part.wanted === 'stopped' ? 'stopped' : 'dead');
}

function digest({ name, place, argv, extra = [], env, ready, fingerprint }: PartSpec): string {
  const text = JSON.stringify([name, place, argv, extra, Object.entries(env ?? {}).sort(), ready, fingerprint ?? '']);
  return createHash('sha256').update(text).digest('hex');
}

function writeRecord(instance: Instance, record: PartRecord): void {
  writeJson(recordFile(instance, record.name), record);
}

function now(): string {
  return new Date().toISOString();
}

function pidFile(instance: Instance, name: string): string {
  return join(instance.folder, 'parts', `${name}.pid`);
}

function recordFile(instance: Instance, name: string): string {
  return join(instance.folder, 'parts', `${name}.json`);
}

function lastWords(log: string, from: number): string {
  return readFileSync(log).subarray(from).toString('utf8').trimEnd().split('\n').slice(-15).join('\n');
}

const standardPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
