import { describe, expect, it } from '@jest/globals';
import { crrAnnotation } from '../../api/core/well-known.ts';
import { type KindName, kinds } from '../../api/kinds.ts';
import { definitionName } from '../../api/schema/kind.ts';
import { conversions, conversionsOfKinds } from '../../webhook/conversions.ts';
import { conversionRoute } from '../../webhook/convert.ts';
import { type Answer, MalformedBody } from '../../webhook/server/server.ts';
import { recreateRequestDraft } from '../support/objects/recreate-request.ts';

const alpha = 'apps.kruise.io/v1alpha1';
const beta = 'apps.kruise.io/v1beta1';
const signal = new AbortController().signal;

function request(name: string, apiVersion: string, more: object = {}): object {
  return { ...recreateRequestDraft({ metadata: { name, uid: `uid-${name}` } }), apiVersion, ...more };
}

function review(objects: readonly unknown[], desiredAPIVersion = beta, apiVersion = 'apiextensions.k8s.io/v1'): object {
  return { apiVersion, kind: 'ConversionReview', request: { uid: 'r-1', desiredAPIVersion, objects } };
}

interface Converted {
  readonly apiVersion: string;
  readonly kind: string;
  readonly response: {
    readonly uid: string;
    readonly convertedObjects: readonly {
      readonly apiVersion: string;
      readonly metadata: object;
      readonly status?: object;
    }[];
    readonly result: { readonly status: string; readonly message?: string };
  };
}

async function convert(body: object, onWarning?: (warning: string) => void): Promise<Answer & { body: Converted }> {
  return (await conversionRoute(conversions, onWarning)(body, signal)) as Answer & { body: Converted };
}

describe('/convert', () => {
  it('FG-6: converts each object of a review, in order, and echoes its UID and version', async () => {
    const objects = Array.from({ length: 200 }, (_, index) => request(`r${index}`, alpha));
    for (const version of ['apiextensions.k8s.io/v1', 'apiextensions.k8s.io/v1beta1']) {
      const { body, outcome } = await convert(review(objects, beta, version));
      expect(outcome).toBe('converted');
      expect(body).toMatchObject({ apiVersion: version, kind: 'ConversionReview', response: { uid: 'r-1' } });
      expect(body.response.result).toEqual({ status: 'Success' });
      expect(body.response.convertedObjects).toEqual(
        Array.from({ length: 200 }, (_, index) => request(`r${index}`, beta)),
      );
    }
  });

  it('moves what one version has as annotations and the other as fields, both ways', async () => {
    const annotations = { [crrAnnotation.unreadyAcquired]: '2026-11-21T06:13:44Z', mine: 'stays' };
    const metadata = { name: 'a', namespace: 'shop', uid: 'u', annotations };
    const old = request('a', alpha, { metadata, status: { phase: 'Recreating' } });
    const there = await convert(review([old], beta));
    expect(there.body.response.convertedObjects[0]).toMatchObject({
      metadata: { annotations: { mine: 'stays' } },
      status: { conditions: [{ type: 'PreRecreateGrace', lastTransitionTime: '2026-11-21T06:13:44Z' }] },
    });
    const back = await convert(review([...there.body.response.convertedObjects], alpha));
    expect(back.body.response.convertedObjects).toEqual([old]);
  });

  it('converts lists of several kinds', async () => {
    const spec = { selector: {}, template: {}, updateStrategy: { type: 'InPlaceOnly' } };
    const set = { apiVersion: alpha, kind: 'CloneSet', metadata: { name: 'web' }, spec };
    const { body } = await convert(review([request('a', alpha), set]));
    expect(body.response.convertedObjects).toMatchObject([
      { apiVersion: beta, kind: 'ContainerRecreateRequest' },
      {
        apiVersion: beta,
        kind: 'CloneSet',
        spec: { updateStrategy: { rollingUpdate: { podUpdatePolicy: 'InPlaceOnly' } } },
      },
    ]);
  });

  it('leaves an object alone that has the desired version already', async () => {
    const object = request('a', beta, { extra: { deep: [1, null] } });
    expect((await convert(review([object]))).body.response.convertedObjects).toEqual([object]);
  });

  it('converts an object of any shape, so that one odd object never hides a whole list', async () => {
    const odd = [
      request('a', alpha, { spec: 7 }),
      request('b', alpha, { metadata: null }),
      request('c', alpha, { metadata: { annotations: [] }, status: 'gone' }),
      { apiVersion: alpha, kind: 'ContainerRecreateRequest' },
    ];
    expect((await convert(review(odd))).body.response.result.status).toBe('Success');
  });

  it('says of each object that cannot be converted which it is and why, and converts none', async () => {
    const objects = [
      request('fine', alpha),
      request('broken', 'apps.kruise.io/v2'),
      'no object',
      { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'd' } },
      request('fine-too', alpha),
    ];
    const { status, outcome, body } = await convert(review(objects));
    expect([status, outcome]).toEqual([200, 'refused']);
    expect(body.response.convertedObjects).toEqual([]);
    expect(body.response.result).toEqual({
      status: 'Failure',
      message:
        `Cannot convert to "${beta}": object 1 "shop/broken": "apps.kruise.io/v2" cannot be converted to "${beta}"; ` +
        'object 2: it is not an object; object 3 "d": kind "Deployment" of "apps/v1" is not converted by this webhook',
    });
  });

  it('names the first ten of many', async () => {
    const objects = Array.from({ length: 50 }, () => 'no object');
    const { result } = (await convert(review(objects))).body.response;
    expect(result.message).toContain('object 9: ');
    expect(result.message).not.toContain('object 10: ');
    expect(result.message).toMatch(/; and 40 more$/);
  });

  it('logs what an object could not take along', async () => {
    const metadata = { name: 'a', annotations: { [crrAnnotation.unreadyAcquired]: 'yesterday' } };
    const warnings: string[] = [];
    await convert(review([request('a', alpha, { metadata })]), (warning) => void warnings.push(warning));
    expect(warnings).toEqual([`object 0 "a": annotation ${crrAnnotation.unreadyAcquired} is invalid and is dropped`]);
  });

  it('refuses what is no ConversionReview', async () => {
    const bodies = [
      null,
      [],
      {},
      { apiVersion: 'apiextensions.k8s.io/v2', kind: 'ConversionReview', request: {} },
      { apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview' },
      { apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview', request: { uid: 1 } },
      { apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview', request: { uid: 'a', objects: [] } },
      {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'ConversionReview',
        request: { uid: 'a', desiredAPIVersion: beta },
      },
    ];
    for (const body of bodies) {
      expect(() => conversionRoute(conversions)(body, signal)).toThrow(MalformedBody);
    }
  });

  it('knows the names of the CRDs that are to be told', () => {
    expect(conversions.map(({ resource }) => definitionName(resource))).toEqual([
      'containerrecreaterequests.apps.kruise.io',
      'clonesets.apps.kruise.io',
      'imagelistpulljobs.apps.kruise.io',
      'imagepulljobs.apps.kruise.io',
      'nodeimages.apps.kruise.io',
      'sidecarsets.apps.kruise.io',
      'statefulsets.apps.kruise.io',
      'daemonsets.apps.kruise.io',
    ]);
  });

  it.each(Object.entries(kinds))('converts %s if and only if it has more than one version', (name, { versions }) => {
    expect(conversionsOfKinds[name as KindName] !== 'none').toBe(versions.length > 1);
  });
});
