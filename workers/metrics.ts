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
  /** Things that wait in a queue of this process, by queue. */
  readonly queueDepth: Gauge<'queue'>;
  /** Passes of the fleet queue, by kind and outcome. */
  readonly fleetPasses: Counter<'kind' | 'outcome'>;
  readonly reflectorEvents: Counter<'resource' | 'type'>;
  readonly reflectorRelists: Counter<'resource'>;
  /** Requests to the API server; status 0 means that none came back. */
  readonly kubeRequests: Counter<'verb' | 'resource' | 'status'>;
  readonly activitySeconds: Histogram<'activity' | 'outcome'>;
  readonly webhookSeconds: Histogram<'path' | 'outcome'>;
  /** Measures the age of a watch cache whenever the metrics are read: seconds since the API server was last heard. */
  trackCacheAge(resource: string, ageSeconds: () => number): void;
  /** Replaces what is known about the operations of one kind. */
  reportOperations(kind: string, operations: Iterable<OperationState>, nowMs: number): void;
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

  const cacheAges = new Map<string, () => number>();
  new Gauge({
    name: 'windlass_cache_age_seconds',
    help: 'Seconds since the API server was last heard about a resource.',
    labelNames: ['resource'],
    registers,
    collect() {
      for (const [resource, ageSeconds] of cacheAges) this.set({ resource }, ageSeconds());
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
    queueDepth: new Gauge({
      name: 'windlass_queue_depth',
      help: 'Things that wait in a queue of this process.',
      labelNames: ['queue'],
      registers,
    }),
    fleetPasses: new Counter({
      name: 'windlass_fleet_passes_total',
      help: 'Passes over fleet objects.',
      labelNames: ['kind', 'outcome'],
      registers,
    }),
    reflectorEvents: new Counter({
      name: 'windlass_reflector_events_total',
      help: 'Watch events received, by resource and type.',
      labelNames: ['resource', 'type'],
      registers,
    }),
    reflectorRelists: new Counter({
      name: 'windlass_reflector_relists_total',
      help: 'Lists made anew after the first.',
      labelNames: ['resource'],
      registers,
    }),
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
    webhookSeconds: new Histogram({
      name: 'windlass_webhook_seconds',
      help: 'Time to answer admission and conversion, by path and outcome.',
      labelNames: ['path', 'outcome'],
      buckets: webhookBuckets,
      registers,
    }),
    trackCacheAge: (resource, ageSeconds) => void cacheAges.set(resource, ageSeconds),
    reportOperations,
  };
}
