// Applies the manifests in `deploy/` to a cluster whose API server reaches the webhook by URL.
import { existsSync, readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { gatedKinds } from '../../api/deletion-protection.ts';
import { featureGateNames, parseFeatureGates } from '../../api/feature-gates.ts';
import { type ApiServer, call, find } from './api-server.ts';
import { filesIn } from './files.ts';
import { repository } from './instance.ts';
import { run } from './run.ts';
import { toolPath } from './tools.ts';

export type Manifest = Readonly<Record<string, unknown>>;

/** A replacement at one path of an object (RFC 6902). */
export interface Replacement {
  readonly op: 'add';
  readonly path: string;
  readonly value: unknown;
}

/**
 * Applies `deploy/rbac`, `deploy/crds` and `deploy/webhooks` to a cluster. The files name a Service as the way to the
 * webhook; here it is a URL from the first moment, because a registration must not name both. For the same reason
 * registrations of another owner are replaced before: server-side apply would merge them with ours.
 * Of `deploy/rbac-gates`, whose files are named after feature gates, those are applied whose gate is on, and what the others
 * hold is taken away.
 */
export async function applyManifests({
  api,
  kubeconfig,
  webhookUrl,
  apiServerAddress,
  cacheFolder,
  featureGates = '',
  root = repository,
}: {
  readonly api: ApiServer;
  readonly kubeconfig: string;
  readonly webhookUrl: string;
  /** The address from which the API server calls webhooks. Absent: without the NetworkPolicies of `deploy/network`. */
  readonly apiServerAddress?: string;
  readonly cacheFolder: string;
  /** In the format of the roles' option. Absent: the defaults. */
  readonly featureGates?: string;
  /** The folder whose `deploy` is applied. Absent: this checkout. */
  readonly root?: string;
}): Promise<void> {
  const policies = apiServerAddress === undefined ? [] : networkPolicies(apiServerAddress, root);
  const byGate = gateManifests(featureGates, root);
  const items = [...manifestsIn(root, 'rbac', 'crds', 'webhooks'), ...byGate.applied, ...policies].map((object) =>
    reachByUrl(object, webhookUrl),
  );
  // Namespaces first: kubectl applies in this order.
  items.sort((a, b) => Number(b.kind === 'Namespace') - Number(a.kind === 'Namespace'));
  if (items.length === 0) return;
  for (const item of items) await replaceRegistration(api, item);
  for (const item of byGate.removed) await removeRight(api, item);
  await run(
    toolPath('kubectl'),
    [
      'apply',
      `--cache-dir=${cacheFolder}`,
      '--server-side',
      '--force-conflicts',
      '--field-manager=windlass-local',
      '-f',
      '-',
    ],
    { env: { KUBECONFIG: kubeconfig }, input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items }) },
  );
}

/** The rights that depend on a feature gate: those of gates that are on, and the others. */
export function gateManifests(
  featureGates: string,
  root = repository,
): { readonly applied: readonly Manifest[]; readonly removed: readonly Manifest[] } {
  const gates = parseFeatureGates(featureGates);
  const of = (on: boolean) =>
    featureGateNames
      .filter((gate) => gates[gate] === on)
      .flatMap((gate) => manifestsOf(join(root, 'deploy', 'rbac-gates', `${gate}.yaml`)));
  return { applied: of(true), removed: of(false) };
}

const rightPaths: Readonly<Record<string, string>> = {
  ClusterRole: '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  ClusterRoleBinding: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  ValidatingAdmissionPolicy: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
};

async function removeRight(api: ApiServer, { kind, metadata }: Manifest): Promise<void> {
  const collection = rightPaths[String(kind)];
  if (collection === undefined || !isObject(metadata)) return;
  const path = `${collection}/${String(metadata.name)}`;
  if ((await find(api, path)) !== undefined) await call(api, 'DELETE', path);
}

/** Replaces each `clientConfig.service` by the URL with the same path. */
export function reachByUrl(object: Manifest, url: string): Manifest {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]): [string, unknown] => {
      if (Array.isArray(value)) return [key, value.map((item) => (isObject(item) ? reachByUrl(item, url) : item))];
      if (!isObject(value)) return [key, value];
      const { service, ...rest } = value;
      if (key !== 'clientConfig' || !isObject(service)) return [key, reachByUrl(value, url)];
      return [key, { ...rest, url: `${url}${String(service.path ?? '/')}` }];
    }),
  );
}

/**
 * The parts of a registration that must be replaced as a whole before the manifest can be applied: the conversion of a
 * CRD that uses a Service or that the manifest lacks, and webhooks that use a Service or that neither the manifest nor
 * the webhook process defines. OpenKruise leaves both. Empty: server-side apply does the rest, and what the webhook
 * process has written (its caBundle) stays.
 */
export function registrationReplacements(present: Manifest, wanted: Manifest): readonly Replacement[] {
  if (wanted.kind === 'CustomResourceDefinition') {
    const [before, after] = [conversionOf(present), conversionOf(wanted)];
    const isOurs = !namesService(before) && isObject(before) === isObject(after);
    if (isOurs || !isObject(before)) return [];
    return [{ op: 'add', path: '/spec/conversion', value: after ?? { strategy: 'None' } }];
  }
  const [before, after] = [webhooksOf(present), webhooksOf(wanted)];
  const names = [...after.map(({ name }) => name), ...gatedKinds.map(({ webhook }) => webhook)];
  const isOurs = before.every((webhook) => names.includes(webhook.name) && !namesService(webhook));
  return isOurs ? [] : [{ op: 'add', path: '/webhooks', value: after }];
}

const registrationPaths: Readonly<Record<string, string>> = {
  CustomResourceDefinition: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  MutatingWebhookConfiguration: '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations',
  ValidatingWebhookConfiguration: '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations',
};

async function replaceRegistration(api: ApiServer, wanted: Manifest): Promise<void> {
  const collection = registrationPaths[String(wanted.kind)];
  if (collection === undefined || !isObject(wanted.metadata)) return;
  const path = `${collection}/${String(wanted.metadata.name)}`;
  const present = await find<Manifest>(api, path);
  const replacements = present ? registrationReplacements(present, wanted) : [];
  if (replacements.length === 0) return;
  await call(api, 'PATCH', `${path}?fieldManager=windlass-local`, replacements, 'application/json-patch+json');
}

/** The NetworkPolicies of `deploy/network`, with the API server's address instead of the placeholder. */
function networkPolicies(apiServerAddress: string, root = repository): readonly Manifest[] {
  const cidr = `${apiServerAddress}/${isIPv6(apiServerAddress) ? 128 : 32}`;
  const text = JSON.stringify(manifestsIn(root, 'network'));
  return JSON.parse(text.replaceAll('192.0.2.1/32', cidr)) as readonly Manifest[];
}

function manifestsIn(root: string, ...folders: readonly string[]): readonly Manifest[] {
  return folders.flatMap((folder) =>
    filesIn(join(root, 'deploy', folder))
      .filter((file) => file.endsWith('.yaml'))
      .sort((a, b) => a.localeCompare(b))
      .flatMap(manifestsOf),
  );
}

/** The manifests in one file; empty when it does not exist. */
function manifestsOf(file: string): readonly Manifest[] {
  if (!existsSync(file)) return [];
  return parseAllDocuments(readFileSync(file, 'utf8'))
    .map((document) => document.toJS() as unknown)
    .filter(isObject);
}

/** Absent also where the strategy is None. */
function conversionOf({ spec }: Manifest): unknown {
  const conversion = isObject(spec) ? spec.conversion : undefined;
  return isObject(conversion) && conversion.strategy === 'Webhook' ? conversion : undefined;
}

function webhooksOf({ webhooks }: Manifest): readonly Manifest[] {
  return Array.isArray(webhooks) ? webhooks.filter(isObject) : [];
}

/** Whether this, or its field `webhook`, is reached through a Service. */
function namesService(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { clientConfig, webhook } = value;
  return (isObject(clientConfig) && isObject(clientConfig.service)) || namesService(webhook);
}

function isObject(value: unknown): value is Manifest {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
