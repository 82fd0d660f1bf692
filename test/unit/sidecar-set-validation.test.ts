import { describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { describeError } from '../../api/core/field-error.ts';
import type { LabelSelector } from '../../api/core/label-selector.ts';
import { baseProblems, conflictsOf, hotConflictsOf } from '../../api/sidecar-set/conflicts.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { mayOverlap } from '../../api/sidecar-set/overlap.ts';
import { contentTrial } from '../../api/sidecar-set/trial.ts';
import { validateSidecarSet } from '../../api/sidecar-set/validate.ts';
import { whitelistProblems } from '../../api/sidecar-set/whitelist.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';

type Given = Parameters<typeof sidecarSetDraft>[0];

const set = (given: Given = {}) => defaultSidecarSet(sidecarSetDraft(given));
const specOf = (object: JsonObject) => objectOr(object.spec);

/** The problems of a new SidecarSet, each in one line. */
function problems(given: Given): readonly string[] {
  return validateSidecarSet(set(given)).problems.map(describeError);
}

/** The problems of a container in this list. */
function inContainer(fields: JsonObject, list = 'containers'): readonly string[] {
  return problems({
    spec: { [list]: [{ name: 'log', image: 'log:1', ...fields }], updateStrategy: { type: 'NotUpdate' } },
  });
}

function changed(before: Given, after: Given) {
  const { problems: found, warnings } = validateSidecarSet(set(after), set(before));
  return { problems: found.map(describeError), warnings };
}

describe('validation of SidecarSets', () => {
  it('accepts an ordinary one in both versions', () => {
    expect(problems({})).toEqual([]);
    expect(problems({ version: 'v1alpha1', spec: { namespace: 'shop' } })).toEqual([]);
    expect(problems({ metadata: { generateName: 'logs-', name: undefined } })).toEqual([]);
  });

  it('never throws, whatever the shape', () => {
    for (const spec of [undefined, null, 1, [], 'no', { containers: [1, null], updateStrategy: 1, volumes: {} }]) {
      const object = { ...sidecarSetDraft(), spec };
      expect(validateSidecarSet(object, object).problems.length).toBeGreaterThan(0);
    }
  });

  it('SCS-240: checks the name', () => {
    expect(problems({ name: 'a.b' })).toEqual([expect.stringContaining('metadata.name: Invalid value: "a.b"')]);
    expect(problems({ name: 'a'.repeat(64) })).toHaveLength(1);
    expect(problems({ name: 'a'.repeat(63) })).toEqual([]);
  });

  it('SCS-241, SCS-261: needs a selector', () => {
    expect(problems({ spec: { selector: undefined } })).toEqual([
      'spec.selector: Required value: no selector defined for SidecarSet',
    ]);
    expect(problems({ spec: { selector: {} } })).toEqual([
      'spec.selector: Invalid value: {}: empty selector is not valid for sidecarset.',
    ]);
    const malformed = { matchExpressions: [{ key: 'a', operator: 'In' }] };
    expect(problems({ spec: { selector: malformed } })).toEqual([
      expect.stringContaining('spec.selector.matchExpressions[0].values'),
    ]);
  });

  it('SCS-242: needs a namespace selector that is not empty, or none', () => {
    expect(problems({ spec: { namespaceSelector: {} } })).toEqual([
      'spec.namespaceSelector: Invalid value: {}: must not be empty',
    ]);
    expect(problems({ spec: { namespaceSelector: { matchLabels: { 'a b': 'c' } } } })).toEqual([
      expect.stringContaining('spec.namespaceSelector.matchLabels'),
    ]);
  });

  it('SCS-220, SCS-243: does not update native sidecars', () => {
    const initContainers = [{ name: 'native', image: 'native:1', restartPolicy: 'Always' }];
    expect(problems({ spec: { initContainers } })).toEqual([
      'spec.updateStrategy: Forbidden: The initContainer in-place upgrade is not currently supported.',
    ]);
    expect(problems({ spec: { initContainers, updateStrategy: { type: 'NotUpdate' } } })).toEqual([]);
  });

  it('SHU-91: does not update hot native sidecars either', () => {
    const upgradeStrategy = { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'empty:1' };
    const initContainers = [{ name: 'native', image: 'native:1', restartPolicy: 'Always', upgradeStrategy }];
    expect(problems({ spec: { initContainers } })).toEqual([expect.stringContaining('spec.updateStrategy: Forbidden')]);
  });

  it('SCS-244: takes a partition or a selector', () => {
    const selector = { matchLabels: { a: 'b' } };
    for (const partition of [1, '0%']) {
      expect(problems({ spec: { updateStrategy: { selector, partition } } })).toEqual([
        expect.stringMatching(/^spec.updateStrategy: .*Partition and Selector cannot be used together$/),
      ]);
    }
    expect(problems({ spec: { updateStrategy: { selector, partition: 0 } } })).toEqual([]);
  });

  it('SCS-245: checks the other fields of the strategy, with type RollingUpdate only', () => {
    const updateStrategy = {
      selector: {},
      partition: -1,
      maxUnavailable: '5',
      priorityStrategy: { weightPriority: [{ weight: 101, matchSelector: {} }] },
      scatterStrategy: [
        { key: '', value: 'a' },
        { key: 'a', value: 'b' },
        { key: 'a', value: 'b' },
      ],
    };
    const fields = problems({ spec: { updateStrategy } }).map((text) => text.split(': ')[0]);
    expect(fields).toEqual([
      'spec.updateStrategy',
      'spec.updateStrategy.selector',
      'spec.updateStrategy.partition',
      'spec.updateStrategy.maxUnavailable',
      'spec.updateStrategy.priorityStrategy.weightPriority[0].weight',
      'spec.updateStrategy.priorityStrategy.weightPriority[0].matchSelector',
      'spec.updateStrategy.scatterStrategy[0].key',
      'spec.updateStrategy.scatterStrategy[2]',
    ]);
    expect(problems({ spec: { updateStrategy: { ...updateStrategy, type: 'NotUpdate' } } })).toEqual([]);
    expect(problems({ spec: { updateStrategy: { ...updateStrategy, type: 'Other' } } })).toEqual([]);
    expect(problems({ spec: { updateStrategy: { partition: '100%', maxUnavailable: 0 } } })).toEqual([]);
    const both = {
      weightPriority: [{ weight: 1, matchSelector: { matchLabels: { a: 'b' } } }],
      orderPriority: [{ orderedKey: 'a' }],
    };
    expect(problems({ spec: { updateStrategy: { priorityStrategy: both } } })).toHaveLength(1);
    expect(
      problems({ spec: { updateStrategy: { priorityStrategy: { orderPriority: [{ orderedKey: '' }] } } } }),
    ).toHaveLength(1);
  });

  it('SCS-247: checks the stored revision to inject', () => {
    const withRevision = (revision: JsonObject) => problems({ spec: { injectionStrategy: { revision } } });
    expect(withRevision({})).toEqual([expect.stringContaining('spec.injectionStrategy.revision: Required value')]);
    expect(withRevision({ revisionName: 'a', policy: 'Often' })).toEqual([
      expect.stringContaining('spec.injectionStrategy.revision.policy: Unsupported value: "Often"'),
    ]);
    expect(withRevision({ customVersion: '1', policy: 'Partial' })).toEqual([]);
  });

  it('SCS-248: needs a container or an init container', () => {
    expect(problems({ spec: { containers: [] } })).toEqual([
      'spec: Required value: no initContainer or container defined for SidecarSet',
    ]);
    expect(problems({ spec: { containers: undefined, initContainers: [{ name: 'a', image: 'a' }] } })).toEqual([]);
  });

  it('SCS-249: checks the policies of containers', () => {
    const odd = { podInjectPolicy: 'Last', shareVolumePolicy: { type: 'yes' } };
    expect(inContainer(odd)).toEqual([
      expect.stringContaining('spec.containers[0].podInjectPolicy: Unsupported value: "Last"'),
      expect.stringContaining('spec.containers[0].shareVolumePolicy.type: Unsupported value: "yes"'),
    ]);
    expect(inContainer({ shareVolumeDevicePolicy: { type: 'yes' } })).toEqual([]);
  });

  it.each([
    ["metadata.labels['app']", true],
    ["metadata.annotations['a.b/c']", true],
    ['metadata.name', false],
    ["metadata.labels['a b']", false],
    ["spec.labels['a']", false],
  ])('SCS-250: names the source container by a label or an annotation: %s', (fieldPath, isGood) => {
    const transferEnv = [{ sourceContainerNameFrom: { fieldRef: { fieldPath } }, envName: 'A' }];
    expect(inContainer({ transferEnv })).toHaveLength(isGood ? 0 : 1);
    const other = [{ sourceContainerNameFrom: { fieldRef: { fieldPath, apiVersion: 'v2' } }, envName: 'A' }];
    expect(inContainer({ transferEnv: other })).toHaveLength(isGood ? 1 : 2);
  });

  it('SCS-60, SCS-251: checks a resources policy', () => {
    const policy = { targetContainersMode: 'sum', resourcesExpr: { limits: { cpu: 'cpu' } } };
    expect(inContainer({ resourcesPolicy: policy })).toEqual([]);
    expect(inContainer({ resourcesPolicy: { ...policy, resourcesExpr: { limits: {} } } })).toEqual([]);
    const odd = {
      resources: { limits: { cpu: '1' } },
      resourcesPolicy: { targetContainersNameRegex: '', resourcesExpr: { limits: { cpu: 'cpu-2', memory: 'cpu' } } },
    };
    const at = 'spec.containers[0].resourcesPolicy';
    expect(inContainer(odd).map((text) => text.split(': ')[0])).toEqual([
      at,
      `${at}.targetContainersNameRegex`,
      `${at}.resourcesExpr.limits.cpu`,
      `${at}.resourcesExpr.limits.memory`,
    ]);
    expect(inContainer({ resourcesPolicy: { targetContainersNameRegex: '[' } })).toHaveLength(2);
    expect(inContainer({ resourcesPolicy: policy }, 'initContainers')).toContainEqual(
      expect.stringContaining('spec.initContainers[0].resourcesPolicy: Forbidden'),
    );
    expect(inContainer({ resourcesPolicy: policy, restartPolicy: 'Always' }, 'initContainers')).toEqual([]);
  });

  it('SCS-252: asks the API server about a pod with the containers and volumes, at the same paths', () => {
    const spec = { volumes: [{ name: 'v' }], initContainers: [{ name: 'first', image: 'first:1' }] };
    const pod = contentTrial(set({ spec }), 'dry');
    expect(pod).toMatchObject({
      metadata: { namespace: 'dry' },
      spec: {
        containers: [{ name: 'log', image: 'log:1', resources: {} }],
        initContainers: [{ name: 'first' }],
        volumes: [{ name: 'v', emptyDir: {} }],
      },
    });
    expect(JSON.stringify(pod)).not.toMatch(/podInjectPolicy|upgradeStrategy|shareVolumePolicy/);
    const initOnly = contentTrial(set({ spec: { ...spec, containers: undefined } }), 'dry');
    expect(specOf(initOnly).containers).toHaveLength(1);
  });

  it('SCS-253: checks the annotations for pods', () => {
    const annotated = (...patches: readonly JsonObject[]) => problems({ spec: { patchPodMetadata: patches } });
    expect(annotated({})).toEqual([expect.stringContaining('spec.patchPodMetadata[0].annotations: Required')]);
    expect(annotated({ annotations: { a: '1' } }, { annotations: { a: '2', b: '3' } })).toEqual([
      expect.stringContaining('spec.patchPodMetadata[1].annotations: Invalid value: "a"'),
    ]);
  });

  it('SCS-254, SCS-262, SHU-90: keeps the upgrade type of a container', () => {
    const hot = { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'empty:1' };
    const container = { name: 'log', image: 'log:1' };
    const after = { spec: { containers: [{ ...container, upgradeStrategy: hot }] } };
    expect(changed({}, after).problems).toEqual([
      'spec.containers[0].upgradeStrategy.upgradeType: Invalid value: "HotUpgrade": container log upgradeType is immutable',
    ]);
    expect(changed(after, {}).problems).toHaveLength(1);
    expect(changed(after, after).problems).toEqual([]);
  });

  it('SCS-255: takes containers away, and adds none', () => {
    const two = {
      spec: {
        containers: [
          { name: 'log', image: 'log:1' },
          { name: 'mesh', image: 'mesh:1' },
        ],
      },
    };
    expect(changed({}, two).problems).toEqual([
      'spec.containers[1].name: Invalid value: "mesh": container mesh is not found',
    ]);
    expect(changed(two, {}).problems).toEqual([]);
    const withInit = { spec: { initContainers: [{ name: 'first', image: 'first:1' }] } };
    expect(changed({}, withInit).problems).toEqual([]);
  });

  it('SCS-192, SCS-267: stores what running pods cannot take', () => {
    const env = { spec: { containers: [{ name: 'log', image: 'log:2', env: [{ name: 'A', value: 'b' }] }] } };
    expect(changed({}, env)).toEqual({ problems: [], warnings: [] });
  });

  it('SCS-266, SCS-267: refuses what no pod can work with where a write introduces it, and warns otherwise', () => {
    const spec = { containers: [{ name: 'log', image: 'log:1', transferEnv: [{ sourceContainerNameFrom: {} }] }] };
    const at = 'spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef';
    expect(problems({ spec })).toEqual([expect.stringContaining(at)]);
    expect(changed({}, { spec }).problems).toEqual([expect.stringContaining(at)]);
    const again = changed({ spec }, { spec, metadata: { labels: { a: 'b' } } });
    expect(again.problems).toEqual([]);
    expect(again.warnings).toEqual([expect.stringContaining(at)]);
  });

  it('SCS-266: refuses numbers that would count as 0', () => {
    const resourcesPolicy = {
      targetContainersMode: 'sum',
      resourcesExpr: { limits: { memory: 'max(memory, 200MB)' } },
    };
    expect(inContainer({ resourcesPolicy })).toEqual([
      expect.stringContaining('200MB has an unknown suffix and would count as 0'),
    ]);
  });

  it('SCS-266: warns of what has a meaning that is not expected', () => {
    const spec = {
      containers: [{ name: 'log', image: 'log:1', upgradeStrategy: { upgradeType: 'Warm' } }],
      updateStrategy: { type: 'Never', maxUnavailable: 0 },
      patchPodMetadata: [{ annotations: { a: 'b' }, patchPolicy: 'Replace' }],
    };
    const { problems: found, warnings } = validateSidecarSet(set({ spec }));
    expect(found).toEqual([]);
    expect(warnings).toEqual([
      expect.stringContaining('"Never" is unknown and works as RollingUpdate'),
      expect.stringContaining('spec.updateStrategy.maxUnavailable'),
      expect.stringContaining('"Replace" is unknown and has no effect'),
      expect.stringContaining('"Warm" is unknown and works as ColdUpgrade'),
    ]);
    expect(validateSidecarSet(set({ version: 'v1alpha1', spec: { namespace: 'shop' } })).warnings).toHaveLength(1);
  });

  it('SHU-71: refuses hot-upgrade sidecars that no pod can have', () => {
    const upgradeStrategy = { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'log:1' };
    const at = 'spec.containers[0]';
    expect(inContainer({ upgradeStrategy: { upgradeType: 'HotUpgrade' } })).toEqual([
      expect.stringContaining(`${at}.upgradeStrategy.hotUpgradeEmptyImage: Required value`),
    ]);
    expect(inContainer({ upgradeStrategy })).toEqual([expect.stringContaining('must not be the image of the sidecar')]);
  });

  it('SHU-2: refuses host ports and names that leave no room, with HotUpgrade', () => {
    const upgradeStrategy = { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'empty:1' };
    const ports = [{ containerPort: 80, hostPort: 80 }];
    expect(inContainer({ upgradeStrategy, ports })).toEqual([
      expect.stringContaining('spec.containers[0].ports[0].hostPort'),
    ]);
    expect(inContainer({ upgradeStrategy, name: 'a'.repeat(62) })).toHaveLength(1);
    const containers = [
      { name: 'log', image: 'log:1', upgradeStrategy },
      { name: 'log-2', image: 'log:1' },
    ];
    expect(problems({ spec: { containers } })).toEqual([expect.stringContaining('spec.containers[1].name')]);
  });

  it('limits what a SidecarSet may contain, and lets a large one shrink', () => {
    const containers = Array.from({ length: 257 }, (_, index) => ({ name: `c${index}`, image: 'c' }));
    const large = { spec: { containers } };
    expect(problems(large)).toEqual([expect.stringContaining('must not have more than 256 items')]);
    expect(changed(large, large).problems).toEqual([]);
    let deep: JsonObject = {};
    for (let level = 0; level < 5_000; level++) deep = { deep };
    expect(validateSidecarSet(sidecarSetDraft({ spec: { volumes: [deep] } })).problems).toHaveLength(1);
  });

  it('refuses an unknown failure policy', () => {
    const annotated = (value: string) =>
      problems({ metadata: { annotations: { 'windlass.io/injection-failure': value } } });
    expect(annotated('Ignore')).toEqual([]);
    expect(annotated('Fail')).toEqual([]);
    expect(annotated('ignore')).toEqual([
      expect.stringContaining('metadata.annotations[windlass.io/injection-failure]'),
    ]);
  });
});

describe('overlap of SidecarSets', () => {
  const labels = (matchLabels: Record<string, string>): LabelSelector => ({ matchLabels });
  const rule = (key: string, operator: string, ...values: readonly string[]): LabelSelector => ({
    matchExpressions: [{ key, operator, values }],
  });

  it.each([
    [labels({ a: 'b' }), labels({ a: 'b' }), true],
    [labels({ a: 'b' }), labels({ c: 'd' }), true],
    [labels({ a: 'b' }), labels({ a: 'c' }), false],
    [labels({ a: 'b' }), rule('a', 'In', 'b', 'c'), true],
    [labels({ a: 'b' }), rule('a', 'In', 'c'), false],
    [rule('a', 'In', 'b', 'c'), rule('a', 'NotIn', 'b'), true],
    [rule('a', 'In', 'b', 'c'), rule('a', 'NotIn', 'b', 'c'), false],
    [rule('a', 'Exists'), rule('a', 'DoesNotExist'), false],
    [rule('a', 'Exists'), labels({ a: 'b' }), true],
    // OpenKruise's quirk
    [rule('a', 'Exists'), rule('a', 'NotIn', 'b'), false],
    [rule('a', 'Exists'), labels({ b: 'c' }), false],
    [rule('a', 'DoesNotExist'), labels({ b: 'c' }), true],
  ])('SCS-265: of %j and %j: %p', (left, right, expected) => {
    expect(mayOverlap({ selector: left }, { selector: right })).toBe(expected);
    expect(mayOverlap({ selector: right }, { selector: left })).toBe(expected);
  });

  it('SCS-265: needs namespaces that overlap, too', () => {
    const selector = labels({ a: 'b' });
    expect(mayOverlap({ selector, namespaceSelector: labels({ n: '1' }) }, { selector })).toBe(true);
    const apart = { selector, namespaceSelector: labels({ n: '2' }) };
    expect(mayOverlap({ selector, namespaceSelector: labels({ n: '1' }) }, apart)).toBe(false);
  });
});

describe('conflicts of SidecarSets', () => {
  const other = (spec: JsonObject = {}, metadata: JsonObject = {}) => set({ name: 'other', spec, metadata });
  const lines = (object: JsonObject, ...all: readonly JsonObject[]) => conflictsOf(object, all).map(describeError);
  const free = { containers: [{ name: 'else', image: 'else:1' }] };

  it('SCS-256: are containers of the same name', () => {
    expect(lines(set(), set(), other())).toEqual([
      'spec.containers[0].name: Invalid value: "log": container log already exist in other',
    ]);
    expect(lines(set(), other({ selector: { matchLabels: { app: 'shop' } } }))).toEqual([]);
    expect(lines(set(), other(free))).toEqual([]);
    const initContainers = [{ name: 'log', image: 'log:1' }];
    expect(lines(set(), other({ ...free, initContainers }))).toEqual([]);
    expect(lines(set({ spec: { initContainers } }), other({ ...free, initContainers }))).toHaveLength(1);
  });

  it('SCS-257: are volumes of the same name and another definition', () => {
    const volumes = (medium: string) => ({ volumes: [{ name: 'v', emptyDir: { medium } }] });
    expect(lines(set({ spec: volumes('') }), other({ ...free, ...volumes('') }))).toEqual([]);
    expect(lines(set({ spec: volumes('') }), other({ ...free, ...volumes('Memory') }))).toEqual([
      'spec.volumes[0]: Invalid value: "v": volume v is in conflict with sidecarset other',
    ]);
  });

  it.each([
    ['Overwrite', 'Overwrite', true],
    ['Overwrite', 'MergePatchJson', true],
    ['MergePatchJson', 'MergePatchJson', false],
    ['Retain', 'Overwrite', false],
    ['Retain', 'Retain', false],
  ])('SCS-258: are annotations with %s and %s: %p', (left, right, expected) => {
    const patch = (patchPolicy: string) => ({ patchPodMetadata: [{ annotations: { a: '1' }, patchPolicy }] });
    const found = lines(set({ spec: patch(left) }), other({ ...free, ...patch(right) }));
    expect(found).toEqual(
      expected
        ? [
            'spec.patchPodMetadata[0].annotations[a]: Invalid value: "a": annotation a is in conflict with sidecarset other',
          ]
        : [],
    );
    expect(lines(other({ ...free, ...patch(right) }), set({ spec: patch(left) }))).toHaveLength(expected ? 1 : 0);
  });

  const canary = (base: string, type = 'NotUpdate', name = 'canary') =>
    set({
      name,
      metadata: { annotations: { 'apps.kruise.io/sidecarset-canary': 'true', 'apps.kruise.io/sidecarset-base': base } },
      spec: { updateStrategy: { type } },
    });

  it('SCS-107: are not those of a canary and its base, in either direction', () => {
    expect(lines(canary('logs'), set())).toEqual([]);
    expect(lines(set(), canary('logs'))).toEqual([]);
    expect(lines(other(), canary('logs'))).toHaveLength(1);
  });

  it('SCS-106, SCS-259: are the rules of a canary', () => {
    expect(validateSidecarSet(canary('logs')).problems).toEqual([]);
    expect(validateSidecarSet(canary('logs', 'RollingUpdate')).problems.map(describeError)).toEqual([
      'spec.updateStrategy.type: Forbidden: RollingUpdate is not supported for canary sidecarSet',
    ]);
    expect(validateSidecarSet(canary('canary')).problems.map(describeError)).toEqual([
      expect.stringContaining('base sidecarSet cannot be itself'),
    ]);
    expect(validateSidecarSet(canary('b'), canary('a')).problems).toHaveLength(1);
    expect(baseProblems(canary('logs'), set())).toEqual([]);
    expect(baseProblems(canary('logs'), undefined)).toHaveLength(1);
    expect(baseProblems(canary('logs'), canary('x', 'NotUpdate', 'logs')).map(describeError)).toEqual([
      expect.stringContaining('base sidecarSet cannot be canary'),
    ]);
  });

  it('finds containers of hot-upgrade sidecars with the name of another container', () => {
    const upgradeStrategy = { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'empty:1' };
    const hot = set({ spec: { containers: [{ name: 'log', image: 'log:1', upgradeStrategy }] } });
    const twin = other({ containers: [{ name: 'log-2', image: 'log:1' }] });
    expect(lines(hot, twin)).toEqual([]);
    expect(hotConflictsOf(hot, [twin]).map(describeError)).toEqual([
      'spec.containers[0].name: Invalid value: "log": container log-2 already exist in other',
    ]);
    expect(hotConflictsOf(twin, [hot])).toHaveLength(1);
    expect(hotConflictsOf(hot, [hot, other()])).toEqual([]);
  });
});

describe('the annotations that SidecarSets may write', () => {
  const patched = (...keys: readonly string[]) =>
    set({
      metadata: { labels: { team: 'a' } },
      spec: { patchPodMetadata: [{ annotations: Object.fromEntries(keys.map((key) => [key, '1'])) }] },
    });
  const list = (...rules: readonly JsonObject[]) => JSON.stringify({ rules });
  const lines = (object: JsonObject, text: string | undefined, isOptional = false) =>
    whitelistProblems(object, text, { isOptional }).map(describeError);

  it('SCS-83, SCS-263: need a whitelist, unless the gate makes it optional', () => {
    expect(lines(patched('a'), undefined)).toEqual([
      'spec.patchPodMetadata: Forbidden: SidecarSet patch metadata whitelist not found',
    ]);
    expect(lines(patched('a'), undefined, true)).toEqual([]);
    expect(lines(patched('a'), list())).toEqual([
      'spec.patchPodMetadata: Forbidden: sidecarSet patch metadata annotation is not allowed',
    ]);
    expect(lines(patched('a'), list(), true)).toEqual([]);
    expect(lines(set(), undefined)).toEqual([]);
  });

  it('SCS-83: match an expression of a rule for the labels of the SidecarSet, even with the gate on', () => {
    const rules = list(
      { selector: { matchLabels: { team: 'a' } }, allowedAnnotationKeyExprs: ['^a'] },
      { selector: { matchLabels: { team: 'b' } }, allowedAnnotationKeyExprs: ['.*'] },
      { allowedAnnotationKeyExprs: ['z$'] },
    );
    expect(lines(patched('abc', 'xyz'), rules)).toEqual([]);
    expect(lines(patched('abc', 'b'), rules, true)).toEqual([
      'spec.patchPodMetadata[0].annotations[b]: Forbidden: sidecarSet patch metadata annotation(b) is not allowed',
    ]);
  });

  it('SCS-83a: ignore unknown members, and refuse text that is not JSON and bad expressions', () => {
    expect(lines(patched('a'), list({ annotationKeyExprs: ['.*'] }), true)).toEqual([]);
    expect(lines(patched('a'), list({ annotationKeyExprs: ['.*'] }))).toHaveLength(1);
    expect(lines(patched('a'), '{', true)).toEqual([expect.stringContaining('is not valid JSON')]);
    expect(lines(patched('a'), list({ allowedAnnotationKeyExprs: ['('] }), true)).toEqual([
      expect.stringContaining('invalid expression'),
    ]);
    const elsewhere = list({ selector: { matchLabels: { team: 'b' } }, allowedAnnotationKeyExprs: ['('] });
    expect(lines(patched('a'), elsewhere, true)).toEqual([]);
  });
});
