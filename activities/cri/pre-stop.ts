import type { ContainerPort, LifecycleHandler } from '../../api/core/pod.ts';

/** A GET whose answer is ignored, for a preStop hook. */
export interface HookRequest {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  /** With query, beginning with a slash. */
  readonly path: string;
  readonly headers: readonly { readonly name: string; readonly value: string }[];
}

/** What hooks need from the node. Each method fails by throwing, and has no time limit. */
export interface HookMeans {
  exec(command: readonly string[]): Promise<{ readonly exitCode: number }>;
  /** Fails when there is no HTTP answer at all; any answer counts as success, as with the kubelet. */
  httpGet(request: HookRequest): Promise<void>;
  podIp(): Promise<string | undefined>;
  sleep(seconds: number): Promise<void>;
}

/** A failed hook. The message never contains output of the hook, which may be secret. */
export class HookError extends Error {
  override readonly name = 'HookError';
}

/** Runs a preStop hook to its end, like the kubelet (CRR-42). */
export async function runPreStop(
  hook: { readonly handler: LifecycleHandler; readonly ports: readonly ContainerPort[] },
  means: HookMeans,
): Promise<void> {
  const { exec, httpGet, sleep } = hook.handler;
  if (exec) {
    const { exitCode } = await means.exec(exec.command ?? []);
    if (exitCode !== 0) throw new HookError(`command exited with ${exitCode}`);
  } else if (httpGet) {
    await means.httpGet(await toHookRequest(httpGet, hook.ports, means));
  } else if (sleep) {
    await means.sleep(sleep.seconds);
  } else {
    // tcpSocket, or a handler of a later Kubernetes version.
    throw new HookError('invalid handler: neither exec, httpGet nor sleep');
  }
}

async function toHookRequest(
  httpGet: NonNullable<LifecycleHandler['httpGet']>,
  ports: readonly ContainerPort[],
  means: Pick<HookMeans, 'podIp'>,
): Promise<HookRequest> {
  const host = httpGet.host || (await means.podIp());
  if (!host) throw new HookError('the runtime reports no IP address of the pod');
  const path = httpGet.path ?? '';
  return {
    scheme: httpGet.scheme?.toLowerCase() === 'https' ? 'https' : 'http',
    host,
    port: resolvePort(httpGet.port, ports),
    path: path.startsWith('/') ? path : `/${path}`,
    headers: httpGet.httpHeaders ?? [],
  };
}

/** A number, a number as string, or the name of one of the container's ports, in this order. */
function resolvePort(port: number | string, ports: readonly ContainerPort[]): number {
  const number = typeof port === 'number' || /^\d+$/.test(port) ? Number(port) : undefined;
  const found = number ?? ports.find((known) => known.name === port)?.containerPort;
  if (found === undefined) throw new HookError(`no port is named "${port}"`);
  return found;
}
