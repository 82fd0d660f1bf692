import { stringify } from 'yaml';

/** The output formats; `table` is for people. */
export const outputFormats = ['table', 'json', 'yaml'] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** The answer as JSON or YAML, or the text for people. Ends with a line break. */
export function formatAnswer(format: OutputFormat, answer: { readonly document: unknown; readonly text: string }) {
  switch (format) {
    case 'json':
      return `${JSON.stringify(answer.document, undefined, 2)}\n`;
    case 'yaml':
      // without aliases: simple YAML readers do not understand references to equal parts
      return stringify(JSON.parse(JSON.stringify(answer.document)), { aliasDuplicateObjects: false });
    case 'table':
      return `${answer.text}\n`;
  }
}
