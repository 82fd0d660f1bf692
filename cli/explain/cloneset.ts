import { convertCloneSet } from '../../api/cloneset/convert.ts';
import {
  type CloneSet,
  type CloneSetVersion,
  type CloneSetWaitReason,
  cloneSetCondition,
  cloneSetDefault,
  cloneSets,
  cloneSetsV1alpha1,
  cloneSetVersion,
  type RollingUpdate,
} from '../../api/cloneset/types.ts';
import { apiVersionOf } from '../../api/core/meta.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { isEngineReason } from '../../api/engine/engine-trouble.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { cloneSetWorkloads, planCloneSet } from '../../plan/cloneset/planner.ts';
import { type PodPreview, previewUpdate } from '../../plan/cloneset/preview.ts';
import { allWaits, type CloneSetSituation } from '../../plan/cloneset/waits.ts';
import type { Wait } from '../../plan/decision.ts';
import { podsOf } from '../../plan/fleet/batch.ts';
import { question } from '../../plan/fleet/permit.ts';
import type { FleetPod } from '../../plan/fleet/pods.ts';
import { ordersFor } from '../../plan/fleet/roll-out-orders.ts';
import { isAtGoal } from '../../plan/fleet/scene.ts';
import { describeCause } from '../../plan/fleet/waits.ts';
import { joinedDetails, podTrouble } from '../../plan/pod-trouble.ts';
import { cloneSetLook } from '../cloneset-look.ts';
import { attempt } from '../failure.ts';
import { lookAround } from '../workload-look.ts';
import type {
  ExplainedOperation,
  ExplainedStep,
  ExplainedWait,
  Explainer,
  ExplainMeans,
  Explanation,
  HelpfulCommand,
} from './explanation.ts';
import { askEngine, distinct, mayRun, signalCommand, stuckCommands } from './operations.ts';
import { readServed } from './read.ts';

/** CloneSets: what the planner says about the current state, and what the status says. */
export const cloneSetExplainer: Explainer = {
  versions: [cloneSets, cloneSetsV1alpha1],
  shortNames: ['clone'],
  explain: async (asked, means) => {
    const found = await attempt(`Cannot read CloneSet "${asked.namespace}/${asked.name}"`, () =>
      readServed(means.kube, asked),
    );
    const { object, warnings } = convertCloneSet(found, apiVersionOf(cloneSets)) ?? { object: found, warnings: [] };
    const set = object as unknown as CloneSet;
    const { input, notes } = await lookAround(cloneSetLook, set, means);
    const operation = await askEngine(rollOutId(set.metadata.uid), means);
    const readAs = cloneSetVersion(found) ?? cloneSets.version;
    return explainSet({ input, operation, notes: [...warnings, ...notes], means, readAs });
  },
};

/** The explanation of a CloneSet in this situation. */
export function explainSet({
  input,
  operation,
  notes,
  means,
  readAs,
}: {
  readonly input: CloneSetInput;
  readonly operation: ExplainedOperation;
  readonly notes: readonly string[];
  readonly means: Pick<ExplainMeans, 'engine'>;
  readonly readAs: CloneSetVersion;
}): Explanation {
  const { owner: set } = input;
  const { namespace = '', name, generation = 0 } = set.metadata;
  const told = set.status?.waitingFor as WaitingFor | undefined;
  const seen = { ...input, ...failuresIn(set), ...permitIn(set, operation) };
  const { situation } = planCloneSet(seen);
  const waits = allOf(told, situation ? allWaits(situation) : [], situation);
  const { observedGeneration } = set.status ?? {};
  return {
    kind: cloneSets.kind,
    namespace,
    name,
    summary: summaryOf(set),
    waits,
    steps: situation ? stepsOf(situation, previewUpdate(seen) ?? []) : [],
    operation,
    commands: commandsFor(set, waits, { operation, means, readAs }),
    notes: [
      ...(situation ? [] : ['no ControllerRevision of the template yet: no watcher has reconciled the CloneSet']),
      ...(observedGeneration === undefined || observedGeneration < generation
        ? [`status.observedGeneration is ${observedGeneration ?? 'absent'}, metadata.generation is ${generation}`]
        : []),
      ...nextNotes(input),
      ...terminatingNotes(input),
      ...notes,
    ],
  };
}

function summaryOf(set: CloneSet): string {
  const { spec, status } = set;
  const replicas = spec.replicas ?? cloneSetDefault.replicas;
  if (status === undefined) return `no status yet; ${replicas} pods are wanted`;
  const { updateRevision = '', currentRevision = '' } = status;
  const available = `${status.availableReplicas} of ${replicas} available`;
  const undo = undoIn(set);
  if (undo) {
    const left = status.updatedReplicas;
    const goesBack = left > 0 ? `${left} of ${replicas} pods have yet to go back` : 'all pods have gone back';
    return `undo of ${updateRevision}, back to ${undo.to}: ${goesBack}, ${available}`;
  }
  const revisions = updateRevision === currentRevision ? updateRevision : `${currentRevision} -> ${updateRevision}`;
  const wanted = status.expectedUpdatedReplicas ?? replicas;
  return `${revisions || 'no revision yet'}: ${status.updatedReplicas} of ${wanted} pods updated, ${available}`;
}

/** Failures of the watcher's writes, which the planner cannot know. */
function failuresIn({ status }: CloneSet): Pick<CloneSetInput, 'failures'> {
  const message = (type: string) =>
    status?.conditions?.find((condition) => condition.type === type && condition.status === 'True')?.message;
  const scale = message(cloneSetCondition.failedScale);
  const update = message(cloneSetCondition.failedUpdate);
  if (scale === undefined && update === undefined) return {};
  return { failures: { ...(scale !== undefined && { scale }), ...(update !== undefined && { update }) } };
}

/** The permit that the operation has granted, as far as it can be derived from outside. */
function permitIn(set: CloneSet, operation: ExplainedOperation): Pick<CloneSetInput, 'permit' | 'engine'> {
  const { waitingFor, updateRevision } = set.status ?? {};
  const reason = waitingFor?.reason;
  if (waitingFor && isEngineReason(reason)) return { engine: { ...waitingFor, reason } };
  const isOver = operation.kind === 'none' || (operation.kind === 'found' && operation.endedAt !== undefined);
  if (reason === 'NoPermit' || isOver || updateRevision === undefined) return {};
  return { permit: question };
}

/** Waits of the status come first: it may know more than can be seen from here. */
function allOf(
  told: WaitingFor | undefined,
  waits: readonly Wait[],
  situation: CloneSetSituation | undefined,
): readonly ExplainedWait[] {
  const others = waits.filter(({ reason }) => reason !== told?.reason);
  const planned = others.map((wait): ExplainedWait => {
    const since = situation && sinceOf(wait, situation);
    return { ...wait, ...(since !== undefined && { since }), from: 'planner' };
  });
  return told === undefined ? planned : [{ ...told, from: 'status' }, ...planned];
}

/** Since when these pods have been unavailable, at the earliest; undefined where the wait is not for pods. */
function sinceOf({ blockedBy }: Wait, { scene }: CloneSetSituation): string | undefined {
  const times = scene.counted
    .filter((pod) => blockedBy.includes(`pod/${pod.name}`) && !pod.isAvailable)
    .flatMap((pod) => downSince(pod) ?? []);
  return times.toSorted((left, right) => left.localeCompare(right))[0];
}

function downSince({ pod }: FleetPod): string | undefined {
  const down = pod.status?.conditions?.filter(
    ({ type, status }) => status === 'False' && (type === 'Ready' || type === inPlaceReadinessGate),
  );
  return down?.[0]?.lastTransitionTime ?? pod.metadata.creationTimestamp;
}

/** Pods in progress first, then those that wait, then those that are up to date. */
function stepsOf(situation: CloneSetSituation, previews: readonly PodPreview[]): readonly ExplainedStep[] {
  const { scene, refresh } = situation;
  const rank = (pod: FleetPod) => previews.findIndex((preview) => preview.pod === pod.name);
  const lines = scene.counted.map((pod): { readonly order: number; readonly step: ExplainedStep } => {
    const about = (order: number, state: string, detail: string) => ({
      order,
      step: { step: pod.name, state, detail },
    });
    const broken = refresh.broken.find((found) => found.pod.name === pod.name);
    if (broken) return about(0, 'unreadable', broken.message);
    const wait = refresh.underWay.find((found) => found.pod.name === pod.name)?.waitingFor;
    if (wait)
      return about(
        1,
        'updating',
        joinedDetails(
          `${wait.reason}${wait.containers.length > 0 ? `: ${wait.containers.join(', ')}` : ''}`,
          podTrouble(pod.pod, wait.containers),
        ),
      );
    if (pod.isSpecified) return about(2, 'to be deleted', '');
    if (pod.state && !['Normal', 'Updated', 'PreparingNormal'].includes(pod.state))
      return about(3, pod.state, 'held by a lifecycle hook, or in transition');
    const preview = previews.find((found) => found.pod === pod.name);
    const down = pod.isAvailable
      ? ''
      : joinedDetails(`unavailable (since ${downSince(pod) ?? 'unknown'})`, podTrouble(pod.pod));
    if (preview?.batch !== undefined)
      return about(
        100 + rank(pod),
        `waits, batch ${preview.batch}`,
        joinedDetails(scene.isUndo ? `back ${pathText(preview)}` : pathText(preview), down),
      );
    if (isAtGoal(scene, pod))
      return pod.isAvailable ? about(1_000_000, 'done', '') : about(50, scene.isUndo ? 'gone back' : 'updated', down);
    return about(
      900_000,
      'kept',
      [scene.strategy.isOnDelete ? 'OnDelete' : 'by the partition', down].filter(Boolean).join('; '),
    );
  });
  return lines.toSorted((left, right) => left.order - right.order).map(({ step }) => step);
}

function pathText({ path }: PodPreview): string {
  switch (path.kind) {
    case 'inPlace':
      return `in place${path.containers.length > 0 ? `: ${path.containers.map((batch) => batch.join(', ')).join(', then ')}` : ''}`;
    case 'recreate':
      return `recreate: ${describeCause(path.because)}`;
    case 'impossible':
      return `impossible: ${describeCause(path.because)}`;
    case 'kept':
      return '';
  }
}

/** Which pods the roll-out disrupts next, once it has a permit. */
function nextNotes(input: CloneSetInput): readonly string[] {
  const choice = cloneSetWorkloads.chooseBatch(input);
  if (choice.kind !== 'pods') return [];
  const pods = podsOf(choice.batch);
  const names = pods.slice(0, mostNamed).map(({ name, how }) => `${name} (${howTexts[how]})`);
  const more = pods.length - names.length;
  const what = undoIn(input.owner) ? 'next to go back' : 'next to be updated';
  return [`${what}: ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`];
}

const mostNamed = 10;
const howTexts = { inPlace: 'in place', recreate: 'recreated' } as const;

function terminatingNotes({ pods, nowMs }: CloneSetInput): readonly string[] {
  const going = pods.filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
  const late = going.filter(({ metadata }) => Date.parse(metadata.deletionTimestamp ?? '') < nowMs);
  const [first] = late;
  if (first === undefined) return [];
  const held = first.metadata.finalizers?.join(', ');
  return [
    `pod ${first.metadata.name} should have terminated by ${first.metadata.deletionTimestamp}` +
      `${held ? `, and has finalizers ${held}` : ''}${late.length > 1 ? `; so should ${late.length - 1} more` : ''}`,
  ];
}

function commandsFor(
  set: CloneSet,
  waits: readonly ExplainedWait[],
  given: {
    readonly operation: ExplainedOperation;
    readonly means: Pick<ExplainMeans, 'engine'>;
    readonly readAs: CloneSetVersion;
  },
): readonly HelpfulCommand[] {
  const { namespace, name } = set.metadata;
  const { operation, means, readAs } = given;
  const signal = (command: Parameters<typeof signalCommand>[1], effect: string, target?: string): HelpfulCommand => ({
    command: signalCommand(operation.workflowId, command, {
      engine: means.engine,
      ...(target !== undefined && { target }),
    }),
    effect,
  });
  const patch = (rollingUpdate: RollingUpdate, effect: string): HelpfulCommand => {
    const { type, body } = strategyPatch(rollingUpdate, readAs);
    return {
      command: `kubectl -n ${namespace} patch ${type} ${name} --type=merge -p '${JSON.stringify(body)}'`,
      effect,
    };
  };
  // a signal does not reach a run that has ended, as of an undo that is complete, or that was aborted
  const annotate = (command: Parameters<typeof signalCommand>[1], effect: string): HelpfulCommand => ({
    command: `kubectl -n ${namespace} annotate clone ${name} ${windlassAnnotation.command}=${command}`,
    effect,
  });
  const endsUndo = annotate('resume', 'ends the undo: the update begins again');
  const reasons = waits.map(({ reason }) => reason as CloneSetWaitReason);
  const isPaused = reasons.includes('PausedByOperator') || ordersOf(set)?.paused !== undefined;
  const isAborted = reasons.includes('Aborted');
  const forWaits = waits.flatMap((wait): readonly HelpfulCommand[] => {
    const pod = wait.blockedBy.find((blocker) => blocker.startsWith('pod/'))?.slice('pod/'.length);
    const look =
      pod === undefined
        ? []
        : [{ command: `kubectl -n ${namespace} describe pod ${pod}`, effect: `shows why ${pod} is not ready` }];
    const logs =
      pod === undefined
        ? []
        : [{ command: `kubectl -n ${namespace} logs ${pod} --all-containers`, effect: `shows the logs of ${pod}` }];
    const skip = pod === undefined ? [] : [signal('skip', `skips ${pod}`, pod)];
    switch (wait.reason as CloneSetWaitReason) {
      case 'Paused':
        return [patch({ paused: false }, 'continues')];
      case 'PausedByOperator':
        return [isAborted ? annotate('resume', 'continues') : signal('resume', 'continues')];
      case 'PartitionReached':
        return [patch({ partition: 0 }, 'updates the remaining pods')];
      case 'BudgetSpent':
      case 'NotReady':
      case 'BatchNotReady':
        return [...look, ...logs];
      case 'BudgetRoundsToZero':
        return [patch({ maxUnavailable: 1 }, 'updates one pod at a time')];
      case 'ContainersNotSwapped':
      case 'NotScheduled':
      case 'Terminating':
      case 'PodUnreadable':
        return look;
      case 'RefusedByBudget':
        return [...skip];
      case 'InPlaceImpossible':
        return [patch({ podUpdatePolicy: 'InPlaceIfPossible' }, 'recreates these pods')];
      case 'ImageNotReady':
        return [
          { command: `kubectl -n ${namespace} get imagepulljobs`, effect: 'shows the progress of the pre-download' },
          {
            command: `kubectl -n ${namespace} annotate clone ${name} ${windlassAnnotation.prefetch}-`,
            effect: 'continues without waiting for images',
          },
        ];
      case 'Undone':
        return [endsUndo];
      case 'Aborted':
        return [annotate('resume', 'continues')];
      case 'Skipped':
        return [annotate('retry', 'continues')];
      case 'Parked':
        return [signal('retry', 'retries it'), ...skip];
      case 'EngineStuck':
        return stuckCommands(operation.workflowId, means);
      default:
        return [];
    }
  });
  const isRolling =
    !isAborted && mayRun(operation) && (operation.kind === 'found' || isUpdating(set) || undoIn(set) !== undefined);
  const steering = isRolling
    ? [
        ...(isPaused ? [] : [signal('pause', 'disrupts no further pod')]),
        signal('abort', 'stops the roll-out where it is'),
        ...(undoIn(set) === undefined ? [signal('undo', 'returns updated pods to the previous revision')] : []),
        ...(undoIn(set) && !isPaused ? [endsUndo] : []),
        {
          command: `kubectl -n ${namespace} annotate clone ${name} windlass.io/command=pause`,
          effect: 'the same without permission to signal workflows; other commands likewise',
        },
      ]
    : [];
  const goesBack = isAborted ? [annotate('undo', 'returns updated pods to the previous revision')] : [];
  return distinct([...forWaits, ...goesBack, ...steering]);
}

/** The fields of the update strategy in each version; the API server silently drops fields of the other one. */
function strategyPatch(rollingUpdate: RollingUpdate, version: CloneSetVersion) {
  if (version === 'v1beta1') return { type: 'clone', body: { spec: { updateStrategy: { rollingUpdate } } } };
  const { podUpdatePolicy, ...pace } = rollingUpdate;
  const updateStrategy = { ...pace, ...(podUpdatePolicy && { type: podUpdatePolicy }) };
  return { type: `${cloneSets.plural}.${version}.${cloneSets.group}`, body: { spec: { updateStrategy } } };
}

/** The undo that an operator has ordered of the present update. */
function undoIn(set: CloneSet) {
  return ordersFor(ordersOf(set), set.status?.updateRevision ?? '')?.undo;
}

function isUpdating({ status }: CloneSet): boolean {
  return status?.updateRevision !== status?.currentRevision;
}
