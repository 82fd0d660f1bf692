import type { Command } from 'commander';
import { goDurationMs } from '../../api/base/go-duration.ts';
import type { Cluster, ClusterFlags } from '../cluster.ts';
import { CommandFailed } from '../failure.ts';
import { formatAnswer, type OutputFormat } from '../output/document.ts';
import { counted } from '../output/table.ts';
import { type MissingAnswer, type MissingOptions, missingSidecars, missingText } from './sidecar-missing.ts';

/** What the commands need of the program. */
export interface SidecarProgram {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly now: () => number;
  readonly pause: (ms: number) => Promise<void>;
  readonly withCluster: (flags: ClusterFlags, work: (cluster: Cluster) => Promise<void>) => Promise<void>;
  readonly fail: (failures: readonly string[]) => void;
  readonly helpHint: (command: string) => string;
}

interface MissingFlags extends ClusterFlags {
  readonly output: OutputFormat;
  readonly outdated?: true;
  readonly recreate?: true;
  readonly dryRun?: true;
  readonly yes?: true;
  readonly timeout: string;
}

/** Adds `sidecar` with its commands. */
export function addSidecarCommands(program: Command, options: SidecarProgram): void {
  const { out, err, now, pause, withCluster, fail, helpHint } = options;
  const sidecar = program.command('sidecar').description('Pods and their sidecars');
  const missing = sidecar
    .command('missing')
    .argument('<name>', 'the SidecarSet')
    .description('List the pods that a SidecarSet selects but that lack its containers, or have them recreated')
    .option('--outdated', 'also pods with older containers that updates of running pods do not reach')
    .option('--recreate', 'evict these pods one by one; the next when the replacement is ready (needs --yes)')
    .option('--dry-run', 'with --recreate: only ask the API server whether each pod may be evicted')
    .option('--yes', 'with --recreate: do it')
    .option('--timeout <time>', 'with --recreate: how long to wait for each pod', '10m')
    .showHelpAfterError(helpHint('kubectl kruise sidecar missing'))
    .addHelpText('after', missingExamples);
  missing.action(async (name: string) => {
    const flags = missing.optsWithGlobals<MissingFlags>();
    const asked = optionsOf(name, flags);
    await withCluster(flags, async (cluster) => {
      const report = (line: string) => err(`${line}\n`);
      const answer = await missingSidecars(asked, { cluster, now, pause, report });
      out(formatAnswer(flags.output, { document: documentOf(answer), text: missingText(answer) }));
      fail(answer.failures);
      const evicted = answer.pods.filter(({ action }) => action === 'evict').length;
      if (asked.recreate === 'show' && evicted > 0) {
        fail([`${counted(evicted, 'pod')} would be evicted: repeat the command with --yes, or try it with --dry-run`]);
      }
    });
  });
}

function optionsOf(name: string, flags: MissingFlags): MissingOptions {
  const timeoutMs = goDurationMs(flags.timeout);
  if (timeoutMs === undefined || timeoutMs <= 0) {
    throw new CommandFailed(`--timeout="${flags.timeout}": expects a time such as 30s or 10m`);
  }
  const { recreate = false, dryRun = false, yes = false } = flags;
  if (!recreate && (dryRun || yes)) throw new CommandFailed('--dry-run and --yes require --recreate');
  if (dryRun && yes) throw new CommandFailed('--dry-run and --yes cannot be combined');
  return {
    ...{ name, namespace: flags.namespace, outdated: flags.outdated ?? false, timeoutMs },
    recreate: !recreate ? 'no' : dryRun ? 'tryOnly' : yes ? 'really' : 'show',
  };
}

function documentOf({ sidecarSet, pods }: MissingAnswer): object {
  return { kind: 'MissingSidecarList', sidecarSet, items: pods };
}

const missingExamples = `
Examples:
  kubectl kruise sidecar missing log-reader
  kubectl kruise sidecar missing log-reader -n shop --recreate --dry-run
  kubectl kruise sidecar missing log-reader -n shop --recreate --yes
`;
