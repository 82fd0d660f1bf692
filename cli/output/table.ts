/** A table in kubectl's format: columns three spaces apart, no trailing spaces. */
export function renderTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('   ')
        .trimEnd(),
    )
    .join('\n');
}

/** `1 pod`, `3 pods`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}

/** A duration in the format of kubectl's AGE: `45s`, `3m20s`, `25m`, `3h`, `2d`. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 === 0 ? `${minutes}m` : `${minutes}m${seconds % 60}s`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}

/** Indents the lines of a text. */
export function indented(text: string): string {
  return text
    .split('\n')
    .map((line) => (line === '' ? line : `  ${line}`))
    .join('\n');
}

/** What is in the way, as far as it is named: `pod/a, pod/b and 3 more`. Empty where nothing is. */
export function blockersText(wait: { readonly blockedBy: readonly string[]; readonly blockedCount: number }): string {
  const { blockedBy, blockedCount } = wait;
  if (blockedBy.length === 0) return '';
  const more = blockedCount > blockedBy.length ? ` and ${blockedCount - blockedBy.length} more` : '';
  return `${blockedBy.join(', ')}${more}`;
}
