import { request } from 'undici';
import type { ContainerRecreateRequest } from '../../../api/container-recreate-request/types.ts';
import { crr, crrV1alpha1 } from '../../../api/container-recreate-request/types.ts';
import { apiserverUrl } from '../../../deploy/local/kubeconfigs.ts';
import { adminAgent, partReady } from '../../../deploy/local/parts.ts';
import { isLate } from '../../support/patience.ts';
import { type AnswerVerdict, judgeAnswer, type KnownPod, type WriteAnswer } from '../admission-judge.ts';
import type { Report, Scenario } from '../campaign.ts';
import { judge } from '../chaos-subject.ts';
import { recordOf } from '../faults.ts';
import { goodManifest, type Mutant, mutants, type Originals } from '../mutants.ts';
import type { Random } from '../random.ts';
import { RecreateRequests } from '../subjects/recreate-requests.ts';
import type { RecreatedPod, RecreatedPodPlan } from '../subjects/recreated-pod.ts';
import { seconds, untilDone, type World } from '../world.ts';

/** How many writes are under way at once. */
const lanes = 8;

const victim: RecreatedPodPlan = {
  name: 'victim',
  step: 'under hostile requests',
  hold: { kind: 'none' },
  containers: [{ name: 'first' }, { name: 'second' }],
  requests: [],
};

/** The pod of the request that exists, so that the victim stays untouched. */
const other: RecreatedPodPlan = {
  ...victim,
  name: 'other',
  requests: [{ name: 'existing', containers: ['first'] }],
};

/** Sends hostile writes, first without effect, and then some of those that are let in for real. */
export async function hostileRequests(
  world: World,
  random: Random,
  report: Report,
  size: { readonly mutants: number; readonly real: number },
): Promise<void> {
  const pids = processes(world);
  const requests = await RecreateRequests.prepare(world, { plans: [victim, other] });
  for (const { reach } of requests.steps) await reach();
  await requests.settled();
  const { namespace } = requests;
  const pods = new Map(requests.pods.map(({ plan, pod }) => [plan.name, knownPod(pod)]));
  const ref = { namespace, name: 'existing' };
  const existing = {
    v1beta1: await world.kube.get<ContainerRecreateRequest>(crr, ref),
    v1alpha1: await world.kube.get<ContainerRecreateRequest>(crrV1alpha1, ref),
  };
  const originals: Originals = { namespace, pod: 'victim', containers: ['first', 'second'], existing };
  const all = mutants(originals, random.seed | 0, size.mutants);

  const send = sender(world, namespace);
  const counts = new Map<string, number>();
  const accepted: Mutant[] = [];
  const startedAtMs = performance.now();
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let mutant = all[next++]; mutant; mutant = all[next++]) {
      const verdict = judgeAnswer(mutant, await send(mutant, true), {
        namespace,
        pods,
        existing: existing[mutant.version],
      });
      count(counts, mutant, verdict);
      if (verdict.kind === 'accepted' && mutant.method === 'POST') accepted.push(mutant);
      if (verdict.violation) report.violation(`${verdict.violation} <- ${mutant.method} ${mutant.text.slice(0, 200)}`);
    }
  };
  // one that is good has to pass, or everything is refused for a reason of its own
  const good: Mutant = {
    method: 'POST',
    version: 'v1beta1',
    contentType: 'application/json',
    text: JSON.stringify(goodManifest(originals, 'v1beta1')),
  };
  const before = await send(good, true);
  if (before.status !== 201) report.violation(`a good request was refused: ${before.status} ${before.body}`);
  await Promise.all(Array.from({ length: lanes }, lane));
  const took = (performance.now() - startedAtMs) / 1000;
  for (const [name, number] of [...counts].toSorted(([a], [b]) => a.localeCompare(b))) report.outcome(name, number);
  report.figure(`${all.length} hostile writes in ${took.toFixed(0)} s; ${accepted.length} new requests let in`);
  // dry runs: nobody was touched
  await judge(requests, report);

  // some of them for real, those that differ most first: each ends, or says what it waits for
  const chosen = [...new Map(accepted.map((mutant) => [shapeOf(mutant.text), mutant])).values()].slice(0, size.real);
  await Promise.all(chosen.map((mutant, index) => send(named(mutant, `real-${index}`), false)));
  await untilDone('every request that was let in to end or to say what it waits for', async () => {
    const { items } = await world.kube.list<ContainerRecreateRequest>(crr, { namespace });
    const silent = items.filter(({ status, metadata }) => {
      const isBegun =
        status?.phase === 'Completed' || status?.waitingFor !== undefined || status?.phase === 'Recreating';
      return !isBegun && metadata.deletionTimestamp === undefined;
    });
    if (silent.length > 0) throw new Error(JSON.stringify(silent.slice(0, 3)));
  }).catch((error: unknown) => report.violation(String(error)));
  report.outcome('created for real', chosen.length);

  for (const finalized of (await world.kube.list<ContainerRecreateRequest>(crr, { namespace })).items) {
    // finalizers of others are for others to take off
    await world.kube
      .patch(crr, { namespace, name: finalized.metadata.name }, 'merge', { metadata: { finalizers: null } })
      .catch(() => undefined);
  }
  await requests.remove();
  await judgeProcesses(world, report, pids);
}

function count(counts: Map<string, number>, { method }: Mutant, { kind }: AnswerVerdict): void {
  const name = `${method === 'POST' ? 'new' : 'changed'} ${kind}`;
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

/** Requests with the same set of fields and kinds of values are alike. */
function shapeOf(text: string): string {
  return text.replaceAll(/[0-9]{3,}/g, '9').slice(0, 600);
}

function named(mutant: Mutant, name: string): Mutant {
  const object = JSON.parse(mutant.text) as { metadata?: object };
  const { generateName: _, ...metadata } = (object.metadata ?? {}) as { generateName?: string };
  return { ...mutant, text: JSON.stringify({ ...object, metadata: { ...metadata, name } }) };
}

function knownPod({ metadata, spec, status }: RecreatedPod['pod']): KnownPod {
  return {
    uid: metadata.uid,
    nodeName: spec.nodeName ?? '',
    containers: new Map(status?.containerStatuses?.map(({ name, containerID = '' }) => [name, containerID])),
  };
}

function sender(world: World, namespace: string): (mutant: Mutant, dryRun: boolean) => Promise<WriteAnswer> {
  const dispatcher = adminAgent(world.instance);
  const url = apiserverUrl(world.instance);
  return async ({ method, version, contentType, text }, dryRun) => {
    const name = method === 'POST' ? '' : '/existing';
    const path = `/apis/apps.kruise.io/${version}/namespaces/${namespace}/containerrecreaterequests${name}`;
    for (let attempt = 1; ; attempt += 1) {
      const { statusCode, body } = await request(`${url}${path}${dryRun ? '?dryRun=All' : ''}`, {
        method,
        dispatcher,
        headers: { 'content-type': contentType, accept: 'application/json', 'user-agent': 'windlass-chaos' },
        body: text,
        headersTimeout: 120_000,
        bodyTimeout: 120_000,
      });
      const answer = { status: statusCode, body: await body.text() };
      // one that hangs the webhook hangs it again
      if (attempt === 10 || answer.status < 429 || !isLate(answer.body)) return answer;
      await seconds(1);
    }
  };
}

const roles = ['watcher', 'webhook', 'worker', 'daemon-node-1', 'daemon-node-2'] as const;

/** The processes of the roles as they run now. */
export function processes(world: World): ReadonlyMap<string, number> {
  return new Map(roles.map((part) => [part, recordOf(world, part).pid]));
}

/** They still run, and work. */
export async function judgeProcesses(world: World, report: Report, before: ReadonlyMap<string, number>): Promise<void> {
  for (const [part, pid] of before) {
    try {
      process.kill(pid, 0);
      await partReady(world.instance, part);
    } catch (error) {
      report.violation(`${part} did not survive: ${String(error)}`);
    }
  }
}

/** Everything that can be wrong about a request. */
export const hostile: readonly Scenario[] = [
  {
    name: 'hostile-requests',
    about: 'ten thousand malformed and mutated requests: refused with a field, or let in and harmless',
    run: (world, random, report) => hostileRequests(world, random, report, { mutants: 10_000, real: 40 }),
  },
];
