import { gatesText } from '../../api/engine/installation-record.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import type { Cluster } from '../../cli/cluster.ts';
import type { OperationEngine } from '../../cli/operation.ts';
import { runKruise } from '../../cli/program.ts';
import { nowMs } from './cloneset-world.ts';

/** The output of a command, and its exit code. */
export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

const engineMissing = 'set the address of Temporal by --temporal-address or WINDLASS_TEMPORAL_ADDRESS';

/** Runs `kubectl kruise` in this process. */
export async function kubectlKruise(
  args: readonly string[],
  {
    cluster,
    stdin = '',
    engine,
    now = () => nowMs,
    pause = () => Promise.resolve(),
  }: {
    readonly cluster: Cluster;
    readonly stdin?: string;
    readonly engine?: OperationEngine;
    readonly now?: () => number;
    /** Called where the command waits. */
    readonly pause?: (ms: number, signal?: AbortSignal) => Promise<void>;
  },
): Promise<Said> {
  let [out, err] = ['', ''];
  const code = await runKruise({
    args,
    connect: (flags) => ({ ...cluster, namespace: flags.namespace ?? cluster.namespace }),
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    readStdin: async () => stdin,
    now,
    pause,
    featureGates: (text, { featureGates }) => parseFeatureGates(text ?? gatesText(featureGates)),
    engine: async () => (engine ? { engine } : { missing: engineMissing }),
    version: '0.0.0',
  });
  return { code, out, err };
}
