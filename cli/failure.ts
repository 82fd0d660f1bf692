import { CredentialsError } from '../kube/credentials.ts';
import { KubeError } from '../kube/failures.ts';

/** An error for the user, of one or several lines; the command exits with 1. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
}

/** The text of an error for people: `attempted: why`. Bugs keep their own message. */
export function describeFailure(error: unknown, attempted?: string): string {
  const why = error instanceof Error ? error.message : String(error);
  if (error instanceof CommandFailed || error instanceof CredentialsError || attempted === undefined) return why;
  return `${attempted}: ${why}`;
}

/** Makes a call to the API server; a refusal becomes a CommandFailed that says what was attempted. */
export async function attempt<T>(attempted: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof KubeError) throw new CommandFailed(describeFailure(error, attempted));
    throw error;
  }
}
