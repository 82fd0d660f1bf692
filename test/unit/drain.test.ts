import { describe, expect, it } from '@jest/globals';
import { drainActivities } from '../../activities/kube/drain.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { KubeError } from '../../kube/failures.ts';
import { type EndpointSlice, podsOfSlice, respectsReadiness, type Service, servicesShowing } from '../../plan/drain.ts';
import { anEndpointSlice, aService } from '../support/objects/endpoint-slice.ts';

const at = (uid: string, ready?: boolean) => ({
  targetRef: { uid },
  conditions: ready === undefined ? {} : { ready },
});

describe('which Services route to a pod', () => {
  it('are those whose slices show it as ready, or do not say', () => {
    const slices = [
      anEndpointSlice('ready', [at('other', false), at('pod', true)]),
      anEndpointSlice('unsaid', [at('pod')]),
      anEndpointSlice('unready', [at('pod', false)]),
      anEndpointSlice('others', [at('other', true)]),
      anEndpointSlice('empty', null),
      anEndpointSlice('none', undefined),
    ];
    expect(servicesShowing('pod', slices)).toEqual(['ready', 'unsaid']);
  });

  it('knows the pods that a slice names, be they ready or not', () => {
    expect(podsOfSlice(anEndpointSlice('web', [at('a', true), at('b', false), {}]))).toEqual(['a', 'b']);
    expect(podsOfSlice(anEndpointSlice('web', null))).toEqual([]);
  });

  it('leaves out those that publish unready addresses, and those that do not exist', () => {
    expect(respectsReadiness(aService({}))).toBe(true);
    expect(respectsReadiness(aService({ publishNotReadyAddresses: false }))).toBe(true);
    expect(respectsReadiness(aService({ publishNotReadyAddresses: true }))).toBe(false);
    expect(respectsReadiness(undefined)).toBe(false);
  });
});

describe('the activity that waits until a pod is drained', () => {
  const pod = { namespace: 'shop', name: 'web-0', uid: 'pod' };

  /** An API server with other slices at each list. */
  function cluster(lists: readonly (readonly EndpointSlice[])[], services: Readonly<Record<string, Service['spec']>>) {
    const left = [...lists];
    const asked: string[] = [];
    const kube = {
      async list<T extends KubeObject>() {
        return { items: (left.length > 1 ? left.shift() : left[0]) as readonly unknown[] as readonly T[] };
      },
      async get<T extends KubeObject>(resource: Resource, { name }: { readonly name: string }) {
        expect(resource).toBe(kubeResource.services);
        asked.push(name);
        const spec = services[name];
        if (spec === undefined) throw new KubeError({ status: 404, reason: 'NotFound', message: 'not found' });
        return aService(spec) as KubeObject as T;
      },
      async create(): Promise<never> {
        throw new Error('nothing is to be written');
      },
    };
    type Kube = Parameters<typeof drainActivities>[0]['kube'];
    return { asked, drain: drainActivities({ kube: kube as unknown as Kube, now: () => new Date() }) };
  }

  it('looks again until no Service shows the pod as ready', async () => {
    const { drain, asked } = cluster(
      [[anEndpointSlice('web', [at('pod', true)])], [anEndpointSlice('web', [at('pod', false)])]],
      {
        web: {},
      },
    );
    expect(await drain.awaitDrained(pod)).toBe(true);
    expect(asked).toEqual(['web']);
  });

  it('does not wait for Services that do not respect readiness, are gone, or are not named', async () => {
    const ready = [at('pod', true)];
    const slices = [
      anEndpointSlice('open', ready),
      anEndpointSlice('open', ready),
      anEndpointSlice('gone', ready),
      anEndpointSlice('', ready),
    ];
    const { drain, asked } = cluster([slices], { open: { publishNotReadyAddresses: true } });
    expect(await drain.awaitDrained(pod)).toBe(true);
    expect(asked).toEqual(['open', 'gone']);
  });

  it('fails with the type of what the API server says', async () => {
    const failing = drainActivities({
      kube: {
        list: async () => {
          throw new KubeError({ status: 403, message: 'forbidden' });
        },
      } as unknown as Parameters<typeof drainActivities>[0]['kube'],
      now: () => new Date(),
    });
    await expect(failing.awaitDrained(pod)).rejects.toMatchObject({ type: 'Denied' });
  });
});
