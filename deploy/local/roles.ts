// Windlass's own roles as parts: each in its namespaces, each with a ServiceAccount of its own.
import { join } from 'node:path';
import { findRoleBundles, makeRoleBundles, roleFile } from '../roles/bundle.ts';
import { nodeEnvironment, nodeFlags } from '../roles/entries.ts';
import { type ApiServer, call, find } from './api-server.ts';
import { writeFile } from './files.ts';
import type { Place } from './namespaces.ts';
import type { PartSpec } from './parts.ts';
import type { Progress } from './progress.ts';

export const roleNames = ['watcher', 'webhook', 'worker', 'daemon'] as const;

/** A process of Windlass. */
export interface Role {
  readonly name: (typeof roleNames)[number];
  readonly serviceAccount: string;
}

/** The roles, in no particular order: each waits for what it needs. */
export const roles = {
  watcher: { name: 'watcher', serviceAccount: 'windlass-watcher' },
  webhook: { name: 'webhook', serviceAccount: 'windlass-webhook' },
  worker: { name: 'worker', serviceAccount: 'windlass-worker' },
  daemon: { name: 'daemon', serviceAccount: 'kruise-daemon' },
} as const satisfies Record<string, Role>;

/** Where a role runs and what it connects to. */
export interface RoleSetting {
  /** From `roleBundles`. */
  readonly bundles: string;
  readonly place: Place;
  /** Written by `writeRoleAccess`. */
  readonly kubeconfig: string;
  readonly temporalAddress: string;
  /** The same for every role: their gates must match. */
  readonly featureGates: string;
  /** Serves health and metrics at this `host:port`. */
  readonly healthAddress: string;
  /** For the webhook: the host in its URL, and the namespace of its certificates. */
  readonly webhook?: {
    readonly host: string;
    readonly port: number;
    /** The CA of its clients, a PEM file. Absent: clients are not authenticated. */
    readonly clientCaFile?: string;
  };
  /** For the daemon. */
  readonly node?: { readonly name: string; readonly socketFolder: string; readonly socketFile?: string };
}

/** The namespace in which Windlass itself runs. */
export const systemNamespace = 'kruise-system';

/** The folder with the bundled roles of the current sources; creates it if it is missing. */
export async function roleBundles(progress: Progress): Promise<string> {
  return findRoleBundles() ?? (await progress.step("Bundles of Windlass's roles", () => makeRoleBundles()));
}

/** The command line that runs a bundled role; its flags are appended. */
export function roleCommand(role: Role, bundles: string): readonly string[] {
  return [process.execPath, ...nodeFlags, roleFile(bundles, role.name)];
}

/** The part that runs a role; the daemon's is named after its node. */
export function rolePart(role: Role, setting: RoleSetting): PartSpec {
  const { bundles, healthAddress, webhook, node } = setting;
  return {
    name: node ? `daemon-${node.name}` : role.name,
    place: setting.place,
    argv: [
      ...roleCommand(role, bundles),
      `--kubeconfig=${setting.kubeconfig}`,
      ...(role.name === 'webhook' ? [] : [`--temporal-address=${setting.temporalAddress}`]),
      `--feature-gates=${setting.featureGates}`,
      ...(role.name === 'daemon'
        ? [`--addr=${healthAddress}`]
        : [`--health-probe-addr=${healthAddress}`, `--metrics-addr=${healthAddress}`]),
      ...(webhook ? [`--webhook-host=${webhook.host}`, `--webhook-port=${webhook.port}`] : []),
      ...(webhook?.clientCaFile ? [`--client-ca=${webhook.clientCaFile}`] : []),
      // Nodes come with the cluster here, and its user's first ImagePullJob right after them.
      ...(role.name === 'watcher' ? ['--nodeimage-creation-delay=1s'] : []),
      ...(node ? [`--node-name=${node.name}`, `--socket-location=${node.socketFolder}`] : []),
      ...(node?.socketFile ? [`--socket-file=${node.socketFile}`] : []),
    ],
    env: nodeEnvironment,
    ready: { kind: 'http', url: `http://${healthAddress}/readyz` },
  };
}

/** Whether the cluster has the ServiceAccount of a role after `applyManifests`. */
export async function canRun(api: ApiServer, role: Role): Promise<boolean> {
  return (
    (await find(api, `/api/v1/namespaces/${systemNamespace}/serviceaccounts/${role.serviceAccount}`)) !== undefined
  );
}

/** Issues a token for the role, bound to the node if one is given, and writes a kubeconfig with it. */
export async function writeRoleAccess(
  api: ApiServer,
  role: Role,
  folder: string,
  node: { readonly name: string } | undefined,
  writeConfig: (file: string, user: string, tokenFile: string) => void,
): Promise<string> {
  const base = join(folder, node ? `${role.name}-${node.name}` : role.name);
  const tokenFile = `${base}.token`;
  writeFile(tokenFile, await issueToken(api, role, node));
  writeConfig(`${base}.kubeconfig`, role.serviceAccount, tokenFile);
  return `${base}.kubeconfig`;
}

async function issueToken(api: ApiServer, role: Role, node: { readonly name: string } | undefined): Promise<string> {
  const bound = node
    ? await call<{ readonly metadata: { readonly uid: string } }>(api, 'GET', `/api/v1/nodes/${node.name}`)
    : undefined;
  const answer = await call<{ readonly status: { readonly token: string } }>(
    api,
    'POST',
    `/api/v1/namespaces/${systemNamespace}/serviceaccounts/${role.serviceAccount}/token`,
    {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {
        expirationSeconds: tokenSeconds,
        ...(node && bound
          ? { boundObjectRef: { apiVersion: 'v1', kind: 'Node', name: node.name, uid: bound.metadata.uid } }
          : {}),
      },
    },
  );
  return answer.status.token;
}

/** Each `up` issues new tokens; a cluster that is up for longer than this needs another `up` in between. */
const tokenSeconds = 90 * 24 * 3600;
