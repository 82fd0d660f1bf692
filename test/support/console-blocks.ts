/** A command of a console block of the documentation. */
export interface DocumentedCommand {
  /** Of the page, in the repository. */
  readonly page: string;
  /** Where it begins, from 1. */
  readonly line: number;
  /** As written, without prompt, with its further lines. */
  readonly text: string;
  /** The lines of output that the page shows below it. */
  readonly shown: readonly string[];
}

/** The commands of all console blocks of a page, in order. A line that ends with a backslash continues on the next one. */
export function commandsOf(page: string, markdown: string): readonly DocumentedCommand[] {
  const commands: { page: string; line: number; text: string; shown: string[] }[] = [];
  let isConsole = false;
  for (const [index, line] of markdown.split('\n').entries()) {
    const last = commands.at(-1);
    if (line.startsWith('```')) isConsole = line === '```console';
    else if (!isConsole) continue;
    else if (line.startsWith('$ ')) commands.push({ page, line: index + 1, text: line.slice(2), shown: [] });
    else if (last?.text.endsWith('\\') && last.shown.length === 0) last.text += `\n${line}`;
    else last?.shown.push(line);
  }
  return commands;
}

/** The words of a command as a shell splits them, without substitutions; a comment at the end is left out. */
export function wordsOf(text: string): readonly string[] {
  const words: string[] = [];
  const parts = /\s+|\\\n|'([^']*)'|"((?:\\.|[^"\\])*)"|\$\((?:[^()]|\([^()]*\))*\)|#.*|[^\s'"\\$]+|[$\\]/gs;
  let isNew = true;
  for (const [part, single, double] of text.matchAll(parts)) {
    if (/^(\s|\\\n)/.test(part)) isNew = true;
    else if (isNew && part.startsWith('#')) break;
    else {
      const value = single ?? double ?? part;
      if (isNew) words.push(value);
      else words.push(`${words.pop()}${value}`);
      isNew = false;
    }
  }
  return words;
}

/**
 * The lines that a page shows of a command and that its output does not have. Words with digits stand for any such word, because
 * ages, counts, UIDs and generated names differ; `…` stands for anything.
 */
export function missingLines(shown: readonly string[], output: string): readonly string[] {
  const lines = output.split('\n');
  return shown.filter((line) => line.trim() !== '' && !lines.some((one) => patternOf(line).test(one)));
}

function patternOf(line: string): RegExp {
  const parts = line.trim().match(/\s*…\s*|\s+|\w*\d\w*|[^\s…\d]+?(?=\w*\d|[\s…]|$)|./g) ?? [];
  const pattern = parts.map((part) => {
    if (part.includes('…')) return '.*';
    if (/^\s/.test(part)) return '\\s+';
    return /\d/.test(part) ? '[\\w.]+' : part.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&');
  });
  return new RegExp(`^\\s*${pattern.join('')}`);
}
