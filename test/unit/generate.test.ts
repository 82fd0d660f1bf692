import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { validateRecreateSpec } from '../../api/container-recreate-request.ts';
import { isJsonObject, type Json, type JsonObject } from '../../api/json.ts';
import { containerRecreateRequestKind } from '../../api/schema/container-recreate-request.ts';
import { kinds } from '../../api/schema/kinds.ts';
import { crdOf, fieldsOf, schemaOf } from '../../deploy/generate/crd.ts';
import { driftOf, generatedFiles, generatedFolders } from '../../deploy/generate/files.ts';

const root = new URL('../../', import.meta.url);

function present(): ReadonlyMap<string, string> {
  const paths = generatedFolders.flatMap((folder) =>
    readdirSync(new URL(folder, root)).map((name) => `${folder}/${name}`),
  );
  return new Map(paths.map((path) => [path, readFileSync(new URL(path, root), 'utf8')]));
}

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
    expect(paths).toHaveLength(2 * kinds.length + 1);
  });
});

describe('driftOf', () => {
  const wanted = [{ path: 'a.yaml', content: 'one\ntwo\nthree' }];

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
      expect(spec).toMatchObject({ 'x-kubernetes-validations': [{ rule: 'self == oldSelf' }] });
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
});
