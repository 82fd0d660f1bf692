/** A StatefulSet `web` of namespace `shop` that goes from its first to its second revision, with its pods and PVCs. */
import type { Pod } from '../../api/core/pod.ts';
import { type ControllerRevision, newRevision } from '../../api/fleet/revision.ts';
import type { StatefulSet, StatefulSetSpec } from '../../api/stateful-set/types.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import { statefulSetRevisions } from '../../plan/stateful-set/revisions.ts';
import { aPod } from './objects/pod.ts';

const selector = { matchLabels: { app: 'web' } };
export const template = (image: string) => ({
  metadata: { labels: selector.matchLabels },
  spec: { containers: [{ name: 'main', image }] },
});
export const [uid, now] = ['set-uid', '2026-01-01T00:10:00Z'];
export const data = {
  metadata: { name: 'data' },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
};

type RollingUpdate = NonNullable<NonNullable<StatefulSetSpec['updateStrategy']>['rollingUpdate']>;

export function set(
  spec: Partial<StatefulSetSpec> = {},
  rollingUpdate: RollingUpdate = {},
  image = 'app:2',
): StatefulSet {
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'StatefulSet',
    metadata: { namespace: 'shop', name: 'web', uid, resourceVersion: '1', creationTimestamp: '', generation: 1 },
    spec: {
      ...{ replicas: 3, selector, template: template(image), serviceName: 'web', podManagementPolicy: 'Parallel' },
      updateStrategy: { type: 'RollingUpdate', rollingUpdate },
      ...spec,
    },
  };
}

export function revision(image: string, number: number): ControllerRevision {
  const made = newRevision(statefulSetRevisions.ownerOf(set({}, {}, image)), number);
  const { name } = made.metadata;
  return { ...made, metadata: { ...made.metadata, uid: name, resourceVersion: '1', creationTimestamp: '' } };
}

export const [old, fresh] = [revision('app:1', 1), revision('app:2', 2)];

export interface PodState {
  readonly of?: ControllerRevision;
  readonly going?: boolean;
  readonly ready?: boolean;
  readonly phase?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export function pod(ordinal: number, { of = old, going, ready = true, phase = 'Running', labels }: PodState = {}): Pod {
  const name = `web-${ordinal}`;
  const types = ['InPlaceUpdateReady', 'KruisePodReady', 'ContainersReady', 'Ready'];
  const owner = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'StatefulSet', name: 'web', uid, controller: true };
  return aPod({
    metadata: {
      name,
      uid: `${name}-uid`,
      labels: {
        ...{ app: 'web', 'controller-revision-hash': of.metadata.name },
        ...{ 'statefulset.kubernetes.io/pod-name': name, 'lifecycle.apps.kruise.io/state': 'Normal', ...labels },
      },
      ownerReferences: [owner],
      ...(going && { deletionTimestamp: now }),
    },
    spec: {
      nodeName: 'node-1',
      readinessGates: types.slice(0, 2).map((conditionType) => ({ conditionType })),
      containers: [{ name: 'main', image: of === old ? 'app:1' : 'app:2' }],
    },
    status: {
      phase,
      conditions: types.map((type) => ({ type, status: !ready && type === 'Ready' ? 'False' : 'True' })),
    },
  });
}

export const pods = (count: number, state?: PodState) =>
  Array.from({ length: count }, (_, ordinal) => pod(ordinal, state));

export function claim(ordinal: number, metadata: Partial<VolumeClaim['metadata']> = {}): VolumeClaim {
  const name = `data-web-${ordinal}`;
  return {
    metadata: { namespace: 'shop', name, uid: `${name}-uid`, resourceVersion: '1', creationTimestamp: '', ...metadata },
    spec: data.spec,
    status: { capacity: { storage: '1Gi' } },
  };
}
