import fc from 'fast-check';

/**
 * The seed of every property test. It is fixed, so that a failure is about the change at hand and can be reproduced;
 * `PROPERTY_SEED=random` explores new cases, and a number reproduces a run.
 */
const { PROPERTY_SEED: wish = '20261121' } = process.env;

if (wish !== 'random') fc.configureGlobal({ seed: Number(wish) });
