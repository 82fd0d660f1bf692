import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import {
  defaultStorageClass,
  type StorageClass,
  storageClassProblem,
  storageClassWarning,
  templateChange,
} from '../../api/stateful-set/claim-templates.ts';

const template = (storage: string, spec: JsonObject = {}, name = 'data') => ({
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage } }, ...spec },
});
const set = (volumeClaimTemplates: readonly JsonObject[], type = 'OnPodRollingUpdate') => ({
  spec: { volumeClaimTemplates, volumeClaimUpdateStrategy: { type } },
});
const change = (before: readonly JsonObject[], after: readonly JsonObject[]) => templateChange(set(before), set(after));
const path = 'spec.volumeClaimTemplates[data]';

describe('claim templates whose PVCs are expanded with them', () => {
  it.each<[string, readonly JsonObject[], string]>([
    ['another one', [template('1Gi'), template('1Gi', {}, 'logs')], 'spec.volumeClaimTemplates'],
    ['one less', [], 'spec.volumeClaimTemplates'],
    ['another name', [template('1Gi', {}, 'logs')], 'spec.volumeClaimTemplates'],
    ['other access modes', [template('1Gi', { accessModes: ['ReadWriteMany'] })], `${path}.spec.accessModes`],
    ['a class', [template('1Gi', { storageClassName: 'fast' })], `${path}.spec.storageClassName`],
  ])('AS-95: refuse %s', (_, after, field) => {
    expect(change([template('1Gi')], after).problems).toMatchObject([{ type: 'FieldValueForbidden', field }]);
  });

  it.each<[string, JsonObject, boolean]>([
    ['a larger request', template('2Gi'), true],
    ['a smaller request', template('1Mi'), true],
    ['a limit', template('1Gi', { resources: { requests: { storage: '1Gi' }, limits: { storage: '9Gi' } } }), true],
    ['the same amount in another spelling', template('1024Mi'), false],
    ['another label', { ...template('1Gi'), metadata: { name: 'data', labels: { a: 'b' } } }, false],
  ])('AS-95a: have their class looked at for %s: %p', (_, after, isLookedAt) => {
    const { problems, resized } = change([template('1Gi')], [after]);
    expect([problems, resized]).toEqual([[], isLookedAt ? [{ path }] : []]);
  });

  it('AS-95: are free while the stored strategy is another one', () => {
    const [before, after] = [set([template('1Gi')], 'OnDelete'), set([template('2Gi', {}, 'logs')])];
    expect(templateChange(before, after)).toEqual({ problems: [], resized: [] });
    expect(templateChange(after, set([], 'OnDelete')).problems).toHaveLength(1);
  });

  const aClass = (name: string, more: Partial<StorageClass> = {}, creationTimestamp = ''): StorageClass => ({
    ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass' },
    metadata: { name, uid: name, resourceVersion: '1', creationTimestamp },
    ...more,
  });
  const detail = (className: string | undefined, found: StorageClass | undefined) =>
    storageClassProblem({ path, ...(className !== undefined && { className }) }, found)?.detail;

  it('AS-95, AS-95a: need a class that exists and does not exclude expansion', () => {
    expect(detail('fast', aClass('fast', { allowVolumeExpansion: true }))).toBeUndefined();
    expect(detail('fast', aClass('fast'))).toBeUndefined();
    expect(detail('slow', aClass('slow', { allowVolumeExpansion: false }))).toBe(
      'storage class slow does not support volume expansion',
    );
    expect(storageClassWarning({ path }, aClass('fast'))).toContain('storage class fast has no allowVolumeExpansion');
    expect(storageClassWarning({ path }, aClass('fast', { allowVolumeExpansion: true }))).toBeUndefined();
    expect(detail('fast', undefined)).toBe('storage class fast does not exist');
    expect(detail(undefined, undefined)).toBeUndefined();
  });

  it('AS-95: without a class have that of the newest default one', () => {
    const marked = (name: string, createdAt: string, key = 'storageclass.kubernetes.io/is-default-class') => {
      const made = aClass(name, {}, createdAt);
      return { ...made, metadata: { ...made.metadata, annotations: { [key]: 'true' } } };
    };
    const beta = 'storageclass.beta.kubernetes.io/is-default-class';
    const classes = [
      aClass('other', {}, '2026-03-01T00:00:00Z'),
      marked('old', '2026-01-01T00:00:00Z'),
      marked('new', '2026-02-01T00:00:00Z', beta),
    ];
    expect(defaultStorageClass(classes)?.metadata.name).toBe('new');
    expect(defaultStorageClass(classes.slice(0, 1))).toBeUndefined();
  });
});
