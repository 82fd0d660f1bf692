import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { currentContent } from '../../api/sidecar-set/injection/choose.ts';
import { injectedListAnnotation } from '../../api/sidecar-set/marks.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { classifyPods } from '../../plan/sidecar-set/classify.ts';
import { missedReason } from '../../plan/sidecar-set/missing.ts';
import { isConsistent, isManaged, listedSets, updateStateAnnotation } from '../../plan/sidecar-set/pods.ts';
import { sidecarSetStatus } from '../../plan/sidecar-set/status.ts';
import { firstImmutableDifference, isAtGoal, targetOfSpec, targetOfUndo } from '../../plan/sidecar-set/target.ts';
import { notingRestarts } from '../../plan/sidecar-set/update-marks.ts';
import { sidecarWrite } from '../../plan/sidecar-set/write.ts';
import { trimPod } from '../../watcher/trim.ts';
import {
  aSidecarSet,
  caughtUp,
  cold,
  hot,
  injectedPod,
  type SetFacts,
  withAnnotations,
  withStatus,
  written,
  writtenAt,
} from '../support/sidecar-pods.ts';

const old = aSidecarSet();
const present = aSidecarSet({ containers: [cold('log', 'log:2')] });
const oldPod = injectedPod([old]);

const placesOf = (set: SidecarSet, pods: readonly Pod[], before: SidecarSet = old) =>
  classifyPods(targetOfSpec(set, 'logs-new'), pods, (name) => (name === 'logs-old' ? before.spec : undefined)).map(
    ({ place }) => place,
  );

/** The pod after its update to the present content, before the kubelet has seen that. */
function updating(pod: Pod, set: SidecarSet = present): Pod {
  const result = sidecarWrite(targetOfSpec(set, 'logs-new'), pod, writtenAt);
  if (result.kind !== 'write') throw new Error(`not a write: ${JSON.stringify(result)}`);
  return written(pod, result.write);
}

describe('the SidecarSets that a pod lists', () => {
  const listing = (list: string) => withAnnotations(oldPod, { [injectedListAnnotation]: list });

  it('are at most 64, and valid names of objects', () => {
    const names = Array.from({ length: 100 }, (_, at) => `set-${at}`);
    expect(listedSets(listing(names.join(',')))).toEqual(names.slice(0, 64));
    expect(listedSets(listing('logs,,Logs,a b,logs,-x,mesh'))).toEqual(['logs', 'mesh']);
    expect(listedSets(listing(`logs,${'x'.repeat(254)}`))).toEqual(['logs']);
    expect(listedSets(listing(`logs,${'a,'.repeat(9_000)}`))).toEqual([]);
  });

  it.each([
    'kruise.io/sidecarset-hash',
    'kruise.io/sidecarset-hash-without-image',
    updateStateAnnotation,
    'windlass.io/sidecar-restarts',
    injectedListAnnotation,
  ])('are none of which anything is known where %s is too long: the pod is neither updated nor free', (key) => {
    const long = withAnnotations(oldPod, {
      [key]: `${oldPod.metadata.annotations?.[key] ?? '{}'}${' '.repeat(70_000)}`,
    });
    expect(isManaged(old, oldPod, {})).toBe(true);
    expect([isManaged(old, long, {}), isManaged(old, trimPod(long), {})]).toEqual([false, false]);
    const facts = { namespaceLabels: {}, canaries: [] };
    expect([missedReason(old, long, facts), missedReason(old, trimPod(long), facts)]).toEqual(
      Array.from({ length: 2 }, () => 'MarksTooLong'),
    );
  });
});

describe('the mirror of a static pod', () => {
  it('SCS-6: is not managed, and not missed', () => {
    const mirror = withAnnotations(oldPod, { 'kubernetes.io/config.mirror': 'a'.repeat(32) });
    const bare = { ...mirror, metadata: { ...mirror.metadata, annotations: { 'kubernetes.io/config.mirror': 'a' } } };
    const facts = { namespaceLabels: {}, canaries: [] };
    for (const pod of [mirror, trimPod(mirror), bare, trimPod(bare)]) {
      expect([isManaged(old, pod, {}), missedReason(old, pod, facts)]).toEqual([false, undefined]);
    }
    const named = { ...bare, metadata: { ...bare.metadata, annotations: {} } };
    expect(missedReason(old, trimPod(named), facts)).toBeDefined();
  });
});

describe('the places of pods', () => {
  it('SCS-150: a pod with another hash is a candidate, if the update selects it', () => {
    expect(placesOf(present, [oldPod, injectedPod([present])])).toEqual([{ kind: 'waiting' }, { kind: 'updated' }]);
    const canary = { selector: { matchLabels: { canary: 'yes' } } };
    const selective = aSidecarSet({ containers: [cold('log', 'log:2')], updateStrategy: canary });
    const selected = injectedPod([old], { labels: { app: 'web', canary: 'yes' } });
    const kinds = placesOf(selective, [oldPod, selected, injectedPod([present])]).map(({ kind }) => kind);
    expect(kinds).toEqual(['notSelected', 'waiting', 'updated']);
  });

  it('SCS-150: a selector that is malformed selects none', () => {
    const selector = { matchExpressions: [{ key: 'a', operator: 'Sometimes' }] };
    const set = aSidecarSet({ containers: [cold('log', 'log:2')], updateStrategy: { selector } });
    expect(placesOf(set, [oldPod])).toEqual([{ kind: 'notSelected' }]);
  });

  it('SCS-94: a pod with the content of a stored revision is a candidate', () => {
    expect(placesOf(present, [injectedPod([old])])).toEqual([{ kind: 'waiting' }]);
  });

  it('SCS-151, SCS-192: a pod from which more than images differs cannot be updated, and the field is named', () => {
    const env = [{ name: 'LEVEL', value: 'debug' }];
    const changed = aSidecarSet({ containers: [cold('log', 'log:2', { env })] });
    expect(placesOf(changed, [oldPod])).toEqual([{ kind: 'notUpgradable', path: 'spec.containers[0].env' }]);
    const gone = classifyPods(targetOfSpec(changed, ''), [oldPod], () => undefined);
    expect(gone.map(({ place }) => place)).toEqual([{ kind: 'notUpgradable' }]);
  });

  it('SCS-192: when the spec is set back, the pods count as updated again', () => {
    expect(placesOf(old, [oldPod])).toEqual([{ kind: 'updated' }]);
  });

  it('SCS-193: initContainers that are not native, volumes, secrets and patches change no place', () => {
    const others: SetFacts = {
      initContainers: [{ name: 'prepare', image: 'prepare:1' }],
      volumes: [{ name: 'v', emptyDir: {} }],
      imagePullSecrets: [{ name: 's' }],
      patchPodMetadata: [{ annotations: { a: 'b' }, patchPolicy: 'Retain' }],
    };
    expect(placesOf(aSidecarSet(others), [oldPod])).toEqual([{ kind: 'updated' }]);
  });

  it('SCS-151: a container that is Ready and not restarted yet is in progress; one that is not Ready waits again', () => {
    const third = aSidecarSet({ containers: [cold('log', 'log:3')] });
    const pod = updating(oldPod);
    expect(placesOf(third, [pod])).toEqual([{ kind: 'inProgress', containers: ['log'] }]);
    expect(placesOf(third, [withStatus(pod, 'log', { ready: false })])).toEqual([{ kind: 'waiting' }]);
    expect(placesOf(third, [caughtUp(pod)])).toEqual([{ kind: 'waiting' }]);
  });

  it('SCS-227: pods of the middle version become candidates again', () => {
    const third = aSidecarSet({ containers: [cold('log', 'log:3')] });
    expect(placesOf(present, [caughtUp(updating(oldPod))])).toEqual([{ kind: 'updated' }]);
    expect(placesOf(third, [caughtUp(updating(oldPod))])).toEqual([{ kind: 'waiting' }]);
  });

  it('SCS-225: a crash of a container changes no place', () => {
    const pod = caughtUp(updating(oldPod));
    expect(placesOf(present, [withStatus(pod, 'log', { restartCount: 7, ready: false })])).toEqual([
      { kind: 'updated' },
    ]);
  });

  it('SCS-226: a pod of a lost node is not sidecar-ready', () => {
    const [lost] = classifyPods(targetOfSpec(present, ''), [caughtUp(updating(oldPod), false)], () => undefined);
    expect(lost).toMatchObject({ place: { kind: 'updated' }, isSidecarReady: false, isConsistent: true });
  });

  it('asks for the content of a revision once, however many pods have it', () => {
    let asked = 0;
    const changed = aSidecarSet({ containers: [cold('log', 'log:2', { tty: true })] });
    const pods = Array.from({ length: 50 }, () => oldPod);
    classifyPods(targetOfSpec(changed, ''), pods, () => {
      asked++;
      return old.spec;
    });
    expect(asked).toBe(1);
  });

  it.each(['', '{', '[]', 'null', '"x"', `{"logs":${'['.repeat(50_000)}${']'.repeat(50_000)}}`])(
    'takes annotations that are no map of entries: %#',
    (text) => {
      const keys = ['sidecarset-hash', 'sidecarset-hash-without-image', 'sidecarset-inplace-update-state'];
      const pod = withAnnotations(oldPod, Object.fromEntries(keys.map((key) => [`kruise.io/${key}`, text])));
      expect(placesOf(present, [pod])[0]?.kind).toBe('notUpgradable');
      expect(sidecarWrite(targetOfSpec(present, ''), pod, writtenAt).kind).toBe('impossible');
    },
  );
});

describe('the target of an undo', () => {
  const stored = { ...currentContent(old), revision: 'logs-old' };

  it('a pod is at its goal when its hash is not that of the content taken back', () => {
    const undo = targetOfUndo(present, stored);
    const middle = injectedPod([aSidecarSet({ containers: [cold('log', 'log:middle')] })]);
    const kinds = classifyPods(undo, [oldPod, middle, injectedPod([present])], () => undefined).map(
      ({ place }) => place.kind,
    );
    expect(kinds).toEqual(['updated', 'updated', 'waiting']);
    expect(isAtGoal(targetOfSpec(present, ''), middle)).toBe(false);
  });

  it('the write gives the pod images, hash and revision of the stored content', () => {
    const pod = injectedPod([present]);
    const result = sidecarWrite(targetOfUndo(present, stored), pod, writtenAt);
    if (result.kind !== 'write') throw new Error(`not a write: ${JSON.stringify(result)}`);
    expect(result.containers).toEqual([{ name: 'log', image: 'log:1' }]);
    const entry = JSON.parse(written(pod, result.write).metadata.annotations?.['kruise.io/sidecarset-hash'] ?? '').logs;
    expect(entry).toMatchObject({ hash: stored.hashes.whole, controllerRevision: 'logs-old' });
  });

  it('is impossible where more than images differs, and the first such field is named', () => {
    const differing = (containers: SetFacts['containers'] & object, more: SetFacts = {}) =>
      firstImmutableDifference(aSidecarSet({ containers, ...more }).spec, present.spec);
    expect(differing([cold('log', 'log:1')])).toBeUndefined();
    expect(differing([cold('log', 'log:1', { imagePullPolicy: 'Always' })])).toBe('spec.containers[0].imagePullPolicy');
    expect(differing([cold('log', 'log:1'), cold('more', 'more:1')])).toBe('spec.containers[1]');
    expect(differing([cold('log', 'log:1')], { initContainers: [{ name: 'i', image: 'i:1' }] })).toBeUndefined();
    const hotSet = aSidecarSet({ containers: [hot('mesh', 'mesh:2')] });
    const otherEmpty = aSidecarSet({ containers: [hot('mesh', 'mesh:2', 'empty:2')] });
    const path = 'spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage';
    expect(firstImmutableDifference(otherEmpty.spec, hotSet.spec)).toBe(path);
  });

  it('SCS-220: is impossible where images of native sidecars differ', () => {
    const native = (image: string) =>
      aSidecarSet({ containers: [], initContainers: [{ name: 'n', image, restartPolicy: 'Always' }] }).spec;
    expect(firstImmutableDifference(native('n:1'), native('n:2'))).toBe('spec.initContainers[0].image');
    expect(firstImmutableDifference(native('n:1'), native('n:1'))).toBeUndefined();
  });
});

describe('SCS-190: a container that gets the image that it had, by another name', () => {
  const retagged = aSidecarSet({ containers: [cold('log', 'log:same')] });
  const before = withStatus(oldPod, 'log', { state: { running: { startedAt: '2026-01-01T00:00:01Z' } } });
  const pod = updating(before, retagged);
  const restarted = withStatus(pod, 'log', { state: { running: { startedAt: '2026-01-01T01:00:05Z' } } });

  it('is inconsistent until the kubelet reports its restart', () => {
    expect(isConsistent(retagged, pod)).toBe(false);
    expect(isConsistent(retagged, restarted)).toBe(true);
    expect(isConsistent(retagged, withStatus(pod, 'log', { state: { waiting: { reason: 'ErrImagePull' } } }))).toBe(
      false,
    );
    const facts = { pods: [restarted], latestRevision: 'x', collisionCount: 0 };
    expect(sidecarSetStatus(retagged, facts)).toMatchObject({ updatedReadyPods: 1 });
  });

  it('is inconsistent while the kubelet has not seen the update, although it has restarted the container', () => {
    const unseen = { ...restarted, metadata: { ...restarted.metadata, generation: 2 } };
    const at = (observedGeneration: number) => ({ ...unseen, status: { ...unseen.status, observedGeneration } });
    expect(isConsistent(retagged, at(1))).toBe(false);
    expect(isConsistent(retagged, at(2))).toBe(true);
  });

  it('is consistent after a restart within the second of the write, by the number of restarts that was noted', () => {
    const noted = (restarts: number, at = writtenAt) =>
      withAnnotations(withStatus(pod, 'log', { restartCount: 3, state: { running: { startedAt: writtenAt } } }), {
        'windlass.io/sidecar-restarts': JSON.stringify({ log: { at, restarts } }),
      });
    expect(isConsistent(retagged, noted(2))).toBe(true);
    expect(isConsistent(retagged, noted(3))).toBe(false);
    // of an earlier write: somebody else has written the last one
    expect(isConsistent(retagged, noted(2, '2026-01-01T00:30:00Z'))).toBe(false);
  });

  it('notes the restarts of the containers that a write changes, and keeps what is known of others', () => {
    const known = withAnnotations(withStatus(oldPod, 'log', { restartCount: 7 }), {
      'windlass.io/sidecar-restarts': '{"app":{"at":"x","restarts":1},"gone":{"at":"x","restarts":1}}',
    });
    const { patch } = notingRestarts({ kind: 'pod', patch: { spec: {} } }, known, ['log'], writtenAt);
    expect(patch.spec).toEqual({});
    const { annotations = {} } = patch.metadata as { readonly annotations?: Readonly<Record<string, string>> };
    expect(JSON.parse(annotations['windlass.io/sidecar-restarts'] ?? '')).toEqual({
      app: { at: 'x', restarts: 1 },
      log: { at: writtenAt, restarts: 7 },
    });
  });

  it('is inconsistent without a complete record', () => {
    const record = { logs: { lastContainerStatuses: { log: { imageID: 'docker.io/library/log@sha256:1' } } } };
    const incomplete = withAnnotations(restarted, { [updateStateAnnotation]: JSON.stringify(record) });
    expect(isConsistent(retagged, incomplete)).toBe(false);
  });

  it('SHU-72: is inconsistent as container of a hot-upgrade sidecar, whatever it has restarted', () => {
    const set = (image: string) => aSidecarSet({ containers: [hot('mesh', image)] });
    const swapping = updating(injectedPod([set('mesh:1')]), set('mesh:same'));
    const state = { running: { startedAt: '2026-01-01T01:00:05Z' } };
    const imageID = 'docker.io/library/empty@sha256:1';
    const crashed = withStatus(swapping, 'mesh-2', { imageID, image: 'docker.io/library/empty:1', state });
    expect(isConsistent(set('mesh:same'), crashed)).toBe(false);
  });
});

it('SCS-6: a SidecarSet with the name of a property of every object manages its pods like any other', () => {
  const set = aSidecarSet({ name: 'constructor', containers: [hot('toString', 'x:1')] });
  expect(isManaged(set, injectedPod([set]), {})).toBe(true);
  expect(placesOf(aSidecarSet({ name: 'constructor' }), [oldPod])[0]?.kind).toBe('notUpgradable');
});
