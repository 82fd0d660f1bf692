import { afterEach, describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import type { JsonObject } from '../../api/base/json.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type PodProbeMarker, podProbeMarker, serverlessAnnotation } from '../../api/pod-probe-marker/types.ts';
import { podChain, reviewPod } from '../../webhook/pod.ts';
import { reviewPodProbeMarker } from '../../webhook/pod-probe-marker.ts';
import { type FollowedMarkers, followMarkers } from '../../webhook/review/followed-markers.ts';
import type { AdmissionRequest, Verdict } from '../../webhook/review/review.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { podDraft } from '../support/objects/pod.ts';
import { execProbe, marker, probe } from '../support/pod-probes.ts';
import { waitFor } from '../support/wait.ts';

const signal = new AbortController().signal;

function request(operation: AdmissionRequest['operation'], object?: object, oldObject?: object): AdmissionRequest {
  const asJson = (given: object) => JSON.parse(JSON.stringify(given)) as JsonObject;
  return {
    uid: 'r',
    operation,
    kind: { group: '', kind: '' },
    subResource: '',
    namespace: 'shop',
    name: '',
    dryRun: false,
    fieldValidation: 'Warn',
    user: 'somebody',
    ...(object && { object: asJson(object) }),
    ...(oldObject && { oldObject: asJson(oldObject) }),
  };
}

describe('admission of a marker', () => {
  const judge = async (given: AdmissionRequest, gates = '') =>
    await reviewPodProbeMarker(parseFeatureGates(gates))(given, signal);

  it('lets good ones through, and answers 400 with every problem of others', async () => {
    expect(await judge(request('CREATE', marker()))).toEqual({ kind: 'allowed' });
    const bad = marker([probe({ name: 'a#b', containerName: '' })]);
    expect(await judge(request('CREATE', bad))).toMatchObject({
      kind: 'refused',
      code: 400,
      errors: [{ field: 'spec.probes[0].name' }, { field: 'spec.probes[0].containerName' }],
    });
    expect(await judge(request('DELETE', undefined, marker()))).toEqual({ kind: 'allowed' });
  });

  it('keeps the selector', async () => {
    const other = marker(undefined, {}, { matchLabels: { app: 'db' } });
    expect(await judge(request('UPDATE', other, marker()))).toMatchObject({
      code: 400,
      errors: [{ field: 'spec.selector' }],
    });
    await expect(judge(request('UPDATE', other))).rejects.toThrow('oldObject');
  });

  it.each(['PodProbeMarkerGate', 'KruiseDaemon'])(
    'FG-4: with gate %s off it refuses new ones and changes, but not the way out',
    async (gate) => {
      const off = `${gate}=false`;
      const refused = { kind: 'refused', code: 403, message: `feature-gate ${gate} is not enabled` };
      expect(await judge(request('CREATE', marker()), off)).toMatchObject(refused);
      expect(await judge(request('UPDATE', marker(), marker()), off)).toMatchObject(refused);
      const going = marker(undefined, { deletionTimestamp: '2026-01-01T00:00:00Z' });
      expect(await judge(request('UPDATE', going, going), off)).toEqual({ kind: 'allowed' });
    },
  );
});

describe('a new pod', () => {
  const pod = (overrides: { metadata?: object; spec?: object } = {}): JsonObject =>
    podDraft({ ...overrides, metadata: { name: 'web', labels: { app: 'web' }, ...overrides.metadata } });

  async function admitted(
    given: JsonObject,
    gates: string,
    markers: readonly PodProbeMarker[] = [],
  ): Promise<JsonObject> {
    const verdict: Verdict = await reviewPod(
      parseFeatureGates(gates),
      podChain,
      () => markers,
    )(request('CREATE', given), signal);
    if (verdict.kind !== 'allowed' || !verdict.object) throw new Error('it is let through');
    return verdict.object;
  }

  function annotationsOf(object: JsonObject): Readonly<Record<string, string>> {
    return ((object.metadata as JsonObject).annotations ?? {}) as Readonly<Record<string, string>>;
  }

  const serverless = 'EnablePodProbeMarkerOnServerless=true';

  it('PPS-1: carries the probes of its markers for providers, in compact JSON, and the names of the markers', async () => {
    const http = { httpGet: { scheme: 'HTTP', port: 80, path: '/<a>' }, periodSeconds: 0, timeoutSeconds: 3 };
    const markers = [
      marker([probe({ name: 'up', probe: http, podConditionType: 'b', containerName: 'side' })], { name: 'b' }),
      marker([probe({ markerPolicy: [{ state: 'Failed', labels: { a: 'b' } }] })], { name: 'a' }),
    ];
    const sidecar = [{ name: 'side', restartPolicy: 'Always' }, { name: 'init' }];
    const after = await admitted(
      pod({ spec: { containers: [{ name: 'app' }], initContainers: sidecar } }),
      serverless,
      markers,
    );
    expect(annotationsOf(after)).toEqual({
      [serverlessAnnotation.markers]: 'a,b',
      [serverlessAnnotation.probes]:
        '[{"name":"idle","containerName":"app","probe":{"exec":{"command":["true"]}},"podConditionType":"game.io/idle"},' +
        '{"name":"up","containerName":"side","probe":{"httpGet":{"path":"/\\u003ca\\u003e","port":80,"scheme":"HTTP"},' +
        '"timeoutSeconds":3},"podConditionType":"b"}]',
    });
  });

  it('PPS-1: carries no probe without condition, of no container of its own, or taken already, and else nothing', async () => {
    const useless = [
      marker([probe({ podConditionType: '' })], { name: 'silent' }),
      marker([probe({ containerName: 'none' })], { name: 'nobody' }),
      marker(undefined, { name: 'other' }, { matchLabels: { app: 'db' } }),
      marker(undefined, { name: 'going', deletionTimestamp: '2026-01-01T00:00:00Z' }),
    ];
    const before = pod();
    expect(await admitted(before, serverless, useless)).toEqual(before);
    expect(await admitted(before, '', [marker()])).toEqual(before);
    const twice = [marker(), marker([probe({ podConditionType: 'c' }), probe({ name: 'x' })], { name: 'again' })];
    const kept = annotationsOf(await admitted(before, serverless, twice));
    expect(kept[serverlessAnnotation.markers]).toBe('again');
    expect(JSON.parse(kept[serverlessAnnotation.probes] ?? '')).toMatchObject([{ name: 'idle' }, { name: 'x' }]);
  });

  it('loses its liveness probes into an annotation where the suite owns it, it says so, and the gate is on', async () => {
    const gate = 'EnhancedLivenessProbe=true';
    const owner = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'w', uid: 'u', controller: true };
    const annotations = { 'apps.kruise.io/using-enhanced-liveness': 'true' };
    const containers = [{ name: 'app', livenessProbe: { ...execProbe, periodSeconds: 5 } }, { name: 'side' }];
    const mine = pod({ metadata: { ownerReferences: [owner], annotations }, spec: { containers } });
    const after = await admitted(mine, gate);
    expect((after.spec as JsonObject).containers).toEqual([{ name: 'app' }, { name: 'side' }]);
    expect(annotationsOf(after)['apps.kruise.io/container-probe-context']).toBe(
      '[{"name":"app","livenessProbe":{"exec":{"command":["true"]},"periodSeconds":5}}]',
    );
    const others = [
      pod({ metadata: { annotations }, spec: { containers } }),
      pod({ metadata: { ownerReferences: [owner] }, spec: { containers } }),
      pod({ metadata: { ownerReferences: [owner], annotations } }),
    ];
    for (const other of others)
      expect(annotationsOf(await admitted(other, gate))).not.toHaveProperty('apps.kruise.io/container-probe-context');
    expect((await admitted(mine, '')).spec).toMatchObject({ containers });
  });
});

describe('the markers that admission follows', () => {
  let markers: FollowedMarkers | undefined;

  afterEach(async () => {
    await markers?.stop();
  });

  it('are found by their namespace', async () => {
    const cluster = new MemoryCluster();
    const followed = followMarkers({ client: cluster.client(), log: pino({ level: 'silent' }) });
    markers = followed;
    expect(() => followed.inNamespace('shop')).toThrow('PodProbeMarkers have not been read yet');
    await followed.synced();
    expect(followed.inNamespace('shop')).toEqual([]);
    cluster.put(podProbeMarker, marker());
    cluster.put(podProbeMarker, marker(undefined, { name: 'second' }));
    cluster.put(podProbeMarker, marker(undefined, { namespace: 'bar', uid: 'other' }));
    await waitFor('both namespaces', () => followed.inNamespace('bar').length === 1);
    expect(followed.inNamespace('shop')).toHaveLength(2);
  });
});
