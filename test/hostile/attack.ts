// Objects with hostile values, one at a time and then many at once, beside well-behaved neighbours: nobody else may be the
// worse for it. The API server's audit log and the processes' own use of CPU and memory are the judges.
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { request } from 'undici';
import type { KubeObject } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { PlatformStatus } from '../../deploy/local/platform.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import { usageOf } from '../bench/processes.ts';
import { type Random, randomFrom } from '../chaos/random.ts';
import { waitFor } from '../support/wait.ts';
import { type AttackedKind, attackedKinds, container, valuesOf } from './kinds.ts';
import { settle } from './neighbours.ts';
import { type HostileValue, pathText, withValue } from './values.ts';

/** Where an attack happens. */
export interface AttackedCluster {
  readonly kube: KubeClient;
  readonly temporal: Client;
  readonly platform: () => PlatformStatus;
  /** Where the watcher serves its metrics, as `host:port`. */
  readonly watcherMetrics: string;
  newNamespace(): Promise<string>;
  /** Every request that the API server has written down so far. */
  auditLog(): AsyncIterable<{
    readonly user: { readonly username: string };
    readonly verb: string;
    readonly requestURI: string;
  }>;
}

export interface AttackOptions {
  readonly seed: number;
  readonly neighbours: number;
  /** Values of each kind, drawn by the seed. Absent: all. */
  readonly valuesPerKind?: number;
  /** Objects that are created at the same time, at the end. */
  readonly atOnce: number;
  /** How long what happens by itself is measured: at least the minute between full passes. */
  readonly quietMs: number;
  readonly say: (text: string) => void;
}

/** What came of it; no problem means that it has been withstood. */
export interface AttackReport {
  readonly problems: readonly string[];
  readonly accepted: number;
  readonly refused: number;
}

interface Hostile {
  readonly kind: AttackedKind;
  readonly value: HostileValue;
}

/** What the roles did in a stretch of time. */
interface Work {
  readonly calls: number;
  readonly writes: number;
  readonly cpuSeconds: number;
}

export async function attack(cluster: AttackedCluster, options: AttackOptions): Promise<AttackReport> {
  const { kube } = cluster;
  const { seed, say, quietMs } = options;
  const random = randomFrom(seed);
  const problems: string[] = [];
  const startedAt = new Date();
  const pids = pidsOf(cluster.platform());

  const [home, hostile] = await Promise.all([cluster.newNamespace(), cluster.newNamespace()]);
  await kube.create(quotas, { metadata: { namespace: hostile, name: 'pods' }, spec: { hard: { pods: '30' } } });
  await kube.create(kubeResource.pods, podOf(hostile));
  const neighbours = await settle(kube, home, options.neighbours);
  await neighbours.exercise(3); // what is loaded late, and compiled, is not what is to be compared

  const work = async (what: () => Promise<void>): Promise<Work> => {
    const before = await measured(cluster, home);
    await what();
    const after = await measured(cluster, home);
    return {
      calls: after.calls - before.calls,
      writes: after.writes - before.writes,
      cpuSeconds: after.cpuSeconds - before.cpuSeconds,
    };
  };
  say(`${options.neighbours} neighbours are at home; quiet figures`);
  const quiet = await work(() => neighbours.exercise());
  const { least: idleHeap, spent: idleQuiet } = await atRest(cluster, home, quietMs);

  const chosen = drawn(random, options.valuesPerKind);
  say(`${chosen.length} hostile values, one at a time`);
  let accepted = 0;
  let refused = 0;
  const plant = async (each: Hostile, name: string): Promise<boolean> => {
    const answer = await planted(kube, each, hostile, name);
    if (answer.kind === 'accepted') accepted++;
    else refused++;
    if (answer.kind === 'problem') problems.push(answer.text);
    return answer.kind === 'accepted';
  };
  for (const [index, each] of chosen.entries()) {
    const name = `hostile-${index}`;
    if (!(await plant(each, name))) continue;
    // Left for a moment, so that whoever handles it has met it alone.
    await delay(50);
    await remove(kube, each, hostile, name);
  }

  const crowd = Array.from({ length: options.atOnce }, () => random.pick(chosen));
  say(`${crowd.length} at once`);
  const stood: number[] = [];
  await Promise.all(
    crowd.map(async (each, index) => {
      if (await plant(each, `crowd-${index}`)) stood.push(index);
    }),
  );
  const beside = await work(() => neighbours.exercise());
  const { least: heap, spent: idleBeside } = await atRest(cluster, home, quietMs);
  const held = await bytesHeld(kube, hostile);

  compare('API calls for the neighbours', quiet.calls, beside.calls, 1.25, options.neighbours);
  compare('writes for the neighbours', quiet.writes, beside.writes, 1.25, options.neighbours);
  compare('CPU seconds of the neighbours being used', quiet.cpuSeconds, beside.cpuSeconds, 2, 3);
  compare('CPU seconds at rest', idleQuiet.cpuSeconds, idleBeside.cpuSeconds, 2, Math.min(3, quietMs * restSlack));
  compare('heap of the watcher, MB', idleHeap / mega, heap / mega, 1, (3 * held) / mega + heapSlackMegabytes);
  const now = pidsOf(cluster.platform());
  for (const [role, pid] of pids) if (now.get(role) !== pid || !isAlive(pid)) problems.push(`${role} has died`);
  problems.push(...(await longHistories(cluster.temporal, startedAt)));

  say(`${stood.length} of ${crowd.length} stood (${Math.round(held / 1024)} KB); taking all away`);
  await Promise.all(stood.map((index) => remove(kube, crowd[index] as Hostile, hostile, `crowd-${index}`)));
  await Promise.all([hostile, home].map((namespace) => removed(kube, namespace)));
  return { problems, accepted, refused };

  function compare(what: string, before: number, after: number, factor: number, more: number): void {
    const most = before * factor + more;
    const text = `${what}: ${before.toFixed(1)} when quiet, ${after.toFixed(1)} beside hostile objects`;
    say(text);
    if (after > most) problems.push(`${text}; at most ${most.toFixed(1)}`);
  }
}

async function removed(kube: KubeClient, namespace: string): Promise<void> {
  await kube.delete(kubeResource.namespaces, { name: namespace });
  await waitFor(`namespace ${namespace} to be gone`, async (see) => {
    return await kube.get(kubeResource.namespaces, { name: namespace }).then(
      (found) => !see(found),
      () => true,
    );
  });
}

/** CPU seconds for each millisecond of rest that are left to chance. */
const restSlack = 3 / 20_000;
/** What the collector has not yet taken while somebody looks; a heap of 30 MB was seen to differ by 6 between two rests. */
const heapSlackMegabytes = 12;
const mega = 1024 * 1024;

const quotas = { group: '', version: 'v1', plural: 'resourcequotas', kind: 'ResourceQuota', namespaced: true } as const;

function podOf(namespace: string): object {
  const spec = { terminationGracePeriodSeconds: 1, containers: [container('app')] };
  return { metadata: { namespace, name: victim, labels: { app: 'hostile' } }, spec };
}

const victim = 'victim';

function drawn(random: Random, perKind: number | undefined): readonly Hostile[] {
  return attackedKinds.flatMap((kind) => {
    const values = valuesOf(kind);
    const some = perKind === undefined ? values : Array.from({ length: perKind }, () => random.pick(values));
    return some.map((value) => ({ kind, value }));
  });
}

type Answer =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused' }
  | { readonly kind: 'problem'; readonly text: string };

async function planted(kube: KubeClient, { kind, value }: Hostile, namespace: string, name: string): Promise<Answer> {
  const { resource, ordinary } = kind;
  const object = withValue(ordinary(name, victim), value.path, value.value) as { readonly metadata: object };
  const what = `${resource.kind} with ${value.what} in ${pathText(value.path)}`;
  const metadata = { ...object.metadata, ...(resource.namespaced && { namespace }) };
  try {
    await kube.create(resource, { ...object, metadata }, { deadlineMs: 60_000 });
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    const { message } = error;
    if (namesField.test(message) || serversOwn.test(message)) return { kind: 'refused' };
    return { kind: 'problem', text: `${what} is refused without the path of a field: ${message.slice(0, 300)}` };
  }
  // With the hostile value that may be refused, too.
  await kind.next?.(kube, { namespace, name }).catch((error: unknown) => {
    if (!(error instanceof KubeError)) throw error;
  });
  return { kind: 'accepted' };
}

const namesField = /\b(spec|metadata)\b/;
/** What the API server says before it looks at fields. */
const serversOwn = /too large|exceeded max depth|limit is|strict decoding/i;

async function remove(kube: KubeClient, { kind }: Hostile, namespace: string, name: string): Promise<void> {
  const { resource, next } = kind;
  await kube.delete(resource, { ...(resource.namespaced && { namespace }), name }).catch(() => undefined);
  if (next) await kube.delete(kubeResource.pods, { namespace, name }).catch(() => undefined);
}

const rolesMeasured = /^(watcher|webhook|worker)$/;

async function measured({ platform, auditLog }: AttackedCluster, namespace: string): Promise<Work> {
  let calls = 0;
  let writes = 0;
  for await (const { user, verb, requestURI } of auditLog()) {
    if (!isWindlass.test(user.username) || !requestURI.includes(`/namespaces/${namespace}/`)) continue;
    calls++;
    if (!/^(get|list|watch)$/.test(verb)) writes++;
  }
  const usage = usageOf(platform()).filter(({ role }) => rolesMeasured.test(role));
  return { calls, writes, cpuSeconds: usage.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0) };
}

const isWindlass = /^system:serviceaccount:kruise-system:(windlass-|kruise-daemon)/;

/** What is done and kept while nobody asks for anything; the heap at its least, which is after a collection. */
async function atRest(cluster: AttackedCluster, namespace: string, quietMs: number) {
  const before = await measured(cluster, namespace);
  let least = Infinity;
  for (const until = performance.now() + quietMs; performance.now() < until; await delay(2_000)) {
    least = Math.min(least, await heapOf(cluster.watcherMetrics));
  }
  const after = await measured(cluster, namespace);
  return { least, spent: { cpuSeconds: after.cpuSeconds - before.cpuSeconds } };
}

async function heapOf(address: string): Promise<number> {
  const { body } = await request(`http://${address}/metrics`);
  const found = /^nodejs_heap_size_used_bytes\S* (\S+)$/m.exec(await body.text());
  return Number(found?.[1] ?? Number.NaN);
}

async function bytesHeld(kube: KubeClient, namespace: string): Promise<number> {
  let bytes = 0;
  for (const { resource } of attackedKinds) {
    const { items } = await kube.list<KubeObject>(resource, resource.namespaced ? { namespace } : {});
    bytes += JSON.stringify(items).length;
  }
  return bytes;
}

function pidsOf({ parts }: PlatformStatus): ReadonlyMap<string, number> {
  return new Map(
    parts.filter(({ name }) => /^(watcher|webhook|worker|daemon)/.test(name)).map(({ name, pid }) => [name, pid]),
  );
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A history of forty events, and twenty for each thing acted on; an operation of one hostile object acts on few. */
const mostEvents = {
  ...{ restartContainers: 100, rollOut: 200, swapSidecar: 100 },
  ...{ pullOnNodes: 100, terminateSidecars: 100 },
} as const;

async function longHistories({ workflow }: Client, since: Date): Promise<readonly string[]> {
  const long: string[] = [];
  for (const [type, most] of Object.entries(mostEvents)) {
    const query = `WorkflowType = '${type}' AND StartTime >= '${since.toISOString()}'`;
    for await (const { workflowId, historyLength } of workflow.list({ query })) {
      if (historyLength > most) long.push(`${workflowId} has a history of ${historyLength} events; at most ${most}`);
    }
  }
  return long;
}
