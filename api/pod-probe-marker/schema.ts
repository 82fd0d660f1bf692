import { Type } from 'typebox';
import { probeSchema } from '../core/probe-schema.ts';
import { group } from '../core/well-known.ts';
import type { KindDefinition } from '../schema/kind.ts';
import { int64, labelSelector, waitingFor } from '../schema/shared.ts';

// The schema of v1alpha1, the only version there is. Values are limited only where admission has always refused the rest,
// since markers that are there already have to go on being valid; the rest is in `validatePodProbeMarker`.

const marks = (what: string) =>
  Type.Optional(Type.Record(Type.String(), Type.String(), { description: `${what} that the pod gets in this state.` }));

const markerPolicy = Type.Object({
  state: Type.Union([Type.Literal('Succeeded'), Type.Literal('Failed')], {
    description: 'The result that this is for. Each at most once.',
  }),
  labels: marks('Labels'),
  annotations: marks('Annotations'),
});

const probe = Type.Object({
  name: Type.String({ minLength: 1, description: 'Unique in the marker, without `#`.' }),
  containerName: Type.String({
    minLength: 1,
    description: 'The container that is probed. A pod without one of this name has no result.',
  }),
  probe: probeSchema,
  podConditionType: Type.Optional(
    Type.String({
      description:
        'The pod condition that shows the result: True when the probe has succeeded, else False. Unique in the marker. ' +
        'Absent or empty: none is written.',
    }),
  ),
  markerPolicy: Type.Optional(
    Type.Array(markerPolicy, {
      'x-kubernetes-list-type': 'atomic',
      description: 'What the pod is marked with. When the result changes, the marks of the other state go.',
    }),
  ),
});

/** What is probed, and what follows from it. */
export const specSchema = Type.Object(
  {
    selector: labelSelector({
      description: 'Which pods of the namespace are probed. Not empty, and it cannot be changed.',
    }),
    probes: Type.Array(probe, { minItems: 1, 'x-kubernetes-list-type': 'atomic' }),
  },
  { description: 'What is probed, and what follows from it.' },
);

/** How far the marker has been spread. */
export const statusSchema = Type.Object(
  {
    observedGeneration: Type.Optional(
      int64({ description: 'The generation that the nodes of all matched pods have been told of.' }),
    ),
    matchedPods: Type.Optional(
      int64({ description: 'How many pods are selected, active, initialized and on a node that is there.' }),
    ),
    waitingFor: Type.Optional(waitingFor()),
  },
  { description: 'How far the marker has been spread. Results are in the pods.' },
);

/** The whole kind: names, version, no columns. */
export const podProbeMarkerKind: KindDefinition = {
  group: group.apps,
  kind: 'PodProbeMarker',
  plural: 'podprobemarkers',
  shortNames: [],
  scope: 'Namespaced',
  description: 'Probes containers of the pods it selects, and shows the results as conditions, labels and annotations.',
  columns: [],
  versions: [{ name: 'v1alpha1', storage: true, spec: specSchema, status: statusSchema }],
};
