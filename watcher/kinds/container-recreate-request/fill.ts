import { fillRecreateSpec, virtualLabel } from '../../../api/container-recreate-request/admit.ts';
import { type ContainerRecreateRequest, crr, isFilled } from '../../../api/container-recreate-request/types.ts';
import { describeErrors } from '../../../api/core/field-error.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { crrLabel, kubeResource } from '../../../api/core/well-known.ts';
import { unlessGone, unlessMovedOn } from '../../../kube/moved-on.ts';
import type { RequestQueue } from '../../../plan/recreate/request-queue.ts';
import { wantOperation } from './operation.ts';
import { nameOf } from './request.ts';
import type { RequestPassDependencies } from './request-pass-dependencies.ts';
import { writeEnd } from './status.ts';

/**
 * Writes into requests what admission has left out because it does not authenticate its clients (CRR-5 to CRR-8),
 * before anything is started for them: the containers as they are now, so that a container that is replaced later
 * counts as restarted. A request with containers that cannot be restarted fails. The webhook accepts this write only
 * from Windlass, and only once.
 */
export async function fill(
  { first, behind }: RequestQueue,
  podUid: string,
  world: RequestPassDependencies,
): Promise<void> {
  const unfilled = [...(first ? [first] : []), ...behind].filter((request) => !isFilled(request));
  const [next] = unfilled;
  if (next === undefined) return;
  const ref = { namespace: next.metadata.namespace ?? '', name: next.spec.podName };
  const pod = await unlessGone(world.kube.get<Pod>(kubeResource.pods, ref));
  const isGone = pod === undefined || pod.metadata.uid !== podUid || pod.metadata.deletionTimestamp !== undefined;
  // the operation reports that, and needs nothing else for it
  if (isGone) return next === first ? wantOperation(next, podUid, world) : undefined;
  for (const request of unfilled) await fillOne(request, pod, world);
}

async function fillOne(request: ContainerRecreateRequest, pod: Pod, world: RequestPassDependencies): Promise<void> {
  const { uid, resourceVersion, labels = {} } = request.metadata;
  const filled = fillRecreateSpec(request.spec, pod, request.metadata.creationTimestamp);
  if (filled.kind === 'refused') {
    const problems = describeErrors(filled.errors).slice(0, longestProblems);
    await writeEnd(request, world, { reason: 'InvalidRequest', message: problems, text: problems });
    return;
  }
  const node = world.nodes.byName('', labels[crrLabel.nodeName] ?? '');
  const changes = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
    { op: 'add', path: '/metadata/labels', value: { ...labels, ...virtualLabel(node) } },
    { op: 'add', path: '/spec', value: filled.spec },
  ];
  await unlessMovedOn(world.kube.patch(crr, nameOf(request), 'json', changes));
}

/** A longer status is of no use to readers. */
const longestProblems = 8_000;
