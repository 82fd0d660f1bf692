import { type ContainerRecreateRequest, crr } from '../../api/container-recreate-request/types.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { terminationRequest } from '../../api/job-sidecar-termination.ts';
import { createdAt } from './objects/metadata.ts';
import { aPod } from './objects/pod.ts';

/** The state of one container of a job's pod. */
export type JobContainerNow = 'running' | 'backingOff' | 'unstarted' | { readonly exitCode: number };

/** The mark of a container; `main` has none. */
export type Mark = 'main' | 'sidecar' | 'image' | 'both' | 'ignored';

export interface JobPod {
  /** Container names with their marks, in the order of the pod. */
  readonly marks: Readonly<Record<string, Mark>>;
  readonly now?: Readonly<Record<string, JobContainerNow>>;
  /** Restart counts of containers that were restarted. */
  readonly instances?: Readonly<Record<string, number>>;
  readonly restartPolicy?: 'Always' | 'OnFailure' | 'Never';
  readonly phase?: string;
  readonly metadata?: Partial<Pod['metadata']>;
  /** Absent: they run the image `sidecar`. */
  readonly images?: Readonly<Record<string, string>>;
}

const prefix = 'KRUISE_TERMINATE_SIDECAR';
const stops = { name: `${prefix}_WHEN_JOB_EXIT`, value: 'true' };
const image = { name: `${prefix}_WHEN_JOB_EXIT_WITH_IMAGE`, value: 'quick-exit:1' };
const ignores = { name: `${prefix}_IGNORE_EXIT_CODE`, value: 'true' };
const envOf = { main: [], sidecar: [stops], image: [image], both: [stops, image], ignored: [stops, ignores] };

/** The pod of a job on `node-1`, with all containers running by default. */
export function jobPod(given: JobPod): Pod {
  const { marks, now = {}, restartPolicy = 'Never', phase = 'Running', images = {}, instances = {} } = given;
  return aPod({
    metadata: { name: 'job-1', ...given.metadata },
    spec: {
      nodeName: 'node-1',
      restartPolicy,
      terminationGracePeriodSeconds: 5,
      containers: Object.entries(marks).map(([name, mark]) => ({
        name,
        image: images[name] ?? 'sidecar',
        env: envOf[mark],
      })),
    },
    status: {
      phase,
      containerStatuses: Object.keys(marks).map((name) => statusOf(name, now[name] ?? 'running', instances[name] ?? 0)),
    },
  });
}

/** The ID of an instance of a container, by default the first one. */
export function instanceId(name: string, number = 0): string {
  return `containerd://${name}-${number}`;
}

function statusOf(name: string, now: JobContainerNow, number: number): ContainerStatus {
  const status = { name, ready: now === 'running', restartCount: number, containerID: instanceId(name, number) };
  if (now === 'unstarted') return { name, ready: false, restartCount: 0, state: { waiting: { reason: 'Pulling' } } };
  if (now === 'backingOff') return { ...status, state: { waiting: { reason: 'CrashLoopBackOff' } } };
  return { ...status, state: now === 'running' ? { running: {} } : { terminated: now } };
}

/** The request that stops these sidecars, after admission. */
export function stopRequest(
  containers: readonly string[],
  overrides: { readonly status?: ContainerRecreateRequest['status']; readonly instance?: number } = {},
): ContainerRecreateRequest {
  const { instance = 0 } = overrides;
  const { metadata, spec } = terminationRequest(jobPod({ marks: {} }).metadata, containers);
  return {
    apiVersion: `${crr.group}/${crr.version}`,
    kind: crr.kind,
    metadata: { ...metadata, uid: 'stop-1', resourceVersion: '1', creationTimestamp: createdAt },
    spec: {
      ...spec,
      containers: containers.map((name) => ({
        name,
        statusContext: { containerID: instanceId(name, instance), restartCount: instance },
      })),
    },
    ...(overrides.status && { status: overrides.status }),
  };
}

/** The status of such a request after these containers were stopped. */
export function stoppedStatus(...containers: readonly string[]): NonNullable<ContainerRecreateRequest['status']> {
  return {
    phase: 'Completed',
    containerRecreateStates: containers.map((name) => ({
      name,
      phase: 'Recreating',
      isKilled: true,
    })),
  };
}
