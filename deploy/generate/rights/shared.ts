import { installation } from '../../../api/core/well-known.ts';
import { kindDefinitions } from '../../../api/kinds.ts';
import { definitionName } from '../../../api/schema/kind.ts';
import type { Right, Rights } from './right.ts';

const events = { group: '', resources: ['events'], verbs: ['create'] } as const;
const leases = { namespace: installation.namespace, group: 'coordination.k8s.io', resources: ['leases'] } as const;
/** Its UID identifies the cluster. */
const clusterIdentity = {
  why: 'the identity of the cluster, to which its namespace in Temporal belongs',
  group: '',
  resources: ['namespaces'],
  resourceNames: ['kube-system'],
  verbs: ['get'],
} as const;
const registered = ['list', 'watch', 'patch'] as const;

/** Rights that a role needs independently of the kinds. */
export const sharedRights: Rights = {
  watcher: [
    { why: 'Events about objects', ...events },
    { why: 'its lease; a name cannot limit create', ...leases, verbs: ['create'] },
    { why: 'its lease', ...leases, resourceNames: [installation.watcherLease], verbs: ['get', 'patch'] },
    {
      why: "OpenKruise's own manager: while it renews this lease, the watcher does not lead",
      ...leases,
      resourceNames: [installation.foreignLease],
      verbs: ['get'],
    },
    clusterIdentity,
  ],
  webhook: [
    {
      why: 'its webhooks',
      group: 'admissionregistration.k8s.io',
      resources: ['mutatingwebhookconfigurations'],
      resourceNames: [installation.mutatingWebhookConfiguration],
      verbs: registered,
    },
    {
      why: 'its webhooks',
      group: 'admissionregistration.k8s.io',
      resources: ['validatingwebhookconfigurations'],
      resourceNames: [installation.validatingWebhookConfiguration],
      verbs: registered,
    },
    ...conversionRights(),
    {
      why: 'its certificates; a name cannot limit create',
      namespace: installation.namespace,
      group: '',
      resources: ['secrets'],
      verbs: ['create'],
    },
    {
      why: 'its certificates',
      namespace: installation.namespace,
      group: '',
      resources: ['secrets'],
      resourceNames: [installation.webhookSecret],
      verbs: ['get', ...registered],
    },
    { why: 'the Event that its feature gates differ', namespace: installation.namespace, ...events },
  ],
  worker: [{ why: 'Events about objects', ...events }, clusterIdentity],
  daemon: [{ why: 'Events about pods and images', ...events }],
};

/** One name for each CRD with the path `/convert`. */
function conversionRights(): readonly Right[] {
  const converted = kindDefinitions.filter(({ versions }) => versions.length > 1);
  return [
    {
      why: 'conversion: the CRDs of kinds with more than one version',
      group: 'apiextensions.k8s.io',
      resources: ['customresourcedefinitions'],
      resourceNames: converted.map(definitionName),
      verbs: registered,
    },
  ];
}
