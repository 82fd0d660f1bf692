import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Logger } from 'pino';

/**
 * The HTTPS server of admission and conversion, independent of both: a path selects a route, and a route turns parsed
 * JSON into an answer before the API server's deadline. Requests are limited in size, time and number, in total and per
 * source address. With a client CA it answers only clients with a certificate of it, except on paths that the API
 * server calls without one.
 */

/** How a request ended, as a metric label. */
export type Outcome =
  | 'allowed'
  | 'changed'
  | 'refused'
  | 'converted'
  | 'failed'
  | 'malformed'
  | 'unauthenticated'
  | 'tooLarge'
  | 'overloaded';

export interface Answer {
  readonly status: number;
  readonly body: object;
  readonly outcome: Outcome;
}

/**
 * Answers one parsed body. The signal aborts shortly before the API server stops waiting, or when it has disconnected.
 */
export type Route = (body: unknown, signal: AbortSignal) => Answer | Promise<Answer>;

/** A route with settings of its own. */
export interface ServedRoute {
  readonly answer: Route;
  /** Maximum size of the body; absent: the server's limit. */
  readonly bodyBytes?: number;
  /** Whether clients without a certificate are answered. The answer must depend on the body alone. */
  readonly anonymous?: boolean;
  /**
   * Whether an answer needs nothing but the processor. Such requests take no place and have room for their bodies that others
   * cannot use, so that they never wait for slow ones.
   */
  readonly isImmediate?: boolean;
  /** For whom the request is, according to its body as text; absent: the route has only one share of the places. */
  readonly shareOf?: (text: string) => string;
}

/** A body that a route cannot parse. The message is returned with status 400. */
export class MalformedBody extends Error {
  override readonly name = 'MalformedBody';
}

export interface ServerLimits {
  /**
   * Maximum size of a body: etcd accepts objects of 1.5 MiB, and a review contains two of them, the old one and the new
   * one.
   */
  readonly bodyBytes: number;
  /** Maximum size of all bodies in memory. Beyond it the server answers 503. */
  readonly bufferedBytes: number;
  /** How much of this is for routes that are not immediate. */
  readonly waitingBytes: number;
  /** Requests that are processed at the same time; others wait until their deadline. */
  readonly concurrency: number;
  /** How many of these one source address may use, so that some are left for others. */
  readonly concurrencyPerSource: number;
  /** How many of these one share of one route may use. */
  readonly concurrencyPerShare: number;
  readonly connections: number;
  /** How many of these one source address may open; a further one is closed. */
  readonly connectionsPerSource: number;
  /** With more open connections than this, each one is closed after its answer instead of being kept alive. */
  readonly keptConnections: number;
  readonly handshakeMs: number;
  /** How long a connection is kept without a request. */
  readonly idleMs: number;
  /** From the first byte of a request to the last byte of its headers. */
  readonly headersMs: number;
  /** From the first byte of a request to the last byte of its body. */
  readonly requestMs: number;
  /** The deadline of requests without a timeout of their own. */
  readonly answerMs: number;
}

export const defaultLimits: ServerLimits = {
  bodyBytes: 3 * 1024 * 1024,
  bufferedBytes: 128 * 1024 * 1024,
  waitingBytes: 96 * 1024 * 1024,
  concurrency: 64,
  concurrencyPerSource: 48,
  concurrencyPerShare: 8,
  connections: 2_000,
  connectionsPerSource: 1_000,
  keptConnections: 500,
  handshakeMs: 10_000,
  // Longer than the 90 s of Go's clients, so that the server never closes a connection just as a request arrives.
  idleMs: 120_000,
  headersMs: 5_000,
  requestMs: 15_000,
  answerMs: 10_000,
};

export interface AdmissionServerOptions {
  readonly routes: Readonly<Record<string, Route | ServedRoute>>;
  /** PEM of the CAs whose clients are answered. Absent: all clients are. */
  readonly clientCa?: string;
  /** Limits that differ from the defaults. */
  readonly limits?: Partial<ServerLimits>;
  readonly log: Pick<Logger, 'debug' | 'warn' | 'error'>;
  /** Called once for each request; `path` is a route or `other`. */
  readonly observe?: (path: string, outcome: Outcome, seconds: number) => void;
}

export interface ServerCertificate {
  readonly certificate: string;
  readonly key: string;
}

export interface AdmissionServer {
  listen(address: { readonly host?: string; readonly port: number }): Promise<AddressInfo>;
  /** Serves another certificate on new connections; open ones are not affected. */
  use(certificate: ServerCertificate): void;
  /**
   * Accepts no new connections, waits for requests in flight, and closes all connections then or when the signal
   * aborts.
   */
  close(signal: AbortSignal): Promise<void>;
}

/** Creates the server; it listens after `listen`. No input makes it throw. */
export function createAdmissionServer(
  certificate: ServerCertificate,
  options: AdmissionServerOptions,
): AdmissionServer {
  const limits: ServerLimits = { ...defaultLimits, ...options.limits };
  const work: Work = {
    options,
    limits,
    places: new Places(limits),
    sockets: new Set(),
    buffered: { bytes: 0, waitingBytes: 0 },
    closing: false,
  };
  const server = createServer(
    {
      ...tlsOptions(certificate, options.clientCa),
      handshakeTimeout: limits.handshakeMs,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.max(50, Math.min(1_000, limits.headersMs / 4)),
      keepAliveTimeout: limits.idleMs,
      maxHeaderSize: 16 * 1024,
    },
    (request, response) => {
      serve(work, request, response).catch((error: unknown) => {
        options.log.error({ err: error }, 'Cannot serve');
        response.destroy();
      });
    },
  );
  server.maxConnections = limits.connections;
  const unused = countFromFirstByte(server, work);
  // TCP connections, so that those in the middle of a TLS handshake are included.
  const { sockets } = work;
  const bySource = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const source = socket.remoteAddress ?? '';
    const open = bySource.get(source) ?? 0;
    if (open >= limits.connectionsPerSource) return void socket.destroy();
    bySource.set(source, open + 1);
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      const left = (bySource.get(source) ?? 1) - 1;
      if (left > 0) bySource.set(source, left);
      else bySource.delete(source);
    });
  });

  return {
    listen: (address) => listen(server, address),
    use: (next) => server.setSecureContext(tlsOptions(next, options.clientCa)),
    async close(signal) {
      work.closing = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of unused) socket.destroy();
      const abandon = () => {
        for (const socket of sockets) socket.destroy();
      };
      if (signal.aborted) abandon();
      else signal.addEventListener('abort', abandon, { once: true });
      await closed;
      signal.removeEventListener('abort', abandon);
    },
  };
}

/**
 * Go's clients also open connections that they use later, or never. Node counts the time for the headers from the
 * opening of a connection, and would close such a connection during its first request; here it counts from the first
 * byte after the handshake. Returns the connections that have not been used yet.
 */
function countFromFirstByte(server: Server, work: Work): ReadonlySet<TLSSocket> {
  const unused = new Set<TLSSocket>();
  const serveConnection = server.listeners('secureConnection');
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket) => {
    const abandon = () => socket.destroy();
    if (work.closing) return void abandon();
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
    socket.setTimeout(work.limits.idleMs, abandon);
    socket.on('error', abandon);
    socket.once('readable', () => {
      unused.delete(socket);
      socket.setTimeout(0, abandon);
      socket.off('error', abandon);
      for (const serve of serveConnection) serve.call(server, socket);
    });
  });
  return unused;
}

interface Work {
  readonly options: AdmissionServerOptions;
  readonly limits: ServerLimits;
  readonly places: Places;
  readonly sockets: Set<Socket>;
  /** Bodies in memory; `waitingBytes` are those of routes that are not immediate. */
  readonly buffered: { bytes: number; waitingBytes: number };
  closing: boolean;
}

function tlsOptions({ certificate, key }: ServerCertificate, clientCa: string | undefined) {
  // A missing certificate does not fail the handshake: some paths are called without one, and the others can answer
  // what is missing.
  const clients = clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: false };
  return { cert: certificate, key, minVersion: 'TLSv1.2', ...clients } as const;
}

async function serve(work: Work, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const startedAtMs = performance.now();
  const [path = '/', query = ''] = (request.url ?? '/').split('?', 2);
  response.on('error', () => undefined);
  request.on('error', () => undefined);
  if (work.closing) response.setHeader('Connection', 'close');
  if (path === '/healthz') return void response.end('ok');

  const route = routeAt(work.options.routes, path);
  const answer = await answerTo(work, request, { path, query, route });
  const seconds = (performance.now() - startedAtMs) / 1000;
  work.options.observe?.(route === undefined ? 'other' : path, answer.outcome, seconds);

  if (answer.status !== 200) work.options.log.debug({ path, status: answer.status }, 'Request not answered');
  const text = JSON.stringify(answer.body);
  const unread = !request.complete;
  // Only clients of served paths keep their connections.
  if (answer.status !== 200 || work.sockets.size > work.limits.keptConnections) {
    response.setHeader('Connection', 'close');
  }
  if (unread) response.setHeader('Connection', 'close');
  response.writeHead(answer.status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
  if (!unread) return void response.end(text);
  // If the connection is closed while the client still sends, the answer may be lost.
  response.write(text);
  await discard(request, lingerMs);
  response.end();
}

function routeAt(routes: AdmissionServerOptions['routes'], path: string): ServedRoute | undefined {
  const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
  return typeof route === 'function' ? { answer: route } : route;
}

const lingerMs = 1_000;

/** Reads and discards the rest of a request, for a limited time. */
async function discard(request: IncomingMessage, forMs: number): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, forMs);
    request.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    request.removeAllListeners('data');
    request.resume();
  });
}

interface Target {
  readonly path: string;
  readonly query: string;
  readonly route: ServedRoute | undefined;
}

/** Why a client without a valid certificate is not answered; undefined: it has one, or needs none. */
function unauthenticated({ socket }: IncomingMessage, { clientCa }: AdmissionServerOptions): string | undefined {
  if (clientCa === undefined || (socket instanceof TLSSocket && socket.authorized)) return undefined;
  const why =
    socket instanceof TLSSocket ? String(socket.authorizationError ?? 'none was presented') : 'none was presented';
  return `Admission answers only clients with a certificate signed by --client-ca: ${why}`;
}

async function answerTo(work: Work, request: IncomingMessage, { path, query, route }: Target): Promise<Answer> {
  const { limits, options } = work;
  if (route === undefined) {
    const shown = path.slice(0, 200);
    options.log.warn({ path: shown }, 'Request for a path that this version does not serve');
    return failure(404, 'NotFound', `Windlass serves no webhook at "${shown}"`, 'malformed');
  }
  if (request.method !== 'POST') {
    return failure(405, 'MethodNotAllowed', `Method ${request.method} is not served here, only POST`, 'malformed');
  }

  const stranger = route.anonymous === true ? undefined : unauthenticated(request, options);
  if (stranger !== undefined) return failure(401, 'Unauthorized', stranger, 'unauthenticated');

  const deadline = new AbortController();
  const answerMs = deadlineMs(new URLSearchParams(query).get('timeout'), limits.answerMs);
  const timer = setTimeout(() => deadline.abort(new Error(`no answer within ${answerMs} ms`)), answerMs);
  const gone = () => deadline.abort(new Error('the client disconnected'));
  request.once('close', () => {
    if (!request.complete) gone();
  });
  request.socket.once('close', gone);
  const { isImmediate = false } = route;
  let held = 0;
  try {
    const most = { ...limits, bodyBytes: route.bodyBytes ?? limits.bodyBytes };
    const body = await readBody(request, most, (bytes) => {
      held += bytes;
      work.buffered.bytes += bytes;
      if (!isImmediate) work.buffered.waitingBytes += bytes;
      return work.buffered.bytes <= limits.bufferedBytes && work.buffered.waitingBytes <= limits.waitingBytes;
    });
    if ('status' in body) return body;
    const answer = () =>
      beforeDeadline(deadline.signal, async () => route.answer(parseJson(body.text), deadline.signal));
    if (isImmediate) return await answer();
    // Waiting requests are kept as text: parsed they take several times the memory.
    const holder = { source: request.socket.remoteAddress ?? '', share: `${path} ${route.shareOf?.(body.text) ?? ''}` };
    return await work.places.within(holder, deadline.signal, answer);
  } catch (error) {
    if (error instanceof MalformedBody) return failure(400, 'BadRequest', error.message, 'malformed');
    if (isTooDeep(error)) return failure(400, 'BadRequest', 'The body is nested too deeply', 'malformed');
    if (error instanceof NoPlace) return failure(503, 'ServiceUnavailable', error.message, 'overloaded');
    options.log.error({ err: error, path }, 'Cannot answer');
    return failure(500, 'InternalError', error instanceof Error ? error.message : String(error), 'failed');
  } finally {
    work.buffered.bytes -= held;
    if (!isImmediate) work.buffered.waitingBytes -= held;
    clearTimeout(timer);
    request.socket.removeListener('close', gone);
  }
}

/** Rejects at the deadline, even if the work ignores the signal. */
async function beforeDeadline<Value>(signal: AbortSignal, work: () => Promise<Value>): Promise<Value> {
  signal.throwIfAborted();
  let late = (_event: Event): void => undefined;
  const deadline = new Promise<never>((_, reject) => {
    late = () => reject(signal.reason);
    signal.addEventListener('abort', late, { once: true });
  });
  try {
    return await Promise.race([work(), deadline]);
  } finally {
    signal.removeEventListener('abort', late);
  }
}

/** Whether the error is a stack overflow from JSON that is nested too deeply to be compared. */
export function isTooDeep(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes('call stack');
}

/** A Status in the API server's format. */
export function failure(code: number, reason: string, message: string, outcome: Outcome): Answer {
  const body = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code };
  return { status: code, body, outcome };
}

function readBody(
  request: IncomingMessage,
  limits: ServerLimits,
  hold: (bytes: number) => boolean,
): Promise<{ readonly text: string } | Answer> {
  const tooLarge = failure(
    413,
    'RequestEntityTooLarge',
    `The request is longer than ${limits.bodyBytes} bytes, the most that admission reads: make the object smaller`,
    'tooLarge',
  );
  if (Number(request.headers['content-length'] ?? 0) > limits.bodyBytes) return Promise.resolve(tooLarge);

  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    request.on('data', (chunk: Buffer) => {
      length += chunk.length;
      const room = hold(chunk.length);
      if (length <= limits.bodyBytes && room) return void chunks.push(chunk);
      request.pause();
      chunks.length = 0;
      resolve(room ? tooLarge : failure(503, 'ServiceUnavailable', 'Too many requests at one time', 'overloaded'));
    });
    request.once('end', () => resolve({ text: Buffer.concat(chunks).toString('utf8') }));
    request.once('close', () => reject(new MalformedBody('The body ended early')));
    request.once('error', () => reject(new MalformedBody('The body ended early')));
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new MalformedBody(`Cannot read the body as JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/**
 * The time limit of an answer for the API server's `?timeout=10s`: a little less, so that it receives the reason.
 * Absent or invalid: the default.
 */
export function deadlineMs(timeout: string | null, absentMs: number): number {
  const units: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };
  if (timeout === null || !/^(\d+(\.\d+)?(h|ms|m|s))+$/.test(timeout)) return absentMs;
  const parts = timeout.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g);
  const toldMs = [...parts].reduce((sum, [, count, unit]) => sum + Number(count) * (units[unit ?? ''] ?? 0), 0);
  return Math.max(1, Math.min(absentMs, toldMs - Math.min(500, toldMs / 4)));
}

/** A request has waited for a slot until its deadline. */
class NoPlace extends Error {}

/** Who holds a place. */
interface Holder {
  readonly source: string;
  readonly share: string;
}

type Counts = Map<string, number>;

/** A limited number of slots, of which one source and one share may use only a part; others wait in order. */
class Places {
  readonly #limits: ServerLimits;
  #free: number;
  readonly #bySource: Counts = new Map();
  readonly #byShare: Counts = new Map();
  readonly #waiting = new Set<{ readonly holder: Holder; readonly take: () => void }>();

  constructor(limits: ServerLimits) {
    this.#limits = limits;
    this.#free = limits.concurrency;
  }

  async within<Value>(holder: Holder, signal: AbortSignal, work: () => Promise<Value>): Promise<Value> {
    await this.#take(holder, signal);
    try {
      return await work();
    } finally {
      this.#giveBack(holder);
    }
  }

  #take(holder: Holder, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const take = () => {
        this.#waiting.delete(turn);
        signal.removeEventListener('abort', leave);
        this.#count(holder, 1);
        resolve();
      };
      const turn = { holder, take };
      const leave = () => {
        this.#waiting.delete(turn);
        reject(new NoPlace(`Too many requests at one time: ${String(signal.reason)}`));
      };
      if (this.#hasPlace(holder)) return take();
      if (signal.aborted) return leave();
      this.#waiting.add(turn);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  #giveBack(holder: Holder): void {
    this.#count(holder, -1);
    for (const turn of this.#waiting) {
      if (!this.#hasPlace(turn.holder)) continue;
      turn.take();
      return;
    }
  }

  #hasPlace({ source, share }: Holder): boolean {
    const { concurrencyPerSource, concurrencyPerShare } = this.#limits;
    if (this.#free === 0) return false;
    const [ofSource, ofShare] = [this.#bySource.get(source) ?? 0, this.#byShare.get(share) ?? 0];
    return ofSource < concurrencyPerSource && ofShare < concurrencyPerShare;
  }

  #count({ source, share }: Holder, change: 1 | -1): void {
    this.#free -= change;
    for (const [counts, key] of [[this.#bySource, source] as const, [this.#byShare, share] as const]) {
      const count = (counts.get(key) ?? 0) + change;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    }
  }
}

function listen(
  server: Server,
  { host, port }: { readonly host?: string; readonly port: number },
): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, ...(host === undefined ? {} : { host }) }, () => {
      server.removeListener('error', reject);
      // Later errors concern single connections.
      server.on('error', () => undefined);
      resolve(server.address() as AddressInfo);
    });
  });
}
