import { isIPv6 } from 'node:net';
import type { Operation } from 'rfc6902';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { gatedKinds, type ProtectedKind } from '../../api/deletion-protection.ts';
import { deletionWebhook, formerPodCondition, type MatchCondition, podWebhook } from '../../api/webhooks.ts';
import type { KubeClient } from '../../kube/client.ts';

/**
 * The registrations of admission and conversion in the API server: two webhook configurations and the CRDs. They are
 * installed by manifests; Windlass writes only the address and the CA bundle (`clientConfig`), and the webhooks that depend
 * on a feature gate. All other fields belong to the installer.
 */

/** How the API server reaches admission. */
export type AdmissionAddress =
  | { readonly kind: 'url'; readonly host: string; readonly port: number }
  | { readonly kind: 'service'; readonly name: string; readonly namespace: string };

export interface ClientConfig {
  readonly url?: string;
  readonly service?: {
    readonly name: string;
    readonly namespace: string;
    readonly path?: string;
    readonly port?: number;
  };
  /** PEM in base64. */
  readonly caBundle?: string;
}

/** A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration. */
export interface WebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly {
    readonly name: string;
    readonly clientConfig: ClientConfig;
    readonly matchConditions?: readonly MatchCondition[];
  }[];
}

export interface CustomResourceDefinition extends KubeObject {
  readonly spec: {
    readonly conversion?: { readonly strategy: string; readonly webhook?: { readonly clientConfig?: ClientConfig } };
  };
}

/** The desired content of the registrations. */
export interface RegistrationWish {
  readonly address: AdmissionAddress;
  /** PEM of every CA to trust. */
  readonly bundle: string;
  /** Gate ResourcesDeletionProtection: whether Services and Ingresses have webhooks. Absent: no. */
  readonly deletionProtection?: boolean;
}

/** The JSON patch for a webhook configuration; empty when it is up to date. */
export function configurationPatch(configuration: WebhookConfiguration, wish: RegistrationWish): Operation[] {
  const webhooks = configuration.webhooks ?? [];
  const removed = wish.deletionProtection ? [] : webhooks.flatMap(({ name }, index) => (isGated(name) ? [index] : []));
  const changes = webhooks.flatMap((webhook, index) => {
    if (removed.includes(index)) return [];
    const path = `/webhooks/${index}`;
    const operations: Operation[] = [];
    const clientConfig = wantedClientConfig(webhook.clientConfig, wish);
    if (clientConfig !== undefined) {
      operations.push({ op: 'replace', path: `${path}/clientConfig`, value: clientConfig });
    }
    if (webhook.name === podWebhook.name) operations.push(...podConditionPatch(webhook.matchConditions, path));
    // Webhooks are addressed by index: the test of the name ensures that the index still is that of the webhook which
    // was read.
    return operations.length === 0 ? [] : [nameTest(webhook.name, index), ...operations];
  });
  const added = missingWebhooks(configuration, wish).map((kind): Operation => {
    const clientConfig = wantedClientConfig({ service: { name: '', namespace: '', path: kind.path } }, wish);
    return { op: 'add', path: '/webhooks/-', value: { ...deletionWebhook(kind), clientConfig } };
  });
  const isFirst = configuration.webhooks === undefined && added.length > 0;
  return [
    ...changes,
    ...(isFirst ? [{ op: 'add', path: '/webhooks', value: [] } as const] : []),
    ...added,
    // From the end, so that the other indexes stay valid.
    ...removed.toReversed().flatMap((index): Operation[] => {
      return [nameTest(webhooks[index]?.name, index), { op: 'remove', path: `/webhooks/${index}` }];
    }),
  ];
}

function nameTest(name: string | undefined, index: number): Operation {
  return { op: 'test', path: `/webhooks/${index}/name`, value: name };
}

function isGated(name: string): boolean {
  return gatedKinds.some(({ webhook }) => webhook === name);
}

/** The kinds whose gate is on and whose webhook is missing. */
function missingWebhooks(
  { kind, webhooks = [] }: WebhookConfiguration,
  { deletionProtection }: RegistrationWish,
): readonly ProtectedKind[] {
  if (!deletionProtection || kind !== kubeResource.validatingWebhookConfigurations.kind) return [];
  return gatedKinds.filter(({ webhook }) => !webhooks.some(({ name }) => name === webhook));
}

/** The JSON patch for a CRD; empty when it is up to date, or when its conversion is not ours. */
export function definitionPatch(definition: CustomResourceDefinition, wish: RegistrationWish): Operation[] {
  const conversion = definition.spec.conversion;
  if (conversion?.strategy !== 'Webhook') return [];
  const clientConfig = wantedClientConfig(conversion.webhook?.clientConfig ?? {}, wish, '/convert');
  if (clientConfig === undefined) return [];
  return [
    { op: 'test', path: '/spec/conversion/strategy', value: 'Webhook' },
    { op: 'add', path: '/spec/conversion/webhook/clientConfig', value: clientConfig },
  ];
}

/** The paths in the registrations, so that one that this version does not serve can be reported. */
export function registeredPaths(configuration: WebhookConfiguration): readonly string[] {
  return (configuration.webhooks ?? []).map(({ clientConfig }) => pathOf(clientConfig) ?? '/');
}

/** The PEM of the CAs that a registration trusts now, one for each of its webhooks. */
export function trustedBundles(registration: WebhookConfiguration | CustomResourceDefinition): readonly string[] {
  const configs = isDefinition(registration)
    ? registration.spec.conversion?.strategy === 'Webhook'
      ? [registration.spec.conversion.webhook?.clientConfig]
      : []
    : (registration.webhooks ?? []).map(({ clientConfig }) => clientConfig);
  return configs.map((config) => Buffer.from(config?.caBundle ?? '', 'base64').toString());
}

/** The desired client configuration, with its present path; undefined when it is up to date. */
function wantedClientConfig(
  present: ClientConfig,
  { address, bundle }: RegistrationWish,
  defaultPath = '/',
): ClientConfig | undefined {
  const path = pathOf(present) ?? defaultPath;
  const caBundle = Buffer.from(bundle).toString('base64');
  if (address.kind === 'url') {
    const host = isIPv6(address.host) ? `[${address.host}]` : address.host;
    const url = `https://${host}:${address.port}${path}`;
    if (present.caBundle === caBundle && present.url === url && present.service === undefined) return undefined;
    return { url, caBundle };
  }
  const { name, namespace } = address;
  const service = present.service;
  const reached = service?.name === name && service.namespace === namespace && service.path === path;
  if (present.caBundle === caBundle && present.url === undefined && reached) return undefined;
  return { service: { port: 443, ...service, name, namespace, path }, caBundle };
}

function pathOf({ url, service }: ClientConfig): string | undefined {
  if (service?.path !== undefined) return service.path;
  return url !== undefined && URL.canParse(url) ? new URL(url).pathname : undefined;
}

/** Removes the condition by which earlier versions limited the pod webhook. Conditions of others stay. */
function podConditionPatch(conditions: readonly MatchCondition[] | undefined, path: string): readonly Operation[] {
  const { name, beginning } = formerPodCondition;
  const index = conditions?.findIndex((one) => one.name === name && one.expression.startsWith(beginning)) ?? -1;
  if (index < 0) return [];
  const place = `${path}/matchConditions/${index}`;
  return [
    { op: 'test', path: `${place}/name`, value: name },
    { op: 'remove', path: place },
  ];
}

/** One registration, and its last known state. */
export interface Registration {
  readonly resource: Resource;
  readonly name: string;
  /** Nothing works without it; a CRD may be installed later. */
  readonly required: boolean;
  readonly seen: () => WebhookConfiguration | CustomResourceDefinition | undefined;
}

/** The result of a pass over the registrations. */
export interface RegistrationPass {
  /** How many had to be written. */
  readonly written: number;
  /** Every path in the registrations. */
  readonly paths: readonly string[];
}

/**
 * Updates every registration, or with `mayWrite` false checks that it is up to date. Tries all of them, then throws
 * with all errors; when it returns, the API server has confirmed of each that it trusts the bundle.
 */
export async function syncRegistrations(input: {
  readonly registrations: readonly Registration[];
  readonly wish: RegistrationWish;
  readonly mayWrite: boolean;
  readonly client: Pick<KubeClient, 'patch'>;
  readonly signal: AbortSignal;
}): Promise<RegistrationPass> {
  const { registrations, wish, mayWrite, client, signal } = input;
  const problems: string[] = [];
  const paths: string[] = [];
  let written = 0;
  for (const { resource, name, required, seen } of registrations) {
    const object = seen();
    const what = `${resource.kind} "${name}"`;
    if (object === undefined) {
      if (required) problems.push(`${what} is missing`);
      continue;
    }
    if (!isDefinition(object)) paths.push(...registeredPaths(object));
    if (!mayWrite) {
      const trusted = trustedBundles(object).every((bundle) => bundle.trim() === wish.bundle.trim());
      if (!trusted) problems.push(`caBundle of ${what} does not match the external caBundle`);
      const missing = isDefinition(object) ? [] : missingWebhooks(object, wish).map(({ webhook }) => webhook);
      if (missing.length > 0) {
        problems.push(`${what} lacks ${missing.join(' and ')}, which gate ResourcesDeletionProtection needs`);
      }
      continue;
    }
    const patch = isDefinition(object) ? definitionPatch(object, wish) : configurationPatch(object, wish);
    if (patch.length === 0) continue;
    try {
      await client.patch(resource, { name }, 'json', patch, { fieldManager: 'windlass-webhook', signal });
      written += 1;
    } catch (error) {
      problems.push(`${what} cannot be written: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (problems.length > 0) throw new Error(`Cannot write the webhook configurations: ${problems.join('; ')}`);
  return { written, paths };
}

function isDefinition(object: WebhookConfiguration | CustomResourceDefinition): object is CustomResourceDefinition {
  return 'spec' in object;
}
