import { setTimeout as delay } from 'node:timers/promises';
import { crr } from '../../api/container-recreate-request/types.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type BenchCluster, relistMs } from './cluster.ts';
import { type Figure, sample, single } from './figures.ts';
import type { Journey } from './steps.ts';

/** Figures of single requests, and what their histories say. */
export interface RecreateFigures {
  readonly figures: {
    readonly bareStop: Figure;
    readonly bare: Figure;
    readonly bareThree: Figure;
    readonly one: Figure;
    readonly three: Figure;
  };
  readonly journeys: { readonly one: readonly Journey[]; readonly three: readonly Journey[] };
}

/** What is measured of single requests: each sample has a fresh pod. */
export function recreateTakes(cluster: BenchCluster) {
  let number = 0;
  const nextName = (): string => `bench-${Date.now().toString(36)}-${number++}`;

  /** Milliseconds from the creation of a request for all containers of a pod, in order, to its end. */
  async function request(phase: number, containers: number, journeys?: Journey[]): Promise<number> {
    const pod = await cluster.readyPod(nextName(), containers);
    await delay(phase * relistMs);
    const journey = await cluster.recreateAndTell(pod);
    journeys?.push(journey);
    await cluster.remove(crr, pod.metadata.name);
    await cluster.remove(kubeResource.pods, pod.metadata.name);
    return journey.seenMs - journey.createdMs;
  }

  /** What nobody can be faster than: the runtime's stop, and the kubelet's start until the pod's status says ready. */
  async function bare(phase: number, containers: number, stops: number[] = []): Promise<number> {
    const pod = await cluster.readyPod(nextName(), containers);
    await delay(phase * relistMs);
    const startedAt = performance.now();
    for (const { name, containerID = '' } of pod.status?.containerStatuses ?? []) {
      const stopsAt = performance.now();
      await cluster.runtime.stopContainer(containerID.split('://')[1] ?? '', 1);
      stops.push(performance.now() - stopsAt);
      await cluster.podIs(pod.metadata.uid, `container ${name} runs again`, ({ status }) => {
        const now = status?.containerStatuses?.find((container) => container.name === name);
        return now?.ready === true && now.containerID !== containerID;
      });
    }
    const took = performance.now() - startedAt;
    await cluster.remove(kubeResource.pods, pod.metadata.name);
    return took;
  }

  return { request, bare };
}

/** How long a request takes beside the bare stop of a container, with fresh containers for every sample. */
export async function recreateFigures(cluster: BenchCluster, samples: number): Promise<RecreateFigures> {
  const { request, bare } = recreateTakes(cluster);
  const stops: number[] = [];
  const journeys: Record<'one' | 'three', Journey[]> = { one: [], three: [] };
  const figures = {
    bareStop: { what: 'bare: the CRI stop alone', samples: stops, dropped: 0 },
    bare: await sample('bare: CRI stop → pod status shows the new container ready', samples, (phase) =>
      bare(phase, 1, stops),
    ),
    bareThree: await sample('bare: the same for three containers, one after the other', samples, (phase) =>
      bare(phase, 3),
    ),
    one: await sample('one container: request created → Completed', samples, (phase) =>
      request(phase, 1, journeys.one),
    ),
    three: await sample('three in order: request created → Completed', samples, (phase) =>
      request(phase, 3, journeys.three),
    ),
  };
  return { figures, journeys };
}

/** Many requests at once: 10 for each of 20 pods of 10 containers, each for one container. */
export async function crowdFigures(cluster: BenchCluster): Promise<readonly Figure[]> {
  const prefix = `crowd-${Date.now().toString(36)}`;
  const names = Array.from({ length: 20 }, (_, index) => `${prefix}-${index}`);
  const pods = await Promise.all(names.map((name) => cluster.readyPod(name, 10)));
  const startedAt = performance.now();
  const requests = pods.flatMap((pod) =>
    pod.spec.containers.map(async ({ name }) => {
      const part = { ...pod, spec: { ...pod.spec, containers: [{ name }] } };
      await cluster.recreate(part, `${pod.metadata.name}-${name}`);
    }),
  );
  await Promise.all(requests);
  const seconds = (performance.now() - startedAt) / 1000;
  await Promise.all(names.map((name) => cluster.remove(kubeResource.pods, name)));
  return [single('200 requests at once over 20 pods of 10 containers, until the last has ended: seconds', seconds)];
}
