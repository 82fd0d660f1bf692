import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Value } from 'typebox/value';
import { isJsonObject, type Json, type JsonObject, objectOr } from '../../api/base/json.ts';
import { defaultCloneSet } from '../../api/cloneset/defaults.ts';
import { specSchema, specSchemaV1alpha1, statusSchema } from '../../api/cloneset/schema.ts';
import {
  type CloneSetSpec,
  type CloneSetVersion,
  cloneSetEvent,
  cloneSetVersion,
  cloneSetWaits,
  progressMessage,
} from '../../api/cloneset/types.ts';
import {
  cloneSetWarnings,
  namedPodProblem,
  newlyNamedPods,
  validateCloneSet,
  validateCloneSetUpdate,
} from '../../api/cloneset/validate.ts';
import { causeOf, describeErrors, messageOf } from '../../api/core/field-error.ts';
import type { Pod } from '../../api/core/pod.ts';
import { judgeDeletion, protectedKinds } from '../../api/deletion-protection.ts';
import { changesPods, probeProblems, templateProbe } from '../../api/fleet/template-probe.ts';
import { cloneSetDraft } from '../support/objects/cloneset.ts';

const versions = ['v1alpha1', 'v1beta1'] as const satisfies readonly CloneSetVersion[];
const protection = { ResourcesDeletionProtection: true, DeletionProtectionForCRDCascadingGate: false };
const gates = { TemplateNoDefaults: false, DefaultHostNetworkHostPortsInPodTemplates: false } as const;

// ------------------------------------------------------------------------------------------------------------ builders

function template(spec: JsonObject = {}, labels: JsonObject = { app: 'web' }): JsonObject {
  return { metadata: { labels }, spec: { containers: [{ name: 'app', image: 'app:1' }], ...spec } };
}

function set(version: CloneSetVersion = 'v1beta1', spec: JsonObject = {}, metadata: JsonObject = {}): JsonObject {
  return cloneSetDraft({ version, metadata: { uid: 'set-uid', ...metadata }, spec: { replicas: 3, ...spec } });
}

/** A CloneSet with these fields for the pace, at the path of its version. */
function paced(version: CloneSetVersion, pace: JsonObject, policy?: string, spec: JsonObject = {}): JsonObject {
  if (version === 'v1alpha1') {
    return set(version, { ...spec, updateStrategy: { ...(policy && { type: policy }), ...pace } });
  }
  const rollingUpdate = { ...(policy && { podUpdatePolicy: policy }), ...pace };
  return set(version, { ...spec, updateStrategy: { type: 'RollingUpdate', rollingUpdate } });
}

const paceAt = (version: CloneSetVersion) =>
  version === 'v1alpha1' ? 'spec.updateStrategy' : 'spec.updateStrategy.rollingUpdate';

/** The messages that a user gets for this CloneSet. */
function told(object: JsonObject): string {
  return describeErrors(validateCloneSet(object));
}

function toldOfUpdate(before: JsonObject, after: JsonObject): string {
  return describeErrors(validateCloneSetUpdate(before, after));
}

function specOf(object: JsonObject): JsonObject {
  return objectOr(object.spec);
}

function recorded(name: string): JsonObject {
  const object: Json = JSON.parse(readFileSync(new URL(`../recorded/${name}.json`, import.meta.url), 'utf8'));
  return isJsonObject(object) ? object : {};
}

function lastApplied(object: JsonObject): JsonObject {
  const { annotations } = objectOr(object.metadata);
  const applied: Json = JSON.parse(String(objectOr(annotations)['kubectl.kubernetes.io/last-applied-configuration']));
  return isJsonObject(applied) ? applied : {};
}

// -------------------------------------------------------------------------------------------------------------- the kind

describe('CloneSet', () => {
  it('is read in the versions that are served', () => {
    expect(versions.map((version) => cloneSetVersion(set(version)))).toEqual(versions);
    expect(cloneSetVersion({ apiVersion: 'apps/v1' })).toBeUndefined();
  });

  it.each(['cloneset-1-created-v1beta1', 'cloneset-2-grace-period', 'cloneset-3-updating', 'cloneset-4-updated'])(
    'has a schema that takes %s of a real OpenKruise',
    (name) => {
      const { spec, status } = recorded(name);
      expect([...Value.Errors(specSchema, spec)]).toEqual([]);
      expect([...Value.Errors(statusSchema, status)]).toEqual([]);
    },
  );

  it('has a schema of v1alpha1 that takes one of a real OpenKruise', () => {
    const { spec, status } = recorded('cloneset-1-created-v1alpha1');
    expect([...Value.Errors(specSchemaV1alpha1, spec)]).toEqual([]);
    expect([...Value.Errors(statusSchema, status)]).toEqual([]);
  });

  it('says what a real OpenKruise says in Events', () => {
    const events: Json = JSON.parse(readFileSync(new URL('../recorded/cloneset-events.json', import.meta.url), 'utf8'));
    const texts = JSON.stringify(events);
    for (const event of [
      cloneSetEvent.created('web-s8g7h'),
      cloneSetEvent.updatedInPlace('web-s8g7h', 'web-8b47cf55'),
    ]) {
      expect(texts).toContain(JSON.stringify(event.message));
      expect(texts).toContain(event.reason);
    }
  });

  it('names the revision that took too long', () => {
    expect(progressMessage.ProgressDeadlineExceeded('web-8b47cf55')).toBe(
      'CloneSet revision web-8b47cf55 has timed out progressing',
    );
  });

  it.each(Object.entries(cloneSetWaits))(
    'says in one sentence without a full stop what helps against %s',
    (_, text) => {
      expect(text).toMatch(/^[A-Z].*[^.]$/);
    },
  );
});

describe('the page of CloneSets', () => {
  const page = readFileSync(new URL('../../docs/kinds/cloneset.md', import.meta.url), 'utf8');
  const firstCells = (heading: string) => {
    const section = page.slice(page.indexOf(`## ${heading}`)).split('\n## ')[0] ?? '';
    return [...section.matchAll(/^\| `([A-Za-z]+)`/gm)].map(([, cell]) => cell);
  };

  it('explains every wait, and no other', () => {
    const cells = firstCells('What a CloneSet waits for');
    expect(cells).toHaveLength(Object.keys(cloneSetWaits).length);
    expect(new Set(cells)).toEqual(new Set(Object.keys(cloneSetWaits)));
  });

  it('names every condition reason and every Event', () => {
    for (const reason of Object.keys(progressMessage)) expect(page).toContain(`\`${reason}\``);
    const events = [
      cloneSetEvent.created('a'),
      cloneSetEvent.createFailed('a', 'b'),
      cloneSetEvent.claimCreateFailed('a', 'b'),
      cloneSetEvent.deleted('a'),
      cloneSetEvent.deleteFailed('a', 'b'),
      cloneSetEvent.claimDeleteFailed('a', 'b'),
      cloneSetEvent.claimUpdateFailed('a', 'b'),
      cloneSetEvent.updatedInPlace('a', 'b'),
      cloneSetEvent.updateInPlaceFailed('a', 'b', 'c'),
      cloneSetEvent.recreated('a', 'b'),
      cloneSetEvent.recreateFailed('a', 'b', 'c'),
      cloneSetEvent.scaleUpLimited(1),
    ];
    for (const { reason } of events) expect(page).toContain(`\`${reason}\``);
  });
});

// -------------------------------------------------------------------------------------------------------------- defaults

describe('defaultCloneSet', () => {
  it('makes of what the user applied exactly what a real OpenKruise stored', () => {
    const stored = recorded('cloneset-1-created-v1alpha1');
    expect(defaultCloneSet(lastApplied(stored), gates).spec).toEqual(stored.spec);
  });

  it('changes nothing in a set that has its defaults', () => {
    for (const version of versions) {
      const stored = recorded(`cloneset-1-created-${version}`);
      expect(defaultCloneSet(stored, gates)).toEqual(stored);
      const once = defaultCloneSet(set(version), gates);
      expect(defaultCloneSet(once, gates)).toEqual(once);
    }
  });

  it('fills in v1alpha1 what users see', () => {
    const { template: _, selector: __, ...rest } = specOf(defaultCloneSet(set('v1alpha1', { replicas: null }), gates));
    expect(rest).toEqual({
      replicas: 1,
      revisionHistoryLimit: 10,
      scaleStrategy: {},
      updateStrategy: { type: 'ReCreate', partition: 0, maxUnavailable: '20%', maxSurge: 0 },
    });
  });

  it('fills in v1beta1 what users see, and says there that claims are not kept', () => {
    const { template: _, selector: __, ...rest } = specOf(defaultCloneSet(set('v1beta1', { replicas: null }), gates));
    expect(rest).toEqual({
      replicas: 1,
      revisionHistoryLimit: 10,
      scaleStrategy: { enablePVCReuse: false },
      updateStrategy: {
        type: 'RollingUpdate',
        rollingUpdate: { podUpdatePolicy: 'ReCreate', partition: 0, maxUnavailable: '20%', maxSurge: 0 },
      },
    });
  });

  it.each(['InPlaceIfPossible', 'InPlaceOnly'])('fills an empty inPlaceUpdateStrategy in with %s', (policy) => {
    for (const version of versions) {
      const filled = specOf(defaultCloneSet(paced(version, { maxUnavailable: 2 }, policy), gates)).updateStrategy;
      const pace = version === 'v1alpha1' ? filled : objectOr(filled).rollingUpdate;
      expect(pace).toMatchObject({ maxUnavailable: 2, inPlaceUpdateStrategy: {} });
    }
  });

  it('fills nothing in beside OnDelete', () => {
    for (const version of versions) {
      const updateStrategy = { type: 'OnDelete' };
      expect(specOf(defaultCloneSet(set(version, { updateStrategy }), gates)).updateStrategy).toEqual(updateStrategy);
    }
    const withBlock = { type: 'OnDelete', rollingUpdate: { partition: 1, maxUnavailable: 1 } };
    expect(specOf(defaultCloneSet(set('v1beta1', { updateStrategy: withBlock }), gates)).updateStrategy).toEqual(
      withBlock,
    );
  });

  it('leaves a template alone that has not changed, so that nothing is updated', () => {
    const before = set('v1beta1');
    const after = set('v1beta1', { replicas: 5 });
    expect(specOf(defaultCloneSet(after, gates, before)).template).toEqual(template());
  });

  it('fills a template in that has changed, and its claims', () => {
    const claims = [{ metadata: { name: 'data' }, spec: { resources: { requests: { storage: '1024Mi' } } } }];
    const before = set('v1beta1');
    const after = set('v1beta1', { template: template({ hostNetwork: true }), volumeClaimTemplates: claims });
    const filled = specOf(defaultCloneSet(after, gates, before));
    expect(filled.template).toMatchObject({
      metadata: { creationTimestamp: null },
      spec: { hostNetwork: true, restartPolicy: 'Always', containers: [{ name: 'app', imagePullPolicy: 'Always' }] },
    });
    expect(filled.volumeClaimTemplates).toMatchObject([{ spec: { resources: { requests: { storage: '1Gi' } } } }]);
  });

  it('leaves defaults out of templates with gate TemplateNoDefaults, but stores amounts in one form', () => {
    const resources = { limits: { cpu: '0.1' } };
    const object = set('v1beta1', { template: template({ containers: [{ name: 'app', image: 'app:1', resources }] }) });
    const filled = specOf(defaultCloneSet(object, { ...gates, TemplateNoDefaults: true })).template;
    expect(objectOr(filled).spec).toEqual({
      containers: [{ name: 'app', image: 'app:1', resources: { limits: { cpu: '100m' } } }],
    });
  });

  it('fills host ports in with gate DefaultHostNetworkHostPortsInPodTemplates', () => {
    const containers = [{ name: 'app', image: 'app:1', ports: [{ containerPort: 80 }] }];
    const object = set('v1beta1', { template: template({ hostNetwork: true, containers }) });
    const ports = (on: boolean) =>
      JSON.stringify(defaultCloneSet(object, { ...gates, DefaultHostNetworkHostPortsInPodTemplates: on }));
    expect(ports(true)).toContain('"hostPort":80');
    expect(ports(false)).not.toContain('hostPort');
  });
});

// ------------------------------------------------------------------------------------------------------------ validation

describe.each(versions)('validateCloneSet in %s', (version) => {
  const at = paceAt(version);

  it('finds nothing wrong with a set of a real OpenKruise, nor with the samples of this test', () => {
    expect(told(recorded(`cloneset-1-created-${version}`))).toBe('');
    expect(told(set(version))).toBe('');
    expect(told(defaultCloneSet(set(version), gates))).toBe('');
  });

  it('refuses a name that is none', () => {
    expect(told(set(version, {}, { name: 'Web' }))).toMatch(/^metadata\.name: Invalid value: "Web": must consist of /);
    expect(told(set(version, {}, { name: `${'x'.repeat(254)}` }))).toMatch(/must not be longer than 253 characters$/);
    expect(told(set(version, {}, { name: '', generateName: 'web-' }))).toBe('');
  });

  it.each([[-1], [1.5], ['3'], [2 ** 31]])('refuses %j replicas', (replicas) => {
    expect(told(set(version, { replicas }))).toMatch(/^spec\.replicas: Invalid value: /);
  });

  it('takes no replicas at all', () => {
    expect(told(set(version, { replicas: 0 }))).toBe('');
  });

  it('refuses a missing selector and template', () => {
    expect(told({ ...set(version), spec: {} })).toBe(
      'spec.selector: Required value: selects the pods of this CloneSet; spec.template: Required value: describes ' +
        'the pods to create',
    );
    expect(told({ ...set(version), spec: null })).toMatch(/^spec: Required value/);
    expect(told({ ...set(version), spec: 7 })).toMatch(/^spec: Invalid value: 7: must be an object/);
  });

  it.each<readonly [JsonObject, RegExp]>([
    [{}, /^spec\.selector: Invalid value: \{\}: must not be empty$/],
    [{ matchLabels: {}, matchExpressions: [] }, /^spec\.selector: Invalid value: .*: must not be empty$/],
    [{ matchLabels: [] }, /^spec\.selector: Invalid value/],
    [{ matchLabels: { 'a b': 'c' } }, /^spec\.selector\.matchLabels: Invalid value: "a b": its name must consist/],
    [{ matchLabels: { 'Up.Per/a': 'c' } }, /its part before the slash must consist/],
    [{ matchLabels: { app: 'a b' } }, /^spec\.selector\.matchLabels\[app\]: Invalid value: "a b"/],
    [{ matchLabels: { app: 7 } }, /^spec\.selector\.matchLabels\[app\]: Invalid value: 7: must be a string$/],
    [
      { matchExpressions: [{ key: 'app', operator: 'Is', values: [] }] },
      /^spec\.selector\.matchExpressions\[0\]\.operator: Unsupported value: "Is": supported values: "In", "NotIn", /,
    ],
    [
      { matchExpressions: [{ key: 'app', operator: 'In' }] },
      /^spec\.selector\.matchExpressions\[0\]\.values: Required value/,
    ],
    [
      { matchExpressions: [{ key: 'app', operator: 'Exists', values: ['a'] }] },
      /^spec\.selector\.matchExpressions\[0\]\.values: Forbidden/,
    ],
    [{ matchExpressions: [{ key: '', operator: 'Exists' }] }, /^spec\.selector\.matchExpressions\[0\]\.key: Invalid/],
    [{ matchExpressions: [7] }, /^spec\.selector\.matchExpressions\[0\]: Invalid value: 7: must be an object$/],
    [
      { matchLabels: { app: 'api' } },
      /^spec\.template\.metadata\.labels: Invalid value: \{"app":"web"\}: spec\.selector does not match/,
    ],
    [{ matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['web'] }] }, /spec\.selector does not match/],
  ])('refuses selector %j', (selector, answer) => {
    expect(told(set(version, { selector }))).toMatch(answer);
  });

  it('reads null as nothing', () => {
    const exists = { key: 'app', operator: 'Exists', values: null };
    expect(told(set(version, { selector: { matchLabels: { app: 'web' }, matchExpressions: null } }))).toBe('');
    expect(told(set(version, { selector: { matchLabels: null, matchExpressions: [exists] } }))).toBe('');
    expect(told(set(version, { updateStrategy: null, scaleStrategy: null, replicas: null }))).toBe('');
    expect(told(paced(version, { partition: null, priorityStrategy: null, inPlaceUpdateStrategy: null }))).toBe('');
  });

  it('refuses what a template may not say', () => {
    expect(told(set(version, { template: template({ restartPolicy: 'Never' }) }))).toBe(
      'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    );
    expect(told(set(version, { template: template({ restartPolicy: '' }) }))).toBe('');
    expect(told(set(version, { template: template({ activeDeadlineSeconds: 60 }) }))).toMatch(
      /^spec\.template\.spec\.activeDeadlineSeconds: Forbidden: /,
    );
    expect(told(set(version, { template: 'x' }))).toMatch(/^spec\.template: Invalid value: "x": must be an object/);
  });

  it('refuses a pod that is to be deleted twice', () => {
    const scaleStrategy = { podsToDelete: ['a', 'b', 'a'] };
    expect(told(set(version, { scaleStrategy }))).toBe(
      'spec.scaleStrategy.podsToDelete: Invalid value: ["a","b","a"]: names more than once: a',
    );
    expect(told(set(version, { scaleStrategy: { podsToDelete: ['a', 'b'] } }))).toBe('');
  });

  it.each(['partition', 'maxUnavailable', 'maxSurge'])('refuses a %s that is no number of pods', (field) => {
    for (const value of ['5', 'five', '', '%', '1e2%', '1.2.3%', 1.5, true, [], 2 ** 31]) {
      expect(told(paced(version, { [field]: value }))).toMatch(new RegExp(`${at}\\.${field}: Invalid value: `));
    }
  });

  it('CS-24: takes fractions of percent', () => {
    expect(told(paced(version, { partition: '99.5%', maxUnavailable: '12.5%', maxSurge: '.5%' }))).toBe('');
  });

  it.each([[-1], ['-5%']])('refuses partition %j', (partition) => {
    expect(told(paced(version, { partition }))).toMatch(`${at}.partition: Invalid value: ${JSON.stringify(partition)}`);
    expect(told(paced(version, { partition }, undefined, { replicas: 40 }))).toMatch('must not be negative');
  });

  it('refuses a pace at which nothing could ever be updated, percentages rounded up', () => {
    const answer = new RegExp(`^${at}\\.maxUnavailable: Invalid value: .*: must resolve to at least one pod`);
    expect(told(paced(version, { maxUnavailable: 0, maxSurge: 0 }))).toMatch(answer);
    expect(told(paced(version, { maxUnavailable: '0%' }))).toMatch(answer);
    expect(told(paced(version, { maxUnavailable: 0 }))).toMatch(answer);
    expect(told(paced(version, { maxUnavailable: '1%' }))).toBe('');
    expect(told(paced(version, { maxUnavailable: 0 }, undefined, { replicas: 0 }))).toBe('');
  });

  it('takes maxUnavailable 0 with maxSurge 1 in both versions', () => {
    expect(told(paced(version, { maxUnavailable: 0, maxSurge: 1 }))).toBe('');
    expect(told(paced(version, { maxUnavailable: 0, maxSurge: '1%' }))).toBe('');
  });

  it('refuses maxSurge with InPlaceOnly', () => {
    expect(told(paced(version, { maxSurge: 1 }, 'InPlaceOnly'))).toMatch(
      new RegExp(`^${at}\\.maxSurge: Invalid value: 1: must be 0 with InPlaceOnly`),
    );
    expect(told(paced(version, { maxSurge: '0%' }, 'InPlaceOnly'))).toBe('');
    expect(told(paced(version, { maxSurge: 1 }, 'InPlaceIfPossible'))).toBe('');
  });

  it('refuses priorities that say nothing', () => {
    const term = { weight: 5, matchSelector: { matchLabels: { a: 'b' } } };
    const answer = (priorityStrategy: JsonObject) => told(paced(version, { priorityStrategy }));
    expect(answer({ weightPriority: [term], orderPriority: [{ orderedKey: 'a' }] })).toMatch(
      `${at}.priorityStrategy: Required value: weightPriority or orderPriority, but not both`,
    );
    expect(answer({ weightPriority: [term, { ...term, weight: 101 }] })).toMatch(
      `${at}.priorityStrategy: Required value: weightPriority[1].weight must be from 0 to 100`,
    );
    expect(answer({ weightPriority: [{ ...term, weight: -1 }] })).toMatch('must be from 0 to 100');
    expect(answer({ weightPriority: [{ weight: 1, matchSelector: {} }] })).toMatch('must not be empty');
    expect(answer({ weightPriority: [{ weight: 1 }] })).toMatch(`${at}.priorityStrategy: Required value`);
    expect(answer({ orderPriority: [{ orderedKey: '' }] })).toMatch(
      `${at}.priorityStrategy: Required value: orderPriority[0].orderedKey must not be empty`,
    );
    expect(
      answer({
        weightPriority: [
          { ...term, weight: 0 },
          { ...term, weight: 100 },
        ],
      }),
    ).toBe('');
    expect(answer({ orderPriority: [{ orderedKey: 'a' }] })).toBe('');
    expect(answer({})).toBe('');
  });

  it('refuses scattering by nothing, or twice by the same', () => {
    const answer = (scatterStrategy: readonly Json[]) => told(paced(version, { scatterStrategy }));
    expect(answer([{ key: '', value: 'a' }])).toBe(`${at}.scatterStrategy: Required value: [0].key must not be empty`);
    expect(
      answer([
        { key: 'a', value: 'b' },
        { key: 'a', value: 'c' },
      ]),
    ).toBe('');
    expect(
      answer([
        { key: 'a', value: 'b' },
        { key: 'a', value: 'b' },
      ]),
    ).toBe(`${at}.scatterStrategy: Required value: [1] is the same as [0]`);
  });

  it('does not look at what has never been checked', () => {
    const lifecycle = { preDelete: { labelsHandler: { 'a b': '!' }, finalizersHandler: ['no name'] }, preNormal: {} };
    const scaleStrategy = { maxUnavailable: 'many' };
    expect(told(set(version, { minReadySeconds: -1, revisionHistoryLimit: -1, lifecycle, scaleStrategy }))).toBe('');
    expect(told(paced(version, { inPlaceUpdateStrategy: { gracePeriodSeconds: -1 } }, 'InPlaceOnly'))).toBe('');
  });

  it('names all problems at once', () => {
    const problems = validateCloneSet(
      set(version, { replicas: -1, selector: {}, template: template({ restartPolicy: 'Never' }) }),
    );
    expect(problems.map(({ field, type }) => [field, type])).toEqual([
      ['spec.replicas', 'FieldValueInvalid'],
      ['spec.selector', 'FieldValueInvalid'],
      ['spec.template.spec.restartPolicy', 'FieldValueNotSupported'],
    ]);
  });
});

describe('validateCloneSet by version', () => {
  it.each(['ReCreate', 'InPlaceIfPossible', 'InPlaceOnly', '', undefined])('takes type %p in v1alpha1', (type) => {
    expect(told(set('v1alpha1', { updateStrategy: { ...(type !== undefined && { type }) } }))).toBe('');
  });

  it('CS-95: takes OnDelete in v1alpha1 as well', () => {
    expect(told(set('v1alpha1', { updateStrategy: { type: 'OnDelete' } }))).toBe('');
  });

  it('refuses unknown types and policies', () => {
    expect(told(set('v1alpha1', { updateStrategy: { type: 'RollingUpdate' } }))).toBe(
      'spec.updateStrategy.type: Invalid value: "RollingUpdate": must be ReCreate, InPlaceIfPossible, InPlaceOnly or OnDelete',
    );
    expect(told(set('v1beta1', { updateStrategy: { type: 'ReCreate' } }))).toBe(
      'spec.updateStrategy.type: Invalid value: "ReCreate": must be RollingUpdate or OnDelete',
    );
    expect(told(paced('v1beta1', {}, 'Recreate'))).toMatch(
      /^spec\.updateStrategy\.rollingUpdate\.podUpdatePolicy: Invalid value: "Recreate"/,
    );
  });

  it('asks in v1beta1 for partition and maxUnavailable in a block beside OnDelete', () => {
    const answer = (rollingUpdate: JsonObject) =>
      told(set('v1beta1', { updateStrategy: { type: 'OnDelete', rollingUpdate } }));
    expect(answer({ partition: 0, maxUnavailable: 1 })).toBe('');
    expect(answer({ maxUnavailable: 1 })).toMatch(
      /^spec\.updateStrategy\.rollingUpdate\.partition: Invalid value: null/,
    );
    expect(answer({ partition: 1 })).toMatch(/^spec\.updateStrategy\.rollingUpdate\.maxUnavailable: Invalid value/);
  });

  it('checks the progress deadline in v1alpha1 only', () => {
    const answer = (version: CloneSetVersion, progressDeadlineSeconds: number, minReadySeconds = 10) =>
      told(set(version, { progressDeadlineSeconds, minReadySeconds }));
    expect(answer('v1alpha1', -1)).toMatch(/^spec\.progressDeadlineSeconds: Invalid value: -1: must not be negative$/);
    expect(answer('v1alpha1', 10)).toMatch(/must be more than minReadySeconds$/);
    expect(answer('v1alpha1', 11)).toBe('');
    expect(answer('v1alpha1', 2_147_483_647, 2_147_483_647)).toBe('');
    expect(answer('v1beta1', -1)).toBe('');
    expect(answer('v1beta1', 10)).toBe('');
  });

  it('checks the fields about pulling ahead in v1beta1 only', () => {
    const answer = (version: CloneSetVersion, inPlaceUpdateStrategy: JsonObject) =>
      told(paced(version, { inPlaceUpdateStrategy }, 'InPlaceIfPossible'));
    for (const value of [-1, '10%', 'many', '-3', 1.5]) {
      expect(answer('v1beta1', { imagePreDownloadParallelism: value })).toMatch(
        /^spec\.updateStrategy\.rollingUpdate\.inPlaceUpdateStrategy\.imagePreDownloadParallelism: Invalid value/,
      );
      expect(answer('v1alpha1', { imagePreDownloadParallelism: value })).toBe('');
    }
    expect(answer('v1beta1', { imagePreDownloadTimeoutSeconds: -1 })).toMatch(
      /imagePreDownloadTimeoutSeconds: Invalid/,
    );
    expect(answer('v1beta1', { imagePreDownloadMinUpdatedReadyPods: -1 })).toMatch(/MinUpdatedReadyPods: Invalid/);
    expect(answer('v1beta1', { imagePreDownloadParallelism: 0, imagePreDownloadTimeoutSeconds: 0 })).toBe('');
    expect(answer('v1beta1', { imagePreDownloadParallelism: '3' })).toBe('');
  });
});

describe('the annotation by which roll-outs wait for images', () => {
  const answer = (share: string) => told(set('v1beta1', {}, { annotations: { 'windlass.io/prefetch': share } }));

  it('is a number of nodes or a share of them', () => {
    for (const share of ['0', '3', '0%', '80%', '99.5%', '200%']) expect(answer(share)).toBe('');
    for (const share of ['', 'all', '-1', '-5%', '1.5', '%']) {
      expect(answer(share)).toMatch(/^metadata\.annotations\[windlass\.io\/prefetch\]: Invalid value/);
    }
  });
});

describe('validateCloneSetUpdate', () => {
  it.each(versions)('takes changes of all but the selector in %s', (version) => {
    const after = set(version, {
      replicas: 7,
      template: template({ hostNetwork: true }),
      lifecycle: { preDelete: { finalizersHandler: ['a/b'] } },
      scaleStrategy: { podsToDelete: ['a'] },
      updateStrategy: {},
      minReadySeconds: 3,
      progressDeadlineSeconds: 600,
      volumeClaimTemplates: [{ metadata: { name: 'data' } }],
      revisionHistoryLimit: 2,
    });
    expect(toldOfUpdate(set(version), after)).toBe('');
    expect(toldOfUpdate(after, set(version))).toBe('');
  });

  it.each(versions)('refuses another selector in %s', (version) => {
    const selector = { matchExpressions: [{ key: 'app', operator: 'Exists' }] };
    expect(toldOfUpdate(set(version), set(version, { selector }))).toMatch(
      /^spec: Forbidden: selector cannot be changed; only replicas, template, lifecycle, /,
    );
  });

  it('sees no difference between an empty list and none', () => {
    const selector = { matchLabels: { app: 'web' }, matchExpressions: [] };
    expect(toldOfUpdate(set('v1beta1'), set('v1beta1', { selector }))).toBe('');
  });

  it('refuses what is bad in the new set', () => {
    expect(toldOfUpdate(set('v1beta1'), set('v1beta1', { replicas: -1 }))).toMatch(/^spec\.replicas: Invalid/);
  });

  it('does not hold against an update what the set was already, since replicas change without admission', () => {
    const before = paced('v1beta1', { maxUnavailable: 0 });
    const pruned = { ...before, spec: { ...specOf(before), scaleStrategy: {} } };
    expect(toldOfUpdate(before, pruned)).toBe('');
    expect(toldOfUpdate(before, paced('v1beta1', { maxUnavailable: '0%' }))).toMatch(
      'must resolve to at least one pod',
    );
  });

  it('with InPlaceOnly takes changes of images alone, in v1alpha1', () => {
    const only = (image: string, more: JsonObject = {}, version: CloneSetVersion = 'v1alpha1') =>
      paced(version, {}, 'InPlaceOnly', {
        template: template({ containers: [{ name: 'app', image, ...more }] }, { app: 'web', build: image }),
      });
    expect(toldOfUpdate(only('app:1'), only('app:2'))).toBe('');
    expect(toldOfUpdate(only('app:1'), only('app:1', { tty: true }))).toBe(
      'spec: Forbidden: with InPlaceOnly only images can change, not template.spec.containers.0.tty',
    );
    expect(toldOfUpdate(only('app:1'), only('app:1', { tty: true }, 'v1beta1'))).toBe('');
    const two = paced('v1alpha1', {}, 'InPlaceOnly', {
      template: template({
        containers: [
          { name: 'app', image: 'app:1' },
          { name: 'side', image: 'side:1' },
        ],
      }),
    });
    expect(toldOfUpdate(only('app:1'), two)).toMatch('template.spec.containers.1');
    const recreating = paced('v1alpha1', {}, 'ReCreate', { template: template({ hostNetwork: true }) });
    expect(toldOfUpdate(only('app:1'), recreating)).toBe('');
  });
});

describe('validation of anything', () => {
  it('never throws, and refuses or takes', () => {
    const spec = fc.oneof(
      fc.jsonValue(),
      fc.record(
        {
          replicas: fc.jsonValue(),
          selector: fc.oneof(fc.jsonValue(), fc.record({ matchExpressions: fc.array(fc.jsonValue()) })),
          template: fc.oneof(fc.jsonValue(), fc.record({ metadata: fc.jsonValue(), spec: fc.jsonValue() })),
          volumeClaimTemplates: fc.jsonValue(),
          scaleStrategy: fc.record({ podsToDelete: fc.jsonValue() }),
          updateStrategy: fc.oneof(
            fc.jsonValue(),
            fc.record({ type: fc.jsonValue(), rollingUpdate: fc.jsonValue(), priorityStrategy: fc.jsonValue() }),
            fc.record({ scatterStrategy: fc.jsonValue(), maxSurge: fc.jsonValue(), partition: fc.jsonValue() }),
          ),
        },
        { requiredKeys: [] },
      ),
    );
    const object = fc
      .record({ version: fc.constantFrom(...versions), metadata: fc.jsonValue(), spec })
      .map(({ version, ...rest }) => ({ ...(rest as JsonObject), apiVersion: `apps.kruise.io/${version}` }));
    fc.assert(
      fc.property(object, object, (before, after) => {
        expect(validateCloneSet(after).every((problem) => problem.field !== '' && messageOf(problem) !== '')).toBe(
          true,
        );
        validateCloneSetUpdate(before, after);
        newlyNamedPods(after, before);
        cloneSetWarnings(after, before);
        changesPods(before, after);
        probeProblems(after, templateProbe(after, 'dry'), []);
        judgeDeletion(protectedKinds.CloneSet, after, protection);
        defaultCloneSet(after, gates, before);
      }),
      { numRuns: 2_000 },
    );
  });

  it('takes every set whose schema it has and whose numbers make sense', () => {
    const count = fc.oneof(
      fc.integer({ min: 1, max: 50 }),
      fc.integer({ min: 1, max: 100 }).map((share) => `${share}%`),
    );
    const sets = fc
      .record({
        replicas: fc.nat(50),
        partition: count,
        maxUnavailable: count,
        policy: fc.constantFrom('ReCreate', 'InPlaceIfPossible', 'InPlaceOnly'),
        version: fc.constantFrom(...versions),
      })
      .map(({ version, policy, replicas, ...pace }) => paced(version, pace, policy, { replicas }));
    fc.assert(
      fc.property(sets, (object) => {
        expect(told(defaultCloneSet(object, gates))).toBe('');
      }),
    );
  });
});

// ------------------------------------------------------------------------------------------------- looks into the cluster

describe('named pods', () => {
  const named = (names: readonly string[], version: CloneSetVersion = 'v1alpha1') =>
    set(version, { scaleStrategy: { podsToDelete: names } });

  function pod(metadata: Partial<Pod['metadata']> = {}): Pod {
    const owner = {
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'CloneSet',
      name: 'web',
      uid: 'set-uid',
      controller: true,
    };
    const base = { name: 'web-1', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...base, ownerReferences: [owner], ...metadata },
      spec: { containers: [] },
    };
  }

  it('are asked for when they are new, in v1alpha1 only', () => {
    expect(newlyNamedPods(named(['a', 'b']), named(['b']))).toEqual(['a']);
    expect(newlyNamedPods(named(['a']))).toEqual(['a']);
    expect(newlyNamedPods(named(['a', 'b'], 'v1beta1'), named(['b'], 'v1beta1'))).toEqual([]);
  });

  it('must be there, must not be going, and must be pods of the set', () => {
    const namedPodCause = (found: Parameters<typeof namedPodProblem>[2]) => {
      const problem = namedPodProblem(named([]), 'web-1', found);
      return problem && causeOf(problem);
    };
    expect(namedPodProblem(named(['web-1']), 'web-1', pod())).toBeUndefined();
    expect(namedPodCause(undefined)).toMatchObject({
      field: 'spec.scaleStrategy.podsToDelete',
      message: 'Invalid value: "web-1": there is no such pod',
    });
    const going = pod({ deletionTimestamp: '2026-11-21T06:00:00Z' });
    expect(namedPodCause(going)?.message).toMatch('is being deleted already');
    expect(namedPodCause(pod({ ownerReferences: [] }))?.message).toMatch('does not belong to this');
    const other = { apiVersion: 'v1', kind: 'X', name: 'x', uid: 'other', controller: true };
    expect(namedPodCause(pod({ ownerReferences: [other] }))?.message).toMatch('does not belong to');
  });
});

describe('templateProbe', () => {
  const claims = [{ metadata: { name: 'data' } }, { metadata: { name: 'logs' } }];

  it('is a pod of the set, with the claims as volumes and without what belongs to the namespace of the set', () => {
    const podSpec = {
      serviceAccountName: 'mine',
      priorityClassName: 'high',
      runtimeClassName: 'gvisor',
      overhead: { cpu: '1' },
      volumes: [
        { name: 'data', emptyDir: {} },
        { name: 'tmp', emptyDir: {} },
      ],
    };
    const object = set('v1beta1', { template: template(podSpec), volumeClaimTemplates: claims });
    expect(templateProbe(object, 'dry').pod).toEqual({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { generateName: 'template-', namespace: 'dry', labels: { app: 'web' } },
      spec: {
        automountServiceAccountToken: false,
        containers: [{ name: 'app', image: 'app:1' }],
        volumes: [
          { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
          { name: 'logs', persistentVolumeClaim: { claimName: 'logs' } },
          { name: 'tmp', emptyDir: {} },
          { name: 'windlass-pvc-template-0', ephemeral: { volumeClaimTemplate: { metadata: {} } } },
          { name: 'windlass-pvc-template-1', ephemeral: { volumeClaimTemplate: { metadata: {} } } },
        ],
      },
    });
  });

  it('knows where in the set a field of the pod stands', () => {
    const volumes = [{ name: 'a' }, { name: 'data' }, { name: 'b' }];
    const object = set('v1beta1', { template: template({ volumes }), volumeClaimTemplates: claims });
    const { pathInSet } = templateProbe(object, 'dry');
    expect(
      [
        'spec.containers[0].image',
        'metadata.labels',
        'spec.volumes[1].name',
        'spec.volumes[2].name',
        'spec.volumes[3].emptyDir',
      ].map(pathInSet),
    ).toEqual([
      'spec.template.spec.containers[0].image',
      'spec.template.metadata.labels',
      'spec.volumeClaimTemplates[1].metadata.name',
      'spec.template.spec.volumes[0].name',
      'spec.template.spec.volumes[2].emptyDir',
    ]);
  });

  it('has unknown fields of template and PVC templates as they are, and knows where they stand', () => {
    const typo = { ...template(), foo: 1, metadata: { name: 'x', labels: { app: 'web' }, lables: {} } };
    const spac = [{ kind: 'PersistentVolumeClaim', metadata: { name: 'data', labls: {} }, spac: {}, status: {} }];
    const probe = templateProbe(set('v1beta1', { template: typo, volumeClaimTemplates: spac }), 'dry');
    expect(probe.pod).toMatchObject({
      foo: 1,
      metadata: { generateName: 'template-', labels: { app: 'web' }, lables: {} },
      spec: {
        volumes: [{ name: 'data' }, { ephemeral: { volumeClaimTemplate: { metadata: { labls: {} }, spac: {} } } }],
      },
    });
    expect(objectOr(probe.pod.metadata).name).toBeUndefined();
    const inClaim = 'spec.volumes[1].ephemeral.volumeClaimTemplate';
    expect(['foo', 'metadata.lables', `${inClaim}.spac`, `${inClaim}.metadata.labls`].map(probe.pathInSet)).toEqual([
      'spec.template.foo',
      'spec.template.metadata.lables',
      'spec.volumeClaimTemplates[0].spac',
      'spec.volumeClaimTemplates[0].metadata.labls',
    ]);
    // What a PVC needs is asked when it is created.
    const causes = [{ field: `${inClaim}.spec.accessModes`, message: 'Required value' }];
    expect(probeProblems(set(), probe, causes)).toEqual([]);
    const ofTemplate = 'spec.volumes[0].ephemeral.volumeClaimTemplate.spec';
    const own = templateProbe(set('v1beta1', { template: template({ volumes: [{ name: 'a' }] }) }), 'dry');
    expect(own.pathInSet(ofTemplate)).toBe(`spec.template.${ofTemplate}`);
  });

  it('brings what the API server says to the right place, and checks the names that it leaves out', () => {
    const object = set('v1beta1', { template: template({ serviceAccountName: 'My Account' }) });
    const probe = templateProbe(object, 'dry');
    const causes = [{ field: 'spec.containers[0].image', message: 'Required value' }, {}];
    expect(describeErrors(probeProblems(object, probe, causes))).toMatch(
      /^spec\.template\.spec\.serviceAccountName: Invalid value: "My Account": .*; spec\.template\.spec\.containers\[0\]\.image: Required value; spec\.template\.spec: is refused/,
    );
    expect(probeProblems(set(), probe, [])).toEqual([]);
  });

  it('is asked for anew only when pods would be others', () => {
    expect(changesPods(undefined, set())).toBe(true);
    expect(changesPods(set(), set('v1beta1', { replicas: 9 }))).toBe(false);
    expect(changesPods(set(), set('v1beta1', { template: template({ hostNetwork: true }) }))).toBe(true);
    expect(changesPods(set(), set('v1beta1', { volumeClaimTemplates: claims }))).toBe(true);
  });
});

describe('cloneSetWarnings', () => {
  const claims = { volumeClaimTemplates: [{ metadata: { name: 'data' } }] };

  it('warns once that claims are deleted with their pods, which is new in v1beta1', () => {
    const scaleStrategy = { enablePVCReuse: true };
    expect(cloneSetWarnings(set('v1beta1', claims))[0]).toMatch(/^spec\.scaleStrategy\.enablePVCReuse is false/);
    expect(cloneSetWarnings(set('v1beta1', claims), set('v1beta1', claims))).toEqual([]);
    expect(cloneSetWarnings(set('v1beta1', { ...claims, scaleStrategy }))).toEqual([]);
    expect(cloneSetWarnings(set('v1alpha1', claims))).toEqual([]);
    expect(cloneSetWarnings(set('v1beta1'))).toEqual([]);
  });
});

describe('warnings about numbers of pods', () => {
  const warned = (version: 'v1alpha1' | 'v1beta1', pace: JsonObject) =>
    cloneSetWarnings(paced(version, pace)).map((text) => text.replace(/^spec\.updateStrategy\.(rollingUpdate\.)?/, ''));

  it.each(versions)('CS-20, CS-22: a percentage above 100% is accepted and counts as 100%, in %s', (version) => {
    const pace = { partition: '120%', maxUnavailable: '200%', maxSurge: '200%' };
    expect(validateCloneSet(paced(version, pace))).toEqual([]);
    expect(warned(version, pace)).toEqual([
      'partition: 120% is more than all pods and counts as 100%',
      'maxUnavailable: 200% is more than all pods and counts as 100%',
    ]);
    expect(warned(version, { partition: '100%', maxUnavailable: '100.0%' })).toEqual([]);
  });

  it.each(versions)('a negative number beside one that counts is accepted and counts as 0, in %s', (version) => {
    expect(validateCloneSet(paced(version, { maxUnavailable: '-5%', maxSurge: 1 }))).toEqual([]);
    expect(warned(version, { maxUnavailable: '-5%', maxSurge: 1 })).toEqual([
      'maxUnavailable: -5% is negative and counts as 0',
    ]);
    expect(warned(version, { maxSurge: -1 })).toEqual(['maxSurge: -1 is negative and counts as 0']);
    const scaled = { ...paced(version, {}) };
    const spec = { ...objectOr(scaled.spec), scaleStrategy: { maxUnavailable: -1 } };
    expect(cloneSetWarnings({ ...scaled, spec })).toEqual([
      'spec.scaleStrategy.maxUnavailable: -1 is negative and counts as 0',
    ]);
  });

  it.each(versions)('a negative maxUnavailable that lets no pod go is called negative, in %s', (version) => {
    for (const maxUnavailable of ['-5%', -1]) {
      const [problem, ...others] = validateCloneSet(paced(version, { maxUnavailable }));
      expect(others).toEqual([]);
      expect(problem && messageOf(problem)).toMatch(/must not be negative$/);
    }
  });
});

describe('the deletion of a set', () => {
  const labelled = (value: string, replicas?: number, metadata: JsonObject = {}) =>
    set('v1beta1', { replicas }, { labels: { 'policy.kruise.io/delete-protection': value }, ...metadata });
  const refusal = (object: JsonObject, gatesOn = protection) => {
    const judged = judgeDeletion(protectedKinds.CloneSet, object, gatesOn);
    return judged.kind === 'refused' ? judged.message : undefined;
  };

  it('keeps a set that is never to be deleted', () => {
    expect(refusal(labelled('Always', 0))).toBe(
      'forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Always',
    );
  });

  it('keeps a set that wants pods', () => {
    expect(refusal(labelled('Cascading', 3))).toBe(
      'forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and replicas 3>0',
    );
    expect(refusal(labelled('Cascading', 0))).toBeUndefined();
    expect(refusal(labelled('Cascading'))).toBeUndefined();
  });

  it('lets everything else go: another value, a set on its way out, the gate off', () => {
    expect(refusal(labelled('always', 3))).toBeUndefined();
    expect(refusal(set())).toBeUndefined();
    expect(refusal(labelled('Always', 3, { deletionTimestamp: 'now' }))).toBeUndefined();
    expect(refusal(labelled('Always', 3), { ...protection, ResourcesDeletionProtection: false })).toBeUndefined();
  });
});

// The types of the schema are those that the code uses.
const typed: CloneSetSpec = { selector: { matchLabels: {} }, template: { metadata: {}, spec: {} } };
void typed;
