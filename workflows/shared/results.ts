/** All activities that workflows call, with the shapes of their results: the only list of activities. */

import { ApplicationFailure } from '@temporalio/workflow';
import type { ContainerInstance, NodeActivities, StopResult } from '../../activities/cri/contract.ts';
import type { PullActivities } from '../../activities/cri/pull-contract.ts';
import type { FleetActivities } from '../../activities/fleet/contract.ts';
import type { DrainActivities } from '../../activities/kube/drain.ts';
import type { EnvironmentActivities } from '../../activities/kube/environment.ts';
import type { NodeImageActivities } from '../../activities/kube/node-images.ts';
import type { OperatorEventActivities } from '../../activities/kube/operator-events.ts';
import type { PullJobActivities } from '../../activities/kube/pull-jobs.ts';
import type { RequestActivities } from '../../activities/kube/requests.ts';
import type { SidecarActivities } from '../../activities/kube/sidecars.ts';
import type { NextRunActivities } from '../../activities/temporal/next-run.ts';
import type { SignalActivities } from '../../activities/temporal/signals.ts';
import type { ObjectEnd } from '../../api/core/conditions.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import type { CommandAnswer } from '../../api/engine/operations.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import type { Order, RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { TerminationStatus } from '../../api/job-sidecar-termination.ts';
import type { Wait } from '../../plan/decision.ts';
import type { BatchPod, PodBatch, PodOutcome } from '../../plan/fleet/batch.ts';
import type { Answer, BatchResult } from '../../plan/fleet/permit.ts';
import type { OpenTag } from '../../plan/images/pull-images.ts';
import type { NodeOutcome, NodesAnswer, PullEnd, Wave } from '../../plan/images/pull-waves.ts';
import type { AnswerOrder, InFlight } from '../../plan/permits/in-flight.ts';
import type { ContainerBefore, RecreateOrder } from '../../plan/recreate/model.ts';
import type { StaleInstance } from '../../plan/refresh-environment.ts';
import type { SwapSlot } from '../../plan/sidecar-swap/model.ts';
import type { SidecarStep } from '../../plan/terminate-sidecars.ts';
import {
  byKind,
  flag,
  listOf,
  moment,
  number,
  object,
  oneOf,
  optional,
  type Shape,
  text,
  time,
  unread,
} from './shape.ts';

/** All activities by the name under which workers register them. */
export type Activities = RequestActivities &
  DrainActivities &
  EnvironmentActivities &
  OperatorEventActivities &
  SidecarActivities &
  NodeImageActivities &
  PullJobActivities &
  SignalActivities &
  NextRunActivities &
  FleetActivities &
  NodeActivities &
  PullActivities;

export type ActivityName = keyof Activities;

/** The result of an activity. */
export type ResultOf<Name extends ActivityName> = Awaited<ReturnType<Activities[Name]>>;

const node: Shape<NodeRef> = object<NodeRef>({ name: text, uid: text });

const wait: Shape<Wait> = object<Wait>({ reason: text, blockedBy: listOf(text), blockedCount: number, unblock: text });

const waitingFor: Shape<WaitingFor> = object<WaitingFor>({
  reason: text,
  blockedBy: listOf(text),
  blockedCount: number,
  since: text,
  unblock: text,
});

const order: Shape<RecreateOrder> = object<RecreateOrder>({
  request: text,
  pod: text,
  ordered: flag,
  force: flag,
  failurePolicy: oneOf('Fail', 'Ignore'),
  graceSeconds: number,
  minStartedSeconds: number,
  unreadyGraceSeconds: optional(number),
  neverRestarts: optional(flag),
  stopOnly: optional(flag),
});

const containerBefore: Shape<ContainerBefore> = object<ContainerBefore>({
  name: text,
  phase: oneOf('Pending', 'Recreating', 'Succeeded', 'Failed'),
  isKilled: flag,
  message: optional(text),
  originalId: text,
  originalRestartCount: number,
  targetId: optional(text),
  skippedBy: optional(text),
});

const objectEnd: Shape<ObjectEnd> = object<ObjectEnd>({
  type: oneOf('Complete', 'Failed'),
  reason: text,
  message: text,
});

const instance: Shape<ContainerInstance> = object<ContainerInstance>({
  name: text,
  id: text,
  state: oneOf('created', 'running', 'exited', 'unknown'),
  restartCount: number,
  startedAt: optional(text),
});

const preStop = optional(oneOf('ran', 'failed', 'timedOut'));

const stopResult: Shape<StopResult> = byKind<StopResult>({
  stopped: { preStop },
  alreadyGone: {},
  noRuntime: { message: text },
  failed: { message: text, preStop },
});

const orderFields = { by: text, at: text } as const;

/** The orders of operators, as an activity tells them. */
const orders: Shape<RollOutOrders> = object<RollOutOrders>({
  version: number,
  revision: text,
  paused: optional(object<Order>(orderFields)),
  aborted: optional(object<Order>(orderFields)),
  undo: optional(object<NonNullable<RollOutOrders['undo']>>({ ...orderFields, to: text })),
  skip: optional(listOf(text)),
  applied: optional(listOf(text)),
});

const staleInstance: Shape<StaleInstance> = object<StaleInstance>({ name: text, runtime: text, containerId: text });

const step: Shape<SidecarStep> = object<SidecarStep>({
  kind: oneOf('swapImages', 'requestStop', 'finishPod', 'withdrawRequest'),
  containers: listOf(text),
});

const terminationStatus: Shape<TerminationStatus> = object<TerminationStatus>({
  waitingFor: optional(waitingFor),
  skipped: optional(listOf(text)),
  abortedBy: optional(text),
});

/** Workers of earlier releases answer nothing. */
const steering: Shape<ResultOf<'steerPullJob'>> = optional(object<{ readonly refused: string }>({ refused: text }));

const openTag: Shape<OpenTag> = object<OpenTag>({
  name: text,
  tag: text,
  version: number,
  createdAt: time,
  always: flag,
  timeoutSeconds: number,
  backoffLimit: number,
  deadlineSeconds: optional(number),
  startTime: optional(time),
});

const how = oneOf('inPlace', 'recreate');

/** The pods of a batch: what an activity answers, and what a run leaves to the next one. */
export const podBatch: Shape<PodBatch> = object<PodBatch>({
  revision: text,
  namespace: text,
  how,
  containers: optional(listOf(listOf(text))),
  pods: listOf(
    object<BatchPod>({
      namespace: optional(text),
      name: text,
      uid: text,
      how: optional(how),
      containers: optional(listOf(listOf(text))),
    }),
  ),
});

/** A batch in flight, as one run leaves it to the next. */
export function inFlightOf<Batch>(batch: Shape<Batch>): Shape<InFlight<Batch>> {
  return object<InFlight<Batch>>({
    ...{ number, batch, startedAtMs: moment },
    ...{ term: optional(text), namedAgainAtMs: optional(moment) },
  });
}

const podOutcome: Shape<PodOutcome> = object<PodOutcome>({
  pod: text,
  how,
  at: optional(time),
  ms: optional(number),
  why: optional(text),
});

const answerOrder = optional(object<AnswerOrder>({ term: text, nth: number }));

const told = {
  facts: optional(
    object<RollOutFacts>({
      generation: number,
      revision: text,
      previous: optional(text),
      previousDoubt: optional(text),
      noUndo: optional(text),
      replicas: number,
      orders: optional(orders),
    }),
  ),
  order: answerOrder,
} as const;

const answer: Shape<Answer> = byKind<Answer>({
  pods: { batches: listOf(podBatch), more: flag, of: number, updated: number, ...told },
  nothing: told,
  wait: { waitingFor, ...told },
  done: { summary: text, ...told },
  aborted: { summary: text, isIdle: flag, ...told },
  withdrawn: told,
});

/** The nodes of a wave: what an activity answers, and what a run leaves to the next one. */
export const wave: Shape<Wave> = listOf(text);

const pullEnd: Shape<PullEnd> = object<PullEnd>({ failed: flag, reason: text, message: text });

const toldOfNodes = {
  image: optional(text),
  of: optional(number),
  ended: optional(number),
  order: answerOrder,
} as const;

const nodesAnswer: Shape<NodesAnswer> = byKind<NodesAnswer>({
  nodes: { waves: listOf(wave), more: flag, ...toldOfNodes },
  nothing: toldOfNodes,
  wait: { waitingFor, ...toldOfNodes },
  done: { end: pullEnd, ...toldOfNodes },
  withdrawn: toldOfNodes,
});

const nodeOutcome: Shape<NodeOutcome> = object<NodeOutcome>({
  node: text,
  at: optional(time),
  ms: optional(number),
  why: optional(text),
});

const swapSlot: Shape<SwapSlot> = object<SwapSlot>({ container: text, image: text });

/** The compiler requires a row for each activity, and a test checks that every worker registers those listed here. */
export const activityResults: { readonly [Name in ActivityName]: Shape<ResultOf<Name>> } = {
  lookAtRequest: byKind<ResultOf<'lookAtRequest'>>({
    gone: {},
    finished: { end: optional(objectEnd) },
    open: {
      phase: oneOf('', 'Pending', 'Recreating'),
      createdAt: time,
      deadlineSeconds: optional(number),
      runtime: text,
      podGone: flag,
      node: optional(node),
      order,
      waitingFor: optional(waitingFor),
      containers: listOf(containerBefore),
      more: flag,
    },
  }),
  reportRequest: unread,
  announceCommand: unread,
  recordTarget: object<ResultOf<'recordTarget'>>({ containerId: text }),
  takeOutOfService: object<ResultOf<'takeOutOfService'>>({ since: time, isHeld: flag }),
  awaitDrained: unread,

  lookAtEnvironment: byKind<ResultOf<'lookAtEnvironment'>>({
    gone: { node: optional(node) },
    seen: { instances: listOf(staleInstance), more: flag, node: optional(node) },
  }),

  lookAtSidecars: object<ResultOf<'lookAtSidecars'>>({
    decision: byKind<ResultOf<'lookAtSidecars'>['decision']>({
      done: {},
      act: { step },
      wait: { waitingFor: wait },
      tryAgain: { waitingFor: wait, step, byItself: flag },
    }),
    status: terminationStatus,
    sidecars: optional(listOf(text)),
  }),
  endSidecars: unread,
  reportSidecars: unread,
  announceOnPod: unread,

  lookAtNodeImage: byKind<ResultOf<'lookAtNodeImage'>>({
    gone: {},
    open: {
      resourceVersion: text,
      generation: number,
      waitingFor: optional(waitingFor),
      stale: flag,
      tags: listOf(openTag),
      more: flag,
    },
  }),
  reportPulls: unread,

  steerPullJob: steering,
  announceSteering: unread,

  announceRollOutCommand: unread,
  'fleet.v1.next': answer,
  'fleet.v1.carryOutBatch': object<BatchResult>({ summary: text, pods: listOf(podOutcome), next: answer }),
  'fleet.v1.applyCommand': object<ResultOf<'fleet.v1.applyCommand'>>({
    by: text,
    answer: object<CommandAnswer>({
      refused: optional(text),
      target: optional(text),
      note: optional(text),
      isWarning: optional(flag),
    }),
    next: optional(answer),
  }),
  'fleet.v1.nextNodes': nodesAnswer,
  'fleet.v1.awaitNodes': object<ResultOf<'fleet.v1.awaitNodes'>>({ nodes: listOf(nodeOutcome), next: nodesAnswer }),
  'fleet.v1.lookAtSwap': byKind<ResultOf<'fleet.v1.lookAtSwap'>>({
    gone: { why: text },
    done: {},
    open: {
      stage: oneOf('begin', 'starting', 'reset', 'resetting'),
      incoming: listOf(swapSlot),
      outgoing: listOf(swapSlot),
      target: text,
      begunAt: optional(time),
      deadlineMs: optional(number),
      backOffUntil: optional(time),
    },
  }),
  'fleet.v1.swapStep': byKind<ResultOf<'fleet.v1.swapStep'>>({
    written: { at: time },
    nothing: { why: text },
    blocked: { waitingFor },
  }),
  'fleet.v1.awaitSwap': byKind<ResultOf<'fleet.v1.awaitSwap'>>({
    reached: {},
    changed: { why: text },
    blocked: { waitingFor },
  }),

  identifySignal: text,
  startNextRun: unread,

  'node.v1.lookAtContainers': byKind<ResultOf<'node.v1.lookAtContainers'>>({
    seen: { instances: listOf(instance) },
    noRuntime: { message: text },
  }),
  'node.v1.stopContainer': stopResult,
  'node.v1.refreshContainer': stopResult,
  'node.v1.awaitContainer': byKind<ResultOf<'node.v1.awaitContainer'>>({
    ready: { containerId: text, restartCount: number },
    changed: { isYoung: flag, trouble: optional(text) },
    podGone: {},
  }),
  'node.v1.pullImage': byKind<ResultOf<'node.v1.pullImage'>>({
    succeeded: { imageId: text, pulled: flag },
    failed: { failure: unread, final: flag, message: text },
    superseded: {},
  }),
};

/** The validated result of an activity. A value of another shape is a rejection, and is not used. */
export function checkedResult<Name extends ActivityName>(name: Name, value: unknown): ResultOf<Name> {
  const problem = activityResults[name](value, 'result');
  if (problem === undefined) return value as ResultOf<Name>;
  throw ApplicationFailure.nonRetryable(`Cannot use the result of activity "${name}": ${problem}`, 'Invalid');
}
