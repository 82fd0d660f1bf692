import { convertRecreateRequest } from '../../api/container-recreate-request/convert.ts';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import type { CompleteReason, RecreateWaitReason } from '../../api/container-recreate-request/texts.ts';
import {
  type ContainerRecreateRequest,
  type ContainerRecreateState,
  crr,
  crrV1alpha1,
  isCompleted,
} from '../../api/container-recreate-request/types.ts';
import { endIn } from '../../api/core/conditions.ts';
import { apiVersionOf } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { crrLabel, kubeResource } from '../../api/core/well-known.ts';
import { containerTrouble, joinedDetails } from '../../plan/pod-trouble.ts';
import { skipperOf } from '../../plan/recreate/status.ts';
import { attempt } from '../failure.ts';
import { readingInto } from '../reads.ts';
import type { ExplainedStep, Explainer, ExplainMeans, Explanation, HelpfulCommand } from './explanation.ts';
import { askEngine, distinct, mayRun, signalCommand, stuckCommands } from './operations.ts';
import { readServed } from './read.ts';

/** ContainerRecreateRequests: the status has everything, and the workflow history says how it came about. */
export const recreateRequestExplainer: Explainer = {
  versions: [crr, crrV1alpha1],
  shortNames: ['crr'],
  explain: async (asked, means) => {
    const found = await attempt(`Cannot read ContainerRecreateRequest "${asked.namespace}/${asked.name}"`, () =>
      readServed(means.kube, asked),
    );
    const { object } = convertRecreateRequest(found, apiVersionOf(crr)) ?? { object: found };
    return await explainRequest(object as unknown as ContainerRecreateRequest, means);
  },
};

async function explainRequest(request: ContainerRecreateRequest, means: ExplainMeans): Promise<Explanation> {
  const { namespace = '', name, labels = {}, generation = 0 } = request.metadata;
  const podUid = labels[crrLabel.podUid];
  const wait = request.status?.waitingFor;
  const operation =
    podUid === undefined
      ? undefined
      : await askEngine(restartContainersId({ namespace, name: request.spec.podName, uid: podUid }), means);
  const isOpen = !isCompleted(request);
  const unread: string[] = [];
  const pod = isOpen && hasStopped(request) ? await readPod(request, means, unread) : undefined;
  return {
    kind: crr.kind,
    namespace,
    name,
    summary: summaryOf(request),
    waits: isOpen && wait ? [{ ...wait, from: 'status' }] : [],
    steps: request.spec.containers.map((container) => stepOf(request, container.name, pod)),
    ...(operation && { operation }),
    commands: isOpen && operation && mayRun(operation) ? commandsFor(request, operation.workflowId, means) : [],
    notes: [
      ...(podUid === undefined
        ? [`it has no label ${crrLabel.podUid}: the webhook has not processed it, so no operation runs`]
        : []),
      ...(isOpen && request.status === undefined ? ['it has no status: no watcher has reconciled it yet'] : []),
      ...(request.status?.observedGeneration !== undefined && request.status.observedGeneration < generation
        ? [`status.observedGeneration is ${request.status.observedGeneration}, metadata.generation is ${generation}`]
        : []),
      ...unread,
    ],
  };
}

function hasStopped({ status }: ContainerRecreateRequest): boolean {
  return status?.containerRecreateStates?.some(({ phase }) => phase === 'Recreating') ?? false;
}

/** The pod that the request is about; undefined when it is gone or cannot be read. */
async function readPod(
  { metadata, spec }: ContainerRecreateRequest,
  { kube }: ExplainMeans,
  notes: string[],
): Promise<Pod | undefined> {
  const ref = { namespace: metadata.namespace ?? '', name: spec.podName };
  const pod = await readingInto(notes)(`pod ${spec.podName}`, undefined, () => kube.get<Pod>(kubeResource.pods, ref));
  return pod?.metadata.uid === metadata.labels?.[crrLabel.podUid] ? pod : undefined;
}

function summaryOf({ spec, status }: ContainerRecreateRequest): string {
  const states = status?.containerRecreateStates ?? [];
  const end = endIn(status?.conditions);
  const areStopped = end?.reason === ('ContainersStopped' satisfies CompleteReason);
  const done = states.filter(({ phase, isKilled }) => phase === 'Succeeded' || (areStopped && isKilled)).length;
  const phase = status?.phase || 'not started';
  const why = end ? ` (${end.type}: ${end.reason}${status?.message ? `, ${status.message}` : ''})` : '';
  const verb = areStopped ? 'stopped' : 'restarted';
  return `${phase}${why}, ${done} of ${spec.containers.length} containers of pod ${spec.podName} ${verb}`;
}

function stepOf(request: ContainerRecreateRequest, container: string, pod: Pod | undefined): ExplainedStep {
  const { status, spec } = request;
  const step = `restart ${container}@${spec.podName}`;
  const state = status?.containerRecreateStates?.find(({ name }) => name === container);
  if (state && skipperOf(state) !== undefined) return { step, state: 'Skipped', detail: state.message ?? '' };
  if (isCompleted(request)) return { step, ...endOf(request, state) };
  if (state === undefined) return { step, state: 'Pending', detail: '' };
  const stopped = state.phase === 'Recreating' && state.isKilled ? `stopped; ${nextInstance(request, state, pod)}` : '';
  return { step, state: state.phase, detail: state.message || stopped };
}

/** The phases of containers stay as they were when the request ended (CRR-13): here it is said what has become of them. */
function endOf(
  { status }: ContainerRecreateRequest,
  state: ContainerRecreateState | undefined,
): Pick<ExplainedStep, 'state' | 'detail'> {
  const { phase, message = '', isKilled = false } = state ?? {};
  if (phase === 'Succeeded' || phase === 'Failed') return { state: phase, detail: message };
  const end = endIn(status?.conditions)?.reason;
  if (end === ('ContainersStopped' satisfies CompleteReason) && isKilled) return { state: 'Stopped', detail: '' };
  const before = `the request ended${end === undefined ? '' : ` (${end})`} before`;
  if (phase === 'Recreating') return { state: 'Not ready', detail: `stopped; ${before} a new instance was ready` };
  return { state: 'Left out', detail: joinedDetails(message, `${before} it was stopped`) };
}

/** What has become of the instance after the one that was stopped. */
function nextInstance(
  { spec }: ContainerRecreateRequest,
  { name, targetContainerID }: ContainerRecreateState,
  pod: Pod | undefined,
): string {
  const trouble = pod && containerTrouble(pod, name);
  if (trouble !== undefined) return trouble;
  const now = pod?.status?.containerStatuses?.find((status) => status.name === name);
  const created = spec.containers.find((container) => container.name === name)?.statusContext?.containerID;
  const isNew = now?.containerID !== created && !now?.containerID?.endsWith(`://${targetContainerID}`);
  if (now?.state?.running === undefined || !isNew) return 'waiting for the new instance';
  return now.ready ? 'the new instance is ready' : 'the new instance runs, and is not ready';
}

function commandsFor(
  request: ContainerRecreateRequest,
  workflowId: string,
  { engine }: ExplainMeans,
): readonly HelpfulCommand[] {
  const { namespace, name } = request.metadata;
  const { podName } = request.spec;
  const wait = request.status?.waitingFor;
  const signal = (command: 'pause' | 'resume' | 'retry' | 'skip' | 'abort', effect: string, target?: string) => ({
    command: signalCommand(workflowId, command, { engine, ...(target !== undefined && { target }) }),
    effect,
  });
  const blocker = wait?.blockedBy[0]?.split('/')[1];
  const container = wait?.blockedBy[0]?.startsWith('container/') ? blocker : undefined;
  const isPaused = wait?.reason === ('Paused' satisfies RecreateWaitReason);
  const logs = {
    command: `kubectl -n ${namespace} logs ${podName} -c ${container}`,
    effect: `shows the logs of ${container}`,
  };
  return distinct([
    ...(wait?.reason === 'Queued' && blocker !== undefined
      ? [
          {
            command: `kubectl kruise -n ${namespace} explain crr/${blocker}`,
            effect: 'explains the request ahead in the queue',
          },
        ]
      : []),
    ...(wait?.reason === 'ContainerNotReady' && container !== undefined ? [logs] : []),
    ...(wait?.reason === 'ContainerNotFound' || wait?.reason === 'PodFinished'
      ? [{ command: `kubectl -n ${namespace} describe pod ${podName}`, effect: 'shows why it does not start' }]
      : []),
    ...(wait?.reason === 'NodeSilent' || wait?.reason === 'EngineNoDaemon'
      ? [
          {
            command: `kubectl describe node ${request.metadata.labels?.[crrLabel.nodeName] ?? ''}`,
            effect: 'shows the state of the node',
          },
        ]
      : []),
    ...(wait?.reason === 'EngineStuck' ? stuckCommands(workflowId, { engine }) : []),
    ...(wait?.reason === 'Denied' || wait?.reason === 'Parked'
      ? [signal('retry', 'retries at once what was refused')]
      : []),
    isPaused ? signal('resume', 'continues') : signal('pause', 'stops no further container'),
    ...(container === undefined ? [] : [signal('skip', `skips ${container}`, container)]),
    signal('abort', 'ends the request; what has not been stopped stays as it is'),
    {
      command: `kubectl -n ${namespace} annotate crr ${name} windlass.io/command=abort`,
      effect: 'the same without permission to signal workflows; other commands likewise',
    },
  ]);
}
