import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isJsonObject, type Json, type JsonObject, objectOr } from '../../api/base/json.ts';
import { convertCloneSet } from '../../api/cloneset/convert.ts';
import type { CloneSetVersion } from '../../api/cloneset/types.ts';
import { cloneSetDraft } from '../support/objects/cloneset.ts';

const alpha = 'apps.kruise.io/v1alpha1';
const beta = 'apps.kruise.io/v1beta1';

function set(version: CloneSetVersion, spec: JsonObject = {}, metadata: JsonObject = {}): JsonObject {
  return cloneSetDraft({ version, metadata, spec });
}

function convert(object: JsonObject, apiVersion: string) {
  const converted = convertCloneSet(object, apiVersion);
  if (converted === undefined) throw new Error('not converted');
  return converted;
}

const toBeta = (object: JsonObject) => convert(object, beta).object;
const toAlpha = (object: JsonObject) => convert(object, alpha).object;
const specOf = (object: JsonObject) => objectOr(object.spec);

function recorded(version: CloneSetVersion): JsonObject {
  const url = new URL(`../recorded/cloneset-1-created-${version}.json`, import.meta.url);
  const object: Json = JSON.parse(readFileSync(url, 'utf8'));
  return isJsonObject(object) ? object : {};
}

describe('conversion of CloneSets', () => {
  it('makes of a set of a real OpenKruise, in either version, the same set as OpenKruise shows it in the other', () => {
    expect(toBeta(recorded('v1alpha1'))).toEqual(recorded('v1beta1'));
    expect(toAlpha(recorded('v1beta1'))).toEqual(recorded('v1alpha1'));
  });

  it('leaves an object alone that has the version already, and does not touch versions of others', () => {
    const object = set('v1beta1');
    expect(convert(object, beta)).toEqual({ object, warnings: [] });
    expect(convertCloneSet(object, 'apps.kruise.io/v1')).toBeUndefined();
    expect(convertCloneSet({ ...object, apiVersion: 'apps/v1beta1' }, alpha)).toBeUndefined();
  });

  it.each(['ReCreate', 'InPlaceIfPossible', 'InPlaceOnly'])('makes type %s a policy of the same name', (policy) => {
    const pace = { partition: '30%', maxUnavailable: 0, maxSurge: 2, paused: true, scatterStrategy: [] };
    const old = set('v1alpha1', { scaleStrategy: {}, updateStrategy: { ...pace, type: policy } });
    expect(specOf(toBeta(old)).updateStrategy).toEqual({
      type: 'RollingUpdate',
      rollingUpdate: { ...pace, podUpdatePolicy: policy },
    });
    expect(toAlpha(toBeta(old))).toEqual(old);
  });

  it.each([undefined, '', 'Rolling', null])('reads type %p as ReCreate', (type) => {
    const strategy = specOf(toBeta(set('v1alpha1', { updateStrategy: { ...(type !== undefined && { type }) } })));
    expect(strategy.updateStrategy).toEqual({ type: 'RollingUpdate', rollingUpdate: { podUpdatePolicy: 'ReCreate' } });
    const back = set('v1beta1', {
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { podUpdatePolicy: 'No' } },
    });
    expect(specOf(toAlpha(back)).updateStrategy).toEqual({ type: 'ReCreate' });
  });

  it('CS-95: keeps type OnDelete and drops what nothing reads beside it, with a warning', () => {
    const old = set('v1alpha1', { updateStrategy: { type: 'OnDelete', partition: 3 } });
    const { object, warnings } = convert(old, beta);
    expect(specOf(object).updateStrategy).toEqual({ type: 'OnDelete' });
    expect(warnings).toEqual(['partition in spec.updateStrategy has no effect with type OnDelete and is dropped']);
    expect(specOf(toAlpha(object)).updateStrategy).toEqual({ type: 'OnDelete' });
    const withBlock = set('v1beta1', {
      updateStrategy: { type: 'OnDelete', rollingUpdate: { partition: 1, maxUnavailable: 2 } },
    });
    expect(specOf(toAlpha(withBlock)).updateStrategy).toEqual({ type: 'OnDelete' });
  });

  it.each([
    [undefined, true],
    [{}, true],
    [{ disablePVCReuse: false, maxUnavailable: '10%' }, true],
    [{ disablePVCReuse: true, podsToDelete: ['a'] }, false],
  ])('turns the flag for claims round, which is on in v1alpha1 unless said otherwise: %j', (scaleStrategy, reuses) => {
    const old = set('v1alpha1', { ...(scaleStrategy && { scaleStrategy }) });
    const { disablePVCReuse, ...rest } = { disablePVCReuse: false, ...scaleStrategy };
    expect(specOf(toBeta(old)).scaleStrategy).toEqual({ ...rest, enablePVCReuse: reuses });
    expect(specOf(toAlpha(toBeta(old))).scaleStrategy).toEqual({
      ...rest,
      ...(disablePVCReuse && { disablePVCReuse }),
    });
  });

  it('reads an absent enablePVCReuse as off', () => {
    expect(specOf(toAlpha(set('v1beta1'))).scaleStrategy).toEqual({ disablePVCReuse: true });
  });

  it('sets excludePreparingDelete from the label of v1alpha1, and does not write the label back', () => {
    const label = 'apps.kruise.io/cloneset-scaling-exclude-preparing-delete';
    const labelled = toBeta(set('v1alpha1', {}, { labels: { [label]: 'true' } }));
    expect(specOf(labelled).scaleStrategy).toEqual({ enablePVCReuse: true, excludePreparingDelete: true });
    expect(labelled.metadata).toMatchObject({ labels: { [label]: 'true' } });
    expect(specOf(toBeta(set('v1alpha1', {}, { labels: { [label]: 'yes' } }))).scaleStrategy).toEqual({
      enablePVCReuse: true,
    });

    const written = toAlpha(set('v1beta1', { scaleStrategy: { enablePVCReuse: true, excludePreparingDelete: true } }));
    expect(written.metadata).toEqual({ name: 'web', namespace: 'shop' });
    expect(specOf(written).scaleStrategy).toEqual({});
    expect(specOf(toBeta(written)).scaleStrategy).toEqual({ enablePVCReuse: true });
  });

  it('moves the annotations about pulling ahead into fields and back', () => {
    const annotations = {
      'apps.kruise.io/image-predownload-parallelism': '5',
      'apps.kruise.io/image-predownload-timeout-seconds': '600',
      'apps.kruise.io/image-predownload-min-updated-ready-pods': '2',
    };
    const strategy = { type: 'InPlaceIfPossible', inPlaceUpdateStrategy: { gracePeriodSeconds: 8 } };
    const old = set('v1alpha1', { scaleStrategy: {}, updateStrategy: strategy }, { annotations });
    const converted = toBeta(old);
    expect(converted.metadata).toEqual({ name: 'web', namespace: 'shop' });
    expect(specOf(converted).updateStrategy).toMatchObject({
      rollingUpdate: {
        inPlaceUpdateStrategy: {
          gracePeriodSeconds: 8,
          imagePreDownloadParallelism: 5,
          imagePreDownloadTimeoutSeconds: 600,
          imagePreDownloadMinUpdatedReadyPods: 2,
        },
      },
    });
    expect(toAlpha(converted)).toEqual(old);
    const bare = set('v1alpha1', { scaleStrategy: {}, updateStrategy: { type: 'ReCreate' } }, { annotations });
    expect(toAlpha(toBeta(bare))).toEqual(bare);
  });

  it('leaves an annotation alone that is no whole number, and says that it has no effect', () => {
    const annotations = { 'apps.kruise.io/image-predownload-min-updated-ready-pods': '50%', mine: 'stays' };
    const { object, warnings } = convert(set('v1alpha1', {}, { annotations }), beta);
    expect(object.metadata).toMatchObject({ annotations });
    expect(JSON.stringify(object.spec)).not.toContain('imagePreDownload');
    expect(warnings).toEqual([
      'annotation apps.kruise.io/image-predownload-min-updated-ready-pods is not an integer and has no effect',
    ]);
  });

  it('ignores the fields of v1alpha1 of which only the annotations count, with a warning', () => {
    const inPlaceUpdateStrategy = { gracePeriodSeconds: 1, imagePreDownloadParallelism: 7 };
    const { object, warnings } = convert(
      set('v1alpha1', { updateStrategy: { type: 'InPlaceOnly', inPlaceUpdateStrategy } }),
      beta,
    );
    expect(specOf(object).updateStrategy).toMatchObject({
      rollingUpdate: { inPlaceUpdateStrategy: { gracePeriodSeconds: 1 } },
    });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('imagePreDownloadParallelism in spec.updateStrategy.inPlaceUpdateStrategy');
  });

  it('does not read annotations of an object that is v1beta1 already', () => {
    const annotations = { 'apps.kruise.io/image-predownload-parallelism': '5' };
    const object = set('v1beta1', {}, { annotations });
    expect(convert(object, beta).object).toBe(object);
  });

  it('takes status and everything that it does not know along', () => {
    const status = { replicas: 3, conditions: [{ type: 'FailedScale', status: 'True' }], waitingFor: { reason: 'x' } };
    const object = { ...set('v1alpha1', { fromTheFuture: { a: [1, null] } }), status };
    expect(toBeta(object)).toMatchObject({ status, spec: { fromTheFuture: { a: [1, null] } } });
    expect(toAlpha(toBeta(object))).toMatchObject({ status, spec: { fromTheFuture: { a: [1, null] } } });
  });
});

describe('conversion of any CloneSet with defaults', () => {
  const intOrPercent = fc.oneof(
    fc.nat(20),
    fc.nat(100).map((share) => `${share}%`),
  );
  const common = {
    replicas: fc.nat(100),
    minReadySeconds: fc.nat(100),
    revisionHistoryLimit: fc.nat(20),
    progressDeadlineSeconds: fc.nat(1000),
    lifecycle: fc.constantFrom({}, { preDelete: { finalizersHandler: ['a/b'], markPodNotReady: true } }),
    volumeClaimTemplates: fc.constantFrom(
      [],
      [{ metadata: { name: 'data' }, spec: { accessModes: ['ReadWriteOnce'] } }],
    ),
  };
  const pace = {
    partition: intOrPercent,
    maxUnavailable: intOrPercent,
    maxSurge: intOrPercent,
    paused: fc.boolean(),
    priorityStrategy: fc.constantFrom({}, { orderPriority: [{ orderedKey: 'order' }] }),
    scatterStrategy: fc.constantFrom([], [{ key: 'a', value: 'b' }]),
  };
  const scale = { podsToDelete: fc.array(fc.string()), maxUnavailable: intOrPercent };
  const policy = fc.constantFrom('ReCreate', 'InPlaceIfPossible', 'InPlaceOnly');
  const preDownload = {
    imagePreDownloadParallelism: fc.nat(20),
    imagePreDownloadTimeoutSeconds: fc.nat(900),
    imagePreDownloadMinUpdatedReadyPods: fc.nat(20),
  };
  const metadata = fc.record({ annotations: fc.dictionary(fc.string(), fc.string(), { minKeys: 1 }) });
  const some: { requiredKeys: never[] } = { requiredKeys: [] };

  /** CloneSets of one version: `inPlace` are further fields of its inPlaceUpdateStrategy. */
  function setsOf(
    version: CloneSetVersion,
    inPlace: Readonly<Record<string, fc.Arbitrary<number>>>,
    shape: {
      readonly reuse: (flag: boolean) => JsonObject;
      readonly update: (podUpdatePolicy: string, fields: JsonObject) => JsonObject;
    },
  ) {
    const inPlaceUpdateStrategies = fc.record({ gracePeriodSeconds: fc.nat(60), ...inPlace }, some);
    return fc
      .record({
        metadata,
        common: fc.record(common, some),
        scaleStrategy: fc.tuple(fc.record(scale, some), fc.boolean()),
        updateStrategy: fc.oneof(
          fc.constant({ type: 'OnDelete' }),
          fc
            .tuple(policy, fc.record(pace, some), fc.option(inPlaceUpdateStrategies, { nil: undefined }))
            .map(([podUpdatePolicy, fields, inPlaceUpdateStrategy]) =>
              shape.update(podUpdatePolicy, { ...fields, ...(inPlaceUpdateStrategy && { inPlaceUpdateStrategy }) }),
            ),
        ),
      })
      .map(({ metadata: meta, common: fields, scaleStrategy: [limits, flag], updateStrategy }) =>
        set(version, { ...fields, scaleStrategy: { ...limits, ...shape.reuse(flag) }, updateStrategy }, meta),
      );
  }

  const betaSets = setsOf('v1beta1', preDownload, {
    reuse: (enablePVCReuse) => ({ enablePVCReuse }),
    update: (podUpdatePolicy, fields) => ({ type: 'RollingUpdate', rollingUpdate: { podUpdatePolicy, ...fields } }),
  });
  const alphaSets = setsOf(
    'v1alpha1',
    {},
    {
      reuse: (disablePVCReuse) => (disablePVCReuse ? { disablePVCReuse } : {}),
      update: (type, fields) => ({ type, ...fields }),
    },
  );

  it('loses nothing from v1beta1 to v1alpha1 and back', () => {
    fc.assert(fc.property(betaSets, (object) => expect(toBeta(toAlpha(object))).toEqual(object)));
  });

  it('loses nothing from v1alpha1 to v1beta1 and back', () => {
    fc.assert(fc.property(alphaSets, (object) => expect(toAlpha(toBeta(object))).toEqual(object)));
  });

  it('never throws, and never touches who the object is', () => {
    const odd = fc.record(
      { metadata: fc.jsonValue(), spec: fc.oneof(fc.jsonValue(), fc.record({ updateStrategy: fc.jsonValue() })) },
      some,
    );
    fc.assert(
      fc.property(odd, fc.constantFrom(alpha, beta), (fields, apiVersion) => {
        const object: JsonObject = { ...(fields as JsonObject), apiVersion, kind: 'CloneSet' };
        for (const other of [alpha, beta]) {
          const converted = convert(object, other).object;
          expect(converted).toMatchObject({ apiVersion: other, kind: 'CloneSet' });
          expect(objectOr(converted.metadata).name).toEqual(objectOr(object.metadata).name);
        }
      }),
    );
  });
});
