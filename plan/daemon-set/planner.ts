/** The planner of DaemonSets: what is specific to them. */
import { nodeOf } from '../../api/core/pod.ts';
import {
  type DaemonSet,
  daemonSetDefault,
  daemonSetEvent,
  daemonSets,
  daemonSetWaits,
} from '../../api/daemon-set/types.ts';
import type { WorkloadPlan } from '../fleet/input.ts';
import type { FleetPlanner } from '../fleet/kind.ts';
import { type WorkloadPlanner, workloadPlanner } from '../fleet/planner.ts';
import type { UpdateStrategy } from '../fleet/scene.ts';
import { isGoing } from '../fleet/workload.ts';
import type { DaemonSetInput } from './input.ts';
import { planPreDownload } from './pre-download.ts';
import { daemonSetRevisions } from './revisions.ts';
import { type DaemonSetScale, planScale } from './scale.ts';
import { type DaemonSetScene, daemonSetScene, desiredNumber } from './scene.ts';
import { daemonSetStatus } from './status.ts';
import { type DaemonSetDemand, updateDemand, updateLine } from './update.ts';
import { daemonSetRules } from './waits.ts';

export const daemonSetPlanner: FleetPlanner<
  DaemonSet,
  DaemonSetInput,
  DaemonSetScene,
  DaemonSetScale,
  DaemonSetDemand
> = {
  resource: daemonSets,
  revisions: daemonSetRevisions,
  texts: daemonSetWaits,
  rules: daemonSetRules,
  membership: ({ owner: { spec } }) => ({
    selector: spec.selector,
    minReadySeconds: Math.max(spec.minReadySeconds ?? 0, 0),
    countsTerminating: true,
    adopts: (pod) => nodeOf(pod) !== undefined, // AD-12
  }),
  strategy: ({ owner }) => updateStrategy(owner),
  replicas: desiredNumber,
  scene: daemonSetScene,
  scale: planScale,
  demand: updateDemand,
  line: updateLine,
  emptyStatus: {
    desiredNumberScheduled: 0,
    currentNumberScheduled: 0,
    numberMisscheduled: 0,
    numberReady: 0,
    updatedNumberScheduled: 0,
  },
  status: daemonSetStatus,
  preDownload: planPreDownload,
  againAtMs: ({ scale }) => scale.againAtMs,
};

const workloads = workloadPlanner(daemonSetPlanner);

/** The same, in the form that watcher and command line use. */
export const daemonSetWorkloads: WorkloadPlanner<DaemonSet, DaemonSetInput> = {
  ...workloads,
  plan(input) {
    if (selectsAll(input.owner) && !isGoing(input.owner)) return nothingBut;
    const { status, ...plan } = workloads.plan(input);
    return status === undefined || isGoing(input.owner) ? plan : { ...plan, status }; // AD §3
  },
};

/** AD-15: it would take the pods of everybody else. */
function selectsAll({ spec: { selector } }: DaemonSet): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return Object.keys(matchLabels).length + matchExpressions.length === 0;
}

const nothingBut: WorkloadPlan<DaemonSet['status'] & object> = {
  upkeep: [{ kind: 'event', event: daemonSetEvent.selectingAll() }],
  disruption: [],
  standing: { kind: 'working' },
};

function updateStrategy({ spec }: DaemonSet): UpdateStrategy {
  const { type, rollingUpdate = {} } = spec.updateStrategy ?? {};
  const isInPlace = (rollingUpdate.rollingUpdateType ?? daemonSetDefault.rollingUpdateType) === 'InPlaceIfPossible';
  const preDelete = spec.lifecycle?.preDelete;
  return {
    isOnDelete: type === 'OnDelete',
    isPaused: rollingUpdate.paused ?? false,
    podUpdatePolicy: isInPlace ? 'InPlaceIfPossible' : 'ReCreate',
    graceSeconds: 0, // AD-34
    lifecycle: preDelete && { preDelete },
    hasNoStates: true,
    needsGate: true,
  };
}
