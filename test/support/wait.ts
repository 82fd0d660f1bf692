import { inspect } from 'node:util';
import { measureStolen } from './stolen.ts';

/** Machines may stall for minutes; a correct program is then only slow. */
const patienceMs = 300_000;

export interface WaitOptions {
  readonly deadlineMs?: number;
  /** The longest pause between two probes. Absent: half a second. */
  readonly mostPauseMs?: number;
}

/** Remembers a value, to be printed if the wait fails, and returns it. */
export type See = <Value>(value: Value) => Value;

type Nothing = undefined | null | false | 0 | '';

/**
 * Repeats the probe until its result is neither empty nor false, quickly at first, and returns the result. A probe that
 * throws, like `expect`, is repeated. Fails at the deadline with the value last seen and the share of CPU time that was
 * stolen.
 */
export async function waitFor<Value>(
  what: string,
  probe: (see: See) => Value | Promise<Value>,
  { deadlineMs = patienceMs, mostPauseMs = 500 }: WaitOptions = {},
): Promise<Exclude<Value, Nothing>> {
  const stolen = measureStolen();
  const startedAtMs = performance.now();
  let lastSeen: unknown = 'nothing';
  const see: See = (value) => {
    lastSeen = value;
    return value;
  };

  let late: NodeJS.Timeout | undefined;
  const tooLate = new Promise<'late'>((resolve) => {
    late = setTimeout(() => resolve('late'), deadlineMs);
  });
  const askUntilAnswered = async (): Promise<Exclude<Value, Nothing> | undefined> => {
    for (
      let pauseMs = 5;
      performance.now() - startedAtMs < deadlineMs;
      pauseMs = Math.min(pauseMs * 1.5, mostPauseMs)
    ) {
      try {
        const answer = await probe(see);
        if (answer) return answer as Exclude<Value, Nothing>;
        if (lastSeen === 'nothing') lastSeen = answer;
      } catch (error) {
        lastSeen = error;
      }
      await pause(pauseMs);
    }
    return undefined;
  };

  try {
    const answer = await Promise.race([askUntilAnswered(), tooLate]);
    if (answer !== undefined && answer !== 'late') return answer;
  } finally {
    clearTimeout(late);
  }
  const share = stolen();
  throw new Error(
    [
      `Waited ${Math.round(deadlineMs / 1000)} s in vain for ${what}`,
      `last seen: ${lastSeen instanceof Error ? withCauses(lastSeen) : inspect(lastSeen, { depth: 8, breakLength: 120 })}`,
      `CPU time stolen meanwhile: ${share === undefined ? 'unknown' : `${share} %`}`,
    ].join('\n'),
  );
}

/** The SDK says in the cause what the server has answered. */
function withCauses({ message, cause }: Error): string {
  return cause instanceof Error ? `${message}: ${withCauses(cause)}` : message;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
