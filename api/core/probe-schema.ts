import { Type } from 'typebox';
import { int32, int64, intOrString, maxInt32 } from '../schema/shared.ts';

// A probe as containers of Kubernetes have it. The two kinds that carry one have other defaults: nothing fills them in,
// and who probes takes 1 wherever a number is 0 or absent.

function seconds(description: string) {
  return Type.Optional(int32({ minimum: 0, maximum: maxInt32, description }));
}

const exec = Type.Object(
  { command: Type.Optional(Type.Array(Type.String(), { 'x-kubernetes-list-type': 'atomic' })) },
  { description: 'A command in the container, without a shell. Exit code 0 is a success.' },
);

const header = Type.Object({ name: Type.String(), value: Type.String() });

const httpGet = Type.Object(
  {
    path: Type.Optional(Type.String({ description: 'Required. With its query, if there is one.' })),
    port: intOrString({ description: 'A number, or the name of a port of the container.' }),
    host: Type.Optional(Type.String({ description: 'Refused: it is always the pod that is asked.' })),
    scheme: Type.Optional(Type.String({ description: 'Required: `HTTP` or `HTTPS`. Certificates are not checked.' })),
    httpHeaders: Type.Optional(Type.Array(header, { 'x-kubernetes-list-type': 'atomic' })),
  },
  { description: 'A GET to the IP of the pod. 200 to 399 is a success.' },
);

const tcpSocket = Type.Object(
  {
    port: intOrString({ description: 'A number, or the name of a port of the container.' }),
    host: Type.Optional(Type.String({ description: 'Refused: it is always the pod that is asked.' })),
  },
  { description: 'A connection to the IP of the pod.' },
);

const grpc = Type.Object(
  { port: int32(), service: Type.Optional(Type.String()) },
  { description: 'Not carried out, and no handler by itself.' },
);

/** How a container is probed: exactly one of `exec`, `httpGet` and `tcpSocket`, and how often. */
export const probeSchema = Type.Object(
  {
    exec: Type.Optional(exec),
    httpGet: Type.Optional(httpGet),
    tcpSocket: Type.Optional(tcpSocket),
    grpc: Type.Optional(grpc),
    initialDelaySeconds: seconds('Counted from the start of the container. 0 or absent: 1.'),
    timeoutSeconds: seconds('How long one probe may take. 0 or absent: 1.'),
    periodSeconds: seconds('How often. 0 or absent: 1, where probes of Kubernetes have 10.'),
    successThreshold: seconds('So many successes in a row make `Succeeded`. 0 or absent: 1.'),
    failureThreshold: seconds(
      'So many failures in a row make `Failed`. 0 or absent: 1, where probes of Kubernetes have 3.',
    ),
    terminationGracePeriodSeconds: Type.Optional(int64({ description: 'Without effect: these probes end nothing.' })),
  },
  { description: 'Exactly one of `exec`, `httpGet` and `tcpSocket`, and how often.' },
);
