/** What an undo returns to. It changes the images of running pods only; new pods get the content of the spec. */
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import { doubtAbout } from '../../api/fleet/revision.ts';
import { currentContent, revisionContent } from '../../api/sidecar-set/injection/choose.ts';
import type { SidecarSetScene } from './scene.ts';
import { firstImmutableDifference } from './target.ts';

/** The newest stored content with other containers than the present one; or why pods cannot go back to it. */
export function previousContent({
  owner,
  revisions,
}: Pick<SidecarSetScene, 'owner' | 'revisions'>): Pick<RollOutFacts, 'previous' | 'previousDoubt' | 'noUndo'> {
  const { whole } = currentContent(owner).hashes;
  const stored = revisions.history.flatMap((revision) => revisionContent(revision) ?? []);
  const previous = stored.findLast(({ revision, hashes }) => revision !== revisions.latest && hashes.whole !== whole);
  if (previous === undefined) return {};
  const path = firstImmutableDifference(owner.spec, previous.content);
  if (path === undefined) {
    const found = revisions.history.find(({ metadata }) => metadata.name === previous.revision);
    const previousDoubt = found && doubtAbout(found);
    return { previous: previous.revision, ...(previousDoubt !== undefined && { previousDoubt }) };
  }
  return { noUndo: `${path} differs in revision ${previous.revision}, and running pods can change images only` };
}
