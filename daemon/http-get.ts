// An HTTP GET like the kubelet's for probes and hooks (Go's HTTP client): certificates are not verified, and redirects
// are followed on the same host only. The request comes from the node's network.
import { type IncomingMessage, type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';

/** The kubelet's limit. */
const redirectLimit = 10;

/** The status codes that Go's client treats as redirects, if there is a location. */
const redirectStatuses: readonly number[] = [301, 302, 303, 307, 308];

export interface HttpGetLimits {
  /** Aborts everything, redirects included. Absent: no limit. */
  readonly signal?: AbortSignal;
  /** The longest time without data on the connection. Absent: no limit. */
  readonly silentMs?: number;
  /** How much of the body is read before the connection is closed. Absent: the body is received and dropped. */
  readonly bodyBytes?: number;
}

export type HttpResult =
  | { readonly kind: 'answer'; readonly status: number; readonly body: string }
  /** `url` is the one that failed, after redirects. */
  | { readonly kind: 'failed'; readonly url: URL; readonly error: unknown };

/** Makes the GET. Never rejects. */
export async function httpGet(
  first: URL,
  headers: Readonly<Record<string, string | string[]>>,
  limits: HttpGetLimits,
): Promise<HttpResult> {
  let url = first;
  try {
    for (let redirects = 0; ; redirects += 1) {
      const { status, location, body } = await getOnce(url, headers, limits);
      const next = redirectOf(status, location, url);
      if (next === undefined || next.hostname !== first.hostname) return { kind: 'answer', status, body };
      if (redirects === redirectLimit) throw new Error(`stopped after ${redirectLimit} redirects`);
      url = next;
    }
  } catch (error) {
    return { kind: 'failed', url, error };
  }
}

/** The user's headers come before ours; one that occurs twice is sent twice. */
export function headersOf(
  named: readonly { readonly name: string; readonly value: string }[],
  userAgent: string,
): Record<string, string | string[]> {
  const own: Record<string, string | string[]> = {};
  for (const { name, value } of named) {
    const key = name.toLowerCase();
    const before = own[key];
    // Node accepts a single Host header only.
    own[key] = before === undefined || key === 'host' ? value : [before, value].flat();
  }
  return { 'user-agent': userAgent, accept: '*/*', ...own };
}

/** Host and port in URL syntax: an IPv6 address in brackets, whether given with or without them. */
export function hostPort(host: string, port: number | string): string {
  return `${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`;
}

interface Answer {
  readonly status: number;
  readonly location: string | undefined;
  readonly body: string;
}

function getOnce(
  url: URL,
  headers: Readonly<Record<string, string | string[]>>,
  { signal, silentMs, bodyBytes }: HttpGetLimits,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options: RequestOptions = {
      agent: false, // a new connection, so that the process that runs now answers
      headers,
      ...(signal && { signal }),
      ...(silentMs !== undefined && { timeout: silentMs }),
    };
    const call =
      url.protocol === 'https:'
        ? requestHttps(url, { ...options, rejectUnauthorized: false })
        : requestHttp(url, options);
    call.on('response', (answer) => {
      const { statusCode: status = 0, headers: answered } = answer;
      const location = answered.location;
      if (bodyBytes === undefined) {
        answer.resume();
        answer.on('error', () => undefined);
        resolve({ status, location, body: '' });
        return;
      }
      read(answer, bodyBytes).then((body) => {
        resolve({ status, location, body });
        call.destroy();
      }, reject);
    });
    if (silentMs !== undefined) {
      call.on('timeout', () => call.destroy(new Error(`no answer within ${silentMs / 1_000}s`)));
    }
    call.on('error', reject);
    call.end();
  });
}

/** The first bytes of the body. */
async function read(answer: IncomingMessage, bytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= bytes) break;
  }
  return Buffer.concat(chunks).subarray(0, bytes).toString();
}

function redirectOf(status: number, location: string | undefined, from: URL): URL | undefined {
  if (!redirectStatuses.includes(status) || location === undefined) return undefined;
  return URL.canParse(location, from.href) ? new URL(location, from) : undefined;
}
