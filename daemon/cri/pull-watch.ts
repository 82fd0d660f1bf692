/**
 * How many bytes of an image a pull has fetched. CRI does not report it. containerd's content store does, but knows
 * only blobs and repositories, not pulls. Bytes are therefore reported only when they can be attributed with certainty:
 * one pull of the repository is in progress, and exactly one of its manifests has layers that are being written.
 */
import type { PullBytes, PullWatch } from '../../activities/cri/image-runtime.ts';
import { repositoryOf } from '../../activities/cri/registry-credentials.ts';
import { isJsonObject, listOr, objectOr } from '../../api/base/json.ts';

/** The source of blobs as containerd records it: a repository without the port of its registry. */
export interface Place {
  readonly host: string;
  readonly path: string;
}

/** The content of a runtime's store, and what is being written to it. */
export interface ContentStore {
  /** The complete blobs from this source. */
  blobsOf(place: Place): Promise<readonly Blob[]>;
  /** The blobs that are being written: bytes so far, by digest. */
  underWay(): Promise<ReadonlyMap<string, number>>;
  /** A blob as text. */
  read(digest: string): Promise<string>;
}

/** A complete blob. */
export interface Blob {
  readonly digest: string;
  readonly size: number;
}

/** No real manifest is larger than this. */
const mostManifestBytes = 512 * 1024;

/** The most blobs that are read per check; the next check continues. */
const mostReads = 50;

/** The layers of an image, each once. */
type Manifest = readonly Blob[];

/** Watches the pulls of one runtime. */
export class PullWatches {
  readonly #store: ContentStore;
  /** How many pulls from a source are watched. */
  readonly #counts = new Map<string, number>();

  constructor(store: ContentStore) {
    this.#store = store;
  }

  /** Starts watching the pull of this reference, which begins now. */
  watch(reference: string): PullWatch {
    const place = placeOf(reference);
    const key = `${place.host}/${place.path}`;
    const seen = new Set<string>();
    let candidates: Manifest[] = [];
    let manifest: Manifest | undefined;
    this.#count(key, 1);

    const find = async (blobs: readonly Blob[], underWay: ReadonlyMap<string, number>) => {
      const unread = blobs.filter(({ digest, size }) => size <= mostManifestBytes && !seen.has(digest));
      for (const { digest } of unread.slice(0, mostReads)) {
        const layers = layersIn(await this.#store.read(digest));
        seen.add(digest);
        if (layers) candidates.push(layers);
      }
      const alive = candidates.filter((layers) => layers.some(({ digest }) => underWay.has(digest)));
      // an unread blob might be another manifest of the image
      const isSure = unread.length <= mostReads && alive.length === 1 && this.#counts.get(key) === 1;
      return isSure ? alive[0] : undefined;
    };

    return {
      look: async () => {
        const underWay = await this.#store.underWay();
        if (manifest === undefined && underWay.size === 0) return undefined;
        const blobs = await this.#store.blobsOf(place);
        manifest ??= await find(blobs, underWay);
        if (manifest === undefined) return undefined;
        candidates = [];
        return bytesOf(manifest, new Set(blobs.map(({ digest }) => digest)), underWay);
      },
      end: () => this.#count(key, -1),
    };
  }

  #count(place: string, more: number): void {
    const count = (this.#counts.get(place) ?? 0) + more;
    if (count === 0) this.#counts.delete(place);
    else this.#counts.set(place, count);
  }
}

function placeOf(reference: string): Place {
  const repository = repositoryOf(reference) ?? '';
  const slash = repository.indexOf('/');
  return { host: repository.slice(0, slash).replace(/:\d+$/, ''), path: repository.slice(slash + 1) };
}

function bytesOf(manifest: Manifest, there: ReadonlySet<string>, underWay: ReadonlyMap<string, number>): PullBytes {
  const fetched = manifest.map(({ digest, size }) =>
    there.has(digest) ? size : Math.min(underWay.get(digest) ?? 0, size),
  );
  const sum = (sizes: readonly number[]) => sizes.reduce((left, right) => left + right, 0);
  return { fetched: sum(fetched), total: sum(manifest.map(({ size }) => size)) };
}

/** Undefined for a blob that is not an image manifest. */
function layersIn(text: string): Manifest | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(value) || listOr(value.layers).length === 0) return undefined;
  const layers = new Map<string, Blob>();
  for (const layer of listOr(value.layers)) {
    const { digest, size } = objectOr(layer);
    if (typeof digest === 'string' && typeof size === 'number') layers.set(digest, { digest, size });
  }
  return [...layers.values()];
}

/** containerd's name for the writing of a layer: `layer-sha256:…`. */
export function layerDigest(ref: string): string | undefined {
  return /^layer-(\w+:[0-9a-f]+)$/.exec(ref)?.[1];
}

/** containerd's filter for the blobs from a source: a label that lists the repositories of each blob. */
export function fromPlace({ host, path }: Place): string {
  const pattern = `(^|,)${path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}(,|$)`;
  return `labels.${JSON.stringify(`containerd.io/distribution.source.${host}`)}~=${JSON.stringify(pattern)}`;
}
