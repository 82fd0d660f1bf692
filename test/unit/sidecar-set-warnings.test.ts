import { describe, expect, it } from '@jest/globals';
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { validateSidecarSet } from '../../api/sidecar-set/validate.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';

const log = { name: 'log', image: 'log:1' };

function set(spec: JsonObject = {}, matchedPods?: number): JsonObject {
  const status = matchedPods === undefined ? {} : { status: { matchedPods, updatedPods: 0, readyPods: 0 } };
  return { ...defaultSidecarSet(sidecarSetDraft({ metadata: { generation: 1 }, spec })), ...status };
}

function warnings(before: JsonObject, after: JsonObject): readonly string[] {
  const verdict = validateSidecarSet(after, before);
  expect(verdict.problems).toEqual([]);
  return verdict.warnings;
}

const stuck = (fields: string, pods: string) => [
  `${fields}: ${pods} the old sidecars and cannot be updated in place, not even to a new image`,
  '"kubectl kruise sidecar missing logs --outdated" lists these pods; with --recreate their owners recreate them',
];

describe('warnings about an edit that running pods cannot take', () => {
  it('SCS-192, SCS-267: name the fields, the number of pods and what reaches them, and the edit is accepted', () => {
    const env = { containers: [{ ...log, env: [{ name: 'A', value: 'b' }] }] };
    expect(warnings(set({}, 12), set(env, 12))).toEqual(stuck('spec.containers[0].env', '12 running pods keep'));
    expect(warnings(set({}, 1), set(env, 1))).toEqual(stuck('spec.containers[0].env', '1 running pod keeps'));
    const more = { containers: [{ ...log, env: [{ name: 'A' }], args: ['x'], command: ['y'], tty: true }] };
    expect(warnings(set({}, 2), set(more, 2))[0]).toMatch(/^(spec\.containers\[0\]\.\w+(, )?){3} and 1 more: 2 /);
  });

  it('SCS-192: see a container that is removed, and a new order', () => {
    const [one, two] = [
      { name: 'a', image: 'a:1' },
      { name: 'b', image: 'b:1' },
    ];
    const both = set({ containers: [one, two] }, 3);
    expect(warnings(both, set({ containers: [one] }, 3))).toEqual(stuck('spec.containers', '3 running pods keep'));
    expect(warnings(both, set({ containers: [two, one] }, 3))).toEqual(stuck('spec.containers', '3 running pods keep'));
  });

  it('SCS-194: name the pull policy that an image without a tag brings', () => {
    const latest = { containers: [{ ...log, image: 'log:latest' }] };
    expect(warnings(set({}, 3), set(latest, 3))).toEqual(
      stuck('spec.containers[0].imagePullPolicy', '3 running pods keep'),
    );
  });

  it('SCS-193: tell of fields that reach new pods only, and of annotations', () => {
    const added = {
      volumes: [{ name: 'v', emptyDir: {} }],
      initContainers: [{ name: 'init', image: 'i:1' }],
    };
    expect(warnings(set({}, 3), set(added, 3))).toEqual([
      'spec.initContainers, spec.volumes: new pods only; 3 running pods keep the old ones',
    ]);
    const patched = { patchPodMetadata: [{ annotations: { a: 'b' } }] };
    expect(warnings(set({}, 3), set(patched, 3))).toEqual([
      'spec.patchPodMetadata: a running pod gets it with its next update of an image (3 running pods)',
    ]);
  });

  it('are not given for images and strategies, without pods, and where running pods are not updated', () => {
    const env = { containers: [{ ...log, env: [{ name: 'A', value: 'b' }] }] };
    expect(warnings(set({}, 3), set({ containers: [{ ...log, image: 'log:2' }] }, 3))).toEqual([]);
    expect(warnings(set({}, 3), set({ updateStrategy: { partition: 2 } }, 3))).toEqual([]);
    expect(warnings(set({}, 0), set(env, 0))).toEqual([]);
    expect(warnings(set(), set(env))).toEqual([]);
    const never = { updateStrategy: { type: 'NotUpdate' } };
    expect(warnings(set(never, 3), set({ ...never, ...env }, 3))).toEqual([]);
  });

  it('are short enough for the API server, which may cut warnings of more than 256 characters', () => {
    const name = 'n'.repeat(63);
    const containers = Array.from({ length: 200 }, (_, index) => ({ name: `c-${index}`, image: 'x:1' }));
    const big = (change: JsonObject): JsonObject => {
      const given = set({ containers: containers.map((container) => ({ ...container, ...change })) }, 50_000);
      return { ...given, metadata: { ...objectOr(given.metadata), name } };
    };
    const change = { env: [{ name: 'A' }], terminationMessagePath: '/x', terminationMessagePolicy: 'File' };
    for (const warning of warnings(big({}), big(change))) expect(warning.length).toBeLessThanOrEqual(256);
  });
});

describe('warnings about what may not be meant', () => {
  it('SCS-266: tell of a maxUnavailable of zero, as a number and as a percentage', () => {
    const of = (maxUnavailable: number | string) =>
      validateSidecarSet(set({ updateStrategy: { maxUnavailable } })).warnings;
    expect([of(0), of('0%'), of('10%'), of(1)].map((found) => found.length)).toEqual([1, 1, 0, 0]);
  });

  it('SCS-154, SCS-156: tell of percentages above 100%, which are accepted', () => {
    const { problems, warnings: told } = validateSidecarSet(
      set({ updateStrategy: { partition: '120%', maxUnavailable: '200%' } }),
    );
    expect(problems).toEqual([]);
    expect(told).toEqual([
      'spec.updateStrategy.partition: 120% is more than all pods and counts as 100%',
      'spec.updateStrategy.maxUnavailable: 200% is more than all pods and counts as 100%',
    ]);
  });

  it('name the stored form of spec.namespace, and a selector that it drops', () => {
    const old = (spec: JsonObject) => validateSidecarSet(sidecarSetDraft({ version: 'v1alpha1', spec })).warnings;
    const [stored] = old({ namespace: 'shop' });
    expect(stored).toContain('spec.namespaceSelector.matchLabels: {"kubernetes.io/metadata.name": "shop"}');
    const both = old({ namespace: 'shop', namespaceSelector: { matchLabels: { team: 'a' } } });
    expect(both).toEqual([stored, 'spec.namespaceSelector has no effect beside spec.namespace']);
    expect(listOr(old({ namespaceSelector: { matchLabels: { team: 'a' } } }))).toEqual([]);
  });
});
