import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { mergePatch } from '../../api/base/json.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { applyPatch } from '../../cli/apply.ts';
import { connectCluster } from '../../cli/cluster.ts';
import { parseManifest, readManifests } from '../../cli/manifests.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kruise-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const object = (name: string) => `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}}\n`;

describe('parseManifest', () => {
  const first = (text: string) => parseManifest(`apiVersion: v1\nkind: X\n${text}`, 'x.yaml')[0]?.object;

  it('reads YAML as kubectl does: octal numbers, yes and no, but no dates and no clock times', () => {
    expect(first('mode: 0644\nyes: no\nat: 2026-11-21\nport: 1:30\nbig: 1_000')).toMatchObject({
      mode: 420,
      at: '2026-11-21',
      port: '1:30',
      big: 1000,
    });
  });

  it('takes JSON, several documents, empty ones, and lists apart', () => {
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [{ apiVersion: 'v1', kind: 'A' }] });
    const kinds = parseManifest(`${object('a')}---\n---\n${list}\n---\n${object('b')}`, 'x').map(
      (found) => found.object.kind,
    );
    expect(kinds).toEqual(['Pod', 'A', 'Pod']);
  });

  it('names the source of what it cannot read', () => {
    expect(() => parseManifest('a: [', 'x.yaml')).toThrow('Cannot read "x.yaml": ');
    expect(() => parseManifest('a: b', 'x.yaml')).toThrow('Cannot read "x.yaml": a document is not an object');
  });
});

describe('readManifests', () => {
  it('reads folders in order, with the folders in them only when told so, and standard input', async () => {
    mkdirSync(join(folder, 'm/inner'), { recursive: true });
    for (const name of ['m/b.yaml', 'm/a.yml', 'm/note.txt', 'm/inner/c.json']) {
      const text = name.endsWith('json')
        ? '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}'
        : object(name.slice(2, 3));
      writeFileSync(join(folder, name), text);
    }
    const names = async (recursive: boolean) => {
      const found = await readManifests({
        files: [join(folder, 'm'), '-'],
        recursive,
        readStdin: async () => object('typed'),
      });
      return found.map(({ object: { metadata } }) => (metadata as JsonObject).name);
    };
    expect(await names(false)).toEqual(['a', 'b', 'typed']);
    expect(await names(true)).toEqual(['a', 'b', 'c', 'typed']);
  });
});

describe('applyPatch', () => {
  const annotated = (last: JsonObject, spec: JsonObject): JsonObject => ({
    metadata: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(last) } },
    spec,
  });

  it('sets what is new or differs, replaces lists, and takes away what was applied and is no longer', () => {
    const live = annotated(
      { spec: { a: 1, b: { c: 1, d: 1 }, list: [1] } },
      { a: 1, b: { c: 1, d: 1, own: 1 }, list: [1] },
    );
    const patch = applyPatch(live, { spec: { b: { c: 2 }, list: [1, 2] } });
    expect(patch).toEqual({ spec: { a: null, b: { c: 2, d: null }, list: [1, 2] } });
    expect(mergePatch(live, patch).spec).toEqual({ b: { c: 2, own: 1 }, list: [1, 2] });
  });

  it('takes nothing away from an object that was never applied', () => {
    expect(applyPatch({ spec: { a: 1, b: 1 } }, { spec: { a: 1 } })).toEqual({});
    const odd = {
      metadata: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{' } },
      spec: { a: 1 },
    };
    expect(applyPatch(odd, { spec: {} })).toEqual({});
  });
});

describe('connectCluster', () => {
  const config = {
    'current-context': 'one',
    contexts: [
      { name: 'one', context: { cluster: 'c1', user: 'u1', namespace: 'shop' } },
      { name: 'two', context: { cluster: 'c2', user: 'u1' } },
    ],
    clusters: [
      { name: 'c1', cluster: { server: 'http://127.0.0.1:1' } },
      { name: 'c2', cluster: { server: 'http://127.0.0.1:2' } },
    ],
    users: [{ name: 'u1', user: { token: 'secret' } }],
  };
  const file = () => {
    const path = join(folder, 'config');
    writeFileSync(path, JSON.stringify(config));
    return path;
  };

  it('takes the namespace of the context unless one is given', () => {
    const kubeconfig = file();
    expect(connectCluster({ kubeconfig }, {}).namespace).toBe('shop');
    expect(connectCluster({ kubeconfig, context: 'two' }, {}).namespace).toBe('default');
    expect(connectCluster({ kubeconfig, namespace: 'x' }, {}).namespace).toBe('x');
  });

  it('leaves out files of KUBECONFIG that are not there', () => {
    expect(connectCluster({}, { KUBECONFIG: `/does/not/exist:${file()}` }).namespace).toBe('shop');
  });

  it('names the files of KUBECONFIG where none is there, and reads no other one instead', () => {
    const connect = (flags = {}) => connectCluster(flags, { KUBECONFIG: '/does/not/exist:/nor/this' });
    expect(() => connect()).toThrow(
      'Cannot find the API server: KUBECONFIG names no file that exists: /does/not/exist:/nor/this',
    );
    expect(() => connect({ kubeconfig: '/does/not/exist' })).toThrow('"/does/not/exist"');
    expect(connect({ server: 'http://127.0.0.1:1' }).namespace).toBe('default');
    expect(connect({ kubeconfig: file() }).namespace).toBe('shop');
  });

  it('acts as a member of several groups, without a time limit of 0s', async () => {
    const heard: string[][] = [];
    const server = createServer((request, response) => {
      heard.push(request.rawHeaders);
      response.setHeader('content-type', 'application/json').end('{"kind":"Pod","apiVersion":"v1","metadata":{}}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const { kube } = connectCluster(
      {
        kubeconfig: file(),
        server: `http://127.0.0.1:${port}`,
        as: 'eve',
        asGroup: ['ops', 'dev'],
        requestTimeout: '0s',
      },
      {},
    );
    try {
      await kube.get(kubeResource.pods, { namespace: 'shop', name: 'web' });
    } finally {
      await kube.close();
      await new Promise((resolve) => server.close(resolve));
    }
    const [raw = []] = heard;
    const groups = raw.filter((_, index) => index % 2 === 1 && raw[index - 1]?.toLowerCase() === 'impersonate-group');
    expect(groups).toEqual(['ops', 'dev']);
  });

  it.each(['30', '30s', '1m30s', '1.5h', '250ms', '0', '0s'])('takes --request-timeout=%s', async (requestTimeout) => {
    await connectCluster({ kubeconfig: file(), requestTimeout }, {}).kube.close();
  });

  it.each([
    [{ requestTimeout: '1m 30' }, '--request-timeout="1m 30"'],
    [{ requestTimeout: '-1s' }, '--request-timeout="-1s"'],
    [{ context: 'three' }, 'it has no context "three"'],
    [{ cluster: 'c3' }, 'it has no cluster "c3"'],
    [{ user: 'u3' }, 'it has no user "u3"'],
    [{ requestTimeout: 'soon' }, '--request-timeout="soon"'],
    [{ asGroup: ['admins'] }, '--as-group and --as-uid require --as'],
  ])('refuses %j', (flags, message) => {
    expect(() => connectCluster({ kubeconfig: file(), ...flags }, {})).toThrow(message);
  });
});
