// The kubectl plugin `kubectl-kruise`: what it has from the process it runs in comes together here.
import { text } from 'node:stream/consumers';
import packageJson from '../package.json' with { type: 'json' };
import { parseConfig } from '../workers/config.ts';
import { temporalClient } from '../workers/temporal-client.ts';
import { connectCluster } from './cluster.ts';
import { operationEngine } from './operation.ts';
import { type EngineFlags, runKruise } from './program.ts';

const { env } = process;

void runKruise({
  args: process.argv.slice(2),
  connect: (flags) => connectCluster(flags, env),
  out: (said) => process.stdout.write(said),
  err: (said) => process.stderr.write(said),
  readStdin: () => text(process.stdin),
  now: () => Date.now(),
  featureGates: (given) =>
    parseConfig('worker', given === undefined ? [] : [`--feature-gates=${given}`], ours(/^WINDLASS_FEATURE_GATES$/))
      .featureGates,
  engine: engineAt,
  version: packageJson.version,
}).then((code) => {
  process.exitCode = code;
});

/** The same options, by the same names, as Windlass's own processes have. No address means: nobody knows. */
async function engineAt(flags: EngineFlags) {
  if (flags['temporal-address'] === undefined && !env.WINDLASS_TEMPORAL_ADDRESS) return undefined;
  const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
  const { temporal } = parseConfig('worker', args, ours(/^WINDLASS_TEMPORAL_/));
  const client = await temporalClient({ config: temporal });
  const shown = `--address ${temporal.address} --namespace ${temporal.namespace}`;
  return operationEngine({ client, flags: shown, deadlineMs: 10_000 });
}

/** A user's environment may hold much that is not meant for this program. */
function ours(names: RegExp): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => names.test(name)));
}
