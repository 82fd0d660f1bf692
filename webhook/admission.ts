import { get } from 'node:https';
import { type AddressInfo, isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { KubeObject, Resource } from '../api/core/meta.ts';
import { installation, kubeResource } from '../api/core/well-known.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { definitionName } from '../api/schema/kind.ts';
import type { KubeClient } from '../kube/client.ts';
import { conversions } from './conversions.ts';
import type { RefusedDeletion } from './deletion-protection.ts';
import { dependantsIn } from './review/dependants.ts';
import { type FollowedMarkers, followMarkers } from './review/followed-markers.ts';
import { FollowedObjects, type FollowOptions } from './review/followed-objects.ts';
import { type FollowedSidecarSets, followSidecarSets } from './review/followed-sidecar-sets.ts';
import { keepSelection } from './review/kept-selection.ts';
import { lookUpsIn } from './review/look-ups.ts';
import { podTrialsIn } from './review/pod-trial.ts';
import type { AdmissionRequest, Refused } from './review/review.ts';
import { sidecarSetLookUpsIn } from './review/sidecar-set-look-ups.ts';
import { routesOf } from './routes.ts';
import {
  type CertificateKeeper,
  certificatePolicy,
  externalCertificates,
  ownCertificates,
} from './server/certificates.ts';
import {
  type AdmissionAddress,
  type CustomResourceDefinition,
  type Registration,
  syncRegistrations,
  type WebhookConfiguration,
} from './server/registrations.ts';
import { secretStore } from './server/secret-store.ts';
import {
  type AdmissionServer,
  type AdmissionServerOptions,
  createAdmissionServer,
  type Outcome,
  type ServerCertificate,
  type ServerLimits,
} from './server/server.ts';
import { Upkeep } from './server/upkeep.ts';

/** The admission and conversion webhooks as a whole, with all their dependencies as options. */

export interface AdmissionOptions {
  readonly client: KubeClient;
  readonly featureGates: FeatureGates;
  /** The namespace of the Secret and the Service. */
  readonly podNamespace: string;
  readonly webhook: {
    /** Absent: the API server uses the Service. An IP address is also the address to listen on. */
    readonly host?: string;
    readonly port: number;
    readonly secretName: string;
    readonly serviceName: string;
    readonly renewBeforeSeconds: number;
    readonly certificateLifetimeSeconds: number;
    readonly initializeTimeoutSeconds: number;
  };
  /**
   * PEM of the authorities of client certificates. Absent: every client is answered, so an answer contains only the UID
   * and the node of a pod.
   */
  readonly clientCa?: string;
  readonly log: Logger;
  readonly observe?: (path: string, outcome: Outcome, seconds: number) => void;
  /** Called for each deletion that protection has rejected. */
  readonly onDeletionRefused?: (refused: RefusedDeletion) => void;
  readonly limits?: Partial<ServerLimits>;
  /** Called for each watch, to report its age. */
  readonly trackReflector?: FollowOptions['trackReflector'];
  /** Milliseconds since 1970, for the validity of certificates; the machine's clock by default. */
  readonly now?: () => number;
}

export interface Admission {
  /** Resolves when the registrations are written and admission answers; rejects after a deadline. */
  readonly ready: Promise<void>;
  /** Throws unless the registrations are written and our own request to admission succeeds (FG-15). */
  checkReady(signal: AbortSignal): Promise<void>;
  /**
   * Waits for requests in flight; behind a Service it first continues for a moment, as the API server may still send
   * requests here.
   */
  stop(signal: AbortSignal): Promise<void>;
}

/** Starts to serve admission, and to maintain its certificates and registrations. */
export function startAdmission(options: AdmissionOptions): Admission {
  const { client, webhook, featureGates, log, trackReflector, now = Date.now } = options;
  const markers = featureGates.EnablePodProbeMarkerOnServerless
    ? followMarkers({ client, log, ...(trackReflector && { trackReflector }) })
    : undefined;
  const sidecars = featureGates.PodWebhook
    ? followSidecarSets({ client, log, ...(trackReflector && { trackReflector }) }, options.podNamespace)
    : undefined;
  const stopKeeping = sidecars && keepSelection({ client, sidecars, log });
  const routes = servedRoutes(options, { markers, sidecars });
  const served: { server?: AdmissionServer; address?: AddressInfo } = {};
  let stopping = false;

  const upkeep = new Upkeep({
    keeper: keeperOf(options),
    now,
    log,
    async serve(certificates) {
      if (served.server !== undefined) return served.server.use(certificates);
      const { server, address } = await serveRoutes(routes, certificates, options);
      Object.assign(served, { server, address });
    },
    async register(bundle, signal) {
      // Not for SidecarSets: the API server may be unable to list them until it knows where to have them converted.
      await objects.synced();
      const address = addressOf(options, served.address);
      const wish = { address, bundle, deletionProtection: featureGates.ResourcesDeletionProtection };
      const mayWrite = !featureGates.EnableExternalCerts;
      const pass = await syncRegistrations({ registrations, wish, mayWrite, client, signal });
      reportUnknown(pass.paths);
      return pass;
    },
  });

  const watching = { client, log, onChange: () => upkeep.wake(), ...(trackReflector && { trackReflector }) };
  const objects = new FollowedObjects(watching);
  const registrations = followRegistrations(objects);
  // Only the change itself matters; private keys do not belong in a cache.
  objects.follow<KubeObject>(
    kubeResource.secrets,
    { namespace: options.podNamespace, name: webhook.secretName },
    metadataAlone,
  );
  const reportUnknown = unknownPathReporter(routes, log);
  upkeep.start();

  const checkReady = async (signal: AbortSignal) => {
    if (stopping) throw new Error('Admission is being stopped');
    if (!upkeep.isRegistered || served.address === undefined || upkeep.served === undefined) {
      const trouble = upkeep.trouble ?? objects.trouble;
      throw new Error(trouble ?? 'Certificates and webhook configurations have not been checked yet');
    }
    await askHealth(served.address, upkeep.served.bundle, signal);
    const unread = markers?.unread ?? sidecars?.unread;
    // Behind a Service the API server has nobody to convert SidecarSets until one process is ready.
    const isAwaited = webhook.host === undefined && unread !== undefined && /conversion webhook .* failed/.test(unread);
    if (unread !== undefined && !isAwaited) throw new Error(unread);
  };

  return {
    checkReady,
    ready: untilReady(webhook.initializeTimeoutSeconds * 1000, checkReady),
    async stop(signal) {
      stopping = true;
      await Promise.all([upkeep.stop(), objects.stop(), markers?.stop(), sidecars?.stop(), stopKeeping?.()]);
      if (webhook.host === undefined) await sleep(lingerMs, undefined, { signal }).catch(() => undefined);
      await served.server?.close(signal);
    },
  };
}

/** The two webhook configurations, and the CRD of every kind that is converted. */
function followRegistrations(objects: FollowedObjects): readonly Registration[] {
  const configurations: readonly (readonly [resource: Resource, name: string])[] = [
    [kubeResource.mutatingWebhookConfigurations, installation.mutatingWebhookConfiguration],
    [kubeResource.validatingWebhookConfigurations, installation.validatingWebhookConfiguration],
  ];
  return [
    ...configurations.map(([resource, name]) => {
      const seen = objects.follow<WebhookConfiguration>(resource, { name }, withoutManagedFields);
      return { resource, name, required: true, seen };
    }),
    ...conversions.map((conversion) => {
      const resource = kubeResource.customResourceDefinitions;
      const name = definitionName(conversion.resource);
      const seen = objects.follow<CustomResourceDefinition>(resource, { name }, conversionAlone);
      return { resource, name, required: false, seen };
    }),
  ];
}

async function serveRoutes(
  routes: AdmissionServerOptions['routes'],
  certificates: ServerCertificate,
  { limits, observe, log, clientCa, webhook: { host = '', port } }: AdmissionOptions,
): Promise<{ readonly server: AdmissionServer; readonly address: AddressInfo }> {
  const extras = {
    ...(limits && { limits }),
    ...(observe && { observe }),
    ...(clientCa !== undefined && { clientCa }),
  };
  const server = createAdmissionServer(certificates, { routes, log, ...extras });
  const address = await server.listen({ port, ...(isIP(host) !== 0 && { host }) });
  log.info({ address }, 'Admission is listening');
  return { server, address };
}

/** Logs once each registered path that would be answered by 404. */
function unknownPathReporter(
  routes: AdmissionServerOptions['routes'],
  log: Logger,
): (paths: readonly string[]) => void {
  const known = new Set(Object.keys(routes));
  return (paths) => {
    for (const path of paths) {
      if (known.has(path)) continue;
      known.add(path);
      log.error({ path }, 'A webhook configuration names a path that this version does not serve');
    }
  };
}

/** About how long kube-proxy takes to remove an endpoint that is no longer ready. */
const lingerMs = 2_000;

function addressOf({ webhook, podNamespace }: AdmissionOptions, listening?: AddressInfo): AdmissionAddress {
  const { host, serviceName } = webhook;
  return host === undefined
    ? { kind: 'service', name: serviceName, namespace: podNamespace }
    : { kind: 'url', host, port: listening?.port ?? webhook.port };
}

function keeperOf({
  client,
  webhook,
  podNamespace,
  featureGates,
  log,
  now = Date.now,
}: AdmissionOptions): CertificateKeeper {
  const store = secretStore(client, { namespace: podNamespace, name: webhook.secretName });
  if (featureGates.EnableExternalCerts) return externalCertificates({ store });
  const service = `${webhook.serviceName}.${podNamespace}.svc`;
  const hosts = [service, ...(webhook.host === undefined ? [] : [webhook.host]), 'localhost', '127.0.0.1'];
  return ownCertificates({
    store,
    policy: certificatePolicy({
      hosts: [...new Set(hosts)],
      lifetimeSeconds: webhook.certificateLifetimeSeconds,
      renewBeforeSeconds: webhook.renewBeforeSeconds,
    }),
    now,
    onStep: ({ kind, because }) => log.info({ step: kind, because }, 'Certificates changed'),
  });
}

/** What reviews read from watches. */
interface Followed {
  readonly markers: FollowedMarkers | undefined;
  readonly sidecars: FollowedSidecarSets | undefined;
}

/** Dependencies of reviews, and what is logged about them. */
function servedRoutes(
  { client, featureGates, log, clientCa, podNamespace, onDeletionRefused }: AdmissionOptions,
  { markers, sidecars }: Followed,
): AdmissionServerOptions['routes'] {
  const seen = ({ kind, namespace, name, operation }: AdmissionRequest) => ({
    kind: kind.kind,
    namespace,
    name,
    operation,
  });
  const onRefused = (refused: RefusedDeletion) => {
    const { kind, ...rest } = refused;
    log.info({ event: 'DeletionProtection', kind: kind.kind, ...rest }, 'Deletion refused');
    onDeletionRefused?.(refused);
  };
  return routesOf(
    {
      gates: featureGates,
      lookUps: lookUpsIn(client),
      sidecarSets: sidecarSetLookUpsIn(client, podNamespace),
      trials: podTrialsIn(client),
      trust: { knowsCaller: clientCa !== undefined, suiteNamespace: podNamespace },
      protection: { gates: featureGates, dependants: dependantsIn(client), onRefused },
      ...(markers && { markers: markers.inNamespace }),
      ...(sidecars && { sidecars }),
    },
    {
      onRefusal: (request: AdmissionRequest, refused: Refused) => {
        const fields = refused.errors.slice(0, 10).map(({ field }) => field);
        log.info({ ...seen(request), code: refused.code, fields }, 'Refused');
      },
      onFailure: (request: AdmissionRequest, err: unknown) =>
        log.error({ ...seen(request), err }, 'Admission review failed'),
      onConversionWarning: (warning) => log.warn({ warning }, 'Conversion'),
    },
  );
}

/** Repeats the check until it passes; rejects with its last error after this time. */
async function untilReady(ms: number, check: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const endsAtMs = performance.now() + ms;
  for (;;) {
    try {
      return await check(AbortSignal.timeout(checkMs));
    } catch (error) {
      if (performance.now() >= endsAtMs) {
        const why = error instanceof Error ? error.message : String(error);
        throw new Error(`Admission is not ready after ${ms / 1000}s: ${why}`);
      }
      await sleep(checkPauseMs);
    }
  }
}

const checkMs = 5_000;
const checkPauseMs = 100;

/** Calls our own /healthz the way the API server would, trusting only the CA bundle that the API server was given. */
export async function askHealth(address: AddressInfo, bundle: string, signal: AbortSignal): Promise<void> {
  const everywhere = address.address === '::' || address.address === '0.0.0.0';
  const host = everywhere ? 'localhost' : address.address;
  await new Promise<void>((resolve, reject) => {
    const options = { host, port: address.port, path: '/healthz', ca: bundle, servername: 'localhost', agent: false };
    const request = get({ ...options, signal }, (response) => {
      response.resume();
      if (response.statusCode === 200) resolve();
      else reject(new Error(`Admission answers ${response.statusCode} at its own /healthz`));
    });
    request.on('error', (error) =>
      reject(new Error(`Admission does not answer at its own /healthz: ${error.message}`)),
    );
  });
}

function withoutManagedFields<T extends KubeObject>(object: T): T {
  return { ...object, metadata: { ...object.metadata, managedFields: undefined, annotations: undefined } };
}

/** Schemas are large, and are not read here. */
function conversionAlone(definition: CustomResourceDefinition): CustomResourceDefinition {
  const { conversion } = definition.spec;
  return { ...metadataAlone(definition), spec: { ...(conversion && { conversion }) } };
}

function metadataAlone<T extends KubeObject>({
  apiVersion,
  kind,
  metadata,
}: T): Pick<T, 'apiVersion' | 'kind' | 'metadata'> {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metadata;
  return {
    apiVersion,
    kind,
    metadata: { name, ...(namespace !== undefined && { namespace }), uid, resourceVersion, creationTimestamp },
  };
}
