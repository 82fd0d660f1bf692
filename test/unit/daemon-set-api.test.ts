import { describe, expect, it, test } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { describeError } from '../../api/core/field-error.ts';
import { convertDaemonSet } from '../../api/daemon-set/convert.ts';
import { defaultDaemonSet } from '../../api/daemon-set/defaults.ts';
import { daemonSetKind } from '../../api/daemon-set/schema.ts';
import { daemonSetEvent, daemonSetMark } from '../../api/daemon-set/types.ts';
import { daemonSetWarnings, validateDaemonSet, validateDaemonSetUpdate } from '../../api/daemon-set/validate.ts';
import { newerFieldsAnnotation } from '../../api/fleet/newer-fields.ts';
import { crdOf } from '../../deploy/generate/crd.ts';
import { recorded } from '../support/recorded.ts';

const [alpha, beta] = ['apps.kruise.io/v1alpha1', 'apps.kruise.io/v1beta1'];
const progressive = 'daemonset.kruise.io/progressive-create-pod';
const stages = ['1-created', '2-partition-1'] as const;
const recordedAs = (stage: (typeof stages)[number], version: string) =>
  recorded(`daemonset-${stage}-${version}`) as unknown as JsonObject;

function set(spec: JsonObject = {}, apiVersion = beta, metadata: JsonObject = {}): JsonObject {
  return {
    apiVersion,
    kind: 'DaemonSet',
    metadata: { namespace: 'shop', name: 'agent', ...metadata },
    spec: {
      selector: { matchLabels: { app: 'agent' } },
      template: { metadata: { labels: { app: 'agent' } }, spec: { containers: [{ name: 'main', image: 'app:1' }] } },
      ...spec,
    },
  };
}

const rolling = (rollingUpdate: JsonObject, apiVersion = beta) =>
  set({ updateStrategy: { type: 'RollingUpdate', rollingUpdate } }, apiVersion);
const fields = (object: JsonObject) => validateDaemonSet(object).map(({ field }) => field);
const specOf = (object: JsonObject | undefined) => objectOr(object?.spec);
const toAlpha = (object: JsonObject) => convertDaemonSet(object, alpha)?.object ?? {};
const toBeta = (object: JsonObject) => convertDaemonSet(object, beta)?.object ?? {};

describe('the definition', () => {
  const versions = objectOr(crdOf(daemonSetKind).spec).versions as readonly JsonObject[];

  it('has the columns of OpenKruise in both versions, and no scale subresource (AD §2)', () => {
    for (const { additionalPrinterColumns, subresources } of versions) {
      const columns = additionalPrinterColumns as readonly JsonObject[];
      const names = columns.map(({ name, priority = 0 }) => `${name}${priority === 0 ? '' : ' wide'}`);
      expect(names.join()).toBe('DESIRED,CURRENT,READY,UP-TO-DATE,AVAILABLE,AGE,CONTAINERS wide,IMAGES wide');
      expect(subresources).toEqual({ status: {} });
    }
  });

  it('stores v1beta1, requires selector and template, and has neither enums nor defaults', () => {
    expect(versions.map(({ name, storage }) => [name, storage])).toEqual([
      ['v1alpha1', false],
      ['v1beta1', true],
    ]);
    const text = JSON.stringify(versions.map(({ schema }) => schema));
    expect([text.includes('"enum"'), text.includes('"default"')]).toEqual([false, false]);
    expect(text).toContain('"required":["selector","template"]');
  });

  it('spells the Events of OpenKruise', () => {
    const texts = [
      daemonSetEvent.created('agent-mjxck'),
      daemonSetEvent.createFailed('agent-mjxck', 'quota'),
      daemonSetEvent.deleted('agent-mjxck'),
      daemonSetEvent.updatedInPlace('agent-2bglm'),
      daemonSetEvent.pullJobCreated('agent-66c99cc746-main', 'busybox:1.33'),
    ];
    expect(texts.map(({ type, reason, message }) => `${type} ${reason} ${message}`)).toEqual([
      'Normal SuccessfulCreate Created pod: agent-mjxck',
      'Warning FailedCreate Error creating: quota',
      'Normal SuccessfulDelete Deleted pod: agent-mjxck',
      'Normal SuccessfulUpdatePodInPlace successfully update pod agent-2bglm in-place',
      'Normal CreatedImagePullJob created ImagePullJob agent-66c99cc746-main for image: busybox:1.33',
    ]);
  });
});

describe('defaults (AD §2)', () => {
  const updateStrategyOf = (object: JsonObject) => specOf(defaultDaemonSet(object)).updateStrategy;

  it('are stored field by field, as clients dereference them', () => {
    expect(specOf(defaultDaemonSet(set({ updateStrategy: {} })))).toMatchObject({
      ...{ burstReplicas: 250, revisionHistoryLimit: 10 },
      updateStrategy: {
        type: 'RollingUpdate',
        rollingUpdate: { rollingUpdateType: 'Standard', maxUnavailable: 1, maxSurge: 0 },
      },
    });
  });

  test.each<readonly [string, JsonObject, JsonObject]>([
    ['only maxSurge', { maxSurge: 2 }, { rollingUpdateType: 'Standard', maxSurge: 2 }],
    ['only maxUnavailable', { maxUnavailable: '5%' }, { rollingUpdateType: 'Standard', maxUnavailable: '5%' }],
    ['a partition', { partition: 0 }, { rollingUpdateType: 'Standard', partition: 0, maxUnavailable: 1, maxSurge: 0 }],
  ])('with %s fill in what is missing', (_, rollingUpdate, expected) => {
    expect(updateStrategyOf(rolling(rollingUpdate))).toEqual({ type: 'RollingUpdate', rollingUpdate: expected });
  });

  it('of Surging in v1alpha1 surge by 1 where it does not say otherwise', () => {
    const type = { rollingUpdateType: 'Surging' };
    const of = (more: JsonObject) => objectOr(updateStrategyOf(rolling({ ...type, ...more }, alpha))).rollingUpdate;
    expect(of({})).toEqual({ ...type, maxSurge: 1, maxUnavailable: 0 });
    expect(of({ maxSurge: '20%' })).toEqual({ ...type, maxSurge: '20%', maxUnavailable: 0 });
  });

  it('leave rollingUpdate absent with OnDelete, and the template without defaults', () => {
    expect(updateStrategyOf(set({ updateStrategy: { type: 'OnDelete' } }))).toEqual({ type: 'OnDelete' });
    expect(JSON.stringify(specOf(defaultDaemonSet(set())).template)).not.toMatch(/imagePullPolicy|restartPolicy/);
  });

  it.each(stages)('change nothing in an object that OpenKruise has defaulted: %s', (stage) => {
    for (const version of ['v1alpha1', 'v1beta1']) {
      const object = recordedAs(stage, version);
      expect(defaultDaemonSet(object)).toEqual(object);
    }
  });

  it.each([null, 1, 'x', []])('leave a spec of the wrong shape alone: %j', (spec) => {
    expect(defaultDaemonSet({ ...set(), spec })).toEqual({ ...set(), spec });
    expect(updateStrategyOf(set({ updateStrategy: spec }))).toEqual(spec ?? expect.anything());
  });
});

describe('conversion (AD §2)', () => {
  it.each(stages)('is that of OpenKruise, both ways: %s', (stage) => {
    expect(toAlpha(recordedAs(stage, 'v1beta1'))).toEqual(recordedAs(stage, 'v1alpha1'));
    expect(toBeta(recordedAs(stage, 'v1alpha1'))).toEqual(recordedAs(stage, 'v1beta1'));
  });

  it('makes the annotation of v1alpha1 a field, and keeps it', () => {
    const object = set({}, alpha, { annotations: { [progressive]: 'true' } });
    const converted = toBeta(object);
    expect(specOf(converted).scaleStrategy).toEqual({ partitionedScaling: true });
    expect(converted).toHaveProperty(['metadata', 'annotations', progressive], 'true');
    expect(toAlpha(converted)).toEqual(object);
  });

  it('writes the annotation when the field is true, and takes it as given when it is removed in v1alpha1', () => {
    const object = set({ scaleStrategy: { partitionedScaling: true } });
    const older = toAlpha(object);
    expect(older).toEqual(set({}, alpha, { annotations: { [progressive]: 'true' } }));
    const { annotations: _, ...metadata } = objectOr(older.metadata);
    expect(specOf(toBeta({ ...older, metadata }))).not.toHaveProperty('scaleStrategy');
  });

  it('lets an annotation without effect in v1beta1 turn it on again with a write in v1alpha1', () => {
    const inert = set({ scaleStrategy: { partitionedScaling: false } }, beta, {
      annotations: { [progressive]: 'true' },
    });
    expect(specOf(toBeta(toAlpha(inert))).scaleStrategy).toEqual({ partitionedScaling: true });
  });

  test.each<readonly [string, JsonObject]>([
    ['false', { scaleStrategy: { partitionedScaling: false } }],
    ['nothing', { scaleStrategy: {} }],
    ['absent', {}],
  ])('loses nothing of a scaleStrategy that is %s', (_, spec) => {
    expect(toBeta(toAlpha(set(spec)))).toEqual(set(spec));
  });

  it('takes nothing from an annotation of ours that is not its work', () => {
    const forged = (text: string) =>
      convertDaemonSet(set({}, alpha, { annotations: { [newerFieldsAnnotation]: text } }), beta);
    expect(forged('{"template":{}}')).toMatchObject({ object: { spec: set().spec }, warnings: [] });
    const wrong = forged('{"scaleStrategy":{"partitionedScaling":"yes"}}');
    expect(wrong?.object.spec).toEqual(set().spec);
    expect(wrong?.warnings).toEqual([expect.stringContaining('scaleStrategy has the wrong type')]);
    // the annotation that clients of v1alpha1 know decides
    expect(forged('{"scaleStrategy":{"partitionedScaling":true}}')?.object.spec).toEqual({
      ...specOf(set()),
      scaleStrategy: {},
    });
  });

  it('makes of Surging what it means', () => {
    expect(specOf(toBeta(rolling({ rollingUpdateType: 'Surging' }, alpha))).updateStrategy).toEqual({
      type: 'RollingUpdate',
      rollingUpdate: { rollingUpdateType: 'Standard', maxSurge: 1, maxUnavailable: 0 },
    });
  });

  it('keeps every other field, and answers nothing for unknown versions', () => {
    const pace = { maxSurge: '10%', selector: { matchLabels: { a: 'b' } }, partition: 3, paused: true };
    const object = set({ ...specOf(rolling(pace)), burstReplicas: '5%', lifecycle: { preDelete: {} } }, beta);
    const full = { ...object, status: { updateRevision: 'abc', numberReady: 1 } };
    expect(toBeta(toAlpha(full))).toEqual(full);
    expect(toAlpha(full).status).toEqual({ daemonSetHash: 'abc', numberReady: 1 });
    expect(convertDaemonSet(set(), 'apps.kruise.io/v2')).toBeUndefined();
    expect(convertDaemonSet(set({}, 'apps/v1'), beta)).toBeUndefined();
  });
});

describe('validation (AD §6)', () => {
  it.each(stages)('accepts what OpenKruise has stored, in both versions: %s', (stage) => {
    expect(validateDaemonSet(recordedAs(stage, 'v1beta1'))).toEqual([]);
    expect(validateDaemonSet(recordedAs(stage, 'v1alpha1'))).toEqual([]);
    expect(fields(set())).toEqual([]);
  });

  const at = 'spec.updateStrategy.rollingUpdate';
  const podSpec = (spec: JsonObject) => set({ template: { metadata: { labels: { app: 'agent' } }, spec } });
  const large = 'x'.repeat(256 * 1024);
  const long = `${'1'.repeat(64)}%`;
  test.each<readonly [string, JsonObject, string]>([
    ['a name that is no DNS subdomain', { ...set(), metadata: { name: 'my_agent' } }, 'metadata.name'],
    ['no selector', set({ selector: null }), 'spec.selector'],
    ['an empty selector', set({ selector: {} }), 'spec.selector'],
    ['a selector of other labels', set({ selector: { matchLabels: { app: 'b' } } }), 'spec.template.metadata.labels'],
    ['no template', set({ template: null }), 'spec.template'],
    ['pods that end', podSpec({ restartPolicy: 'OnFailure' }), 'spec.template.spec.restartPolicy'],
    ['a deadline of pods', podSpec({ activeDeadlineSeconds: 1 }), 'spec.template.spec.activeDeadlineSeconds'],
    ['negative minReadySeconds', set({ minReadySeconds: -1 }), 'spec.minReadySeconds'],
    ['a negative revisionHistoryLimit', set({ revisionHistoryLimit: -1 }), 'spec.revisionHistoryLimit'],
    ['an unknown update type', set({ updateStrategy: { type: 'Blue' } }), 'spec.updateStrategy.type'],
    ['an unknown rolling update type', rolling({ rollingUpdateType: 'Any' }), `${at}.rollingUpdateType`],
    ['Surging in v1beta1', rolling({ rollingUpdateType: 'Surging' }), `${at}.rollingUpdateType`],
    ['both budgets', rolling({ maxUnavailable: 1, maxSurge: '10%' }), `${at}.maxSurge`],
    ['no budget', rolling({ maxUnavailable: 0, maxSurge: '0%' }), `${at}.maxUnavailable`],
    ['no budget, half of it absent', rolling({ maxSurge: 0 }), `${at}.maxUnavailable`],
    ['maxUnavailable above 100%', rolling({ maxUnavailable: '101%' }), `${at}.maxUnavailable`],
    ['a negative maxUnavailable', rolling({ maxUnavailable: -1 }), `${at}.maxUnavailable`],
    ['maxUnavailable in quotes', rolling({ maxUnavailable: '5' }), `${at}.maxUnavailable`],
    ['maxUnavailable that is no number', rolling({ maxUnavailable: 'x', maxSurge: 1 }), `${at}.maxUnavailable`],
    ['maxSurge above 100%', rolling({ maxSurge: '101%' }), `${at}.maxSurge`],
    ['a negative maxSurge', rolling({ maxSurge: -1 }), `${at}.maxSurge`],
    ['maxSurge in quotes', rolling({ maxSurge: '5' }), `${at}.maxSurge`],
    ['a surge in place', rolling({ rollingUpdateType: 'InPlaceIfPossible', maxSurge: 1 }), `${at}.maxSurge`],
    [
      'maxUnavailable with Surging',
      rolling({ rollingUpdateType: 'Surging', maxUnavailable: 1 }, alpha),
      `${at}.maxUnavailable`,
    ],
    ['a negative partition', rolling({ partition: -1 }), `${at}.partition`],
    ['a partition above 100%', rolling({ partition: '101%' }), `${at}.partition`],
    ['a partition in quotes', rolling({ partition: '5' }), `${at}.partition`],
    [
      'an unknown replacement policy',
      { ...set(), metadata: { name: 'agent', annotations: { [daemonSetMark.podReplacementPolicy]: 'Soon' } } },
      'metadata.annotations[windlass.io/pod-replacement-policy]',
    ],
    ['a hook of in-place updates', set({ lifecycle: { inPlaceUpdate: {} } }), 'spec.lifecycle.inPlaceUpdate'],
    [
      'a large selector',
      set({ selector: { matchLabels: { app: 'agent' }, matchExpressions: [], x: large } }),
      'spec.selector',
    ],
    ['a large selector of nodes', rolling({ selector: { x: large } }), `${at}.selector`],
    ['a large lifecycle', set({ lifecycle: { preDelete: { x: large } } }), 'spec.lifecycle'],
    ['a large template', podSpec({ x: large.repeat(4) }), 'spec.template'],
    ['a long burstReplicas', set({ burstReplicas: long }), 'spec.burstReplicas'],
  ])('refuses %s', (_, object, field) => {
    expect(fields(object)).toEqual([field]);
  });

  it('limits the texts of budgets and partition as well', () => {
    const longest = (field: string) =>
      validateDaemonSet(rolling({ [field]: long }))
        .map(describeError)
        .join();
    for (const field of ['maxUnavailable', 'maxSurge', 'partition']) {
      expect(longest(field)).toContain(`${at}.${field}: Invalid value`);
      expect(longest(field)).toContain('must not be longer than 64 characters');
    }
  });

  it('says of both budgets and of an unknown type what OpenKruise says', () => {
    const [error] = validateDaemonSet(rolling({ maxUnavailable: 1, maxSurge: 1 })).map(describeError);
    expect(error).toBe(`${at}.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero`);
    expect(validateDaemonSet(rolling({ rollingUpdateType: 'Any' }))[0]?.type).toBe('FieldValueNotSupported');
    expect(validateDaemonSet(rolling({ maxSurge: 0 }))[0]?.type).toBe('FieldValueRequired');
  });

  it('accepts any burstReplicas and selector of nodes, as OpenKruise does', () => {
    expect(fields(set({ burstReplicas: 'many' }))).toEqual([]);
    expect(fields(rolling({ selector: { matchExpressions: [{ key: '!', operator: 'Odd' }] } }))).toEqual([]);
    expect(fields(set({ lifecycle: { preDelete: {}, preNormal: {} } }))).toEqual([]);
  });

  it('accepts what has no effect with OnDelete', () => {
    expect(
      fields(set({ updateStrategy: { type: 'OnDelete', rollingUpdate: { maxSurge: 1, maxUnavailable: 1 } } })),
    ).toEqual([]);
  });

  it('forbids to change the selector, and allows to change every other field', () => {
    const changed = validateDaemonSetUpdate(set(), set({ selector: { matchLabels: { app: 'agent', a: 'b' } } }));
    expect(changed.map(describeError)[0]).toMatch(/^spec: Forbidden: selector cannot be changed/);
    const after = set({
      ...{ burstReplicas: 1, lifecycle: { preDelete: {} }, scaleStrategy: {}, updateStrategy: { type: 'OnDelete' } },
      ...{ minReadySeconds: 5, revisionHistoryLimit: 1 },
      template: { metadata: { labels: { app: 'agent', a: 'b' } }, spec: {} },
    });
    expect(validateDaemonSetUpdate(set(), after)).toEqual([]);
  });

  it('does not report again what the stored object has already', () => {
    const broken = rolling({ maxUnavailable: 0, partition: -1 });
    expect(validateDaemonSetUpdate(broken, { ...broken, metadata: { name: 'agent', labels: { a: 'b' } } })).toEqual([]);
    const large = set({ lifecycle: { preDelete: { x: 'x'.repeat(256 * 1024) } } });
    expect(validateDaemonSetUpdate(large, large)).toEqual([]);
  });

  it('warns of what has no effect', () => {
    const annotations = {
      [progressive]: 'true',
      'apps.kruise.io/image-predownload-parallelism': '5%',
      'apps.kruise.io/image-predownload-min-updated-ready-pods': '20%',
    };
    const spec = {
      burstReplicas: 'many',
      lifecycle: { preNormal: {} },
      updateStrategy: { type: 'OnDelete', rollingUpdate: {} },
    };
    const paths = daemonSetWarnings(set(spec, beta, { annotations })).map((text) => text.split(': ')[0]);
    expect(paths).toEqual([
      'spec.burstReplicas',
      'spec.lifecycle.preNormal',
      'spec.updateStrategy.rollingUpdate',
      ...Object.keys(annotations).map((key) => `metadata.annotations[${key}]`),
    ]);
    expect(
      daemonSetWarnings(
        set({ scaleStrategy: { partitionedScaling: true } }, beta, { annotations: { [progressive]: 'true' } }),
      ),
    ).toEqual([]);
    expect(daemonSetWarnings(set({}, alpha, { annotations: { [progressive]: 'true' } }))).toEqual([]);
  });

  it('warns of what has another effect than it seems', () => {
    const numbered = set({}, beta, { annotations: { [daemonSetMark.templateGeneration]: '1' } });
    expect(daemonSetWarnings(numbered).join()).toContain('count as updated whatever their template is');
    const unreadable = { matchExpressions: [{ key: 'a', operator: 'Foo' }] };
    const warned = daemonSetWarnings(set({ updateStrategy: { rollingUpdate: { selector: unreadable } } }));
    expect(warned).toEqual(['spec.updateStrategy.rollingUpdate.selector: cannot be read, and selects no node']);
  });

  it.each([null, 1, 'x', [], {}])('never throws, whatever the spec is: %j', (spec) => {
    expect(validateDaemonSet({ ...set(), spec }).length).toBeGreaterThan(0);
    expect(validateDaemonSet(set({ updateStrategy: spec as JsonObject, lifecycle: spec as JsonObject }))).toBeDefined();
    expect(daemonSetWarnings({ ...set(), spec })).toEqual([]);
  });
});
