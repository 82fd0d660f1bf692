import type { Check } from '../process/health.ts';
import type { RuntimeDetector } from './cri/detection.ts';
import type { NodeWorker } from './node-worker.ts';
import type { NodeWatches } from './watches.ts';

/** The conditions under which the daemon can do its work, by name. */
export function readinessOf({
  watches: { pods, probes },
  runtimes,
  worker,
}: {
  readonly watches: NodeWatches;
  readonly runtimes: Pick<RuntimeDetector, 'check'>;
  readonly worker: Pick<NodeWorker, 'trouble'>;
}): Readonly<Record<string, Check>> {
  return {
    pods: () => {
      const { isSynced, trouble } = pods.reflector;
      if (!isSynced) throw new Error(trouble ?? 'the pods of this node are not listed yet');
    },
    probes: () => {
      if (probes?.reflector.isSynced === false) {
        throw new Error(probes.reflector.trouble ?? 'the list of probes of this node is not read yet');
      }
    },
    runtime: () => runtimes.check(),
    temporal: () => {
      if (worker.trouble !== undefined) throw new Error(worker.trouble);
    },
  };
}
