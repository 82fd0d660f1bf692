// The feature gates of an instance, the same for each role: those of its last `up` with the flag.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type FeatureGate,
  FeatureGateError,
  featureGateNames,
  featureGateTable,
  hasNoEffect,
  parseFeatureGates,
} from '../../api/feature-gates.ts';
import { writeFile } from './files.ts';
import type { Instance } from './instance.ts';

/** Gates that are off by default and that the local platform turns on (FG-30). */
export const featureGates = 'ImagePullJobGate=true';

/** The text itself if it is valid; throws an Error that names the wrong gate, and the one that was probably meant. */
export function checkedFeatureGates(text: string): string {
  try {
    parseFeatureGates(text);
    return text;
  } catch (error) {
    if (!(error instanceof FeatureGateError)) throw error;
    throw new Error(`${error.message} (docs/reference/feature-gates.md has all)`);
  }
}

/**
 * Stores the flag of `up`, and returns in lines what that means: which gates are not as by default, which ones it turns off, and
 * which have no effect. Absent: the stored one stays.
 */
export function noteFeatureGates(instance: Instance, given: string | undefined): readonly string[] {
  if (given === undefined) return [];
  const before = parseFeatureGates(instanceFeatureGates(instance));
  writeFile(gatesFile(instance), given);
  const now = parseFeatureGates(instanceFeatureGates(instance));
  const line = (about: string, gates: readonly string[]) => (gates.length > 0 ? [`${about}: ${gates.join(', ')}`] : []);
  const changed = featureGateNames.filter((gate) => now[gate] !== featureGateTable[gate].default);
  const named = (gate: FeatureGate) => given.split(',').some((part) => part.split('=', 1)[0]?.trim() === gate);
  return [
    ...line(
      'Feature gates that differ from their defaults',
      changed.map((gate) => `${gate}=${now[gate]}`),
    ),
    ...line(
      'Turned off: on until now, and not in this --feature-gates',
      featureGateNames.filter((gate) => before[gate] && !now[gate] && !named(gate)),
    ),
    ...line(
      'No effect yet, because what they switch does not exist here',
      featureGateNames.filter((gate) => named(gate) && hasNoEffect(gate)),
    ),
  ];
}

/** The gates of every role of the instance. Gates of the flag override those of the local platform. */
export function instanceFeatureGates(instance: Instance): string {
  const file = gatesFile(instance);
  const given = existsSync(file) ? readFileSync(file, 'utf8') : '';
  return [featureGates, given].filter((part) => part !== '').join(',');
}

function gatesFile(instance: Instance): string {
  return join(instance.folder, 'roles', 'feature-gates');
}
