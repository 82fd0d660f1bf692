import type { JsonObject } from '../../../api/base/json.ts';
import type { ContainerRecreateRequest } from '../../../api/container-recreate-request/types.ts';
import type { ObjectMeta } from '../../../api/core/meta.ts';
import { crrLabel } from '../../../api/core/well-known.ts';
import { metadataOf } from './metadata.ts';

/** Request `crr-a` as admission leaves it, for container `app` of pod `web` on `node-1`. */
export function aRecreateRequest({
  metadata,
  spec,
  status,
}: {
  readonly metadata?: Partial<ObjectMeta>;
  readonly spec?: Partial<ContainerRecreateRequest['spec']>;
  readonly status?: ContainerRecreateRequest['status'];
} = {}): ContainerRecreateRequest {
  const labels = { [crrLabel.podUid]: 'pod-1', [crrLabel.nodeName]: 'node-1' };
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'ContainerRecreateRequest',
    metadata: metadataOf(
      { namespace: 'shop', name: 'crr-a', uid: 'uid-of-crr-a' },
      { generation: 1, labels, ...metadata },
    ),
    spec: { podName: 'web', containers: [{ name: 'app' }], ...spec },
    ...(status && { status }),
  };
}

/** A request as a user sends it, in either version. */
export function recreateRequestDraft({
  version = 'v1beta1',
  metadata,
  spec,
}: {
  readonly version?: string;
  readonly metadata?: object;
  readonly spec?: object;
} = {}): JsonObject {
  const draft = {
    apiVersion: `apps.kruise.io/${version}`,
    kind: 'ContainerRecreateRequest',
    metadata: { name: 'again', namespace: 'shop', ...metadata },
    spec: { podName: 'web', containers: [{ name: 'app' }], ...spec },
  };
  return draft as unknown as JsonObject;
}
