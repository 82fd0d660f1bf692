import { describe, expect, it } from '@jest/globals';
import { statusSchema as cloneSetStatus } from '../../api/cloneset/schema.ts';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { statusSchema as daemonSetStatus } from '../../api/daemon-set/schema.ts';
import { daemonSets } from '../../api/daemon-set/types.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type ControllerRevision, newRevision } from '../../api/fleet/revision.ts';
import { statusSchema as statefulSetStatus } from '../../api/stateful-set/schema.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import type { FleetInput } from '../../plan/fleet/input.ts';
import { cloneSetController } from '../../watcher/kinds/cloneset/controller.ts';
import { daemonSetController } from '../../watcher/kinds/daemon-set/controller.ts';
import { statefulSetController } from '../../watcher/kinds/stateful-set/controller.ts';
import { fleetConformance } from '../support/fleet-conformance.ts';
import { aPod } from '../support/objects/pod.ts';
import {
  type OrdinalSet,
  ordinalSetController,
  ordinalSetPlanner,
  ordinalSetRevisions,
  ordinalSets,
} from '../support/ordinal-set.ts';
import { permitForAll } from '../support/permits.ts';

fleetConformance({
  resource: cloneSets,
  controllerOf: cloneSetController,
  statusFields: cloneSetStatus.required,
  spec: (template, selector) => ({
    ...{ replicas: 3, selector, template },
    updateStrategy: {
      type: 'RollingUpdate',
      rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable: 1 },
    },
  }),
});

for (const podManagementPolicy of ['Parallel', 'OrderedReady']) {
  fleetConformance({
    resource: statefulSets,
    variant: podManagementPolicy,
    controllerOf: statefulSetController,
    statusFields: statefulSetStatus.required,
    adoptable: 'web-1',
    spec: (template, selector) => ({
      ...{ replicas: 3, selector, template, podManagementPolicy, serviceName: 'web' },
      updateStrategy: {
        type: 'RollingUpdate',
        rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable: 1 },
      },
    }),
  });
}

fleetConformance({
  resource: daemonSets,
  controllerOf: daemonSetController,
  statusFields: daemonSetStatus.required,
  adoptable: 'web-stray',
  hasNoUpdateHook: true,
  spec: (template, selector) => ({
    ...{ selector, template },
    updateStrategy: {
      type: 'RollingUpdate',
      rollingUpdate: { rollingUpdateType: 'InPlaceIfPossible', maxUnavailable: 1 },
    },
  }),
});

const nodes = ['node-1', 'node-2', 'node-3'];

fleetConformance({
  resource: ordinalSets,
  controllerOf: ordinalSetController,
  adoptable: 'web-1',
  spec: (template, selector) => ({ nodes, selector, template, maxUnavailable: 1 }),
});

// What the engine offers to kinds that are unlike CloneSets, seen on OrdinalSets.

const selector = { matchLabels: { app: 'web' } };
const template = (image: string) => ({
  metadata: { labels: selector.matchLabels },
  spec: { containers: [{ name: 'main', image }] },
});

function ordinalSet(image: string, spec: Partial<OrdinalSet['spec']> = {}): OrdinalSet {
  return {
    apiVersion: 'apps.kruise.io/v1',
    kind: 'OrdinalSet',
    metadata: {
      namespace: 'shop',
      name: 'web',
      uid: 'uid',
      resourceVersion: '1',
      creationTimestamp: '',
      generation: 1,
    },
    spec: { selector, nodes, template: template(image), ...spec },
  };
}

function revision(image: string, number: number): ControllerRevision {
  const made = newRevision(ordinalSetRevisions.ownerOf(ordinalSet(image)), number);
  const { name } = made.metadata;
  return { ...made, metadata: { ...made.metadata, uid: name, resourceVersion: '1', creationTimestamp: '' } };
}

const [old, fresh] = [revision('app:1', 1), revision('app:2', 2)];

function pod(ordinal: number, of = old, more: { readonly going?: boolean; readonly ready?: boolean } = {}): Pod {
  const name = `web-${ordinal}`;
  const types = ['InPlaceUpdateReady', 'KruisePodReady', 'ContainersReady', 'Ready'];
  const controller = { apiVersion: 'apps.kruise.io/v1', kind: 'OrdinalSet', name: 'web', uid: 'uid', controller: true };
  return aPod({
    metadata: {
      name,
      uid: `${name}-uid`,
      labels: { app: 'web', 'controller-revision-hash': of.metadata.name },
      ownerReferences: [controller],
      ...(more.going && { deletionTimestamp: '2026-01-01T00:00:00Z' }),
    },
    spec: {
      nodeName: `node-${ordinal + 1}`,
      readinessGates: types.slice(0, 2).map((conditionType) => ({ conditionType })),
      containers: [{ name: 'main', image: of === old ? 'app:1' : 'app:2' }],
    },
    status: {
      phase: 'Running',
      conditions: types.map((type) => ({ type, status: more.ready === false && type === 'Ready' ? 'False' : 'True' })),
    },
  });
}

function plan(owner: OrdinalSet, pods: readonly Pod[], more: Partial<FleetInput<OrdinalSet>> = {}) {
  const status = {
    replicas: 3,
    readyReplicas: 3,
    updatedReplicas: 0,
    updateRevision: '',
    currentRevision: old.metadata.name,
  };
  return ordinalSetPlanner.plan({
    ...{ owner: { ...owner, status }, pods, claims: [], revisions: [old, fresh], gates: parseFeatureGates() },
    ...{ hasResizeSubresource: true, nowMs: Date.parse('2026-01-01T00:10:00Z'), isSpent: () => false },
    ...more,
  });
}

const permit = permitForAll(fresh.metadata.name);
const created = ({ upkeep }: ReturnType<typeof plan>) => upkeep.filter(({ kind }) => kind === 'createPod');
const disrupted = ({ disruption }: ReturnType<typeof plan>) =>
  disruption.flatMap((step) => ('pod' in step && 'name' in step.pod ? [step.pod.name] : []));

describe('a kind with a place for each pod', () => {
  it('creates no pod in the place of one that is being deleted, until it is gone', () => {
    expect(created(plan(ordinalSet('app:1'), [pod(0), pod(1, old, { going: true }), pod(2)]))).toEqual([]);
    expect(created(plan(ordinalSet('app:1'), [pod(0), pod(2)]))).toMatchObject([
      { name: 'web-1', pod: { spec: { nodeName: 'node-2' } } },
    ]);
  });

  it('counts one that is being deleted against the budget', () => {
    const pods = [pod(0), pod(1), pod(2, old, { going: true })];
    const result = plan(ordinalSet('app:2'), pods, { permit });
    expect(disrupted(result)).toEqual([]);
    expect(result.standing).toMatchObject({
      kind: 'waiting',
      wait: { reason: 'BudgetSpent', blockedBy: ['pod/web-2'] },
    });
  });

  it('updates in its own order, and keeps those below its partition', () => {
    const pods = [pod(0), pod(1), pod(2)];
    expect(disrupted(plan(ordinalSet('app:2'), pods, { permit }))).toEqual(['web-2']);
    const partitioned = ordinalSet('app:2', { partition: 2 });
    const settled = plan(partitioned, [pod(0), pod(1), pod(2, fresh)], { permit });
    expect([disrupted(settled), settled.standing.kind]).toEqual([[], 'allDone']);
    expect(settled.rollOut?.isWanted).toBe(false);
    expect(settled.status?.waitingFor?.reason).toBe('PartitionReached');
  });

  it('makes new pods of the revision that belongs to their place', () => {
    const steps = created(plan(ordinalSet('app:2', { partition: 1 }), [pod(2, fresh)]));
    expect(steps).toMatchObject([
      { name: 'web-0', pod: { spec: { containers: [{ image: 'app:1' }] } } },
      { name: 'web-1', pod: { spec: { containers: [{ image: 'app:2' }] } } },
    ]);
  });

  it('deletes the pod whose place is gone', () => {
    const pods = [pod(0), pod(1), pod(2)];
    const { upkeep } = plan(ordinalSet('app:1', { nodes: nodes.slice(0, 2) }), pods);
    const deleted = upkeep.filter(({ kind }) => kind === 'deletePod');
    expect(deleted).toMatchObject([{ pod: { name: 'web-2' } }]);
  });
});
