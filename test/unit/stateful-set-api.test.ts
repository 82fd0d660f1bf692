import { describe, expect, it, test } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { describeError } from '../../api/core/field-error.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { newerFieldsAnnotation } from '../../api/fleet/newer-fields.ts';
import { convertStatefulSet } from '../../api/stateful-set/convert.ts';
import { defaultStatefulSet } from '../../api/stateful-set/defaults.ts';
import {
  statefulSetWarnings,
  validateStatefulSet,
  validateStatefulSetUpdate,
} from '../../api/stateful-set/validate.ts';
import { statefulSetRules } from '../../webhook/stateful-set.ts';
import { recorded } from '../support/recorded.ts';

const recordedAs = (version: string) =>
  recorded<KubeObject>(`statefulset-1-created-${version}`) as unknown as JsonObject;

function set(spec: JsonObject = {}, version = 'v1beta1'): JsonObject {
  return {
    apiVersion: `apps.kruise.io/${version}`,
    kind: 'StatefulSet',
    metadata: { namespace: 'shop', name: 'web' },
    spec: {
      selector: { matchLabels: { app: 'web' } },
      template: {
        metadata: { labels: { app: 'web' } },
        spec: {
          containers: [{ name: 'main', image: 'app:1' }],
          readinessGates: [{ conditionType: 'InPlaceUpdateReady' }],
        },
      },
      podManagementPolicy: 'Parallel',
      ...spec,
    },
  };
}

const rolling = (rollingUpdate: JsonObject, spec: JsonObject = {}) =>
  set({ updateStrategy: { type: 'RollingUpdate', rollingUpdate }, ...spec });
const fields = (object: JsonObject) => validateStatefulSet(object).map(({ field }) => field);

describe('defaults', () => {
  const gates = parseFeatureGates();
  const specOf = (object: JsonObject) => object.spec as JsonObject;

  it('are stored field by field, as clients dereference them (AS §2)', () => {
    const { updateStrategy, replicas, revisionHistoryLimit, persistentVolumeClaimRetentionPolicy } = specOf(
      defaultStatefulSet(set(), gates),
    );
    expect(updateStrategy).toEqual({
      type: 'RollingUpdate',
      rollingUpdate: { partition: 0, maxUnavailable: 1, podUpdatePolicy: 'ReCreate', minReadySeconds: 0 },
    });
    expect([replicas, revisionHistoryLimit]).toEqual([1, 10]);
    expect(persistentVolumeClaimRetentionPolicy).toEqual({ whenDeleted: 'Retain', whenScaled: 'Retain' });
    const replaced = specOf(defaultStatefulSet(rolling({ partition: 2 }), gates)).updateStrategy as JsonObject;
    expect(replaced.rollingUpdate).toMatchObject({ partition: 2, maxUnavailable: 1, minReadySeconds: 0 });
  });

  it('with OnDelete rollingUpdate stays absent', () => {
    const onDelete = set({ updateStrategy: { type: 'OnDelete' } });
    expect(specOf(defaultStatefulSet(onDelete, gates)).updateStrategy).toEqual({ type: 'OnDelete' });
  });

  it('AS-84, AS-90: policies of PVCs are filled in with their gates, separately, and not in v1alpha1', () => {
    const off = specOf(defaultStatefulSet(set(), parseFeatureGates('StatefulSetAutoDeletePVC=false')));
    expect(Object.keys(off)).not.toContain('persistentVolumeClaimRetentionPolicy');
    const half = set({ persistentVolumeClaimRetentionPolicy: { whenScaled: 'Delete' } });
    const on = specOf(defaultStatefulSet(half, parseFeatureGates('StatefulSetAutoResizePVCGate=true')));
    expect(on.persistentVolumeClaimRetentionPolicy).toEqual({ whenDeleted: 'Retain', whenScaled: 'Delete' });
    expect(on.volumeClaimUpdateStrategy).toEqual({ type: 'OnDelete' });
    expect(Object.keys(specOf(defaultStatefulSet(set({}, 'v1alpha1'), gates)))).not.toContain(
      'persistentVolumeClaimRetentionPolicy',
    );
  });

  it('change nothing in an object that OpenKruise has defaulted', () => {
    const object = recordedAs('v1beta1');
    const allOn = parseFeatureGates('StatefulSetAutoResizePVCGate=true');
    expect(defaultStatefulSet(object, allOn, object)).toEqual(object);
  });
});

describe('conversion', () => {
  it('keeps what v1alpha1 does not have in an annotation, and takes it back from there', () => {
    const object = set({ reserveOrdinals: [1, '3-5'], scaleStrategy: { maxUnavailable: 2 }, replicas: 3 });
    const older = convertStatefulSet(object, 'apps.kruise.io/v1alpha1')?.object ?? {};
    expect(older.spec).not.toHaveProperty('reserveOrdinals');
    expect(older).toHaveProperty(['metadata', 'annotations', newerFieldsAnnotation]);
    expect(convertStatefulSet(older, 'apps.kruise.io/v1beta1')).toEqual({ object, warnings: [] });
  });

  it('takes nothing from an annotation that is not its own work', () => {
    const forged = (text: string) => {
      const older = set({ replicas: 3 }, 'v1alpha1');
      return convertStatefulSet(
        { ...older, metadata: { name: 'web', annotations: { [newerFieldsAnnotation]: text } } },
        'apps.kruise.io/v1beta1',
      );
    };
    expect(forged('{"replicas":9,"template":{}}')?.object.spec).toEqual(set({ replicas: 3 }).spec);
    expect(forged('nonsense')).toMatchObject({ object: { spec: set({ replicas: 3 }).spec } });
    expect(forged('nonsense')?.warnings).toHaveLength(1);
  });

  it('is that of OpenKruise, but for the fields that it loses', () => {
    const { spec } = convertStatefulSet(recordedAs('v1beta1'), 'apps.kruise.io/v1alpha1')?.object ?? {};
    expect(spec).toEqual(recordedAs('v1alpha1').spec);
  });

  it('answers nothing for unknown versions', () => {
    expect(convertStatefulSet(set(), 'apps.kruise.io/v2')).toBeUndefined();
  });
});

describe('validation (AS §6)', () => {
  it('accepts what OpenKruise has stored, in both versions', () => {
    expect(validateStatefulSet(recordedAs('v1beta1'))).toEqual([]);
    expect(validateStatefulSet(recordedAs('v1alpha1'))).toEqual([]);
    expect(fields(set())).toEqual([]);
  });

  const at = 'spec.updateStrategy.rollingUpdate';
  const ordered = { podManagementPolicy: 'OrderedReady' };
  test.each<readonly [string, JsonObject, string]>([
    ['a name that is no DNS label', { ...set(), metadata: { name: 'web.shop' } }, 'metadata.name'],
    ['no selector', set({ selector: {} }), 'spec.selector'],
    ['a selector of other labels', set({ selector: { matchLabels: { app: 'db' } } }), 'spec.template.metadata.labels'],
    ['an unknown order of pods', set({ podManagementPolicy: 'Any' }), 'spec.podManagementPolicy'],
    ['an unknown update type', set({ updateStrategy: { type: 'Blue' } }), 'spec.updateStrategy.type'],
    ['rollingUpdate with OnDelete', set({ updateStrategy: { type: 'OnDelete', rollingUpdate: {} } }), at],
    ['a negative partition', rolling({ partition: -1 }), `${at}.partition`],
    ['a partition in percent', rolling({ partition: '20%' }), `${at}.partition`],
    ['negative minReadySeconds', rolling({ minReadySeconds: -1 }), `${at}.minReadySeconds`],
    ['too many minReadySeconds', rolling({ minReadySeconds: 301 }), `${at}.minReadySeconds`],
    ['a budget of 0', rolling({ maxUnavailable: 0 }), `${at}.maxUnavailable`],
    ['a budget of 0%', rolling({ maxUnavailable: '0%' }), `${at}.maxUnavailable`],
    ['a budget in quotes', rolling({ maxUnavailable: '5' }), `${at}.maxUnavailable`],
    ['a budget of 2 in order', rolling({ maxUnavailable: 2 }, ordered), `${at}.maxUnavailable`],
    ['a budget in percent in order', rolling({ maxUnavailable: '1%' }, ordered), `${at}.maxUnavailable`],
    ['a scale budget of 0', set({ scaleStrategy: { maxUnavailable: 0 } }), 'spec.scaleStrategy.maxUnavailable'],
    [
      'a scale budget in order',
      set({ ...ordered, scaleStrategy: { maxUnavailable: 2 } }),
      'spec.scaleStrategy.maxUnavailable',
    ],
    ['an unknown policy', rolling({ podUpdatePolicy: 'Never' }), `${at}.podUpdatePolicy`],
    [
      'in-place updates without the gate',
      rolling({ podUpdatePolicy: 'InPlaceOnly' }, { template: { metadata: { labels: { app: 'web' } }, spec: {} } }),
      'spec.template.spec.readinessGates',
    ],
    ['no order in order', rolling({ unorderedUpdate: {} }, ordered), `${at}.unorderedUpdate`],
    [
      'a weight of 101',
      rolling({
        unorderedUpdate: {
          priorityStrategy: { weightPriority: [{ weight: 101, matchSelector: { matchLabels: { a: 'b' } } }] },
        },
      }),
      `${at}.unorderedUpdate.priorityStrategy`,
    ],
    ['an ordinal as text', set({ reserveOrdinals: ['3'] }), 'spec'],
    ['a range backwards', set({ reserveOrdinals: ['5-3'] }), 'spec'],
    ['a negative ordinal', set({ reserveOrdinals: [-1] }), 'spec'],
    [
      'an unknown retention',
      set({ persistentVolumeClaimRetentionPolicy: { whenScaled: 'Keep' } }),
      'spec.persistentVolumeClaimRetentionPolicy.whenScaled',
    ],
    [
      'a deadline of pods',
      set({ template: { metadata: { labels: { app: 'web' } }, spec: { activeDeadlineSeconds: 1 } } }),
      'spec.template.spec.activeDeadlineSeconds',
    ],
    ['too many reserved ordinals', set({ reserveOrdinals: Array(10_001).fill(1) }), 'spec.reserveOrdinals'],
  ])('refuses %s', (_, object, field) => {
    expect(fields(object)).toEqual([field]);
  });

  it('accepts a range of billions, which is never expanded', () => {
    expect(fields(set({ reserveOrdinals: ['0-2147483647', 7] }))).toEqual([]);
  });

  test.each(['selector', 'serviceName', 'podManagementPolicy'])('forbids to change %s', (field) => {
    const changed = { selector: { matchLabels: { app: 'web', b: 'c' } }, serviceName: 'db', podManagementPolicy: '' };
    const errors = validateStatefulSetUpdate(set(), set({ [field]: changed[field as keyof typeof changed] }));
    expect(errors.map(describeError).join()).toContain(`${field} cannot be changed`);
  });

  it('allows to change every other field', () => {
    const after = set({
      ...{
        replicas: 5,
        reserveOrdinals: [1],
        lifecycle: {},
        scaleStrategy: { maxUnavailable: 1 },
        ordinals: { start: 1 },
      },
      ...{ volumeClaimTemplates: [{ metadata: { name: 'data' } }], volumeClaimUpdateStrategy: { type: 'OnDelete' } },
      ...{ persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Delete' }, revisionHistoryLimit: 3 },
    });
    expect(validateStatefulSetUpdate(set(), after)).toEqual([]);
  });

  it('with InPlaceOnly nothing but images may change', () => {
    const template = (container: JsonObject) => ({
      metadata: { labels: { app: 'web' } },
      spec: {
        containers: [{ name: 'main', image: 'app:1', ...container }],
        readinessGates: [{ conditionType: 'InPlaceUpdateReady' }],
      },
    });
    const to = (container: JsonObject) =>
      rolling({ podUpdatePolicy: 'InPlaceOnly' }, { template: template(container) });
    expect(validateStatefulSetUpdate(set(), to({ image: 'app:2' }))).toEqual([]);
    expect(validateStatefulSetUpdate(set(), to({ command: ['sh'] })).map(({ field }) => field)).toEqual(['spec']);
  });

  it('does not report again what the stored object has already', () => {
    const broken = rolling({ maxUnavailable: 0 });
    expect(validateStatefulSetUpdate(broken, { ...broken, metadata: { name: 'web', labels: { a: 'b' } } })).toEqual([]);
  });

  it('AS-12, AS-84, AS-90: warns of what has no effect', () => {
    const spec: JsonObject = {
      ordinals: { start: 3 },
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Delete' },
      volumeClaimUpdateStrategy: { type: 'OnPodRollingUpdate' },
    };
    const paths = (gates: string) =>
      statefulSetWarnings(set(spec), parseFeatureGates(gates)).map((text) => text.split(':')[0]);
    const [start, retention] = ['spec.ordinals.start', 'spec.persistentVolumeClaimRetentionPolicy'];
    const update = 'spec.volumeClaimUpdateStrategy';
    expect(paths('')).toEqual([start, update]);
    expect(paths('StatefulSetStartOrdinal=true,StatefulSetAutoDeletePVC=false')).toEqual([retention, update]);
    const annotations = {
      'apps.kruise.io/image-predownload-parallelism': '5%',
      'apps.kruise.io/image-predownload-timeout-seconds': '60',
      'apps.kruise.io/image-predownload-min-updated-ready-pods': '20%',
    };
    expect(statefulSetWarnings({ ...set(), metadata: { annotations } }, parseFeatureGates(''))).toEqual([
      'metadata.annotations[apps.kruise.io/image-predownload-parallelism]: is no number, and is ignored',
    ]);
    expect(statefulSetWarnings(set({ ordinals: { start: 0 } }), parseFeatureGates(''))).toEqual([]);
  });

  it('AS-35: warns of a pace of creation that OrderedReady does not have', () => {
    const scaleStrategy = { maxUnavailable: 1 };
    const warnings = (spec: JsonObject) => statefulSetWarnings(set(spec), parseFeatureGates(''));
    expect(warnings({ scaleStrategy, podManagementPolicy: 'OrderedReady' })).toEqual([
      expect.stringMatching(/^spec\.scaleStrategy: has no effect/),
    ]);
    expect(warnings({ scaleStrategy, podManagementPolicy: 'Parallel' })).toEqual([]);
  });

  it('warns of a name with which all pods would be refused', () => {
    const warnings = (length: number) =>
      statefulSetWarnings({ ...set(), metadata: { name: 'x'.repeat(length) } }, parseFeatureGates(''));
    expect(warnings(52)).toEqual([]);
    expect(warnings(53)).toEqual([expect.stringMatching(/^metadata\.name: has 53 characters/)]);
  });

  it.each([null, 1, 'x', [], {}])('never throws, whatever the spec is: %j', (spec) => {
    expect(validateStatefulSet({ ...set(), spec }).length).toBeGreaterThan(0);
  });
});

describe('admission of v1alpha1', () => {
  const withNewer = (text: string): JsonObject => ({
    ...set({}, 'v1alpha1'),
    metadata: { namespace: 'shop', name: 'web', annotations: { [newerFieldsAnnotation]: text } },
  });
  const { problemsOf, limitProblemsOf, warningsOf } = statefulSetRules;

  it('judges the fields of v1beta1 that are in its annotation, as they are stored', () => {
    const bad = withNewer(
      JSON.stringify({ reserveOrdinals: Array(10_001).fill(1), scaleStrategy: { maxUnavailable: 0 } }),
    );
    const found = problemsOf({ after: bad }).map(({ field }) => field);
    expect(found).toEqual(['spec.scaleStrategy.maxUnavailable', 'spec.reserveOrdinals']);
    expect(limitProblemsOf({ after: bad }).map(({ field }) => field)).toEqual(['spec.reserveOrdinals']);
    expect(problemsOf({ after: bad, before: bad })).toEqual([]);
    expect(problemsOf({ after: bad, before: set({}, 'v1alpha1') })).toHaveLength(2);
  });

  it.each<[string, unknown]>([
    ['reserveOrdinals', { a: 1 }],
    ['reserveOrdinals', null],
    ['reserveOrdinals', [{}]],
    ['ordinals', { start: 'x' }],
    ['ordinals', []],
    ['scaleStrategy', 'x'],
    ['lifecycle', 7],
  ])('leaves out %s of the wrong type: %j', (field, value) => {
    const object = withNewer(JSON.stringify({ [field]: value, volumeClaimUpdateStrategy: { type: 'OnDelete' } }));
    const { object: stored, warnings } = convertStatefulSet(object, 'apps.kruise.io/v1beta1') ?? {};
    expect(stored?.spec).not.toHaveProperty(field);
    expect(stored?.spec).toHaveProperty('volumeClaimUpdateStrategy');
    expect(warnings).toEqual([`annotation ${newerFieldsAnnotation}: ${field} has the wrong type and no effect`]);
    expect(warningsOf({ after: object }, parseFeatureGates())).toEqual(warnings);
  });

  it('says that an annotation which cannot be read has no effect', () => {
    const gates = parseFeatureGates();
    expect(problemsOf({ after: withNewer('{') })).toEqual([]);
    expect(warningsOf({ after: withNewer('{') }, gates)).toEqual([expect.stringContaining(newerFieldsAnnotation)]);
    const early = withNewer(JSON.stringify({ ordinals: { start: 1 } }));
    expect(warningsOf({ after: early }, gates)).toEqual([expect.stringContaining('StatefulSetStartOrdinal')]);
  });
});
