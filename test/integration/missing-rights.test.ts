import { expect, it } from '@jest/globals';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { servedBy } from '../support/cluster.ts';
import { expectStops } from '../support/expect-stops.ts';
import { describeAlone } from '../support/groups.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { startJob } from '../support/jobs.ts';
import { outcomeOf, type TestRequest } from '../support/requests.ts';
import { type Right, withoutRight } from '../support/rights.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

// One after the other: a right that is taken from a role is missing everywhere.
const windlass = useWindlass();

const worker = (verb: string, group: string, resource: string): Right => ({
  role: 'windlass-worker',
  verb,
  group,
  resource,
});

describeAlone('an operation that lacks a right waits, says which, and goes on when it is there', () => {
  it('CRR-22: a request, before it takes its pod out of service', async () => {
    const { cluster, node } = windlass();
    const pod = await windlass().runPod(['app'], { gate: true });
    await waitFor('the gate to be answered', async (see) => {
      const conditions = see((await pod.read())?.status?.conditions) ?? [];
      return conditions.some(({ type, status }) => type === 'KruisePodReady' && status === 'True');
    });
    await pod.report();
    const strategy = { unreadyGracePeriodSeconds: 1 };
    let request: TestRequest | undefined;
    await withoutRight(cluster, worker('patch', '', 'pods/status'), async () => {
      request = await windlass().request({ pod, containers: ['app'], strategy });
      const { status } = await request.waitsFor('Denied');
      expect(status?.waitingFor?.unblock).toContain(
        `Allow ServiceAccount "kruise-system/windlass-worker" to patch pods/status in namespace "${pod.ref.namespace}"`,
      );
      expectStops(node.stopsOf(pod), []);
    });
    const ended = await request?.ended();
    expect(ended && outcomeOf(ended)).toMatchObject({ type: 'Complete' });
    expect(ended?.waitingFor).toBeUndefined();
    expectStops(node.stopsOf(pod), ['app']);
  });

  it('CRR-50: a request in the middle, though it cannot even say so in its status', async () => {
    const { cluster, node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());
    const right = worker('patch', 'apps.kruise.io', 'containerrecreaterequests/status');
    await withoutRight(cluster, right, async () => {
      ready();
      await waitFor('a report to be refused', async () => {
        const { events } = await request.operation.fetchHistory();
        return events?.some(({ activityTaskFailedEventAttributes: failed }) =>
          failed?.failure?.message?.includes('containerrecreaterequests/status'),
        );
      });
    });
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
  });

  it('JST-12: the end of sidecars, before the request that stops them', async () => {
    const { cluster, node } = windlass();
    const job = await startJob(windlass());
    await withoutRight(cluster, worker('create', 'apps.kruise.io', 'containerrecreaterequests'), async () => {
      job.pod.exit('main');
      const { waitingFor } = await job.waitsFor('Denied');
      expect(waitingFor?.unblock).toContain(
        `create containerrecreaterequests of apps.kruise.io in namespace "${job.pod.ref.namespace}"`,
      );
    });
    await job.phase('Succeeded');
    await job.ended();
    expectStops(node.stopsOf(job.pod), ['proxy']);
  });

  it('CS-46: a CloneSet that grows', async () => {
    const { cluster } = windlass();
    await servedBy(cluster, cloneSets);
    const namespace = await cluster.newNamespace();
    const ref = { namespace, name: 'web' };
    const labels = { app: 'web' };
    await cluster.kube.create<CloneSet>(cloneSets, {
      metadata: ref,
      spec: {
        replicas: 1,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: 'app', image: 'app:1' }] } },
      },
    });
    const pods = (count: number) =>
      waitFor(`${count} pods`, async (see) => {
        const { items } = await cluster.kube.list<Pod>(kubeResource.pods, { namespace });
        return see(items.map(({ metadata }) => metadata.name)).length === count;
      });
    await pods(1);
    const right: Right = { role: 'windlass-watcher', verb: 'create', group: '', resource: 'pods' };
    await withoutRight(cluster, right, async () => {
      await cluster.kube.patch(cloneSets, ref, 'merge', { spec: { replicas: 3 } });
      const { status } = await waitFor('the set to say so', async (see) => {
        const set = await cluster.kube.get<CloneSet>(cloneSets, ref);
        return see(set.status)?.waitingFor?.reason === 'CannotCreate' && set;
      });
      expect(status?.conditions?.find(({ type }) => type === 'FailedScale')).toMatchObject({
        status: 'True',
        message: expect.stringContaining('windlass-watcher" cannot create resource "pods"'),
      });
      const grant = `Denied: Allow ServiceAccount "kruise-system/windlass-watcher" to create pods in namespace "${namespace}"`;
      expect(status?.waitingFor?.unblock).toContain(grant);
    });
    await pods(3);
    await waitFor('the wait to be over', async (see) => {
      const { status } = await cluster.kube.get<CloneSet>(cloneSets, ref);
      return see(status?.waitingFor)?.reason !== 'CannotCreate';
    });
  });
});
