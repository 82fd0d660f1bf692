import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { isJsonObject, type Json, type JsonObject } from '../../api/base/json.ts';
import { defaultCloneSet } from '../../api/cloneset/defaults.ts';
import { cloneSetKind } from '../../api/cloneset/schema.ts';
import { validateCloneSet } from '../../api/cloneset/validate.ts';
import { containerRecreateRequestKind } from '../../api/container-recreate-request/schema.ts';
import { validateRecreateSpec } from '../../api/container-recreate-request/validate.ts';
import { kindDefinitions, kinds } from '../../api/kinds.ts';
import { validatePodProbeMarker } from '../../api/pod-probe-marker/validate.ts';
import { validateStatefulSet } from '../../api/stateful-set/validate.ts';
import { crdOf, fieldsOf, schemaOf } from '../../deploy/generate/crd.ts';
import { driftOf, generatedFiles, generatedFolders } from '../../deploy/generate/files.ts';
import { explained, yamlOf } from '../../deploy/generate/yaml.ts';

const root = new URL('../../', import.meta.url);

function present(): ReadonlyMap<string, string> {
  const paths = generatedFolders.flatMap((folder) =>
    readdirSync(new URL(folder, root)).map((name) => `${folder}/${name}`),
  );
  return new Map(paths.map((path) => [path, readFileSync(new URL(path, root), 'utf8')]));
}

const roleFiles = ['watcher', 'webhook', 'worker', 'daemon'].map((role) => `deploy/rbac/${role}.yaml`);

function schema(version: string): JsonObject {
  const found = containerRecreateRequestKind.versions.find(({ name }) => name === version);
  if (found === undefined) throw new Error(`no version ${version}`);
  return schemaOf(containerRecreateRequestKind, found);
}

function at(schema: JsonObject, path: string): JsonObject | undefined {
  return fieldsOf(schema).find((field) => field.path === path)?.schema;
}

describe('generated files', () => {
  it('are as the schemas say', () => {
    expect(driftOf(generatedFiles(), present())).toEqual([]);
  });

  it('are a CustomResourceDefinition and a reference page for each kind', () => {
    const paths = generatedFiles().map(({ path }) => path);
    expect(paths).toContain('deploy/crds/apps.kruise.io_containerrecreaterequests.yaml');
    expect(paths).toContain('docs/reference/container-recreate-request.md');
    expect(paths).toContain('docs/reference/cloneset.md');
    expect(paths).toHaveLength(2 * kindDefinitions.length + roleFiles.length + 3);
  });

  it('are the rights of each role, the policy that limits the watcher, and the webhooks', () => {
    const paths = generatedFiles().map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining([...roleFiles, 'deploy/rbac/watcher-policy.yaml', 'deploy/webhooks/webhooks.yaml']),
    );
  });

  it.each(roleFiles)('%s says of every rule why it is there', (path) => {
    const lines =
      generatedFiles()
        .find((file) => file.path === path)
        ?.content.split('\n') ?? [];
    const rules = lines.flatMap((line, index) => (/^ {2}- apiGroups:/.test(line) ? [lines[index - 1]] : []));
    expect(rules.length).toBeGreaterThan(5);
    for (const before of rules) expect(before).toMatch(/^ {2}# \S/);
  });

  it('are of kinds that the list of kinds names as they name themselves', () => {
    for (const [name, { kind }] of Object.entries(kinds)) expect(kind).toBe(name);
  });
});

describe('yamlOf', () => {
  const about = 'What this is.';

  it('writes comments above what has them, wrapped and indented, and reads back as the same data', () => {
    const long = Array.from({ length: 30 }, (_, index) => `word${index}`).join(' ');
    const rules = [explained({ verbs: ['get', 'list'] }, 'why it is there'), { expression: long }];
    const text = yamlOf([explained({ kind: 'A', rules }, long), { kind: 'B' }], { about, source: 'here' });
    expect(text).toMatch(/^# Written by `npm run generate` from here\. Change it there\.\n#\n# What this is\.\n/);
    expect(text).toContain('\n  # why it is there\n  - verbs: [get, list]\n');
    expect(text).toContain('\n---\nkind: B\n');
    for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(120);
    expect(parseAllDocuments(text).map((document) => document.toJS())).toEqual([
      { kind: 'A', rules: [{ verbs: ['get', 'list'] }, { expression: long }] },
      { kind: 'B' },
    ]);
  });
});

describe('driftOf', () => {
  const wanted = [{ path: 'a.yaml', content: 'one\ntwo\nthree' }];

  it('leaves the page of limits to people', () => {
    const present = new Map([
      ['a.yaml', 'one\ntwo\nthree'],
      ['docs/reference/limits.md', '# Limits'],
    ]);
    expect(driftOf(wanted, present)).toEqual([]);
  });

  it('names what is missing, what nobody generates, and the first line that differs', () => {
    expect(driftOf(wanted, new Map([['b.yaml', '']]))).toEqual([
      { path: 'a.yaml', what: 'missing' },
      { path: 'b.yaml', what: 'nothing generates it' },
    ]);
    expect(driftOf(wanted, new Map([['a.yaml', 'one\n2\nthree']]))[0]?.what).toBe(
      '3 lines instead of 3, the first difference in line 2\n  - 2\n  + two',
    );
    expect(driftOf(wanted, new Map([['a.yaml', 'one\ntwo']]))[0]?.what).toContain('  - (end)\n  + three');
    expect(driftOf(wanted, new Map([['a.yaml', 'one\ntwo\nthree\nfour']]))[0]?.what).toContain('  - four\n  + (end)');
  });
});

describe('the CustomResourceDefinition of ContainerRecreateRequest', () => {
  const crd = crdOf(containerRecreateRequestKind);

  it('serves both versions, stores v1beta1, and converts by webhook', () => {
    expect(crd).toMatchObject({
      metadata: { name: 'containerrecreaterequests.apps.kruise.io' },
      spec: {
        scope: 'Namespaced',
        names: { shortNames: ['crr'], singular: 'containerrecreaterequest' },
        conversion: { strategy: 'Webhook', webhook: { conversionReviewVersions: ['v1'] } },
        versions: [
          { name: 'v1alpha1', served: true, storage: false, subresources: { status: {} } },
          { name: 'v1beta1', served: true, storage: true, subresources: { status: {} } },
        ],
      },
    });
  });

  it('shows phase, pod, node and age', () => {
    const columns = containerRecreateRequestKind.columns.map(({ name, jsonPath }) => [name, jsonPath]);
    expect(columns).toEqual([
      ['PHASE', '.status.phase'],
      ['POD', '.spec.podName'],
      ['NODE', '.metadata.labels.crr\\.apps\\.kruise\\.io/node-name'],
      ['AGE', '.metadata.creationTimestamp'],
    ]);
  });

  it('limits values in v1beta1 only', () => {
    const beta = schema('v1beta1');
    const alpha = schema('v1alpha1');
    expect(at(beta, 'spec.strategy.failurePolicy')?.enum).toEqual(['Fail', 'Ignore']);
    expect(at(alpha, 'spec.strategy.failurePolicy')?.enum).toBeUndefined();
    expect(at(beta, 'spec.ttlSecondsAfterFinished')?.minimum).toBe(0);
    expect(at(beta, 'spec.activeDeadlineSeconds')?.minimum).toBe(0);
    expect(JSON.stringify(alpha)).not.toMatch(/"(minimum|enum|minItems|minLength|pattern)":/);
  });

  it('has the snapshot in v1beta1 only', () => {
    expect(at(schema('v1beta1'), 'status.containerStatusSnapshot')).toBeDefined();
    expect(at(schema('v1alpha1'), 'status.containerStatusSnapshot')).toBeUndefined();
  });

  it('makes the spec immutable in both', () => {
    for (const version of ['v1alpha1', 'v1beta1']) {
      const properties = schema(version).properties;
      const spec = isJsonObject(properties) ? properties.spec : undefined;
      // H3: except for the fields that the watcher fills in once
      const rule = expect.stringMatching(/^self == oldSelf \|\| \(self\.podName == oldSelf\.podName && /);
      expect(spec).toMatchObject({ 'x-kubernetes-validations': [{ rule }] });
    }
  });

  it('gives every list a bound where a rule looks at user input', () => {
    expect(at(schema('v1alpha1'), 'spec.containers')).toMatchObject({
      maxItems: 256,
      'x-kubernetes-list-map-keys': ['name'],
    });
    expect(at(schema('v1beta1'), 'spec.containers[].name')).toMatchObject({ minLength: 1, maxLength: 63 });
  });
});

describe('the CustomResourceDefinition of CloneSet', () => {
  const crd = crdOf(cloneSetKind);
  const schemas = cloneSetKind.versions.map((version) => schemaOf(cloneSetKind, version));
  const beta = cloneSetKind.versions.findIndex(({ name }) => name === 'v1beta1');

  it('serves both versions, stores v1beta1, and can be scaled in both', () => {
    const scale = {
      specReplicasPath: '.spec.replicas',
      statusReplicasPath: '.status.replicas',
      labelSelectorPath: '.status.labelSelector',
    };
    const subresources = { status: {}, scale };
    expect(crd).toMatchObject({
      metadata: { name: 'clonesets.apps.kruise.io' },
      spec: {
        scope: 'Namespaced',
        names: { kind: 'CloneSet', listKind: 'CloneSetList', shortNames: ['clone'], singular: 'cloneset' },
        conversion: { strategy: 'Webhook' },
        versions: [
          { name: 'v1alpha1', served: true, storage: false, subresources },
          { name: 'v1beta1', served: true, storage: true, subresources },
        ],
      },
    });
  });

  it('shows the columns of OpenKruise, three of them only with -o wide', () => {
    const columns = cloneSetKind.columns.map(({ name, jsonPath, priority = 0 }) => [name, jsonPath, priority]);
    expect(columns).toEqual([
      ['DESIRED', '.spec.replicas', 0],
      ['UPDATED', '.status.updatedReplicas', 0],
      ['UPDATED_READY', '.status.updatedReadyReplicas', 0],
      ['UPDATED_AVAILABLE', '.status.updatedAvailableReplicas', 0],
      ['READY', '.status.readyReplicas', 0],
      ['TOTAL', '.status.replicas', 0],
      ['AGE', '.metadata.creationTimestamp', 0],
      ['CONTAINERS', '.spec.template.spec.containers[*].name', 1],
      ['IMAGES', '.spec.template.spec.containers[*].image', 1],
      ['SELECTOR', '.status.labelSelector', 1],
    ]);
  });

  it('keeps every field of templates and claims', () => {
    for (const schema of schemas) {
      expect(at(schema, 'spec.template')).toMatchObject({
        type: 'object',
        'x-kubernetes-preserve-unknown-fields': true,
      });
      expect(at(schema, 'spec.volumeClaimTemplates')).toMatchObject({
        type: 'array',
        items: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      });
    }
  });

  it('asks for what OpenKruise asks for, and for nothing else at the top', () => {
    for (const schema of schemas) {
      const properties = isJsonObject(schema.properties) ? schema.properties : {};
      expect(properties.spec).toMatchObject({ required: ['selector', 'template'] });
      expect(properties.status).toMatchObject({
        required: ['availableReplicas', 'readyReplicas', 'replicas', 'updatedReadyReplicas', 'updatedReplicas'],
      });
    }
  });

  it('has the flag for claims with its default in v1beta1, and its opposite without one in v1alpha1', () => {
    const [alpha = {}, stored = {}] = schemas;
    expect(beta).toBe(1);
    expect(at(stored, 'spec.scaleStrategy.enablePVCReuse')).toMatchObject({ type: 'boolean', default: false });
    expect(at(alpha, 'spec.scaleStrategy.enablePVCReuse')).toBeUndefined();
    expect(at(alpha, 'spec.scaleStrategy.disablePVCReuse')).toMatchObject({ type: 'boolean' });
    expect(at(alpha, 'spec.scaleStrategy.disablePVCReuse')?.default).toBeUndefined();
  });

  it('takes numbers of pods as numbers and as percentages', () => {
    const [alpha = {}, stored = {}] = schemas;
    for (const field of ['partition', 'maxUnavailable', 'maxSurge']) {
      const intOrString = { 'x-kubernetes-int-or-string': true };
      expect(at(stored, `spec.updateStrategy.rollingUpdate.${field}`)).toMatchObject(intOrString);
      expect(at(alpha, `spec.updateStrategy.${field}`)).toMatchObject(intOrString);
    }
  });

  it('tells on its reference page what v1alpha1 has instead', () => {
    const page = generatedFiles().find(({ path }) => path === 'docs/reference/cloneset.md')?.content ?? '';
    const alpha = page.slice(page.indexOf('## What is different in v1alpha1'));
    expect(alpha).toContain('- There is no `spec.updateStrategy.rollingUpdate`.');
    expect(alpha).not.toContain('rollingUpdate.partition');
    expect(alpha).toMatch(/\| `spec\.updateStrategy\.partition` +\|/);
    expect(alpha).toMatch(/\| `spec\.updateStrategy\.type` +\| string +\| +\| `ReCreate`/);
    expect(alpha).not.toContain('spec.replicas');
  });
});

describe('the samples', () => {
  const folder = new URL('deploy/samples/', root);
  const documents = readdirSync(folder).flatMap((file) =>
    parseAllDocuments(readFileSync(new URL(file, folder), 'utf8')).map((document) => {
      const object: Json = document.toJS();
      return isJsonObject(object) ? object : {};
    }),
  );

  it('hold a request in each version, and both are valid', () => {
    const requests = documents.filter((object) => object.kind === 'ContainerRecreateRequest');
    expect(requests.map((object) => object.apiVersion).toSorted()).toEqual([
      'apps.kruise.io/v1alpha1',
      'apps.kruise.io/v1beta1',
    ]);
    for (const request of requests) expect(validateRecreateSpec(request.spec)).toEqual([]);
  });

  it('hold a CloneSet in each version, and both are valid', () => {
    const sets = documents.filter((object) => object.kind === 'CloneSet');
    expect(sets.map((object) => object.apiVersion).toSorted()).toEqual([
      'apps.kruise.io/v1alpha1',
      'apps.kruise.io/v1beta1',
    ]);
    const gates = { TemplateNoDefaults: false, DefaultHostNetworkHostPortsInPodTemplates: false };
    for (const set of sets) expect(validateCloneSet(defaultCloneSet(set, gates))).toEqual([]);
  });

  it('hold StatefulSets and PodProbeMarkers, and all are valid', () => {
    const sets = documents.filter(({ kind, apiVersion }) => kind === 'StatefulSet' && apiVersion !== 'apps/v1');
    const markers = documents.filter(({ kind }) => kind === 'PodProbeMarker');
    expect([sets.length, markers.length]).toEqual([4, 2]);
    expect(sets.flatMap(validateStatefulSet)).toEqual([]);
    expect(markers.flatMap(validatePodProbeMarker)).toEqual([]);
  });
});
