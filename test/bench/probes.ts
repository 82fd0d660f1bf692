import { setTimeout as delay } from 'node:timers/promises';
import type { Node } from '../../api/core/node.ts';
import type { Probe } from '../../api/core/probe.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type NodePodProbe, nodePodProbe } from '../../api/node-pod-probe/types.ts';
import { podProbeMarker } from '../../api/pod-probe-marker/types.ts';
import type { PlatformStatus } from '../../deploy/local/platform.ts';
import { measureStolen } from '../support/stolen.ts';
import { type BenchCluster, benchNamespace } from './cluster.ts';
import { usageOf } from './processes.ts';

const pods = 10;
/** Of each pod: 180 by the network and 20 commands altogether. */
const perPod = { http: 9, tcp: 9, exec: 2 } as const;
const total = pods * (perPod.http + perPod.tcp + perPod.exec);
const seconds = 60;
const marker = 'bench-probes';

/** What 200 probes of one second cost the daemon of one node, and how late they run: Markdown. */
export async function probeFigures(cluster: BenchCluster, platform: () => PlatformStatus): Promise<string> {
  const { kube, node } = cluster;
  const names = Array.from({ length: pods }, (_, index) => `bench-probed-${index}`);
  for (const name of names) await kube.create(kubeResource.pods, serverPod(name, node));
  await kube.create(podProbeMarker, markerOf());
  await untilAllSucceed(cluster);
  await delay(5_000); // until they have drifted apart

  const metrics = await metricsAddress(cluster);
  const cpu = () => usageOf(platform()).find(({ role }) => role === `daemon-${node}`)?.cpuSeconds ?? Number.NaN;
  const stolen = measureStolen();
  const before = { lag: await lagOf(metrics), cpu: cpu(), atMs: performance.now() };
  await delay(seconds * 1_000);
  const after = { lag: await lagOf(metrics), cpu: cpu(), atMs: performance.now() };
  const tookSeconds = (after.atMs - before.atMs) / 1_000;

  await kube.delete(podProbeMarker, { namespace: benchNamespace, name: marker });
  for (const name of names) await cluster.remove(kubeResource.pods, name);
  const runs = after.lag.count - before.lag.count;
  const share = (bound: number) => ((after.lag.within(bound) - before.lag.within(bound)) / runs) * 100;
  return [
    '| | |',
    '| --- | --- |',
    `| probes, ${perPod.http * pods} HTTP, ${perPod.tcp * pods} TCP, ${perPod.exec * pods} commands, each once a second | ${total} |`,
    `| runs a second | ${(runs / tookSeconds).toFixed(1)} |`,
    `| CPU of the daemon, % of a core | ${(((after.cpu - before.cpu) / tookSeconds) * 100).toFixed(1)} |`,
    `| run later than due by at most 10 ms, % | ${share(0.01).toFixed(1)} |`,
    `| by at most 100 ms, % | ${share(0.1).toFixed(1)} |`,
    `| mean lag, ms | ${(((after.lag.sum - before.lag.sum) / runs) * 1_000).toFixed(1)} |`,
    `| CPU stolen meanwhile, % | ${stolen() ?? 'unknown'} |`,
  ].join('\n');
}

function serverPod(name: string, nodeName: string): object {
  const command =
    'mkdir -p /www && echo fine > /www/index.html && trap exit TERM; httpd -p 8080 -h /www; sleep 99999 & wait';
  return {
    metadata: { name, namespace: benchNamespace, labels: { app: marker } },
    spec: {
      nodeName,
      terminationGracePeriodSeconds: 1,
      containers: [{ name: 'app', image: 'busybox:1.36', command: ['sh', '-c', command] }],
    },
  };
}

function markerOf(): object {
  const handlers: Readonly<Record<keyof typeof perPod, Probe>> = {
    http: { httpGet: { path: '/index.html', port: 8080, scheme: 'HTTP' } },
    tcp: { tcpSocket: { port: 8080 } },
    exec: { exec: { command: ['true'] } },
  };
  const probes = (['http', 'tcp', 'exec'] as const).flatMap((kind) =>
    Array.from({ length: perPod[kind] }, (_, index) => ({
      name: `${kind}-${index}`,
      containerName: 'app',
      probe: handlers[kind],
      podConditionType: `bench/${kind}-${index}`,
    })),
  );
  const metadata = { name: marker, namespace: benchNamespace };
  return { metadata, spec: { selector: { matchLabels: { app: marker } }, probes } };
}

async function untilAllSucceed({ kube, node }: BenchCluster): Promise<void> {
  const deadlineMs = performance.now() + 300_000;
  for (;;) {
    const list = await kube.get<NodePodProbe>(nodePodProbe, { name: node });
    const states = (list.status?.podProbeStatuses ?? []).flatMap(({ probeStates = [] }) => probeStates);
    const succeeded = states.filter(({ state }) => state === 'Succeeded').length;
    if (succeeded === total) return;
    if (performance.now() > deadlineMs) throw new Error(`${succeeded} of ${total} probes succeed after five minutes`);
    await delay(500);
  }
}

async function metricsAddress({ kube, node }: BenchCluster): Promise<string> {
  const { status } = await kube.get<Node>(kubeResource.nodes, { name: node });
  const address = status?.addresses?.find(({ type }) => type === 'InternalIP')?.address;
  return `http://${address}:10221/metrics`;
}

interface Lag {
  readonly count: number;
  readonly sum: number;
  /** How many runs were late by no more than so many seconds. */
  within(seconds: number): number;
}

async function lagOf(url: string): Promise<Lag> {
  const text = await (await fetch(url)).text();
  const sumOf = (pattern: RegExp) =>
    text
      .split('\n')
      .filter((line) => pattern.test(line))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  return {
    count: sumOf(/^windlass_probe_lag_seconds_count/),
    sum: sumOf(/^windlass_probe_lag_seconds_sum/),
    within: (bound) => sumOf(new RegExp(`^windlass_probe_lag_seconds_bucket\\{.*le="${bound}"`)),
  };
}
