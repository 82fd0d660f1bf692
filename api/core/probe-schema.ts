import { Type } from 'typebox';
import { int32, int64, intOrString, maxInt32 } from '../schema/shared.ts';

// A probe in the format of Kubernetes' container probes, with other defaults: admission sets none, and the daemon uses
// 1 for each number that is 0 or absent.

function seconds(description: string) {
  return Type.Optional(int32({ minimum: 0, maximum: maxInt32, description }));
}

const exec = Type.Object(
  { command: Type.Optional(Type.Array(Type.String(), { 'x-kubernetes-list-type': 'atomic' })) },
  { description: 'Runs a command in the container, without a shell. Exit code 0 is a success.' },
);

const header = Type.Object({ name: Type.String(), value: Type.String() });

const httpGet = Type.Object(
  {
    path: Type.Optional(Type.String({ description: 'Required. The path, with the query if there is one.' })),
    port: intOrString({ description: 'A number, or the name of a port of the container.' }),
    host: Type.Optional(Type.String({ description: 'Not allowed: the target is always the pod.' })),
    scheme: Type.Optional(Type.String({ description: 'Required: `HTTP` or `HTTPS`. Certificates are not verified.' })),
    httpHeaders: Type.Optional(Type.Array(header, { 'x-kubernetes-list-type': 'atomic' })),
  },
  { description: 'Sends a GET request to the IP of the pod. A status from 200 to 399 is a success.' },
);

const tcpSocket = Type.Object(
  {
    port: intOrString({ description: 'A number, or the name of a port of the container.' }),
    host: Type.Optional(Type.String({ description: 'Not allowed: the target is always the pod.' })),
  },
  { description: 'Opens a connection to the IP of the pod.' },
);

const grpc = Type.Object(
  { port: int32(), service: Type.Optional(Type.String()) },
  { description: 'Not supported. Does not count as a handler.' },
);

/** How a container is probed: exactly one of `exec`, `httpGet` and `tcpSocket`, and how often. */
export const probeSchema = Type.Object(
  {
    exec: Type.Optional(exec),
    httpGet: Type.Optional(httpGet),
    tcpSocket: Type.Optional(tcpSocket),
    grpc: Type.Optional(grpc),
    initialDelaySeconds: seconds('Delay after the start of the container. 0 or absent: 1.'),
    timeoutSeconds: seconds('How long one probe may take. 0 or absent: 1.'),
    periodSeconds: seconds('The period of the probe. 0 or absent: 1, unlike Kubernetes, whose default is 10.'),
    successThreshold: seconds('The number of consecutive successes that make the state `Succeeded`. 0 or absent: 1.'),
    failureThreshold: seconds(
      'The number of consecutive failures that make the state `Failed`. 0 or absent: 1, unlike Kubernetes, whose default is 3.',
    ),
    terminationGracePeriodSeconds: Type.Optional(
      int64({ description: 'No effect: these probes do not stop containers.' }),
    ),
  },
  { description: 'Exactly one of `exec`, `httpGet` and `tcpSocket`, and its timing.' },
);
