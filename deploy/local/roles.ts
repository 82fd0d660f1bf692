// Windlass's own roles as parts: each in the namespaces where it belongs, each with a ServiceAccount of its own.
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

/** The roles, in no order: each waits for what it needs. */
export const roles = {
  watcher: { name: 'watcher', serviceAccount: 'windlass-watcher' },
  webhook: { name: 'webhook', serviceAccount: 'windlass-webhook' },
  worker: { name: 'worker', serviceAccount: 'windlass-worker' },
  daemon: { name: 'daemon', serviceAccount: 'kruise-daemon' },
} as const satisfies Record<string, Role>;

/** Where a role runs and what it talks to. */
export interface RoleSetting {
  /** From `roleBundles`. */
  readonly bundles: string;
  readonly place: Place;
  /** Written by `writeRoleAccess`. */
  readonly kubeconfig: string;
  readonly temporalAddress: string;
  /** The same for every role: what they do depends on each other. */
  readonly featureGates: string;
  /** Serves health and metrics at this `host:port`. */
  readonly healthAddress: string;
  /** For the webhook: the host in its URL, and where it keeps its certificates. */
  readonly webhook?: {
    readonly host: string;
    readonly port: number;
    /** Who may call it: PEM file. Absent: it does not know its callers. */
    readonly clientCaFile?: string;
  };
  /** For the daemon. */
  readonly node?: { readonly name: string; readonly socketFolder: string; readonly socketFile?: string };
}

/** Namespace of Windlass itself. */
export const systemNamespace = 'kruise-system';

/** The folder with the roles as they are deployed, from the sources as they are now; makes it where it is missing. */
export async function roleBundles(progress: Progress): Promise<string> {
  return findRoleBundles() ?? (await progress.step("Bundles of Windlass's roles", () => makeRoleBundles()));
}

/** How Node runs a role from such a folder; its own flags come behind. */
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
      ...(node ? [`--node-name=${node.name}`, `--socket-location=${node.socketFolder}`] : []),
      ...(node?.socketFile ? [`--socket-file=${node.socketFile}`] : []),
    ],
    env: nodeEnvironment,
    ready: { kind: 'http', url: `http://${healthAddress}/readyz` },
  };
}

/** Whether a role is known to the cluster that `applyManifests` was given. */
export async function canRun(api: ApiServer, role: Role): Promise<boolean> {
  return (
    (await find(api, `/api/v1/namespaces/${systemNamespace}/serviceaccounts/${role.serviceAccount}`)) !== undefined
  );
}

/** Issues a token for the role, bound to the node when one is given, and writes it with the kubeconfig around it. */
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

/** Each `up` issues new ones; a cluster that is up for longer than this needs one `up` in between. */
const tokenSeconds = 90 * 24 * 3600;
