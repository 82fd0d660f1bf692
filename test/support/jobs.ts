import type { WorkflowHandle } from '@temporalio/client';
import { type ContainerRecreateRequest, crr } from '../../api/container-recreate-request/types.ts';
import type { EnvVar, Pod } from '../../api/core/pod.ts';
import { kubeResource, windlassAnnotation } from '../../api/core/well-known.ts';
import {
  type TerminationStatus,
  terminateSidecarsId,
  terminationMark,
  terminationRequestName,
  terminationStatusOf,
} from '../../api/job-sidecar-termination.ts';
import type { NodePlayer, PlayedPod } from './kubelet-player.ts';
import { waitFor } from './wait.ts';
import type { Windlass } from './windlass.ts';

/** The variables that mark sidecars. */
export const marks = {
  stops: { name: terminationMark.env, value: 'true' },
  ignored: { name: terminationMark.ignoreExitCodeEnv, value: 'true' },
  image: { name: terminationMark.imageEnv, value: 'busybox:1.35' },
} as const satisfies Record<string, EnvVar>;

export interface JobOptions {
  /** Names with their marks. Absent: `proxy`, which is stopped. */
  readonly sidecars?: Readonly<Record<string, readonly EnvVar[]>>;
  readonly restartPolicy?: 'OnFailure' | 'Never';
  /** Absent: the node of all tests. */
  readonly node?: NodePlayer;
}

/** A pod with a container `main` and sidecars, and the operation that terminates these. */
export class TestJob {
  readonly pod: PlayedPod;
  readonly #windlass: Windlass;

  constructor(pod: PlayedPod, windlass: Windlass) {
    this.pod = pod;
    this.#windlass = windlass;
  }

  /** The workflow, in any run. */
  get operation(): WorkflowHandle {
    return this.#windlass.client.workflow.getHandle(terminateSidecarsId(this.pod.ref));
  }

  async request(): Promise<ContainerRecreateRequest | undefined> {
    const { namespace, uid } = this.pod.ref;
    const ref = { namespace, name: terminationRequestName(uid) };
    return await this.#windlass.cluster.find<ContainerRecreateRequest>(crr, ref);
  }

  /** Waits until the pod fulfils a condition. */
  async until(what: string, holds: (pod: Pod) => boolean): Promise<Pod> {
    return await waitFor(`pod ${this.pod.ref.name} to be ${what}`, async (see) => {
      const pod = await this.pod.read();
      see(pod && { annotations: pod.metadata.annotations, status: pod.status });
      return pod && holds(pod) ? pod : undefined;
    });
  }

  /** Waits until the pod reports that the termination of its sidecars waits for this. */
  async waitsFor(reason: string): Promise<TerminationStatus> {
    const pod = await this.until(
      `waiting for ${reason}`,
      (now) => terminationStatusOf(now).waitingFor?.reason === reason,
    );
    return terminationStatusOf(pod);
  }

  /** Writes a command to the pod's annotation. */
  async command(text: string): Promise<void> {
    const metadata = { annotations: { [windlassAnnotation.command]: text } };
    await this.#windlass.cluster.kube.patch(kubeResource.pods, this.pod.ref, 'merge', { metadata });
  }

  /** Waits until the annotation has been removed. */
  async obeyed(): Promise<Pod> {
    return await this.until('free of commands', ({ metadata }) => !metadata.annotations?.[windlassAnnotation.command]);
  }

  async phase(phase: string): Promise<Pod> {
    return await this.until(phase, ({ status }) => status?.phase === phase);
  }

  /** Waits until the operation has ended like this. */
  async ended(as = 'COMPLETED'): Promise<void> {
    await waitFor(`the operation of pod ${this.pod.ref.name} to end`, async (see) => {
      return see((await this.operation.describe()).status.name) === as;
    });
  }
}

/** Starts a job with all containers running. */
export async function startJob(windlass: Windlass, options: JobOptions = {}): Promise<TestJob> {
  const { sidecars = { proxy: [marks.stops] }, restartPolicy = 'Never', node = windlass.node } = options;
  const namespace = await windlass.cluster.newNamespace();
  const containers = ['main', ...Object.keys(sidecars)];
  return new TestJob(await node.runPod({ namespace, containers, env: sidecars, restartPolicy }), windlass);
}
