import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket, type Server as SocketServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Server, ServerCredentials, type ServerUnaryCall, type ServiceDefinition, status } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { ContainerState } from '../../activities/cri/runtime.ts';
import { criLabel, restartCountAnnotation } from '../../activities/cri/runtime.ts';

const protoFile = fileURLToPath(new URL('../../daemon/cri/runtime.proto', import.meta.url));

export interface FakeContainer {
  readonly id: string;
  readonly podUid: string;
  /** Absent: `shop`. */
  readonly podNamespace?: string;
  readonly name: string;
  readonly state?: ContainerState;
  readonly restartCount?: number;
  readonly createdAtMs?: number;
  readonly startedAtMs?: number;
  readonly sandboxId?: string;
  /**
   * The environment that it was started with, as `NAME=value`; it is in the runtime's record. Absent: it is not in the
   * record.
   */
  readonly env?: readonly string[];
  /** In addition to the restart count. */
  readonly annotations?: Readonly<Record<string, string>>;
}

export type CriCall =
  | 'Version'
  | 'ImageFsInfo'
  | 'ListImages'
  | 'PullImage'
  | 'ListContainers'
  | 'ContainerStatus'
  | 'PodSandboxStatus'
  | 'ExecSync'
  | 'StopContainer';

/** The decoded request of proto-loader. */
export interface Request {
  readonly containerId: string;
  readonly podSandboxId: string;
  readonly cmd: readonly string[];
  readonly timeout: number;
  readonly verbose?: boolean;
  readonly filter?: { readonly id?: string; readonly labelSelector?: Readonly<Record<string, string>> } | null;
}

/** Replaces the fake for one call; `usual` does what the fake would do. */
export type Script = (request: Request, usual: () => object) => object | Promise<object>;

/** An answer that is an error. */
export function answers(code: status, details: string): Script {
  return () => {
    throw Object.assign(new Error(details), { code, details });
  };
}

/** Delays calls until `release`. */
export function held(): Script & { release(): void } {
  const gate = Promise.withResolvers<void>();
  const script: Script = async (_request, usual) => {
    await gate.promise;
    return usual();
  };
  return Object.assign(script, { release: () => gate.resolve() });
}

/**
 * A container runtime that serves CRI on a real Unix socket, without any containers. It stores what it receives, stops
 * containers at once, and records every call; `script` makes it slow or faulty, `down` and `up` stop and restart it.
 */
export class FakeCri {
  readonly socketPath: string;
  readonly calls: { readonly call: CriCall; readonly request: Request }[] = [];
  runtimeName = 'containerd';
  readonly #folder: string;
  readonly #packageName: string;
  readonly #containers = new Map<string, FakeContainer>();
  readonly #sandboxIps = new Map<string, string>();
  readonly #scripts = new Map<CriCall, Script[]>();
  readonly #listeners = new Set<() => void>();
  readonly #connections = new Set<Socket>();
  #server: Server | undefined;
  #listener: SocketServer | undefined;

  private constructor(folder: string, socketPath: string, packageName: string) {
    this.#folder = folder;
    this.socketPath = socketPath;
    this.#packageName = packageName;
  }

  /** `version` is the CRI version in the names of its services; `location` an existing folder to use. */
  static async start(options: { version?: string; path?: string; up?: boolean } = {}): Promise<FakeCri> {
    const folder = await mkdtemp(join(tmpdir(), 'fake-cri-'));
    const socketPath = options.path ?? join(folder, 'cri.sock');
    const fake = new FakeCri(folder, socketPath, `runtime.${options.version ?? 'v1'}`);
    if (options.up !== false) await fake.up();
    return fake;
  }

  /** Listens again on the same path, with all its state. */
  async up(): Promise<void> {
    const inner = join(this.#folder, 'grpc.sock');
    this.#server ??= await this.#serve(inner);
    // Clients connect through a plain listener, so that `down` can break connections like a killed process.
    const listener = createServer((client) => {
      const server = connect(inner);
      for (const end of [client, server]) {
        this.#connections.add(end);
        end.on('error', () => end.destroy());
        end.on('close', () => this.#connections.delete(end));
      }
      client.pipe(server).pipe(client);
    });
    this.#listener = listener;
    await new Promise<void>((resolve) => listener.listen(this.socketPath, resolve));
  }

  /** Breaks every connection at once and stops listening, like a killed runtime. */
  async down(): Promise<void> {
    for (const connection of this.#connections) connection.destroy();
    const listener = this.#listener;
    this.#listener = undefined;
    if (listener) await new Promise((resolve) => listener.close(resolve));
  }

  async #serve(path: string): Promise<Server> {
    const server = new Server();
    const definition = loadSync(protoFile, { longs: Number, enums: String, defaults: true, arrays: true });
    for (const [name, service] of Object.entries(definition)) {
      if (!name.endsWith('Service')) continue;
      const methods = renamed(service as ServiceDefinition, this.#packageName);
      const handlers = Object.keys(methods).map((call) => [call, this.#handler(call as CriCall)]);
      server.addService(methods, Object.fromEntries(handlers));
    }
    await new Promise<void>((resolve, reject) => {
      const bound = (error: Error | null) => (error ? reject(error) : resolve());
      server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), bound);
    });
    return server;
  }

  async close(): Promise<void> {
    await this.down();
    this.#server?.forceShutdown();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Adds or replaces a container. */
  put(container: FakeContainer): void {
    this.#containers.set(container.id, container);
  }

  remove(id: string): void {
    this.#containers.delete(id);
  }

  exit(id: string): void {
    const known = this.#containers.get(id);
    if (known) this.put({ ...known, state: 'exited' });
  }

  state(id: string): ContainerState | undefined {
    return this.#containers.get(id)?.state ?? (this.#containers.has(id) ? 'running' : undefined);
  }

  sandboxIp(sandboxId: string, ip: string): void {
    this.#sandboxIps.set(sandboxId, ip);
  }

  /** Scripts the next calls of this name, one each; the last one stays. */
  script(call: CriCall, ...scripts: readonly Script[]): void {
    this.#scripts.set(call, [...scripts]);
  }

  unscript(call: CriCall): void {
    this.#scripts.delete(call);
  }

  count(call: CriCall): number {
    return this.calls.filter((made) => made.call === call).length;
  }

  requests(call: CriCall): readonly Request[] {
    return this.calls.filter((made) => made.call === call).map((made) => made.request);
  }

  /** Resolves when the call has arrived this many times in all. */
  async called(call: CriCall, times = 1): Promise<void> {
    while (this.count(call) < times) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#listeners.add(resolve);
      await promise;
      this.#listeners.delete(resolve);
    }
  }

  #handler(call: CriCall) {
    return (
      made: ServerUnaryCall<Request, object>,
      callback: (error: { code: status; details: string } | null, response?: object) => void,
    ): void => {
      this.calls.push({ call, request: made.request });
      for (const listener of this.#listeners) listener();
      const usual = () => this.#answer(call, made.request);
      const scripts = this.#scripts.get(call) ?? [];
      const script = scripts.length > 1 ? scripts.shift() : scripts[0];
      const play = async () => (script ? script(made.request, usual) : usual());
      play().then(
        (response) => callback(null, response),
        (error: { code?: status; details?: string; message: string }) =>
          callback({ code: error.code ?? status.UNKNOWN, details: error.details ?? error.message }),
      );
    };
  }

  #answer(call: CriCall, request: Request): object {
    switch (call) {
      case 'Version':
        return { version: '0.1.0', runtimeName: this.runtimeName, runtimeVersion: 'v0.0.0', runtimeApiVersion: 'v1' };
      case 'ImageFsInfo':
        return { imageFilesystems: [] };
      case 'ListImages':
        return { images: [{ id: 'sha256:1' }] };
      case 'PullImage':
        return { imageRef: 'sha256:1' };
      case 'ListContainers':
        return { containers: this.#list(request) };
      case 'ContainerStatus':
        return toWireStatus(this.#known(request.containerId), request.verbose === true);
      case 'PodSandboxStatus': {
        const ip = this.#sandboxIps.get(request.podSandboxId);
        return { status: { id: request.podSandboxId, ...(ip === undefined ? {} : { network: { ip } }) } };
      }
      case 'ExecSync':
        return { exitCode: 0 };
      case 'StopContainer':
        this.#known(request.containerId);
        this.exit(request.containerId);
        return {};
    }
  }

  #known(id: string): FakeContainer {
    const container = this.#containers.get(id);
    if (container === undefined) {
      const details = `an error occurred when try to find container "${id}": not found`;
      throw Object.assign(new Error(details), { code: status.NOT_FOUND, details });
    }
    return container;
  }

  #list(request: Request): object[] {
    const wanted = Object.entries(request.filter?.labelSelector ?? {});
    return (
      [...this.#containers.values()]
        .map(toWireContainer)
        // Prefixes match, like in containerd.
        .filter((container) => container.id.startsWith(request.filter?.id ?? ''))
        .filter((container) =>
          wanted.every(([key, value]) => new Map(Object.entries(container.labels)).get(key) === value),
        )
    );
  }
}

function renamed(service: ServiceDefinition, packageName: string): ServiceDefinition {
  const methods = Object.entries(service).map(([name, method]) => [
    name,
    { ...method, path: method.path.replace('runtime.v1', packageName) },
  ]);
  return Object.fromEntries(methods) as ServiceDefinition;
}

const toWireState = {
  created: 'CONTAINER_CREATED',
  running: 'CONTAINER_RUNNING',
  exited: 'CONTAINER_EXITED',
  unknown: 'CONTAINER_UNKNOWN',
} as const;

function toWireContainer(container: FakeContainer) {
  return {
    id: container.id,
    podSandboxId: container.sandboxId ?? `sandbox-${container.podUid}`,
    state: toWireState[container.state ?? 'running'],
    createdAt: toNs(container.createdAtMs ?? container.startedAtMs),
    labels: {
      [criLabel.podUid]: container.podUid,
      [criLabel.podNamespace]: container.podNamespace ?? 'shop',
      [criLabel.containerName]: container.name,
    },
    annotations: { [restartCountAnnotation]: String(container.restartCount ?? 0), ...container.annotations },
  };
}

function toWireStatus(container: FakeContainer, verbose: boolean) {
  const status = { ...toWireContainer(container), startedAt: toNs(container.startedAtMs) };
  const { env } = container;
  const info = verbose && env ? { info: JSON.stringify({ pid: 1, runtimeSpec: { process: { env } } }) } : {};
  return { status, info };
}

/** 1 January 2026 by default. */
function toNs(ms = 1_767_225_600_000): string {
  return `${ms}000000`;
}
