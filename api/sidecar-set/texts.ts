import type { EventText } from '../core/event.ts';

/**
 * The Events about SidecarSets, and about the pods whose sidecars they swap. Reasons and messages are those of OpenKruise, which has
 * neither `updateFailed` nor `markFailed`.
 */
export const sidecarSetEvent = {
  notUpgradable: (pods: number): EventText => ({
    type: 'Normal',
    reason: 'NotUpgradablePods',
    message: `SidecarSet in-place update detected ${pods} not upgradable pod(s) in this round, will skip them.`,
  }),
  updateFailed: (pod: string, revision: string, error: string): EventText => ({
    type: 'Warning',
    reason: 'FailedUpdatePodInPlace',
    message: `failed to update sidecars of pod ${pod} in-place(revision ${revision}): ${error}`,
  }),
  markFailed: (pod: string, error: string): EventText => ({
    type: 'Warning',
    reason: 'FailedMarkPod',
    message: `updated the sidecars of pod ${pod}, and failed to set its condition SidecarSetUpgradable: ${error}`,
  }),
  reset: (): EventText => ({
    type: 'Normal',
    reason: 'ResetContainerSucceed',
    message: 'reset sidecar container image empty successfully',
  }),
  resetFailed: (error: string): EventText => ({
    type: 'Warning',
    reason: 'ResetContainerFailed',
    message: `reset sidecar container image empty failed: ${error}`,
  }),
} as const;

/** Reasons of `status.waitingFor`, with what a person can do. */
export const sidecarSetWaits = {
  Paused: 'Set updateStrategy.paused to false',
  Aborted: 'Change the images, or annotate windlass.io/command=resume',
  PausedByOperator: 'Signal resume, or abort',
  EngineSilent: 'Bring Temporal back; the roll-out then continues automatically',
  EngineNoWorkers: 'Bring the cluster workers back; the roll-out then continues automatically',
  EngineNoFleetWorker:
    'Bring the leading watcher and Temporal together again; the roll-out then continues automatically',
  EngineNoDaemon: 'Bring the daemon of the node back; the roll-out then continues automatically',
  EngineStuck: 'Terminate its workflow; the roll-out then continues automatically',
  CannotUpdate: 'Fix what refuses the change of these pods, or signal skip',
  ImageNotReady:
    'Look at the ImagePullJobs of the SidecarSet in kruise-system, or lower or remove the annotation windlass.io/prefetch',
  BudgetRoundsToZero: 'Raise updateStrategy.maxUnavailable, which is 0: only pods that are not ready are updated',
  BudgetSpent: 'Fix these updated pods, signal skip, or raise updateStrategy.maxUnavailable',
  UpdateInProgress:
    'Look at the events of these pods: the kubelet has not finished an earlier update of their sidecars',
  SidecarsSwapping:
    'Look at the workflow swap-sidecar/<namespace>/<name>/<UID> of these pods: it says what it waits for',
  CannotChange: 'Fix the annotations of these pods, or delete the pods: new ones get the present content',
  NotConsistent: 'Look at the events of these pods: their sidecars have not started with the new image',
  NoPermit: 'Nothing to do: the roll-out continues as soon as its workflow grants the next permit',
  Skipped: 'Signal retry to have these pods updated after all',
  Undone: 'Change the images, or annotate windlass.io/command=resume to roll them out after all',
  PartitionReached: 'Lower updateStrategy.partition to update more pods',
  ContainerConflict:
    'Rename a container, or narrow a selector: these SidecarSets have containers of the same name for the same pods, and one replaces the other',
} as const;
export type SidecarSetWaitReason = keyof typeof sidecarSetWaits;
