import { describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { currentContent } from '../../api/sidecar-set/injection/choose.ts';
import { type Injection, injectSets } from '../../api/sidecar-set/injection/inject.ts';
import { objectsIn } from '../../api/sidecar-set/injection/share.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { recorded } from '../support/recorded.ts';

const now = '2026-01-02T03:04:05Z';

function set(spec: JsonObject = {}, name = 'logs', annotations: JsonObject = {}): SidecarSet {
  return defaultSidecarSet(sidecarSetDraft({ name, spec, metadata: { annotations } })) as unknown as SidecarSet;
}

function pod(spec: JsonObject = {}, metadata: JsonObject = {}): JsonObject {
  const containers = [{ name: 'app', image: 'app:1' }];
  return { metadata: { labels: { app: 'web' }, ...metadata }, spec: { containers, ...spec } };
}

function inject(into: JsonObject, sets: readonly SidecarSet[], sort = false): Injection {
  const chosen = sets.map((one) => ({ set: one, chosen: currentContent(one) }));
  return injectSets(into, chosen, { sort, now });
}

function injected(into: JsonObject, sets: readonly SidecarSet[], sort = false): JsonObject {
  const result = inject(into, sets, sort);
  if (result.kind !== 'injected') throw new Error(result.failure.why);
  expect(result.ignored).toEqual([]);
  return result.pod;
}

const listIn = (object: JsonObject, list: string) => objectsIn(objectOr(object.spec)[list]);
const names = (object: JsonObject, list = 'containers') => listIn(object, list).map(({ name }) => name);
const annotationsOf = (object: JsonObject) => objectOr(objectOr(object.metadata).annotations);
const first = (object: JsonObject) => objectOr(listIn(object, 'containers')[0]);
const variables = (container: JsonObject) => objectsIn(container.env).map(({ name }) => name);
const container = (name: string, fields: JsonObject = {}): JsonObject => ({ name, image: `${name}:1`, ...fields });
const native = (name: string) => container(name, { restartPolicy: 'Always' });

const notOurs = /^(kruise\.io\/sidecarset|version(alt)?\.sidecarset|team$)/;

/** A recorded pod as its workload submitted it, before OpenKruise added sidecars. */
function submitted(given: JsonObject, sidecars: readonly string[], volumes: readonly string[]): JsonObject {
  const { spec, metadata } = given;
  const { initContainers: _, ...rest } = objectOr(spec);
  const annotations = Object.entries(annotationsOf(given)).filter(([key]) => !notOurs.test(key));
  return {
    ...given,
    metadata: { ...objectOr(metadata), annotations: Object.fromEntries(annotations) },
    spec: {
      ...rest,
      containers: listIn(given, 'containers').filter(({ name }) => !sidecars.includes(String(name))),
      volumes: listIn(given, 'volumes').filter(({ name }) => !volumes.includes(String(name))),
    },
  };
}

/** Without the mount that the API server adds to every container that lacks it. */
function withoutToken(object: JsonObject): JsonObject {
  const plain = (list: string) =>
    listIn(object, list).map(({ volumeMounts, ...rest }) => {
      const mounts = objectsIn(volumeMounts).filter(({ name }) => !String(name).startsWith('kube-api-access'));
      return { ...rest, ...(mounts.length > 0 && { volumeMounts: mounts }) };
    });
  const initContainers = plain('initContainers');
  const spec = { ...objectOr(object.spec), containers: plain('containers') };
  return { ...object, spec: { ...spec, ...(initContainers.length > 0 && { initContainers }) } };
}

describe('injection as OpenKruise has recorded it', () => {
  it.each([
    ['cold', 'sidecarset-1-injected-v1beta1', 'sidecarset-1-injected-pods', ['logger'], ['logs']],
    ['hot', 'sidecarset-hot-1-injected', 'sidecarset-hot-1-injected-pods', ['mesh-1', 'mesh-2'], []],
  ])('SCS-22, SHU-80: makes the same pods, byte for byte: %s', (_what, setName, podsName, sidecars, volumes) => {
    const sidecarSet = recorded<SidecarSet>(setName);
    const items = recorded<readonly (KubeObject & JsonObject)[]>(podsName);
    expect(items.length).toBeGreaterThan(1);
    for (const item of items) {
      const from = submitted(item, sidecars, volumes);
      const time = /"updateTimestamp":"([^"]*)"/.exec(String(annotationsOf(item)['kruise.io/sidecarset-hash']))?.[1];
      const chosen = { set: sidecarSet, chosen: currentContent(sidecarSet) };
      const result = injectSets(from, [chosen], { sort: true, now: time ?? '' });
      if (result.kind !== 'injected') throw new Error(result.failure.why);
      expect(withoutToken(result.pod)).toEqual(withoutToken(item));
    }
  });
});

describe('containers of injected pods', () => {
  it('SCS-23: replaces a container of the name at its place', () => {
    const into = pod({ containers: [container('app'), container('log', { args: ['old'] }), container('last')] });
    const after = injected(into, [set()]);
    expect(names(after)).toEqual(['app', 'log', 'last']);
    expect(listIn(after, 'containers')[1]).not.toHaveProperty('args');
    expect(listIn(after, 'containers')[1]).toMatchObject({ image: 'log:1' });
  });

  it('SCS-24: puts sidecars before or after the containers of the pod', () => {
    const containers = [
      container('b'),
      container('z', { podInjectPolicy: 'AfterAppContainer' }),
      container('a', { podInjectPolicy: 'BeforeAppContainer' }),
    ];
    expect(names(injected(pod(), [set({ containers })]))).toEqual(['b', 'a', 'app', 'z']);
  });

  it('SCS-25: sorts by name over all SidecarSets with the gate, else keeps the order of each', () => {
    const sets = [
      set({ containers: [container('c'), container('a')] }, 'y'),
      set({ containers: [container('b')] }, 'x'),
    ];
    expect(names(injected(pod(), sets))).toEqual(['c', 'a', 'b', 'app']);
    expect(names(injected(pod(), sets, true))).toEqual(['a', 'b', 'c', 'app']);
  });

  it('SCS-26: sorts init containers in any case, by default after those of the pod', () => {
    const initContainers = [native('d'), container('b'), container('c', { podInjectPolicy: 'BeforeAppContainer' })];
    const sets = [
      set({ initContainers, updateStrategy: { type: 'NotUpdate' } }),
      set({ containers: [], initContainers: [container('a')] }, 'other'),
    ];
    const after = injected(pod({ initContainers: [container('own')] }), sets);
    expect(names(after, 'initContainers')).toEqual(['c', 'own', 'a', 'b', 'd']);
  });

  it('SCS-27: adds the volumes that sidecars mount, unless the pod has one of the name', () => {
    const volumes = ['v', 'w', 'unused', 'block'].map((name) => ({ name, emptyDir: { medium: 'Memory' } }));
    const containers = [
      container('log', {
        volumeMounts: [
          { name: 'v', mountPath: '/v' },
          { name: 'w', mountPath: '/w' },
          { name: 'unknown', mountPath: '/u' },
        ],
        volumeDevices: [{ name: 'block', devicePath: '/dev/b' }],
      }),
    ];
    const own = { name: 'v', emptyDir: {} };
    const after = injected(pod({ volumes: [own] }), [set({ containers, volumes })]);
    expect(listIn(after, 'volumes')).toEqual([own, volumes[1], volumes[3]]);
    expect(objectOr(injected(pod(), [set({ volumes })]).spec)).not.toHaveProperty('volumes');
  });

  it('SCS-28: appends pull secrets, each name once', () => {
    const secrets = (...all: readonly string[]) => ({ imagePullSecrets: all.map((name) => ({ name })) });
    const sets = [set(secrets('b', 'a')), set({ ...secrets('c', 'a'), containers: [container('x')] }, 'other')];
    const after = injected(pod(secrets('b')), sets);
    expect(names(after, 'imagePullSecrets')).toEqual(['b', 'a', 'c']);
  });

  it('SCS-29, SHU-11: orders environment variables, and copies none that is there already', () => {
    const app = container('app', {
      env: ['OWN', 'MOVED', 'PATH_OF', 'SHARED'].map((name) => ({ name, value: `app-${name}` })),
      volumeMounts: [{ name: 'v', mountPath: '/v', subPathExpr: '$(PATH_OF)/$(MOVED)/$(NOWHERE)' }],
    });
    const sidecar = {
      env: [{ name: 'OWN', value: 'own' }],
      shareVolumePolicy: { type: 'enabled' },
      transferEnv: [{ sourceContainerName: 'app', envNames: ['SHARED', 'MOVED', 'OWN', 'MISSING'] }],
      upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'empty:1' },
    };
    const after = injected(pod({ containers: [app] }), [set({ containers: [container('log', sidecar)] })]);
    const expected = [
      'OWN',
      'IS_INJECTED',
      'MOVED',
      'SHARED',
      'PATH_OF',
      'SIDECARSET_VERSION',
      'SIDECARSET_VERSION_ALT',
    ];
    expect(variables(first(after))).toEqual(expected);
    expect(objectsIn(first(after).env)[0]).toEqual({ name: 'OWN', value: 'own' });
  });

  it('SCS-32: changes nothing else of the pod', () => {
    const into = pod(
      { serviceAccountName: 'me', hostNetwork: true, newer: { than: 'us' } },
      { name: 'web', annotations: { a: 'b' } },
    );
    const after = injected(into, [set()]);
    const { containers: _, ...spec } = objectOr(after.spec);
    const { containers: __, ...before } = objectOr(into.spec);
    expect(spec).toEqual(before);
    expect(annotationsOf(after)).toMatchObject({ a: 'b' });
    expect({ ...objectOr(after.metadata), annotations: null }).toEqual({
      ...objectOr(into.metadata),
      annotations: null,
    });
    expect(JSON.stringify(first(after))).not.toMatch(/podInjectPolicy|upgradeStrategy|shareVolumePolicy/);
  });
});

describe('marks of injected pods', () => {
  it('SCS-30: writes the entries of its SidecarSets and keeps those of others', () => {
    const entry = {
      updateTimestamp: '2020-01-01T00:00:00Z',
      hash: 'h',
      sidecarSetName: 'z',
      sidecarList: ['z'],
      controllerRevision: 'z-1',
    };
    const annotations = {
      'kruise.io/sidecarset-hash': JSON.stringify({ z: entry }),
      'kruise.io/sidecarset-hash-without-image': '{"old":"abc"}',
      'kruise.io/sidecarset-injected-list': 'z,old',
    };
    const initContainers = [native('n'), container('plain')];
    const one = set({ initContainers, updateStrategy: { type: 'NotUpdate' } });
    const marks = annotationsOf(injected(pod({}, { annotations }), [one]));
    const { 'kruise.io/sidecarset-hash': whole, 'kruise.io/sidecarset-hash-without-image': less } =
      one.metadata.annotations ?? {};
    expect(marks['kruise.io/sidecarset-hash']).toBe(
      `{"logs":{"updateTimestamp":"${now}","hash":"${whole}","sidecarSetName":"logs","sidecarList":["log","n"]},` +
        '"z":{"updateTimestamp":"2020-01-01T00:00:00Z","hash":"h","sidecarSetName":"z","sidecarList":["z"],"controllerRevision":"z-1"}}',
    );
    expect(marks['kruise.io/sidecarset-hash-without-image']).toBe(
      `{"logs":{"updateTimestamp":"${now}","hash":"${less}","sidecarSetName":"logs","sidecarList":["log","n"]},` +
        '"old":{"updateTimestamp":null,"hash":"abc","sidecarSetName":"old","sidecarList":null}}',
    );
    expect(marks['kruise.io/sidecarset-injected-list']).toBe('logs,old,z');
  });

  it('has an empty list of sidecars for ordinary init containers only', () => {
    const marks = annotationsOf(injected(pod(), [set({ containers: [], initContainers: [container('i')] })]));
    expect(marks['kruise.io/sidecarset-hash']).toContain('"sidecarList":[]}');
  });

  it('SCS-31: names the latest revision that the status knows', () => {
    const known: SidecarSet = {
      ...set(),
      status: { matchedPods: 0, updatedPods: 0, readyPods: 0, latestRevision: 'logs-1' },
    };
    expect(annotationsOf(injected(pod(), [known]))['kruise.io/sidecarset-hash']).toContain(
      '"controllerRevision":"logs-1"}}',
    );
    expect(annotationsOf(injected(pod(), [set()]))['kruise.io/sidecarset-hash']).not.toContain('controllerRevision');
  });

  it.each(['kruise.io/sidecarset-hash', 'kruise.io/sidecarset-hash-without-image'])(
    'SCS-33: rejects a pod whose annotation %s is not readable',
    (key) => {
      for (const text of ['{', '[]', '{"a":1}']) {
        expect(inject(pod({}, { annotations: { [key]: text } }), [set()])).toMatchObject({
          kind: 'rejected',
          failure: { set: 'logs', why: expect.stringContaining(key) },
        });
      }
    },
  );
});

describe('what sidecars share with the containers of a pod', () => {
  const mount = (name: string, mountPath: string) => ({ name, mountPath });
  const sidecar = (fields: JsonObject) => set({ containers: [container('log', fields)] });

  it('SCS-40: appends mounts whose path is free, the first container first', () => {
    const containers = [
      container('a', { volumeMounts: [mount('v', '/own'), mount('v', '/dev/x'), mount('v', '/data')] }),
      container('side', { env: [{ name: 'IS_INJECTED', value: 'true' }], volumeMounts: [mount('s', '/side')] }),
      container('b', { volumeMounts: [mount('w', '/data'), mount('w', '/more')] }),
    ];
    const initContainers = [container('i', { volumeMounts: [mount('i', '/init')] })];
    const fields = {
      volumeMounts: [mount('o', '/own')],
      volumeDevices: [{ name: 'd', devicePath: '/dev/x' }],
      shareVolumePolicy: { type: 'enabled' },
    };
    const after = first(injected(pod({ containers, initContainers }), [sidecar(fields)]));
    expect(after.volumeMounts).toEqual([mount('o', '/own'), mount('v', '/data'), mount('w', '/more')]);
  });

  it('SCS-41: copies the variables of a path even where the mount is not shared', () => {
    const app = container('app', {
      env: [{ name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
      volumeMounts: [{ ...mount('v', '/own'), subPathExpr: '$(POD)' }],
    });
    const fields = { volumeMounts: [mount('o', '/own')], shareVolumePolicy: { type: 'enabled' } };
    const after = first(injected(pod({ containers: [app] }), [sidecar(fields)]));
    expect(after.volumeMounts).toEqual([mount('o', '/own')]);
    expect(objectsIn(after.env)[1]).toEqual(objectsIn(app.env)[0]);
  });

  it('SCS-42: appends devices whose path is free of mounts and devices', () => {
    const device = (name: string, devicePath: string) => ({ name, devicePath });
    const app = container('app', {
      volumeMounts: [mount('v', '/shared')],
      volumeDevices: [device('x', '/own'), device('x', '/shared'), device('x', '/dev/x')],
    });
    const fields = {
      volumeMounts: [mount('o', '/own')],
      shareVolumePolicy: { type: 'enabled' },
      shareVolumeDevicePolicy: { type: 'enabled' },
    };
    const after = first(injected(pod({ containers: [app] }), [sidecar(fields)]));
    expect(after.volumeDevices).toEqual([device('x', '/dev/x')]);
    expect(after.volumeMounts).toEqual([mount('o', '/own'), mount('v', '/shared')]);
  });

  it('SCS-43: shares with init containers, and not between sidecars of one call', () => {
    const enabled = { shareVolumePolicy: { type: 'enabled' } };
    const spec = {
      initContainers: [container('i', enabled)],
      containers: [container('a', { volumeMounts: [mount('o', '/a')] }), container('b', enabled)],
    };
    const after = injected(pod({ containers: [container('app', { volumeMounts: [mount('v', '/v')] })] }), [set(spec)]);
    expect(listIn(after, 'initContainers')[0]?.volumeMounts).toEqual([mount('v', '/v')]);
    expect(listIn(after, 'containers')[1]?.volumeMounts).toEqual([mount('v', '/v')]);
  });

  it('SCS-44: copies variables whole, in alphabetical order, and skips what is missing', () => {
    const secret = { name: 'B', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } };
    const app = container('app', { env: [{ name: 'A', value: '1' }, secret, { name: 'C', value: '3' }] });
    const transferEnv = [
      { sourceContainerName: 'app', envName: 'C', envNames: ['B', 'C', 'X'] },
      { sourceContainerName: 'nowhere', envName: 'A' },
      {
        sourceContainerNameFrom: { fieldRef: { fieldPath: 'metadata.name' } },
        sourceContainerName: 'app',
        envName: 'A',
      },
    ];
    const after = first(injected(pod({ containers: [app] }), [sidecar({ transferEnv })]));
    expect(objectsIn(after.env).slice(1)).toEqual([secret, { name: 'C', value: '3' }]);
  });

  it('SCS-45: takes the name of the source from a label or an annotation', () => {
    const app = container('app', { env: [{ name: 'A', value: '1' }] });
    const from = (fieldPath: string) => [
      { sourceContainerNameFrom: { fieldRef: { fieldPath } }, sourceContainerName: 'app', envName: 'A' },
    ];
    const into = pod({ containers: [app] }, { labels: { main: 'app' }, annotations: { main: 'app' } });
    const copied = (fieldPath: string) => variables(first(injected(into, [sidecar({ transferEnv: from(fieldPath) })])));
    expect(copied("metadata.labels['main']")).toEqual(['IS_INJECTED', 'A']);
    expect(copied("metadata.annotations['main']")).toEqual(['IS_INJECTED', 'A']);
    expect(copied("metadata.labels['other']")).toEqual(['IS_INJECTED']);
  });
});

describe('resources of sidecars', () => {
  const amounts = (kind: 'limits' | 'requests', cpu?: string, memory?: string) => ({
    [kind]: { ...(cpu !== undefined && { cpu }), ...(memory !== undefined && { memory }) },
  });
  const policy = (resourcesExpr: JsonObject, fields: JsonObject = {}) =>
    set({
      containers: [container('log', { resourcesPolicy: { targetContainersMode: 'sum', resourcesExpr, ...fields } })],
    });
  const resourcesOf = (into: JsonObject, one: SidecarSet) => first(injected(into, [one])).resources;
  const app = (name: string, resources: JsonObject) => container(name, { resources });

  it('SCS-61: count containers and native sidecars of the pod whose name matches, without those of SidecarSets', () => {
    const into = pod({
      initContainers: [
        app('init', amounts('limits', '8')),
        { ...app('native', amounts('limits', '1')), restartPolicy: 'Always' },
      ],
      containers: [
        app('app', amounts('limits', '2')),
        app('other', amounts('limits', '4')),
        app('log', amounts('limits', '16')),
      ],
    });
    const sum = (regex: string) =>
      objectOr(
        listIn(
          injected(into, [policy({ limits: { cpu: 'cpu' } }, { targetContainersNameRegex: regex })]),
          'containers',
        ).find(({ name }) => name === 'log'),
      ).resources;
    expect(sum('.*')).toEqual(amounts('limits', '7'));
    expect(sum('^(app|native)$')).toEqual(amounts('limits', '3'));
    expect(inject(into, [policy({ limits: { cpu: 'cpu' } }, { targetContainersNameRegex: '^log$' })])).toMatchObject({
      kind: 'rejected',
      failure: { set: 'logs', why: expect.stringContaining('^log$') },
    });
  });

  it('SCS-62: are added or the largest; a missing request counts 0', () => {
    const into = pod({
      containers: [app('a', amounts('requests', '200m', '1Gi')), app('b', amounts('requests', '300m'))],
    });
    expect(resourcesOf(into, policy({ requests: { cpu: 'cpu', memory: 'memory' } }))).toEqual(
      amounts('requests', '500m', '1Gi'),
    );
    const largest = policy({ requests: { cpu: 'cpu' } }, { targetContainersMode: 'max' });
    expect(resourcesOf(into, largest)).toEqual(amounts('requests', '300m'));
  });

  it('SCS-63: have no limit where one container has none, even if the expression is a constant', () => {
    const into = pod({ containers: [app('a', amounts('limits', '200m', '1Gi')), app('b', amounts('limits', '200m'))] });
    expect(resourcesOf(into, policy({ limits: { cpu: 'max(cpu*50%,50m)', memory: '1Gi' } }))).toEqual(
      amounts('limits', '200m'),
    );
    expect(resourcesOf(into, policy({ limits: { memory: '1Gi' } }))).toEqual({});
  });

  it('SCS-64: have the request of the expression, 0 included', () => {
    const into = pod();
    expect(resourcesOf(into, policy({ requests: { cpu: 'cpu*2', memory: '100Mi' } }))).toEqual(
      amounts('requests', '0', '100Mi'),
    );
  });

  it('SCS-65: replace those of the container', () => {
    const into = pod({ containers: [app('a', amounts('limits', '1'))] });
    expect(resourcesOf(into, policy({ limits: { cpu: 'cpu' } }))).toEqual(amounts('limits', '1'));
  });

  it('SCS-68: reject the pod where the expression fails for its amounts', () => {
    const into = pod({ containers: [app('a', amounts('limits', '1'))] });
    expect(inject(into, [policy({ limits: { cpu: 'cpu*cpu' } })])).toMatchObject({ kind: 'rejected' });
  });
});

describe('annotations that SidecarSets write on pods', () => {
  const patch = (patchPolicy: string, annotations: JsonObject) =>
    set({ patchPodMetadata: [{ annotations, patchPolicy }] });
  const annotated = (present: JsonObject, one: SidecarSet) =>
    annotationsOf(injected(pod({}, { annotations: present }), [one]));

  it('SCS-80: are kept, overwritten or merged', () => {
    expect(annotated({ a: '1' }, patch('Retain', { a: '2', b: '3' }))).toMatchObject({ a: '1', b: '3' });
    expect(annotated({ a: '1' }, patch('Overwrite', { a: '2', b: '3' }))).toMatchObject({ a: '2', b: '3' });
    const json = { a: '{"z":1,"b":{"c":1,"d":2},"l":[1]}' };
    expect(annotated(json, patch('MergePatchJson', { a: '{ "b": {"c": null, "e": "<"}, "l": [2] }' }))).toMatchObject({
      a: '{"b":{"d":2,"e":"\\u003c"},"l":[2],"z":1}',
    });
    expect(annotated({ a: '' }, patch('MergePatchJson', { a: '{ "b": 1 }', n: 'as it is' }))).toMatchObject({
      a: '{ "b": 1 }',
      n: 'as it is',
    });
    expect(annotated({ a: '1' }, patch('Unknown', { a: '2', b: '3' }))).not.toHaveProperty('b');
  });

  it('SCS-80: reject the pod where JSON cannot be merged', () => {
    for (const [present, given] of [
      ['{', '{}'],
      ['{}', '{'],
    ] as const) {
      const into = pod({}, { annotations: { a: present } });
      expect(inject(into, [patch('MergePatchJson', { a: given })])).toMatchObject({
        kind: 'rejected',
        failure: { set: 'logs' },
      });
    }
  });

  it('SCS-81: are there before the containers are built', () => {
    const containers = [
      container('log', {
        transferEnv: [
          { sourceContainerNameFrom: { fieldRef: { fieldPath: "metadata.annotations['main']" } }, envName: 'A' },
        ],
      }),
    ];
    const one = set({ containers, patchPodMetadata: [{ annotations: { main: 'app' }, patchPolicy: 'Retain' }] });
    const into = pod({ containers: [container('app', { env: [{ name: 'A', value: '1' }] })] });
    expect(variables(first(injected(into, [one])))).toContain('A');
  });
});

describe('hot-upgrade sidecars', () => {
  const upgradeStrategy = { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'empty:1' };

  it('SHU-1, SHU-10: are two containers that differ in name, image and versions only', () => {
    const hot = container('mesh', { upgradeStrategy, args: ['x'], shareVolumePolicy: { type: 'enabled' } });
    const app = container('app', { volumeMounts: [{ name: 'v', mountPath: '/v' }] });
    const after = injected(pod({ containers: [app] }), [set({ containers: [hot, container('log')] })]);
    expect(names(after)).toEqual(['mesh-1', 'mesh-2', 'log', 'app']);
    const [one, two] = listIn(after, 'containers').map(({ name: _, image: __, env: ___, ...rest }) => rest);
    expect(one).toEqual(two);
    expect(
      listIn(after, 'containers')
        .slice(0, 2)
        .map(({ image }) => image),
    ).toEqual(['mesh:1', 'empty:1']);
  });

  it('SHU-10: are sorted by the names of their containers', () => {
    const containers = [container('a', { upgradeStrategy }), container('a-15')];
    expect(names(injected(pod(), [set({ containers })], true))).toEqual(['a-1', 'a-15', 'a-2', 'app']);
  });

  it('SHU-12: have one map of working containers for all SidecarSets', () => {
    const annotations = { 'kruise.io/sidecarset-working-hotupgrade-container': '{"other":"other-2","mesh":"mesh-2"}' };
    const hot = (name: string, setName: string) => set({ containers: [container(name, { upgradeStrategy })] }, setName);
    const marks = annotationsOf(injected(pod({}, { annotations }), [hot('mesh', 'a'), hot('log', 'b')]));
    expect(marks['kruise.io/sidecarset-working-hotupgrade-container']).toBe(
      '{"log":"log-1","mesh":"mesh-1","other":"other-2"}',
    );
    expect(marks['kruise.io/sidecarset-hash']).toContain('"sidecarList":["mesh"]');
    expect(marks).toMatchObject({
      'version.sidecarset.kruise.io/mesh-1': '1',
      'version.sidecarset.kruise.io/mesh-2': '0',
      'versionalt.sidecarset.kruise.io/mesh-1': '0',
      'versionalt.sidecarset.kruise.io/mesh-2': '1',
    });
    const odd = pod({}, { annotations: { 'kruise.io/sidecarset-working-hotupgrade-container': '{"a":1}' } });
    expect(inject(odd, [hot('mesh', 'a')])).toMatchObject({ kind: 'rejected' });
  });

  it('SHU-13: may be native sidecars; other init containers have no pair', () => {
    const initContainers = [{ ...native('n'), upgradeStrategy }, container('i', { upgradeStrategy })];
    const after = injected(pod(), [set({ initContainers, updateStrategy: { type: 'NotUpdate' } })]);
    expect(names(after, 'initContainers')).toEqual(['i', 'n-1', 'n-2']);
  });
});

describe('SidecarSets that cannot be injected', () => {
  const broken = (failure?: string) =>
    set(
      {
        containers: [
          container('bad', {
            resourcesPolicy: { targetContainersMode: 'sum', resourcesExpr: { limits: { cpu: 'cpu/0' } } },
          }),
        ],
      },
      'broken',
      failure === undefined ? {} : { 'windlass.io/injection-failure': failure },
    );
  const into = pod({ containers: [container('app', { resources: { limits: { cpu: '1' } } })] });

  it('SCS-33: reject the pod, and say which one and why', () => {
    const result = inject(into, [set(), broken()]);
    const why = 'expression "cpu/0" for cpu: division by zero';
    expect(result).toEqual({ kind: 'rejected', failure: { set: 'broken', why } });
    expect(inject(into, [broken('Fail')])).toMatchObject({ kind: 'rejected' });
  });

  it('are left out with windlass.io/injection-failure: Ignore, and the others are injected', () => {
    const result = inject(into, [broken('Ignore'), set()]);
    if (result.kind !== 'injected') throw new Error('rejected');
    expect(names(result.pod)).toEqual(['log', 'app']);
    expect(result.ignored).toEqual([{ set: 'broken', why: expect.any(String) }]);
    expect(annotationsOf(result.pod)['kruise.io/sidecarset-injected-list']).toBe('logs');
    expect(inject(into, [broken('Ignore')])).toMatchObject({ kind: 'injected', pod: into });
  });

  it('never throw, whatever was stored', () => {
    for (const spec of [{ containers: [1] }, { containers: [{ env: 1, volumeMounts: 'x', resourcesPolicy: {} }] }]) {
      const odd = { ...set(), spec: { selector: {}, ...spec } } as unknown as SidecarSet;
      expect(['injected', 'rejected']).toContain(inject(pod(), [odd]).kind);
    }
  });
});
