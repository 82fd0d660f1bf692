/**
 * Credential plugins, like the kubelet's: a program reads an image name on its standard input, and prints the
 * credentials for the registry. Answers are cached for as long as they say. The output of programs is never logged or
 * quoted.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { isForImage, type Keyring } from '../../activities/cri/registry-credentials.ts';
import { goDurationMs } from '../../api/base/go-duration.ts';
import { isJsonObject, type JsonObject, objectOr } from '../../api/base/json.ts';
import type { CredentialPlugin } from './plugin-config.ts';

/** The kubelet's limit. */
const answerMs = 60_000;

/** No valid answer is larger than this. */
const mostBytes = 1024 * 1024;

export interface CredentialPluginMeans {
  readonly plugins: readonly CredentialPlugin[];
  /** The folder with their files. */
  readonly folder: string;
  /** The variables that each plugin gets besides those of its configuration. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly monotonicMs: () => number;
  /** Absent: a minute. */
  readonly answerMs?: number;
}

/** The answers of all matching plugins for an image. */
export interface PluginAnswer {
  readonly keyrings: readonly Keyring[];
  /** The errors of plugins that failed, without any of their output. */
  readonly troubles: readonly string[];
  /** Whether a part comes from the cache. */
  readonly remembered: boolean;
}

interface Kept {
  readonly keyring: Keyring;
  readonly untilMs: number;
}

/** Calls the plugins that match an image; each runs at most once at a time for one image. */
export class CredentialPlugins {
  readonly #means: CredentialPluginMeans;
  /** By plugin: its cached answers, and what they are valid for. */
  readonly #kept = new Map<string, Kept>();
  readonly #asked = new Map<string, Promise<Keyring>>();

  constructor(means: CredentialPluginMeans) {
    this.#means = means;
  }

  /** Never fails. `repository` has the registry's host and no tag, as in `docker.io/library/nginx`. */
  async ask(repository: string): Promise<PluginAnswer> {
    const answers = await Promise.all(
      this.#of(repository).map(async (plugin) => {
        try {
          return await this.#keyringOf(plugin, repository);
        } catch (error) {
          if (!(error instanceof PluginError)) throw error;
          return { trouble: `credential plugin "${plugin.name}" ${error.message}` };
        }
      }),
    );
    return {
      keyrings: answers.flatMap((answer) => ('keyring' in answer ? [answer.keyring] : [])),
      troubles: answers.flatMap((answer) => ('trouble' in answer ? [answer.trouble] : [])),
      remembered: answers.some((answer) => 'keyring' in answer && answer.remembered),
    };
  }

  /** The registry refused the cached credentials for this image: drops them. */
  forget(repository: string): void {
    for (const plugin of this.#of(repository)) for (const key of keysOf(plugin, repository)) this.#kept.delete(key);
  }

  #of(repository: string): readonly CredentialPlugin[] {
    const { plugins } = this.#means;
    return plugins.filter(({ matchImages }) => matchImages.some((place) => isForImage(place, repository)));
  }

  async #keyringOf(
    plugin: CredentialPlugin,
    repository: string,
  ): Promise<{ readonly keyring: Keyring; readonly remembered: boolean }> {
    const nowMs = this.#means.monotonicMs();
    for (const key of keysOf(plugin, repository)) {
      const kept = this.#kept.get(key);
      if (kept !== undefined && kept.untilMs > nowMs) return { keyring: kept.keyring, remembered: true };
    }
    const call = `${plugin.name} ${repository}`;
    const asked = this.#asked.get(call) ?? this.#run(plugin, repository).finally(() => this.#asked.delete(call));
    this.#asked.set(call, asked);
    return { keyring: await asked, remembered: false };
  }

  async #run(plugin: CredentialPlugin, repository: string): Promise<Keyring> {
    const { folder, env, monotonicMs } = this.#means;
    const { apiVersion } = plugin;
    const request = JSON.stringify({ apiVersion, kind: 'CredentialProviderRequest', image: repository });
    const output = await printed({
      program: join(folder, plugin.name),
      args: plugin.args,
      env: { ...env, ...plugin.env },
      input: request,
      withinMs: this.#means.answerMs ?? answerMs,
    });
    const { keyring, keptAs, keptMs = plugin.defaultCacheMs } = answerIn(output, apiVersion);
    if (keptMs > 0) this.#keep(keyFor(plugin, keptAs, repository), { keyring, untilMs: monotonicMs() + keptMs });
    return keyring;
  }

  #keep(key: string, kept: Kept): void {
    const nowMs = this.#means.monotonicMs();
    for (const [other, { untilMs }] of this.#kept) if (untilMs <= nowMs) this.#kept.delete(other);
    this.#kept.set(key, kept);
  }
}

/** Why a plugin failed; the end of a sentence that begins with its name. */
class PluginError extends Error {
  override readonly name = 'PluginError';
}

const cacheKeyTypes = ['Image', 'Registry', 'Global'] as const;
type CacheKeyType = (typeof cacheKeyTypes)[number];

function keysOf(plugin: CredentialPlugin, repository: string): readonly string[] {
  return cacheKeyTypes.map((type) => keyFor(plugin, type, repository));
}

function keyFor({ name }: CredentialPlugin, type: CacheKeyType, repository: string): string {
  const registry = repository.split('/')[0] ?? '';
  return `${name} ${{ Image: `image ${repository}`, Registry: `registry ${registry}`, Global: 'global' }[type]}`;
}

interface ReadAnswer {
  readonly keyring: Keyring;
  readonly keptAs: CacheKeyType;
  /** Absent: the default of the configuration. */
  readonly keptMs?: number;
}

function answerIn(output: string, apiVersion: string): ReadAnswer {
  const answer = parsed(output);
  if (answer === undefined) throw new PluginError('did not print a JSON object');
  if (answer.kind !== 'CredentialProviderResponse' || answer.apiVersion !== apiVersion) {
    throw new PluginError(`did not print a CredentialProviderResponse of ${apiVersion}`);
  }
  const keptAs = cacheKeyTypes.find((type) => type === answer.cacheKeyType);
  if (keptAs === undefined)
    throw new PluginError(`printed an invalid cacheKeyType, which must be one of ${cacheKeyTypes.join(', ')}`);
  const { cacheDuration } = answer;
  const keptMs = typeof cacheDuration === 'string' ? goDurationMs(cacheDuration) : undefined;
  if (cacheDuration !== undefined && cacheDuration !== null && keptMs === undefined) {
    throw new PluginError('printed an invalid cacheDuration');
  }
  const entries = Object.entries(objectOr(answer.auth)).flatMap(([pattern, entry]) => {
    const { username, password } = objectOr(entry);
    const auth = { username: textOr(username), password: textOr(password) };
    return auth.username === '' && auth.password === '' ? [] : [{ pattern, auth }];
  });
  return { keyring: { entries }, keptAs, ...(keptMs !== undefined && { keptMs }) };
}

function parsed(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined; // the error would quote it
  }
}

function textOr(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Runs a program without a shell, and returns its output. All processes that it has started are killed at the end. */
async function printed(call: {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly input: string;
  readonly withinMs: number;
}): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn(call.program, call.args, {
    env: { ...call.env },
    stdio: ['pipe', 'pipe', 'ignore'],
    detached: true,
  });
  const fail = (why: string): void => {
    reject(new PluginError(why));
    if (child.pid === undefined) return;
    child.stdout.destroy();
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      // the process has ended already
    }
  };
  const late = setTimeout(() => fail(`did not answer within ${call.withinMs / 1_000}s`), call.withinMs);
  const parts: Buffer[] = [];
  let bytes = 0;
  child.stdout.on('data', (part: Buffer) => {
    parts.push(part);
    bytes += part.length;
    if (bytes > mostBytes) fail(`printed more than ${mostBytes} bytes`);
  });
  child.stdin.on('error', () => undefined); // the program may exit without reading its input
  child.on('error', (error) => fail(`cannot be run (${'code' in error ? String(error.code) : error.name})`));
  child.on('close', (code, signal) => {
    if (code === 0) resolve(Buffer.concat(parts).toString('utf8'));
    else fail(signal === null ? `exited with code ${code}` : `was terminated by ${signal}`);
  });
  child.stdin.end(call.input);
  try {
    return await promise;
  } finally {
    clearTimeout(late);
  }
}
