import { sidecarSetHashAnnotation } from '../core/well-known.ts';

// Labels, annotations and environment variables of SidecarSets and of the pods that have their containers. The names are
// OpenKruise's: pods of a cluster that is taken over carry them.

/** On pods and on SidecarSets: JSON by SidecarSet on pods, the hash alone on SidecarSets and ControllerRevisions. */
export const hashAnnotation = {
  /** The hash of the containers. */
  whole: sidecarSetHashAnnotation,
  /** The same without images. Pods whose hash differs cannot be updated in place. */
  withoutImage: 'kruise.io/sidecarset-hash-without-image',
} as const;

/** Annotation of pods: the names of the SidecarSets that manage them, sorted, separated by commas. */
export const injectedListAnnotation = 'kruise.io/sidecarset-injected-list';

/**
 * Annotation of a pod: how often its containers had been restarted when their images were written, and when that was, as
 * `{"log":{"at":"2026-01-01T00:00:00Z","restarts":1}}`. Times of the kubelet have whole seconds, and an image may get another
 * name and stay the same.
 */
export const restartsAnnotation = 'windlass.io/sidecar-restarts';

/** Environment variable of every injected container. */
export const injectedEnv = { name: 'IS_INJECTED', value: 'true' } as const;

/** Marks of hot-upgrade sidecars on pods. */
export const hotMark = {
  /** Annotation: JSON, the working container of each hot-upgrade sidecar. */
  working: 'kruise.io/sidecarset-working-hotupgrade-container',
  /** Prefix of an annotation: the version of a container; 0 means that it is idle. */
  version: 'version.sidecarset.kruise.io/',
  /** Prefix of an annotation: the version of the other container as this one should see it. */
  otherVersion: 'versionalt.sidecarset.kruise.io/',
  versionEnv: 'SIDECARSET_VERSION',
  otherVersionEnv: 'SIDECARSET_VERSION_ALT',
} as const;

/** Labels of SidecarSets and of their ControllerRevisions. */
export const sidecarSetLabel = {
  /** On ControllerRevisions: the name of the SidecarSet. */
  name: 'kruise.io/sidecarset-name',
  /** On ControllerRevisions, and on SidecarSets in v1alpha1 in place of `spec.customVersion`. */
  customVersion: 'apps.kruise.io/sidecarset-custom-version',
} as const;

/** Annotations of SidecarSets that users write. */
export const sidecarSetAnnotation = {
  /** `true`: it is a canary of the SidecarSet that `base` names. */
  canary: 'apps.kruise.io/sidecarset-canary',
  base: 'apps.kruise.io/sidecarset-base',
  /**
   * Windlass's own: what happens to a pod into which this SidecarSet cannot be injected. `Fail`: the pod is rejected.
   * `Ignore`: it is created without these sidecars. Absent: `Fail`.
   */
  injectionFailure: 'windlass.io/injection-failure',
} as const;

/** The key of the ConfigMap `kruise-configuration` with the annotations that SidecarSets may write on pods. */
export const whitelistKey = 'SidecarSet_PatchPodMetadata_WhiteList';
