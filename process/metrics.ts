import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { cloneSetWaits } from '../api/cloneset/types.ts';
import { recreateWaits } from '../api/container-recreate-request/texts.ts';
import { failureTypes } from '../api/core/failure.ts';
import { daemonSetWaits } from '../api/daemon-set/types.ts';
import type { DeletionRefusalReason, ProtectedKind } from '../api/deletion-protection.ts';
import { pullJobWaits } from '../api/image-pull-job/texts.ts';
import { terminationWaits } from '../api/job-sidecar-termination.ts';
import { pullWaits } from '../api/node-image/texts.ts';
import { type PerKind, partsOf } from '../api/per-kind.ts';
import { markerWaits } from '../api/pod-probe-marker/texts.ts';
import { swapWaits } from '../api/sidecar-set/swap.ts';
import { sidecarSetWaits } from '../api/sidecar-set/texts.ts';
import { statefulSetWaits } from '../api/stateful-set/types.ts';
import type { Role } from './options.ts';

/**
 * What every process reports at `/metrics`. Labels are kinds, resources, reasons and outcomes, never names, so that the
 * number of series does not grow with the cluster.
 */
export interface Metrics {
  readonly registry: Registry;
  /** 1 in the leading watcher. Has OpenKruise's name, for existing alerts. */
  readonly isLeader: Gauge;
  /** Requests to the API server; status 0 means no answer. */
  readonly kubeRequests: Counter<'verb' | 'resource' | 'status'>;
  readonly activitySeconds: Histogram<'activity' | 'outcome'>;
  readonly webhookSeconds: Histogram<'path' | 'outcome'>;
  /** New pods that carried the label of injected pods before admission had seen them. */
  /** Operations whose workflow task fails repeatedly, in the leading watcher. */
  readonly stuckOperations: Gauge<'workflow_type'>;
  /**
   * Counts a deletion that protection has rejected, under OpenKruise's names. OpenKruise has none for Services and
   * Ingresses: they are in `webhookSeconds`.
   */
  countDeletionRefusal(kind: ProtectedKind, reason: DeletionRefusalReason): void;
  /** Payloads over the recommended maximum of 4 KB. */
  readonly largePayloads: Counter<'operation'>;
  /** Reports the counts of a reflector, and the age of its last data, whenever metrics are read. */
  trackReflector(resource: string, reflector: WatchedReflector): void;
  /** Reports the depth of a queue whenever metrics are read. */
  trackQueue(queue: string, depth: () => number): void;
  /** Replaces the state of the versions of the cluster worker; undefined: another process reports it. */
  reportVersions(versions: VersionsState | undefined): void;
  /** Replaces the state of the operations of one kind. */
  reportOperations(kind: string, operations: Iterable<OperationState>, nowMs: number): void;
}

/** The parts of a reflector that are measured. */
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

/** The versions of the cluster worker as the metrics count them. */
export interface VersionsState {
  /** Whether new operations are assigned to workers of this watcher's own build. */
  readonly isCurrent: boolean;
  /** Runs that have not moved to the current version, by the reason. */
  readonly runs: Readonly<Record<'draining' | 'orphaned' | 'unversioned', number>>;
}

/** One operation as the metrics count it. */
export interface OperationState {
  readonly phase: string;
  /** Absent while it waits for nothing. */
  readonly waiting?: { readonly reason: string; readonly sinceMs: number };
}

/**
 * The wait reasons of each kind, from closed lists. Reasons are read from objects that others may write, so any other
 * text is counted as `Other`.
 */
const waitsOfKinds: PerKind<object> = {
  CloneSet: cloneSetWaits,
  ContainerRecreateRequest: recreateWaits,
  NodeImage: pullWaits,
  ImagePullJob: pullJobWaits,
  PodProbeMarker: markerWaits,
  SidecarSet: { ...sidecarSetWaits, ...swapWaits },
  StatefulSet: statefulSetWaits,
  DaemonSet: daemonSetWaits,
  // These have no wait reasons of their own.
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
};
const waits: readonly object[] = [...partsOf(waitsOfKinds), terminationWaits];
const knownReasons: ReadonlySet<string> = new Set([...waits.flatMap(Object.keys), ...failureTypes, 'Failed']);
const phasePattern = /^[A-Z][A-Za-z]{0,31}$/;
/** An upper limit: no kind has as many phases. */
const mostPhases = 20;
/** A series is removed when it has been 0 for this long. */
const keepZeroMs = 3_600_000;

const activityBuckets = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800];
const webhookBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];

/** The metrics of this process in a registry of their own, each with the label `role`. */
export function createMetrics(role: Role): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels({ role });
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const trackReflector = reflectorMetrics(registers);
  const trackQueue = queueMetrics(registers);
  const reportOperations = operationMetrics(registers);
  const reportVersions = versionMetrics(registers);
  const countDeletionRefusal = refusalMetrics(registers);
  return {
    registry,
    ...processMetrics(registers),
    countDeletionRefusal,
    trackReflector,
    trackQueue,
    reportVersions,
    reportOperations,
  };
}

/** Metrics that are updated as events happen. */
function processMetrics(registers: Registry[]) {
  return {
    isLeader: new Gauge({ name: 'kruise_manager_is_leader', help: '1 in the watcher that leads, else 0.', registers }),
    kubeRequests: new Counter({
      name: 'windlass_kube_requests_total',
      help: 'Requests to the API server; status 0 means no answer.',
      labelNames: ['verb', 'resource', 'status'],
      registers,
    }),
    activitySeconds: new Histogram({
      name: 'windlass_activity_seconds',
      help: 'Duration of activity attempts, by name and outcome.',
      labelNames: ['activity', 'outcome'],
      buckets: activityBuckets,
      registers,
    }),
    stuckOperations: new Gauge({
      name: 'windlass_operations_stuck',
      help: 'Operations whose workflow task keeps failing, by workflow type.',
      labelNames: ['workflow_type'],
      registers,
    }),
    largePayloads: new Counter({
      name: 'windlass_large_payloads_total',
      help: 'Payloads to Temporal larger than 4 KB, by operation. Those larger than 64 KB are refused.',
      labelNames: ['operation'],
      registers,
    }),
    webhookSeconds: new Histogram({
      name: 'windlass_webhook_seconds',
      help: 'Duration of admission and conversion requests, by path and outcome.',
      labelNames: ['path', 'outcome'],
      buckets: webhookBuckets,
      registers,
    }),
  } as const;
}

/** Gauges and counters of reflectors, read whenever metrics are. */
function reflectorMetrics(registers: Registry[]): Metrics['trackReflector'] {
  const reflectors = new Map<string, WatchedReflector>();
  showReflectors(
    'windlass_cache_age_seconds',
    'Seconds since the last data about a resource from the API server.',
    ({ ageMs }) => ageMs / 1000,
  );
  showReflectors(
    'windlass_cache_synced',
    '1 when the cache of a resource is synced, 0 while it is not and what needs the resource cannot work.',
    ({ isSynced }) => (isSynced ? 1 : 0),
  );
  showReflectors(
    'windlass_cache_skipped_objects',
    'Objects of a resource that are skipped because they are too large.',
    ({ counts }) => counts.skipped,
  );
  countReflectors('windlass_reflector_errors_total', 'Lists and watches that failed.', ({ errors }) => errors);
  countReflectors('windlass_reflector_events_total', 'Watch events received.', ({ events }) => events);
  countReflectors(
    'windlass_reflector_lists_total',
    'Full lists; more than one means that a watch could not be resumed.',
    ({ lists }) => lists,
  );
  return (resource, reflector) => void reflectors.set(resource, reflector);

  function showReflectors(name: string, help: string, measure: (reflector: WatchedReflector) => number): void {
    new Gauge({
      name,
      help,
      labelNames: ['resource'],
      registers,
      collect() {
        for (const [resource, reflector] of reflectors) this.set({ resource }, measure(reflector));
      },
    });
  }

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
}

function queueMetrics(registers: Registry[]): Metrics['trackQueue'] {
  const queues = new Map<string, () => number>();
  new Gauge({
    name: 'windlass_queue_depth',
    help: 'Depth of a queue of this process.',
    labelNames: ['queue'],
    registers,
    collect() {
      for (const [queue, depth] of queues) this.set({ queue }, depth());
    },
  });
  return (queue, depth) => void queues.set(queue, depth);
}

function operationMetrics(registers: Registry[]): Metrics['reportOperations'] {
  const operations = new Gauge({
    name: 'windlass_operations',
    help: 'Operations that exist, by kind and phase.',
    labelNames: ['kind', 'phase'],
    registers,
  });
  const waiting = new Gauge({
    name: 'windlass_operation_waiting_seconds',
    help: 'How long the longest-waiting operation has been waiting, by kind and reason.',
    labelNames: ['kind', 'reason'],
    registers,
  });
  /** By kind and label value: when a series was last above 0. */
  const phases = new Map<string, Map<string, number>>();
  const reasons = new Map<string, Map<string, number>>();

  return (kind, states, nowMs) => {
    const { byPhase, byReason } = countOperations(states, nowMs);
    report(operations, 'phase', kind, byPhase, seriesOf(phases, kind), nowMs);
    report(waiting, 'reason', kind, byReason, seriesOf(reasons, kind), nowMs);
  };
}

/** The number of operations by phase, and the longest wait in seconds by reason. */
function countOperations(states: Iterable<OperationState>, nowMs: number) {
  const byPhase = new Map<string, number>();
  const byReason = new Map<string, number>();
  for (const { phase, waiting: wait } of states) {
    const isBounded = phasePattern.test(phase) && (byPhase.has(phase) || byPhase.size < mostPhases);
    const known = isBounded ? phase : 'Other';
    byPhase.set(known, (byPhase.get(known) ?? 0) + 1);
    if (!wait) continue;
    const reason = knownReasons.has(wait.reason) ? wait.reason : 'Other';
    // a time that cannot be parsed counts as now
    const seconds = Math.max(0, (nowMs - wait.sinceMs) / 1000) || 0;
    byReason.set(reason, Math.max(byReason.get(reason) ?? 0, seconds));
  }
  return { byPhase, byReason };
}

function versionMetrics(registers: Registry[]): Metrics['reportVersions'] {
  const versionCurrent = new Gauge({
    name: 'windlass_worker_version_current',
    help: '1 while the current version of the workers is the one of the leading watcher.',
    registers,
  });
  const versionRuns = new Gauge({
    name: 'windlass_worker_version_runs',
    help: 'Workflow runs that are not on the current version of the workers, by state.',
    labelNames: ['state'],
    registers,
  });
  const versionDraining = new Gauge({
    name: 'windlass_worker_version_draining',
    help: '1 while another version of the workers still has workflow runs.',
    registers,
  });

  return (versions) => {
    const { draining = 0, orphaned = 0, unversioned = 0 } = versions?.runs ?? {};
    versionCurrent.set(versions?.isCurrent ? 1 : 0);
    for (const [state, count] of Object.entries({ draining, orphaned, unversioned })) versionRuns.set({ state }, count);
    versionDraining.set(draining + orphaned > 0 ? 1 : 0);
  };
}

function refusalMetrics(registers: Registry[]): Metrics['countDeletionRefusal'] {
  const namespaceRefusals = new Counter({
    name: 'namespace_deletion_protection',
    help: 'Deletions of namespaces that protection has refused, by reason.',
    labelNames: ['reason'],
    registers,
  });
  const definitionRefusals = new Counter({
    name: 'crd_deletion_protection',
    help: 'Deletions of CustomResourceDefinitions that protection has refused, by reason.',
    labelNames: ['reason'],
    registers,
  });
  const workloadRefusals = new Counter({
    name: 'workload_deletion_protection',
    help: 'Deletions of workloads that protection has refused, by kind and reason.',
    labelNames: ['group', 'kind', 'reason'],
    registers,
  });

  return ({ cascading, group, kind }, reason) => {
    switch (cascading) {
      case 'podsAndClaims':
        namespaceRefusals.inc({ reason });
        break;
      case 'customResources':
        definitionRefusals.inc({ reason });
        break;
      case 'replicas':
        workloadRefusals.inc({ group, kind, reason });
        break;
      case 'nothing':
        break;
    }
  };
}

function seriesOf(all: Map<string, Map<string, number>>, kind: string): Map<string, number> {
  const series = all.get(kind) ?? new Map<string, number>();
  all.set(kind, series);
  return series;
}

/** A series that has ended is reported as 0 for an hour, so that alerts resolve, and then removed. */
function report<Label extends string>(
  gauge: Gauge<'kind' | Label>,
  label: Label,
  kind: string,
  now: ReadonlyMap<string, number>,
  lastSeenMs: Map<string, number>,
  nowMs: number,
): void {
  for (const value of now.keys()) lastSeenMs.set(value, nowMs);
  for (const [value, seenMs] of lastSeenMs) {
    const labels = { kind, [label]: value } as Record<'kind' | Label, string>;
    if (nowMs - seenMs <= keepZeroMs) {
      gauge.set(labels, now.get(value) ?? 0);
    } else {
      gauge.remove(labels);
      lastSeenMs.delete(value);
    }
  }
}
