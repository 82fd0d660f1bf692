// What people can do, on purpose or by mistake, to the operations and objects of pods with requests.
import { crr } from '../../api/container-recreate-request/types.ts';
import type { Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { isGone } from '../../kube/failures.ts';
import { act, type Fault } from './faults.ts';
import type { RecreateRequests } from './subjects/recreate-requests.ts';
import type { RecreatedPod } from './subjects/recreated-pod.ts';
import type { Treatment } from './treatments.ts';
import type { World } from './world.ts';

/** Something that is done to one pod, its requests or its operation; answers whether there was something to do it to. */
export interface Act {
  readonly name: string;
  readonly to: (world: World, pod: RecreatedPod) => Promise<boolean>;
  /** What the person does when the fault is over. Absent: nothing. */
  readonly afterwards?: (world: World, pod: RecreatedPod) => Promise<unknown>;
}

/** A treatment of the operation of the pod. */
export function ofOperation({ name, to, afterwards }: Treatment): Act {
  return {
    name,
    to: (world, pod) => to(world, pod.operation),
    ...(afterwards && { afterwards: (world, pod) => afterwards(world, pod.operation) }),
  };
}

/** `kubectl delete` of the requests. */
export const deletingRequests: Act = {
  name: 'requests deleted',
  async to({ kube }, pod) {
    // the last one first: otherwise it would begin in between
    for (const { name } of pod.plan.requests.toReversed()) await deleted(kube, crr, { ...namespaceOf(pod), name });
    pod.withdrawn();
    return true;
  },
};

/** `kubectl delete pod`. */
export const deletingPod: Act = {
  name: 'pods deleted',
  async to({ kube }, pod) {
    await deleted(kube, kubeResource.pods, { ...namespaceOf(pod), name: pod.plan.name });
    return true;
  },
};

/** Does it to each of these pods at once, when all requests are there whose turn has come. */
export function toEach(
  world: World,
  requests: RecreateRequests,
  { name, to, afterwards }: Act,
  pods: readonly RecreatedPod[] = requests.pods,
): Fault {
  const fault = act(name, async () => {
    await requests.created();
    const done = await Promise.all(pods.map((pod) => to(world, pod)));
    return done.filter(Boolean).length;
  });
  if (!afterwards) return fault;
  return { ...fault, heal: async () => void (await Promise.all(pods.map((pod) => afterwards(world, pod)))) };
}

/** `kubectl delete namespace`. */
export function namespaceDeleted(requests: RecreateRequests): Fault {
  let gone: Promise<void> = Promise.resolve();
  return {
    name: 'namespace deleted',
    async inject() {
      await requests.created();
      gone = requests.deleteNamespace();
    },
    heal: () => gone,
  };
}

function namespaceOf({ namespace }: RecreatedPod): { readonly namespace: string } {
  return { namespace };
}

async function deleted(
  kube: World['kube'],
  resource: Resource,
  ref: { readonly namespace: string; readonly name: string },
): Promise<void> {
  await kube.delete(resource, ref).catch((error: unknown) => {
    if (!isGone(error)) throw error;
  });
}
