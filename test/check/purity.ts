import { isNodeModule, type SourceFile } from './source.ts';

/** What reaches out of a computation: time, chance, the process, the network, timers. */
const impureGlobals = new Set([
  ...['fetch', 'process', 'require', 'console', 'performance', 'crypto', 'globalThis', 'global'],
  ...['setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval', 'queueMicrotask'],
]);

const impureUses = new Set(['Date.now', 'Math.random', 'new Date()']);

const impurePackages = /^(@temporalio|@kubernetes|@grpc|undici|pino|prom-client|commander)(\/|$)/;

/** Everything in `api/` and `plan/` whose result does not follow from its arguments alone. */
export function impurities(sources: readonly SourceFile[]): readonly string[] {
  return sources
    .filter(({ path }) => mustBePure(path))
    .flatMap(({ path, imports, globals }) => [
      ...imports
        .filter(({ specifier, typeOnly }) => !typeOnly && (isNodeModule(specifier) || impurePackages.test(specifier)))
        .map(({ specifier, line }) => `${path}:${line}: must stay pure, but imports "${specifier}"`),
      ...globals
        .filter(({ text }) => isImpure(text))
        .map(({ text, line }) => `${path}:${line}: must stay pure, but uses ${text}`),
    ]);
}

function mustBePure(path: string): boolean {
  return path.startsWith('api/') || path.startsWith('plan/');
}

function isImpure(use: string): boolean {
  // `Date` alone is a call without `new`, which gives the present time, or hands the clock on.
  return use === 'Date' || impureUses.has(use) || impureGlobals.has(use.split('.')[0] ?? '');
}
