/** Which images are pulled ahead of the update of a DaemonSet (AD-50). */
import { imagesBeside, imagesOf } from '../fleet/pre-download.ts';
import type { ChangedImage } from '../fleet/prefetch.ts';
import type { FleetScene, ImagesAhead } from '../fleet/scene.ts';

/** The images to pull ahead. */
export function imagesAhead({ input, revisions }: Pick<FleetScene, 'input' | 'revisions'>): ImagesAhead {
  const { PreDownloadImageForDaemonSetUpdate, KruiseDaemon, ImagePullJobGate } = input.gates;
  return {
    isOn: PreDownloadImageForDaemonSetUpdate && KruiseDaemon && ImagePullJobGate,
    images: newImages(revisions),
  };
}

/** The images that any of the older revisions does not have; all of the first revision. */
function newImages({ all, update }: FleetScene['revisions']): readonly ChangedImage[] {
  const older = all.filter(({ metadata }) => metadata.name !== update.metadata.name);
  if (older.length === 0) return imagesOf(update);
  const changed = new Set(
    older.flatMap((revision) => imagesBeside(update, revision)).map(({ container }) => container),
  );
  return imagesOf(update).filter(({ container }) => changed.has(container));
}
