// A pod of the containers of a SidecarSet, which the API server checks as a dry run (SCS-252). Its field paths are those
// of the SidecarSet.

import { isJsonObject, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';

/** The fields of a container that pods do not have. */
const ownFields = [
  'podInjectPolicy',
  'upgradeStrategy',
  'shareVolumePolicy',
  'shareVolumeDevicePolicy',
  'transferEnv',
  'resourcesPolicy',
] as const;

/** The container as pods have it. */
export function plainContainer(container: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(container).filter(([field]) => !ownFields.some((own) => own === field)));
}

/** Whether a write changes what such a pod contains. What was accepted once stays valid. */
export function changesContent(before: JsonObject | undefined, after: JsonObject): boolean {
  const [had, has] = [objectOr(before?.spec), objectOr(after.spec)];
  return (['containers', 'initContainers', 'volumes'] as const).some((list) => !sameJson(had[list], has[list]));
}

/** The pod for a dry run in that namespace. */
export function contentTrial({ spec }: JsonObject, namespace: string): JsonObject {
  const { containers, initContainers, volumes } = objectOr(spec);
  const plain = (list: typeof containers) =>
    listOr(list).map((container) => (isJsonObject(container) ? plainContainer(container) : container));
  const inits = plain(initContainers);
  const mains = plain(containers);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { generateName: 'sidecars-', namespace },
    spec: {
      automountServiceAccountToken: false,
      ...(inits.length > 0 && { initContainers: inits }),
      // A pod needs a container.
      containers: mains.length > 0 ? mains : [{ name: 'windlass-placeholder', image: 'placeholder' }],
      ...(listOr(volumes).length > 0 && { volumes: listOr(volumes) }),
    },
  };
}
