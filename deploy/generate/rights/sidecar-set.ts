import { group, installation } from '../../../api/core/well-known.ts';
import { sidecarSelectionName, sidecarSelections } from '../../../api/sidecar-set/selection.ts';
import type { Rights } from './right.ts';

const keepsSelection = [
  {
    why: 'the summary of all SidecarSets that the policy of rbac-gates/PodWebhook.yaml reads; a name cannot limit create',
    group: sidecarSelections.group,
    resources: [sidecarSelections.plural],
    verbs: ['create'],
  },
  {
    why: 'the same: this one object',
    group: sidecarSelections.group,
    resources: [sidecarSelections.plural],
    resourceNames: [sidecarSelectionName],
    verbs: ['get', 'patch', 'delete'],
  },
] as const;

export const sidecarSetRights: Rights = {
  watcher: [
    {
      why: 'SidecarSets, and annotations with commands',
      group: group.apps,
      resources: ['sidecarsets'],
      verbs: ['get', 'list', 'watch', 'patch'],
    },
    {
      why: 'the images of sidecars in running pods; the policy in watcher-policy.yaml limits it to them',
      group: '',
      resources: ['pods'],
      verbs: ['patch'],
    },
    {
      why: 'whether the SidecarSets of a pod can update it',
      group: '',
      resources: ['pods/status'],
      verbs: ['patch'],
    },
    {
      why: 'how many pods a SidecarSet has, and its revision',
      group: group.apps,
      resources: ['sidecarsets/status'],
      verbs: ['patch'],
    },
    {
      why: 'owner references of revisions that block the deletion of their SidecarSet',
      group: group.apps,
      resources: ['sidecarsets/finalizers'],
      verbs: ['update'],
    },
    ...keepsSelection,
    {
      why: 'the labels of namespaces, by which SidecarSets select pods',
      group: '',
      resources: ['namespaces'],
      verbs: ['list', 'watch'],
    },
    {
      why: 'the contents of SidecarSets',
      namespace: installation.namespace,
      group: 'apps',
      resources: ['controllerrevisions'],
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    },
  ],
  webhook: [
    ...keepsSelection,
    {
      why: 'SidecarSets: whether a new one conflicts with them, and what is injected into new pods',
      group: group.apps,
      resources: ['sidecarsets'],
      verbs: ['list', 'watch'],
    },
    {
      why: 'the labels of namespaces, by which SidecarSets select pods',
      group: '',
      resources: ['namespaces'],
      verbs: ['list', 'watch'],
    },
    {
      why: 'revisions that SidecarSets name',
      namespace: installation.namespace,
      group: 'apps',
      resources: ['controllerrevisions'],
      verbs: ['get', 'list', 'watch'],
    },
    {
      why: 'the annotations that SidecarSets may write on pods',
      namespace: installation.namespace,
      group: '',
      resources: ['configmaps'],
      resourceNames: [installation.configurationConfigMap],
      verbs: ['get'],
    },
  ],
};
