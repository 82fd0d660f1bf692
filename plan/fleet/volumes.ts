/** The volumes of pods that are expanded with the updates of their pods, as far as they matter for every kind of workload. */
import type { Intention } from './steps.ts';

/** The PVCs of one pod, compared with their templates. */
export interface PodVolumes {
  /** What has to be written before the pod is updated. */
  readonly due: readonly Extract<Intention, { kind: 'resizeClaim' }>[];
  /** A PVC that differs from its template in more than its size, so that nothing can be done. Absent: none does. */
  readonly differs?: string;
  /** Names of PVCs that are being expanded. The update of the pod waits for that. */
  readonly resizing: readonly string[];
  /** Names of PVCs whose file system is expanded once the pod mounts it again. */
  readonly fileSystemPending: readonly string[];
  /** Whether the pod counts as unavailable because of them (AS-61). */
  readonly spendsBudget: boolean;
}

/** Of workloads whose PVCs stay as they are. */
export const unchangedVolumes: PodVolumes = { due: [], resizing: [], fileSystemPending: [], spendsBudget: false };
