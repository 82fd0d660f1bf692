// What is made hostile, kind by kind: an ordinary object of each, which one value then spoils.

import type { JsonObject } from '../../api/base/json.ts';
import { cloneSets } from '../../api/cloneset/types.ts';
import { crr } from '../../api/container-recreate-request/types.ts';
import type { Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { daemonSets } from '../../api/daemon-set/types.ts';
import { imageListPullJobs, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { kindDefinitions } from '../../api/kinds.ts';
import { fakeNodeImageLabel, nodeImages } from '../../api/node-image/types.ts';
import { type PerKind, partsOf } from '../../api/per-kind.ts';
import { podProbeMarker } from '../../api/pod-probe-marker/types.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type HostileValue, hostileValues } from './values.ts';

/** A kind whose objects people write. */
export interface AttackedKind {
  readonly resource: Resource;
  /** An ordinary object that asks for nothing but itself. `pod` is a pod of its namespace, for what needs one. */
  readonly ordinary: (name: string, pod: string) => JsonObject;
  /** What people do next, so that what was accepted has something to do. Absent: nothing. */
  readonly next?: (kube: KubeClient, object: { readonly namespace: string; readonly name: string }) => Promise<void>;
}

const labels = { app: 'hostile' };

export const container = (name: string): JsonObject => ({
  name,
  image: 'busybox:1.36',
  command: ['sh', '-c', `trap 'exit 0' TERM; sleep 99999 & wait`],
});

function workload(name: string, spec: JsonObject): JsonObject {
  return {
    metadata: { name },
    spec: {
      selector: { matchLabels: { ...labels, set: name } },
      template: {
        metadata: { labels: { ...labels, set: name } },
        spec: { terminationGracePeriodSeconds: 1, containers: [container('app')] },
      },
      ...spec,
    },
  };
}

/** An ordinary object of each kind. */
const attacked: PerKind<AttackedKind> = {
  CloneSet: { resource: cloneSets, ordinary: (name) => workload(name, { replicas: 1 }) },
  ContainerRecreateRequest: {
    resource: crr,
    ordinary: (name, pod) => ({
      metadata: { name },
      spec: { podName: pod, containers: [{ name: 'app' }], ttlSecondsAfterFinished: 1 },
    }),
  },
  ImagePullJob: {
    resource: imagePullJobs,
    ordinary: (name) => ({
      metadata: { name },
      spec: { image: 'busybox:1.36', parallelism: 2, completionPolicy: { type: 'Always', activeDeadlineSeconds: 60 } },
    }),
  },
  ImageListPullJob: {
    resource: imageListPullJobs,
    ordinary: (name) => ({
      metadata: { name },
      spec: { images: ['busybox:1.36'], completionPolicy: { type: 'Always', activeDeadlineSeconds: 60 } },
    }),
  },
  PodProbeMarker: {
    resource: podProbeMarker,
    ordinary: (name) => ({
      metadata: { name },
      spec: {
        selector: { matchLabels: labels },
        probes: [
          {
            name: 'up',
            containerName: 'app',
            probe: { exec: { command: ['true'] }, periodSeconds: 10 },
            podConditionType: `hostile.example/${name}`,
          },
        ],
      },
    }),
  },
  NodeImage: {
    resource: nodeImages,
    ordinary: (name) => ({ metadata: { name, labels: { [fakeNodeImageLabel]: 'true' } }, spec: {} }),
  },
  SidecarSet: {
    resource: sidecarSets,
    // It selects no pod of the other objects.
    ordinary: (name) => ({
      metadata: { name },
      spec: { selector: { matchLabels: { hostile: name } }, containers: [container('side')] },
    }),
    // A pod that it selects, and another image.
    async next(kube, { namespace, name }) {
      const spec = { terminationGracePeriodSeconds: 1, containers: [container('app')] };
      await kube.create(kubeResource.pods, { metadata: { namespace, name, labels: { hostile: name } }, spec });
      const image = { op: 'replace', path: '/spec/containers/0/image', value: 'busybox:1.35' };
      await kube.patch(sidecarSets, { name }, 'json', [image]);
    },
  },
  StatefulSet: { resource: statefulSets, ordinary: (name) => workload(name, { replicas: 1 }) },
  DaemonSet: { resource: daemonSets, ordinary: (name) => workload(name, {}) },
  // The watcher alone writes it.
  NodePodProbe: 'none',
};

/** Every kind whose objects people write. */
export const attackedKinds: readonly AttackedKind[] = partsOf(attacked);

/** Every hostile value of every field that people write of a kind. */
export function valuesOf({ resource }: AttackedKind): readonly HostileValue[] {
  const definition = kindDefinitions.find(({ kind }) => kind === resource.kind);
  const version = definition?.versions.find(({ name }) => name === resource.version);
  if (!version) throw new Error(`There is no schema of ${resource.kind} ${resource.version}`);
  return hostileValues(version.spec, ['spec']);
}
