/** The name of the error; a failed test whose text contains it has broken a promise. */
export const brokenPromise = 'BrokenPromise';

/**
 * The failure of a test that shows that a promise to users was broken: more pods down than the budget, a container stopped
 * twice, a write without the lease. What is only late is another error.
 */
export class BrokenPromise extends Error {
  override readonly name = brokenPromise;
}
