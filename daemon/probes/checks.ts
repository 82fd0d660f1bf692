// One run of a probe, as the kubelet makes it. TCP and HTTP go out from the network of the node.
import { type IncomingMessage, type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { connect } from 'node:net';
import { CriError } from '../../activities/cri/runtime.ts';
import type { Probe } from '../../api/core/probe.ts';
import { outputBytes, type ProbeRuntime } from './runtime.ts';
import type { Outcome } from './verdict.ts';

/** What a run is about. */
export interface Check {
  readonly probe: Probe;
  /** The instance of the container, which runs. */
  readonly containerId: string;
  /** Of the pod; empty while it has none. */
  readonly ip: string;
  readonly timeoutSeconds: number;
}

/** Makes one run. Never rejects. */
export async function runCheck(check: Check, runtime: ProbeRuntime | undefined): Promise<Outcome> {
  const pace = watchOwnPace();
  try {
    const outcome = await checkOnce(check, runtime);
    if (outcome.kind !== 'failure' || !pace.wasHeldUp()) return outcome;
    // the time may have been up because nobody was here to see the answer
    return { kind: 'none', why: 'the daemon was delayed' };
  } finally {
    pace.end();
  }
}

/** A process that did not get to run for so long cannot tell by its own clock who else was slow. */
const heldUpMs = 1_000;

/** Notices whether this process gets to run, from now on until the end. */
function watchOwnPace(): { wasHeldUp(): boolean; end(): void } {
  let lastMs = performance.now();
  let longestMs = 0;
  const look = (): void => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  const looks = setInterval(look, heldUpMs / 4).unref();
  return {
    wasHeldUp() {
      look();
      return longestMs > heldUpMs;
    },
    end: () => clearInterval(looks),
  };
}

async function checkOnce(check: Check, runtime: ProbeRuntime | undefined): Promise<Outcome> {
  const { exec, httpGet, tcpSocket } = check.probe;
  if (exec) return await execCheck(check, exec.command ?? [], runtime);
  if (check.ip === '') return { kind: 'none', why: 'the pod has no IP yet' };
  if (httpGet) return await httpCheck(check, httpGet);
  if (tcpSocket) return await tcpCheck(check, Number(tcpSocket.port));
  return { kind: 'none', why: 'unknown handler' };
}

/** NPP-24: the exit code decides. What the runtime could not do says nothing about the container. */
async function execCheck(
  { containerId, timeoutSeconds }: Check,
  command: readonly string[],
  runtime: ProbeRuntime | undefined,
): Promise<Outcome> {
  if (runtime === undefined) return { kind: 'none' };
  try {
    const { exitCode, stdout, stderr } = await runtime.execProbe(containerId, command, timeoutSeconds);
    const isLong = [stdout, stderr].some((output) => Buffer.byteLength(output) >= outputBytes);
    const marks = isLong ? ({ printsMuch: true } as const) : {};
    return exitCode === 0
      ? { kind: 'success', message: stdout, ...marks }
      : { kind: 'failure', message: stderr, ...marks };
  } catch (error) {
    if (!(error instanceof CriError)) throw error;
    if (error.failure === 'deadline')
      return { kind: 'failure', message: `command took longer than ${timeoutSeconds}s` };
    return error.failure === 'answer' ? { kind: 'none', why: error.message } : { kind: 'none' };
  }
}

function tcpCheck({ ip, timeoutSeconds }: Check, port: number): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect({ host: ip, port, noDelay: true });
    const end = (outcome: Outcome) => {
      socket.destroy();
      resolve(outcome);
    };
    socket.setTimeout(timeoutSeconds * 1_000, () =>
      end({ kind: 'failure', message: `dial tcp ${hostPort(ip, port)}: no answer within ${timeoutSeconds}s` }),
    );
    socket.on('connect', () => end({ kind: 'success', message: '' }));
    socket.on('error', (error) =>
      end({ kind: 'failure', message: `dial tcp ${hostPort(ip, port)}: ${reasonOf(error)}` }),
    );
  });
}

type HttpGet = NonNullable<Probe['httpGet']>;

/** As many as the kubelet follows, and only on the same host. */
const redirectLimit = 10;

/** More of a body is not read. */
const bodyBytes = 10 * 1024;

/** NPP-25. All of it, redirects included, has the time of one run. */
async function httpCheck({ ip, timeoutSeconds }: Check, httpGet: HttpGet): Promise<Outcome> {
  const signal = AbortSignal.timeout(timeoutSeconds * 1_000);
  const first = urlOf(ip, httpGet);
  const headers = headersOf(httpGet);
  let url = first;
  try {
    for (let redirects = 0; ; redirects += 1) {
      const { status, location, body } = await get(url, headers, signal);
      const next = redirectOf(status, location, url);
      if (next === undefined || next.hostname !== first.hostname) return judge(status, body);
      if (redirects === redirectLimit) throw new Error(`stopped after ${redirectLimit} redirects`);
      url = next;
    }
  } catch (error) {
    const why = signal.aborted ? `no answer within ${timeoutSeconds}s` : reasonOf(error);
    return { kind: 'failure', message: `Get "${url.href}": ${why}` };
  }
}

function judge(status: number, body: string): Outcome {
  if (status >= 200 && status < 400) return { kind: 'success', message: body };
  return { kind: 'failure', message: `HTTP probe failed with statuscode: ${status}` };
}

interface Got {
  readonly status: number;
  readonly location: string | undefined;
  readonly body: string;
}

function get(url: URL, headers: Record<string, string | string[]>, signal: AbortSignal): Promise<Got> {
  return new Promise((resolve, reject) => {
    // A connection of its own: what answers is the process that runs now.
    const options: RequestOptions = { agent: false, headers, signal };
    const call =
      url.protocol === 'https:'
        ? requestHttps(url, { ...options, rejectUnauthorized: false })
        : requestHttp(url, options);
    call.on('response', (answer) => {
      read(answer).then((body) => {
        resolve({ status: answer.statusCode ?? 0, location: answer.headers.location, body });
        call.destroy();
      }, reject);
    });
    call.on('error', reject);
    call.end();
  });
}

/** The beginning of the body. */
async function read(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= bodyBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, bodyBytes).toString();
}

function urlOf(ip: string, { scheme, port, path = '/' }: HttpGet): URL {
  const protocol = scheme?.toUpperCase() === 'HTTPS' ? 'https' : 'http';
  return new URL(`${protocol}://${hostPort(ip, Number(port))}${path.startsWith('/') ? path : `/${path}`}`);
}

/** Those of the probe come before ours; the same one twice is sent twice. */
function headersOf({ httpHeaders = [] }: HttpGet): Record<string, string | string[]> {
  const own: Record<string, string | string[]> = {};
  for (const { name, value } of httpHeaders) {
    const key = name.toLowerCase();
    const before = own[key];
    // Node takes one Host only.
    own[key] = before === undefined || key === 'host' ? value : [before, value].flat();
  }
  return { 'user-agent': 'kube-probe', accept: '*/*', ...own };
}

const redirects: readonly number[] = [301, 302, 303, 307, 308];

function redirectOf(status: number, location: string | undefined, from: URL): URL | undefined {
  if (!redirects.includes(status) || location === undefined) return undefined;
  return URL.canParse(location, from.href) ? new URL(location, from) : undefined;
}

function hostPort(ip: string, port: number): string {
  return `${ip.includes(':') ? `[${ip}]` : ip}:${port}`;
}

/** In the words of the system, which say more than the text around them. */
function reasonOf(error: unknown): string {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  if (code === 'ECONNREFUSED') return 'connection refused';
  if (code === 'ECONNRESET') return 'connection reset by peer';
  if (code === 'EHOSTUNREACH') return 'no route to host';
  return typeof message === 'string' && message !== '' ? message : String(code ?? error);
}
