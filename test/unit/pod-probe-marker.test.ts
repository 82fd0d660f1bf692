import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { causeOf } from '../../api/core/field-error.ts';
import { handlerHash, namedPort, paceOf, withNumericPort } from '../../api/core/probe.ts';
import type { ContainerProbeState } from '../../api/node-pod-probe/types.ts';
import { type MarkerProbe, type PodProbeMarker, selectionOf } from '../../api/pod-probe-marker/types.ts';
import { validatePodProbeMarker, validatePodProbeMarkerUpdate } from '../../api/pod-probe-marker/validate.ts';
import {
  markersOf,
  marksLeft,
  marksOf,
  mayBeProbed,
  type ProbedPod,
  serverlessMarksOf,
  withConditions,
  workListOf,
} from '../../plan/probes/pod-probes.ts';
import { execProbe, marker, probe, probedPod } from '../support/pod-probes.ts';

const deleted = '2026-01-01T00:00:30Z';
const http = (port: number | string) => ({ httpGet: { path: '/ready', port, scheme: 'HTTP' } });

describe('the numbers of a probe', () => {
  it('are 1 wherever they are 0 or absent', () => {
    expect(paceOf({ exec: { command: ['true'] }, periodSeconds: 0, failureThreshold: 3 })).toEqual({
      initialDelaySeconds: 1,
      timeoutSeconds: 1,
      periodSeconds: 1,
      successThreshold: 1,
      failureThreshold: 3,
    });
  });

  it('do not affect the hash of a handler, and neither does the order of fields', () => {
    const one = handlerHash({ httpGet: { path: '/', port: 80, scheme: 'HTTP' }, periodSeconds: 1 });
    expect(handlerHash({ periodSeconds: 9, httpGet: { scheme: 'HTTP', port: 80, path: '/' } })).toBe(one);
    expect(handlerHash({ httpGet: { path: '/', port: 81, scheme: 'HTTP' } })).not.toBe(one);
  });

  it('PPM-5: named ports become numbers, and texts that are numbers are numbers', () => {
    const ports = [{ name: 'web', containerPort: 8080 }];
    expect(withNumericPort(http('web'), ports)).toEqual(http(8080));
    expect(withNumericPort(http('81'), [])).toEqual(http(81));
    expect(withNumericPort({ tcpSocket: { port: 'web' } }, ports)).toEqual({ tcpSocket: { port: 8080 } });
    expect(withNumericPort(http('none'), ports)).toBeUndefined();
    expect(withNumericPort(execProbe, [])).toBe(execProbe);
    expect([namedPort(http('web')), namedPort(http('81')), namedPort(http(80))]).toEqual(['web', undefined, undefined]);
  });
});

it('H6: a timeout is an hour at most, whatever a stored marker says', () => {
  expect(paceOf({ ...execProbe, timeoutSeconds: 2 ** 31 - 1 }).timeoutSeconds).toBe(3_600);
  expect(paceOf({ ...execProbe, timeoutSeconds: 600 }).timeoutSeconds).toBe(600);
});

describe('the markers of a pod', () => {
  it('PPM-1: are those of its namespace that select it; an empty selector selects nobody', () => {
    const all = [
      marker(undefined, { name: 'b' }),
      marker(undefined, { name: 'a' }),
      marker(undefined, { name: 'empty' }, {}),
      marker(undefined, { name: 'malformed' }, { matchExpressions: [{ key: 'app', operator: 'Is' }] }),
      marker(undefined, { name: 'other' }, { matchLabels: { app: 'db' } }),
      marker(undefined, { name: 'going', deletionTimestamp: deleted }),
    ];
    expect(markersOf(probedPod(), all).map(({ metadata }) => metadata.name)).toEqual(['a', 'b']);
    expect(selectionOf(marker(undefined, {}, { matchExpressions: [{ key: 'x', operator: 'DoesNotExist' }] }))({})).toBe(
      true,
    );
  });

  it.each([
    ['is going', { metadata: { deletionTimestamp: deleted } }],
    ['has ended', { status: { phase: 'Succeeded' } }],
    ['is not initialized', { status: { conditions: [{ type: 'Initialized', status: 'False' }] } }],
    ['is on no node', { spec: { nodeName: '' } }],
  ])('PPM-2: a pod does not match that %s', (_what, overrides) => {
    expect(mayBeProbed(probedPod())).toBe(true);
    expect(mayBeProbed(probedPod('web-1', overrides))).toBe(false);
  });
});

describe('the work list of a node', () => {
  const of = (...probed: readonly ProbedPod[]) => workListOf(probed, []).podProbes;

  it('PPM-4: has one entry for each pod, with the probes of all its markers under their names', () => {
    const markers = [marker([probe(), probe({ name: 'full', podConditionType: 'game.io/full' })]), gate()];
    const [entry, ...others] = of({ pod: probedPod(), markers });
    expect(others).toEqual([]);
    expect(entry).toEqual({
      name: 'web-1',
      namespace: 'shop',
      uid: 'uid-web-1',
      IP: '10.0.0.1',
      probes: [
        { name: 'game#idle', containerName: 'app', probe: execProbe },
        { name: 'game#full', containerName: 'app', probe: execProbe },
        { name: 'gate#idle', containerName: 'app', probe: execProbe },
      ],
    });
  });

  it('PPM-4: follows the IP of the pod', () => {
    const markers = [marker()];
    const pod = probedPod('web-1', { status: { podIP: '10.0.0.9' } });
    const before = of({ pod: probedPod(), markers });
    expect(workListOf([{ pod, markers }], before).podProbes[0]?.IP).toBe('10.0.0.9');
  });

  it('PPM-6: says no more than the markers do now, so that nothing of them is left behind', () => {
    const pod = probedPod();
    const before = of({ pod, markers: [marker([probe(), probe({ name: 'full' })])] });
    const changed = marker([probe({ containerName: 'other' })]);
    expect(workListOf([{ pod, markers: [changed] }], before).podProbes[0]?.probes).toEqual([
      { name: 'game#idle', containerName: 'other', probe: execProbe },
    ]);
    expect(workListOf([{ pod, markers: [] }], before).podProbes).toEqual([]);
  });

  it('goes on with a pod whose sandbox is made anew, until it ends', () => {
    const markers = [marker()];
    const before = of({ pod: probedPod(), markers });
    const starting = probedPod('web-1', { status: { conditions: [] } });
    const ended = probedPod('web-1', { status: { phase: 'Failed' } });
    expect(workListOf([{ pod: starting, markers }], before).podProbes).toHaveLength(1);
    expect(workListOf([{ pod: starting, markers }], []).podProbes).toEqual([]);
    expect(workListOf([{ pod: ended, markers }], before).podProbes).toEqual([]);
  });

  it('PPM-5: leaves a probe out whose port nobody has, and names it', () => {
    const markers = [marker([probe({ probe: http('web') }), probe({ name: 'full' })])];
    const lost = workListOf([{ pod: probedPod(), markers, ports: new Map([['other', web()]]) }], []);
    expect(lost.podProbes[0]?.probes?.map(({ name }) => name)).toEqual(['game#full']);
    expect(lost.lostPorts).toEqual([{ namespace: 'shop', pod: 'web-1', marker: 'game', port: 'web' }]);
    const found = workListOf([{ pod: probedPod(), markers, ports: new Map([['app', web()]]) }], []);
    expect(found.podProbes[0]?.probes?.[0]?.probe).toEqual(http(8080));
    expect(found.lostPorts).toEqual([]);
  });

  function web() {
    return [{ name: 'web', containerPort: 8080 }];
  }

  function gate() {
    return marker([probe({ podConditionType: 'gate.io/open' })], { name: 'gate' });
  }
});

describe('the marks of a pod', () => {
  const times = { lastProbeTime: '2026-01-01T00:00:20Z', lastTransitionTime: '2026-01-01T00:00:10Z' };
  const state = (verdict: string, overrides: Partial<ContainerProbeState> = {}): ContainerProbeState => ({
    name: 'game#idle',
    state: verdict,
    message: 'said',
    ...times,
    ...overrides,
  });
  const idle = { state: 'Succeeded', labels: { idle: 'yes', cost: '-10' }, annotations: { why: 'idle' } } as const;
  const busy = { state: 'Failed', labels: { idle: 'no', busy: 'yes' } } as const;
  const policies = (...markerPolicy: NonNullable<MarkerProbe['markerPolicy']>) => [marker([probe({ markerPolicy })])];

  it.each([
    ['Succeeded', 'True'],
    ['Failed', 'False'],
    ['Unknown', 'False'],
  ])('NPP-13: %s makes the condition %s, with the times and the message of the result', (verdict, status) => {
    expect(marksOf([state(verdict)], [marker()]).conditions).toEqual([
      { type: 'game.io/idle', status, message: 'said', ...times },
    ]);
  });

  it('NPP-13: of several results that claim one condition the first has it, and the others are named', () => {
    const second = marker(undefined, { name: 'second' });
    const both = [state('Failed'), state('Succeeded', { name: 'second#idle' })];
    const marks = marksOf(both, [marker(), second]);
    expect(marks.conditions.map(({ status }) => status)).toEqual(['False']);
    expect(marks.contested).toEqual(['game.io/idle']);
  });

  it('NPP-12: follow from the markers as they are now, and not from those that are gone, going, or silent', () => {
    const renamed = marker([probe({ podConditionType: 'game.io/free' })]);
    expect(marksOf([state('Succeeded')], [renamed]).conditions[0]?.type).toBe('game.io/free');
    const going = marker(undefined, { deletionTimestamp: deleted });
    for (const markers of [[], [going], [marker([probe({ name: 'else' })])]]) {
      expect(marksOf([state('Succeeded')], markers)).toMatchObject({ conditions: [], labels: {} });
    }
    expect(marksOf([state('')], [marker()]).conditions).toEqual([]);
    expect(marksOf([state('Succeeded', { name: 'idle' })], [marker()]).conditions).toEqual([]);
  });

  it('a condition that belongs to the kubelet is left to it, whatever an old marker says', () => {
    expect(marksOf([state('Failed')], [marker([probe({ podConditionType: 'Ready' })])]).conditions).toEqual([]);
  });

  it('L6: a record of the suite is neither written nor taken off, whatever an old marker says', () => {
    const labels = { 'crr.apps.kruise.io/active': 'true', role: 'leader' };
    const annotations = { 'apps.kruise.io/inplace-update-state': '{}', 'windlass.io/command': 'abort' };
    const markers = [marker([probe({ markerPolicy: [{ state: 'Succeeded', labels, annotations }] })])];
    const state = (verdict: string) => [{ name: 'game#idle', state: verdict }];
    expect(marksOf(state('Succeeded'), markers)).toMatchObject({ labels: { role: 'leader' }, annotations: {} });
    const failed = marksOf(state('Failed'), markers);
    expect([failed.labels, failed.annotations]).toEqual([{ role: null }, {}]);
  });

  it('NPP-14: the marks of the other state go, and those of this one come', () => {
    expect(marksOf([state('Succeeded')], policies(idle, busy))).toMatchObject({
      labels: { idle: 'yes', cost: '-10', busy: null },
      annotations: { why: 'idle' },
    });
    expect(marksOf([state('Failed')], policies(idle, busy))).toMatchObject({
      labels: { idle: 'no', cost: null, busy: 'yes' },
      annotations: { why: null },
    });
  });

  it('NPP-14: a policy alone is taken back in the other state', () => {
    expect(marksOf([state('Failed')], policies(idle)).labels).toEqual({ idle: null, cost: null });
    expect(marksOf([state('Failed')], policies(idle)).annotations).toEqual({ why: null });
  });

  it('NPP-14: without a result only the marks of the last policy go', () => {
    expect(marksOf([state('Unknown')], policies(idle, busy)).labels).toEqual({ idle: null, busy: null });
  });

  it('NPP-15: nothing is left when the pod says all of it, and only what differs when it does not', () => {
    const wanted = marksOf([state('Succeeded')], policies(idle, busy));
    const done = probedPod('web-1', {
      metadata: { labels: { app: 'web', idle: 'yes', cost: '-10' }, annotations: { why: 'idle', more: 'x' } },
      status: { conditions: [{ type: 'game.io/idle', status: 'True', message: 'said' }] },
    });
    expect(marksLeft(done, wanted)).toBeUndefined();
    const half = probedPod('web-1', { ...done, metadata: { ...done.metadata, labels: { app: 'web', busy: 'yes' } } });
    expect(marksLeft(half, wanted)).toEqual({
      conditions: [],
      labels: { idle: 'yes', cost: '-10', busy: null },
      annotations: {},
    });
  });

  it('NPP-16: a condition is replaced when status or message differ, not for the sake of its times', () => {
    const wanted = marksOf([state('Succeeded')], [marker()]);
    const pod = (status: string, message: string) =>
      probedPod('web-1', {
        status: { conditions: [{ type: 'game.io/idle', status, message, lastProbeTime: 'long ago' }] },
      });
    expect(marksLeft(pod('True', 'said'), wanted)).toBeUndefined();
    expect(marksLeft(pod('False', 'said'), wanted)?.conditions).toHaveLength(1);
    expect(marksLeft(pod('True', 'other'), wanted)?.conditions).toHaveLength(1);
  });

  it('replaces a condition where it stands, and leaves the others', () => {
    const [ready, mine, added] = ['Ready', 'game.io/idle', 'new'].map((type) => ({ type, status: 'True' }));
    if (!ready || !mine || !added) throw new Error('three are there');
    const pod = probedPod('web-1', { status: { conditions: [{ ...mine, status: 'False' }, ready] } });
    expect(withConditions(pod, [mine, added])).toEqual([mine, ready, added]);
  });

  it('PPS-4, PPS-5: on virtual nodes they follow the condition that the provider writes, and nothing is taken off', () => {
    const markers = policies(idle, busy);
    const on = (status: string) => probedPod('web-1', { status: { conditions: [{ type: 'game.io/idle', status }] } });
    expect(serverlessMarksOf(on('True'), markers)).toMatchObject({ conditions: [], labels: idle.labels });
    expect(serverlessMarksOf(on('False'), markers)).toMatchObject({ labels: busy.labels, annotations: {} });
    expect(serverlessMarksOf(on('Unknown'), markers).labels).toEqual({});
    expect(serverlessMarksOf(probedPod(), markers).labels).toEqual({});
    const silent = [marker([probe({ podConditionType: '', markerPolicy: [idle] })])];
    expect(serverlessMarksOf(on('True'), silent).labels).toEqual({});
  });
});

describe('validation', () => {
  const asJson = (given: PodProbeMarker) => JSON.parse(JSON.stringify(given)) as JsonObject;
  const paths = (object: JsonObject) => validatePodProbeMarker(object).map(({ field }) => field);
  const withProbe = (overrides: object) => asJson(marker([{ ...probe(), ...overrides } as MarkerProbe]));
  const policy = (...markerPolicy: readonly object[]) => withProbe({ markerPolicy });
  const at = 'spec.probes[0]';

  it('lets good markers through', () => {
    const good = [
      marker(),
      marker([probe({ probe: http('web-1') }), probe({ name: 'b', podConditionType: 'b', probe: http(1) })]),
      marker([
        probe({ podConditionType: '', markerPolicy: [{ state: 'Failed', annotations: { 'Example.com/A': 'ü' } }] }),
      ]),
    ];
    for (const one of good) expect(validatePodProbeMarker(asJson(one))).toEqual([]);
  });

  it.each([
    ['no spec', {}, 'spec'],
    ['no selector', { spec: { probes: [probe()] } as never }, 'spec.selector'],
    ['an empty selector', asJson(marker(undefined, {}, {})), 'spec.selector'],
    [
      'an invalid selector',
      asJson(marker(undefined, {}, { matchLabels: { 'a b': 'c' } })),
      'spec.selector.matchLabels',
    ],
    ['no probes', asJson(marker([])), 'spec.probes'],
    ['a probe without a name', withProbe({ name: '' }), `${at}.name`],
    ['a name with #', withProbe({ name: 'a#b' }), `${at}.name`],
    ['a reserved name', withProbe({ name: 'InPlaceUpdateReady' }), `${at}.name`],
    ['a name twice', asJson(marker([probe(), probe({ podConditionType: 'other' })])), 'spec.probes[1].name'],
    ['no container', withProbe({ containerName: '' }), `${at}.containerName`],
    ['no probe', withProbe({ probe: undefined }), `${at}.probe`],
    ['no handler', withProbe({ probe: {} }), `${at}.probe`],
    ['grpc alone', withProbe({ probe: { grpc: { port: 1 } } }), `${at}.probe`],
    ['two handlers', withProbe({ probe: { ...execProbe, ...http(80) } }), `${at}.probe.httpGet`],
    ['an empty command', withProbe({ probe: { exec: { command: [] } } }), `${at}.probe.exec.command`],
    ['port 0', withProbe({ probe: { tcpSocket: { port: 0 } } }), `${at}.probe.tcpSocket.port`],
    ['a port too large', withProbe({ probe: { tcpSocket: { port: 65536 } } }), `${at}.probe.tcpSocket.port`],
    ['a bad port name', withProbe({ probe: { tcpSocket: { port: 'Web' } } }), `${at}.probe.tcpSocket.port`],
    ['a number as a name', withProbe({ probe: { tcpSocket: { port: '80' } } }), `${at}.probe.tcpSocket.port`],
    ['no port', withProbe({ probe: { tcpSocket: {} } }), `${at}.probe.tcpSocket.port`],
    ['a host', withProbe({ probe: { tcpSocket: { port: 1, host: 'a' } } }), `${at}.probe.tcpSocket.host`],
    ['a host', withProbe({ probe: { httpGet: { ...http(1).httpGet, host: 'a' } } }), `${at}.probe.httpGet.host`],
    ['no path', withProbe({ probe: { httpGet: { port: 1, scheme: 'HTTP' } } }), `${at}.probe.httpGet.path`],
    ['a bad path', withProbe({ probe: { httpGet: { ...http(1).httpGet, path: '/%zz' } } }), `${at}.probe.httpGet.path`],
    ['no scheme', withProbe({ probe: { httpGet: { port: 1, path: '/' } } }), `${at}.probe.httpGet.scheme`],
    [
      'a bad header',
      withProbe({ probe: { httpGet: { ...http(1).httpGet, httpHeaders: [{ name: 'a b', value: '' }] } } }),
      `${at}.probe.httpGet.httpHeaders[0].name`,
    ],
    ['a negative number', withProbe({ probe: { ...execProbe, periodSeconds: -1 } }), `${at}.probe.periodSeconds`],
    ['nothing that shows the result', withProbe({ podConditionType: '' }), `${at}.markerPolicy`],
    ['a bad condition', withProbe({ podConditionType: 'a b' }), `${at}.podConditionType`],
    ['a condition of the kubelet', withProbe({ podConditionType: 'Ready' }), `${at}.podConditionType`],
    ['a condition twice', asJson(marker([probe(), probe({ name: 'b' })])), 'spec.probes[1].podConditionType'],
    ['an unknown state', policy({ state: 'Unknown', labels: { a: 'b' } }), `${at}.markerPolicy[0].state`],
    ['a policy without marks', policy({ state: 'Failed' }), `${at}.markerPolicy[0]`],
    ['a bad label', policy({ state: 'Failed', labels: { a: 'ü' } }), `${at}.markerPolicy[0].labels[a]`],
    ['a bad annotation', policy({ state: 'Failed', annotations: { 'a b': '' } }), `${at}.markerPolicy[0].annotations`],
    [
      'a state twice',
      policy({ state: 'Failed', labels: { a: 'b' } }, { state: 'Failed', labels: { c: 'd' } }),
      `${at}.markerPolicy[1].state`,
    ],
  ])('refuses %s, and names the field', (_what, object, path) => {
    expect(paths(object as JsonObject)).toEqual([path]);
  });

  it.each([
    ...['PodScheduled', 'Initialized', 'ContainersReady', 'Ready', 'DisruptionTarget', 'PodReadyToStartContainers'],
    ...['PodResizePending', 'PodResizeInProgress', 'KruisePodReady', 'InPlaceUpdateReady'],
    ...['kubernetes.io/x', 'node.kubernetes.io/x', 'networking.k8s.io/x', 'windlass.io/x'],
  ])('L6: refuses condition %s, which others write', (podConditionType) => {
    expect(paths(withProbe({ podConditionType }))).toEqual([`${at}.podConditionType`]);
  });

  it.each([
    ...['apps.kruise.io/inplace-update-state', 'apps.kruise.io/runtime-containers-meta', 'crr.apps.kruise.io/active'],
    ...['lifecycle.apps.kruise.io/state', 'policy.kruise.io/delete-protection', 'windlass.io/command'],
    ...['Windlass.io/command', 'kruise.io/podprobe', 'kruise.io/podprobemarker-list', 'kruise.io/sidecarset-hash'],
  ])('L6: refuses mark %s, in which the suite keeps its records', (key) => {
    expect(paths(policy({ state: 'Failed', annotations: { [key]: 'x' } }))).toEqual([
      `${at}.markerPolicy[0].annotations`,
    ]);
  });

  it('L6: lets through the conditions and marks that users have', () => {
    const types = [
      'game.kruise.io/healthy',
      'game.io/idle',
      'healthy',
      'xkubernetes.io/x',
      'target-health.elbv2.k8s.aws/x',
    ];
    for (const podConditionType of types) expect(paths(withProbe({ podConditionType }))).toEqual([]);
    const labels = {
      ...{
        'gameserver-idle': 'true',
        'apps.kruise.io/specified-delete': 'true',
        'app.kubernetes.io/component': 'leader',
      },
      ...{ 'game.kruise.io/role': 'a', 'pub.kruise.io/no-protect': 'true' },
    };
    const annotations = {
      'controller.kubernetes.io/pod-deletion-cost': '-10',
      'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false',
      'karpenter.sh/do-not-disrupt': 'true',
    };
    expect(paths(policy({ state: 'Succeeded', labels, annotations }))).toEqual([]);
    expect(paths(withProbe({ name: 'DisruptionTarget' }))).toEqual([]);
  });

  it('never throws, whatever it is given', () => {
    for (const spec of [
      null,
      1,
      [],
      { selector: 1, probes: 1 },
      { selector: {}, probes: [null, 1, [], { probe: 1 }] },
    ]) {
      expect(validatePodProbeMarker({ spec } as JsonObject).length).toBeGreaterThan(0);
    }
  });

  it('refuses another selector, and holds no problem against an update that was there before', () => {
    const other = asJson(marker(undefined, {}, { matchLabels: { app: 'db' } }));
    expect(validatePodProbeMarkerUpdate(asJson(marker()), other).map(({ field }) => field)).toEqual(['spec.selector']);
    const old = withProbe({ podConditionType: 'Ready' });
    expect(validatePodProbeMarkerUpdate(old, old)).toEqual([]);
    expect(validatePodProbeMarkerUpdate(asJson(marker()), old)).toHaveLength(1);
  });

  describe('of limits', () => {
    const command = (bytes: number) => ({ exec: { command: ['sh', '-c', 'x'.repeat(bytes)] } });
    const many = (count: number, bytes = 1) =>
      asJson(
        marker(
          Array.from({ length: count }, (_, index) =>
            probe({ name: `p${index}`, podConditionType: `c${index}`, probe: command(bytes) }),
          ),
        ),
      );

    it('H5: lets through what any marker of use has', () => {
      expect(paths(many(32, 3_000))).toEqual([]);
      expect(paths(many(1, 30_000))).toEqual([]);
      expect(paths(withProbe({ probe: { ...execProbe, timeoutSeconds: 3_600 } }))).toEqual([]);
    });

    it.each([
      ['too many probes', many(33), 'spec.probes'],
      ['a command that is too long', many(1, 33_000), `${at}.probe`],
      ['probes that are too long together', many(5, 30_000), 'spec.probes'],
      [
        'headers that are too long',
        withProbe({
          probe: { httpGet: { ...http(1).httpGet, httpHeaders: [{ name: 'a', value: 'x'.repeat(33_000) }] } },
        }),
        `${at}.probe`,
      ],
      ['a name that is too long', withProbe({ name: 'x'.repeat(254) }), `${at}.name`],
      ['a name of a container that is too long', withProbe({ containerName: 'x'.repeat(254) }), `${at}.containerName`],
    ])('H5: refuses %s, and names the field', (_what, object, path) => {
      expect(paths(object)).toEqual([path]);
    });

    it('H6: refuses a timeout of more than an hour', () => {
      const problems = validatePodProbeMarker(withProbe({ probe: { ...execProbe, timeoutSeconds: 2 ** 31 - 1 } }));
      expect(problems.map(causeOf)).toMatchObject([
        { field: `${at}.probe.timeoutSeconds`, message: 'Invalid value: 2147483647: must not be more than 3600' },
      ]);
    });

    it('H5: a marker above a limit may be changed as long as that does not make it larger', () => {
      const updated = (before: JsonObject, after: JsonObject) =>
        validatePodProbeMarkerUpdate(before, after).map(({ field }) => field);
      expect(updated(many(40), many(40))).toEqual([]);
      expect(updated(many(40), many(39))).toEqual([]);
      expect(updated(many(40), many(41))).toEqual(['spec.probes']);
      expect(updated(many(2, 40_000), many(1, 39_000))).toEqual([]);
      expect(updated(many(2, 40_000), many(1, 41_000))).toEqual([`${at}.probe`]);
    });
  });
});
