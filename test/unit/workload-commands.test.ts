import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject, OwnerReference } from '../../api/core/meta.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { convertStatefulSet } from '../../api/stateful-set/convert.ts';
import { type StatefulSet, statefulSets } from '../../api/stateful-set/types.ts';
import { planManifests } from '../../cli/commands/plan.ts';
import { explainers } from '../../cli/explain/explainers.ts';
import { workloadExplainer } from '../../cli/explain/workload.ts';
import { kindOfWord, type NamedKind } from '../../cli/kind-words.ts';
import { planText } from '../../cli/output/plan-text.ts';
import { rolloutKinds } from '../../cli/rollout/kinds.ts';
import { workloadRollout } from '../../cli/rollout/workload.ts';
import { statefulSetWorkload as kind } from '../../cli/stateful-set.ts';
import { planWorkload } from '../../cli/workload-plan.ts';
import { nowMs } from '../support/cloneset-world.ts';
import { smallCluster } from '../support/small-cluster.ts';
import { data, fresh, now, old, pod, set, template } from '../support/stateful-set-world.ts';

const gates = parseFeatureGates();
const metadata = {
  namespace: 'shop',
  name: 'db',
  uid: 'db',
  resourceVersion: '1',
  creationTimestamp: '',
  generation: 2,
};
const [update, current] = ['db-2', 'db-1'];

function statefulSet(status?: StatefulSet['status']): StatefulSet {
  const [apiVersion, labels] = ['apps.kruise.io/v1beta1', { app: 'db' }];
  const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'db:2' }] } };
  const spec = { replicas: 3, selector: { matchLabels: labels }, serviceName: 'db', template };
  return { apiVersion, kind: 'StatefulSet', metadata, spec, ...(status && { status }) };
}

const counts = { replicas: 3, readyReplicas: 3, availableReplicas: 2, currentReplicas: 2, updatedReplicas: 1 };
const status = { ...counts, observedGeneration: 2, currentRevision: current, updateRevision: update };

it('plans a kind by what it brings', async () => {
  const manifest = manifestOf(statefulSet());
  const cluster = smallCluster([]);
  const options = { cluster, gates, givenNamespace: undefined, now: () => nowMs };
  expect(planText([await planWorkload(kind, manifest, options)]).replaceAll(/db-\w{8,}/g, 'db-HASH')).toBe(
    [
      'StatefulSet shop/db: new: 3 create',
      '',
      'Revision db-HASH',
      '',
      'BATCH   POD       ACTION   WHY',
      '-       (3 new)   create   of revision db-HASH',
    ].join('\n'),
  );
  expect(cluster.calls).toContain('create statefulsets/db');
  const bad = planWorkload(kind, { ...manifest, spec: { replicas: -1 } }, options);
  await expect(bad).rejects.toThrow('StatefulSet "shop/db" is invalid');
});

/** What a user writes. */
function manifestOf({ apiVersion, kind, metadata: { namespace, name }, spec }: StatefulSet): JsonObject {
  return { apiVersion, kind, metadata: { namespace, name }, spec } as unknown as JsonObject;
}

describe('plan of a StatefulSet', () => {
  const ordered = { podManagementPolicy: 'OrderedReady' } as const;
  const there = (ready: boolean, begunAt = '2026-01-01T00:00:00Z') => {
    const last = pod(2, { of: fresh, ready });
    return [pod(0), pod(1), { ...last, metadata: { ...last.metadata, creationTimestamp: begunAt } }];
  };
  async function planFor(pods: readonly KubeObject[]) {
    const cluster = smallCluster([set(ordered), ...pods, old, fresh]);
    const options = { cluster, gates, givenNamespace: undefined, now: () => Date.parse(now) };
    return await planWorkload(kind, manifestOf(set({ ...ordered, template: template('app:3') })), options);
  }

  it('AS-34: notes with OrderedReady that nothing starts before somebody repairs a pod, and what helps', async () => {
    const { notes, batches } = await planFor(there(false));
    expect(notes).toContain(
      'nothing starts before this ends: OrdinalNotAvailable (pod/web-2): Fix this pod, or delete it if a new one would come up: ' +
        'with OrderedReady nothing is created, updated or scaled in until it is available',
    );
    expect(batches).toEqual([['web-2'], ['web-1'], ['web-0']]);
  });

  it('notes nothing of pods that are ready, or that are just being started', async () => {
    expect((await planFor(there(true))).notes).toEqual([]);
    expect((await planFor(there(false, '2026-01-01T00:09:55Z'))).notes).toEqual([]);
  });
});

describe('what plan of a StatefulSet reads', () => {
  async function read(owner: StatefulSet, there: readonly KubeObject[]) {
    const cluster = smallCluster(there);
    const options = { cluster, gates, givenNamespace: undefined, now: () => Date.parse(now) };
    const { notes, summary } = await planWorkload(kind, manifestOf(owner), options);
    return { notes, summary, calls: cluster.calls };
  }

  it('AS-10: notes the pods with its names that another object controls, and that are in the way', async () => {
    const controller = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'web', uid: 'other', controller: true };
    const owned = (ordinal: number, ownerReferences: readonly OwnerReference[]) => {
      const { metadata, ...rest } = pod(ordinal);
      return { ...rest, metadata: { ...metadata, ownerReferences } };
    };
    const others = [0, 2, 7].map((ordinal) => owned(ordinal, [controller]));
    const { notes, summary } = await read(set(), others);
    expect(summary.create).toBe(3);
    expect(notes).toEqual([
      'another controller, StatefulSet "web" of apps/v1, has pods of the same names, which have to be gone first: web-0 and web-2',
    ]);
    expect((await read(set(), [set(), owned(0, []), pod(1)])).notes).toEqual([]);
  });

  it('lists PVCs only for claim templates', async () => {
    const list = expect.stringContaining('list persistentvolumeclaims');
    expect((await read(set(), [])).calls).not.toContainEqual(list);
    expect((await read(set({ volumeClaimTemplates: [data] }), [])).calls).toContainEqual(list);
  });
});

describe('plan of a StatefulSet in v1alpha1', () => {
  const older = (newer: JsonObject): JsonObject => {
    const { spec, ...rest } = set();
    return convertStatefulSet(
      { ...rest, spec: { ...spec, ...newer } } as unknown as JsonObject,
      'apps.kruise.io/v1alpha1',
    )?.object as JsonObject;
  };
  const planned = async (after: JsonObject, before?: JsonObject) => {
    const cluster = smallCluster(before ? [before as unknown as KubeObject] : []);
    const { metadata, ...rest } = after;
    const { namespace, name, annotations } = metadata as JsonObject;
    const manifest = { ...rest, metadata: { namespace, name, ...(annotations !== undefined && { annotations }) } };
    return await planWorkload(kind, manifest as JsonObject, {
      cluster,
      gates,
      givenNamespace: undefined,
      now: () => nowMs,
    });
  };

  it('is checked as it is stored, as admission does: with the fields that v1alpha1 keeps in an annotation', async () => {
    const bad = older({ reserveOrdinals: ['5-2'] });
    const refusal =
      'StatefulSet "shop/web" is invalid: spec: Invalid value: "\\"5-2\\"": reserveOrdinals must hold integers';
    await expect(planned(bad)).rejects.toThrow(refusal);
    await expect(planned(bad, older({}))).rejects.toThrow(refusal);
    expect((await planned(bad, bad)).exists).toBe(true);
  });

  it('gets the warnings that it would get as it is stored', async () => {
    const later = older({ ordinals: { start: 3 } });
    expect((await planned(later)).notes).toContainEqual(expect.stringContaining('spec.ordinals.start: has no effect'));
  });
});

it('says of which API a StatefulSet is that is not planned', async () => {
  const cluster = smallCluster([]);
  const theirs = { ...manifestOf(set()), apiVersion: 'apps/v1' };
  const given = (...objects: readonly JsonObject[]) =>
    planManifests(
      objects.map((object) => ({ object, source: 'shop.yaml' })),
      { cluster, gates, givenNamespace: undefined, now: () => nowMs },
    );
  const { notes } = await given(manifestOf(set()), theirs);
  expect(notes).toEqual([
    'skipped StatefulSet "web" of apps/v1: only CloneSets, SidecarSets, StatefulSets and DaemonSets of apps.kruise.io are planned',
  ]);
  await expect(given(theirs)).rejects.toThrow(
    'no CloneSet, SidecarSet, StatefulSet or DaemonSet of apps.kruise.io among the objects given',
  );
});

it('KK-2a: knows a StatefulSet by the words that do not mean that of Kubernetes', () => {
  const ours = ['asts', 'asts.apps.kruise.io', 'sts.apps.kruise.io', 'sts.v1alpha1.apps.kruise.io'];
  const others = ['statefulset.apps.kruise.io', 'StatefulSets.v1beta1.apps.kruise.io'];
  for (const kinds of [explainers, rolloutKinds]) {
    const known = (word: string) => kindOfWord(word, kinds as readonly NamedKind[])?.kind.versions[0];
    for (const word of [...ours, ...others]) expect([word, known(word)]).toEqual([word, statefulSets]);
    for (const word of ['sts', 'statefulset', 'statefulsets', 'sts.apps']) expect(known(word)).toBeUndefined();
  }
});

it('explains a kind by what it brings', async () => {
  const waitingFor = {
    reason: 'OrdinalNotAvailable',
    blockedBy: ['pod/db-0'],
    blockedCount: 1,
    since: '',
    unblock: '',
  };
  const { kube } = smallCluster([statefulSet({ ...status, waitingFor })]);
  const asked = { namespace: 'shop', name: 'db', versions: kind.versions };
  const found = await workloadExplainer(kind).explain(asked, { kube, gates, nowMs, engineMissing: '' });
  expect(found).toMatchObject({
    kind: 'StatefulSet',
    summary: `${current} -> ${update}: 1 of 3 pods updated, 2 of 3 available`,
    waits: [{ reason: 'OrdinalNotAvailable', from: 'status' }],
    notes: ['no ControllerRevision of the template yet: no watcher has reconciled the StatefulSet'],
  });
  const commands = found.commands.map(({ command }) => command);
  expect(commands).toContain('kubectl -n shop describe pod db-0');
  expect(commands).toContain('kubectl -n shop delete pod db-0');
  expect(commands).toContain('kubectl -n shop annotate asts db windlass.io/command=pause');
});

describe('explain of a StatefulSet', () => {
  const counted = { ...counts, availableReplicas: 3, currentRevision: old.metadata.name };
  async function explain(owner: StatefulSet, pods: readonly KubeObject[]) {
    const live = { ...owner, status: { ...counted, observedGeneration: 1, updateRevision: fresh.metadata.name } };
    const { kube } = smallCluster([live, ...pods, old, fresh]);
    const asked = { namespace: 'shop', name: 'web', versions: kind.versions };
    return await workloadExplainer(kind).explain(asked, { kube, gates, nowMs: Date.parse(now), engineMissing: '' });
  }

  it('AS-50: counts the pods above the partition, which are all that are to be updated', async () => {
    const { summary } = await explain(set({}, { partition: 2 }), [pod(0), pod(1), pod(2, { of: fresh })]);
    expect(summary).toContain(': 1 of 1 pods updated, 3 of 3 available');
    const beyond = await explain(set({}, { partition: 9 }), [pod(0), pod(1), pod(2)]);
    expect(beyond.summary).toContain(' of 0 pods updated');
  });

  it('AS-34: offers to delete the pod that everything waits for, but not one that is just being started', async () => {
    const ordered = set({ podManagementPolicy: 'OrderedReady' });
    const offered = async (creationTimestamp: string) => {
      const last = pod(2, { of: fresh, ready: false });
      const there = [pod(0), pod(1), { ...last, metadata: { ...last.metadata, creationTimestamp } }];
      const { commands } = await explain(ordered, there);
      return commands.some(({ command }) => command === 'kubectl -n shop delete pod web-2');
    };
    expect([await offered('2026-01-01T00:00:00Z'), await offered('2026-01-01T00:09:55Z')]).toEqual([true, false]);
  });

  it('AS-70: says of a pod that is labelled to be deleted nothing of fields that StatefulSets do not have', async () => {
    const labelled = pod(1, { labels: { 'apps.kruise.io/specified-delete': 'true' } });
    const cluster = smallCluster([set(), pod(0), labelled, pod(2), old, fresh]);
    const options = { cluster, gates, givenNamespace: undefined, now: () => Date.parse(now) };
    const { pods } = await planWorkload(kind, manifestOf(set()), options);
    const reason = 'marked to be deleted, in the spec or by its label';
    expect(pods).toContainEqual({ pod: 'web-1', action: 'delete', reason: 'Named', why: reason });
  });
});

it('KK-8: follows the roll-out of a kind in its words', async () => {
  const { kube } = smallCluster([]);
  const { progress } = workloadRollout(kind);
  const line = async (change: Partial<typeof status>) =>
    await progress(statefulSet({ ...status, updatedAvailableReplicas: 2, ...change }), { kube, nowMs });
  expect(await line({ observedGeneration: 1 })).toMatchObject({
    line: 'Waiting for Advanced StatefulSet spec update to be observed...',
  });
  expect(await line({})).toMatchObject({ line: expect.stringContaining('1 out of 3 new pods'), isDone: false });
  expect(await line({ updatedReplicas: 3 })).toMatchObject({ line: 'Waiting for 1 pods to be ready...' });
  const done = { ...status, updatedReplicas: 3, availableReplicas: 3, updatedAvailableReplicas: 3 };
  expect(await progress(statefulSet(done), { kube, nowMs })).toEqual({
    line: `Advanced StatefulSet rolling update complete 3 pods at revision ${update}...`,
    isDone: true,
  });
});
