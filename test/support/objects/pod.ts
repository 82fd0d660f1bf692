import type { JsonObject } from '../../../api/base/json.ts';
import type { ObjectMeta } from '../../../api/core/meta.ts';
import type { Pod, PodSpec, PodStatus } from '../../../api/core/pod.ts';
import { metadataOf } from './metadata.ts';

export interface PodOverrides {
  readonly metadata?: Partial<ObjectMeta>;
  readonly spec?: Partial<PodSpec>;
  readonly status?: PodStatus;
}

/** Pod `web` of namespace `shop`, without a node, containers and a status. */
export function aPod({ metadata, spec, status }: PodOverrides = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: metadataOf({ namespace: 'shop', name: 'web', uid: 'pod-1' }, metadata),
    spec: { containers: [], ...spec },
    ...(status && { status }),
  };
}

/** A pod as it is sent to admission, with a container `app`; metadata that is given is all that it has. */
export function podDraft({
  metadata = { name: 'web' },
  spec,
}: {
  readonly metadata?: object;
  readonly spec?: object;
} = {}): JsonObject {
  const draft = { apiVersion: 'v1', kind: 'Pod', metadata, spec: { containers: [{ name: 'app' }], ...spec } };
  return draft as unknown as JsonObject;
}
