// The roll-out of a SidecarSet to running pods, as `kubectl kruise explain` shows it.

import type { Pod } from '../../api/core/pod.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { isEngineReason } from '../../api/engine/engine-trouble.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import type { SidecarSetWaitReason } from '../../api/sidecar-set/texts.ts';
import { isNotUpdate, type SidecarSet } from '../../api/sidecar-set/types.ts';
import { podsOf } from '../../plan/fleet/batch.ts';
import { question } from '../../plan/fleet/permit.ts';
import { ordersFor } from '../../plan/fleet/roll-out-orders.ts';
import { joinedDetails, podTrouble } from '../../plan/pod-trouble.ts';
import type { ClassifiedPod } from '../../plan/sidecar-set/classify.ts';
import type { SidecarSetInput } from '../../plan/sidecar-set/input.ts';
import { chooseSidecarBatch, planSidecarSet } from '../../plan/sidecar-set/planner.ts';
import { nameOf } from '../../plan/sidecar-set/scene.ts';
import { allWaits, type SidecarSetSituation } from '../../plan/sidecar-set/waits.ts';
import { lookAtSidecarSet } from '../sidecar-set-look.ts';
import type {
  ExplainedOperation,
  ExplainedStep,
  ExplainedWait,
  ExplainMeans,
  Explanation,
  HelpfulCommand,
} from './explanation.ts';
import { askEngine, distinct, mayRun, signalCommand, stuckCommands } from './operations.ts';
import { type OpenSwapStanding, swapCommands, swapsIn, swapText, swapWaitsOf } from './sidecar-swaps.ts';

/** What is said of the roll-out. */
export type ExplainedRollOut = Pick<Explanation, 'waits' | 'steps' | 'operation' | 'commands' | 'notes'> & {
  /** Of an undo: how far it is. */
  readonly headline?: string;
};

/** What the planner says about the running pods of a SidecarSet, and what the status says. */
export async function explainSidecarRollOut(set: SidecarSet, means: ExplainMeans): Promise<ExplainedRollOut> {
  if (isNotUpdate(set.spec.updateStrategy)) {
    const notes = ['updateStrategy.type is NotUpdate: running pods are not updated'];
    return { waits: [], steps: [], commands: [], notes };
  }
  const { input, notes } = await lookAtSidecarSet(set, means);
  const operation = await askEngine(rollOutId(set.metadata), means);
  const { situation } = planSidecarSet({ ...input, ...permitIn(input, operation) });
  const swaps = situation ? swapsIn(situation.scene, means.nowMs) : new Map<Pod, OpenSwapStanding>();
  const waits = situation ? [...waitsOf(set, situation), ...swapWaitsOf(swaps)] : [];
  return {
    waits,
    steps: situation ? stepsOf(situation, swaps) : [],
    operation,
    commands: distinct([...commandsFor(set, waits, { operation, means }), ...swapCommands(swaps, means)]),
    notes: [...nextNotes(input, situation), ...notes],
    ...(situation?.scene.isUndo && { headline: undoText(situation) }),
  };
}

function undoText({ scene, update }: SidecarSetSituation): string {
  const { revisions, target } = scene;
  const left = update.demand.line.length + update.inProgress.length;
  const goesBack = left > 0 ? `${left} pods have yet to go back` : 'all pods have gone back';
  return `undo of ${revisions.latest}, back to ${target.revision}: ${goesBack}`;
}

/** The permit that the operation has granted, as far as it can be derived from outside. */
function permitIn(input: SidecarSetInput, operation: ExplainedOperation): Pick<SidecarSetInput, 'permit' | 'engine'> {
  const { waitingFor } = input.owner.status ?? {};
  if (waitingFor && isEngineReason(waitingFor.reason)) {
    return { engine: { ...waitingFor, reason: waitingFor.reason } };
  }
  const isOver = operation.kind === 'none' || (operation.kind === 'found' && operation.endedAt !== undefined);
  if (isOver || waitingFor?.reason === 'NoPermit') return {};
  return { permit: question };
}

/** The wait of the status comes first: it may know more than can be seen from here. */
function waitsOf({ status }: SidecarSet, situation: SidecarSetSituation): readonly ExplainedWait[] {
  const told = status?.waitingFor;
  const planned = allWaits(situation)
    .filter(({ reason }) => reason !== told?.reason)
    .map((wait): ExplainedWait => ({ ...wait, from: 'planner' }));
  return told === undefined ? planned : [{ ...told, from: 'status' }, ...planned];
}

/** Pods in progress first, then those that wait in their order, then those that cannot be updated, then the others. */
function stepsOf(
  { scene, update }: SidecarSetSituation,
  swaps: ReadonlyMap<Pod, OpenSwapStanding>,
): readonly ExplainedStep[] {
  const places = new Map(update.demand.line.map(({ pod }, index) => [pod, index]));
  const kept = new Set(update.demand.kept.map(({ pod }) => pod));
  const lines = scene.pods.map((found) => {
    const swap = swaps.get(found.pod)?.look;
    const isBegun = swap !== undefined && swap.stage !== 'begin';
    const [order, state, detail] = isBegun
      ? ([0, 'swapping', joinedDetails(swapText(swap), podTrouble(found.pod))] as const)
      : lineOf(found, { isUndo: scene.isUndo, place: places.get(found.pod), isKept: kept.has(found.pod) });
    return { order, step: { step: nameOf(found.pod), state, detail } };
  });
  return lines.toSorted((left, right) => left.order - right.order).map(({ step }) => step);
}

function lineOf(
  { pod, place, isConsistent, isSidecarReady }: ClassifiedPod,
  {
    place: index = 0,
    isKept,
    isUndo,
  }: { readonly place: number | undefined; readonly isKept: boolean; readonly isUndo: boolean },
): readonly [order: number, state: string, detail: string] {
  const trouble = isConsistent && isSidecarReady ? undefined : podTrouble(pod);
  const down = isSidecarReady ? '' : joinedDetails('not ready', trouble);
  switch (place.kind) {
    case 'updated':
      if (!isConsistent)
        return [
          0,
          isUndo ? 'going back' : 'updating',
          joinedDetails('the kubelet has not started the new image', trouble),
        ];
      return isSidecarReady ? [order.last, 'done', ''] : [1, isUndo ? 'gone back' : 'updated', down];
    case 'inProgress':
      return [2, 'waits', joinedDetails(`an earlier update is not finished: ${place.containers.join(', ')}`, trouble)];
    case 'waiting':
      return isKept ? [order.kept, 'kept', 'by the partition'] : [3 + index, `waits, place ${index + 1}`, down];
    case 'notUpgradable': {
      const field = place.path === undefined ? 'more than images differs' : `${place.path} differs`;
      return [order.impossible, 'not upgradable', `${field}: only a new pod gets it`];
    }
    case 'notSelected':
      return [order.kept, 'kept', 'not selected by updateStrategy.selector, skipped, or created after an undo'];
  }
}

const order = { impossible: 900_000, kept: 950_000, last: 1_000_000 } as const;

/** Which pods the roll-out updates next, once it has a permit. */
function nextNotes(input: SidecarSetInput, situation: SidecarSetSituation | undefined): readonly string[] {
  const choice = chooseSidecarBatch(input);
  if (choice.kind !== 'pods') return [];
  const pods = podsOf(choice.batch);
  const names = pods.slice(0, mostNamed).map(({ namespace, name }) => `${namespace}/${name}`);
  const more = pods.length - names.length;
  const what = situation?.scene.isUndo ? 'next to go back' : 'next to be updated';
  return [`${what}: ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`];
}

const mostNamed = 10;

function commandsFor(
  set: SidecarSet,
  waits: readonly ExplainedWait[],
  { operation, means }: { readonly operation: ExplainedOperation; readonly means: Pick<ExplainMeans, 'engine'> },
): readonly HelpfulCommand[] {
  const { metadata, status } = set;
  const { name } = metadata;
  const { undo, paused, aborted } = ordersFor(ordersOf(set), status?.latestRevision ?? '') ?? {};
  const signal = (command: Parameters<typeof signalCommand>[1], effect: string, target?: string): HelpfulCommand => ({
    command: signalCommand(operation.workflowId, command, {
      engine: means.engine,
      ...(target !== undefined && { target }),
    }),
    effect,
  });
  // a signal does not reach a run that has ended, as of an undo that is complete, or that was aborted
  const annotate = (command: Parameters<typeof signalCommand>[1], effect: string): HelpfulCommand => ({
    command: `kubectl annotate sidecarset ${name} ${windlassAnnotation.command}=${command}`,
    effect,
  });
  const endsUndo = annotate('resume', 'ends the undo: the update begins again');
  const patch = (updateStrategy: object, effect: string): HelpfulCommand => ({
    command: `kubectl patch sidecarset ${name} --type=merge -p '${JSON.stringify({ spec: { updateStrategy } })}'`,
    effect,
  });
  const forWaits = waits.flatMap((wait): readonly HelpfulCommand[] => {
    const pod = wait.blockedBy.find((blocker) => blocker.startsWith('pod/'))?.slice('pod/'.length);
    const [namespace = '', podName = ''] = pod?.split('/') ?? [];
    const look = pod
      ? [{ command: `kubectl -n ${namespace} describe pod ${podName}`, effect: `shows the events of ${podName}` }]
      : [];
    switch (wait.reason as SidecarSetWaitReason) {
      case 'Paused':
        return [patch({ paused: false }, 'continues')];
      case 'PartitionReached':
        return [patch({ partition: 0 }, 'updates the remaining pods')];
      case 'BudgetRoundsToZero':
        return [patch({ maxUnavailable: 1 }, 'updates one pod at a time')];
      case 'PausedByOperator':
        return [aborted ? annotate('resume', 'continues') : signal('resume', 'continues')];
      case 'Aborted':
        return [annotate('resume', 'continues')];
      case 'Skipped':
        return [annotate('retry', 'continues')];
      case 'Undone':
        return [endsUndo];
      case 'CannotUpdate':
        return [...look, ...(pod ? [signal('skip', `leaves ${pod} out`, pod)] : [])];
      case 'EngineStuck':
        return stuckCommands(operation.workflowId, means);
      default:
        return look;
    }
  });
  const isPaused = paused !== undefined || waits.some(({ reason }) => reason === 'PausedByOperator');
  const isBehind = undo !== undefined || (status?.matchedPods ?? 0) > (status?.updatedPods ?? 0);
  const steering =
    aborted === undefined && mayRun(operation) && (operation.kind === 'found' || isBehind)
      ? [
          ...(isPaused ? [] : [signal('pause', 'updates no further pod')]),
          signal('abort', 'stops the roll-out where it is'),
          ...(undo === undefined
            ? [signal('undo', 'gives updated pods their previous images; new pods get the present content')]
            : []),
          ...(undo && !isPaused ? [endsUndo] : []),
          {
            command: `kubectl annotate sidecarset ${name} ${windlassAnnotation.command}=pause`,
            effect: 'the same without permission to signal workflows; other commands likewise',
          },
        ]
      : [];
  const goesBack = aborted
    ? [annotate('undo', 'gives updated pods their previous images; new pods get the present content')]
    : [];
  return distinct([...forWaits, ...goesBack, ...steering]);
}
