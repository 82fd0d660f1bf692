import type { ExplainedOperation, ExplainedStep, ExplainedWait, Explanation } from '../explain/explanation.ts';
import { blockersText, counted, formatAge, indented, renderTable } from './table.ts';

/** An explanation for people: what the operation waits for, then its progress, then what can be done. */
export function explanationText(explanation: Explanation, nowMs: number): string {
  const { kind, namespace, name, summary, waits, steps, operation, commands, notes } = explanation;
  const sections = [
    `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}: ${summary}`,
    waits.length > 0
      ? `Waits for\n${indented(waits.map((wait) => waitText(wait, nowMs)).join('\n'))}`
      : 'Waits for nothing',
    ...(steps.length > 0 ? [`Steps\n${indented(stepsText(steps))}`] : []),
    ...(operation ? [operationText(operation, nowMs)] : []),
    ...(commands.length > 0
      ? [`Commands\n${indented(commands.map(({ command, effect }) => `# ${effect}\n${command}`).join('\n'))}`]
      : []),
    ...(notes.length > 0 ? [`Notes\n${indented(notes.join('\n'))}`] : []),
  ];
  return sections.join('\n\n');
}

function waitText(wait: ExplainedWait, nowMs: number): string {
  const { reason, since, unblock } = wait;
  const blockers = blockersText(wait);
  return [
    `${reason}${since === undefined ? '' : `, since ${since} (${formatAge(nowMs - Date.parse(since))})`}`,
    ...(blockers !== '' ? [`  by: ${blockers}`] : []),
    `  to unblock: ${unblock}`,
  ].join('\n');
}

const mostRows = 20;

/** Completed steps are only counted when there are many. */
function stepsText(steps: readonly ExplainedStep[]): string {
  const done = steps.filter(({ state }) => state === 'done');
  const open = steps.filter(({ state }) => state !== 'done');
  const shown = open.slice(0, mostRows);
  const rows = shown.map(({ step, state, detail }) => [step, state, detail]);
  return [
    ...(rows.length > 0 ? [renderTable(['STEP', 'STATE', 'DETAIL'], rows)] : []),
    ...(open.length > shown.length ? [`and ${open.length - shown.length} more; -o json has them all`] : []),
    ...(done.length > 0 ? [`${counted(done.length, 'pod')} done`] : []),
  ].join('\n');
}

const lastLines = 10;

function operationText(operation: ExplainedOperation, nowMs: number): string {
  const head = `Operation ${operation.workflowId}`;
  switch (operation.kind) {
    case 'notAsked':
      return `${head}: unknown; ${operation.why}`;
    case 'none':
      return `${head}: Temporal has no run of it`;
    case 'found': {
      const { state, startedAt, endedAt, historyEvents, pending, history } = operation;
      const age = formatAge((endedAt === undefined ? nowMs : Date.parse(endedAt)) - Date.parse(startedAt));
      const now = pending.map(({ step, attempt, since, lastFailure }) => {
        const times = attempt > 1 ? `, attempt ${attempt}` : '';
        const failure = lastFailure === undefined ? '' : `: ${lastFailure}`;
        return `now: ${step}${since === undefined ? '' : `, since ${since}`}${times}${failure}`;
      });
      const earlier = history.length - lastLines;
      const lines = [
        ...now,
        ...(earlier > 0 ? [`(${earlier} earlier lines)`] : []),
        ...history.slice(-lastLines).map(({ at, text }) => `${at}  ${text}`),
      ];
      const time = endedAt === undefined ? `for ${age}` : `after ${age}`;
      const about = `${head}: ${state.toLowerCase()} ${time}, ${counted(historyEvents, 'event')}`;
      return [about, ...lines.map(indented)].join('\n');
    }
  }
}
