/** @type {import('jest').Config} */
// biome-ignore lint/style/noDefaultExport: Jest looks for it
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' } },
    ],
  },
  setupFiles: ['<rootDir>/test/support/property-seed.ts'],
  testSequencer: '<rootDir>/test/runner/longest-first.ts',
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  modulePathIgnorePatterns: ['<rootDir>/.windlass'],
  // Half of a small machine may be somebody else's; no test of ours waits for a time, so patience costs nothing. A test
  // has several waits of five minutes: the one that is in vain is to say so before the test is over.
  testTimeout: 900_000,
};
