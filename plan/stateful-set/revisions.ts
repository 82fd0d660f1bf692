/** Revisions of StatefulSets: which labels name one on a pod, and what it is made of (AS-22). */
import { apiVersionOf } from '../../api/core/meta.ts';
import { type RevisionScheme, revisionMark } from '../../api/fleet/revision.ts';
import { type StatefulSet, statefulSets } from '../../api/stateful-set/types.ts';

export const statefulSetRevisions: RevisionScheme<StatefulSet> = {
  ownerOf: ({ metadata: { name, uid, namespace = '', annotations }, spec }) => ({
    ...{ apiVersion: apiVersionOf(statefulSets), kind: statefulSets.kind, namespace, name, uid, annotations },
    template: spec.template,
  }),
  podLabels: (revision) => ({ [revisionMark.podRevision]: revision }),
  keepsCurrent: true,
  recreatesForClaims: () => false,
};
