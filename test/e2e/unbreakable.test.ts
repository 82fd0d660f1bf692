import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { runScenario, type Scenario, summary } from '../chaos/campaign.ts';
import { withFlags } from '../chaos/faults.ts';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { sideBySideFlags } from '../chaos/scenarios/side-by-side.ts';
import { disturbed, sideBySide, undisturbed } from '../chaos/scenarios/subset.ts';
import { enterWorld, type World } from '../chaos/world.ts';
import { describeAlone } from '../support/groups.ts';

// The shorter part of `npm run test:chaos`. Every verdict rests on a recorded watch of the pods, on the runtime's own
// list of containers, on the audit log, and on what the containers wrote down themselves. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const say = (line: string): void => void process.stdout.write(`${line}\n`);

let world: World;
let undo: () => Promise<void>;

beforeAll(async () => {
  world = await enterWorld(say);
  undo = await withFlags(world, 'watcher', sideBySideFlags);
});

afterAll(async () => {
  await undo?.();
  await world?.leave();
});

async function run(scenario: Scenario): Promise<void> {
  const result = await runScenario(scenario, world, random);
  say(summary([result]));
  expect(result.violations).toEqual([]);
}

const title = '$name: $about';
const timeoutMs = 1_500_000;

describeAlone(`each container is restarted exactly once, and in order (CHAOS_SEED=${random.seed})`, () => {
  it.concurrent.each(undisturbed)(title, run, timeoutMs);
  it('JST-33, CLP-24: work of every kind goes on when each role dies', () => run(sideBySide), timeoutMs);
  it.each(disturbed)(title, run, timeoutMs);
});
