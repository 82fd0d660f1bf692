import { describe, expect, it } from '@jest/globals';
import type { DaemonSet, DaemonSetRollingUpdate, DaemonSetStatus } from '../../api/daemon-set/types.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { shortHash } from '../../api/fleet/revision.ts';
import { daemonSetWorkload } from '../../cli/daemon-set.ts';
import { workloadExplainer } from '../../cli/explain/workload.ts';
import { planText } from '../../cli/output/plan-text.ts';
import { workloadRollout } from '../../cli/rollout/workload.ts';
import { planWorkload } from '../../cli/workload-plan.ts';
import { fresh, node, nodes, noStatus, now, old, pod, pods, set, template } from '../support/daemon-set-world.ts';
import { smallCluster } from '../support/small-cluster.ts';

const gates = parseFeatureGates();
const revision = shortHash(fresh.metadata.name);

function withStatus(status: Partial<DaemonSetStatus>, rollingUpdate: DaemonSetRollingUpdate = {}): DaemonSet {
  return { ...set(rollingUpdate), status: { ...noStatus, observedGeneration: 2, updateRevision: revision, ...status } };
}

describe('plan of a DaemonSet', () => {
  async function planned(owner: DaemonSet, there: Parameters<typeof smallCluster>[0]) {
    const { apiVersion, kind, metadata, spec } = owner;
    const manifest = { apiVersion, kind, metadata: { namespace: metadata.namespace, name: metadata.name }, spec };
    const cluster = smallCluster(there);
    const options = { cluster, gates, givenNamespace: undefined, now: () => Date.parse(now) };
    const plan = await planWorkload(daemonSetWorkload, manifest as never, options);
    return planText([plan])
      .replaceAll(/agent-[0-9a-z]{9,}/g, 'agent-HASH')
      .split('\n');
  }

  it('AD-10: creates a pod on each node that fits', async () => {
    const tainted = node('n3', { taints: [{ key: 'gpu', effect: 'NoSchedule' }] });
    expect(await planned(set(), [...nodes(2), tainted])).toContain('DaemonSet shop/agent: new: 2 create');
  });

  it('AD-32, AD-34: updates the pods that there are in place, one batch for each node', async () => {
    const owner = set({ rollingUpdateType: 'InPlaceIfPossible' });
    const lines = await planned({ ...owner, spec: { ...owner.spec, template: template('app:3') } }, [
      owner,
      ...nodes(2),
      ...pods(2, { of: fresh }),
      old,
      fresh,
    ]);
    expect(lines[0]).toBe('DaemonSet shop/agent: 2 in place; 2 batches of at most 1');
    expect(lines).toContainEqual(expect.stringMatching(/^1 +agent-n2-a +in place +containers main$/));
    expect(lines).toContainEqual(expect.stringMatching(/^2 +agent-n1-a +in place +containers main$/));
  });

  it('AD-17, AD-31, AD-38: says which pods the partition keeps, and which the selector; new ones are never old', async () => {
    const canary = node('n3', { labels: { stage: 'canary' } });
    const rollingUpdate = { partition: 1, selector: { matchLabels: { stage: 'canary' } } };
    const owner = set(rollingUpdate);
    const there = [owner, ...nodes(2), canary, node('n4', { labels: { stage: 'canary' } }), node('n5')];
    const lines = await planned({ ...owner, spec: { ...owner.spec, template: template('app:3') } }, [
      ...there,
      ...['n2', 'n3', 'n4', 'n5'].map((name) => pod(name, { of: fresh })),
      ...[old, fresh],
    ]);
    expect(lines).toContainEqual(
      expect.stringMatching(/^- +agent-n2-a +kept +updateStrategy.rollingUpdate.selector does not select/),
    );
    expect(lines).toContainEqual(expect.stringMatching(/^- +\(1 new\) +create/));
    expect(lines).not.toContainEqual(expect.stringContaining('kept by the partition'));
  });

  it('fails where nodes may not be listed: nothing can be said without them', async () => {
    const cluster = smallCluster([set()]);
    const refusing = {
      ...cluster,
      kube: {
        ...cluster.kube,
        list: (resource: { readonly plural: string }, ...others: readonly never[]) =>
          resource.plural === 'nodes'
            ? Promise.reject(new Error('nodes is forbidden'))
            : (cluster.kube.list as (...all: readonly unknown[]) => unknown)(resource, ...others),
      },
    };
    const { apiVersion, kind, metadata, spec } = set();
    const manifest = { apiVersion, kind, metadata: { namespace: 'shop', name: metadata.name }, spec };
    const options = { cluster: refusing as never, gates, givenNamespace: undefined, now: () => Date.parse(now) };
    await expect(planWorkload(daemonSetWorkload, manifest as never, options)).rejects.toThrow('nodes is forbidden');
  });
});

describe('explain of a DaemonSet', () => {
  it('says how far it is, and shows each pod with what is going to happen to it', async () => {
    const counts = { desiredNumberScheduled: 2, numberAvailable: 2, updatedNumberScheduled: 1 };
    const owner = withStatus(counts, { rollingUpdateType: 'InPlaceIfPossible', partition: 1 });
    const there = [owner, ...nodes(2), pod('n1'), pod('n2', { of: fresh }), old, fresh];
    const { kube } = smallCluster(there);
    const asked = { resource: daemonSetWorkload.versions[0], namespace: 'shop', name: 'agent' };
    const { summary, steps } = await workloadExplainer(daemonSetWorkload).explain(
      { ...asked, versions: daemonSetWorkload.versions } as never,
      { kube, gates, nowMs: Date.parse(now), engine: undefined } as never,
    );
    expect(summary).toBe(`${fresh.metadata.name}: 1 of 1 pods updated, 2 of 2 available`);
    expect(steps).toMatchObject([
      { step: 'agent-n1-a', state: 'kept', detail: 'by the partition' },
      { step: 'agent-n2-a', state: 'done' },
    ]);
  });
});

describe('rollout status of a DaemonSet', () => {
  const { progress } = workloadRollout(daemonSetWorkload);
  const means = { kube: undefined as never, nowMs: 0 };
  const four = { desiredNumberScheduled: 4, numberAvailable: 4, numberReady: 4 };

  it.each<readonly [string, DaemonSet, string, boolean]>([
    [
      'before it is observed',
      withStatus({ ...four, observedGeneration: 1 }),
      'Waiting for Advanced DaemonSet spec update to be observed...',
      false,
    ],
    [
      'amid an update',
      withStatus({ ...four, updatedNumberScheduled: 1 }),
      'Waiting for partitioned roll out to finish: 1 out of 4 new pods have been updated...',
      false,
    ],
    [
      'with a pod that is not available',
      withStatus({ ...four, updatedNumberScheduled: 4, numberAvailable: 3 }),
      'Waiting for 1 pods to be ready...',
      false,
    ],
    [
      'at its partition, a share rounded down',
      withStatus({ ...four, updatedNumberScheduled: 3 }, { partition: '30%' }),
      `Advanced DaemonSet rolling update complete 4 pods at revision ${revision}...`,
      true,
    ],
    [
      'where the selector of the update leaves the others out',
      withStatus({
        ...four,
        updatedNumberScheduled: 1,
        waitingFor: { reason: 'NodeNotSelected', blockedBy: [], blockedCount: 3, since: now, unblock: 'x' },
      }),
      `Advanced DaemonSet rolling update complete 4 pods at revision ${revision}...`,
      true,
    ],
    [
      'amid an undo',
      withStatus({
        ...four,
        updatedNumberScheduled: 2,
        rollOut: { version: 1, revision: fresh.metadata.name, undo: { to: 'agent-1', by: 'ann', at: now } },
      }),
      'Waiting for the undo to finish: 2 out of 4 pods have yet to go back to agent-1...',
      false,
    ],
  ])('KK-10: %s', async (_, owner, line, isDone) => {
    expect(await progress(owner, means)).toEqual({ line, isDone });
  });
});
