import type { SourceFile } from './source.ts';

const empty = /(^|\/)(utils?|common|helpers?|misc|shared-code)(\.[a-z.]+)?(\/|$)/;
const kebabCase = /^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z]+)*$/;

/** Source files that are not named in kebab-case after what they hold. */
export function fileNameProblems(sources: readonly SourceFile[]): readonly string[] {
  return sources.flatMap(({ path }) => {
    if (empty.test(path)) return [`${path}:1: the name says nothing; a function belongs to a noun or a decision`];
    const odd = path.split('/').find((part) => !kebabCase.test(part.replace(/^\./, '')));
    return odd === undefined ? [] : [`${path}:1: "${odd}" is not in kebab-case`];
  });
}
