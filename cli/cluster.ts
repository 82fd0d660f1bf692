import { existsSync } from 'node:fs';
import { delimiter } from 'node:path';
import { createKubeClient, type KubeClient } from '../kube/client.ts';
import { type Access, type Credentials, credentialsOf, loadKubeconfig } from '../kube/credentials.ts';
import type { Kubeconfig, KubeconfigUser } from '../kube/kubeconfig.ts';
import { CommandFailed } from './failure.ts';

/** kubectl's flags about the cluster and the user, under the same names. */
export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly cluster?: string;
  readonly user?: string;
  readonly namespace?: string;
  readonly server?: string;
  readonly token?: string;
  readonly username?: string;
  readonly password?: string;
  readonly as?: string;
  readonly asGroup?: readonly string[];
  readonly asUid?: string;
  readonly requestTimeout?: string;
  readonly certificateAuthority?: string;
  readonly clientCertificate?: string;
  readonly clientKey?: string;
  readonly tlsServerName?: string;
  readonly insecureSkipTlsVerify?: boolean;
}

/** The variables of the environment that kubectl reads as well. */
export interface ClusterEnvironment {
  readonly KUBECONFIG?: string | undefined;
  readonly KUBERNETES_SERVICE_HOST?: string | undefined;
  readonly KUBERNETES_SERVICE_PORT?: string | undefined;
}

/** An API server, with the user's credentials and namespace. */
export interface Cluster {
  readonly kube: KubeClient;
  /** The namespace for objects without one. */
  readonly namespace: string;
}

/** Connects as kubectl would with these flags. Sends nothing yet. Throws when the flags cannot be used. */
export function connectCluster(flags: ClusterFlags, env: ClusterEnvironment): Cluster {
  const config = withFlags(baseConfig(flags, env), flags);
  const deadlineMs = timeoutMs(flags.requestTimeout);
  const kube = createKubeClient({
    credentials: impersonating(credentialsOf(config), flags),
    userAgent: 'kubectl-kruise',
    // a single command makes few calls, and its user waits for them
    qps: 1000,
    burst: 1000,
    ...(deadlineMs !== undefined && { deadlineMs }),
  });
  return { kube, namespace: flags.namespace || config.namespace || 'default' };
}

function baseConfig(flags: ClusterFlags, env: ClusterEnvironment): Kubeconfig {
  const choice = { context: flags.context, cluster: flags.cluster, user: flags.user };
  // Of several files some may be missing, as with kubectl. Where all are, the file in the home directory does not replace
  // them: it may name another cluster.
  const ofEnvironment = env.KUBECONFIG?.split(delimiter).filter(existsSync).join(delimiter);
  const files = flags.kubeconfig || (env.KUBECONFIG ? ofEnvironment : undefined);
  const host = env.KUBERNETES_SERVICE_HOST;
  const inCluster = host ? { host, port: Number(env.KUBERNETES_SERVICE_PORT ?? 443) } : undefined;
  try {
    return loadKubeconfig(files, inCluster, choice);
  } catch (error) {
    const namesFile = flags.kubeconfig !== undefined || flags.context !== undefined || flags.cluster !== undefined;
    if (flags.server === undefined && files === '') {
      throw new CommandFailed(`Cannot find the API server: KUBECONFIG names no file that exists: ${env.KUBECONFIG}`);
    }
    if (flags.server === undefined || namesFile) throw error;
    return { cluster: {}, user: {} };
  }
}

function withFlags({ cluster, user, namespace }: Kubeconfig, flags: ClusterFlags): Kubeconfig {
  return {
    cluster: {
      ...cluster,
      ...(flags.server && { server: flags.server.includes('://') ? flags.server : `https://${flags.server}` }),
      ...(flags.certificateAuthority && {
        'certificate-authority': flags.certificateAuthority,
        'certificate-authority-data': undefined,
      }),
      ...(flags.tlsServerName && { 'tls-server-name': flags.tlsServerName }),
      ...(flags.insecureSkipTlsVerify && { 'insecure-skip-tls-verify': true }),
    } as Kubeconfig['cluster'],
    user: userWith(user, flags),
    ...(namespace !== undefined && { namespace }),
  };
}

/** A token or a password on the command line replaces all credentials of the kubeconfig's user. */
function userWith(user: KubeconfigUser, flags: ClusterFlags): KubeconfigUser {
  const base = flags.token || flags.username ? {} : user;
  return {
    ...base,
    ...(flags.token && { token: flags.token }),
    ...(flags.username && { username: flags.username, password: flags.password ?? '' }),
    ...(flags.clientCertificate && { 'client-certificate': flags.clientCertificate }),
    ...(flags.clientKey && { 'client-key': flags.clientKey }),
  };
}

function impersonating(credentials: Credentials, { as, asGroup = [], asUid }: ClusterFlags): Credentials {
  if (as === undefined) {
    if (asGroup.length > 0 || asUid) throw new CommandFailed('--as-group and --as-uid require --as');
    return credentials;
  }
  const headers = {
    'impersonate-user': as,
    ...(asUid && { 'impersonate-uid': asUid }),
    ...(asGroup.length > 0 && { 'impersonate-group': [...asGroup] }),
  };
  const inner = new WeakMap<Access, Access>();
  return {
    server: credentials.server,
    async current() {
      const access = await credentials.current();
      const wrapped = { ...access, headers: { ...access.headers, ...headers } };
      inner.set(wrapped, access);
      return wrapped;
    },
    renew: (stale) => credentials.renew(inner.get(stale) ?? stale),
  };
}

/** In kubectl's format: seconds, or a duration such as `1m30s`; undefined for no limit. */
function timeoutMs(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;
  const isTime = /^(\d+|(\d+(\.\d+)?(ms|s|m|h))+)$/.test(text);
  if (!isTime) throw new CommandFailed(`--request-timeout="${text}": expects a time such as 30s, 1m30s or 0 for none`);
  const ms = [...text.matchAll(/([\d.]+)(ms|s|m|h)?/g)].reduce(
    (sum, [, number, unit = 's']) => sum + Number(number) * units[unit as keyof typeof units],
    0,
  );
  return ms > 0 ? ms : undefined;
}
