import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { newSidecarRevision } from '../../api/sidecar-set/revision.ts';
import { targetOfSpec } from '../../plan/sidecar-set/target.ts';
import { sidecarWrite } from '../../plan/sidecar-set/write.ts';
import { kubectlKruise } from '../support/kruise-command.ts';
import { aPod } from '../support/objects/pod.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { aSidecarSet, hot, injectedPod, withStatus, written, writtenAt } from '../support/sidecar-pods.ts';
import { podWith, sidecarSet } from '../support/sidecar-world.ts';
import { smallCluster } from '../support/small-cluster.ts';

const status = { observedGeneration: 1, matchedPods: 1, updatedPods: 1, readyPods: 1, latestRevision: 'logs-1' };

function set(spec: JsonObject = {}, seen: JsonObject | null = status): KubeObject {
  const metadata = { generation: 1, creationTimestamp: '2026-01-01T00:00:00Z', uid: 'u' };
  return { ...sidecarSetDraft({ metadata, spec }), ...(seen && { status: seen }) } as unknown as KubeObject;
}

function pod(name: string, metadata: Partial<Pod['metadata']> = {}, containers: readonly string[] = []): Pod {
  return aPod({
    spec: { containers: containers.map((container) => ({ name: container })) },
    metadata: { name, uid: name, labels: { app: 'web' }, creationTimestamp: '2026-01-02T00:00:00Z', ...metadata },
  });
}

const namespace = (name: string, labels: Record<string, string> = {}) =>
  ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }) as unknown as KubeObject;

describe('kubectl kruise explain sidecarset', () => {
  it('names the pods that were missed by injection, and why', async () => {
    const listed = { annotations: { 'kruise.io/sidecarset-injected-list': 'logs,other' } };
    const objects = [
      ...[set(), namespace('shop'), namespace('kube-system')],
      ...[pod('has', listed, ['log']), pod('missed'), pod('old', { creationTimestamp: '2025-01-01T00:00:00Z' })],
      ...[pod('system', { namespace: 'kube-system' }), pod('other', { labels: { app: 'x' } })],
      aPod({ metadata: { name: 'done', uid: 'done', labels: { app: 'web' } }, status: { phase: 'Succeeded' } }),
    ];
    const { code, out, err } = await kubectlKruise(['explain', 'sidecarset/logs'], { cluster: smallCluster(objects) });
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain('SidecarSet logs: 1 pods have it, 1 of them the current content, 1 are ready; 3 lack it');
    expect(out).toMatch(/inject into shop\/missed +Missed +the webhook did not inject it/);
    expect(out).toMatch(/inject into shop\/old +Missed +it is older than the SidecarSet/);
    expect(out).toMatch(/inject into kube-system\/system +Missed +pods of this namespace are not sent/);
    expect(out).not.toMatch(/inject into shop\/(has|other|done)/);
  });

  it('says what has not happened yet', async () => {
    const paused = set({ injectionStrategy: { paused: true } }, { ...status, observedGeneration: 0, updatedPods: 0 });
    const said = await kubectlKruise(['explain', 'sidecarset', 'logs'], { cluster: smallCluster([paused]) });
    expect(said.out).toContain('nothing is injected into new pods');
    expect(said.out).toContain('status.observedGeneration is 0, metadata.generation is 1');
    const fresh = await kubectlKruise(['explain', 'sidecarsets', 'logs'], {
      cluster: smallCluster([set({}, null)]),
    });
    expect(fresh.out).toContain('SidecarSet logs: not counted yet');
  });

  it('SCS-154, SCS-192: says where each running pod stands, which come next, and what helps', async () => {
    const old = sidecarSet('log:1');
    const spec = { updateStrategy: { maxUnavailable: 2, partition: 1 } };
    const wanted = sidecarSet('log:2', { spec, metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } });
    const waitingFor = {
      ...{ reason: 'CannotUpdate', blockedBy: ['pod/shop/b'], blockedCount: 1 },
      ...{ since: '2026-01-01T00:00:00Z', unblock: 'Fix what refuses the change' },
    };
    const live = { ...wanted, status: { ...status, matchedPods: 4, waitingFor } };
    const env = [{ name: 'A', value: 'b' }];
    const other = sidecarSet('log:1', { spec: { containers: [{ name: 'log', image: 'log:1', env }] } });
    const pods = [podWith(old, 'a'), podWith(old, 'b'), podWith(wanted, 'done'), podWith(other, 'stuck')];
    const cluster = smallCluster([live as never, namespace('shop'), ...pods]);
    const { code, out, err } = await kubectlKruise(['explain', 'sidecarset/logs'], { cluster });
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain('CannotUpdate');
    expect(out).toMatch(/shop\/(a|b) +waits, place 1/);
    expect(out).toMatch(/shop\/(a|b) +kept +by the partition/);
    expect(out).toContain('1 pod done');
    expect(out).toContain('--name pause');
    expect(out).toMatch(/shop\/stuck +not upgradable/);
    expect(out).toMatch(/next to be updated: shop\/(a|b)/);
    expect(out).toContain(`--name skip --input '{"target":"shop/b"}'`);
    expect(out).toContain('kubectl -n shop describe pod b');
    const left = { ...sidecarSet('log:2', { spec: { updateStrategy: { type: 'NotUpdate' } } }), status };
    const said = await kubectlKruise(['explain', 'sidecarset/logs'], { cluster: smallCluster([left as never]) });
    expect(said.out).toContain('updateStrategy.type is NotUpdate: running pods are not updated');
  });

  it('P-5: names for an aborted one what reaches it, as its run has ended', async () => {
    const orders = { version: 1, revision: 'logs-2', aborted: { by: 'ann', at: '2026-01-01T00:00:00Z' } };
    const aborted = set({}, { ...status, latestRevision: 'logs-2', rollOut: orders });
    const waits = { reason: 'Aborted', blockedBy: [], blockedCount: 0, since: '2026-01-01T00:00:00Z', unblock: 'x' };
    const object = { ...aborted, status: { ...(aborted as { status?: object }).status, waitingFor: waits } };
    const { out } = await kubectlKruise(['explain', 'sidecarset/logs'], {
      cluster: smallCluster([object as KubeObject]),
    });
    expect(out).toContain('kubectl annotate sidecarset logs windlass.io/command=resume');
    expect(out).toContain('kubectl annotate sidecarset logs windlass.io/command=undo');
    expect(out).not.toContain('workflow signal');
  });

  it('names an undo in its first line', async () => {
    const wanted = sidecarSet('log:2', { metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } });
    const history = [sidecarSet('log:1'), wanted].map((content, index) => {
      const revision = newSidecarRevision(content, 'kruise-system', index + 1, { collisions: 0, before: 0 });
      const identity = { uid: `r-${index}`, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
      return { ...revision, metadata: { ...revision.metadata, ...identity } };
    });
    const [previous = '', latest = ''] = history.map(({ metadata }) => metadata.name);
    const undo = { by: 'ann', at: '2026-01-03T00:00:00Z', to: previous };
    const live = {
      ...wanted,
      status: { ...status, latestRevision: latest, rollOut: { version: 1, revision: latest, undo } },
    };
    const pods = [podWith(wanted, 'a'), podWith(wanted, 'b'), podWith(sidecarSet('log:1'), 'back')];
    const cluster = smallCluster([live as never, namespace('shop'), ...history, ...pods]);
    const { out } = await kubectlKruise(['explain', 'sidecarset/logs'], { cluster });
    expect(out).toContain(
      `SidecarSet logs: undo of ${latest}, back to ${previous}: 2 pods have yet to go back; 1 pods have`,
    );
    expect(out).toMatch(/next to go back: shop\/(a|b)/);
    expect(out).toContain('# ends the undo: the update begins again');
    expect(out).not.toContain('--name undo');
  });

  it('SHU-40, SHU-60: says how far each swap is, what it waits for, and how to go back', async () => {
    const mesh = (image: string) => aSidecarSet({ containers: [hot('mesh', image)] });
    const set = mesh('mesh:2');
    const old = injectedPod([mesh('mesh:1')], { uid: 'p', creationTimestamp: '2026-01-02T00:00:00Z' });
    const change = sidecarWrite(targetOfSpec(set, 'logs-new'), old, writtenAt);
    if (change.kind !== 'write') throw new Error('nothing to swap');
    const waiting = { reason: 'ImagePullBackOff', message: 'no such image' };
    const pod = withStatus(written(old, change.write), 'mesh-2', { ready: false, state: { waiting } });
    const cluster = smallCluster([{ ...set, status } as never, namespace('shop'), pod]);
    const { code, out, err } = await kubectlKruise(['explain', 'sidecarset/logs'], { cluster });
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/web +swapping +mesh:2 in mesh-2 starts; the old version serves/);
    expect(out).toContain('ContainerNotReady');
    expect(out).toContain('ImagePullBackOff: mesh:2: no such image');
    expect(out).toContain('--workflow-id swap-sidecar/shop/web/p --name abort');
  });
});
