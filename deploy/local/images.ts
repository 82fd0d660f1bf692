// Container images without a container engine: a layer is a tar file created here, pushed with the registry's HTTP API.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path/posix';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { type Header, pack } from 'tar-stream';
import { Agent, request } from 'undici';

/** One entry of a layer. Paths are relative; parent folders are created. */
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

/** A file of this machine as an entry of a layer. */
export function fileEntry(path: string, source: string, mode = 0o755): LayerEntry {
  return { kind: 'file', path, content: readFileSync(source), mode };
}

/** Pushes images to a registry without authentication. Equal contents always have the same digest. */
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
  const tars = await Promise.all(image.layers.map(tarFile));
  const layers = tars.map((tar) => ({ blob: gzipSync(tar, { level: 6 }), diffId: digestOf(tar) }));
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

/** A tar archive with parents before children, all owned by root at time zero. */
export async function tarFile(entries: readonly LayerEntry[]): Promise<Buffer> {
  const archive = pack();
  const add = (name: string, header: Partial<Header>, content?: Buffer): void => {
    archive.entry({ name, mtime: new Date(0), ...header }, content ?? '');
  };
  const folders = new Set(['.']);
  const addFolder = (path: string, mode = 0o755): void => {
    if (folders.has(path)) return;
    addFolder(dirname(path));
    folders.add(path);
    add(`${path}/`, { type: 'directory', mode });
  };
  for (const entry of entries) {
    addFolder(dirname(entry.path));
    switch (entry.kind) {
      case 'folder':
        addFolder(entry.path, entry.mode);
        break;
      case 'link':
        add(entry.path, { type: 'symlink', mode: 0o777, linkname: entry.target });
        break;
      case 'file':
        add(entry.path, { type: 'file', mode: entry.mode ?? 0o644 }, entry.content);
        break;
    }
  }
  archive.finalize();
  return await buffer(archive);
}
