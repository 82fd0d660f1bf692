/** How much a value takes as a payload: JSON in UTF-8. Histories hold small payloads only, so plans keep what they say small. */
import { jsonBytes } from '../../api/base/json-bytes.ts';

/** Payloads are references and verdicts of at most so many bytes, each cut where it is made. */
export const payloadBytes = 4 * 1024;

/** The most that a summary takes in a history. Temporal refuses longer ones, and the command with them. */
export const summaryBytes = 180;

/** The text, cut with an ellipsis where it would take more bytes as JSON than allowed. */
export function shortened(text: string, mostBytes: number): string {
  // a character takes a byte at least, so a long text need not be counted
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

/** As many of the first entries as fit into so many bytes as a JSON list. */
export function fitting<T>(entries: readonly T[], mostBytes: number): readonly T[] {
  let left = mostBytes - jsonBytes([]);
  const end = entries.findIndex((entry) => {
    left -= jsonBytes(entry) + 1;
    return left < 0;
  });
  return end < 0 ? entries : entries.slice(0, end);
}

/**
 * The first entries of a list that is handed over in parts: as many as fit into so many bytes as JSON, and at least one,
 * so that whoever asks for part after part gets to the end. Each entry is kept small by whoever makes it.
 */
export function nextPart<T>(entries: readonly T[], mostBytes: number): readonly T[] {
  const fit = fitting(entries, mostBytes);
  return fit.length > 0 ? fit : entries.slice(0, 1);
}

/** The most of each thing that is in the way, of the sentence that says what to do, and of a whole wait. */
export const waitBytes = { each: 120, unblock: 700, whole: 1_400 } as const;

/** What a wait says in texts, which may come from a runtime, an API server or a person. */
interface WaitTexts {
  readonly blockedBy: readonly string[];
  readonly unblock: string;
}

/** The wait with its texts cut, so that it takes at most so many bytes as JSON. `blockedCount` stays as it is. */
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
