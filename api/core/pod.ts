import type { KubeObject, ObjectMeta } from './meta.ts';

/** The fields of a pod that Windlass reads. All other fields pass through unchanged. */
export interface Pod extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: PodSpec;
  readonly status?: PodStatus;
}

export interface PodSpec {
  readonly nodeName?: string;
  readonly restartPolicy?: string;
  readonly terminationGracePeriodSeconds?: number;
  readonly readinessGates?: readonly { readonly conditionType: string }[];
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly affinity?: { readonly nodeAffinity?: NodeAffinity };
}

/** What a pod requires of its node. */
export interface NodeAffinity {
  readonly requiredDuringSchedulingIgnoredDuringExecution?: {
    /** One of them has to match. */
    readonly nodeSelectorTerms?: readonly NodeSelectorTerm[];
  };
}

/** All of it has to match; one without requirements matches no node. */
export interface NodeSelectorTerm {
  readonly matchExpressions?: readonly NodeRequirement[];
  readonly matchFields?: readonly NodeRequirement[];
}

export interface NodeRequirement {
  readonly key: string;
  /** `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`. */
  readonly operator: string;
  readonly values?: readonly string[];
}

/** Of the fields of a node, what a pod requires that is made for this one. */
export function onNode(name: string) {
  return { key: nameField, operator: 'In', values: [name] } as const;
}

const nameField = 'metadata.name';

/** The node that a pod is on or, before it is scheduled, the only one that its affinity admits; undefined: any. */
export function nodeOf({ spec }: Pick<Pod, 'spec'>): string | undefined {
  if (spec.nodeName) return spec.nodeName;
  const terms = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const fields = terms.flatMap(({ matchFields = [] }) => matchFields);
  const named = fields.find(({ key, operator, values = [] }) => {
    return key === nameField && operator === 'In' && values.length === 1;
  });
  return named?.values?.[0];
}

export interface Container {
  readonly name: string;
  readonly image?: string;
  readonly ports?: readonly ContainerPort[];
  readonly env?: readonly EnvVar[];
  readonly resources?: ResourceRequirements;
  readonly resizePolicy?: readonly { readonly resourceName: string; readonly restartPolicy: string }[];
  readonly lifecycle?: { readonly preStop?: LifecycleHandler };
}

export interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly fieldRef?: { readonly fieldPath: string };
    readonly configMapKeyRef?: { readonly name?: string; readonly key: string };
  };
}

/** Quantities by resource name. */
export interface ResourceRequirements {
  readonly limits?: Readonly<Record<string, string>>;
  readonly requests?: Readonly<Record<string, string>>;
}

export interface ContainerPort {
  readonly name?: string;
  readonly containerPort: number;
  readonly hostPort?: number;
  readonly hostIP?: string;
  readonly protocol?: string;
}

export interface LifecycleHandler {
  readonly exec?: { readonly command?: readonly string[] };
  readonly httpGet?: {
    readonly path?: string;
    readonly port: number | string;
    readonly host?: string;
    readonly scheme?: string;
    readonly httpHeaders?: readonly { readonly name: string; readonly value: string }[];
  };
  readonly tcpSocket?: { readonly port: number | string; readonly host?: string };
  readonly sleep?: { readonly seconds: number };
}

export interface PodStatus {
  readonly phase?: string;
  /** The generation of the pod that the kubelet has observed; absent before Kubernetes 1.33. */
  readonly observedGeneration?: number;
  readonly podIP?: string;
  readonly conditions?: readonly PodCondition[];
  readonly containerStatuses?: readonly ContainerStatus[];
  /** In a cache only those that hold the pod back. */
  readonly initContainerStatuses?: readonly ContainerStatus[];
}

export interface PodCondition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string | null;
  readonly lastProbeTime?: string | null;
}

export interface ContainerStatus {
  readonly name: string;
  readonly ready: boolean;
  readonly restartCount: number;
  /** `<runtime>://<id>`, absent before the first start. */
  readonly containerID?: string;
  readonly image?: string;
  readonly imageID?: string;
  /** The actual resources of the container, which follow the spec with a delay after a resize. */
  readonly resources?: ResourceRequirements;
  readonly state?: {
    readonly waiting?: { readonly reason?: string; readonly message?: string };
    readonly running?: { readonly startedAt?: string };
    readonly terminated?: { readonly exitCode: number; readonly reason?: string; readonly finishedAt?: string };
  };
  /** How the previous instance ended; absent where the kubelet does not know. */
  readonly lastState?: {
    readonly terminated?: { readonly containerID?: string; readonly exitCode?: number; readonly reason?: string };
  };
}

/** Whether the phase of the pod is final. */
export function isFinished({ status }: Pod): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

/** The kubelet's annotation on the mirror pod of a static pod. */
export const mirrorAnnotation = 'kubernetes.io/config.mirror';

/** Whether the kubelet shows a static pod by it: what is changed in it changes nothing on the node. */
export function isMirrorPod({ metadata }: Pick<Pod, 'metadata'>): boolean {
  return metadata.annotations?.[mirrorAnnotation] !== undefined;
}

/** A pod that runs or will run: not being deleted, not completed. */
export function isActive(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp === undefined && !isFinished(pod);
}
