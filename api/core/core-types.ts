// How the core types of a pod template look as JSON when a Go program has read and written them: which fields vanish when
// they are empty, which are written even then, in which order. OpenKruise stores templates in this form, and hashes it.
//
// The tables are in the order of Go's structs. A field is written as
//   name          left out when empty: "", 0, false
//   name!         always written, "" when absent; name!0 is 0 when absent
//   name*         a pointer: whatever is there stays, null is left out; name!* is null when absent
//   name[]        a list, name{} a map: left out when empty; name![] is null when absent
//   name:Type     of that type; a plain one is written even when it is empty, as {}
// Times are written as null when absent, amounts as "0", and amounts are put into their canonical form.

import { isJsonList, isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { compareGoStrings, type GoValue } from '../base/json-go.ts';
import { canonicalQuantity } from '../base/quantity.ts';

const tables = {
  PodTemplateSpec: 'metadata:ObjectMeta spec:PodSpec',
  PersistentVolumeClaim: `
    kind apiVersion metadata:ObjectMeta spec:PersistentVolumeClaimSpec status:PersistentVolumeClaimStatus`,
  ObjectMeta: `
    name generateName namespace selfLink uid resourceVersion generation creationTimestamp:Time
    deletionTimestamp*:Time deletionGracePeriodSeconds* labels{} annotations{} ownerReferences[]:OwnerReference
    finalizers[] managedFields[]`,
  PodSpec: `
    volumes[]:Volume initContainers[]:Container containers![]:Container ephemeralContainers[]:EphemeralContainer
    restartPolicy terminationGracePeriodSeconds* activeDeadlineSeconds* dnsPolicy nodeSelector{} serviceAccountName
    serviceAccount automountServiceAccountToken* nodeName hostNetwork hostPID hostIPC shareProcessNamespace*
    securityContext*:PodSecurityContext imagePullSecrets[]:LocalObjectReference hostname subdomain
    affinity*:Affinity schedulerName tolerations[]:Toleration hostAliases[]:HostAlias priorityClassName priority*
    dnsConfig*:PodDNSConfig readinessGates[]:PodReadinessGate runtimeClassName* enableServiceLinks*
    preemptionPolicy* overhead{}:Quantity topologySpreadConstraints[]:TopologySpreadConstraint setHostnameAsFQDN*
    os*:PodOS hostUsers* schedulingGates[]:PodSchedulingGate resourceClaims[]:PodResourceClaim
    resources*:ResourceRequirements hostnameOverride*`,
  PersistentVolumeClaimSpec: `
    accessModes[] selector*:LabelSelector resources:VolumeResourceRequirements volumeName storageClassName*
    volumeMode* dataSource*:TypedLocalObjectReference dataSourceRef*:TypedObjectReference volumeAttributesClassName*`,
  PersistentVolumeClaimStatus: `
    phase accessModes[] capacity{}:Quantity conditions[]:PersistentVolumeClaimCondition
    allocatedResources{}:Quantity allocatedResourceStatuses{} currentVolumeAttributesClassName*
    modifyVolumeStatus*:ModifyVolumeStatus`,
  OwnerReference: 'apiVersion! kind! name! uid! controller* blockOwnerDeletion*',
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
    terminationMessagePolicy imagePullPolicy securityContext*:SecurityContext stdin stdinOnce tty
    targetContainerName`,
  PodSecurityContext: `
    seLinuxOptions*:SELinuxOptions windowsOptions*:WindowsSecurityContextOptions runAsUser* runAsGroup*
    runAsNonRoot* supplementalGroups[] supplementalGroupsPolicy* fsGroup* sysctls[]:Sysctl fsGroupChangePolicy*
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
    capabilities*:Capabilities privileged* seLinuxOptions*:SELinuxOptions
    windowsOptions*:WindowsSecurityContextOptions runAsUser* runAsGroup* runAsNonRoot* readOnlyRootFilesystem*
    allowPrivilegeEscalation* procMount* seccompProfile*:SeccompProfile appArmorProfile*:AppArmorProfile`,
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

/** A core type that is known field by field. */
export type CoreType = keyof typeof tables;

/** The object as the API server would store it. Fields that are not known come last and survive as they are. */
export function canonicalCore(type: CoreType, object: JsonObject): JsonObject {
  return toJson(struct(fieldsOf(type), object, { unknown: true }));
}

/** The object as a Go program of today would write it: without the fields that are not known. */
export function asGoStruct(type: CoreType, object: JsonObject): GoValue {
  return struct(fieldsOf(type), object, { unknown: false });
}

interface Field {
  readonly name: string;
  readonly always: boolean;
  readonly shape: 'plain' | 'pointer' | 'list' | 'map';
  /** What an always written field is when it is absent. */
  readonly zero: '' | 0 | null;
  readonly type?: string;
}

interface Style {
  /** Whether fields that are not known are kept. */
  readonly unknown: boolean;
}

type GoObject = Readonly<Record<string, GoValue | undefined>>;

const fieldPattern = /^(\w+)(!?)(0?)(\*|\[\]|\{\})?(?::(\w+))?$/;
const shapes = new Map<string | undefined, Field['shape']>([
  ['*', 'pointer'],
  ['[]', 'list'],
  ['{}', 'map'],
]);

/** The fields of a type in their order, by name. */
type Fields = ReadonlyMap<string, Field>;

const parsed: ReadonlyMap<string, Fields> = new Map(
  Object.entries(tables).map(([type, table]) => [
    type,
    new Map(
      table
        .trim()
        .split(/\s+/)
        .map(parseField)
        .map((field) => [field.name, field]),
    ),
  ]),
);

const noFields: Fields = new Map();

function parseField(text: string): Field {
  const [, name = '', always, zero, mark, type] = fieldPattern.exec(text) ?? [];
  const shape = shapes.get(mark) ?? 'plain';
  const scalarZero = zero === '0' ? 0 : '';
  return { name, always: always === '!', shape, zero: shape === 'plain' ? scalarZero : null, ...(type && { type }) };
}

function fieldsOf(type: string): Fields {
  return parsed.get(type) ?? noFields;
}

function struct(fields: Fields, object: JsonObject, style: Style): GoObject {
  const entries: [string, GoValue | undefined][] = [];
  for (const field of fields.values()) {
    const value = fieldValue(field, object[field.name] ?? undefined, style);
    if (value !== undefined) entries.push([field.name, value]);
  }
  if (style.unknown) {
    for (const name of Object.keys(object)) if (!fields.has(name)) entries.push([name, object[name]]);
  }
  return Object.fromEntries(entries);
}

/** Undefined: left out. */
function fieldValue(field: Field, value: Json | undefined, style: Style): GoValue | undefined {
  switch (field.shape) {
    case 'list':
      if (!isJsonList(value)) return value ?? absent(field);
      return value.length > 0 || field.always ? value.map((item) => typed(field.type, item, style)) : undefined;
    case 'map':
      if (!isJsonObject(value)) return value;
      return Object.keys(value).length > 0 ? map(field.type, value, style) : undefined;
    case 'pointer':
      return value === undefined ? absent(field) : typed(field.type, value, style);
    case 'plain':
      if (field.type !== undefined) return typed(field.type, value ?? emptyOf(field.type), style);
      return isEmpty(value) ? absent(field) : value;
  }
}

function map(type: string | undefined, object: JsonObject, style: Style): GoValue {
  return new Map(
    Object.entries(object).flatMap(([key, value]) =>
      value === undefined ? [] : [[key, typed(type, value, style)] as const],
    ),
  );
}

function typed(type: string | undefined, value: Json, style: Style): GoValue {
  if (type === 'Quantity') {
    return typeof value === 'string' || typeof value === 'number' ? canonicalQuantity(value) : value;
  }
  return type !== undefined && isJsonObject(value) ? struct(fieldsOf(type), value, style) : value;
}

function emptyOf(type: string): Json {
  if (type === 'Time') return null;
  return type === 'Quantity' ? '0' : {};
}

function absent(field: Field): Json | undefined {
  return field.always ? field.zero : undefined;
}

function isEmpty(value: Json | undefined): boolean {
  return value === undefined || value === '' || value === 0 || value === false;
}

function toJson(value: GoObject): JsonObject {
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}

function plain(value: GoValue | undefined): Json | undefined {
  if (isGoMap(value)) {
    return Object.fromEntries(
      [...value]
        .toSorted(([left], [right]) => compareGoStrings(left, right))
        .map(([key, inner]) => [key, plain(inner) ?? null]),
    );
  }
  if (isGoList(value)) return value.map((item) => plain(item) ?? null);
  return isGoObject(value) ? toJson(value) : value;
}

function isGoMap(value: GoValue | undefined): value is ReadonlyMap<string, GoValue> {
  return value instanceof Map;
}

function isGoList(value: GoValue | undefined): value is readonly GoValue[] {
  return Array.isArray(value);
}

function isGoObject(value: GoValue | undefined): value is GoObject {
  return typeof value === 'object' && value !== null;
}
