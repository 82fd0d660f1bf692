import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as timeout } from 'node:timers/promises';
import type { ImageRuntime } from '../../activities/cri/image-runtime.ts';
import { type ContainerRuntime, CriError, type Runtimes } from '../../activities/cri/runtime.ts';
import { type BackOff, backOff } from '../../kube/back-off.ts';
import type { ProbeRuntime } from '../probes/runtime.ts';
import { type CriClient, createCriClient } from './client.ts';

/** The sockets of runtimes below /run, in the order in which they are tried (ND-4); the last two are our additions. */
export const knownSockets = [
  'containerd.sock',
  'containerd/containerd.sock',
  'crio.sock',
  'crio/crio.sock',
  'cri-dockerd.sock',
  'cri-dockerd/cri-dockerd.sock',
  'k3s/containerd/containerd.sock',
  'k0s/containerd.sock',
] as const;

/** The sockets to try: the configured file (ND-3), or else all known ones. */
export function socketsToTry(options: {
  readonly socketLocation: string;
  readonly socketFile: string;
}): readonly string[] {
  const files = options.socketFile === '' ? knownSockets : [options.socketFile];
  return files.map((file) => join(options.socketLocation, file));
}

/** What is known about one socket. */
type SocketState =
  | { readonly kind: 'missing' }
  | {
      readonly kind: 'usable';
      readonly runtime: ContainerRuntime & ProbeRuntime;
      readonly client: CriClient;
      readonly version: string;
    }
  /** `temporary`: it may become usable. */
  | { readonly kind: 'unusable'; readonly temporary: boolean; readonly why: string };

/** The part of a logger that detection needs. */
export interface DetectionLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface DetectionOptions {
  readonly sockets: readonly string[];
  readonly log: DetectionLog;
  /** How often to retry while there is no runtime at all. */
  readonly retryMs?: BackOff;
  /** How often to retry unusable sockets while another runtime is usable. */
  readonly idleMs?: number;
}

/**
 * Finds the container runtimes of the node, and keeps looking: one that appears or recovers later is used without a
 * restart. A runtime that was usable once is kept, because its connection reconnects by itself.
 */
export class RuntimeDetector implements Runtimes {
  readonly #options: Required<DetectionOptions>;
  readonly #clients = new Map<string, CriClient>();
  /** In the order in which they are tried. */
  readonly #states: Map<string, SocketState>;
  readonly #ended = new AbortController();
  readonly #tried = Promise.withResolvers<void>();
  #running: Promise<void> | undefined;

  constructor(options: DetectionOptions) {
    this.#options = { retryMs: { first: 500, most: 5_000 }, idleMs: 30_000, ...options };
    const untried: SocketState = { kind: 'unusable', temporary: true, why: 'not tried yet' };
    this.#states = new Map(options.sockets.map((path) => [path, untried]));
  }

  /** Starts looking; it continues until `stop`. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** Resolves when every socket has been tried once. */
  tried(): Promise<void> {
    return this.#tried.promise;
  }

  async stop(): Promise<void> {
    this.#ended.abort();
    for (const client of this.#clients.values()) client.close();
    await this.#running;
  }

  named(name: string): readonly ContainerRuntime[] {
    return this.#usable().filter((runtime) => runtime.name === name);
  }

  /** The runtime that is used for probes, where a node has several (ND-6); undefined while there is none. */
  get first(): ProbeRuntime | undefined {
    return this.#usable()[0];
  }

  /** The runtime that pulls images: the first usable one (ND-6). */
  firstImages(): ImageRuntime | undefined {
    for (const state of this.#states.values()) {
      if (state.kind === 'usable') return { ...state.client, name: state.runtime.name };
    }
    return undefined;
  }

  /** Why there is no usable runtime at all, for people. */
  get noneMessage(): string {
    return this.#noneMessage();
  }

  absence(name: string): { readonly final: boolean; readonly message: string } {
    const usable = this.#usable();
    if (usable.length === 0) return { final: false, message: this.#noneMessage() };
    const others = usable.map((runtime) => runtime.name).join(', ');
    const hopeful = [...this.#states.values()].some((state) => state.kind === 'unusable' && state.temporary);
    return { final: !hopeful, message: `not found runtime service for ${name} in daemon, which has ${others}` };
  }

  /**
   * Throws when no runtime is usable, or when the first one does not answer; the message names the call that failed.
   */
  async check(): Promise<void> {
    const first = [...this.#states.values()].find((state) => state.kind === 'usable');
    if (first === undefined) throw new Error(this.#noneMessage());
    await first.client.version();
  }

  async #run(): Promise<void> {
    const { retryMs, idleMs } = this.#options;
    for (let passes = 0; ; passes += 1) {
      await this.#pass();
      this.#tried.resolve();
      const { signal } = this.#ended;
      const pauseMs = this.#usable().length > 0 ? idleMs : backOff(retryMs, passes);
      await timeout(pauseMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
    }
  }

  async #pass(): Promise<void> {
    const before = this.#summary();
    const seen = new Set<string>();
    for (const path of this.#options.sockets) {
      const known = this.#states.get(path);
      const file = await stat(path).catch(() => undefined);
      const identity = file && `${file.dev}:${file.ino}`;
      if (known?.kind !== 'usable') this.#states.set(path, await this.#look(path, identity, seen));
      if (identity !== undefined) seen.add(identity);
      if (this.#ended.signal.aborted) return;
    }
    // Each change is logged once, not on every attempt.
    if (this.#summary() !== before) this.#tell();
  }

  async #look(path: string, identity: string | undefined, seen: ReadonlySet<string>): Promise<SocketState> {
    // A link to a socket that was tried already is the same runtime.
    if (identity === undefined || seen.has(identity)) return { kind: 'missing' };
    const client = this.#clients.get(path) ?? createCriClient(path);
    this.#clients.set(path, client);
    try {
      // ND-5. Version comes first because its error is the clearest.
      const version = await client.version();
      await client.imageFsInfo();
      await client.listImages();
      return {
        kind: 'usable',
        client,
        runtime: { ...client, name: version.runtimeName },
        version: version.runtimeVersion,
      };
    } catch (error) {
      if (!(error instanceof CriError)) throw error;
      const foreign = error.failure === 'unimplemented';
      const hint = foreign ? ' (it does not serve CRI v1: too old, or its CRI plugin is disabled)' : '';
      return { kind: 'unusable', temporary: !foreign, why: `${error.call}: ${error.message}${hint}` };
    }
  }

  #usable(): readonly (ContainerRuntime & ProbeRuntime)[] {
    return [...this.#states.values()].flatMap((state) => (state.kind === 'usable' ? [state.runtime] : []));
  }

  #tell(): void {
    const { log } = this.#options;
    for (const [socket, state] of this.#states) {
      if (state.kind === 'usable') {
        log.info({ socket, runtime: state.runtime.name, version: state.version }, 'Container runtime is usable');
      } else if (state.kind === 'unusable') {
        log.warn({ socket, failure: state.why }, 'Container runtime is not usable');
      }
    }
    if (this.#usable().length === 0) log.warn({}, this.#noneMessage());
  }

  #noneMessage(): string {
    const states = [...this.#states];
    const failed = states.flatMap(([path, state]) => (state.kind === 'unusable' ? [`${path}: ${state.why}`] : []));
    if (failed.length > 0) return `no usable container runtime: ${failed.join('; ')}`;
    return `not found container runtime sock: none of ${this.#options.sockets.join(', ')}`;
  }

  #summary(): string {
    return JSON.stringify(
      [...this.#states].map(([path, state]) => [path, state.kind, state.kind === 'unusable' && state.why]),
    );
  }
}
