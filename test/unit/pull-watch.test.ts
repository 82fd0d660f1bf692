import { describe, expect, it } from '@jest/globals';
import { type ContentStore, fromPlace, layerDigest, PullWatches } from '../../daemon/cri/pull-watch.ts';

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;

/** A content store with pulls. */
function store() {
  const blobs = new Map<string, { readonly size: number; readonly text: string; readonly repository: string }>();
  const underWay = new Map<string, number>();
  const reads: string[] = [];
  const content: ContentStore = {
    blobsOf: async ({ host, path }) =>
      [...blobs].flatMap(([name, blob]) =>
        blob.repository === `${host}/${path}` ? [{ digest: name, size: blob.size }] : [],
      ),
    underWay: async () => new Map(underWay),
    async read(name) {
      reads.push(name);
      return blobs.get(name)?.text ?? '';
    },
  };
  const put = (name: string, text: string, size = text.length, repository = 'r.io/app') =>
    void blobs.set(name, { text, size, repository });
  return {
    watches: new PullWatches(content),
    underWay,
    reads,
    put,
    manifest: (name: string, layers: Readonly<Record<string, number>>, repository = 'r.io/app') =>
      put(
        name,
        JSON.stringify({ layers: Object.entries(layers).map(([layer, size]) => ({ digest: layer, size })) }),
        undefined,
        repository,
      ),
  };
}

const [m, n, a, b, c] = ['1', '2', 'a', 'b', 'c'].map(digest) as [string, string, string, string, string];

describe('NP-5: how much of an image has been fetched', () => {
  it('is what is there and what is being written, of all layers of its manifest', async () => {
    const { watches, underWay, put, manifest } = store();
    const watch = watches.watch('r.io/app:1');
    expect(await watch.look()).toBeUndefined();
    manifest(m, { [a]: 100, [b]: 900 });
    put(digest('f'), '{"architecture":"amd64"}');
    put(digest('e'), 'no json');
    underWay.set(a, 30);
    expect(await watch.look()).toEqual({ fetched: 30, total: 1_000 });
    underWay.set(b, 500);
    underWay.delete(a);
    put(a, 'bytes', 100);
    expect(await watch.look()).toEqual({ fetched: 600, total: 1_000 });
    underWay.delete(b);
    put(b, 'bytes', 900);
    expect(await watch.look()).toEqual({ fetched: 1_000, total: 1_000 });
  });

  it('counts what other images have brought, and a layer that comes twice once', async () => {
    const { watches, underWay, put, manifest } = store();
    put(a, 'bytes', 100);
    put(m, JSON.stringify({ layers: [a, b, b].map((layer) => ({ digest: layer, size: 100 })) }));
    underWay.set(b, 50);
    expect(await watches.watch('r.io/app:1').look()).toEqual({ fetched: 150, total: 200 });
    manifest(n, { [c]: 7 }, 'r.io/db');
  });

  it('is not told while other repositories are written, and not by their manifests', async () => {
    const { watches, underWay, manifest } = store();
    manifest(n, { [c]: 7 }, 'r.io/db');
    underWay.set(c, 3);
    expect(await watches.watch('r.io/app:1').look()).toBeUndefined();
    expect(await watches.watch('r.io/db:1').look()).toEqual({ fetched: 3, total: 7 });
  });

  it('is told of a registry with a port, which containerd does not note down', async () => {
    const { watches, underWay, manifest } = store();
    manifest(m, { [a]: 100 });
    underWay.set(a, 30);
    const watch = watches.watch('r.io:5000/app:1');
    expect(await watch.look()).toEqual({ fetched: 30, total: 100 });
    const other = watches.watch('r.io:6000/app:1');
    expect(await other.look()).toBeUndefined();
  });

  it('is not told where two manifests of the repository may be meant', async () => {
    const { watches, underWay, manifest } = store();
    manifest(m, { [a]: 100, [b]: 900 });
    manifest(n, { [a]: 100, [c]: 900 });
    underWay.set(a, 30);
    const watch = watches.watch('r.io/app:1');
    expect(await watch.look()).toBeUndefined();
    underWay.delete(a);
    underWay.set(c, 5);
    expect(await watch.look()).toMatchObject({ total: 1_000 });
  });

  it('is not told while two pulls of the repository begin, and stays with the one of which it was known', async () => {
    const { watches, underWay, manifest } = store();
    manifest(m, { [a]: 100 });
    underWay.set(a, 30);
    const first = watches.watch('r.io/app:1');
    expect(await first.look()).toEqual({ fetched: 30, total: 100 });
    const second = watches.watch('r.io/app:2');
    expect(await second.look()).toBeUndefined();
    expect(await first.look()).toEqual({ fetched: 30, total: 100 });
    first.end();
    expect(await second.look()).toEqual({ fetched: 30, total: 100 });
  });

  it('reads each small blob once, and large ones never', async () => {
    const { watches, reads, underWay, put } = store();
    for (let at = 0; at < 120; at += 1) put(`sha256:${at}`, '{}');
    put(b, '{}', 10_000_000);
    underWay.set(a, 1);
    const watch = watches.watch('r.io/app:1');
    for (let look = 0; look < 5; look += 1) await watch.look();
    expect(reads).toHaveLength(120);
    expect(new Set(reads).size).toBe(120);
  });

  it("reads containerd's names", () => {
    expect(layerDigest(`layer-${a}`)).toBe(a);
    expect(layerDigest(`config-${a}`)).toBeUndefined();
    expect(fromPlace({ host: 'docker.io', path: 'library/my.app' })).toBe(
      'labels."containerd.io/distribution.source.docker.io"~="(^|,)library/my\\\\.app(,|$)"',
    );
  });
});
