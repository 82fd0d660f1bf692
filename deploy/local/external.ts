// `npm run up -- --external`: Windlass's processes on this machine, with an existing cluster.
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { Agent } from 'undici';
import { loadCredentials } from '../../kube/credentials.ts';
import type { ApiServer } from './api-server.ts';
import { temporalOnMachine } from './control-plane.ts';
import { instanceFeatureGates } from './feature-gates.ts';
import { readJson, writeJson } from './files.ts';
import type { Instance } from './instance.ts';
import { writeKubeconfigFile } from './kubeconfigs.ts';
import { applyManifests } from './manifests.ts';
import { ensurePart } from './parts.ts';
import type { Progress } from './progress.ts';
import { canRun, type Role, roleBundles, rolePart, roles, writeRoleAccess } from './roles.ts';
import { run } from './run.ts';
import { toolPath } from './tools.ts';

/** An existing cluster, and how Windlass connects to it. */
export interface ExternalOptions {
  /** The administrator's kubeconfig; its current context is used. */
  readonly kubeconfig: string;
  /** Absent: a Temporal of our own on this machine. */
  readonly temporalAddress?: string;
  /** The host at which the API server reaches this machine. Absent: the address of the route to it. */
  readonly webhookHost?: string;
  /** For every role, in addition to those of the local platform. Absent: those of the last `up`. */
  readonly featureGates?: string;
  /** Absent: no daemon. */
  readonly daemon?: { readonly node: string; readonly criSocket: string };
}

/** The data of an instance without its own cluster, for `status` and `down`. */
export interface ExternalRecord {
  readonly kubeconfig: string;
  readonly apiserver: string;
  readonly temporal: string;
}

/** The record of an external instance; `undefined` for one with a cluster of its own. */
export function externalRecord(instance: Instance): ExternalRecord | undefined {
  return readJson<ExternalRecord>(recordFile(instance));
}

/** Applies manifests to the cluster and starts every role that can run. */
export async function startExternal(instance: Instance, options: ExternalOptions, progress: Progress): Promise<void> {
  const cluster = await openCluster(options.kubeconfig);
  try {
    const temporal = options.temporalAddress ?? `127.0.0.1:${instance.ports.temporal}`;
    writeJson(recordFile(instance), { kubeconfig: options.kubeconfig, apiserver: cluster.api.url, temporal });
    const host = options.webhookHost ?? (await addressToward(new URL(cluster.api.url)));
    const { role: rolePorts } = instance.ports;
    const [bundles] = await Promise.all([
      roleBundles(progress),
      progress.step(`Manifests on ${cluster.api.url}`, () =>
        applyManifests({
          api: cluster.api,
          kubeconfig: options.kubeconfig,
          webhookUrl: `https://${host}:${rolePorts.admission}`,
          cacheFolder: join(instance.folder, 'control-plane/kubectl'),
          featureGates: instanceFeatureGates(instance),
        }),
      ),
      options.temporalAddress
        ? undefined
        : progress.step('Temporal', () => ensurePart(instance, temporalOnMachine(instance))),
    ]);
    await Promise.all(
      Object.values(roles).map(async (role) => {
        const node = role === roles.daemon ? options.daemon : undefined;
        if (role === roles.daemon && !node) return;
        if (!(await canRun(cluster.api, role))) {
          progress.say(`Skipped: ${role.name} (ServiceAccount ${role.serviceAccount} does not exist)`);
          return;
        }
        await progress.step(`Windlass ${role.name}`, () =>
          startRole({ instance, cluster, bundles, role, temporal, host, daemon: node }),
        );
      }),
    );
  } finally {
    await cluster.api.dispatcher.destroy();
  }
}

/** Deletes the webhook registrations, whose processes no longer run. CRDs and objects stay. */
export async function stopExternal(instance: Instance): Promise<void> {
  const record = externalRecord(instance);
  if (!record) return;
  const kinds = ['mutatingwebhookconfiguration', 'validatingwebhookconfiguration'];
  const names = ['kruise-mutating-webhook-configuration', 'kruise-validating-webhook-configuration'];
  for (const [index, kind] of kinds.entries()) {
    const args = ['delete', '--ignore-not-found', '--request-timeout=20s', kind, names[index] ?? ''];
    // If the cluster no longer exists, there is nothing to delete.
    await run(toolPath('kubectl'), args, { env: { KUBECONFIG: record.kubeconfig } }).catch(() => undefined);
  }
}

interface Cluster {
  readonly api: ApiServer;
  readonly certificateAuthorityData: string | undefined;
}

async function startRole({
  instance,
  cluster,
  bundles,
  role,
  temporal,
  host,
  daemon,
}: {
  readonly instance: Instance;
  readonly cluster: Cluster;
  readonly bundles: string;
  readonly role: Role;
  readonly temporal: string;
  readonly host: string;
  readonly daemon: ExternalOptions['daemon'];
}): Promise<void> {
  const folder = join(instance.folder, 'roles');
  const node = daemon && { name: daemon.node };
  const kubeconfig = await writeRoleAccess(cluster.api, role, folder, node, (file, user, tokenFile) =>
    writeKubeconfigFile(file, {
      server: cluster.api.url,
      certificateAuthorityData: cluster.certificateAuthorityData,
      context: 'external',
      user,
      identity: { tokenFile },
    }),
  );
  const { role: ports } = instance.ports;
  const part = rolePart(role, {
    bundles,
    place: 'machine',
    kubeconfig,
    temporalAddress: temporal,
    featureGates: instanceFeatureGates(instance),
    healthAddress: `127.0.0.1:${ports[role.name]}`,
    ...(role === roles.webhook ? { webhook: { host, port: ports.admission } } : {}),
    ...(daemon
      ? {
          node: { name: daemon.node, socketFolder: dirname(daemon.criSocket), socketFile: basename(daemon.criSocket) },
        }
      : {}),
  });
  await ensurePart(instance, part);
}

async function openCluster(kubeconfig: string): Promise<Cluster> {
  const credentials = loadCredentials(kubeconfig);
  const { tls, headers } = await credentials.current();
  return {
    api: {
      url: credentials.server.href.replace(/\/$/, ''),
      dispatcher: new Agent({ connections: 4, connect: { ...tls, timeout: 30_000 } }),
      headers,
    },
    certificateAuthorityData: Buffer.isBuffer(tls.ca) ? tls.ca.toString('base64') : undefined,
  };
}

/** The local address of connections to a server; connecting a datagram socket sends nothing. */
async function addressToward(server: URL): Promise<string> {
  const host = server.hostname.replace(/^\[|\]$/g, '');
  const { address, family } = isIP(host) ? { address: host, family: isIP(host) } : await lookup(host);
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.connect(Number(server.port || 443), address, resolve);
    });
    return socket.address().address;
  } finally {
    socket.close();
  }
}

function recordFile(instance: Instance): string {
  return join(instance.folder, 'external.json');
}
