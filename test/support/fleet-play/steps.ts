/** What steps are about, and what pods are made of. */
import { isJsonObject, type JsonObject } from '../../../api/base/json.ts';
import type { Pod, PodCondition } from '../../../api/core/pod.ts';
import type { PodTemplate } from '../../../api/core/pod-template.ts';
import { type ControllerRevision, templateOf } from '../../../api/fleet/revision.ts';
import type { Intention } from '../../../plan/fleet/steps.ts';
import type { Workload } from '../../../plan/fleet/workload.ts';

/** The pod that a step writes or deletes in a way that may take it out of service. */
export function takenUid(step: Intention): string | undefined {
  switch (step.kind) {
    case 'updatePod':
    case 'recreatePod':
    case 'resizeClaim':
    case 'writePod':
      return step.pod.uid;
    default:
      return undefined;
  }
}

export function takenBy(step: Intention): string | undefined {
  switch (step.kind) {
    case 'recreatePod':
      return step.mark ? undefined : step.pod.name;
    case 'deletePod':
    case 'updatePod':
    case 'resizeClaim':
      return step.pod.name;
    case 'writePod':
      return step.why === 'prepareDelete' || step.why === 'prepareUpdate' ? step.pod.name : undefined;
    default:
      return undefined;
  }
}

export function describe(intention: Intention): string {
  switch (intention.kind) {
    case 'createPod':
      return `create ${intention.name}`;
    case 'deletePod':
    case 'updatePod':
    case 'recreatePod':
      return `${intention.kind} ${intention.pod.name}`;
    case 'writePod':
      return `${intention.why} ${intention.pod.name}`;
    case 'writeClaim':
    case 'deleteClaim':
      return `${intention.kind} ${intention.claim.name}`;
    case 'createClaim':
      return `${intention.kind} ${intention.name}`;
    default:
      return intention.kind;
  }
}

export function condition(pod: Pod, wanted: string): PodCondition | undefined {
  return pod.status?.conditions?.find(({ type }) => type === wanted);
}

export function isPaused({ status }: Workload): boolean {
  return status?.rollOut?.paused !== undefined;
}

export function isReady(pod: Pod): boolean {
  return condition(pod, 'Ready')?.status === 'True';
}

export function imageOfRevision(revision: ControllerRevision): string {
  return imageOf({ spec: templateOf(revision)?.spec } as PodTemplate);
}

export function withoutImage(revision: ControllerRevision): string {
  return JSON.stringify(templateOf(revision)?.spec ?? {}).replaceAll(imageOfRevision(revision), '');
}

export function imageOf(of: Pod | PodTemplate): string {
  const { spec } = of;
  const containers = isJsonObject(spec) ? (spec.containers as readonly { readonly image?: string }[]) : [];
  return containers[0]?.image ?? '';
}

export function conditionsPatch(
  ...conditions: readonly { readonly type: string; readonly status: string; readonly at: string }[]
): JsonObject {
  return {
    status: { conditions: conditions.map(({ type, status, at }) => ({ type, status, lastTransitionTime: at })) },
  };
}
