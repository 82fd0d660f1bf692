import { type Command, Option } from 'commander';
import { stringify } from 'yaml';
import { goDurationMs } from '../../api/base/go-duration.ts';
import { failureTypeOf } from '../../api/core/failure.ts';
import type { PodTemplate } from '../../api/core/pod-template.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { templateOf } from '../../api/fleet/revision.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import type { PatchType } from '../../kube/client.ts';
import type { Cluster, ClusterFlags } from '../cluster.ts';
import { attempt, CommandFailed } from '../failure.ts';
import { filenameOption, recursiveOption } from '../flags.ts';
import { readManifests } from '../manifests.ts';
import { formatAnswer, type OutputFormat } from '../output/document.ts';
import { indented } from '../output/table.ts';
import { pausePatch, restartPatch } from '../rollout/changes.ts';
import { updatedPodsText } from '../rollout/detail.ts';
import { historyText, restorePatch, revisionNumbered, revisionsFor, undoOf } from '../rollout/history.ts';
import type { RolledOut } from '../rollout/kind.ts';
import { displayName, quotedName, type Target, targetsOf } from '../rollout/objects.ts';
import { followRollout } from '../rollout/status.ts';

/** What the commands need of the program. */
export interface RolloutProgram {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly pause: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly now: () => number;
  readonly readStdin: () => Promise<string>;
  readonly withCluster: (flags: ClusterFlags, work: (cluster: Cluster) => Promise<void>) => Promise<void>;
  readonly fail: (failures: readonly string[]) => void;
  readonly helpHint: (command: string) => string;
}

interface CommonFlags extends ClusterFlags {
  readonly filename?: readonly string[];
  readonly recursive?: true;
  readonly output: OutputFormat;
}

/** What a verb does to one object; answers what to print. */
type Verb<Flags> = (
  target: Target,
  object: RolledOut,
  means: { readonly cluster: Cluster; readonly flags: Flags },
) => Promise<Outcome>;

interface Outcome {
  /** Such as `paused`. */
  readonly verb: string;
  /** The object after it. */
  readonly object: RolledOut;
}

/** Adds `rollout` with its verbs. */
export function addRolloutCommands(program: Command, options: RolloutProgram): void {
  const { out, err, pause, now, readStdin, withCluster, fail, helpHint } = options;
  const rollout = program
    .command('rollout')
    .description('Watch, pause, resume, restart and undo roll-outs of CloneSets and other kinds of apps.kruise.io');

  status();
  history();
  changing('undo', 'Return to an earlier template', undo, (command) =>
    command
      .option('--to-revision <number>', 'the revision to return to; 0: the one before the newest', '0')
      .option('--dry-run', 'client: print what would be done; =server: have the API server try it')
      .addOption(new Option('--dry-run-server').hideHelp()),
  );
  changing('pause', 'Set the pause field: no further pod is updated', (target, object, { cluster }) =>
    patched(target, object, cluster, { type: 'merge', body: (seen) => pausePatch(target, seen, true), verb: 'paused' }),
  );
  changing('resume', 'Remove the pause', async (target, object, { cluster }) => {
    const { paused } = ordersOf(object) ?? {};
    if (paused) {
      const command = `kubectl -n ${target.ref.namespace} annotate ${displayName(target)} ${windlassAnnotation.command}=resume`;
      err(`note: the roll-out was paused by a command as well, by ${paused.by} at ${paused.at}: ${command}\n`);
    }
    return await patched(target, object, cluster, {
      type: 'merge',
      body: (seen) => pausePatch(target, seen, false),
      verb: 'resumed',
    });
  });
  changing(
    'restart',
    'Recreate the pods, within the budget of the roll-out: sets RESTARTED_AT in every container of the template',
    (target, object, { cluster }) =>
      patched(target, object, cluster, {
        type: 'json',
        body: (seen) => restartPatch(target, seen, now()),
        verb: 'restarted',
      }),
  );

  /** A verb about several objects: a failure does not keep it from the others. */
  function changing<Flags extends CommonFlags>(
    name: string,
    description: string,
    verb: Verb<Flags>,
    more: (command: Command) => Command = (command) => command,
  ): void {
    const command = more(withObjects(rollout.command(name).description(description)));
    command.action(async (words: readonly string[]) => {
      const flags = command.optsWithGlobals<Flags>();
      await eachTarget(words, flags, async (target, cluster) => {
        const object = await read(target, cluster);
        const { verb: done, object: after } = await verb(target, object, { cluster, flags });
        out(answer(target, { verb: done, object: after }, flags.output));
      });
    });
  }

  async function undo(
    target: Target,
    object: RolledOut,
    { cluster, flags }: { readonly cluster: Cluster; readonly flags: CommonFlags & UndoFlags },
  ): Promise<Outcome> {
    const toRevision = revisionFlag('--to-revision', flags.toRevision);
    const revisions = await revisionsFor(target, object, {
      kube: cluster.kube,
      refusal: 'no rollbacker has been implemented',
    });
    const workload = object as RolledOut & { readonly spec: { readonly template: PodTemplate } };
    const found = undoOf(target, workload, { revisions, toRevision });
    if (found.kind === 'skipped') {
      return { verb: `skipped rollback (current template already matches revision ${toRevision})`, object };
    }
    if (found.doubt !== undefined) err(`warning: revision ${found.revision}: ${found.doubt}\n`);
    if (flags.dryRun) return { verb: `will roll back to\n${templateText(found.template)}`, object };
    const outcome = await patched(target, object, cluster, {
      type: 'json',
      body: (seen) => restorePatch(seen, found.template),
      verb: 'rolled back',
      dryRun: flags.dryRunServer ?? false,
    });
    err(`back to revision ${found.revision}\n`); // KK-4: the output itself is that of kubectl
    return outcome;
  }

  function history(): void {
    const command = withObjects(
      rollout
        .command('history')
        .description('List the templates that a workload has had, or show one of them')
        .option('--revision <number>', 'the revision to show; 0: list them', '0'),
    );
    command.action(async (words: readonly string[]) => {
      const flags = command.optsWithGlobals<CommonFlags & { readonly revision: string }>();
      const number = revisionFlag('--revision', flags.revision);
      await eachTarget(words, flags, async (target, cluster) => {
        const object = await read(target, cluster);
        const revisions = await revisionsFor(target, object, {
          kube: cluster.kube,
          refusal: 'no history viewer has been implemented',
        });
        const name = displayName(target);
        const shown = number === 0 ? undefined : revisionNumbered(revisions, number);
        const text =
          shown === undefined
            ? `${name}\n${historyText(revisions)}\n`
            : `${name} with revision #${number}\n${templateText(templateOf(shown) ?? {})}\n`;
        const document = shown ?? { kind: 'ControllerRevisionList', apiVersion: 'apps/v1', items: revisions };
        out(formatAnswer(flags.output, { document, text, name }));
      });
    });
  }

  function status(): void {
    const command = withObjects(
      rollout
        .command('status')
        .description('Follow a roll-out until it is done: exit code 0 when it is')
        .option('-w, --watch', 'follow it; --watch=false prints one line', true)
        .addOption(new Option('--no-watch').hideHelp())
        .option('--revision <number>', 'fail unless this is the newest revision; 0: any', '0')
        .option('--timeout <time>', 'when to give up, such as 30s or 10m; 0: never', '0')
        .option('-d, --detail', 'name the object in each line, and list the updated pods after it'),
    );
    command.action(async (words: readonly string[]) => {
      const flags = command.optsWithGlobals<CommonFlags & StatusFlags>();
      const revision = revisionFlag('--revision', flags.revision);
      const timeoutMs = goDurationMs(flags.timeout);
      if (timeoutMs === undefined) {
        throw new CommandFailed(`--timeout="${flags.timeout}": expects a time such as 30s or 10m, or 0 for none`);
      }
      await withCluster(flags, async (cluster) => {
        const targets = await named(words, flags, cluster);
        const [target, ...others] = targets;
        if (target === undefined || others.length > 0) {
          throw new CommandFailed(
            `rollout status is only supported on individual resources and resource collections - ${targets.length} resources were found`,
          );
        }
        const { kube } = cluster;
        const signal = timeoutMs === 0 ? new AbortController().signal : AbortSignal.timeout(timeoutMs);
        const print = async (line: string, object: RolledOut) => {
          if (!flags.detail || line.startsWith(' ')) return out(`${line}\n`);
          out(`${displayName(target)}: ${line}\n${await updatedPodsText(target, object, kube)}`);
        };
        await attempt(`Cannot follow ${quotedName(target)}`, () =>
          followRollout(target, {
            ...{ kube, now, print, pause, watch: flags.watch, revision, signal },
            note: (line) => err(`note: ${line}\n`),
          }),
        );
      });
    });
  }

  async function eachTarget(
    words: readonly string[],
    flags: CommonFlags,
    work: (target: Target, cluster: Cluster) => Promise<void>,
  ): Promise<void> {
    await withCluster(flags, async (cluster) => {
      for (const target of await named(words, flags, cluster)) {
        try {
          await work(target, cluster);
        } catch (error) {
          if (!(error instanceof CommandFailed)) throw error;
          fail([error.message]);
        }
      }
    });
  }

  async function named(words: readonly string[], flags: CommonFlags, { namespace }: Cluster) {
    const { filename: files = [], recursive = false } = flags;
    const manifests = await readManifests({ files, recursive, readStdin });
    return targetsOf(words, manifests, { namespace, givenNamespace: flags.namespace });
  }

  function withObjects(command: Command): Command {
    return command
      .argument('[object...]', 'KIND/NAME … or KIND NAME …')
      .addOption(filenameOption())
      .addOption(recursiveOption())
      .showHelpAfterError(helpHint(`kubectl kruise rollout ${command.name()}`));
  }
}

interface UndoFlags {
  readonly toRevision: string;
  readonly dryRun?: true;
  readonly dryRunServer?: true;
}

interface StatusFlags {
  readonly watch: boolean;
  readonly revision: string;
  readonly timeout: string;
  readonly detail?: true;
}

async function read(target: Target, { kube }: Cluster): Promise<RolledOut> {
  return await attempt(`Cannot read ${quotedName(target)}`, () =>
    kube.get<RolledOut>(target.kind.versions[0], target.ref),
  );
}

interface SpecChange {
  readonly type: PatchType;
  /** For the object as it was read last. */
  readonly body: (seen: RolledOut) => object;
  readonly verb: string;
  readonly dryRun?: boolean;
}

/** The most attempts while the status is written all the time. */
const mostAttempts = 10;

/** Patches what was read: a conflict with a write of the status is none, since only the spec counts. */
async function patched(target: Target, read: RolledOut, { kube }: Cluster, change: SpecChange): Promise<Outcome> {
  const { type, body, verb, dryRun = false } = change;
  const [resource] = target.kind.versions;
  const object = await attempt(`Cannot patch ${quotedName(target)}`, async () => {
    let seen = read;
    for (let attempts = 1; ; attempts++) {
      try {
        return await kube.patch<RolledOut>(resource, target.ref, type, body(seen), { dryRun });
      } catch (error) {
        if (failureTypeOf(error) !== 'Conflict' || attempts === mostAttempts) throw error;
        seen = await kube.get<RolledOut>(resource, target.ref);
        const { uid, generation } = seen.metadata;
        if (uid !== read.metadata.uid || generation !== read.metadata.generation) throw error;
      }
    }
  });
  return { verb: dryRun ? `${verb} (server dry run)` : verb, object };
}

function answer(target: Target, { verb, object }: Outcome, output: OutputFormat): string {
  const name = displayName(target);
  return formatAnswer(output, { document: object, text: `${name} ${verb}`, name });
}

function revisionFlag(flag: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new CommandFailed(`${flag}="${text}": expects the number of a revision, or 0`);
  return Number(text);
}

function templateText(template: PodTemplate): string {
  return `Pod Template:\n${indented(stringify(template).trimEnd())}`;
}
