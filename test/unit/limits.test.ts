import { describe, expect, it } from '@jest/globals';
import type { Json, JsonObject } from '../../api/base/json.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { cloneSetLimitProblems, longestPodToDelete, mostPodsToDelete } from '../../api/cloneset/limits.ts';
import { validateCloneSet, validateCloneSetUpdate } from '../../api/cloneset/validate.ts';
import { causeOf, messageOf } from '../../api/core/field-error.ts';
import { depthOf, longestCount } from '../../api/core/limits.ts';
import { mostTerms } from '../../api/fleet/update-order.ts';
import {
  deepestTemplate,
  mostClaimTemplates,
  mostLifecycleBytes,
  mostSelectorBytes,
  mostTemplateBytes,
} from '../../api/fleet/workload-limits.ts';
import { validateListPullJob } from '../../api/image-pull-job/validate.ts';
import { validatePodProbeMarker, validatePodProbeMarkerUpdate } from '../../api/pod-probe-marker/validate.ts';
import { cloneSetDraft } from '../support/objects/cloneset.ts';

const text = (length: number) => 'x'.repeat(length);
const times = <Item>(count: number, make: (index: number) => Item) =>
  Array.from({ length: count }, (_, at) => make(at));

/** Nested objects with this many levels. */
function nested(levels: number): JsonObject {
  return times(levels - 1, () => 0).reduce((inner: JsonObject) => ({ a: inner }), {});
}

function cloneSet(spec: JsonObject, version = 'v1beta1'): JsonObject {
  return cloneSetDraft({ version, spec });
}

/** A value with a text so long that the value has this size. */
function sized<Value extends Json>(make: (filler: string) => Value, bytes: number): Value {
  return make(text(bytes - jsonBytes(make(''))));
}

const rolling = (rollingUpdate: JsonObject): JsonObject => ({
  updateStrategy: { type: 'RollingUpdate', rollingUpdate },
});
const template = (annotation: Json, more: JsonObject = {}): JsonObject => ({
  template: { metadata: { labels: { app: 'web' }, annotations: { annotation } }, spec: { containers: [], ...more } },
});
const term = (at: number) => ({ weight: 1, matchSelector: { matchLabels: { a: `v${at}` } } });

/** For each limit: the field, a CloneSet at the limit, one above it, and one farther above. */
const limits: readonly (readonly [path: string, make: (more: number) => JsonObject])[] = [
  ['spec.selector', (more) => ({ selector: sized((a) => ({ matchLabels: { a } }), mostSelectorBytes + more) })],
  [
    'spec.template',
    (more) => ({ template: sized((filler) => template(filler).template ?? null, mostTemplateBytes + more) }),
  ],
  ['spec.template', (more) => template('', { deep: nested(deepestTemplate - 2 + more) })],
  ['spec.volumeClaimTemplates', (more) => ({ volumeClaimTemplates: times(mostClaimTemplates + more, () => ({})) })],
  ['spec.volumeClaimTemplates', (more) => ({ volumeClaimTemplates: [nested(deepestTemplate - 1 + more)] })],
  ['spec.volumeClaimTemplates', (more) => ({ volumeClaimTemplates: sized((a) => [{ a }], mostTemplateBytes + more) })],
  [
    'spec.scaleStrategy.podsToDelete',
    (more) => ({ scaleStrategy: { podsToDelete: times(mostPodsToDelete + more, (at) => `web-${at}`) } }),
  ],
  [
    'spec.scaleStrategy.maxUnavailable',
    (more) => ({ scaleStrategy: { maxUnavailable: `${'0'.repeat(longestCount - 1 + more)}%` } }),
  ],
  [
    'spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority',
    (more) => rolling({ priorityStrategy: { weightPriority: times(mostTerms + more, term) } }),
  ],
  [
    'spec.updateStrategy.rollingUpdate.priorityStrategy.orderPriority',
    (more) => rolling({ priorityStrategy: { orderPriority: times(mostTerms + more, () => ({ orderedKey: 'a' })) } }),
  ],
  [
    'spec.updateStrategy.rollingUpdate.priorityStrategy',
    (more) =>
      rolling({
        priorityStrategy: sized((orderedKey) => ({ orderPriority: [{ orderedKey }] }), mostSelectorBytes + more),
      }),
  ],
  [
    'spec.updateStrategy.rollingUpdate.scatterStrategy',
    (more) => rolling({ scatterStrategy: times(mostTerms + more, (at) => ({ key: 'a', value: `${at}` })) }),
  ],
  [
    'spec.updateStrategy.rollingUpdate.scatterStrategy',
    (more) => rolling({ scatterStrategy: sized((value) => [{ key: 'a', value }], mostSelectorBytes + more) }),
  ],
  [
    'spec.lifecycle',
    (more) => ({
      lifecycle: sized((filler) => ({ preDelete: { finalizersHandler: [filler] } }), mostLifecycleBytes + more),
    }),
  ],
];

describe('the limits of CloneSets', () => {
  it.each(limits)('let %s be as large as its limit, and refuse one more', (path, make) => {
    expect(cloneSetLimitProblems(cloneSet(make(0)))).toEqual([]);
    const problems = cloneSetLimitProblems(cloneSet(make(1)));
    expect(problems.map((problem) => problem.field)).toEqual([path]);
    expect(problems[0]?.type).toBe('FieldValueInvalid');
    expect(validateCloneSet(cloneSet(make(1)))).toEqual(expect.arrayContaining([...problems]));
  });

  it.each(limits)('let a set that was stored with more of %s keep it or get smaller, and not grow', (path, make) => {
    const [stored, smaller, larger] = [cloneSet(make(7)), cloneSet(make(5)), cloneSet(make(8))];
    const limited = (before: JsonObject, after: JsonObject) =>
      validateCloneSetUpdate(before, after).filter((problem) => messageOf(problem).includes('must not'));
    const problems = (before: JsonObject, after: JsonObject) =>
      limited(before, after).filter((problem) => problem.field === path);
    expect(problems(stored, stored)).toEqual([]);
    expect(problems(stored, smaller)).toEqual([]);
    expect(problems(stored, larger)).not.toEqual([]);
  });

  it('refuse a long name in podsToDelete by its place, and keep one that was stored wherever it goes', () => {
    const named = (...podsToDelete: readonly string[]) => cloneSet({ scaleStrategy: { podsToDelete } });
    const long = text(longestPodToDelete + 1);
    expect(cloneSetLimitProblems(named('a', long))).toEqual([
      expect.objectContaining({ field: 'spec.scaleStrategy.podsToDelete[1]' }),
    ]);
    expect(cloneSetLimitProblems(named(long), named('a', long))).toEqual([]);
    expect(cloneSetLimitProblems(named('a', text(longestPodToDelete)))).toEqual([]);
  });

  it('are at the same fields where v1alpha1 has them', () => {
    const scatterStrategy = times(mostTerms + 1, (at) => ({ key: 'a', value: `${at}` }));
    const problems = cloneSetLimitProblems(cloneSet({ updateStrategy: { scatterStrategy } }, 'v1alpha1'));
    expect(problems.map(({ field }) => field)).toEqual(['spec.updateStrategy.scatterStrategy']);
  });

  it('measure what is nested more deeply than can be compared, without an error', () => {
    const deep = cloneSet(template('', { deep: nested(100_000) }));
    expect(cloneSetLimitProblems(deep).map(causeOf)).toEqual([
      expect.objectContaining({
        field: 'spec.template',
        message: `Invalid value: 100002: must not have more than ${deepestTemplate} levels of objects and lists`,
      }),
    ]);
    expect(cloneSetLimitProblems(deep, deep)).toEqual([]);
  });
});

describe('depthOf', () => {
  it('counts objects and lists in each other', () => {
    expect(['a', 1, null, undefined, {}, [], [{}], { a: [1, { b: 2 }] }].map(depthOf)).toEqual([
      0, 0, 0, 0, 1, 1, 2, 3,
    ]);
  });
});

describe('what is stored above a limit', () => {
  it('stays editable in a marker whose annotations are too large, as long as they do not grow', () => {
    const marker = (length: number): JsonObject => ({
      spec: {
        selector: { matchLabels: { a: 'b' } },
        probes: [
          {
            name: 'p',
            containerName: 'c',
            probe: { exec: { command: ['true'] } },
            markerPolicy: [{ state: 'Succeeded', annotations: { note: text(length) } }],
          },
        ],
      },
    });
    const most = 256 * 1024 - 'note'.length;
    expect(validatePodProbeMarker(marker(most))).toEqual([]);
    expect(validatePodProbeMarker(marker(most + 1)).map(causeOf)).toEqual([
      expect.objectContaining({
        field: 'spec.probes[0].markerPolicy[0].annotations',
        message: 'Invalid value: 262145: must not be larger than 256 KiB',
      }),
    ]);
    expect(validatePodProbeMarkerUpdate(marker(most + 9), marker(most + 5))).toEqual([]);
    expect(validatePodProbeMarkerUpdate(marker(most + 9), marker(most + 10))).toHaveLength(1);
  });

  it('stays editable in a list of too many images, as long as it does not grow', () => {
    const list = (count: number): JsonObject => ({
      spec: { images: times(count, (at) => `web:${at}`), completionPolicy: { type: 'Always' } },
    });
    expect(validateListPullJob(list(256)).map(({ field }) => field)).toEqual(['spec.images']);
    expect(validateListPullJob(list(299), list(300))).toEqual([]);
    expect(validateListPullJob(list(301), list(300))).toHaveLength(1);
  });
});

describe('admission of what is much too large', () => {
  it('takes no more than linear time for the probes of a marker', () => {
    const probes = times(100_000, (at) => ({ name: `p${at}`, podConditionType: `a/c${at}` }));
    const start = process.cpuUsage();
    const problems = validatePodProbeMarker({ spec: { selector: { matchLabels: { a: 'b' } }, probes } });
    const { user, system } = process.cpuUsage(start);
    expect(problems.length).toBeGreaterThan(probes.length);
    expect((user + system) / 1_000).toBeLessThan(10_000); // it took 36,000 ms with a search for each name
  });
});
