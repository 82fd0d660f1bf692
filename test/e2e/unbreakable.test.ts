import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { runScenario, summary } from '../chaos/campaign.ts';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { subset } from '../chaos/scenarios/subset.ts';
import { enterWorld, type World } from '../chaos/world.ts';

// The shorter part of `npm run test:chaos`. Every verdict rests on a recorded watch of the pods, on the runtime's own
// list of containers, and on what the containers wrote down themselves. CHAOS_SEED= explores, a number repeats.
const random = randomFrom(seedFrom({ CHAOS_SEED: '4', ...process.env }));
const say = (line: string): void => void process.stdout.write(`${line}\n`);

let world: World;

beforeAll(async () => {
  world = await enterWorld(say);
});

afterAll(async () => {
  await world.leave();
});

describe(`each container is restarted exactly once, and in order (CHAOS_SEED=${random.seed})`, () => {
  it.each(subset)(
    '$name',
    async (scenario) => {
      const result = await runScenario(scenario, world, random);
      say(summary([result]));
      expect(result.violations).toEqual([]);
    },
    1_500_000,
  );
});
