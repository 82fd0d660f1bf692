import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';

/** The cluster and the user of a context, as written in the kubeconfig. */
export interface Kubeconfig {
  readonly cluster: KubeconfigCluster;
  readonly user: KubeconfigUser;
  /** The default namespace of the context. */
  readonly namespace?: string;
}

/** Names of entries that replace those of the current context. */
export interface KubeconfigChoice {
  readonly context?: string | undefined;
  readonly cluster?: string | undefined;
  readonly user?: string | undefined;
}

/** Other fields are allowed. */
export interface KubeconfigCluster {
  readonly server?: string;
  readonly 'certificate-authority'?: string;
  readonly 'certificate-authority-data'?: string;
  readonly 'insecure-skip-tls-verify'?: boolean;
  readonly 'tls-server-name'?: string;
}

/** Other fields, such as `exec`, are allowed. */
export interface KubeconfigUser {
  readonly token?: string;
  readonly tokenFile?: string;
  readonly username?: string;
  readonly password?: string;
  readonly 'client-certificate'?: string;
  readonly 'client-certificate-data'?: string;
  readonly 'client-key'?: string;
  readonly 'client-key-data'?: string;
}

/** The kubeconfig cannot be used. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError';
}

interface Named {
  readonly name?: string;
}

interface KubeconfigContext {
  readonly cluster?: string;
  readonly user?: string;
  readonly namespace?: string;
}

interface File {
  readonly 'current-context'?: string;
  readonly contexts?: readonly (Named & { readonly context?: KubeconfigContext })[];
  readonly clusters?: readonly (Named & { readonly cluster?: KubeconfigCluster })[];
  readonly users?: readonly (Named & { readonly user?: KubeconfigUser })[];
}

/**
 * Reads and merges these files like KUBECONFIG: of entries with the same name, and of current contexts, the first one
 * wins.
 */
export function readKubeconfig(files: readonly string[], choice: KubeconfigChoice = {}): Kubeconfig {
  const parsed = files.map((file) => ({
    folder: dirname(file),
    ...((parse(readFileSync(file, 'utf8')) ?? {}) as File),
  }));
  const current = choice.context ?? parsed.map((file) => file['current-context']).find(Boolean) ?? '';
  const context = parsed.flatMap(({ contexts }) => contexts ?? []).find(({ name }) => name === current)?.context;
  if (choice.context !== undefined && context === undefined) {
    throw new KubeconfigError(`it has no context "${choice.context}"`);
  }
  const clusterName = choice.cluster ?? context?.cluster;
  const userName = choice.user ?? context?.user;
  const cluster = parsed
    .flatMap(({ clusters, folder }) => (clusters ?? []).map((entry) => ({ ...entry, folder })))
    .find(({ name }) => name === clusterName);
  const user = parsed
    .flatMap(({ users, folder }) => (users ?? []).map((entry) => ({ ...entry, folder })))
    .find(({ name }) => name === userName);
  if (choice.cluster !== undefined && !cluster) throw new KubeconfigError(`it has no cluster "${choice.cluster}"`);
  if (choice.user !== undefined && !user) throw new KubeconfigError(`it has no user "${choice.user}"`);
  if (!cluster?.cluster || !user) {
    throw new KubeconfigError(`its current context "${current}" names no cluster and user`);
  }
  return {
    cluster: absolute(cluster.cluster, ['certificate-authority'], cluster.folder),
    user: absolute(user.user ?? {}, ['client-certificate', 'client-key', 'tokenFile'], user.folder),
    ...(context?.namespace && { namespace: context.namespace }),
  };
}

/** Paths in a kubeconfig are relative to its own folder. */
function absolute<T extends object>(entry: T, fields: readonly (keyof T)[], folder: string): T {
  const paths = fields.flatMap((field) => {
    const path: unknown = entry[field];
    return typeof path === 'string' && path !== '' ? [[field, resolve(folder, path)]] : [];
  });
  return { ...entry, ...(Object.fromEntries(paths) as Partial<T>) };
}
