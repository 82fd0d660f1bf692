/** Chance that can be repeated: the same seed gives the same numbers. */
export interface Random {
  readonly seed: number;
  /** At least 0, less than 1. */
  next(): number;
  /** A whole number between two, both included. */
  between(least: number, most: number): number;
  /** At least the one, less than the other. */
  within(least: number, most: number): number;
  chance(probability: number): boolean;
  pick<Value>(values: readonly Value[]): Value;
  /** Chance of its own for a part, so that one part does not change what happens in the others. */
  fork(name: string): Random;
}

/** Numbers of the generator known as mulberry32. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;

  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  return {
    seed,
    next,
    between: (least, most) => least + Math.floor(next() * (most - least + 1)),
    within: (least, most) => least + next() * (most - least),
    chance: (probability) => next() < probability,
    pick(values) {
      const value = values[Math.floor(next() * values.length)];
      if (value === undefined) throw new Error('Cannot pick one of none');
      return value;
    },
    fork: (name) => randomFrom(hash(`${seed}/${name}`)),
  };
}

function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of Buffer.from(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}

/** CHAOS_SEED, or any. */
export function seedFrom(env: NodeJS.ProcessEnv): number {
  const given = env.CHAOS_SEED;
  if (given === undefined || given === '') return Math.floor(Math.random() * 2 ** 32);
  const seed = Number(given);
  if (!Number.isInteger(seed) || seed < 0) throw new Error(`CHAOS_SEED "${given}": not a whole number`);
  return seed;
}
