import type { ContainerRuntime } from '../../activities/cri/runtime.ts';

/** The number of bytes of an output that are kept; a command that prints more is remembered. */
export const outputBytes = 4_096;

/** The calls of probes to a container runtime. Every failure is a `CriError`. */
export interface ProbeRuntime extends Pick<ContainerRuntime, 'listContainers' | 'containerStatus'> {
  /**
   * Runs a command in the container for at most this long; a command that takes longer is a `CriError` of kind
   * `deadline`. The first 4 KiB (`outputBytes`) of each output are kept.
   */
  execProbe(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
  ): Promise<{ readonly exitCode: number; readonly stdout: string; readonly stderr: string }>;
}
