import type { Resource } from '../../../api/core/meta.ts';
import { installation } from '../../../api/core/well-known.ts';
import type { Rights } from './right.ts';

const owned = ['list', 'watch', 'create', 'patch', 'delete'] as const;

/** What the roles need for a kind of workload: its objects, its pods, and what belongs to these. `hasClaims`: PVCs, too. */
export function workloadRights(
  { group, plural, kind }: Resource,
  { hasClaims = true }: { readonly hasClaims?: boolean } = {},
): Rights {
  return {
    watcher: [
      {
        why: 'the cache, and annotations with commands',
        group,
        resources: [plural],
        verbs: ['get', 'list', 'watch', 'patch'],
      },
      { why: 'the status', group, resources: [`${plural}/status`], verbs: ['patch'] },
      {
        why: `owner references that block the deletion of their ${kind}`,
        group,
        resources: [`${plural}/finalizers`],
        verbs: ['update'],
      },
      {
        why: 'its pods; the policy in watcher-policy.yaml limits it to them',
        group: '',
        resources: ['pods'],
        verbs: ['create', 'patch', 'delete'],
      },
      { why: 'resources of containers that change in place', group: '', resources: ['pods/resize'], verbs: ['patch'] },
      ...(hasClaims ? [{ why: 'its PVCs', group: '', resources: ['persistentvolumeclaims'], verbs: owned }] : []),
      { why: 'its revisions', group: 'apps', resources: ['controllerrevisions'], verbs: ['get', ...owned] },
      {
        why: 'whether Services still send traffic to a pod that is to be changed',
        group: '',
        resources: ['services'],
        verbs: ['list', 'watch'],
      },
      {
        why: 'the same: the endpoints of these Services',
        group: 'discovery.k8s.io',
        resources: ['endpointslices'],
        verbs: ['list', 'watch'],
      },
    ],
    webhook: [
      {
        why: 'whether pods of an older revision mount a PVC template that is removed',
        group: 'apps',
        resources: ['controllerrevisions'],
        verbs: ['get'],
      },
      {
        why: 'pods that try a template, as a dry run only: see webhook-dry-run.yaml',
        namespace: installation.dryRunNamespace,
        group: '',
        resources: ['pods'],
        verbs: ['create'],
      },
    ],
  };
}
