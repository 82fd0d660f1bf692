import { spawn } from 'node:child_process';
import type { ClusterFlags } from './cluster.ts';
import { CommandFailed } from './failure.ts';
import type { ForwardedPort, ServiceRef } from './find-engine.ts';

const patienceMs = 15_000;

/** Forwards a free local port to a Service with `kubectl port-forward`, as the user of these flags. */
export async function forwardPort(
  service: ServiceRef,
  port: number,
  flags: ClusterFlags,
  env: NodeJS.ProcessEnv,
): Promise<ForwardedPort> {
  const args = [...kubectlFlags(flags), '-n', service.namespace, 'port-forward', `service/${service.name}`, `:${port}`];
  const child = spawn('kubectl', args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  const close = () => void child.kill();
  try {
    return await new Promise<ForwardedPort>((resolve, reject) => {
      const late = setTimeout(
        () => fail(`kubectl port-forward did not begin within ${patienceMs / 1000} s`),
        patienceMs,
      );
      let [out, err] = ['', ''];
      const fail = (why: string) => {
        clearTimeout(late);
        reject(new CommandFailed(why));
      };
      child.stdout.on('data', (chunk: Buffer) => {
        out += chunk.toString();
        const found = /^Forwarding from 127\.0\.0\.1:(\d+) -> /m.exec(out);
        if (!found) return;
        clearTimeout(late);
        child.stdout.removeAllListeners('data').resume();
        resolve({ port: Number(found[1]), close });
      });
      child.stderr.on('data', (chunk: Buffer) => {
        err = `${err}${chunk.toString()}`.slice(-2_000);
      });
      child.on('error', (error) => fail(`kubectl cannot be run: ${error.message}`));
      child.on('close', (code) =>
        fail(err.trim().split('\n').at(-1) || `kubectl port-forward ended with code ${code}`),
      );
    });
  } catch (error) {
    close();
    throw error;
  }
}

/** The flags for kubectl. Namespace and timeout are left out: they do not apply to this call. */
function kubectlFlags(flags: ClusterFlags): readonly string[] {
  const { asGroup = [], insecureSkipTlsVerify, namespace: _namespace, requestTimeout: _timeout, ...rest } = flags;
  const names: Readonly<Record<keyof typeof rest, string>> = {
    kubeconfig: 'kubeconfig',
    context: 'context',
    cluster: 'cluster',
    user: 'user',
    server: 'server',
    token: 'token',
    username: 'username',
    password: 'password',
    as: 'as',
    asUid: 'as-uid',
    certificateAuthority: 'certificate-authority',
    clientCertificate: 'client-certificate',
    clientKey: 'client-key',
    tlsServerName: 'tls-server-name',
  };
  return [
    ...Object.entries(names).flatMap(([key, name]) => {
      const value = rest[key as keyof typeof rest];
      return value === undefined ? [] : [`--${name}=${value}`];
    }),
    ...asGroup.map((group) => `--as-group=${group}`),
    ...(insecureSkipTlsVerify ? ['--insecure-skip-tls-verify'] : []),
  ];
}
