import { parseFeatureGates } from '../../../api/feature-gates.ts';
import type { KindName } from '../../../api/kinds.ts';
import { webhooks } from '../../../api/webhooks.ts';
import { type ReviewMeans, routesOf } from '../../../webhook/routes.ts';

// Writes the CPU time of a review of the worst updates by the webhook paths of each kind, in milliseconds as JSON: the best one
// of three, where the first one is not short already, and less of it on a slower core, as in worst-pods.ts. Objects are as a
// caller other than the API server may send them.

/** The best time to parse `parsed` on a core of 2026 with nothing beside. */
const quietParseMs = 22;

const bodyBytes = 3 * 1024 * 1024;
const means = {
  gates: parseFeatureGates('EnablePodProbeMarkerOnServerless=true'),
  lookUps: { pod: async () => undefined, node: async () => undefined, revision: async () => undefined },
  sidecarSets: { all: async () => [], whitelist: async () => undefined, hasRevision: async () => true },
  trials: { tryPod: async () => ({ kind: 'accepted' }) },
  trust: { knowsCaller: true, suiteNamespace: 'kruise-system' },
  protection: {},
} as unknown as ReviewMeans;
const none = () => undefined;
const routes = routesOf(means, { onRefusal: none, onFailure: none, onConversionWarning: none });
const signal = new AbortController().signal;

/** As many entries as fit into so many bytes of JSON. */
function fill<Entry>(bytes: number, entry: (index: number) => Entry): Entry[] {
  const perEntry = JSON.stringify([entry(100_000), entry(100_001)]).length / 2;
  return Array.from({ length: Math.floor(bytes / perEntry) }, (_, index) => entry(index));
}

const fillMap = (bytes: number, key: (index: number) => string, value: unknown) =>
  Object.fromEntries(fill(bytes, (index) => [key(index), value] as const));

const half = bodyBytes / 2 - 2_000;
const labels = { app: 'web' };
const template = (spec: object) => ({
  metadata: { labels },
  spec: { containers: [{ name: 'app', image: 'a' }], ...spec },
});
const workload = (spec: object, version = 'v1beta1') => {
  const rollingUpdate = { partition: 2 };
  const updateStrategy = version === 'v1beta1' ? { rollingUpdate } : rollingUpdate;
  const common = { replicas: 3, selector: { matchLabels: labels }, template: template({}), updateStrategy };
  return { spec: { ...common, ...spec }, status: { updateRevision: 'web-1', currentRevision: 'web-0' }, version };
};
const sidecarSet = (spec: object) => ({
  spec: { selector: { matchLabels: labels }, containers: [{ name: 'log', image: 'log:1' }], ...spec },
  status: { matchedPods: 3 },
  version: 'v1beta1',
});
const sidecar = (name: string, fields: object) => ({ name, image: 'a', ...fields });
const hot = { upgradeStrategy: { upgradeType: 'HotUpgrade' } };
const only = (spec: object) => ({ spec, version: 'v1beta1' });
const claims = (bytes: number, prefix: string) => fill(bytes, (index) => ({ metadata: { name: `${prefix}${index}` } }));

type Draft = { readonly spec: object; readonly version: string; readonly status?: object };
type Update = readonly [what: string, kind: KindName, before: () => Draft, after: () => Draft];

/** The same list in both objects, with other names. */
const both = (what: string, kind: KindName, draft: (prefix: string, bytes: number) => Draft): Update => [
  what,
  kind,
  () => draft('a', half),
  () => draft('b', half),
];

const worst: readonly Update[] = [
  [
    'PVC templates that are gone, and mounts of others',
    'CloneSet',
    () => {
      const mounts = { volumeMounts: fill(half, () => ({ name: 'q' })) };
      const spec = { containers: [{ name: 'c', image: 'i', ...mounts }] };
      return workload({ template: template(spec), volumeClaimTemplates: claims(half, 'x') });
    },
    () => workload({}),
  ],
  [
    'PVC templates that are gone, each mounted',
    'CloneSet',
    () => {
      const mounts = { volumeMounts: fill(half, (index) => ({ name: `x${index}` })) };
      const spec = { containers: [{ name: 'c', image: 'i', ...mounts }] };
      return workload({ template: template(spec), volumeClaimTemplates: claims(half, 'x') });
    },
    () => workload({}),
  ],
  both('PVC templates', 'CloneSet', (prefix, bytes) => workload({ volumeClaimTemplates: claims(bytes, prefix) })),
  both('names in podsToDelete', 'CloneSet', (prefix, bytes) =>
    workload({ scaleStrategy: { podsToDelete: fill(bytes, (index) => `${prefix}${index}`) } }, 'v1alpha1'),
  ),
  both('containers with InPlaceOnly', 'CloneSet', (prefix, bytes) => {
    const containers = fill(bytes, (index) => ({ name: `${prefix}${index}`, image: prefix }));
    return workload({ template: template({ containers }), updateStrategy: { type: 'InPlaceOnly' } }, 'v1alpha1');
  }),
  both('expressions of the selector', 'CloneSet', (prefix, bytes) =>
    workload({ selector: { matchExpressions: fill(bytes, (index) => ({ key: `${prefix}${index}`, operator: 'X' })) } }),
  ),
  both('terms of an order', 'CloneSet', (prefix, bytes) => {
    const orderPriority = fill(bytes, (index) => ({ key: `${prefix}${index}` }));
    return workload({ updateStrategy: { rollingUpdate: { priorityStrategy: { orderPriority } } } });
  }),
  both('PVC templates', 'StatefulSet', (prefix, bytes) => workload({ volumeClaimTemplates: claims(bytes, prefix) })),
  both('reserved ordinals', 'StatefulSet', (prefix, bytes) =>
    workload({ reserveOrdinals: fill(bytes, (index) => `${prefix}${index}`) }),
  ),
  both('ranges of reserved ordinals', 'StatefulSet', (_, bytes) =>
    workload({ reserveOrdinals: fill(bytes, (index) => `${index}-${index + 1}`) }),
  ),
  both('terms of an order', 'StatefulSet', (prefix, bytes) => {
    const orderPriority = fill(bytes, (index) => ({ key: `${prefix}${index}` }));
    const rollingUpdate = { unorderedUpdate: { priorityStrategy: { orderPriority } } };
    return workload({ podManagementPolicy: 'Parallel', updateStrategy: { rollingUpdate } });
  }),
  both('sidecars', 'SidecarSet', (prefix, bytes) =>
    sidecarSet({ containers: fill(bytes, (index) => sidecar(`${prefix}${index}`, {})) }),
  ),
  both('sidecars with hot upgrade', 'SidecarSet', (prefix, bytes) =>
    sidecarSet({ containers: fill(bytes, (index) => sidecar(`${prefix}${index}`, hot)) }),
  ),
  both('sidecars with hot upgrade and names of their containers', 'SidecarSet', (prefix, bytes) =>
    sidecarSet({
      containers: [
        ...fill(bytes / 2, () => sidecar(prefix, hot)),
        ...fill(bytes / 2, () => sidecar(`${prefix}-1`, {})),
      ],
    }),
  ),
  both('init containers', 'SidecarSet', (prefix, bytes) =>
    sidecarSet({ initContainers: fill(bytes, (index) => sidecar(`${prefix}${index}`, { restartPolicy: 'Always' })) }),
  ),
  both('volumes', 'SidecarSet', (prefix, bytes) =>
    sidecarSet({ volumes: fill(bytes, (index) => ({ name: `${prefix}${index}` })) }),
  ),
  both('patches of annotations', 'SidecarSet', (prefix, bytes) =>
    sidecarSet({
      patchPodMetadata: fill(bytes, (index) => ({ patchPolicy: 'x', annotations: { [`${prefix}${index}`]: '' } })),
    }),
  ),
  both('images', 'ImageListPullJob', (prefix, bytes) => only({ images: fill(bytes, (index) => `${prefix}${index}`) })),
  both('pull secrets', 'ImagePullJob', (prefix, bytes) =>
    only({ image: 'a', pullSecrets: fill(bytes, (index) => `${prefix}${index}`) }),
  ),
  both('names of nodes', 'ImagePullJob', (prefix, bytes) =>
    only({ image: 'a', selector: { names: fill(bytes, (index) => `${prefix}${index}`) } }),
  ),
  both('images of a node', 'NodeImage', (prefix, bytes) =>
    only({ images: fillMap(bytes, (index) => `${prefix}${index}`, { tags: [{}] }) }),
  ),
  both('tags of an image', 'NodeImage', (prefix, bytes) =>
    only({ images: { a: { tags: fill(bytes, (index) => ({ tag: `${prefix}${index}` })) } } }),
  ),
  both('probes', 'PodProbeMarker', (prefix, bytes) =>
    only({ selector: { matchLabels: labels }, probes: fill(bytes, (index) => ({ name: `${prefix}${index}` })) }),
  ),
  both('policies of a probe', 'PodProbeMarker', (prefix, bytes) =>
    only({
      selector: { matchLabels: labels },
      probes: [{ name: 'a', markerPolicy: fill(bytes, (index) => ({ state: `${prefix}${index}` })) }],
    }),
  ),
  both('containers to recreate', 'ContainerRecreateRequest', (prefix, bytes) =>
    only({ podName: 'a', containers: fill(bytes, (index) => ({ name: `${prefix}${index}` })) }),
  ),
];

function bodyOf(kind: string, before: Draft, after: Draft): string {
  const object = ({ version, ...rest }: Draft) => ({
    ...{ apiVersion: `apps.kruise.io/${version}`, kind, metadata: { name: 'web', namespace: 'shop' } },
    ...rest,
  });
  const request = {
    ...{ uid: 'r', kind: { group: 'apps.kruise.io', kind }, namespace: 'shop', operation: 'UPDATE' },
    ...{ object: object(after), oldObject: object(before) },
  };
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request });
}

async function cpuMs(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const parsed = JSON.stringify(fill(bodyBytes, (index) => ({ name: `c${index}`, image: 'a' })));
const enoughMs = 1_500;
const measured: Record<string, { cpuMs: number; answerBytes: number }> = {};
for (const [what, kind, before, after] of worst) {
  const text = bodyOf(kind, before(), after());
  if (text.length > bodyBytes) throw new Error(`${what}: ${text.length} bytes are more than admission reads`);
  for (const [type, { path }] of Object.entries(webhooks[kind])) {
    const route = routes[path];
    const answer = typeof route === 'object' ? route.answer : route;
    let best = Number.POSITIVE_INFINITY;
    let parse = Number.POSITIVE_INFINITY;
    let answerBytes = 0;
    for (let time = 0; time === 0 || (time < 3 && best > enoughMs); time++) {
      const review = async () => {
        answerBytes = JSON.stringify((await answer?.(JSON.parse(text), signal))?.body).length;
      };
      best = Math.min(best, await cpuMs(review));
      parse = Math.min(parse, await cpuMs(async () => JSON.parse(parsed)));
    }
    measured[`${kind}, ${type}: ${what}`] = { cpuMs: best * Math.min(1, quietParseMs / parse), answerBytes };
  }
}
console.log(JSON.stringify(measured));
