// A terminal session as an SVG picture, with the reader's choice of light or dark.

/** One line of a session: input or output, and its time. */
export interface TerminalLine {
  readonly kind: 'typed' | 'answered';
  readonly atMs: number;
  readonly text: string;
}

/** The content of a picture. */
export interface TerminalSession {
  /** The text alternative. */
  readonly title: string;
  readonly lines: readonly TerminalLine[];
  /** The text below the session. */
  readonly footer: string;
}

const fontSize = 13;
const characterWidth = 7.8;
const lineHeight = 20;
const margin = 20;
/** The width of the time of day in columns, with a gap. */
const timeWidth = 12;

/** Draws a session. The same session gives the same text, and sessions of equal lengths differ in their words only. */
export function terminalPicture({ title, lines, footer }: TerminalSession): string {
  const longest = Math.max(footer.length, ...lines.map((line) => timeWidth + shownText(line).length));
  const width = Math.ceil(longest * characterWidth + 2 * margin);
  const rows = lines.flatMap((line, index) => (startsBlock(lines, index) ? [undefined, line] : [line]));
  const height = (rows.length + 2) * lineHeight + 2 * margin - lineHeight / 2;
  const drawn = rows.flatMap((line, row) => (line ? [drawnLine(line, yOf(row))] : []));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<style>${style}</style>`,
    `<rect class="box" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>`,
    ...drawn,
    `<text class="dim" x="${margin}" y="${yOf(rows.length + 1)}">${escaped(footer)}</text>`,
    '</svg>',
    '',
  ].join('\n');
}

/** Aligns the words of rows with the heads of their columns. */
export function alignedColumns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, word] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, word.length);
  }
  return rows.map((row) =>
    row
      .map((word, column) => word.padEnd(widths[column] ?? 0))
      .join('   ')
      .trimEnd(),
  );
}

const style = [
  `text{font:${fontSize}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2328}`,
  '.box{fill:#f6f8fa;stroke:#d1d9e0}.dim{fill:#59636e}.busy{fill:#9a6700}.good{fill:#1a7f37}.typed{font-weight:bold}',
  '@media(prefers-color-scheme:dark){text{fill:#e6edf3}.box{fill:#0d1117;stroke:#3d444d}',
  '.dim{fill:#9198a1}.busy{fill:#d29922}.good{fill:#3fb950}}',
].join('');

const meanings: Readonly<Record<string, 'busy' | 'good' | 'dim'>> = {
  Recreating: 'busy',
  Stopping: 'busy',
  ContainerNotReady: 'busy',
  MinStartedSeconds: 'busy',
  Succeeded: 'good',
  Completed: 'good',
  Running: 'good',
  Pending: 'dim',
  '<none>': 'dim',
};

function drawnLine(line: TerminalLine, y: number): string {
  const time = `<tspan class="dim" x="${margin}">${new Date(line.atMs).toISOString().slice(11, 21)}</tspan>`;
  // Each group has a position of its own: columns stay aligned with any font.
  const groups = [...shownText(line).matchAll(/\S+(?: \S+)*/g)].map(({ 0: text, index }) => {
    const x = round(margin + (timeWidth + index) * characterWidth);
    const meaning = line.kind === 'typed' ? 'typed' : (meanings[text] ?? (isHead(text) ? 'dim' : undefined));
    return `<tspan${meaning ? ` class="${meaning}"` : ''} x="${x}">${escaped(text)}</tspan>`;
  });
  return `<text y="${y}">${[time, ...groups].join('')}</text>`;
}

function shownText({ kind, text }: TerminalLine): string {
  return kind === 'typed' ? `$ ${text}` : text;
}

function startsBlock(lines: readonly TerminalLine[], index: number): boolean {
  return index > 0 && lines[index]?.kind === 'typed';
}

function isHead(text: string): boolean {
  return /^[A-Z][A-Z -]+$/.test(text);
}

function yOf(row: number): number {
  return margin + row * lineHeight + fontSize;
}

function round(pixels: number): number {
  return Math.round(pixels * 10) / 10;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
