import { Type } from 'typebox';
import { probeSchema } from '../core/probe-schema.ts';
import { group } from '../core/well-known.ts';
import type { KindDefinition } from '../schema/kind.ts';
import { int64, labelSelector, waitingFor } from '../schema/shared.ts';

// The schema of v1alpha1, the only version. Values are limited only where admission has always rejected others, since
// stored markers must stay valid; the rest is in `validatePodProbeMarker`.

const marks = (what: string) =>
  Type.Optional(
    Type.Record(Type.String(), Type.String(), { description: `${what} that are set on the pod in this state.` }),
  );

const markerPolicy = Type.Object({
  state: Type.Union([Type.Literal('Succeeded'), Type.Literal('Failed')], {
    description: 'The result that this policy applies to. Unique in the list.',
  }),
  labels: marks('Labels'),
  annotations: marks('Annotations'),
});

const probe = Type.Object({
  name: Type.String({ minLength: 1, description: 'Unique in the PodProbeMarker. Must not contain `#`.' }),
  containerName: Type.String({
    minLength: 1,
    description: 'The container that is probed. A pod without a container of this name has no result.',
  }),
  probe: probeSchema,
  podConditionType: Type.Optional(
    Type.String({
      description:
        'The pod condition that shows the result: `True` when the probe has succeeded, otherwise `False`. Unique in the ' +
        'PodProbeMarker. Absent or empty: no condition is written.',
    }),
  ),
  markerPolicy: Type.Optional(
    Type.Array(markerPolicy, {
      'x-kubernetes-list-type': 'atomic',
      description:
        'Labels and annotations that are set on the pod. When the result changes, those of the other state are removed.',
    }),
  ),
});

/** The desired state: what is probed, and what follows from the results. */
export const specSchema = Type.Object(
  {
    selector: labelSelector({
      description: 'Selects the pods of the namespace that are probed. Must not be empty, and is immutable.',
    }),
    probes: Type.Array(probe, { minItems: 1, 'x-kubernetes-list-type': 'atomic' }),
  },
  { description: 'The probes, and how their results are shown.' },
);

/** The observed state: how many nodes have the marker. */
export const statusSchema = Type.Object(
  {
    observedGeneration: Type.Optional(
      int64({ description: 'The generation that was written for the nodes of all matched pods.' }),
    ),
    matchedPods: Type.Optional(
      int64({ description: 'The number of selected pods that are active, initialized and on an existing node.' }),
    ),
    waitingFor: Type.Optional(waitingFor()),
  },
  { description: 'The progress of the distribution to the nodes. The results are in the pods.' },
);

/** The kind: names, version, no columns. */
export const podProbeMarkerKind: KindDefinition = {
  group: group.apps,
  kind: 'PodProbeMarker',
  plural: 'podprobemarkers',
  shortNames: [],
  scope: 'Namespaced',
  description:
    'Probes containers of the selected pods and shows the results as conditions, labels and annotations of the pods.',
  columns: [],
  versions: [{ name: 'v1alpha1', storage: true, spec: specSchema, status: statusSchema }],
};
