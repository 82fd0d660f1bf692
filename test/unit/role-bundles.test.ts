import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { repository } from '../../deploy/local/instance.ts';
import { findRoleBundles, makeRoleBundles, roleFile } from '../../deploy/roles/bundle.ts';
import { nodeFlags, type RoleName, roleEntries } from '../../deploy/roles/entries.ts';
import { buildIdOf, workflowBuildId } from '../../workers/workflow-bundle.ts';

const roles = Object.keys(roleEntries) as RoleName[];
let dist: string;
let before: string | undefined;
let bundles: readonly string[];

/** Folders of other sources, the first one used last; and one that a killed process has left. */
const others = Array.from({ length: 6 }, (_, index) => `roles-${index}`);
const abandoned = 'roles-7.part';

beforeAll(async () => {
  // within the checkout, so that Temporal's native core is found from there
  mkdirSync(join(repository, 'dist'), { recursive: true });
  dist = mkdtempSync(join(repository, 'dist', 'test-'));
  for (const [index, name] of [...others, abandoned].entries()) {
    const folder = join(dist, name);
    mkdirSync(folder);
    const used = new Date(Date.now() - (index + 1) * 7_200_000);
    utimesSync(folder, used, used);
  }
  before = findRoleBundles(dist);
  bundles = await Promise.all([makeRoleBundles(dist), makeRoleBundles(dist)]);
});

afterAll(() => rmSync(dist, { recursive: true }));

describe('bundles of roles', () => {
  it('F1: have workflows whose build ID names their code alone, whatever folder they were made in', async () => {
    const shipped = readFileSync(join(bundles[0] ?? '', 'workflows.js'), 'utf8');
    expect(buildIdOf(shipped)).toBe(await workflowBuildId());
    const code = shipped.slice(0, shipped.lastIndexOf('//# sourceMappingURL='));
    expect(code).toContain('"./workflows/index.ts"');
    expect(code).not.toContain(repository);
  });

  it('are there once they are made, also when two make them at once', () => {
    expect(before).toBeUndefined();
    expect(new Set(bundles).size).toBe(1);
    expect(findRoleBundles(dist)).toBe(bundles[0]);
  });

  it('stay for the five sources that were used last', () => {
    const kept = readdirSync(dist).map((name) => join(dist, name));
    expect(new Set(kept)).toEqual(new Set([...others.slice(0, 4).map((name) => join(dist, name)), bundles[0]]));
  });

  it.each(roles)('start as %s, by its own file and as the image does', async (role) => {
    const [folder = ''] = bundles;
    for (const entry of [[roleFile(folder, role)], [join(folder, 'role.js'), role]]) {
      const { stdout } = await promisify(execFile)(process.execPath, [...nodeFlags, ...entry, '--help'], { cwd: '/' });
      expect(stdout).toContain(`windlass ${role}: options`);
    }
  });

  it('refuse a role that there is none of, and name those that there are', async () => {
    for (const name of ['manager', 'toString']) {
      const started = promisify(execFile)(process.execPath, [join(bundles[0] ?? '', 'role.js'), name]);
      await expect(started).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining(roles.join(', ')) });
    }
  });
});
