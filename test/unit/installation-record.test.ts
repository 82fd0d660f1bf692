import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import { kubeResource } from '../../api/core/well-known.ts';
import { differingGates, readRecord, recordData } from '../../api/engine/installation-record.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { compareFeatureGates } from '../../process/gate-comparison.ts';
import { installationRecord } from '../../watcher/installation-record.ts';
import { type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { waitFor } from '../support/wait.ts';

const ref = { namespace: 'kruise-system', name: 'windlass-installation' };
const certificate = '-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n';

describe('what the leading watcher publishes', () => {
  it('is read as it was written', () => {
    const temporal = { address: 'h:1', namespace: 'n', tls: true, serverName: 's', ca: certificate };
    const gates = parseFeatureGates('SidecarTerminator=true');
    const { temporal: read, featureGates } = readRecord(recordData(temporal, gates));
    expect(read).toEqual(temporal);
    expect(Object.fromEntries(featureGates)).toEqual(gates);
  });

  it('holds certificates alone of a file that holds more', () => {
    const key = '-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n';
    const temporal = { address: 'h:1', namespace: 'n', tls: true, ca: `${key}${certificate}${key}` };
    const data = recordData(temporal, parseFeatureGates());
    expect(data['temporal-tls-ca.pem']).toBe(certificate);
    expect(JSON.stringify(data)).not.toContain('PRIVATE');
  });

  it('is nothing where somebody has written something else', () => {
    for (const data of [undefined, null, 7, [], { 'temporal-address': 7, 'feature-gates': 'x,=,A=yes' }]) {
      expect(readRecord(data)).toEqual({ featureGates: new Map() });
    }
  });
});

describe('installationRecord', () => {
  const running: RunningController[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'record-'));
  afterEach(async () => {
    await Promise.all(running.splice(0).map((one) => one.stop()));
    rmSync(folder, { recursive: true, force: true });
  });

  it('keeps the ConfigMap, and writes it again only when it is no longer so', async () => {
    const caFile = join(folder, 'ca.pem');
    writeFileSync(caFile, certificate);
    const temporal = { address: 'h:1', namespace: 'n', tls: { caFile }, apiKeyFile: '/secret' };
    const one = await runController(installationRecord, { gates: 'SidecarTerminator=true', temporal });
    running.push(one);
    const data = () => one.cluster.look(kubeResource.configMaps, ref)?.data as Record<string, string> | undefined;
    await waitFor('the ConfigMap', () => data());
    expect(data()).toEqual({
      'temporal-address': 'h:1',
      'temporal-namespace': 'n',
      'temporal-tls': 'true',
      'temporal-tls-ca.pem': certificate,
      'feature-gates': expect.stringContaining('SidecarTerminator=true'),
    });

    one.cluster.put(kubeResource.configMaps, { metadata: ref, data: { 'temporal-address': 'other:1' } });
    one.controller.wantAll();
    await waitFor('the address', () => data()?.['temporal-address'] === 'h:1');
    one.controller.wantAll();
    await waitFor('another look', () => one.cluster.calls.filter((call) => call.startsWith('get')).length >= 3);
    expect(one.writes.map(({ verb }) => verb)).toEqual(['create', 'patch']);
  });
});

describe('compareFeatureGates', () => {
  const times = { firstMs: 0, confirmMs: 5, everyMs: 5 };
  const log = pino({ level: 'silent' });
  const stops: AbortController[] = [];
  afterEach(() => {
    for (const stop of stops.splice(0)) stop.abort();
  });

  function compare(cluster: MemoryCluster, gates: string, nodeName?: string): Promise<void> {
    const stop = new AbortController();
    stops.push(stop);
    return compareFeatureGates({
      kube: cluster.client(),
      role: nodeName === undefined ? 'worker' : 'daemon',
      gates: parseFeatureGates(gates),
      namespace: 'kruise-system',
      ...(nodeName !== undefined && { nodeName }),
      log,
      signal: stop.signal,
      times,
    });
  }

  function publish(cluster: MemoryCluster, gates: string): void {
    const data = recordData({ address: 'h:1', namespace: 'n', tls: false }, parseFeatureGates(gates));
    cluster.put(kubeResource.configMaps, { metadata: ref, data });
  }

  async function events(cluster: MemoryCluster): Promise<readonly object[]> {
    return (await cluster.client().list(kubeResource.events)).items;
  }

  it('FG-1: says in an Event which gates of a daemon are not those of the leading watcher', async () => {
    const cluster = new MemoryCluster();
    publish(cluster, 'SidecarTerminator=true');
    void compare(cluster, '', 'node-1');
    void compare(cluster, '', 'node-1');
    await waitFor('the Event', async () => (await events(cluster)).length > 0);
    expect(await events(cluster)).toEqual([
      expect.objectContaining({
        type: 'Warning',
        reason: 'FeatureGatesDiffer',
        message:
          'Feature gates of the daemon on node node-1 differ: SidecarTerminator=false (leading watcher: true). ' +
          'Start every role with the same --feature-gates',
        involvedObject: expect.objectContaining({ kind: 'ConfigMap', ...ref }),
        source: { component: 'windlass-feature-gates', host: 'node-1' },
        reportingInstance: 'node-1',
      }),
    ]);
  });

  it('says nothing of equal gates, nor of a difference that is gone at the next look', async () => {
    const cluster = new MemoryCluster();
    publish(cluster, 'SidecarTerminator=true');
    void compare(cluster, 'SidecarTerminator=true');
    const looks = () => cluster.calls.filter((call) => call.startsWith('get configmaps')).length;
    await waitFor('some looks', () => looks() > 5);
    expect(await events(cluster)).toEqual([]);

    const restarted = new MemoryCluster();
    publish(restarted, 'SidecarTerminator=true');
    let first = true;
    const kube = restarted.client(async ({ verb }) => {
      if (verb === 'get' && !first) publish(restarted, '');
      first = false;
    });
    const stop = new AbortController();
    stops.push(stop);
    const gates = parseFeatureGates('');
    void compareFeatureGates({
      kube,
      role: 'worker',
      gates,
      namespace: 'kruise-system',
      log,
      signal: stop.signal,
      times,
    });
    await waitFor('some looks', () => restarted.calls.filter((call) => call.startsWith('get')).length > 5);
    expect(await events(restarted)).toEqual([]);
  });

  it('goes on where nothing is published, or nothing can be read', async () => {
    const cluster = new MemoryCluster();
    void compare(cluster, '');
    await waitFor('some looks', () => cluster.calls.length > 5);
    publish(cluster, 'SidecarTerminator=true');
    await waitFor('the Event', async () => (await events(cluster)).length > 0);
  });

  it('leaves out gates that another version does not know', () => {
    const published = { featureGates: new Map([['FromTomorrow', true]]) };
    expect(differingGates(parseFeatureGates(), published)).toEqual([]);
  });
});
