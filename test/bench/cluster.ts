import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import { crr, isCompleted } from '../../api/container-recreate-request/types.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { lockOf } from '../../api/engine/operation-id.ts';
import { type CriClient, createCriClient } from '../../daemon/cri/client.ts';
import type { PlatformStatus } from '../../deploy/local/platform.ts';
import { type Cache, createCache } from '../../kube/cache.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { Reflector } from '../../kube/reflector.ts';
import { makeUnversionedCurrent } from '../support/current-version.ts';
import { type Journey, stepsOf } from './steps.ts';

/** The cluster that is measured: its objects as they change, and the runtime of its first node. */
export interface BenchCluster {
  readonly kube: KubeClient;
  readonly runtime: CriClient;
  readonly node: string;
  /** A pod of so many containers, all of them ready. */
  readyPod(name: string, containers: number, labels?: Readonly<Record<string, string>>): Promise<Pod>;
  /** Waits for the pod to look like this. */
  podIs(uid: string, what: string, holds: (pod: Pod) => boolean): Promise<void>;
  /** Waits for the CloneSet to look like this. */
  setIs(uid: string, what: string, holds: (set: CloneSet) => boolean): Promise<void>;
  /** Waits for all pods that there are to look like this. */
  podsAre(what: string, holds: (pods: readonly Pod[]) => boolean): Promise<void>;
  /** Watches the objects of a further resource, until the end. */
  follow<T extends KubeObject>(resource: Resource): Promise<Followed<T>>;
  /** Is told of each change of a pod, until the end. */
  onPod(listener: (pod: Pod) => void): void;
  /** Creates a request for all containers of a pod, in order, and waits for its end. */
  recreate(pod: Pod, name?: string): Promise<Pick<Journey, 'createdMs' | 'seenMs'>>;
  /** The same, with what the history says about it. */
  recreateAndTell(pod: Pod): Promise<Journey>;
  remove(resource: Resource, name: string): Promise<void>;
  /** Lets workers without versions have new operations. */
  makeUnversionedCurrent(): Promise<void>;
  close(): Promise<void>;
}

/** Objects of one resource, as they change. */
export interface Followed<T extends KubeObject> {
  /** Waits for the object to look like this. */
  is(uid: string, what: string, holds: (object: T) => boolean): Promise<void>;
}

export const benchNamespace = 'default';

/**
 * The kubelet looks at its containers once a second, and a pod is seen to be ready right after such a look: how long a
 * restart takes depends most of all on when it begins. So the samples of each figure begin at the same, evenly spread
 * moments of that second.
 */
export const relistMs = 1_000;

const patienceMs = 300_000;

/** Connects to the first node of an instance that is up. */
export async function benchCluster(platform: PlatformStatus): Promise<BenchCluster> {
  const kube = createKubeClient({
    kubeconfig: platform.kubeconfig,
    userAgent: 'windlass-bench',
    qps: 1000,
    burst: 2000,
  });
  const node = 'node-1';
  const runtime = createCriClient(join(platform.folder, 'nodes', node, 'run', 'containerd', 'containerd.sock'));
  const pods = follow<Pod>(kube, kubeResource.pods);
  const requests = follow<ContainerRecreateRequest>(kube, crr);
  const sets = follow<CloneSet>(kube, cloneSets);
  const followed: Pick<Reflector<KubeObject>, 'stop' | 'synced'>[] = [
    pods.reflector,
    requests.reflector,
    sets.reflector,
  ];
  await Promise.all(followed.map((reflector) => reflector.synced()));
  const connection = await Connection.connect({ address: platform.temporal });
  const client = new Client({ connection });
  const { workflow } = client;

  async function podIs(uid: string, what: string, holds: (pod: Pod) => boolean): Promise<void> {
    await until(pods.cache, uid, what, holds);
  }

  async function recreate(pod: Pod, name = pod.metadata.name): Promise<Pick<Journey, 'createdMs' | 'seenMs'>> {
    const createdMs = nowMs();
    const { metadata } = await kube.create<ContainerRecreateRequest>(crr, requestFor(pod, name));
    await until(requests.cache, metadata.uid, `request ${metadata.name} has ended`, isCompleted);
    const seenMs = nowMs();
    const ended = requests.cache.byUid(metadata.uid);
    const failed = ended?.status?.containerRecreateStates?.some(({ phase }) => phase !== 'Succeeded');
    if (failed ?? true) throw new Error(`Request ${metadata.name} went wrong: ${JSON.stringify(ended?.status)}`);
    return { createdMs, seenMs };
  }

  return {
    kube,
    runtime,
    node,
    podIs,
    recreate,
    makeUnversionedCurrent: () => makeUnversionedCurrent(client),
    setIs: (uid, what, holds) => until(sets.cache, uid, what, holds),
    async podsAre(what, holds) {
      const signal = AbortSignal.timeout(patienceMs);
      await pods.cache.until(() => holds([...pods.cache.all()]), { signal, what });
    },
    async follow<T extends KubeObject>(resource: Resource): Promise<Followed<T>> {
      const { cache, reflector } = follow<T>(kube, resource);
      followed.push(reflector);
      await reflector.synced();
      return { is: (uid, what, holds) => until(cache, uid, what, holds) };
    },
    onPod: (listener) => pods.cache.onChange(({ after }) => after && listener(after)),
    async recreateAndTell(pod) {
      const times = await recreate(pod);
      const id = restartContainersId(pod.metadata);
      // a version that is measured beside this one may have had another form of ID
      const isOurs = await workflow
        .getHandle(id)
        .describe()
        .then(
          () => true,
          () => false,
        );
      const run = workflow.getHandle(isOurs ? id : lockOf(id));
      await run.result();
      return { ...times, steps: await stepsOf(run) };
    },
    async readyPod(name, containers, labels = {}) {
      const { metadata } = await kube.create<Pod>(kubeResource.pods, podOf(name, containers, node, labels));
      await podIs(metadata.uid, `pod ${name} is ready`, isReady);
      return await kube.get<Pod>(kubeResource.pods, { namespace: benchNamespace, name });
    },
    async remove(resource, name) {
      const options = resource.plural === 'pods' ? { gracePeriodSeconds: 0 } : {};
      await kube.delete(resource, { namespace: benchNamespace, name }, options);
    },
    async close() {
      runtime.close();
      await Promise.all(followed.map((reflector) => reflector.stop()));
      await Promise.all([kube.close(), connection.close()]);
    },
  };
}

/** To the microsecond, by the clock that Temporal's server on the same machine reads, too. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

/** Whether the kubelet calls the pod ready. */
export function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}

function podOf(name: string, containers: number, nodeName: string, labels: Readonly<Record<string, string>>): object {
  return {
    metadata: { name, namespace: benchNamespace, labels },
    spec: {
      nodeName,
      terminationGracePeriodSeconds: 1,
      containers: Array.from({ length: containers }, (_, index) => ({
        name: `c${index}`,
        image: 'busybox:1.36',
        command: ['sh', '-c', 'trap exit TERM; sleep 99999 & wait'],
      })),
    },
  };
}

function requestFor({ metadata, spec }: Pod, name: string): object {
  return {
    metadata: { name, namespace: benchNamespace },
    spec: {
      podName: metadata.name,
      containers: spec.containers.map(({ name }) => ({ name })),
      strategy: { orderedRecreate: true, terminationGracePeriodSeconds: 1 },
    },
  };
}

function follow<T extends KubeObject>(
  kube: KubeClient,
  resource: Resource,
): { cache: Cache<T>; reflector: Reflector<T> } {
  const cache = createCache<T>({ onError: (error) => console.error(error) });
  const log = { info: () => undefined, warn: () => undefined };
  const reflector = new Reflector<T>({ client: kube, resource, cache, log, namespace: benchNamespace });
  reflector.start();
  return { cache, reflector };
}

async function until<T extends KubeObject>(
  cache: Cache<T>,
  uid: string,
  what: string,
  holds: (object: T) => boolean,
): Promise<void> {
  const predicate = (): boolean => {
    const object = cache.byUid(uid);
    return object !== undefined && holds(object);
  };
  await cache.until(predicate, { signal: AbortSignal.timeout(patienceMs), what, uid });
}
