import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { createCache, type WritableCache } from '../../kube/cache.ts';
import type { EndpointSlice, Service } from '../../plan/drain.ts';
import type { ControllerContext } from '../../watcher/controller.ts';
import { Drains } from '../../watcher/drained.ts';
import { anEndpointSlice, aService } from '../support/objects/endpoint-slice.ts';
import { aPod } from '../support/objects/pod.ts';

const never = new AbortController().signal;

function slice(version: string, ready: boolean, service = 'web'): EndpointSlice {
  const endpoints = [{ conditions: { ready }, targetRef: { uid: 'uid-pod' } }];
  return anEndpointSlice(service, endpoints, { uid: 'uid-web-1', resourceVersion: version });
}

function pod(version: string, isReady: boolean): Pod {
  const conditions = [{ type: 'Ready', status: isReady ? 'True' : 'False' }];
  return aPod({ metadata: { uid: 'uid-pod', resourceVersion: version }, status: { conditions } });
}

/** Caches that a test fills, with a Service that respects readiness or not. */
function cluster({ publishNotReadyAddresses = false } = {}) {
  const onError = (error: unknown) => {
    throw error;
  };
  const slices = createCache<EndpointSlice>({ onError });
  const services = createCache<Service>({ onError });
  services.replace([aService({ publishNotReadyAddresses })], '1');
  const cache: ControllerContext['cache'] = (resource, indexes = {}) => {
    const found = resource === kubeResource.services ? services : slices;
    const asked = found as unknown as WritableCache<never>;
    for (const [name, of] of Object.entries(indexes)) asked.addIndex(name, of as never);
    return asked;
  };
  return { slices, drains: new Drains({ cache }) };
}

/** Whether it has resolved by now. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol('open');
  await new Promise((resolve) => setImmediate(resolve));
  return (await Promise.race([promise, Promise.resolve(open)])) !== open;
}

describe('a pod that was made unready is drained', () => {
  it('once every Service shows it as not ready', async () => {
    const { slices, drains } = cluster();
    slices.replace([slice('5', true)], '5');
    const drained = drains.until(pod('6', true), pod('7', false), never);
    expect(await isDone(drained)).toBe(false);
    slices.apply('MODIFIED', slice('8', false));
    expect(await drained).toEqual([]);
  });

  it('not by a cache that lags behind the drain', async () => {
    const { slices, drains } = cluster();
    slices.replace([slice('3', false)], '3'); // from before it was ready
    const drained = drains.until(pod('6', true), pod('7', false), never);
    expect(await isDone(drained)).toBe(false);
    slices.apply('MODIFIED', slice('5', true));
    expect(await isDone(drained)).toBe(false);
    slices.apply('MODIFIED', slice('9', false));
    expect(await drained).toEqual([]);
  });

  it('at once when no Service chooses it, or when it was not ready anyway', async () => {
    const { slices, drains } = cluster();
    slices.replace([], '1');
    expect(await drains.until(pod('6', true), pod('7', false), never)).toEqual([]);
    slices.apply('ADDED', slice('8', false));
    expect(await drains.until(pod('9', false), pod('9', false), never)).toEqual([]);
  });

  it('at once when the only Service publishes addresses that are not ready', async () => {
    const { slices, drains } = cluster({ publishNotReadyAddresses: true });
    slices.replace([slice('5', true)], '5');
    expect(await drains.until(pod('6', true), pod('7', false), never)).toEqual([]);
  });

  it('no more when the watcher ends', async () => {
    const { slices, drains } = cluster();
    slices.replace([slice('5', true)], '5');
    const end = new AbortController();
    const drained = drains.until(pod('6', true), pod('7', false), end.signal);
    end.abort(new Error('the term is over'));
    await expect(drained).rejects.toThrow('the term is over');
  });
});
