import { fairShares } from '../../api/base/fair-shares.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { ContainerProbeState, NodePodProbeStatus } from '../../api/node-pod-probe/types.ts';

/** The maximum size of all messages of a node: list and results are one object, whose size the API server limits. */
const messageRoom = 384 * 1024;

/**
 * The results with their messages shortened to fit: in namespaces that exceed their share, the longest messages are
 * cut.
 */
export function withinMessageRoom(status: NodePodProbeStatus, room: number = messageRoom): NodePodProbeStatus {
  const { podProbeStatuses = [] } = status;
  const entries = podProbeStatuses.flatMap(({ uid, namespace, probeStates = [] }) =>
    probeStates.map((state) => ({ key: `${uid} ${state.name}`, namespace, bytes: messageBytes(state) })),
  );
  if (entries.reduce((sum, { bytes }) => sum + bytes, 0) <= room) return status;

  const ofNamespaces = new Map<string, Map<string, number>>();
  for (const { key, namespace, bytes } of entries) {
    const messages = ofNamespaces.get(namespace) ?? new Map<string, number>();
    ofNamespaces.set(namespace, messages.set(key, bytes));
  }
  const wanted = [...ofNamespaces].map(([namespace, messages]) => [namespace, sum(messages.values())] as const);
  const shares = fairShares(new Map(wanted), room);
  const lengths = new Map(
    [...ofNamespaces].flatMap(([namespace, messages]) => [...fairShares(messages, shares.get(namespace) ?? 0)]),
  );
  return {
    podProbeStatuses: podProbeStatuses.map((pod) => ({
      ...pod,
      probeStates: (pod.probeStates ?? []).map((state) => cut(state, lengths.get(`${pod.uid} ${state.name}`) ?? 0)),
    })),
  };
}

function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const number of numbers) total += number;
  return total;
}

const quoteBytes = 2;

function messageBytes({ message = '' }: ContainerProbeState): number {
  return jsonBytes(message) - quoteBytes;
}

function cut(state: ContainerProbeState, bytes: number): ContainerProbeState {
  if (messageBytes(state) <= bytes) return state;
  let message = '';
  let left = bytes;
  for (const character of state.message ?? '') {
    left -= jsonBytes(character) - quoteBytes;
    if (left < 0) break;
    message += character;
  }
  return { ...state, message };
}
