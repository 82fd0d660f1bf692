import { readFileSync } from 'node:fs';
import type { KubeObject } from '../../api/core/meta.ts';

/** An object, or a list of objects, recorded from a real OpenKruise: the name of a file in test/recorded, without `.json`. */
export function recorded<T extends KubeObject | readonly KubeObject[]>(name: string): T {
  const file = new URL(`../recorded/${name}.json`, import.meta.url);
  const content = JSON.parse(readFileSync(file, 'utf8'));
  return content.items ?? content;
}
