import type { JsonObject } from '../api/base/json.ts';
import type { Converted } from '../api/core/converted.ts';
import type { FieldError } from '../api/core/field-error.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../api/core/meta.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import type { FleetInput } from '../plan/fleet/input.ts';
import type { WorkloadPlanner } from '../plan/fleet/planner.ts';
import type { Workload } from '../plan/fleet/workload.ts';
import type { NamedKind } from './kind-words.ts';

/** A kind of workload, as the commands work with it. */
export interface WorkloadKind<Owner extends Workload, Input extends FleetInput<Owner> = FleetInput<Owner>>
  extends NamedKind {
  readonly planner: WorkloadPlanner<Owner, Input>;
  /** The label that PVCs of its pods have. Absent: any of the namespace may be one. */
  readonly claimLabel?: string;
  /** Whether it wants a pod of this name, which another object may have taken. Absent: no other has names like its pods. */
  readonly wantsPod?: (owner: Owner, podName: string, gates: FeatureGates) => boolean;
  /**
   * Whether its planner looks at nodes: the list is long, and not every user may read it. `always`: without it nothing can be said.
   * Absent: it does not.
   */
  readonly needsNodes?: 'always' | ((owner: Owner) => boolean);
  /** What the planner sees, with what only this kind looks at. */
  readonly input: (input: FleetInput<Owner>, nodes: readonly KubeObject[]) => Input;
  readonly replicas: (owner: Owner) => number;
  readonly convert: (object: JsonObject, apiVersion: string) => Converted | undefined;
  readonly fillDefaults: (object: JsonObject, gates: FeatureGates, before?: JsonObject) => JsonObject;
  readonly validate: (object: JsonObject) => readonly FieldError[];
  readonly validateUpdate: (before: JsonObject, after: JsonObject) => readonly FieldError[];
  /** What admission warns of. Absent: nothing. */
  readonly warnings?: (after: JsonObject, before: JsonObject | undefined, gates: FeatureGates) => readonly string[];
  /** What the status says about pods. Absent: in the fields that most kinds have for it. */
  readonly countsOf?: (owner: Owner) => PodCounts;
  /** The types of the conditions that say why pods are not created or deleted, and not updated. Absent: it has none. */
  readonly conditions?: { readonly failedScale: string; readonly failedUpdate: string };
  /** The update strategy of an older version with these fields. Absent: it is that of the present version. */
  readonly olderStrategy?: (rollingUpdate: JsonObject) => JsonObject;
  readonly rollOut: {
    /** Its name in the lines of `rollout status` (KK-7, KK-8). */
    readonly title: string;
    /** How many pods are to be updated. */
    readonly wanted: (owner: Owner) => number;
    /** What its updated pods still wait for, of so many that are to be updated. Absent: nothing but to be available. */
    readonly waitsFor?: (owner: Owner, wanted: number) => string | undefined;
    /** The last line, where it is not that of all kinds. */
    readonly lastLine?: (owner: Owner) => string | undefined;
    /** The error of an undo without an earlier revision (KK-4). */
    readonly noPrevious: string;
  };
}

/** What the status of a workload says about its pods. */
export interface PodCounts {
  /** The name of the revision of the template. Absent: none has been recorded. */
  readonly revision?: string;
  /** The name of the last revision that all pods had. Absent: the kind does not record it. */
  readonly before?: string;
  readonly updated: number;
  readonly updatedAvailable: number;
  readonly available: number;
}

/** What the status of this workload says about its pods. */
export function podCountsOf<Owner extends Workload>(
  { countsOf }: Pick<WorkloadKind<Owner>, 'countsOf'>,
  owner: Owner,
): PodCounts {
  if (countsOf) return countsOf(owner);
  const {
    updateRevision,
    currentRevision = '',
    updatedReplicas,
    updatedAvailableReplicas,
    availableReplicas,
  } = owner.status ?? {};
  return {
    ...(updateRevision !== undefined && { revision: updateRevision }),
    before: currentRevision,
    updated: updatedReplicas ?? 0,
    updatedAvailable: updatedAvailableReplicas ?? 0,
    available: availableReplicas ?? 0,
  };
}

/** The version in which the object is; undefined for another kind, and for a version that is not supported. */
export function versionOf(
  { versions }: Pick<NamedKind, 'versions'>,
  { kind, apiVersion }: JsonObject,
): Resource | undefined {
  return versions.find((version) => version.kind === kind && apiVersionOf(version) === apiVersion);
}
