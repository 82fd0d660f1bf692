import fc from 'fast-check';

/**
 * The seed of every property test. Fixed, so that a red run is about the change at hand and can be repeated by anybody;
 * `PROPERTY_SEED=random` looks where nobody has looked yet, and a number repeats what that found.
 */
const { PROPERTY_SEED: wish = '20261121' } = process.env;

if (wish !== 'random') fc.configureGlobal({ seed: Number(wish) });
