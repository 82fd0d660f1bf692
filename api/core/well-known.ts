import type { Resource } from './meta.ts';

/** The API groups that Windlass serves: OpenKruise's, so that existing manifests work unchanged. */
export const group = { apps: 'apps.kruise.io', policy: 'policy.kruise.io' } as const;

/** Labels on ContainerRecreateRequests, written by admission. */
export const crrLabel = {
  /** Links the request to one UID of the pod. Immutable. */
  podUid: 'crr.apps.kruise.io/pod-uid',
  /** Immutable. */
  nodeName: 'crr.apps.kruise.io/node-name',
  /** `true` until the request has completed and holds nothing. */
  active: 'crr.apps.kruise.io/active',
} as const;

/** Annotations of a ContainerRecreateRequest as v1alpha1 shows it; v1beta1 has status fields instead. */
export const crrAnnotation = {
  /** Start of the drain, RFC 3339 in UTC. */
  unreadyAcquired: 'crr.apps.kruise.io/unready-acquired',
  /** JSON list of what the kubelet reported about the new containers. */
  syncContainerStatuses: 'crr.apps.kruise.io/sync-container-statuses',
} as const;

/** The pod was made unready for this request; removed when its key is removed from the pod. */
export const crrUnreadyFinalizer = 'crr.apps.kruise.io/unready-acquired';

/** Label `type` of nodes without a kubelet of their own, which admission copies to the requests of their pods. */
export const virtualNodeLabel = { key: 'type', value: 'virtual-kubelet' } as const;

/** The readiness gate that all operations share, each with its own key; see `pod-readiness.ts`. */
export const podReadinessGate = 'KruisePodReady';

/** Pod condition of a pod whose sidecars are being terminated after its main containers. */
export const sidecarTerminatedCondition = 'SidecarTerminated';

/** Annotation of pods with injected SidecarSets: their names and hashes. */
export const sidecarSetHashAnnotation = 'kruise.io/sidecarset-hash';

/** Windlass's own annotations. */
export const windlassAnnotation = {
  /** On an operation's object: the name of a command, for users who may not signal workflows. */
  command: 'windlass.io/command',
  /** On a fleet object: JSON, the commands of operators about its roll-out; see `roll-out-orders.ts`. */
  rollOut: 'windlass.io/roll-out',
  /**
   * On a CloneSet or SidecarSet: on how many nodes, or which percentage of them, new images must be before the first pod is
   * updated.
   */
  prefetch: 'windlass.io/prefetch',
  /** On a ControllerRevision: its number when its images were on as many nodes as `prefetch` requires. */
  prefetched: 'windlass.io/prefetched',
  /**
   * On a ControllerRevision: how many pods had it and were ready when another one replaced it, as `2 of 10 pods`. Absent: it
   * had been rolled out by then, or has not been replaced.
   */
  unfinished: 'windlass.io/unfinished',
  /** On a pod: which request restarts its containers intentionally, when and why, so that alerts can exclude it. */
  plannedRestart: 'windlass.io/planned-restart',
} as const;

/** Annotations of the copy of a pull Secret in the namespace that daemons may read. */
export const pullSecretAnnotation = {
  /** The jobs that need it, sorted: `ns1/job1,ns2/job2`. */
  references: 'imagepulljobs.kruise.io/references',
  /** `namespace/name` of the original Secret. */
  sourceKey: 'imagepulljobs.kruise.io/source-key',
  mode: 'imagepulljobs.kruise.io/mode',
} as const;

/** Names that other tools rely on; there is one installation per cluster. */
export const installation = {
  namespace: 'kruise-system',
  daemonConfigNamespace: 'kruise-daemon-config',
  /** A namespace without pods: admission validates pod templates by dry runs in it. */
  dryRunNamespace: 'windlass-dry-run',
  configurationConfigMap: 'kruise-configuration',
  /** What the leading watcher publishes; see `installation-record.ts`. */
  recordConfigMap: 'windlass-installation',
  webhookService: 'kruise-webhook-service',
  webhookSecret: 'kruise-webhook-certs',
  mutatingWebhookConfiguration: 'kruise-mutating-webhook-configuration',
  validatingWebhookConfiguration: 'kruise-validating-webhook-configuration',
  watcherLease: 'windlass-watcher',
  /** Held by OpenKruise's own manager; a watcher does not lead while it is renewed. */
  foreignLease: 'kruise-manager',
  conversionPath: '/convert',
} as const;

/** The components in Events, as `source.component` and `reportingComponent`. */
export const eventComponent = {
  daemonRecreate: 'kruise-daemon-crr',
  daemonContainerMeta: 'kruise-daemon-containermeta',
  daemonProbe: 'kruise-daemon-podprobe',
  recreate: 'windlass-container-recreate-request',
  rollOut: 'windlass-roll-out',
  cloneSet: 'cloneset-controller',
  statefulSet: 'statefulset-controller',
  daemonSet: 'daemonset-controller',
  podUnavailableBudget: 'pub-controller',
  sidecarSet: 'sidecarset-controller',
  launchPriority: 'windlass-container-launch-priority',
  sidecarTerminator: 'windlass-sidecar-terminator',
  imagePuller: 'kruise-daemon-imagepuller',
  nodeImage: 'nodeimage-controller',
  imageListPullJob: 'imagelistpulljob-controller',
  imagePullJob: 'windlass-image-pull-job',
  featureGates: 'windlass-feature-gates',
  clusterClaim: 'windlass-cluster-claim',
  commands: 'windlass-commands',
} as const;

/** The built-in resources that Windlass reads or writes. */
export const kubeResource = {
  pods: core('pods', 'Pod'),
  nodes: { ...core('nodes', 'Node'), namespaced: false },
  namespaces: { ...core('namespaces', 'Namespace'), namespaced: false },
  events: core('events', 'Event'),
  secrets: core('secrets', 'Secret'),
  configMaps: core('configmaps', 'ConfigMap'),
  services: core('services', 'Service'),
  persistentVolumeClaims: core('persistentvolumeclaims', 'PersistentVolumeClaim'),
  replicationControllers: core('replicationcontrollers', 'ReplicationController'),
  controllerRevisions: apps('controllerrevisions', 'ControllerRevision'),
  deployments: apps('deployments', 'Deployment'),
  replicaSets: apps('replicasets', 'ReplicaSet'),
  statefulSets: apps('statefulsets', 'StatefulSet'),
  endpointSlices: {
    group: 'discovery.k8s.io',
    version: 'v1',
    plural: 'endpointslices',
    kind: 'EndpointSlice',
    namespaced: true,
  },
  storageClasses: {
    group: 'storage.k8s.io',
    version: 'v1',
    plural: 'storageclasses',
    kind: 'StorageClass',
    namespaced: false,
  },
  leases: { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease', namespaced: true },
  customResourceDefinitions: {
    group: 'apiextensions.k8s.io',
    version: 'v1',
    plural: 'customresourcedefinitions',
    kind: 'CustomResourceDefinition',
    namespaced: false,
  },
  mutatingWebhookConfigurations: {
    group: 'admissionregistration.k8s.io',
    version: 'v1',
    plural: 'mutatingwebhookconfigurations',
    kind: 'MutatingWebhookConfiguration',
    namespaced: false,
  },
  validatingWebhookConfigurations: {
    group: 'admissionregistration.k8s.io',
    version: 'v1',
    plural: 'validatingwebhookconfigurations',
    kind: 'ValidatingWebhookConfiguration',
    namespaced: false,
  },
} as const satisfies Record<string, Resource>;

function core<Plural extends string, Kind extends string>(plural: Plural, kind: Kind) {
  return { group: '', version: 'v1', plural, kind, namespaced: true } as const;
}

function apps<Plural extends string, Kind extends string>(plural: Plural, kind: Kind) {
  return { group: 'apps', version: 'v1', plural, kind, namespaced: true } as const;
}
