import type { SourceFile } from './source.ts';

/** Parts that are tools for people and not Windlass: they may look around. */
const tools = /^(deploy|test)\//;

/** Every reading of the environment outside `workers/config.ts`, the one place where options come from. */
export function environmentProblems(sources: readonly SourceFile[]): readonly string[] {
  return sources
    .filter(({ path }) => path !== 'workers/config.ts' && !tools.test(path))
    .flatMap(({ path, globals }) =>
      globals
        .filter(({ text }) => text === 'process.env' || text === 'process.argv')
        .map(({ text, line }) => `${path}:${line}: reads ${text}; options are read in workers/config.ts only`),
    );
}
