import type { Resource } from '../../api/core/meta.ts';
import type { FeatureGates } from '../../api/feature-gates.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { NamedKind } from '../kind-words.ts';
import type { OperationEngine, OperationReport } from '../operation.ts';

/** Something that an operation waits for. */
export interface ExplainedWait {
  readonly reason: string;
  /** As `kind/name`, at most ten. */
  readonly blockedBy: readonly string[];
  readonly blockedCount: number;
  /** RFC 3339; absent: it is not recorded. */
  readonly since?: string;
  readonly unblock: string;
  /** `status`: the operation has recorded it; `planner`: it follows from the current state. */
  readonly from: 'status' | 'planner';
}

/** A step of an operation, or the outcome for one of the things that it works on. */
export interface ExplainedStep {
  readonly step: string;
  readonly state: string;
  readonly detail: string;
}

/** A command line that may help, and its effect. */
export interface HelpfulCommand {
  readonly command: string;
  readonly effect: string;
}

/** What is known of the workflow behind an object. */
export type ExplainedOperation =
  | ({ readonly kind: 'found' } & OperationReport)
  /** No such workflow has run, or its history has expired. */
  | { readonly kind: 'none'; readonly workflowId: string }
  | { readonly kind: 'notAsked'; readonly workflowId: string; readonly why: string };

/** Everything that is printed about an object. */
export interface Explanation {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The state in one line. */
  readonly summary: string;
  /** The first one is what it waits for; empty: it waits for nothing. */
  readonly waits: readonly ExplainedWait[];
  readonly steps: readonly ExplainedStep[];
  readonly operation?: ExplainedOperation;
  readonly commands: readonly HelpfulCommand[];
  /** What could not be read, and what to keep in mind. */
  readonly notes: readonly string[];
}

export interface ExplainMeans {
  readonly kube: KubeClient;
  readonly gates: FeatureGates;
  readonly nowMs: number;
  /** Absent: `engineMissing` says why. */
  readonly engine?: OperationEngine;
  readonly engineMissing: string;
}

/** An object, and the versions in which it is read. */
export interface ObjectToRead {
  readonly namespace: string;
  readonly name: string;
  readonly versions: readonly Resource[];
}

/** How one kind is explained. A new kind is one line in `explainers.ts`. */
export interface Explainer extends NamedKind {
  readonly explain: (object: ObjectToRead, means: ExplainMeans) => Promise<Explanation>;
}
