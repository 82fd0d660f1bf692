import { Document, isMap, isScalar, isSeq, type Node } from 'yaml';

/**
 * The key of a comment. An object with this key is written with the comment above it; it is invisible to readers of the
 * object.
 */
export const comment = Symbol('comment');

/** The object with a comment, if there is one. */
export function explained<T extends object>(object: T, why: string | undefined): T & { readonly [comment]?: string } {
  return why === undefined ? object : { ...object, [comment]: why };
}

/** Manifests as one YAML file, in order, below a description of the file and its source. Comments are wrapped. */
export function yamlOf(
  documents: readonly object[],
  { about, source }: { readonly about: string; readonly source: string },
): string {
  const texts = documents.map((value) => {
    const document = new Document(value, { aliasDuplicateObjects: false });
    if (document.contents !== null) layOut(document.contents, value);
    return document.toString({ lineWidth, flowCollectionPadding: false });
  });
  const head = `Written by \`npm run generate\` from ${source}. Change it there.\n\n${about}`;
  return `${linesOf(head).replaceAll(/^/gm, '#')}\n${texts.join('---\n')}`;
}

const lineWidth = 120;
/** Leaves room for indentation. */
const commentWidth = 112;
/** Longer texts are folded, and longer lists have a line per item. */
const longText = 90;

/** Puts comments above their objects, short lists into one line, and folds long texts. */
function layOut(node: Node, value: unknown): void {
  const why = commentOf(value);
  if (why !== undefined) node.commentBefore = linesOf(why);
  if (isScalar(node)) {
    if (typeof node.value === 'string' && node.value.length > longText) node.type = 'BLOCK_FOLDED';
  } else if (isSeq<Node>(node)) {
    const values: readonly unknown[] = Array.isArray(value) ? value : [];
    node.flow = node.items.every((item) => isScalar(item)) && values.join(', ').length < longText;
    for (const [index, item] of node.items.entries()) layOut(item, values[index]);
  } else if (isMap<{ readonly value: string }, Node>(node)) {
    const fields = new Map(Object.entries(value ?? {}));
    for (const { key, value: child } of node.items) if (child !== null) layOut(child, fields.get(key.value));
  }
}

function commentOf(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null && comment in value ? String(value[comment]) : undefined;
}

/** The text as lines that begin with a space. */
function linesOf(text: string): string {
  return text
    .split('\n')
    .map((paragraph) => {
      const lines: string[] = [];
      for (const word of paragraph.split(' ')) {
        const last = lines.at(-1);
        if (last !== undefined && last.length + word.length < commentWidth) lines[lines.length - 1] = `${last} ${word}`;
        else lines.push(` ${word}`);
      }
      return lines.join('\n').trimEnd();
    })
    .join('\n');
}
