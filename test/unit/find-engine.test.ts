import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { kubeResource } from '../../api/core/well-known.ts';
import type { TemporalPlace } from '../../api/engine/temporal-place.ts';
import { type EngineSources, findEngine, serviceOf } from '../../cli/find-engine.ts';
import { forwardPort } from '../../cli/port-forward.ts';
import { parseConfig } from '../../process/config.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';

const record = { namespace: 'kruise-system', name: 'windlass-installation' };

function sources(data: object | undefined, more: Partial<EngineSources> = {}) {
  const cluster = new MemoryCluster();
  if (data) cluster.put(kubeResource.configMaps, { metadata: record, data } as never);
  cluster.put(kubeResource.services, { metadata: { namespace: 'infra', name: 'temporal' } });
  const connected: TemporalPlace[] = [];
  const forwarded: string[] = [];
  const all: EngineSources = {
    flags: {},
    env: {},
    cluster: { kube: cluster.client(), namespace: 'default' },
    forward: async ({ namespace, name }, port) => {
      forwarded.push(`${namespace}/${name}:${port}`);
      return { port: 40_001, close: () => void forwarded.push('closed') };
    },
    parse: (args, env) => parseConfig('worker', args, env).temporal,
    connect: async (config) => {
      connected.push(config);
      return { connection: { close: async () => undefined } } as unknown as Client;
    },
    ...more,
  };
  return { all, connected, forwarded };
}

const published = { 'temporal-address': '10.0.0.1:7233', 'temporal-namespace': 'shop', 'temporal-tls': 'false' };

describe('findEngine', () => {
  it('asks the cluster where Temporal is', async () => {
    const { all, connected } = sources(published);
    expect((await findEngine(all)).engine?.flags).toBe('--address 10.0.0.1:7233 --namespace shop');
    expect(connected).toEqual([{ address: '10.0.0.1:7233', namespace: 'shop' }]);
  });

  it('takes name and authority of the certificate from there', async () => {
    const ca = '-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n';
    const tls = { 'temporal-tls': 'true', 'temporal-tls-server-name': 'temporal.shop', 'temporal-tls-ca.pem': ca };
    const { all, connected } = sources({ ...published, ...tls });
    await findEngine(all);
    expect(connected).toEqual([
      { address: '10.0.0.1:7233', namespace: 'shop', tls: { serverName: 'temporal.shop', ca } },
    ]);
  });

  it('lets flags win, then the environment, one by one', async () => {
    const { all, connected } = sources(published, {
      flags: { 'temporal-namespace': 'mine' },
      env: { WINDLASS_TEMPORAL_NAMESPACE: 'not mine', WINDLASS_TEMPORAL_TLS: '' },
    });
    await findEngine(all);
    const byFlag = await findEngine({ ...all, flags: { 'temporal-address': 'a:1' } });
    const byEnvironment = await findEngine({ ...all, flags: {}, env: { WINDLASS_TEMPORAL_ADDRESS: 'b:1' } });
    expect(connected).toEqual([
      { address: '10.0.0.1:7233', namespace: 'mine' },
      { address: 'a:1', namespace: 'not mine' },
      { address: 'b:1', namespace: 'default' },
    ]);
    expect(byFlag.engine).toMatchObject({ address: 'a:1', isGiven: true });
    expect(byEnvironment.engine).toMatchObject({ address: 'b:1', isGiven: true });
  });

  it('says what to do where the cluster says nothing', async () => {
    const none = await findEngine(sources(undefined).all);
    expect(none).toEqual({
      missing: expect.stringMatching(
        /^Cannot read ConfigMap "kruise-system\/windlass-installation", which has the address of Temporal: .*; set the address of Temporal by --temporal-address or WINDLASS_TEMPORAL_ADDRESS$/,
      ),
    });
    const empty = await findEngine(sources({}).all);
    expect(empty).toEqual({
      missing: 'set the address of Temporal by --temporal-address or WINDLASS_TEMPORAL_ADDRESS',
    });
  });

  it('reaches a Service of the cluster by a forwarded port, and gives it back', async () => {
    const address = { ...published, 'temporal-address': 'frontend.temporal.svc:7233', 'temporal-tls': 'true' };
    const { all, connected, forwarded } = sources(address);
    const { engine } = await findEngine(all);
    expect(connected).toEqual([
      { address: '127.0.0.1:40001', namespace: 'shop', tls: { serverName: 'frontend.temporal.svc' } },
    ]);
    expect(engine).toMatchObject({
      address: 'frontend.temporal.svc:7233',
      flags: '--address 127.0.0.1:7233 --namespace shop',
      first: { command: 'kubectl -n temporal port-forward service/frontend 7233' },
    });
    await engine?.close();
    expect(forwarded).toEqual(['temporal/frontend:7233', 'closed']);
  });

  it('takes a name with one dot for a Service only where there is such a Service', async () => {
    const inside = sources({ ...published, 'temporal-address': 'temporal.infra:7233' });
    await findEngine(inside.all);
    expect(inside.forwarded).toEqual(['infra/temporal:7233']);
    const outside = sources({ ...published, 'temporal-address': 'temporal.example:7233' });
    await findEngine(outside.all);
    expect(outside).toMatchObject({ forwarded: [], connected: [{ address: 'temporal.example:7233' }] });
  });

  it('goes to a Service itself within the cluster', async () => {
    const address = { ...published, 'temporal-address': 'frontend.temporal.svc:7233' };
    const { all, connected, forwarded } = sources(address, { env: { KUBERNETES_SERVICE_HOST: '10.96.0.1' } });
    await findEngine(all);
    expect({ connected, forwarded }).toMatchObject({
      forwarded: [],
      connected: [{ address: 'frontend.temporal.svc:7233' }],
    });
  });

  it('says why no port can be forwarded', async () => {
    const { all } = sources(
      { ...published, 'temporal-address': 'frontend.temporal.svc:7233' },
      { forward: () => Promise.reject(new Error('pods is forbidden')) },
    );
    expect(await findEngine(all)).toEqual({
      missing: expect.stringContaining(
        'Temporal is Service "temporal/frontend", and no port can be forwarded to it: pods is forbidden; set the address',
      ),
    });
  });
});

describe('serviceOf', () => {
  it.each([
    ['temporal', { namespace: 'kruise-system', name: 'temporal', isSure: false }],
    ['temporal.infra', { namespace: 'infra', name: 'temporal', isSure: false }],
    ['temporal.infra.svc', { namespace: 'infra', name: 'temporal', isSure: true }],
    ['temporal.infra.svc.cluster.local', { namespace: 'infra', name: 'temporal', isSure: true }],
    ['temporal.infra.example.com', undefined],
    ['localhost', undefined],
    ['10.0.0.1', undefined],
  ])('%s', (host, service) => {
    expect(serviceOf(host)).toEqual(service);
  });
});

describe('forwardPort', () => {
  let env: NodeJS.ProcessEnv = {};
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'forward-'));
    env = { PATH: `${folder}${delimiter}${process.env.PATH}` };
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  function kubectl(script: string): void {
    writeFileSync(join(folder, 'kubectl'), `#!/bin/sh\necho "$@" > ${folder}/args\n${script}\n`);
    chmodSync(join(folder, 'kubectl'), 0o755);
  }
  const service = { namespace: 'temporal', name: 'frontend' };

  it('lets kubectl forward, with the flags that say where and who', async () => {
    kubectl("echo 'Forwarding from 127.0.0.1:40123 -> 7233'; exec sleep 60");
    const flags = { context: 'shop', as: 'eve', asGroup: ['ops'], namespace: 'default', requestTimeout: '5s' };
    const forwarded = await forwardPort(service, 7233, flags, env);
    forwarded.close();
    expect(forwarded.port).toBe(40_123);
    expect(readFileSync(join(folder, 'args'), 'utf8')).toBe(
      '--context=shop --as=eve --as-group=ops -n temporal port-forward service/frontend :7233\n',
    );
  });

  it('says what kubectl says when it refuses', async () => {
    kubectl('echo \'error: services "frontend" not found\' >&2; exit 1');
    await expect(forwardPort(service, 7233, {}, env)).rejects.toThrow('error: services "frontend" not found');
  });

  it('says that there is no kubectl', async () => {
    await expect(forwardPort(service, 7233, {}, { PATH: folder })).rejects.toThrow('kubectl cannot be run');
  });
});
