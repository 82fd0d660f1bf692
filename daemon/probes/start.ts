import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { isTooLarge } from '../../api/core/failure.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import { type NodePodProbe, type NodePodProbeStatus, nodePodProbe } from '../../api/node-pod-probe/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { EventSender } from '../event-sender.ts';
import { withinMessageRoom } from './message-room.ts';
import { type ProbeRun, Prober } from './prober.ts';
import { Reporter } from './reporter.ts';
import type { ProbeRuntime } from './runtime.ts';
import { probeClock } from './schedule.ts';

export interface ProbesOptions {
  readonly kube: Pick<KubeClient, 'create' | 'patch'>;
  /** This node's NodePodProbe as last seen, and its changes. */
  readonly cache: {
    byName(namespace: string, name: string): NodePodProbe | undefined;
    onChange(listener: () => void): () => void;
  };
  readonly nodeName: string;
  readonly runtime: () => ProbeRuntime | undefined;
  readonly ipOf: (podUid: string) => string | undefined;
  readonly registry: Registry;
  readonly log: { warn(fields: object, message: string): void };
}

/** The running probes of this node. */
export interface Probes {
  /** Why the last report failed; undefined when it did not. */
  readonly trouble: string | undefined;
  /** Stops all probes, and reports the remaining results. */
  stop(signal: AbortSignal): Promise<void>;
}

/** Runs the probes in this node's NodePodProbe, and reports their results in its status. */
export function startProbes({ kube, cache, nodeName, runtime, ipOf, registry, log }: ProbesOptions): Probes {
  const events = new EventSender({ client: kube, component: eventComponent.daemonProbe, nodeName, log });
  const prober: Prober = new Prober({
    runtime,
    ipOf,
    say: (pod, container, text) => events.say(pod, container, text),
    changed: () => reporter.tell(),
    clock: probeClock,
    log,
    observe: observer(registry, () => prober.size),
  });
  const reporter = new Reporter({
    status: () => prober.status,
    clock: probeClock,
    log,
    async write(status, signal) {
      const report = async (results: NodePodProbeStatus) => {
        // For the status of a custom resource the API server ignores a UID in a merge patch; the node may have a namesake.
        const patch = [
          { op: 'test', path: '/metadata/uid', value: prober.listUid },
          { op: 'add', path: '/status', value: results },
        ];
        await kube.patch(nodePodProbe, { name: nodeName }, 'json', patch, { subresource: 'status', signal });
      };
      try {
        await report(withinMessageRoom(status));
      } catch (error) {
        if (!isTooLarge(error)) throw error;
        // States without messages are better than no states.
        await report(withinMessageRoom(status, 0));
      }
    },
  });
  const update = () => prober.update(cache.byName('', nodeName));
  const forget = cache.onChange(update);
  update();
  return {
    get trouble() {
      return reporter.trouble;
    },
    async stop(signal) {
      forget();
      // The results so far are reported, and no further probe runs.
      await Promise.all([reporter.end(signal), events.end(signal)]);
      prober.stop();
    },
  };
}

function observer(registry: Registry, size: () => number): (run: ProbeRun) => void {
  const registers = [registry];
  new Gauge({
    name: 'windlass_probes',
    help: 'Probes that this daemon runs.',
    registers,
    collect() {
      this.set(size());
    },
  });
  const runs = new Counter({
    name: 'windlass_probe_runs_total',
    help: 'Probe runs, by handler and outcome.',
    labelNames: ['handler', 'outcome'],
    registers,
  });
  const lag = new Histogram({
    name: 'windlass_probe_lag_seconds',
    help: 'Delay of probe runs: how much later than due they started.',
    labelNames: ['handler'],
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
    registers,
  });
  return ({ handler, outcome, lagMs }) => {
    runs.inc({ handler, outcome });
    lag.observe({ handler }, Math.max(0, lagMs) / 1_000);
  };
}
