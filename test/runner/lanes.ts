import type { Group, GroupedFiles } from './groups.ts';

/** Files of a group that one instance of the local platform runs. */
export interface LanePart {
  readonly group: Group;
  readonly files: readonly string[];
}

/** So many files that run together do so at a time. */
export const togetherAtOnce = 2;

/** What a file is taken to need whose time is unknown. */
const unknownSeconds = 30;

/**
 * What each of `count` instances runs, one part after the other. Files that run together are all on the first one. Each other
 * file, the longest first, goes to the instance that is expected to be free earliest: they end at about the same time.
 */
export function lanesOf(
  files: GroupedFiles,
  groups: readonly Group[],
  count: number,
  seconds: Readonly<Record<string, number>>,
): readonly (readonly LanePart[])[] {
  const timeOf = (file: string): number => {
    const parts = groups.filter((group) => files[group].includes(file)).length;
    return (seconds[file] ?? unknownSeconds) / parts;
  };
  const lanes = Array.from({ length: count }, () => ({ parts: [] as LanePart[], busy: 0 }));

  for (const group of groups) {
    const shares = lanes.map((): string[] => []);
    if (group === 'together') {
      const times = files.together.map(timeOf);
      const sum = times.reduce((all, time) => all + time, 0);
      shares[0]?.push(...files.together);
      if (lanes[0]) lanes[0].busy += Math.max(sum / togetherAtOnce, ...times);
    } else {
      for (const file of files[group].toSorted((a, b) => timeOf(b) - timeOf(a) || a.localeCompare(b))) {
        const at = lanes.reduce((best, { busy }, index) => (busy < (lanes[best]?.busy ?? 0) ? index : best), 0);
        shares[at]?.push(file);
        const lane = lanes[at];
        if (lane) lane.busy += timeOf(file);
      }
    }
    for (const [at, share] of shares.entries()) if (share.length > 0) lanes[at]?.parts.push({ group, files: share });
  }
  return lanes.map(({ parts }) => parts);
}
