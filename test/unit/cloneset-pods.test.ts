import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { PodTemplate } from '../../api/core/pod-template.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { claimsOfPod, freeInstanceIds, newPod, unusedClaims } from '../../plan/cloneset/pods.ts';
import {
  claim,
  cloneSet,
  fleet,
  newName,
  now,
  oldName,
  pod,
  revisionOf,
  template,
  world,
} from '../support/cloneset-world.ts';

const gates = parseFeatureGates();
const volumes = [
  { metadata: { name: 'data', labels: { kind: 'disk' } }, spec: { accessModes: ['ReadWriteOnce'] } },
  { metadata: { name: 'logs' }, spec: { accessModes: ['ReadWriteOnce'] } },
];

function make(of: PodTemplate, set = cloneSet({ template: of }), more: Partial<Parameters<typeof newPod>[0]> = {}) {
  return newPod({ owner: set, revision: revisionOf(set, 1, of), instanceId: 'bcdfg', claims: [], gates, now, ...more });
}

describe('newPod', () => {
  it('CS-45: names, labels and owns the pod', () => {
    const { name, pod: made } = make(template('nginx:1', {}, { annotations: { team: 'a' }, finalizers: ['x/y'] }));
    const revision = revisionOf(
      cloneSet(),
      1,
      template('nginx:1', {}, { annotations: { team: 'a' }, finalizers: ['x/y'] }),
    );
    const hash = revision.metadata.labels?.['controller.kubernetes.io/hash'];
    expect(name).toBe('web-bcdfg');
    expect(made.metadata).toEqual({
      name: 'web-bcdfg',
      generateName: 'web-',
      namespace: 'shop',
      labels: {
        app: 'web',
        'controller-revision-hash': `web-${hash}`,
        'pod-template-hash': hash,
        'apps.kruise.io/cloneset-instance-id': 'bcdfg',
        'lifecycle.apps.kruise.io/state': 'PreparingNormal',
      },
      annotations: { team: 'a', 'lifecycle.apps.kruise.io/timestamp': now },
      finalizers: ['x/y'],
      ownerReferences: [
        {
          apiVersion: 'apps.kruise.io/v1beta1',
          kind: 'CloneSet',
          name: 'web',
          uid: 'set-uid',
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    });
  });

  it('IPU-41: names the revision by its hash alone with the gate', () => {
    const { pod: made } = make(template('nginx:1'), undefined, { gates: { ...gates, CloneSetShortHash: true } });
    const labels = (made.metadata as JsonObject).labels as JsonObject;
    expect(labels['controller-revision-hash']).toBe(labels['pod-template-hash']);
  });

  it('CS-45, LC-50: has both readiness gates, each once, behind those of the template', () => {
    const own = [{ conditionType: 'Mine' }, { conditionType: 'KruisePodReady' }];
    const { pod: made } = make(template('nginx:1', { readinessGates: own }));
    expect((made.spec as JsonObject).readinessGates).toEqual([...own, { conditionType: 'InPlaceUpdateReady' }]);
    const { pod: plain } = make(template('nginx:1'));
    expect((plain.spec as JsonObject).readinessGates).toEqual([
      { conditionType: 'InPlaceUpdateReady' },
      { conditionType: 'KruisePodReady' },
    ]);
  });

  it('LC-10, LC-62: is in PreparingNormal, whatever the template says', () => {
    const labels = { app: 'web', 'lifecycle.apps.kruise.io/state': 'Normal' };
    const { pod: made } = make(template('nginx:1', {}, { labels }));
    expect((made.metadata as JsonObject).labels).toMatchObject({ 'lifecycle.apps.kruise.io/state': 'PreparingNormal' });
  });

  it('keeps fields of the template that nobody knows', () => {
    const { pod: made } = make(template('nginx:1', { fromTheFuture: { deep: [1] } }));
    expect(made.spec).toMatchObject({ fromTheFuture: { deep: [1] } });
  });

  it('CS-45, CS-70: puts the volumes of its claims first, in place of those of the same name', () => {
    const of = template('nginx:1', {
      volumes: [
        { name: 'tmp', emptyDir: {} },
        { name: 'data', emptyDir: {} },
      ],
    });
    const set = cloneSet({ template: of, volumeClaimTemplates: volumes });
    const made = make(of, set);
    expect((made.pod.spec as JsonObject).volumes).toEqual([
      { name: 'data', persistentVolumeClaim: { claimName: 'data-web-bcdfg' } },
      { name: 'logs', persistentVolumeClaim: { claimName: 'logs-web-bcdfg' } },
      { name: 'tmp', emptyDir: {} },
    ]);
    expect(made.claims[0]).toEqual({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: {
        name: 'data-web-bcdfg',
        namespace: 'shop',
        labels: { kind: 'disk', app: 'web', 'apps.kruise.io/cloneset-instance-id': 'bcdfg' },
        ownerReferences: [expect.objectContaining({ uid: 'set-uid', controller: true })],
      },
      spec: { accessModes: ['ReadWriteOnce'] },
    });
  });

  it('CS-71: makes only claims that are not there', () => {
    const set = cloneSet({ volumeClaimTemplates: volumes });
    const made = make(set.spec.template, set, { claims: [claim('data', 'bcdfg'), claim('logs', 'other')] });
    expect(made.claims.map(({ metadata }) => (metadata as JsonObject).name)).toEqual(['logs-web-bcdfg']);
  });

  it('CS-72: an old pod, too, gets claims by the newest templates', () => {
    const set = cloneSet({ volumeClaimTemplates: volumes });
    const made = make(template('nginx:0.9'), set);
    expect(made.claims).toHaveLength(2);
  });

  it('CS-45: equals the pod that OpenKruise made of the same set, as far as it made it', () => {
    const read = (name: string): unknown =>
      JSON.parse(readFileSync(new URL(`../recorded/cloneset-1-created-${name}.json`, import.meta.url), 'utf8'));
    const set = read('v1beta1') as ReturnType<typeof cloneSet>;
    const [theirs] = read('pods') as readonly { readonly metadata: JsonObject; readonly spec: JsonObject }[];
    const [revision] = read('revisions') as readonly ReturnType<typeof revisionOf>[];
    if (theirs === undefined || revision === undefined) throw new Error('nothing recorded');

    const { pod: ours } = newPod({
      owner: set,
      revision,
      instanceId: 's8g7h',
      claims: [],
      gates: { ...gates, CloneSetShortHash: true },
      now: '2026-11-21T06:13:09Z',
    });
    const { labels, annotations, generateName, name, ownerReferences } = theirs.metadata;
    expect(ours.metadata).toEqual({
      namespace: 'rec',
      name,
      generateName,
      ownerReferences,
      // the state has changed since then, and the daemon has reported
      labels: { ...(labels as JsonObject), 'lifecycle.apps.kruise.io/state': 'PreparingNormal' },
      annotations: { ...(annotations as JsonObject), 'apps.kruise.io/runtime-containers-meta': undefined },
    });
    const { containers, readinessGates, securityContext, restartPolicy } = theirs.spec;
    expect(ours.spec).toMatchObject({ readinessGates, securityContext, restartPolicy } as object);
    const names = (list: unknown) => (list as readonly JsonObject[]).map(({ name: container }) => container);
    expect(names((ours.spec as JsonObject).containers)).toEqual(names(containers));
  });
});

describe('freeInstanceIds', () => {
  it('CS-46: are five letters and digits of which no word can come', () => {
    const ids = freeInstanceIds(40, newName, world());
    expect(new Set(ids).size).toBe(40);
    for (const id of ids) expect(id).toMatch(/^[bcdfghjklmnpqrstvwxz2456789]{5}$/);
  });

  it('CS-46, CS-73: first those of claims that have lost their pod', () => {
    const claims = [claim('data', 'aaaaa'), claim('data', 'bbbbb'), claim('logs', 'bbbbb')];
    const given = world({ pods: [pod('web-aaaaa')], claims });
    const ids = freeInstanceIds(2, newName, given);
    expect(ids[0]).toBe('bbbbb');
    expect(ids).toHaveLength(2);
    expect(ids).not.toContain('aaaaa');
  });

  it('CS-46: never one whose pod object is still there, be it going or finished', () => {
    const claims = [claim('data', 'aaaaa'), claim('data', 'bbbbb')];
    const pods = [pod('web-aaaaa', { deleting: true }), pod('web-bbbbb', { phase: 'Failed' })];
    expect(freeInstanceIds(1, newName, world({ pods, claims }))).not.toContain('aaaaa');
    expect(freeInstanceIds(1, newName, world({ pods, claims }))).not.toContain('bbbbb');
  });

  it('CS-46: never one of a claim that is going, of a pod that is to be deleted by name, or of another pod', () => {
    const [first = '', second = '', third = '', fourth = ''] = freeInstanceIds(4, newName, world());
    const set = cloneSet({ scaleStrategy: { podsToDelete: [`web-${second}`] } });
    const isSpent = (name: string) => name === `web-${third}`;
    const given = world({ set, claims: [claim('data', first, { deletionTimestamp: now })], more: { isSpent } });
    expect(freeInstanceIds(1, newName, given)).toEqual([fourth]);
  });

  it('CS-46: the same for whoever plans the same, so that what arrives twice is made once', () => {
    const ids = freeInstanceIds(5, newName, world());
    expect(freeInstanceIds(5, newName, world())).toEqual(ids);
    const [first = '', , third = ''] = ids;
    const later = world({ pods: [pod(`web-${first}`), pod(`web-${third}`)] });
    expect(freeInstanceIds(3, newName, later)).toEqual(ids.filter((id) => id !== first && id !== third));
    expect(freeInstanceIds(5, oldName, world())).not.toEqual(ids);
  });
});

describe('unusedClaims', () => {
  const discard = cloneSet({ scaleStrategy: { enablePVCReuse: false } });

  it('CS-73: touches nothing where claims are kept for later pods', () => {
    expect(unusedClaims(world({ claims: [claim('data', 'bbbbb')] }), [])).toEqual([]);
  });

  it('CS-74: keeps those of pods that count, deletes those of nobody', () => {
    const pods = [pod('web-aaaaa')];
    const given = world({ set: discard, pods, claims: [claim('data', 'aaaaa'), claim('data', 'bbbbb')] });
    const steps = unusedClaims(given, fleet(...pods));
    expect(steps).toEqual([{ kind: 'deleteClaim', claim: expect.objectContaining({ name: 'data-web-bbbbb' }) }]);
  });

  it('CS-74: gives those of a pod that is finished or going to that pod', () => {
    const pods = [pod('web-aaaaa', { deleting: true }), pod('web-bbbbb', { phase: 'Failed' })];
    const given = world({ set: discard, pods, claims: [claim('data', 'aaaaa'), claim('data', 'bbbbb')] });
    const steps = unusedClaims(given, []);
    expect(steps).toHaveLength(2);
    expect(steps[0]).toMatchObject({
      kind: 'writeClaim',
      // the references of others stay
      patch: {
        metadata: {
          ownerReferences: [
            { $patch: 'delete', uid: discard.metadata.uid },
            { apiVersion: 'v1', kind: 'Pod', name: 'web-aaaaa', uid: 'web-aaaaa-uid', controller: true },
          ],
        },
      },
    });
  });

  it('CS-74: leaves claims alone that are going already, or that nobody has paired', () => {
    const claims = [
      claim('data', 'aaaaa', { deletionTimestamp: now }),
      claim('data', 'bbbbb', { labels: { app: 'web' } }),
    ];
    expect(unusedClaims(world({ set: discard, claims }), [])).toEqual([]);
  });
});

describe('claimsOfPod', () => {
  it('CS-35: are those of the same instance, each once', () => {
    const claims = [
      claim('data', 'aaaaa'),
      claim('logs', 'aaaaa'),
      claim('data', 'bbbbb'),
      claim('old', 'aaaaa', { deletionTimestamp: now }),
    ];
    expect(claimsOfPod(pod('web-aaaaa'), claims).map(({ name }) => name)).toEqual(['data-web-aaaaa', 'logs-web-aaaaa']);
    const unpaired = pod('web-ccccc', { labels: { 'apps.kruise.io/cloneset-instance-id': '' } });
    expect(claimsOfPod(unpaired, claims)).toEqual([]);
  });
});
