// A container's environment is full of secrets. Only the requested variables leave this file, and nothing is logged.
import { CriError } from '../../activities/cri/runtime.ts';
import { isJsonList, isJsonObject, type Json } from '../../api/base/json.ts';
import type * as wire from './wire.ts';

/** Calls the runtime with a deadline of `deadlineMs`. */
export type Call = <Name extends keyof wire.CriCalls>(
  name: Name,
  request: wire.CriCalls[Name]['request'],
  deadlineMs?: number,
  signal?: AbortSignal,
) => Promise<wire.CriCalls[Name]['response']>;

type Environment = ReadonlyMap<string, string>;

/** The environment in the runtime's own record of a container: the OCI specification in verbose answers. */
export function recordedEnvironment(
  info: Readonly<Record<string, string>>,
  names: readonly string[],
): Environment | undefined {
  const record = parsed(info.info);
  const runtimeSpec = isJsonObject(record) ? record.runtimeSpec : undefined;
  const process = isJsonObject(runtimeSpec) ? runtimeSpec.process : undefined;
  const env = isJsonObject(process) ? process.env : undefined;
  if (!isJsonList(env)) return undefined;
  // of several variables with the same name the process sees the last one
  return chosen(
    env.flatMap((line) => (typeof line === 'string' ? [line] : [])),
    names,
  );
}

const envSeconds = 3;

/**
 * The output of `env` in the container, for runtimes without such a record (ND-25): multi-line values are cut.
 * Undefined when it cannot be run, as in an image without `env`.
 */
export async function printedEnvironment(
  call: Call,
  id: string,
  names: readonly string[],
): Promise<Environment | undefined> {
  try {
    const request = { containerId: id, cmd: ['env'], timeout: envSeconds };
    const { exitCode, stdout } = await call('ExecSync', request, envSeconds * 1_000 + 5_000);
    if (exitCode !== 0) return undefined;
    return chosen(
      Buffer.from(stdout)
        .toString()
        .split('\n')
        .map((line) => line.trim()),
      names,
    );
  } catch (error) {
    if (error instanceof CriError && error.failure !== 'unreachable') return undefined;
    throw error;
  }
}

function chosen(lines: readonly string[], names: readonly string[]): Environment {
  const wanted = new Set(names);
  return new Map(
    lines.flatMap((line) => {
      const equals = line.indexOf('=');
      const name = line.slice(0, equals);
      return equals > 0 && wanted.has(name) ? [[name, line.slice(equals + 1)] as const] : [];
    }),
  );
}

function parsed(text: string | undefined): Json | undefined {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as Json);
  } catch {
    return undefined;
  }
}
