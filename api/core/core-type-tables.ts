// Written by `npm run generate:core-types` from the Go structs of k8s.io/api v0.34.4 and k8s.io/apimachinery v0.34.4.
// core-types.ts says how to read it.

export const coreTypeTables = {
  PodTemplateSpec: 'metadata:ObjectMeta spec:PodSpec',
  PersistentVolumeClaim: `
    kind apiVersion metadata:ObjectMeta spec:PersistentVolumeClaimSpec status:PersistentVolumeClaimStatus`,
  ObjectMeta: `
    name generateName namespace selfLink uid resourceVersion generation creationTimestamp:Time deletionTimestamp*:Time
    deletionGracePeriodSeconds* labels{} annotations{} ownerReferences[]:OwnerReference finalizers[]
    managedFields[]:ManagedFieldsEntry`,
  PodSpec: `
    volumes[]:Volume initContainers[]:Container containers![]:Container ephemeralContainers[]:EphemeralContainer
    restartPolicy terminationGracePeriodSeconds* activeDeadlineSeconds* dnsPolicy nodeSelector{} serviceAccountName
    serviceAccount automountServiceAccountToken* nodeName hostNetwork hostPID hostIPC shareProcessNamespace*
    securityContext*:PodSecurityContext imagePullSecrets[]:LocalObjectReference hostname subdomain affinity*:Affinity
    schedulerName tolerations[]:Toleration hostAliases[]:HostAlias priorityClassName priority* dnsConfig*:PodDNSConfig
    readinessGates[]:PodReadinessGate runtimeClassName* enableServiceLinks* preemptionPolicy* overhead{}:Quantity
    topologySpreadConstraints[]:TopologySpreadConstraint setHostnameAsFQDN* os*:PodOS hostUsers*
    schedulingGates[]:PodSchedulingGate resourceClaims[]:PodResourceClaim resources*:ResourceRequirements
    hostnameOverride*`,
  PersistentVolumeClaimSpec: `
    accessModes[] selector*:LabelSelector resources:VolumeResourceRequirements volumeName storageClassName* volumeMode*
    dataSource*:TypedLocalObjectReference dataSourceRef*:TypedObjectReference volumeAttributesClassName*`,
  PersistentVolumeClaimStatus: `
    phase accessModes[] capacity{}:Quantity conditions[]:PersistentVolumeClaimCondition allocatedResources{}:Quantity
    allocatedResourceStatuses{} currentVolumeAttributesClassName* modifyVolumeStatus*:ModifyVolumeStatus`,
  OwnerReference: 'apiVersion! kind! name! uid! controller* blockOwnerDeletion*',
  ManagedFieldsEntry: 'manager operation apiVersion time*:Time fieldsType fieldsV1* subresource',
  Volume: `
    name! hostPath*:HostPathVolumeSource emptyDir*:EmptyDirVolumeSource
    gcePersistentDisk*:GCEPersistentDiskVolumeSource awsElasticBlockStore*:AWSElasticBlockStoreVolumeSource
    gitRepo*:GitRepoVolumeSource secret*:SecretVolumeSource nfs*:NFSVolumeSource iscsi*:ISCSIVolumeSource
    glusterfs*:GlusterfsVolumeSource persistentVolumeClaim*:PersistentVolumeClaimVolumeSource rbd*:RBDVolumeSource
    flexVolume*:FlexVolumeSource cinder*:CinderVolumeSource cephfs*:CephFSVolumeSource flocker*:FlockerVolumeSource
    downwardAPI*:DownwardAPIVolumeSource fc*:FCVolumeSource azureFile*:AzureFileVolumeSource
    configMap*:ConfigMapVolumeSource vsphereVolume*:VsphereVirtualDiskVolumeSource quobyte*:QuobyteVolumeSource
    azureDisk*:AzureDiskVolumeSource photonPersistentDisk*:PhotonPersistentDiskVolumeSource
    projected*:ProjectedVolumeSource portworxVolume*:PortworxVolumeSource scaleIO*:ScaleIOVolumeSource
    storageos*:StorageOSVolumeSource csi*:CSIVolumeSource ephemeral*:EphemeralVolumeSource image*:ImageVolumeSource`,
  Container: `
    name! image command[] args[] workingDir ports[]:ContainerPort envFrom[]:EnvFromSource env[]:EnvVar
    resources:ResourceRequirements resizePolicy[]:ContainerResizePolicy restartPolicy*
    restartPolicyRules[]:ContainerRestartRule volumeMounts[]:VolumeMount volumeDevices[]:VolumeDevice
    livenessProbe*:Probe readinessProbe*:Probe startupProbe*:Probe lifecycle*:Lifecycle terminationMessagePath
    terminationMessagePolicy imagePullPolicy securityContext*:SecurityContext stdin stdinOnce tty`,
  EphemeralContainer: `
    name! image command[] args[] workingDir ports[]:ContainerPort envFrom[]:EnvFromSource env[]:EnvVar
    resources:ResourceRequirements resizePolicy[]:ContainerResizePolicy restartPolicy*
    restartPolicyRules[]:ContainerRestartRule volumeMounts[]:VolumeMount volumeDevices[]:VolumeDevice
    livenessProbe*:Probe readinessProbe*:Probe startupProbe*:Probe lifecycle*:Lifecycle terminationMessagePath
    terminationMessagePolicy imagePullPolicy securityContext*:SecurityContext stdin stdinOnce tty targetContainerName`,
  PodSecurityContext: `
    seLinuxOptions*:SELinuxOptions windowsOptions*:WindowsSecurityContextOptions runAsUser* runAsGroup* runAsNonRoot*
    supplementalGroups[] supplementalGroupsPolicy* fsGroup* sysctls[]:Sysctl fsGroupChangePolicy*
    seccompProfile*:SeccompProfile appArmorProfile*:AppArmorProfile seLinuxChangePolicy*`,
  LocalObjectReference: 'name',
  Affinity: 'nodeAffinity*:NodeAffinity podAffinity*:PodAffinity podAntiAffinity*:PodAntiAffinity',
  Toleration: 'key operator value effect tolerationSeconds*',
  HostAlias: 'ip! hostnames[]',
  PodDNSConfig: 'nameservers[] searches[] options[]:PodDNSConfigOption',
  PodReadinessGate: 'conditionType!',
  TopologySpreadConstraint: `
    maxSkew!0 topologyKey! whenUnsatisfiable! labelSelector*:LabelSelector minDomains* nodeAffinityPolicy*
    nodeTaintsPolicy* matchLabelKeys[]`,
  PodOS: 'name!',
  PodSchedulingGate: 'name!',
  PodResourceClaim: 'name! resourceClaimName* resourceClaimTemplateName*',
  ResourceRequirements: 'limits{}:Quantity requests{}:Quantity claims[]:ResourceClaim',
  LabelSelector: 'matchLabels{} matchExpressions[]:LabelSelectorRequirement',
  VolumeResourceRequirements: 'limits{}:Quantity requests{}:Quantity',
  TypedLocalObjectReference: 'apiGroup!* kind! name!',
  TypedObjectReference: 'apiGroup!* kind! name! namespace*',
  PersistentVolumeClaimCondition: 'type! status! lastProbeTime:Time lastTransitionTime:Time reason message',
  ModifyVolumeStatus: 'targetVolumeAttributesClassName status!',
  HostPathVolumeSource: 'path! type*',
  EmptyDirVolumeSource: 'medium sizeLimit*:Quantity',
  GCEPersistentDiskVolumeSource: 'pdName! fsType partition readOnly',
  AWSElasticBlockStoreVolumeSource: 'volumeID! fsType partition readOnly',
  GitRepoVolumeSource: 'repository! revision directory',
  SecretVolumeSource: 'secretName items[]:KeyToPath defaultMode* optional*',
  NFSVolumeSource: 'server! path! readOnly',
  ISCSIVolumeSource: `
    targetPortal! iqn! lun!0 iscsiInterface fsType readOnly portals[] chapAuthDiscovery chapAuthSession
    secretRef*:LocalObjectReference initiatorName*`,
  GlusterfsVolumeSource: 'endpoints! path! readOnly',
  PersistentVolumeClaimVolumeSource: 'claimName! readOnly',
  RBDVolumeSource: 'monitors![] image! fsType pool user keyring secretRef*:LocalObjectReference readOnly',
  FlexVolumeSource: 'driver! fsType secretRef*:LocalObjectReference readOnly options{}',
  CinderVolumeSource: 'volumeID! fsType readOnly secretRef*:LocalObjectReference',
  CephFSVolumeSource: 'monitors![] path user secretFile secretRef*:LocalObjectReference readOnly',
  FlockerVolumeSource: 'datasetName datasetUUID',
  DownwardAPIVolumeSource: 'items[]:DownwardAPIVolumeFile defaultMode*',
  FCVolumeSource: 'targetWWNs[] lun* fsType readOnly wwids[]',
  AzureFileVolumeSource: 'secretName! shareName! readOnly',
  ConfigMapVolumeSource: 'name items[]:KeyToPath defaultMode* optional*',
  VsphereVirtualDiskVolumeSource: 'volumePath! fsType storagePolicyName storagePolicyID',
  QuobyteVolumeSource: 'registry! volume! readOnly user group tenant',
  AzureDiskVolumeSource: 'diskName! diskURI! cachingMode* fsType* readOnly* kind*',
  PhotonPersistentDiskVolumeSource: 'pdID! fsType',
  ProjectedVolumeSource: 'sources![]:VolumeProjection defaultMode*',
  PortworxVolumeSource: 'volumeID! fsType readOnly',
  ScaleIOVolumeSource: `
    gateway! system! secretRef!*:LocalObjectReference sslEnabled protectionDomain storagePool storageMode volumeName
    fsType readOnly`,
  StorageOSVolumeSource: 'volumeName volumeNamespace fsType readOnly secretRef*:LocalObjectReference',
  CSIVolumeSource: 'driver! readOnly* fsType* volumeAttributes{} nodePublishSecretRef*:LocalObjectReference',
  EphemeralVolumeSource: 'volumeClaimTemplate*:PersistentVolumeClaimTemplate',
  ImageVolumeSource: 'reference pullPolicy',
  ContainerPort: 'name hostPort containerPort!0 protocol hostIP',
  EnvFromSource: 'prefix configMapRef*:ConfigMapEnvSource secretRef*:SecretEnvSource',
  EnvVar: 'name! value valueFrom*:EnvVarSource',
  ContainerResizePolicy: 'resourceName! restartPolicy!',
  ContainerRestartRule: 'action exitCodes*:ContainerRestartRuleOnExitCodes',
  VolumeMount: 'name! readOnly recursiveReadOnly* mountPath! subPath mountPropagation* subPathExpr',
  VolumeDevice: 'name! devicePath!',
  Probe: `
    exec*:ExecAction httpGet*:HTTPGetAction tcpSocket*:TCPSocketAction grpc*:GRPCAction initialDelaySeconds
    timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds*`,
  Lifecycle: 'postStart*:LifecycleHandler preStop*:LifecycleHandler stopSignal*',
  SecurityContext: `
    capabilities*:Capabilities privileged* seLinuxOptions*:SELinuxOptions windowsOptions*:WindowsSecurityContextOptions
    runAsUser* runAsGroup* runAsNonRoot* readOnlyRootFilesystem* allowPrivilegeEscalation* procMount*
    seccompProfile*:SeccompProfile appArmorProfile*:AppArmorProfile`,
  SELinuxOptions: 'user role type level',
  WindowsSecurityContextOptions: 'gmsaCredentialSpecName* gmsaCredentialSpec* runAsUserName* hostProcess*',
  Sysctl: 'name! value!',
  SeccompProfile: 'type! localhostProfile*',
  AppArmorProfile: 'type! localhostProfile*',
  NodeAffinity: `
    requiredDuringSchedulingIgnoredDuringExecution*:NodeSelector
    preferredDuringSchedulingIgnoredDuringExecution[]:PreferredSchedulingTerm`,
  PodAffinity: `
    requiredDuringSchedulingIgnoredDuringExecution[]:PodAffinityTerm
    preferredDuringSchedulingIgnoredDuringExecution[]:WeightedPodAffinityTerm`,
  PodAntiAffinity: `
    requiredDuringSchedulingIgnoredDuringExecution[]:PodAffinityTerm
    preferredDuringSchedulingIgnoredDuringExecution[]:WeightedPodAffinityTerm`,
  PodDNSConfigOption: 'name value*',
  ResourceClaim: 'name! request',
  LabelSelectorRequirement: 'key! operator! values[]',
  KeyToPath: 'key! path! mode*',
  DownwardAPIVolumeFile: 'path! fieldRef*:ObjectFieldSelector resourceFieldRef*:ResourceFieldSelector mode*',
  VolumeProjection: `
    secret*:SecretProjection downwardAPI*:DownwardAPIProjection configMap*:ConfigMapProjection
    serviceAccountToken*:ServiceAccountTokenProjection clusterTrustBundle*:ClusterTrustBundleProjection
    podCertificate*:PodCertificateProjection`,
  PersistentVolumeClaimTemplate: 'metadata:ObjectMeta spec!:PersistentVolumeClaimSpec',
  ConfigMapEnvSource: 'name optional*',
  SecretEnvSource: 'name optional*',
  EnvVarSource: `
    fieldRef*:ObjectFieldSelector resourceFieldRef*:ResourceFieldSelector configMapKeyRef*:ConfigMapKeySelector
    secretKeyRef*:SecretKeySelector fileKeyRef*:FileKeySelector`,
  ContainerRestartRuleOnExitCodes: 'operator values[]',
  ExecAction: 'command[]',
  HTTPGetAction: 'path port!0 host scheme httpHeaders[]:HTTPHeader',
  TCPSocketAction: 'port!0 host',
  GRPCAction: 'port!0 service!*',
  LifecycleHandler: 'exec*:ExecAction httpGet*:HTTPGetAction tcpSocket*:TCPSocketAction sleep*:SleepAction',
  Capabilities: 'add[] drop[]',
  NodeSelector: 'nodeSelectorTerms![]:NodeSelectorTerm',
  PreferredSchedulingTerm: 'weight!0 preference!:NodeSelectorTerm',
  PodAffinityTerm: `
    labelSelector*:LabelSelector namespaces[] topologyKey! namespaceSelector*:LabelSelector matchLabelKeys[]
    mismatchLabelKeys[]`,
  WeightedPodAffinityTerm: 'weight!0 podAffinityTerm!:PodAffinityTerm',
  ObjectFieldSelector: 'apiVersion fieldPath!',
  ResourceFieldSelector: 'containerName resource! divisor:Quantity',
  SecretProjection: 'name items[]:KeyToPath optional*',
  DownwardAPIProjection: 'items[]:DownwardAPIVolumeFile',
  ConfigMapProjection: 'name items[]:KeyToPath optional*',
  ServiceAccountTokenProjection: 'audience expirationSeconds* path!',
  ClusterTrustBundleProjection: 'name* signerName* labelSelector*:LabelSelector optional* path!',
  PodCertificateProjection: `
    signerName keyType maxExpirationSeconds* credentialBundlePath keyPath certificateChainPath`,
  ConfigMapKeySelector: 'name key! optional*',
  SecretKeySelector: 'name key! optional*',
  FileKeySelector: 'volumeName! path! key! optional*',
  HTTPHeader: 'name! value!',
  SleepAction: 'seconds!0',
  NodeSelectorTerm: 'matchExpressions[]:NodeSelectorRequirement matchFields[]:NodeSelectorRequirement',
  NodeSelectorRequirement: 'key! operator! values[]',
} as const;
