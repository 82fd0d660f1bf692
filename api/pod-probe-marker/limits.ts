// How large a marker may be. OpenKruise has none of these limits: each is far above what a useful marker needs, and
// keeps one marker from filling the work list of a node or occupying its probe slots.
//
//   in admission      the limits of `limitProblems`; an update may keep what is above one already, or make it smaller
//   where it is used  `longestTimeoutSeconds` on the node, `mostProbesOfPod` and the room of the list for the list

import { isJsonObject, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { jsonBytes } from '../base/json-bytes.ts';
import type { FieldError } from '../core/field-error.ts';
import { type Measure, mostAnnotationBytes, overLimit } from '../core/limits.ts';
import { longestTimeoutSeconds } from '../core/probe.ts';

/** Probes of one marker. */
export const mostProbesOfMarker = 32;

/** Probes of one pod, of all its markers together. */
export const mostProbesOfPod = 64;

/** Characters of the name of a probe, and of its container. */
export const longestProbeName = 253;

/** Bytes of JSON of one probe: its command, or its path and headers. */
export const mostProbeBytes = 32 * 1024;

/** Bytes of JSON of all probes of one marker. */
export const mostMarkerProbeBytes = 128 * 1024;

/** The limits that a marker exceeds. What `before` exceeds already is no problem as long as it does not grow. */
export function limitProblems(spec: JsonObject, before: JsonObject = {}): readonly FieldError[] {
  return overLimit(measuresOf(spec), measuresOf(before));
}

function measuresOf(spec: JsonObject): readonly Measure[] {
  const path = 'spec.probes';
  const probes = listOr(spec.probes).map(objectOr);
  const total = probes.reduce((sum, { probe }) => sum + bytesOf(probe), 0);
  return [
    {
      ...{ path, key: 'probes', value: probes.length, most: mostProbesOfMarker },
      rule: `must not have more than ${mostProbesOfMarker} probes`,
    },
    {
      ...{ path, key: 'bytes', value: total, most: mostMarkerProbeBytes },
      rule: `must not have more than ${mostMarkerProbeBytes / 1024} KiB of probes`,
    },
    ...probes.flatMap((probe, index) => probeMeasures(`${path}[${index}]`, probe)),
  ];
}

function probeMeasures(path: string, { name, containerName, probe, markerPolicy }: JsonObject): readonly Measure[] {
  const { timeoutSeconds } = objectOr(probe);
  const named = (field: string, value: unknown): Measure => ({
    path: `${path}.${field}`,
    key: `${String(name)} ${field}`,
    value: typeof value === 'string' ? value.length : 0,
    most: longestProbeName,
    rule: `must not be longer than ${longestProbeName} characters`,
  });
  return [
    named('name', name),
    named('containerName', containerName),
    {
      ...{ path: `${path}.probe`, key: `${String(name)} probe`, value: bytesOf(probe), most: mostProbeBytes },
      rule: `must not have more than ${mostProbeBytes / 1024} KiB`,
    },
    {
      ...{ path: `${path}.probe.timeoutSeconds`, key: `${String(name)} timeoutSeconds`, most: longestTimeoutSeconds },
      value: typeof timeoutSeconds === 'number' ? timeoutSeconds : 0,
      rule: `must not be more than ${longestTimeoutSeconds}`,
    },
    ...listOr(markerPolicy)
      .map(objectOr)
      .map(
        ({ state, annotations }, index): Measure => ({
          ...{
            path: `${path}.markerPolicy[${index}].annotations`,
            key: `${String(name)} ${String(state)} annotations`,
          },
          ...{ value: lengthOf(objectOr(annotations)), most: mostAnnotationBytes },
          rule: `must not be larger than ${mostAnnotationBytes / 1024} KiB`,
        }),
      ),
  ];
}

function lengthOf(annotations: JsonObject): number {
  return Object.entries(annotations).reduce((sum, [key, value]) => sum + key.length + String(value).length, 0);
}

function bytesOf(probe: unknown): number {
  return isJsonObject(probe) ? jsonBytes(probe) : 0;
}
