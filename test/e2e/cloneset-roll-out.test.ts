import { expect, it } from '@jest/globals';
import { runScenario, summary } from '../chaos/campaign.ts';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { drawnRollOut } from '../chaos/scenarios/subset.ts';
import { enterWorld } from '../chaos/world.ts';
import { describeAlone } from '../support/groups.ts';

describeAlone('a roll-out, judged by a recorded watch of all pods', () => {
  const random = randomFrom(seedFrom(process.env));
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const scenario = drawnRollOut(random);

  it(`keeps its budget and ends: ${scenario.about} (CHAOS_SEED=${random.seed})`, async () => {
    const world = await enterWorld(say);
    try {
      const result = await runScenario(scenario, world, random);
      say(summary([result]));
      expect(result.violations).toEqual([]);
    } finally {
      await world.leave();
    }
  });
});
