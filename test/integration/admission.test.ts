import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { cloneSets } from '../../api/cloneset/types.ts';
import { type ContainerRecreateRequest, crr, crrV1alpha1 } from '../../api/container-recreate-request/types.ts';
import type { Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { crrAnnotation, crrLabel, kubeResource } from '../../api/core/well-known.ts';
import { imageListPullJobs, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { nodeImages } from '../../api/node-image/types.ts';
import { podProbeMarker } from '../../api/pod-probe-marker/types.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { roles } from '../../deploy/local/roles.ts';
import type { NameRef } from '../../kube/client.ts';
import { createKubeClient, type FieldValidation } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import { describeAlone } from '../support/groups.ts';
import { testPlatform } from '../support/platform.ts';
import { useWindlass } from './windlass.ts';

// No controller runs: the result of admission stays unchanged.
const windlass = useWindlass({ watcher: false, worker: false });

const versions = { v1beta1: crr, v1alpha1: crrV1alpha1 } as const;

/** The status and the text of a refusal, as a client gets them. */
interface Answer {
  readonly status: number;
  readonly message: string;
}

async function refusal(call: Promise<unknown>): Promise<Answer> {
  try {
    await call;
  } catch (error) {
    if (error instanceof KubeError) return { status: error.status, message: error.message };
    throw error;
  }
  throw new Error('it was accepted');
}

function create(resource: Resource, namespace: string, spec: JsonObject, metadata: JsonObject = {}) {
  return windlass().cluster.kube.create<ContainerRecreateRequest>(resource, {
    metadata: { namespace, name: `request-${randomUUID().slice(0, 8)}`, ...metadata },
    spec,
  });
}

/** A pod without a kubelet, with the given fields. */
async function newPod(spec: JsonObject = {}, status?: JsonObject): Promise<Pod> {
  const { cluster, node } = windlass();
  const namespace = await cluster.newNamespace();
  const created = await cluster.kube.create<Pod>(kubeResource.pods, {
    metadata: { namespace, name: 'pod' },
    spec: {
      nodeName: node.ref.name,
      automountServiceAccountToken: false,
      containers: [{ name: 'app', image: 'busybox:1.36' }],
      ...spec,
    },
  });
  if (status === undefined) return created;
  return await cluster.kube.patch<Pod>(
    kubeResource.pods,
    { namespace, name: 'pod' },
    'merge',
    { status },
    { subresource: 'status' },
  );
}

function running(...names: readonly string[]): JsonObject {
  const containerStatuses = names.map((name) => ({
    name,
    ready: true,
    restartCount: 3,
    image: 'busybox:1.36',
    imageID: 'busybox:1.36',
    containerID: `containerd://${name}-0`,
    state: { running: { startedAt: '2026-01-01T00:00:00Z' } },
  }));
  return { phase: 'Running', containerStatuses };
}

describeAlone('admission of a request', () => {
  const one = { podName: 'pod', containers: [{ name: 'app' }] };

  // by version: the schema of v1beta1 rejects like the API server, the older version as it always has
  const badSpecs: readonly (readonly [what: string, spec: JsonObject, path: string, v1beta1: number])[] = [
    ['without a pod', { containers: [{ name: 'app' }] }, 'spec.podName', 422],
    ['with an empty pod name', { ...one, podName: '' }, 'spec.podName', 422],
    ['without containers', { podName: 'pod' }, 'spec.containers', 422],
    ['with an empty list of containers', { ...one, containers: [] }, 'spec.containers', 422],
    ['with a deadline under 3 s', { ...one, activeDeadlineSeconds: 2 }, 'spec.activeDeadlineSeconds', 400],
    ['with a negative deadline', { ...one, activeDeadlineSeconds: -1 }, 'spec.activeDeadlineSeconds', 422],
    [
      'with a negative grace period',
      { ...one, strategy: { terminationGracePeriodSeconds: -1 } },
      'spec.strategy.terminationGracePeriodSeconds',
      422,
    ],
    [
      'with a negative drain',
      { ...one, strategy: { unreadyGracePeriodSeconds: -1 } },
      'spec.strategy.unreadyGracePeriodSeconds',
      422,
    ],
    [
      'with an unknown failurePolicy',
      { ...one, strategy: { failurePolicy: 'Stop' } },
      'spec.strategy.failurePolicy',
      422,
    ],
    [
      'with a container twice',
      { ...one, containers: [{ name: 'app' }, { name: 'app' }] },
      'spec.containers[1].name',
      400,
    ],
    ['for an unknown pod', { ...one, podName: 'nobody' }, 'spec.podName', 400],
    ['for an unknown container', { ...one, containers: [{ name: 'web' }] }, 'spec.containers[0].name', 400],
    ['for an init container', { ...one, containers: [{ name: 'init' }] }, 'spec.containers[0].name', 400],
    [
      'with a preStop of its own',
      { ...one, containers: [{ name: 'app', preStop: { exec: { command: ['ls'] } } }] },
      'spec.containers[0].preStop',
      400,
    ],
    [
      'with ports of its own',
      { ...one, containers: [{ name: 'app', ports: [{ containerPort: 80 }] }] },
      'spec.containers[0].ports',
      400,
    ],
    [
      'with a statusContext of its own',
      { ...one, containers: [{ name: 'app', statusContext: { containerID: 'containerd://x', restartCount: 0 } }] },
      'spec.containers[0].statusContext',
      400,
    ],
  ];
  for (const [what, spec, path, code] of badSpecs) {
    it.concurrent(`CRR-6: refuses one ${what}, and names ${path}`, async () => {
      const { metadata } = await newPod({ initContainers: [{ name: 'init', image: 'busybox:1.36' }] }, running('app'));
      const { namespace = '' } = metadata;

      const [now, old] = await Promise.all([
        refusal(create(crr, namespace, spec)),
        refusal(create(crrV1alpha1, namespace, spec)),
      ]);

      expect(now).toEqual({ status: code, message: expect.stringContaining(path) });
      expect(old).toEqual({ status: 400, message: expect.stringContaining(path) });
    });
  }

  it.concurrent('names every problem at once', async () => {
    const { metadata } = await newPod({}, running('app'));
    const spec = { ...one, containers: [{ name: 'web' }, { name: 'web' }], activeDeadlineSeconds: 1 };
    const { message } = await refusal(create(crr, metadata.namespace ?? '', spec));
    expect(message).toContain('spec.activeDeadlineSeconds');
    expect(message).toContain('spec.containers[1].name');
  });

  const badPods: readonly (readonly [what: string, pod: () => Promise<Pod>, path: string, text: string])[] = [
    [
      'CRR-2: refuses a request for a finished pod',
      () => newPod({}, { ...running('app'), phase: 'Succeeded' }),
      'spec.podName',
      'Succeeded',
    ],
    [
      'CRR-2: refuses a request for a pod that is being deleted',
      async () => {
        const pod = await newPod({}, running('app'));
        const { namespace = '', name } = pod.metadata;
        await windlass().cluster.kube.delete(kubeResource.pods, { namespace, name });
        return pod;
      },
      'spec.podName',
      'deleted',
    ],
    [
      'CRR-3: refuses a request for a pod that is on no node',
      // an empty name would be set by a scheduler
      () => newPod({ nodeName: '', schedulerName: 'nobody' }, running('app')),
      'spec.podName',
      'not scheduled',
    ],
    [
      'CRR-3: refuses a request for a pod whose node does not exist',
      () => newPod({ nodeName: 'no-such-node' }, running('app')),
      'spec.podName',
      'no-such-node',
    ],
    [
      'CRR-6: refuses a request for a container without a status',
      () => newPod(),
      'spec.containers[0].name',
      'no status',
    ],
    [
      'CRR-6: refuses a request for a container that was never started',
      () =>
        newPod(
          {},
          { containerStatuses: [{ name: 'app', ready: false, restartCount: 0, image: 'x', imageID: '', state: {} }] },
        ),
      'spec.containers[0].name',
      'no containerID',
    ],
  ];
  for (const [what, pod, path, text] of badPods) {
    it.concurrent(what, async () => {
      const { metadata } = await pod();
      const { status, message } = await refusal(create(crr, metadata.namespace ?? '', one));
      expect(status).toBe(400);
      expect(message).toContain(path);
      expect(message).toContain(text);
    });
  }

  it.concurrent('CRR-2: accepts one for a finished pod whose sidecars are being ended', async () => {
    const conditions = [{ type: 'SidecarTerminated', status: 'True' }];
    const { metadata } = await newPod({}, { ...running('app'), phase: 'Succeeded', conditions });
    const { spec } = await create(crr, metadata.namespace ?? '', one);
    expect(spec.podName).toBe('pod');
  });

  for (const [version, resource] of Object.entries(versions)) {
    it.concurrent(`CRR-1, CRR-4, CRR-5, CRR-7: fills in what the stop needs, in ${version}`, async () => {
      const { node } = windlass();
      const lifecycle = { preStop: { exec: { command: ['sh', '-c', 'drain'] } } };
      const hook = { preStop: { httpGet: { path: '/drain', port: 'admin' } } };
      const ports = [{ name: 'admin', containerPort: 8080 }];
      const { metadata: pod } = await newPod(
        {
          terminationGracePeriodSeconds: 17,
          containers: [
            { name: 'app', image: 'busybox:1.36', lifecycle, ports },
            { name: 'web', image: 'busybox:1.36', lifecycle: hook, ports },
          ],
        },
        running('app', 'web'),
      );
      const labels = { [crrLabel.podUid]: 'mine', [crrLabel.active]: 'no', team: 'shop' };

      const { metadata, spec } = await create(
        resource,
        pod.namespace ?? '',
        { podName: 'pod', containers: [{ name: 'web' }, { name: 'app' }] },
        { labels },
      );

      expect(metadata.labels).toEqual({
        team: 'shop',
        [crrLabel.podUid]: pod.uid,
        [crrLabel.nodeName]: node.ref.name,
        [crrLabel.active]: 'true',
      });
      expect(spec).toEqual({
        podName: 'pod',
        strategy: { failurePolicy: 'Fail', terminationGracePeriodSeconds: 17 },
        containers: [
          {
            name: 'web',
            preStop: { httpGet: expect.objectContaining({ path: '/drain', port: 'admin' }) },
            ports: [{ name: 'admin', containerPort: 8080, protocol: 'TCP' }],
            statusContext: { containerID: 'containerd://web-0', restartCount: 3 },
          },
          {
            name: 'app',
            preStop: { exec: { command: ['sh', '-c', 'drain'] } },
            statusContext: { containerID: 'containerd://app-0', restartCount: 3 },
          },
        ],
      });
    });
  }

  it.concurrent('CRR-4: marks requests for virtual nodes', async () => {
    const { cluster } = windlass();
    const { metadata: node } = await cluster.newNode({ type: 'virtual-kubelet' });
    const { metadata } = await newPod({ nodeName: node.name }, running('app'));
    const request = await create(crr, metadata.namespace ?? '', one);
    expect(request.metadata.labels?.type).toBe('virtual-kubelet');
  });
});

describeAlone('admission of an update', () => {
  async function created(): Promise<NameRef> {
    const { metadata } = await newPod({}, running('app'));
    const { namespace = '' } = metadata;
    const request = await create(crr, namespace, { podName: 'pod', containers: [{ name: 'app' }] });
    return { namespace, name: request.metadata.name };
  }

  for (const [version, resource] of Object.entries(versions)) {
    const badUpdates: readonly (readonly [what: string, patch: JsonObject, path: string])[] = [
      ['spec', { spec: { activeDeadlineSeconds: 60 } }, 'spec.activeDeadlineSeconds'],
      ['the pod', { spec: { podName: 'other' } }, 'spec.podName'],
      ['the label of the pod', { metadata: { labels: { [crrLabel.podUid]: 'other' } } }, crrLabel.podUid],
      ['the label of the node', { metadata: { labels: { [crrLabel.nodeName]: null } } }, crrLabel.nodeName],
    ];
    for (const [what, patch, path] of badUpdates) {
      it.concurrent(`refuses to change ${what} in ${version}, and names it`, async () => {
        const ref = await created();
        const { status, message } = await refusal(windlass().cluster.kube.patch(resource, ref, 'merge', patch));
        expect({ status, message }).toEqual({ status: 403, message: expect.stringContaining(path) });
      });
    }
  }

  it.concurrent('refuses to change in v1alpha1 when the drain began', async () => {
    const { kube } = windlass().cluster;
    const ref = await created();
    const annotate = (time: string | null) =>
      kube.patch<ContainerRecreateRequest>(crrV1alpha1, ref, 'merge', {
        metadata: { annotations: { [crrAnnotation.unreadyAcquired]: time } },
      });
    await annotate('2026-01-01T00:00:00Z');

    const refusals = await Promise.all([refusal(annotate('2026-01-01T00:00:01Z')), refusal(annotate(null))]);

    for (const { status, message } of refusals) {
      expect({ status, message }).toEqual({
        status: 403,
        message: expect.stringContaining(crrAnnotation.unreadyAcquired),
      });
    }
  });

  it.concurrent('allows labels and annotations of others', async () => {
    const { kube } = windlass().cluster;
    const ref = await created();
    const metadata = { labels: { team: 'shop' }, annotations: { note: 'by hand' } };
    const changed = await kube.patch<ContainerRecreateRequest>(crr, ref, 'merge', { metadata });
    expect(changed.metadata).toMatchObject(metadata);
  });

  it.concurrent('never lets a completed request go back', async () => {
    const { kube } = windlass().cluster;
    const ref = await created();
    const write = (phase: string) => kube.patch(crr, ref, 'merge', { status: { phase } }, { subresource: 'status' });
    await write('Completed');
    expect(await refusal(write('Recreating'))).toEqual({ status: 422, message: expect.stringContaining('phase') });
  });
});

describeAlone('admission of fields that no pod has', () => {
  const container = { name: 'app', image: 'busybox:1.36', enviroment: [{ name: 'A' }], volumeMounts: [{ nam: 'x' }] };
  const cloneSet = {
    selector: { matchLabels: { app: 'web' } },
    scaleStrategy: { enablePVCReuse: true },
    template: {
      foo: 1,
      metadata: { labels: { app: 'web' }, lables: { tier: 'front' } },
      spec: { containers: [{ ...container, volumeMounts: [{ name: 'data', mountPath: '/data', mode: 1 }] }] },
    },
    volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: { acessModes: ['ReadWriteOnce'] } }],
  };
  const sidecarSet = {
    selector: { matchLabels: { app: `never-${randomUUID()}` } },
    containers: [{ name: 'log', image: 'busybox:1.36', enviroment: [] }],
    initContainers: [{ name: 'init', image: 'busybox:1.36', comand: [] }],
  };
  const cases: readonly (readonly [Resource, JsonObject, readonly string[]])[] = [
    [
      cloneSets,
      cloneSet,
      [
        'spec.template.foo',
        'spec.template.metadata.lables',
        'spec.template.spec.containers[0].enviroment',
        'spec.template.spec.containers[0].volumeMounts[0].mode',
        'spec.volumeClaimTemplates[0].spec.acessModes',
      ],
    ],
    [sidecarSets, sidecarSet, ['spec.containers[0].enviroment', 'spec.initContainers[0].comand']],
  ];

  for (const [resource, spec, paths] of cases) {
    it.concurrent(`of a ${resource.kind}: rejects, warns or says nothing, as the client asks`, async () => {
      const { cluster } = windlass();
      const namespace = resource.namespaced ? await cluster.newNamespace() : undefined;
      const apply = async (fieldValidation?: FieldValidation) => {
        const warnings: string[] = [];
        const object = {
          metadata: { name: `typo-${randomUUID().slice(0, 8)}`, ...(namespace && { namespace }) },
          spec,
        };
        const options = { dryRun: true, onWarning: (text: string) => void warnings.push(text) };
        await cluster.kube.create(resource, object, { ...options, ...(fieldValidation && { fieldValidation }) });
        return warnings;
      };
      const { status, message } = await refusal(apply('Strict'));
      expect(status).toBe(422);
      for (const path of paths) expect(message).toContain(`${path}: unknown field`);
      const unknown = paths.map((path) => `unknown field "${path}"`);
      expect(await apply('Warn')).toEqual(expect.arrayContaining(unknown));
      expect(await apply()).toEqual(expect.arrayContaining(unknown));
      expect((await apply('Ignore')).filter((text) => text.startsWith('unknown field'))).toEqual([]);
    });
  }
});

describeAlone('admission', () => {
  const spec = { podName: 'pod', containers: [{ name: 'app' }] };

  it('refuses every request while gate KruiseDaemon is off', async () => {
    const { metadata } = await newPod({}, running('app'));
    const request = await create(crr, metadata.namespace ?? '', spec);
    await windlass().restartWebhook(['--feature-gates=KruiseDaemon=false']);

    const ref = { namespace: metadata.namespace ?? '', name: request.metadata.name };
    const labelled = windlass().cluster.kube.patch(crr, ref, 'merge', { metadata: { labels: { team: 'shop' } } });
    const refusals = await Promise.all([
      refusal(create(crr, metadata.namespace ?? '', spec)),
      refusal(create(crrV1alpha1, metadata.namespace ?? '', spec)),
      refusal(labelled),
    ]);
    for (const answer of refusals) {
      expect(answer).toEqual({ status: 403, message: expect.stringContaining('KruiseDaemon') });
    }
  });

  it('that is away keeps requests out, and lets those that are there go', async () => {
    await windlass().restartWebhook([]);
    const { metadata } = await newPod({}, running('app'));
    const request = await create(crr, metadata.namespace ?? '', spec);
    await windlass().stopWebhook();

    expect((await refusal(create(crr, metadata.namespace ?? '', spec))).status).toBe(500);
    const ref = { namespace: metadata.namespace ?? '', name: request.metadata.name };
    await windlass().cluster.kube.delete(crr, ref);
    expect(await windlass().cluster.find(crr, ref)).toBeUndefined();
    await windlass().restartWebhook([]);
  });

  it('M8: that is away does not hold up what watcher and worker write beside the spec, of any kind', async () => {
    const { cluster, stopWebhook, restartWebhook } = windlass();
    const { metadata } = await newPod({}, running('app'));
    const namespace = metadata.namespace ?? '';
    const selector = { matchLabels: { app: 'm8' } };
    const template = {
      metadata: { labels: selector.matchLabels },
      spec: { containers: [{ name: 'app', image: 'a' }] },
    };
    const probe = {
      name: 'p',
      containerName: 'app',
      probe: { exec: { command: ['true'] } },
      podConditionType: 'x.io/p',
    };
    const node = await cluster.newNode();
    const objects = [
      { resource: crr, spec },
      { resource: cloneSets, spec: { replicas: 0, selector, template } },
      { resource: imagePullJobs, spec: { image: 'busybox:1.36', completionPolicy: { type: 'Never' } } },
      { resource: imageListPullJobs, spec: { images: ['busybox:1.36'], completionPolicy: { type: 'Never' } } },
      { resource: podProbeMarker, spec: { selector, probes: [probe] } },
      { resource: nodeImages, name: node.metadata.name, spec: {} },
    ];
    for (const { resource, spec: given, name = 'm8' } of objects) {
      const at = resource.namespaced ? { namespace, name } : { name };
      await cluster.kube.create(resource, { metadata: at, spec: given });
    }
    await stopWebhook();

    const platform = testPlatform();
    for (const role of [roles.watcher, roles.worker]) {
      const kubeconfig = await platform.accessOf(role);
      const client = createKubeClient({ kubeconfig, userAgent: 'windlass-test', qps: 100, burst: 100 });
      for (const { resource, name = 'm8' } of objects) {
        if (role === roles.worker && resource !== crr) continue; // it writes no metadata of other kinds
        const ref = resource.namespaced ? { namespace, name } : { name };
        // all that policies let the watcher write of a CloneSet
        const marked = (value: string) => ({ metadata: { annotations: { 'windlass.io/roll-out': value } } });
        await client.patch(resource, ref, 'merge', marked(role.name));
        expect((await refusal(cluster.kube.patch(resource, ref, 'merge', marked('somebody')))).status).toBe(500);
      }
      await client.close();
    }
    await restartWebhook([]);
  });
});
