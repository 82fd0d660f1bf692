import { type IncomingMessage, type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { HookRequest } from '../activities/cri/pre-stop.ts';

/** As many as the kubelet follows, and only on the same host. */
const redirectLimit = 10;

/** A hook has no time limit, but a connection on which nothing comes for so long never will. */
const silentMs = 600_000;

/** What TLS reports when a plain HTTP server answers it. */
const notTls: readonly string[] = ['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'];

/**
 * Makes the GET of a hook as the kubelet makes it: certificates are not checked, any answer will do, and a server that
 * was called by HTTPS and speaks HTTP is called by HTTP.
 */
export async function getHook(request: HookRequest): Promise<void> {
  try {
    await getFollowing(request);
  } catch (error) {
    if (request.scheme !== 'https' || !notTls.includes(codeOf(error))) throw error;
    const headers = request.headers.filter(({ name }) => name.toLowerCase() !== 'authorization');
    await getFollowing({ ...request, scheme: 'http', headers });
  }
}

async function getFollowing(request: HookRequest): Promise<void> {
  const headers = requestHeaders(request);
  let url = urlOf(request);
  for (let redirects = 0; ; redirects += 1) {
    const answer = await get(url, headers);
    const next = redirectOf(answer, url);
    if (next === undefined || next.hostname !== url.hostname) return;
    if (redirects === redirectLimit) throw new Error(`stopped after ${redirectLimit} redirects`);
    url = next;
  }
}

function get(url: URL, headers: Record<string, string | string[]>): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    // A connection of its own: hooks are rare, and the server is about to go.
    const options: RequestOptions = { agent: false, headers, timeout: silentMs };
    const call =
      url.protocol === 'https:'
        ? requestHttps(url, { ...options, rejectUnauthorized: false })
        : requestHttp(url, options);
    call.on('response', (answer) => {
      answer.resume();
      answer.on('error', () => undefined);
      resolve(answer);
    });
    call.on('timeout', () => call.destroy(new Error(`no answer within ${silentMs / 1_000}s`)));
    call.on('error', reject);
    call.end();
  });
}

function urlOf({ scheme, host, port, path }: HookRequest): URL {
  const name = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
  return new URL(`${scheme}://${name}:${port}${path}`);
}

function requestHeaders({ headers }: HookRequest): Record<string, string | string[]> {
  const own: Record<string, string | string[]> = {};
  for (const { name, value } of headers) {
    const key = name.toLowerCase();
    const before = own[key];
    // Node takes one Host only.
    own[key] = before === undefined || key === 'host' ? value : [before, value].flat();
  }
  return { 'user-agent': 'kruise-daemon', accept: '*/*', ...own };
}

function redirectOf(answer: IncomingMessage, from: URL): URL | undefined {
  const { statusCode = 0, headers } = answer;
  if (statusCode < 300 || statusCode > 399 || headers.location === undefined) return undefined;
  return URL.canParse(headers.location, from.href) ? new URL(headers.location, from) : undefined;
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' ? code : '';
}
