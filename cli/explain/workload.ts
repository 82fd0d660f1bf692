import type { JsonObject } from '../../api/base/json.ts';
import { apiVersionOf, type Resource } from '../../api/core/meta.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import type { DaemonSetWaitReason } from '../../api/daemon-set/types.ts';
import { isEngineReason } from '../../api/engine/engine-trouble.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import type { podWaits } from '../../api/fleet/pod-waits.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import type { Wait } from '../../plan/decision.ts';
import { podsOf } from '../../plan/fleet/batch.ts';
import type { FleetInput } from '../../plan/fleet/input.ts';
import type { FleetSituation } from '../../plan/fleet/kind.ts';
import { question } from '../../plan/fleet/permit.ts';
import type { KeptReason, Play, PodPath } from '../../plan/fleet/play.ts';
import type { FleetPod } from '../../plan/fleet/pods.ts';
import { rollOutFacts } from '../../plan/fleet/roll-out-facts.ts';
import { ordersFor } from '../../plan/fleet/roll-out-orders.ts';
import { type FleetWaitReason, isUpToDate, volumesOf } from '../../plan/fleet/scene.ts';
import { describeCause } from '../../plan/fleet/waits.ts';
import type { Workload } from '../../plan/fleet/workload.ts';
import { joinedDetails, podTrouble } from '../../plan/pod-trouble.ts';
import { attempt } from '../failure.ts';
import { asksForNothing } from '../output/wait-line.ts';
import { deletedTexts } from '../set-plan.ts';
import { podCountsOf, versionOf, type WorkloadKind } from '../workload.ts';
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

/** A kind that keeps pods: what the planner says about the current state, and what the status says. */
export function workloadExplainer<Owner extends Workload, Input extends FleetInput<Owner>>(
  kind: WorkloadKind<Owner, Input>,
): Explainer {
  const { versions, shortNames, namesake, convert } = kind;
  const [stored] = versions;
  return {
    ...{ versions, shortNames, ...(namesake && { namesake }) },
    explain: async (asked, means) => {
      const found = await attempt(`Cannot read ${stored.kind} "${asked.namespace}/${asked.name}"`, () =>
        readServed(means.kube, asked),
      );
      const { object, warnings } = convert(found, apiVersionOf(stored)) ?? { object: found, warnings: [] };
      const owner = object as unknown as Owner;
      const { input, notes } = await lookAround(kind, owner, means);
      const operation = await askEngine(rollOutId(owner.metadata), means);
      const readAs = versionOf(kind, found) ?? stored;
      return explained(kind, input, { operation, notes: [...warnings, ...notes], means, readAs });
    },
  };
}

interface Around {
  readonly operation: ExplainedOperation;
  readonly notes: readonly string[];
  readonly means: Pick<ExplainMeans, 'engine'>;
  /** The version in which the object was read. */
  readonly readAs: Resource;
}

function explained<Owner extends Workload, Input extends FleetInput<Owner>>(
  kind: WorkloadKind<Owner, Input>,
  input: Input,
  around: Around,
): Explanation {
  const { owner } = input;
  const { planner } = kind;
  const { namespace = '', name, generation = 0 } = owner.metadata;
  const told = owner.status?.waitingFor;
  const found = planner.explain({ ...input, ...failuresIn(kind, owner), ...permitIn(owner, around.operation) });
  const waits = allOf(told, found?.waits ?? [], found?.situation);
  const { observedGeneration } = owner.status ?? {};
  return {
    kind: planner.resource.kind,
    namespace,
    name,
    summary: summaryOf(kind, owner),
    waits,
    steps: found ? stepsOf(found.situation, planner.play(input)) : [],
    operation: around.operation,
    commands: commandsFor(kind, owner, waits, {
      ...around,
      canUndo: found === undefined || isUndoable(found.situation),
    }),
    notes: [
      ...(found
        ? []
        : [`no ControllerRevision of the template yet: no watcher has reconciled the ${planner.resource.kind}`]),
      ...(observedGeneration === undefined || observedGeneration < generation
        ? [`status.observedGeneration is ${observedGeneration ?? 'absent'}, metadata.generation is ${generation}`]
        : []),
      ...nextNotes(kind, input),
      ...terminatingNotes(input),
      ...around.notes,
    ],
  };
}

function summaryOf<Owner extends Workload>(
  kind: Pick<WorkloadKind<Owner>, 'replicas' | 'rollOut' | 'countsOf'>,
  owner: Owner,
): string {
  const replicas = kind.replicas(owner);
  if (owner.status === undefined) return `no status yet; ${replicas} pods are wanted`;
  const { revision = '', before = revision, updated, ...counts } = podCountsOf(kind, owner);
  const available = `${counts.available} of ${replicas} available`;
  const undo = undoIn(kind, owner);
  if (undo) {
    const goesBack = updated > 0 ? `${updated} of ${replicas} pods have yet to go back` : 'all pods have gone back';
    return `undo of ${revision}, back to ${undo.to}: ${goesBack}, ${available}`;
  }
  const revisions = revision === before ? revision : `${before} -> ${revision}`;
  const wanted = Math.max(kind.rollOut.wanted(owner), 0);
  return `${revisions || 'no revision yet'}: ${updated} of ${wanted} pods updated, ${available}`;
}

/** Failures of the watcher's writes, which the planner cannot know. */
function failuresIn(
  { conditions }: Pick<WorkloadKind<never>, 'conditions'>,
  { status }: Workload,
): Pick<FleetInput<unknown>, 'failures'> {
  const message = (type: string | undefined) =>
    status?.conditions?.find((condition) => condition.type === type && condition.status === 'True')?.message;
  const scale = message(conditions?.failedScale);
  const update = message(conditions?.failedUpdate);
  if (scale === undefined && update === undefined) return {};
  return { failures: { ...(scale !== undefined && { scale }), ...(update !== undefined && { update }) } };
}

/** The permit that the operation has granted, as far as it can be derived from outside. */
function permitIn({ status }: Workload, operation: ExplainedOperation): Pick<FleetInput<unknown>, 'permit' | 'engine'> {
  const { waitingFor, updateRevision } = status ?? {};
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
  situation: FleetSituation | undefined,
): readonly ExplainedWait[] {
  const others = waits.filter(({ reason }) => reason !== told?.reason);
  const planned = others.map((wait): ExplainedWait => {
    const since = situation && sinceOf(wait, situation);
    return { ...wait, ...(since !== undefined && { since }), from: 'planner' };
  });
  return told === undefined ? planned : [{ ...told, from: 'status' }, ...planned];
}

/** Since when these pods have been unavailable, at the earliest; undefined where the wait is not for pods. */
function sinceOf({ blockedBy }: Wait, { scene }: FleetSituation): string | undefined {
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
function stepsOf({ scene, refresh }: FleetSituation, play: Play | undefined): readonly ExplainedStep[] {
  const played = new Map(play?.updated.map((pod, rank) => [pod.pod, { ...pod, rank }]));
  const deleted = new Map(play?.deleted.map(({ pod, because }) => [pod, because]));
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
    if (pod.isTerminating) return about(2, 'terminating', '');
    if (pod.isSpecified) return about(2, 'to be deleted', '');
    if (pod.state && !['Normal', 'Updated', 'PreparingNormal'].includes(pod.state))
      return about(3, pod.state, 'held by a lifecycle hook, or in transition');
    const { path, batch, rank = 0 } = played.get(pod.name) ?? {};
    const down = pod.isAvailable
      ? ''
      : joinedDetails(`unavailable (since ${downSince(pod) ?? 'unknown'})`, podTrouble(pod.pod));
    const deletion = deleted.get(pod.name);
    if (deletion) return about(800_000, 'to be deleted', joinedDetails(deletedTexts[deletion], down));
    if (path && batch !== undefined)
      return about(
        100 + rank,
        `waits, batch ${batch}`,
        joinedDetails(scene.isUndo ? `back ${pathText(path)}` : pathText(path), down),
      );
    const { resizing, fileSystemPending } = volumesOf(scene, pod);
    if (resizing.length > 0) return about(20, 'volumes are expanded', joinedDetails(resizing.join(', '), down));
    if (isUpToDate(scene, pod)) {
      if (!pod.isAvailable) return about(50, scene.isUndo ? 'gone back' : 'updated', down);
      const pending = fileSystemPending.map((claim) => `${claim}: file system not expanded`).join(', ');
      return about(1_000_000, 'done', pending);
    }
    return about(900_000, 'kept', joinedDetails(path?.kind === 'kept' ? keptTexts[path.because] : '', down));
  });
  return lines.toSorted((left, right) => left.order - right.order).map(({ step }) => step);
}

const keptTexts: Readonly<Record<KeptReason, string>> = {
  Arrived: '',
  OnDelete: 'OnDelete',
  NotSelected: 'its node is not selected',
  Partition: 'by the partition',
  Skipped: 'by an operator',
  UnderWay: '',
};

function pathText(path: PodPath): string {
  switch (path.kind) {
    case 'expand':
      return `expand ${path.claims.join(', ')}`;
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
function nextNotes<Owner extends Workload, Input extends FleetInput<Owner>>(
  kind: WorkloadKind<Owner, Input>,
  input: Input,
): readonly string[] {
  const choice = kind.planner.chooseBatch(input);
  if (choice.kind !== 'pods') return [];
  const pods = podsOf(choice.batch);
  const names = pods.slice(0, mostNamed).map(({ name, how }) => `${name} (${howTexts[how]})`);
  const more = pods.length - names.length;
  const what = undoIn(kind, input.owner) ? 'next to go back' : 'next to be updated';
  return [`${what}: ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`];
}

const mostNamed = 10;
const howTexts = { inPlace: 'in place', recreate: 'recreated' } as const;

function terminatingNotes({ pods, nowMs }: FleetInput<unknown>): readonly string[] {
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

function commandsFor<Owner extends Workload>(
  kind: Pick<WorkloadKind<Owner>, 'versions' | 'shortNames' | 'olderStrategy' | 'countsOf' | 'rollOut'>,
  owner: Owner,
  waits: readonly ExplainedWait[],
  { operation, means, readAs, canUndo }: Around & { readonly canUndo: boolean },
): readonly HelpfulCommand[] {
  const { namespace, name } = owner.metadata;
  const undo = undoIn(kind, owner);
  const [stored] = kind.versions;
  const word = kind.shortNames[0] ?? `${stored.plural}.${stored.group}`;
  const signal = (command: Parameters<typeof signalCommand>[1], effect: string, target?: string): HelpfulCommand => ({
    command: signalCommand(operation.workflowId, command, {
      engine: means.engine,
      ...(target !== undefined && { target }),
    }),
    effect,
  });
  // The API server silently drops fields of another version.
  const patch = (rollingUpdate: JsonObject, effect: string): HelpfulCommand => {
    const isStored = readAs.version === stored.version;
    const type = isStored ? word : `${readAs.plural}.${readAs.version}.${readAs.group}`;
    const older = isStored ? undefined : kind.olderStrategy?.(rollingUpdate);
    const body = { spec: { updateStrategy: older ?? { rollingUpdate } } };
    return {
      command: `kubectl -n ${namespace} patch ${type} ${name} --type=merge -p '${JSON.stringify(body)}'`,
      effect,
    };
  };
  // a signal does not reach a run that has ended, as of an undo that is complete, or that was aborted
  const annotate = (command: Parameters<typeof signalCommand>[1], effect: string): HelpfulCommand => ({
    command: `kubectl -n ${namespace} annotate ${word} ${name} ${windlassAnnotation.command}=${command}`,
    effect,
  });
  const endsUndo = annotate('resume', 'ends the undo: the update begins again');
  const reasons = waits.map(({ reason }) => reason);
  const isPaused = reasons.includes('PausedByOperator') || ordersOf(owner)?.paused !== undefined;
  const isAborted = reasons.includes('Aborted');
  const forWaits = waits.flatMap((wait): readonly HelpfulCommand[] => {
    const named = (kindOf: 'pod' | 'node') =>
      wait.blockedBy.find((blocker) => blocker.startsWith(`${kindOf}/`))?.slice(kindOf.length + 1);
    const [pod, node] = [named('pod'), named('node')];
    const look =
      pod === undefined
        ? []
        : [{ command: `kubectl -n ${namespace} describe pod ${pod}`, effect: `shows why ${pod} is not ready` }];
    const logs =
      pod === undefined
        ? []
        : [{ command: `kubectl -n ${namespace} logs ${pod} --all-containers`, effect: `shows the logs of ${pod}` }];
    const replace =
      pod === undefined
        ? []
        : [
            {
              command: `kubectl -n ${namespace} delete pod ${pod}`,
              effect: `replaces ${pod}, where it cannot come up`,
            },
          ];
    const skip = pod === undefined ? [] : [signal('skip', `skips ${pod}`, pod)];
    switch (wait.reason as KnownReason) {
      case 'Paused':
        return [patch({ paused: false }, 'continues')];
      case 'PausedByOperator':
        return [isAborted ? annotate('resume', 'continues') : signal('resume', 'continues')];
      case 'PartitionReached':
        return [patch({ partition: 0 }, 'updates the remaining pods')];
      case 'BudgetSpent':
      case 'NotReady':
      case 'BatchNotReady':
      case 'SurgeSpent':
      case 'FailedPod':
        return [...look, ...logs];
      case 'NodeNotSelected':
        return node === undefined
          ? []
          : [{ command: `kubectl get node ${node} --show-labels`, effect: 'shows its labels' }];
      case 'NodeDoesNotFit':
        return node === undefined ? [] : [{ command: `kubectl describe node ${node}`, effect: 'shows its taints' }];
      case 'OrdinalNotAvailable':
        return [...look, ...logs, ...(asksForNothing(wait) ? [] : replace)];
      case 'BudgetRoundsToZero':
        return [patch({ maxUnavailable: 1 }, 'updates one pod at a time')];
      case 'ContainersNotSwapped':
      case 'NotScheduled':
      case 'Terminating':
      case 'PodTerminating':
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
            command: `kubectl -n ${namespace} annotate ${word} ${name} ${windlassAnnotation.prefetch}-`,
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
    !isAborted && mayRun(operation) && (operation.kind === 'found' || isUpdating(kind, owner) || undo !== undefined);
  const steering = isRolling
    ? [
        ...(isPaused ? [] : [signal('pause', 'disrupts no further pod')]),
        signal('abort', 'stops the roll-out where it is'),
        ...(undo === undefined && canUndo ? [signal('undo', 'returns updated pods to the previous revision')] : []),
        ...(undo && !isPaused ? [endsUndo] : []),
        {
          command: `kubectl -n ${namespace} annotate ${word} ${name} windlass.io/command=pause`,
          effect: 'the same without permission to signal workflows; other commands likewise',
        },
      ]
    : [];
  const goesBack = isAborted && canUndo ? [annotate('undo', 'returns updated pods to the previous revision')] : [];
  return distinct([...forWaits, ...goesBack, ...steering]);
}

/** Whether the roll-out would not refuse an undo. */
function isUndoable(situation: FleetSituation): boolean {
  return rollOutFacts(situation).previous !== undefined;
}

/** Waits that commands are known for. Each kind has some of them. */
type KnownReason =
  | FleetWaitReason
  | keyof typeof podWaits
  | DaemonSetWaitReason
  | 'BudgetRoundsToZero'
  | 'OrdinalNotAvailable';

/** The undo that an operator has ordered of the present update. */
function undoIn<Owner extends Workload>(kind: Pick<WorkloadKind<Owner>, 'countsOf'>, owner: Owner) {
  return ordersFor(ordersOf(owner), podCountsOf(kind, owner).revision ?? '')?.undo;
}

function isUpdating<Owner extends Workload>(
  kind: Pick<WorkloadKind<Owner>, 'countsOf' | 'rollOut'>,
  owner: Owner,
): boolean {
  const { revision, before, updated } = podCountsOf(kind, owner);
  return before === undefined ? updated < kind.rollOut.wanted(owner) : revision !== before;
}
