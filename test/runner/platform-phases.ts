import type { Group } from './groups.ts';
import { jestOnPlatform } from './jest-phase.ts';
import type { Phase } from './phase.ts';

/** What all phases of a command share. */
export interface PlatformPhaseOptions {
  /** Of the names of instances, so that two commands may run at the same time. */
  readonly prefix: string;
  readonly groups: readonly Group[];
  readonly keep: boolean;
  readonly signal: AbortSignal;
}

/** Of e2e tests, beside those of the local platform. */
export const e2eFeatureGates = 'SidecarTerminator=true,StatefulSetAutoResizePVCGate=true';

/** The phases that need a cluster. */
export function platformPhases(options: PlatformPhaseOptions): readonly Phase[] {
  return [
    {
      name: 'integration',
      about: 'a real API server and Temporal, no kubelet',
      run: jestOnPlatform({ name: 'integration', nodes: 0, windlass: false, ...options }),
    },
    {
      name: 'e2e',
      about: 'two real nodes and Windlass as it is deployed',
      run: jestOnPlatform({
        ...{ name: 'e2e', nodes: 2, windlass: true, featureGates: e2eFeatureGates, ...options },
      }),
    },
  ];
}
