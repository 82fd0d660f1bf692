import { describe, expect, it } from '@jest/globals';
import { environmentActivities } from '../../activities/kube/environment.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { RefreshOperation } from '../../api/container-recreate-request/operation.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Container, ContainerStatus, Pod } from '../../api/core/pod.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { formatContainersMeta, plainHash } from '../../api/in-place/containers-meta.ts';
import { expectedEnvHash } from '../../api/in-place/env-hash.ts';
import { formatState } from '../../api/in-place/state.ts';
import { noWork } from '../../api/in-place/work.ts';
import { KubeError } from '../../kube/failures.ts';
import { staleContainers } from '../../plan/fleet/in-place/completion.ts';
import {
  applyRefreshEvent,
  newRefresh,
  nextRefresh,
  type RefreshEvent,
  refreshRetryMs,
  type StaleInstance,
} from '../../plan/refresh-environment.ts';
import { inPlacePod } from '../support/in-place-pod.ts';
import { aNode } from '../support/objects/node.ts';

const follows = (name: string, image = 'docker.io/library/shop:1'): Container => ({
  name,
  image,
  env: [{ name: 'TIER', valueFrom: { fieldRef: { fieldPath: "metadata.labels['tier']" } } }],
});

interface Setting {
  readonly containers?: readonly Container[];
  /** What the containers were started from. Absent: the image of the spec. */
  readonly startedFrom?: string;
  readonly plainHash?: number;
  readonly statuses?: Readonly<Record<string, Partial<ContainerStatus>>>;
  readonly gate?: string;
  /** Image IDs on record, by container. */
  readonly recordedIds?: Readonly<Record<string, string>>;
}

/** A pod out of service, whose containers were started with `tier: silver` and should have `tier: gold`. */
function pod(setting: Setting = {}): Pod {
  const { containers = [follows('app'), { name: 'logger', image: 'log:1' }], statuses = {}, gate = 'False' } = setting;
  const running = (name: string): Partial<ContainerStatus> => ({
    containerID: `containerd://${name}-0`,
    state: { running: {} },
    ...statuses[name],
  });
  const entries = containers.map((container) => ({
    name: container.name,
    containerID: `containerd://${container.name}-0`,
    restartCount: 0,
    plainHash: setting.plainHash ?? plainHash({ ...container, image: setting.startedFrom ?? container.image ?? '' }),
    envHash: expectedEnvHash(container, { labels: { tier: 'silver' } }),
  }));
  const state = formatState({
    revision: 'web-2',
    updateTimestamp: '2026-07-01T08:00:00Z',
    lastContainerStatuses: Object.fromEntries(
      Object.entries(setting.recordedIds ?? {}).map(([name, imageID]) => [name, { imageID }]),
    ),
    updateEnvFromMetadata: true,
    updateResources: false,
    updateImages: setting.recordedIds !== undefined,
    next: noWork,
    requiredReady: [],
    batches: [],
  });
  return inPlacePod(containers, {
    labels: { tier: 'gold' },
    annotations: {
      [inPlaceAnnotation.containersMeta]: formatContainersMeta(entries),
      [inPlaceAnnotation.state]: state,
    },
    conditions: [{ type: inPlaceReadinessGate, status: gate }],
    statuses: Object.fromEntries(containers.map(({ name }) => [name, running(name)])),
  });
}

const namesOf = (of: Pod) => staleContainers(of).map(({ name }) => name);

describe('the containers with an old environment', () => {
  it('ND-27, IPU-48: are those whose reported hash is known and not the one of now', () => {
    expect(staleContainers(pod())).toEqual([{ name: 'app', containerID: 'containerd://app-0' }]);
    const both = pod({ containers: [follows('app'), follows('side')] });
    expect(namesOf(both)).toEqual(['app', 'side']);

    const { [inPlaceAnnotation.containersMeta]: report = '', ...others } = both.metadata.annotations ?? {};
    const unknown = report.replace(/,"extractedEnvFromMetadataHash":\d+/, '');
    const withReport = (text: string | undefined): Pod => ({
      ...both,
      metadata: {
        ...both.metadata,
        annotations: { ...others, ...(text !== undefined && { [inPlaceAnnotation.containersMeta]: text }) },
      },
    });
    expect(namesOf(withReport(unknown))).toEqual(['side']);
    expect(namesOf(withReport('nonsense'))).toEqual([]);
    expect(namesOf(withReport(undefined))).toEqual([]);
  });

  it('ND-29, IPU-48: are none while the pod is in service, or has no gate', () => {
    expect(namesOf(pod({ gate: 'True' }))).toEqual([]);
    const gateless = pod();
    expect(namesOf({ ...gateless, status: { ...gateless.status, conditions: [] } })).toEqual([]);
  });

  it('ND-27, ND-28: are instances that run, and that the report is about', () => {
    const ended = { state: { terminated: { exitCode: 0 } } };
    expect(namesOf(pod({ statuses: { app: ended } }))).toEqual([]);
    expect(namesOf(pod({ statuses: { app: { containerID: 'containerd://app-1' } } }))).toEqual([]);
    const going = pod();
    expect(namesOf({ ...going, metadata: { ...going.metadata, deletionTimestamp: 'soon' } })).toEqual([]);
  });

  it('are none that nobody would start again', () => {
    const once = pod();
    expect(namesOf({ ...once, spec: { ...once.spec, restartPolicy: 'Never' } })).toEqual([]);
    expect(namesOf({ ...once, spec: { ...once.spec, restartPolicy: 'Always' } })).toEqual(['app']);
  });

  it('IPU-48: are none that the kubelet replaces for their image, however it tells from what they were started', () => {
    const image = 'docker.io/library/shop:2';
    const swapped = { containers: [follows('app', image)] };
    const old = { image: 'docker.io/library/shop:1', imageID: 'id-1' };
    for (const startedFrom of ['shop:1', 'docker.io/library/shop:1']) {
      expect(namesOf(pod({ ...swapped, startedFrom, statuses: { app: old } }))).toEqual([]);
    }
    // a kubelet whose hash cannot be computed: then the record of the update decides
    const recorded = { ...swapped, plainHash: 1, recordedIds: { app: 'id-1' } };
    expect(namesOf(pod({ ...recorded, statuses: { app: old } }))).toEqual([]);
    expect(namesOf(pod({ ...recorded, statuses: { app: { image, imageID: 'id-2' } } }))).toEqual(['app']);
    expect(namesOf(pod({ ...swapped, plainHash: 1, statuses: { app: { image, imageID: 'id-1' } } }))).toEqual(['app']);
  });
});

const instance = (name: string): StaleInstance => ({ name, runtime: 'containerd', containerId: `${name}-0` });
const seen = (...names: readonly string[]) => ({ kind: 'seen', instances: names.map(instance), more: false }) as const;
const progressAfter = (...news: readonly RefreshEvent[]) => news.reduce(applyRefreshEvent, newRefresh('web'));
const command = (name: 'pause' | 'resume' | 'retry' | 'skip' | 'abort', more: { by?: string; target?: string } = {}) =>
  ({ kind: 'command', command: { name, ...more } }) as const;
const failed = { kind: 'failed', reason: 'StopFailed', message: 'permission denied' } as const;

describe('nextRefresh', () => {
  it('ND-28: stops all of them at once, and each instance once', () => {
    expect(nextRefresh(progressAfter(), seen('app', 'side'))).toMatchObject({
      kind: 'stop',
      instances: [{ name: 'app' }, { name: 'side' }],
    });
    const stopped = { kind: 'stopped', containerId: 'app-0' } as const;
    expect(nextRefresh(progressAfter(stopped), seen('app', 'side'))).toMatchObject({
      kind: 'stop',
      instances: [{ name: 'side' }],
    });
    expect(nextRefresh(progressAfter(stopped), seen('app'))).toEqual({ kind: 'done' });
    const anew = { kind: 'seen', instances: [{ ...instance('app'), containerId: 'app-1' }], more: false } as const;
    expect(nextRefresh(progressAfter(stopped), anew)).toMatchObject({
      kind: 'stop',
      instances: [{ containerId: 'app-1' }],
    });
  });

  it('is done when nothing is old, or the pod is gone', () => {
    expect(nextRefresh(progressAfter(), seen())).toEqual({ kind: 'done' });
    expect(nextRefresh(progressAfter(failed), { kind: 'gone' })).toEqual({ kind: 'done' });
  });

  it('ND-28: tries again what failed, after pauses from 3 s to 10 min, and says meanwhile what is in the way', () => {
    const pauses = [1, 2, 3, 20].map((times) => {
      const decision = nextRefresh(progressAfter(...Array.from({ length: times }, () => failed)), seen('app'));
      expect(decision).toMatchObject({
        waitingFor: {
          reason: 'StopFailed',
          blockedBy: ['container/app'],
          unblock: expect.stringContaining('permission denied'),
        },
      });
      return decision.kind === 'wait' && decision.againInMs;
    });
    expect(pauses).toEqual([3_000, 6_000, 12_000, refreshRetryMs.most]);
    expect(nextRefresh(progressAfter(failed, { kind: 'tryAgain' }), seen('app')).kind).toBe('stop');
    expect(nextRefresh(progressAfter(failed, failed, command('retry')), seen('app')).kind).toBe('stop');
    const silent = progressAfter({ kind: 'failed', reason: 'NodeSilent', message: 'no answer' });
    expect(nextRefresh(silent, seen('app'))).toMatchObject({ waitingFor: { blockedBy: ['pod/web'] } });
  });

  it('stops nothing while it is paused, and says who has paused it', () => {
    const decision = nextRefresh(progressAfter(command('pause', { by: 'ann' })), seen('app'));
    expect(decision).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'Paused', unblock: expect.stringContaining('ann') },
    });
    expect(decision).not.toHaveProperty('againInMs');
    expect(nextRefresh(progressAfter(command('pause'), command('resume')), seen('app')).kind).toBe('stop');
    expect(nextRefresh(progressAfter(command('pause')), seen())).toEqual({ kind: 'done' });
  });

  it('leaves out what is skipped until a retry, and stops nothing after an abort', () => {
    expect(nextRefresh(progressAfter(command('skip', { target: 'app' })), seen('app'))).toEqual({ kind: 'done' });
    expect(nextRefresh(progressAfter(command('skip', { target: 'app' }), command('retry')), seen('app')).kind).toBe(
      'stop',
    );
    expect(nextRefresh(progressAfter(command('skip')), seen('app')).kind).toBe('stop');
    expect(nextRefresh(progressAfter(command('abort')), seen('app'))).toEqual({ kind: 'done' });
  });

  it('looks again where a look did not hold everything', () => {
    const stopped = { kind: 'stopped', containerId: 'app-0' } as const;
    expect(nextRefresh(progressAfter(stopped), { ...seen('app'), more: true })).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'ContainersStarting' },
      againInMs: 3_000,
    });
  });

  it('keeps what it says small, whatever a runtime says', () => {
    const decision = nextRefresh(progressAfter({ ...failed, message: 'x'.repeat(9_000) }), seen('app'));
    expect(jsonBytes(decision)).toBeLessThan(1_500);
  });
});

describe('lookAtEnvironment', () => {
  const operation: RefreshOperation = {
    refresh: 'environment',
    pod: { namespace: 'shop', name: 'web-1', uid: 'u-1' },
    node: { name: 'node-1', uid: 'gone-node-1' },
  };
  const node = aNode({ metadata: { uid: 'n-1' } });

  function lookAt(live: Pod | KubeError) {
    const get = async (resource: { readonly kind: string }): Promise<KubeObject> => {
      if (resource.kind === 'Node') return node;
      if (live instanceof KubeError) throw live;
      return live;
    };
    return environmentActivities({ kube: { get: get as never } }).lookAtEnvironment(operation);
  }

  it('ND-27: finds instances by ID, and the node as it is now', async () => {
    await expect(lookAt(pod())).resolves.toEqual({
      kind: 'seen',
      instances: [{ name: 'app', runtime: 'containerd', containerId: 'app-0' }],
      more: false,
      node: { name: 'node-1', uid: 'n-1' },
    });
  });

  it('takes a pod that goes, is another one, or is not there for gone', async () => {
    const one = pod();
    const missing = new KubeError({ status: 404, reason: 'NotFound', message: 'pods "web-1" not found' });
    const others = [
      { ...one, metadata: { ...one.metadata, deletionTimestamp: 'soon' } },
      { ...one, metadata: { ...one.metadata, uid: 'u-2' } },
      missing,
    ];
    for (const other of others) await expect(lookAt(other)).resolves.toEqual({ kind: 'gone' });
    await expect(lookAt(new KubeError({ status: 0, message: 'refused' }))).rejects.toMatchObject({
      type: 'Unreachable',
      message: expect.stringContaining('Cannot read the environment of pod "shop/web-1"'),
    });
  });

  it('fits into a history, however many containers a pod has', async () => {
    const containers = Array.from({ length: 60 }, (_, index) => follows(`${'x'.repeat(60)}-${index}`));
    const found = await lookAt(pod({ containers }));
    expect(found).toMatchObject({ more: true });
    expect(jsonBytes(found)).toBeLessThan(4_096);
  });
});
