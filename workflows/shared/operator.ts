import { defineSignal, setHandler, workflowInfo } from '@temporalio/workflow';
import { type CommandName, parseCommandPayload } from '../../api/operations.ts';
import { temporal } from './activities.ts';

/** A command as it arrives. `by` comes later when the sender did not say who they are. */
export interface OperatorCommand<Name extends CommandName = CommandName> {
  readonly id: number;
  readonly name: Name;
  readonly by?: string;
  readonly target?: string;
}

/**
 * Hears these commands from now on. A command without `by` is passed on at once; who sent it is
 * then read from the history, because workflow code cannot see the identity of a signal.
 */
export function listenToOperator<Name extends CommandName>(
  understood: readonly Name[],
  listener: {
    readonly command: (command: OperatorCommand<Name>) => void;
    readonly identified: (command: OperatorCommand<Name>, by: string) => void;
  },
): void {
  const heardByName = new Map<CommandName, number>();
  const seenIds = new Set<string>();
  let lastId = 0;

  for (const name of understood) {
    setHandler(defineSignal<[unknown]>(name), async (payload) => {
      const id = ++lastId;
      const nth = heardByName.get(name) ?? 0;
      heardByName.set(name, nth + 1);
      const { id: sentId, ...parsed } = parseCommandPayload(payload);
      if (sentId !== undefined && seenIds.has(sentId)) return;
      if (sentId !== undefined) seenIds.add(sentId);
      const command = { id, name, ...parsed };
      listener.command(command);
      listener.identified(command, parsed.by ?? (await sender(name, nth)));
    });
  }
}

async function sender(name: CommandName, nth: number): Promise<string> {
  const { workflowId, runId } = workflowInfo();
  try {
    return await temporal.identifySignal.executeWithOptions({ summary: `who sent ${name}` }, [
      { workflowId, runId, signal: name, nth },
    ]);
  } catch {
    return 'an operator'; // a name for a message is not worth holding up an operation
  }
}
