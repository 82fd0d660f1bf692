import { existsSync, readFileSync } from 'node:fs';
import type { RequestOptions } from 'node:https';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import type { KubeConfig } from './client-node-config.ts';
import { type Kubeconfig, type KubeconfigChoice, KubeconfigError, readKubeconfig } from './kubeconfig.ts';

/** What one request needs to authenticate. */
export interface Access {
  /** Several values are sent as several headers. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** The same object while its content is unchanged, so that connections can be reused. */
  readonly tls: TlsOptions;
}

export type TlsOptions = Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>;

/** Where the API server is, and how to authenticate to it. */
export interface Credentials {
  readonly server: URL;
  /**
   * The credentials that are valid now: token files are read again when they change, exec plugins run again when their
   * token expires.
   */
  current(): Promise<Access>;
  /** Reports that the server refused `stale`: the next call of `current` reads and runs everything again. */
  renew(stale: Access): void;
}

/** The kubeconfig, a file in it, or a plugin that it names cannot be used. The message never quotes their content. */
export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
}

// The kubelet replaces a token when 80 % of its lifetime has passed, after 8 minutes at the earliest. Reading the files
// for each of hundreds of calls a second would be wasteful.
const reuseMs = 10_000;

/** Where a pod finds its own credentials, and the API server's address from its environment. */
export interface InCluster {
  readonly host: string;
  readonly port: number;
}

const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Credentials from this kubeconfig (several, joined as in KUBECONFIG, are merged); absent: ~/.kube/config, or the service
 * account of the pod. Throws a CredentialsError when there are none.
 *
 * Tokens, certificates and passwords are read here. Exec plugins, OIDC and other providers are left to client-node, which
 * is loaded only then: it takes 17 MB, and a process on each of thousands of nodes has no use for it (ADR 11).
 */
export function loadCredentials(
  kubeconfig: string | undefined,
  now: () => number = () => performance.now(),
  inCluster?: InCluster,
): Credentials {
  return credentialsOf(loadKubeconfig(kubeconfig, inCluster), now);
}

/** Credentials from a parsed kubeconfig. Throws a CredentialsError when it names no server. */
export function credentialsOf(config: Kubeconfig, now: () => number = () => performance.now()): Credentials {
  const server = serverOf(config);
  let plugins: KubeConfig | undefined;
  let access: Access | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<Access> | undefined;

  const read = async (): Promise<Access> => {
    if (!isPlain(config)) plugins ??= await withClientNode(config);
    const next = plugins ? await pluginAccess(plugins) : plainAccess(config);
    access = { headers: next.headers, tls: access && sameTls(access.tls, next.tls) ? access.tls : next.tls };
    readAt = now();
    return access;
  };

  return {
    server,
    current: () => {
      if (access && now() - readAt < reuseMs) return Promise.resolve(access);
      reading ??= read().finally(() => {
        reading = undefined;
      });
      return reading;
    },
    renew: (stale) => {
      // When many calls were refused at the same time, the first one renews for all of them.
      if (stale !== access) return;
      plugins = undefined;
      readAt = Number.NEGATIVE_INFINITY;
    },
  };
}

/**
 * The cluster and the user that this kubeconfig names, or the service account of the pod where there is none, as
 * `loadCredentials` finds them. Throws a CredentialsError.
 */
export function loadKubeconfig(
  kubeconfig: string | undefined,
  inCluster?: InCluster,
  choice?: KubeconfigChoice,
): Kubeconfig {
  const byDefault = join(homedir(), '.kube', 'config');
  const files = kubeconfig?.split(delimiter).filter(Boolean) ?? (existsSync(byDefault) ? [byDefault] : []);
  if (files.length === 0) {
    if (inCluster && existsSync(join(serviceAccount, 'token'))) return podConfig(inCluster);
    throw new CredentialsError('Cannot find the API server: give a kubeconfig, or run in a pod with a service account');
  }
  try {
    return readKubeconfig(files, choice);
  } catch (error) {
    if (error instanceof KubeconfigError) throw new CredentialsError(`Cannot use the kubeconfig: ${error.message}`);
    throw new CredentialsError(`Cannot load the kubeconfig "${files.join(delimiter)}": ${withoutContent(error)}`);
  }
}

function podConfig({ host, port }: InCluster): Kubeconfig {
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  return {
    cluster: { server, 'certificate-authority': join(serviceAccount, 'ca.crt') },
    user: { tokenFile: join(serviceAccount, 'token') },
  };
}

function serverOf({ cluster: { server = '' } }: Kubeconfig): URL {
  if (!URL.canParse(server)) throw new CredentialsError(`Cannot use the kubeconfig: server "${server}" is not a URL`);
  return new URL(server);
}

const plainClusterFields: ReadonlySet<string> = new Set([
  ...['server', 'certificate-authority', 'certificate-authority-data', 'insecure-skip-tls-verify', 'tls-server-name'],
]);
const plainUserFields: ReadonlySet<string> = new Set([
  ...['token', 'tokenFile', 'username', 'password'],
  ...['client-certificate', 'client-certificate-data', 'client-key', 'client-key-data'],
]);

/** Whether these credentials need neither a plugin nor a provider. */
function isPlain({ cluster, user }: Kubeconfig): boolean {
  return (
    Object.keys(cluster).every((field) => plainClusterFields.has(field)) &&
    Object.keys(user).every((field) => plainUserFields.has(field))
  );
}

function plainAccess({ cluster, user }: Kubeconfig): Access {
  try {
    const token = user.tokenFile === undefined ? user.token : readFileSync(user.tokenFile, 'utf8');
    const ca = content(cluster['certificate-authority-data'], cluster['certificate-authority']);
    const cert = content(user['client-certificate-data'], user['client-certificate']);
    const key = content(user['client-key-data'], user['client-key']);
    const servername = cluster['tls-server-name'];
    const basic = `${user.username ?? ''}:${user.password ?? ''}`;
    const authorization = token ? `Bearer ${token.trim()}` : basic === ':' ? undefined : `Basic ${btoa(basic)}`;
    return {
      headers: authorization === undefined ? {} : { authorization },
      tls: {
        ...(ca !== undefined && { ca }),
        ...(cert !== undefined && { cert }),
        ...(key !== undefined && { key }),
        ...(servername !== undefined && { servername }),
        ...(cluster['insecure-skip-tls-verify'] && { rejectUnauthorized: false }),
      },
    };
  } catch (error) {
    throw new CredentialsError(`Cannot get credentials for the API server: ${withoutContent(error)}`);
  }
}

function content(base64: string | undefined, file: string | undefined): Buffer | undefined {
  if (base64 !== undefined) return Buffer.from(base64, 'base64');
  return file === undefined ? undefined : readFileSync(file);
}

async function withClientNode({ cluster, user }: Kubeconfig): Promise<KubeConfig> {
  const { KubeConfig: ClientNodeConfig } = await import('./client-node-config.ts');
  const config = new ClientNodeConfig();
  const name = 'windlass';
  // client-node refuses plain HTTP unless verification is off; kubectl accepts it (`kubectl proxy`), and so does
  // Windlass.
  const skipped = cluster.server?.startsWith('http:') ? { 'insecure-skip-tls-verify': true } : {};
  config.loadFromString(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': name,
      contexts: [{ name, context: { cluster: name, user: name } }],
      clusters: [{ name, cluster: { ...cluster, ...skipped } }],
      users: [{ name, user }],
    }),
  );
  return config;
}

async function pluginAccess(config: KubeConfig): Promise<Access> {
  const options: RequestOptions = {};
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw new CredentialsError(`Cannot get credentials for the API server: ${withoutContent(error)}`);
  }

  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) headers[name.toLowerCase()] = String(value).trim();
  if (options.auth) headers.authorization = `Basic ${Buffer.from(options.auth).toString('base64')}`;

  const { ca, cert, key, servername, rejectUnauthorized } = options;
  return {
    headers,
    tls: {
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      ...(servername !== undefined && { servername }),
      ...(rejectUnauthorized !== undefined && { rejectUnauthorized }),
    },
  };
}

function sameTls(a: TlsOptions, b: TlsOptions): boolean {
  return (
    String(a.ca) === String(b.ca) &&
    String(a.cert) === String(b.cert) &&
    String(a.key) === String(b.key) &&
    a.servername === b.servername &&
    a.rejectUnauthorized === b.rejectUnauthorized
  );
}

/** Parsers quote the text that they cannot parse, which may be a token. */
function withoutContent(error: unknown): string {
  const { name, message } = error as Partial<Error>;
  if (name?.startsWith('YAML')) return 'it is not valid YAML';
  if (name === 'SyntaxError') return 'the credential plugin did not answer with JSON';
  return message?.trim().split('\n', 1)[0]?.slice(0, 300) || 'unknown reason';
}
