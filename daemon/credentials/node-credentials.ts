/** A node's own credentials for registries, from plugins and from a file (NP-13). */

import { readFile } from 'node:fs/promises';
import type { NodeCredentials } from '../../activities/cri/pull.ts';
import { dockerConfigKeyring, type Keyring, MalformedSecret } from '../../activities/cri/registry-credentials.ts';
import { type CredentialPlugin, PluginConfigError, parsePluginConfig } from './plugin-config.ts';
import { CredentialPlugins } from './plugins.ts';

/** The sources of a node's own credentials. */
export interface NodeCredentialSources {
  /** `mustExist`: the file was given explicitly; otherwise it may be missing, which means that there are no plugins. */
  readonly pluginConfig: { readonly file: string; readonly mustExist: boolean };
  readonly pluginFolder: string;
  /** Environment variables of plugins, besides those in their configuration. */
  readonly pluginEnvironment: Readonly<Record<string, string | undefined>>;
  /** Absent: no file. */
  readonly dockerConfigFile?: string;
}

export interface NodeCredentialMeans {
  readonly monotonicMs: () => number;
  readonly log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
  };
}

/** Reads the configuration of the plugins, once. Throws when it is invalid, with a message for its author. */
export async function nodeCredentials(
  { pluginConfig, pluginFolder, pluginEnvironment: env, dockerConfigFile }: NodeCredentialSources,
  { monotonicMs, log }: NodeCredentialMeans,
): Promise<NodeCredentials> {
  const plugins = new CredentialPlugins({ plugins: await readPlugins(), folder: pluginFolder, env, monotonicMs });
  return {
    async find(repository) {
      const { keyrings, troubles, remembered } = await plugins.ask(repository);
      for (const trouble of troubles) log.warn({ repository, trouble }, 'A credential plugin failed');
      const own = await dockerConfig();
      return { keyrings: own === undefined ? keyrings : [...keyrings, own], troubles, remembered };
    },
    forget: (repository) => plugins.forget(repository),
  };

  async function readPlugins(): Promise<readonly CredentialPlugin[]> {
    const { file, mustExist } = pluginConfig;
    let text: string;
    try {
      text = await readFile(file, 'utf8');
    } catch (error) {
      if (!mustExist && isMissing(error)) return [];
      throw new PluginConfigError(`Cannot read the configuration of credential plugins ${file}: ${codeOf(error)}`);
    }
    try {
      const { plugins: usable, unusable } = parsePluginConfig(text);
      for (const { name, why } of unusable) log.warn({ plugin: name, why }, 'A credential plugin is not used');
      log.info({ plugins: usable.map(({ name }) => name), folder: pluginFolder }, 'Credential plugins are used');
      return usable;
    } catch (error) {
      if (!(error instanceof PluginConfigError)) throw error;
      throw new PluginConfigError(
        `Cannot use the configuration of credential plugins ${file}: ${error.message}. Fix it and restart the daemon`,
      );
    }
  }

  /** Read each time, because it may be replaced at any time. */
  async function dockerConfig(): Promise<Keyring | undefined> {
    if (dockerConfigFile === undefined) return undefined;
    try {
      return dockerConfigKeyring(`File "${dockerConfigFile}"`, await readFile(dockerConfigFile, 'utf8'));
    } catch (error) {
      const why = error instanceof MalformedSecret ? error.message : codeOf(error);
      log.warn({ file: dockerConfigFile, why }, 'Cannot read the registry credentials of this node');
      return undefined;
    }
  }
}

function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT';
}

function codeOf(error: unknown): string {
  const isCoded = typeof error === 'object' && error !== null && 'code' in error;
  return isCoded ? String(error.code) : 'it cannot be read';
}
