/**
 * The batch of a roll-out: pods by name and UID, and how each of them is updated. It stands in the history of the roll-out,
 * as what was chosen and as what may be disrupted, so it is kept small: what is the same for all its pods is said once.
 */
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { answerBytes, mostInAnswer, mostInBatch } from '../permits/in-flight.ts';
import { fitting, listed, shortened, summaryBytes } from '../text-size.ts';

/** How a pod gets its revision. */
export type UpdateKind = 'inPlace' | 'recreate';

/** Which containers change, one group after the other by launch priority. */
export type ContainerOrder = readonly (readonly string[])[];

export interface BatchPod {
  /** Absent: that of the batch. */
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
  /** Absent: that of the batch. */
  readonly how?: UpdateKind;
  /** Of an update in place. Absent: that of the batch. */
  readonly containers?: ContainerOrder;
}

/** Pods that may be disrupted together for one revision. */
export interface PodBatch {
  readonly revision: string;
  readonly namespace: string;
  readonly how: UpdateKind;
  /** Absent: pods are not updated in place, or each says for itself. */
  readonly containers?: ContainerOrder;
  readonly pods: readonly BatchPod[];
}

/** A pod of a batch with everything said. */
export interface ChosenPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly how: UpdateKind;
  readonly containers?: ContainerOrder;
}

/** The most bytes of a batch as JSON, so that a batch and its verdict take 8 KB each at most. */
export const batchBytes = 7 * 1024;

/** The batch of these pods, as many of the first as it can hold. */
export function batchOf(revision: string, chosen: readonly [ChosenPod, ...ChosenPod[]]): PodBatch {
  const [first] = chosen;
  const containers = chosen.find(({ how }) => how === 'inPlace')?.containers;
  const common = { revision, namespace: first.namespace, how: first.how, ...(containers && { containers }) };
  const pods = chosen.slice(0, mostInBatch).map((pod): BatchPod => {
    const differs = pod.how === 'inPlace' && JSON.stringify(pod.containers) !== JSON.stringify(containers);
    return {
      ...(pod.namespace !== common.namespace && { namespace: pod.namespace }),
      name: pod.name,
      uid: pod.uid,
      ...(pod.how !== common.how && { how: pod.how }),
      ...(differs && { containers: pod.containers }),
    };
  });
  const fit = fitting(pods, batchBytes - jsonBytes({ ...common, pods: [] }));
  return { ...common, pods: fit.length > 0 ? fit : pods.slice(0, 1) };
}

/** Pods that may go, in batches: as many of the first as an answer can hold. */
export function batchesOf(revision: string, chosen: readonly ChosenPod[]): readonly PodBatch[] {
  const batches: PodBatch[] = [];
  let [first, ...others] = chosen.slice(0, mostInAnswer);
  while (first) {
    const batch = batchOf(revision, [first, ...others]);
    batches.push(batch);
    [first, ...others] = others.slice(batch.pods.length - 1);
  }
  const fit = fitting(batches, answerBytes);
  return fit.length > 0 ? fit : batches.slice(0, 1);
}

/** Every pod of the batch with everything that the batch says of it. */
export function podsOf({ namespace, how, containers, pods }: PodBatch): readonly ChosenPod[] {
  return pods.map((pod) => {
    const own = pod.how ?? how;
    const order = own === 'inPlace' ? (pod.containers ?? containers) : undefined;
    return {
      namespace: pod.namespace ?? namespace,
      name: pod.name,
      uid: pod.uid,
      how: own,
      ...(order && { containers: order }),
    };
  });
}

/** What happens to the pods of the batch, for people: `update shop-a, shop-b and 2 more in place`. */
export function batchText(batch: PodBatch): string {
  const pods = podsOf(batch);
  const named = (how: UpdateKind) =>
    pods.filter((pod) => pod.how === how).map((pod) => (pod.namespace === batch.namespace ? pod.name : nameOf(pod)));
  const inPlace = named('inPlace');
  const recreated = named('recreate');
  const share = inPlace.length > 0 && recreated.length > 0 ? summaryBytes / 2 : summaryBytes;
  const parts = [
    ...(inPlace.length > 0 ? [`update ${listed(inPlace, share - 25)} in place`] : []),
    ...(recreated.length > 0 ? [`recreate ${listed(recreated, share - 25)}`] : []),
  ];
  return shortened(parts.join(', '), summaryBytes);
}

function nameOf({ namespace, name }: Pick<ChosenPod, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}

/** What has become of one pod of a batch. */
export interface PodOutcome {
  /** `web-3`, or with its namespace where it is not that of the object. */
  readonly pod: string;
  readonly how: UpdateKind;
  /** When its update began, RFC 3339 in UTC. Absent: it did not begin, or the watcher that began it has been replaced. */
  readonly at?: string;
  /** From then until it was available. */
  readonly ms?: number;
  /** Why it was not updated. Absent: it was. */
  readonly why?: string;
}

/** What has become of a batch. */
export interface BatchOutcome {
  readonly summary: string;
  readonly pods: readonly PodOutcome[];
}
