// The feature gates of an instance, the same for each role: those of its last `up` with the flag.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FeatureGateError, featureGateNames, featureGateTable, parseFeatureGates } from '../../api/feature-gates.ts';
import { writeFile } from './files.ts';
import type { Instance } from './instance.ts';

/** Gates that are off by default and that the local platform turns on (FG-30). */
export const featureGates = 'ImagePullJobGate=true';

/** The text itself if it is valid; throws an Error that lists the known gates. */
export function checkedFeatureGates(text: string): string {
  try {
    parseFeatureGates(text);
    return text;
  } catch (error) {
    if (!(error instanceof FeatureGateError)) throw error;
    throw new Error(`${error.message}\n\nKnown feature gates, with their defaults:\n${knownGates()}`);
  }
}

/** Stores the flag of `up`. Absent: the stored one stays. */
export function noteFeatureGates(instance: Instance, given: string | undefined): void {
  if (given !== undefined) writeFile(gatesFile(instance), given);
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

function knownGates(): string {
  const meta = ['Alpha', 'Beta'].map((stage) => [`All${stage}`, '', `Every ${stage} gate that is not set itself`]);
  const gates = featureGateNames.map((gate) => [
    gate,
    String(featureGateTable[gate].default),
    featureGateTable[gate].effect,
  ]);
  const rows = [...meta, ...gates];
  const width = Math.max(...rows.map(([name = '']) => name.length));
  return rows
    .map(([name = '', byDefault = '', effect = '']) => `  ${name.padEnd(width)}  ${byDefault.padEnd(5)}  ${effect}`)
    .join('\n');
}
