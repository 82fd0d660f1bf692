/** The revisions of CloneSets. */
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import { apiVersionOf } from '../../api/core/meta.ts';
import { claimTemplatesAnnotation, type RevisionScheme, revisionLabels } from '../../api/fleet/revision.ts';

/** How they are created, and how pods name them (CS-80, IPU-41). */
export const cloneSetRevisions: RevisionScheme<CloneSet> = {
  ownerOf: ({ metadata, spec }) => ({
    // Pods, PVCs and revisions refer to their CloneSet by this version. Older ones may use another.
    apiVersion: apiVersionOf(cloneSets),
    kind: cloneSets.kind,
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid,
    annotations: metadata.annotations,
    ownAnnotations: claimTemplatesAnnotation(spec.volumeClaimTemplates),
    template: spec.template,
  }),
  podLabels: revisionLabels,
  keepsCurrent: true,
  recreatesForClaims: ({ RecreatePodWhenChangeVCTInCloneSetGate }) => RecreatePodWhenChangeVCTInCloneSetGate,
};
