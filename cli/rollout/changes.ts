// `kubectl kruise rollout pause`, `resume` and `restart`: the smallest patch of the one field.
import { isJsonList, isJsonObject, type Json, objectOr } from '../../api/base/json.ts';
import { CommandFailed } from '../failure.ts';
import type { RolledOut } from './kind.ts';
import { quotedName, specField, type Target } from './objects.ts';

/** KK-11: a merge patch of the pause field. */
export function pausePatch(target: Target, object: RolledOut, paused: boolean): object {
  const path = target.kind.pausedIn;
  const isPaused = specField(object, [...path, 'paused']) === true;
  if (isPaused === paused) {
    throw new CommandFailed(`${quotedName(target)} is ${paused ? 'already paused' : 'not paused'}`);
  }
  return { spec: path.reduceRight<object>((inner, key) => ({ [key]: inner }), { paused }) };
}

/** The environment variable that a restart sets in every container of the template (KK-13). */
const restartedAt = 'RESTARTED_AT';

/** KK-13: a JSON patch that gives every container of the template another environment, on the object as it was read. */
export function restartPatch(target: Target, object: RolledOut, nowMs: number): readonly object[] {
  if (target.kind.workload === undefined) throw new CommandFailed('restarting is not supported');
  const containers = objectOr(specField(object, ['template', 'spec']) as Json | undefined).containers;
  const value = { name: restartedAt, value: localTime(nowMs) };
  const changes = (isJsonList(containers) ? containers : []).map((container, index) => {
    const { env } = objectOr(container);
    const path = `/spec/template/spec/containers/${index}/env`;
    if (!isJsonList(env)) return { op: 'add', path, value: [value] };
    const place = env.findIndex((one) => isJsonObject(one) && one.name === restartedAt);
    return place < 0 ? { op: 'add', path: `${path}/-`, value } : { op: 'replace', path: `${path}/${place}`, value };
  });
  return [{ op: 'replace', path: '/metadata/resourceVersion', value: object.metadata.resourceVersion }, ...changes];
}

/** RFC 3339 with the offset of this machine's time zone, to the second. */
export function localTime(ms: number): string {
  const offset = -new Date(ms).getTimezoneOffset();
  const local = new Date(ms + offset * 60_000).toISOString().slice(0, 19);
  if (offset === 0) return `${local}Z`;
  const two = (value: number) => String(Math.floor(Math.abs(value))).padStart(2, '0');
  return `${local}${offset < 0 ? '-' : '+'}${two(offset / 60)}:${two(offset % 60)}`;
}
