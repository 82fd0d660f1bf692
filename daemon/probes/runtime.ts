import type { ContainerRuntime } from '../../activities/cri/runtime.ts';

/** So many bytes of an output are kept; who prints more is remembered for it. */
export const outputBytes = 4_096;

/** What probes ask of a container runtime. Every failure is a `CriError`. */
export interface ProbeRuntime extends Pick<ContainerRuntime, 'listContainers' | 'containerStatus'> {
  /**
   * Runs a command in the container, for at most this long; a command that takes longer is a `CriError` of kind
   * `deadline`. Of both outputs the first 4 KiB (`outputBytes`) are kept.
   */
  execProbe(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
  ): Promise<{ readonly exitCode: number; readonly stdout: string; readonly stderr: string }>;
}
