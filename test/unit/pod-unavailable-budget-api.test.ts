import { readFileSync } from 'node:fs';
import { describe, expect, it, test } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { describeError } from '../../api/core/field-error.ts';
import type { LabelSelector } from '../../api/core/label-selector.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { newerFieldsAnnotation } from '../../api/fleet/newer-fields.ts';
import { conflictProblems } from '../../api/pod-unavailable-budget/conflicts.ts';
import { convertPodUnavailableBudget } from '../../api/pod-unavailable-budget/convert.ts';
import { podUnavailableBudgetKind } from '../../api/pod-unavailable-budget/schema.ts';
import {
  budgetEvent,
  budgetGateRefusal,
  budgetRefusal,
  budgetStamp,
  type PodUnavailableBudget,
  relatedBudget,
} from '../../api/pod-unavailable-budget/types.ts';
import {
  validatePodUnavailableBudget,
  validatePodUnavailableBudgetUpdate,
} from '../../api/pod-unavailable-budget/validate.ts';
import { crdOf } from '../../deploy/generate/crd.ts';
import { metadataOf } from '../support/objects/metadata.ts';
import { aPod } from '../support/objects/pod.ts';
import { recorded } from '../support/recorded.ts';

const [alpha, beta] = ['policy.kruise.io/v1alpha1', 'policy.kruise.io/v1beta1'];
const operationsKey = 'kruise.io/pub-protect-operations';
const replicasKey = 'pub.kruise.io/protect-total-replicas';
const stages = ['1-running', '2-spent', '3-later'];
const recordedAt = (stage: string) => recorded<PodUnavailableBudget>(`pub-${stage}`) as unknown as JsonObject;

function pub(spec: JsonObject = {}, annotations: JsonObject = {}, apiVersion = beta): JsonObject {
  const isMarked = Object.keys(annotations).length > 0;
  return {
    apiVersion,
    kind: 'PodUnavailableBudget',
    metadata: { namespace: 'shop', name: 'web', ...(isMarked && { annotations }) },
    spec: { selector: { matchLabels: { app: 'web' } }, maxUnavailable: 1, ...spec },
  };
}

const older = (annotations: JsonObject, spec: JsonObject = {}) => pub(spec, annotations, alpha);
const toAlpha = (object: JsonObject) => convertPodUnavailableBudget(object, alpha)?.object ?? {};
const toBeta = (object: JsonObject) => convertPodUnavailableBudget(object, beta)?.object ?? {};
const annotationsOf = ({ metadata }: JsonObject) => objectOr(objectOr(metadata).annotations);
const problems = (object: JsonObject) => validatePodUnavailableBudget(object).map(describeError);
const updateProblems = (before: JsonObject, after: JsonObject) =>
  validatePodUnavailableBudgetUpdate(before, after).map(describeError);
const target = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' };

describe('the definition (PUB §2)', () => {
  const spec = objectOr(crdOf(podUnavailableBudgetKind).spec);
  const versions = spec.versions as readonly JsonObject[];

  it('has the names and columns of OpenKruise in both versions, and stores v1beta1', () => {
    expect(spec).toMatchObject({
      scope: 'Namespaced',
      names: { plural: 'podunavailablebudgets', shortNames: ['pub'] },
    });
    expect(versions.map(({ name, storage }) => [name, storage])).toEqual([
      ['v1alpha1', false],
      ['v1beta1', true],
    ]);
    for (const { additionalPrinterColumns, subresources } of versions) {
      const columns = additionalPrinterColumns as readonly JsonObject[];
      expect(columns.map(({ name, jsonPath }) => `${name} ${jsonPath}`)).toEqual([
        'Allowed .status.unavailableAllowed',
        'Current .status.currentAvailable',
        'Desired .status.desiredAvailable',
        'Total .status.totalReplicas',
      ]);
      expect(subresources).toEqual({ status: {} });
    }
  });

  it('limits the values of what only v1beta1 has', () => {
    const fields = versions.map(({ schema }) => {
      const whole = objectOr(objectOr(objectOr(schema).openAPIV3Schema).properties);
      return objectOr(objectOr(whole.spec).properties);
    });
    const newer = ['protectOperations', 'protectTotalReplicas', 'ignoredPodSelector'];
    expect(newer.map((field) => fields.map((of) => Object.hasOwn(of, field)))).toEqual(newer.map(() => [false, true]));
    expect(fields[1]?.protectTotalReplicas).toMatchObject({ minimum: 1, format: 'int32' });
    expect(JSON.stringify(fields[1]?.protectOperations)).toContain('"enum":["DELETE","UPDATE","EVICT","RESIZE"]');
    expect(JSON.stringify(versions)).not.toContain('"default"');
  });
});

describe('texts', () => {
  it('PUB-37, PUB-37a: spells refusals as OpenKruise does', () => {
    const file = new URL('../recorded/pub-refusal.txt', import.meta.url);
    const [, refusal = ''] = readFileSync(file, 'utf8').trim().split(' denied the request: ');
    expect(budgetRefusal.spent('hot')).toBe(refusal);
    expect(budgetRefusal.tooManyEntries('hot')).toBe(
      'podunavailablebudget.policy.kruise.io "hot" is forbidden: DisruptedPods and UnavailablePods map too big - too ' +
        'many unavailable not confirmed by PUB controller',
    );
    expect(budgetRefusal.conflicts('hot')).toBe("couldn't update PodUnavailableBudget hot due to conflicts");
  });

  it('spells the Events of OpenKruise (PUB §4)', () => {
    const budget = recorded<PodUnavailableBudget>('pub-1-running');
    const events = [
      ...[budgetEvent.prevented(), budgetEvent.noPods(), budgetEvent.notDeleted(budget)],
      budgetEvent.countFailed('no such kind'),
    ];
    expect(events.map(({ type, reason, message }) => `${type} ${reason} ${message}`)).toEqual([
      'Warning PubPreventPodDeletion openkruise pub prevents pod deletion',
      'Normal NoPods No matching pods found',
      "Warning NotDeleted Pod was expected by PUB rec/hot to be deleted but it wasn't",
      'Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: no such kind',
    ]);
  });

  it('rejects every budget only while both gates are off (PUB §6)', () => {
    const refusal = (gates: string) => budgetGateRefusal(parseFeatureGates(gates));
    expect(refusal('')).toBeUndefined();
    expect(refusal('PodUnavailableBudgetDeleteGate=false,PodUnavailableBudgetUpdateGate=true')).toBeUndefined();
    const text =
      'feature PodUnavailableBudget is invalid, please open via ' +
      'feature-gate(PodUnavailableBudgetDeleteGate, PodUnavailableBudgetUpdateGate)';
    expect(refusal('PodUnavailableBudgetDeleteGate=false')).toBe(text);
    expect(refusal('PodWebhook=false,PodUnavailableBudgetUpdateGate=true')).toBe(text);
  });

  test.each<readonly [string, Readonly<Record<string, string>>, string | undefined]>([
    ['both', { 'pub.kruise.io/related-pub': 'a', 'kruise.io/related-pub': 'b' }, 'a'],
    ['the older one', { 'kruise.io/related-pub': 'b' }, 'b'],
    ['none', {}, undefined],
    ['an empty one', { 'pub.kruise.io/related-pub': '' }, undefined],
    ['ours', budgetStamp('web'), 'web'],
  ])('finds the budget of a pod with the annotation: %s (PUB §4)', (_, annotations, expected) => {
    expect(relatedBudget(aPod({ metadata: { annotations } }))).toBe(expected);
  });
});

describe('conversion (PUB §2)', () => {
  it.each(stages)('loses nothing of what OpenKruise has stored: %s', (stage) => {
    const object = recordedAt(stage);
    expect(toBeta(toAlpha(object))).toEqual(object);
    expect(toAlpha(object)).toEqual({ ...object, apiVersion: alpha });
  });

  it('makes fields of the annotations of v1alpha1, and keeps them', () => {
    const annotations = { [operationsKey]: 'DELETE, EVICT ', [replicasKey]: '5' };
    const converted = toBeta(older(annotations));
    expect(converted.spec).toMatchObject({ protectOperations: ['DELETE', 'EVICT'], protectTotalReplicas: 5 });
    expect(annotationsOf(converted)).toEqual(annotations);
    expect(toBeta(older({ [operationsKey]: '', [replicasKey]: '' })).spec).toEqual(pub().spec);
  });

  it('writes the annotations from the fields, and removes those without one', () => {
    const fields = { protectOperations: ['EVICT', 'RESIZE'], protectTotalReplicas: 7 };
    const stale = { [operationsKey]: 'DELETE', [replicasKey]: '5' };
    expect(toAlpha(pub(fields, stale))).toEqual(older({ [operationsKey]: 'EVICT,RESIZE', [replicasKey]: '7' }));
    expect(toAlpha(pub({ protectOperations: [] }, stale))).toEqual(older({}));
    expect(toAlpha(pub({}, { ...stale, mine: 'a' }))).toEqual(older({ mine: 'a' }));
  });

  it('keeps ignoredPodSelector, which OpenKruise loses', () => {
    const object = pub({ ignoredPodSelector: { matchLabels: { tier: 'test' } }, minAvailable: '50%' });
    expect(toAlpha(object)).toEqual(
      older(
        { [newerFieldsAnnotation]: '{"ignoredPodSelector":{"matchLabels":{"tier":"test"}}}' },
        { minAvailable: '50%' },
      ),
    );
    expect(toBeta(toAlpha(object))).toEqual(object);
  });

  it.each(['{"ignoredPodSelector":{}}', '{"ignoredPodSelector":{"matchLabels":{"a":1}}}', '[', '{"selector":{}}'])(
    'takes nothing from an annotation of ours that is not its work: %s',
    (text) => expect(toBeta(older({ [newerFieldsAnnotation]: text }))).toEqual(pub()),
  );

  test.each<readonly [JsonObject, string]>([
    [{ [operationsKey]: 'DELETE,REMOVE' }, 'unknown operation "REMOVE"'],
    [{ [operationsKey]: 'DELETE,' }, 'unknown operation ""'],
    [{ [operationsKey]: `A${'x'.repeat(100)}` }, `unknown operation "A${'x'.repeat(63)}"`],
    [{ [replicasKey]: 'five' }, '"five" is not a 32-bit integer'],
    [{ [replicasKey]: '2147483648' }, '"2147483648" is not a 32-bit integer'],
  ])('refuses an annotation that has no field, and reads what is stored with it: %j', (annotations, why) => {
    const text = `failed to convert v1alpha1 PUB to v1beta1: annotation ${Object.keys(annotations)[0]}: ${why}`;
    expect(problems(older(annotations)).join()).toContain(text);
    const { protectOperations = [], protectTotalReplicas } = objectOr(toBeta(older(annotations))?.spec);
    const isCut = annotations[operationsKey]?.toString().startsWith('DELETE');
    expect([protectOperations, protectTotalReplicas]).toEqual([isCut ? ['DELETE'] : [], undefined]);
  });

  it('answers nothing for unknown versions, and leaves a spec of the wrong shape alone', () => {
    expect(convertPodUnavailableBudget(pub(), 'policy.kruise.io/v2')).toBeUndefined();
    expect(convertPodUnavailableBudget(pub({}, {}, 'policy/v1'), beta)).toBeUndefined();
    expect(toAlpha({ ...pub(), spec: [] })).toEqual({ ...older({}), spec: [] });
  });
});

describe('validation (PUB §6)', () => {
  it.each(stages)('accepts what OpenKruise has stored: %s', (stage) => {
    expect([...problems(recordedAt(stage)), ...problems(toAlpha(recordedAt(stage)))]).toEqual([]);
  });

  test.each<readonly [string, JsonObject]>([
    ['a target', { selector: null, targetRef: target }],
    ['a target of the core group', { selector: null, targetRef: { ...target, apiVersion: 'v1' } }],
    ['a percentage', { maxUnavailable: '100%' }],
    ['a minimum', { maxUnavailable: null, minAvailable: 0 }],
    ['all that v1beta1 has', { protectOperations: ['RESIZE'], protectTotalReplicas: 1 }],
    ['pods that are left out', { ignoredPodSelector: { matchExpressions: [{ key: 'a', operator: 'Exists' }] } }],
  ])('accepts %s', (_, spec) => expect(problems(pub(spec))).toEqual([]));

  const chosen = 'spec.selector, targetRef';
  const amounts = 'spec.maxUnavailable, minAvailable';
  test.each<readonly [string, JsonObject, string]>([
    [
      'nothing',
      { selector: null },
      `${chosen}: Required value: no selector or targetRef defined in PodUnavailableBudget`,
    ],
    ['both', { targetRef: target }, 'selector and targetRef are mutually exclusive'],
    ['an empty target', { selector: null, targetRef: {} }, 'empty targetRef is not valid for PodUnavailableBudget'],
    ['a target without name', { selector: null, targetRef: { ...target, name: '' } }, 'empty targetRef is not valid'],
    ['a bad version', { selector: null, targetRef: { ...target, apiVersion: 'a/b/c' } }, 'spec.targetRef.apiVersion'],
    ['an empty selector', { selector: {} }, 'spec.selector: Invalid value: {}: must not be empty'],
    ['a bad selector', { selector: { matchLabels: { '/': 'a' } } }, 'spec.selector.matchLabels'],
    ['no amount', { maxUnavailable: null }, `${amounts}: Required value`],
    ['two amounts', { minAvailable: 1 }, `${amounts}: Invalid value`],
    ['a negative amount', { maxUnavailable: -1 }, 'spec.maxUnavailable: Invalid value: -1: must not be negative'],
    ['a negative percentage', { maxUnavailable: '-1%' }, 'must not be negative'],
    ['more than all', { maxUnavailable: null, minAvailable: '101%' }, 'spec.minAvailable: Invalid value: "101%"'],
    ['what is no percentage', { maxUnavailable: 'many' }, 'must be an integer or a percentage'],
    [
      'another operation',
      { protectOperations: ['DELETE', 'READ'] },
      'spec.protectOperations[1]: Unsupported value: "READ"',
    ],
    ['operations that are no list', { protectOperations: 'DELETE' }, 'spec.protectOperations: Invalid value'],
    ['no replicas', { protectTotalReplicas: 0 }, 'spec.protectTotalReplicas: Invalid value: 0: must be at least 1'],
    [
      'an empty selection of pods that are left out',
      { ignoredPodSelector: {} },
      'spec.ignoredPodSelector: Invalid value',
    ],
    ['a long percentage', { maxUnavailable: `${'0'.repeat(70)}%` }, 'spec.maxUnavailable: Invalid value'],
    [
      'a long target',
      { selector: null, targetRef: { ...target, kind: 'K'.repeat(254) } },
      'longer than 253 characters',
    ],
    ['many operations', { protectOperations: Array(17).fill('EVICT') }, 'must not have more than 16 items'],
  ])('rejects %s', (_, spec, text) => {
    expect(problems(pub(spec)).join('\n')).toContain(text);
  });

  it('rejects a selector that is larger than its limit', () => {
    const values = Array.from({ length: 9_000 }, (_, index) => `a-value-that-is-about-thirty-long-${index}`);
    const selector = { matchExpressions: [{ key: 'a', operator: 'In', values }] };
    expect(problems(pub({ selector }))).toEqual([expect.stringContaining('spec.selector: Invalid value')]);
    expect(updateProblems(pub({ selector }), pub({ selector, maxUnavailable: 2 }))).toEqual([]);
  });

  test.each<readonly [string, JsonObject, string | undefined]>([
    ['5', {}, undefined],
    ['5', { protectTotalReplicas: 5 }, undefined],
    ['5', { protectTotalReplicas: 6 }, 'must equal spec.protectTotalReplicas'],
    ['five', {}, 'must be a 32-bit integer'],
  ])('compares the annotation %s of v1beta1 with the field: %j', (text, spec, problem) => {
    const found = problems(pub(spec, { [replicasKey]: text }));
    expect(found).toEqual(problem === undefined ? [] : [expect.stringContaining(problem)]);
    expect(found.every((line) => line.startsWith(`metadata.annotations[${replicasKey}]`))).toBe(true);
  });

  it('checks in v1alpha1 what it means in v1beta1', () => {
    expect(problems(older({ [replicasKey]: '0', [operationsKey]: 'EVICT' }))).toEqual([
      'spec.protectTotalReplicas: Invalid value: 0: must be at least 1',
    ]);
  });

  it.each([null, 1, 'x', []])('does not throw where something is %j', (value) => {
    expect(problems({ ...pub(), spec: value })).toEqual([expect.stringContaining('spec: Required value')]);
    const fields = ['selector', 'targetRef', 'maxUnavailable', 'protectOperations', 'ignoredPodSelector', 'metadata'];
    for (const field of fields)
      problems({ ...pub({ [field]: value }), ...(field === 'metadata' && { metadata: value }) });
  });
});

describe('validation of updates (PUB §6)', () => {
  it('rejects another selector or target, and nothing else', () => {
    const text = 'spec.selector, targetRef: Forbidden: selector and targetRef cannot be modified';
    const other = { selector: { matchLabels: { app: 'other' } } };
    expect(updateProblems(pub(), pub(other))).toEqual([text]);
    expect(updateProblems(pub(), pub({ selector: null, targetRef: target }))).toEqual([text]);
    expect(updateProblems(pub(), pub({ targetRef: null, maxUnavailable: '20%' }))).toEqual([]);
  });

  it('does not report what was stored before, and reports what is new', () => {
    const bad = pub({ maxUnavailable: '200%' }, { [replicasKey]: 'five' });
    expect(
      updateProblems(bad, pub({ maxUnavailable: '200%', protectOperations: ['EVICT'] }, { [replicasKey]: 'five' })),
    ).toEqual([]);
    expect(updateProblems(bad, pub({ maxUnavailable: '300%' }))).toEqual([expect.stringContaining('"300%"')]);
    expect(updateProblems(older({ [replicasKey]: 'five' }), older({ [replicasKey]: 'five' }))).toHaveLength(1);
  });
});

describe('conflicts (PUB §6)', () => {
  const named = (name: string, spec: object): PodUnavailableBudget => ({
    ...{ apiVersion: beta, kind: 'PodUnavailableBudget', metadata: metadataOf({ namespace: 'shop', name, uid: name }) },
    spec: { maxUnavailable: 1, ...spec },
  });
  const conflicts = (own: object, other: object, name = 'b') =>
    conflictProblems(named('a', own), [
      named('c', { selector: { matchLabels: { other: 'c' } } }),
      named(name, other),
    ]).map(describeError);

  test.each<readonly [string, object, boolean]>([
    ['itself in another version', { ...target, apiVersion: 'apps/v1beta2' }, true],
    ['another group', { ...target, apiVersion: 'apps.kruise.io/v1' }, false],
    ['another kind', { ...target, kind: 'StatefulSet' }, false],
    ['another name', { ...target, name: 'shop' }, false],
  ])('compare a target with %s', (_, targetRef, isSame) => {
    const found = conflicts({ targetRef: target }, { targetRef });
    expect(found).toEqual(isSame ? [expect.stringMatching(/^spec.targetReference: .* is the target of "b"$/)] : []);
  });

  const is = (key: string, operator: string, ...values: string[]) => ({ key, operator, values });
  const of = (...matchExpressions: readonly ReturnType<typeof is>[]): LabelSelector => ({ matchExpressions });
  const label = (value: string): LabelSelector => ({ matchLabels: { a: value } });
  test.each<readonly [string, LabelSelector, LabelSelector, boolean]>([
    ['the same label', label('x'), label('x'), true],
    ['another value', label('x'), label('y'), false],
    ['more keys', label('x'), { matchLabels: { a: 'x', b: 'y' } }, false],
    ['another key', label('x'), { matchLabels: { b: 'x' } }, false],
    ['In', label('x'), of(is('a', 'In', 'y', 'x')), true],
    ['In of others', of(is('a', 'In', 'x')), of(is('a', 'In', 'y')), false],
    ['NotIn', label('x'), of(is('a', 'NotIn', 'x')), false],
    ['NotIn of others', label('x'), of(is('a', 'NotIn', 'y')), true],
    ['NotIn of all', of(is('a', 'In', 'x', 'y')), of(is('a', 'NotIn', 'y', 'x')), false],
    ['two NotIn', of(is('a', 'NotIn', 'x')), of(is('a', 'NotIn', 'y')), true],
    ['Exists', label('x'), of(is('a', 'Exists')), true],
    ['DoesNotExist', label('x'), of(is('a', 'DoesNotExist')), false],
    ['DoesNotExist and NotIn', of(is('a', 'DoesNotExist')), of(is('a', 'NotIn', 'x')), true],
    ['one key of two', of(is('a', 'Exists'), is('b', 'In', 'x')), of(is('a', 'Exists'), is('b', 'In', 'y')), false],
    ['a key that it has twice', of(is('a', 'In', 'x', 'y'), is('a', 'NotIn', 'x')), label('x'), false],
    ['two In', of(is('a', 'In', 'x', 'y'), is('a', 'In', 'y')), label('y'), true],
  ])('compare a selector with %s', (_, left, right, doOverlap) => {
    const expected = doOverlap ? [expect.stringMatching(/^spec.selector: .* overlaps with that of "b"$/)] : [];
    expect(conflicts({ selector: left }, { selector: right })).toEqual(expected);
    expect(conflicts({ selector: right }, { selector: left })).toHaveLength(expected.length);
  });

  it('do not compare a budget with itself, nor a selector with a target or with one that selects nothing', () => {
    expect(conflicts({ selector: label('x') }, { selector: of(is('a', 'Near', 'x')) })).toEqual([]);
    expect(conflicts({ selector: label('x') }, { selector: label('x') }, 'a')).toEqual([]);
    expect(conflicts({ selector: label('x') }, { targetRef: target })).toEqual([]);
    expect(conflicts({ targetRef: target }, { selector: label('x') })).toEqual([]);
  });
});
