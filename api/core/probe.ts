// Probes of containers in PodProbeMarkers: the meaning of numbers, and of named ports.
import { fnv1a } from '../base/fnv.ts';
import type { Json, JsonObject } from '../base/json.ts';
import type { Parsed } from '../schema/static.ts';
import type { ContainerPort } from './pod.ts';
import type { probeSchema } from './probe-schema.ts';

export type Probe = Parsed<typeof probeSchema>;

/** How often a container is probed, and the thresholds for a change of its state. Every number is at least 1. */
export interface ProbePace {
  readonly initialDelaySeconds: number;
  readonly timeoutSeconds: number;
  readonly periodSeconds: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
}

/**
 * The maximum timeout of one run, far above useful values. Kubernetes has no limit; timers have one, and a run occupies
 * a slot of its node.
 */
export const longestTimeoutSeconds = 3_600;

/** The effective numbers of a probe: 1 for each that is 0 or absent, unlike in container probes. */
export function paceOf(probe: Probe): ProbePace {
  const atLeastOne = (value: number | undefined) => Math.max(1, Math.trunc(value ?? 1) || 1);
  return {
    initialDelaySeconds: atLeastOne(probe.initialDelaySeconds),
    timeoutSeconds: Math.min(longestTimeoutSeconds, atLeastOne(probe.timeoutSeconds)),
    periodSeconds: atLeastOne(probe.periodSeconds),
    successThreshold: atLeastOne(probe.successThreshold),
    failureThreshold: atLeastOne(probe.failureThreshold),
  };
}

/** A text that identifies the handler, regardless of the order of its fields and of the pace. */
export function handlerHash({ exec, httpGet, tcpSocket }: Probe): string {
  return fnv1a(canonical({ exec, httpGet, tcpSocket } as JsonObject)).toString(16);
}

function canonical(value: Json | undefined): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null);
  const present = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${present
    .toSorted(([left], [right]) => (left < right ? -1 : 1))
    .map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`)
    .join()}}`;
}

/** The port name of a probe, if it has one; a number, even as a string, needs no look at the container. */
export function namedPort(probe: Probe): string | undefined {
  const port = probe.httpGet?.port ?? probe.tcpSocket?.port;
  return typeof port === 'string' && !/^\d+$/.test(port) ? port : undefined;
}

/** The probe with a numeric port; undefined when the container has no port of that name. */
export function withNumericPort(probe: Probe, ports: readonly ContainerPort[]): Probe | undefined {
  const { httpGet, tcpSocket } = probe;
  const port = httpGet?.port ?? tcpSocket?.port;
  if (typeof port !== 'string') return probe;
  const number = /^\d+$/.test(port) ? Number(port) : ports.find(({ name }) => name === port)?.containerPort;
  if (number === undefined) return undefined;
  if (httpGet) return { ...probe, httpGet: { ...httpGet, port: number } };
  return tcpSocket ? { ...probe, tcpSocket: { ...tcpSocket, port: number } } : probe;
}
