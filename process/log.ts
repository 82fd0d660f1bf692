import { type DestinationStream, type Logger, pino } from 'pino';
import type { Config, Role } from './config.ts';

export type { Logger } from 'pino';

/**
 * JSON lines on standard output, each with `role` and an ISO time. Values whose name ends in token, authorization or
 * password are masked. The first line names the flags that have no effect.
 */
export function createLogger(
  role: Role,
  config: Pick<Config, 'logLevel' | 'ignoredFlags'>,
  destination: DestinationStream = pino.destination({ fd: 1, sync: true }),
): Logger {
  const log = pino(
    {
      level: config.logLevel,
      base: { role },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }), log: (line) => withoutSecrets(line, 0) },
      serializers: { err: describeError },
      errorKey: 'err',
    },
    destination,
  );
  if (config.ignoredFlags.length > 0) {
    log.info({ flags: config.ignoredFlags }, 'Flags that have no effect on this role are ignored');
  }
  return log;
}

const secretName = /(token|authorization|password)$/i;
const deepest = 6;

/** The same value, or a copy with secrets masked, which is rare. */
function withoutSecrets<Value extends object>(value: Value, depth: number): Value {
  const shown = Object.entries(value).map(([key, inner]): [string, unknown] => [key, shownAs(key, inner, depth)]);
  const hidden = shown.filter(([key, inner]) => inner !== (value as Record<string, unknown>)[key]);
  if (hidden.length === 0) return value;
  return Object.assign(Array.isArray(value) ? [...value] : { ...value }, Object.fromEntries(hidden)) as Value;
}

function shownAs(key: string, value: unknown, depth: number): unknown {
  if (secretName.test(key) && value !== undefined) return '[redacted]';
  if (typeof value !== 'object' || value === null || value instanceof Error || depth === deepest) return value;
  return withoutSecrets(value, depth + 1);
}

interface ErrorFields {
  readonly type: string;
  readonly message: string;
  readonly stack?: string;
  readonly code?: string;
  readonly cause?: ErrorFields;
}

/** Only these fields: errors of HTTP clients contain whole requests, with their headers. */
function describeError(error: unknown): unknown {
  return error instanceof Error ? errorFields(error, 0) : error;
}

function errorFields(error: Error, depth: number): ErrorFields {
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const cause = error.cause instanceof Error && depth < deepest ? { cause: errorFields(error.cause, depth + 1) } : {};
  const stack = error.stack === undefined ? {} : { stack: error.stack };
  // `type` of our failures says what happens next, and is more useful than the class name.
  const type = 'type' in error && typeof error.type === 'string' ? error.type : error.name;
  return { type, message: error.message, ...code, ...stack, ...cause };
}
