import { afterEach } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { hashAnnotation, injectedListAnnotation } from '../../api/sidecar-set/marks.ts';
import { newSidecarRevision } from '../../api/sidecar-set/revision.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { sidecarSetController } from '../../watcher/kinds/sidecar-set/controller.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import { type ControllerContextOptions, type RunningController, runController } from './controller-context.ts';
import type { MemoryCluster } from './fake-api/memory-cluster.ts';
import { sidecarSetDraft } from './objects/sidecar-set.ts';
import { PlayedRollOut } from './played-roll-out.ts';
import { waitFor } from './wait.ts';

export const setUid = 'set-uid';

/** A SidecarSet as admission stores it: container `log` with this image, for the pods with `app: web`. */
export function sidecarSet(
  image: string,
  { generation = 1, spec = {}, metadata = {} }: { generation?: number; spec?: JsonObject; metadata?: JsonObject } = {},
): SidecarSet {
  const draft = sidecarSetDraft({
    metadata: { uid: setUid, generation, resourceVersion: '1', ...metadata },
    spec: { containers: [{ name: 'log', image }], ...spec },
  });
  return defaultSidecarSet(draft) as unknown as SidecarSet;
}

export interface SidecarPod {
  readonly namespace?: string;
  readonly ready?: boolean;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly containers?: Pod['spec']['containers'];
  readonly createdAt?: string;
}

/** A running pod with the sidecar of this SidecarSet. */
export function podWith(set: SidecarSet, name: string, options: SidecarPod = {}): Pod {
  const { namespace = 'shop', ready = true, labels = {}, annotations = {} } = options;
  const mark = (hash: string | undefined) =>
    JSON.stringify({ [set.metadata.name]: { hash, sidecarSetName: set.metadata.name, sidecarList: ['log'] } });
  const containers = options.containers ?? [
    { name: 'log', image: String(set.spec.containers?.[0]?.image) },
    { name: 'app', image: 'app:1' },
  ];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...{ name, namespace, uid: `${namespace}-${name}`, resourceVersion: '1' },
      creationTimestamp: options.createdAt ?? '2026-01-01T00:00:00Z',
      labels: { app: 'web', ...labels },
      annotations: {
        [injectedListAnnotation]: set.metadata.name,
        [hashAnnotation.whole]: mark(set.metadata.annotations?.[hashAnnotation.whole]),
        [hashAnnotation.withoutImage]: mark(set.metadata.annotations?.[hashAnnotation.withoutImage]),
        ...annotations,
      },
    },
    spec: { nodeName: 'node-1', containers },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: '2026-01-01T00:00:00Z' }],
      containerStatuses: containers.map((container) => ({
        ...{ name: container.name, ready, restartCount: 0 },
        ...{ image: container.image ?? '', imageID: `sha256:${container.image}` },
      })),
    },
  };
}

/** A stored content. */
export function storedRevision(set: SidecarSet, number: number): ControllerRevision {
  const { metadata, ...revision } = newSidecarRevision(set, 'kruise-system', number, { collisions: 0, before: 0 });
  const identity = { uid: `revision-${number}`, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
  return { ...revision, metadata: { ...metadata, ...identity } };
}

/** What the kubelet does: containers whose image has changed start again, and the pod is ready. Answers their number. */
export function playKubelet(cluster: MemoryCluster, except: (pod: Pod) => boolean = () => false): number {
  let restarted = 0;
  for (const pod of cluster.all<Pod>(kubeResource.pods)) {
    const images = new Map(pod.spec.containers.map(({ name, image }) => [name, image ?? '']));
    const statuses = pod.status?.containerStatuses ?? [];
    if (except(pod) || statuses.every(({ name, image }) => images.get(name) === image)) continue;
    const containerStatuses = statuses.map((state) => {
      const image = images.get(state.name) ?? '';
      if (state.image === image) return state;
      restarted++;
      return { ...state, image, imageID: `sha256:${image}`, restartCount: state.restartCount + 1 };
    });
    cluster.put(kubeResource.pods, { ...pod, status: { ...pod.status, containerStatuses } } as never);
  }
  return restarted;
}

/**
 * Gives the function that runs the controller of SidecarSets beside a kubelet that is played, until SidecarSet `logs` of
 * generation 2 has its status. Both end after the test, as does what is given to `repeat` and `stopAfterwards`.
 */
export function usePlayedSidecarSets() {
  const ends: (() => void | Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });
  const repeat = (act: () => void) => {
    const timer = setInterval(act, 20);
    ends.unshift(() => clearInterval(timer));
  };
  const stopAfterwards = (controller: RunningController) => {
    ends.push(() => controller.stop());
    return controller;
  };
  const run = async (
    cluster: MemoryCluster,
    options: ControllerContextOptions = {},
    except?: (pod: Pod) => boolean,
  ) => {
    const controller = stopAfterwards(await runController(sidecarSetController, { ...options, cluster }));
    repeat(() => playKubelet(cluster, except));
    await waitFor('the status', () => setIn(cluster)?.status?.observedGeneration === 2);
    return controller;
  };
  return { run, repeat, stopAfterwards };
}

/** The roll-out of the SidecarSet, without Temporal. */
export function playedRollOut({ controller }: RunningController, life?: PermitLife): PlayedRollOut {
  const queue = () => {
    const leading = controller.fleet?.queue();
    if (leading === undefined) throw new Error('this controller does not lead');
    return leading;
  };
  return new PlayedRollOut(queue, setUid, life);
}

export function setIn(cluster: MemoryCluster): SidecarSet | undefined {
  return cluster.look<SidecarSet>(sidecarSets, { name: 'logs' });
}

export function imagesIn(cluster: MemoryCluster): readonly string[] {
  const pods = cluster.all<Pod>(kubeResource.pods).toSorted((a, b) => a.metadata.name.localeCompare(b.metadata.name));
  return pods.map(({ spec }) => String(spec.containers.find(({ name }) => name === 'log')?.image));
}

/** The message of the condition SidecarSetUpgradable. */
export function upgradableOf({ status }: Pod): JsonObject {
  const found = status?.conditions?.find(({ type }) => type === 'SidecarSetUpgradable');
  return found === undefined ? {} : objectOr(JSON.parse(found.message ?? '{}'));
}
