import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Value } from 'typebox/value';
import { isJsonObject, type Json, type JsonObject } from '../../api/base/json.ts';
import { fillRecreateRequest } from '../../api/container-recreate-request/admit.ts';
import { convertRecreateRequest, toV1alpha1, toV1beta1 } from '../../api/container-recreate-request/convert.ts';
import { defaultRecreateRequest } from '../../api/container-recreate-request/defaults.ts';
import { specSchema, statusSchema } from '../../api/container-recreate-request/schema.ts';
import {
  failedPreStopEvent,
  killingEvent,
  preRecreateGrace,
  recreateMessage,
  recreateWait,
  recreateWaits,
} from '../../api/container-recreate-request/texts.ts';
import {
  type ContainerRecreateRequestSpec,
  crr,
  type RecreateVersion,
} from '../../api/container-recreate-request/types.ts';
import {
  type Refusal,
  refuseSpec,
  validateRecreateSpec,
  validateRecreateUpdate,
} from '../../api/container-recreate-request/validate.ts';
import { describeErrors } from '../../api/core/field-error.ts';
import type { Node } from '../../api/core/node.ts';
import type { Container, ContainerStatus, Pod, PodStatus } from '../../api/core/pod.ts';
import { aNode } from '../support/objects/node.ts';
import { aPod } from '../support/objects/pod.ts';
import { recreateRequestDraft } from '../support/objects/recreate-request.ts';

const versions: readonly RecreateVersion[] = ['v1alpha1', 'v1beta1'];

// ------------------------------------------------------------------------------------------------------------ builders

function request(spec: JsonObject = {}, metadata: JsonObject = {}, version: RecreateVersion = 'v1beta1'): JsonObject {
  return recreateRequestDraft({ version, metadata: { name: 'restart', ...metadata }, spec });
}

interface PodOverrides {
  readonly containers?: readonly Container[];
  readonly statuses?: readonly ContainerStatus[];
  readonly status?: PodStatus;
  readonly deleting?: boolean;
  readonly nodeName?: string;
  readonly terminationGracePeriodSeconds?: number;
}

function pod(overrides: PodOverrides = {}): Pod {
  const containers = overrides.containers ?? [{ name: 'app' }, { name: 'side' }];
  const statuses = overrides.statuses ?? containers.map(({ name }, index) => status(name, index));
  const nodeName = overrides.nodeName ?? 'node-1';
  return aPod({
    metadata: { uid: 'pod-uid', ...(overrides.deleting && { deletionTimestamp: '2026-11-21T06:10:00Z' }) },
    spec: {
      ...(nodeName !== '' && { nodeName }),
      terminationGracePeriodSeconds: overrides.terminationGracePeriodSeconds ?? 30,
      containers,
      initContainers: [{ name: 'setup' }],
    },
    status: { phase: 'Running', containerStatuses: statuses, ...overrides.status },
  });
}

function status(name: string, restartCount = 0, containerID = `containerd://${name}`): ContainerStatus {
  return { name, ready: true, restartCount, containerID };
}

function node(labels: Readonly<Record<string, string>> = {}, name = 'node-1'): Node {
  return aNode({ metadata: { name, labels } });
}

interface Surroundings {
  readonly pod?: Pod | undefined;
  readonly node?: Node | undefined;
}

function admit(object: JsonObject, surroundings: Surroundings = {}) {
  return fillRecreateRequest({ request: defaultRecreateRequest(object), pod: pod(), node: node(), ...surroundings });
}

function filled(object: JsonObject, surroundings: Surroundings = {}): JsonObject {
  const result = admit(object, surroundings);
  if (result.kind === 'refused') throw new Error(describeErrors(result.errors));
  return result.request;
}

function refused(object: JsonObject, surroundings: Surroundings = {}): Refusal {
  const result = admit(object, surroundings);
  if (result.kind === 'filled') throw new Error('accepted');
  return result;
}

/** The messages that a user gets for this spec. */
function problems(spec: unknown, version: RecreateVersion = 'v1beta1'): string {
  return describeErrors(validateRecreateSpec(spec, version));
}

function recorded(name: string): JsonObject {
  const object: Json = JSON.parse(readFileSync(new URL(`../recorded/${name}.json`, import.meta.url), 'utf8'));
  return isJsonObject(object) ? object : {};
}

function plain(object: unknown): Json {
  return JSON.parse(JSON.stringify(object));
}

// ----------------------------------------------------------------------------------------------------------- admission

describe('defaultRecreateRequest', () => {
  it('CRR-1: fills strategy and failurePolicy and marks the request active', () => {
    const expected = { spec: { strategy: { failurePolicy: 'Fail' } } };
    const active = { metadata: { name: 'restart', labels: { 'crr.apps.kruise.io/active': 'true' } } };
    expect(defaultRecreateRequest(request())).toMatchObject({ ...expected, ...active });
    expect(defaultRecreateRequest(request({ strategy: { failurePolicy: '' } }))).toMatchObject(expected);
    expect(defaultRecreateRequest(request({ strategy: { orderedRecreate: true } }))).toMatchObject({
      spec: { strategy: { failurePolicy: 'Fail', orderedRecreate: true } },
    });
  });

  it('CRR-1: keeps what the user says, and other labels', () => {
    const given = request(
      { strategy: { failurePolicy: 'Ignore' } },
      { labels: { team: 'a', 'crr.apps.kruise.io/active': 'no' } },
    );
    expect(defaultRecreateRequest(given)).toMatchObject({
      spec: { strategy: { failurePolicy: 'Ignore' } },
      metadata: { labels: { team: 'a', 'crr.apps.kruise.io/active': 'true' } },
    });
  });

  it('leaves alone what has not the right shape, so that the refusal can name it', () => {
    for (const strategy of ['fast', ['fast'], 3]) {
      expect(defaultRecreateRequest(request({ strategy }))).toMatchObject({ spec: { strategy } });
    }
    expect(defaultRecreateRequest({ spec: 'odd' })).toMatchObject({ spec: 'odd' });
  });
});

describe('validateRecreateSpec', () => {
  const good = { podName: 'web', containers: [{ name: 'app' }] };

  it('accepts the least and the most that a user may write', () => {
    expect(validateRecreateSpec(good)).toEqual([]);
    const strategy = {
      failurePolicy: 'Ignore',
      orderedRecreate: true,
      forceRecreate: false,
      terminationGracePeriodSeconds: 0,
      unreadyGracePeriodSeconds: 0,
      minStartedSeconds: 0,
    };
    const most = { ...good, strategy, activeDeadlineSeconds: 3, ttlSecondsAfterFinished: 0 };
    expect(validateRecreateSpec(most)).toEqual([]);
  });

  it.each<readonly [unknown, string]>([
    [undefined, 'spec: is required'],
    ['all', 'spec: must be an object'],
    [{ containers: [{ name: 'a' }] }, 'spec.podName: is required'],
    [{ ...good, podName: '' }, 'spec.podName: must not be empty: it names the pod whose containers are restarted'],
    [{ ...good, podName: 7 }, 'spec.podName: must be a string'],
    [{ ...good, podName: 'x'.repeat(254) }, 'spec.podName: must be no longer than 253 characters'],
    [{ podName: 'web' }, 'spec.containers: is required'],
    [{ ...good, containers: [] }, 'spec.containers: must name at least one container'],
    [{ ...good, containers: 'app' }, 'spec.containers: must be a list'],
    [
      { ...good, containers: Array(257).fill({ name: 'a' }) },
      'spec.containers: must not name more than 256 containers',
    ],
    [{ ...good, containers: ['app'] }, 'spec.containers[0]: must be an object'],
    [{ ...good, containers: [{}] }, 'spec.containers[0].name: is required'],
    [{ ...good, containers: [{ name: '' }] }, 'spec.containers[0].name: must not be empty'],
    [{ ...good, strategy: 'fast' }, 'spec.strategy: must be an object'],
    [
      { ...good, strategy: { failurePolicy: 'Stop' } },
      'spec.strategy.failurePolicy: must be Fail or Ignore, not "Stop"',
    ],
    [{ ...good, strategy: { orderedRecreate: 'yes' } }, 'spec.strategy.orderedRecreate: must be true or false'],
    [
      { ...good, strategy: { terminationGracePeriodSeconds: -1 } },
      'spec.strategy.terminationGracePeriodSeconds: must not be negative',
    ],
    [
      { ...good, strategy: { unreadyGracePeriodSeconds: -1 } },
      'spec.strategy.unreadyGracePeriodSeconds: must not be negative',
    ],
    [{ ...good, strategy: { minStartedSeconds: -1 } }, 'spec.strategy.minStartedSeconds: must not be negative'],
    [
      { ...good, strategy: { minStartedSeconds: 2 ** 31 } },
      'spec.strategy.minStartedSeconds: must be a 32-bit integer',
    ],
    [{ ...good, activeDeadlineSeconds: 1.5 }, 'spec.activeDeadlineSeconds: must be an integer number of seconds'],
    [{ ...good, activeDeadlineSeconds: '60' }, 'spec.activeDeadlineSeconds: must be an integer number of seconds'],
    [{ ...good, activeDeadlineSeconds: 2 }, 'spec.activeDeadlineSeconds: must be at least 3'],
    [{ ...good, ttlSecondsAfterFinished: -1 }, 'spec.ttlSecondsAfterFinished: must not be negative'],
  ])('names the field of malformed spec %#', (spec, message) => {
    expect(problems(spec)).toBe(message);
  });

  it('CRR-6: names a container that is listed twice', () => {
    const containers = [{ name: 'app' }, { name: 'side' }, { name: 'app' }];
    expect(problems({ ...good, containers })).toBe('spec.containers[2].name: container "app" is listed twice');
  });

  it.each(['preStop', 'ports', 'statusContext'])('CRR-6: refuses %s, which only admission fills', (field) => {
    const containers = [{ name: 'app', [field]: {} }];
    const message = `spec.containers[0].${field}: read-only fields of container "app" must be left out: admission fills them`;
    expect(problems({ ...good, containers })).toBe(message);
  });

  it('names every problem at once', () => {
    const spec = { podName: '', containers: [{ name: 'a' }, { name: 'a' }], strategy: { failurePolicy: 'x' } };
    expect(validateRecreateSpec(spec).map(({ field }) => field)).toEqual([
      'spec.podName',
      'spec.containers[1].name',
      'spec.strategy.failurePolicy',
    ]);
  });

  it('lets negative ttl and minStartedSeconds pass in v1alpha1, as that version always did', () => {
    const spec = { ...good, ttlSecondsAfterFinished: -1, strategy: { minStartedSeconds: -1 } };
    expect(validateRecreateSpec(spec, 'v1alpha1')).toEqual([]);
    expect(validateRecreateSpec(spec, 'v1beta1')).toHaveLength(2);
  });

  it('answers 422 for what the schema of v1beta1 refuses, too, and 400 for the rest', () => {
    const code = (spec: unknown, version: RecreateVersion) =>
      refuseSpec(validateRecreateSpec(spec, version), version).code;
    expect(code({ ...good, podName: '' }, 'v1beta1')).toBe(422);
    expect(code({ ...good, podName: '' }, 'v1alpha1')).toBe(400);
    expect(code({ ...good, activeDeadlineSeconds: -1 }, 'v1beta1')).toBe(422);
    expect(code({ ...good, activeDeadlineSeconds: 2 }, 'v1beta1')).toBe(400);
    expect(code({ ...good, containers: [{ name: 'a' }, { name: 'a' }] }, 'v1beta1')).toBe(400);
  });
});

describe('fillRecreateRequest', () => {
  it('CRR-2: refuses a pod that does not exist, is being deleted, or has finished', () => {
    expect(refused(request(), { pod: undefined })).toEqual({
      kind: 'refused',
      code: 400,
      errors: [{ field: 'spec.podName', detail: 'pod "web" is not found' }],
    });
    expect(describeErrors(refused(request(), { pod: pod({ deleting: true }) }).errors)).toBe(
      'spec.podName: pod "shop/web" is not active: it is being deleted',
    );
    for (const phase of ['Succeeded', 'Failed']) {
      expect(describeErrors(refused(request(), { pod: pod({ status: { phase } }) }).errors)).toBe(
        `spec.podName: pod "shop/web" is not active: its phase is ${phase}`,
      );
    }
  });

  it('M9: refuses a mirror pod, whose containers the runtime knows under another UID', () => {
    const { metadata, ...others } = pod();
    const mirror = { ...others, metadata: { ...metadata, annotations: { 'kubernetes.io/config.mirror': 'ab12' } } };
    expect(refused(request(), { pod: mirror })).toEqual({
      kind: 'refused',
      code: 400,
      errors: [
        {
          field: 'spec.podName',
          detail:
            'pod "shop/web" is a mirror pod of a static pod: change its manifest on the node to restart its containers',
        },
      ],
    });
  });

  it('refuses a request that belongs to another pod than the one that has its name now', () => {
    const owner = (uid: string, kind = 'Pod') => ({ ownerReferences: [{ apiVersion: 'v1', kind, name: 'web', uid }] });
    expect(refused(request({}, owner('pod-before')))).toEqual({
      kind: 'refused',
      code: 400,
      errors: [{ field: 'metadata.ownerReferences[0]', detail: 'is not pod "shop/web", which the request names' }],
    });
    expect(filled(request({}, owner('pod-uid')))).toBeDefined();
    expect(filled(request({}, owner('another', 'Job')))).toBeDefined();
  });

  it('CRR-2: accepts a finished pod whose sidecars are being ended', () => {
    const conditions = [{ type: 'SidecarTerminated', status: 'True' }];
    const finished = pod({ status: { phase: 'Succeeded', conditions } });
    expect(admit(request(), { pod: finished }).kind).toBe('filled');
  });

  it('CRR-3: refuses a pod without a node, or one whose node is gone', () => {
    const pending = { pod: pod({ nodeName: '' }), node: undefined };
    expect(describeErrors(refused(request(), pending).errors)).toBe(
      'spec.podName: pod "shop/web" is not scheduled to a node',
    );
    expect(describeErrors(refused(request(), { node: undefined }).errors)).toBe(
      'spec.podName: node "node-1" of pod "shop/web" is not found',
    );
  });

  it('CRR-4: labels the request with pod and node, over what the user wrote', () => {
    const labels = { team: 'a', 'crr.apps.kruise.io/pod-uid': 'mine', 'crr.apps.kruise.io/node-name': 'mine' };
    expect(filled(request({}, { labels })).metadata).toEqual({
      name: 'restart',
      namespace: 'shop',
      labels: {
        team: 'a',
        'crr.apps.kruise.io/active': 'true',
        'crr.apps.kruise.io/pod-uid': 'pod-uid',
        'crr.apps.kruise.io/node-name': 'node-1',
      },
    });
  });

  it('CRR-4: marks requests on virtual nodes for whoever runs those', () => {
    const onVirtual = filled(request(), { node: node({ type: 'virtual-kubelet' }) });
    expect(onVirtual).toMatchObject({ metadata: { labels: { type: 'virtual-kubelet' } } });
    const onOther = filled(request(), { node: node({ type: 'gpu' }) });
    expect(onOther).not.toHaveProperty('metadata.labels.type');
  });

  it('CRR-4: refuses a node whose name is too long for a label', () => {
    const name = 'n'.repeat(64);
    const refusal = refused(request(), { pod: pod({ nodeName: name }), node: node({}, name) });
    expect(describeErrors(refusal.errors)).toBe(`spec.podName: the name of node "${name}" has more than 63 characters`);
  });

  it('CRR-5: copies the grace period of the pod where the user names none', () => {
    const surroundings = { pod: pod({ terminationGracePeriodSeconds: 7 }) };
    expect(filled(request(), surroundings)).toMatchObject({
      spec: { strategy: { terminationGracePeriodSeconds: 7 } },
    });
    const own = request({ strategy: { terminationGracePeriodSeconds: 0 } });
    expect(filled(own, surroundings)).toMatchObject({ spec: { strategy: { terminationGracePeriodSeconds: 0 } } });
  });

  it('CRR-6: notes which instance runs, also of a container in a crash loop', () => {
    const crashing = { ...status('app', 4), ready: false, state: { waiting: { reason: 'CrashLoopBackOff' } } };
    expect(filled(request(), { pod: pod({ statuses: [crashing] }) })).toMatchObject({
      spec: { containers: [{ name: 'app', statusContext: { containerID: 'containerd://app', restartCount: 4 } }] },
    });
  });

  it('CRR-6: names each container that cannot be restarted, and why', () => {
    const containers = ['app', 'side', 'none', 'setup'].map((name) => ({ name }));
    const statuses = [{ name: 'side', ready: false, restartCount: 0 }];
    expect(refused(request({ containers }), { pod: pod({ statuses }) })).toEqual({
      kind: 'refused',
      code: 400,
      errors: [
        { field: 'spec.containers[0].name', detail: 'container "app" of pod "web" has no status yet' },
        {
          field: 'spec.containers[1].name',
          detail: 'container "side" of pod "web" has no containerID: it has not been started yet',
        },
        {
          field: 'spec.containers[2].name',
          detail: 'container "none" is not a container of pod "web", which has app, side',
        },
        {
          field: 'spec.containers[3].name',
          detail: 'container "setup" is an init container of pod "web", which cannot be restarted',
        },
      ],
    });
  });

  it('names problems of pod and containers together', () => {
    const refusal = refused(request({ containers: [{ name: 'none' }] }), { pod: pod({ deleting: true }) });
    expect(refusal.errors.map(({ field }) => field)).toEqual(['spec.podName', 'spec.containers[0].name']);
  });

  it.each<readonly [string, Container['lifecycle'], object]>([
    ['exec', { preStop: { exec: { command: ['sync'] } } }, { preStop: { exec: { command: ['sync'] } } }],
    [
      'httpGet with ports',
      { preStop: { httpGet: { port: 'web', path: '/bye' } } },
      {
        preStop: { httpGet: { port: 'web', path: '/bye' } },
        ports: [{ name: 'web', containerPort: 8080, protocol: 'TCP' }],
      },
    ],
    ['tcpSocket', { preStop: { tcpSocket: { port: 1 } } }, { preStop: { tcpSocket: { port: 1 } } }],
    ['sleep', { preStop: { sleep: { seconds: 3 } } }, { preStop: { sleep: { seconds: 3 } } }],
    ['no preStop', undefined, {}],
  ])('CRR-7: copies the hook as it is now: %s', (_, lifecycle, copied) => {
    const ports = [{ name: 'web', containerPort: 8080, protocol: 'TCP' }];
    const surroundings = { pod: pod({ containers: [{ name: 'app', ports, ...(lifecycle && { lifecycle }) }] }) };
    const statusContext = { containerID: 'containerd://app', restartCount: 0 };
    expect(filled(request(), surroundings)).toMatchObject({
      spec: { containers: [{ name: 'app', ...copied, statusContext }] },
    });
    const { containers } = specOf(filled(request(), surroundings));
    const fields = new Set(['name', ...Object.keys(copied), 'statusContext']);
    expect(new Set(Object.keys(containers[0] ?? {}))).toEqual(fields);
  });

  it('CRR-8: what it fills fits the schema, so the node needs nothing but the request', () => {
    for (const version of versions) {
      const spec = filled(request({ strategy: { orderedRecreate: true } }, {}, version)).spec;
      expect([...Value.Errors(specSchema, spec)]).toEqual([]);
    }
  });

  it('keeps fields that it does not know, and the version', () => {
    const object = { ...request({ newer: { field: 1 } }, { generateName: 'x-' }, 'v1alpha1'), extra: true };
    expect(filled(object)).toMatchObject({
      apiVersion: 'apps.kruise.io/v1alpha1',
      extra: true,
      metadata: { generateName: 'x-' },
      spec: { newer: { field: 1 } },
    });
  });

  it('refuses an invalid spec even where nobody has asked before', () => {
    expect(refused(request({ podName: '' })).code).toBe(422);
  });
});

function specOf(object: JsonObject): ContainerRecreateRequestSpec {
  return Value.Parse(specSchema, object.spec);
}

describe('validateRecreateUpdate', () => {
  const labels = { 'crr.apps.kruise.io/pod-uid': 'u', 'crr.apps.kruise.io/node-name': 'n', team: 'a' };
  const annotations = { 'crr.apps.kruise.io/unready-acquired': '2026-11-21T06:13:44Z' };
  const before = request({}, { labels, annotations });

  it('lets metadata and status change, and the active label go', () => {
    const after = { ...request({}, { labels: { ...labels, team: 'b' }, annotations }), status: { phase: 'Pending' } };
    expect(validateRecreateUpdate(before, after)).toBeUndefined();
  });

  it('does not mind the order of keys', () => {
    const after = { ...before, spec: { containers: [{ name: 'app' }], podName: 'web' } };
    expect(validateRecreateUpdate(before, after)).toBeUndefined();
  });

  it.each<readonly [JsonObject, string]>([
    [{ podName: 'other' }, 'spec.podName'],
    [{ activeDeadlineSeconds: 60 }, 'spec.activeDeadlineSeconds'],
    [{ containers: [{ name: 'side' }] }, 'spec.containers[0].name'],
    [{ containers: [{ name: 'app' }, { name: 'side' }] }, 'spec.containers'],
    [{ containers: undefined }, 'spec.containers'],
  ])('refuses %j with 403 and names %s', (change, path) => {
    const after = request(change, { labels, annotations });
    expect(validateRecreateUpdate(before, after)).toEqual({
      kind: 'refused',
      code: 403,
      errors: [{ field: path, detail: 'is immutable, as all of spec' }],
    });
  });

  it('CRR-4: refuses other values of pod-uid and node-name, and their removal', () => {
    const after = request({}, { labels: { 'crr.apps.kruise.io/pod-uid': 'other' }, annotations });
    const refusal = validateRecreateUpdate(before, after);
    expect(refusal?.code).toBe(403);
    expect(refusal?.errors.map(({ field }) => field)).toEqual([
      'metadata.labels[crr.apps.kruise.io/pod-uid]',
      'metadata.labels[crr.apps.kruise.io/node-name]',
    ]);
  });

  it('refuses in v1alpha1 to change the start of the drain once it is set', () => {
    const alpha = (given: JsonObject) => request({}, { labels, annotations: given }, 'v1alpha1');
    const path = 'metadata.annotations[crr.apps.kruise.io/unready-acquired]';
    for (const changed of [{}, { 'crr.apps.kruise.io/unready-acquired': '2027-01-01T00:00:00Z' }]) {
      expect(validateRecreateUpdate(alpha(annotations), alpha(changed))?.errors[0]?.field).toBe(path);
    }
    expect(validateRecreateUpdate(alpha({}), alpha(annotations))).toBeUndefined();
    expect(validateRecreateUpdate(before, request({}, { labels }))).toBeUndefined();
  });
});

// ---------------------------------------------------------------------------------------------------------- conversion

const syncKey = 'crr.apps.kruise.io/sync-container-statuses';
const acquiredKey = 'crr.apps.kruise.io/unready-acquired';

describe('conversion', () => {
  it.each(['crr-1-draining', 'crr-3-completed'])('turns the recorded %s of either version into the other', (name) => {
    expect(toV1alpha1(recorded(`${name}-v1beta1`))).toEqual({ object: recorded(name), warnings: [] });
    expect(toV1beta1(recorded(name))).toEqual({ object: recorded(`${name}-v1beta1`), warnings: [] });
  });

  it('takes every recorded object there and back', () => {
    for (const name of ['crr-1-draining', 'crr-2-recreating', 'crr-3-completed']) {
      const object = recorded(name);
      expect(toV1alpha1(toV1beta1(object).object).object).toEqual(object);
    }
  });

  it('reads recorded statuses that fit the schema', () => {
    for (const name of ['crr-1-draining', 'crr-2-recreating', 'crr-3-completed']) {
      const { status: converted, spec } = toV1beta1(recorded(name)).object;
      expect([...Value.Errors(statusSchema, converted), ...Value.Errors(specSchema, spec)]).toEqual([]);
    }
  });

  it('leaves an object alone that is in that version already', () => {
    const object = recorded('crr-1-draining');
    expect(toV1alpha1(object).object).toBe(object);
  });

  it.each([
    [syncKey, '{"name":"app"}'],
    [syncKey, '[{"ready":true}]'],
    [syncKey, '[{"name":"app","restartCount":"1"}]'],
    [syncKey, 'not JSON'],
    [acquiredKey, 'yesterday'],
    [acquiredKey, '2026-13-45T99:99:99Z'],
    [acquiredKey, ''],
  ])('drops annotation %s with value %j and warns', (key, value) => {
    const object = request({}, { annotations: { [key]: value, other: 'stays' } }, 'v1alpha1');
    const { object: converted, warnings } = toV1beta1(object);
    expect(warnings).toEqual([`annotation ${key} is invalid and is dropped`]);
    expect(converted).toEqual(request({}, { annotations: { other: 'stays' } }));
  });

  it('reads absent flags and numbers of a snapshot as Go does', () => {
    const annotations = { [syncKey]: '[{"name":"app"}]' };
    expect(toV1beta1(request({}, { annotations }, 'v1alpha1')).object.status).toEqual({
      containerStatusSnapshot: [{ name: 'app', ready: false, restartCount: 0 }],
    });
  });

  it('takes the annotation for the truth where v1alpha1 has both it and the condition', () => {
    const condition = { ...preRecreateGrace('2026-11-21T06:00:00Z'), message: 'own words' };
    const object = {
      ...request({}, { annotations: { [acquiredKey]: '2026-11-21T07:00:00Z' } }, 'v1alpha1'),
      status: { conditions: [condition] },
    };
    expect(toV1beta1(object).object.status).toEqual({
      conditions: [{ ...condition, lastTransitionTime: '2026-11-21T07:00:00Z' }],
    });
  });

  it('shows annotations in v1alpha1 that the status backs, and no others', () => {
    const object = request({}, { annotations: { [acquiredKey]: '2026-11-21T07:00:00Z' } });
    expect(toV1alpha1(object).object).toEqual(request({}, {}, 'v1alpha1'));
  });

  it('keeps what v1alpha1 of old does not have: other conditions, waits, the generation', () => {
    const additions = {
      phase: 'Recreating',
      conditions: [{ ...preRecreateGrace('2026-11-21T06:00:00Z'), type: 'Failed' }],
      waitingFor: { reason: 'Queued', blockedBy: ['crr/a'], blockedCount: 1, since: 'x', unblock: 'y' },
      observedGeneration: 1,
    };
    expect(toV1alpha1({ ...request(), status: additions }).object.status).toEqual(additions);
  });

  it('loses nothing from v1beta1 to v1alpha1 and back', () => {
    fc.assert(
      fc.property(anyBeta, (object) => {
        const alpha = toV1alpha1(object).object;
        const { object: back, warnings } = toV1beta1(alpha);
        expect(warnings).toEqual([]);
        expect(plain(back)).toEqual(plain(object));
        expect(metadataBut(alpha, 'annotations')).toEqual(metadataBut(object, 'annotations'));
      }),
      { numRuns: 1000 },
    );
  });

  it('loses nothing from v1alpha1 to v1beta1 and back', () => {
    fc.assert(
      fc.property(anyBeta, (object) => {
        const alpha = toV1alpha1(object).object;
        const { object: again, warnings } = toV1alpha1(toV1beta1(alpha).object);
        expect(warnings).toEqual([]);
        expect(plain(again)).toEqual(plain(alpha));
      }),
      { numRuns: 1000 },
    );
  });

  it('never throws, whatever the object holds', () => {
    fc.assert(
      fc.property(anyObject, fc.constantFrom(...versions), fc.constantFrom(...versions), (object, from, to) => {
        const given = { ...object, apiVersion: `apps.kruise.io/${from}` };
        expect(convertRecreateRequest(given, `apps.kruise.io/${to}`)?.object.apiVersion).toBe(`apps.kruise.io/${to}`);
      }),
      { numRuns: 1000 },
    );
  });

  it('does not convert what is not ours', () => {
    expect(convertRecreateRequest({ apiVersion: 'apps.kruise.io/v2' }, 'apps.kruise.io/v1beta1')).toBeUndefined();
    expect(convertRecreateRequest(request(), 'apps.kruise.io/v2')).toBeUndefined();
    expect(convertRecreateRequest({}, 'apps.kruise.io/v1beta1')).toBeUndefined();
  });
});

function metadataBut(object: JsonObject, key: string): Json {
  const { [key]: _, ...rest } = isJsonObject(object.metadata) ? object.metadata : {};
  return rest;
}

// ---------------------------------------------------------------------------------------------------------- arbitraries

const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,8}$/);
const time = fc
  .date({ min: new Date('2020-01-01'), max: new Date('2030-01-01'), noInvalidDate: true })
  .map((date) => `${date.toISOString().slice(0, 19)}Z`);
const openJson = fc.jsonValue({ maxDepth: 2 }).map(plain);
const unknownFields = fc.dictionary(fc.constantFrom('newer', 'later'), openJson, { noNullPrototype: true });

const condition = fc.record({
  type: fc.constantFrom('Complete', 'Failed', 'Other'),
  status: fc.constantFrom('True', 'False'),
  reason: name,
  message: fc.string(),
  lastTransitionTime: time,
});
const drain = fc.oneof(
  time.map(preRecreateGrace),
  fc.record({ type: fc.constant('PreRecreateGrace'), message: fc.string(), lastTransitionTime: fc.oneof(time, name) }),
);
const conditions: fc.Arbitrary<readonly object[]> = fc
  .tuple(fc.array(condition, { maxLength: 3 }), fc.option(drain, { nil: undefined }), fc.nat(3))
  .map(([others, found, place]) =>
    found === undefined ? others : [...others.slice(0, place), { ...others[0], ...found }, ...others.slice(place)],
  );
const snapshot = fc.array(
  fc
    .record(
      { name, ready: fc.boolean(), restartCount: fc.nat(), containerID: name },
      { requiredKeys: ['name', 'ready', 'restartCount'] },
    )
    .chain((entry) => unknownFields.map((more) => ({ ...entry, ...more }))),
  { maxLength: 4 },
);
const anyStatus = fc.record(
  {
    phase: fc.constantFrom('', 'Pending', 'Recreating', 'Completed'),
    conditions,
    containerStatusSnapshot: fc.oneof(snapshot, openJson),
    containerRecreateStates: openJson,
    waitingFor: openJson,
    observedGeneration: fc.nat(),
    newer: openJson,
  },
  { requiredKeys: [] },
);
/** An object of v1beta1, valid or not, with unknown fields. */
const anyBeta: fc.Arbitrary<JsonObject> = fc
  .record(
    {
      metadata: fc.record(
        { name, annotations: fc.dictionary(name, fc.string(), { minKeys: 1, noNullPrototype: true }) },
        { requiredKeys: ['name'] },
      ),
      spec: openJson,
      status: anyStatus,
      newer: openJson,
    },
    { requiredKeys: ['metadata', 'spec'] },
  )
  .map((object) => ({
    ...toObject(plain(object)),
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'ContainerRecreateRequest',
  }));

function toObject(value: Json): JsonObject {
  return isJsonObject(value) ? value : {};
}

const anyObject: fc.Arbitrary<JsonObject> = fc
  .dictionary(
    fc.constantFrom('metadata', 'spec', 'status', 'kind'),
    fc.oneof(
      openJson,
      fc.dictionary(fc.constantFrom('annotations', 'labels', 'conditions', 'containerStatusSnapshot'), openJson),
      fc.record({ annotations: fc.dictionary(fc.constantFrom(syncKey, acquiredKey), openJson) }),
    ),
  )
  .map((object) => toObject(plain(object)));

/** A valid spec with one path set to any value. */
const mutatedSpec = fc
  .tuple(
    fc.constantFrom(
      ['podName'],
      ['containers'],
      ['containers', 0],
      ['containers', 0, 'name'],
      ['containers', 1],
      ['strategy'],
      ['strategy', 'failurePolicy'],
      ['strategy', 'orderedRecreate'],
      ['strategy', 'forceRecreate'],
      ['strategy', 'terminationGracePeriodSeconds'],
      ['strategy', 'unreadyGracePeriodSeconds'],
      ['strategy', 'minStartedSeconds'],
      ['activeDeadlineSeconds'],
      ['ttlSecondsAfterFinished'],
      ['newer'],
    ),
    fc.oneof(
      openJson,
      fc.string(),
      fc.constantFrom('Fail', 'Ignore', '', 'x'.repeat(64), 'x'.repeat(254)),
      fc.integer(),
      fc.constantFrom(-1, 0, 2, 3, 2 ** 31 - 1, 2 ** 31, -(2 ** 31) - 1, 2 ** 53, 2 ** 62, -(2 ** 62), 1.5),
      fc.boolean(),
      fc.constant(undefined),
    ),
  )
  // The API server parses larger numbers as floats; JavaScript cannot distinguish them.
  .filter(([, value]) => typeof value !== 'number' || Math.abs(value) < 2 ** 63)
  .map(([path, value]) => changed(goodSpec, path, value));

const goodSpec: JsonObject = {
  podName: 'web',
  containers: [{ name: 'app' }, { name: 'side' }],
  strategy: {
    failurePolicy: 'Fail',
    orderedRecreate: true,
    forceRecreate: true,
    terminationGracePeriodSeconds: 1,
    unreadyGracePeriodSeconds: 1,
    minStartedSeconds: 1,
  },
  activeDeadlineSeconds: 60,
  ttlSecondsAfterFinished: 60,
};

function changed(value: Json | undefined, path: readonly (string | number)[], to: Json | undefined): Json | undefined {
  const [first, ...rest] = path;
  if (first === undefined) return to;
  if (Array.isArray(value)) {
    const index = Number(first);
    return value.with(index, changed(value[index], rest, to) ?? null);
  }
  const object = value === undefined ? {} : toObject(value);
  return { ...object, [first]: changed(object[first], rest, to) };
}

describe('malformed requests', () => {
  it('are found invalid exactly where the schema of v1beta1 finds them so, but for rules that no schema knows', () => {
    fc.assert(
      fc.property(mutatedSpec, (spec) => {
        const found = validateRecreateSpec(spec);
        const bySchema = Value.Check(specSchema, plainOrUndefined(spec));
        expect(found.some((problem) => problem.bySchema)).toBe(!bySchema);
        for (const { field, detail } of found) {
          expect(field).toMatch(/^spec(\.|$)/);
          expect(detail).not.toBe('');
        }
      }),
      { numRuns: 5000 },
    );
  });

  it('never make admission throw: each is refused with a field path or filled in', () => {
    fc.assert(
      fc.property(mutatedSpec, anyObject, fc.constantFrom(...versions), (spec, rest, version) => {
        const object = toObject(plain({ ...rest, apiVersion: `apps.kruise.io/${version}`, spec }));
        const result = admit(object, { pod: pod({ containers: [{ name: 'app' }, { name: 'side' }] }) });
        if (result.kind === 'refused') {
          expect(result.errors.length).toBeGreaterThan(0);
          expect([400, 422]).toContain(result.code);
        } else {
          const wanted = version === 'v1beta1' ? result.request.spec : goodSpec;
          expect(Value.Check(specSchema, wanted)).toBe(true);
        }
        expect(() => validateRecreateUpdate(object, rest)).not.toThrow();
      }),
      { numRuns: 2000 },
    );
  });
});

function plainOrUndefined(value: Json | undefined): Json | undefined {
  return value === undefined ? undefined : plain(value);
}

// --------------------------------------------------------------------------------------------------------------- texts

describe('texts', () => {
  it('are word for word what scripts look for', () => {
    expect(recreateMessage.podGone).toBe('pod has gone');
    expect(recreateMessage.nodeSilent).toBe('daemon has not responded for a long time');
    expect(recreateMessage.deadlineExceeded).toBe('recreating has exceeded the activeDeadlineSeconds');
    expect(recreateMessage.runtimeNotFound('no socket')).toBe('failed to find runtime service: no socket');
    expect(recreateMessage.notFoundOnNode).toBe('not found container on Node');
    expect(recreateMessage.killFailed('timeout')).toBe('kill container error: timeout');
  });

  it('say on the pod which request stops the container, as it was recorded', () => {
    expect(killingEvent('main', 'ordered')).toEqual({
      type: 'Normal',
      reason: 'Killing',
      message: 'Stopping container main by ContainerRecreateRequest ordered',
    });
  });

  it('name the container instead of its ID when preStop fails', () => {
    expect(failedPreStopEvent('app', 'abc123', 'exec in "abc123" failed: abc123 is gone')).toEqual({
      type: 'Warning',
      reason: 'FailedPreStopHook',
      message: 'exec in "app" failed: app is gone',
    });
    expect(failedPreStopEvent('app', '', 'no').message).toBe('no');
  });

  it('tell for every wait what a person can do', () => {
    for (const unblock of Object.values(recreateWaits)) expect(unblock).toMatch(/^[A-Z].*[^.]$/);
    const blockedBy = Array.from({ length: 12 }, (_, index) => `crr/${index}`);
    expect(recreateWait('Queued', { blockedBy, since: 'now' })).toEqual({
      reason: 'Queued',
      blockedBy: blockedBy.slice(0, 10),
      blockedCount: 12,
      since: 'now',
      unblock: 'Wait for the request ahead in the queue, or delete it',
    });
  });

  it('address the stored version', () => {
    expect(crr).toMatchObject({ group: 'apps.kruise.io', version: 'v1beta1', plural: 'containerrecreaterequests' });
  });
});
