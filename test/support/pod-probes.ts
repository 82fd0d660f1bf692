import type { Pod } from '../../api/core/pod.ts';
import type { Probe } from '../../api/core/probe.ts';
import type { NodePodProbe } from '../../api/node-pod-probe/types.ts';
import type { MarkerProbe, PodProbeMarker } from '../../api/pod-probe-marker/types.ts';
import { metadataOf } from './objects/metadata.ts';
import { aPod, type PodOverrides } from './objects/pod.ts';

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
    metadata: metadataOf({ namespace: 'shop', name, uid: `marker-${name}` }, { generation: 1, ...metadata }),
    spec: { selector, probes },
  };
}

/** Pod `web-1` on `node-1`, initialized and running, selected by the marker. */
export function probedPod(name = 'web-1', overrides: PodOverrides = {}): Pod {
  return aPod({
    metadata: { name, uid: `uid-${name}`, labels: { app: 'web' }, ...overrides.metadata },
    spec: { nodeName: 'node-1', containers: [{ name: 'app' }], ...overrides.spec },
    status: {
      phase: 'Running',
      podIP: '10.0.0.1',
      conditions: [{ type: 'Initialized', status: 'True' }],
      ...overrides.status,
    },
  });
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
    metadata: metadataOf({ name, uid: `list-${name}` }),
    spec: { podProbes },
    ...(status && { status }),
  };
}
