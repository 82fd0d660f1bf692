import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import type { ContainerPorts, LostPort, PodMarks } from '../../../plan/probes/pod-probes.ts';
import type { LeftOut } from '../../../plan/probes/probe-room.ts';

/** What is remembered between passes; losing it does no harm. */
export class NodeProbeMemory {
  /** By UID: ports of containers never change, so each pod is read once. */
  readonly #ports = new Map<string, ContainerPorts>();
  /** By UID: the annotations written last. They are not in the cache of every pod. */
  readonly #annotated = new Map<string, string>();
  /** By node. */
  readonly lostPorts = new Map<string, readonly LostPort[]>();
  /** By node, where probes are left out. */
  readonly leftOut = new Map<string, readonly LeftOut[]>();
  /** By node, where the API server rejected a larger list: the maximum size of its list in bytes. */
  readonly rooms = new Map<string, number>();
  /** Nodes whose list was written and may not be in the cache yet: the next pass has to read it. */
  readonly unsure = new Set<string>();

  /** The ports of a pod by container; undefined when the pod no longer exists. */
  async portsOf(pod: Pod, kube: Pick<KubeWriter, 'get'>): Promise<ContainerPorts | undefined> {
    const { uid, namespace = '', name } = pod.metadata;
    const known = this.#ports.get(uid);
    if (known) return known;
    const live = await unlessMovedOn(kube.get<Pod>(kubeResource.pods, { namespace, name }));
    if (live?.metadata.uid !== uid) return undefined;
    const ports = new Map(live.spec.containers.map((container) => [container.name, container.ports ?? []]));
    this.#ports.set(uid, ports);
    return ports;
  }

  /** Whether the pod may lack these annotations. */
  mayLackAnnotations(uid: string, { annotations }: PodMarks): boolean {
    return Object.keys(annotations).length > 0 && this.#annotated.get(uid) !== JSON.stringify(annotations);
  }

  annotated(uid: string, { annotations }: PodMarks): void {
    this.#annotated.set(uid, JSON.stringify(annotations));
  }

  forgetPod(uid: string): void {
    this.#ports.delete(uid);
    this.#annotated.delete(uid);
  }

  forgetAll(): void {
    this.#ports.clear();
    this.#annotated.clear();
    this.lostPorts.clear();
    this.leftOut.clear();
    this.rooms.clear();
    this.unsure.clear();
  }

  forgetNode(nodeName: string): void {
    this.lostPorts.delete(nodeName);
    this.leftOut.delete(nodeName);
    this.rooms.delete(nodeName);
    this.unsure.delete(nodeName);
  }
}
