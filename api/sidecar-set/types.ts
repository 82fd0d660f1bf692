// SidecarSet: containers that are added to new pods of any workload.
//
// Each field has one writer.
//
//   spec                     the user; admission fills in defaults
//   metadata.annotations     the user; admission writes the two hashes of the content
//   status                   the leading watcher; missedPods and missedPodNames in a write of their own
//   marks on pods            admission, when a pod is created
//   ControllerRevisions      the leading watcher

import type { JsonObject } from '../base/json.ts';
import type { LabelSelector } from '../core/label-selector.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import { group } from '../core/well-known.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

type ParsedSpec = Parsed<typeof specSchema>;
type ParsedContainer = NonNullable<ParsedSpec['containers']>[number];

/** A container of a SidecarSet: the core API's fields, of which only some are read, and those of SidecarSets. */
export type SidecarContainer = ParsedContainer & JsonObject;

/** A SidecarSet in the shape of v1beta1, the only one used internally. */
export interface SidecarSet extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: SidecarSetSpec;
  /** Absent until the controller has seen the object. */
  readonly status?: SidecarSetStatus;
}

export interface SidecarSetSpec
  extends Omit<
    ParsedSpec,
    'selector' | 'namespaceSelector' | 'containers' | 'initContainers' | 'volumes' | 'updateStrategy'
  > {
  readonly selector?: LabelSelector;
  readonly namespaceSelector?: LabelSelector;
  readonly containers?: readonly SidecarContainer[];
  readonly initContainers?: readonly SidecarContainer[];
  readonly volumes?: readonly JsonObject[];
  readonly updateStrategy?: Omit<NonNullable<ParsedSpec['updateStrategy']>, 'selector'> & {
    readonly selector?: LabelSelector;
  };
}

export type SidecarSetStatus = Parsed<typeof statusSchema>;
export type InjectionStrategy = NonNullable<SidecarSetSpec['injectionStrategy']>;
export type TransferEnv = NonNullable<SidecarContainer['transferEnv']>[number];
export type ResourcesPolicy = NonNullable<SidecarContainer['resourcesPolicy']>;
export type PatchPodMetadata = NonNullable<SidecarSetSpec['patchPodMetadata']>[number];

/** The part of a SidecarSet that is injected, and that a ControllerRevision stores (SCS-92, SCS-206). */
export type SidecarContent = Pick<
  SidecarSetSpec,
  'containers' | 'initContainers' | 'volumes' | 'imagePullSecrets' | 'patchPodMetadata'
>;

/** The resource of SidecarSets in the version that Windlass uses. */
export const sidecarSets = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'sidecarsets',
  kind: 'SidecarSet',
  namespaced: false,
} as const satisfies Resource;

/** The older version, which is served, too. */
export const sidecarSetsV1alpha1 = { ...sidecarSets, version: 'v1alpha1' } as const satisfies Resource;

export type SidecarSetVersion = 'v1alpha1' | 'v1beta1';

/** The version of a SidecarSet; undefined for an object that is none. */
export function sidecarSetVersion({ apiVersion }: JsonObject): SidecarSetVersion | undefined {
  if (apiVersion === `${group.apps}/v1beta1`) return 'v1beta1';
  return apiVersion === `${group.apps}/v1alpha1` ? 'v1alpha1' : undefined;
}

/** The defaults that admission writes. */
export const sidecarSetDefault = {
  updateType: 'RollingUpdate',
  partition: 0,
  maxUnavailable: 1,
  revisionHistoryLimit: 10,
  injectionPolicy: 'Always',
  patchPolicy: 'Retain',
  upgradeType: 'ColdUpgrade',
  shareType: 'disabled',
  /** By the list in which the container is. */
  injectPolicy: { containers: 'BeforeAppContainer', initContainers: 'AfterAppContainer' },
} as const;

/** Whether the SidecarSet has no update of running pods (2.1: only this text switches it off). */
export function isNotUpdate(strategy: { readonly type?: string | undefined } | undefined): boolean {
  return strategy?.type === 'NotUpdate';
}

/** Whether an init container keeps running beside the containers of the pod. */
export function isNativeSidecar(container: JsonObject): boolean {
  return container.restartPolicy === 'Always';
}

/** Whether the sidecar has two containers in a pod (SHU-10). */
export function isHotUpgrade({ upgradeStrategy }: Pick<SidecarContainer, 'upgradeStrategy'>): boolean {
  return upgradeStrategy?.upgradeType === 'HotUpgrade';
}

/** The two containers of a hot-upgrade sidecar. */
export function hotPair(name: string): readonly [string, string] {
  return [`${name}-1`, `${name}-2`];
}
