import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { CloneSet } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { DaemonSet } from '../../api/daemon-set/types.ts';
import { type InstalledPlugin, installPlugin } from '../support/kruise-plugin.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster, sample } from './local-cluster.ts';

let cluster: LocalCluster;
let plugin: InstalledPlugin;

beforeAll(async () => {
  cluster = await localCluster();
  plugin = await installPlugin(cluster.kubeconfig);
});

afterAll(async () => {
  plugin.remove();
  await cluster.close();
});

describe('kubectl kruise rollout', () => {
  it.concurrent('KK-3 to KK-14: follows a roll-out of kubectl apply, undoes it, restarts the pods, and pauses', async () => {
    const namespace = await cluster.newNamespace();
    const rollout = (...args: readonly string[]) => plugin.run(['rollout', ...args, '-n', namespace]);
    const apply = async (image: string, cause: string) => {
      const text = (await sample('cloneset.yaml')).replace('replicas: 10', 'replicas: 2').replace('20%', '50%');
      await cluster.ok(['apply', '-n', namespace, '-f', '-'], text.replaceAll(/busybox:1\.3\d/g, image));
      await cluster.ok(['annotate', 'clonesets/shop', '-n', namespace, `kubernetes.io/change-cause=${cause}`]);
    };
    const pods = async () => {
      const list = await cluster.ok(['get', 'pods', '-n', namespace, '-o', 'json']);
      return (JSON.parse(list) as { readonly items: readonly Pod[] }).items.filter(
        ({ metadata }) => metadata.deletionTimestamp === undefined,
      );
    };
    const uids = async () => (await pods()).map(({ metadata }) => metadata.uid).toSorted();
    const imagesOf = async () => (await pods()).map(({ spec }) => spec.containers[0]?.image);
    const done = 'partitioned roll out complete: 2 new pods have been updated...';

    await apply('busybox:1.36', 'first');
    expect(await rollout('status', 'clone/shop', '--timeout=5m')).toMatchObject({ code: 0, err: '' });
    const first = await uids();
    expect(first).toHaveLength(2);

    await apply('busybox:1.35', 'second');
    const updated = await rollout('status', 'clone/shop', '--timeout=5m');
    expect(updated).toMatchObject({ code: 0, err: '', out: expect.stringContaining(done) });
    expect(await imagesOf()).toEqual(['busybox:1.35', 'busybox:1.35']);
    expect(await uids()).toEqual(first);

    const { out: history } = await rollout('history', 'clone/shop');
    expect(history).toMatch(/^cloneset\.apps\.kruise\.io\/shop\nREVISION {3}CHANGE-CAUSE\n1 .*\n2 .*\n/);

    const revision = async () => (await cluster.get<CloneSet>('clonesets', namespace, 'shop')).status?.updateRevision;
    const second = await revision();
    expect(await rollout('undo', 'clone/shop')).toMatchObject({
      out: 'cloneset.apps.kruise.io/shop rolled back\n',
      err: expect.stringMatching(/^back to revision \d+ \(shop-\w+\)\n$/),
    });
    expect(await rollout('status', 'clone/shop', '--timeout=5m')).toMatchObject({ code: 0, err: '' });
    expect(await imagesOf()).toEqual(['busybox:1.36', 'busybox:1.36']);
    expect(await uids()).toEqual(first);
    // KK-5: the template is the earlier one exactly, so no third revision comes up
    expect((await rollout('history', 'clone/shop')).out.trim().split('\n')).toHaveLength(4);
    expect(await revision()).not.toBe(second);

    expect((await rollout('restart', 'clone/shop')).out).toBe('cloneset.apps.kruise.io/shop restarted\n');
    expect(await rollout('status', 'clone/shop', '--timeout=5m')).toMatchObject({ code: 0, err: '' });
    expect((await uids()).filter((uid) => first.includes(uid))).toEqual([]);

    expect((await rollout('pause', 'clone/shop')).out).toBe('cloneset.apps.kruise.io/shop paused\n');
    expect(await rollout('pause', 'clone/shop')).toEqual({
      code: 1,
      out: '',
      err: 'error: clonesets.apps.kruise.io "shop" is already paused\n',
    });
    await rollout('undo', 'clone/shop');
    await waitFor('the pause to be told', async (see) => {
      const { out } = see(await rollout('status', 'clone/shop', '--watch=false'));
      return out.includes('  Paused: Set updateStrategy.rollingUpdate.paused to false\n');
    });
    const given = await rollout('status', 'clone/shop', '--timeout=1s');
    expect(given).toMatchObject({ code: 1, err: 'error: timed out waiting for the condition\n' });
    expect((await rollout('resume', 'clone/shop')).out).toBe('cloneset.apps.kruise.io/shop resumed\n');
    expect(await rollout('status', 'clone/shop', '--timeout=5m')).toMatchObject({ code: 0, err: '' });
  });

  it.concurrent('KK-3 to KK-14: does the same with a DaemonSet', async () => {
    const namespace = await cluster.newNamespace();
    const rollout = (...args: readonly string[]) => plugin.run(['rollout', ...args, '-n', namespace]);
    const read = () => cluster.get<DaemonSet>('ads', namespace, 'log-agent');
    const until = async (...args: readonly string[]) => {
      const told = await rollout('status', 'ads/log-agent', '--timeout=5m', ...args);
      const { status } = await read();
      const done = `Advanced DaemonSet rolling update complete 2 pods at revision ${status?.updateRevision}...`;
      expect(told).toMatchObject({ code: 0, err: '', out: expect.stringContaining(done) });
    };
    const podsNow = async () => {
      const list = await cluster.ok(['get', 'pods', '-n', namespace, '-o', 'json']);
      const { items } = JSON.parse(list) as { readonly items: readonly Pod[] };
      return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    };
    const uids = async () => (await podsNow()).map(({ metadata }) => metadata.uid).toSorted();
    await cluster.applySample('daemon-set.yaml', namespace);
    await until();
    const first = await uids();
    expect(first).toHaveLength(2);

    const text = (await sample('daemon-set.yaml')).replace('busybox:1.36', 'busybox:1.35');
    await cluster.ok(['apply', '-n', namespace, '-f', '-'], text);
    await until();
    expect(await uids()).toEqual(first);
    const { out: history } = await rollout('history', 'ads/log-agent');
    expect(history).toMatch(/^daemonset\.apps\.kruise\.io\/log-agent\nREVISION {3}CHANGE-CAUSE\n1 .*\n2 .*\n/);
    expect(await rollout('undo', 'ads/log-agent')).toMatchObject({
      out: 'daemonset.apps.kruise.io/log-agent rolled back\n',
    });
    await until();
    expect((await podsNow()).map(({ spec }) => spec.containers[0]?.image)).toEqual(['busybox:1.36', 'busybox:1.36']);

    expect((await rollout('pause', 'ads/log-agent')).out).toBe('daemonset.apps.kruise.io/log-agent paused\n');
    expect((await rollout('restart', 'ads/log-agent')).out).toBe('daemonset.apps.kruise.io/log-agent restarted\n');
    await waitFor('the pause to be told', async (see) => {
      const { out } = see(await rollout('status', 'ads/log-agent', '--watch=false'));
      return out.includes('  Paused: Set updateStrategy.rollingUpdate.paused to false\n');
    });
    expect(await uids()).toEqual(first);
    expect((await rollout('resume', 'ads/log-agent')).out).toBe('daemonset.apps.kruise.io/log-agent resumed\n');
    await until();
    expect((await uids()).filter((uid) => first.includes(uid))).toEqual([]);
  });
});
