import { ApplicationFailure } from '@temporalio/common';
import { mergePatchTo, objectOr } from '../../api/base/json.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { type ObjectRef, qualifiedName } from '../../api/core/refs.ts';
import { type OrderedObject, ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { KubeClient } from '../../kube/client.ts';
import { toFailure } from '../../kube/failures.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';

export interface RecordOrdersInput {
  readonly kind: string;
  readonly target: ObjectRef;
  readonly orders: RollOutOrders;
}

/** `newer`: what stands in the object instead. */
export type RecordedOrders = { readonly newer: RollOutOrders } | undefined;

/**
 * The activity by which roll-outs of release 0.1.0, which decide on commands themselves, have orders written until they are
 * handed over. Orders of an older version are not written over newer ones.
 */
export function recordOrdersActivity({
  kube,
  resourceOf,
}: {
  /** Fenced: it writes only while this process leads. */
  readonly kube: Pick<KubeClient, 'get' | 'patch'>;
  readonly resourceOf: (kind: string) => Resource | undefined;
}): (input: RecordOrdersInput) => Promise<RecordedOrders> {
  return async ({ kind, target, orders }) => {
    const attempted = `Cannot write the orders for ${kind} "${qualifiedName(target)}"`;
    const resource = resourceOf(kind);
    if (!resource) throw ApplicationFailure.nonRetryable(`${attempted}: no controller rolls out that kind`, 'Invalid');
    const { namespace, name, uid } = target;
    try {
      return await despiteConflicts(async () => {
        const live = await kube.get<KubeObject & OrderedObject>(resource, { namespace, name });
        const newer = live.metadata.uid === uid ? ordersOf(live) : undefined;
        if (newer && newer.version > orders.version) return { newer };
        const { resourceVersion } = live.metadata;
        const rollOut = mergePatchTo(objectOr(live.status?.rollOut), objectOr(orders));
        const body = { metadata: { uid, resourceVersion }, status: { rollOut } };
        await kube.patch(resource, { namespace, name }, 'merge', body, { subresource: 'status' });
        return undefined;
      });
    } catch (error) {
      if (error instanceof Error && error.name === 'NotLeading') {
        throw ApplicationFailure.retryable(`${attempted}: ${error.message}`, 'Unreachable');
      }
      throw toFailure(error, attempted);
    }
  };
}
