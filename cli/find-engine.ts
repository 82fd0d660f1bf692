import { isIP } from 'node:net';
import type { Client } from '@temporalio/client';
import { installation, kubeResource } from '../api/core/well-known.ts';
import type { TemporalPlace } from '../api/engine/temporal-place.ts';
import type { Cluster } from './cluster.ts';
import { describeFailure } from './failure.ts';
import { type OperationEngine, operationEngine } from './operation.ts';
import type { EngineFlags, FoundEngine } from './program.ts';
import { published, publishedRef } from './published.ts';

/** A Service of the cluster. */
export interface ServiceRef {
  readonly namespace: string;
  readonly name: string;
}

/** A local port that is forwarded to a Service until it is closed. */
export interface ForwardedPort {
  readonly port: number;
  close(): void;
}

export interface EngineSources {
  /** As given on the command line. */
  readonly flags: EngineFlags;
  /** Only its WINDLASS_TEMPORAL_… and KUBERNETES_SERVICE_HOST are read. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cluster: Cluster;
  readonly forward: (service: ServiceRef, port: number) => Promise<ForwardedPort>;
  /** Reads the options --temporal-… like Windlass's own processes; throws for invalid ones. */
  readonly parse: (args: readonly string[], env: Readonly<Record<string, string | undefined>>) => TemporalPlace;
  readonly connect: (config: TemporalPlace) => Promise<Client>;
}

const byHand = 'set the address of Temporal by --temporal-address or WINDLASS_TEMPORAL_ADDRESS';

/**
 * Finds Temporal: from the flags or the environment, else from the cluster. A Service of the cluster is reached by port
 * forwarding with the user's own rights. Throws only for invalid flags.
 */
export async function findEngine(sources: EngineSources): Promise<FoundEngine> {
  const { flags, env, parse, connect } = sources;
  const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
  const own = Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith('WINDLASS_TEMPORAL_')));
  if (flags['temporal-address'] !== undefined || own.WINDLASS_TEMPORAL_ADDRESS) {
    const temporal = parse(args, own);
    return { engine: { ...engineOf(await connect(temporal), temporal), isGiven: true } };
  }
  const published = await publishedTemporal(sources.cluster);
  if ('missing' in published) return published;

  const defaults = {
    WINDLASS_TEMPORAL_ADDRESS: published.address,
    WINDLASS_TEMPORAL_NAMESPACE: published.namespace,
    WINDLASS_TEMPORAL_TLS: String(published.tls),
    WINDLASS_TEMPORAL_TLS_SERVER_NAME: published.serverName,
  };
  const temporal = parse(args, { ...defaults, ...given(own) });
  const ca = temporal.tls !== undefined && temporal.tls.caFile === undefined ? published.ca : undefined;
  const config = ca === undefined ? temporal : { ...temporal, tls: { ...temporal.tls, ca } };
  return await reach(config, sources);
}

/** The Service of an in-cluster host name; undefined for any other host. `isSure`: the name can mean nothing else. */
export function serviceOf(host: string): (ServiceRef & { readonly isSure: boolean }) | undefined {
  const [name = '', namespace = installation.namespace, kind, ...zone] = host.split('.');
  if (isIP(host) !== 0 || host === 'localhost' || name === '') return undefined;
  if (kind === undefined) return { name, namespace, isSure: false };
  return kind === 'svc' && (zone.length === 0 || zone.length > 1) ? { name, namespace, isSure: true } : undefined;
}

async function reach(config: TemporalPlace, { cluster, env, forward, connect }: EngineSources): Promise<FoundEngine> {
  const { hostname, port } = new URL(`tcp://${config.address}`);
  const service = env.KUBERNETES_SERVICE_HOST ? undefined : serviceOf(hostname);
  if (service === undefined || !(service.isSure || (await isThere(cluster, service)))) {
    return { engine: engineOf(await connect(config), config) };
  }
  const { name, namespace } = service;
  try {
    const forwarded = await forward(service, Number(port));
    const tls = config.tls && { serverName: hostname, ...config.tls };
    const address = `127.0.0.1:${forwarded.port}`;
    const client = await connect({ ...config, address, ...(tls && { tls }) });
    const engine = engineOf(client, { ...config, address: `127.0.0.1:${port}` });
    return {
      engine: {
        ...engine,
        address: config.address,
        first: {
          command: `kubectl -n ${namespace} port-forward service/${name} ${port}`,
          effect: 'forwards a port to Temporal; keep it running for the commands below',
        },
        close: async () => {
          await engine.close();
          forwarded.close();
        },
      },
    };
  } catch (error) {
    const attempted = `Temporal is Service "${namespace}/${name}", and no port can be forwarded to it`;
    return { missing: `${describeFailure(error, attempted)}; ${byHand}` };
  }
}

async function publishedTemporal(cluster: Cluster) {
  try {
    return (await published(cluster)).temporal ?? { missing: byHand };
  } catch (error) {
    const { namespace, name } = publishedRef;
    const attempted = `Cannot read ConfigMap "${namespace}/${name}", which has the address of Temporal`;
    return { missing: `${describeFailure(error, attempted)}; ${byHand}` };
  }
}

/** Names with one dot may also be hosts outside the cluster. */
async function isThere({ kube }: Cluster, service: ServiceRef): Promise<boolean> {
  return await kube.get(kubeResource.services, service, { deadlineMs: 10_000 }).then(
    () => true,
    () => false,
  );
}

function engineOf(client: Client, { address, namespace }: TemporalPlace): OperationEngine {
  const flags = `--address ${address} --namespace ${namespace}`;
  return operationEngine({ client, address, flags, deadlineMs: 10_000 });
}

/** A variable that is set to "" counts as absent, as everywhere in Windlass. */
function given(env: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value));
}
