import { readFileSync } from 'node:fs';
import type { RequestOptions } from 'node:https';
import { delimiter, dirname, resolve } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { KubeConfig } from '@kubernetes/client-node';
import { parse } from 'yaml';

/** What one request needs in order to be let in. */
export interface Access {
  readonly headers: Readonly<Record<string, string>>;
  /** The same object for as long as nothing in it has changed, so that connections can be kept. */
  readonly tls: TlsOptions;
}

export type TlsOptions = Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>;

/** Where the API server is, and what it wants to see. */
export interface Credentials {
  readonly server: URL;
  /** What is valid now: token files are read again as they change, exec plugins run again when their token expires. */
  current(): Promise<Access>;
  /** The server refused `stale`: the next call of `current` reads and runs everything anew. */
  renew(stale: Access): void;
}

/** The kubeconfig, a file in it, or a plugin that it names cannot be used. The message never quotes their content. */
export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
}

// The kubelet replaces a token when 80 % of its life is over, at the earliest after 8 minutes; client-node reads token
// files once a minute. In between, reading the certificates for each of hundreds of calls a second would be waste.
const reuseMs = 10_000;

/**
 * Credentials from this kubeconfig (several, joined as in KUBECONFIG, are merged), or from client-node's default chain:
 * KUBECONFIG, ~/.kube/config, the service account of the pod. Throws a CredentialsError when there are none.
 */
export function loadCredentials(
  kubeconfig: string | undefined,
  now: () => number = () => performance.now(),
): Credentials {
  let config: KubeConfig | undefined = loadConfig(kubeconfig);
  const server = serverOf(config);
  let access: Access | undefined;
  let readAt = 0;
  let reading: Promise<Access> | undefined;

  const read = async (): Promise<Access> => {
    config ??= loadConfig(kubeconfig);
    const next = await accessOf(config);
    access = { headers: next.headers, tls: access && sameTls(access.tls, next.tls) ? access.tls : next.tls };
    readAt = now();
    return access;
  };

  return {
    server,
    current: () => {
      if (access && config && now() - readAt < reuseMs) return Promise.resolve(access);
      reading ??= read().finally(() => {
        reading = undefined;
      });
      return reading;
    },
    renew: (stale) => {
      // Of many calls that were refused together, the first one renews for all.
      if (stale === access) config = undefined;
    },
  };
}

function loadConfig(kubeconfig: string | undefined): KubeConfig {
  const config = new KubeConfig();
  try {
    if (kubeconfig === undefined) config.loadFromDefault();
    else loadFiles(config, kubeconfig.split(delimiter).filter(Boolean));
  } catch (error) {
    const which = kubeconfig === undefined ? '' : ` "${kubeconfig}"`;
    throw new CredentialsError(`Cannot load the kubeconfig${which}: ${withoutContent(error)}`);
  }

  const cluster = config.getCurrentCluster();
  if (!cluster || !config.getCurrentUser()) {
    const context = config.getCurrentContext() || '';
    throw new CredentialsError(`Cannot use the kubeconfig: its current context "${context}" names no cluster and user`);
  }
  // client-node's last resort is an address that nobody serves; it is never what was meant.
  if (cluster.name === 'cluster' && cluster.server === 'http://localhost:8080') {
    throw new CredentialsError('Cannot find the API server: give a kubeconfig, or run in a pod with a service account');
  }
  return config;
}

/** Several files are merged as KUBECONFIG says: the first one's current context counts. */
function loadFiles(config: KubeConfig, files: readonly string[]): void {
  for (const file of files) {
    const one = new KubeConfig();
    one.loadFromFile(file);
    config.mergeConfig(one, Boolean(config.getCurrentContext()));
  }
  // client-node knows `tokenFile` only as the provider that it uses inside a pod.
  const tokenFiles = new Map(files.flatMap((file) => tokenFilesIn(file)));
  config.users = config.users.map((user) => {
    const tokenFile = tokenFiles.get(user.name);
    return tokenFile ? { ...user, authProvider: { name: 'tokenFile', config: { tokenFile } } } : user;
  });
}

function tokenFilesIn(file: string): [user: string, tokenFile: string][] {
  const content = parse(readFileSync(file, 'utf8')) as {
    readonly users?: readonly { readonly name: string; readonly user?: { readonly tokenFile?: string } }[];
  } | null;
  return (content?.users ?? []).flatMap(({ name, user }) =>
    user?.tokenFile ? [[name, resolve(dirname(file), user.tokenFile)]] : [],
  );
}

function serverOf(config: KubeConfig): URL {
  const server = config.getCurrentCluster()?.server ?? '';
  if (!URL.canParse(server)) throw new CredentialsError(`Cannot use the kubeconfig: server "${server}" is not a URL`);
  return new URL(server);
}

async function accessOf(config: KubeConfig): Promise<Access> {
  const cluster = config.getCurrentCluster();
  const options: RequestOptions = {};
  try {
    // client-node refuses plain HTTP unless verification is off; kubectl does not (`kubectl proxy`), nor do we.
    if (cluster?.server.startsWith('http:')) Object.assign(cluster, { skipTLSVerify: true });
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

/** Parsers like to quote what they could not read; here that would be a token. */
function withoutContent(error: unknown): string {
  const { name, message } = error as Partial<Error>;
  if (name?.startsWith('YAML')) return 'it is not valid YAML';
  if (name === 'SyntaxError') return 'the credential plugin did not answer with JSON';
  return message?.trim().split('\n', 1)[0]?.slice(0, 300) || 'unknown reason';
}
