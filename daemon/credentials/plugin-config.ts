/**
 * The kubelet's configuration of credential plugins (kind CredentialProviderConfig), interpreted like the kubelet does.
 * Values of variables may be secrets, so errors never quote them.
 */
import { parseDocument } from 'yaml';
import { goDurationMs } from '../../api/base/go-duration.ts';
import { isJsonList, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../../api/base/json.ts';

/** A program that returns the credentials for a registry. */
export interface CredentialPlugin {
  /** Its file name in the plugin folder. */
  readonly name: string;
  /** It is called for images that match one of these patterns only. */
  readonly matchImages: readonly string[];
  /** The version of its protocol, for example `credentialprovider.kubelet.k8s.io/v1`. */
  readonly apiVersion: string;
  /** How long its answers are cached when they do not say so themselves. */
  readonly defaultCacheMs: number;
  readonly args: readonly string[];
  /** Added to the variables of the daemon. */
  readonly env: Readonly<Record<string, string>>;
}

/** The content of the file. */
export interface PluginConfig {
  readonly plugins: readonly CredentialPlugin[];
  /** Plugins that cannot be used without a pod, and why. */
  readonly unusable: readonly { readonly name: string; readonly why: string }[];
}

/** An invalid configuration; the message lists all errors. */
export class PluginConfigError extends Error {
  override readonly name = 'PluginConfigError';
}

/** Reads the text of the file. Throws a `PluginConfigError`. */
export function parsePluginConfig(text: string): PluginConfig {
  const document = parseDocument(text, { prettyErrors: false });
  const config: unknown = document.errors.length > 0 ? undefined : document.toJS();
  if (!isJsonObject(config)) throw new PluginConfigError('it is not a YAML or JSON object');
  const problems: string[] = [];
  const version = /^kubelet\.config\.k8s\.io\/(v1|v1beta1|v1alpha1)$/;
  if (!version.test(textOr(config.apiVersion))) problems.push('apiVersion: expects kubelet.config.k8s.io/v1');
  if (config.kind !== 'CredentialProviderConfig') problems.push('kind: expects CredentialProviderConfig');
  const providers = listOr(config.providers);
  if (providers.length === 0) problems.push('providers: expects at least one');
  const read = providers.map((provider, at) => readPlugin(objectOr(provider), `providers[${at}]`, problems));
  const names = read.map(({ plugin }) => plugin.name);
  for (const [at, name] of names.entries()) {
    if (names.indexOf(name) < at) problems.push(`providers[${at}].name: another provider has this name`);
  }
  if (problems.length > 0) throw new PluginConfigError(problems.join('; '));
  return {
    plugins: read.flatMap(({ plugin, why }) => (why === undefined ? [plugin] : [])),
    unusable: read.flatMap(({ plugin, why }) => (why === undefined ? [] : [{ name: plugin.name, why }])),
  };
}

function readPlugin(
  given: JsonObject,
  at: string,
  problems: string[],
): { readonly plugin: CredentialPlugin; readonly why?: string } {
  const refuse = (field: string, expects: string) => void problems.push(`${at}.${field}: expects ${expects}`);
  const name = textOr(given.name);
  if (name === '' || name === '.' || name === '..' || /[/\s]/.test(name)) {
    refuse('name', 'the name of a file in the directory of the plugins');
  }
  const apiVersion = textOr(given.apiVersion);
  if (!/^credentialprovider\.kubelet\.k8s\.io\/(v1|v1beta1|v1alpha1)$/.test(apiVersion)) {
    refuse('apiVersion', 'credentialprovider.kubelet.k8s.io/v1');
  }
  const matchImages = texts(given.matchImages);
  if (!matchImages?.length || matchImages.some((place) => place === ''))
    refuse('matchImages', 'at least one pattern, and none that is empty');
  const defaultCacheMs = goDurationMs(textOr(given.defaultCacheDuration));
  if (defaultCacheMs === undefined) refuse('defaultCacheDuration', 'a duration such as 12h, not below 0');
  const args = texts(given.args ?? []);
  if (args === undefined) refuse('args', 'a list of strings');
  const env = variables(given.env ?? []);
  if (env === undefined) refuse('env', 'a list of objects with name and value');
  const plugin: CredentialPlugin = {
    name,
    matchImages: matchImages ?? [],
    apiVersion,
    defaultCacheMs: defaultCacheMs ?? 0,
    args: args ?? [],
    env: env ?? {},
  };
  if (given.tokenAttributes === undefined || given.tokenAttributes === null) return { plugin };
  return { plugin, why: 'it needs the service account token of a pod, and images are pre-downloaded without a pod' };
}

function textOr(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

function texts(value: Json | undefined): readonly string[] | undefined {
  if (!isJsonList(value) || !value.every((entry) => typeof entry === 'string')) return undefined;
  return value;
}

function variables(value: Json | undefined): Readonly<Record<string, string>> | undefined {
  if (!isJsonList(value)) return undefined;
  const pairs = value.map((entry) => {
    const { name, value: text } = objectOr(entry);
    return typeof name === 'string' && name !== '' && typeof text === 'string' ? ([name, text] as const) : undefined;
  });
  return pairs.every((pair) => pair !== undefined) ? Object.fromEntries(pairs) : undefined;
}
