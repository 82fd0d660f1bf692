import { isActive, type Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { BrokenPromise } from './broken-promise.ts';

/** The state of a fleet after one event: a test checks every state. */
export interface FleetMoment {
  readonly at: string;
  /** What happened: `MODIFIED web-x7k2p`. */
  readonly event: string;
  /** Pods that are neither completed nor being deleted. */
  readonly pods: number;
  readonly ready: number;
}

/** A recorded watch of all pods of a namespace, from its start to `stop`. */
export interface FleetWatch {
  /** Every moment since the last call, including the present one. */
  take(): readonly FleetMoment[];
  /** The pods as they are now, by name. */
  readonly pods: ReadonlyMap<string, Pod>;
  /** How often the watch could not be continued, so that moments may have been missed. */
  readonly gaps: number;
  stop(): void;
}

/**
 * Watches from a consistent list on, and continues when a watch has ended, so that no event is missed. `onEvent` is
 * called at each change.
 */
export async function watchFleet(
  kube: Pick<KubeClient, 'list' | 'watch'>,
  namespace: string,
  onEvent: (pod: Pod) => void = () => undefined,
): Promise<FleetWatch> {
  const stop = new AbortController();
  const pods = new Map<string, Pod>();
  let moments: FleetMoment[] = [];
  let resourceVersion = '';
  let gaps = 0;
  await list();

  async function list(): Promise<void> {
    const listed = await kube.list<Pod>(kubeResource.pods, { namespace });
    pods.clear();
    for (const pod of listed.items) pods.set(pod.metadata.name, pod);
    resourceVersion = listed.resourceVersion;
    moments.push(moment('LISTED'));
  }

  /** If it fails, the next watch fails, too, and it is retried. */
  async function listAnew(): Promise<void> {
    try {
      await list();
      gaps += 1;
    } catch {
      // the API server is away
    }
  }

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
          onEvent(event.object);
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        await new Promise((resolve) => setTimeout(resolve, 100));
        if (isForgotten(error)) await listAnew();
      }
    }
  })();

  return {
    pods,
    get gaps() {
      return gaps;
    },
    take() {
      const taken = moments;
      moments = taken.slice(-1);
      return taken;
    },
    stop: () => stop.abort(new Error('the test is over')),
  };
}

/**
 * Fails when fewer pods than these were ready at any moment since the moments were taken last, and reports the moments
 * around it.
 */
export function neverFewerReady(watch: FleetWatch, least: number): void {
  const moments = watch.take();
  const at = moments.findIndex(({ ready }) => ready < least);
  if (at < 0) return;
  const around = moments.slice(Math.max(at - 10, 0), at + 10);
  const pods = [...watch.pods.values()].map(({ metadata, status }) => ({ name: metadata.name, status }));
  throw new BrokenPromise(
    `${moments[at]?.ready} pods were ready, at least ${least} have to be: ${JSON.stringify({ around, pods }, undefined, 1)}`,
  );
}

function isForgotten(error: unknown): boolean {
  return error instanceof Error && 'status' in error && error.status === 410;
}

/** Whether Services may send requests to it. */
export function isServing({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}
