import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import { request } from '../support/recreate-requests.ts';
import { Simulation, type Step, type Steps } from '../support/recreate-simulation.ts';

const strategy = fc.record(
  {
    orderedRecreate: fc.boolean(),
    forceRecreate: fc.boolean(),
    failurePolicy: fc.constantFrom<'Fail' | 'Ignore'>('Fail', 'Ignore'),
    unreadyGracePeriodSeconds: fc.constantFrom(0, 30),
    minStartedSeconds: fc.constant(5),
  },
  { requiredKeys: [] },
);
const names = ['a', 'b', 'c', 'd'];
const longNames = Array.from({ length: 14 }, (_, index) => `${index}-`.padEnd(63, 'x'));
const anyRequest = fc
  .record({
    containers: fc.oneof(
      { weight: 9, arbitrary: fc.integer({ min: 1, max: 4 }).map((count) => names.slice(0, count)) },
      { weight: 1, arbitrary: fc.constant(longNames) },
    ),
    strategy,
  })
  .map(({ containers, strategy: chosen }) => request({ containers, spec: { strategy: chosen } }));

/** The actor of the next step. */
const actor = fc.oneof(
  { weight: 60, arbitrary: fc.constant<keyof Steps>('course') },
  { weight: 10, arbitrary: fc.constant<keyof Steps>('commands') },
  { weight: 6, arbitrary: fc.constant<keyof Steps>('node') },
  { weight: 6, arbitrary: fc.constant<keyof Steps>('containers') },
  { weight: 8, arbitrary: fc.constant<keyof Steps>('failures') },
  { weight: 5, arbitrary: fc.constant<keyof Steps>('crashes') },
  { weight: 5, arbitrary: fc.constant<keyof Steps>('late') },
  { weight: 1, arbitrary: fc.constant<keyof Steps>('ends') },
);
interface Choice {
  readonly actor: keyof Steps;
  /** The index of the actor's step, modulo their number. */
  readonly pick: number;
}
const choices = fc.array<Choice>(fc.record({ actor, pick: fc.nat(999) }), { minLength: 20, maxLength: 100 });

async function play(of: ContainerRecreateRequest, chosen: readonly Choice[]): Promise<Simulation> {
  const simulation = new Simulation(of);
  const take = async (steps: readonly Step[], pick: number) => {
    const step = steps[pick % Math.max(steps.length, 1)];
    if (step) await simulation.take(step);
  };
  try {
    for (const choice of chosen) await take(simulation.steps()[choice.actor], choice.pick);
    for (let pick = 0; !simulation.isOver; pick++) {
      if (pick > 2_000) throw new Error('it does not end although nothing holds it up');
      await simulation.calmDown();
      await take(simulation.steps().course, pick);
    }
  } catch (error) {
    throw new Error(`${String(error)}\n${simulation.story.join('\n')}`, { cause: error });
  }
  return simulation;
}

describe('a request that is played to its end', () => {
  it('keeps every promise whatever happens, and ends when nothing holds it up', async () => {
    await fc.assert(
      fc.asyncProperty(anyRequest, choices, async (of, chosen) => {
        const { isOver } = await play(of, chosen);
        expect(isOver).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});
