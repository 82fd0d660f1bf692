// What can be seen of a documented command without a cluster: does everything exist that it names?
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { parseAllDocuments } from 'yaml';
import { rollOutCommandNames } from '../../api/engine/operations.ts';
import { kindDefinitions } from '../../api/kinds.ts';
import { runKruise } from '../../cli/program.ts';
import { busyboxVersions } from '../../deploy/local/base-images.ts';
import { repository } from '../../deploy/local/instance.ts';
import { localCommands } from '../../deploy/local/local-commands.ts';
import { type DocumentedCommand, wordsOf } from './console-blocks.ts';

/** What the commands of one page name that does not exist, with page and line. */
export async function commandProblems(commands: readonly DocumentedCommand[]): Promise<readonly string[]> {
  const variables = new Set(['HOME', 'PATH', 'PWD']);
  const problems: string[] = [];
  for (const { page, line, text } of commands) {
    const words = wordsOf(text);
    const found = [
      ...unknownVariables(text, variables),
      ...missingPaths(words),
      ...patchedImages(words).flatMap(imageProblems),
      ...unknownOrders(words),
      ...(words[0] === 'npm' ? await npmProblems(words) : []),
      ...(words[0] === 'kubectl' && words[1] === 'kruise' ? await pluginProblems(words.slice(2)) : []),
      ...(words[0] === 'kubectl' && words[1] !== 'kruise' ? objectProblems(words.slice(1)) : []),
    ];
    problems.push(...found.map((problem) => `${page}:${line}: ${problem}`));
    const [, set] = /^(?:export )?(\w+)=/.exec(text) ?? [];
    if (set !== undefined) variables.add(set);
  }
  return problems;
}

interface Package {
  readonly scripts: Readonly<Record<string, string>>;
}
const { scripts } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as Package;

const seeded = busyboxVersions.map((version) => `busybox:${version}`);

/** Empty when the registry of every instance has the image. */
export function imageProblems(image: string): readonly string[] {
  const name = image.replace(/^docker\.io\/library\//, '');
  return seeded.includes(name) ? [] : [`image "${image}" is not in the registry, which has ${seeded.join(', ')}`];
}

function patchedImages(words: readonly string[]): readonly string[] {
  const patch = words[words.indexOf('-p') + 1] ?? '';
  if (!words.includes('-p') || !patch.startsWith('[')) return [];
  const operations = JSON.parse(patch) as readonly { readonly path: string; readonly value?: string }[];
  return operations.flatMap(({ path, value = '' }) => (path.endsWith('/image') ? [value] : []));
}

function unknownVariables(text: string, known: ReadonlySet<string>): readonly string[] {
  const expanded = text.replaceAll(/'[^']*'/g, '');
  return Array.from(expanded.matchAll(/\$\{?([A-Za-z_]\w*)/g), ([, name = '']) => name)
    .filter((name) => !known.has(name))
    .map((name) => `variable "${name}" is not set`);
}

function missingPaths(words: readonly string[]): readonly string[] {
  const paths = words.flatMap((word, index) => {
    if (words[index - 1] === '-f' && words[0] === 'kubectl' && words[1] !== 'kruise') return [word];
    const [, path] = /(?:^|=)((?:deploy|docs|test)\/.+)/.exec(word) ?? [];
    return path ?? [];
  });
  return paths.filter((path) => !existsSync(join(repository, path))).map((path) => `"${path}" does not exist`);
}

/** Commands of operators, by signal or annotation. */
function unknownOrders(words: readonly string[]): readonly string[] {
  const orders = words.flatMap((word, index) => {
    const [, annotated] = /^windlass\.io\/command=(\S+)/.exec(word) ?? [];
    if (annotated !== undefined) return [annotated];
    return words[0] === 'temporal' && words[2] === 'signal' && words[index - 1] === '--name' ? [word] : [];
  });
  return orders
    .filter((order) => !rollOutCommandNames.some((name) => name === order))
    .map((order) => `no operation has the command "${order}"`);
}

async function npmProblems(words: readonly string[]): Promise<readonly string[]> {
  const [, verb = '', ...rest] = words;
  const script = verb === 'run' ? (rest[0] ?? '') : verb;
  const [, command] = /^node deploy\/local\/bootstrap\.mjs (\S+)$/.exec(scripts[script] ?? '') ?? [];
  if (command === undefined) return scripts[script] === undefined ? [`there is no npm script "${script}"`] : [];
  const program = localCommands('documented');
  if (!program.commands.some((one) => one.name() === command)) return [];
  const args = words.includes('--') ? words.slice(words.indexOf('--') + 1) : [];
  return await parseProblems(program, [command, ...args]);
}

/** What commander says about these arguments; no action is carried out. */
async function parseProblems(program: Command, args: readonly string[]): Promise<readonly string[]> {
  const silence = (command: Command): void => {
    command.exitOverride().configureOutput({ writeOut: () => undefined, writeErr: () => undefined });
    if (command.commands.length === 0) command.action(() => undefined);
    for (const one of command.commands) silence(one);
  };
  silence(program);
  try {
    await program.parseAsync(args, { from: 'user' });
    return [];
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}

/** A command of the plugin is right if it gets as far as asking the cluster. */
async function pluginProblems(args: readonly string[]): Promise<readonly string[]> {
  if (args.includes('--version')) return [];
  const asked = 'the cluster is asked';
  let said = '';
  await runKruise({
    args,
    connect: () => {
      throw new Error(asked);
    },
    out: () => undefined,
    err: (text) => {
      said += text;
    },
    readStdin: async () => '',
    now: () => 0,
    pause: async () => undefined,
    featureGates: () => {
      throw new Error(asked);
    },
    engine: async () => ({ missing: asked }),
    version: '',
  });
  return said.includes(asked) ? [] : [said.trim()];
}

interface Sample {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec?: {
    readonly template?: { readonly metadata?: { readonly labels?: Readonly<Record<string, string>> } };
  };
}

const samples = globSync('deploy/samples/*.yaml', { cwd: repository })
  .flatMap((file) => parseAllDocuments(readFileSync(join(repository, file), 'utf8')))
  .map((document) => document.toJS() as Sample);
const sampleNames = new Set(samples.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
const anySampleName = new Set(samples.map(({ metadata }) => metadata.name));
const sampleLabels = new Set(
  samples.flatMap(({ metadata, spec }) =>
    Object.entries({ ...metadata.labels, ...spec?.template?.metadata?.labels }).map((label) => label.join('=')),
  ),
);

const ownKinds = kindDefinitions.flatMap(({ kind, plural, shortNames }) =>
  [kind.toLowerCase(), plural, ...shortNames].map((word) => [word, kind] as const),
);
const coreKinds = [
  'Pod',
  'Deployment',
  'Service',
  'Job',
  'Event',
  'Node',
  'ControllerRevision',
  'PersistentVolumeClaim',
  'HorizontalPodAutoscaler',
].flatMap((kind) => [[kind.toLowerCase(), kind] as const, [`${kind.toLowerCase()}s`, kind] as const]);
const kindOfWord = new Map([...ownKinds, ...coreKinds, ['hpa', 'HorizontalPodAutoscaler'] as const]);

const verbs = ['annotate', 'apply', 'delete', 'describe', 'exec', 'get', 'label', 'patch', 'replace', 'scale', 'wait'];
/** Flags of kubectl whose value is a word of its own. */
const flagsWithValue = ['-f', '-l', '-L', '-n', '-o', '-p', '--field-selector'];

/** What kubectl is given: kinds that are served, names of objects of the samples, labels that they have. */
function objectProblems(words: readonly string[]): readonly string[] {
  const [verb = '', ...rest] = words;
  if (!verbs.includes(verb)) return [`verb "${verb}" of kubectl is not known here`];
  const flags = rest.flatMap((word, index) =>
    flagsWithValue.includes(word) ? [[word, rest[index + 1] ?? ''] as const] : [],
  );
  const end = rest.includes('--') ? rest.indexOf('--') : rest.length;
  const objects = rest
    .slice(0, end)
    .filter((word, index) => !word.startsWith('-') && !flagsWithValue.includes(rest[index - 1] ?? ''))
    .filter((word) => !/=|-$/.test(word));
  return [
    ...flags.flatMap(([flag, value]) => (flag === '-l' ? labelProblems(value) : [])),
    ...flags.flatMap(([flag, value]) => (flag === '--field-selector' ? involvedProblems(value) : [])),
    ...nameProblems(verb === 'exec' ? ['pod', ...objects] : objects),
  ];
}

function nameProblems([first = '', ...others]: readonly string[]): readonly string[] {
  if (first === '') return [];
  const named = first.includes('/') ? [first, ...others] : others.map((name) => `${first}/${name}`);
  return (named.length > 0 ? named : [first]).flatMap((object) => {
    const [word = '', name] = object.split('/');
    const kind = kindOfWord.get(word);
    if (kind === undefined) return [`there is no kind "${word}"`];
    if (name === undefined || name.startsWith('$') || /^node-[12]$/.test(name)) return [];
    return sampleNames.has(`${kind}/${name}`) ? [] : [`no sample has ${kind} "${name}"`];
  });
}

function labelProblems(selector: string): readonly string[] {
  const [key = '', value = ''] = selector.split('=');
  const isControllers = key === 'job-name' || key.startsWith('kruise.io/');
  const isKnown = sampleLabels.has(selector) || (isControllers && anySampleName.has(value));
  return isKnown ? [] : [`no sample has the label "${selector}"`];
}

function involvedProblems(selector: string): readonly string[] {
  const [, name = ''] = /involvedObject\.name=([^,]+)/.exec(selector) ?? [];
  return name.startsWith('$') || anySampleName.has(name) ? [] : [`no sample has the name "${name}"`];
}
