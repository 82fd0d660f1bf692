/** What a person can do about the waits that all workloads with pods of their own have, by reason. */
export const podWaits = {
  RefusedByBudget: 'Fix the pods that the named budget counts as unavailable, or change that budget',
  PartitionReached: 'Lower partition to update more pods',
  Paused: 'Set updateStrategy.rollingUpdate.paused to false',
  PausedByOperator: 'Signal resume, or abort',
  OnDelete: 'Delete these pods to have them recreated at the update revision',
  NoPermit: 'Nothing to do: the roll-out continues as soon as its workflow grants the next permit',
  Skipped: 'Signal retry to have these pods updated after all',
  PodUnreadable: 'Fix or remove the named annotation, or delete these pods',
  InPlaceImpossible: 'Revert the named change, or set podUpdatePolicy to InPlaceIfPossible',
  HookBeforeUpdate: 'Remove the named labels and finalizers from these pods',
  HookAfterUpdate: 'Add the named labels and finalizers to these pods',
  HookBeforeDelete: 'Remove the named labels and finalizers from these pods',
  HookBeforeNormal: 'Add the named labels and finalizers to these pods',
  Draining: 'Nothing to do: Services stop routing to these pods before their containers change',
  GracePeriod: 'Nothing to do: the pods are unready for gracePeriodSeconds before their containers change',
  ContainersNotSwapped: 'Look at the events of these pods: their new containers do not run yet',
  BatchNotReady:
    'Look at the logs and readiness probes of these pods: the next containers start to change once these are ready',
  NotScheduled: 'Make room on the nodes for these pods, or change what they ask for',
  NotReady: 'Look at the logs and readiness probes of these pods',
  MinReadySeconds: 'Nothing to do: the pods must be ready for minReadySeconds',
  Terminating: 'Nothing to do if the pods are about to terminate; otherwise look at their finalizers and nodes',
  EngineSilent: 'Bring Temporal back; the roll-out then continues automatically',
  EngineNoWorkers: 'Bring the cluster workers back; the roll-out then continues automatically',
  EngineNoFleetWorker:
    'Bring the leading watcher and Temporal together again; the roll-out then continues automatically',
  EngineNoDaemon: 'Bring the daemon of the node back; the roll-out then continues automatically',
  EngineStuck: 'Terminate its workflow; the roll-out then continues automatically',
  ApiUnreachable: 'Bring the API server back; everything then continues automatically',
  Aborted: 'Change the template, or annotate windlass.io/command=resume',
  Undone: 'Change the template, or annotate windlass.io/command=resume to roll it out after all',
  Parked: 'Signal retry, skip or abort',
} as const;

/** Whether a roll-out that waits for this does not go on before a person decides so. */
export function isStopped(reason: string): boolean {
  return stopped.includes(reason);
}

const stopped: readonly string[] = [
  'Paused',
  'PausedByOperator',
  'Skipped',
  'InPlaceImpossible',
  'Aborted',
  'Undone',
] satisfies readonly (keyof typeof podWaits)[];
