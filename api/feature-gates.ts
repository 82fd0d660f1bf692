// Feature gates: one text such as `A=true,B=false`, the same for every role, parsed once at start.
//
// The order is: defaults, AllAlpha and AllBeta, gates named in the text, and last what depends on another gate, which
// beats even explicit values (FG-1 to FG-3).

export type GateStage = 'Alpha' | 'Beta';

interface Gate {
  readonly default: boolean;
  readonly stage: GateStage;
  /** What it does when it is on, in one sentence. */
  readonly effect: string;
  /** A setting of the installation and not a feature: AllAlpha and AllBeta do not change it. */
  readonly infrastructure?: true;
  /** Accepted because OpenKruise has it: what it switches does not exist here yet. */
  readonly hasNoEffect?: true;
}

/** Every gate that is known, with its default. The names are OpenKruise's. */
export const featureGateTable = {
  PodWebhook: beta(true, 'Pods are looked at when they are created, changed and deleted'),
  KruiseDaemon: beta(true, 'Features that need the daemon on the nodes: restarts, images, probes'),
  DaemonWatchingPod: beta(true, 'The daemon watches the pods of its node and reports facts about their containers'),
  CloneSetShortHash: alpha('Pod label controller-revision-hash holds the hash alone'),
  KruisePodReadinessGate: alpha('Every new pod gets the readiness gate KruisePodReady'),
  PreDownloadImageForInPlaceUpdate: alpha('Images are pulled before an in-place update of a CloneSet or StatefulSet'),
  PreDownloadImageForDaemonSetUpdate: alpha('Images are pulled before an update of a DaemonSet'),
  CloneSetPartitionRollback: alpha('Raising the partition of a CloneSet takes pods back'),
  ResourcesDeletionProtection: beta(false, 'Labelled objects are protected from deletion'),
  DeletionProtectionForCRDCascadingGate: alpha('A CRD with objects is protected from deletion'),
  WorkloadSpread: pending(beta(true, 'WorkloadSpread')),
  PodUnavailableBudgetDeleteGate: pending(beta(true, 'PodUnavailableBudget guards deletion and eviction')),
  PodUnavailableBudgetUpdateGate: pending(alpha('PodUnavailableBudget guards in-place updates')),
  TemplateNoDefaults: {
    ...alpha('Pod templates are stored without defaults; switching it off again changes templates'),
    infrastructure: true,
  },
  InPlaceUpdateEnvFromMetadata: beta(true, 'Environment from labels and annotations is refreshed by a restart'),
  StatefulSetAutoDeletePVC: beta(true, 'persistentVolumeClaimRetentionPolicy of StatefulSets'),
  StatefulSetStartOrdinal: alpha('ordinals.start of StatefulSets'),
  StatefulSetAutoResizePVCGate: alpha('PVCs of StatefulSets are expanded with their templates'),
  PodIndexLabel: beta(true, 'Pods of StatefulSets carry their ordinal as a label'),
  SidecarSetPatchPodMetadataDefaultsAllowed: alpha('SidecarSets may patch any annotation'),
  EnableSortSidecarContainerByName: alpha('Injected sidecars are sorted by name'),
  SidecarTerminator: alpha("Sidecars of a job's pod end after its main containers"),
  PodProbeMarkerGate: beta(true, 'PodProbeMarker'),
  EnablePodProbeMarkerOnServerless: alpha('Probes of serverless pods are delegated by annotation'),
  EnhancedLivenessProbe: alpha('Liveness probes of marked pods are taken over'),
  CloneSetEventHandlerOptimization: pending(alpha('Fewer looks at a CloneSet when its pods change')),
  PreparingUpdateAsUpdate: alpha('Pods that prepare for an update count as updated'),
  RecreatePodWhenChangeVCTInCloneSetGate: alpha('Changed volumeClaimTemplates of a CloneSet recreate pods'),
  ForceDeleteTimeoutExpectationGate: pending(
    alpha('A CloneSet does not wait for ever for what its cache does not show'),
  ),
  InPlaceWorkloadVerticalScaling: alpha('Resources are updated in place'),
  InPlacePodVerticalScaling: pending(alpha('Declares that the cluster can resize pods')),
  ImagePullJobGate: alpha('ImagePullJob and ImageListPullJob'),
  ResourceDistributionGate: pending(beta(false, 'ResourceDistribution')),
  EnableExternalCerts: { ...alpha('Certificates come from outside and are only read'), infrastructure: true },
  DefaultHostNetworkHostPortsInPodTemplates: alpha('With hostNetwork, host ports are filled into templates'),
  DaemonSetPruneIneligibleNodes: alpha('Nodes that do not fit a DaemonSet do not count in its update'),
} as const satisfies Record<string, Gate>;

function alpha(effect: string): Gate {
  return { default: false, stage: 'Alpha', effect };
}

function beta(on: boolean, effect: string): Gate {
  return { default: on, stage: 'Beta', effect };
}

function pending(gate: Gate): Gate {
  return { ...gate, hasNoEffect: true };
}

export type FeatureGate = keyof typeof featureGateTable;

/** Every gate, on or off. */
export type FeatureGates = Readonly<Record<FeatureGate, boolean>>;

/** All known gates, in the order of the table. */
export const featureGateNames: readonly FeatureGate[] = Object.keys(featureGateTable).filter(isFeatureGate);

/** An invalid list of gates; the message names the gate. */
export class FeatureGateError extends Error {
  override readonly name = 'FeatureGateError';
}

/**
 * Parses `--feature-gates`. Absent or empty: the defaults. Throws a `FeatureGateError` for an unknown gate and for a
 * value that is neither true nor false. `customResourceEnable` is OpenKruise's old variable of that name, a
 * comma-separated list of kinds.
 */
export function parseFeatureGates(text = '', customResourceEnable?: string): FeatureGates {
  const named = parseAssignments(text);
  const initial = fromEntries(
    (gate) => named.get(gate) ?? metaGate(gate, named) ?? fallback(gate, customResourceEnable),
  );
  return withDependants(initial);
}

/** Whether a gate is accepted although what it switches does not exist here yet. */
export function hasNoEffect(gate: FeatureGate): boolean {
  const known: Gate = featureGateTable[gate];
  return known.hasNoEffect === true;
}

/** The message for an object whose gate is off (FG-4); the HTTP status is 403. */
export function gateRefusal(gate: FeatureGate): string {
  return `feature-gate ${gate} is not enabled`;
}

function isFeatureGate(name: string): name is FeatureGate {
  return Object.hasOwn(featureGateTable, name);
}

const metaGates: Readonly<Record<string, GateStage>> = { AllAlpha: 'Alpha', AllBeta: 'Beta' };

// The values of Go's ParseBool, because users' files contain all of them.
export const truths: readonly string[] = ['1', 't', 'T', 'true', 'TRUE', 'True'];
const falsehoods = ['0', 'f', 'F', 'false', 'FALSE', 'False'];

function parseAssignments(text: string): ReadonlyMap<string, boolean> {
  const assignments = text.split(',').filter((part) => part.trim() !== '');
  return new Map(assignments.map(parseAssignment));
}

function parseAssignment(assignment: string): readonly [string, boolean] {
  const equals = assignment.indexOf('=');
  const name = (equals < 0 ? assignment : assignment.slice(0, equals)).trim();
  const value = equals < 0 ? '' : assignment.slice(equals + 1).trim();

  if (!isFeatureGate(name) && !Object.hasOwn(metaGates, name)) {
    const meant = nearest(name, [...featureGateNames, ...Object.keys(metaGates)]);
    throw new FeatureGateError(
      `unknown feature gate "${name}"${meant === undefined ? '' : `, did you mean "${meant}"?`}`,
    );
  }
  if (truths.includes(value)) return [name, true];
  if (falsehoods.includes(value)) return [name, false];
  throw new FeatureGateError(`feature gate "${name}" must be true or false, not "${value}"`);
}

/** The known name that takes the fewest edits, if these are few for the length of the text. */
function nearest(text: string, names: readonly string[]): string | undefined {
  const distances = names.map((name) => ({ name, edits: editDistance(text.toLowerCase(), name.toLowerCase()) }));
  const best = distances.reduce((a, b) => (b.edits < a.edits ? b : a));
  return best.edits <= text.length / 3 ? best.name : undefined;
}

/** The number of characters to insert, delete or replace (Levenshtein). */
function editDistance(a: string, b: string): number {
  let before = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (before[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (before[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    before = row;
  }
  return before[b.length] ?? 0;
}

function metaGate(gate: FeatureGate, named: ReadonlyMap<string, boolean>): boolean | undefined {
  const { stage, infrastructure }: Gate = featureGateTable[gate];
  // AllAlpha means all features. It must not also require external certificates (FG-23).
  if (infrastructure) return undefined;
  return named.get(stage === 'Alpha' ? 'AllAlpha' : 'AllBeta');
}

function fallback(gate: FeatureGate, customResourceEnable: string | undefined): boolean {
  // FG-5: the only remaining effect of the variable.
  const kinds = (customResourceEnable ?? '').split(',').map((kind) => kind.trim());
  if (gate === 'PodWebhook' && customResourceEnable && !kinds.includes('SidecarSet')) return false;
  return featureGateTable[gate].default;
}

const needPodWebhook: readonly FeatureGate[] = [
  'KruisePodReadinessGate',
  'PodUnavailableBudgetDeleteGate',
  'PodUnavailableBudgetUpdateGate',
  'WorkloadSpread',
  'SidecarSetPatchPodMetadataDefaultsAllowed',
  'EnhancedLivenessProbe',
  'EnablePodProbeMarkerOnServerless',
];

const needDaemon: readonly FeatureGate[] = [
  'PreDownloadImageForInPlaceUpdate',
  'PreDownloadImageForDaemonSetUpdate',
  'DaemonWatchingPod',
  'InPlaceUpdateEnvFromMetadata',
  'PodProbeMarkerGate',
  'SidecarTerminator',
  'ImagePullJobGate',
  'EnhancedLivenessProbe',
];

function withDependants(asked: FeatureGates): FeatureGates {
  const off = new Set<FeatureGate>([
    ...(asked.PodWebhook ? [] : needPodWebhook),
    ...(asked.KruiseDaemon ? [] : needDaemon),
    ...(asked.ResourcesDeletionProtection ? [] : (['DeletionProtectionForCRDCascadingGate'] as const)),
  ]);
  const left = fromEntries((gate) => asked[gate] && !off.has(gate));
  const pullsAhead = left.PreDownloadImageForInPlaceUpdate || left.PreDownloadImageForDaemonSetUpdate;
  return { ...left, ImagePullJobGate: left.ImagePullJobGate || pullsAhead };
}

function fromEntries(isOn: (gate: FeatureGate) => boolean): FeatureGates {
  const entries = featureGateNames.map((gate) => [gate, isOn(gate)] as const);
  return Object.fromEntries(entries) as Record<FeatureGate, boolean>;
}
