/** Calls a runtime's services over gRPC, and translates its errors into ours. */
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
import { CriError, type CriFailure } from '../../activities/cri/runtime.ts';
import { withoutCredentials } from '../../activities/cri/without-credentials.ts';

/** The files must be in the folder of this module, also in a bundle. */
const protoFiles = ['./runtime.proto', './content.proto'].map((file) => fileURLToPath(new URL(file, import.meta.url)));

/** The largest accepted answer; answers to commands have a limit of their own. */
const largestAnswer = 16 * 1024 * 1024;

const channelOptions: ChannelOptions = {
  'grpc.max_send_message_length': 16 * 1024 * 1024,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // Retries are the caller's decision: a stop must never be repeated unnoticed.
  'grpc.enable_retries': 0,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0,
};

/**
 * The largest accepted output of a command, of which a few kilobytes are kept. Dozens of commands run at the same time,
 * and an answer is held in memory as a whole before it can be processed.
 */
export const longestOutput = 1024 * 1024;

/** One connection to the services of a runtime. */
export type CriConnection = InstanceType<CriConstructor>;

/** Prepares a connection with this size limit for answers; the socket need not exist yet. */
export function connect(socketPath: string, mostBytes = largestAnswer): CriConnection {
  const options = { ...channelOptions, 'grpc.max_receive_message_length': mostBytes };
  return new (criConstructor())(`unix:${socketPath}`, credentials.createInsecure(), options);
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

export function unary<Response>(
  client: CriConnection,
  call: string,
  request: object,
  deadlineMs: number,
  signal?: AbortSignal,
): Promise<Response> {
  return unaryWith(client, call, request, { deadlineMs, metadata: new Metadata(), ...(signal && { signal }) });
}

export function unaryWith<Response>(
  client: CriConnection,
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
      // The methods are created at run time, from the names in runtime.proto.
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

/** All parts of a streamed answer. */
export function streamed<Part>(
  client: CriConnection,
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

function isCancellable(made: unknown): made is { cancel(): void } {
  return typeof made === 'object' && made !== null && 'cancel' in made && typeof made.cancel === 'function';
}

/** grpc-js rejects deadlines that are too far away, which grace periods can be. */
function deadlineIn(ms: number): number {
  return ms > 365 * 24 * 3_600_000 ? Number.POSITIVE_INFINITY : Date.now() + ms;
}

export const tooMuchPrinted = `the command printed more than ${longestOutput / 1024 / 1024} MiB`;

function toCriError(call: string, error: ServiceError, deadlineMs: number): CriError {
  const failure = failureOf(error.code);
  const isTooLarge = error.code === status.RESOURCE_EXHAUSTED && error.details.startsWith('Received message larger');
  if (call === 'ExecSync' && isTooLarge) return new CriError('answer', call, tooMuchPrinted);
  const message =
    failure === 'deadline'
      ? `runtime did not answer within ${deadlineMs / 1_000}s`
      : withoutCredentials((error.details || error.message).replace(/\.? Resolution note:.*$/s, ''));
  // without the cause, which repeats the message
  return new CriError(failure, call, message);
}

function failureOf(code: status): CriFailure {
  switch (code) {
    case status.UNAVAILABLE:
    // Only pulls are cancelled by us, and they know it: otherwise the connection broke, or the runtime is shutting
    // down.
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
