import type { JsonObject } from '../../../api/base/json.ts';

/** CloneSet `web` of namespace `shop` as a user sends it, in either version. For one with a status see cloneset-world.ts. */
export function cloneSetDraft({
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
    kind: 'CloneSet',
    metadata: { name: 'web', namespace: 'shop', ...metadata },
    spec: {
      selector: { matchLabels: { app: 'web' } },
      template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'app', image: 'app:1' }] } },
      ...spec,
    },
  };
  return draft as unknown as JsonObject;
}
