import { cloneSets } from '../../api/cloneset/types.ts';
import { installation } from '../../api/core/well-known.ts';
import { daemonSets } from '../../api/daemon-set/types.ts';
import { type PerKind, partsOf } from '../../api/per-kind.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import { recreateRequestRights } from './rights/container-recreate-request.ts';
import { imageListPullJobRights, imagePullJobRights } from './rights/image-pull-job.ts';
import { nodeImageRights } from './rights/node-image.ts';
import { nodePodProbeRights } from './rights/node-pod-probe.ts';
import { podProbeMarkerRights } from './rights/pod-probe-marker.ts';
import { podRights } from './rights/pods.ts';
import type { Right, Rights, RoleName } from './rights/right.ts';
import { sharedRights } from './rights/shared.ts';
import { sidecarSetRights } from './rights/sidecar-set.ts';
import { workloadRights } from './rights/workload.ts';
import { explained, yamlOf } from './yaml.ts';

/** The rights for each kind. */
const rightsOfKinds: PerKind<Rights> = {
  ContainerRecreateRequest: recreateRequestRights,
  CloneSet: workloadRights(cloneSets),
  PodProbeMarker: podProbeMarkerRights,
  NodePodProbe: nodePodProbeRights,
  ImagePullJob: imagePullJobRights,
  ImageListPullJob: imageListPullJobRights,
  NodeImage: nodeImageRights,
  SidecarSet: sidecarSetRights,
  StatefulSet: workloadRights(statefulSets),
  DaemonSet: workloadRights(daemonSets, { hasClaims: false }),
};

const allRights: readonly Rights[] = [podRights, ...partsOf(rightsOfKinds), sharedRights];

/** A role in its manifest. */
interface RoleFile {
  readonly serviceAccount: string;
  /** The name of its ClusterRole and its Roles. */
  readonly name: string;
  readonly about: string;
}

const roles: Readonly<Record<RoleName, RoleFile>> = {
  watcher: {
    serviceAccount: 'windlass-watcher',
    name: 'windlass-watcher',
    about: 'The watcher reads what it caches, writes the fields that api/ gives it, and holds its lease.',
  },
  webhook: {
    serviceAccount: 'windlass-webhook',
    name: 'windlass-webhook',
    about:
      'The webhook reads what requests are about, keeps its certificates in one Secret, and writes `clientConfig` into its ' +
      'registrations. Lists and watches of single objects are granted by name: they carry fieldSelector metadata.name.',
  },
  worker: {
    serviceAccount: 'windlass-worker',
    name: 'windlass-worker',
    about: 'The cluster worker reads and writes single objects, by name; it watches nothing.',
  },
  daemon: {
    serviceAccount: 'kruise-daemon',
    name: 'windlass-daemon',
    about:
      'The daemon reads what concerns its node, records Events, reports in one annotation what runs in pods, opens the gate ' +
      'of pods whose update in place is done, and reports results of probes and progress of pulls; it writes nothing else. ' +
      'RBAC cannot express "its own node": reads are limited by field selectors only, and writes by the policies in ' +
      'daemon-node-policy.yaml, daemon-probe-policy.yaml and daemon-image-policy.yaml.',
  },
};

/** The manifest of each role: its ServiceAccount, and its rights in the cluster and in namespaces. */
export function rbacFiles(): readonly { readonly path: string; readonly content: string }[] {
  return (Object.keys(roles) as RoleName[]).map((role) => ({
    path: `deploy/rbac/${role}.yaml`,
    content: yamlOf(manifestsOf(role), { about: roles[role].about, source: 'deploy/generate/rights' }),
  }));
}

function manifestsOf(role: RoleName): readonly object[] {
  const { serviceAccount: name } = roles[role];
  const rights = allRights.flatMap((some) => some[role] ?? []);
  const namespaces = new Set(rights.flatMap(({ namespace }) => namespace ?? []));
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace: installation.namespace } },
    ...grant(role, rights, undefined),
    ...[...namespaces].flatMap((namespace) => grant(role, rights, namespace)),
  ];
}

/** A role with the rights in this namespace, or with the cluster-wide ones, and its binding. */
function grant(role: RoleName, rights: readonly Right[], namespace: string | undefined): readonly object[] {
  const { name, serviceAccount } = roles[role];
  const kind = namespace === undefined ? 'ClusterRole' : 'Role';
  const metadata = namespace === undefined ? { name } : { name, namespace };
  const rules = rights.filter((right) => right.namespace === namespace).map(ruleOf);
  return [
    { apiVersion: `${rbac}/v1`, kind, metadata, rules },
    {
      apiVersion: `${rbac}/v1`,
      kind: `${kind}Binding`,
      metadata,
      roleRef: { apiGroup: rbac, kind, name },
      subjects: [{ kind: 'ServiceAccount', name: serviceAccount, namespace: installation.namespace }],
    },
  ];
}

const rbac = 'rbac.authorization.k8s.io';

function ruleOf({ why, group, resources, resourceNames, verbs }: Right): object {
  return explained({ apiGroups: [group], resources, ...(resourceNames && { resourceNames }), verbs }, why);
}
