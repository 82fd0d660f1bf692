import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import type { JsonObject } from '../../api/base/json.ts';
import type { LabelSelector } from '../../api/core/label-selector.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { selectsPod } from '../../api/sidecar-set/injection/choose.ts';
import {
  type SidecarSelection,
  selectionLimit,
  sidecarSelection,
  sidecarSelections,
} from '../../api/sidecar-set/selection.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { KubeError, noAnswer } from '../../kube/failures.ts';
import { sidecarSetController } from '../../watcher/kinds/sidecar-set/controller.ts';
import { followSidecarSets } from '../../webhook/review/followed-sidecar-sets.ts';
import { keepSelection } from '../../webhook/review/kept-selection.ts';
import { runController } from '../support/controller-context.ts';
import { type Meet, MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { waitFor } from '../support/wait.ts';

function set(spec: JsonObject = {}, name = 'logs', annotations: JsonObject = {}): SidecarSet {
  const metadata = { uid: `uid-${name}`, generation: 1, annotations };
  return defaultSidecarSet(sidecarSetDraft({ name, spec, metadata })) as unknown as SidecarSet;
}

const rule = (key: string, operator: string, ...values: readonly string[]) => ({
  matchExpressions: [{ key, operator, ...(values.length > 0 && { values }) }],
});

/** What the policy makes of the summary. */
function missing(sets: readonly SidecarSet[], facts: readonly string[]): readonly string[] {
  const has = (fact: string) => facts.includes(fact);
  const { sidecarSets, byFact, byNamespace = false } = sidecarSelection(sets);
  const ofPod = facts.filter((fact) => !fact.startsWith('ns:'));
  if (!byNamespace && ![...ofPod, ''].some((fact) => fact in byFact)) return []; // its match condition
  const places = [...facts, ''].flatMap((fact) => byFact[fact] ?? []);
  return [...new Set(places)]
    .flatMap((place) => sidecarSets[place] ?? [])
    .filter(({ selects, excludes }) => selects.every(({ anyOf }) => anyOf.some(has)) && !excludes.some(has))
    .map(({ name }) => name);
}

describe('the selection of SidecarSets', () => {
  it('SCS-1: says in facts which labels each operator selects', () => {
    const entry = (selector: object, more: JsonObject = {}) =>
      sidecarSelection([set({ selector, ...more } as JsonObject)]).sidecarSets[0];
    expect(entry({ matchLabels: { tier: 'x', app: 'web' } })).toEqual({
      name: 'logs',
      selects: [{ anyOf: ['app=web'] }, { anyOf: ['tier=x'] }],
      excludes: ['injected:logs'],
    });
    expect(entry(rule('app', 'In', 'a', 'b'))?.selects).toEqual([{ anyOf: ['app=a', 'app=b'] }]);
    expect(entry(rule('app', 'NotIn', 'a', 'b'))).toMatchObject({
      selects: [],
      excludes: ['app=a', 'app=b', 'injected:logs'],
    });
    expect(entry(rule('app', 'Exists'))?.selects).toEqual([{ anyOf: ['app'] }]);
    expect(entry(rule('app', 'DoesNotExist'))).toMatchObject({ selects: [], excludes: ['app', 'injected:logs'] });
    const namespaceSelector = { matchLabels: { env: 'dev' }, ...rule('old', 'DoesNotExist') };
    expect(entry({ matchLabels: { app: 'web' } }, { namespaceSelector } as unknown as JsonObject)).toMatchObject({
      selects: [{ anyOf: ['app=web'] }, { anyOf: ['ns:env=dev'] }],
      excludes: ['ns:old', 'injected:logs'],
    });
  });

  it('SCS-1: selects the pods that the webhook selects', () => {
    const selectors: readonly LabelSelector[] = [
      ...[{ matchLabels: { app: 'a' } }, rule('app', 'In', 'a', 'b'), rule('app', 'NotIn', 'a'), rule('app', 'Exists')],
      ...[rule('app', 'DoesNotExist'), { matchLabels: { app: 'b' }, ...rule('tier', 'NotIn', 'x') }, {}],
    ];
    const labels: readonly Record<string, string>[] = [
      {},
      { app: 'a' },
      { app: 'b' },
      { app: 'b', tier: 'x' },
      { app: '' },
    ];
    const factsOf = (of: Record<string, string>, prefix = '') =>
      Object.entries(of).flatMap(([key, value]) => [`${prefix}${key}`, `${prefix}${key}=${value}`]);
    for (const selector of selectors) {
      for (const namespaceSelector of selectors) {
        const one = set({ selector, namespaceSelector } as unknown as JsonObject);
        for (const pod of labels) {
          for (const namespace of labels) {
            const expected = selectsPod(one, { labels: pod, namespaceLabels: namespace }) ? ['logs'] : [];
            expect(missing([one], [...factsOf(pod), ...factsOf(namespace, 'ns:')])).toEqual(expected);
          }
        }
      }
    }
  });

  it('SCS-105: a pod with a canary of a SidecarSet, or with a canary of that, lacks nothing', () => {
    const canary = (base: string) => ({
      'apps.kruise.io/sidecarset-canary': 'true',
      'apps.kruise.io/sidecarset-base': base,
    });
    const sets = [set(), set({}, 'next', canary('logs')), set({}, 'after', canary('next'))];
    expect(missing(sets, ['app=web'])).toEqual(['after', 'logs', 'next']);
    expect(missing(sets, ['app=web', 'injected:next'])).toEqual(['after']);
    expect(missing(sets, ['app=web', 'injected:after'])).toEqual([]);
    expect(missing(sets, ['app=web', 'injected:logs'])).toEqual(['after', 'next']);
    const circle = [set({}, 'a', canary('b')), set({}, 'b', canary('a'))];
    expect(missing(circle, ['app=web', 'injected:a'])).toEqual([]);
  });

  it('SCS-3: contains no SidecarSet that is paused, whose failure is ignored, or that selects nothing', () => {
    const ignored = set({}, 'ignored', { 'windlass.io/injection-failure': 'Ignore' });
    const paused = set({ injectionStrategy: { paused: true } }, 'paused');
    const empty = set({ selector: {} }, 'empty');
    const malformed = set({ selector: rule('app', 'In') } as unknown as JsonObject, 'malformed');
    const nowhere = set({ namespaceSelector: rule('app', 'Odd') } as unknown as JsonObject, 'nowhere');
    const strict = set({ injectionStrategy: { paused: false } }, 'strict', { 'windlass.io/injection-failure': 'Fail' });
    const all = [ignored, paused, empty, malformed, nowhere, strict];
    expect(sidecarSelection(all).sidecarSets.map(({ name }) => name)).toEqual(['strict']);
  });

  it('finds them by the facts that the fewest of them require', () => {
    const shop = { namespaceSelector: { matchLabels: { env: 'prod' } } };
    const byValues = (...values: readonly string[]) =>
      ({ selector: rule('app', 'In', ...values), ...shop }) as unknown as JsonObject;
    const never = set({ selector: rule('app', 'NotIn', 'a') } as unknown as JsonObject, 'd');
    expect(
      sidecarSelection([set(byValues('a', 'b'), 'a'), set(byValues('c'), 'b'), set(byValues('d'), 'c'), never]).byFact,
    ).toEqual({
      ...{ 'app=a': [0], 'app=b': [0] },
      ...{ 'app=c': [1], 'app=d': [2] },
      '': [3],
    });
  });

  it('says whether a pod may be selected of which only the labels are known', () => {
    const prod: JsonObject = { namespaceSelector: { matchLabels: { env: 'prod' } } };
    const dev: JsonObject = { namespaceSelector: { matchLabels: { env: 'dev' } } };
    expect(sidecarSelection([set(prod, 'a')]).byNamespace).toBeUndefined();
    expect(sidecarSelection([set(prod, 'a'), set(dev, 'b')])).toMatchObject({
      byFact: { 'ns:env=prod': [0], 'ns:env=dev': [1] },
      byNamespace: true,
    });
  });

  it('is the same for the same SidecarSets in another order', () => {
    const sets = ['c', 'a', 'b'].map((name) => set({}, name));
    expect(sidecarSelection(sets.toReversed())).toEqual(sidecarSelection(sets));
  });

  it('names those that do not fit in, the largest first, and contains the others', () => {
    const { sidecarSets: most, facts, factLength } = selectionLimit;
    const many = Array.from({ length: most + 1 }, (_, index) => set({}, `set-${index + 1_000}`));
    const full = sidecarSelection(many);
    expect(full.sidecarSets).toHaveLength(most);
    expect(full).toMatchObject({ unchecked: 1, uncheckedNames: [`set-${most + 1_000}`] });
    const values = Array.from({ length: facts }, (_, index) => `v${index}`);
    const wide = set({ selector: rule('app', 'In', ...values) } as unknown as JsonObject, 'a-wide');
    const long = set({ selector: { matchLabels: { app: 'x'.repeat(factLength) } } }, 'b-long');
    const { sidecarSets: checked, byFact: _, ...left } = sidecarSelection([wide, long, set()]);
    expect(checked.map(({ name }) => name)).toEqual(['logs']);
    expect(left).toEqual({ unchecked: 2, uncheckedNames: ['a-wide', 'b-long'] });
    const eleven = Array.from({ length: 11 }, (_, index) => ({
      ...long,
      metadata: { ...long.metadata, name: `s${index}` },
    }));
    expect(sidecarSelection(eleven).uncheckedNames).toHaveLength(10);
    const key = `${'x'.repeat(250)}/${'y'.repeat(60)}`;
    const keys = Array.from({ length: facts / 3 }, (_, index) =>
      set({ selector: { matchLabels: { [key]: `${index}` } } }, `s${index}`),
    );
    const stored = JSON.stringify(
      sidecarSelection([
        ...keys,
        set({ selector: rule(key, 'In', ...values.slice(0, 1_000)) } as unknown as JsonObject),
      ]),
    );
    expect(stored.length).toBeLessThan(1_200_000);
  });

  it('has the limits of its CustomResourceDefinition', () => {
    const file = join(import.meta.dirname, '../../deploy/rbac-gates/PodWebhook.yaml');
    const [crd] = parseAllDocuments(readFileSync(file, 'utf8'));
    const spec = ['spec', 'versions', 0, 'schema', 'openAPIV3Schema', 'properties', 'spec', 'properties'];
    const entries = [...spec, 'sidecarSets'];
    const entry = [...entries, 'items', 'properties'];
    const anyOf = [...entry, 'selects', 'items', 'properties', 'anyOf'];
    const { sidecarSets: most, facts, factLength, names } = selectionLimit;
    expect(crd?.getIn([...entries, 'maxItems'])).toBe(most);
    for (const list of [[...entry, 'selects'], anyOf, [...entry, 'excludes']]) {
      expect(crd?.getIn([...list, 'maxItems'])).toBe(facts);
    }
    for (const list of [anyOf, [...entry, 'excludes']]) {
      expect(crd?.getIn([...list, 'items', 'maxLength'])).toBe(factLength);
    }
    expect(crd?.getIn([...spec, 'uncheckedNames', 'maxItems'])).toBe(names);
  });
});

describe('the object with the selection', () => {
  const stops: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    await Promise.all(stops.splice(0).map((stop) => stop()));
  });

  function keep(cluster: MemoryCluster, meet?: (call: Parameters<Meet>[0]) => void) {
    const writes: string[] = [];
    const warnings: string[] = [];
    const client = cluster.client((call) => {
      meet?.(call);
      if (call.plural === sidecarSelections.plural && call.verb !== 'get') writes.push(call.verb);
    });
    const log = { info() {}, warn: (_: object, message: string) => void warnings.push(message) };
    const sidecars = followSidecarSets({ client, log }, 'kruise-system');
    const stop = keepSelection({ client, sidecars, log, everyMs: 20 });
    stops.push(stop, () => sidecars.stop());
    return { writes, warnings };
  }
  const stored = (cluster: MemoryCluster) => cluster.look<SidecarSelection>(sidecarSelections, { name: 'windlass' });
  const namesIn = (cluster: MemoryCluster) => stored(cluster)?.spec.sidecarSets.map(({ name }) => name);

  it('follows the SidecarSets, and is written only where it differs', async () => {
    const cluster = new MemoryCluster();
    for (const name of ['a', 'b', 'c']) cluster.put(sidecarSets, set({}, name) as never);
    const { writes } = keep(cluster);
    await waitFor('the object', () => namesIn(cluster)?.length === 3);
    expect(writes).toEqual(['create']);
    cluster.remove(sidecarSets, { name: 'a' });
    await waitFor('the deletion', () => namesIn(cluster)?.join() === 'b,c');
    const edited = set({ selector: { matchLabels: { app: 'new' } } }, 'b');
    cluster.put(sidecarSets, { ...edited, metadata: { ...edited.metadata, generation: 2 } } as never);
    await waitFor('the edit', () => JSON.stringify(stored(cluster)).includes('app=new'));
    cluster.put(sidecarSets, set({}, 'c', { 'windlass.io/injection-failure': 'Ignore' }) as never);
    await waitFor('the annotation', () => namesIn(cluster)?.join() === 'b');
    const { length } = writes;
    cluster.put(sidecarSets, set({}, 'd') as never);
    await waitFor('the new one', () => namesIn(cluster)?.join() === 'b,d');
    expect(writes.slice(length)).toEqual(['patch']);
  });

  it('is not there while the SidecarSets require nothing of pods', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, set({}, 'a') as never);
    const { writes, warnings } = keep(cluster);
    await waitFor('the object', () => namesIn(cluster)?.length === 1);
    cluster.put(sidecarSets, set({}, 'a', { 'windlass.io/injection-failure': 'Ignore' }) as never);
    await waitFor('its deletion', () => stored(cluster) === undefined);
    cluster.put(sidecarSets, set({}, 'b') as never);
    await waitFor('the object again', () => namesIn(cluster)?.join() === 'b');
    expect([writes, warnings]).toEqual([['create', 'delete', 'create'], []]);
  });

  it('is written again where somebody has changed or deleted it', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, set() as never);
    keep(cluster);
    await waitFor('the object', () => namesIn(cluster)?.length === 1);
    cluster.remove(sidecarSelections, { name: 'windlass' });
    await waitFor('the object again', () => namesIn(cluster)?.length === 1);
  });

  /** A keeper that knows these SidecarSets as of this version, and that nothing tells of a change. */
  async function keeper(cluster: MemoryCluster, sets: readonly SidecarSet[], reached: string, passes = 3) {
    let done = 0;
    const warnings: unknown[] = [];
    const client = cluster.client(({ verb, plural }) => {
      if (plural === sidecarSelections.plural && verb === 'get') done += 1;
    });
    const log = { warn: (...warning: unknown[]) => void warnings.push(warning) };
    const sidecars = { all: () => sets, reached: () => reached, synced: async () => undefined, onChange() {} };
    const stop = keepSelection({ client, sidecars, log, everyMs: 5 });
    stops.push(stop);
    await waitFor('some passes', () => done > passes);
    await stop();
    expect(warnings).toEqual([]);
  }

  it('is left alone by those whose SidecarSets are older than what it was computed from', async () => {
    const cluster = new MemoryCluster();
    for (let n = 0; n < 300; n++) cluster.put(sidecarSets, set({}, `other-${n}`) as never);
    await keeper(cluster, [set({}, 'a'), set({}, 'b')], '200');
    const [annotation] = Object.entries(stored(cluster)?.metadata.annotations ?? {});
    expect(annotation).toEqual(['windlass.io/sidecar-sets-version', '200']);
    const { length } = cluster.calls;
    for (const stale of [[], [set({}, 'a')], [set({}, 'z')]]) await keeper(cluster, stale, '99');
    expect(cluster.calls.slice(length).filter((call) => !call.startsWith('get '))).toEqual([]);
    expect(namesIn(cluster)).toEqual(['a', 'b']);
    await keeper(cluster, [set({}, 'c')], '200');
    expect(namesIn(cluster)).toEqual(['c']);
    await keeper(cluster, [set({}, 'd')], '250');
    await keeper(cluster, [set({}, 'c')], '249');
    expect(namesIn(cluster)).toEqual(['d']);
    await keeper(cluster, [], '251');
    expect(stored(cluster)).toBeUndefined();
  });

  it('is written whatever its version says where that cannot be: of the future, or no version', async () => {
    const cluster = new MemoryCluster();
    for (const version of ['9999999', 'newest', '', '-1']) {
      await keeper(cluster, [set({}, 'a')], '1');
      const found = stored(cluster);
      const metadata = { ...found?.metadata, annotations: { 'windlass.io/sidecar-sets-version': version, other: 'x' } };
      cluster.put(sidecarSelections, { ...found, metadata } as never);
      await keeper(cluster, [set({}, 'b')], '1');
      expect(namesIn(cluster)).toEqual(['b']);
      expect(stored(cluster)?.metadata.annotations).toEqual({ 'windlass.io/sidecar-sets-version': '1', other: 'x' });
    }
  });

  it('is written by the leading watcher as well, with gate PodWebhook', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, set() as never);
    const off = await runController(sidecarSetController, { cluster, gates: 'PodWebhook=false' });
    stops.push(() => off.stop());
    const statusOf = () => cluster.look<SidecarSet>(sidecarSets, { name: 'logs' })?.status;
    await waitFor('the status', () => statusOf() !== undefined);
    expect(stored(cluster)).toBeUndefined();
    const leading = await runController(sidecarSetController, { cluster });
    stops.push(() => leading.stop());
    await waitFor('the object', () => namesIn(cluster)?.join() === 'logs');
    expect(stored(cluster)?.metadata.annotations).toEqual({
      'windlass.io/sidecar-sets-version': expect.stringMatching(/^\d+$/),
    });
    cluster.remove(sidecarSets, { name: 'logs' });
    await waitFor('its deletion', () => stored(cluster) === undefined);
  });

  it('is not written before all SidecarSets are known', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, set() as never);
    let isAway = true;
    const { writes } = keep(cluster, ({ verb, plural }) => {
      if (isAway && verb === 'list' && plural === sidecarSets.plural) throw noAnswer('list', 'away');
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(writes).toEqual([]);
    isAway = false;
    await waitFor('the object', () => namesIn(cluster)?.length === 1);
  });

  it('is tried again where it cannot be written, which is reported once', async () => {
    const cluster = new MemoryCluster();
    cluster.put(sidecarSets, set() as never);
    let asked = 0;
    const { warnings } = keep(cluster, ({ plural }) => {
      if (plural !== sidecarSelections.plural) return;
      asked += 1;
      throw new KubeError({ status: 404, message: 'no such CRD' });
    });
    await waitFor('several tries', () => asked > 4);
    expect(warnings).toEqual([expect.stringContaining('Cannot write the SidecarSelection')]);
  });
});
