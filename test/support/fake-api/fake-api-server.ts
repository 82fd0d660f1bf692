import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { KubeObject } from '../../../api/core/meta.ts';
import type { Credentials } from '../../../kube/credentials.ts';
import { FakeWatch } from './fake-watch.ts';
import { answerTo, parsePath, type SeenRequest, selectionOf } from './http-requests.ts';
import { Refused, statusObject } from './refusals.ts';
import { type NewObject, ObjectStore } from './store.ts';
import type { Stored } from './stored.ts';

/** What goes wrong with one request. */
export type Fault =
  /** The connection is dropped instead of an answer. */
  | { readonly kind: 'drop' }
  /** The request is taken, and never answered. */
  | { readonly kind: 'stall' }
  /** The answer breaks off after its first half. */
  | { readonly kind: 'half' }
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    };

/** The refusal that a real API server would give, for a Fault of kind `answer`. */
export function refusal(status: number, reason: string, message: string, details: object = {}): Fault {
  return { kind: 'answer', status, body: statusObject(status, reason, message, details) };
}

/** A real HTTP server that plays an API server with a store of objects, and plays it as badly as it is told to. */
export class FakeApiServer {
  /** Every request since the start, oldest first. */
  readonly requests: SeenRequest[] = [];
  /** The watches that are open, oldest first. */
  readonly watches: FakeWatch[] = [];
  /** Asked for each request: what goes wrong with it. */
  fault: (request: SeenRequest) => Fault | undefined = () => undefined;
  /** How soon a watch that has nothing to say sends a bookmark; never when absent. */
  bookmarkEveryMs: number | undefined;

  readonly store = new ObjectStore();
  readonly #server: Server;
  readonly #sockets = new Map<Socket, number>();
  #connections = 0;

  /** Listens on a free port of this machine. */
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

  /** Lets everybody in who names any token. */
  get credentials(): Credentials {
    return {
      server: new URL(this.url),
      current: () => Promise.resolve({ headers: { authorization: 'Bearer fake' }, tls: noTls }),
      renew: () => undefined,
    };
  }

  /** The resourceVersion of the last write. */
  get version(): string {
    return this.store.version;
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
    return this.store.all(collection);
  }

  /** Creates or changes an object, as its owner would through the API, and returns it as stored. */
  put<T extends object>(collection: string, object: T & NewObject): T & KubeObject {
    return this.store.put(collection, { apiVersion: 'v1', kind: 'Thing', ...object });
  }

  /** Takes an object away. */
  remove(collection: string, namespace: string | undefined, name: string): void {
    this.store.remove({ collection, namespace, name });
  }

  /** Forgets all history: pages in progress and watches from before are answered with 410 from now on. */
  compact(): void {
    this.store.compact();
  }

  /** Goes back to an earlier count, as a restored backup does, with these objects alone. */
  restore(collection: string, objects: readonly KubeObject[], version: number): void {
    for (const watch of [...this.watches]) watch.drop();
    this.store.restore(collection, objects as readonly Stored[], version);
  }

  /** Tells every open watch that nothing has changed up to this version, the present one when absent. */
  bookmark(version: string = this.version): void {
    for (const watch of this.watches) watch.bookmark(version);
  }

  /** Ends everything at once. */
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
        const whole = JSON.stringify(answerTo(request, this.store).body);
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
    const { status, body } = answerTo(request, this.store);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }

  #open(request: SeenRequest, response: ServerResponse): void {
    const { collection, namespace } = parsePath(request.path);
    const watch = new FakeWatch(response);
    this.watches.push(watch);
    response.on('close', () => this.watches.splice(this.watches.indexOf(watch), 1));
    const resourceVersion = request.query.get('resourceVersion') ?? '';
    try {
      watch.follow(
        this.store,
        collection,
        { ...selectionOf(request, namespace), resourceVersion },
        this.bookmarkEveryMs,
      );
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      watch.fail(error.status, error.reason, error.message);
    }
  }
}

const noTls = {};

async function textOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
