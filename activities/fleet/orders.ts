import { ApplicationFailure } from '@temporalio/common';
import type { Resource } from '../../api/meta.ts';
import { type ObjectRef, qualifiedName } from '../../api/refs.ts';
import { ordersAnnotation, type RollOutOrders } from '../../api/roll-out-orders.ts';
import type { KubeClient } from '../kube/client.ts';
import { toFailure } from '../kube/failures.ts';

const seenWithinMs = 5_000;

export interface RecordOrdersInput {
  readonly kind: string;
  readonly target: ObjectRef;
  readonly orders: RollOutOrders;
}

/**
 * Writes what operators have decided into the annotation of the object, and waits until the watcher that carries it out has
 * seen it. One roll-out writes one after the other, and only the leading watcher takes anything off besides, so what is
 * written last stands.
 */
export function recordOrdersActivity({
  kube,
  seen,
  resourceOf,
}: {
  /** Fenced: it writes only while this process leads. */
  readonly kube: Pick<KubeClient, 'patch'>;
  /** Waits until the caches show a version of an object. */
  readonly seen: (resource: Resource, uid: string, resourceVersion: string, signal: AbortSignal) => Promise<void>;
  readonly resourceOf: (kind: string) => Resource | undefined;
}): (input: RecordOrdersInput) => Promise<void> {
  return async ({ kind, target, orders }) => {
    const attempted = `Cannot write the orders for ${kind} "${qualifiedName(target)}"`;
    const resource = resourceOf(kind);
    if (!resource) throw ApplicationFailure.nonRetryable(`${attempted}: nothing rolls out that kind`, 'Invalid');
    const { namespace, name, uid } = target;
    const body = { metadata: { uid, annotations: ordersAnnotation(orders) } };
    try {
      const { metadata } = await kube.patch(resource, { namespace, name }, 'merge', body);
      // Written is written: a cache that is far behind only makes the next permit come to nothing once.
      await seen(resource, uid, metadata.resourceVersion, AbortSignal.timeout(seenWithinMs)).catch(() => undefined);
    } catch (error) {
      if (error instanceof Error && error.name === 'NotLeading') {
        throw ApplicationFailure.retryable(`${attempted}: ${error.message}`, 'Unreachable');
      }
      throw toFailure(error, attempted);
    }
  };
}
