import type { KubeClient } from '../../activities/kube/client.ts';
import { isActive, type Pod } from '../../api/pod.ts';
import { kubeResource } from '../../api/well-known.ts';

/** How a fleet was after one event: who judges it sees every state that there was. */
export interface FleetMoment {
  readonly at: string;
  /** What happened: `MODIFIED web-x7k2p`. */
  readonly event: string;
  /** Pods that are neither finished nor on their way out. */
  readonly pods: number;
  readonly ready: number;
}

/** A recorded watch of all pods of a namespace, from its beginning to `stop`. */
export interface FleetWatch {
  /** Every moment since the last call, the present one included. */
  take(): readonly FleetMoment[];
  /** The pods as they are now, by name. */
  readonly pods: ReadonlyMap<string, Pod>;
  stop(): void;
}

/** Watches from a consistent list on, and begins again where a watch has ended, so that no event is missed. */
export async function watchFleet(kube: Pick<KubeClient, 'list' | 'watch'>, namespace: string): Promise<FleetWatch> {
  const stop = new AbortController();
  const listed = await kube.list<Pod>(kubeResource.pods, { namespace });
  const pods = new Map(listed.items.map((pod) => [pod.metadata.name, pod]));
  let moments: FleetMoment[] = [moment('LISTED')];
  let resourceVersion = listed.resourceVersion;

  function moment(event: string): FleetMoment {
    const there = [...pods.values()].filter(isActive);
    return { at: new Date().toISOString(), event, pods: there.length, ready: there.filter(isServing).length };
  }

  void (async () => {
    while (!stop.signal.aborted) {
      try {
        for await (const event of kube.watch<Pod>(kubeResource.pods, {
          namespace,
          resourceVersion,
          signal: stop.signal,
        })) {
          if (event.type === 'BOOKMARK') {
            resourceVersion = event.resourceVersion;
            continue;
          }
          const { name } = event.object.metadata;
          resourceVersion = event.object.metadata.resourceVersion;
          if (event.type === 'DELETED') pods.delete(name);
          else pods.set(name, event.object);
          moments.push(moment(`${event.type} ${name}`));
        }
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  })();

  return {
    pods,
    take() {
      const taken = moments;
      moments = taken.slice(-1);
      return taken;
    },
    stop: () => stop.abort(new Error('the test is over')),
  };
}

/** Whether Services may send requests to it. */
export function isServing({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}
