// Swaps of a hot-upgrade sidecar in a real pod, held in the middle of their work.
import { setTimeout as delay } from 'node:timers/promises';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import { swapSidecarId } from '../../api/sidecar-set/swap.ts';
import { watchFleet } from './fleet-watch.ts';
import type { HeldOperation, Hold } from './held-operations.ts';
import { holdWrites } from './held-writes.ts';
import { HotSidecars, withImage } from './hot-sidecars.ts';
import { waitFor } from './wait.ts';
import type { Windlass } from './windlass.ts';

const empty = 'busybox:empty';
const image = 'busybox:1.36';
const pair = ['mesh-1', 'mesh-2'];

/** What stops the kubelets and watches of all held swaps. */
const running = new Set<() => Promise<void>>();

/** Stops what plays the kubelets of swaps, and takes away their SidecarSets. */
export async function stopHeldSwaps(): Promise<void> {
  await Promise.all([...running].map((stop) => stop()));
}

/** A swap whose first write, of the new image, the API server does not carry out. */
export const writingImage: Hold = async (windlass) => await holdingWrite(windlass, 'mesh-2', image);

/** A swap whose new container has not been started by the kubelet. */
export const startingImage: Hold = async (windlass) => {
  return await holdingKubelet(windlass, (container, wanted) => container !== 'mesh-2' || wanted !== image);
};

/** A swap whose second write, of the empty image, the API server does not carry out. */
export const writingEmpty: Hold = async (windlass) => await holdingWrite(windlass, 'mesh-1', empty);

/** A swap whose old container has not been started as the idle one. */
export const startingEmpty: Hold = async (windlass) => {
  const hold = await holdingKubelet(windlass, (container, wanted) => container !== 'mesh-1' || wanted !== empty);
  await waitFor('the reset', () => hold.done().length === 2);
  return hold;
};

async function holdingWrite(windlass: Windlass, container: string, held: string): Promise<HeldOperation> {
  const { sidecars, ...operation } = await played(windlass);
  const letGo = await holdWrites(windlass, {
    ...{ by: 'watcher', resource: kubeResource.pods, operation: 'UPDATE' },
    which: [
      `object.metadata.namespace == "${sidecars.namespace}"`,
      `object.spec.containers.exists(one, one.name == "${container}" && one.image == "${held}")`,
    ].join(' && '),
  });
  await sidecars.patch(withImage(image));
  return { ...operation, letGo };
}

async function holdingKubelet(windlass: Windlass, starts: HotSidecars['starts']): Promise<HeldOperation> {
  const { sidecars, ...operation } = await played(windlass);
  sidecars.starts = starts;
  await sidecars.patch(withImage(image));
  await waitFor('the first write', () => operation.done().length > 0);
  return {
    ...operation,
    letGo: () => {
      sidecars.starts = () => true;
    },
  };
}

/** A pod with an old image, a kubelet that works all the time, and a record of all changes of the pod. */
async function played(windlass: Windlass) {
  const sidecars = await HotSidecars.create(windlass);
  const written: string[] = [];
  let last = await sidecars.pod();
  const watch = await watchFleet(windlass.cluster.kube, sidecars.namespace, (pod) => {
    written.push(...changesOf(last, pod));
    last = pod;
  });
  let isOver = false;
  const kubelet = (async () => {
    while (!isOver) {
      await sidecars.kubelet().catch(() => undefined); // the next turn sees what this one has missed
      await delay(50);
    }
  })();
  running.add(async () => {
    isOver = true;
    watch.stop();
    await kubelet;
    await sidecars.delete();
  });

  return {
    sidecars,
    workflowId: swapSidecarId(sidecars.podRef),
    over: async () =>
      void (await waitFor('the pod to be settled', (see) => written.length > 1 && isSettled(see(last)))),
    end: async () => {
      const { metadata, spec } = await sidecars.pod();
      const images = spec.containers.flatMap(({ name, image: is }) => (pair.includes(name) ? [`${name} ${is}`] : []));
      return [...images, metadata.annotations?.[hotMark.working]].join(', ');
    },
    done: () => written,
  };
}

/** What was written of a pod: images and marks in one write, or what is wrong with it. */
function changesOf(before: Pod, after: Pod): readonly string[] {
  const images = pair.filter((name) => imageIn(before, name) !== imageIn(after, name));
  const isMarked = marksOf(before) !== marksOf(after);
  const text = images.map((name) => `${name} ${imageIn(after, name)}`).join(' and ');
  return [
    ...(images.length > 0 ? [isMarked ? text : `${text} without marks`] : []),
    ...(images.length === 0 && isMarked ? ['marks without an image'] : []),
    ...(pair.every((name) => imageIn(after, name) === empty) ? ['both are empty'] : []),
    ...(pair.some((name) => isServing(after, name)) ? [] : ['none serves']),
  ];
}

const imageIn = ({ spec }: Pod, container: string) => spec.containers.find(({ name }) => name === container)?.image;

const marksOf = ({ metadata }: Pod) =>
  JSON.stringify(
    Object.entries(metadata.annotations ?? {})
      .filter(([key]) => [hotMark.working, hotMark.version, hotMark.otherVersion].some((mark) => key.startsWith(mark)))
      .toSorted(([one], [other]) => one.localeCompare(other)),
  );

const stateIn = ({ status }: Pod, container: string) =>
  status?.containerStatuses?.find(({ name }) => name === container);

/** It runs a real image, and is to go on with it or has not been replaced yet. */
function isServing(pod: Pod, container: string): boolean {
  const state = stateIn(pod, container);
  return state?.ready === true && state.image !== empty;
}

/** One container is empty, and the kubelet runs what is written. */
function isSettled(pod: Pod): boolean {
  const isOneEmpty = pair.filter((name) => imageIn(pod, name) === empty).length === 1;
  return isOneEmpty && pair.every((name) => stateIn(pod, name)?.image === imageIn(pod, name));
}
