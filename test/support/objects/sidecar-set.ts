import type { JsonObject } from '../../../api/base/json.ts';
import type { SidecarSetVersion } from '../../../api/sidecar-set/types.ts';

interface Draft {
  readonly name?: string;
  readonly version?: SidecarSetVersion;
  readonly metadata?: JsonObject;
  readonly spec?: JsonObject;
}

/** A SidecarSet as a user would apply it: one container for the pods with `app: web`. */
export function sidecarSetDraft({
  name = 'logs',
  version = 'v1beta1',
  metadata = {},
  spec = {},
}: Draft = {}): JsonObject {
  return {
    apiVersion: `apps.kruise.io/${version}`,
    kind: 'SidecarSet',
    metadata: { name, ...metadata },
    spec: { selector: { matchLabels: { app: 'web' } }, containers: [{ name: 'log', image: 'log:1' }], ...spec },
  };
}
