// Durations as Go writes them: `12h`, `1h30m`, `500ms`.

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

/** Any valid duration of practical use is shorter; parsing a hostile text must not cost time. */
const longest = 256;

/** Milliseconds of a non-negative duration; undefined for a text that Go does not accept. */
export function goDurationMs(text: string): number | undefined {
  if (text.length > longest) return undefined;
  if (/^\+?0$/.test(text)) return 0;
  if (!/^\+?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$/.test(text)) return undefined;
  const parts = text.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g);
  return [...parts].reduce((sum, [, count, unit]) => sum + Number(count) * (unitMs[unit ?? ''] ?? 0), 0);
}
