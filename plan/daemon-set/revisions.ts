/** Revisions of DaemonSets: pods and revisions have the hash alone in their label (AD §4). */
import { apiVersionOf } from '../../api/core/meta.ts';
import { type DaemonSet, daemonSets } from '../../api/daemon-set/types.ts';
import { type RevisionScheme, revisionMark, shortHash } from '../../api/fleet/revision.ts';

export const daemonSetRevisions: RevisionScheme<DaemonSet> = {
  ownerOf: ({ metadata: { name, uid, namespace = '', annotations }, spec }) => ({
    ...{ apiVersion: apiVersionOf(daemonSets), kind: daemonSets.kind, namespace, name, uid, annotations },
    template: spec.template,
    hashLabel: revisionMark.podRevision,
  }),
  podLabels: (revision) => ({ [revisionMark.podRevision]: shortHash(revision) }),
  keepsCurrent: false,
  recreatesForClaims: () => false,
};
