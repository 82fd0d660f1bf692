import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { kindDefinitions } from '../../api/kinds.ts';
import type { PerKind } from '../../api/per-kind.ts';
import { cloneSetRules } from '../../webhook/cloneset.ts';
import { reviewRecreateRequest } from '../../webhook/container-recreate-request.ts';
import { daemonSetRules } from '../../webhook/daemon-set.ts';
import { reviewImageListPullJob, reviewImagePullJob } from '../../webhook/image-pull-job.ts';
import { reviewNodeImage } from '../../webhook/node-image.ts';
import { reviewPod } from '../../webhook/pod.ts';
import { reviewPodProbeMarker } from '../../webhook/pod-probe-marker.ts';
import { lookUpsIn } from '../../webhook/review/look-ups.ts';
import { admissionRoute, type Review } from '../../webhook/review/review.ts';
import { sidecarSetLookUpsIn } from '../../webhook/review/sidecar-set-look-ups.ts';
import { reviewSidecarSet } from '../../webhook/sidecar-set.ts';
import { statefulSetRules } from '../../webhook/stateful-set.ts';
import { reviewWorkload, type WorkloadRules } from '../../webhook/workload.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';

// Rejections have the same form for every kind: all problems, each with its path, as causes and in one line.

const gates = parseFeatureGates('ImagePullJobGate=true');
const off = parseFeatureGates('KruiseDaemon=false');

function recreateReview(featureGates = gates): Review {
  const cluster = new MemoryCluster();
  cluster.put(kubeResource.nodes, { metadata: { name: 'node-1' } });
  cluster.put(kubeResource.pods, {
    metadata: { name: 'web-7', namespace: 'shop', uid: 'pod-uid-7' },
    spec: { nodeName: 'node-1', containers: [{ name: 'app' }] },
    status: { phase: 'Running' },
  });
  return reviewRecreateRequest(featureGates, lookUpsIn(cluster.client()), {
    knowsCaller: true,
    suiteNamespace: 'kruise-system',
  });
}

function reviewOfWorkload(rules: WorkloadRules): Review {
  return reviewWorkload(rules, {
    gates,
    lookUps: lookUpsIn(new MemoryCluster().client()),
    trials: { tryPod: () => Promise.resolve({ kind: 'accepted' }) },
    deletion: () => ({ kind: 'allowed' }),
  });
}

const sidecarSetReview = reviewSidecarSet({
  gates,
  lookUps: sidecarSetLookUpsIn(new MemoryCluster().client(), 'kruise-system'),
  trials: { tryPod: () => Promise.resolve({ kind: 'accepted' }) },
});

interface Case {
  readonly review: Review;
  /** Absent: no gate turns it off. */
  readonly withoutGate?: Review;
  readonly version: string;
  readonly good: JsonObject;
  /** A spec with several problems, and where they are. */
  readonly bad: JsonObject;
  readonly paths: readonly string[];
  /** A change of `good` with several problems, and where they are. Absent: updates are not judged. */
  readonly change?: JsonObject;
  readonly changed?: readonly string[];
}

const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'app', image: 'app:1' }] } };
const probe = { exec: { command: ['true'] } };
const job = { completionPolicy: { type: 'Always' } };
const badJob = { completionPolicy: { type: 'Sometimes' }, parallelism: '5%' };
const badSet: JsonObject = {
  replicas: -1,
  selector: { matchLabels: { app: 'web' } },
  template: { ...template, spec: { restartPolicy: 'Never', activeDeadlineSeconds: 5 } },
  updateStrategy: { rollingUpdate: { partition: 'half', maxSurge: 'x' } },
};
const setPaths = [
  'spec.replicas',
  'spec.template.spec.restartPolicy',
  'spec.template.spec.activeDeadlineSeconds',
  'spec.updateStrategy.rollingUpdate.partition',
  'spec.updateStrategy.rollingUpdate.maxSurge',
];

const badStatefulSet: JsonObject = {
  replicas: -1,
  selector: { matchLabels: { app: 'web' } },
  template: { ...template, spec: { restartPolicy: 'Never', activeDeadlineSeconds: 5 } },
  updateStrategy: { rollingUpdate: { partition: -1, maxUnavailable: 2 } },
  persistentVolumeClaimRetentionPolicy: { whenScaled: 'Keep' },
};
const statefulSetPaths = [
  'spec.replicas',
  'spec.template.spec.restartPolicy',
  'spec.template.spec.activeDeadlineSeconds',
  'spec.updateStrategy.rollingUpdate.partition',
  'spec.updateStrategy.rollingUpdate.maxUnavailable',
  'spec.persistentVolumeClaimRetentionPolicy.whenScaled',
];

const badDaemonSet: JsonObject = {
  selector: { matchLabels: { app: 'web' } },
  template: { ...template, spec: { restartPolicy: 'Never', activeDeadlineSeconds: 5 } },
  minReadySeconds: -1,
  updateStrategy: {
    rollingUpdate: { rollingUpdateType: 'Surging', partition: 'half', maxUnavailable: 1, maxSurge: 1 },
  },
};
const daemonSetPaths = [
  'spec.template.spec.restartPolicy',
  'spec.template.spec.activeDeadlineSeconds',
  'spec.minReadySeconds',
  'spec.updateStrategy.rollingUpdate.rollingUpdateType',
  'spec.updateStrategy.rollingUpdate.maxUnavailable',
  'spec.updateStrategy.rollingUpdate.partition',
  'spec.updateStrategy.rollingUpdate.maxSurge',
];

const cases: PerKind<Case> = {
  CloneSet: {
    review: reviewOfWorkload(cloneSetRules),
    version: 'v1beta1',
    good: { replicas: 1, selector: { matchLabels: { app: 'web' } }, template },
    bad: badSet,
    paths: setPaths,
    change: badSet,
    changed: setPaths,
  },
  ContainerRecreateRequest: {
    review: recreateReview(),
    withoutGate: recreateReview(off),
    version: 'v1beta1',
    good: { podName: 'web-7', containers: [{ name: 'app' }] },
    bad: { podName: '', containers: [{ name: 'app' }, { name: 'app' }], ttlSecondsAfterFinished: -1 },
    paths: ['spec.podName', 'spec.containers[1].name', 'spec.ttlSecondsAfterFinished'],
    change: { podName: 'web-8', containers: [{ name: 'side' }], ttlSecondsAfterFinished: 5 },
    changed: ['spec.podName', 'spec.containers[0].name', 'spec.ttlSecondsAfterFinished'],
  },
  ImagePullJob: {
    review: reviewImagePullJob(gates),
    withoutGate: reviewImagePullJob(off),
    version: 'v1beta1',
    good: { ...job, image: 'web:1' },
    bad: { ...badJob, image: 'Web::1' },
    paths: ['spec.image', 'spec.parallelism', 'spec.completionPolicy.type'],
    change: { ...badJob, image: 'Web::1', pullSecrets: ['mine'] },
    changed: ['spec.pullSecrets', 'spec.image', 'spec.parallelism', 'spec.completionPolicy.type'],
  },
  ImageListPullJob: {
    review: reviewImageListPullJob(gates),
    withoutGate: reviewImageListPullJob(off),
    version: 'v1beta1',
    good: { ...job, images: ['web:1'] },
    bad: { ...badJob, images: ['Web::1', 'web:1', 'web:1'] },
    paths: ['spec.images', 'spec.images[0]', 'spec.parallelism', 'spec.completionPolicy.type'],
    change: { ...badJob, images: ['web:1', ''] },
    changed: ['spec.images[1]', 'spec.parallelism', 'spec.completionPolicy.type'],
  },
  NodeImage: {
    review: reviewNodeImage(gates),
    withoutGate: reviewNodeImage(off),
    version: 'v1beta1',
    good: { images: {} },
    bad: { images: { web: { tags: [{ tag: '' }, { tag: '2', version: -1, pullPolicy: {} }] } } },
    paths: [
      'spec.images[web].tags[0].tag',
      'spec.images[web].tags[0].pullPolicy',
      'spec.images[web].tags[1].version',
      'spec.images[web].tags[1].pullPolicy',
    ],
    change: { images: { web: { tags: [{ tag: '' }] } } },
    changed: ['spec.images[web].tags[0].tag', 'spec.images[web].tags[0].pullPolicy'],
  },
  PodProbeMarker: {
    review: reviewPodProbeMarker(gates),
    withoutGate: reviewPodProbeMarker(off),
    version: 'v1alpha1',
    good: {
      selector: { matchLabels: { app: 'web' } },
      probes: [{ name: 'a', containerName: 'app', podConditionType: 'shop/a', probe }],
    },
    bad: { selector: {}, probes: [{ name: 'a#b', probe: { ...probe, periodSeconds: -1 } }] },
    paths: [
      'spec.selector',
      'spec.probes[0].name',
      'spec.probes[0].containerName',
      'spec.probes[0].probe.periodSeconds',
      'spec.probes[0].markerPolicy',
    ],
    change: { selector: { matchLabels: { app: 'shop' } }, probes: [{ name: 'a', containerName: 'app', probe }] },
    changed: ['spec.selector', 'spec.probes[0].markerPolicy'],
  },
  StatefulSet: {
    review: reviewOfWorkload(statefulSetRules),
    version: 'v1beta1',
    good: { replicas: 1, selector: { matchLabels: { app: 'web' } }, template },
    bad: badStatefulSet,
    paths: statefulSetPaths,
    change: badStatefulSet,
    changed: statefulSetPaths,
  },
  DaemonSet: {
    review: reviewOfWorkload(daemonSetRules),
    version: 'v1beta1',
    good: { selector: { matchLabels: { app: 'web' } }, template },
    bad: badDaemonSet,
    paths: daemonSetPaths,
    change: badDaemonSet,
    changed: daemonSetPaths,
  },
  SidecarSet: {
    review: sidecarSetReview,
    version: 'v1beta1',
    good: { selector: { matchLabels: { app: 'web' } }, containers: [{ name: 'log', image: 'log:1' }] },
    bad: {
      selector: {},
      namespaceSelector: {},
      containers: [{ name: 'log', podInjectPolicy: 'First', resourcesPolicy: { targetContainersNameRegex: '(' } }],
      updateStrategy: { type: 'RollingUpdate', partition: '5', maxUnavailable: -1 },
      injectionStrategy: { revision: {} },
    },
    paths: [
      'spec.selector',
      'spec.namespaceSelector',
      'spec.updateStrategy.partition',
      'spec.updateStrategy.maxUnavailable',
      'spec.injectionStrategy.revision',
      'spec.containers[0].podInjectPolicy',
      'spec.containers[0].resourcesPolicy.targetContainersNameRegex',
      'spec.containers[0].resourcesPolicy.resourcesExpr',
    ],
    change: {
      selector: { matchLabels: { app: 'web' } },
      containers: [
        { name: 'log', image: 'log:1', upgradeStrategy: { upgradeType: 'HotUpgrade' } },
        { name: 'mesh', image: 'mesh:1' },
      ],
    },
    changed: [
      'spec.containers[0].upgradeStrategy.upgradeType',
      'spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage',
      'spec.containers[1].name',
    ],
  },
  // only the watcher creates them
  NodePodProbe: 'none',
};

const admitted = Object.entries(cases).flatMap(([kind, one]) => (one === 'none' ? [] : [[kind, one] as const]));

interface Status {
  readonly status: string;
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly details: {
    readonly name: string;
    readonly group: string;
    readonly kind: string;
    readonly causes: readonly { readonly reason: string; readonly field: string; readonly message: string }[];
  };
}

async function refusalOf(review: Review, kind: string, given: JsonObject): Promise<Status> {
  const request = {
    uid: 'review-1',
    kind: { group: 'apps.kruise.io', version: 'v1beta1', kind },
    namespace: 'shop',
    name: 'web',
    dryRun: false,
    ...given,
  };
  const body = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request };
  const answer = await admissionRoute(review, { whenFailed: 'refuse' })(body, new AbortController().signal);
  expect(answer.status).toBe(200);
  const { response } = answer.body as { response: { allowed: boolean; status: Status } };
  expect(response.allowed).toBe(false);
  return response.status;
}

function objectOf(kind: string, version: string, spec: JsonObject): JsonObject {
  return { apiVersion: `apps.kruise.io/${version}`, kind, metadata: { name: 'web', namespace: 'shop' }, spec };
}

const fieldReasons = ['FieldValueInvalid', 'FieldValueRequired', 'FieldValueForbidden', 'FieldValueNotSupported'];
const reasons: Readonly<Record<number, string>> = { 400: 'BadRequest', 403: 'Forbidden', 422: 'Invalid' };

function expectForm({ status, code, reason, message, details }: Status, kind: string): void {
  expect(status).toBe('Failure');
  expect(reason).toBe(reasons[code]);
  expect(details).toMatchObject({ name: 'web', group: 'apps.kruise.io', kind });
  expect(message).toBe(details.causes.map((cause) => `${cause.field}: ${cause.message}`).join('; '));
  for (const cause of details.causes) {
    expect(fieldReasons).toContain(cause.reason);
    expect(cause.field).toMatch(/^(spec|metadata)(\.|\[|$)/);
    expect(cause.message).not.toBe('');
  }
}

const sorted = (paths: readonly string[]) => paths.toSorted();

describe('a refusal by admission', () => {
  it('is tested for every kind', () => {
    expect(sorted(Object.keys(cases))).toEqual(sorted(kindDefinitions.map(({ kind }) => kind)));
  });

  it.each(admitted)('of a new %s lists every problem with its path, in one form', async (kind, given) => {
    const object = objectOf(kind, given.version, given.bad);
    const status = await refusalOf(given.review, kind, { operation: 'CREATE', object });
    expectForm(status, kind);
    expect(sorted(status.details.causes.map(({ field }) => field))).toEqual(sorted(given.paths));
  });

  it.each(admitted)('of a change of a %s lists every problem with its path, in one form', async (kind, given) => {
    const { version, good, change = {}, changed = [] } = given;
    const [oldObject, object] = [objectOf(kind, version, good), objectOf(kind, version, change)];
    const status = await refusalOf(given.review, kind, { operation: 'UPDATE', oldObject, object });
    expectForm(status, kind);
    expect(sorted(status.details.causes.map(({ field }) => field))).toEqual(sorted(changed));
  });

  it('of a pod has the same form', async () => {
    const env = [{ name: 'KRUISE_CONTAINER_PRIORITY', value: 'first' }];
    const containers = ['app', 'side'].map((name) => ({ name, env }));
    const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { containers } };
    const status = await refusalOf(reviewPod(gates), 'Pod', { operation: 'CREATE', object });
    expectForm(status, 'Pod');
    expect(status.details.causes.map(({ field }) => field)).toEqual([
      'spec.containers[0].env[0].value',
      'spec.containers[1].env[0].value',
    ]);
  });

  it.each(admitted)(
    'of a %s without its feature names the gate, and no field',
    async (kind, { withoutGate, ...given }) => {
      if (withoutGate === undefined) return;
      const object = objectOf(kind, given.version, given.good);
      const status = await refusalOf(withoutGate, kind, { operation: 'CREATE', object });
      expect(status).toMatchObject({ code: 403, reason: 'Forbidden', details: { causes: [] } });
      expect(status.message).toContain('KruiseDaemon');
    },
  );
});
