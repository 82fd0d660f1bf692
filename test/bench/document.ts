// docs/performance.md is written by several commands; each has a section of its own, which the others leave alone.

/** The parts of `npm run bench`, in the order in which they run and are told. */
export const benchParts = [
  'recreate',
  'roll-out',
  'statefulset',
  'daemonset',
  'sidecars',
  'pull',
  'admission',
  'cache',
  'probes',
  'actions',
] as const;
export type BenchPart = (typeof benchParts)[number];

/** What writes a section: the words after `npm run`. */
export type MeasuringCommand = `bench -- ${BenchPart}` | (typeof scaleCommands)[number];

const scaleCommands = ['test:scale', 'test:scale:daemonsets', 'test:scale:sidecars', 'test:scale:pulls'] as const;

const commands: readonly MeasuringCommand[] = [
  ...benchParts.map((part) => `bench -- ${part}` as const),
  ...scaleCommands,
];

const preamble = '# Performance\n\nEach section is written by the command that its comment names.';

/** The document with the section of this command replaced. What no mark encloses goes. */
export function withSection(document: string, command: MeasuringCommand, text: string): string {
  const sections = commands.flatMap((known) => {
    const section = known === command ? text.trim() : sectionOf(document, known);
    return section === undefined ? [] : [`${begin(known)}\n\n${section}\n\n${end(known)}`];
  });
  return `${[preamble, ...sections].join('\n\n')}\n`;
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
