import { Command, CommanderError, Option } from 'commander';
import type { InstallationRecord } from '../api/engine/installation-record.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import type { Cluster, ClusterFlags } from './cluster.ts';
import { type PlanAnswer, planManifests, plannedKinds } from './commands/plan.ts';
import { addRolloutCommands } from './commands/rollout.ts';
import { addSidecarCommands } from './commands/sidecar.ts';
import { parseObject } from './explain/explainers.ts';
import type { Explanation } from './explain/explanation.ts';
import { watcherNote } from './explain/watcher-note.ts';
import { CommandFailed, describeFailure } from './failure.ts';
import { collect, filenameOption, recursiveOption } from './flags.ts';
import { readManifests } from './manifests.ts';
import type { OperationEngine } from './operation.ts';
import { formatAnswer, type OutputFormat, outputFormats } from './output/document.ts';
import { explanationText } from './output/explain-text.ts';
import { planText } from './output/plan-text.ts';
import { printable } from './output/printable.ts';
import { published } from './published.ts';

/** A connection to Temporal, or why there is none. */
export type FoundEngine =
  | { readonly engine: OperationEngine }
  | { readonly engine?: undefined; readonly missing: string };

/** The environment of the plugin. */
export interface Surroundings {
  /** The arguments after `kubectl kruise`. */
  readonly args: readonly string[];
  readonly connect: (flags: ClusterFlags) => Cluster;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly readStdin: () => Promise<string>;
  readonly now: () => number;
  readonly pause: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** From `--feature-gates` or the environment, otherwise as published; throws for an unknown gate that is given. */
  readonly featureGates: (text: string | undefined, record: Pick<InstallationRecord, 'featureGates'>) => FeatureGates;
  readonly engine: (flags: EngineFlags, cluster: Cluster, clusterFlags: ClusterFlags) => Promise<FoundEngine>;
  readonly version: string;
}

/** How to reach Temporal: the flags of Windlass's own processes, as given. */
export type EngineFlags = Readonly<Record<string, string | undefined>>;

/** The flags that say where Temporal is, with their meaning. */
export const engineFlags = {
  'temporal-address': 'host:port of Temporal (WINDLASS_TEMPORAL_ADDRESS) [published in the cluster]',
  'temporal-namespace': 'namespace in Temporal (WINDLASS_TEMPORAL_NAMESPACE) [published in the cluster]',
  'temporal-tls': 'true: use TLS to Temporal; implied by the other --temporal-tls flags',
  'temporal-tls-ca-file': "CA certificate of Temporal's certificate",
  'temporal-tls-cert-file': 'client certificate for Temporal',
  'temporal-tls-key-file': 'private key of the client certificate for Temporal',
  'temporal-tls-server-name': "expected server name in Temporal's certificate",
  'temporal-api-key-file': 'file with the API key for Temporal',
} as const;

/** Runs one command and returns its exit code: 0, or 1 after an error. */
export async function runKruise(given: Surroundings): Promise<number> {
  const surroundings: Surroundings = {
    ...given,
    out: (text) => given.out(printable(text)),
    err: (text) => given.err(printable(text)),
  };
  let code = 0;
  const fail = (failures: readonly string[]) => {
    for (const failure of failures) surroundings.err(`error: ${failure}\n`);
    if (failures.length > 0) code = 1;
  };
  try {
    await kruise(surroundings, fail).parseAsync(surroundings.args.map(withDashes).flatMap(withoutValue), {
      from: 'user',
    });
  } catch (error) {
    // commander has printed its own message already
    if (error instanceof CommanderError) return error.exitCode === 0 || error.code === 'commander.help' ? 0 : 1;
    surroundings.err(`error: ${describeFailure(error)}\n`);
    return 1;
  }
  return code;
}

/** `_` in the name of a flag is accepted as `-`, as by kubectl. */
function withDashes(arg: string): string {
  return arg.startsWith('--') ? arg.replace(/^--[^=]*/, (name) => name.replaceAll('_', '-')) : arg;
}

const switches = [
  '--insecure-skip-tls-verify',
  '--disable-compression',
  '--match-server-version',
  '--recursive',
  '--dry-run',
  '--watch',
  '--detail',
];

/** Boolean flags of kubectl may also be given as `--name=true` and `--name=false`. */
function withoutValue(arg: string): readonly string[] {
  const [, name = '', value = ''] = /^(--[^=]+)=(.*)$/s.exec(arg) ?? [];
  if (!switches.includes(name)) return [arg];
  if (name === '--dry-run' && value === 'server') return ['--dry-run-server'];
  if (name === '--dry-run' && value === 'client') return [name];
  if (name === '--dry-run' && value === 'none') return [];
  if (/^(1|t|true)$/i.test(value)) return [name];
  if (/^(0|f|false)$/i.test(value)) return name === '--watch' ? ['--no-watch'] : [];
  throw new CommandFailed(`invalid argument "${value}" for "${name}" flag: must be true or false`);
}

/** Where nothing is published, or it cannot be read, the defaults hold. */
async function gatesOf(
  { featureGates }: Surroundings,
  cluster: Cluster,
  { featureGates: given }: GlobalFlags,
): Promise<FeatureGates> {
  return featureGates(given, await published(cluster).catch(() => ({ featureGates: new Map() })));
}

function kruise(surroundings: Surroundings, fail: (failures: readonly string[]) => void): Command {
  const { out, err, readStdin, now, pause } = surroundings;
  const program = new Command('kubectl kruise')
    .description('Plan, watch, explain and undo operations of Windlass')
    .version(surroundings.version, '--version', 'print the version')
    .exitOverride()
    .configureOutput({ writeOut: out, writeErr: err, outputError: (text, write) => write(text) })
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError(helpHint('kubectl kruise'));
  addGlobalFlags(program);

  const plan = program
    .command('plan')
    .description(`Show what applying these ${plannedKinds} would do to each pod`)
    .addOption(filenameOption().makeOptionMandatory())
    .addOption(recursiveOption())
    .showHelpAfterError(helpHint('kubectl kruise plan'))
    .addHelpText('after', planExamples);
  plan.action(async () => {
    const flags = plan.optsWithGlobals<GlobalFlags & { filename: readonly string[]; recursive?: true }>();
    const objects = await readManifests({ files: flags.filename, recursive: flags.recursive ?? false, readStdin });
    await withCluster(flags, async (cluster) => {
      const gates = await gatesOf(surroundings, cluster, flags);
      const answer = await planManifests(objects, { cluster, gates, givenNamespace: flags.namespace, now });
      for (const note of answer.notes) err(`note: ${note}\n`);
      if (answer.plans.length > 0)
        out(formatAnswer(flags.output, { document: planDocument(answer), text: planText(answer.plans) }));
      fail(answer.failures);
    });
  });

  const explain = program
    .command('explain')
    .argument('[object...]', 'KIND/NAME or KIND NAME')
    .description('Show what an operation does now, what it waits for, since when, and how to unblock it')
    .showHelpAfterError(helpHint('kubectl kruise explain'))
    .addHelpText('after', explainExamples);
  for (const [name, text] of Object.entries(engineFlags)) explain.option(`--${name} <value>`, text);
  explain.action(async (words: readonly string[]) => {
    const flags = explain.optsWithGlobals<GlobalFlags>();
    const { explainer, ...object } = parseObject(words);
    await withCluster(flags, async (cluster) => {
      const { kube, namespace } = cluster;
      const gates = await gatesOf(surroundings, cluster, flags);
      const found = await engineFor(explain, cluster, flags);
      const { engine } = found;
      try {
        const means = {
          kube,
          gates,
          nowMs: now(),
          ...(engine ? { engine, engineMissing: '' } : { engineMissing: found.missing }),
        };
        const explained = withFirst(await explainer.explain({ ...object, namespace }, means), engine);
        const note = await watcherNote(kube, { now, pause });
        const explanation = note === undefined ? explained : { ...explained, notes: [note, ...explained.notes] };
        out(formatAnswer(flags.output, { document: explanation, text: explanationText(explanation, now()) }));
        const { operation } = explanation;
        if (engine?.isGiven && operation?.kind === 'notAsked') fail([operation.why]);
      } finally {
        await engine?.close();
      }
    });
  });
  addRolloutCommands(program, { out, err, pause, now, readStdin, withCluster, fail, helpHint });
  addSidecarCommands(program, { out, err, now, pause, withCluster, fail, helpHint });
  return program;

  async function withCluster(flags: ClusterFlags, work: (cluster: Cluster) => Promise<void>): Promise<void> {
    const cluster = surroundings.connect(flags);
    try {
      await work(cluster);
    } finally {
      await cluster.kube.close();
    }
  }

  async function engineFor(command: Command, cluster: Cluster, clusterFlags: ClusterFlags): Promise<FoundEngine> {
    const given = Object.fromEntries(
      command.options.flatMap((option) => {
        const name = option.long?.slice(2) ?? '';
        const value: unknown = command.getOptionValue(option.attributeName());
        return Object.hasOwn(engineFlags, name) && value !== undefined ? [[name, String(value)]] : [];
      }),
    );
    try {
      return await surroundings.engine(given, cluster, clusterFlags);
    } catch (error) {
      throw new CommandFailed(describeFailure(error));
    }
  }
}

/** kubectl's hint after an invalid flag. */
function helpHint(command: string): string {
  return `See '${command} -h' for help and examples`;
}

/** Commands that ask Temporal may need another command before them that makes it reachable. */
function withFirst(explanation: Explanation, engine: FoundEngine['engine']): Explanation {
  const { commands } = explanation;
  const isNeeded = commands.some(({ command }) => command.startsWith('temporal '));
  return engine?.first && isNeeded ? { ...explanation, commands: [engine.first, ...commands] } : explanation;
}

interface GlobalFlags extends ClusterFlags {
  readonly output: OutputFormat;
  readonly featureGates?: string;
}

/** kubectl's flags under the same names, so that aliases and scripts keep working. */
function addGlobalFlags(command: Command): void {
  command
    .addOption(new Option('-o, --output <format>', 'output format').choices(outputFormats).default('table'))
    .option('--feature-gates <gates>', 'feature gates of Windlass: A=true,B=false [published in the cluster]')
    .option('-n, --namespace <namespace>', 'namespace of objects without one')
    .option('--kubeconfig <file>', 'path of the kubeconfig file')
    .option('--context <name>', 'context of the kubeconfig to use')
    .option('--cluster <name>', 'cluster of the kubeconfig to use')
    .option('--user <name>', 'user of the kubeconfig to use')
    .option('-s, --server <address>', 'address and port of the API server')
    .option('--token <token>', 'bearer token for the API server')
    .option('--username <name>', 'user name for basic authentication')
    .option('--password <password>', 'password for basic authentication')
    .option('--as <user>', 'user to impersonate')
    .addOption(new Option('--as-group <group>', 'group to impersonate; may be given several times').argParser(collect))
    .option('--as-uid <uid>', 'UID to impersonate')
    .option('--request-timeout <time>', 'how long to wait for one request, such as 30s; 0: the default')
    .option('--certificate-authority <file>', 'CA certificate of the API server')
    .option('--client-certificate <file>', 'client certificate')
    .option('--client-key <file>', 'private key of the client certificate')
    .option('--tls-server-name <name>', "expected server name in the API server's certificate")
    .option('--insecure-skip-tls-verify', 'do not verify the certificate of the API server');
  for (const flag of withoutEffect) command.addOption(new Option(flag).hideHelp());
}

/** Flags of kubectl that have no effect here. */
const withoutEffect = ['--cache-dir <folder>', '--disable-compression', '--match-server-version', '-v, --v <level>'];

function planDocument({ plans, notes }: PlanAnswer): object {
  return { kind: 'PlanList', items: plans, notes };
}

const planExamples = `
Examples:
  kubectl kruise plan -f shop.yaml
  kustomize build overlays/prod | kubectl kruise plan -f - -o json
`;

const explainExamples = `
Examples:
  kubectl kruise explain clone/shop
  kubectl kruise explain crr restart-web --temporal-address 127.0.0.1:7233
`;
