import { ApplicationFailure } from '@temporalio/common';
import { mergePatchTo, objectOr } from '../../api/base/json.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { type ObjectRef, qualifiedName } from '../../api/core/refs.ts';
import { type OrderedObject, ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { KubeClient } from '../../kube/client.ts';
import { toFailure } from '../../kube/failures.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import { type CheckedSkips, withoutSkips } from '../../plan/fleet/roll-out-orders.ts';
import { fitting } from '../../plan/text-size.ts';

const seenWithinMs = 5_000;

export interface RecordOrdersInput {
  readonly kind: string;
  readonly target: ObjectRef;
  readonly orders: RollOutOrders;
  /** Names of pods that they skip: those that the object does not have are left out. Absent: none is checked. */
  readonly check?: readonly string[];
}

/** `newer`: what stands in the object instead. Undefined: they stand in the object, and there was nothing to check. */
export type RecordedOrders = { readonly newer?: RollOutOrders; readonly checked?: CheckedSkips } | undefined;

/** A pod of an object. */
export interface PodOfFleet {
  /** As orders name it: with its namespace if the object has none. */
  readonly name: string;
  /** It is unavailable, and counted by maxUnavailable also while it is skipped. */
  readonly spendsBudget: boolean;
}

/** Of the names of pods in an answer, as JSON. */
const mostNameBytes = 300;

/**
 * Writes what operators have decided into the status of the object, and waits until the watcher that carries it out has
 * seen it. One roll-out writes one after the other, and only the leading watcher takes anything off besides; but an attempt
 * that was given up may still be under way, and a roll-out may know less than the object after Temporal was restored. So
 * orders of an older version are not written over newer ones.
 */
export function recordOrdersActivity({
  kube,
  seen,
  resourceOf,
  podsOf,
}: {
  /** Fenced: it writes only while this process leads. */
  readonly kube: Pick<KubeClient, 'get' | 'patch'>;
  /** Waits until the caches show a version of an object. */
  readonly seen: (resource: Resource, uid: string, resourceVersion: string, signal: AbortSignal) => Promise<void>;
  readonly resourceOf: (kind: string) => Resource | undefined;
  /** The pods that the caches show. Undefined: unknown. */
  readonly podsOf: (kind: string, uid: string) => readonly PodOfFleet[] | undefined;
}): (input: RecordOrdersInput) => Promise<RecordedOrders> {
  return async ({ kind, target, orders: given, check = [] }) => {
    const attempted = `Cannot write the orders for ${kind} "${qualifiedName(target)}"`;
    const resource = resourceOf(kind);
    if (!resource) throw ApplicationFailure.nonRetryable(`${attempted}: no controller rolls out that kind`, 'Invalid');
    const { namespace, name, uid } = target;
    const pods = check.length > 0 ? podsOf(kind, uid) : undefined;
    const checked = pods && checkedAgainst(pods, check);
    const orders = checked ? withoutSkips(given, checked.unknown) : given;
    try {
      const outcome = await despiteConflicts(async () => {
        const live = await kube.get<KubeObject & OrderedObject>(resource, { namespace, name });
        const newer = live.metadata.uid === uid ? ordersOf(live) : undefined;
        if (newer && newer.version > orders.version) return { newer };
        const { resourceVersion } = live.metadata;
        const rollOut = mergePatchTo(objectOr(live.status?.rollOut), objectOr(orders));
        const body = { metadata: { uid, resourceVersion }, status: { rollOut } };
        const options = { subresource: 'status' };
        return await kube.patch<KubeObject & OrderedObject>(resource, { namespace, name }, 'merge', body, options);
      });
      if ('newer' in outcome) return { newer: outcome.newer };
      if (outcome.status?.rollOut === undefined) throw unknownField(attempted, kind);
      const { resourceVersion } = outcome.metadata;
      // Written is written: a cache that is far behind only makes the next permit come to nothing once.
      await seen(resource, uid, resourceVersion, AbortSignal.timeout(seenWithinMs)).catch(() => undefined);
      return checked && { checked };
    } catch (error) {
      if (error instanceof Error && error.name === 'NotLeading') {
        throw ApplicationFailure.retryable(`${attempted}: ${error.message}`, 'Unreachable');
      }
      throw toFailure(error, attempted);
    }
  };
}

/** The API server drops what the schema of a status does not contain. */
function unknownField(attempted: string, kind: string): ApplicationFailure {
  const why = `the CustomResourceDefinition of ${kind} has no status.rollOut; apply the manifests of this release`;
  return ApplicationFailure.nonRetryable(`${attempted}: ${why}`, 'Denied');
}

function checkedAgainst(pods: readonly PodOfFleet[], names: readonly string[]): CheckedSkips {
  const known = new Map(pods.map((pod) => [pod.name, pod]));
  return {
    unknown: names.filter((name) => !known.has(name)),
    unavailable: names.filter((name) => known.get(name)?.spendsBudget),
    pods: fitting(
      pods.map(({ name }) => name).toSorted((one, other) => (one < other ? -1 : 1)),
      mostNameBytes,
    ),
    count: pods.length,
  };
}
