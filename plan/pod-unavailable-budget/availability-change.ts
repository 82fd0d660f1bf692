// Whether an update of a pod may make it unavailable, and how (PUB-31, PUB-34).
//
//   metadata only                        no, unless a label says that it is unavailable
//   cpu and memory without a restart     RESIZE
//   anything else of the spec            UPDATE

import { type Json, type JsonObject, listOr, objectOr, sameJson } from '../../api/base/json.ts';
import { depthOf } from '../../api/core/limits.ts';
import { isMirrorPod, type Pod } from '../../api/core/pod.ts';
import { deepestTemplate } from '../../api/fleet/workload-limits.ts';
import { qosClass } from '../fleet/in-place/decide.ts';
import { isMarkedUnavailable } from './readiness.ts';

/** What the update is to a budget; undefined: the pod stays available. */
export function availabilityChange(before: Pod, after: Pod): 'UPDATE' | 'RESIZE' | undefined {
  if (!isMarkedUnavailable(before) && isMarkedUnavailable(after)) return 'UPDATE';
  const [from, to] = [objectOr(before.spec), objectOr(after.spec)];
  // No pod is as deep, and comparing deeper values could overflow the stack.
  if (depthOf(from) > deepestTemplate || depthOf(to) > deepestTemplate) return 'UPDATE';
  if (sameJson(from, to)) return undefined;
  const isResize =
    !isMirrorPod(before) && isResizeOnly(from, to) && qosClass({ spec: from }) === qosClass({ spec: to });
  return isResize ? 'RESIZE' : 'UPDATE';
}

function isResizeOnly(from: JsonObject, to: JsonObject): boolean {
  const { containers: before, ...others } = from;
  const { containers: after, ...othersAfter } = to;
  const containers = listOr(after);
  return (
    sameJson(others, othersAfter) &&
    listOr(before).length === containers.length &&
    listOr(before).every((container, index) => isResized(container, containers[index]))
  );
}

/** Whether nothing but amounts differs, each of which the container gets without a restart. */
function isResized(before: Json, after: Json | undefined): boolean {
  const { resources: from, ...others } = objectOr(before);
  const { resources: to, ...othersAfter } = objectOr(after);
  if (!sameJson(others, othersAfter)) return false;
  const { limits, requests, ...rest } = objectOr(from);
  const { limits: newLimits, requests: newRequests, ...newRest } = objectOr(to);
  const changed = [...changedKeys(limits, newLimits), ...changedKeys(requests, newRequests)];
  const restarting = new Set(
    listOr(others.resizePolicy)
      .map(objectOr)
      .flatMap(({ resourceName, restartPolicy }) => (restartPolicy === 'RestartContainer' ? [resourceName] : [])),
  );
  return sameJson(rest, newRest) && changed.every((key) => resizable.includes(key) && !restarting.has(key));
}

const resizable: readonly string[] = ['cpu', 'memory'];

function changedKeys(before: Json | undefined, after: Json | undefined): readonly string[] {
  const [from, to] = [objectOr(before), objectOr(after)];
  return [...Object.keys(from), ...Object.keys(to)].filter((key) => !sameJson(from[key], to[key]));
}
