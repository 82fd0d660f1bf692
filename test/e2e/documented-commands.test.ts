import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { instanceName, repository } from '../../deploy/local/instance.ts';
import { status, up } from '../../deploy/local/platform.ts';
import { silentProgress } from '../../deploy/local/progress.ts';
import { toolPath } from '../../deploy/local/tools.ts';
import { e2eFeatureGates } from '../runner/platform-phases.ts';
import { commandsOf, type DocumentedCommand, missingLines } from '../support/console-blocks.ts';
import { describeProof } from '../support/groups.ts';
import { Shell } from '../support/shell.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

/** Commands that are not run, and why. */
const leftOut: Readonly<Record<string, string>> = {
  'npm test ': 'is the gate, which brings up instances of its own',
  'npm run down': 'ends the instance that the other pages need; the runner does it at the end',
  'tctl ': 'is the older client, which is not in the cache, as README says',
};

/** Pages whose operations end within a second, before a signal can be typed: an ended workflow is an answer there. */
const soonOver = ['docs/kinds/image-pull-job.md', 'docs/kinds/job-sidecar-termination.md'];

const pages = ['README.md', ...globSync('docs/kinds/*.md', { cwd: repository }).toSorted()];
const watchSeconds = 20;

let local: LocalCluster;
const name = instanceName(process.env);

beforeAll(async () => {
  local = await localCluster();
  const shell = reader();
  const { code, output } = await shell.run('npm run cli', { deadlineMs: 300_000 });
  shell.close();
  if (code !== 0) throw new Error(`Cannot build the plugin: ${output}`);
}, 400_000);

afterEach(async () => {
  // what the commands of a page have changed of the instance itself: gates, and parts that they have killed
  await up({ name, nodes: 2, windlass: true, featureGates: e2eFeatureGates, progress: silentProgress });
  await local.kubectl(['delete', '--ignore-not-found', '--recursive', '-f', join(repository, 'deploy/samples')]);
  await local.kubectl(['wait', 'pods', '--all', '--for=delete', '--timeout=120s']);
}, 600_000);

afterAll(async () => {
  await local?.close();
});

/** A shell as README has it after its exports, on the instance of the test instead of the default one. */
function reader(env: NodeJS.ProcessEnv = {}): Shell {
  const { HOME, PATH, XDG_CACHE_HOME } = process.env;
  const temporal = { TEMPORAL_ADDRESS: status(name)?.temporal ?? '' };
  return new Shell({
    cwd: repository,
    env: { HOME, PATH, XDG_CACHE_HOME, WINDLASS_INSTANCE: name, ...temporal, ...env },
  });
}

/** What is wrong with the answer of a command; empty when it is as the page says. */
async function problemsOf(shell: Shell, { page, line, text, shown }: DocumentedCommand): Promise<readonly string[]> {
  if (Object.keys(leftOut).some((prefix) => `${text} `.startsWith(prefix))) return [];
  const isWatch = /\s(-w|--watch|-f)(\s|$)/.test(text) && !/\s-f \S+\.yaml/.test(text);
  const asHere = text.replace('$PWD/.windlass/kubeconfig', local.kubeconfig);
  const bounded = isWatch ? `timeout -k 5 -s INT ${watchSeconds} ${asHere}` : asHere;
  const { code, output } = await shell.run(bounded, { deadlineMs: 300_000 });
  const isRefused = shown[0]?.startsWith('Error from server') ?? false;
  const isOver = soonOver.includes(page) && output.includes('workflow execution already completed');
  const isAsSaid = isRefused ? code !== 0 : code === 0 || isOver || (isWatch && code === 124);
  // states that last for a moment may be over when a watch begins
  const certain = isWatch ? shown.filter((_, index) => index === 0 || index === shown.length - 1) : shown;
  const where = `${page}:${line}: ${text}`;
  return [
    ...(isAsSaid ? [] : [`${where}\nended with ${code}: ${output}`]),
    ...missingLines(certain, output).map((missing) => `${where}\ndid not print ${missing}\nbut: ${output}`),
  ];
}

describeProof('docs', 'the commands of the documentation', () => {
  it.each(pages)(
    'of %s can be run in their order, and print what the page shows',
    async (page) => {
      const readme = page === 'README.md';
      const folders = [dirname(toolPath('kubectl')), dirname(toolPath('temporal')), join(repository, 'dist/cli')];
      const path = [...folders, process.env.PATH].join(':');
      const shell = reader(readme ? {} : { KUBECONFIG: local.kubeconfig, PATH: path });
      const problems: string[] = [];
      for (const command of commandsOf(page, readFileSync(join(repository, page), 'utf8'))) {
        problems.push(...(await problemsOf(shell, command)));
      }
      shell.close();
      expect(problems).toEqual([]);
    },
    900_000,
  );
});
