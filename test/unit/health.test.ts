import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { type HealthOptions, type HealthServer, serveHealth } from '../../process/health.ts';

const open: HealthServer[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

async function serve(overrides: Partial<HealthOptions> = {}): Promise<readonly AddressInfo[]> {
  const server = await serveHealth({
    healthProbeAddress: '127.0.0.1:0',
    metricsAddress: '127.0.0.1:0',
    liveness: {},
    readiness: {},
    metrics: new Registry(),
    ...overrides,
  });
  open.push(server);
  return server.addresses;
}

async function get([address]: readonly AddressInfo[], path: string): Promise<{ status: number; body: string }> {
  const response = await fetch(`http://127.0.0.1:${address?.port}${path}`);
  return { status: response.status, body: await response.text() };
}

function fails(message: string): () => void {
  return () => {
    throw new Error(message);
  };
}

describe('serveHealth', () => {
  it('answers ok while every check passes', async () => {
    const at = await serve({ readiness: { cache: () => undefined, temporal: async () => undefined } });
    expect(await get(at, '/healthz')).toEqual({ status: 200, body: 'ok' });
    expect(await get(at, '/readyz')).toEqual({ status: 200, body: 'ok' });
  });

  it('names each check that fails, with its error', async () => {
    const at = await serve({ readiness: { cache: fails('pods not listed'), temporal: async () => fails('silent')() } });
    expect(await get(at, '/readyz')).toEqual({
      status: 500,
      body: 'check cache failed, err: pods not listed\ncheck temporal failed, err: silent',
    });
    expect(await get(at, '/healthz')).toMatchObject({ status: 200 });
  });

  it('fails a check that does not answer in time, and tells it so', async () => {
    let told: AbortSignal | undefined;
    const silent = (signal: AbortSignal) => {
      told = signal;
      return new Promise<void>(() => undefined);
    };
    const at = await serve({ liveness: { silent }, checkDeadlineMs: 20 });
    expect(await get(at, '/healthz')).toEqual({
      status: 500,
      body: 'check silent failed, err: no answer within 20 ms',
    });
    expect(told?.aborted).toBe(true);
  });

  it('lists all checks when asked to be verbose, as Kubernetes does', async () => {
    const at = await serve({ readiness: { cache: fails('late') } });
    expect(await get(at, '/readyz?verbose')).toEqual({
      status: 500,
      body: '[+]ping ok\n[-]cache failed: late\nreadyz check failed\n',
    });
  });

  it('answers for one check alone', async () => {
    const at = await serve({ readiness: { cache: () => undefined, temporal: fails('silent') } });
    expect(await get(at, '/readyz/cache')).toMatchObject({ status: 200 });
    expect(await get(at, '/readyz/temporal')).toMatchObject({ status: 500 });
    expect(await get(at, '/readyz/unknown')).toMatchObject({ status: 404 });
  });

  it('serves metrics beside health when the addresses are equal, and apart when they differ', async () => {
    const together = await serve();
    expect(together).toHaveLength(1);
    expect(await get(together, '/metrics')).toMatchObject({ status: 200 });

    const apart = await serve({ metricsAddress: 'localhost:0' });
    expect(apart).toHaveLength(2);
    expect(await get(apart, '/metrics')).toMatchObject({ status: 404 });
    expect(await get(apart.slice(1), '/healthz')).toMatchObject({ status: 404 });
  });

  it('does not listen where the address is 0', async () => {
    expect(await serve({ metricsAddress: '0' })).toHaveLength(1);
    expect(await serve({ metricsAddress: '0', healthProbeAddress: '0' })).toEqual([]);
  });

  it('says which address it cannot have', async () => {
    const [taken] = await serve();
    const address = `127.0.0.1:${taken?.port}`;
    await expect(serve({ healthProbeAddress: address, metricsAddress: address })).rejects.toThrow(
      `Cannot listen on "${address}": `,
    );
  });
});
