import { cpus, totalmem } from 'node:os';
import { measureStolen } from '../support/stolen.ts';

/** One row of a table of results; times in milliseconds unless the name says otherwise. */
export interface Figure {
  readonly what: string;
  readonly samples: readonly number[];
  /** How many samples were thrown away because too much CPU was stolen while they were taken. */
  readonly dropped: number;
}

/** A figure taken while more than this share of the CPU was stolen says nothing. */
export const mostStolenPercent = 5;

/**
 * Takes samples one after the other; those taken while the hypervisor took the CPU away are dropped and taken again.
 * Each is told its own share of the way from 0 to 1.
 */
export async function sample(what: string, wanted: number, take: (share: number) => Promise<number>): Promise<Figure> {
  const samples: number[] = [];
  let dropped = 0;
  while (samples.length < wanted && dropped < 2 * wanted) {
    const stolen = measureStolen();
    const value = await take((samples.length + 0.5) / wanted);
    if ((stolen() ?? 0) > mostStolenPercent) dropped++;
    else samples.push(value);
    process.stdout.write(`\r${what}: ${samples.length} of ${wanted}${dropped > 0 ? `, ${dropped} dropped` : ''} `);
  }
  process.stdout.write('\n');
  return { what, samples, dropped };
}

/** A single measurement, in whatever unit its name tells. */
export function single(what: string, value: number): Figure {
  return { what, samples: [value], dropped: 0 };
}

/** The value below which this share of the samples lies. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** The value in the middle. */
export function median({ samples }: Figure): number {
  return quantile(samples, 0.5);
}

/** Markdown: minimum, median, p99, maximum and number of samples of each figure. */
export function table(figures: readonly Figure[]): string {
  const rows = figures.map(({ what, samples, dropped }) => {
    const [min, median, p99, max] = [0, 0.5, 0.99, 1].map((share) => shown(quantile(samples, share)));
    const count = dropped > 0 ? `${samples.length} (${dropped} dropped)` : String(samples.length);
    return `| ${what} | ${min} | ${median} | ${p99} | ${max} | ${count} |`;
  });
  return ['| | min | median | p99 | max | n |', '| --- | --- | --- | --- | --- | --- |', ...rows].join('\n');
}

/** The machine that figures were taken on, in a line. */
export function machine(): string {
  const [cpu] = cpus();
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${cpu?.model.trim() ?? 'unknown CPU'}, ${gigabytes} GiB, Node ${process.versions.node}`;
}

/** Three digits, or none where there is nothing. */
export function shown(value: number): string {
  if (Number.isNaN(value)) return '';
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(3);
}
