import { describe, expect, it } from '@jest/globals';
import { replaceableParts } from '../../deploy/local/platform.ts';
import { randomFrom } from '../chaos/random.ts';
import { documentedCommands, drawnOrder } from '../upgrade/ways.ts';

describe('ways to upgrade', () => {
  it.each([1, 2, 3])('replace each part first once and last once in five steps (seed %i)', (seed) => {
    const random = randomFrom(seed);
    const orders = replaceableParts.map((_, step) => drawnOrder(step, random));
    for (const order of orders) expect(order.toSorted()).toEqual(replaceableParts.toSorted());
    expect(new Set(orders.map((order) => order[0])).size).toBe(replaceableParts.length);
    expect(new Set(orders.map((order) => order.at(-1))).size).toBe(replaceableParts.length);
  });

  it('roll back by the commands that the docs tell users', () => {
    const [unset, terminate, ...more] = documentedCommands('Rolling back');
    expect(unset).toMatch(/^temporal worker deployment set-current-version .*--unversioned/);
    expect(terminate).toMatch(
      /^temporal workflow terminate .*'restartContainers','rollOut','pullImages','pullOnNodes'/,
    );
    expect(more).toEqual([]);
  });
});
