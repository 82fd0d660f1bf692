import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import type { Cluster } from '../support/cluster.ts';
import { isServing } from '../support/fleet-watch.ts';
import { recorded } from '../support/recorded.ts';
import { waitFor } from '../support/wait.ts';
import { type FleetObject, readyIn, updatedIn } from './fleet.ts';

/** A workload of a real OpenKruise at one moment. */
export interface Recording {
  readonly resource: Resource;
  readonly moment: string;
  /** Names of the files with the object, as it was created and at this moment, with its pods, revisions and PVCs. */
  readonly created: string;
  readonly object: string;
  readonly pods: string;
  readonly revisions: string;
  readonly claims?: string;
}

/** One of these kinds. */
type Owner = FleetObject & { readonly status?: { readonly updateRevision?: string } };

type Claim = KubeObject & { readonly spec: JsonObject };

export const podsOf = (recording: Recording) => recorded<readonly Pod[]>(recording.pods);
export const revisionsOf = (recording: Recording) => recorded<readonly ControllerRevision[]>(recording.revisions);

/**
 * What OpenKruise left at one moment, in a namespace of its own: the workload with its status, its revisions, and pods with the
 * recorded names, labels, annotations, specs and gates. The pods are real: what was decided about nodes and volumes is left out,
 * and statuses come from the kubelets and daemons of this cluster.
 */
export class Legacy {
  readonly recording: Recording;
  readonly namespace: string;
  readonly #cluster: Cluster;
  #before: ReadonlyMap<string, Pod> = new Map();

  private constructor(cluster: Cluster, recording: Recording, namespace: string) {
    this.recording = recording;
    this.namespace = namespace;
    this.#cluster = cluster;
  }

  /** Its PVCs get volumes of this class. */
  static async restore(cluster: Cluster, recording: Recording, storageClassName?: string): Promise<Legacy> {
    const legacy = new Legacy(cluster, recording, await cluster.newNamespace());
    const { namespace } = legacy;
    const { kube } = cluster;
    const { resource, claims } = recording;
    const { metadata: of, spec, status } = legacy.#recorded(recording.object);
    const ref = { namespace, name: of.name };
    const { labels, annotations } = of;
    const created = await kube.create<Owner>(resource, {
      metadata: { ...ref, labels, annotations },
      spec: legacy.#recorded(recording.created).spec,
    } as never);
    // so that the generation is the recorded one
    if (of.generation !== 1) await kube.patch(resource, ref, 'merge', { spec: { template: spec.template } });
    await kube.patch(resource, ref, 'merge', { status }, { subresource: 'status' });

    const owned = ({ metadata }: KubeObject) => ({
      namespace,
      name: metadata.name,
      labels: metadata.labels,
      annotations: metadata.annotations,
      ownerReferences: metadata.ownerReferences?.map((owner) => ({ ...owner, uid: created.metadata.uid })),
    });
    for (const revision of revisionsOf(recording)) {
      await kube.create(kubeResource.controllerRevisions, { ...revision, metadata: owned(revision) });
    }
    for (const { metadata, spec: claim } of claims === undefined ? [] : recorded<readonly Claim[]>(claims)) {
      const { volumeName: _, ...rest } = claim;
      await kube.create(kubeResource.persistentVolumeClaims, {
        metadata: { namespace, name: metadata.name, labels: metadata.labels },
        spec: { ...rest, storageClassName },
      } as never);
    }
    await Promise.all(
      podsOf(recording).map(async (pod) => {
        const { metadata } = await kube.create(kubeResource.pods, {
          metadata: owned(pod),
          spec: withoutPlace(pod.spec as unknown as JsonObject),
        });
        const gates = pod.status?.conditions?.filter(({ type }) => /^(InPlaceUpdateReady|KruisePodReady)$/.test(type));
        await kube.patch(
          kubeResource.pods,
          { namespace, name: metadata.name },
          'strategic',
          { status: { conditions: gates } },
          { subresource: 'status' },
        );
      }),
    );
    return legacy;
  }

  /** What the status says of its revision, as of the recording. */
  get updateRevision(): string | undefined {
    return this.#recorded(this.recording.object).status?.updateRevision;
  }

  /** Waits until the pods are as ready as in the recording, and remembers them. */
  async ready(): Promise<void> {
    const was = new Map(podsOf(this.recording).map((pod) => [pod.metadata.name, pod]));
    this.#before = await waitFor(`the pods of ${this.#what}`, async (see) => {
      const pods = await this.pods();
      see([...pods.values()].map(({ status }) => status));
      const are = [...pods].every(([name, pod]) => {
        const before = was.get(name);
        const containers = pod.status?.containerStatuses ?? [];
        const areReady = containers.length === pod.spec.containers.length && containers.every(({ ready }) => ready);
        return before !== undefined && isServing(pod) === isServing(before) && areReady;
      });
      return are && pods;
    });
  }

  async pods(): Promise<ReadonlyMap<string, Pod>> {
    const { items } = await this.#cluster.kube.list<Pod>(kubeResource.pods, { namespace: this.namespace });
    return new Map(items.map((pod) => [pod.metadata.name, pod]));
  }

  async patch(body: object): Promise<void> {
    await this.#cluster.kube.patch(this.recording.resource, this.#ref, 'merge', body);
  }

  /** Waits until so many pods are updated, and all of so many are ready. */
  async until(updated: number, ready = updated): Promise<Owner> {
    return await waitFor(`${updated} updated pods of ${this.#what}`, async (see) => {
      const owner = see(await this.#cluster.kube.get<Owner>(this.recording.resource, this.#ref));
      const { status, metadata } = owner;
      const isSeen = status?.observedGeneration === metadata.generation;
      return isSeen && updatedIn(status) === updated && readyIn(status) === ready && owner;
    });
  }

  /** Names and data of all revisions. */
  async revisions(): Promise<readonly object[]> {
    const { items } = await this.#cluster.kube.list<ControllerRevision>(kubeResource.controllerRevisions, {
      namespace: this.namespace,
    });
    return factsOf(items);
  }

  /** Which containers of the recorded pods were replaced: `web-s8g7h main`. */
  async replaced(): Promise<readonly string[]> {
    const now = await this.pods();
    return [...this.#before].flatMap(([name, before]) => {
      const after = now.get(name);
      if (after?.metadata.uid !== before.metadata.uid) return [`${name} itself`];
      return (before.status?.containerStatuses ?? []).flatMap(({ name: of, containerID }) => {
        const same = after.status?.containerStatuses?.find((status) => status.name === of);
        return same?.containerID === containerID ? [] : [`${name} ${of}`];
      });
    });
  }

  get #what(): string {
    return `${this.recording.resource.kind} ${this.recording.moment}`;
  }

  get #ref() {
    return { namespace: this.namespace, name: this.#recorded(this.recording.object).metadata.name };
  }

  #recorded(name: string): Owner {
    return recorded<Owner>(name);
  }
}

/** Containers with this image: `web-s8g7h main`. */
export function containersWith(recording: Recording, image: string): readonly string[] {
  return podsOf(recording).flatMap(({ metadata, spec }) =>
    spec.containers.flatMap((container) => (container.image === image ? [`${metadata.name} ${container.name}`] : [])),
  );
}

/** What is the same in every cluster. */
export function factsOf(revisions: readonly ControllerRevision[]): readonly object[] {
  return revisions
    .map(({ metadata, revision, data }) => ({ name: metadata.name, revision, data }))
    .toSorted((a, b) => a.revision - b.revision);
}

/** The spec of a pod, without what was decided about this one. */
function withoutPlace({ nodeName: _node, volumes, containers, ...spec }: JsonObject): JsonObject {
  const isTokens = ({ name }: JsonObject) => String(name).startsWith('kube-api-access-');
  const withoutTokens = (list: unknown) => ((list ?? []) as JsonObject[]).filter((entry) => !isTokens(entry));
  const withoutMounts = ({ volumeMounts, ...rest }: JsonObject): JsonObject => ({
    ...rest,
    volumeMounts: withoutTokens(volumeMounts),
  });
  return { ...spec, volumes: withoutTokens(volumes), containers: (containers as JsonObject[]).map(withoutMounts) };
}
