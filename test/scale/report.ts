import type { Judgement, StepFigures } from './judge.ts';

/** The tables of a run, in Markdown. */
export function report(
  figures: readonly StepFigures[],
  judgements: readonly Judgement[],
  failures: readonly string[],
): string {
  const calls = figures.flatMap(({ pods, step, calls: roles }) =>
    roles.map(({ role, reads, writes, refused, podWrites }) => [
      pods,
      step,
      role,
      reads,
      writes,
      refused,
      (podWrites / pods).toFixed(2),
    ]),
  );
  const usage = figures.flatMap(({ pods, step, usage: roles }) =>
    roles.map(({ role, cpuSeconds, rssMegabytes }) => [pods, step, role, cpuSeconds.toFixed(1), rssMegabytes]),
  );
  return [
    table(
      ['pods', 'step', 'seconds', 'ms a pod', 'history events', 'load', '% stolen'],
      figures.map(({ pods, step, seconds, historyEvents, load, stolenPercent }) => [
        pods,
        step,
        seconds.toFixed(1),
        ((seconds * 1000) / pods).toFixed(1),
        historyEvents,
        load.toFixed(1),
        stolenPercent,
      ]),
    ),
    ...(failures.length > 0 ? ['Not measured:', failures.map((failure) => `- ${failure}`).join('\n')] : []),
    '### Judgement',
    table(
      ['claim', 'figure', 'holds'],
      judgements.map(({ claim, figure, holds }) => [claim, figure, holds ? 'yes' : '**no**']),
    ),
    '### API calls of each role',
    table(['pods', 'step', 'role', 'reads', 'writes', 'refused of them', 'pod writes for each pod'], calls),
    '### CPU and memory',
    table(['pods', 'step', 'role', 'CPU, s', 'RSS after it, MB'], usage),
  ].join('\n\n');
}

function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
