// `npm run picture`: the pages of Temporal's UI for a restart, a roll-out and a pull, from a real run.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findInstance, repository } from './instance.ts';
import { status } from './platform.ts';
import type { Progress } from './progress.ts';
import { run } from './run.ts';
import { samples } from './start.ts';
import { toolPath } from './tools.ts';

type Environment = Readonly<Record<string, string>>;

const size = { width: 1400, height: 1350 } as const;

/** How long a page may take to show everything, in the browser's own time. */
const settledMs = 20_000;

const cloneSet = 'deploy/samples/cloneset.yaml';
const pullJob = 'deploy/samples/image-pull-job.yaml';

/** Runs the samples on an instance that is up, and takes a picture of each workflow. */
export async function recordUiPictures(name: string, progress: Progress): Promise<void> {
  const now = status(name);
  const instance = findInstance(name);
  if (!now || !instance) throw new Error(`Instance "${name}" is down`);
  const env = { KUBECONFIG: now.kubeconfig, KUBECACHEDIR: join(now.folder, 'control-plane/kubectl') };
  const browser = await progress.step('Chromium', () => findBrowser());
  const pages = await progress.step('Restart, roll-out and pull', () => runSamples(env));
  for (const [picture, workflowId] of Object.entries(pages)) {
    const target = `docs/images/${picture}.png`;
    await progress.step(target, () =>
      takePicture(browser, `${now.ui}/namespaces/default/workflows/${encodeURIComponent(workflowId)}`, target),
    );
  }
}

/** The workflow IDs, by the name of their picture. */
async function runSamples(env: Environment): Promise<Readonly<Record<string, string>>> {
  const uidOf = (object: string) => kubectl(env, `get ${object} -o jsonpath={.metadata.uid}`);
  await kubectl(env, `delete --ignore-not-found -f ${samples.request} -f ${samples.pod} -f ${cloneSet} -f ${pullJob}`);
  await kubectl(env, `apply -f ${samples.pod} -f ${cloneSet}`);
  await kubectl(env, 'wait pod/web --for=condition=Ready --timeout=300s');
  await kubectl(env, 'wait clone/shop --for=jsonpath={.status.availableReplicas}=10 --timeout=300s');

  await kubectl(env, `apply -f ${samples.request}`);
  const newer = readFileSync(join(repository, cloneSet), 'utf8').replaceAll('busybox:1.36', 'busybox:1.35');
  await run(toolPath('kubectl'), ['apply', '-f', '-'], { env, input: newer, cwd: repository });
  await kubectl(env, 'wait clone/shop --for=jsonpath={.status.updatedAvailableReplicas}=10 --timeout=600s');
  await kubectl(env, 'wait crr/restart-web --for=jsonpath={.status.phase}=Completed --timeout=300s');
  // A job pulls on the nodes that have a NodeImage, which a node gets half a minute after it is ready.
  const nodes = (await kubectl(env, 'get nodes -o jsonpath={.items[*].metadata.name}')).split(' ');
  const nodeImages = nodes.map((node) => `nodeimage/${node}`).join(' ');
  await kubectl(env, `wait ${nodeImages} --for=create --timeout=120s`);
  await kubectl(env, `apply -f ${pullJob}`);
  await kubectl(env, 'wait imagepulljob/warm-busybox --for=condition=Complete --timeout=300s');
  return {
    'ui-restart': `restart-containers/default/web/${await uidOf('pod/web')}`,
    'ui-roll-out': `roll-out/default/shop/${await uidOf('clone/shop')}`,
    'ui-pull': `pull-on-nodes/default/warm-busybox/${await uidOf('imagepulljob/warm-busybox')}`,
  };
}

async function takePicture(browser: string, url: string, target: string): Promise<void> {
  const profile = mkdtempSync(join(tmpdir(), 'windlass-picture-'));
  try {
    await run(browser, [
      '--headless=new',
      '--no-sandbox',
      '--hide-scrollbars',
      '--disable-gpu',
      `--user-data-dir=${profile}`,
      `--window-size=${size.width},${size.height}`,
      `--virtual-time-budget=${settledMs}`,
      `--screenshot=${join(repository, target)}`,
      url,
    ]);
  } finally {
    rmSync(profile, { recursive: true, force: true });
  }
}

/** Debian's Chromium, which is installed where it is missing. */
async function findBrowser(): Promise<string> {
  const known = () => spawnSync('which', ['chromium'], { encoding: 'utf8' }).stdout.trim();
  if (known() === '') {
    await run('apt-get', ['update']);
    await run('apt-get', ['install', '--yes', '--no-install-recommends', 'chromium'], {
      env: { DEBIAN_FRONTEND: 'noninteractive' },
    });
  }
  return known();
}

async function kubectl(env: Environment, command: string): Promise<string> {
  return await run(toolPath('kubectl'), command.split(' '), { env, cwd: repository });
}
