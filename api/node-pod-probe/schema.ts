import { Type } from 'typebox';
import { probeSchema } from '../core/probe-schema.ts';
import { group } from '../core/well-known.ts';
import type { KindDefinition } from '../schema/kind.ts';
import { time } from '../schema/shared.ts';

// The schema of v1alpha1, the only version. Only Windlass writes these objects.

const containerProbe = Type.Object({
  name: Type.String({ description: '`<marker>#<probe>`' }),
  containerName: Type.String(),
  probe: probeSchema,
});

const podOfNode = {
  name: Type.String(),
  namespace: Type.String(),
  uid: Type.String({ description: 'A pod of the same name with another UID is not probed.' }),
};

const podProbe = Type.Object({
  ...podOfNode,
  IP: Type.Optional(Type.String({ description: 'The target of `httpGet` and `tcpSocket` probes.' })),
  probes: Type.Optional(
    Type.Array(containerProbe, {
      'x-kubernetes-list-type': 'atomic',
      description: 'The probes of all PodProbeMarkers that select the pod. Named ports are resolved.',
    }),
  ),
});

/** The work list of the daemon of one node. */
export const specSchema = Type.Object(
  {
    podProbes: Type.Optional(
      Type.Array(podProbe, {
        'x-kubernetes-list-type': 'atomic',
        description: 'The pods of the node that are probed.',
      }),
    ),
  },
  { description: 'The probes of the daemon on the node. Written by the watcher.' },
);

const probeState = Type.Object({
  name: Type.String({ description: '`<marker>#<probe>`' }),
  state: Type.String({ description: '`Succeeded`, `Failed`, or `Unknown` until the container instance has a result.' }),
  lastProbeTime: Type.Optional(time({ description: 'When the result was last reported.' })),
  lastTransitionTime: Type.Optional(time({ description: 'When the state last changed.' })),
  message: Type.Optional(Type.String({ description: 'The output of the probe, at most 1024 bytes.' })),
  containerID: Type.Optional(
    Type.String({
      description:
        'The container instance that the state belongs to, without `<runtime>://`. It keeps the state valid after a restart of the daemon.',
    }),
  ),
  handlerHash: Type.Optional(
    Type.String({ description: 'The hash of the probe handler. The state is valid only for this handler.' }),
  ),
});

const podProbeStatus = Type.Object({
  ...podOfNode,
  probeStates: Type.Optional(Type.Array(probeState, { 'x-kubernetes-list-type': 'atomic' })),
});

/** The daemon's results. */
export const statusSchema = Type.Object(
  {
    podProbeStatuses: Type.Optional(
      Type.Array(podProbeStatus, { 'x-kubernetes-list-type': 'atomic', description: 'The results by pod and probe.' }),
    ),
  },
  { description: 'The results of the probes. Written by the daemon on the node only.' },
);

/** The kind: names, version, no columns. */
export const nodePodProbeKind: KindDefinition = {
  group: group.apps,
  kind: 'NodePodProbe',
  plural: 'nodepodprobes',
  shortNames: [],
  scope: 'Cluster',
  description: 'The probes of the daemon on one node, and their results. Its name is the name of the node.',
  columns: [],
  versions: [{ name: 'v1alpha1', storage: true, spec: specSchema, status: statusSchema }],
};
