import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { repository } from '../../deploy/local/instance.ts';
import type { RoleSetting } from '../../deploy/local/roles.ts';
import { nodeFlags } from '../../deploy/roles/entries.ts';
import { buildIdOf } from '../../workers/workflow-bundle.ts';
import { readCorpus } from '../support/release-corpus.ts';
import { artefactFile, checkCore, readRelease, releases, unpackRelease } from '../upgrade/artefact.ts';

let folder: string;

beforeAll(() => {
  // within the checkout, so that Temporal's native core is found from there
  mkdirSync(join(repository, '.windlass'), { recursive: true });
  folder = mkdtempSync(join(repository, '.windlass', 'test-releases-'));
});

afterAll(() => rmSync(folder, { recursive: true }));

describe('artefacts of releases', () => {
  it('are there, each with its histories', () => {
    expect(releases()).not.toEqual([]);
    expect(new Set(releases())).toEqual(new Set(readCorpus().histories.map(({ release }) => release)));
  });

  it('are named when one is asked for that is not there', async () => {
    await expect(unpackRelease('0.0.0-none', join(folder, 'none'))).rejects.toThrow(
      `No artefact of release "0.0.0-none": there is ${releases().join(', ')}`,
    );
  });

  it('need the SDK that they were bundled with, or a later one', () => {
    const release = { version: '1.2.3-abcdef0', sdk: '1.24.0' };
    for (const installed of ['1.24.0', '1.24.1', '1.100.0', '2.0.0']) {
      expect(() => checkCore(release, installed)).not.toThrow();
    }
    for (const installed of ['1.23.9', '1.3.0', '0.99.0']) {
      expect(() => checkCore(release, installed)).toThrow(
        `Cannot run release "1.2.3-abcdef0": its roles were bundled with Temporal's SDK 1.24.0, ` +
          `and the native core in node_modules is ${installed}`,
      );
    }
  });
});

describe.each(releases())('the artefact of %s', (version) => {
  it('is small, and says which commit and which workflows it holds', async () => {
    expect(statSync(artefactFile(version)).size).toBeLessThanOrEqual(3 * 1024 * 1024);
    const unpacked = await unpackRelease(version, join(folder, version));
    const release = readRelease(unpacked);
    expect(release.version).toBe(version);
    expect(version).toMatch(new RegExp(`-${release.commit.slice(0, 7)}$`));
    expect(release.buildId).toBe(buildIdOf(readFileSync(join(unpacked, 'roles/workflows.js'), 'utf8')));
    for (const part of ['package-lock.json', 'deploy/crds', 'deploy/rbac', 'deploy/webhooks']) {
      expect(existsSync(join(unpacked, part))).toBe(true);
    }
  });

  it('starts each role as the release does', async () => {
    const { name, argv } = JSON.parse(await inOwnProcess(version)) as Started;
    expect(name).toBe(version);
    for (const [role, own] of Object.entries(argv)) {
      expect(own).toContain('--kubeconfig=/tmp/kubeconfig');
      const file = own.find((arg) => arg.endsWith('.js')) ?? '';
      expect(file).toBe(join(repository, '.windlass/releases', version, 'roles', `${role}.js`));
      const { stdout } = await promisify(execFile)(process.execPath, [...nodeFlags, file, '--help'], { cwd: '/' });
      expect(stdout).toContain(`windlass ${role}: options`);
    }
  });
});

interface Started {
  readonly name: string;
  readonly argv: Readonly<Record<string, readonly string[]>>;
}

/** Jest cannot load modules from the folder of unpacked releases. */
async function inOwnProcess(version: string): Promise<string> {
  const script = `
    import { releaseVersion } from './test/upgrade/artefact.ts';
    import { roles } from './deploy/local/roles.ts';
    const { name, bundles, rolePart } = await releaseVersion(${JSON.stringify(version)});
    const setting = { ...${JSON.stringify(setting)}, bundles };
    const argv = Object.values(roles).map((role) => [role.name, rolePart(role, setting).argv]);
    console.log(JSON.stringify({ name, argv: Object.fromEntries(argv) }));`;
  const options = { cwd: repository, env: { ...process.env, NODE_OPTIONS: '' } };
  const args = ['--input-type=module', '--eval', script];
  return (await promisify(execFile)(process.execPath, args, options)).stdout;
}

const setting: Omit<RoleSetting, 'bundles'> = {
  place: 'control-plane',
  kubeconfig: '/tmp/kubeconfig',
  temporalAddress: '127.0.0.1:7233',
  featureGates: '',
  healthAddress: '127.0.0.1:8080',
};
