import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { goDurationMs } from '../../api/base/go-duration.ts';
import { nodeCredentials } from '../../daemon/credentials/node-credentials.ts';
import { type CredentialPlugin, parsePluginConfig } from '../../daemon/credentials/plugin-config.ts';
import { CredentialPlugins } from '../../daemon/credentials/plugins.ts';
import { waitFor } from '../support/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'windlass-plugins-'));
const log = join(folder, 'log');
const apiVersion = 'credentialprovider.kubelet.k8s.io/v1';

beforeEach(() => writeFileSync(log, ''));
afterAll(() => rmSync(folder, { recursive: true }));

/** A program that records its input, and then does this. */
function script(name: string, does: string): void {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\nread -r request\necho "$request $* $TEAM" >> '${log}'\n${does}\n`);
  chmodSync(file, 0o755);
}

function prints(name: string, answer: object): void {
  script(name, `cat <<'END'\n${JSON.stringify({ apiVersion, kind: 'CredentialProviderResponse', ...answer })}\nEND`);
}

function plugin(name: string, more: Partial<CredentialPlugin> = {}): CredentialPlugin {
  return { name, matchImages: ['*.io'], apiVersion, defaultCacheMs: 0, args: [], env: {}, ...more };
}

function world(plugins: readonly CredentialPlugin[], answerMs?: number) {
  const clock = { nowMs: 0 };
  const env = { PATH: process.env.PATH };
  const monotonicMs = () => clock.nowMs;
  const asked = new CredentialPlugins({ plugins, folder, env, monotonicMs, ...(answerMs && { answerMs }) });
  return { asked, clock, calls: () => readFileSync(log, 'utf8').split('\n').filter(Boolean) };
}

/** A zombie counts as exited. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

const ann = { username: 'ann', password: 'hunter2' };
const auth = { 'r.io': ann };
const keyring = { entries: [{ pattern: 'r.io', auth: ann }] };

describe('NP-13: a credential plugin', () => {
  it('is told of the image as the kubelet tells it, with its arguments and variables', async () => {
    prints('ecr', { cacheKeyType: 'Image', auth });
    const { asked, calls } = world([plugin('ecr', { args: ['get', 'it'], env: { TEAM: 'x' } })]);
    expect(await asked.ask('r.io/app')).toEqual({ keyrings: [keyring], troubles: [], remembered: false });
    const request = { apiVersion, kind: 'CredentialProviderRequest', image: 'r.io/app' };
    expect(calls()).toEqual([`${JSON.stringify(request)} get it x`]);
  });

  it('is asked for the images of its places only', async () => {
    prints('ecr', { cacheKeyType: 'Image', auth });
    const { asked, calls } = world([plugin('ecr', { matchImages: ['*.eu.io', 'x.io:5000/team'] })]);
    const none = { keyrings: [], troubles: [], remembered: false };
    for (const repository of ['r.io/app', 'x.io/team/app', 'x.io:5000/app', 'docker.io/library/nginx']) {
      expect(await asked.ask(repository)).toEqual(none);
    }
    expect(calls()).toEqual([]);
    for (const repository of ['r.eu.io/app', 'x.io:5000/team/app']) await asked.ask(repository);
    expect(calls()).toHaveLength(2);
  });

  const images = ['r.io/app', 'r.io/app', 'r.io/db', 'x.io/app'];
  it.each([
    ['Image', 3],
    ['Registry', 2],
    ['Global', 1],
  ])('is asked again according to cacheKeyType %s', async (cacheKeyType, times) => {
    prints('ecr', { cacheKeyType, auth });
    const { asked, calls } = world([plugin('ecr', { defaultCacheMs: 1_000 })]);
    for (const image of images) await asked.ask(image);
    expect(calls()).toHaveLength(times);
    expect((await asked.ask('r.io/app')).remembered).toBe(true);
  });

  it.each([
    [undefined, 1_000],
    ['2s', 2_000],
    ['0s', 0],
  ])('is asked again after cacheDuration %s', async (cacheDuration, keptMs) => {
    prints('ecr', { cacheKeyType: 'Registry', cacheDuration, auth });
    const { asked, clock, calls } = world([plugin('ecr', { defaultCacheMs: 1_000 })]);
    await asked.ask('r.io/app');
    clock.nowMs = keptMs - 1;
    await asked.ask('r.io/app');
    expect(calls()).toHaveLength(keptMs === 0 ? 2 : 1);
    clock.nowMs = keptMs;
    await asked.ask('r.io/app');
    expect(calls()).toHaveLength(keptMs === 0 ? 3 : 2);
  });

  it('is asked again when what it answered was refused', async () => {
    prints('ecr', { cacheKeyType: 'Global', cacheDuration: '1h', auth });
    const { asked, calls } = world([plugin('ecr')]);
    await asked.ask('r.io/app');
    asked.forget('r.io/app');
    expect((await asked.ask('r.io/app')).remembered).toBe(false);
    expect(calls()).toHaveLength(2);
  });

  it('runs once for all who ask of one image at the same time', async () => {
    prints('ecr', { cacheKeyType: 'Image', auth });
    const { asked, calls } = world([plugin('ecr')]);
    await Promise.all([asked.ask('r.io/app'), asked.ask('r.io/app'), asked.ask('r.io/db')]);
    expect(calls()).toHaveLength(2);
  });

  it('has its say beside others, in the order of the configuration', async () => {
    const bob = { username: 'bob', password: 'b' };
    prints('one', { cacheKeyType: 'Image', auth });
    prints('two', { cacheKeyType: 'Image', auth: { 'r.io': bob, 'x.io': null, 'y.io': {} } });
    const { asked } = world([plugin('two'), plugin('none'), plugin('one')]);
    expect(await asked.ask('r.io/app')).toEqual({
      keyrings: [{ entries: [{ pattern: 'r.io', auth: bob }] }, keyring],
      troubles: ['credential plugin "none" cannot be run (ENOENT)'],
      remembered: false,
    });
  });

  it.each([
    ['exit 3', 'exited with code 3'],
    ['kill -9 $$', 'was terminated by SIGKILL'],
    ['echo hunter2; echo hunter2 >&2', 'did not print a JSON object'],
    [`echo '{"kind":"hunter2"}'`, `did not print a CredentialProviderResponse of ${apiVersion}`],
    [
      `echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1"}'`,
      `did not print a CredentialProviderResponse of ${apiVersion}`,
    ],
    [
      `echo '{"kind":"CredentialProviderResponse","apiVersion":"${apiVersion}"}'`,
      'printed an invalid cacheKeyType, which must be one of Image, Registry, Global',
    ],
    [
      `echo '{"kind":"CredentialProviderResponse","apiVersion":"${apiVersion}","cacheKeyType":"Image","cacheDuration":"hunter2"}'`,
      'printed an invalid cacheDuration',
    ],
    ['head -c 2000000 /dev/zero', 'printed more than 1048576 bytes'],
  ])('that fails says how, and nothing that it printed: %s', async (does, how) => {
    script('ecr', does);
    const { asked } = world([plugin('ecr', { defaultCacheMs: 1_000 })]);
    const answer = await asked.ask('r.io/app');
    expect(answer).toEqual({ keyrings: [], troubles: [`credential plugin "ecr" ${how}`], remembered: false });
  });

  it('that does not answer is ended, with what it has started', async () => {
    script('ecr', `sleep 600 & echo $! >> '${log}'; wait`);
    const { asked, calls } = world([plugin('ecr')], 2_000);
    expect((await asked.ask('r.io/app')).troubles).toEqual(['credential plugin "ecr" did not answer within 2s']);
    const pid = Number(calls().at(-1));
    expect(pid).toBeGreaterThan(1);
    await waitFor('its child to end', () => !isAlive(pid));
  });

  it('need not read what it is told', async () => {
    const answer = JSON.stringify({ apiVersion, kind: 'CredentialProviderResponse', cacheKeyType: 'Image', auth });
    writeFileSync(join(folder, 'deaf'), `#!/bin/sh\nexec <&-\necho '${answer}'\n`);
    chmodSync(join(folder, 'deaf'), 0o755);
    expect((await world([plugin('deaf')]).asked.ask('r.io/app')).keyrings).toEqual([keyring]);
  });
});

const config = `
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: ecr-credential-provider
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: ["*.dkr.ecr.*.amazonaws.com", "r.io:5000/team"]
    defaultCacheDuration: 12h
    args: [get-credentials]
    env: [{ name: AWS_PROFILE, value: nodes }]
`;

describe("NP-13: the kubelet's configuration of plugins", () => {
  it('is read as the kubelet reads it', () => {
    expect(parsePluginConfig(config)).toEqual({
      plugins: [
        {
          name: 'ecr-credential-provider',
          apiVersion,
          matchImages: ['*.dkr.ecr.*.amazonaws.com', 'r.io:5000/team'],
          defaultCacheMs: 12 * 3_600_000,
          args: ['get-credentials'],
          env: { AWS_PROFILE: 'nodes' },
        },
      ],
      unusable: [],
    });
  });

  it('leaves out what needs the token of a pod', () => {
    const more = config.replace('env:', 'tokenAttributes: { serviceAccountTokenAudience: x }\n    env:');
    expect(parsePluginConfig(more)).toMatchObject({ plugins: [], unusable: [{ name: 'ecr-credential-provider' }] });
  });

  it('says all that is wrong with it, and quotes no variable', () => {
    const wrong = {
      apiVersion: 'v1',
      kind: 'Config',
      providers: [
        {
          name: '../x',
          apiVersion: 'v2',
          matchImages: [],
          defaultCacheDuration: '-1h',
          args: [1],
          env: [{ name: 'A' }],
        },
        { name: 'a', apiVersion, matchImages: ['r.io'], defaultCacheDuration: '0s' },
        { name: 'a', apiVersion, matchImages: ['r.io'], defaultCacheDuration: '1m' },
      ],
    };
    expect(() => parsePluginConfig(JSON.stringify(wrong))).toThrow(
      [
        'apiVersion: expects kubelet.config.k8s.io/v1',
        'kind: expects CredentialProviderConfig',
        'providers[0].name: expects the name of a file in the directory of the plugins',
        'providers[0].apiVersion: expects credentialprovider.kubelet.k8s.io/v1',
        'providers[0].matchImages: expects at least one pattern, and none that is empty',
        'providers[0].defaultCacheDuration: expects a duration such as 12h, not below 0',
        'providers[0].args: expects a list of strings',
        'providers[0].env: expects a list of objects with name and value',
        'providers[2].name: another provider has this name',
      ].join('; '),
    );
    for (const text of ['', '[]', 'env: {value: hunter2', 'hunter2']) {
      expect(() => parsePluginConfig(text)).toThrow('it is not a YAML or JSON object');
    }
  });

  it.each([
    ['12h', 43_200_000],
    ['1h30m0.5s', 5_400_500],
    ['0', 0],
    ['250ms', 250],
    ['-1s', undefined],
    ['1d', undefined],
    ['12', undefined],
    ['', undefined],
  ])('has durations like Go: %s', (text, ms) => {
    expect(goDurationMs(text)).toBe(ms);
  });
});

describe('NP-13: the credentials of a node', () => {
  function sources(file: string, mustExist: boolean, dockerConfigFile?: string) {
    const pluginConfig = { file: join(folder, file), mustExist };
    const pluginEnvironment = { PATH: process.env.PATH };
    return { pluginConfig, pluginFolder: folder, pluginEnvironment, ...(dockerConfigFile && { dockerConfigFile }) };
  }
  function means() {
    const lines: string[] = [];
    const note = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
    return { lines, with: { monotonicMs: () => 0, log: { info: note, warn: note } } };
  }

  it('are those of plugins, then those of its file, which is read anew each time', async () => {
    prints('ecr', { cacheKeyType: 'Image', auth });
    writeFileSync(
      join(folder, 'plugins.yaml'),
      config.replace('ecr-credential-provider', 'ecr').replace('*.dkr', 'r.io", "*'),
    );
    const file = join(folder, 'config.json');
    writeFileSync(file, 'hunter2');
    const { lines, with: given } = means();
    const own = await nodeCredentials(sources('plugins.yaml', true, file), given);
    expect((await own.find('r.io/app')).keyrings).toEqual([keyring]);
    const bob = { username: 'bob', password: 'b' };
    writeFileSync(file, JSON.stringify({ auths: { 'r.io': bob } }));
    const { keyrings } = await own.find('r.io/app');
    expect(keyrings).toEqual([keyring, { entries: [{ pattern: 'r.io', auth: bob }] }]);
    expect(lines.join('\n')).toContain('is not a JSON object');
    expect(lines.join('\n')).not.toContain('hunter2');
  });

  it('are none without a file at the usual place; one that is named has to be there, and to be right', async () => {
    const { lines, with: given } = means();
    const none = await nodeCredentials(sources('nowhere.yaml', false), given);
    expect(await none.find('r.io/app')).toEqual({ keyrings: [], troubles: [], remembered: false });
    expect(lines).toEqual([]);
    await expect(nodeCredentials(sources('nowhere.yaml', true), given)).rejects.toThrow(
      `Cannot read the configuration of credential plugins ${join(folder, 'nowhere.yaml')}: ENOENT`,
    );
    writeFileSync(join(folder, 'wrong.yaml'), 'kind: X');
    await expect(nodeCredentials(sources('wrong.yaml', false), given)).rejects.toThrow(/Cannot use .*kind: expects/);
  });
});
