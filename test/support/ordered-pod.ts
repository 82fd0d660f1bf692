import { barrierEnv } from '../../api/container-launch-priority.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { aPod } from './objects/pod.ts';

/** The state of one container of an ordered pod. Absent: it has not started. */
export type ContainerNow = 'ready' | 'running' | { readonly exitCode: number } | undefined;

export interface OrderedPod {
  readonly name?: string;
  readonly uid?: string;
  /** Container names with their priorities, in the order of the pod. */
  readonly order: Readonly<Record<string, number>>;
  readonly now?: Readonly<Record<string, ContainerNow>>;
  readonly restartPolicy?: 'Always' | 'OnFailure' | 'Never';
  readonly annotations?: Readonly<Record<string, string>>;
  readonly metadata?: Partial<Pod['metadata']>;
  readonly phase?: string;
}

/** A pod with a launch order, after admission. */
export function orderedPod(given: OrderedPod): Pod {
  const { name = 'web', uid = 'pod-1', order, now = {}, restartPolicy = 'Always', annotations } = given;
  return aPod({
    metadata: { name, uid, ...(annotations && { annotations }), ...given.metadata },
    spec: {
      restartPolicy,
      containers: Object.entries(order).map(([container, priority]) => ({
        name: container,
        env: [barrierEnv(name, priority)],
      })),
    },
    status: {
      phase: given.phase ?? 'Pending',
      containerStatuses: Object.entries(now).map(([container, is]) => statusOf(container, is)),
    },
  });
}

function statusOf(name: string, now: ContainerNow): ContainerStatus {
  const status = { name, ready: now === 'ready', restartCount: 0 };
  if (now === undefined) return { ...status, state: { waiting: { reason: 'CreateContainerConfigError' } } };
  if (typeof now === 'string') return { ...status, state: { running: {} } };
  return { ...status, state: { terminated: now } };
}
