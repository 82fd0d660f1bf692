import { Type } from 'typebox';
import { probeSchema } from '../core/probe-schema.ts';
import { group } from '../core/well-known.ts';
import type { KindDefinition } from '../schema/kind.ts';
import { time } from '../schema/shared.ts';

// The schema of v1alpha1, the only version there is. Nobody but Windlass writes these objects.

const containerProbe = Type.Object({
  name: Type.String({ description: '`<marker>#<probe>`' }),
  containerName: Type.String(),
  probe: probeSchema,
});

const podOfNode = {
  name: Type.String(),
  namespace: Type.String(),
  uid: Type.String({ description: 'Another pod of the same name is not meant.' }),
};

const podProbe = Type.Object({
  ...podOfNode,
  IP: Type.Optional(Type.String({ description: 'What `httpGet` and `tcpSocket` are sent to.' })),
  probes: Type.Optional(
    Type.Array(containerProbe, {
      'x-kubernetes-list-type': 'atomic',
      description: 'The probes of all markers that select the pod. Ports are numbers here.',
    }),
  ),
});

/** The work list of the daemon of one node. */
export const specSchema = Type.Object(
  {
    podProbes: Type.Optional(
      Type.Array(podProbe, { 'x-kubernetes-list-type': 'atomic', description: 'The pods of the node to be probed.' }),
    ),
  },
  { description: 'What the daemon of the node probes. The watcher keeps it true.' },
);

const probeState = Type.Object({
  name: Type.String({ description: '`<marker>#<probe>`' }),
  state: Type.String({ description: '`Succeeded`, `Failed`, or `Unknown` until an instance has a result.' }),
  lastProbeTime: Type.Optional(time({ description: 'When the result was last told.' })),
  lastTransitionTime: Type.Optional(time({ description: 'When the state last changed.' })),
  message: Type.Optional(Type.String({ description: 'What the probe said, at most 1024 bytes.' })),
  containerID: Type.Optional(
    Type.String({
      description:
        'The instance of the container that the state is about, without `<runtime>://`. So it outlives the daemon.',
    }),
  ),
  handlerHash: Type.Optional(
    Type.String({ description: 'What was asked of it: a state is only worth something for the same question.' }),
  ),
});

const podProbeStatus = Type.Object({
  ...podOfNode,
  probeStates: Type.Optional(Type.Array(probeState, { 'x-kubernetes-list-type': 'atomic' })),
});

/** What the daemon has found out. */
export const statusSchema = Type.Object(
  {
    podProbeStatuses: Type.Optional(
      Type.Array(podProbeStatus, { 'x-kubernetes-list-type': 'atomic', description: 'The results, by pod and probe.' }),
    ),
  },
  { description: 'What the daemon of the node has found out. Nobody else writes it.' },
);

/** The whole kind: names, version, no columns. */
export const nodePodProbeKind: KindDefinition = {
  group: group.apps,
  kind: 'NodePodProbe',
  plural: 'nodepodprobes',
  shortNames: [],
  scope: 'Cluster',
  description: 'What the daemon of a node probes, and what it finds out. One for each node, of the same name.',
  columns: [],
  versions: [{ name: 'v1alpha1', storage: true, spec: specSchema, status: statusSchema }],
};
