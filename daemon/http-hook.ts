import type { HookRequest } from '../activities/cri/pre-stop.ts';
import { headersOf, hostPort, httpGet } from './http-get.ts';

/** A hook has no time limit, but a connection without data for this long is dead. */
const silentMs = 600_000;

/** The errors of a TLS handshake with a plain HTTP server. */
const notTls: readonly string[] = ['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'];

/**
 * Makes the GET of a hook like the kubelet: any answer counts as success, and an HTTPS request to a plain HTTP server
 * is repeated with HTTP.
 */
export async function getHook(request: HookRequest): Promise<void> {
  try {
    await get(request);
  } catch (error) {
    if (request.scheme !== 'https' || !notTls.includes(codeOf(error))) throw error;
    const headers = request.headers.filter(({ name }) => name.toLowerCase() !== 'authorization');
    await get({ ...request, scheme: 'http', headers });
  }
}

async function get({ scheme, host, port, path, headers }: HookRequest): Promise<void> {
  const url = new URL(`${scheme}://${hostPort(host, port)}${path}`);
  const result = await httpGet(url, headersOf(headers, 'kruise-daemon'), { silentMs });
  if (result.kind === 'failed') throw result.error;
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' ? code : '';
}
