import type { SourceFile } from './source.ts';

/** Parts that are tools for people and not Windlass: they may look around. */
const tools = /^(deploy|test)\//;

/** The one place where options come from; and the plugin, which has those of kubectl besides. */
const readers = ['process/config.ts', 'cli/main.ts'];

/** Every reading of the environment where options are not read. */
export function environmentProblems(sources: readonly SourceFile[]): readonly string[] {
  return sources
    .filter(({ path }) => !readers.includes(path) && !tools.test(path))
    .flatMap(({ path, globals }) =>
      globals
        .filter(({ text }) => text === 'process.env' || text === 'process.argv')
        .map(({ text, line }) => `${path}:${line}: reads ${text}; options are read in process/config.ts only`),
    );
}
