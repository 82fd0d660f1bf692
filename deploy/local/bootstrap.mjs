// The entry point of the npm scripts of the local platform. It is plain JavaScript because it must run on a Node that
// cannot run TypeScript, and before the first `npm ci`: it installs the packages and starts the script with Node 24.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const [verb = 'help', ...rest] = process.argv.slice(2);

installPackages();
const script = {
  test: 'test/run.ts',
  proof: 'test/proof.ts',
  check: 'test/check/main.ts',
  record: 'test/record.ts',
  bench: 'test/bench/main.ts',
  chaos: 'test/chaos/main.ts',
  hostile: 'test/hostile/main.ts',
  scale: 'test/scale/main.ts',
  'scale-daemonsets': 'test/scale/daemon-sets-main.ts',
  'scale-pulls': 'test/scale/pulls-main.ts',
  'scale-sidecars': 'test/scale/sidecars-main.ts',
  upgrade: 'test/upgrade/main.ts',
  'upgrade-artefact': 'test/upgrade/artefact-main.ts',
  cli: 'deploy/cli/main.ts',
}[verb];
const args = script ? [script, ...rest] : ['deploy/local/main.ts', verb, ...rest];
handOver(nodeBinary(), [join(root, args[0]), ...args.slice(1)]);

function installPackages() {
  const installed = join(root, 'node_modules/.package-lock.json');
  const wanted = join(root, 'package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(wanted).mtimeMs) return;

  console.error('Installing npm packages (npm ci) ...');
  const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: root, stdio: ['ignore', 2, 2] });
  if (npm.error) fail(`Cannot install npm packages: ${npm.error.message}`);
  if (npm.status !== 0) process.exit(npm.status ?? 1);
}

function nodeBinary() {
  const packaged = join(root, 'node_modules/.bin/node');
  if (existsSync(packaged)) return packaged;
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return process.execPath;
  return fail(
    `Windlass needs Node 22.18 or later: this is ${process.versions.node}, and npm has none for this machine`,
  );
}

function handOver(command, argv) {
  const path = `${join(root, 'node_modules/.bin')}:${process.env.PATH}`;
  const child = spawn(command, argv, { stdio: 'inherit', env: { ...process.env, PATH: path } });
  // A terminal sends Ctrl-C to the whole process group, so the child has received it already.
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'));
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(`Cannot run ${command}: ${error.message}`));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
