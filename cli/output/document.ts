import { Document, visit } from 'yaml';
import { CommandFailed } from '../failure.ts';
import { hasControls } from './printable.ts';

/** The output formats; `table` is for people, `name` for commands about objects that they change or watch. */
export const outputFormats = ['table', 'name', 'json', 'yaml'] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** The answer as JSON or YAML, or the text for people. Ends with a line break. */
export function formatAnswer(
  format: OutputFormat,
  answer: { readonly document: unknown; readonly text: string; readonly name?: string },
): string {
  switch (format) {
    case 'name':
      if (answer.name === undefined) throw new CommandFailed('-o name: this command has table, json and yaml');
      return `${answer.name}\n`;
    case 'json':
      return `${JSON.stringify(answer.document, undefined, 2)}\n`;
    case 'yaml':
      return yamlText(answer.document);
    case 'table':
      return `${answer.text}\n`;
  }
}

function yamlText(value: unknown): string {
  // without aliases: simple YAML readers do not understand references to equal parts
  const document = new Document(JSON.parse(JSON.stringify(value)), { aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_, scalar) => {
      if (typeof scalar.value === 'string' && hasControls(scalar.value)) scalar.type = 'QUOTE_DOUBLE';
    },
  });
  return document.toString();
}
