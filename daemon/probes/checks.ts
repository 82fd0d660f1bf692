// One run of a probe, like the kubelet's. TCP and HTTP requests come from the node's network.
import { connect } from 'node:net';
import { CriError } from '../../activities/cri/runtime.ts';
import type { Probe } from '../../api/core/probe.ts';
import { headersOf, hostPort, httpGet } from '../http-get.ts';
import { outputBytes, type ProbeRuntime } from './runtime.ts';
import type { Outcome } from './verdict.ts';

/** The target of a run. */
export interface Check {
  readonly probe: Probe;
  /** The ID of the running instance of the container. */
  readonly containerId: string;
  /** The pod's IP; empty while it has none. */
  readonly ip: string;
  readonly timeoutSeconds: number;
}

/** Makes one run. Never rejects. */
export async function runCheck(check: Check, runtime: ProbeRuntime | undefined): Promise<Outcome> {
  const pace = watchOwnPace();
  try {
    const outcome = await checkOnce(check, runtime);
    if (outcome.kind !== 'failure' || !pace.wasHeldUp()) return outcome;
    // a timeout may be this process's own fault
    return { kind: 'none', why: 'the daemon was delayed' };
  } finally {
    pace.end();
  }
}

/** After a pause of this length the process cannot tell whether it or the target was slow. */
const heldUpMs = 1_000;

/** Detects pauses of this process, until `end` is called. */
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
  const { exec, httpGet: httpAction, tcpSocket } = check.probe;
  if (exec) return await execCheck(check, exec.command ?? [], runtime);
  if (check.ip === '') return { kind: 'none', why: 'the pod has no IP yet' };
  if (httpAction) return await httpCheck(check, httpAction);
  if (tcpSocket) return await tcpCheck(check, Number(tcpSocket.port));
  return { kind: 'none', why: 'unknown handler' };
}

/** NPP-24: the exit code decides. A failure of the runtime says nothing about the container. */
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

type HttpGetAction = NonNullable<Probe['httpGet']>;

/** The rest of a body is not read. */
const bodyBytes = 10 * 1024;

/** NPP-25. Everything, redirects included, shares the timeout of one run. */
async function httpCheck({ ip, timeoutSeconds }: Check, action: HttpGetAction): Promise<Outcome> {
  const signal = AbortSignal.timeout(timeoutSeconds * 1_000);
  const headers = headersOf(action.httpHeaders ?? [], 'kube-probe');
  const result = await httpGet(urlOf(ip, action), headers, { signal, bodyBytes });
  if (result.kind === 'answer') return judge(result.status, result.body);
  const why = signal.aborted ? `no answer within ${timeoutSeconds}s` : reasonOf(result.error);
  return { kind: 'failure', message: `Get "${result.url.href}": ${why}` };
}

function judge(status: number, body: string): Outcome {
  if (status >= 200 && status < 400) return { kind: 'success', message: body };
  return { kind: 'failure', message: `HTTP probe failed with statuscode: ${status}` };
}

function urlOf(ip: string, { scheme, port, path = '/' }: HttpGetAction): URL {
  const protocol = scheme?.toUpperCase() === 'HTTPS' ? 'https' : 'http';
  return new URL(`${protocol}://${hostPort(ip, Number(port))}${path.startsWith('/') ? path : `/${path}`}`);
}

/** The system's error code, which is clearer than the text around it. */
function reasonOf(error: unknown): string {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  if (code === 'ECONNREFUSED') return 'connection refused';
  if (code === 'ECONNRESET') return 'connection reset by peer';
  if (code === 'EHOSTUNREACH') return 'no route to host';
  return typeof message === 'string' && message !== '' ? message : String(code ?? error);
}
