// Probes of containers as PodProbeMarkers carry them: what numbers mean, and what a named port stands for.
import { fnv1a } from '../base/fnv.ts';
import type { Json, JsonObject } from '../base/json.ts';
import type { Parsed } from '../schema/static.ts';
import type { ContainerPort } from './pod.ts';
import type { probeSchema } from './probe-schema.ts';

export type Probe = Parsed<typeof probeSchema>;

/** How often a container is probed and what it takes to change its state. Every number is at least 1. */
export interface ProbePace {
  readonly initialDelaySeconds: number;
  readonly timeoutSeconds: number;
  readonly periodSeconds: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
}

/**
 * As long as one run may take, which is far beyond any that is of use. Kubernetes knows no limit; timers do, and a run
 * holds a turn of its node.
 */
export const longestTimeoutSeconds = 3_600;

/** The numbers of a probe in force: 1 for each that is 0 or absent, which is not what they mean in a container's probes. */
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

/** A text that is the same for the same handler, however its fields are ordered; the pace has no part in it. */
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

/** The name of the port that a probe asks for, if it names one; numbers, also as text, need no look at the container. */
export function namedPort(probe: Probe): string | undefined {
  const port = probe.httpGet?.port ?? probe.tcpSocket?.port;
  return typeof port === 'string' && !/^\d+$/.test(port) ? port : undefined;
}

/** The probe with its port as a number; undefined when the container has no port of that name. */
export function withNumericPort(probe: Probe, ports: readonly ContainerPort[]): Probe | undefined {
  const { httpGet, tcpSocket } = probe;
  const port = httpGet?.port ?? tcpSocket?.port;
  if (typeof port !== 'string') return probe;
  const number = /^\d+$/.test(port) ? Number(port) : ports.find(({ name }) => name === port)?.containerPort;
  if (number === undefined) return undefined;
  if (httpGet) return { ...probe, httpGet: { ...httpGet, port: number } };
  return tcpSocket ? { ...probe, tcpSocket: { ...tcpSocket, port: number } } : probe;
}
