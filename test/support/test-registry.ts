import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type LayerEntry, tarFile } from '../../deploy/local/images.ts';

/** How a registry behaves for one of its repositories. */
export interface RepositoryScript {
  /** The size of each layer. Absent: 64 KiB. */
  readonly bytes?: number;
  /** How many layers there are. Absent: one. */
  readonly layers?: number;
  /** Other files in the image, so that containers can run it. */
  readonly files?: readonly LayerEntry[];
  /** The only user who may pull. */
  readonly user?: { readonly name: string; readonly password: string };
  /** Answers this many requests for the manifest with this status first; absent `times`: all of them. */
  readonly answers?: { readonly status: number; readonly times?: number };
  /** Breaks the connection in the middle of a layer this many times. */
  readonly cuts?: number;
  /** The time that each layer takes. */
  readonly takesMs?: number;
  /** All layers are held back until this resolves. */
  readonly until?: Promise<void>;
}

/** A request to a repository. */
export interface RegistryCall {
  readonly repository: string;
  readonly what: 'manifest' | 'layer';
  /** The client's address. */
  readonly from: string;
  readonly beganAtMs: number;
  /** When the answer ended, and whether it was complete; absent while it lasts. */
  readonly end?: { readonly atMs: number; readonly whole: boolean };
}

type Mutable<Object> = { -readonly [Key in keyof Object]: Object[Key] };

interface Repository {
  readonly script: RepositoryScript;
  readonly blobs: ReadonlyMap<string, Buffer>;
  readonly layers: ReadonlySet<string>;
  readonly manifest: Buffer;
  left: number;
  cutsLeft: number;
}

/**
 * A registry that can be slow, deny access, be overloaded and break connections, as configured for each repository. It
 * serves one image in each, under any tag, and records requests and the number of concurrent layer downloads.
 */
export class TestRegistry {
  readonly #calls: Mutable<RegistryCall>[] = [];
  /** The maximum number of concurrent downloads of a layer; by client, layer and repository. */
  readonly mostAtOnce = new Map<string, number>();
  readonly #underWay = new Map<string, number>();
  readonly #repositories = new Map<string, Promise<Repository>>();
  readonly #server = createServer((request, response) => {
    void this.#answer(request, response).catch(() => response.destroy());
  });
  #port = 0;

  /** All requests, in order. */
  get calls(): readonly RegistryCall[] {
    return this.#calls;
  }

  get port(): number {
    return this.#port;
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '0.0.0.0', resolve));
    const address = this.#server.address();
    this.#port = typeof address === 'object' && address !== null ? address.port : 0;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Adds a repository with a new image. */
  serve(repository: string, script: RepositoryScript = {}): void {
    this.#repositories.set(repository, newRepository(script));
  }

  /** The digest of the image of a repository. */
  async digest(repository: string): Promise<string> {
    return digestOf((await this.#repositories.get(repository))?.manifest ?? Buffer.alloc(0));
  }

  /** The requests for something of a repository. */
  callsFor(repository: string, what: RegistryCall['what']): readonly RegistryCall[] {
    return this.#calls.filter((call) => call.repository === repository && call.what === what);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    if (path === '/v2/') return void response.end('{}');
    const [, repository = '', kind = '', reference = ''] = /^\/v2\/(.+)\/(manifests|blobs)\/(.+)$/.exec(path) ?? [];
    const found = await this.#repositories.get(repository);
    if (found === undefined) return refuse(response, 404, 'NAME_UNKNOWN');
    const { user, answers } = found.script;
    if (user !== undefined && !isFrom(request, user)) {
      response.setHeader('www-authenticate', 'Basic realm="test"');
      return refuse(response, 401, 'UNAUTHORIZED');
    }
    const from = request.socket.remoteAddress ?? '';
    if (kind === 'manifests') {
      this.#note({ repository, what: 'manifest', from, beganAtMs: Date.now() }, response);
      if (answers !== undefined && found.left > 0) {
        found.left -= 1;
        if (answers.status === 429) response.setHeader('retry-after', '1');
        return refuse(response, answers.status, answers.status === 404 ? 'MANIFEST_UNKNOWN' : 'UNAVAILABLE');
      }
      response.setHeader('content-type', 'application/vnd.oci.image.manifest.v1+json');
      response.setHeader('docker-content-digest', digestOf(found.manifest));
      return send(request, response, found.manifest);
    }
    const blob = found.blobs.get(reference);
    if (blob === undefined) return refuse(response, 404, 'BLOB_UNKNOWN');
    if (!found.layers.has(reference) || request.method === 'HEAD') return send(request, response, blob);
    this.#note({ repository, what: 'layer', from, beganAtMs: Date.now() }, response);
    await this.#sendLayer(found, `${repository} ${from} ${reference}`, response, blob);
  }

  #note(call: Mutable<RegistryCall>, response: ServerResponse): void {
    this.#calls.push(call);
    const over = (whole: boolean): void => {
      call.end ??= { atMs: Date.now(), whole };
    };
    response.once('finish', () => over(true));
    response.once('close', () => over(false));
  }

  async #sendLayer(found: Repository, key: string, response: ServerResponse, blob: Buffer): Promise<void> {
    const now = (this.#underWay.get(key) ?? 0) + 1;
    this.#underWay.set(key, now);
    this.mostAtOnce.set(key, Math.max(now, this.mostAtOnce.get(key) ?? 0));
    let isOver = false;
    const over = (): void => {
      if (!isOver) this.#underWay.set(key, (this.#underWay.get(key) ?? 1) - 1);
      isOver = true;
    };
    response.on('close', over);
    response.writeHead(200, { 'content-length': blob.length, 'content-type': 'application/octet-stream' });
    const half = Math.floor(blob.length / 2);
    response.write(blob.subarray(0, half));
    if (found.cutsLeft > 0) {
      found.cutsLeft -= 1;
      await pause(50);
      response.destroy();
      return;
    }
    await found.script.until;
    if (found.script.takesMs !== undefined) await pause(found.script.takesMs);
    response.end(blob.subarray(half), over);
  }
}

async function newRepository(script: RepositoryScript): Promise<Repository> {
  const { bytes = 65_536, layers = 1, files = [] } = script;
  const tars = await Promise.all(
    Array.from({ length: layers }, (_, index) => {
      const data: LayerEntry = { kind: 'file', path: `data-${index}`, content: randomBytes(bytes) };
      return tarFile(index === 0 ? [...files, data] : [data]);
    }),
  );
  const config = Buffer.from(
    JSON.stringify({
      architecture: 'amd64',
      os: 'linux',
      config: {},
      rootfs: { type: 'layers', diff_ids: tars.map(digestOf) },
    }),
  );
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: descriptor('application/vnd.oci.image.config.v1+json', config),
      layers: tars.map((tar) => descriptor('application/vnd.oci.image.layer.v1.tar', tar)),
    }),
  );
  const blobs = new Map([...tars, config].map((blob) => [digestOf(blob), blob]));
  const left = script.answers === undefined ? 0 : (script.answers.times ?? Number.POSITIVE_INFINITY);
  return { script, blobs, layers: new Set(tars.map(digestOf)), manifest, left, cutsLeft: script.cuts ?? 0 };
}

function isFrom(request: IncomingMessage, { name, password }: { name: string; password: string }): boolean {
  const [scheme, text = ''] = (request.headers.authorization ?? '').split(' ');
  return scheme === 'Basic' && Buffer.from(text, 'base64').toString() === `${name}:${password}`;
}

function send(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  response.setHeader('content-length', body.length);
  response.end(request.method === 'HEAD' ? undefined : body);
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ errors: [{ code, message: code.toLowerCase().replaceAll('_', ' ') }] }));
}

function descriptor(mediaType: string, blob: Buffer): { mediaType: string; digest: string; size: number } {
  return { mediaType, digest: digestOf(blob), size: blob.length };
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
