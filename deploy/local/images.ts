// Container images without a container engine: a layer is a tar file made here, pushed by the registry's HTTP API.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { Agent, request } from 'undici';

/** One entry of a layer. Paths are relative and have their parents made. */
export type LayerEntry =
  | { readonly kind: 'folder'; readonly path: string; readonly mode?: number }
  | { readonly kind: 'file'; readonly path: string; readonly content: Buffer; readonly mode?: number }
  | { readonly kind: 'link'; readonly path: string; readonly target: string };

/** An image of one platform. */
export interface Image {
  /** Repository and tag: `library/busybox:1.36`. */
  readonly reference: string;
  readonly layers: readonly (readonly LayerEntry[])[];
  readonly config: {
    readonly Entrypoint?: readonly string[];
    readonly Cmd?: readonly string[];
    readonly Env?: readonly string[];
    readonly User?: string;
    readonly WorkingDir?: string;
    readonly Labels?: Readonly<Record<string, string>>;
  };
}

/** A whole file of this machine as an entry of a layer. */
export function fileEntry(path: string, source: string, mode = 0o755): LayerEntry {
  return { kind: 'file', path, content: readFileSync(source), mode };
}

/** Pushes images to a registry that asks for no credentials. The same contents give the same digest each time. */
export async function pushImages(registry: string, images: readonly Image[]): Promise<void> {
  const agent = new Agent();
  try {
    for (const image of images) await push(agent, registry, image);
  } finally {
    await agent.close();
  }
}

async function push(agent: Agent, registry: string, image: Image): Promise<string> {
  const [repository = '', tag = ''] = image.reference.split(':');
  const base = `${registry}/v2/${repository}`;
  const layers = image.layers.map((entries) => {
    const tar = tarFile(entries);
    const blob = gzipSync(tar, { level: 6 });
    return { blob, diffId: digestOf(tar) };
  });
  const config = Buffer.from(
    JSON.stringify({
      created: '1970-01-01T00:00:00Z',
      architecture: process.arch === 'x64' ? 'amd64' : process.arch,
      os: 'linux',
      config: image.config,
      rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
      history: layers.map(() => ({ created: '1970-01-01T00:00:00Z', created_by: 'windlass' })),
    }),
  );
  const blobs = [...layers.map(({ blob }) => blob), config];
  for (const blob of blobs) await uploadBlob(agent, base, blob);
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: descriptor('application/vnd.oci.image.config.v1+json', config),
    layers: layers.map(({ blob }) => descriptor('application/vnd.oci.image.layer.v1.tar+gzip', blob)),
  });
  await call(agent, 'PUT', `${base}/manifests/${tag}`, Buffer.from(manifest), {
    'content-type': 'application/vnd.oci.image.manifest.v1+json',
  });
  return digestOf(Buffer.from(manifest));
}

async function uploadBlob(agent: Agent, base: string, blob: Buffer): Promise<void> {
  const digest = digestOf(blob);
  const known = await request(`${base}/blobs/${digest}`, { method: 'HEAD', dispatcher: agent });
  await known.body.dump();
  if (known.statusCode === 200) return;
  const started = await call(agent, 'POST', `${base}/blobs/uploads/`);
  const location = new URL(String(started.location), base);
  location.searchParams.set('digest', digest);
  await call(agent, 'PUT', location.href, blob, { 'content-type': 'application/octet-stream' });
}

async function call(
  agent: Agent,
  method: 'POST' | 'PUT',
  url: string,
  body?: Buffer,
  headers: Record<string, string> = {},
): Promise<Record<string, string | string[] | undefined>> {
  const answer = await request(url, { method, dispatcher: agent, headers, body: body ?? null });
  const text = await answer.body.text();
  if (answer.statusCode >= 300) throw new Error(`Cannot push to ${url}: ${answer.statusCode} ${text.slice(0, 300)}`);
  return answer.headers;
}

function descriptor(mediaType: string, blob: Buffer): { mediaType: string; digest: string; size: number } {
  return { mediaType, digest: digestOf(blob), size: blob.length };
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

/** A tar archive (ustar) with parents before children, all owned by root at time zero. */
export function tarFile(entries: readonly LayerEntry[]): Buffer {
  const blocks: Buffer[] = [];
  const folders = new Set<string>();
  const addFolder = (path: string, mode: number): void => {
    const [parent] = splitPath(path);
    if (parent !== '' && !folders.has(parent)) addFolder(parent, 0o755);
    if (folders.has(path)) return;
    folders.add(path);
    blocks.push(header({ path: `${path}/`, type: '5', mode, size: 0 }));
  };
  for (const entry of entries) {
    const [parent] = splitPath(entry.path);
    if (parent !== '') addFolder(parent, 0o755);
    switch (entry.kind) {
      case 'folder':
        addFolder(entry.path, entry.mode ?? 0o755);
        break;
      case 'link':
        blocks.push(header({ path: entry.path, type: '2', mode: 0o777, size: 0, target: entry.target }));
        break;
      case 'file':
        blocks.push(header({ path: entry.path, type: '0', mode: entry.mode ?? 0o644, size: entry.content.length }));
        blocks.push(entry.content, Buffer.alloc((512 - (entry.content.length % 512)) % 512));
        break;
    }
  }
  blocks.push(Buffer.alloc(1024));
  return Buffer.concat(blocks);
}

function splitPath(path: string): [parent: string, name: string] {
  const at = path.lastIndexOf('/');
  return at < 0 ? ['', path] : [path.slice(0, at), path.slice(at + 1)];
}

function header(entry: { path: string; type: string; mode: number; size: number; target?: string }): Buffer {
  const block = Buffer.alloc(512);
  const [prefix, name] = shorten(entry.path);
  if (Buffer.byteLength(entry.target ?? '') > 100) throw new Error(`Link target is too long for tar: ${entry.target}`);
  block.write(name, 0, 100);
  block.write(`${entry.mode.toString(8).padStart(7, '0')}\0`, 100);
  block.write('0000000\0', 108); // owner
  block.write('0000000\0', 116); // group
  block.write(`${entry.size.toString(8).padStart(11, '0')}\0`, 124);
  block.write('00000000000\0', 136); // time
  block.write('        ', 148); // the sum counts itself as spaces
  block.write(entry.type, 156);
  block.write(entry.target ?? '', 157, 100);
  block.write('ustar\x0000', 257);
  block.write(prefix, 345, 155);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

/** ustar has room for 100 bytes of name and 155 of the folders before it. */
function shorten(path: string): [prefix: string, name: string] {
  if (Buffer.byteLength(path) <= 100) return ['', path];
  const body = path.endsWith('/') ? path.slice(0, -1) : path;
  for (let at = body.indexOf('/'); at >= 0; at = body.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (Buffer.byteLength(prefix) <= 155 && Buffer.byteLength(name) <= 100) return [prefix, name];
  }
  throw new Error(`Path is too long for tar: ${path}`);
}
