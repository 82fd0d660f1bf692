import { stringify } from 'yaml';

/** How an answer is printed; `table` is for people. */
export const outputFormats = ['table', 'json', 'yaml'] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** An answer for programs, or the text for people. Ends with a line break. */
export function formatAnswer(format: OutputFormat, answer: { readonly document: unknown; readonly text: string }) {
  switch (format) {
    case 'json':
      return `${JSON.stringify(answer.document, undefined, 2)}\n`;
    case 'yaml':
      // references to equal parts would puzzle simple readers of YAML
      return stringify(JSON.parse(JSON.stringify(answer.document)), { aliasDuplicateObjects: false });
    case 'table':
      return `${answer.text}\n`;
  }
}
