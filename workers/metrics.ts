import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Role } from './options.ts';

/**
 * What every process reports at `/metrics`. Labels are kinds, resources, reasons and outcomes: never names, so that the
 * number of series does not grow with the cluster.
 */
export interface Metrics {
  readonly registry: Registry;
  /** 1 in the watcher that leads. Named as OpenKruise names it, for alerts that exist. */
  readonly isLeader: Gauge;
  /** Requests to the API server; status 0 means that none came back. */
  readonly kubeRequests: Counter<'verb' | 'resource' | 'status'>;
  readonly activitySeconds: Histogram<'activity' | 'outcome'>;
  readonly webhookSeconds: Histogram<'path' | 'outcome'>;
  /** Payloads over the 4 KB that they should have at most. */
  readonly largePayloads: Counter<'operation'>;
  /** Reports what a reflector has heard, and how long ago, whenever the metrics are read. */
  trackReflector(resource: string, reflector: WatchedReflector): void;
  /** Reports how much waits in a queue whenever the metrics are read. */
  trackQueue(queue: string, depth: () => number): void;
  /** Replaces what is known about the operations of one kind. */
  reportOperations(kind: string, operations: Iterable<OperationState>, nowMs: number): void;
}

/** What of a reflector is measured. */
export interface WatchedReflector {
  readonly ageMs: number;
  readonly isSynced: boolean;
  readonly counts: {
    readonly events: number;
    readonly lists: number;
    readonly errors: number;
    readonly skipped: number;
  };
}

/** One operation as the metrics count it. */
export interface OperationState {
  readonly phase: string;
  /** Absent while it does not wait. */
  readonly waiting?: { readonly reason: string; readonly sinceMs: number };
}

const activityBuckets = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800];
const webhookBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];

/** The metrics of this process in a registry of their own, each with the label `role`. */
export function createMetrics(role: Role): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels({ role });
  collectDefaultMetrics({ register: registry });
  const registers = [registry];

  const reflectors = new Map<string, WatchedReflector>();
  new Gauge({
    name: 'windlass_cache_age_seconds',
    help: 'Seconds since the API server was last heard about a resource.',
    labelNames: ['resource'],
    registers,
    collect() {
      for (const [resource, { ageMs }] of reflectors) this.set({ resource }, ageMs / 1000);
    },
  });
  new Gauge({
    name: 'windlass_cache_synced',
    help: '1 when a resource has been listed; 0 while what needs it cannot work.',
    labelNames: ['resource'],
    registers,
    collect() {
      for (const [resource, { isSynced }] of reflectors) this.set({ resource }, isSynced ? 1 : 0);
    },
  });
  new Gauge({
    name: 'windlass_cache_skipped_objects',
    help: 'Objects of a resource that are too large to be read and are skipped.',
    labelNames: ['resource'],
    registers,
    collect() {
      for (const [resource, { counts }] of reflectors) this.set({ resource }, counts.skipped);
    },
  });
  countReflectors('windlass_reflector_errors_total', 'Lists and watches that failed.', ({ errors }) => errors);
  countReflectors('windlass_reflector_events_total', 'Watch events received.', ({ events }) => events);
  countReflectors(
    'windlass_reflector_lists_total',
    'Whole lists; more than one means lost continuity.',
    ({ lists }) => lists,
  );

  function countReflectors(name: string, help: string, count: (counts: WatchedReflector['counts']) => number): void {
    const counted = new Map<string, number>();
    new Counter({
      name,
      help,
      labelNames: ['resource'],
      registers,
      collect() {
        for (const [resource, { counts }] of reflectors) {
          const now = count(counts);
          this.inc({ resource }, Math.max(0, now - (counted.get(resource) ?? 0)));
          counted.set(resource, now);
        }
      },
    });
  }

  const queues = new Map<string, () => number>();
  new Gauge({
    name: 'windlass_queue_depth',
    help: 'Things that wait in a queue of this process.',
    labelNames: ['queue'],
    registers,
    collect() {
      for (const [queue, depth] of queues) this.set({ queue }, depth());
    },
  });
  const operations = new Gauge({
    name: 'windlass_operations',
    help: 'Operations that exist, by kind and phase.',
    labelNames: ['kind', 'phase'],
    registers,
  });
  const waiting = new Gauge({
    name: 'windlass_operation_waiting_seconds',
    help: 'How long the operation that has waited longest has waited, by kind and reason.',
    labelNames: ['kind', 'reason'],
    registers,
  });
  const reported = new Map<string, { phases: ReadonlySet<string>; reasons: ReadonlySet<string> }>();

  function reportOperations(kind: string, states: Iterable<OperationState>, nowMs: number): void {
    const byPhase = new Map<string, number>();
    const byReason = new Map<string, number>();
    for (const { phase, waiting: wait } of states) {
      byPhase.set(phase, (byPhase.get(phase) ?? 0) + 1);
      if (!wait) continue;
      const seconds = Math.max(0, (nowMs - wait.sinceMs) / 1000);
      byReason.set(wait.reason, Math.max(byReason.get(wait.reason) ?? 0, seconds));
    }
    // What has ended is reported as 0 once it was seen, so that alerts resolve.
    const before = reported.get(kind);
    const phases = new Set([...(before?.phases ?? []), ...byPhase.keys()]);
    const reasons = new Set([...(before?.reasons ?? []), ...byReason.keys()]);
    for (const phase of phases) operations.set({ kind, phase }, byPhase.get(phase) ?? 0);
    for (const reason of reasons) waiting.set({ kind, reason }, byReason.get(reason) ?? 0);
    reported.set(kind, { phases, reasons });
  }

  return {
    registry,
    isLeader: new Gauge({ name: 'kruise_manager_is_leader', help: '1 in the watcher that leads, else 0.', registers }),
    kubeRequests: new Counter({
      name: 'windlass_kube_requests_total',
      help: 'Requests to the API server; status 0: no answer.',
      labelNames: ['verb', 'resource', 'status'],
      registers,
    }),
    activitySeconds: new Histogram({
      name: 'windlass_activity_seconds',
      help: 'Time that activity attempts took, by name and outcome.',
      labelNames: ['activity', 'outcome'],
      buckets: activityBuckets,
      registers,
    }),
    largePayloads: new Counter({
      name: 'windlass_large_payloads_total',
      help: 'Payloads to Temporal of more than 4 KB, by operation. More than 64 KB are refused.',
      labelNames: ['operation'],
      registers,
    }),
    webhookSeconds: new Histogram({
      name: 'windlass_webhook_seconds',
      help: 'Time to answer admission and conversion, by path and outcome.',
      labelNames: ['path', 'outcome'],
      buckets: webhookBuckets,
      registers,
    }),
    trackReflector: (resource, reflector) => void reflectors.set(resource, reflector),
    trackQueue: (queue, depth) => void queues.set(queue, depth),
    reportOperations,
  };
}
