// What admission rejects in one probe of a PodProbeMarker.

import { isAbsent, isJsonList, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type FieldError, forbidden, invalid, notSupported, required } from '../core/field-error.ts';

const handlers = ['exec', 'httpGet', 'tcpSocket'] as const;

const numbers = [
  'initialDelaySeconds',
  'timeoutSeconds',
  'periodSeconds',
  'successThreshold',
  'failureThreshold',
] as const;

export function probeProblems(path: string, probe: Json | undefined): readonly FieldError[] {
  if (!isJsonObject(probe)) return [required(path, 'describes how the container is probed')];
  const [first, ...others] = handlers.filter((handler) => !isAbsent(probe[handler]));
  if (first === undefined) return [required(path, 'must have exec, httpGet or tcpSocket')];
  return [
    ...others.map((handler) => forbidden(`${path}.${handler}`, 'only one of exec, httpGet and tcpSocket can be set')),
    ...handlerProblems(`${path}.${first}`, first, objectOr(probe[first])),
    ...numbers.flatMap((field) => numberProblems(`${path}.${field}`, probe[field])),
  ];
}

function numberProblems(path: string, value: Json | undefined): readonly FieldError[] {
  if (isAbsent(value)) return [];
  if (typeof value !== 'number' || !Number.isInteger(value)) return [invalid(path, value, 'must be an integer')];
  return value < 0 ? [invalid(path, value, 'must not be negative')] : [];
}

function handlerProblems(path: string, kind: (typeof handlers)[number], handler: JsonObject): readonly FieldError[] {
  switch (kind) {
    case 'exec':
      return isJsonList(handler.command) && handler.command.length > 0
        ? []
        : [required(`${path}.command`, 'is the command to run in the container')];
    case 'tcpSocket':
      return [...portProblems(`${path}.port`, handler.port), ...hostProblems(`${path}.host`, handler.host)];
    case 'httpGet':
      return [
        ...pathProblems(`${path}.path`, handler.path),
        ...portProblems(`${path}.port`, handler.port),
        ...hostProblems(`${path}.host`, handler.host),
        ...(handler.scheme === 'HTTP' || handler.scheme === 'HTTPS'
          ? []
          : [notSupported(`${path}.scheme`, handler.scheme ?? '', ['HTTP', 'HTTPS'])]),
        ...listOr(handler.httpHeaders).flatMap((header, index) => {
          const { name } = objectOr(header);
          const isHeader = typeof name === 'string' && /^[-A-Za-z0-9]+$/.test(name);
          return isHeader ? [] : [invalid(`${path}.httpHeaders[${index}].name`, name, 'is not a valid header name')];
        }),
      ];
  }
}

function hostProblems(path: string, host: Json | undefined): readonly FieldError[] {
  return isAbsent(host) || host === ''
    ? []
    : [forbidden(path, 'the probe is always sent to the IP address of the pod')];
}

function pathProblems(path: string, value: Json | undefined): readonly FieldError[] {
  if (typeof value !== 'string' || value === '') return [required(path, 'is the path to request')];
  const isPath = !hasControlCharacter(value) && !/%(?![0-9A-Fa-f]{2})/.test(value);
  return isPath ? [] : [invalid(path, value, 'is not a valid path of a URL')];
}

function hasControlCharacter(text: string): boolean {
  return [...text].some((character) => character < ' ' || character === '\u007f');
}

function portProblems(path: string, port: Json | undefined): readonly FieldError[] {
  if (isAbsent(port)) return [required(path, 'is the port to probe')];
  if (typeof port === 'number') {
    const isPort = Number.isInteger(port) && port >= 1 && port <= 65_535;
    return isPort ? [] : [invalid(path, port, 'must be between 1 and 65535')];
  }
  const isName =
    typeof port === 'string' && port.length <= 15 && /^[a-z0-9]+(-[a-z0-9]+)*$/.test(port) && /[a-z]/.test(port);
  const rule = 'must be a number, or a name of at most 15 lower case letters, digits and "-", with a letter';
  return isName ? [] : [invalid(path, port, rule)];
}
