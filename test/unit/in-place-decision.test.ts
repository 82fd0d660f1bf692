import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type ControllerRevision, revisionMark } from '../../api/fleet/revision.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import { formatState } from '../../api/in-place/state.ts';
import { noWork } from '../../api/in-place/work.ts';
import { decideInPlace, type InPlaceDecision, type InPlaceQuestion } from '../../plan/fleet/in-place/decide.ts';
import { startInPlace } from '../../plan/fleet/in-place/update.ts';
import { inPlacePod, revisionWith, seesMetadata, templateContainer } from '../support/in-place-pod.ts';
import { recorded } from '../support/recorded.ts';

const gates = parseFeatureGates();
const resizing = { ...gates, InPlaceWorkloadVerticalScaling: true };

const before = revisionWith([templateContainer('main', 'app:1'), templateContainer('side', 'side:1')]);

function decide(overrides: Partial<InPlaceQuestion>): InPlaceDecision {
  return decideInPlace({
    policy: 'InPlaceIfPossible',
    oldRevision: before,
    newRevision: before,
    gates,
    recreatesForClaims: false,
    ...overrides,
  });
}

function decideMain(from: JsonObject, to: JsonObject, overrides: Partial<InPlaceQuestion> = {}): InPlaceDecision {
  const main = (fields: JsonObject) => revisionWith([templateContainer('main', 'app:1', fields)]);
  return decide({ oldRevision: main(from), newRevision: main(to), ...overrides });
}

function inPlace(change: JsonObject): object {
  return {
    kind: 'inPlace',
    change: expect.objectContaining({ images: {}, resources: {}, refMetadata: {}, ...change }),
  };
}

function amounts(cpu: string, memory = '1Gi'): JsonObject {
  return { resources: { limits: { cpu, memory }, requests: { cpu, memory } } };
}

describe('decideInPlace', () => {
  it('takes the change of a real CloneSet in place', () => {
    const [oldRevision, newRevision] = recorded<readonly ControllerRevision[]>('cloneset-3-updating-revisions');
    const [pod] = recorded<readonly Pod[]>('cloneset-1-created-pods');
    if (newRevision === undefined || pod === undefined) throw new Error('nothing is recorded');
    expect(decide({ oldRevision, newRevision, pod })).toEqual({
      kind: 'inPlace',
      change: {
        images: { main: 'busybox:1.36' },
        refMetadata: { main: { annotations: { team: 'b' } } },
        resources: {},
        metadataPatch: {},
        updateEnvFromMetadata: true,
      },
    });
  });

  it('L1: takes a container called constructor for no more than that', () => {
    const main = (name: string, image: string, fields: JsonObject = {}) =>
      revisionWith([templateContainer(name, image, fields)]);
    const own = { name: 'constructor', image: 'app:1' };
    const pod = inPlacePod([{ ...own, image: 'injected:1' }]);
    const oldRevision = main('constructor', 'app:1');
    const newRevision = main('constructor', 'app:2');
    expect(decide({ oldRevision, newRevision, pod })).toEqual(inPlace({ images: { constructor: 'app:2' } }));
    expect(decide({ oldRevision, newRevision: main('constructor', 'app:1'), pod })).toEqual(inPlace({}));

    const env = seesMetadata("metadata.annotations['team']");
    const withTeam = (team: string) =>
      revisionWith([templateContainer('constructor', 'app:1', env)], { metadata: { annotations: { team } } });
    const changed = decide({ oldRevision: withTeam('a'), newRevision: withTeam('b'), pod: inPlacePod([own]) });
    expect(changed).toEqual(inPlace({ refMetadata: { constructor: { annotations: { team: 'b' } } } }));
    if (changed.kind !== 'inPlace') return;
    const { drain, writes } = startInPlace({
      pod: inPlacePod([own]),
      change: changed.change,
      revision: 'web-2',
      labels: {},
      annotations: {},
      graceSeconds: 0,
      nowMs: 0,
      gates,
      canResize: true,
    });
    expect(JSON.stringify([drain, writes])).not.toContain('"containers":[{');
  });

  it('IPU-1: needs both revisions, and needs to read them', () => {
    expect(decide({ oldRevision: undefined })).toEqual({
      kind: 'recreate',
      because: { path: '', reason: 'NoOldRevision' },
    });
    const unreadable = { data: { spec: {} }, metadata: {} };
    for (const revisions of [{ oldRevision: unreadable }, { newRevision: unreadable }]) {
      expect(decide(revisions)).toMatchObject({ kind: 'recreate', because: { reason: 'UnreadableRevision' } });
    }
  });

  it('IPU-2: has nothing against revisions that are equal', () => {
    const decision = decide({});
    expect(decision).toEqual(inPlace({ updateEnvFromMetadata: false }));
    expect(decision.kind === 'inPlace' && 'metadataPatch' in decision.change).toBe(false);
  });

  it('IPU-2: has nothing against revisions that are only written differently', () => {
    const other = { ...before, data: { spec: { template: { spec: templateSpec(before) } } } };
    expect(decide({ oldRevision: other, newRevision: { ...before, data: withoutLabels(before) } })).toMatchObject({
      kind: 'inPlace',
    });
  });

  it('IPU-3: lets metadata change in whatever way, as one patch', () => {
    const withMetadata = (metadata: JsonObject) => revisionWith([templateContainer('main', 'app:1')], { metadata });
    const decision = decide({
      oldRevision: withMetadata({ labels: { app: 'web', gone: 'x' }, annotations: { a: '1', b: '2' } }),
      newRevision: withMetadata({ labels: { app: 'db', new: 'y' }, finalizers: ['example.com/hook'] }),
    });
    expect(decision).toEqual(
      inPlace({
        metadataPatch: {
          metadata: {
            labels: { app: 'db', new: 'y', gone: null },
            annotations: { a: null, b: null },
            finalizers: ['example.com/hook'],
          },
        },
      }),
    );
  });

  it('IPU-3: takes finalizers away that are gone', () => {
    const withFinalizers = (finalizers: readonly string[]) =>
      revisionWith([templateContainer('main', 'app:1')], { metadata: { finalizers } });
    expect(decide({ oldRevision: withFinalizers(['a/x', 'a/y']), newRevision: withFinalizers(['a/y']) })).toEqual(
      inPlace({ metadataPatch: { metadata: { '$deleteFromPrimitiveList/finalizers': ['a/x'] } } }),
    );
  });

  it('IPU-4, IPU-5: takes images by the name of their container', () => {
    const after = revisionWith([templateContainer('main', 'app:1'), templateContainer('side', 'side:2')]);
    expect(decide({ newRevision: after })).toEqual(inPlace({ images: { side: 'side:2' } }));
  });

  it.each<[string, JsonObject, JsonObject, string]>([
    [
      'a value of the environment',
      { env: [{ name: 'A', value: '1' }] },
      { env: [{ name: 'A', value: '2' }] },
      'env[0].value',
    ],
    ['a new port', {}, { ports: [{ containerPort: 80 }] }, 'ports'],
    ['another command', { command: ['a'] }, { command: ['b'] }, 'command[0]'],
    ['an image that comes', { image: '' }, { image: 'app:1' }, 'image'],
    ['an image that goes', {}, { image: '' }, 'image'],
    [
      'another amount of another resource',
      { resources: { limits: { gpu: '1' } } },
      { resources: { limits: { gpu: '2' } } },
      'resources.limits.gpu',
    ],
    [
      'an amount that comes',
      { resources: { limits: { cpu: '1' } } },
      { resources: { limits: { cpu: '1', memory: '1' } } },
      'resources.limits.memory',
    ],
    ['an amount that goes', { resources: { limits: { cpu: '1' } } }, {}, 'resources.limits'],
    ['another name', {}, { name: 'other' }, 'name'],
  ])('IPU-4: needs a new pod for %s, and names the field', (_, from, to, field) => {
    expect(decideMain(from, to, { gates: resizing })).toEqual({
      kind: 'recreate',
      because: { path: `spec.template.spec.containers[0].${field}`, reason: 'FieldNeedsNewPod' },
    });
  });

  it('IPU-4: needs a new pod for containers that come, go or change places', () => {
    const [main, side] = [templateContainer('main', 'app:1'), templateContainer('side', 'side:1')];
    const because = (containers: readonly JsonObject[]) => decide({ newRevision: revisionWith(containers) });
    const path = 'spec.template.spec.containers';
    expect(because([main])).toMatchObject({ kind: 'recreate', because: { path: `${path}[1]` } });
    expect(because([main, side, { ...side, name: 'c' }])).toMatchObject({ because: { path: `${path}[2]` } });
    expect(because([side, main])).toMatchObject({ because: { path: `${path}[0].name` } });
  });

  it('IPU-4: needs a new pod for what is beside the containers, init containers too', () => {
    const withSpec = (spec: JsonObject) => revisionWith([templateContainer('main', 'app:1')], { spec });
    const init = (image: string) => withSpec({ initContainers: [{ name: 'init', image }] });
    expect(decide({ oldRevision: init('a:1'), newRevision: init('a:2') })).toMatchObject({
      because: { path: 'spec.template.spec.initContainers[0].image' },
    });
    expect(decide({ oldRevision: withSpec({}), newRevision: withSpec({ hostNetwork: true }) })).toMatchObject({
      because: { path: 'spec.template.spec.hostNetwork' },
    });
  });

  it('IPU-6: needs a new pod for anything that is not in the template', () => {
    const data = { spec: { ...(before.data.spec as JsonObject), replicas: 3 } };
    expect(decide({ newRevision: { ...before, data } })).toEqual({
      kind: 'recreate',
      because: { path: 'spec.replicas', reason: 'FieldNeedsNewPod' },
    });
  });

  it('IPU-7: needs a new pod for other claims, if the gate says so and the policy leaves a choice', () => {
    const withHash = (hash?: string) => ({
      data: before.data,
      metadata: { annotations: hash === undefined ? {} : { [revisionMark.claimTemplatesHash]: hash } },
    });
    const changed = { oldRevision: withHash('1'), newRevision: withHash('2') };
    expect(decide({ ...changed, recreatesForClaims: true })).toEqual({
      kind: 'recreate',
      because: { path: 'spec.volumeClaimTemplates', reason: 'ClaimTemplatesChanged' },
    });
    expect(decide(changed).kind).toBe('inPlace');
    expect(decide({ ...changed, recreatesForClaims: true, policy: 'InPlaceOnly' }).kind).toBe('inPlace');
    expect(decide({ oldRevision: withHash(), newRevision: withHash('2'), recreatesForClaims: true }).kind).toBe(
      'inPlace',
    );
    expect(decide({ oldRevision: withHash('1'), newRevision: withHash(''), recreatesForClaims: true }).kind).toBe(
      'recreate',
    );
  });

  it('IPU-8: refuses where the policy allows nothing else, and never tries where it allows nothing', () => {
    const newRevision = revisionWith([templateContainer('main', 'app:2', { tty: true })]);
    expect(decide({ newRevision, policy: 'InPlaceOnly' }).kind).toBe('refused');
    expect(decide({ newRevision }).kind).toBe('recreate');
    expect(decide({ policy: 'ReCreate' })).toEqual({
      kind: 'recreate',
      because: { path: '', reason: 'PolicyRecreates' },
    });
  });

  it('IPU-9: decides by the revision that a pod comes from', () => {
    const newRevision = revisionWith([templateContainer('main', 'app:3', { tty: true })]);
    const near = revisionWith([templateContainer('main', 'app:2', { tty: true })]);
    const far = revisionWith([templateContainer('main', 'app:1')]);
    expect([near, far].map((oldRevision) => decide({ oldRevision, newRevision }).kind)).toEqual([
      'inPlace',
      'recreate',
    ]);
  });
});

describe('environment from metadata', () => {
  const sees = seesMetadata("metadata.annotations['example.com/team']");
  const withTeam = (annotations: JsonObject, labels: JsonObject = { app: 'web' }) =>
    revisionWith([templateContainer('main', 'app:1', sees), templateContainer('side', 'side:1')], {
      metadata: { annotations, labels },
    });
  const team = { 'example.com/team': 'a', other: '1' };

  it('IPU-10: belongs to the containers that see it, and leaves the patch', () => {
    const newRevision = withTeam({ 'example.com/team': 'b', other: '2' });
    expect(decide({ oldRevision: withTeam(team), newRevision })).toEqual(
      inPlace({
        refMetadata: { main: { annotations: { 'example.com/team': 'b' } } },
        updateEnvFromMetadata: true,
        metadataPatch: { metadata: { annotations: { other: '2' } } },
      }),
    );
  });

  it('IPU-10: counts keys that are added to a map', () => {
    const decision = decide({ oldRevision: withTeam({ other: '1' }), newRevision: withTeam(team) });
    expect(decision).toMatchObject({ change: { refMetadata: { main: {} }, metadataPatch: {} } });
  });

  it('IPU-10: is metadata like any other while the gate is off', () => {
    const off = { ...gates, InPlaceUpdateEnvFromMetadata: false };
    const newRevision = withTeam({ ...team, 'example.com/team': 'b' });
    expect(decide({ oldRevision: withTeam(team), newRevision, gates: off })).toEqual(
      inPlace({
        updateEnvFromMetadata: false,
        metadataPatch: { metadata: { annotations: { 'example.com/team': 'b' } } },
      }),
    );
  });

  it('IPU-11a: is not recognized when a key goes, or comes with the first map', () => {
    const gone = decide({ oldRevision: withTeam(team), newRevision: withTeam({ other: '1' }) });
    expect(gone).toEqual(
      inPlace({
        updateEnvFromMetadata: false,
        metadataPatch: { metadata: { annotations: { 'example.com/team': null } } },
      }),
    );
    const came = decide({ oldRevision: withTeam({}), newRevision: withTeam(team) });
    expect(came).toEqual(inPlace({ updateEnvFromMetadata: false, metadataPatch: { metadata: { annotations: team } } }));
  });
});

describe('amounts of cpu and memory', () => {
  it('IPU-12: change in place where the gate is on, and only what changes is in the change', () => {
    const [from, to] = [amounts('1'), amounts('2')];
    expect(decideMain(from, to, { gates: resizing })).toEqual(
      inPlace({ resources: { main: { limits: { cpu: '2' }, requests: { cpu: '2' } } } }),
    );
    expect(decideMain(from, to)).toEqual({
      kind: 'recreate',
      because: { path: 'spec.template.spec.containers[0].resources.limits.cpu', reason: 'ResizeIsOff' },
    });
  });

  it('IPU-12: are compared as amounts', () => {
    expect(decideMain(amounts('1'), amounts('1000m', '1024Mi'))).toEqual(inPlace({}));
  });

  it.each([
    [
      'Guaranteed to Burstable',
      amounts('1'),
      { resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m', memory: '1Gi' } } },
    ],
    [
      'Burstable to Guaranteed',
      { resources: { limits: { cpu: '2', memory: '1Gi' }, requests: { cpu: '1', memory: '1Gi' } } },
      amounts('2'),
    ],
    ['BestEffort to Burstable', { resources: { requests: { cpu: '0' } } }, { resources: { requests: { cpu: '1' } } }],
  ])('IPU-13: need a new pod when its class goes from %s', (_, from, to) => {
    expect(decideMain(from, to, { gates: resizing })).toEqual({
      kind: 'recreate',
      because: { path: 'spec.template.spec', reason: 'QosClassChanges' },
    });
  });

  it('IPU-13: may change together as long as the class stays', () => {
    expect(decideMain(amounts('1'), amounts('2', '2Gi'), { gates: resizing }).kind).toBe('inPlace');
    const init = { initContainers: [{ name: 'init', image: 'i', resources: { requests: { cpu: '1' } } }] };
    const withInit = (fields: JsonObject) => revisionWith([templateContainer('main', 'app:1', fields)], { spec: init });
    // The init container makes it Burstable before and after.
    const revisions = {
      oldRevision: withInit(amounts('1')),
      newRevision: withInit({
        resources: { limits: { cpu: '2', memory: '1Gi' }, requests: { cpu: '1', memory: '1Gi' } },
      }),
    };
    expect(decide({ ...revisions, gates: resizing }).kind).toBe('inPlace');
  });
});

describe('a pod whose earlier update is not finished', () => {
  const images = (main: string, side: string, number: number) =>
    revisionWith([templateContainer('main', main), templateContainer('side', side)], { number });
  const [one, two, three] = [images('app:1', 'side:1', 1), images('app:2', 'side:2', 2), images('app:3', 'side:2', 3)];
  const waiting = {
    revision: two.metadata.name,
    updateTimestamp: '2026-07-01T08:00:00Z',
    updateEnvFromMetadata: false,
    updateResources: false,
    updateImages: true,
    next: { ...noWork, images: { side: 'side:2' } },
    requiredReady: ['main'],
    batches: [],
  };
  const podAt = (main: string, side: string, annotations: Record<string, string> = {}) =>
    inPlacePod(
      [
        { name: 'main', image: main },
        { name: 'side', image: side },
      ],
      {
        revision: two.metadata.name,
        annotations,
      },
    );
  const halfway = podAt('app:2', 'side:1', { [inPlaceAnnotation.state]: formatState(waiting) });

  it('gets what that one has left, with the next update', () => {
    expect(decide({ oldRevision: two, newRevision: three, pod: halfway })).toEqual(
      inPlace({ images: { main: 'app:3', side: 'side:2' } }),
    );
  });

  it('gets nothing twice on the way back', () => {
    expect(decide({ oldRevision: two, newRevision: one, pod: halfway })).toEqual(
      inPlace({ images: { main: 'app:1' } }),
    );
  });

  it('gets what was lost earlier, if it runs what another revision has', () => {
    const lost = { oldRevision: two, newRevision: three, pod: podAt('app:2', 'side:1') };
    expect(decide({ ...lost, history: [one, two] })).toEqual(inPlace({ images: { main: 'app:3', side: 'side:2' } }));
    expect(decide(lost)).toEqual(inPlace({ images: { main: 'app:3' } }));
  });

  it('keeps an image that somebody else has put there', () => {
    const mirrored = podAt('app:2', 'mirror.example.com/side:2');
    expect(decide({ oldRevision: two, newRevision: three, pod: mirrored, history: [one, two] })).toEqual(
      inPlace({ images: { main: 'app:3' } }),
    );
  });

  it('gets the metadata and amounts that were left', () => {
    const sees = seesMetadata("metadata.labels['team']");
    const shape = (cpu: string, team: string, image: string) =>
      revisionWith([templateContainer('main', image, { ...sees, ...amounts(cpu) })], {
        metadata: { labels: { app: 'web', team } },
      });
    const next = {
      images: {},
      refMetadata: { main: { labels: { team: 'b' } } },
      resources: { main: { limits: { cpu: '2' }, requests: { cpu: '2' } } },
    };
    const pod = inPlacePod(
      [{ name: 'main', image: 'app:1', resources: { limits: { cpu: '1' }, requests: { cpu: '1' } } }],
      {
        labels: { team: 'a' },
        annotations: { [inPlaceAnnotation.state]: formatState({ ...waiting, next }) },
      },
    );
    const question = { oldRevision: shape('2', 'b', 'app:1'), newRevision: shape('2', 'b', 'app:2'), gates: resizing };
    expect(decide({ ...question, pod })).toMatchObject({
      change: { images: { main: 'app:2' }, refMetadata: next.refMetadata, resources: next.resources },
    });
  });
});

function templateSpec({ data }: { readonly data: JsonObject }): JsonObject {
  const { template } = data.spec as { readonly template: JsonObject };
  return { ...(template.spec as JsonObject), hostNetwork: false };
}

function withoutLabels(revision: { readonly data: JsonObject }): JsonObject {
  return { spec: { template: { spec: templateSpec(revision), metadata: { labels: {} } } } };
}
