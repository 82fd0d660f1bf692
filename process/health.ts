import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';

/**
 * Fails by throwing; the message is shown. A returned text is shown by `?verbose` after `ok`. The signal aborts when
 * the answer is no longer needed.
 */
export type Check = (signal: AbortSignal) => CheckResult | Promise<CheckResult>;

// biome-ignore lint/suspicious/noConfusingVoidType: most checks return nothing
type CheckResult = string | undefined | void;

export interface HealthOptions {
  /** `host:port`, `:port`, or `0` for none. Equal addresses share one listener. */
  readonly healthProbeAddress: string;
  readonly metricsAddress: string;
  /** By name: if one fails, the process should be restarted. */
  readonly liveness: Readonly<Record<string, Check>>;
  /** By name: if one fails, the process cannot do its work. */
  readonly readiness: Readonly<Record<string, Check>>;
  readonly metrics: Pick<Registry, 'metrics' | 'contentType'>;
  /** The deadline of one check; 3 s by default. */
  readonly checkDeadlineMs?: number;
}

export interface HealthServer {
  /** The addresses of the listeners, the health address first; needed where port 0 was requested. */
  readonly addresses: readonly AddressInfo[];
  close(): Promise<void>;
}

/**
 * Serves `/healthz` and `/readyz` (200 `ok`, or 500 and the failing checks; `?verbose` lists all, `/readyz/<name>` runs
 * one) and `/metrics`. Resolves when it listens.
 */
export async function serveHealth(options: HealthOptions): Promise<HealthServer> {
  const addresses = [...new Set([options.healthProbeAddress, options.metricsAddress])].filter((text) => text !== '0');
  const servers = addresses.map((address) => ({
    address,
    server: createServer((request, response) => {
      answer(options, address, request, response).catch((error: unknown) => {
        send(response, 500, `${error instanceof Error ? error.message : String(error)}\n`);
      });
    }),
  }));
  await Promise.all(servers.map(({ server, address }) => listen(server, address)));
  return {
    addresses: servers.map(({ server }) => server.address() as AddressInfo),
    async close() {
      await Promise.all(servers.map(({ server }) => closeServer(server)));
    },
  };
}

async function answer(
  options: HealthOptions,
  address: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://localhost');
  const [, endpoint = '', checkName = ''] = url.pathname.split('/');
  const verbose = url.searchParams.has('verbose');
  const deadlineMs = options.checkDeadlineMs ?? 3_000;

  const checks = address === options.healthProbeAddress ? checksOf(endpoint, options) : undefined;

  if (endpoint === 'metrics' && address === options.metricsAddress) {
    response.setHeader('Content-Type', options.metrics.contentType);
    send(response, 200, await options.metrics.metrics());
  } else if (checks !== undefined) {
    await answerChecks(response, endpoint, { ping: () => undefined, ...checks }, checkName, verbose, deadlineMs);
  } else {
    send(response, 404, 'not found\n');
  }
}

function checksOf(endpoint: string, { liveness, readiness }: HealthOptions): HealthOptions['liveness'] | undefined {
  if (endpoint === 'healthz') return liveness;
  return endpoint === 'readyz' ? readiness : undefined;
}

async function answerChecks(
  response: ServerResponse,
  endpoint: string,
  checks: Readonly<Record<string, Check>>,
  only: string,
  verbose: boolean,
  deadlineMs: number,
): Promise<void> {
  const asked = Object.entries(checks).filter(([name]) => only === '' || name === only);
  if (asked.length === 0) return send(response, 404, `no check "${only}"\n`);
  const results = await Promise.all(asked.map(([name, check]) => ask(name, check, deadlineMs)));
  const failed = results.filter((result) => result.failure !== undefined);

  if (verbose) {
    const lines = results.map(({ name, failure, caveat }) =>
      failure ? `[-]${name} failed: ${failure}` : `[+]${name} ok${caveat ? `: ${caveat}` : ''}`,
    );
    lines.push(`${endpoint} check ${failed.length === 0 ? 'passed' : 'failed'}`);
    return send(response, failed.length === 0 ? 200 : 500, `${lines.join('\n')}\n`);
  }
  if (failed.length === 0) return send(response, 200, 'ok');
  send(response, 500, failed.map(({ name, failure }) => `check ${name} failed, err: ${failure}`).join('\n'));
}

async function ask(
  name: string,
  check: Check,
  deadlineMs: number,
): Promise<{ readonly name: string; readonly failure?: string; readonly caveat?: string }> {
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${deadlineMs} ms`)), deadlineMs);
  });
  try {
    const caveat = await Promise.race([Promise.resolve(abort.signal).then(check), late]);
    return { name, ...(typeof caveat === 'string' && { caveat }) };
  } catch (error) {
    return { name, failure: error instanceof Error ? error.message : String(error) };
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}

function send(response: ServerResponse, status: number, body: string): void {
  if (response.headersSent) return void response.destroy();
  if (!response.hasHeader('Content-Type')) response.setHeader('Content-Type', 'text/plain; charset=utf-8');
  response.writeHead(status).end(body);
}

function listen(server: Server, address: string): Promise<void> {
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, colon).replace(/^\[|\]$/g, '');
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`Cannot listen on "${address}": ${error.message}`)));
    server.listen({ port: Number(address.slice(colon + 1)), ...(host === '' ? {} : { host }) }, resolve);
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
