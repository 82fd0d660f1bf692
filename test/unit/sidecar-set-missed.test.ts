import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import { compareGoStrings } from '../../api/base/json-go.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { createCache } from '../../kube/cache.ts';
import {
  exemptLabel,
  exemptNamespaces,
  isOutOfReach,
  type MissedFacts,
  missedReason,
  missedStatus,
  mostMissedNames,
} from '../../plan/sidecar-set/missing.ts';
import { findMissedPods } from '../../watcher/kinds/sidecar-set/missed-pods.ts';
import { missedPodReports } from '../../watcher/kinds/sidecar-set/missed-status.ts';
import { trimPod } from '../../watcher/trim.ts';
import { type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { waitFor } from '../support/wait.ts';

const born = '2026-01-01T00:00:00Z';
const later = '2026-01-02T00:00:00Z';

interface SetDraft {
  readonly name?: string;
  readonly annotations?: JsonObject;
  readonly spec?: JsonObject;
  readonly generation?: number;
}

function aSet({ name = 'logs', annotations = {}, spec = {}, generation = 1 }: SetDraft = {}): SidecarSet {
  const metadata = { uid: `${name}-uid`, resourceVersion: '1', creationTimestamp: born, generation, annotations };
  return defaultSidecarSet(sidecarSetDraft({ name, metadata, spec })) as unknown as SidecarSet;
}

interface PodDraft {
  readonly name?: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly containers?: readonly string[];
  readonly created?: string;
  readonly phase?: string;
  readonly version?: number;
}

function aPod(draft: PodDraft = {}): Pod {
  const { name = 'web', namespace = 'shop', labels = { app: 'web' }, annotations = {}, containers = ['app'] } = draft;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...{ name, namespace, uid: `${namespace}-${name}`, resourceVersion: String(draft.version ?? 1) },
      ...{ creationTimestamp: draft.created ?? later, labels, annotations },
    },
    spec: { containers: containers.map((container) => ({ name: container, image: 'x' })) },
    status: { phase: draft.phase ?? 'Running' },
  };
}

const listed = (names: string) => ({ 'kruise.io/sidecarset-injected-list': names });
const anywhere: MissedFacts = { namespaceLabels: {}, canaries: [] };

describe('missedReason', () => {
  it('SCS-5: says that a pod is older than the SidecarSet', () => {
    expect(missedReason(aSet(), aPod({ created: '2025-01-01T00:00:00Z' }), anywhere)).toBe('OlderThanSidecarSet');
    expect(missedReason(aSet(), aPod({ created: born }), anywhere)).toBe('OlderThanSidecarSet');
  });

  it('says why a newer pod lacks it', () => {
    const ignoring = aSet({ annotations: { 'windlass.io/injection-failure': 'Ignore' } });
    const paused = aSet({ spec: { injectionStrategy: { paused: true } } });
    expect(missedReason(aSet(), aPod(), anywhere)).toBe('NotInjected');
    expect(missedReason(ignoring, aPod(), anywhere)).toBe('FailureIgnored');
    expect(missedReason(paused, aPod(), anywhere)).toBe('InjectionPaused');
    expect(missedReason(aSet(), aPod({ annotations: listed('logs') }), anywhere)).toBe('ContainersMissing');
  });

  it('SCS-3: knows the namespaces that the registration of the pod webhook leaves out', () => {
    const labels = { 'control-plane': 'openkruise' };
    expect(missedReason(aSet(), aPod({ namespace: 'kube-system' }), anywhere)).toBe('NamespaceExempt');
    expect(missedReason(aSet(), aPod(), { ...anywhere, namespaceLabels: labels })).toBe('NamespaceExempt');
    const file = readFileSync(new URL('../../deploy/webhooks/webhooks.yaml', import.meta.url), 'utf8');
    const registrations = parseAllDocuments(file).map((document) => objectOr(document.toJS()));
    const ofPods = registrations
      .flatMap(({ webhooks }) => listOr(webhooks as never).map(objectOr))
      .find(({ name }) => name === 'mpod.kb.io');
    expect(objectOr(ofPods?.namespaceSelector).matchExpressions).toEqual([
      { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: exemptNamespaces },
      { key: exemptLabel.key, operator: 'NotIn', values: [exemptLabel.value] },
    ]);
  });

  it('leaves out pods that have it, are not selected, or have ended', () => {
    const whole = aPod({ annotations: listed('other,logs'), containers: ['log', 'app'] });
    expect(missedReason(aSet(), whole, anywhere)).toBeUndefined();
    expect(missedReason(aSet(), aPod({ labels: {} }), anywhere)).toBeUndefined();
    expect(missedReason(aSet(), aPod({ phase: 'Succeeded' }), anywhere)).toBeUndefined();
    const pinned = aSet({ spec: { namespaceSelector: { matchLabels: { team: 'a' } } } });
    expect(missedReason(pinned, aPod(), anywhere)).toBeUndefined();
    expect(missedReason(pinned, aPod(), { ...anywhere, namespaceLabels: { team: 'a' } })).toBe('NotInjected');
  });

  it('SCS-105: leaves out pods that get a canary instead', () => {
    const annotations = { 'apps.kruise.io/sidecarset-canary': 'true', 'apps.kruise.io/sidecarset-base': 'logs' };
    const canary = (spec: JsonObject) => aSet({ name: 'canary', annotations, spec });
    const ofSome = canary({ selector: { matchLabels: { track: 'canary' } } });
    const chosen = aPod({ labels: { app: 'web', track: 'canary' } });
    expect(missedReason(aSet(), chosen, { ...anywhere, canaries: [ofSome] })).toBeUndefined();
    expect(missedReason(aSet(), aPod(), { ...anywhere, canaries: [ofSome] })).toBe('NotInjected');
    expect(
      missedReason(aSet(), aPod({ annotations: listed('canary') }), { ...anywhere, canaries: [ofSome] }),
    ).toBeUndefined();
    const paused = canary({ injectionStrategy: { paused: true } });
    expect(missedReason(aSet(), aPod(), { ...anywhere, canaries: [paused] })).toBe('NotInjected');
  });
});

describe('isOutOfReach', () => {
  const annotated = (whole: string, withoutImage: string) => {
    const entry = (hash: string) => JSON.stringify({ logs: { hash } });
    return aPod({
      annotations: {
        'kruise.io/sidecarset-injected-list': 'logs',
        'kruise.io/sidecarset-hash': entry(whole),
        'kruise.io/sidecarset-hash-without-image': entry(withoutImage),
      },
    });
  };
  const { annotations = {} } = aSet().metadata;
  const { 'kruise.io/sidecarset-hash': whole = '', 'kruise.io/sidecarset-hash-without-image': rest = '' } = annotations;

  it('SCS-192: is true of pods whose sidecars differ in more than images', () => {
    expect(isOutOfReach(aSet(), annotated(whole, rest))).toBe(false);
    expect(isOutOfReach(aSet(), annotated('old', rest))).toBe(false);
    expect(isOutOfReach(aSet(), annotated('old', 'old'))).toBe(true);
  });

  it('is true of every older pod where running pods are not updated', () => {
    const never = aSet({ spec: { updateStrategy: { type: 'NotUpdate' } } });
    expect(isOutOfReach(never, annotated('old', rest))).toBe(true);
    expect(isOutOfReach(never, annotated(whole, rest))).toBe(false);
  });
});

describe('missedStatus', () => {
  it('counts all pods and names the first ten', () => {
    const names = Array.from(
      { length: 5_000 },
      (_, index) => `shop/web-${String((index * 7) % 5_000).padStart(4, '0')}`,
    );
    expect(missedStatus(names)).toEqual({
      missedPods: 5_000,
      missedPodNames: names.toSorted(compareGoStrings).slice(0, mostMissedNames),
    });
    expect(missedStatus(['b/x', 'a/x'])).toEqual({ missedPods: 2, missedPodNames: ['a/x', 'b/x'] });
    expect(missedStatus([])).toEqual({});
  });
});

/** Caches of these objects, which count what is read. */
function aWorld(given: readonly SidecarSet[]) {
  const onError = (error: unknown) => {
    throw error;
  };
  const sets = createCache<SidecarSet>({ onError });
  const pods = createCache<Pod>({ onError });
  const namespaces = createCache<KubeObject>({ onError });
  sets.replace(given, '1');
  pods.replace([], '1');
  namespaces.replace([namespace('shop')], '1');
  const reads = { sets: 0, scans: 0 };
  const changed: string[] = [];
  const counted = {
    sets: {
      all: () => sets.all(),
      byName(place: string, name: string) {
        reads.sets++;
        return sets.byName(place, name);
      },
    },
    pods: {
      all() {
        reads.scans++;
        return pods.all();
      },
    },
    namespaces,
  };
  const missed = findMissedPods(counted, (name) => changed.push(name));
  pods.onChange(missed.podChanged);
  sets.onChange(missed.setChanged);
  missed.rebuild();
  const put = (pod: Pod) => pods.apply('MODIFIED', trimPod(pod));
  return {
    missed,
    sets,
    pods,
    namespaces,
    reads,
    changed,
    put,
    of: (name: string) => [...missed.of(name)].toSorted(compareGoStrings),
  };
}

function namespace(name: string, labels: Record<string, string> = {}, resourceVersion = '1'): KubeObject {
  const metadata = { name, uid: name, resourceVersion, creationTimestamp: born, labels };
  return { apiVersion: 'v1', kind: 'Namespace', metadata };
}

describe('findMissedPods', () => {
  it('follows pods that come, change and go', () => {
    const world = aWorld([aSet()]);
    world.put(aPod({ version: 2 }));
    world.put(aPod({ name: 'has', annotations: listed('logs'), containers: ['log', 'app'], version: 3 }));
    expect(world.of('logs')).toEqual(['shop/web']);
    expect(world.changed.splice(0)).toEqual(['logs']);
    world.put(aPod({ version: 4, annotations: { note: 'x' } }));
    expect(world.changed).toEqual([]);
    world.put(aPod({ version: 5, labels: { app: 'other' } }));
    expect(world.of('logs')).toEqual([]);
    world.put(aPod({ version: 6 }));
    world.pods.apply('DELETED', aPod({ version: 7 }));
    expect(world.of('logs')).toEqual([]);
  });

  it('leaves out pods that have completed, of which no label is kept', () => {
    const world = aWorld([
      aSet({ spec: { selector: { matchExpressions: [{ key: 'x', operator: 'DoesNotExist' }] } } }),
    ]);
    world.put(aPod({ version: 2 }));
    world.put(aPod({ name: 'done', phase: 'Succeeded', version: 3 }));
    expect(world.of('logs')).toEqual(['shop/web']);
  });

  it('follows selectors, canaries and labels of namespaces', () => {
    const world = aWorld([]);
    world.put(aPod({ version: 2 }));
    const pinned = { namespaceSelector: { matchLabels: { team: 'a' } } };
    world.sets.apply('ADDED', { ...aSet({ spec: pinned }), metadata: { ...aSet().metadata, resourceVersion: '2' } });
    expect(world.of('logs')).toEqual([]);
    world.namespaces.apply('MODIFIED', namespace('shop', { team: 'a' }, '3'));
    world.missed.namespaceChanged('shop');
    expect(world.of('logs')).toEqual(['shop/web']);
    const annotations = { 'apps.kruise.io/sidecarset-canary': 'true', 'apps.kruise.io/sidecarset-base': 'logs' };
    const canary = aSet({ name: 'canary', annotations });
    world.sets.apply('ADDED', { ...canary, metadata: { ...canary.metadata, resourceVersion: '4' } });
    expect([world.of('logs'), world.of('canary')]).toEqual([[], ['shop/web']]);
    world.sets.apply('DELETED', { ...canary, metadata: { ...canary.metadata, resourceVersion: '5' } });
    expect([world.of('logs'), world.of('canary')]).toEqual([['shop/web'], []]);
  });

  it('looks at a changed pod alone, and only at SidecarSets that may select it', () => {
    const many = Array.from({ length: 1_000 }, (_, index) =>
      aSet({ name: `set-${index}`, spec: { selector: { matchLabels: { app: `app-${index}` } } } }),
    );
    const oneOf = { matchExpressions: [{ key: 'app', operator: 'In', values: ['web', 'shop'] }] };
    const world = aWorld([...many, aSet({ spec: { selector: oneOf } })]);
    for (let index = 0; index < 5_000; index++) world.put(aPod({ name: `web-${index}`, version: index + 2 }));
    expect(world.of('logs')).toHaveLength(5_000);
    world.reads.sets = 0;
    world.reads.scans = 0;
    world.put(aPod({ name: 'web-1', version: 10_000 }));
    expect(world.reads).toEqual({ sets: 1, scans: 0 });
  });
});

const running: RunningController[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

describe('the missed pods in the status', () => {
  const statusIn = (cluster: MemoryCluster) =>
    cluster.look<SidecarSet & KubeObject>(sidecarSets, { name: 'logs' })?.status;

  it('SCS-131a: are reported for type NotUpdate, too, and the counts stay as they are', async () => {
    const cluster = new MemoryCluster();
    const counts = { observedGeneration: 1, matchedPods: 7, updatedPods: 7, readyPods: 0 };
    cluster.put(kubeResource.namespaces, { metadata: { name: 'shop' } });
    cluster.put(sidecarSets, { ...aSet({ spec: { updateStrategy: { type: 'NotUpdate' } } }), status: counts });
    cluster.put(kubeResource.pods, aPod());
    const controller = await runController((context) => missedPodReports(context, 10), { cluster });
    running.push(controller);
    await waitFor('the pod', () => statusIn(cluster)?.missedPods === 1);
    expect(statusIn(cluster)).toEqual({ ...counts, missedPods: 1, missedPodNames: ['shop/web'] });
    expect(controller.writes.map(({ body }) => body)).toEqual([
      { status: { missedPods: 1, missedPodNames: ['shop/web'] } },
    ]);
    cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'web' });
    await waitFor('the pod to go', () => statusIn(cluster)?.missedPods === undefined);
    expect(statusIn(cluster)).toEqual(counts);
    expect(controller.failures).toEqual([]);
  });
});
