/**
 * The size of a value as a payload: JSON in UTF-8. Histories contain small payloads only, so plans limit their texts.
 */
import { jsonBytes } from '../api/base/json-bytes.ts';

/** Payloads are references and verdicts of at most this size; each is cut by its producer. */
export const payloadBytes = 4 * 1024;

/** The same for one batch of pods or wave of nodes, and for what has become of it. */
export const batchPayloadBytes = 8 * 1024;

/** The same for roll-outs and pull jobs: an answer names the items of up to five batches, and says what the object asks for. */
export const answerPayloadBytes = 40 * 1024;

/** The maximum size of a summary in a history. Temporal rejects a command with a longer one. */
export const summaryBytes = 180;

/** The text, cut with an ellipsis to the allowed size as JSON. */
export function shortened(text: string, mostBytes: number): string {
  // a character takes at least one byte, so a longer text need not be measured
  if (text.length <= mostBytes && jsonBytes(text) <= mostBytes) return text;
  let kept = '';
  let left = mostBytes - jsonBytes('…');
  for (const character of text) {
    left -= jsonBytes(character) - jsonBytes('');
    if (left < 0) break;
    kept += character;
  }
  return `${kept}…`;
}

/** The first entries that fit into this size as a JSON list. */
export function fitting<T>(entries: readonly T[], mostBytes: number): readonly T[] {
  let left = mostBytes - jsonBytes([]);
  const end = entries.findIndex((entry) => {
    left -= jsonBytes(entry) + 1;
    return left < 0;
  });
  return end < 0 ? entries : entries.slice(0, end);
}

/**
 * The first entries of a list that is sent in parts: as many as fit into this size as JSON, and at least one, so that a
 * reader always gets to the end. Each entry is limited by its producer.
 */
export function nextPart<T>(entries: readonly T[], mostBytes: number): readonly T[] {
  const fit = fitting(entries, mostBytes);
  return fit.length > 0 ? fit : entries.slice(0, 1);
}

/** As many of at most a few dozen names as fit, and how many more there are: `a, b and 38 more`. */
export function listed(names: readonly string[], mostBytes: number): string {
  const [only] = names;
  if (only !== undefined && names.length === 1) return shortened(only, mostBytes);
  const fit = fitting(names, mostBytes - ' and 40 more'.length);
  const shown = fit.length > 0 ? fit : names.slice(0, 1).map((name) => shortened(name, mostBytes - 15));
  const more = names.length - shown.length;
  if (more > 0) return `${shown.join(', ')} and ${more} more`;
  return `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}

/** The maximum sizes of each blocker, of the remedy, and of a whole wait. */
export const waitBytes = { each: 120, unblock: 700, whole: 1_400 } as const;

/** The texts of a wait, which may come from a runtime, an API server or a person. */
interface WaitTexts {
  readonly blockedBy: readonly string[];
  readonly unblock: string;
}

/** The wait with its texts cut to this size as JSON. `blockedCount` stays unchanged. */
export function waitWithin<Wait extends WaitTexts>(wait: Wait, mostBytes: number = waitBytes.whole): Wait {
  if (jsonBytes(wait) <= mostBytes) return wait;
  const cut = {
    ...wait,
    blockedBy: wait.blockedBy.map((each) => shortened(each, waitBytes.each)),
    unblock: shortened(wait.unblock, Math.min(waitBytes.unblock, Math.floor(mostBytes / 2))),
  };
  const left = mostBytes - jsonBytes({ ...cut, blockedBy: [] });
  return { ...cut, blockedBy: fitting(cut.blockedBy, left + jsonBytes([])) };
}

/** What a wait may say: it travels through histories. In bytes. */
export const mostWaitBytes = 900;
