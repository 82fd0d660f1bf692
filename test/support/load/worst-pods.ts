import type { JsonObject } from '../../../api/base/json.ts';
import { parseFeatureGates } from '../../../api/feature-gates.ts';
import type { PodProbeMarker } from '../../../api/pod-probe-marker/types.ts';
import { defaultSidecarSet } from '../../../api/sidecar-set/defaults.ts';
import type { SidecarSet } from '../../../api/sidecar-set/types.ts';
import { podChain, reviewPod } from '../../../webhook/pod.ts';
import type { SidecarSource } from '../../../webhook/review/followed-sidecar-sets.ts';
import type { Verdict } from '../../../webhook/review/review.ts';
import { sidecarSetDraft } from '../objects/sidecar-set.ts';

// Writes the CPU time of a review of each of the worst pods, in milliseconds as JSON. The best one of at least
// three measurements counts: others include that code is compiled, that garbage is collected, and the work of neighbours.
// Where these take caches and half of a core away all the time, it counts less, as parsing such a pod then takes longer, too.

const enoughMs = 75;
/** The best time to parse `parsed` on a core of 2026 with nothing beside. */
const quietParseMs = 22;
const bodyBytes = 3 * 1024 * 1024;
const annotationBytes = 250_000;
const gates = parseFeatureGates('EnhancedLivenessProbe=true,EnablePodProbeMarkerOnServerless=true');

async function bestCpuMs(work: () => Promise<unknown>): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  let parse = Number.POSITIVE_INFINITY;
  for (let time = 0; time < 3 || (best > enoughMs && time < 10); time++) {
    best = Math.min(best, await cpuMs(work));
    parse = Math.min(parse, await cpuMs(async () => JSON.parse(parsed)));
  }
  return best * Math.min(1, quietParseMs / parse);
}

async function cpuMs(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** As many entries as fit into so many bytes of JSON. */
function fill<Entry>(bytes: number, entry: (index: number) => Entry): Entry[] {
  const perEntry = JSON.stringify([entry(100_000), entry(100_001)]).length / 2;
  return Array.from({ length: Math.floor(bytes / perEntry) }, (_, index) => entry(index));
}

function fillMap(bytes: number, key: (index: number) => string, value = ''): Record<string, string> {
  const perEntry = key(100_000).length + value.length + 6;
  return Object.fromEntries(Array.from({ length: Math.floor(bytes / perEntry) }, (_, index) => [key(index), value]));
}

function nested(bytes: number, depth: number): string {
  return `${'{"a":'.repeat(depth)}"${'<'.repeat(bytes - 6 * depth)}"${'}'.repeat(depth)}`;
}

function pod(spec: object = {}, metadata: object = {}): JsonObject {
  const given = { containers: [{ name: 'app', image: 'app:1' }], ...spec };
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web', labels: { app: 'web' }, ...metadata }, spec: given };
}

function setOf(spec: object, name = 'logs', metadata: object = {}): SidecarSet {
  const draft = sidecarSetDraft({ name, metadata: metadata as JsonObject, spec: spec as JsonObject });
  return defaultSidecarSet(draft) as unknown as SidecarSet;
}

const sharing = { name: 'log', image: 'log:1', shareVolumePolicy: { type: 'enabled' } };
const share = setOf({ containers: [sharing, { ...sharing, name: 'mesh' }] });
const resources = (mode: string, targetContainersNameRegex = '.*') =>
  setOf({
    containers: [
      {
        ...{ name: 'log', image: 'log:1' },
        resourcesPolicy: {
          ...{ targetContainersMode: mode, targetContainersNameRegex },
          resourcesExpr: { limits: { cpu: 'cpu*10%', memory: 'memory*10%' }, requests: { cpu: 'cpu*10%' } },
        },
      },
    ],
  });
const patches = (patchPolicy: string, keys: readonly string[], value = '1') =>
  setOf({ patchPodMetadata: [{ patchPolicy, annotations: Object.fromEntries(keys.map((key) => [key, value])) }] });
const twenty = Array.from({ length: 20 }, (_, index) => `key-${index}`);
const container = (index: number) => ({ name: `c${index}`, image: 'a' });
const parsed = JSON.stringify(fill(bodyBytes, container));
const half = bodyBytes / 2;

const failing = {
  ...{ name: 'log', image: 'log:1' },
  resourcesPolicy: {
    ...{ targetContainersMode: 'sum', targetContainersNameRegex: '.*' },
    resourcesExpr: { limits: { cpu: 'cpu/0' } },
  },
};
const hot = setOf({
  containers: twenty.map((name) => ({
    ...{ name, image: 'mesh:1' },
    upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'empty:1' },
  })),
});
const transfer = setOf({
  containers: [
    {
      ...{ name: 'log', image: 'log:1' },
      transferEnv: twenty.map((envName) => ({ sourceContainerName: 'app', envName })),
    },
  ],
});
const marker = {
  metadata: { name: 'marker' },
  spec: {
    selector: { matchLabels: { app: 'web' } },
    probes: twenty.map((name) => ({ name, containerName: 'c1', podConditionType: name, probe: {} })),
  },
} as unknown as PodProbeMarker;

function reviewerOf(sets: readonly SidecarSet[]) {
  const sidecars: SidecarSource = {
    inNamespace: () => sets,
    namespaceLabels: () => ({}),
    revision: () => undefined,
  };
  const review = reviewPod(gates, podChain, () => [marker], sidecars);
  const signal = new AbortController().signal;
  return async (object: JsonObject): Promise<Verdict> => {
    const common = {
      uid: 'r',
      operation: 'CREATE',
      subResource: '',
      name: 'web',
      dryRun: true,
      fieldValidation: 'Warn',
      user: 'a',
    } as const;
    return await review({ ...common, kind: { group: '', kind: 'Pod' }, namespace: 'shop', object }, signal);
  };
}

const containerOf = (fields: object) => pod({ containers: [{ name: 'app', image: 'app:1', ...fields }] });
const sets = (count: number, spec: (index: number) => object, metadata: object = {}) =>
  Array.from({ length: count }, (_, index) => setOf(spec(index), `set-${index}`, metadata));

const worst: readonly (readonly [what: string, sets: readonly SidecarSet[], object: () => JsonObject])[] = [
  [
    'references of paths and variables',
    [share],
    () =>
      containerOf({
        volumeMounts: [
          {
            ...{ name: 'v', mountPath: '/v' },
            subPathExpr: fill(half, (index) => `$(N${index})`).join(''),
          },
        ],
        env: fill(half, (index) => ({ name: `N${index}`, value: '' })),
      }),
  ],
  [
    'references of many mounts to one variable',
    [share],
    () =>
      containerOf({
        env: [{ name: 'A' }],
        volumeMounts: fill(bodyBytes, (index) => ({ name: 'v', mountPath: `/${index}`, subPathExpr: '$(A)' })),
      }),
  ],
  [
    'an unfinished reference',
    [share],
    () => containerOf({ volumeMounts: [{ name: 'v', mountPath: '/v', subPathExpr: '$('.repeat(half) }] }),
  ],
  [
    'a long reference',
    [share],
    () => containerOf({ volumeMounts: [{ name: 'v', mountPath: '/v', subPathExpr: `$(${'a'.repeat(bodyBytes)}` }] }),
  ],
  [
    'devices',
    [setOf({ containers: [{ ...sharing, shareVolumeDevicePolicy: { type: 'enabled' } }] })],
    () => containerOf({ volumeDevices: fill(bodyBytes, (index) => ({ name: 'v', devicePath: `/${index}` })) }),
  ],
  [
    'variables that are transferred',
    [transfer],
    () => containerOf({ env: fill(bodyBytes, (index) => ({ name: `N${index}` })) }),
  ],
  ['containers', [share, transfer], () => pod({ containers: fill(bodyBytes, container) })],
  ['init containers', [share], () => pod({ initContainers: fill(bodyBytes, container) })],
  ['containers whose amounts are added', [resources('sum')], () => pod({ containers: fill(bodyBytes, limited('1')) })],
  [
    'containers whose amounts are compared',
    [resources('max')],
    () => pod({ containers: fill(bodyBytes, limited('1e999')) }),
  ],
  [
    'a long name of a container',
    [resources('max', '^(app|web)+-[a-z]{1,20}$')],
    () => pod({ containers: [container(0), { name: 'web'.repeat(1_000_000), image: 'a' }] }),
  ],
  [
    'names of containers for an expression',
    [resources('max', '^(app|web)+-[a-z]{1,20}$')],
    () =>
      pod({
        containers: fill(bodyBytes, (index) => ({ ...limited('1')(index), name: `${'web'.repeat(15)}-${index}` })),
      }),
  ],
  ['volumes', [share], () => pod({ volumes: fill(bodyBytes, (index) => ({ name: `v${index}` })) })],
  ['pull secrets', [share], () => pod({ imagePullSecrets: fill(bodyBytes, (index) => ({ name: `s${index}` })) })],
  ['annotations', [patches('Overwrite', twenty)], () => pod({}, { annotations: fillMap(bodyBytes, (at) => `k${at}`) })],
  ...(['Retain', 'Overwrite', 'MergePatchJson'] as const).map(
    (policy) =>
      [
        `annotations for patches of policy ${policy}`,
        [patches(policy, twenty)],
        () => pod({}, { annotations: fillMap(annotationBytes, (index) => `k${index}`) }),
      ] as const,
  ),
  [
    'a nested annotation that is merged',
    [patches('MergePatchJson', ['key-0'], '{"b":1}')],
    () => pod({}, { annotations: { 'key-0': nested(annotationBytes, 1_000) } }),
  ],
  [
    'annotations for hot upgrades',
    [hot],
    () => pod({}, { annotations: fillMap(annotationBytes, (index) => `k${index}`) }),
  ],
  [
    'the list of injected SidecarSets',
    [hot],
    () => pod({}, { annotations: { 'kruise.io/sidecarset-injected-list': fill(half / 8, (at) => `${at}`).join(',') } }),
  ],
  [
    'the marks of injected SidecarSets',
    [hot],
    () => pod({}, { annotations: { 'kruise.io/sidecarset-hash': nested(annotationBytes, 1_000) } }),
  ],
  [
    'containers in order',
    [],
    () =>
      pod(
        { containers: fill(bodyBytes, container) },
        { name: 'x'.repeat(240), annotations: { 'apps.kruise.io/container-launch-priority': 'Ordered' } },
      ),
  ],
  [
    'priorities of containers',
    [],
    () => {
      const env = fill(bodyBytes, () => ({ name: 'KRUISE_CONTAINER_PRIORITY', value: 'x' }));
      return pod({ containers: [{ ...container(0), env }, container(1)] });
    },
  ],
  [
    'owners',
    [],
    () => pod({}, { ownerReferences: fill(bodyBytes, () => ({ apiVersion: 'v1', kind: 'A', name: 'a' })) }),
  ],
  ['readiness gates', [], () => pod({ readinessGates: fill(bodyBytes, (index) => ({ conditionType: `c${index}` })) })],
  [
    'labels, for selectors of 100 SidecarSets',
    sets(100, (index) => ({ selector: { matchLabels: { app: `a${index}` } } })),
    () => pod({}, { labels: fillMap(bodyBytes, (index) => `l${index}`) }),
  ],
  [
    'liveness probes',
    [],
    () =>
      pod(
        { containers: fill(bodyBytes, (index) => ({ ...container(index), livenessProbe: { exec: {} } })) },
        {
          ownerReferences: [{ apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'a', controller: true }],
          annotations: { 'apps.kruise.io/using-enhanced-liveness': 'true' },
        },
      ),
  ],
  [
    'SidecarSets that cannot be injected and ignore it',
    sets(2, () => ({ containers: [failing] }), { 'windlass.io/injection-failure': 'Ignore' }),
    () => pod({ containers: fill(bodyBytes, limited('1')) }),
  ],
  [
    'SidecarSets that share mounts beside others that fail and ignore it',
    [share, ...sets(20, () => ({ containers: [failing] }), { 'windlass.io/injection-failure': 'Ignore' })],
    () => containerOf({ volumeMounts: fill(bodyBytes, (index) => ({ name: 'v', mountPath: `/${index}` })) }),
  ],
];

function limited(amount: string): (index: number) => object {
  return (index) => ({ ...container(index), resources: { limits: { cpu: amount } } });
}

const measured: Record<string, number> = {};
for (const [what, selecting, make] of worst) {
  const review = reviewerOf(selecting);
  const object = make();
  measured[what] = await bestCpuMs(() => review(object));
}
console.log(JSON.stringify(measured));
