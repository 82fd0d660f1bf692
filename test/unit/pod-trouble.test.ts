import { describe, expect, it } from '@jest/globals';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { trimPod as trimForDaemon } from '../../daemon/pod-view.ts';
import { containerTrouble, podTrouble, troubleIn } from '../../plan/pod-trouble.ts';
import { trimPod } from '../../watcher/trim.ts';
import { aPod } from '../support/objects/pod.ts';

const image = '10.88.0.1:5000/busybox:1.99';
const notFound = `failed to pull and unpack image "${image}": not found`;
const pulling = { waiting: { reason: 'ErrImagePull', message: notFound } };
const backingOff = {
  waiting: { reason: 'ImagePullBackOff', message: `Back-off pulling image "${image}": ErrImagePull: ${notFound}` },
};
const crashing = {
  image,
  state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 40s restarting failed container=app' } },
  lastState: { terminated: { exitCode: 137, reason: 'OOMKilled', containerID: 'containerd://0' } },
};

const owner = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'u', controller: true };
const marks = { 'kruise.io/sidecarset-injected-list': 'mesh' };

type State = Pick<ContainerStatus, 'state' | 'lastState' | 'image'>;

function status(name: string, given: State): ContainerStatus {
  return { name, ready: false, restartCount: 1, ...given };
}

function podOf(app: State, { spec = {}, inits = {} as Readonly<Record<string, State>>, metadata = {} } = {}): Pod {
  return aPod({
    metadata,
    spec: { nodeName: 'node-1', containers: [{ name: 'app', image }, { name: 'log' }], ...spec },
    status: {
      phase: 'Pending',
      containerStatuses: [status('log', { state: { running: {} } }), status('app', app)],
      initContainerStatuses: Object.entries(inits).map(([name, given]) => status(name, given)),
    },
  });
}

describe('what is said of a pod that does not get ready', () => {
  it.each([
    ['an image that cannot be pulled', { state: pulling }, `ErrImagePull: ${notFound}`],
    ['the same between two attempts, in the same words', { state: backingOff }, `ErrImagePull: ${notFound}`],
    [
      'an image that the message does not name',
      { state: { waiting: { reason: 'ErrImageNeverPull', message: 'not present with pull policy of Never' } } },
      `ErrImageNeverPull: ${image}: not present with pull policy of Never`,
    ],
    ['a container that crashes, with its exit code', crashing, 'CrashLoopBackOff: exit code 137 (OOMKilled)'],
    [
      'a container with another image that has not started yet: whose exit code it is',
      { ...crashing, image: '10.88.0.1:5000/busybox:1.28' },
      `CrashLoopBackOff: exit code 137 (OOMKilled) of 10.88.0.1:5000/busybox:1.28, which ran before; ${image} is tried again later`,
    ],
    [
      'an image that the runtime names by its ID only',
      { ...crashing, image: `sha256:${'0'.repeat(64)}` },
      'CrashLoopBackOff: exit code 137 (OOMKilled)',
    ],
    ['one of which the last end is not known', { state: crashing.state }, 'CrashLoopBackOff'],
    [
      'a command that does not exist, in one line',
      { state: { waiting: { reason: 'RunContainerError', message: 'exec: "nope":\n  not found\t' } } },
      'RunContainerError: exec: "nope": not found',
    ],
  ])('%s', (_, app, text) => {
    expect(podTrouble(podOf(app))).toBe(`app: ${text}`);
    expect(containerTrouble(podOf(app), 'app')).toBe(text);
  });

  it.each([
    ['runs', { state: { running: {} } }],
    ['is being created', { state: { waiting: { reason: 'ContainerCreating' } } }],
    ['waits for init containers', { state: { waiting: { reason: 'PodInitializing' } } }],
    ['has ended a moment ago, and is restarted', { state: { terminated: { exitCode: 1, reason: 'Error' } } }],
    [
      'waits for its turn at the start',
      { state: { waiting: { reason: 'CreateContainerConfigError', message: 'configmap "web-barrier" not found' } } },
    ],
    ['has no state', {}],
  ])('nothing of a container that %s', (_, app) => {
    expect(podTrouble(podOf(app))).toBeUndefined();
  });

  it('the exit code of a container that is not restarted', () => {
    const ended = podOf(
      { state: { terminated: { exitCode: 3, reason: 'Error' } } },
      { spec: { restartPolicy: 'Never' } },
    );
    expect(podTrouble(ended)).toBe('app: exit code 3 (Error)');
  });

  it('an init container first, as the others wait for it; and of the others only those that are asked for', () => {
    const inits = { setup: crashing };
    expect(podTrouble(podOf({ state: pulling }, { inits }))).toBe('setup: CrashLoopBackOff: exit code 137 (OOMKilled)');
    expect(podTrouble(podOf({ state: pulling }), ['log'])).toBeUndefined();
    expect(podTrouble(podOf({ state: pulling }), ['app'])).toBe(`app: ErrImagePull: ${notFound}`);
  });

  it('why the scheduler finds no node', () => {
    const message = '0/3 nodes are available: 3 Insufficient cpu.';
    const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }];
    expect(podTrouble(aPod({ status: { conditions } }))).toBe(`Unschedulable: ${message}`);
  });

  it('of several pods the first of which anything is said, with its name', () => {
    const pods = [podOf({ state: { running: {} } }), podOf(crashing)].map((pod, at) => ({ name: `web-${at}`, pod }));
    expect(troubleIn(pods)).toBe('web-1: app: CrashLoopBackOff: exit code 137 (OOMKilled)');
    expect(troubleIn(pods.slice(0, 1))).toBeUndefined();
  });

  it('no more than a wait has room for, whatever a runtime says', () => {
    const message = `\u0000\u001b${'é\n'.repeat(200_000)}`;
    for (const reason of ['RunContainerError', 'ErrImagePull', 'CrashLoopBackOff', 'x'.repeat(5_000)]) {
      const lastState = { terminated: { exitCode: 1, reason: message } };
      const said = podTrouble(podOf({ state: { waiting: { reason, message } }, lastState })) ?? '';
      expect(jsonBytes(said)).toBeLessThan(420);
      expect(said).not.toMatch(/\n/);
    }
  });

  it.each([
    ['the pull of an image', { state: backingOff }],
    ['a crash', crashing],
  ])('the caches of watcher and daemon keep what is said of %s', (_, app) => {
    const text = podTrouble(podOf(app));
    const env = [{ name: 'KRUISE_CONTAINER_PRIORITY', value: '1' }];
    const ofFleet = podOf(app, { metadata: { ownerReferences: [owner] } });
    const ofSidecarSet = podOf(app, { metadata: { annotations: marks } });
    const ofLaunch = podOf(app, { spec: { containers: [{ name: 'app', image, env }, { name: 'log' }] } });
    for (const pod of [ofFleet, ofSidecarSet, ofLaunch]) expect(podTrouble(trimPod(pod))).toBe(text);
    expect(podTrouble(trimForDaemon(ofFleet, { DaemonWatchingPod: true }))).toBe(text);
  });

  it('the cache of the watcher keeps which image a container crashed with', () => {
    const pod = podOf({ ...crashing, image: 'busybox:1.28' }, { metadata: { annotations: marks } });
    expect(podTrouble(trimPod(pod))).toMatch(/ of busybox:1\.28, which ran before; /);
    const ofFleet = podOf({ ...crashing, image: 'busybox:1.28' }, { metadata: { ownerReferences: [owner] } });
    expect(podTrouble(trimPod(ofFleet))).toBe(podTrouble(pod));
  });

  it('the caches keep only the init containers that hold a pod back', () => {
    const inits = { done: { state: { terminated: { exitCode: 0, reason: 'Completed' } } }, setup: { state: pulling } };
    const pod = podOf({}, { inits, metadata: { ownerReferences: [owner] } });
    expect(trimPod(pod).status?.initContainerStatuses).toEqual([
      { name: 'setup', ready: false, restartCount: 1, state: pulling },
    ]);
    expect(podTrouble(trimPod(pod))).toBe(`setup: ErrImagePull: ${notFound}`);
  });
});
