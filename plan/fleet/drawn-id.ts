/** The ends of the names of pods that have no names of their own. */
import { fnv1a } from '../../api/base/fnv.ts';

/** Letters and digits that cannot form words. */
const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

/** Characters of each. */
export const drawnLength = 5;

/**
 * Always the same for the same text: every plan chooses the same names, so a late creation, from an earlier term or a stalled
 * API server, finds its name taken or takes it, and never creates a surplus pod.
 */
export function drawnId(text: string): string {
  let rest = fnv1a(text);
  return Array.from({ length: drawnLength }, () => {
    const letter = alphabet[rest % alphabet.length] ?? '';
    rest = Math.floor(rest / alphabet.length);
    return letter;
  }).join('');
}
