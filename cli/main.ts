// The kubectl plugin `kubectl-kruise`: passes arguments, environment and streams of the process to the program.
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import packageJson from '../package.json' with { type: 'json' };
import { parseConfig } from '../process/config.ts';
import { temporalClient } from '../process/temporal-client.ts';
import { connectCluster } from './cluster.ts';
import { findEngine } from './find-engine.ts';
import { forwardPort } from './port-forward.ts';
import { runKruise } from './program.ts';

const { env } = process;

void runKruise({
  args: process.argv.slice(2),
  connect: (flags) => connectCluster(flags, env),
  out: (said) => process.stdout.write(said),
  err: (said) => process.stderr.write(said),
  readStdin: () => text(process.stdin),
  now: () => Date.now(),
  pause: (ms, signal) => setTimeout(ms, undefined, { signal }),
  featureGates: (given) =>
    parseConfig('worker', given === undefined ? [] : [`--feature-gates=${given}`], ours(/^WINDLASS_FEATURE_GATES$/))
      .featureGates,
  engine: (flags, cluster, clusterFlags) =>
    findEngine({
      flags,
      env,
      cluster,
      forward: (service, port) => forwardPort(service, port, clusterFlags, env),
      parse: (args, given) => parseConfig('worker', args, given).temporal,
      connect: (config) => temporalClient({ config }),
    }),
  version: packageJson.version,
}).then((code) => {
  process.exitCode = code;
});

/** Only these variables: others in the user's environment are not meant for this program. */
function ours(names: RegExp): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => names.test(name)));
}
