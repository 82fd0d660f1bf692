import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { windlassImage } from '../images/windlass.ts';
import type { ExternalOptions } from './external.ts';
import { checkedFeatureGates } from './feature-gates.ts';
import { pushImages } from './images.ts';
import { findInstance, type Instance, instanceName, repository } from './instance.ts';
import { freezePart, killPart, logFile, loggedParts, startPart, stopPart, thawPart } from './parts.ts';
import { partsDown } from './parts-down.ts';
import { recordPicture } from './picture.ts';
import { down, type PlatformStatus, status, up, upExternal } from './platform.ts';
import { createProgress } from './progress.ts';
import { start } from './start.ts';

const gatesOption = [
  '--feature-gates <gates>',
  'features of every role: A=true,B=false; absent: as the last time',
] as const;

/** The command line of the local platform, for one instance. */
export function localCommands(name: string): Command {
  const program = new Command('windlass-local').description('Windlass and a whole cluster on this machine');

  program
    .command('start')
    .description('start the cluster, and restart the containers of a sample pod')
    .option(...gatesOption, gates)
    .action(async ({ featureGates }: { featureGates?: string }) => {
      if (!(await start(name, createProgress(), featureGates))) process.exitCode = 1;
    });

  program
    .command('up')
    .description('start the cluster, or repair it')
    .option('--nodes <count>', 'minimum number of nodes', count, 2)
    .option('--played-nodes <count>', 'minimum number of additional nodes that kwok simulates', count, 0)
    .option('--no-windlass', 'without the processes of Windlass')
    .option('--node-monitor-grace <seconds>', 'seconds without a heartbeat after which a node is NotReady', count, 120)
    .option(...gatesOption, gates)
    .option('--external', 'run only Windlass, against the cluster of KUBECONFIG')
    .option('--webhook-host <host>', 'external: host name or address at which the API server reaches this machine')
    .option('--cri-socket <path>', 'external: run a daemon on this runtime socket')
    .option('--node <name>', 'external: name of the node of that daemon')
    .action(async (options: UpFlags) => {
      if (options.external) {
        print(await upExternal(name, externalOptions(options), createProgress()));
        return;
      }
      refuseExternalOptions(options);
      const { nodes, playedNodes, windlass, nodeMonitorGrace, featureGates } = options;
      print(
        await up({
          name,
          nodes,
          playedNodes,
          windlass,
          nodeMonitorGraceSeconds: nodeMonitorGrace,
          featureGates,
          progress: createProgress(),
        }),
      );
    });

  program
    .command('down')
    .description('stop the cluster and delete everything but its logs')
    .action(() => down(name, createProgress()));

  program
    .command('status')
    .description('show addresses, the process of each part, and what waits for a part that is down')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: true }) => {
      const now = status(name);
      if (json) console.log(JSON.stringify(now ?? { instance: name, parts: [] }, undefined, 2));
      else if (now) print(now);
      else console.log(`Instance "${name}" is down`);
    });

  program
    .command('logs')
    .description('show the last log lines of one part or of all parts')
    .argument('[part]', 'name of a part, see "status"')
    .option('-f, --follow', 'follow the logs')
    .option('-n, --lines <count>', 'number of lines for each part', count, 20)
    .action((part: string | undefined, { follow, lines }: { follow?: true; lines: number }) => {
      const instance = existing(name);
      const logs = loggedParts(instance, part).map((one) => logFile(instance, one));
      const files = logs.filter((file) => existsSync(file));
      if (files.length === 0) throw new Error('No logs of any part');
      const tail = spawn('tail', ['-n', String(lines), ...(follow ? ['-F'] : []), ...files], { stdio: 'inherit' });
      tail.on('exit', (code) => process.exit(code ?? 1));
    });

  program
    .command('image')
    .description("build Windlass's image and push it to this instance's registry")
    .action(async () => {
      const { ports } = existing(name);
      const progress = createProgress();
      const image = await progress.step('Image', () => windlassImage(repository));
      await progress.step(`Push to 127.0.0.1:${ports.registry}`, () =>
        pushImages(`http://127.0.0.1:${ports.registry}`, [image]),
      );
      console.log(image.reference);
    });

  program
    .command('picture')
    .description('record the pictures of README and docs, on an instance of its own unless WINDLASS_INSTANCE names one')
    .action(() => recordPicture(instanceName({ WINDLASS_INSTANCE: 'picture', ...process.env }), createProgress()));

  const part = program.command('part').description('start, stop, kill, freeze or thaw one part, see "status"');
  part
    .command('start <part> [flags...]')
    .description('start the part if it does not run; restart it if flags ("-- --flag=value") differ')
    .action((one: string, flags: readonly string[]) => startPart(existing(name), one, flags));
  part
    .command('stop <part>')
    .description('send SIGTERM, then SIGKILL')
    .action((one) => stopPart(existing(name), one));
  part
    .command('kill <part>')
    .description('send SIGKILL')
    .action((one) => killPart(existing(name), one));
  part
    .command('freeze <part>')
    .description('suspend the part (SIGSTOP)')
    .action((one) => freezePart(existing(name), one));
  part
    .command('thaw <part>')
    .description('resume the part (SIGCONT)')
    .action((one) => thawPart(existing(name), one));
  return program;
}

interface UpFlags {
  readonly nodes: number;
  readonly playedNodes: number;
  readonly windlass: boolean;
  readonly nodeMonitorGrace: number;
  readonly featureGates?: string;
  readonly external?: true;
  readonly webhookHost?: string;
  readonly criSocket?: string;
  readonly node?: string;
}

/** Who gives them means the cluster of KUBECONFIG. */
function refuseExternalOptions({ webhookHost, criSocket, node }: UpFlags): void {
  const given = Object.entries({ '--webhook-host': webhookHost, '--cri-socket': criSocket, '--node': node });
  const names = given.flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (names.length === 0) return;
  const hint = names.includes('--node') ? '; for more nodes of the local cluster give --nodes <count>' : '';
  throw new Error(`${names.join(', ')}: only with --external${hint}`);
}

function externalOptions({ webhookHost, criSocket, node, featureGates }: UpFlags): ExternalOptions {
  const { KUBECONFIG: kubeconfig, WINDLASS_TEMPORAL_ADDRESS: temporalAddress } = process.env;
  if (!kubeconfig || kubeconfig.includes(':')) throw new Error('--external: KUBECONFIG must name one file');
  if ((criSocket === undefined) !== (node === undefined)) throw new Error('Give --cri-socket and --node together');
  return {
    kubeconfig: resolve(kubeconfig),
    ...(temporalAddress ? { temporalAddress } : {}),
    ...(webhookHost ? { webhookHost } : {}),
    ...(featureGates !== undefined ? { featureGates } : {}),
    ...(criSocket && node ? { daemon: { criSocket: resolve(criSocket), node } } : {}),
  };
}

function existing(name: string): Instance {
  const instance = findInstance(name);
  if (!instance) throw new Error(`Instance "${name}" is down: run "npm run up"`);
  return instance;
}

function print(now: PlatformStatus): void {
  for (const key of ['instance', 'kubeconfig', 'apiserver', 'registry', 'temporal', 'ui'] as const) {
    if (now[key] !== '') console.log(`${key.padEnd(11)} ${now[key]}`);
  }
  console.log();
  for (const { name: one, pid, state, since } of now.parts) {
    console.log(`${one.padEnd(26)} ${state.padEnd(8)} ${String(pid).padStart(8)}  ${since}`);
  }
  const down = partsDown(now.parts);
  if (down.length > 0) console.log(`\n${down.join('\n')}`);
}

/** An invalid gate ends the command before anything is started. */
function gates(text: string): string {
  try {
    return checkedFeatureGates(text);
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

function count(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError('must be an integer of 0 or more');
  return value;
}
