import { describe, expect, it } from '@jest/globals';
import { replaceableParts } from '../../deploy/local/platform.ts';
import { randomFrom } from '../chaos/random.ts';
import { documentedCommands, drawnOrder } from '../upgrade/ways.ts';

describe('ways to upgrade', () => {
  it.each([1, 2, 3])(
    'replace each part first and last in five steps, the webhook after its rights (seed %i)',
    (seed) => {
      const random = randomFrom(seed);
      const orders = replaceableParts.map((_, step) => drawnOrder(step, random));
      for (const order of orders) expect(order.toSorted()).toEqual(replaceableParts.toSorted());
      const [firsts, lasts] = [0, -1].map((at) => new Set(orders.map((order) => order.at(at))));
      expect(firsts).toEqual(new Set(replaceableParts.filter((part) => part !== 'webhook')));
      expect(lasts).toEqual(new Set(replaceableParts.filter((part) => part !== 'manifests')));
      for (const order of orders) expect(order.indexOf('manifests')).toBeLessThan(order.indexOf('webhook'));
    },
  );

  it('roll back by the commands that the docs tell users', () => {
    const [unset, terminate, ...more] = documentedCommands('Rolling back');
    expect(unset).toMatch(/^temporal worker deployment set-current-version .*--unversioned/);
    expect(terminate).toMatch(
      /^temporal workflow terminate .*'restartContainers','rollOut','pullImages','pullOnNodes'/,
    );
    expect(more).toEqual([]);
  });
});
