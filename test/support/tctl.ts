import { readFileSync } from 'node:fs';
import type { Client } from '@temporalio/client';
import proto from '@temporalio/proto';
import { wordsOf } from './command-lines.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonObject = { readonly [key: string]: Json };
type Metadata = Readonly<Record<string, string>>;

interface RecordedCall {
  readonly method: string;
  readonly metadata: Metadata;
  readonly request: JsonObject;
}

interface RecordedCommand {
  readonly argv: readonly string[];
  readonly calls: readonly RecordedCall[];
}

const services = proto.temporal.api.workflowservice.v1;

/**
 * Sends what tctl 1.18 sends for this command line: the requests that a real one was recorded with for the same options,
 * with the values of this line. Returns the responses as JSON.
 */
export async function sendLikeTctl(line: string, id: string, client: Client): Promise<string> {
  const argv = await wordsOf(line, id);
  const { calls, argv: recordedArgv } = recordedFor(argv);
  const before = optionsOf(recordedArgv).values;
  const now = optionsOf(argv).values;
  const responses: string[] = [];
  let resetTo: string | undefined;

  for (const { method, metadata, request } of calls) {
    const sent = withValues(request, before, now, resetTo) as JsonObject;
    const response = await client.connection.withMetadata(clientOf(metadata), () => send(client, method, sent));
    responses.push(JSON.stringify(response));
    if (method === 'GetWorkflowExecutionHistory') resetTo = firstCompletedTask(response);
  }
  return responses.join('\n');
}

/** The server checks which client calls. */
function clientOf({ 'user-agent': _, ...metadata }: Metadata): Metadata {
  return metadata;
}

async function send(client: Client, method: string, request: JsonObject): Promise<unknown> {
  const type = services[`${method}Request` as keyof typeof services] as unknown as {
    fromObject(object: object): object;
  };
  const name = `${method[0]?.toLowerCase()}${method.slice(1)}`;
  const service = client.workflowService as unknown as Record<string, (request: object) => Promise<unknown>>;
  const call = service[name];
  if (!call) throw new Error(`No method ${method}`);
  return await call.call(service, type.fromObject(request));
}

/** The command that was recorded with the same options. The values of options that are in no request may differ. */
function recordedFor(argv: readonly string[]): RecordedCommand {
  const shape = JSON.stringify(optionsOf(argv).shape);
  const found = recordedCommands().find((command) => JSON.stringify(optionsOf(command.argv).shape) === shape);
  if (!found) throw new Error(`tctl was not recorded with the options of: ${argv.join(' ')}`);
  return found;
}

function recordedCommands(): readonly RecordedCommand[] {
  const text = readFileSync(new URL('../recorded/tctl-1.18.jsonl', import.meta.url), 'utf8');
  const commands: { readonly argv: readonly string[]; readonly calls: RecordedCall[] }[] = [];
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const entry = JSON.parse(line) as
      | { argv: readonly string[] }
      | { rpc: string; metadata: Metadata; request: JsonObject };
    if ('argv' in entry) commands.push({ argv: entry.argv, calls: [] });
    else {
      const { rpc, metadata, request } = entry;
      commands.at(-1)?.calls.push({ method: rpc.slice(rpc.lastIndexOf('/') + 1), metadata, request });
    }
  }
  return commands;
}

/** The values of the options by name, and the line without them. */
function optionsOf(argv: readonly string[]): {
  readonly values: ReadonlyMap<string, string>;
  readonly shape: readonly string[];
} {
  const values = new Map<string, string>();
  const shape: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? '';
    shape.push(word);
    const next = argv[at + 1];
    if (!word.startsWith('--') || next === undefined || next.startsWith('--')) continue;
    values.set(word, next);
    at++;
  }
  return { values, shape };
}

/** The recorded request with the values of another line in place of the recorded ones. */
function withValues(
  json: Json,
  before: ReadonlyMap<string, string>,
  now: ReadonlyMap<string, string>,
  resetTo: string | undefined,
): Json {
  const texts = new Map<string, string>();
  for (const [option, value] of now) {
    const old = before.get(option) ?? '';
    texts.set(old, value);
    for (const payload of payloadsOf(old, option)) texts.set(payload.old, payload.of(value));
    if (option === '--reason') texts.set(`operator:${old}`, `operator:${value}`);
  }
  const replaced = (value: Json, key: string): Json => {
    if (key === 'workflowTaskFinishEventId' && resetTo !== undefined) return resetTo;
    if (key === 'requestId') return crypto.randomUUID();
    if (key === 'latestTime') return { seconds: String(Math.ceil(Date.now() / 1000)) };
    if (typeof value === 'string') return key === 'encoding' ? value : (texts.get(value) ?? value);
    if (Array.isArray(value)) return value.map((item) => replaced(item as Json, key));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, replaced(item as Json, name)]));
  };
  return replaced(json, '');
}

/** How tctl encodes the value of this option as a payload: an input as JSON with sorted keys, others as a JSON string. */
function payloadsOf(
  old: string,
  option: string,
): readonly { readonly old: string; readonly of: (value: string) => string }[] {
  const encode = (value: string): string => Buffer.from(value).toString('base64');
  if (option === '--input') {
    const sorted = (value: string) =>
      JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(value)).toSorted(([a], [b]) => (a < b ? -1 : 1))));
    const of = (value: string) => encode(sorted(value));
    return [{ old: of(old), of }];
  }
  if (option === '--detail' || option === '--result') {
    const of = (value: string) => encode(JSON.stringify(value));
    return [{ old: of(old), of }];
  }
  return [];
}

/** tctl resets to the first workflow task that has completed. */
function firstCompletedTask(response: unknown): string | undefined {
  const { history } = response as proto.temporal.api.workflowservice.v1.IGetWorkflowExecutionHistoryResponse;
  const event = history?.events?.find((one) => one.workflowTaskCompletedEventAttributes);
  return event?.eventId?.toString();
}
