// Mounts that nothing provides: a pod that has one is refused by the API server.

import { type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';

/** A mount, or a raw block device, of a container. */
export interface Mount {
  readonly volume: string;
  readonly container: string;
}

/** The mounts in the spec of a pod for which it has no volume. `provided`: names of volumes that it gets besides its own. */
export function unprovidedMounts(podSpec: JsonObject, provided: readonly Json[] = []): readonly Mount[] {
  const volumes = new Set([...provided, ...listOr(podSpec.volumes).map((volume) => objectOr(volume).name)]);
  return [...listOr(podSpec.initContainers), ...listOr(podSpec.containers)].map(objectOr).flatMap((container) =>
    [...listOr(container.volumeMounts), ...listOr(container.volumeDevices)]
      .map((mount) => objectOr(mount).name)
      .filter((name) => !volumes.has(name))
      .map((name) => ({ volume: String(name), container: String(container.name) })),
  );
}
