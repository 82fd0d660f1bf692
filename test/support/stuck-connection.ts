// Why a connection to a Service is not established: what the kernel and kube-proxy know about it meanwhile.

import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';

/** A connection to a Service, from a node. */
export interface ServiceConnection {
  readonly kube: KubeClient;
  readonly namespace: string;
  readonly node: string;
  readonly clusterIP: string;
  /** The local port. */
  readonly port: number;
  /** Runs a shell script in the network of a node, and returns its output. */
  readonly inNode: (node: string, script: string) => Promise<string>;
}

const endpointSlices: Resource = {
  group: 'discovery.k8s.io',
  version: 'v1',
  plural: 'endpointslices',
  kind: 'EndpointSlice',
  namespaced: true,
};

/**
 * The entries of the connection table on both sides, the rules of the Service, the sockets of the pod that the connection
 * was sent to, the kernel's counters of what it has dropped, and what the cluster says of endpoints and pods at the time.
 */
export async function describeStuckConnection(connection: ServiceConnection): Promise<string> {
  const { kube, namespace, node, clusterIP, port, inNode } = connection;
  const [entry, slices, { items: pods }] = await Promise.all([
    inNode(
      node,
      `grep -E '(dst=${clusterIP} sport=${port} | dst=${clusterIP} .*dport=${port} )' /proc/net/nf_conntrack`,
    ),
    kube.list<KubeObject & Endpoints>(endpointSlices, { namespace }),
    kube.list<Pod>(kubeResource.pods, { namespace }),
  ]);
  const translated = /dport=\d+ (?:\[UNREPLIED\] )?src=(\S+) dst=\S+ sport=\d+ dport=(\d+)/.exec(entry);
  const [, podIP = '', podSees = ''] = translated ?? [];
  const pod = pods.find(({ status }) => status?.podIP === podIP);
  const facts = [
    ['entry in the connection table', entry || 'none'],
    ['counters of the connection table (hexadecimal)', await inNode(node, 'cat /proc/net/stat/nf_conntrack')],
    ['rules of the Service', await inNode(node, `iptables-save -t nat | grep -e ${clusterIP} -e ':KUBE-SVC'`)],
    ['sent to', pod ? `${pod.metadata.name} ${podIP} on ${pod.spec.nodeName}` : `${podIP || 'nobody'}: no pod`],
    ['endpoints', slices.items.flatMap(({ endpoints = [] }) => endpoints.map(endpointLine)).join('\n')],
    ['conditions', pods.map(conditionsLine).join('\n')],
  ];
  if (pod?.spec.nodeName !== undefined)
    facts.push(['in the pod', await inNode(pod.spec.nodeName, socketsOf(podIP, podSees))]);
  return facts.map(([what, text]) => `--- ${what}\n${text?.trim()}`).join('\n');
}

interface Endpoints {
  readonly endpoints?: readonly {
    readonly addresses: readonly string[];
    readonly conditions?: object;
    readonly targetRef?: { readonly name?: string };
  }[];
}

function endpointLine({ addresses, conditions, targetRef }: NonNullable<Endpoints['endpoints']>[number]): string {
  return `${targetRef?.name} ${addresses.join(',')} ${JSON.stringify(conditions)}`;
}

function conditionsLine({ metadata, status }: Pod): string {
  const conditions = status?.conditions?.map(({ type, status: is }) => `${type}=${is}`) ?? [];
  return `${metadata.name} ${status?.podIP} ${conditions.join(' ')}`;
}

/** A process of the pod is found by its IP address. `0A` is a listening socket, with its queues. */
function socketsOf(podIP: string, port: string): string {
  const hex = Number(port).toString(16).toUpperCase().padStart(4, '0');
  return `for process in /proc/[0-9]*; do
    if grep -qs ' ${podIP}$' $process/net/fib_trie && grep -qs ' 0A ' $process/net/tcp; then
      echo "sockets that listen, or know port ${port} (${hex}):"
      grep -E ' 0A |:${hex} ' $process/net/tcp $process/net/tcp6
      echo "how many in each state:"
      awk 'NR > 1 { count[$4]++ } END { for (state in count) print state, count[state] }' $process/net/tcp
      cat $process/net/netstat | grep ^TcpExt
      break
    fi
  done`;
}
