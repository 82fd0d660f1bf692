/** The name that a misspelt one most probably means: with the fewest changed characters, and at most this many. */
export function closest(misspelt: string, names: readonly string[], most: number): string | undefined {
  let found: string | undefined;
  let fewest = most + 1;
  for (const name of names) {
    if (Math.abs(name.length - misspelt.length) >= fewest) continue;
    const changes = changesBetween(misspelt, name);
    if (changes < fewest) [found, fewest] = [name, changes];
  }
  return found;
}

/** How many characters are added, left out, replaced or swapped with the next one. Both texts must be short. */
function changesBetween(one: string, other: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const isSame = one[i - 1] === other[j - 1];
      const changed = (last[j - 1] ?? 0) + (isSame ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      const swapped = isSwapped ? (beforeLast[j - 2] ?? 0) + 1 : changed;
      row.push(Math.min(changed, swapped, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    [beforeLast, last] = [last, row];
  }
  return last[other.length] ?? 0;
}
