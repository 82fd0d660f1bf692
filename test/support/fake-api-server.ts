import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Credentials } from '../../kube/credentials.ts';

/** A fault that is injected into one request. */
export type Fault =
  /** The connection is dropped instead of an answer. */
  | { readonly kind: 'drop' }
  /** The request is accepted, and never answered. */
  | { readonly kind: 'stall' }
  /** The answer is cut after its first half. */
  | { readonly kind: 'half' }
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    };

/** One request as the server received it. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
  /** The number of the TCP connection. */
  readonly connection: number;
}

/** The answer of a real API server that rejects a call, for a fault of kind `answer`. */
export function refusal(status: number, reason: string, message: string, details: object = {}): Fault {
  return { kind: 'answer', status, body: statusObject(status, reason, message, details) };
}

/**
 * A real HTTP server that simulates an API server with a store of objects, and injects faults. It serves any resource:
 * get, list in pages that expire, watch, create, merge patch and delete, with preconditions.
 */
export class FakeApiServer {
  /** All requests, oldest first. */
  readonly requests: SeenRequest[] = [];
  /** The open watches, oldest first. */
  readonly watches: FakeWatch[] = [];
  /** Called for each request: returns the fault to inject. */
  fault: (request: SeenRequest) => Fault | undefined = () => undefined;
  /** How often an idle watch sends a bookmark; never when absent. */
  bookmarkEveryMs: number | undefined;

  readonly #server: Server;
  readonly #sockets = new Map<Socket, number>();
  readonly #objects = new Map<string, KubeObject>();
  readonly #snapshots = new Map<string, readonly KubeObject[]>();
  #log: StoredEvent[] = [];
  #compactedTo = 0;
  #version = 100;
  #connections = 0;

  /** Listens on a free local port. */
  static async start(): Promise<FakeApiServer> {
    const server = new FakeApiServer();
    await new Promise<void>((resolve) => {
      server.#server.listen(0, '127.0.0.1', resolve);
    });
    return server;
  }

  constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.keepAliveTimeout = 600_000;
    this.#server.on('connection', (socket) => {
      this.#connections += 1;
      this.#sockets.set(socket, this.#connections);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Credentials that the server accepts: any token. */
  get credentials(): Credentials {
    return {
      server: new URL(this.url),
      current: () => Promise.resolve({ headers: { authorization: 'Bearer fake' }, tls: noTls }),
      renew: () => undefined,
    };
  }

  /** The resourceVersion of the last write. */
  get version(): string {
    return String(this.#version);
  }

  get openConnections(): number {
    return this.#sockets.size;
  }

  /** How many connections were ever opened. */
  get connections(): number {
    return this.#connections;
  }

  /** All objects of a collection such as `/api/v1/pods`. */
  stored(collection: string): readonly KubeObject[] {
    return [...this.#objects].filter(([key]) => key.startsWith(`${collection} `)).map(([, object]) => object);
  }

  /** Creates or changes an object as another client would, and returns it as stored. */
  put<T extends object>(collection: string, object: T & { readonly metadata: NewMeta }): T & KubeObject {
    const key = keyOf(collection, object.metadata.namespace, object.metadata.name);
    const before = this.#objects.get(key);
    this.#version += 1;
    const after = {
      apiVersion: 'v1',
      kind: 'Thing',
      ...object,
      metadata: {
        creationTimestamp: before?.metadata.creationTimestamp ?? '2026-01-01T00:00:00Z',
        ...object.metadata,
        uid: before?.metadata.uid ?? object.metadata.uid ?? `uid-${this.#version}`,
        resourceVersion: this.version,
      },
    };
    this.#objects.set(key, after);
    this.#record(before ? 'MODIFIED' : 'ADDED', collection, after);
    return after;
  }

  /** Removes an object. */
  remove(collection: string, namespace: string | undefined, name: string): void {
    const key = keyOf(collection, namespace, name);
    const before = this.#objects.get(key);
    if (!before) return;
    this.#version += 1;
    this.#objects.delete(key);
    this.#record('DELETED', collection, {
      ...before,
      metadata: { ...before.metadata, resourceVersion: this.version },
    });
  }

  /** Compacts the history: list pages in progress and earlier watches are answered with 410 from now on. */
  compact(): void {
    this.#log = [];
    this.#compactedTo = this.#version;
    this.#snapshots.clear();
  }

  /** Resets the version and the objects, like a restored backup. */
  restore(collection: string, objects: readonly KubeObject[], version: number): void {
    for (const watch of [...this.watches]) watch.drop();
    this.compact();
    this.#compactedTo = 0;
    this.#version = version;
    for (const key of [...this.#objects.keys()]) if (key.startsWith(`${collection} `)) this.#objects.delete(key);
    for (const object of objects) {
      this.#objects.set(keyOf(collection, object.metadata.namespace, object.metadata.name), object);
    }
  }

  /** Sends a bookmark with this version to every open watch; the current version when absent. */
  bookmark(version: string = this.version): void {
    for (const watch of this.watches) watch.send(bookmarkLine(version));
  }

  /** Stops the server and closes all connections. */
  async stop(): Promise<void> {
    for (const watch of [...this.watches]) watch.end();
    for (const socket of this.#sockets.keys()) socket.destroy();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', this.url);
    const text = await textOf(incoming);
    const request: SeenRequest = {
      method: incoming.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: incoming.headers,
      body: text === '' ? undefined : JSON.parse(text),
      connection: this.#sockets.get(incoming.socket) ?? 0,
    };
    this.requests.push(request);

    const fault = this.fault(request);
    switch (fault?.kind) {
      case 'drop':
        incoming.socket.destroy();
        return;
      case 'stall':
        return;
      case 'half': {
        const whole = JSON.stringify(this.#answer(request).body);
        response.writeHead(200, { 'content-length': Buffer.byteLength(whole) });
        response.write(whole.slice(0, whole.length / 2), () => incoming.socket.destroy());
        return;
      }
      case 'answer': {
        const body = typeof fault.body === 'string' ? fault.body : JSON.stringify(fault.body ?? {});
        response.writeHead(fault.status, { ...fault.headers }).end(body);
        return;
      }
      case undefined:
        break;
    }

    if (request.query.get('watch') === 'true') {
      this.#open(request, response);
      return;
    }
    const { status, body } = this.#answer(request);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }

  #answer(request: SeenRequest): { readonly status: number; readonly body: unknown } {
    const { collection, namespace, name } = parsePath(request.path);
    if (name === undefined) {
      if (request.method === 'GET') return this.#list(collection, namespace, request.query);
      const created = request.body as KubeObject;
      if (this.#objects.has(keyOf(collection, namespace, created.metadata.name))) {
        return refused(409, 'AlreadyExists', `"${created.metadata.name}" already exists`);
      }
      return { status: 201, body: this.put(collection, created) };
    }

    const held = this.#objects.get(keyOf(collection, namespace, name));
    if (!held) return refused(404, 'NotFound', `"${name}" not found`);
    switch (request.method) {
      case 'GET':
        return { status: 200, body: held };
      case 'PATCH': {
        const patch = request.body as { readonly metadata?: { readonly resourceVersion?: string } };
        const expected = patch.metadata?.resourceVersion;
        if (expected !== undefined && expected !== held.metadata.resourceVersion) {
          return refused(409, 'Conflict', `Operation cannot be fulfilled on "${name}": the object has been modified`);
        }
        return { status: 200, body: this.put(collection, merge(held, patch) as KubeObject) };
      }
      case 'DELETE': {
        const options = request.body as { readonly preconditions?: { readonly uid?: string } } | undefined;
        const uid = options?.preconditions?.uid;
        if (uid !== undefined && uid !== held.metadata.uid) {
          const why = `the UID in the precondition (${uid}) does not match the UID in record (${held.metadata.uid})`;
          return refused(409, 'Conflict', `Operation cannot be fulfilled on "${name}": ${why}`);
        }
        this.remove(collection, namespace, name);
        return { status: 200, body: statusObject(200, '', '') };
      }
      default:
        return refused(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource');
    }
  }

  #list(collection: string, namespace: string | undefined, query: URLSearchParams): { status: number; body: unknown } {
    const limit = Number(query.get('limit') ?? 0) || Number.POSITIVE_INFINITY;
    const token = query.get('continue');
    const [version = this.version, start = '0'] = token?.split(':') ?? [];
    const snapshot = token
      ? this.#snapshots.get(version)
      : this.stored(collection).filter((object) => namespace === undefined || object.metadata.namespace === namespace);
    if (!snapshot) {
      return refused(410, 'Expired', 'The provided continue parameter is too old to display a consistent list result');
    }

    const end = Number(start) + limit;
    const more = end < snapshot.length;
    if (more) this.#snapshots.set(version, snapshot);
    return {
      status: 200,
      body: {
        kind: 'ThingList',
        apiVersion: 'v1',
        metadata: {
          resourceVersion: version,
          ...(more && { continue: `${version}:${end}`, remainingItemCount: snapshot.length - end }),
        },
        items: snapshot.slice(Number(start), end).map(({ kind: _kind, apiVersion: _apiVersion, ...item }) => item),
      },
    };
  }

  #open(request: SeenRequest, response: ServerResponse): void {
    const { collection, namespace } = parsePath(request.path);
    const from = Number(request.query.get('resourceVersion'));
    if (from < this.#compactedTo) {
      response.writeHead(200);
      response.end(errorLine(410, 'Expired', `too old resource version: ${from} (${this.#compactedTo})`));
      return;
    }
    // A version of the future is accepted, and no event sent until it is reached, like a real server does.
    const watch = new FakeWatch(collection, namespace, from, response, this.bookmarkEveryMs, () => this.version);
    response.on('close', () => {
      watch.forget();
      const at = this.watches.indexOf(watch);
      if (at !== -1) this.watches.splice(at, 1);
    });
    this.watches.push(watch);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    for (const event of this.#log) watch.offer(event);
  }

  #record(type: StoredEvent['type'], collection: string, object: KubeObject): void {
    const event = { type, collection, object, version: this.#version };
    this.#log.push(event);
    for (const watch of this.watches) watch.offer(event);
  }
}

/** One open watch, as the server holds it. */
export class FakeWatch {
  readonly #collection: string;
  readonly #namespace: string | undefined;
  readonly #from: number;
  readonly #response: ServerResponse;
  readonly #bookmarks: NodeJS.Timeout | undefined;
  #stalled = false;

  constructor(
    collection: string,
    namespace: string | undefined,
    from: number,
    response: ServerResponse,
    bookmarkEveryMs: number | undefined,
    version: () => string,
  ) {
    this.#collection = collection;
    this.#namespace = namespace;
    this.#from = from;
    this.#response = response;
    if (bookmarkEveryMs !== undefined) {
      this.#bookmarks = setInterval(() => this.send(bookmarkLine(version())), bookmarkEveryMs);
    }
  }

  /** Sends any text, unless the watch is stalled or has ended. */
  send(text: string | Buffer): void {
    if (!this.#stalled && !this.#response.writableEnded) this.#response.write(text);
  }

  /** Sends an event if it matches this watch. */
  offer({ type, collection, object, version }: StoredEvent): void {
    if (collection !== this.#collection || version <= this.#from) return;
    if (this.#namespace !== undefined && object.metadata.namespace !== this.#namespace) return;
    this.send(eventLine(type, object));
  }

  /** Sends nothing more, but stays open: like a half-open connection. */
  stall(): void {
    this.#stalled = true;
  }

  /** Ends normally, as after timeoutSeconds. */
  end(): void {
    this.#response.end();
  }

  /** Ends normally, but in the middle of a line. */
  endInHalfALine(): void {
    this.send('{"type":"MODIFIED","object":{"metadata":{"na');
    this.end();
  }

  /** Breaks the connection. */
  drop(): void {
    this.#response.destroy();
  }

  /** Ends with an event of type ERROR. */
  fail(code: number, reason: string, message: string): void {
    this.send(errorLine(code, reason, message));
    this.end();
  }

  forget(): void {
    clearInterval(this.#bookmarks);
  }
}

export interface NewMeta {
  readonly namespace?: string;
  readonly name: string;
  /** Generated when absent. */
  readonly uid?: string;
}

interface StoredEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly collection: string;
  readonly object: KubeObject;
  readonly version: number;
}

const noTls = {};

/** One line of a watch. */
export function eventLine(type: StoredEvent['type'], object: object): string {
  return `${JSON.stringify({ type, object })}\n`;
}

function bookmarkLine(resourceVersion: string): string {
  return `${JSON.stringify({ type: 'BOOKMARK', object: { kind: 'Thing', metadata: { resourceVersion } } })}\n`;
}

function errorLine(code: number, reason: string, message: string): string {
  return `${JSON.stringify({ type: 'ERROR', object: statusObject(code, reason, message) })}\n`;
}

function statusObject(code: number, reason: string, message: string, details: object = {}): object {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    status: code < 300 ? 'Success' : 'Failure',
    message,
    reason,
    details,
    code,
  };
}

function refused(status: number, reason: string, message: string): { status: number; body: unknown } {
  return { status, body: statusObject(status, reason, message) };
}

/** `/apis/g/v/namespaces/ns/things/name` is object `name` of collection `/apis/g/v/things` in `ns`. */
function parsePath(path: string): { collection: string; namespace?: string; name?: string } {
  const parts = path.split('/').slice(1).map(decodeURIComponent);
  const root = parts.splice(0, parts[0] === 'api' ? 2 : 3).join('/');
  const namespace = parts[0] === 'namespaces' && parts.length > 2 ? parts.splice(0, 2)[1] : undefined;
  const [plural, name] = parts;
  return {
    collection: `/${root}/${plural}`,
    ...(namespace !== undefined && { namespace }),
    ...(name !== undefined && { name }),
  };
}

function keyOf(collection: string, namespace: string | undefined, name: string): string {
  return `${collection} ${namespace ?? ''}/${name}`;
}

/** RFC 7386. */
function merge(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const merged: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else merged[name] = merge(merged[name], value);
  }
  return merged;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

async function textOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
