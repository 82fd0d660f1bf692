import { setTimeout as delay } from 'node:timers/promises';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type SidecarSelection, sidecarSelectionName, sidecarSelections } from '../../api/sidecar-set/selection.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isAlreadyExists, isGone, KubeError } from '../../kube/failures.ts';
import { measureStolen } from '../support/stolen.ts';
import { benchNamespace } from './cluster.ts';
import { serveEmptyWebhook } from './empty-webhook.ts';
import { type Figure, mostStolenPercent, quantile, shown, table } from './figures.ts';
import { type Pair, pairedDifference } from './pairs.ts';

// How long the API server takes to create pods, as dry runs. What is compared is created in turn, within each round.

/** The pod webhook is not asked about pods of this namespace. */
const exemptNamespace = 'bench-exempt';

/** Creations of pods: milliseconds of each. */
export function podCreations(kube: KubeClient) {
  const owner = {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    name: 'bench',
    uid: 'bench',
    controller: true,
  };
  return {
    owned: (samples: number) => creations(kube, podBody(benchNamespace, [owner]), samples),

    /**
     * One that the webhook does not see, and one with an owner, or without Windlass a second of the first kind: in turn. What
     * the machine does meanwhile meets both.
     */
    async inTurn(samples: number, second: 'owned' | 'bare') {
      await newNamespace(kube, exemptNamespace, { 'control-plane': 'openkruise' });
      const exempt = podBody(exemptNamespace);
      const bodies = [exempt, second === 'owned' ? podBody(benchNamespace, [owner]) : exempt] as const;
      for (const body of bodies) await creations(kube, body, 20);
      const pairs: Pair[] = [];
      while (pairs.length < samples)
        pairs.push({ base: await creation(kube, bodies[0]), present: await creation(kube, bodies[1]) });
      return pairs;
    },
  };
}

function podBody(namespace: string, ownerReferences: readonly object[] = [], app = 'bench'): object {
  return {
    metadata: { generateName: 'bench-', namespace, labels: { app }, ownerReferences },
    spec: { containers: [{ name: 'app', image: 'busybox:1.36' }] },
  };
}

async function creations(kube: KubeClient, body: object, samples: number): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = 0; index < samples + 20; index++) {
    const tookMs = await creation(kube, body);
    if (index >= 20) times.push(tookMs); // the first ones warm connections and compilers
  }
  return times;
}

async function creation(kube: KubeClient, body: object): Promise<number> {
  const startedAt = performance.now();
  await kube.create(kubeResource.pods, body, { dryRun: true });
  return performance.now() - startedAt;
}

/** The pod webhook is not asked about pods of this namespace, and one that does nothing is. */
const emptyNamespace = 'bench-empty';

/** What is created, by the namespace of the pod. */
const rows = {
  exempt: { namespace: exemptNamespace, app: 'bench', what: 'a pod that the pod webhook does not see' },
  empty: { namespace: emptyNamespace, app: 'bench', what: 'a pod that a webhook sees which does nothing' },
  unselected: { namespace: 'bench-sidecars', app: 'other', what: 'a pod that no SidecarSet selects' },
  selected: { namespace: 'bench-sidecars', app: 'bench', what: 'a pod that one SidecarSet selects' },
} as const;
type Row = keyof typeof rows;

/** How many SidecarSets there are, of which one selects a row of pods. */
const counts = [0, 1, 100] as const;
type Count = (typeof counts)[number];

type Round = Readonly<Partial<Record<Row, number>>>;

/** Between two of them the number of SidecarSets changes. */
const visits = 10;

/** Times of pod creations with and without SidecarSets, and what these add: Markdown. */
export async function admissionFigures(kube: KubeClient, rounds: number): Promise<string> {
  await newNamespace(kube, rows.exempt.namespace, { 'control-plane': 'openkruise' });
  await newNamespace(kube, rows.empty.namespace, { 'control-plane': 'openkruise' });
  await newNamespace(kube, rows.selected.namespace, {});
  const empty = await serveEmptyWebhook(kube, emptyNamespace);
  while (empty.calls() === 0) await creation(kube, podBody(emptyNamespace));
  const taken = new Map<Count, Round[]>(counts.map((count) => [count, []]));
  let dropped = 0;
  for (let visit = 0; visit < visits; visit++) {
    // up and down, so that whatever grows or shrinks meanwhile favours none
    for (const count of visit % 2 === 0 ? counts : counts.toReversed()) {
      await withSidecarSets(kube, count, async () => {
        const result = await inTurn(kube, rowsOf(count), Math.ceil(rounds / visits));
        taken.get(count)?.push(...result.rounds);
        dropped += result.dropped;
      });
    }
    console.log(`Visit ${visit + 1} of ${visits}, ${dropped} rounds dropped`);
  }
  await empty.close();
  for (const { namespace } of [rows.exempt, rows.empty, rows.selected])
    await kube.delete(kubeResource.namespaces, { name: namespace });

  const of = (count: Count) => taken.get(count) ?? [];
  const figures = counts.flatMap((count) =>
    rowsOf(count).map((row): Figure => ({ what: titleOf(count, row), samples: samplesOf(of(count), row), dropped: 0 })),
  );
  const whole = (count: Count) => quantile(samplesOf(of(count), 'selected'), 0.5);
  return [
    table(figures),
    'Differences within the rounds, as medians with 95 % intervals:',
    [
      ...counts.map((count) => {
        const [adds, addsToEmpty] = [added(of(count), 'exempt', 'unselected'), added(of(count), 'empty', 'unselected')];
        return (
          `- ${sidecarSetsOf(count)}: a pod that none selects takes ${adds} more than one that the webhook does not see, and ` +
          `${addsToEmpty} more than one that a webhook sees which does nothing.`
        );
      }),
      `- 1 SidecarSet: a pod that it selects takes ${added(of(1), 'unselected', 'selected')} more than one that it does not select.`,
      `- A pod that one of 100 SidecarSets selects takes ${(whole(100) / whole(1)).toFixed(2)} times as long as with one SidecarSet.`,
      '- What grows with the number of SidecarSets is the policy of the API server for times without a webhook, where many select ' +
        'by labels that the pod has. The webhook itself takes less than 0.1 ms.',
    ].join('\n'),
  ].join('\n\n');
}

function rowsOf(count: Count): readonly Row[] {
  return (Object.keys(rows) as Row[]).filter((row) => count > 0 || row !== 'selected');
}

function titleOf(count: Count, row: Row): string {
  return `${sidecarSetsOf(count)}: ${rows[row].what}`;
}

function sidecarSetsOf(count: Count): string {
  return `${count} SidecarSet${count === 1 ? '' : 's'}`;
}

function samplesOf(rounds: readonly Round[], row: Row): readonly number[] {
  return rounds.map((round) => round[row] ?? Number.NaN);
}

/** `1.23 ms (1.10 to 1.40)` */
function added(rounds: readonly Round[], base: Row, present: Row): string {
  const pairs = rounds.map((round): Pair => ({ base: round[base] ?? 0, present: round[present] ?? 0 }));
  const { median, low, high } = pairedDifference(pairs);
  return `${shown(median)} ms (${shown(low)} to ${shown(high)})`;
}

/** Creates one pod of each row in every round, in another order each time. */
async function inTurn(
  kube: KubeClient,
  wanted: readonly Row[],
  count: number,
): Promise<{ readonly rounds: readonly Round[]; readonly dropped: number }> {
  const bodies = new Map(wanted.map((row) => [row, podBody(rows[row].namespace, [], rows[row].app)]));
  for (const body of bodies.values()) await creations(kube, body, 10);
  const rounds: Round[] = [];
  let dropped = 0;
  while (rounds.length < count && dropped < count) {
    const stolen = measureStolen();
    const first = (rounds.length + dropped) % wanted.length;
    const round: Partial<Record<Row, number>> = {};
    for (const row of [...wanted.slice(first), ...wanted.slice(0, first)]) {
      round[row] = await creation(kube, bodies.get(row) ?? {});
    }
    if ((stolen() ?? 0) > mostStolenPercent) dropped++;
    else rounds.push(round);
  }
  return { rounds, dropped };
}

/** Does the work while there are so many SidecarSets, one of which selects the pods with label `app=bench`. */
async function withSidecarSets(kube: KubeClient, count: number, work: () => Promise<void>): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `bench-${index}`);
  for (const [index, name] of names.entries())
    await newSidecarSet(kube, name, index === 0 ? 'bench' : `other-${index}`);
  try {
    const wanted = count === 0 ? 1 : 2;
    while ((await containersOfNewPod(kube)) !== wanted) await delay(100);
    while ((await checkedSidecarSets(kube)) !== count) await delay(100);
    await work();
  } finally {
    await Promise.all(names.map((name) => kube.delete(sidecarSets, { name })));
  }
}

async function newSidecarSet(kube: KubeClient, name: string, app: string): Promise<void> {
  const container = {
    ...{ name: 'log', image: 'busybox:1.36', command: ['sleep', '3600'] },
    env: [{ name: 'A', value: 'b' }],
    volumeMounts: [{ name: 'logs', mountPath: '/logs' }],
    shareVolumePolicy: { type: 'enabled' },
  };
  const namespaceSelector = { matchLabels: { 'kubernetes.io/metadata.name': rows.selected.namespace } };
  await kube.create(sidecarSets, {
    metadata: { name },
    spec: {
      selector: { matchLabels: { app } },
      namespaceSelector,
      containers: [container],
      volumes: [{ name: 'logs', emptyDir: {} }],
    },
  });
}

/** The policy of the API server checks so many. */
async function checkedSidecarSets(kube: KubeClient): Promise<number> {
  const ref = { name: sidecarSelectionName };
  const found = await kube.get<SidecarSelection>(sidecarSelections, ref).catch((error: unknown) => {
    if (!isGone(error)) throw error;
  });
  return found?.spec.sidecarSets.length ?? 0;
}

async function containersOfNewPod(kube: KubeClient): Promise<number | undefined> {
  const body = podBody(rows.selected.namespace, [], rows.selected.app);
  const pod = await kube.create<Pod>(kubeResource.pods, body, { dryRun: true }).catch(unlessRefused);
  return pod?.spec.containers.length;
}

/** The policy may know a SidecarSet before the webhook does. */
function unlessRefused(error: unknown): undefined {
  if (!(error instanceof KubeError) || error.status !== 403) throw error;
}

/** A namespace in which pods can be created. */
async function newNamespace(kube: KubeClient, name: string, labels: Readonly<Record<string, string>>): Promise<void> {
  try {
    await kube.create(kubeResource.namespaces, { metadata: { name, labels } });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
  const serviceAccounts = {
    group: '',
    version: 'v1',
    plural: 'serviceaccounts',
    kind: 'ServiceAccount',
    namespaced: true,
  };
  for (;;) {
    try {
      await kube.get(serviceAccounts, { namespace: name, name: 'default' });
      return;
    } catch (error) {
      if (!isGone(error)) throw error;
      await delay(100);
    }
  }
}
