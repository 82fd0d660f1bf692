// Flags that several commands have.
import { Option } from 'commander';

/** A flag that may be given several times. */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** `-f`: where manifests are. */
export function filenameOption(): Option {
  return new Option(
    '-f, --filename <file>',
    'file or directory, - for standard input; may be given several times',
  ).argParser(collect);
}

/** `-R`, beside `-f`. */
export function recursiveOption(): Option {
  return new Option('-R, --recursive', 'process directories recursively');
}
