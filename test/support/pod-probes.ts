import type { Pod } from '../../api/core/pod.ts';
import type { Probe } from '../../api/core/probe.ts';
import type { NodePodProbe } from '../../api/node-pod-probe/types.ts';
import type { MarkerProbe, PodProbeMarker } from '../../api/pod-probe-marker/types.ts';

const createdAt = '2026-01-01T00:00:00Z';

export const execProbe: Probe = { exec: { command: ['true'] } };

/** A probe `idle` of container `app` that writes a condition. */
export function probe(overrides: Partial<MarkerProbe> = {}): MarkerProbe {
  return { name: 'idle', containerName: 'app', probe: execProbe, podConditionType: 'game.io/idle', ...overrides };
}

/** Marker `game` of namespace `shop`, which selects `app=web`. */
export function marker(
  probes: readonly MarkerProbe[] = [probe()],
  metadata: Partial<PodProbeMarker['metadata']> = {},
  selector: PodProbeMarker['spec']['selector'] = { matchLabels: { app: 'web' } },
): PodProbeMarker {
  const name = metadata.name ?? 'game';
  return {
    apiVersion: 'apps.kruise.io/v1alpha1',
    kind: 'PodProbeMarker',
    metadata: {
      namespace: 'shop',
      uid: `marker-${name}`,
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: createdAt,
      ...metadata,
      name,
    },
    spec: { selector, probes },
  };
}

/** Pod `web-1` on `node-1`, initialized and running, selected by the marker. */
export function probedPod(
  name = 'web-1',
  overrides: {
    readonly metadata?: Partial<Pod['metadata']>;
    readonly spec?: Partial<Pod['spec']>;
    readonly status?: Partial<NonNullable<Pod['status']>>;
  } = {},
): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: 'shop',
      uid: `uid-${name}`,
      resourceVersion: '1',
      creationTimestamp: createdAt,
      labels: { app: 'web' },
      ...overrides.metadata,
    },
    spec: { nodeName: 'node-1', containers: [{ name: 'app' }], ...overrides.spec },
    status: {
      phase: 'Running',
      podIP: '10.0.0.1',
      conditions: [{ type: 'Initialized', status: 'True' }],
      ...overrides.status,
    },
  };
}

/** The NodePodProbe of `node-1`. */
export function nodeList(
  podProbes: NonNullable<NodePodProbe['spec']['podProbes']> = [],
  status?: NodePodProbe['status'],
  name = 'node-1',
): NodePodProbe {
  return {
    apiVersion: 'apps.kruise.io/v1alpha1',
    kind: 'NodePodProbe',
    metadata: { name, uid: `list-${name}`, resourceVersion: '1', creationTimestamp: createdAt },
    spec: { podProbes },
    ...(status && { status }),
  };
}
