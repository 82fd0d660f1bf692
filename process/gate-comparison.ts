// Each role compares its feature gates with those that the leading watcher publishes: what one role writes because of a
// gate, another one has to process.
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { eventBody } from '../api/core/event.ts';
import type { KubeObject } from '../api/core/meta.ts';
import { eventComponent, installation, kubeResource } from '../api/core/well-known.ts';
import { differingGates, readRecord } from '../api/engine/installation-record.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Logger } from './log.ts';

export interface GateComparison {
  readonly kube: Pick<KubeClient, 'get' | 'create'>;
  readonly role: string;
  readonly gates: FeatureGates;
  /** The namespace in which Windlass itself runs. */
  readonly namespace: string;
  /** Of a daemon only. */
  readonly nodeName?: string;
  readonly log: Pick<Logger, 'warn' | 'debug'>;
  readonly signal: AbortSignal;
  readonly times?: ComparisonTimes;
}

export interface ComparisonTimes {
  readonly firstMs: number;
  /** A difference that disappears within this time came from processes that were restarting. */
  readonly confirmMs: number;
  readonly everyMs: number;
}

/**
 * Reports gates that differ in an Event and in the log, and repeats that while they differ. Resolves when the signal
 * aborts.
 */
export async function compareFeatureGates(comparison: GateComparison): Promise<void> {
  const { signal, log } = comparison;
  const { firstMs, confirmMs, everyMs } = comparison.times ?? usualTimes();
  const pause = (ms: number) => delay(ms, undefined, { signal, ref: false }).catch(() => undefined);

  await pause(firstMs);
  for (let before = ''; !signal.aborted; ) {
    const { record, differing } = await lookedAt(comparison).catch((error: unknown) => {
      log.debug({ err: error }, 'Cannot compare feature gates with those of the leading watcher');
      return { record: undefined, differing: [] };
    });
    const now = differing.join(', ');
    if (record !== undefined && now !== '' && now === before) await report(comparison, record, now);
    const isNew = now !== '' && now !== before;
    before = now;
    await pause(isNew ? confirmMs : everyMs);
  }
}

async function lookedAt({ kube, namespace, gates }: GateComparison) {
  interface ConfigMap extends KubeObject {
    readonly data?: unknown;
  }
  const ref = { namespace, name: installation.recordConfigMap };
  const record = await kube.get<ConfigMap>(kubeResource.configMaps, ref);
  return { record, differing: differingGates(gates, readRecord(record.data)) };
}

async function report(
  { kube, role, nodeName, log, namespace }: GateComparison,
  record: KubeObject,
  differing: string,
): Promise<void> {
  const place = nodeName === undefined ? '' : ` on node ${nodeName}`;
  const message = `Feature gates of the ${role}${place} differ: ${differing}. Start every role with the same --feature-gates`;
  log.warn({ differing }, 'Feature gates differ from those of the leading watcher');
  const event = eventBody({
    about: {
      apiVersion: 'v1',
      kind: kubeResource.configMaps.kind,
      metadata: { ...record.metadata, namespace, name: installation.recordConfigMap },
    },
    component: eventComponent.featureGates,
    ...(nodeName !== undefined && { host: nodeName }),
    type: 'Warning',
    reason: 'FeatureGatesDiffer',
    message,
    atMs: Date.now(),
    // one Event for all replicas of a role, for as long as the API server keeps it
    key: createHash('sha256').update(message).digest('hex').slice(0, 16),
  });
  const body = { ...event, ...(nodeName !== undefined && { reportingInstance: nodeName }) };
  await kube.create(kubeResource.events, body, { deadlineMs: 5_000 }).catch(() => undefined);
}

/** Random delays, so that thousands of daemons that start together do not call at the same time. */
function usualTimes(): ComparisonTimes {
  return { firstMs: 30_000 + Math.random() * 60_000, confirmMs: 60_000, everyMs: 600_000 };
}
