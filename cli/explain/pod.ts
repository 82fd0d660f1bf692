import { launchStatusOf } from '../../api/container-launch-priority.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { sidecarsOf, terminateSidecarsId, terminationStatusOf } from '../../api/job-sidecar-termination.ts';
import type { Explainer, HelpfulCommand } from './explanation.ts';
import { askEngine, distinct, mayRun, signalCommand, steeringCommands, stuckCommands } from './operations.ts';
import { readObject, waitIn } from './read.ts';

/** Pods, as far as their containers start in an order, or their sidecars are terminated: both are said in annotations. */
export const podExplainer: Explainer = {
  versions: [kubeResource.pods],
  shortNames: ['po'],
  explain: async (asked, means) => {
    const pod = await readObject<Pod>(means.kube, asked);
    const { namespace = '', name } = pod.metadata;
    const termination = terminationStatusOf(pod);
    const waits = [...waitIn(launchStatusOf(pod)), ...waitIn(termination)];
    const sidecars = sidecarsOf(pod).map((sidecar) => sidecar.name);
    const operation = sidecars.length > 0 ? await askEngine(terminateSidecarsId(pod.metadata), means) : undefined;
    const isSteered =
      operation !== undefined &&
      mayRun(operation) &&
      (operation.kind === 'found' || termination.waitingFor !== undefined);
    const effects = {
      pause: 'stops no further sidecar',
      retry: 'tries again at once',
      abort: 'leaves all sidecars running',
    };
    const container = waits[0]?.blockedBy
      .find((blocker) => blocker.startsWith('container/'))
      ?.slice('container/'.length);
    return {
      kind: kubeResource.pods.kind,
      namespace,
      name,
      summary: [
        pod.status?.phase ?? 'no status',
        ...(sidecars.length > 0 ? [`sidecars of the job: ${sidecars.join(', ')}`] : []),
        ...(termination.abortedBy !== undefined ? [`their termination was aborted by ${termination.abortedBy}`] : []),
      ].join('; '),
      waits,
      steps: waits.length > 0 || sidecars.length > 0 ? stepsOf(pod, termination.skipped ?? []) : [],
      ...(operation && { operation }),
      commands: distinct([
        ...(waits.length > 0 ? lookCommands(namespace, name, container) : []),
        ...(operation && waits.some(({ reason }) => reason === 'EngineStuck')
          ? stuckCommands(operation.workflowId, means)
          : []),
        ...(isSteered
          ? [
              {
                command: signalCommand(operation.workflowId, 'skip', {
                  engine: means.engine,
                  ...(container !== undefined && { target: container }),
                }),
                effect: `leaves ${container ?? 'the first sidecar that is due'} running`,
              },
              ...steeringCommands(operation, means, {
                isPaused: termination.waitingFor?.reason === 'Paused',
                effects,
                annotate: `-n ${namespace} annotate pod ${name}`,
              }),
            ]
          : []),
      ]),
      notes: [],
    };
  },
};

function lookCommands(namespace: string, pod: string, container: string | undefined): readonly HelpfulCommand[] {
  return [
    { command: `kubectl -n ${namespace} describe pod ${pod}`, effect: 'shows the events of the pod' },
    ...(container === undefined
      ? []
      : [{ command: `kubectl -n ${namespace} logs ${pod} -c ${container}`, effect: `shows the logs of ${container}` }]),
  ];
}

function stepsOf({ spec, status }: Pod, skipped: readonly string[]) {
  return spec.containers.map(({ name }) => {
    const { state, ready = false } = status?.containerStatuses?.find((one) => one.name === name) ?? {};
    const { running, terminated, waiting } = state ?? {};
    const how = terminated ? `exit code ${terminated.exitCode}` : (waiting?.reason ?? '');
    return {
      step: name,
      state: terminated ? 'Terminated' : running ? (ready ? 'Ready' : 'Running') : 'Waiting',
      detail: [how, skipped.includes(name) ? 'skipped' : ''].filter(Boolean).join('; '),
    };
  });
}
