import { describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { goJsonSorted } from '../../api/base/json-go.ts';
import { type ControllerRevision, revisionHash } from '../../api/fleet/revision.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import {
  decideSidecarRevision,
  newSidecarRevision,
  sidecarRevisionData,
  sidecarRevisions,
  surplusRevisions,
} from '../../api/sidecar-set/revision.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { recorded } from '../support/recorded.ts';

function set(spec: JsonObject = {}): SidecarSet {
  return defaultSidecarSet(sidecarSetDraft({ metadata: { uid: 'u' }, spec })) as unknown as SidecarSet;
}

/** A stored revision of this content. */
function revision(spec: JsonObject, number: number, labels: JsonObject = {}, owner = 'u'): ControllerRevision {
  const made = newSidecarRevision(set(spec), 'kruise-system', number, { collisions: 0, before: 0 });
  return {
    ...made,
    metadata: {
      ...made.metadata,
      uid: `r${number}`,
      resourceVersion: '1',
      creationTimestamp: '',
      labels: { ...made.metadata.labels, ...(labels as Record<string, string>) },
      ownerReferences: [{ apiVersion: '', kind: 'SidecarSet', name: 'logs', uid: owner, controller: true }],
    },
  };
}

const image = (tag: number): JsonObject => ({ containers: [{ name: 'log', image: `log:${tag}` }] });
const nameOf = ({ metadata }: ControllerRevision) => metadata.name;

describe('revisions of SidecarSets', () => {
  it.each([
    ['1-injected', 'cold-6cbcfff5b7', 1],
    ['3-updated', 'cold-58c7484b74', 2],
  ])('SCS-205, SCS-206: are those that OpenKruise recorded: %s', (name, revisionName, number) => {
    const owner = recorded<SidecarSet>(`sidecarset-${name}-v1beta1`);
    const stored = recorded<readonly ControllerRevision[]>(`sidecarset-${name}-revisions`).find(
      (one) => nameOf(one) === revisionName,
    );
    const made = newSidecarRevision(owner, 'kruise-system', number, { collisions: 0, before: 0 });
    if (stored === undefined) throw new Error('there is no such revision');
    expect(goJsonSorted(made.data)).toBe(goJsonSorted(stored.data));
    const { annotations: _, ...metadata } = made.metadata;
    expect(stored.metadata).toMatchObject(metadata);
    expect(stored.metadata.annotations).toMatchObject(made.metadata.annotations ?? {});
    expect(made.revision).toBe(stored.revision);
  });

  it('SCS-206: have all five members, and nothing of the strategies', () => {
    expect(goJsonSorted(sidecarRevisionData({ ...set(), spec: { updateStrategy: { partition: 3 } } }))).toBe(
      '{"spec":{"$patch":"replace","containers":null,"imagePullSecrets":null,"initContainers":null,"patchPodMetadata":null,"volumes":null}}',
    );
  });

  it('SCS-210: have the hash of the test vector, and keep the first one in the label after a collision', () => {
    const empty = sidecarRevisionData({ ...set(), spec: {} });
    expect([revisionHash(empty, 0), revisionHash(empty, 1)]).toEqual(['5c7c857c5f', '5c7c857c5d']);
    const made = newSidecarRevision({ ...set(), spec: {} }, 'x', 1, { collisions: 1, before: 0 });
    expect(made.metadata.name).toBe('logs-5c7c857c5d');
    expect(made.metadata.labels?.['controller.kubernetes.io/hash']).toBe('5c7c857c5f');
  });

  it('SCS-205: carry the labels and annotations of the SidecarSet', () => {
    const owner = set({ customVersion: '2' });
    const labelled = { ...owner, metadata: { ...owner.metadata, labels: { team: 'a' } } };
    const { labels, annotations } = newSidecarRevision(labelled, 'x', 1, { collisions: 0, before: 0 }).metadata;
    expect(labels).toMatchObject({
      team: 'a',
      'kruise.io/sidecarset-name': 'logs',
      'apps.kruise.io/sidecarset-custom-version': '2',
    });
    expect(annotations).toEqual(owner.metadata.annotations);
  });

  it('SCS-207: are created, used again or renumbered', () => {
    const history = [revision(image(1), 1), revision(image(2), 2)];
    expect(decideSidecarRevision(set(image(1)), [])).toEqual({ kind: 'create', number: 1 });
    expect(decideSidecarRevision(set(image(3)), history)).toEqual({ kind: 'create', number: 3 });
    expect(decideSidecarRevision(set(image(2)), history)).toEqual({ kind: 'use', revision: history[1] });
    expect(decideSidecarRevision(set(image(1)), history)).toEqual({
      kind: 'use',
      revision: history[0],
      patch: { revision: 3 },
    });
  });

  it('SCS-207: are those of the SidecarSet and of nobody, oldest first', () => {
    const orphan = { ...revision(image(1), 1), metadata: { ...revision(image(1), 1).metadata, ownerReferences: [] } };
    const all = [revision(image(3), 3), revision(image(2), 2, {}, 'other'), orphan];
    expect(sidecarRevisions(set(), all).map((one) => one.revision)).toEqual([1, 3]);
  });

  it('SCS-208: get the custom version of the SidecarSet', () => {
    const history = [revision(image(1), 1)];
    const labels = { 'apps.kruise.io/sidecarset-custom-version': '7' };
    expect(decideSidecarRevision(set({ ...image(1), customVersion: '7' }), history)).toMatchObject({
      patch: { metadata: { labels } },
    });
    const renamed = [revision(image(1), 1, labels)];
    expect(decideSidecarRevision(set({ ...image(1), customVersion: '7' }), renamed)).not.toHaveProperty('patch');
    expect(decideSidecarRevision(set(image(1)), renamed)).not.toHaveProperty('patch');
  });

  it('SCS-209, SCS-209a: are deleted beyond the limit, oldest first, except for those in use', () => {
    const history = Array.from({ length: 15 }, (_, index) => revision(image(index), index + 1));
    const surplus = (spec: JsonObject, ...onPods: readonly string[]) =>
      surplusRevisions(set({ ...image(14), ...spec }), history, {
        latest: nameOf(history[14] as ControllerRevision),
        onPods: new Set(onPods),
      }).map((one) => one.revision);
    expect(surplus({})).toEqual([1, 2, 3, 4, 5]);
    expect(surplus({}, nameOf(history[1] as ControllerRevision))).toEqual([1, 3, 4, 5, 6]);
    const named = { injectionStrategy: { revision: { revisionName: nameOf(history[0] as ControllerRevision) } } };
    expect(surplus(named)).toEqual([2, 3, 4, 5, 6]);
    expect(surplus({ revisionHistoryLimit: 0 })).toHaveLength(14);
    expect(surplus({ revisionHistoryLimit: 1 }, ...history.map(nameOf))).toEqual([]);
    const version = { 'apps.kruise.io/sidecarset-custom-version': '7' };
    const versioned = [revision(image(1), 1, version), revision(image(2), 2, version), revision(image(3), 3)];
    const kept = surplusRevisions(
      set({ revisionHistoryLimit: 1, injectionStrategy: { revision: { customVersion: '7' } } }),
      versioned,
      { latest: nameOf(versioned[2] as ControllerRevision), onPods: new Set() },
    );
    expect(kept.map((one) => one.revision)).toEqual([1]);
  });

  it('keep a text byte by byte in their content', () => {
    expect(objectOr(sidecarRevisionData(set()).spec).containers).toEqual(set().spec.containers);
  });
});
