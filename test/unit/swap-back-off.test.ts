import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { imageStartsAnnotation } from '../../api/sidecar-set/swap.ts';
import { backOffUntil, imageStartsAfter } from '../../plan/sidecar-swap/back-off.ts';

const nowMs = Date.parse('2026-11-22T10:00:00Z');
const ago = (minutes: number) => new Date(nowMs - minutes * 60_000).toISOString();

interface Ran {
  readonly image: string;
  readonly restarts?: number;
  readonly startedAt?: string;
}

function pod(containers: Readonly<Record<string, Ran>>, starts?: string): Pod {
  return {
    ...{ apiVersion: 'v1', kind: 'Pod' },
    metadata: {
      ...{ namespace: 'shop', name: 'web-0', uid: 'p', resourceVersion: '1', creationTimestamp: ago(60) },
      ...(starts !== undefined && { annotations: { [imageStartsAnnotation]: starts } }),
    },
    spec: { containers: Object.entries(containers).map(([name, { image }]) => ({ name, image })) },
    status: {
      containerStatuses: Object.entries(containers).map(([name, { restarts = 0, startedAt }]) => ({
        ...{ name, ready: true, restartCount: restarts },
        ...(startedAt !== undefined && { state: { running: { startedAt } } }),
      })),
    },
  };
}

describe('the back-off of the kubelet', () => {
  it('lasts ten minutes from when a container last began to run the image', () => {
    const ran = pod({ 'mesh-1': { image: 'app:v3' } }, JSON.stringify({ 'mesh-1': { 'empty:1': ago(4) } }));
    const until = (container: string, image: string) => backOffUntil(ran, [{ container, image }], nowMs);
    expect(until('mesh-1', 'empty:1')).toBe('2026-11-22T10:06:00.000Z');
    expect(until('mesh-1', 'app:v4')).toBeUndefined();
    expect(until('mesh-2', 'empty:1')).toBeUndefined();
  });

  it('is over after ten minutes', () => {
    const ran = pod({ 'mesh-1': { image: 'app:v3' } }, JSON.stringify({ 'mesh-1': { 'empty:1': ago(10) } }));
    expect(backOffUntil(ran, [{ container: 'mesh-1', image: 'empty:1' }], nowMs)).toBeUndefined();
  });

  it('is remembered of the images that a write replaces, if the container was restarted', () => {
    const ran = pod({
      'mesh-1': { image: 'empty:1', restarts: 1, startedAt: ago(3) },
      'mesh-2': { image: 'app:v2', restarts: 1, startedAt: ago(3) },
      'logs-1': { image: 'empty:1', startedAt: ago(3) },
    });
    const after = imageStartsAfter(ran, ['mesh-1', 'logs-1'], nowMs);
    expect(JSON.parse(after ?? '')).toEqual({ 'mesh-1': { 'empty:1': ago(3) } });
  });

  it('keeps what is younger than ten minutes, the latest time of each image, and at most 64 images', () => {
    const many = Object.fromEntries(Array.from({ length: 80 }, (_, nth) => [`app:v${nth}`, ago(9 - nth / 10)]));
    const starts = JSON.stringify({ 'mesh-1': { 'empty:1': ago(5), ...many }, 'mesh-2': { old: ago(11) } });
    const ran = pod({ 'mesh-1': { image: 'empty:1', restarts: 2, startedAt: ago(1) } }, starts);
    const after = JSON.parse(imageStartsAfter(ran, ['mesh-1'], nowMs) ?? '');
    expect(after['mesh-2']).toBeUndefined();
    expect(after['mesh-1']['empty:1']).toBe(ago(1));
    expect(Object.keys(after['mesh-1']).length).toBeLessThanOrEqual(64);
  });

  it('a third swap within ten minutes waits until its reset starts at once; the second does not', () => {
    const empty = (container: string) => [{ container, image: 'empty:1' }];
    // the pod began 9 minutes ago; the first swap emptied mesh-1 8 minutes ago
    const second = pod({
      'mesh-1': { image: 'empty:1', restarts: 1, startedAt: ago(8) },
      'mesh-2': { image: 'app:v2', restarts: 1, startedAt: ago(8) },
    });
    expect(backOffUntil(second, empty('mesh-2'), nowMs)).toBeUndefined();
    const starts = imageStartsAfter(second, ['mesh-1'], nowMs);
    const third = pod({ 'mesh-1': { image: 'app:v3' }, 'mesh-2': { image: 'empty:1' } }, starts);
    expect(backOffUntil(third, empty('mesh-1'), nowMs)).toBe('2026-11-22T10:02:00.000Z');
  });

  it.each(['', '7', 'null', '{"mesh-1":7}', '{"mesh-1":{"empty:1":"soon"}}'])('reads %j as nothing', (starts) => {
    const ran = pod({ 'mesh-1': { image: 'app:v3' } }, starts);
    expect(backOffUntil(ran, [{ container: 'mesh-1', image: 'empty:1' }], nowMs)).toBeUndefined();
    expect(imageStartsAfter(ran, [], nowMs)).toBeUndefined();
  });
});
