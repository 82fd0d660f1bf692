import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import {
  type ChannelOptions,
  credentials,
  Metadata,
  makeGenericClientConstructor,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { ImageRuntime } from '../../activities/cri/image-runtime.ts';
import {
  type ContainerRuntime,
  type ContainerState,
  CriError,
  type CriFailure,
  criLabel,
  type RuntimeContainer,
  type RuntimeContainerStatus,
} from '../../activities/cri/runtime.ts';
import { withoutCredentials } from '../../activities/cri/without-credentials.ts';
import type { ProbeRuntime } from '../probes/runtime.ts';
import { printedEnvironment, recordedEnvironment } from './environment.ts';
import { pullErrorOf } from './pull-errors.ts';
import { type ContentStore, fromPlace, layerDigest, PullWatches } from './pull-watch.ts';
import type * as wire from './wire.ts';

/** The files must lie beside this one, also in a bundle. */
const protoFiles = ['./runtime.proto', './content.proto'].map((file) => fileURLToPath(new URL(file, import.meta.url)));

/** Deadlines in milliseconds (ND 5.2). Time that the caller gives a command or a container comes on top of `call`. */
export const criDeadlines: CriDeadlines = {
  call: 5_000,
  imageFsInfo: 10_000,
  // The original sets none. A runtime that never answers must not hold up the detection of others.
  listImages: 60_000,
};

export interface CriDeadlines {
  readonly call: number;
  readonly imageFsInfo: number;
  readonly listImages: number;
}

/** What a runtime says about itself. */
export interface RuntimeVersion {
  readonly runtimeName: string;
  readonly runtimeVersion: string;
  readonly runtimeApiVersion: string;
}

/**
 * A connection to one runtime over its Unix socket, and a second one for commands. Each dials again by itself, so that a runtime which went away is
 * used again within a second of its return; calls in between fail at once as `unreachable`.
 */
export interface CriClient extends Omit<ContainerRuntime, 'name'>, Omit<ImageRuntime, 'name'>, ProbeRuntime {
  version(): Promise<RuntimeVersion>;
  imageFsInfo(): Promise<void>;
  listImages(): Promise<number>;
  close(): void;
}

const channelOptions: ChannelOptions = {
  'grpc.max_receive_message_length': 16 * 1024 * 1024,
  'grpc.max_send_message_length': 16 * 1024 * 1024,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // Who calls decides whether to call again: a stop must never be sent twice behind our back.
  'grpc.enable_retries': 0,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0,
};

/**
 * What is received of a command's output, of which a few kilobytes are kept. Commands are run dozens at a time, and an
 * answer is in memory as a whole before it can be looked at.
 */
const longestOutput = 1024 * 1024;

/** Prepares the connections; the socket need not exist yet. */
export function createCriClient(socketPath: string, deadlines: CriDeadlines = criDeadlines): CriClient {
  const connect = (options: ChannelOptions) =>
    new (criConstructor())(`unix:${socketPath}`, credentials.createInsecure(), options);
  const client = connect(channelOptions);
  // how much is received is a matter of the connection
  const commands = connect({ ...channelOptions, 'grpc.max_receive_message_length': longestOutput });
  const call: Call = (name, request, deadlineMs = deadlines.call, signal = undefined) =>
    unary(name === 'ExecSync' ? commands : client, name, request, deadlineMs, signal);
  const pullWatches = new PullWatches(contentStore(client, deadlines.call));
  /** It is another runtime than containerd: no need to ask again. */
  let tellsNoBytes = false;

  return {
    async version() {
      const answer = await call('Version', { version: '0.1.0' });
      const { runtimeName, runtimeVersion, runtimeApiVersion } = answer;
      return { runtimeName, runtimeVersion, runtimeApiVersion };
    },

    async imageFsInfo() {
      await call('ImageFsInfo', {}, deadlines.imageFsInfo);
    },

    async listImages() {
      const answer = await call('ListImages', {}, deadlines.listImages);
      return answer.images.length;
    },

    async listContainers({ podUid, id }) {
      const filter = {
        ...(id === undefined ? {} : { id }),
        ...(podUid === undefined ? {} : { labelSelector: { [criLabel.podUid]: podUid } }),
      };
      const answer = await call('ListContainers', { filter });
      return (
        answer.containers
          .map(toContainer)
          // containerd takes a prefix for an ID, and nothing promises that a runtime filters at all.
          .filter((container) => id === undefined || container.id === id)
          .filter((container) => podUid === undefined || container.labels[criLabel.podUid] === podUid)
      );
    },

    async containerStatus(id) {
      const answer = await unlessNotFound(call('ContainerStatus', { containerId: id, verbose: false }));
      return answer === undefined || answer.status === null ? undefined : toContainerStatus(answer.status);
    },

    async environment(id, names) {
      const answer = await unlessNotFound(call('ContainerStatus', { containerId: id, verbose: true }));
      if (answer === undefined) return undefined;
      return recordedEnvironment(answer.info, names) ?? (await printedEnvironment(call, id, names));
    },

    async sandboxIp(sandboxId) {
      const answer = await call('PodSandboxStatus', { podSandboxId: sandboxId, verbose: false });
      return answer.status?.network?.ip || undefined;
    },

    async execSync(id, command) {
      try {
        const answer = await call('ExecSync', { containerId: id, cmd: command, timeout: 0 }, Number.POSITIVE_INFINITY);
        return { exitCode: answer.exitCode };
      } catch (error) {
        // the runtime answers when the command has ended; how is not known, and it is no reason to call it failed
        if (error instanceof CriError && error.message === tooMuchPrinted) return { exitCode: 0 };
        throw error;
      }
    },

    async execProbe(id, command, timeoutSeconds) {
      const request = { containerId: id, cmd: command, timeout: timeoutSeconds };
      const answer = await call('ExecSync', request, timeoutSeconds * 1_000 + deadlines.call);
      return { exitCode: answer.exitCode, stdout: beginning(answer.stdout), stderr: beginning(answer.stderr) };
    },

    async stopContainer(id, graceSeconds) {
      const deadlineMs = graceSeconds * 1_000 + deadlines.call;
      await call('StopContainer', { containerId: id, timeout: graceSeconds }, deadlineMs);
    },

    async imageId(reference) {
      const answer = await call('ImageStatus', { image: { image: reference }, verbose: false });
      return answer.image?.id || undefined;
    },

    async imageFolder() {
      const answer = await call('ImageFsInfo', {}, deadlines.imageFsInfo);
      return answer.imageFilesystems[0]?.fsId?.mountpoint || undefined;
    },

    async pullImage({ reference, auth, labels, annotations, timeoutMs, signal }) {
      const request = {
        image: { image: reference },
        ...(auth && { auth }),
        sandboxConfig: { labels, annotations },
      };
      try {
        return (await call('PullImage', request, timeoutMs, signal)).imageRef;
      } catch (error) {
        throw pullErrorOf(error, signal);
      }
    },

    watchPull(reference) {
      const watch = pullWatches.watch(reference);
      return {
        async look() {
          if (tellsNoBytes) return undefined;
          try {
            return await watch.look();
          } catch (error) {
            if (!(error instanceof CriError)) throw error;
            tellsNoBytes = error.failure === 'unimplemented';
            return undefined;
          }
        },
        end: watch.end,
      };
    },

    close() {
      client.close();
      commands.close();
    },
  };
}

/** Containerd's own store, in the namespace in which it keeps what CRI asks it for. */
function contentStore(client: InstanceType<CriConstructor>, deadlineMs: number): ContentStore {
  const metadata = new Metadata();
  metadata.set('containerd-namespace', 'k8s.io');
  return {
    async underWay() {
      const options = { deadlineMs, metadata };
      const answer = await unaryWith<wire.ListStatusesResponse>(client, 'ListStatuses', { filters: [] }, options);
      const layers = answer.statuses.flatMap(({ ref, offset }) => {
        const digest = layerDigest(ref);
        return digest === undefined ? [] : [[digest, Number(offset)] as const];
      });
      return new Map(layers);
    },

    async blobsOf(place) {
      const request = { filters: [fromPlace(place)] };
      const parts = await streamed<wire.ListContentResponse>(client, 'List', request, { deadlineMs, metadata });
      return parts.flatMap(({ info }) => info.map(({ digest, size }) => ({ digest, size: Number(size) })));
    },

    async read(digest) {
      const parts = await streamed<wire.ReadContentResponse>(client, 'Read', { digest }, { deadlineMs, metadata });
      return Buffer.concat(parts.map(({ data }) => data)).toString('utf8');
    },
  };
}

/** More of an output nobody reads. */
const outputBytes = 4_096;

function beginning(output: Uint8Array): string {
  return Buffer.from(output.buffer, output.byteOffset, Math.min(output.byteLength, outputBytes)).toString();
}

let loaded: CriConstructor | undefined;

type CriConstructor = ReturnType<typeof makeGenericClientConstructor>;

/** All services in one client, so that they share one connection. */
function criConstructor(): CriConstructor {
  if (loaded !== undefined) return loaded;
  const options = { longs: String, enums: String, defaults: true, arrays: true, objects: true };
  const definition = loadSync([...protoFiles], options);
  const names = ['runtime.v1.RuntimeService', 'runtime.v1.ImageService', 'containerd.services.content.v1.Content'];
  const services = names.map((name) => definition[name]);
  loaded = makeGenericClientConstructor(Object.assign({}, ...services), 'CRI');
  return loaded;
}

/** Calls the runtime, which has `deadlineMs` for its answer. */
export type Call = <Name extends keyof wire.CriCalls>(
  name: Name,
  request: wire.CriCalls[Name]['request'],
  deadlineMs?: number,
  signal?: AbortSignal,
) => Promise<wire.CriCalls[Name]['response']>;

function unary<Response>(
  client: InstanceType<CriConstructor>,
  call: string,
  request: object,
  deadlineMs: number,
  signal?: AbortSignal,
): Promise<Response> {
  return unaryWith(client, call, request, { deadlineMs, metadata: new Metadata(), ...(signal && { signal }) });
}

function unaryWith<Response>(
  client: InstanceType<CriConstructor>,
  call: string,
  request: object,
  { deadlineMs, metadata, signal }: CallOptions & { readonly signal?: AbortSignal },
): Promise<Response> {
  return new Promise((resolve, reject) => {
    let cancel: (() => void) | undefined;
    const settle = (error: ServiceError | null, response: Response) => {
      if (cancel) signal?.removeEventListener('abort', cancel);
      if (error === null) resolve(response);
      else reject(toCriError(call, error, deadlineMs));
    };
    try {
      // The methods are made at run time, by the names in runtime.proto.
      const made: unknown = client[call]?.(request, metadata, { deadline: deadlineIn(deadlineMs) }, settle);
      if (signal === undefined || !isCancellable(made)) return;
      cancel = () => made.cancel();
      signal.addEventListener('abort', cancel);
      if (signal.aborted) cancel();
    } catch (error) {
      // The client has been closed.
      reject(new CriError('unreachable', call, error instanceof Error ? error.message : String(error)));
    }
  });
}

interface CallOptions {
  readonly deadlineMs: number;
  readonly metadata: Metadata;
}

/** Everything that a call answers in parts. */
function streamed<Part>(
  client: InstanceType<CriConstructor>,
  call: string,
  request: object,
  { deadlineMs, metadata }: CallOptions,
): Promise<readonly Part[]> {
  return new Promise((resolve, reject) => {
    const parts: Part[] = [];
    try {
      const made: unknown = client[call]?.(request, metadata, { deadline: deadlineIn(deadlineMs) });
      if (!(made instanceof Readable)) throw new TypeError(`${call} did not return a stream`);
      made.on('data', (part: Part) => void parts.push(part));
      made.on('error', (error: ServiceError) => reject(toCriError(call, error, deadlineMs)));
      made.on('end', () => resolve(parts));
    } catch (error) {
      reject(new CriError('unreachable', call, error instanceof Error ? error.message : String(error)));
    }
  });
}

async function unlessNotFound<Answer>(call: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CriError && error.failure === 'notFound') return undefined;
    throw error;
  }
}

function isCancellable(made: unknown): made is { cancel(): void } {
  return typeof made === 'object' && made !== null && 'cancel' in made && typeof made.cancel === 'function';
}

/** grpc-js refuses deadlines that are too far away, which grace periods can be. */
function deadlineIn(ms: number): number {
  return ms > 365 * 24 * 3_600_000 ? Number.POSITIVE_INFINITY : Date.now() + ms;
}

const tooMuchPrinted = `the command printed more than ${longestOutput / 1024 / 1024} MiB`;

function toCriError(call: string, error: ServiceError, deadlineMs: number): CriError {
  const failure = failureOf(error.code);
  const isTooLarge = error.code === status.RESOURCE_EXHAUSTED && error.details.startsWith('Received message larger');
  if (call === 'ExecSync' && isTooLarge) return new CriError('answer', call, tooMuchPrinted);
  const message =
    failure === 'deadline'
      ? `runtime did not answer within ${deadlineMs / 1_000}s`
      : withoutCredentials((error.details || error.message).replace(/\.? Resolution note:.*$/s, ''));
  // without its cause, which says everything once more
  return new CriError(failure, call, message);
}

function failureOf(code: status): CriFailure {
  switch (code) {
    case status.UNAVAILABLE:
    // Only pulls are cancelled, and know of it: else this is a connection that broke, or a runtime that shuts down.
    case status.CANCELLED:
      return 'unreachable';
    case status.DEADLINE_EXCEEDED:
      return 'deadline';
    case status.NOT_FOUND:
      return 'notFound';
    case status.UNIMPLEMENTED:
      return 'unimplemented';
    default:
      return 'answer';
  }
}

function toContainer(container: wire.Container): RuntimeContainer {
  return {
    id: container.id,
    sandboxId: container.podSandboxId,
    state: toState(container.state),
    createdAtNs: BigInt(container.createdAt),
    labels: container.labels,
    annotations: container.annotations,
  };
}

function toContainerStatus(answer: wire.ContainerStatus): RuntimeContainerStatus {
  return {
    id: answer.id,
    state: toState(answer.state),
    startedAtNs: BigInt(answer.startedAt),
    exitCode: answer.exitCode,
  };
}

function toState(state: wire.ContainerState): ContainerState {
  switch (state) {
    case 'CONTAINER_CREATED':
      return 'created';
    case 'CONTAINER_RUNNING':
      return 'running';
    case 'CONTAINER_EXITED':
      return 'exited';
    default:
      return 'unknown';
  }
}
