import { windlassAnnotation } from '../../api/core/well-known.ts';
import type { CommandName } from '../../api/engine/operations.ts';
import { describeFailure } from '../failure.ts';
import type { ExplainedOperation, ExplainMeans, HelpfulCommand } from './explanation.ts';

/**
 * What Temporal reports about a workflow, or why it was not asked. The explanation is complete otherwise when Temporal
 * is away.
 */
export async function askEngine(
  workflowId: string,
  { engine, engineMissing }: Pick<ExplainMeans, 'engine' | 'engineMissing'>,
): Promise<ExplainedOperation> {
  if (engine === undefined) return { kind: 'notAsked', workflowId, why: engineMissing };
  try {
    const report = await engine.report(workflowId);
    return report === undefined ? { kind: 'none', workflowId } : { kind: 'found', ...report };
  } catch (error) {
    return { kind: 'notAsked', workflowId, why: `Cannot query Temporal at ${engine.address}: ${whyOf(error)}` };
  }
}

/** The errors of Temporal's client say what was attempted; their cause says why that failed. */
function whyOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  // gRPC's own text has a wrong time, and names its filters.
  const isLate = cause instanceof Error && 'code' in cause && cause.code === deadlineExceeded;
  return isLate ? 'no answer in time' : describeFailure(cause);
}

/** gRPC's status code. */
const deadlineExceeded = 4;

/** Whether the operation may be running, as far as is known. */
export function mayRun(operation: ExplainedOperation): boolean {
  return operation.kind === 'notAsked' || (operation.kind === 'found' && operation.endedAt === undefined);
}

/** The command line that signals an operation. */
export function signalCommand(
  workflowId: string,
  name: CommandName,
  { engine, target }: { readonly engine: ExplainMeans['engine']; readonly target?: string },
): string {
  const input = target === undefined ? '' : ` --input '${JSON.stringify({ target })}'`;
  const flags = engine === undefined ? '' : `${engine.flags} `;
  return `temporal workflow signal ${flags}--workflow-id ${workflowId} --name ${name}${input}`;
}

/** Command lines for an operation whose workflow task fails repeatedly. */
export function stuckCommands(
  workflowId: string,
  { engine }: { readonly engine?: ExplainMeans['engine'] },
): readonly HelpfulCommand[] {
  const flags = `${engine === undefined ? '' : `${engine.flags} `}--workflow-id ${workflowId}`;
  return [
    { command: `temporal workflow show --detailed ${flags}`, effect: 'shows why its workflow task fails' },
    { command: `temporal workflow terminate ${flags}`, effect: 'starts it again; all progress is kept in the cluster' },
  ];
}

/**
 * The commands that a running operation understands besides `skip`, with their effects, and the same by annotation. Of `pause` and
 * `resume` the one that changes something.
 */
export function steeringCommands(
  { workflowId }: ExplainedOperation,
  { engine }: Pick<ExplainMeans, 'engine'>,
  given: {
    readonly isPaused: boolean;
    readonly effects: Readonly<Record<'pause' | 'retry' | 'abort', string>>;
    /** For kubectl: `-n shop annotate imagepulljob warm`. */
    readonly annotate: string;
  },
): readonly HelpfulCommand[] {
  const { isPaused, effects, annotate } = given;
  const signal = (name: 'pause' | 'resume' | 'retry' | 'abort', effect: string): HelpfulCommand => ({
    command: signalCommand(workflowId, name, { engine }),
    effect,
  });
  return [
    isPaused ? signal('resume', 'continues') : signal('pause', effects.pause),
    signal('retry', effects.retry),
    signal('abort', effects.abort),
    {
      command: `kubectl ${annotate} ${windlassAnnotation.command}=abort`,
      effect: 'the same without permission to signal workflows; other commands likewise',
    },
  ];
}

/** Removes duplicates, keeping the first. */
export function distinct(commands: readonly HelpfulCommand[]): readonly HelpfulCommand[] {
  return commands.filter(({ command }, index) => commands.findIndex((other) => other.command === command) === index);
}
