import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { convertSidecarSet } from '../../api/sidecar-set/convert.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { contentHashes, hashInput } from '../../api/sidecar-set/hash.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { recorded } from '../support/recorded.ts';

const alpha = 'apps.kruise.io/v1alpha1';
const beta = 'apps.kruise.io/v1beta1';

function convert(object: JsonObject, apiVersion: string) {
  const converted = convertSidecarSet(object, apiVersion);
  if (converted === undefined) throw new Error('not converted');
  return converted;
}

const toBeta = (object: JsonObject) => convert(object, beta).object;
const toAlpha = (object: JsonObject) => convert(object, alpha).object;
const specOf = (object: JsonObject) => objectOr(object.spec);
const stored = (name: string) => recorded<KubeObject>(name) as KubeObject & JsonObject;

/** What a user applied, from the annotation that kubectl wrote. */
function applied(revision: KubeObject): JsonObject {
  return JSON.parse(revision.metadata.annotations?.['kubectl.kubernetes.io/last-applied-configuration'] ?? '');
}

describe('conversion of SidecarSets', () => {
  it.each(['1-injected', '2-partition-1', '3-updated'])('shows a recorded one (%s) as OpenKruise does', (name) => {
    const [old, now] = [stored(`sidecarset-${name}-v1alpha1`), stored(`sidecarset-${name}-v1beta1`)];
    expect(toBeta(old)).toEqual(now);
    expect(toAlpha(now)).toEqual(old);
  });

  it('leaves an object alone that has the version already, and does not touch versions of others', () => {
    const object = sidecarSetDraft();
    expect(convert(object, beta)).toEqual({ object, warnings: [] });
    expect(convertSidecarSet(object, 'apps.kruise.io/v1')).toBeUndefined();
    expect(convertSidecarSet({ ...object, apiVersion: 'apps/v1beta1' }, alpha)).toBeUndefined();
    expect(toBeta({ apiVersion: alpha, kind: 'SidecarSet' })).toEqual({ apiVersion: beta, kind: 'SidecarSet' });
  });

  it('turns a namespace into a selector, drops a selector beside it, and never gives the namespace back', () => {
    const old = sidecarSetDraft({
      version: 'v1alpha1',
      spec: { namespace: 'shop', namespaceSelector: { matchLabels: { a: 'b' } } },
    });
    const converted = convert(old, beta);
    const namespaceSelector = { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } };
    expect(converted.object).toEqual(sidecarSetDraft({ spec: { namespaceSelector } }));
    expect(converted.warnings).toHaveLength(1);
    expect(specOf(toAlpha(converted.object))).toMatchObject({ namespaceSelector });
    expect(specOf(toAlpha(converted.object))).not.toHaveProperty('namespace');
    expect(toBeta(sidecarSetDraft({ version: 'v1alpha1', spec: { namespace: '' } }))).toEqual(sidecarSetDraft());
  });

  it('moves the custom version between its label and its field', () => {
    const labels = { 'apps.kruise.io/sidecarset-custom-version': '2', team: 'a' };
    const old = sidecarSetDraft({ version: 'v1alpha1', metadata: { labels } });
    const now = sidecarSetDraft({ metadata: { labels: { team: 'a' } }, spec: { customVersion: '2' } });
    expect(toBeta(old)).toEqual(now);
    expect(toAlpha(now)).toEqual(old);
    const empty = { 'apps.kruise.io/sidecarset-custom-version': '' };
    expect(toBeta(sidecarSetDraft({ version: 'v1alpha1', metadata: { labels: empty } }))).toEqual(sidecarSetDraft());
    expect(toAlpha(sidecarSetDraft({ spec: { customVersion: '' } }))).toEqual(sidecarSetDraft({ version: 'v1alpha1' }));
  });

  it('loses nothing of v1beta1 on the way there and back, unknown fields included', () => {
    const spec = fc.record(
      {
        customVersion: fc.stringMatching(/^[a-z]{1,9}$/),
        namespaceSelector: fc.constant({ matchLabels: { a: 'b' } }),
        unknown: fc.jsonValue().filter((value) => value !== undefined),
        patchPodMetadata: fc.constant([{ annotations: { a: 'b' }, patchPolicy: 'Retain' }]),
        updateStrategy: fc.constant({ type: 'NotUpdate', partition: '50%' }),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(spec, (fields) => {
        const object = sidecarSetDraft({ spec: fields as JsonObject, metadata: { labels: { team: 'a' } } });
        expect(toBeta(toAlpha(object))).toEqual(object);
      }),
    );
  });
});

describe('defaults of SidecarSets', () => {
  it('makes of what was applied what OpenKruise stored', () => {
    const now = stored('sidecarset-1-injected-v1beta1');
    const items = recorded<readonly KubeObject[]>('sidecarset-1-injected-revisions');
    const revision = items.find(({ metadata }) => metadata.name === objectOr(now.status).latestRevision);
    if (revision === undefined) throw new Error('there is no revision');
    const { spec, metadata } = defaultSidecarSet(applied(revision));
    expect(spec).toEqual(now.spec);
    expect(objectOr(metadata).annotations).toEqual(now.metadata.annotations);
  });

  it.each([
    'sidecarset-1-injected-v1beta1',
    'sidecarset-1-injected-v1alpha1',
    'sidecarset-2-partition-1-v1beta1',
    'sidecarset-3-updated-v1alpha1',
    'sidecarset-hot-1-injected',
  ])('leaves a stored one as it is, and gives it the same hashes: %s', (name) => {
    const { annotations: _, ...metadata } = objectOr(stored(name).metadata);
    expect(defaultSidecarSet({ ...stored(name), metadata })).toEqual(stored(name));
  });

  it('fills in every default of section 2, and those of the core API', () => {
    const given = sidecarSetDraft({
      spec: {
        containers: [
          {
            name: 'log',
            image: 'log',
            ports: [{ containerPort: 80 }],
            env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
            resources: { limits: { cpu: '1000m', memory: '0.0001Gi' } },
            livenessProbe: { httpGet: { port: 80 } },
            startupProbe: { httpGet: { port: 80 } },
            lifecycle: { preStop: { httpGet: { port: 80 } } },
            transferEnv: [
              { sourceContainerNameFrom: { fieldRef: { fieldPath: "metadata.labels['a']" } }, envName: 'A' },
            ],
          },
        ],
        initContainers: [{ name: 'first', image: 'first:1' }],
        volumes: [{ name: 'v' }, { name: 'h', hostPath: { path: '/' } }, { name: 's', secret: { secretName: 's' } }],
        injectionStrategy: { revision: { revisionName: 'logs-1' } },
        patchPodMetadata: [{ annotations: { a: 'b' } }],
        updateStrategy: { type: '' },
      },
    });
    expect(specOf(defaultSidecarSet(given))).toEqual({
      selector: { matchLabels: { app: 'web' } },
      containers: [
        {
          name: 'log',
          image: 'log',
          imagePullPolicy: 'Always',
          podInjectPolicy: 'BeforeAppContainer',
          upgradeStrategy: { upgradeType: 'ColdUpgrade' },
          shareVolumePolicy: { type: 'disabled' },
          terminationMessagePath: '/dev/termination-log',
          terminationMessagePolicy: 'File',
          ports: [{ containerPort: 80, protocol: 'TCP' }],
          env: [{ name: 'A', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } }],
          resources: { limits: { cpu: '1', memory: '107374183m' } },
          livenessProbe: {
            httpGet: { port: 80, path: '/', scheme: 'HTTP' },
            ...{ timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 },
          },
          startupProbe: { httpGet: { port: 80 } },
          lifecycle: { preStop: { httpGet: { port: 80, path: '/', scheme: 'HTTP' } } },
          transferEnv: [
            {
              sourceContainerNameFrom: { fieldRef: { apiVersion: 'v1', fieldPath: "metadata.labels['a']" } },
              envName: 'A',
            },
          ],
        },
      ],
      initContainers: [
        {
          name: 'first',
          image: 'first:1',
          imagePullPolicy: 'IfNotPresent',
          podInjectPolicy: 'AfterAppContainer',
          upgradeStrategy: { upgradeType: 'ColdUpgrade' },
          shareVolumePolicy: { type: 'disabled' },
          resources: {},
          terminationMessagePath: '/dev/termination-log',
          terminationMessagePolicy: 'File',
        },
      ],
      volumes: [
        { name: 'v', emptyDir: {} },
        { name: 'h', hostPath: { path: '/', type: '' } },
        { name: 's', secret: { secretName: 's', defaultMode: 420 } },
      ],
      injectionStrategy: { revision: { revisionName: 'logs-1', policy: 'Always' } },
      patchPodMetadata: [{ annotations: { a: 'b' }, patchPolicy: 'Retain' }],
      updateStrategy: { type: 'RollingUpdate', partition: 0, maxUnavailable: 1 },
      revisionHistoryLimit: 10,
    });
  });

  it('leaves fields of the wrong shape alone', () => {
    const odd = { apiVersion: beta, kind: 'SidecarSet', metadata: { name: 'odd' }, spec: 'no' };
    expect(defaultSidecarSet(odd)).toBe(odd);
    const spec = { containers: 'none', volumes: [1], updateStrategy: [], patchPodMetadata: {} };
    expect(specOf(defaultSidecarSet(sidecarSetDraft({ spec })))).toMatchObject(spec);
  });
});

describe('hashes of SidecarSets', () => {
  const plain = { name: 'container1', image: 'test-image' };
  const native = { ...plain, restartPolicy: 'Always' };
  const logger = {
    ...{ name: 'sidecar1', image: 'centos:6.7', command: ['sleep', '999d'] },
    volumeMounts: [{ name: 'log-volume', mountPath: '/var/log' }],
    ...{ terminationMessagePath: '/dev/termination-log', terminationMessagePolicy: 'File' },
    ...{ imagePullPolicy: 'IfNotPresent', podInjectPolicy: 'BeforeAppContainer' },
    ...{ upgradeStrategy: { upgradeType: 'ColdUpgrade' }, shareVolumePolicy: { type: 'disabled' } },
  };

  it('SCS-116, SCS-117, SCS-120: are those of the test vectors', () => {
    expect(contentHashes({ containers: [plain] })).toEqual({
      whole: 'w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78',
      withoutImage: '8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759',
    });
    expect(contentHashes({ containers: [plain], initContainers: [native] })).toEqual({
      whole: '4xwx4d4844vd4v9x79wb4xbxf4xb29475cc4446v8cz2c2f2f5c5bw448vd42z8w',
      withoutImage: '5725fw8bwbx249bw57v5892c847dzf48bww9zb7c86xb95264fdz26654847b2c8',
    });
    expect(contentHashes({ containers: [logger] })).toEqual({
      whole: '4zbdc2xzc8w7c4x2c6984266bc9d7zf87x946v7xdfv988f6c6fc9b7dz47w8zd5',
      withoutImage: 'wcv47954b7xv5w4fbw682bbf78cw2449448vbf4fvvwv77947bc7fcv7fw89f98x',
    });
  });

  it('SCS-115: are about containers, and all init containers if one is a native sidecar', () => {
    const withImages = { images: true };
    expect(hashInput(undefined, undefined, withImages)).toBe('{"containers":null}');
    expect(hashInput([], [plain], withImages)).toBe('{"containers":[]}');
    const both = hashInput([], [plain, native], withImages);
    expect(both).toContain('"initContainers":[{"name":"container1","image":"test-image","resources":{}');
    expect(JSON.parse(both)).toHaveProperty('initContainers.1.restartPolicy', 'Always');
  });

  it('SCS-118: write members in the order of declaration, without empty ones', () => {
    const container = {
      resourcesPolicy: {
        resourcesExpr: { requests: { memory: 'memory', cpu: 'cpu' }, limits: {} },
        targetContainersNameRegex: '.*',
        targetContainersMode: 'sum',
      },
      transferEnv: [{ envNames: ['B'], envName: 'A', sourceContainerName: 'app' }],
      shareVolumeDevicePolicy: { type: 'enabled' },
      env: [{ value: '<é&\u2028>', name: 'A' }],
      resources: { limits: { memory: '1Gi', cpu: '1000m' } },
      args: [],
      tty: false,
      image: 'x',
      name: 'c',
    };
    expect(hashInput([container], undefined, { images: true })).toBe(
      '{"containers":[{"name":"c","image":"x","env":[{"name":"A","value":"\\u003cé\\u0026\\u2028\\u003e"}],' +
        '"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"upgradeStrategy":{},"shareVolumePolicy":{},' +
        '"shareVolumeDevicePolicy":{"type":"enabled"},' +
        '"transferEnv":[{"sourceContainerName":"app","envName":"A","envNames":["B"]}],' +
        '"resourcesPolicy":{"targetContainersMode":"sum","targetContainersNameRegex":".*",' +
        '"resourcesExpr":{"limits":{},"requests":{"cpu":"cpu","memory":"memory"}}}}]}',
    );
  });

  it('SCS-119: are the same in both versions, and written at each write', () => {
    const old = defaultSidecarSet(sidecarSetDraft({ version: 'v1alpha1' }));
    const now = defaultSidecarSet(sidecarSetDraft());
    expect(objectOr(old.metadata).annotations).toEqual(objectOr(now.metadata).annotations);
    const changed = defaultSidecarSet({ ...now, spec: { ...specOf(now), containers: [plain] } });
    expect(objectOr(changed.metadata).annotations).not.toEqual(objectOr(now.metadata).annotations);
  });

  it('SCS-82, SCS-193: do not depend on volumes, pull secrets, annotations and ordinary init containers', () => {
    const more = {
      volumes: [{ name: 'v' }],
      imagePullSecrets: [{ name: 's' }],
      patchPodMetadata: [{ annotations: { a: 'b' }, patchPolicy: 'Retain' }],
      initContainers: [plain],
      updateStrategy: { partition: 3 },
    };
    expect(contentHashes({ containers: [plain], ...more })).toEqual(contentHashes({ containers: [plain] }));
  });

  it('SCS-194: depend on the pull policy, which follows from the tag', () => {
    const hashesOf = (image: string) =>
      contentHashes(specOf(defaultSidecarSet(sidecarSetDraft({ spec: { containers: [{ name: 'log', image }] } }))));
    expect(hashesOf('log:1').withoutImage).toBe(hashesOf('log:2').withoutImage);
    expect(hashesOf('log:1').withoutImage).not.toBe(hashesOf('log:latest').withoutImage);
  });

  it('SCS-121: are those that recorded pods carry', () => {
    const items = recorded<readonly KubeObject[]>('sidecarset-1-injected-pods');
    const { whole, withoutImage } = contentHashes(specOf(stored('sidecarset-1-injected-v1beta1')));
    for (const { metadata } of items) {
      const { 'kruise.io/sidecarset-hash': all = '', 'kruise.io/sidecarset-hash-without-image': less = '' } =
        metadata.annotations ?? {};
      expect(JSON.parse(all).cold.hash).toBe(whole);
      expect(JSON.parse(less).cold.hash).toBe(withoutImage);
    }
  });
});
