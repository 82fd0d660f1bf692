import { convertRecreateRequest } from '../../api/container-recreate-request/convert.ts';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import type { RecreateWaitReason } from '../../api/container-recreate-request/texts.ts';
import {
  type ContainerRecreateRequest,
  crr,
  crrV1alpha1,
  isCompleted,
} from '../../api/container-recreate-request/types.ts';
import { findCondition } from '../../api/core/conditions.ts';
import { apiVersionOf } from '../../api/core/meta.ts';
import { crrLabel } from '../../api/core/well-known.ts';
import { attempt } from '../failure.ts';
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
  const operation = podUid === undefined ? undefined : await askEngine(restartContainersId(podUid), means);
  const isOpen = !isCompleted(request);
  return {
    kind: crr.kind,
    namespace,
    name,
    summary: summaryOf(request),
    waits: isOpen && wait ? [{ ...wait, from: 'status' }] : [],
    steps: request.spec.containers.map((container) => stepOf(request, container.name)),
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
    ],
  };
}

function summaryOf({ spec, status }: ContainerRecreateRequest): string {
  const states = status?.containerRecreateStates ?? [];
  const done = states.filter(({ phase }) => phase === 'Succeeded').length;
  const end = [findCondition(status?.conditions, 'Complete'), findCondition(status?.conditions, 'Failed')].find(
    (condition) => condition?.status === 'True',
  );
  const phase = status?.phase || 'not started';
  const why = end ? ` (${end.type}: ${end.reason}${status?.message ? `, ${status.message}` : ''})` : '';
  return `${phase}${why}, ${done} of ${spec.containers.length} containers of pod ${spec.podName} restarted`;
}

function stepOf({ status, spec }: ContainerRecreateRequest, container: string): ExplainedStep {
  const step = `restart ${container}@${spec.podName}`;
  const state = status?.containerRecreateStates?.find(({ name }) => name === container);
  if (state === undefined) return { step, state: status?.phase === 'Completed' ? 'Left out' : 'Pending', detail: '' };
  const stopped = state.phase === 'Recreating' && state.isKilled ? 'stopped; waiting for the new instance' : '';
  return { step, state: state.phase, detail: state.message || stopped };
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
    ...(wait?.reason === 'NodeSilent'
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
