import { describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { Container, ContainerStatus, Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { formatContainersMeta, plainHash } from '../../api/in-place/containers-meta.ts';
import { expectedEnvHash } from '../../api/in-place/env-hash.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { currentContent } from '../../api/sidecar-set/injection/choose.ts';
import { injectSets } from '../../api/sidecar-set/injection/inject.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { staleContainers } from '../../plan/fleet/in-place/completion.ts';
import { decideInPlace } from '../../plan/fleet/in-place/decide.ts';
import { isManaged, recordedHash } from '../../plan/sidecar-set/pods.ts';
import { sidecarSetStatus } from '../../plan/sidecar-set/status.ts';
import { inPlacePod, revisionWith, templateContainer } from '../support/in-place-pod.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';

function aSet(containers: readonly JsonObject[]): SidecarSet {
  return defaultSidecarSet(sidecarSetDraft({ spec: { containers } })) as unknown as SidecarSet;
}

/** A new pod as the API server stores it. */
function created(set: SidecarSet): Pod {
  const template = inPlacePod([{ name: 'app', image: 'app:1' }]) as unknown as JsonObject;
  const sets = [{ set, chosen: currentContent(set) }];
  const result = injectSets(template, sets, { sort: false, now: '2026-01-02T03:04:05Z' });
  if (result.kind !== 'injected') throw new Error(result.failure.why);
  return result.pod as unknown as Pod;
}

function withStatus(pod: Pod, ready: boolean, restartCount: number): Pod {
  const containerStatuses = pod.spec.containers.map(
    ({ name, image = '' }): ContainerStatus => ({ name, image, imageID: image, ready, restartCount }),
  );
  const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False' }];
  return { ...pod, status: { phase: 'Running', conditions, containerStatuses } };
}

describe('the life of a pod with sidecars', () => {
  const old = aSet([{ name: 'log', image: 'log:1' }]);
  const next = aSet([{ name: 'log', image: 'log:2' }]);
  const statusOf = (set: SidecarSet, pod: Pod) =>
    sidecarSetStatus(set, {
      pods: [pod].filter((one) => isManaged(set, one, {})),
      latestRevision: 'x',
      collisionCount: 0,
    });

  it('SCS-225: a crash and a restart in place change nothing but readiness', () => {
    const pod = created(old);
    const steps = [withStatus(pod, true, 0), withStatus(pod, false, 1), withStatus(pod, true, 1)];
    expect(steps.map((one) => statusOf(old, one))).toMatchObject([
      { matchedPods: 1, updatedPods: 1, readyPods: 1 },
      { matchedPods: 1, updatedPods: 1, readyPods: 0 },
      { matchedPods: 1, updatedPods: 1, readyPods: 1 },
    ]);
    // a restart brings no newer content either
    expect(statusOf(next, withStatus(pod, true, 1))).toMatchObject({ matchedPods: 1, updatedPods: 0, readyPods: 1 });
  });

  it('SCS-225: a pod that its workload recreates gets the present content', () => {
    const pod = created(next);
    expect(pod.spec.containers.map(({ image }) => image)).toEqual(['log:2', 'app:1']);
    expect(recordedHash(pod, 'logs')).toBe(currentContent(next).hashes.whole);
    expect(statusOf(next, withStatus(pod, true, 0))).toMatchObject({ matchedPods: 1, updatedPods: 1, readyPods: 1 });
  });
});

describe('the versions of hot-upgrade sidecars', () => {
  const gates = parseFeatureGates();
  const hot = {
    name: 'mesh',
    image: 'mesh:1',
    upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'e' },
  };

  /** A pod out of service for an update, whose containers were started with its present metadata. */
  function running({ metadata, spec }: Pod): Pod {
    const idOf = (name: string) => `containerd://${name}`;
    const report = spec.containers.map((container) => ({
      ...{ name: container.name, containerID: idOf(container.name), restartCount: 0 },
      plainHash: plainHash(container),
      envHash: expectedEnvHash(container, metadata),
    }));
    const annotations = { ...metadata.annotations, [inPlaceAnnotation.containersMeta]: formatContainersMeta(report) };
    return {
      ...{ apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, annotations }, spec },
      status: {
        conditions: [{ type: inPlaceReadinessGate, status: 'False' }],
        containerStatuses: spec.containers.map(({ name, image = '' }) => ({
          ...{ name, image, imageID: image, ready: true, restartCount: 0 },
          ...{ containerID: idOf(name), state: { running: {} } },
        })),
      },
    };
  }

  function swapped(pod: Pod): Pod {
    const versions = ['mesh-1', 'mesh-2'].flatMap((name) => [
      [`${hotMark.version}${name}`, '7'],
      [`${hotMark.otherVersion}${name}`, '8'],
    ]);
    const annotations = { ...pod.metadata.annotations, ...Object.fromEntries(versions) };
    return { ...pod, metadata: { ...pod.metadata, annotations } };
  }

  function renamed(pod: Pod, from: string, to: string): Pod {
    const rename = (container: Container): Container => ({
      ...container,
      env: (container.env ?? []).map((one) => (one.name === from ? { ...one, name: to } : one)),
    });
    return { ...pod, spec: { ...pod.spec, containers: pod.spec.containers.map(rename) } };
  }

  it('SHU-85: restart no container when their annotations change', () => {
    const pod = created(aSet([hot]));
    const variables = pod.spec.containers[0]?.env?.map(({ name }) => name);
    expect(variables).toEqual(['IS_INJECTED', 'SIDECARSET_VERSION', 'SIDECARSET_VERSION_ALT']);
    expect(staleContainers(swapped(running(pod)))).toEqual([]);
  });

  it.each([hotMark.versionEnv, hotMark.otherVersionEnv])(
    'SHU-85: ignore exactly these names: another variable than %s with the same annotation is refreshed',
    (name) => {
      const other = renamed(created(aSet([hot])), name, `${name}_2`);
      expect(staleContainers(swapped(running(other))).map((one) => one.name)).toEqual(['mesh-1', 'mesh-2']);
    },
  );

  it.each([
    [hotMark.versionEnv, false],
    [hotMark.otherVersionEnv, false],
    ['SIDECARSET_VERSION_OTHER', true],
    ['TEAM', true],
  ])('SHU-85: a workload that changes an annotation in variable %s restarts for it: %s', (name, restarts) => {
    const key = `${hotMark.version}mesh-1`;
    const env = [{ name, valueFrom: { fieldRef: { fieldPath: `metadata.annotations['${key}']` } } }];
    const revision = (value: string) =>
      revisionWith([templateContainer('mesh-1', 'mesh:1', { env })], { metadata: { annotations: { [key]: value } } });
    const decision = decideInPlace({
      ...{ policy: 'InPlaceIfPossible', gates, recreatesForClaims: false },
      ...{ oldRevision: revision('1'), newRevision: revision('2') },
    });
    expect(decision).toMatchObject({ kind: 'inPlace', change: { updateEnvFromMetadata: restarts } });
    expect(objectOr(objectOr(decision).change).refMetadata).toEqual(
      restarts ? { 'mesh-1': { annotations: { [key]: '2' } } } : {},
    );
  });
});
