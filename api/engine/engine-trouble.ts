// Why Temporal does not continue an operation. The operation cannot report it itself, so the watcher does, in
// `waitingFor` of the operation's object.

import { queues } from './operations.ts';

/** Reasons of `waitingFor` that every kind with operations has, and that only the watcher writes. */
export const engineReasons = [
  'EngineSilent',
  'EngineNoWorkers',
  'EngineNoFleetWorker',
  'EngineNoDaemon',
  'EngineStuck',
] as const;
export type EngineReason = (typeof engineReasons)[number];

/** Why Temporal does not continue one operation. */
export interface EngineTrouble {
  readonly reason: EngineReason;
  /** As `kind/name`, or `temporal` itself. */
  readonly blockedBy: readonly string[];
  /** What a person can do. Absent: the text of the kind for the reason. */
  readonly unblock?: string;
}

/** Temporal has not answered for a while. */
export const engineSilent: EngineTrouble = { reason: 'EngineSilent', blockedBy: ['temporal'] };

/** No cluster worker takes the workflow tasks of an operation. */
export function engineNoWorkers({
  temporalNamespace,
  build,
}: {
  readonly temporalNamespace: string;
  /** The build of the version that the operation needs. */
  readonly build: string;
}): EngineTrouble {
  const flags = `--namespace ${temporalNamespace} --task-queue ${queues.cluster}`;
  const who = `none of build ${build} polls queue "${queues.cluster}" of Temporal namespace "${temporalNamespace}"`;
  const unblock = `Bring the cluster workers back (Deployment windlass-worker, or who runs role worker): ${who}; temporal task-queue describe ${flags} shows who does`;
  return { reason: 'EngineNoWorkers', blockedBy: [`taskqueue/${queues.cluster}`], unblock };
}

/** No watcher takes the activities by which roll-outs, pull jobs and swaps ask for permits. */
export function engineNoFleetWorker(temporalNamespace: string, since: string): EngineTrouble {
  const where = `queue "${queues.fleet}" of Temporal namespace "${temporalNamespace}"`;
  const unblock = `Bring the leading watcher and Temporal together again (Deployment windlass-watcher, or who runs role watcher): nobody has served ${where} since ${since}; the log of the watcher says why`;
  return { reason: 'EngineNoFleetWorker', blockedBy: [`taskqueue/${queues.fleet}`], unblock };
}

/** The daemon of the node of an operation does not answer. */
export function engineNoDaemon(node: string, since: string): EngineTrouble {
  const unblock = `Bring the daemon of node "${node}" back (DaemonSet kruise-daemon, or who runs role daemon there): it has given no sign of life since ${since}; kubectl get node ${node} shows whether the node is up`;
  return { reason: 'EngineNoDaemon', blockedBy: [`node/${node}`], unblock };
}

/** The workflow task of an operation fails repeatedly. */
export function engineStuck({
  workflowId,
  temporalNamespace,
  wasBegunAnew,
}: {
  readonly workflowId: string;
  readonly temporalNamespace: string;
  /** It is stuck although it was already restarted for the present build of the workflow code. */
  readonly wasBegunAnew: boolean;
}): EngineTrouble {
  const flags = `--namespace ${temporalNamespace} --workflow-id ${workflowId}`;
  const terminate = `temporal workflow terminate ${flags}`;
  const unblock = wasBegunAnew
    ? `See why its workflow task fails although it was started again: temporal workflow show --detailed ${flags}; run workers that can carry it out, or terminate it, and it is started again automatically: ${terminate}`
    : `Nothing to do: it is terminated within minutes and started again automatically; to do that now: ${terminate}`;
  return { reason: 'EngineStuck', blockedBy: [`workflow/${workflowId}`], unblock };
}

/** Whether the watcher writes this reason of `waitingFor` because Temporal does not continue the operation. */
export function isEngineReason(reason: string | undefined): reason is EngineReason {
  return engineReasons.some((known) => known === reason);
}
