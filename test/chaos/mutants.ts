// Requests that are wrong, odd or hostile: good manifests of both versions, with something in them bent.
import fc from 'fast-check';

/** A write that is sent as it is. */
export interface Mutant {
  readonly method: 'POST' | 'PUT' | 'PATCH';
  readonly version: 'v1alpha1' | 'v1beta1';
  readonly contentType: string;
  readonly text: string;
}

/** What mutants are made from. */
export interface Originals {
  readonly namespace: string;
  readonly pod: string;
  readonly containers: readonly [string, string];
  /** A request that exists, as each version shows it. */
  readonly existing: Readonly<Record<Mutant['version'], object>>;
}

/** The same for the same seed. */
export function mutants(originals: Originals, seed: number, count: number): readonly Mutant[] {
  return fc.sample(mutant(originals), { seed, numRuns: count });
}

/** A request that is good in every field, so that each can be bent. */
export function goodManifest({ namespace, pod, containers }: Originals, version: Mutant['version']): object {
  return {
    apiVersion: `apps.kruise.io/${version}`,
    kind: 'ContainerRecreateRequest',
    metadata: {
      name: 'mutant',
      namespace,
      labels: { mine: 'stays' },
      annotations: { note: 'kept' },
      finalizers: ['example.com/mine'],
    },
    spec: {
      podName: pod,
      containers: containers.map((name) => ({ name })),
      strategy: {
        failurePolicy: 'Ignore',
        orderedRecreate: true,
        forceRecreate: false,
        terminationGracePeriodSeconds: 3,
        unreadyGracePeriodSeconds: 1,
        minStartedSeconds: 1,
      },
      activeDeadlineSeconds: 600,
      ttlSecondsAfterFinished: 60,
    },
  };
}

function mutant(originals: Originals): fc.Arbitrary<Mutant> {
  const version = fc.constantFrom('v1alpha1' as const, 'v1beta1' as const);
  return fc.oneof(
    { weight: 12, arbitrary: version.chain((v) => created(v, bent(goodManifest(originals, v)))) },
    { weight: 2, arbitrary: version.chain((v) => created(v, smuggled(goodManifest(originals, v)))) },
    { weight: 2, arbitrary: version.chain((v) => created(v, swollen(goodManifest(originals, v)))) },
    { weight: 1, arbitrary: version.chain((v) => torn(v, goodManifest(originals, v))) },
    { weight: 3, arbitrary: version.chain((v) => changed(v, 'PUT', bent(originals.existing[v]))) },
    { weight: 1, arbitrary: version.chain((v) => changed(v, 'PATCH', bent(originals.existing[v]))) },
  );
}

function created(version: Mutant['version'], value: fc.Arbitrary<unknown>): fc.Arbitrary<Mutant> {
  // JSON is YAML, and the API server reads the two by different decoders
  const contentType = fc.constantFrom('application/json', 'application/json', 'application/json', 'application/yaml');
  return fc
    .tuple(value, contentType)
    .map(([object, type]) => ({ method: 'POST', version, contentType: type, text: textOf(object) }));
}

function changed(
  version: Mutant['version'],
  method: 'PUT' | 'PATCH',
  value: fc.Arbitrary<unknown>,
): fc.Arbitrary<Mutant> {
  const contentType = method === 'PUT' ? 'application/json' : 'application/merge-patch+json';
  return value.map((object) => ({ method, version, contentType, text: textOf(object) }));
}

function textOf(value: unknown): string {
  return JSON.stringify(value) ?? 'null';
}

/** Up to three places hold something else, or nothing. */
function bent(original: object): fc.Arbitrary<unknown> {
  const bends = fc.array(fc.tuple(fc.constantFrom(...pathsIn(original)), odd), { minLength: 1, maxLength: 3 });
  return bends.map((all) => all.reduce((value, [path, other]) => withOther(value, path, other), original as unknown));
}

/** Fields that only admission, the watcher or nobody may write. */
function smuggled(original: object): fc.Arbitrary<unknown> {
  const fields: readonly (readonly [path: Path, values: readonly unknown[]])[] = [
    [
      ['metadata', 'labels', 'crr.apps.kruise.io/pod-uid'],
      ['', 'somebody-elses', 7],
    ],
    [
      ['metadata', 'labels', 'crr.apps.kruise.io/node-name'],
      ['node-2', 'nowhere', 'x'.repeat(64)],
    ],
    [
      ['metadata', 'labels', 'crr.apps.kruise.io/active'],
      ['false', ''],
    ],
    [
      ['metadata', 'finalizers'],
      [['crr.apps.kruise.io/unready-acquired'], ['no-slash'], [7]],
    ],
    [
      ['metadata', 'annotations', 'crr.apps.kruise.io/unready-acquired'],
      ['yesterday', '2026-01-01T00:00:00Z'],
    ],
    [
      ['metadata', 'annotations', 'crr.apps.kruise.io/sync-container-statuses'],
      ['[', '[{"name":"app"}]', '{}'],
    ],
    [
      ['metadata', 'annotations', 'windlass.io/command'],
      ['abort', 'skip first', 'dance', ''],
    ],
    [
      ['metadata', 'namespace'],
      ['kube-system', 'elsewhere', ''],
    ],
    [
      ['metadata', 'name'],
      ['', 'UPPER', '../..', 'x'.repeat(254), 'a b'],
    ],
    [
      ['metadata', 'generateName'],
      ['mutant-', '-', 'UPPER'],
    ],
    [['metadata', 'uid'], ['00000000-0000-0000-0000-000000000000']],
    [
      ['metadata', 'resourceVersion'],
      ['1', 'x'],
    ],
    [
      ['metadata', 'deletionTimestamp'],
      ['2026-01-01T00:00:00Z', 'soon'],
    ],
    [
      ['spec', 'containers', 0, 'statusContext'],
      [{ containerID: 'containerd://another', restartCount: 0 }, {}, null],
    ],
    [
      ['spec', 'containers', 0, 'preStop'],
      [{ exec: { command: ['rm', '-rf', '/'] } }, {}, null],
    ],
    [
      ['spec', 'containers', 1, 'ports'],
      [[{ containerPort: 1 }], [], null],
    ],
    [['spec', 'containers', 1, 'command'], [['sh']]],
    [
      ['spec', 'surprise'],
      [true, { deep: { er: 1 } }],
    ],
    [['status'], [{ phase: 'Completed' }, { phase: 'Dancing' }, 'Completed', null]],
  ];
  return fc.constantFrom(...fields).chain(([path, values]) => {
    return fc.constantFrom(...values).map((value) => withOther(original, path, value));
  });
}

/** Too much of something. */
function swollen(original: object): fc.Arbitrary<unknown> {
  const many = (count: number, value: (index: number) => unknown): unknown[] =>
    Array.from({ length: count }, (_, i) => value(i));
  const deep = (depth: number): unknown => (depth === 0 ? 1 : { inner: deep(depth - 1) });
  const swellings: readonly (readonly [path: Path, value: unknown])[] = [
    [['spec', 'containers'], many(300, (index) => ({ name: `c${index}` }))],
    [['spec', 'containers'], many(5_000, () => ({ name: 'first' }))],
    [['spec', 'podName'], 'p'.repeat(100_000)],
    [['spec', 'containers', 0, 'name'], 'c'.repeat(100_000)],
    [['spec', 'strategy', 'failurePolicy'], 'Ignore'.repeat(10_000)],
    [['metadata', 'annotations', 'note'], 'n'.repeat(300_000)],
    [['metadata', 'labels', 'mine'], 'l'.repeat(64)],
    [['metadata', 'labels'], Object.fromEntries(many(2_000, (index) => [`label-${index}`, 'x']) as [string, string][])],
    [['metadata', 'finalizers'], many(1_000, (index) => `example.com/f${index}`)],
    [['spec', 'strategy'], deep(200)],
    [['spec', 'extra'], deep(2_000)],
    [['metadata', 'annotations', 'deep'], deep(5)],
  ];
  return fc.constantFrom(...swellings).map(([path, value]) => withOther(original, path, value));
}

/** Texts that are no JSON any more, or another one. */
function torn(version: Mutant['version'], original: object): fc.Arbitrary<Mutant> {
  const whole = JSON.stringify(original);
  const texts = fc.oneof(
    fc.nat(whole.length - 1).map((at) => whole.slice(0, at)),
    fc.tuple(fc.nat(whole.length - 1), fc.string({ minLength: 1, maxLength: 3 })).map(([at, text]) => {
      return whole.slice(0, at) + text + whole.slice(at + 1);
    }),
    fc.json(),
    fc.constantFrom('', 'null', '[]', '{}', '"text"', '\u0000', '{"spec":', `${'['.repeat(5_000)}`),
    fc.constant(whole.replace('"podName":', '"podName":"first","podName":')),
  );
  return texts.map((text) => ({ method: 'POST', version, contentType: 'application/json', text }));
}

type Path = readonly (string | number)[];

const odd: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 2, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.constant(null) },
  {
    weight: 6,
    arbitrary: fc.constantFrom<unknown>(
      ...[0, -1, 1, 2, 3, 1.5, 1e300, -(2 ** 63), 2 ** 31, 2 ** 53, 2 ** 63, true, false],
      ...['', 'first', 'second', 'third', 'victim', 'Fail', 'Ignore', 'fail', '3', '0', 'v1', '__proto__', '\u0000'],
      ...['x'.repeat(5_000), 'ü', '😀'.repeat(70), 'a/b', 'a.b', '-', 'first\n'],
      ...[[], {}, [null], [[]], [1], { name: {} }, { name: 'first' }, [{ name: 'first' }, { name: 'first' }]],
    ),
  },
  { weight: 1, arbitrary: fc.integer() },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
);

function pathsIn(value: unknown, path: Path = []): readonly Path[] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([key, part]) => {
    return pathsIn(part, [...path, Array.isArray(value) ? Number(key) : key]);
  });
  return path.length === 0 ? inner : [path, ...inner];
}

/** A copy with something else at that place, which is made where it is missing; undefined takes it away. */
function withOther(value: unknown, [key, ...rest]: Path, other: unknown): unknown {
  if (key === undefined) return other;
  if (Array.isArray(value)) {
    return value.map((item, index) => (index === Number(key) ? withOther(item, rest, other) : item));
  }
  const object = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  return { ...object, [key]: withOther(object[key], rest, other) };
}
