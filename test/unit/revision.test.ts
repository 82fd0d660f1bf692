import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { goJsonSorted } from '../../api/base/json-go.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import {
  afterNameTaken,
  type ControllerRevision,
  canonicalTemplateOf,
  claimTemplatesAnnotation,
  claimTemplatesHash,
  currentRevisionOf,
  decideUpdateRevision,
  isAtRevision,
  newRevision,
  type RevisionOwner,
  revisionBody,
  revisionData,
  revisionHash,
  revisionLabels,
  revisionMark,
  revisionOfPod,
  revisionsOf,
  revisionsToPrune,
  sameRevision,
  shortHash,
  templateOf,
} from '../../api/fleet/revision.ts';
import { recorded } from '../support/recorded.ts';

interface RecordedCloneSet extends KubeObject {
  readonly spec: { readonly template: JsonObject };
}

function ownerOf({ apiVersion, kind, metadata, spec }: RecordedCloneSet): RevisionOwner {
  const { name, namespace = '', uid, annotations } = metadata;
  const ownAnnotations = claimTemplatesAnnotation(undefined);
  return { apiVersion, kind, name, namespace, uid, annotations, ownAnnotations, template: spec.template };
}

const created = ownerOf(recorded<RecordedCloneSet>('cloneset-1-created-v1beta1'));
const updating = ownerOf(recorded<RecordedCloneSet>('cloneset-3-updating'));
const history = recorded<readonly ControllerRevision[]>('cloneset-3-updating-revisions');
const [older, newer] = history as readonly [ControllerRevision, ControllerRevision];

function owner(overrides: Partial<RevisionOwner> = {}): RevisionOwner {
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    namespace: 'shop',
    name: 'web',
    uid: 'u',
    ownAnnotations: claimTemplatesAnnotation(undefined),
    template: templateWith('nginx:1'),
    ...overrides,
  };
}

function templateWith(image: string): JsonObject {
  return { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'main', image }] } };
}

/** A revision as the API server holds it. */
function stored(number: number, image: string, overrides: Partial<KubeObject['metadata']> = {}): ControllerRevision {
  const { metadata, ...rest } = newRevision(owner({ template: templateWith(image) }), number);
  const creationTimestamp = `2026-11-21T06:00:0${number}Z`;
  return {
    ...rest,
    metadata: { ...metadata, uid: `r-${number}`, resourceVersion: '1', creationTimestamp, ...overrides },
  };
}

const found = { uid: 'u', isSelected: ({ app }: Readonly<Record<string, string>>) => app === 'web' };

describe('newRevision', () => {
  it.each([
    ['created', created, older],
    ['changed', updating, newer],
  ])('CS-80, CS-81: is what a real OpenKruise recorded when the CloneSet was %s', (_, from, real) => {
    const { apiVersion, kind, metadata, data, revision } = newRevision(from, real.revision);
    // Put there later, by the pre-download of images.
    const { 'apps.kruise.io/image-predownload-ignored': _ignored, ...labels } = real.metadata.labels ?? {};
    const { name, namespace, annotations, ownerReferences } = real.metadata;
    expect({ apiVersion, kind, metadata, data, revision }).toEqual({
      apiVersion: real.apiVersion,
      kind: real.kind,
      metadata: { name, namespace, annotations, ownerReferences, labels },
      data: real.data,
      revision: real.revision,
    });
  });

  it('CS-80: carries all annotations of the workload, and the hash of its claims', () => {
    const claim = { metadata: { name: 'data' }, spec: {} };
    const revision = newRevision(
      owner({ annotations: { team: 'a' }, ownAnnotations: claimTemplatesAnnotation([claim]) }),
      1,
    );
    expect(revision.metadata.annotations).toEqual({
      team: 'a',
      [revisionMark.claimTemplatesHash]: claimTemplatesHash([claim]),
    });
    expect(newRevision(owner(), 1).metadata.annotations).toEqual({ [revisionMark.claimTemplatesHash]: '' });
  });

  it('CS-81: cuts a long name so that the hash has room', () => {
    const { name } = newRevision(owner({ name: 'n'.repeat(253) }), 1).metadata;
    expect(name).toMatch(/^n{223}-[b-z2-9]+$/);
  });

  it('CS-87: is the same whatever changes outside the template', () => {
    const other = newRevision(owner({ annotations: { a: 'b' }, ownAnnotations: claimTemplatesAnnotation([{}]) }), 9);
    expect(other.metadata.name).toBe(newRevision(owner(), 1).metadata.name);
  });
});

describe('revisionHash', () => {
  it('CS-81: gives the known hashes of a known document', () => {
    const spec = { containers: [{ image: 'nginx:1.25', name: 'main', resources: {} }] };
    const data = revisionData({ metadata: { labels: { app: 'sample' } }, spec });
    expect(goJsonSorted(data)).toBe(
      '{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"sample"}},' +
        '"spec":{"containers":[{"image":"nginx:1.25","name":"main","resources":{}}]}}}}',
    );
    expect([0, 1].map((collisions) => revisionHash(data, collisions))).toEqual(['cd9bb944', 'cd9bb945']);
  });
});

describe('revisionBody', () => {
  it('CS-80: sends the document as Go writes it, with sorted keys and escapes', () => {
    const revision = newRevision(owner({ template: templateWith('a&b') }), 1);
    const body = JSON.stringify(revisionBody(revision));
    expect(body).toContain(`"data":${goJsonSorted(revision.data)}`);
    expect(body).toContain('a\\u0026b');
    expect(JSON.parse(body)).toEqual(revision);
  });
});

describe('sameRevision', () => {
  it('CS-82: compares what is meant, so that other encodings start no roll-out', () => {
    const { creationTimestamp: _, ...metadata } = { ...(templateOf(older)?.metadata as JsonObject) };
    const spec = templateOf(older)?.spec as JsonObject;
    const encoded = { spec: { template: { spec: { ...spec, hostNetwork: false, volumes: [] }, metadata } } };
    expect(sameRevision(older, { data: encoded })).toBe(true);
    expect(sameRevision(older, newer)).toBe(false);
  });

  it('compares documents that it cannot read literally', () => {
    expect(sameRevision({ data: { a: 1, b: 2 } }, { data: { b: 2, a: 1 } })).toBe(true);
    expect(sameRevision({ data: { a: 1 } }, { data: { a: 2 } })).toBe(false);
  });
});

describe('templateOf', () => {
  it('gives back the template without the directive', () => {
    expect(templateOf(older)).toEqual(created.template);
  });

  it('IPU-1: says when there is nothing to read', () => {
    expect(templateOf({ data: { spec: {} } })).toBeUndefined();
  });
});

describe('L5: a revision without data, as somebody may make it by hand', () => {
  const { data: _, ...bare } = stored(1, 'nginx:1');
  const withoutData = bare as ControllerRevision;

  it('keeps no template, and is the same as no other', () => {
    expect(templateOf(withoutData)).toBeUndefined();
    expect(canonicalTemplateOf(withoutData)).toBeUndefined();
    expect(sameRevision(withoutData, stored(1, 'nginx:1'))).toBe(false);
    expect(sameRevision(withoutData, withoutData)).toBe(true);
  });

  it('is passed over where the revision of a template is looked for', () => {
    expect(decideUpdateRevision(owner(), [withoutData], 0).kind).toBe('create');
    expect(afterNameTaken(newRevision(owner(), 1), withoutData, found)).toEqual({ kind: 'collision' });
  });
});

describe('decideUpdateRevision', () => {
  it('CS-82: keeps the newest revision when it has the template', () => {
    expect(decideUpdateRevision(updating, history.toReversed(), 0)).toEqual({ kind: 'keep', revision: newer });
  });

  it('CS-63, CS-82: makes an older revision the newest when its template comes back', () => {
    expect(decideUpdateRevision(created, history, 0)).toEqual({
      kind: 'renumber',
      revision: { ...older, revision: 3 },
      patch: { revision: 3, metadata: { annotations: { [revisionMark.claimTemplatesHash]: '' } } },
    });
  });

  it('CS-82: gives a revision that comes back the hash of the claims of now', () => {
    const claims = [{ metadata: { name: 'data' }, spec: {} }];
    const back = owner({ ownAnnotations: claimTemplatesAnnotation(claims) });
    const decision = decideUpdateRevision(back, [stored(1, 'nginx:1'), stored(2, 'nginx:2')], 0);
    const hash = { [revisionMark.claimTemplatesHash]: claimTemplatesHash(claims) };
    expect(decision).toMatchObject({
      kind: 'renumber',
      revision: { metadata: { annotations: hash } },
      patch: { metadata: { annotations: hash } },
    });
  });

  it('CS-82: creates a revision with the next number for a new template', () => {
    const decision = decideUpdateRevision(owner({ template: templateWith('nginx:3') }), [stored(7, 'nginx:1')], 0);
    expect(decision).toMatchObject({ kind: 'create', revision: { revision: 8 } });
    expect(decideUpdateRevision(owner(), [], 0)).toMatchObject({ kind: 'create', revision: { revision: 1 } });
  });

  it('CS-83: gives another name after each collision', () => {
    const names = [0, 1].map((collisions) => decideUpdateRevision(owner(), [], collisions).revision.metadata.name);
    expect(new Set(names).size).toBe(2);
  });
});

describe('afterNameTaken', () => {
  it('CS-83: adopts the same content, and counts a collision otherwise', () => {
    const wanted = newRevision(owner(), 2);
    const same = stored(1, 'nginx:1');
    expect(afterNameTaken(wanted, same, found)).toEqual({ kind: 'adopt', revision: same });
    expect(afterNameTaken(wanted, stored(1, 'nginx:2'), found)).toEqual({ kind: 'collision' });
  });

  it('CS-83, CS-84, AS-22: counts a collision where the same content is not among the revisions of the workload', () => {
    const answerTo = (metadata: Parameters<typeof stored>[2]) =>
      afterNameTaken(newRevision(owner(), 2), stored(1, 'nginx:1', metadata), found).kind;
    const controller = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'web', uid: 'other', controller: true };
    expect(answerTo({ ownerReferences: [controller] })).toBe('collision');
    expect(answerTo({ ownerReferences: [{ ...controller, controller: false }] })).toBe('adopt');
    expect(answerTo({ labels: { app: 'db' } })).toBe('collision');
  });
});

describe('revisionsOf', () => {
  it('CS-84: counts what the selector chooses and nobody else controls, oldest first', () => {
    const foreign = [{ apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'web', uid: 'other', controller: true }];
    const revisions = [
      stored(3, 'nginx:3'),
      stored(1, 'nginx:1', { ownerReferences: [] }),
      stored(2, 'nginx:2', { ownerReferences: foreign }),
      stored(4, 'nginx:4', { labels: { app: 'db' } }),
    ];
    const chosen = revisionsOf('u', revisions, (labels) => labels.app === 'web');
    expect(chosen.map(({ revision }) => revision)).toEqual([1, 3]);
  });
});

describe('currentRevisionOf', () => {
  it('CS-85: is the update revision when the named one is gone', () => {
    expect(currentRevisionOf(older.metadata.name, history, newer)).toBe(older);
    expect(currentRevisionOf('web-gone', history, newer)).toBe(newer);
    expect(currentRevisionOf(undefined, history, newer)).toBe(newer);
  });
});

describe('revisionsToPrune', () => {
  const revisions = [4, 2, 5, 1, 3].map((number) => stored(number, `nginx:${number}`));
  const nameOf = (number: number) => stored(number, `nginx:${number}`).metadata.name;

  it('CS-86: deletes the oldest unused ones beyond the limit', () => {
    const inUse = [nameOf(5)];
    const podLabels = [shortHash(nameOf(2)), nameOf(5), undefined];
    const pruned = (limit: number) => revisionsToPrune({ revisions, inUse, podLabels, limit }).map((r) => r.revision);
    expect([0, 1, 2, 3, 10, -1].map(pruned)).toEqual([[1, 3, 4], [1, 3], [1], [], [], [1, 3, 4]]);
  });
});

describe('labels of pods', () => {
  const pods = recorded<readonly Pod[]>('cloneset-3-updating-pods');

  it('IPU-41: name the revision in full or by its hash alone', () => {
    const gates = parseFeatureGates();
    expect(revisionLabels('web-8b47cf55', gates)).toEqual({
      'controller-revision-hash': 'web-8b47cf55',
      'pod-template-hash': '8b47cf55',
    });
    expect(revisionLabels('web-8b47cf55', { ...gates, CloneSetShortHash: true })).toEqual({
      'controller-revision-hash': '8b47cf55',
      'pod-template-hash': '8b47cf55',
    });
  });

  it('IPU-41: are compared by their last segment', () => {
    expect(isAtRevision('web-8b47cf55', 'web-8b47cf55')).toBe(true);
    expect(isAtRevision('8b47cf55', 'web-8b47cf55')).toBe(true);
    expect(isAtRevision('84d9b589cd', 'web-8b47cf55')).toBe(false);
    expect(isAtRevision('', 'web-')).toBe(false);
    expect(isAtRevision(undefined, 'web-8b47cf55')).toBe(false);
  });

  it('find the revisions of recorded pods', () => {
    const found = pods.map(({ metadata }) => revisionOfPod(metadata.labels?.['controller-revision-hash'], history));
    expect(found.map((revision) => revision?.revision)).toEqual([2, 1, 2]);
  });
});

describe('claimTemplatesHash', () => {
  const claim = (name: string, spec: JsonObject) => ({ metadata: { name, labels: { a: 'b' } }, spec });
  const spec = {
    resources: { requests: { storage: '1Gi' }, limits: { storage: '2048Mi' } },
    accessModes: ['ReadWriteOnce'],
  };

  it('has the known value for known claims, however they are spelled', () => {
    expect(claimTemplatesHash([claim('pvc-1', spec)])).toBe('1129974074');
  });

  it('does not depend on the order of the claims, and is empty for none', () => {
    const two = [claim('b', spec), claim('a', {})];
    expect(claimTemplatesHash(two)).toBe(claimTemplatesHash(two.toReversed()));
    expect([undefined, []].map(claimTemplatesHash)).toEqual(['', '']);
  });
});
