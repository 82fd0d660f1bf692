import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { canonicalTemplate, withClaimDefaults, withTemplateDefaults } from '../../api/core/pod-template.ts';
import { recorded } from '../support/recorded.ts';

const defaults = { hostNetworkPorts: false };

/** A template of one container with these fields, and a pod spec with these. */
function template(container: JsonObject = {}, spec: JsonObject = {}): JsonObject {
  return { spec: { containers: [{ name: 'main', image: 'nginx:1.25', ...container }], ...spec } };
}

function specOf(of: JsonObject): JsonObject {
  return of.spec as JsonObject;
}

function first(list: 'containers' | 'initContainers' | 'volumes', of: JsonObject): JsonObject {
  return (specOf(of)[list] as readonly JsonObject[])[0] as JsonObject;
}

function defaulted(container: JsonObject, spec?: JsonObject): JsonObject {
  return first('containers', withTemplateDefaults(template(container, spec), defaults));
}

describe('withTemplateDefaults', () => {
  it('makes of what was applied what a real OpenKruise stored', () => {
    const stored = recorded<KubeObject & { spec: { template: JsonObject } }>('cloneset-1-created-v1beta1');
    const text = stored.metadata.annotations?.['kubectl.kubernetes.io/last-applied-configuration'] ?? '';
    const applied: { spec: { template: JsonObject } } = JSON.parse(text);
    expect(withTemplateDefaults(applied.spec.template, defaults)).toEqual(stored.spec.template);
  });

  it('fills in what pods get, once', () => {
    const once = withTemplateDefaults(template(), defaults);
    expect(once).toEqual({
      metadata: { creationTimestamp: null },
      spec: {
        containers: [
          {
            name: 'main',
            image: 'nginx:1.25',
            resources: {},
            terminationMessagePath: '/dev/termination-log',
            terminationMessagePolicy: 'File',
            imagePullPolicy: 'Always',
          },
        ],
        restartPolicy: 'Always',
        terminationGracePeriodSeconds: 30,
        dnsPolicy: 'ClusterFirst',
        securityContext: {},
        schedulerName: 'default-scheduler',
      },
    });
    expect(withTemplateDefaults(once, defaults)).toEqual(once);
  });

  it('changes nothing that is set, even where it is nothing', () => {
    const spec = { terminationGracePeriodSeconds: 0, dnsPolicy: 'None', securityContext: { runAsUser: 0 } };
    expect(specOf(withTemplateDefaults(template({ imagePullPolicy: 'Never' }, spec), defaults))).toMatchObject(spec);
    expect(defaulted({ imagePullPolicy: 'Never' })).toMatchObject({ imagePullPolicy: 'Never' });
  });

  it.each([
    ['nginx', 'Always'],
    ['nginx:latest', 'Always'],
    ['nginx:1.25', 'IfNotPresent'],
    ['registry:5000/nginx', 'Always'],
    [`nginx@sha256:${'a'.repeat(64)}`, 'IfNotPresent'],
    [`nginx:latest@sha256:${'a'.repeat(64)}`, 'Always'],
    ['NOT AN IMAGE', 'IfNotPresent'],
  ])('lets an init container with image %s be pulled as the API server would: %s', (image, imagePullPolicy) => {
    const filled = withTemplateDefaults(template({}, { initContainers: [{ name: 'init', image }] }), defaults);
    expect(first('initContainers', filled)).toMatchObject({ imagePullPolicy });
  });

  it('fills in ports, references to fields, probes and hooks', () => {
    const container = {
      ports: [{ containerPort: 80 }, { containerPort: 81, protocol: 'UDP' }],
      env: [
        { name: 'A', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
        { name: 'B', value: 'b' },
      ],
      readinessProbe: { httpGet: { port: 80 }, periodSeconds: 5 },
      livenessProbe: { exec: { command: ['true'] }, timeoutSeconds: 0 },
      lifecycle: { preStop: { httpGet: { port: 'web', path: '/stop' } }, postStart: { exec: { command: ['true'] } } },
    };
    expect(defaulted(container)).toMatchObject({
      ports: [
        { containerPort: 80, protocol: 'TCP' },
        { containerPort: 81, protocol: 'UDP' },
      ],
      env: [
        { name: 'A', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } },
        { name: 'B', value: 'b' },
      ],
      readinessProbe: {
        httpGet: { port: 80, path: '/', scheme: 'HTTP' },
        timeoutSeconds: 1,
        periodSeconds: 5,
        successThreshold: 1,
        failureThreshold: 3,
      },
      livenessProbe: { exec: { command: ['true'] }, timeoutSeconds: 1 },
      lifecycle: { preStop: { httpGet: { port: 'web', path: '/stop', scheme: 'HTTP' } } },
    });
  });

  it.each([
    [{}, { emptyDir: {} }],
    [{ hostPath: { path: '/' } }, { hostPath: { path: '/', type: '' } }],
    [{ secret: { secretName: 's' } }, { secret: { secretName: 's', defaultMode: 420 } }],
    [{ configMap: { name: 'c', defaultMode: 0 } }, { configMap: { name: 'c', defaultMode: 0 } }],
    [
      { downwardAPI: { items: [{ path: 'a', fieldRef: { fieldPath: 'metadata.labels' } }] } },
      {
        downwardAPI: {
          defaultMode: 420,
          items: [{ path: 'a', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.labels' } }],
        },
      },
    ],
    [
      { projected: { sources: [{ serviceAccountToken: { path: 't' } }] } },
      { projected: { defaultMode: 420, sources: [{ serviceAccountToken: { path: 't', expirationSeconds: 3600 } }] } },
    ],
    // OpenKruise leaves these to the pod.
    [{ iscsi: { targetPortal: 'p', iqn: 'q', lun: 0 } }, { iscsi: { targetPortal: 'p', iqn: 'q', lun: 0 } }],
    [{ sourceOfTomorrow: {} }, { sourceOfTomorrow: {} }],
  ])('fills in the volume %j', (source, filled) => {
    const volumes = [{ name: 'v', ...source }];
    expect(first('volumes', withTemplateDefaults(template({}, { volumes }), defaults))).toEqual({
      name: 'v',
      ...filled,
    });
  });

  it('rounds resources up to thousandths', () => {
    const resources = { limits: { cpu: '0.1', memory: '0.03125Gi' }, requests: { cpu: '1n' } };
    expect(defaulted({ resources })).toMatchObject({
      resources: { limits: { cpu: '100m', memory: '32Mi' }, requests: { cpu: '1m' } },
    });
  });

  it('fills in host ports only when the gate asks for it, and only with hostNetwork', () => {
    const ports = [{ containerPort: 80 }, { containerPort: 81, hostPort: 8081 }];
    const portsOf = (hostNetworkPorts: boolean, hostNetwork: boolean) =>
      first('containers', withTemplateDefaults(template({ ports }, { hostNetwork }), { hostNetworkPorts })).ports;
    const filled = [
      { hostPort: 80, containerPort: 80, protocol: 'TCP' },
      { hostPort: 8081, containerPort: 81, protocol: 'TCP' },
    ];
    expect(portsOf(true, true)).toEqual(filled);
    for (const ports of [portsOf(false, true), portsOf(true, false)]) expect(ports).not.toEqual(filled);
  });
});

describe('canonicalTemplate', () => {
  it('CS-80: leaves out what is empty, keeps what only looks so, and adds what is always written', () => {
    const container = {
      command: [],
      stdin: false,
      env: [{ name: 'A', value: '' }],
      volumeMounts: [{ name: 'v', mountPath: '/v', readOnly: false, mountPropagation: null }],
      securityContext: { privileged: false, capabilities: {} },
      resources: { limits: {}, requests: { memory: 1024 } },
    };
    const spec = { hostNetwork: false, enableServiceLinks: false, nodeSelector: {}, tolerations: null, affinity: {} };
    expect(canonicalTemplate({ metadata: { labels: { a: '' } }, ...template(container, spec) })).toEqual({
      metadata: { creationTimestamp: null, labels: { a: '' } },
      spec: {
        containers: [
          {
            name: 'main',
            image: 'nginx:1.25',
            env: [{ name: 'A' }],
            volumeMounts: [{ name: 'v', mountPath: '/v' }],
            securityContext: { privileged: false, capabilities: {} },
            resources: { requests: { memory: '1024' } },
          },
        ],
        enableServiceLinks: false,
        affinity: {},
      },
    });
  });

  it('keeps fields that are newer than us, wherever they stand', () => {
    const newer = template({ wish: { list: [null, 0, ''] } }, { moonPhase: '' });
    expect(canonicalTemplate(newer)).toMatchObject(newer);
  });

  it('writes an absent amount as zero and an absent choice as null, as Go does', () => {
    const env = [{ name: 'A', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } }];
    const livenessProbe = { grpc: { port: 1 } };
    expect(first('containers', canonicalTemplate(template({ env, livenessProbe })))).toMatchObject({
      env: [{ name: 'A', valueFrom: { resourceFieldRef: { resource: 'limits.cpu', divisor: '0' } } }],
      livenessProbe: { grpc: { port: 1, service: null } },
    });
  });
});

describe('withClaimDefaults', () => {
  it('fills in the phase and rounds amounts, and nothing else', () => {
    const claim = {
      metadata: { name: 'data' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1024Mi' } }, volumeName: '' },
    };
    expect(withClaimDefaults(claim)).toEqual({
      metadata: { name: 'data', creationTimestamp: null },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      status: { phase: 'Pending' },
    });
  });
});
