import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { contentHashes } from '../../api/sidecar-set/hash.ts';
import {
  currentContent,
  newestRevision,
  pinnedNamespaces,
  revisionContent,
  selectsPod,
  setsForPod,
  wantedRevision,
} from '../../api/sidecar-set/injection/choose.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { recorded } from '../support/recorded.ts';

function set(spec: JsonObject = {}, name = 'logs', annotations: JsonObject = {}): SidecarSet {
  return defaultSidecarSet(sidecarSetDraft({ name, spec, metadata: { annotations } })) as unknown as SidecarSet;
}

const pod = { labels: { app: 'web' }, namespaceLabels: { 'kubernetes.io/metadata.name': 'shop', team: 'a' } };
const inTeam = (team: string) => ({ namespaceSelector: { matchLabels: { team } } });
const inShop = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } } };
const names = (sets: readonly SidecarSet[]) => setsForPod(sets, pod).map(({ metadata }) => metadata.name);

describe('the SidecarSets of a pod', () => {
  it('SCS-1: select its labels and those of its namespace', () => {
    expect(selectsPod(set(), pod)).toBe(true);
    expect(selectsPod(set(), { ...pod, labels: { app: 'shop' } })).toBe(false);
    expect(selectsPod(set(inTeam('a')), pod)).toBe(true);
    expect(selectsPod(set(inTeam('b')), pod)).toBe(false);
    expect(selectsPod(set(inTeam('a')), { ...pod, namespaceLabels: undefined })).toBe(false);
    expect(selectsPod(set(), { ...pod, namespaceLabels: undefined })).toBe(true);
  });

  it('SCS-1: never with an empty or malformed selector', () => {
    for (const selector of [
      {},
      { matchExpressions: [] },
      { matchExpressions: [{ key: 'a', operator: 'Is' }] },
      undefined,
    ]) {
      expect(selectsPod(set({ selector }), pod)).toBe(false);
    }
  });

  it('SCS-20: are those of the namespace first, each group by name', () => {
    expect(names([set({}, 'c'), set(inShop, 'z'), set({}, 'a'), set(inShop, 'b')])).toEqual(['b', 'z', 'a', 'c']);
    const rule = { matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'In', values: ['shop', 'x'] }] };
    expect(pinnedNamespaces(set({ namespaceSelector: rule }))).toEqual(['shop', 'x']);
    expect(pinnedNamespaces(set(inShop))).toEqual(['shop']);
    expect(pinnedNamespaces(set(inTeam('a')))).toEqual([]);
  });

  it('SCS-21: are not the paused ones', () => {
    expect(names([set({ injectionStrategy: { paused: true } }), set({}, 'other')])).toEqual(['other']);
  });

  const canary = (spec: JsonObject = {}) =>
    set({ updateStrategy: { type: 'NotUpdate' }, ...spec }, 'canary', {
      'apps.kruise.io/sidecarset-canary': 'true',
      'apps.kruise.io/sidecarset-base': 'logs',
    });

  it('SCS-105: are a canary instead of its base, where the canary selects the pod', () => {
    expect(names([set(), canary(), set({}, 'other')])).toEqual(['canary', 'other']);
    expect(names([set(), canary({ selector: { matchLabels: { app: 'other' } } })])).toEqual(['logs']);
  });

  it('SCS-21, SCS-105: are the base while its canary is paused', () => {
    expect(names([set(), canary({ injectionStrategy: { paused: true } })])).toEqual(['logs']);
  });
});

describe('the content that a pod gets', () => {
  const half = () => 0.5;
  const wanted = (revision: JsonObject | undefined, updateStrategy: JsonObject = {}, draw = half) =>
    wantedRevision(set({ injectionStrategy: { revision }, updateStrategy }), pod.labels, draw);

  it('SCS-90: is the current one without a revision, whatever the update strategy', () => {
    expect(wanted(undefined, { paused: true, partition: '100%' })).toBeUndefined();
    expect(wanted({})).toBeUndefined();
  });

  it('SCS-91: is the revision of the name, else the newest one of the custom version', () => {
    expect(wanted({ revisionName: 'logs-1', customVersion: '1' })).toEqual({ name: 'logs-1' });
    expect(wanted({ customVersion: '1' })).toEqual({ sidecarSet: 'logs', customVersion: '1' });
    const revisions = [3, 11, 7].map((revision) => ({ revision }) as ControllerRevision);
    expect(newestRevision(revisions)?.revision).toBe(11);
    expect(newestRevision([])).toBeUndefined();
  });

  it('SCS-92: has the containers, hashes and name of the revision', () => {
    const items = recorded<readonly ControllerRevision[]>('sidecarset-3-updated-revisions');
    const revision = items.find(({ metadata }) => metadata.name === 'cold-6cbcfff5b7');
    if (revision === undefined) throw new Error('there is no such revision');
    const chosen = revisionContent(revision);
    const before = recorded<SidecarSet>('sidecarset-1-injected-v1beta1');
    expect(chosen).toMatchObject({ hashes: currentContent(before).hashes, revision: 'cold-6cbcfff5b7' });
    const { containers, initContainers, volumes, patchPodMetadata } = before.spec;
    expect(chosen?.content).toEqual({ containers, initContainers, volumes, patchPodMetadata, imagePullSecrets: [] });
    const { annotations: _, ...metadata } = revision.metadata;
    expect(revisionContent({ ...revision, metadata })?.hashes).toEqual(chosen?.hashes);
    expect(revisionContent({ ...revision, data: {} })).toBeUndefined();
  });

  it('SCS-93: is the revision while updates are paused, or with policy Always', () => {
    const partial = { revisionName: 'logs-1', policy: 'Partial' };
    expect(wanted(partial, { paused: true })).toBeDefined();
    expect(wanted({ revisionName: 'logs-1' })).toBeDefined();
    expect(wanted(partial)).toBeUndefined();
  });

  it('SCS-93: with policy Partial is the revision for pods that the selector leaves out, and for a share', () => {
    const partial = { revisionName: 'logs-1', policy: 'Partial' };
    expect(wanted(partial, { selector: { matchLabels: { app: 'other' } } })).toBeDefined();
    expect(wanted(partial, { selector: { matchLabels: { app: 'web' } } })).toBeUndefined();
    expect(wanted(partial, { partition: 5 })).toBeUndefined();
    expect(wanted(partial, { partition: '50%' })).toBeDefined();
    expect(wanted(partial, { partition: '50%' }, () => 0.51)).toBeUndefined();
    expect(wanted(partial, { partition: '0%' }, () => 0.001)).toBeUndefined();
    expect(wanted(partial, { partition: '100%' }, () => 0.999)).toBeDefined();
  });

  it('has the hashes of its content where the SidecarSet has none', () => {
    const { annotations: _, ...metadata } = set().metadata;
    const { spec } = set();
    expect(currentContent({ ...set(), metadata }).hashes).toEqual(contentHashes(spec as unknown as JsonObject));
  });
});
