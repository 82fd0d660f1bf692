// docs/performance.md is written by several commands; each has a section of its own, which the others leave alone.

/** The commands, in the order of their sections. */
export const measuringCommands = ['bench', 'test:scale'] as const;
export type MeasuringCommand = (typeof measuringCommands)[number];

const title = '# Performance';

/** The document with the section of this command replaced. What no mark tells is of `bench`, which came first. */
export function withSection(document: string, command: MeasuringCommand, text: string): string {
  const sections = new Map<MeasuringCommand, string>();
  for (const known of measuringCommands) {
    const found = sectionOf(document, known);
    if (found !== undefined) sections.set(known, found);
  }
  const unmarked = document.replace(title, '').trim();
  if (sections.size === 0 && unmarked !== '') sections.set('bench', unmarked);
  sections.set(command, text.trim());
  const parts = measuringCommands.flatMap((known) => {
    const section = sections.get(known);
    return section === undefined ? [] : [`${begin(known)}\n\n${section}\n\n${end(known)}`];
  });
  return `${[title, ...parts].join('\n\n')}\n`;
}

function begin(command: MeasuringCommand): string {
  return `<!-- npm run ${command} writes from here -->`;
}

function end(command: MeasuringCommand): string {
  return `<!-- to here: npm run ${command} -->`;
}

function sectionOf(document: string, command: MeasuringCommand): string | undefined {
  const from = document.indexOf(begin(command));
  const to = document.indexOf(end(command));
  return from < 0 || to < from ? undefined : document.slice(from + begin(command).length, to).trim();
}
