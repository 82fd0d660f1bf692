// The kubectl plugin `kubectl-kruise`: passes arguments, environment and streams of the process to the program.
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { gatesText } from '../api/engine/installation-record.ts';
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
  featureGates: (given, record) => {
    const text = given ?? (env.WINDLASS_FEATURE_GATES || gatesText(record.featureGates));
    return parseConfig('worker', [`--feature-gates=${text}`], {}).featureGates;
  },
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
