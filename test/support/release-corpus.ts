// The histories of releases: `test/replay/releases/<version>/<workflow>/<branch>.json`, frozen by a SHA256SUMS file.
// Runs of a release whose history replays continue in the present version; those of one that does not have to drain.
// Such a history has the same path in `test/replay/drains`, with a line in `drains.json` there.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { readJson } from '../../deploy/local/files.ts';
import { repository } from '../../deploy/local/instance.ts';

/** A history of a release, and what happens to such runs in the present version. */
export interface ReleasedHistory {
  readonly release: string;
  readonly workflow: string;
  readonly branch: string;
  readonly file: string;
  readonly kind: HistoryClass;
}

/** Whether runs continue in the present version of the workflows. */
export type HistoryClass = 'replays' | 'drains';

/** A line of `drains.json`. */
export interface Drain {
  /** `<workflow>/<branch>`. */
  readonly history: string;
  /** The commit since which it does not replay: its subject, after its hash where that is known. */
  readonly commit: string;
  readonly reason: string;
}

/** All histories of all releases. */
export interface Corpus {
  readonly histories: readonly ReleasedHistory[];
  /** Files that differ from their frozen state, or are not recorded correctly. */
  readonly problems: readonly string[];
}

const replayFolder = join(repository, 'test/replay');
const sumsName = 'SHA256SUMS';
const drainsName = 'drains.json';

/** Reads a folder such as `test/replay`. */
export function readCorpus(folder = replayFolder): Corpus {
  const found = foldersIn(join(folder, 'releases')).map((release) => readRelease(folder, release));
  const strangers = foldersIn(join(folder, 'drains'))
    .filter((release) => !existsSync(join(folder, 'releases', release)))
    .map((release) => `drains/${release}: there is no releases/${release}`);
  return {
    histories: found.flatMap(({ histories }) => histories),
    problems: [...found.flatMap(({ problems }) => problems), ...strangers],
  };
}

/** Copies the histories of a release from its sources; existing ones stay. */
export function freezeCorpus(release: string, histories: string, folder = replayFolder): void {
  const target = join(folder, 'releases', release);
  const sums = new Map(historiesIn(histories).map((file) => [file, digestOf(join(histories, file))]));
  const text = [...sums].map(([file, digest]) => `${digest}  ${file}\n`).join('');
  if (existsSync(join(target, sumsName))) {
    if (readFileSync(join(target, sumsName), 'utf8') === text) return;
    throw new Error(`Cannot freeze the histories of release "${release}": ${target} holds others`);
  }
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  for (const file of sums.keys()) cpSync(join(histories, file), join(target, file));
  writeFileSync(join(target, sumsName), text);
}

function readRelease(folder: string, release: string): Corpus {
  const places: Readonly<Record<HistoryClass, string>> = {
    replays: join(folder, 'releases', release),
    drains: join(folder, 'drains', release),
  };
  const sums = readSums(join(places.replays, sumsName));
  const drains = readJson<readonly Drain[]>(join(places.drains, drainsName)) ?? [];
  const present = { replays: historiesIn(places.replays), drains: historiesIn(places.drains) };
  const at = (kind: HistoryClass, file: string): string => relative(folder, join(places[kind], file));

  const histories = (['replays', 'drains'] as const).flatMap((kind) =>
    present[kind].map((path): ReleasedHistory => {
      const [workflow = '', branch = ''] = path.replace(/\.json$/, '').split('/');
      return { release, workflow, branch, file: join(places[kind], path), kind };
    }),
  );
  const problems = [
    ...(sums.size === 0 ? [`${at('replays', sumsName)}: it is absent or empty`] : []),
    ...[...sums.keys()]
      .filter((file) => !present.replays.includes(file) && !present.drains.includes(file))
      .map((file) => `${at('replays', file)}: it is gone; histories of a release stay, there or in drains`),
    ...present.drains
      .filter((file) => present.replays.includes(file))
      .map((file) => `${at('drains', file)}: it is in releases as well`),
    ...(['replays', 'drains'] as const).flatMap((kind) =>
      present[kind].flatMap((file) => {
        const sum = sums.get(file);
        if (sum === undefined) return [`${at(kind, file)}: ${sumsName} does not name it; the release did not leave it`];
        if (sum === digestOf(join(places[kind], file))) return [];
        return [`${at(kind, file)}: it has changed; histories of a release are never recorded again`];
      }),
    ),
    ...present.drains
      .filter((file) => !drains.some(({ history }) => `${history}.json` === file))
      .map((file) => `${at('drains', file)}: ${drainsName} has no line for it`),
    ...drains.flatMap(({ history, commit, reason }) => {
      const line = `${at('drains', drainsName)}: "${history}"`;
      if (!present.drains.includes(`${history}.json`)) return [`${line}: there is no such file`];
      return commit && reason ? [] : [`${line}: it needs a commit and a reason`];
    }),
  ];
  return { histories, problems };
}

/** Digests by path, from a file in the format of `sha256sum`. */
function readSums(file: string): ReadonlyMap<string, string> {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  return new Map(
    lines.filter(Boolean).map((line): [string, string] => {
      const [digest = '', path = ''] = line.split(/\s+/);
      return [path, digest];
    }),
  );
}

/** `<workflow>/<branch>.json` of all, in order. */
function historiesIn(folder: string): readonly string[] {
  return foldersIn(folder)
    .flatMap((workflow) => readdirSync(join(folder, workflow)).map((file) => `${workflow}/${file}`))
    .toSorted((a, b) => a.localeCompare(b));
}

function foldersIn(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
}

function digestOf(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

/** The problem of a history that has changed its class; undefined when it has not. */
export function misplaced({ release, workflow, branch, kind }: ReleasedHistory, now: HistoryClass): string | undefined {
  if (kind === now) return undefined;
  const history = `history ${workflow}/${branch} of release ${release}`;
  return now === 'drains'
    ? `${history} no longer replays: runs of that release would have to drain; move it to drains/ in the commit that breaks ` +
        'it and say so in docs/upgrading.md, or make the change replay'
    : `${history} replays again: runs of that release do not have to drain; move it back from drains/ to releases/ and take ` +
        `its line out of ${drainsName}`;
}

/** A line for each workflow of each release and each class, with the branches: for people who read what CI says. */
export function corpusTable(outcomes: readonly (ReleasedHistory & { readonly now: HistoryClass })[]): string {
  const releases = Map.groupBy(outcomes, ({ release }) => release);
  const lines = [...releases].flatMap(([release, ofRelease]) => {
    const drain = ofRelease.filter(({ now }) => now === 'drains').length;
    const workflows = Map.groupBy(ofRelease, ({ workflow, now }) => `${workflow.padEnd(18)} ${now.padEnd(8)}`);
    return [
      `Histories of release ${release}: ${ofRelease.length - drain} replay, ${drain} drain`,
      ...[...workflows]
        .toSorted(([a], [b]) => a.localeCompare(b))
        .map(([head, these]) => `  ${head} ${these.map(({ branch }) => branch).join(', ')}`),
    ];
  });
  return lines.map((line) => `${line}\n`).join('');
}
