import { describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { kubectlKruise } from '../support/kruise-command.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { podWith, type SidecarPod, sidecarSet } from '../support/sidecar-world.ts';
import { smallCluster } from '../support/small-cluster.ts';

const namespaces = ['shop', 'other'].map(
  (name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }) as unknown as KubeObject,
);

/** What applying this spec does to pods with image log:1. */
async function plan(spec: JsonObject, pods: Readonly<Record<string, SidecarPod>> = { a: {}, b: {}, c: {} }) {
  const live = sidecarSet('log:1', { metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } });
  const found = Object.entries(pods).map(([name, options]) => podWith(live, name, options));
  const cluster = smallCluster([live, ...namespaces, ...found] as KubeObject[]);
  const stdin = stringify(sidecarSetDraft({ spec }));
  return await kubectlKruise(['plan', '-f', '-'], { cluster, stdin });
}

const containers = [{ name: 'log', image: 'log:2' }];

describe('kubectl kruise plan of a SidecarSet', () => {
  it('shows the pods of all namespaces in the order of their update', async () => {
    const spec = { containers, updateStrategy: { maxUnavailable: 2 } };
    const said = await plan(spec, { a: {}, b: { namespace: 'other' }, down: { ready: false } });
    expect(said).toMatchObject({ code: 0, err: '' });
    expect(said.out).toContain('SidecarSet logs: 3 in place; 2 batches of at most 2');
    expect(said.out).toContain('spec.containers[0].image: log:1 -> log:2');
    expect(said.out).toMatch(/1 +shop\/down +in place +containers log/);
    expect(said.out).toMatch(/ other\/b +in place +containers log/);
  });

  it('SCS-154, SCS-192: says which pods the partition keeps, and which field no running pod can take', async () => {
    const kept = await plan({ containers, updateStrategy: { partition: 2 } });
    expect(kept.out).toContain('1 in place, 2 kept');
    const env = [{ name: 'A', value: 'b' }];
    const stuck = await plan({ containers: [{ name: 'log', image: 'log:2', env }] });
    expect(stuck.out).toContain('SidecarSet logs: 3 impossible');
    expect(stuck.out).toMatch(/shop\/a +impossible +.*differs: only a new pod gets it/);
    const left = await plan({ containers, updateStrategy: { type: 'NotUpdate' } });
    expect(left.out).toContain('type NotUpdate: running pods are not updated');
  });

  it('is refused as admission refuses it', async () => {
    const said = await plan({ containers, updateStrategy: { maxUnavailable: 'many' } });
    expect(said.code).toBe(1);
    expect(said.err).toContain('spec.updateStrategy.maxUnavailable');
  });
});
